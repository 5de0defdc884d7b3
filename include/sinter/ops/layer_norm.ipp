// Layer normalisation: forward and gradient share the nodes of `normalise`, so that both are one pass over the row.
#pragma once

#include <sinter/ops/layer_norm.hpp>

#include <sinter/base/index.hpp>

SINTER_NAMESPACE_BEGIN
namespace ops_detail {

struct NormalisedRow {
  Val value;  // (x - mean) / deviation
  Val inverse_deviation;
};

/// Mean first, then the mean square of what is left: the one-pass formula cancels when the mean is large.
inline NormalisedRow normalise(Val x, const IntVector& axes, double eps) {
  const Val centred = x - mean(x, axes, ReducedAxes::kept);
  const Val inverse_deviation = rsqrt(mean(square(centred), axes, ReducedAxes::kept) + eps);
  return {centred * inverse_deviation, inverse_deviation};
}

}  // namespace ops_detail

namespace ops {

SINTER_DECL Type LayerNorm::infer(const InferArgs& args) {
  ops_detail::require_floating(args);
  const Shape& shape = args.in[0].shape;
  const int count = static_cast<int>(args.attrs.axes.size()), first = shape.rank() - count;
  bool fits = count > 0 && first >= 0;
  Shape normalised;
  for (int i = 0; fits && i < count; ++i) {
    fits = ops_detail::checked_axis(args, args.attrs.axes[as_index(i)], shape.rank()) == first + i;
    normalised.push_back(shape[first + i]);
  }
  if (!fits) throw ShapeError(args.op, "the axes must be the last ones of " + shape.text(), args.where);
  for (std::size_t k = 1; k < 3; ++k) {
    ops_detail::require_same_dtype(args, 0, k);
    if (!(args.in[k].shape == normalised))
      throw ShapeError(
          args.op,
          "x is " + shape.text() + ", weight is " + args.in[1].shape.text() + ", bias is " + args.in[2].shape.text(),
          args.where, "weight and bias must be " + normalised.text());
  }
  return args.in[0];
}

SINTER_DECL Val LayerNorm::decompose(const DecomposeArgs& args) {
  return ops_detail::normalise(args.in[0], args.attrs.axes, args.attrs[eps]).value * args.in[1] + args.in[2];
}

SINTER_DECL ValList LayerNorm::vjp(const VjpArgs& a) {
  const IntVector& axes = a.attrs.axes;
  const auto row = ops_detail::normalise(a.in[0], axes, a.attrs[eps]);
  Val dx;
  if (a.needs(0)) {
    const Val g = a.dout * a.in[1];
    dx = (g - mean(g, axes, kept) - row.value * mean(g * row.value, axes, kept)) * row.inverse_deviation;
  }
  return {dx, a.needs(1) ? a.dout * row.value : Val{}, a.dout};
}

}  // namespace ops
SINTER_NAMESPACE_END
