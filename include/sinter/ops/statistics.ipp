// Shape rules and decompositions of statistics.
#pragma once

#include <sinter/ops/statistics.hpp>

#include <limits>

SINTER_NAMESPACE_BEGIN
namespace ops_detail {

inline ReducedAxes reduced_axes(const Attrs& attrs) { return attrs.keepdim ? ReducedAxes::kept : ReducedAxes::dropped; }

inline Type infer_position(const InferArgs& args) {
  require_nonempty(args, args.in[0].shape);
  return with_shape(args, reduced_shape(args, args.in[0].shape), DType::i64);
}

/// What sums of squares are divided by. Where the correction takes all, 0: the variance is NaN or infinite.
inline Val freedom(const Val& x, const IntVector& axes, double correction) {
  const Val left = element_count(x, axes, x.dtype()) - correction;
  Dim count = 1;
  for (const std::int64_t axis : axes) count *= x.shape()[static_cast<int>(axis)];
  const bool is_enough = correction <= 0 || (count.is_static() && static_cast<double>(count.value()) >= correction);
  return is_enough ? left : maximum(left, number(left, 0));
}

}  // namespace ops_detail

namespace ops {
using ops_detail::reduced_axes;

SINTER_DECL Type ElementCount::infer(const InferArgs& args) {
  ops_detail::reduced_shape(args, args.in[0].shape);  // checks the axes
  return Type{args.attrs.dtype, args.in[0].device, {}};
}
SINTER_DECL Type Extent::infer(const InferArgs& args) {
  ensure(args.attrs.has(extent), "extent needs one extent");
  return Type{DType::i64, args.in[0].device, {}};
}
/// A symbolic one is a position: that of the last of extent + 1 indices. Kernels read it as a number of the plan.
SINTER_DECL Val Extent::decompose(const DecomposeArgs& args) {
  const Dim of = args.attrs[extent];
  if (of.is_static()) return full(args.in[0], {}, DType::i64, static_cast<double>(of.value()));
  return reshape(slice_axis(iota(args.in[0], {of + 1}, 0, DType::i64), 0, of, of + 1), {});
}

SINTER_DECL Val ElementCount::decompose(const DecomposeArgs& args) {
  const Val x = args.in[0];
  const Shape shape = x.shape();
  Dim known = 1;
  Val count{};
  for (std::int64_t axis : args.attrs.axes) {
    const Dim extent = shape[static_cast<int>(axis)];
    if (extent.is_static()) {
      known *= extent;
      continue;
    }
    const Val symbolic = Extent::decompose({{&x, 1}, Attrs{}.with(Extent::extent, extent), args.where});
    count = count ? count * symbolic : symbolic;
  }
  if (!count) return full(x, {}, args.attrs.dtype, static_cast<double>(known.value()));
  return cast(known.value() == 1 ? count : count * static_cast<double>(known.value()), args.attrs.dtype);
}

SINTER_DECL Type Mean::infer(const InferArgs& args) {
  ops_detail::require_floating(args);
  return ops_detail::with_shape(args, ops_detail::reduced_shape(args, args.in[0].shape));
}
SINTER_DECL Val Mean::decompose(const DecomposeArgs& args) {
  const Val x = args.in[0];
  return sum(x, args.attrs.axes, reduced_axes(args.attrs)) / element_count(x, args.attrs.axes, x.dtype());
}

SINTER_DECL Type Var::infer(const InferArgs& args) { return Mean::infer(args); }
SINTER_DECL Val Var::decompose(const DecomposeArgs& args) {
  const Val x = args.in[0];
  const IntVector& axes = args.attrs.axes;
  const Val deviation = x - mean(x, axes, kept);
  return sum(square(deviation), axes, reduced_axes(args.attrs)) / ops_detail::freedom(x, axes, args.attrs[correction]);
}
SINTER_DECL ValList Var::vjp(const VjpArgs& a) {
  // Of f16 the count and what is divided by it are beyond the range.
  const DType dtype = a.in[0].dtype();
  const bool is_narrow = is_half(dtype);
  const Val x = is_narrow ? cast(a.in[0], DType::f32) : a.in[0];
  const Val dout = is_narrow ? cast(a.dout, DType::f32) : a.dout;
  const IntVector& axes = a.attrs.axes;
  const Val scale = dout * 2 / ops_detail::freedom(x, axes, a.attrs[correction]);
  const Val slope = unreduce(scale, axes, x.shape()) * (x - mean(x, axes, kept));
  return {is_narrow ? cast(slope, dtype) : slope};
}

SINTER_DECL Type Any::infer(const InferArgs& args) {
  return ops_detail::with_shape(args, ops_detail::reduced_shape(args, args.in[0].shape), DType::bool_);
}
SINTER_DECL Val Any::decompose(const DecomposeArgs& args) {
  return ne(sum(cast(ne(args.in[0], 0), DType::i64), args.attrs.axes, reduced_axes(args.attrs)), 0);
}

SINTER_DECL Type All::infer(const InferArgs& args) { return Any::infer(args); }
SINTER_DECL Val All::decompose(const DecomposeArgs& args) {
  return eq(sum(cast(eq(args.in[0], 0), DType::i64), args.attrs.axes, reduced_axes(args.attrs)), 0);
}

SINTER_DECL Type Argmax::infer(const InferArgs& args) { return ops_detail::infer_position(args); }
SINTER_DECL Type Argmin::infer(const InferArgs& args) { return ops_detail::infer_position(args); }

}  // namespace ops
SINTER_NAMESPACE_END
