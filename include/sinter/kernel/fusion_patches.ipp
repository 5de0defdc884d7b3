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
  struct Readers {
    bool all_walk = true;  // element by element, in kernels without products or reductions
    std::int64_t reads = 0;
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
    return readers.all_walk && readers.reads > 0 && parts_[i] <= max_parts &&
           readers.reads * parts_[i] <= max_patch_reads &&
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
          ++input.reads;
          break;
        case NodeKind::reshape:
          input.all_walk &=
              differ_in_ones(pair_type(node(i).types[0]).shape, pair_type(node(as_index(v.node)).types[0]).shape);
          [[fallthrough]];
        case NodeKind::permute:
        case NodeKind::expand:
        case NodeKind::slice: add(input, own); break;
        case NodeKind::windows:
          add(input, own);
          input.all_walk &= windows_ == Windows::guarded;
          break;
        case NodeKind::place:
          if (is_patch_[i]) add(input, own);
          else input.all_walk = false;
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
  static void add(Readers& input, const Readers& own) {
    input.all_walk &= own.all_walk;
    input.reads += own.reads;
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
