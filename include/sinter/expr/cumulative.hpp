// What users call to accumulate along an axis: cumsum and its family.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/optional.hpp>
#include <sinter/tensor/tensor.hpp>

#include <concepts>
#include <vector>

SINTER_NAMESPACE_BEGIN

struct CumulativeOptions {
  bool exclusive = false;  // each element itself is left out: the first is 0 (1, the lowest, the highest number)
  bool reverse = false;    // from the end of the axis
};

/// The sum of the elements up to each one along `axis`; same shape. Integers and bool are added as i64.
Tensor cumsum(const In& x, int axis, CumulativeOptions options = {});
/// The product of them. The gradient is right also where elements are zero.
Tensor cumprod(const In& x, int axis, CumulativeOptions options = {});
/// The largest of them; NaN wins and stays. The dtype is kept. The last of equal elements gets the gradient.
Tensor cummax(const In& x, int axis, CumulativeOptions options = {});
/// The smallest of them, likewise.
Tensor cummin(const In& x, int axis, CumulativeOptions options = {});

/// log(sum of e^x up to each element), without overflow; floating.
Tensor logcumsumexp(const In& x, int axis);

struct DiffOptions {
  int axis = -1;
  int times = 1;
  Optional<In> prepend{}, append{};  // joined with x along the axis first; a number is one element
};
/// The differences of neighbours along `axis`, x[i + 1] - x[i], taken `times` over: the axis gets so much shorter. Of
/// bool: where neighbours differ. With more elements at the ends: diff(x, {.prepend = 0}) is as long as x.
Tensor diff(const In& x, DiffOptions options = {});
template <std::integral I>
Tensor diff(const In& x, I axis, int times = 1) {
  return diff(x, DiffOptions{.axis = static_cast<int>(axis), .times = times});
}
/// The derivative along `axis` of values `spacing` apart: (x[i + 1] - x[i - 1]) / (2 spacing), at both ends the
/// difference of the two last ones. x's shape, floating; at least two elements.
Tensor gradient(const In& x, double spacing = 1, int axis = -1);
/// The same of values at the places `at`, one for each element of the axis: of second order, as numpy.gradient has it.
Tensor gradient(const In& x, const In& at, int axis = -1);
/// The derivatives along several axes (none given: all), of values `spacings` apart: one for each, or one for all.
std::vector<Tensor> gradients(const In& x, Axes axes = {}, std::vector<double> spacings = {});
/// The integral along `axis` by the trapezoidal rule, of values `dx` apart, or at the places `at` (of y's shape, or of
/// one axis as long). Floating; the axis goes.
Tensor trapezoid(const In& y, double dx = 1, int axis = -1);
Tensor trapezoid(const In& y, const In& at, int axis = -1);
/// The integral up to each place but the first, which makes the axis shorter by one.
Tensor cumulative_trapezoid(const In& y, double dx = 1, int axis = -1);
Tensor cumulative_trapezoid(const In& y, const In& at, int axis = -1);

SINTER_NAMESPACE_END
