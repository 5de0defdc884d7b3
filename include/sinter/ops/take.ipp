// Shape rules and derivatives of take and scatter_add, decomposition of one_hot.
#pragma once

#include <sinter/ops/batch.hpp>
#include <sinter/ops/take.hpp>

SINTER_NAMESPACE_BEGIN
namespace ops_detail {

/// `shape` with `axis` replaced by the axes of `index` after those that they share.
inline Shape taken_shape(const InferArgs& args, const Shape& shape, const Shape& index, int axis, int shared = 0) {
  Shape out;
  for (int i = 0; i < axis; ++i) out.push_back(shape[i], args.where);
  for (int i = shared; i < index.rank(); ++i) out.push_back(index[i], args.where);
  for (int i = axis + 1; i < shape.rank(); ++i) out.push_back(shape[i], args.where);
  return out;
}

/// For index [batch, ...] into the `rows` rows of each example: the same rows counted through the batch. What is out of
/// range for its example is an error, not a row of another one.
inline Val index_of_joined_rows(Val index, Dim rows) {
  const Shape shape = index.shape();
  const Val flat = reshape(index, {shape.numel()}),
            valid = cast(reshape(checked_index(flat, flat, rows), shape), DType::i64);
  Shape column{shape[0]};
  for (int i = 1; i < shape.rank(); ++i) column.push_back(1);
  const Val empty = full(index, {rows}, DType::bool_, 0);  // its shape is all that is asked of it
  return valid + iota(index, column, 0, DType::i64) * element_count(empty, {0}, DType::i64);
}

/// scatter_add of value [batch, others before the axis..., index..., others after it...] at index [batch, index...],
/// each example into zeros of `shape` along `axis`: [batch, shape...].
inline Val scatter_examples(Val index, Val value, const Shape& shape, int axis) {
  const int index_rank = index.rank() - 1;
  const Dim examples = index.shape()[0];
  IntVector order{0};  // [batch, index..., others...]
  for (int i = 0; i < index_rank; ++i) order.push_back(1 + axis + i);
  for (int i = 0; i < axis; ++i) order.push_back(1 + i);
  for (int i = axis + 1; i < shape.rank(); ++i) order.push_back(index_rank + i);
  Shape target{examples, shape[axis]}, joined{examples * shape[axis]};
  for (int i = 0; i < shape.rank(); ++i) {
    if (i == axis) continue;
    target.push_back(shape[i]);
    joined.push_back(shape[i]);
  }
  const Val sums = scatter_add(index_of_joined_rows(index, shape[axis]), permute(value, order), joined, 0);
  return move_axis(reshape(sums, target), 1, axis + 1);
}

/// The first `count` axes as one.
inline Val joined_first_axes(Val x, int count) {
  const Shape shape = x.shape();
  Dim first = 1;
  for (int i = 0; i < count; ++i) first *= shape[i];
  Shape joined{first};
  for (int i = count; i < shape.rank(); ++i) joined.push_back(shape[i]);
  return reshape(x, joined);
}

/// A gather whose steps along the checked axis have length 0: it reads `values` themselves.
SINTER_DECL Val checked_index(Val values, Val index, Dim extent) {
  const Dim count = values.shape().numel();
  const Val table = expand(reshape(values, {count, 1}), {count, extent});
  const Val checked =
      apply(op_info<ops::Take>, {table, reshape(index, {count})}, Attrs{.axes = {1}}.with(ops::Take::shared, 1));
  return reshape(checked, values.shape());
}

}  // namespace ops_detail

