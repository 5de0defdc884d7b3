// The rules, and what they replace by.
#pragma once

#include <sinter/passes/simplify_structure.hpp>

#include <sinter/base/index.hpp>
#include <sinter/ops/registry.hpp>

#include <algorithm>
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
  rules.add(structure_rules);
  rules.add(reduction_rules<ops::Sum>)
      .add(reduction_rules<ops::Prod>)
      .add(reduction_rules<ops::Amax>)
      .add(reduction_rules<ops::Amin>);
}

}  // namespace rewrite
SINTER_NAMESPACE_END
