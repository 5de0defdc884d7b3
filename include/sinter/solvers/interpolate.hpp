// Interpolation of values at points of one axis: linear, and by cubic splines. Names and defaults follow NumPy and
// SciPy.
#pragma once

#include <sinter/base/optional.hpp>
#include <sinter/expr/functions.hpp>
#include <sinter/tensor/tensor.hpp>

#include <cstdint>

SINTER_NAMESPACE_BEGIN
namespace solvers {

struct InterpOptions {
  Optional<double> left{}, right{};  // beyond the ends; not given: the first and the last value
};
/// y at x, of which the values fp at the ascending points xp are known, linear between them. numpy.interp.
Tensor interp(const In& x, const In& xp, const In& fp, InterpOptions options = {});

/// not_a_knot: the first two pieces are one polynomial, and the last two. natural: second derivatives are 0 at the
/// ends. clamped: first ones are.
enum class SplineEnds : std::uint8_t { not_a_knot, natural, clamped };

/// A piecewise cubic with two continuous derivatives. An aggregate: it may be an argument of compiled functions.
struct CubicSpline {
  Tensor x;             // ascending points, (n)
  Tensor coefficients;  // (4, n - 1, ...): of powers 3, 2, 1, 0 of the distance from the left point of each piece

  /// Its values, or a derivative of it, at points of any shape; beyond the ends by the first and the last piece. The
  /// result has the shape of the points, and after that of what is interpolated.
  Tensor operator()(const In& at, int derivative = 0) const;
  /// The integral from a to b, which are scalars.
  Tensor integrate(const In& a, const In& b) const;
};
/// The spline through y (n, ...) at the ascending points x (n), n 2 or more. scipy.interpolate.CubicSpline. Slopes come
/// from linalg::solve with an n x n matrix.
CubicSpline cubic_spline(const In& x, const In& y, SplineEnds ends = SplineEnds::not_a_knot);

}  // namespace solvers
SINTER_NAMESPACE_END
