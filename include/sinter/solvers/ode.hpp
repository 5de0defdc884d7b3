// Ordinary differential equations: odeint, by explicit Runge-Kutta methods of orders 5 and 8 and by an implicit one for
// stiff equations, with steps whose size follows the error. All steps are one loop in the graph; the derivative is that
// of the adjoint equation, or of the steps themselves.
#pragma once

#include <sinter/autodiff/closure.hpp>
#include <sinter/base/optional.hpp>
#include <sinter/expr/functions.hpp>
#include <sinter/tensor/tensor.hpp>

#include <cstdint>

SINTER_NAMESPACE_BEGIN
namespace solvers {

/// rk45: Dormand and Prince, order 5; values between steps by its interpolant of order 4. dopri8: Dormand and Prince,
/// order 8 (DOP853). radau: Radau IIA, three stages, order 5, L-stable: for stiff equations; a step factors matrices.
/// The last two take steps that end where values are wanted.
enum class OdeMethod : std::uint8_t { rk45, dopri8, radau };
/// adjoint: the adjoint equation is integrated backwards, and nothing is kept but what odeint gives. discrete: the
/// steps are differentiated; a loop of max_steps keeps them all.
enum class OdeGradient : std::uint8_t { adjoint, discrete };
struct OdeOptions {
  OdeMethod method = OdeMethod::rk45;
  OdeGradient gradient = OdeGradient::adjoint;
  Optional<double> rtol{}, atol{};  // of a step's error; not given: f64 1e-6 and 1e-9, f32 1e-4 and 1e-6
  double first_step = 0;            // 0: found from the equation
  std::int64_t max_steps = 10000;   // tried between two of the times
};
struct OdeSolution {
  Tensor y;          // (times, shape of y0): at each of the times, the first of which is that of y0; NaN if not reached
  Tensor converged;  // bool: all were reached
  Tensor steps;      // i64: tried, accepted or not
};

namespace ode_detail {
OdeSolution odeint(const jit::Closure& f, const In& y0, const In& times, const OdeOptions& options);
/// The first of the times. Throws ShapeError unless they are a list.
Tensor first_time(const In& times, const Tensor& y0);
}  // namespace ode_detail

/// y with dy/dt = f(t, y) and y(times[0]) = y0, at all of the times, which ascend or descend. f takes t as a Tensor of
/// rank 0 and y as one of y0's shape, both of y0's dtype (f32 or f64), and gives the latter.
template <class F>
OdeSolution odeint(const F& f, const In& y0, const In& times, OdeOptions options = {}) {
  const Tensor start(y0.tensor());
  return ode_detail::odeint(jit::closure_convert("odeint", y0.where, f, ode_detail::first_time(times, start), start),
                            y0, times, options);
}

}  // namespace solvers
SINTER_NAMESPACE_END
