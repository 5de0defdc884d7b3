// A few of the largest or smallest eigenvalues of a large symmetric matrix, or linear function, with their vectors, by
// products with it alone: lobpcg, one while_loop in the graph. After scipy.sparse.linalg.lobpcg. Knows no storage of
// matrices.
#pragma once

#include <sinter/autodiff/closure.hpp>
#include <sinter/expr/functions.hpp>
#include <sinter/tensor/tensor.hpp>

#include <cstdint>
#include <optional>

SINTER_NAMESPACE_BEGIN
namespace solvers {

struct LobpcgOptions {
  bool largest = true;
  double rtol = 1e-5;  // converged where |a(x) - value * x| <= max(rtol * |largest of the values|, atol) for all pairs
  double atol = 0;
  std::int64_t max_iterations = 0;  // 0: 20 times the number of pairs, 100 at least
};
struct LobpcgSolution {
  Tensor values;      // [k], in descending order, or ascending where the smallest are asked for
  Tensor vectors;     // [n, k], orthonormal columns
  Tensor converged;   // bool
  Tensor iterations;  // i64
  Tensor residuals;   // [k]: |a(x) - value * x|
};

namespace lobpcg_detail {
LobpcgSolution solve(const jit::Closure& a, const std::optional<jit::Closure>& preconditioner, const In& x0,
                     const LobpcgOptions& options);
/// A function of vectors as columns, of which a step has three times as many as x0.
template <class A>
jit::Closure linear_function(const A& a, const In& x0) {
  const Tensor x(x0.tensor()), like = x.rank() == 2 ? concat({x, x, x}, 1, x0.where) : x;
  if constexpr (TensorLike<A>) {
    const Tensor matrix(a);
    return jit::closure_convert(
        "lobpcg", x0.where, [&](const Tensor& v) { return matmul(In(matrix, x0.where), v); }, like);
  } else {
    return jit::closure_convert("lobpcg", x0.where, a, like);
  }
}
}  // namespace lobpcg_detail

/// The k largest (smallest) eigenvalues of a and their vectors, from the guess x0 [n, k] of linearly independent
/// columns, 3 k <= n: locally optimal block preconditioned conjugate gradients (Knyazev 2001). a is a symmetric matrix,
/// or a linear function of columns [n, m] that gives the same shape. The values have gradients by what a captures; the
/// vectors are constants to them.
template <class A>
LobpcgSolution lobpcg(const A& a, const In& x0, LobpcgOptions options = {}) {
  return lobpcg_detail::solve(lobpcg_detail::linear_function(a, x0), std::nullopt, x0, options);
}
/// The same with a preconditioner, which approximates the inverse of a: a function, or a matrix.
template <class A, class M>
  requires(TensorLike<M> || std::is_invocable_v<const M&, const Tensor&>)
LobpcgSolution lobpcg(const A& a, const In& x0, const M& preconditioner, LobpcgOptions options = {}) {
  return lobpcg_detail::solve(lobpcg_detail::linear_function(a, x0), lobpcg_detail::linear_function(preconditioner, x0),
                              x0, options);
}

}  // namespace solvers
SINTER_NAMESPACE_END
