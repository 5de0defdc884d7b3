// How the elements of fusion nodes depend on each other: views, broadcasts, reductions, windows, in both directions;
// and the strides that views have in memory.
#pragma once

#include <sinter/base/index.hpp>
#include <sinter/kernel/fusion_node.hpp>
#include <sinter/ops/join.hpp>
#include <sinter/ops/take.hpp>
#include <sinter/ops/view.hpp>

#include <algorithm>

SINTER_NAMESPACE_BEGIN

namespace kernel_detail {
/// Strides of a reshaped value, if it has any.
inline bool reshape_strides(const Layout& from, const Shape& shape, const Shape& wanted, Layout& out) {
  out.strides.resize(as_index(wanted.rank()));
  for (const ShapeSegment& s : align_shapes(shape, wanted)) {
    Dim step = 0, next_stride = 0;
    bool has_axis = false;
    for (int i = s.a_end - 1; i >= s.a_begin; --i) {
      if (is_number(shape[i], 1)) continue;
      const Dim stride = from.strides[as_index(i)];
      if (!has_axis) {
        step = stride;
        has_axis = true;
      } else if (!identical(stride, next_stride)) return false;
      next_stride = stride * shape[i];
    }
    for (int j = s.b_end - 1; j >= s.b_begin; --j) {
      out.strides[as_index(j)] = step;
      if (j > s.b_begin) step *= wanted[j];
    }
  }
  return true;
}

/// Strides of complex numbers, which were counted in these, as strides of their parts.
inline void pair_strides(const Type& type, Layout& layout) {
  if (!is_complex(type.dtype)) return;
  for (Dim& stride : layout.strides) stride *= Dim(2);
  layout.strides.push_back(1);
}
inline bool is_even(Dim dim) { return identical(dim, dim / Dim(2) * Dim(2)); }
SINTER_DECL bool holds_pairs(const Layout& layout) {
  return !layout.strides.empty() && identical(layout.strides.back(), Dim(1)) && is_even(layout.offset) &&
         std::all_of(layout.strides.begin(), layout.strides.end() - 1, is_even);
}

inline bool is_reduced_axis(const Attrs& attrs, int axis) {
  return std::find(attrs.axes.begin(), attrs.axes.end(), std::int64_t{axis}) != attrs.axes.end();
}

/// Does a broadcast from `from` to `to` stretch this axis of `to`?
inline bool is_stretched(const Shape& from, const Shape& to, int to_axis) {
  const int axis = to_axis - (to.rank() - from.rank());
  return axis < 0 || (is_number(from[axis], 1) && !is_number(to[to_axis], 1));
}
}  // namespace kernel_detail

SINTER_DECL int FusionGraph::base_of(int node) const {
  while (is_view((*this)[node].kind)) node = (*this)[node].inputs[0];
  return node;
}

SINTER_DECL const Layout* FusionGraph::layout_of(int id) const {
  const auto at = as_index(id);
  if (layout_state_[at] != 0) return layout_state_[at] == 1 ? &layouts_[at] : nullptr;
  const FusionNode& node = (*this)[id];
  Layout out;
  bool is_expressible = true;
  if (!is_view(node.kind)) {
    out.owner = id;
    const Node* from = graph_node(id);
    if (node.kind == NodeKind::input && !options_.input_strides.empty() &&
        !options_.input_strides[as_index(from->attrs[input_position])].empty()) {
      for (Dim stride : options_.input_strides[as_index(from->attrs[input_position])]) out.strides.push_back(stride);
      kernel_detail::pair_strides(from->types[0], out);
    } else if (node.kind == NodeKind::constant) {
      for (int a = 0; a < from->types[0].shape.rank(); ++a)
        out.strides.push_back(Dim(from->attrs.constant->strides[as_index(a)]));
      kernel_detail::pair_strides(from->types[0], out);
    } else {
      out.strides = dense_dim_strides(node.shape);
    }
  } else if (const Layout* base = layout_of(node.inputs[0])) {
    const Attrs& attrs = graph_node(id)->attrs;
    const Shape& from = (*this)[node.inputs[0]].shape;
    out.owner = base->owner;
    out.offset = base->offset;
    const auto stride = [&](std::int64_t axis) { return base->strides[as_index(axis)]; };
    switch (node.kind) {
      case NodeKind::reshape: is_expressible = kernel_detail::reshape_strides(*base, from, node.shape, out); break;
      case NodeKind::permute:
        for (std::int64_t axis : attrs.axes) out.strides.push_back(stride(axis));
        break;
      case NodeKind::expand:
        for (int j = 0; j < node.shape.rank(); ++j)
          out.strides.push_back(kernel_detail::is_stretched(from, node.shape, j)
                                    ? Dim(0)
                                    : stride(j - (node.shape.rank() - from.rank())));
        break;
      case NodeKind::slice:
        for (int i = 0; i < from.rank(); ++i) {
          out.offset += attrs[ops::Slice::starts][i] * stride(i);
          out.strides.push_back(stride(i) * Dim(attrs[ops::Slice::steps][as_index(i)]));
        }
        break;
      default:  // windows
        out.strides = base->strides;
        for (std::size_t w = 0; w < attrs.axes.size(); ++w) {
          const auto axis = as_index(attrs.axes[w]);
          out.strides.push_back(base->strides[axis]);
          out.strides[axis] *= Dim(attrs[ops::Windows::strides][w]);
        }
        break;
    }
  } else {
    is_expressible = false;
  }
  layout_state_[at] = is_expressible ? 1 : 2;
  layouts_[at] = std::move(out);
  return is_expressible ? &layouts_[at] : nullptr;
}

