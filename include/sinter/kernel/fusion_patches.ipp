// Which update_slices are never stored: patches, which whoever reads them reads through guards. That pays where all
// readers walk them element by element in kernels of their own, and read few parts: a stored one costs a kernel, a
// write and a read; one that is not stored costs a condition and a guarded load for each part at each reading.
#pragma once

#include <sinter/kernel/fusion_node.hpp>

#include <sinter/base/index.hpp>
#include <sinter/ops/complex.hpp>
#include <sinter/ops/custom_derivative.hpp>
#include <sinter/ops/join.hpp>
#include <sinter/ops/view.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace kernel_detail {
struct KindRow {
  std::string_view name;
  NodeKind kind;
};
/// Views and structured ops: what the kernel layer knows by its own rules.
inline constexpr KindRow kind_rows[] = {
    {"input", NodeKind::input},         {"constant", NodeKind::constant},  {"full", NodeKind::full},
    {"iota", NodeKind::iota},           {"empty", NodeKind::empty},        {"reshape", NodeKind::reshape},
    {"permute", NodeKind::permute},     {"expand", NodeKind::expand},      {"slice", NodeKind::slice},
    {"windows", NodeKind::windows},     {"take", NodeKind::take},          {"random_bits", NodeKind::random},
    {"matmul", NodeKind::contract},     {"update_slice", NodeKind::place}, {"scatter", NodeKind::scatter},
    {"scatter_add", NodeKind::scatter}, {"cumsum", NodeKind::scan},        {"cumprod", NodeKind::scan},
    {"cummax", NodeKind::scan},         {"cummin", NodeKind::scan},
};

inline NodeKind kind_of(const Node& graph_node) {
  if (graph_node.op == &op_info<ops::ViewAsReal> || graph_node.op == &op_info<ops::ViewAsComplex>)
    return NodeKind::reshape;  // of the same pairs
  if (graph_node.op->run_on_host != nullptr || graph_node.op->kind == OpKind::composite) return NodeKind::host;
  if (graph_node.op->kind == OpKind::elementwise) return NodeKind::map;
  if (graph_node.op->kind == OpKind::reduction) return NodeKind::reduce;
  for (const KindRow& row : kind_rows)
    if (row.name == graph_node.op->name) return row.kind;
  throw InternalError("kernels: no rule for the op '" + std::string(graph_node.op->name) + "'", graph_node.where);
}

inline constexpr int max_patch_reads = 48;  // guarded loads that one patch may cause, in all kernels together
inline constexpr int max_parts = 12;  // of a patch: an operation with three operands stays within the limits of all

/// Do the shapes differ in extents of 1 only?
inline bool differ_in_ones(const Shape& a, const Shape& b) {
  int i = 0, j = 0;
  for (;;) {
    while (i < a.rank() && is_number(a[i], 1)) ++i;
    while (j < b.rank() && is_number(b[j], 1)) ++j;
    if (i == a.rank() || j == b.rank()) return i == a.rank() && j == b.rank();
    if (!identical(a[i++], b[j++])) return false;
  }
}

class PatchChooser {
 public:
  /// Are windows of a patch read through guards? On x86 their elements lie apart under masks: windows of 3, stride 2,
  /// took up to 3 times as long as a padded copy and plain loads.
  enum class Windows : std::uint8_t { stored, guarded };

  PatchChooser(const Graph& graph, const std::vector<bool>& live, Windows windows)
      : graph_(graph), live_(live), windows_(windows) {}

  /// For each node of the graph: is it a patch?
  std::vector<bool> run() {
    const std::size_t count = graph_.nodes().size();
    is_patch_.assign(count, false);
    readers_.resize(count);
    parts_.resize(count);
    windowed_.resize(count);
    is_product_.resize(count);
    for (std::size_t i = 0; i < count; ++i) look_back(i);
    if (!has_place_) return is_patch_;
    for (Value v : graph_.outputs()) readers_[as_index(v.node)].all_walk = false;
    for (std::size_t i = count; i-- > 0;)
      if (live_[i]) look_ahead(i);
    return is_patch_;
  }

