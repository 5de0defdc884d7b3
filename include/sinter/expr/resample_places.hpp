// Where resampling looks: the places of new elements along an axis, and gathers at them. Knows no modes but linear.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/expr/resample.hpp>

#include <optional>
#include <span>

SINTER_NAMESPACE_BEGIN
namespace expr_detail {

/// An axis at another size.
struct Resampled {
  int axis;
  Dim from, to;
  std::optional<double> scale;
};

/// The old place of each new element, of `dtype`: where interpolation of this kind looks.
Tensor source_places(const Resampled& axis, Interpolation mode, Align align, DType dtype, Device device, Location at);

/// Places and sums of narrow floats are computed in f32: bf16 has no numbers between 256 and 258.
inline DType resampled_in(const Tensor& x) { return x.dtype() == DType::f64 ? DType::f64 : DType::f32; }

/// A weight for each element of the axis, as it broadcasts over x.
Tensor along_axis_of(const Tensor& weights, const Tensor& x, int axis, Location at);

/// An axis, and where its new elements lie in it.
struct Gathered {
  Resampled axis;
  Tensor places;
};
/// Axes side by side are read by one gather: that of the axis that they are together.
Tensor gathered_at_once(const Tensor& x, std::span<const Gathered> axes, Location at);

/// Between the old elements below and above each place, along axes side by side, the first one first.
Tensor linear_at_once(const Tensor& x, std::span<const Resampled> axes, Align align, Location at);

}  // namespace expr_detail
SINTER_NAMESPACE_END
