// Shape rules of views, and the derivative of sliding windows.
#pragma once

#include <sinter/base/index.hpp>
#include <sinter/ops/batch.hpp>
#include <sinter/ops/convolution.hpp>
#include <sinter/ops/view.hpp>
#include <sinter/ops/window_taps.hpp>

SINTER_NAMESPACE_BEGIN
namespace graph_detail {
SINTER_DECL const OpInfo& reshape_op() { return op_info<ops::Reshape>; }
}  // namespace graph_detail

namespace ops {

SINTER_DECL Type Reshape::infer(const InferArgs& args) {
  const Shape& from = args.in[0].shape;
  const Shape& to = args.attrs.shape;
  if (!identical(from, to)) {
    const Dim have = from.numel(args.where), want = to.numel(args.where);
    if (!(have == want))
      throw ShapeError(args.op, from.text() + " has " + have.text() + " elements, " + to.text() + " has " + want.text(),
                       args.where);
  }
  return ops_detail::with_shape(args, to);
}

SINTER_DECL Type Permute::infer(const InferArgs& args) {
  const Shape& shape = args.in[0].shape;
  const IntVector& axes = args.attrs.axes;
  if (axes.size() != as_index(shape.rank()))
    throw ShapeError(args.op, std::to_string(axes.size()) + " axes named, but the operand is " + shape.text(),
                     args.where, "name each of its " + std::to_string(shape.rank()) + " axes once");
  Shape out;
  std::uint32_t seen = 0;
  for (std::int64_t axis : axes) {
    const int from = ops_detail::checked_axis(args, axis, shape.rank());
    if ((seen >> from & 1) != 0)
      throw IndexError(args.op, "axis " + std::to_string(axis) + " is named twice", args.where);
    seen |= 1u << from;
    out.push_back(shape[from]);
  }
  return ops_detail::with_shape(args, out);
}

SINTER_DECL ValList Permute::vjp(const VjpArgs& a) {
  IntVector inverse(a.attrs.axes.size());
  for (std::size_t i = 0; i < inverse.size(); ++i) {
    const std::int64_t axis = a.attrs.axes[i];
    inverse[as_index(axis < 0 ? axis + static_cast<std::int64_t>(inverse.size()) : axis)] =
        static_cast<std::int64_t>(i);
  }
  return {permute(a.dout, inverse)};
}

SINTER_DECL Type Expand::infer(const InferArgs& args) {
  const Shape& from = args.in[0].shape;
  const Shape& to = args.attrs.shape;
  const int added = to.rank() - from.rank();
  bool fits = added >= 0;
  for (int i = 0; fits && i < from.rank(); ++i)
    fits = ops_detail::is_one(from[i]) || from[i] == to[i + added] || stretches(from[i], to[i + added]);
  if (!fits)
    throw ShapeError(args.op, from.text() + " does not stretch to " + to.text(), args.where,
                     "aligned at the right, each extent must be 1 or equal the wanted one");
  return ops_detail::with_shape(args, to);
}

SINTER_DECL Type Slice::infer(const InferArgs& args) {
  const Shape& from = args.in[0].shape;
  const Attrs& attrs = args.attrs;
  const int rank = from.rank();
  ensure(attrs[starts].rank() == rank && attrs[ends].rank() == rank && attrs[steps].size() == as_index(rank),
         "slice: starts, ends and steps are required for each axis");
  Shape out;
  for (int i = 0; i < rank; ++i) {
    const Dim start = attrs[starts][i], end = attrs[ends][i];
    const std::int64_t step = attrs[steps][as_index(i)];
    if (step <= 0)
      throw IndexError(args.op, "step " + std::to_string(step) + " of axis " + std::to_string(i) + " is not positive",
                       args.where);
    const bool is_reversed = start.is_static() && end.is_static() && start.value() > end.value();
    const bool is_before = (start.is_static() && start.value() < 0) || (end.is_static() && end.value() < 0);
    if (is_reversed || is_before || (end.is_static() && from[i].is_static() && end.value() > from[i].value()))
      throw IndexError(
          args.op,
          start.text() + " to " + end.text() + " is out of range for axis " + std::to_string(i) + " of " + from.text(),
          args.where);
    out.push_back(step == 1 ? end - start : (end - start + Dim(step - 1)) / Dim(step));
  }
  return ops_detail::with_shape(args, out);
}

SINTER_DECL Type Windows::infer(const InferArgs& args) {
  const Shape& from = args.in[0].shape;
  const Attrs& attrs = args.attrs;
  ensure(attrs[sizes].size() == attrs.axes.size() && attrs[strides].size() == attrs.axes.size(),
         "windows: size and stride are required for each axis");
  Shape out = from;
  for (std::size_t i = 0; i < attrs.axes.size(); ++i) {
    const int axis = ops_detail::checked_axis(args, attrs.axes[i], from.rank());
    const std::int64_t size = attrs[sizes][i], stride = attrs[strides][i];
    if (size <= 0 || stride <= 0)
      throw ShapeError(args.op,
                       "size " + std::to_string(size) + " and stride " + std::to_string(stride) + " must be positive",
                       args.where);
    if (ops_detail::is_shorter(from[axis], size))
      throw ShapeError(
          args.op,
          "a window of " + std::to_string(size) + " does not fit axis " + std::to_string(axis) + " of " + from.text(),
          args.where);
    out.set(axis, (from[axis] - Dim(size)) / Dim(stride) + Dim(1));
    out.push_back(size, args.where);
  }
  return ops_detail::with_shape(args, out);
}

}  // namespace ops

