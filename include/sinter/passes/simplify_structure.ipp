// The rules, and what they replace by.
#pragma once

#include <sinter/passes/simplify_structure.hpp>

#include <sinter/base/index.hpp>
#include <sinter/ops/registry.hpp>
#include <sinter/ops/take.hpp>
#include <sinter/ops/val_ops.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <utility>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace rewrite {
namespace detail {

constexpr bool is_static_one(Dim dim) { return dim.is_static() && dim.value() == 1; }

// Views

/// The outer view alone says what the two make together.
inline Value outer_view(Match& m) {
  const OpInfo& op = *m.node().op;
  return m.add(op, {m[x]}, m.node().attrs);
}

inline Value joined_permutation(Match& m) {
  const IntVector &outer = m.node().attrs.axes, &inner = m.operand(0).attrs.axes;
  Attrs attrs;
  for (std::int64_t axis : outer) {
    if (axis < 0 || as_index(axis) >= inner.size()) return {};
    attrs.axes.push_back(inner[as_index(axis)]);
  }
  return m.add(op_info<ops::Permute>, {m[x]}, std::move(attrs));
}

/// Element i of the outer slice is element start2 + i * step2 of the inner one.
inline Value joined_slice(Match& m) {
  using ops::Slice;
  const Attrs outer = m.node().attrs, inner = m.operand(0).attrs;
  const Shape &first = inner[Slice::starts], &second = outer[Slice::starts];
  Shape starts, ends;
  IntVector steps;
  for (int axis = 0; axis < second.rank(); ++axis) {
    const auto a = as_index(axis);
    const Dim extent = m.type().shape[axis];
    if (extent.is_static() && extent.value() == 0) return {};  // its end would lie before its start
    const std::int64_t step = inner[Slice::steps][a];
    const Dim end = first[axis] + (outer[Slice::ends][axis] - 1) * Dim(step) + 1;  // just past the last element taken
    const Dim whole = m.type(m[x]).shape[axis];
    if (end.is_static() && whole.is_static() && end.value() > whole.value())
      return {};  // no value of the symbols fits: no rewrite
    starts.push_back(first[axis] + second[axis] * Dim(step));
    ends.push_back(end);
    steps.push_back(step * outer[Slice::steps][a]);
  }
  return m.add(op_info<Slice>, {m[x]},
               Attrs{}.with(Slice::starts, starts).with(Slice::ends, ends).with(Slice::steps, steps));
}
inline bool has_single_steps(const Attrs& attrs) {
  const IntVector& steps = attrs[ops::Slice::steps];
  return std::all_of(steps.begin(), steps.end(), [](std::int64_t step) { return step == 1; });
}
/// Extents of symbolic slices with steps are floor divisions, which do not always come out in the same form.
inline bool has_plain_extents(const Match& m) {
  return m.type().shape.is_static() || (has_single_steps(m.node().attrs) && has_single_steps(m.operand(0).attrs));
}

// Reductions

/// What reducing nothing leaves. A sum starts from 0, which turns -0 into 0.
inline Value reduced_nothing(Match& m, Value value) {
  if (m.node().op != &op_info<ops::Sum> || !is_floating(m.type().dtype)) return value;
  return m.add(op_info<ops::Add>, {value, m.add(op_info<ops::Full>, {}, full_attrs({m.type().dtype, 0, 0}, Shape()))});
}

/// Axes of extent 1 need no reduction.
inline Value without_unit_axes(Match& m) {
  const OpInfo& op = *m.node().op;
  const Attrs attrs = m.node().attrs;
  const Shape from = m.type(m[x]).shape;
  std::uint32_t unit = 0;
  Attrs rest;
  rest.keepdim = attrs.keepdim;
  for (std::int64_t axis : attrs.axes) {
    if (is_static_one(from[static_cast<int>(axis)])) unit |= 1u << axis;
    else rest.axes.push_back(axis);
  }
  if (unit == 0 && !attrs.axes.empty()) return {};
  Attrs reshaped;
  if (rest.axes.empty()) {
    reshaped.shape = m.type().shape;
    return reduced_nothing(m, m.add(op_info<ops::Reshape>, {m[x]}, std::move(reshaped)));
  }
  if (attrs.keepdim) return m.add(op, {m[x]}, std::move(rest));
  for (int axis = 0; axis < from.rank(); ++axis)
    if ((unit >> axis & 1) == 0) reshaped.shape.push_back(from[axis]);
  for (std::int64_t& axis : rest.axes) axis -= std::popcount(unit & ((1u << axis) - 1));
  return m.add(op, {m.add(op_info<ops::Reshape>, {m[x]}, std::move(reshaped))}, std::move(rest));
}

/// Reducing twice is reducing over both sets of axes.
inline Value merged_reduction(Match& m) {
  const OpInfo& op = *m.node().op;
  const Attrs outer = m.node().attrs, inner = m.operand(0).attrs;
  if (outer.keepdim != inner.keepdim || outer.axes.empty() || inner.axes.empty()) return {};
  std::uint32_t reduced = 0;
  for (std::int64_t axis : inner.axes) reduced |= 1u << axis;
  std::vector<std::int64_t> left;  // the outer axes count among these
  for (int axis = 0; axis < m.type(m[x]).shape.rank(); ++axis)
    if (outer.keepdim || (reduced >> axis & 1) == 0) left.push_back(axis);
  for (std::int64_t axis : outer.axes) reduced |= 1u << left[as_index(axis)];
  Attrs merged;
  merged.keepdim = outer.keepdim;
  for (std::int64_t axis = 0; axis < max_rank; ++axis)
    if (reduced >> axis & 1) merged.axes.push_back(axis);
  return m.add(op, {m[x]}, std::move(merged));
}

template <class Op>
inline constexpr Rule reduction_rules[] = {
    {"reduce-unit-axes", call<Op>(x), without_unit_axes},
    {"reduce-twice", call<Op>(call<Op>(x)), merged_reduction},
};

// Casts

/// Every value of `from` is a value of `to`.
constexpr bool is_exact_cast(DType from, DType to) {
  if (from == to || from == DType::bool_) return true;
  if (from == DType::u64) return false;  // not even f64 has all of them
  if (is_floating(from))
    return is_floating(to) && row(to).epsilon() <= row(from).epsilon() && row(to).largest() >= row(from).largest();
  if (is_integer(to))
    return tensor_detail::lowest(to) <= tensor_detail::lowest(from) &&
           tensor_detail::greatest(to) >= tensor_detail::greatest(from);
  return is_floating(to) && static_cast<double>(tensor_detail::greatest(from)) * row(to).epsilon() < 1 &&
         static_cast<double>(tensor_detail::greatest(from)) <= row(to).largest();
}
/// Integers that do not fit wrap as integers, and saturate by way of a float: then both casts stay.
inline bool has_exact_inner_cast(const Match& m) {
  const DType from = m.type(m[x]).dtype, by = m.operand(0).types[0].dtype, to = m.type().dtype;
  if (is_integer(from) && is_floating(by) && is_integer(to) && !is_exact_cast(from, to)) return false;
  // Back ends that multiply f16 and bf16 read the inner cast where the widened operand is a product's.
  if (is_half(by) && from != by && to == computed_in(by)) return false;
  return is_exact_cast(from, by);
}

inline bool is_whole_update(const Match& m) { return identical(m.type(m[y]), m.type()); }

inline std::int64_t estimated_elements(const Graph& graph, Value value) {
  std::int64_t count = 1;
  for (Dim extent : graph.type(value).shape) count *= graph.estimate(extent);
  return count;
}
/// What is widened in front of a gather would be stored for it: the gather reads it narrow, and its result is widened.
/// That is no gain where the gather reads each element more than twice.
inline Value cast_after_take(Rewriter& rewriter, Value value) {
  const GraphBuilder& builder = rewriter.builder();
  if (builder.node(value).op != &op_info<ops::Take>) return {};
  std::vector<Value> views;
  Value source = builder.node(value).inputs[0];
  const auto moves_all = [&](const OpInfo* op) { return op == &op_info<ops::Permute> || op == &op_info<ops::Reshape>; };
  for (; moves_all(builder.node(source).op); source = builder.node(source).inputs[0]) views.push_back(source);
  const Node cast = builder.node(source), take = builder.node(value);
  if (cast.op != &op_info<ops::Cast>) return {};
  const DType from = builder.type(cast.inputs[0]).dtype, to = cast.types[0].dtype;
  if (is_complex(from) || is_complex(to) || size_of(from) >= size_of(to)) return {};
  if (estimated_elements(builder.graph(), value) > 2 * estimated_elements(builder.graph(), source)) return {};
  Value narrow = cast.inputs[0];
  for (std::size_t i = views.size(); i-- > 0;) {
    const Node view = builder.node(views[i]);
    narrow = rewriter.add(*view.op, std::array{narrow}, view.attrs, view.where);
  }
  const Value taken = rewriter.add(*take.op, std::array{narrow, take.inputs[1]}, take.attrs, take.where);
  return rewriter.add(*cast.op, std::array{taken}, cast.attrs, cast.where);
}

/// A gather along one axis whose indices are a list and none of which is out of range.
inline bool is_plain_take(const Node& node, const Type& index) {
  using ops::Take;
  return node.op == &op_info<Take> && node.attrs[Take::in_range] && node.attrs[Take::shared] == 0 &&
         node.attrs[Take::inner] == 0 && index.shape.rank() == 1 && index.dtype == DType::i64;
}
/// Gathers along two axes side by side are one along the axis that both are together.
inline Value joined_takes(Rewriter& rewriter, Value value) {
  GraphBuilder& builder = rewriter.builder();
  if (builder.node(value).op != &op_info<ops::Take>) return {};
  const Node outer = builder.node(value), inner = builder.node(outer.inputs[0]);
  if (!is_plain_take(outer, builder.type(outer.inputs[1])) || inner.op != outer.op ||
      !is_plain_take(inner, builder.type(inner.inputs[1])))
    return {};
  const auto outer_axis = static_cast<int>(outer.attrs.axes[0]), inner_axis = static_cast<int>(inner.attrs.axes[0]);
  if (outer_axis - inner_axis != 1 && inner_axis - outer_axis != 1) return {};
  const int first = std::min(outer_axis, inner_axis);
  const Val x{&builder, inner.inputs[0], outer.where},
      rows{&builder, outer_axis == first ? outer.inputs[1] : inner.inputs[1], outer.where},
      columns{&builder, outer_axis == first ? inner.inputs[1] : outer.inputs[1], outer.where};
  const Dim width = x.shape()[first + 1];
  if (!width.is_static()) return {};
  Shape joined;
  for (int i = 0; i < x.rank(); ++i) {
    if (i == first) joined.push_back(x.shape()[i] * width);
    else if (i != first + 1) joined.push_back(x.shape()[i]);
  }
  const Val row = reshape(rows, {rows.shape()[0], Dim(1)}), places = row * integer_number(row, width.value()) + columns;
  Attrs attrs;
  attrs.axes.push_back(first);
  attrs.set(ops::Take::in_range, true);
  return rewriter.add(*outer.op, std::array{reshape(x, joined).value, places.value}, std::move(attrs), outer.where);
}

inline constexpr GeneralRule gather_rules[] = {{"cast-after-take", cast_after_take}, {"take-take", joined_takes}};

inline constexpr Rule structure_rules[] = {
    {"cast-cast", call<ops::Cast>(call<ops::Cast>(x)), outer_view, has_exact_inner_cast},
    {"reshape-reshape", call<ops::Reshape>(call<ops::Reshape>(x)), outer_view},
    {"expand-expand", call<ops::Expand>(call<ops::Expand>(x)), outer_view},
    {"permute-permute", call<ops::Permute>(call<ops::Permute>(x)), joined_permutation},
    {"slice-slice", call<ops::Slice>(call<ops::Slice>(x)), joined_slice, has_plain_extents},
    {"update-everything", call<ops::UpdateSlice>(x, y), y, is_whole_update},
};

}  // namespace detail

SINTER_DECL void add_structure_rules(RuleSet& rules) {
  using namespace detail;
  rules.add(structure_rules).add(gather_rules);
  rules.add(reduction_rules<ops::Sum>)
      .add(reduction_rules<ops::Prod>)
      .add(reduction_rules<ops::Amax>)
      .add(reduction_rules<ops::Amin>);
}

}  // namespace rewrite
SINTER_NAMESPACE_END