 private:
  /// From which element to which, along each axis, as far as extents are known or estimated.
  struct Box {
    std::array<std::int64_t, max_rank> begin{}, end{};
  };
  struct Readers {
    bool all_walk = true;    // element by element, in kernels without products or reductions
    std::vector<Box> reads;  // what each sees
  };

  const Node& node(std::size_t i) const { return graph_.nodes()[i]; }
  std::int64_t elements(std::size_t i) const {
    std::int64_t count = 1;
    for (Dim extent : node(i).types[0].shape) count *= graph_.estimate(extent);
    return count;
  }

  /// How many parts a value has, and whether a product is in it that its kernel might take in.
  void look_back(std::size_t i) {
    if (!live_[i]) return;
    const NodeKind kind = kind_of(node(i));
    has_place_ |= kind == NodeKind::place;
    is_product_[i] = kind == NodeKind::contract;
    if (kind == NodeKind::windows) windowed_[i] = elements(as_index(node(i).inputs[0].node));
    else if (is_view(kind)) windowed_[i] = windowed_[as_index(node(i).inputs[0].node)];
    if (kind != NodeKind::place && kind != NodeKind::map && !is_view(kind)) return;
    int parts = kind == NodeKind::place;
    for (Value v : node(i).inputs) {
      if (kind != NodeKind::place && is_product_[as_index(v.node)]) is_product_[i] = true;
      parts += parts_[as_index(v.node)];
    }
    parts_[i] = kind == NodeKind::map ? 0 : std::min(parts, max_patch_reads + 1);
  }

  bool is_worth_it(std::size_t i) const {
    const Readers& readers = readers_[i];
    const IntVector& steps = node(i).attrs[ops::UpdateSlice::steps];
    if (!readers.all_walk || readers.reads.empty()) return false;
    int most = 0, all = 0;
    for (const Box& box : readers.reads) {
      int budget = most_visits;
      const int seen = parts_seen(i, box, budget);
      most = std::max(most, seen);
      all = std::min(all + seen, max_patch_reads + 1);
    }
    return most <= max_parts && all <= max_patch_reads &&
           std::all_of(steps.begin(), steps.end(), [](std::int64_t step) { return step == 1; });
  }

  void look_ahead(std::size_t i) {
    const NodeKind kind = kind_of(node(i));
    if (kind == NodeKind::place) is_patch_[i] = is_worth_it(i);
    for (Value v : node(i).inputs) {
      Readers& input = readers_[as_index(v.node)];
      const Readers& own = readers_[i];
      switch (kind) {
        case NodeKind::map:
          // One that is stretched is read more often than it has elements.
          input.all_walk &= node(i).op != &op_info<ops::Barrier> && !is_product_[i] &&
                            elements(i) <= 2 * elements(as_index(v.node)) && sees_few(i, as_index(v.node));
          add(input, whole_of(as_index(v.node)));
          break;
        case NodeKind::reshape:
          input.all_walk &=
              differ_in_ones(pair_type(node(i).types[0]).shape, pair_type(node(as_index(v.node)).types[0]).shape);
          [[fallthrough]];
        case NodeKind::permute:
        case NodeKind::expand:
        case NodeKind::slice:
          input.all_walk &= own.all_walk;
          for (const Box& box : own.reads) add(input, seen_through(i, box));
          break;
        case NodeKind::windows:
          input.all_walk &= own.all_walk;
          for (const Box& box : own.reads) add(input, seen_through(i, box));
          input.all_walk &= windows_ == Windows::guarded;
          break;
        case NodeKind::place:
          input.all_walk &= own.all_walk && is_patch_[i];
          for (const Box& box : own.reads)
            if (is_patch_[i]) add_read_of_patch(input, i, box, v == node(i).inputs[1]);
          break;
        default: input.all_walk = false; break;
      }
    }
  }
  /// Of windows at most as many elements as the image has: one place of each, or windows that do not overlap. All
  /// places of windows that do would compare sums of two positions for each of them.
  bool sees_few(std::size_t reader, std::size_t input) const {
    return windowed_[input] == 0 || elements(reader) <= windowed_[input];
  }
  static void add(Readers& input, const Box& box) {
    if (input.reads.size() <= as_index(max_patch_reads)) input.reads.push_back(box);
    else input.all_walk = false;  // more than are looked at
  }

