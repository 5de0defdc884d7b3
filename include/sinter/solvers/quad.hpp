// Integrals of functions of one variable: adaptive Gauss-Kronrod quadrature. Its loop halves the interval of the
// largest error; the derivative is that of the rule on the intervals that were found.
#pragma once

#include <sinter/autodiff/closure.hpp>
#include <sinter/base/optional.hpp>
#include <sinter/expr/functions.hpp>
#include <sinter/tensor/tensor.hpp>

#include <cstdint>

SINTER_NAMESPACE_BEGIN
namespace solvers {

struct QuadOptions {
  Optional<double> rtol{}, atol{};  // converged where the error is at most max(rtol * |value|, atol); not given: both
                                    // 1.5e-8 in f64, 1e-5 in f32
  std::int64_t max_intervals = 50;
  DType dtype = DType::f64;  // where both bounds are C++ numbers
};
struct Quadrature {
  Tensor value;
  Tensor error;       // an estimate; of several integrals the largest
  Tensor converged;   // bool
  Tensor iterations;  // i64: intervals that were halved
};

namespace quad_detail {
/// Points of a rule on one interval, Gauss's among them (Piessens and others 1983, QUADPACK).
inline constexpr std::int64_t points = 21;
/// That many points, of the dtype that the bounds make.
Tensor example_points(const In& a, const In& b, const QuadOptions& options);
Quadrature quad(const jit::Closure& f, const In& a, const In& b, const QuadOptions& options);
}  // namespace quad_detail

/// The integral of f from a to b. f is given a list of points at once, and gives for each a number, or a tensor: the
/// shape of its result begins with the number of points, and the integral has the rest. Bounds are scalars; C++ numbers
/// may be infinite.
template <class F>
Quadrature quad(const F& f, const In& a, const In& b, QuadOptions options = {}) {
  return quad_detail::quad(jit::closure_convert("quad", a.where, f, quad_detail::example_points(a, b, options)), a, b,
                           options);
}

}  // namespace solvers
SINTER_NAMESPACE_END
