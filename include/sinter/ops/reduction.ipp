// Shape rules and derivatives of reductions.
#pragma once

#include <sinter/ops/reduction.hpp>

#include <limits>

SINTER_NAMESPACE_BEGIN
namespace ops_detail {

inline Type infer_arithmetic_reduction(const InferArgs& args) {
  if (args.in[0].dtype == DType::bool_)
    throw DTypeError(args.op, "the operand is " + args.in[0].text() + ", a number is required", args.where,
                     "cast it first: cast(x, DType::i64)");
  return with_shape(args, reduced_shape(args, args.in[0].shape));
}

inline Type infer_extremum(const InferArgs& args) {
  require_nonempty(args, args.in[0].shape);
  return with_shape(args, reduced_shape(args, args.in[0].shape));
}

/// Each of the equal extreme elements gets its share. Where a NaN is the extreme, nothing equals it: all get 0 / 0.
inline ValList extremum_vjp(const VjpArgs& a) {
  const Shape shape = a.in[0].shape();
  const Val is_extreme = eq(a.in[0], unreduce(a.out, a.attrs.axes, shape));
  const Val ties =
      sum(cast(is_extreme, a.dout.dtype()), a.attrs.axes, a.attrs.keepdim ? ReducedAxes::kept : ReducedAxes::dropped);
  const Val others = where(eq(ties, 0), std::numeric_limits<double>::quiet_NaN(), full_like(ties, 0));
  return {where(is_extreme, unreduce(a.dout / ties, a.attrs.axes, shape), unreduce(others, a.attrs.axes, shape))};
}

}  // namespace ops_detail

namespace ops {

SINTER_DECL Type Sum::infer(const InferArgs& args) { return ops_detail::infer_arithmetic_reduction(args); }
SINTER_DECL Type Prod::infer(const InferArgs& args) { return ops_detail::infer_arithmetic_reduction(args); }
SINTER_DECL Type Amax::infer(const InferArgs& args) { return ops_detail::infer_extremum(args); }
SINTER_DECL Type Amin::infer(const InferArgs& args) { return ops_detail::infer_extremum(args); }

SINTER_DECL ValList Prod::vjp(const VjpArgs& a) {
  const Val x = a.in[0];
  const IntVector& axes = a.attrs.axes;
  const Val is_zero = eq(x, 0);
  const Val nonzero = where(is_zero, 1, x);
  const Val zeros = sum(cast(is_zero, x.dtype()), axes, kept);
  // The product of the other elements: without zeros product / x; with one zero it is nonzero there only. Where an
  // infinity or NaN is among the others, so that a zero times it stays NaN, it is said by a count, as it cannot be
  // divided out again.
  const Val is_endless = logical_not(lt(abs(x), std::numeric_limits<double>::infinity()));
  const Val endless = cast(is_endless, x.dtype()), among_others = ne(sum(endless, axes, kept) - endless, 0);
  const Val vanished = where(among_others, std::numeric_limits<double>::quiet_NaN(), full_like(x, 0)),
            whole = prod(nonzero, axes, kept);
  // With a zero among the others their product is 0, but its derivative by that zero is not: it is said by the zero.
  const Val zero = sum(where(is_zero, x, 0), axes, kept);
  const Val finite = where(lt(abs(whole), std::numeric_limits<double>::infinity()), whole, 0);
  const Val beside_zero = vanished + where(eq(zeros, 2), finite * (zero - x), 0);
  const Val beside_number =
      where(eq(zeros, 0), whole * (1 / nonzero), vanished + where(eq(zeros, 1), finite * (1 / nonzero) * zero, 0));
  const Val others = where(is_zero, where(eq(zeros, 1), whole, beside_zero), beside_number);
  return {unreduce(a.dout, axes, x.shape()) * others};
}

SINTER_DECL ValList Amax::vjp(const VjpArgs& a) { return ops_detail::extremum_vjp(a); }
SINTER_DECL ValList Amin::vjp(const VjpArgs& a) { return ops_detail::extremum_vjp(a); }

}  // namespace ops
SINTER_NAMESPACE_END
