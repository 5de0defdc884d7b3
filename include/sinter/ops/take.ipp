// Shape rules and derivatives of take and scatter_add, decomposition of one_hot.
#pragma once

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
  if (args.attrs.axes.empty()) throw IndexError(args.op, "an axis is required", args.where);
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

}  // namespace ops
SINTER_NAMESPACE_END