SINTER_DECL std::optional<IndexMap> FusionGraph::input_of_view(Space& space, int id, const IndexMap& map) const {
  const FusionNode& node = (*this)[id];
  const Attrs& attrs = graph_node(id)->attrs;
  const Shape& from = (*this)[node.inputs[0]].shape;
  if (node.kind == NodeKind::reshape) return reshape_map(space, node.shape, map, from);
  IndexMap out;
  out.rank = from.rank();
  switch (node.kind) {
    case NodeKind::permute:
      for (int j = 0; j < map.rank; ++j) out[static_cast<int>(attrs.axes[as_index(j)])] = map[j];
      break;
    case NodeKind::expand:
      for (int j = 0; j < map.rank; ++j)
        if (!kernel_detail::is_stretched(from, node.shape, j)) out[j - (map.rank - from.rank())] = map[j];
      break;
    case NodeKind::slice:
      for (int i = 0; i < from.rank(); ++i) {
        out[i].offset = attrs[ops::Slice::starts][i];
        add_scaled(out[i], map[i], Dim(attrs[ops::Slice::steps][as_index(i)]));
      }
      break;
    default:  // windows
      for (int i = 0; i < from.rank(); ++i) out[i] = map[i];
      for (std::size_t w = 0; w < attrs.axes.size(); ++w) {
        const int axis = static_cast<int>(attrs.axes[w]);
        AxisIndex index;
        add_scaled(index, map[axis], Dim(attrs[ops::Windows::strides][w]));
        add_scaled(index, map[from.rank() + static_cast<int>(w)], Dim(1));
        out[axis] = index;
      }
      break;
  }
  return out;
}

SINTER_DECL std::optional<IndexMap> FusionGraph::view_of_input(Space& space, int id, const IndexMap& map) const {
  const FusionNode& node = (*this)[id];
  const Attrs& attrs = graph_node(id)->attrs;
  const Shape& from = (*this)[node.inputs[0]].shape;
  if (node.kind == NodeKind::reshape) return reshape_map(space, from, map, node.shape);
  IndexMap out;
  out.rank = node.shape.rank();
  if (node.kind == NodeKind::permute) {
    for (int j = 0; j < out.rank; ++j) out[j] = map[static_cast<int>(attrs.axes[as_index(j)])];
    return out;
  }
  if (node.kind == NodeKind::expand) {
    for (int j = 0; j < out.rank; ++j)
      out[j] =
          kernel_detail::is_stretched(from, node.shape, j) ? AxisIndex::unknown() : map[j - (out.rank - from.rank())];
    return out;
  }
  return std::nullopt;  // a part of the elements, or some of them several times
}

