// Shape rules and derivatives of transforms, which are linear: the adjoint of one is another one.
#pragma once

#include <sinter/ops/fft.hpp>

#include <sinter/ops/batch.hpp>

SINTER_NAMESPACE_BEGIN
namespace ops_detail {

inline void require_transformable(const InferArgs& args) {
  const Type& type = args.in[0];
  if (type.dtype != DType::f32 && type.dtype != DType::f64)
    throw DTypeError(args.op, "the operand is " + type.text() + ", it must be f32 or f64", args.where,
                     "cast it: cast(x, DType::f32)");
}
inline void require_pairs_of_parts(const InferArgs& args) {
  require_transformable(args);
  const Shape& shape = args.in[0].shape;
  if (shape.rank() < 2 || !(shape[-1] == Dim(2)))
    throw ShapeError(args.op, "the operand is " + shape.text() + ", a last axis of real and imaginary part is required",
                     args.where, "stack them: stack({re, im}, -1)");
}
inline void require_transform_length(const InferArgs& args, Dim length) {
  if (!is_shorter(length, 1)) return;
  throw ShapeError(args.op, "the operand is " + args.in[0].shape.text() + ": a transform of no numbers is asked for",
                   args.where, "give each transformed axis at least one element");
}
inline Attrs adjoint_transform(const Attrs& attrs) {
  Attrs out = attrs;
  out.set(fourier_sign, attrs[fourier_sign] == FourierSign::minus ? FourierSign::plus : FourierSign::minus);
  return out;
}

}  // namespace ops_detail

namespace ops {

SINTER_DECL Type Fourier::infer(const InferArgs& args) {
  ops_detail::require_pairs_of_parts(args);
  const Shape& shape = args.in[0].shape;
  for (const std::int64_t axis : args.attrs.axes)
    ops_detail::require_transform_length(args, shape[ops_detail::checked_axis(args, axis, shape.rank() - 1)]);
  return args.in[0];
}
SINTER_DECL ValList Fourier::vjp(const VjpArgs& a) {
  return {apply(op_info<Fourier>, {a.dout}, ops_detail::adjoint_transform(a.attrs))};
}
SINTER_DECL Batched Fourier::batch(const BatchArgs& args) { return ops_detail::batch_along_axes(args); }

SINTER_DECL Type FourierOfReal::infer(const InferArgs& args) {
  ops_detail::require_transformable(args);
  Shape shape = args.in[0].shape;
  if (shape.rank() < 1) throw ShapeError(args.op, "the operand is (), rows are required", args.where);
  if (shape.rank() == max_rank)
    throw ShapeError(
        args.op,
        "the operand is " + shape.text() + ", at most " + std::to_string(max_rank - 1) + " axes have room for pairs",
        args.where, "join axes: reshape(x, shape)");
  ops_detail::require_transform_length(args, shape[-1]);
  shape.set(shape.rank() - 1, shape[-1] / Dim(2) + Dim(1));
  shape.push_back(2);
  return ops_detail::with_shape(args, shape);
}
SINTER_DECL ValList FourierOfReal::vjp(const VjpArgs& a) {
  Attrs attrs = ops_detail::adjoint_transform(a.attrs);
  attrs.set(FourierToReal::length, a.in[0].shape()[-1]);
  return {apply(op_info<FourierToReal>, {a.dout}, std::move(attrs))};
}
SINTER_DECL Batched FourierOfReal::batch(const BatchArgs& args) { return apply(args.op, args.in, args.attrs); }

SINTER_DECL Type FourierToReal::infer(const InferArgs& args) {
  ops_detail::require_pairs_of_parts(args);
  const Dim wanted = args.attrs[length];
  Shape shape = args.in[0].shape;
  ops_detail::require_transform_length(args, wanted);
  if (const Dim numbers = wanted / Dim(2) + Dim(1); !(shape[-2] == numbers))
    throw ShapeError(args.op, "the operand is " + shape.text() + ", the length is " + wanted.text(), args.where,
                     "a half spectrum of " + numbers.text() + " numbers is required");
  Shape result(shape.dims().first(as_index(shape.rank() - 2)));
  result.push_back(wanted);
  return ops_detail::with_shape(args, result);
}
SINTER_DECL ValList FourierToReal::vjp(const VjpArgs& a) {
  Attrs attrs;
  attrs.set(ops_detail::fourier_sign, ops_detail::adjoint_transform(a.attrs)[ops_detail::fourier_sign]);
  attrs.set(ops_detail::fourier_scale, a.attrs[ops_detail::fourier_scale]);
  attrs.set(ops_detail::is_half_doubled, a.attrs[ops_detail::is_half_doubled]);
  return {apply(op_info<FourierOfReal>, {a.dout}, std::move(attrs))};
}
SINTER_DECL Batched FourierToReal::batch(const BatchArgs& args) { return apply(args.op, args.in, args.attrs); }

}  // namespace ops
SINTER_NAMESPACE_END