namespace ops_detail {

/// The axes of rank `rank` with the last one moved to stand after `axis`.
inline IntVector last_after(int axis, int rank) {
  IntVector axes;
  for (int i = 0; i + 1 < rank; ++i) {
    axes.push_back(i);
    if (i == axis) axes.push_back(rank - 1);
  }
  return axes;
}

/// Windows that touch: positions and windows together are the axis again, up to a remainder that no window saw.
inline Val add_touching_windows(Val d, int axis, const Shape& target) {
  Shape joined = target;
  joined.set(axis, d.shape()[axis] * d.shape()[-1]);
  const Val tiles = reshape(permute(d, last_after(axis, d.rank())), joined);
  IntVector steps(as_index(target.rank()), 1);
  return place(tiles, target, zero_starts(target.rank()), steps);
}

/// Windows that overlap or leave gaps, without a pass over the target for each offset. Element h of the target gets the
/// sum over offsets j of d[(h - j) / stride, j]. The positions are spread by the stride after size - 1 zeros:
/// z[p, j] with p = size - 1 + position * stride. Then row h needs z[h + size - 1 - j, j]: in the flat order of
/// (p, j) that is (size - 1) * size + h * size - j * (size - 1), so with k = size - 1 - j the address is
/// size - 1 + h * size + k * (size - 1): windows of (size - 1)^2 + 1 elements, one every `size`, seen every size - 1.
inline Val add_overlapping_windows(Val d, int axis, std::int64_t stride, const Shape& target) {
  const std::int64_t size = d.shape()[-1].value();
  const Dim extent = target[axis];
  const Val grouped = permute(d, last_after(axis, d.rank()));
  Shape spread_shape = grouped.shape();
  spread_shape.set(axis, extent + Dim(size - 1));
  Shape starts = zero_starts(grouped.rank());
  starts.set(axis, size - 1);
  IntVector steps(as_index(grouped.rank()), 1);
  steps[as_index(axis)] = stride;
  const Val spread = place(grouped, spread_shape, starts, steps);

  Shape flat_shape = target;
  flat_shape.set(axis, spread_shape[axis] * Dim(size));
  const Dim first = size - 1, reach = (size - 1) * (size - 1) + 1;
  const Val flat = slice_axis(reshape(spread, flat_shape), axis, first, first + (extent - Dim(1)) * Dim(size) + reach);
  Val diagonals = windows(flat, {axis}, {reach.value()}, {size});
  if (size > 2) {
    Shape ends = diagonals.shape();
    IntVector every(as_index(ends.rank()), 1);
    every.back() = size - 1;
    diagonals = slice(diagonals, zero_starts(ends.rank()), ends, every);
  }
  return sum(diagonals, {diagonals.rank() - 1});
}

/// One axis after the other, the last one first.
SINTER_DECL Val sum_windows_along(Val x, const Shape& target, const IntVector& axes, const IntVector& sizes,
                                  const IntVector& strides) {
  for (std::size_t i = axes.size(); i-- > 0;) {
    const int axis = static_cast<int>(axes[i]);
    Shape partial = x.shape();
    partial.erase(partial.rank() - 1);
    partial.set(axis, target[axis]);
    x = sizes[i] == strides[i] ? add_touching_windows(x, axis, partial)
                               : add_overlapping_windows(x, axis, strides[i], partial);
  }
  return x;
}

}  // namespace ops_detail

namespace ops {

SINTER_DECL ValList Windows::vjp(const VjpArgs& a) {
  Attrs attrs{.axes = a.attrs.axes, .shape = a.in[0].shape()};
  attrs.set(SumWindows::sizes, a.attrs[sizes]);
  attrs.set(SumWindows::strides, a.attrs[strides]);
  return {apply(op_info<SumWindows>, {a.dout}, std::move(attrs))};
}

SINTER_DECL Batched Reshape::batch(const BatchArgs& a) {
  return reshape(a.in[0], ops_detail::batched_shape(a.size, a.attrs.shape));
}

SINTER_DECL Batched Permute::batch(const BatchArgs& a) {
  IntVector axes{0};
  for (std::int64_t axis : ops_detail::axes_past_batch(a.attrs.axes, a.in[0].rank())) axes.push_back(axis);
  return permute(a.in[0], axes);
}

SINTER_DECL Batched Expand::batch(const BatchArgs& a) {
  return expand(ops_detail::with_rank(a.in[0], a.attrs.shape.rank() + 1),
                ops_detail::batched_shape(a.size, a.attrs.shape));
}

SINTER_DECL Batched Slice::batch(const BatchArgs& a) {
  return slice(a.in[0], ops_detail::batched_shape(0, a.attrs[starts]), ops_detail::batched_shape(a.size, a.attrs[ends]),
               ops_detail::steps_past_batch(a.attrs[steps]));
}

SINTER_DECL Batched Windows::batch(const BatchArgs& a) {
  return windows(a.in[0], ops_detail::axes_past_batch(a.attrs.axes, a.in[0].rank()), a.attrs[sizes], a.attrs[strides]);
}

}  // namespace ops
SINTER_NAMESPACE_END