namespace kernel_detail {
/// How a take's index, or a scatter's, addresses a table: along `axis`, which its `own` axes stand for in what is
/// taken. Its first and last axes are axes of the table before and after that one.
struct TakenAxes {
  int axis = 0, shared = 0, inner = 0, own = 0;
  /// The axis of what is taken that axis `i` of the index is; and that axis `i` of the table is.
  int of_index(int i) const { return i < shared ? i : axis + i - shared; }
  int of_table(int i) const { return i < axis ? i : i - 1 + own; }
};
inline TakenAxes taken_axes(const FusionGraph& nodes, int id) {
  const Node& graph_node = *nodes.graph_node(id);
  TakenAxes taken;
  taken.axis = static_cast<int>(graph_node.attrs.axes[0]);
  const bool is_take = graph_node.op == &op_info<ops::Take>;
  if (is_take || graph_node.op == &op_info<ops::Scatter>) {
    taken.shared =
        static_cast<int>(is_take ? graph_node.attrs[ops::Take::shared] : graph_node.attrs[ops::Scatter::shared]);
    taken.inner =
        static_cast<int>(is_take ? graph_node.attrs[ops::Take::inner] : graph_node.attrs[ops::Scatter::inner]);
  }
  const int index = nodes[id].inputs[is_take ? 1 : 0];
  taken.own = nodes[index].shape.rank() - taken.shared - taken.inner;
  return taken;
}
}  // namespace kernel_detail

SINTER_DECL IndexMap FusionGraph::operand_map(int id, int number, const IndexMap& map) const {
  const FusionNode& node = (*this)[id];
  const Shape& from = (*this)[node.inputs[as_index(number)]].shape;
  IndexMap out;
  out.rank = from.rank();
  switch (node.kind) {
    case NodeKind::map:
      for (int j = 0; j < map.rank; ++j) {
        const int axis = j - (map.rank - from.rank());
        if (!kernel_detail::is_stretched(from, node.shape, j)) out[axis] = map[j];
      }
      break;
    case NodeKind::take:
      for (int i = 0; i < from.rank(); ++i) out[i] = map[kernel_detail::taken_axes(*this, id).of_index(i)];
      break;
    case NodeKind::scatter:
      if (number != 0) return map;
      for (int i = 0; i < from.rank(); ++i) out[i] = map[kernel_detail::taken_axes(*this, id).of_index(i)];
      break;
    case NodeKind::random: break;  // scalars
    case NodeKind::patch:
      out = map;
      for (int i = 0; number == 0 && i < map.rank; ++i)
        out[i].offset -= graph_node(id)->attrs[ops::UpdateSlice::starts][i];
      break;
    default: return map;  // copy, scan, reduce (its operand's map), place and scatter (their value's)
  }
  return out;
}

SINTER_DECL std::optional<IndexMap> FusionGraph::result_map(int id, int number, const IndexMap& operand) const {
  const FusionNode& node = (*this)[id];
  if (node.kind == NodeKind::copy || node.kind == NodeKind::reduce || node.kind == NodeKind::scan ||
      node.kind == NodeKind::place)
    return operand;
  if (node.kind == NodeKind::scatter && number == 1) return operand;
  const Shape& from = (*this)[node.inputs[as_index(number)]].shape;
  const Shape& walked = node.kind == NodeKind::scatter ? (*this)[node.inputs[1]].shape : node.shape;
  IndexMap out;
  out.rank = walked.rank();
  for (int j = 0; j < out.rank; ++j) out[j] = is_number(walked[j], 1) ? AxisIndex{} : AxisIndex::unknown();
  if (node.kind == NodeKind::map) {
    for (int j = 0; j < out.rank; ++j)
      if (!kernel_detail::is_stretched(from, node.shape, j)) out[j] = operand[j - (out.rank - from.rank())];
    return out;
  }
  if ((node.kind == NodeKind::take && number == 1) || node.kind == NodeKind::scatter) {
    for (int i = 0; i < from.rank(); ++i) out[kernel_detail::taken_axes(*this, id).of_index(i)] = operand[i];
    return out;
  }
  return std::nullopt;
}

SINTER_DECL IndexMap FusionGraph::reduced_map(int id, const IndexMap& operand) const {
  const Attrs& attrs = graph_node(id)->attrs;
  IndexMap out;
  for (int i = 0; i < operand.rank; ++i) {
    if (!kernel_detail::is_reduced_axis(attrs, i)) out.push_back(operand[i]);
    else if (attrs.keepdim) out.push_back(AxisIndex{});
  }
  return out;
}

SINTER_DECL std::optional<MemoryIndex> FusionGraph::locate(Space& space, int id, IndexMap map) const {
  for (;;) {
    if (const Layout* layout = layout_of(id)) {
      MemoryIndex index{layout->owner, {}};
      index.flat.offset = layout->offset;
      for (int i = 0; i < map.rank; ++i) add_scaled(index.flat, map[i], layout->strides[as_index(i)]);
      return index;
    }
    auto next = input_of_view(space, id, map);
    if (!next) return std::nullopt;
    map = *next;
    id = (*this)[id].inputs[0];
  }
}

SINTER_NAMESPACE_END
