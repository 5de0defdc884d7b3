// Roots of functions: systems of equations by Newton's or Broyden's method, equations of one unknown by bisection. Each
// is one while_loop in the graph; its derivative is that of the root, by the implicit function theorem.
#pragma once

#include <sinter/autodiff/closure.hpp>
#include <sinter/base/optional.hpp>
#include <sinter/expr/functions.hpp>
#include <sinter/tensor/tensor.hpp>

#include <cstdint>

SINTER_NAMESPACE_BEGIN
namespace solvers {

/// newton: the matrix of derivatives in each iteration. broyden: at x0 alone, and from there rank-one updates of its
/// inverse (Broyden 1965, "good").
enum class RootMethod : std::uint8_t { newton, broyden };
struct RootOptions {
  RootMethod method = RootMethod::newton;
  Optional<double> tolerance{};  // converged where all |f(x)| are at most this; not given: f64 1e-10, f32 1e-5
  std::int64_t max_iterations = 100;
};
struct RootSolution {
  Tensor x;
  Tensor converged;   // bool
  Tensor iterations;  // i64
  Tensor residual;    // the largest |f(x)|
};

struct BisectOptions {
  Optional<double> tolerance{};  // of the bracket's width; not given: f64 1e-14, f32 1e-6, relative to max(|x|, 1)
  std::int64_t max_iterations = 200;
};
struct BisectSolution {
  Tensor x;
  Tensor converged;   // bool, for each element: the signs at the ends differed, and the bracket is within the tolerance
  Tensor iterations;  // i64
  Tensor residual;    // |f(x)|, for each element
};

namespace root_detail {
RootSolution solve(const jit::Closure& f, const In& x0, const RootOptions& options);
BisectSolution bisect(const jit::Closure& f, const In& low, const In& high, const BisectOptions& options);
}  // namespace root_detail

/// x with f(x) = 0, from x0. f takes and gives a Tensor of x0's shape and dtype (f32 or f64). A step that does not
/// lessen |f| is halved (Armijo); where the matrix of derivatives is singular the iteration ends.
template <class F>
RootSolution root(const F& f, const In& x0, RootOptions options = {}) {
  return root_detail::solve(jit::closure_convert("root", x0.where, f, Tensor(x0.tensor())), x0, options);
}

/// x with f(x) = 0 between `low` and `high`, at which f has different signs, for each element by itself: element i of
/// f(x) must depend on element i of x alone.
template <class F>
BisectSolution bisect(const F& f, const In& low, const In& high, BisectOptions options = {}) {
  return root_detail::bisect(jit::closure_convert("bisect", low.where, f, Tensor(low.tensor())), low, high, options);
}

}  // namespace solvers
SINTER_NAMESPACE_END