  Box whole_of(std::size_t i) const {
    Box box;
    const Shape& shape = node(i).types[0].shape;
    for (int a = 0; a < shape.rank(); ++a) box.end[as_index(a)] = graph_.estimate(shape[a]);
    return box;
  }
  /// What a view's reader sees of what the view is of: a part of it where that is a slice of neighbours.
  Box seen_through(std::size_t view, Box box) const {
    const Node& it = node(view);
    const auto is_one = [](std::int64_t step) { return step == 1; };
    if (kind_of(it) != NodeKind::slice ||
        !std::all_of(it.attrs[ops::Slice::steps].begin(), it.attrs[ops::Slice::steps].end(), is_one))
      return whole_of(as_index(it.inputs[0].node));
    const Shape& starts = it.attrs[ops::Slice::starts];
    for (int a = 0; a < starts.rank(); ++a) {
      box.begin[as_index(a)] += graph_.estimate(starts[a]);
      box.end[as_index(a)] += graph_.estimate(starts[a]);
    }
    return box;
  }
  /// The place of a patch's part in it.
  Box part_of(std::size_t patch) const {
    Box box = whole_of(as_index(node(patch).inputs[1].node));
    const Shape& starts = node(patch).attrs[ops::UpdateSlice::starts];
    for (int a = 0; a < starts.rank(); ++a) {
      box.begin[as_index(a)] += graph_.estimate(starts[a]);
      box.end[as_index(a)] += graph_.estimate(starts[a]);
    }
    return box;
  }
  enum class Meets : std::uint8_t { nowhere, partly, everywhere };
  /// Whether what is seen lies in the patch's part; then `inside` is what is seen of that.
  Meets meet(std::size_t patch, const Box& seen, Box& inside) const {
    const Box part = part_of(patch);
    Meets meets = Meets::everywhere;
    for (int a = 0; a < node(patch).types[0].shape.rank(); ++a) {
      const auto i = as_index(a);
      inside.begin[i] = std::max(seen.begin[i], part.begin[i]);
      inside.end[i] = std::min(seen.end[i], part.end[i]);
      if (inside.begin[i] >= inside.end[i]) return Meets::nowhere;
      if (inside.begin[i] != seen.begin[i] || inside.end[i] != seen.end[i]) meets = Meets::partly;
      inside.begin[i] -= part.begin[i];
      inside.end[i] -= part.begin[i];
    }
    return meets;
  }
  void add_read_of_patch(Readers& input, std::size_t patch, const Box& seen, bool is_of_part) const {
    Box inside;
    const Meets meets = meet(patch, seen, inside);
    if (is_of_part && meets != Meets::nowhere) add(input, inside);
    if (!is_of_part && meets != Meets::everywhere) add(input, seen);
  }
  static constexpr int most_visits = 512;  // of nodes: parts may be parts of the same value again and again
  /// Guarded loads at one reading of this much: a part that is all that is seen needs none.
  int parts_seen(std::size_t i, const Box& box, int& budget) const {
    const NodeKind kind = kind_of(node(i));
    if (--budget < 0) return max_patch_reads + 1;
    if (!is_view(kind) && kind != NodeKind::place) return 0;
    if (is_view(kind)) {
      const auto input = as_index(node(i).inputs[0].node);
      return parts_[input] == 0 ? 0 : parts_seen(input, seen_through(i, box), budget);
    }
    Box inside;
    const Meets meets = meet(i, box, inside);
    int parts = meets == Meets::partly;
    if (meets != Meets::nowhere) parts += parts_seen(as_index(node(i).inputs[1].node), inside, budget);
    if (meets != Meets::everywhere && parts <= max_patch_reads)
      parts += parts_seen(as_index(node(i).inputs[0].node), box, budget);
    return std::min(parts, max_patch_reads + 1);
  }
  const Graph& graph_;
  const std::vector<bool>& live_;
  const Windows windows_;
  std::vector<bool> is_patch_, is_product_;
  std::vector<Readers> readers_;
  std::vector<int> parts_;
  std::vector<std::int64_t> windowed_;  // of windows and views of them: how many elements the image has; 0: of others
  bool has_place_ = false;
};

}  // namespace kernel_detail
SINTER_NAMESPACE_END
