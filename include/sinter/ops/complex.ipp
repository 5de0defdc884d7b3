// Types, derivatives and batching of the ops between pairs and complex values. A derivative is d/d(re) + i d/d(im),
// which is what PyTorch gives: the gradient of the pair, as a complex number.
#pragma once

#include <sinter/ops/batch.hpp>
#include <sinter/ops/complex.hpp>

SINTER_NAMESPACE_BEGIN
namespace ops_detail {
inline void require_complex(const InferArgs& args) {
  if (is_complex(args.in[0].dtype)) return;
  throw DTypeError(args.op, "the operand is " + args.in[0].text() + ", c64 or c128 is required", args.where,
                   "make it complex first: z = x.to(DType::c64)");
}
inline Type part_type(const InferArgs& args) {
  require_complex(args);
  return with_shape(args, args.in[0].shape, real_part_of(args.in[0].dtype));
}
inline void require_parts(const InferArgs& args) {
  for (const Type& in : args.in)
    if (in.dtype != DType::f32 && in.dtype != DType::f64)
      throw DTypeError(args.op, "parts of complex numbers are f32 or f64: " + operands_text(args), args.where,
                       "cast them: x.to(DType::f32)");
}
/// A complex value has one axis less than memory allows: its pairs are one.
inline void require_room_for_pairs(const InferArgs& args, const Shape& shape) {
  if (shape.rank() < max_rank) return;
  throw ShapeError(args.op, "a complex tensor of shape " + shape.text(), args.where,
                   "the rank of complex tensors is limited to " + std::to_string(max_rank - 1));
}
}  // namespace ops_detail

namespace ops {

SINTER_DECL Type Complex::infer(const InferArgs& args) {
  ops_detail::require_parts(args);
  ops_detail::require_same_dtype(args);
  if (!(args.in[0].shape == args.in[1].shape))
    throw ShapeError(args.op, "the parts have different shapes: " + ops_detail::operands_text(args), args.where);
  ops_detail::require_room_for_pairs(args, args.in[0].shape);
  return ops_detail::with_shape(args, args.in[0].shape, complex_of(args.in[0].dtype));
}
SINTER_DECL ValList Complex::vjp(const VjpArgs& a) { return {real(a.dout), imag(a.dout)}; }
SINTER_DECL Batched Complex::batch(const BatchArgs& a) {
  return complex(ops_detail::with_batch(a, 0), ops_detail::with_batch(a, 1));
}

SINTER_DECL Type Real::infer(const InferArgs& args) { return ops_detail::part_type(args); }
SINTER_DECL ValList Real::vjp(const VjpArgs& a) { return {complex(a.dout, full_like(a.dout, 0))}; }
SINTER_DECL Batched Real::batch(const BatchArgs& a) { return real(a.in[0]); }

SINTER_DECL Type Imag::infer(const InferArgs& args) { return ops_detail::part_type(args); }
SINTER_DECL ValList Imag::vjp(const VjpArgs& a) { return {complex(full_like(a.dout, 0), a.dout)}; }
SINTER_DECL Batched Imag::batch(const BatchArgs& a) { return imag(a.in[0]); }

SINTER_DECL Type ViewAsReal::infer(const InferArgs& args) {
  Type type = ops_detail::part_type(args);
  ops_detail::require_room_for_pairs(args, type.shape);
  type.shape.push_back(2);
  return type;
}
SINTER_DECL ValList ViewAsReal::vjp(const VjpArgs& a) { return {view_as_complex(a.dout)}; }
SINTER_DECL Batched ViewAsReal::batch(const BatchArgs& a) { return view_as_real(a.in[0]); }

SINTER_DECL Type ViewAsComplex::infer(const InferArgs& args) {
  ops_detail::require_parts(args);
  Shape shape = args.in[0].shape;
  if (shape.rank() == 0 || !(shape[-1] == Dim(2)))
    throw ShapeError(args.op, "the operand is " + args.in[0].text() + ", its last axis must have extent 2", args.where,
                     "it holds the real and the imaginary part; complex(re, im) takes them apart from each other");
  shape.erase(shape.rank() - 1);
  return ops_detail::with_shape(args, shape, complex_of(args.in[0].dtype));
}
SINTER_DECL ValList ViewAsComplex::vjp(const VjpArgs& a) { return {view_as_real(a.dout)}; }
SINTER_DECL Batched ViewAsComplex::batch(const BatchArgs& a) { return view_as_complex(a.in[0]); }

}  // namespace ops

SINTER_DECL Val complex(Val re, Val im) { return apply(op_info<ops::Complex>, {re, im}); }
SINTER_DECL Val real(Val z) { return is_complex(z.dtype()) ? apply(op_info<ops::Real>, {z}) : z; }
SINTER_DECL Val imag(Val z) { return is_complex(z.dtype()) ? apply(op_info<ops::Imag>, {z}) : full_like(z, 0); }
SINTER_DECL Val view_as_real(Val z) { return apply(op_info<ops::ViewAsReal>, {z}); }
SINTER_DECL Val view_as_complex(Val pairs) { return apply(op_info<ops::ViewAsComplex>, {pairs}); }

SINTER_NAMESPACE_END
