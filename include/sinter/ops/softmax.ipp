// Shape rules and decompositions of softmax and related ops.
#pragma once

#include <sinter/ops/softmax.hpp>

#include <limits>

SINTER_NAMESPACE_BEGIN
namespace ops_detail {

inline Type infer_along_axis(const InferArgs& args) {
  require_floating(args);
  first_axis(args);
  return with_shape(args, args.in[0].shape);
}

/// x minus its largest element along the axes. An empty axis has no largest element and nothing to shift.
inline Val shifted(Val x, const IntVector& axes) {
  const Shape shape = x.shape();
  for (std::int64_t axis : axes)
    if (is_shorter(shape[static_cast<int>(axis)], 1)) return x;
  return x - amax(x, axes, ReducedAxes::kept);
}

/// Softmax with zeros for rows of -inf alone, whose gradient is zero then, too.
inline Val softmax_or_zeros(Val x, const IntVector& axes) {
  const Shape shape = x.shape();
  if (is_zero(shape[static_cast<int>(axes[0])])) return x;
  const Val largest = amax(x, axes, ReducedAxes::kept);
  const Val is_empty = eq(largest, -std::numeric_limits<double>::infinity());
  const Val e = exp(x - where(is_empty, 0, largest));
  return e * where(is_empty, 0, reciprocal(sum(e, axes, ReducedAxes::kept)));
}

}  // namespace ops_detail

namespace ops {

SINTER_DECL Type Softmax::infer(const InferArgs& args) { return ops_detail::infer_along_axis(args); }
SINTER_DECL Val Softmax::decompose(const DecomposeArgs& args) {
  if (args.attrs[empty_rows] == EmptyRows::zeros) return ops_detail::softmax_or_zeros(args.in[0], args.attrs.axes);
  const Val e = exp(ops_detail::shifted(args.in[0], args.attrs.axes));
  return e * reciprocal(sum(e, args.attrs.axes, kept));  // one division for each row
}

SINTER_DECL Type LogSoftmax::infer(const InferArgs& args) { return ops_detail::infer_along_axis(args); }
SINTER_DECL Val LogSoftmax::decompose(const DecomposeArgs& args) {
  const Val x = ops_detail::shifted(args.in[0], args.attrs.axes);
  return x - log(sum(exp(x), args.attrs.axes, kept));
}

SINTER_DECL Type Logsumexp::infer(const InferArgs& args) {
  ops_detail::infer_along_axis(args);
  return ops_detail::with_shape(args, ops_detail::reduced_shape(args, args.in[0].shape));
}
SINTER_DECL Val Logsumexp::decompose(const DecomposeArgs& args) {
  const Val x = args.in[0];
  const IntVector& axes = args.attrs.axes;
  Shape out = x.shape();
  const int axis = normalise_axis(static_cast<int>(axes[0]), out.rank(), "logsumexp", x.where);
  if (ops_detail::is_shorter(out[axis], 1))  // there is no largest element
    return log(sum(exp(x), axes, args.attrs.keepdim ? ReducedAxes::kept : ReducedAxes::dropped));
  const Val largest = amax(x, axes, kept);
  // An infinite largest element would give inf - inf.
  const Val shift = where(eq(abs(largest), std::numeric_limits<double>::infinity()), 0, largest);
  const Val total = log(sum(exp(x - shift), axes, kept)) + shift;
  out.erase(axis);
  return args.attrs.keepdim ? total : reshape(total, out);
}

}  // namespace ops
SINTER_NAMESPACE_END
