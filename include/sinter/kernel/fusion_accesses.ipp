// How many accesses the kernel of a group will have: each element that is read is followed to its place in memory, as
// lowering does, so that views which lead to the same place are one and the same view under two others is two.
#pragma once

#include <sinter/kernel/fusion.hpp>

#include <sinter/base/index.hpp>
#include <sinter/kernel/fusion_merge.ipp>
#include <sinter/kernel/fusion_node_views.ipp>
#include <sinter/kernel/patch_side.hpp>
#include <sinter/ops/take.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace kernel_detail {

class AccessCount {
 public:
  AccessCount(const FusionGraph& nodes, const FusionGroup& group) : nodes_(nodes), group_(group), space_(group.space) {}

  /// Places that are read, and symbolic numbers, of which there may be fewer: f32 and f64 have their own. Stops beyond
  /// `most`.
  std::size_t reads(std::size_t most) {
    most_ = most;
    for (const FusionMember& member : group_.members) read_operands(member.node, member.map());
    return count();
  }
  /// Of what was read: conditions of patches, and what is computed in the place of being stored.
  int guards() const { return guards_; }
  int inlined() const { return inlined_; }

 private:
  struct Place {
    std::int32_t owner;
    Dim gather_stride, gather_extent;
    AxisIndex flat;
  };

  std::size_t count() const { return places_.size() + 2 * numbers_.size() + unknown_; }

  void add(std::int32_t owner, const AxisIndex& flat, Dim gather_stride = 0, Dim gather_extent = 0) {
    for (const Place& have : places_)
      if (have.owner == owner && identical(have.gather_stride, gather_stride) &&
          identical(have.gather_extent, gather_extent) && equal_index(space_, have.flat, flat))
        return;
    places_.push_back({owner, gather_stride, gather_extent, flat});
  }
  void add_number(Dim number) {
    if (number.is_static()) return;
    for (const Dim have : numbers_)
      if (identical(have, number)) return;
    numbers_.push_back(number);
  }
  /// Of an index that is a value.
  void add_position(const AxisIndex& index) {
    const AxisIndex flat = expand_leaves(space_, index);
    add_number(flat.offset);
    for (const IndexTerm& term : flat.terms) add_number(term.factor);
  }

  void read(int node, IndexMap map) {
    if (count() > most_) return;
    const int base = nodes_.base_of(node);
    const FusionNode& it = nodes_[base];
    if (it.kind == NodeKind::empty || find_member(group_, base) != nullptr) return;
    if (!is_generator(it.kind) && !it.is_inlined) {
      const auto at = nodes_.locate(space_, node, map);
      if (at) add(at->owner, at->flat);
      else ++unknown_;
      return;
    }
    while (node != base) {
      const std::optional<IndexMap> next = nodes_.input_of_view(space_, node, map);
      if (!next) {
        ++unknown_;
        return;
      }
      map = *next;
      node = nodes_[node].inputs[0];
    }
    if (it.kind == NodeKind::iota) add_position(map[static_cast<int>(nodes_.graph_node(base)->attrs.axes[0])]);
    if (it.kind != NodeKind::patch) ++inlined_;
    if (!is_generator(it.kind)) read_operands(base, map);
  }

  void read_operands(int node, const IndexMap& map) {
    const FusionNode& it = nodes_[node];
    if (it.kind == NodeKind::contract) return read_factors(it, map);
    if (it.kind == NodeKind::random) {
      for (const std::int32_t input : it.inputs) read(input, {});
      const auto strides = dense_dim_strides(it.shape);
      for (const Dim stride : strides) add_number(stride);
      return;
    }
    if (it.kind == NodeKind::patch) return read_patch(node, map);
    if (it.kind == NodeKind::reduce) add_folded_position(node, map);
    if (it.kind == NodeKind::take) read_table(node, map);
    for (std::size_t k = it.kind == NodeKind::take ? 1 : 0; k < it.inputs.size(); ++k)
      read(it.inputs[k], nodes_.operand_map(node, static_cast<int>(k), map));
  }
  void read_patch(int node, const IndexMap& map) {
    const FusionNode& it = nodes_[node];
    const SeenOfPatch seen = seen_of_patch(space_, map, nodes_.graph_node(node)->attrs[ops::UpdateSlice::starts],
                                           nodes_[it.inputs[0]].shape);
    if (seen.part && seen.base) {
      ++guards_;
      add_bounds(node, map);
    }
    for (std::size_t k = 0; k < it.inputs.size(); ++k)
      if (k == 0 ? seen.part : seen.base) read(it.inputs[k], nodes_.operand_map(node, static_cast<int>(k), map));
  }
  void read_factors(const FusionNode& product, const IndexMap& map) {
    IndexMap left = map, right = map;
    left[map.rank - 1] = right[map.rank - 2] = AxisIndex::of(group_.contracted_axis);
    read(product.inputs[0], left);
    read(product.inputs[1], right);
  }
  void read_table(int node, const IndexMap& map) {
    const Layout* const table = nodes_.layout_of(nodes_[node].inputs[0]);
    if (table == nullptr) {
      ++unknown_;
      return;
    }
    const TakenAxes taken = taken_axes(nodes_, node);
    AxisIndex flat;
    flat.offset = table->offset;
    Dim gather_stride = 0, gather_extent = 0;
    const Shape& shape = nodes_[nodes_[node].inputs[0]].shape;
    for (int i = 0; i < shape.rank(); ++i) {
      const Dim stride = table->strides[as_index(i)];
      if (i == taken.axis) {
        gather_stride = stride;
        gather_extent = shape[i];
      } else {
        add_scaled(flat, map[taken.of_table(i)], stride);
      }
    }
    add(table->owner, flat, gather_stride, gather_extent);
  }
  /// Some reductions with state take in where an element is.
  void add_folded_position(int node, const IndexMap& map) {
    const Node* const graph_node = nodes_.graph_node(node);
    if (graph_node->op->fold == nullptr) return;
    const Shape& shape = nodes_[nodes_[node].inputs[0]].shape;
    AxisIndex flat;
    Dim stride = 1;
    for (int i = shape.rank(); i-- > 0;) {
      if (!is_reduced_axis(graph_node->attrs, i)) continue;
      add_scaled(flat, map[i], stride);
      stride *= shape[i];
    }
    add_position(flat);
  }
  void add_bounds(int node, const IndexMap& map) {
    const Shape& starts = nodes_.graph_node(node)->attrs[ops::UpdateSlice::starts];
    const Shape& part = nodes_[nodes_[node].inputs[0]].shape;
    for (int i = 0; i < map.rank; ++i) {
      add_bound(map[i], starts[i]);
      add_bound(map[i], starts[i] + part[i]);
    }
  }
  void add_bound(const AxisIndex& index, Dim bound) {
    const BoundedIndex bounded = bounded_index(index, bound);
    add_number(bounded.bound);
    add_position(bounded.walked);
  }

  const FusionGraph& nodes_;
  const FusionGroup& group_;
  Space space_;  // reading may split axes further
  std::vector<Place> places_;
  std::vector<Dim> numbers_;
  std::size_t unknown_ = 0, most_ = 0;
  int guards_ = 0, inlined_ = 0;
};

}  // namespace kernel_detail
SINTER_NAMESPACE_END
