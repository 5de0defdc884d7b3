// Shape rules and derivatives of take and scatter_add, decomposition of one_hot.
#pragma once

#include <sinter/ops/batch.hpp>
#include <sinter/ops/take.hpp>

SINTER_NAMESPACE_BEGIN
namespace ops_detail {

/// `shape` with `axis` replaced by the axes of `index`.
inline Shape taken_shape(const InferArgs& args, const Shape& shape, const Shape& index, int axis) {
  Shape out;
  for (int i = 0; i < axis; ++i) out.push_back(shape[i], args.where);
  for (Dim dim : index.dims()) out.push_back(dim, args.where);
  for (int i = axis + 1; i < shape.rank(); ++i) out.push_back(shape[i], args.where);
  return out;
}

/// [batch, n, others...] as [batch * n, others...].
inline Val joined_rows(Val x) {
  const Shape shape = x.shape();
  Shape joined{shape[0] * shape[1]};
  for (int i = 2; i < shape.rank(); ++i) joined.push_back(shape[i]);
  return reshape(x, joined);
}

/// For index [batch, ...] into the rows of each example of x [batch, n, ...]: the same rows counted through the batch. What
/// is out of range for its example stays out of range.
inline Val index_of_joined_rows(Val index, Val x) {
  index = cast(index, DType::i64);
  Shape column{index.shape()[0]};
  for (int i = 1; i < index.rank(); ++i) column.push_back(1);
  const Val rows = element_count(x, {1}, DType::i64), all_rows = element_count(x, {0, 1}, DType::i64);
  const Val joined = index + iota(index, column, 0, DType::i64) * rows;
  return where(lt(index, 0), index, where(lt(index, rows), joined, index + all_rows));
}

}  // namespace ops_detail

namespace ops {

SINTER_DECL Type Take::infer(const InferArgs& args) {
  ops_detail::require_integer(args, 1);
  const int axis = ops_detail::first_axis(args);
  return ops_detail::with_shape(args, ops_detail::taken_shape(args, args.in[0].shape, args.in[1].shape, axis));
}
SINTER_DECL ValList Take::vjp(const VjpArgs& a) {
  return {scatter_add(a.in[1], a.dout, a.in[0].shape(), static_cast<int>(a.attrs.axes[0])), Val{}};
}

SINTER_DECL Type ScatterAdd::infer(const InferArgs& args) {
  ops_detail::require_integer(args, 0);
  if (args.attrs.axes.size() != 1) throw IndexError(args.op, "one axis is required, not " + std::to_string(args.attrs.axes.size()), args.where);
  const int axis = ops_detail::checked_axis(args, args.attrs.axes[0], args.attrs.shape.rank());
  const Shape expected = ops_detail::taken_shape(args, args.attrs.shape, args.in[0].shape, axis);
  if (!(expected == args.in[1].shape))
    throw ShapeError(args.op, "index is " + args.in[0].shape.text() + ", value is " + args.in[1].shape.text(), args.where,
                     "for a result of " + args.attrs.shape.text() + " the value must be " + expected.text());
  return ops_detail::with_shape(args, args.attrs.shape, args.in[1].dtype);
}
SINTER_DECL ValList ScatterAdd::vjp(const VjpArgs& a) {
  return {Val{}, take(a.dout, a.in[0], static_cast<int>(a.attrs.axes[0]))};
}

SINTER_DECL Type OneHot::infer(const InferArgs& args) {
  ops_detail::require_integer(args, 0);
  ensure(args.attrs.shape.rank() == 1, "one_hot: the number of classes is required");
  Shape out = args.in[0].shape;
  out.push_back(args.attrs.shape[0], args.where);
  return ops_detail::with_shape(args, out, args.attrs.dtype);
}
SINTER_DECL Val OneHot::decompose(const DecomposeArgs& args) {
  const Val index = args.in[0];
  Shape column = index.shape(), whole = index.shape();
  column.push_back(1);
  whole.push_back(args.attrs.shape[0]);
  return cast(eq(reshape(index, column), iota(index, whole, whole.rank() - 1, index.dtype())), args.attrs.dtype);
}

SINTER_DECL Batched Take::batch(const BatchArgs& a) {
  const int rank = a.in[0].rank() - (a.is_batched(0) ? 1 : 0), axis = normalise_axis(static_cast<int>(a.attrs.axes[0]), rank, "take", a.where);
  if (!a.is_batched(1)) return take(a.in[0], a.in[1], axis + 1);
  if (!a.is_batched(0)) return ops_detail::move_axis(take(a.in[0], a.in[1], axis), axis, 0);
  const Val x = ops_detail::move_axis(a.in[0], axis + 1, 1);
  const int index_rank = a.in[1].rank() - 1;
  const Val rows = take(ops_detail::joined_rows(x), ops_detail::index_of_joined_rows(a.in[1], x), 0);   // [batch, index..., others...]
  IntVector order{0};
  for (int i = 0; i < axis; ++i) order.push_back(1 + index_rank + i);
  for (int i = 0; i < index_rank; ++i) order.push_back(1 + i);
  for (int i = axis + 1; i < rank; ++i) order.push_back(index_rank + i);
  return permute(rows, order);
}

SINTER_DECL Batched ScatterAdd::batch(const BatchArgs& a) {
  const Shape& shape = a.attrs.shape;
  const int axis = normalise_axis(static_cast<int>(a.attrs.axes[0]), shape.rank(), "scatter_add", a.where);
  const Val value = ops_detail::with_batch(a, 1);
  if (!a.is_batched(0)) return scatter_add(a.in[0], value, ops_detail::batched_shape(a.size, shape), axis + 1);
  const int index_rank = a.in[0].rank() - 1;
  IntVector order{0};   // [batch, index..., others...]
  for (int i = 0; i < index_rank; ++i) order.push_back(1 + axis + i);
  for (int i = 0; i < axis; ++i) order.push_back(1 + i);
  for (int i = axis + 1; i < shape.rank(); ++i) order.push_back(index_rank + i);
  Shape target{a.size, shape[axis]}, joined{a.size * shape[axis]};
  for (int i = 0; i < shape.rank(); ++i)
    if (i != axis) target.push_back(shape[i], a.where), joined.push_back(shape[i]);
  const Val zeros = full(value, target, DType::bool_, 0);   // its shape is all that is asked of it
  const Val sums = scatter_add(ops_detail::index_of_joined_rows(a.in[0], zeros), permute(value, order), joined, 0);
  return ops_detail::move_axis(reshape(sums, target), 1, axis + 1);
}

SINTER_DECL Batched OneHot::batch(const BatchArgs& a) { return apply(a.op, a.in, a.attrs); }

}  // namespace ops
SINTER_NAMESPACE_END