namespace ops {

SINTER_DECL Type Take::infer(const InferArgs& args) {
  ops_detail::require_integer(args, 1);
  const int axis = ops_detail::first_axis(args);
  const Shape &x = args.in[0].shape, &index = args.in[1].shape;
  const std::int64_t common = args.attrs[shared];
  bool fits = common >= 0 && common <= axis && common <= index.rank();
  for (int i = 0; fits && i < common; ++i) fits = x[i] == index[i];
  if (!fits)
    throw ShapeError(
        args.op, "x is " + x.text() + ", index is " + index.text(), args.where,
        "the first " + std::to_string(common) + " axes must be the same and stand before axis " + std::to_string(axis));
  return ops_detail::with_shape(args, ops_detail::taken_shape(args, x, index, axis, static_cast<int>(common)));
}
SINTER_DECL ValList Take::vjp(const VjpArgs& a) {
  const Shape shape = a.in[0].shape();
  const int common = static_cast<int>(a.attrs[shared]);
  const int axis = normalise_axis(static_cast<int>(a.attrs.axes[0]), shape.rank(), "take", a.where);
  if (common == 0) return {scatter_add(a.in[1], a.dout, shape, axis), Val{}};
  Shape example;
  for (int i = common; i < shape.rank(); ++i) example.push_back(shape[i]);
  const Val sums = ops_detail::scatter_examples(ops_detail::joined_first_axes(a.in[1], common),
                                                ops_detail::joined_first_axes(a.dout, common), example, axis - common);
  return {reshape(sums, shape), Val{}};
}

SINTER_DECL Type ScatterAdd::infer(const InferArgs& args) {
  ops_detail::require_integer(args, 0);
  if (args.attrs.axes.size() != 1)
    throw IndexError(args.op, "one axis is required, not " + std::to_string(args.attrs.axes.size()), args.where);
  const int axis = ops_detail::checked_axis(args, args.attrs.axes[0], args.attrs.shape.rank());
  const Shape expected = ops_detail::taken_shape(args, args.attrs.shape, args.in[0].shape, axis);
  if (!(expected == args.in[1].shape))
    throw ShapeError(args.op, "index is " + args.in[0].shape.text() + ", value is " + args.in[1].shape.text(),
                     args.where,
                     "for a result of " + args.attrs.shape.text() + " the value must be " + expected.text());
  return ops_detail::with_shape(args, args.attrs.shape, args.in[1].dtype);
}
SINTER_DECL ValList ScatterAdd::vjp(const VjpArgs& a) {
  return {Val{}, take(a.dout, a.in[0], static_cast<int>(a.attrs.axes[0]))};
}

SINTER_DECL Type OneHot::infer(const InferArgs& args) {
  ops_detail::require_integer(args, 0);
  ensure(args.attrs.has(classes), "one_hot: the number of classes is required");
  Shape out = args.in[0].shape;
  out.push_back(args.attrs[classes], args.where);
  return ops_detail::with_shape(args, out, args.attrs.dtype);
}
SINTER_DECL Val OneHot::decompose(const DecomposeArgs& args) {
  const Val index = ops_detail::checked_index(args.in[0], args.in[0], args.attrs[classes]);
  Shape column = index.shape(), whole = index.shape();
  column.push_back(1);
  whole.push_back(args.attrs[classes]);
  return cast(eq(reshape(index, column), iota(index, whole, whole.rank() - 1, index.dtype())), args.attrs.dtype);
}

SINTER_DECL Batched Take::batch(const BatchArgs& a) {
  const int rank = a.in[0].rank() - (a.is_batched(0) ? 1 : 0),
            axis = normalise_axis(static_cast<int>(a.attrs.axes[0]), rank, "take", a.where);
  if (a.attrs[shared] == 0) {
    if (!a.is_batched(1)) return take(a.in[0], a.in[1], axis + 1);
    if (!a.is_batched(0)) return ops_detail::move_axis(take(a.in[0], a.in[1], axis), axis, 0);
  }
  return apply(a.op, {ops_detail::with_batch(a, 0), ops_detail::with_batch(a, 1)},
               Attrs{.axes = {axis + 1}}.with(shared, a.attrs[shared] + 1));
}

SINTER_DECL Batched ScatterAdd::batch(const BatchArgs& a) {
  const Shape& shape = a.attrs.shape;
  const int axis = normalise_axis(static_cast<int>(a.attrs.axes[0]), shape.rank(), "scatter_add", a.where);
  const Val value = ops_detail::with_batch(a, 1);
  if (!a.is_batched(0)) return scatter_add(a.in[0], value, ops_detail::batched_shape(a.size, shape), axis + 1);
  return ops_detail::scatter_examples(a.in[0], value, shape, axis);
}

SINTER_DECL Batched OneHot::batch(const BatchArgs& a) { return apply(a.op, a.in, a.attrs); }

}  // namespace ops
SINTER_NAMESPACE_END
