// Minima of functions: of scalar ones by BFGS and L-BFGS, of sums of squares by Gauss-Newton and Levenberg-Marquardt.
// Each is one while_loop in the graph; its derivative is that of the minimum, by the implicit function theorem.
#pragma once

#include <sinter/autodiff/closure.hpp>
#include <sinter/base/optional.hpp>
#include <sinter/expr/functions.hpp>
#include <sinter/tensor/tensor.hpp>

#include <cstdint>

SINTER_NAMESPACE_BEGIN
namespace solvers {

/// bfgs keeps an n x n matrix. lbfgs keeps `history` pairs of vectors (Liu and Nocedal 1989), and its derivative needs
/// no matrix either. Steps are halved until the decrease suffices (Armijo); pairs that are not convex are left out.
enum class MinimizeMethod : std::uint8_t { bfgs, lbfgs };
struct MinimizeOptions {
  MinimizeMethod method = MinimizeMethod::bfgs;
  Optional<double> tolerance{};  // converged where all |gradient| are at most this; not given: f64 1e-8, f32 1e-4
  std::int64_t max_iterations = 500;
  int history = 10;
};

/// gauss_newton: steps are those of the linear least-squares problem, halved until the decrease suffices.
/// levenberg_marquardt: they are damped by as much as the last steps call for (Marquardt 1963, Nielsen 1999).
enum class LeastSquaresMethod : std::uint8_t { levenberg_marquardt, gauss_newton };
struct LeastSquaresOptions {
  LeastSquaresMethod method = LeastSquaresMethod::levenberg_marquardt;
  Optional<double> tolerance{};  // as above, of the gradient of half the sum of squares
  std::int64_t max_iterations = 200;
};

struct Minimum {
  Tensor x;
  Tensor value;       // f(x); half the sum of squares
  Tensor converged;   // bool
  Tensor iterations;  // i64
  Tensor residual;    // the largest |gradient|
};

namespace minimize_detail {
Minimum minimize(const jit::Closure& f, const In& x0, const MinimizeOptions& options);
Minimum least_squares(const jit::Closure& residuals, const In& x0, const LeastSquaresOptions& options);
}  // namespace minimize_detail

/// A local minimum of f from x0. f takes a Tensor of x0's shape and dtype (f32 or f64) and gives a scalar of it.
template <class F>
Minimum minimize(const F& f, const In& x0, MinimizeOptions options = {}) {
  return minimize_detail::minimize(jit::closure_convert("minimize", x0.where, f, Tensor(x0.tensor())), x0, options);
}

/// A local minimum of half the sum of squares of what `residuals` gives, a Tensor of any shape and x0's dtype.
template <class F>
Minimum least_squares(const F& residuals, const In& x0, LeastSquaresOptions options = {}) {
  return minimize_detail::least_squares(jit::closure_convert("least_squares", x0.where, residuals, Tensor(x0.tensor())),
                                        x0, options);
}

}  // namespace solvers
SINTER_NAMESPACE_END
