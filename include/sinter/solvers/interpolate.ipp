// Which piece a point lies in, and the slopes of splines.
#pragma once

#include <sinter/solvers/interpolate.hpp>

#include <sinter/solvers/common.hpp>

#include <string>
#include <utility>

SINTER_NAMESPACE_BEGIN
namespace solvers {

namespace interpolate_detail {
using namespace detail;

inline void require_points(std::string_view op, const Tensor& x, const Tensor& y, Location where) {
  require_real(op, "x", x, where);
  if (x.rank() != 1 || y.rank() < 1 || !(x.size(0) == y.size(0)) || x.size(0) < Dim(2))
    throw ShapeError(op, "points are " + x.impl()->type.text() + ", values are " + y.impl()->type.text(), where,
                     "points are a list of 2 or more, and the first axis of the values is theirs");
  if (y.dtype() != x.dtype())
    throw DTypeError(op, "points are " + x.impl()->type.text() + ", values are " + y.impl()->type.text(), where,
                     "both must have one dtype");
}
/// Where a value is wanted, in the dtype of the points.
inline Tensor places(const In& at, const Tensor& points) {
  if (!at.leaf.value) return scalar_of("interp", "x", at, points.dtype(), points.device());
  return cast(In(Tensor(at.tensor()), at.where), points.dtype());
}
/// The number of the piece that each point of a list lies in; beyond the ends the first or the last.
inline Tensor piece_of(const Tensor& x, const Tensor& at) {
  const Tensor after = searchsorted(x, at, {.right = true});
  return clamp(after - 1, 0, zero_count(x) + (x.size(0) - Dim(2)));
}
/// Of a list, for values with further axes.
inline Tensor beside(const Tensor& list, const Tensor& values) {
  std::vector<Dim> extents{list.size(0)};
  for (int i = 1; i < values.rank(); ++i) extents.emplace_back(1);
  return reshape(list, Shape(extents));
}
inline Tensor all_but_last(const Tensor& x) { return narrow(x, 0, 0, x.size(0) - Dim(1)); }
inline Tensor all_but_first(const Tensor& x) { return narrow(x, 0, 1, x.size(0) - Dim(1)); }
inline Tensor part(const Tensor& x, Dim at) { return narrow(x, 0, at, 1); }

/// The rows of the tridiagonal system for the slopes at the points, and its right-hand sides.
struct Slopes {
  Tensor lower, main, upper, right;
};
/// One row at an end: the weights of the slope there and of its neighbour's, and the right-hand side. `near` and `next`
/// are the pieces from the end on.
struct EndRow {
  Tensor own, neighbour, right;
};
inline EndRow end_row(SplineEnds ends, const Tensor& dx, const Tensor& slope, Dim near, Dim next) {
  const Tensor h = part(dx, near), g = part(dx, next), s = part(slope, near), t = part(slope, next);
  switch (ends) {
    case SplineEnds::natural: return {2 * h, h, 3 * beside(h, s) * s};
    case SplineEnds::clamped: return {ones_like(h), zeros_like(h), zeros_like(s)};
    case SplineEnds::not_a_knot: break;
  }
  const Tensor d = h + g;
  return {g, d, (beside((h + 2 * d) * g, s) * s + beside(h * h, s) * t) / beside(d, s)};
}
/// With three points and no knot left, the parabola through them (as SciPy has it).
inline EndRow parabola_row(const Tensor& dx, const Tensor& slope, Dim near) {
  const Tensor h = part(dx, near);
  return {ones_like(h), ones_like(h), 2 * part(slope, near)};
}
inline Slopes slope_equations(SplineEnds ends, const Tensor& dx, const Tensor& slope) {
  const Dim pieces = dx.size(0);
  const Tensor before = all_but_last(dx), after = all_but_first(dx);
  const bool is_parabola = ends == SplineEnds::not_a_knot && pieces == Dim(2);
  const EndRow first = is_parabola ? parabola_row(dx, slope, 0) : end_row(ends, dx, slope, 0, 1);
  const EndRow last =
      is_parabola ? parabola_row(dx, slope, 1) : end_row(ends, dx, slope, pieces - Dim(1), pieces - Dim(2));
  const Tensor inner = 3 * (beside(after, slope) * all_but_last(slope) + beside(before, slope) * all_but_first(slope));
  return {cat({after, last.neighbour}, 0), cat({first.own, 2 * (before + after), last.own}, 0),
          cat({first.neighbour, before}, 0), cat({first.right, inner, last.right}, 0)};
}
inline Tensor slopes_at(SplineEnds ends, const Tensor& dx, const Tensor& slope, Location where) {
  if (dx.size(0) == Dim(1)) {  // two points: a line, or a piece that is flat at both ends
    const Tensor both = cat({slope, slope}, 0);
    return ends == SplineEnds::clamped ? zeros_like(both) : both;
  }
  const Slopes s = slope_equations(ends, dx, slope);
  const Tensor matrix = diag(s.main) + diag(s.upper, 1) + diag(s.lower, -1);
  const Dim n = s.main.size(0);
  const Tensor found = linalg::solve(In(matrix, where), reshape(s.right, {n, s.right.numel() / n}));
  return reshape(found, s.right.shape());
}
}  // namespace interpolate_detail

SINTER_DECL Tensor interp(const In& x, const In& xp, const In& fp, InterpOptions options) {
  using namespace interpolate_detail;
  const Tensor points(xp.tensor()), values(fp.tensor()), at = places(x, points);
  require_points("interp", points, values, x.where);
  if (values.rank() != 1)
    throw ShapeError("interp", "values are " + values.impl()->type.text(), x.where, "they must be a list");
  const Tensor q = flat(at), i = piece_of(points, q);
  const Tensor x0 = take(points, i), y0 = take(values, i), x1 = take(points, i + 1), y1 = take(values, i + 1);
  Tensor y = y0 + (y1 - y0) * clamp((q - x0) / (x1 - x0), 0, 1);
  if (options.left) y = where(q < points(0), *options.left, y);
  if (options.right) y = where(q > points(-1), *options.right, y);
  return reshape(where(isnan(q), q, y), at.shape());
}

SINTER_DECL CubicSpline cubic_spline(const In& x, const In& y, SplineEnds ends) {
  using namespace interpolate_detail;
  const Tensor points(x.tensor()), values(y.tensor());
  require_points("cubic_spline", points, values, x.where);
  const Tensor dx = all_but_first(points) - all_but_last(points), wide = beside(dx, values);
  const Tensor slope = (all_but_first(values) - all_but_last(values)) / wide;
  const Tensor s = slopes_at(ends, dx, slope, x.where), s0 = all_but_last(s);
  const Tensor bend = (s0 + all_but_first(s) - 2 * slope) / wide;
  return {points, stack({bend / wide, (slope - s0) / wide - bend, s0, all_but_last(values)}, 0)};
}

SINTER_DECL Tensor CubicSpline::operator()(const In& at, int derivative) const {
  using namespace interpolate_detail;
  if (derivative < 0)
    throw UserError("CubicSpline", "derivative is " + std::to_string(derivative), at.where, "0 at least");
  const Tensor given = places(at, x), q = flat(given), i = piece_of(x, q);
  const Tensor c = take(coefficients, i, 1), distance = beside(q - take(x, i), c(0));
  Tensor y = zeros_like(c(0));
  for (int power = 3; power >= derivative; --power) {  // Horner's scheme
    double factor = 1;
    for (int k = 0; k < derivative; ++k) factor *= power - k;
    y = y * distance + factor * c(3 - power);
  }
  std::vector<Dim> extents;
  const Shape shape = given.shape();
  for (Dim extent : shape.dims()) extents.push_back(extent);
  for (int axis = 2; axis < coefficients.rank(); ++axis) extents.push_back(coefficients.size(axis));
  return reshape(y, Shape(extents));
}

SINTER_DECL Tensor CubicSpline::integrate(const In& a, const In& b) const {
  using namespace interpolate_detail;
  // The integral from x[0] on, as a piecewise polynomial of degree 4: whole pieces, and a part of one.
  const Tensor dx = beside(all_but_first(x) - all_but_last(x), coefficients(0));
  auto within = [](const Tensor& c, const Tensor& h) {
    return Tensor(h * (c(3) + h * (c(2) / 2 + h * (c(1) / 3 + h * (c(0) / 4)))));
  };
  const Tensor sums = cumsum(within(coefficients, dx), 0, {.exclusive = true});
  auto up_to = [&](const In& end) {
    const Tensor q = flat(scalar_of("CubicSpline", "a bound", end, x.dtype(), x.device())), i = piece_of(x, q);
    const Tensor c = take(coefficients, i, 1), h = beside(q - take(x, i), c(0));
    return Tensor((take(sums, i) + within(c, h))(0));
  };
  return up_to(b) - up_to(a);
}

}  // namespace solvers
SINTER_NAMESPACE_END
