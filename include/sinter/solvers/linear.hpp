// Iterative solvers of linear systems a(x) = b, where a is a function of tensors: cg, bicgstab, gmres. Each is one
// while_loop in the graph, and its derivative that of the solution, by another solve with the transposed function.
// Names and defaults follow scipy.sparse.linalg. Knows no factorisation.
#pragma once

#include <sinter/autodiff/closure.hpp>
#include <sinter/base/optional.hpp>
#include <sinter/expr/functions.hpp>
#include <sinter/tensor/tensor.hpp>

#include <concepts>
#include <cstdint>
#include <optional>

SINTER_NAMESPACE_BEGIN
namespace solvers {

struct LinearOptions {
  double rtol = 1e-5;  // converged where |b - a(x)| <= max(rtol * |b|, atol), in the 2-norm
  double atol = 0;
  std::int64_t max_iterations = 0;  // 0: ten times the number of unknowns
  Optional<Tensor> x0{};            // where to begin; not given: zeros
  int restart = 20;                 // of gmres: iterations of a cycle, which keeps that many vectors
};
struct LinearSolution {
  Tensor x;
  Tensor converged;   // bool: the residual is within the tolerance
  Tensor iterations;  // i64
  Tensor residual;    // |b - a(x)|
};

namespace linear_detail {
enum class Method : std::uint8_t { cg, bicgstab, gmres };
/// A linear function, or a matrix, as a function of one Tensor.
template <class A>
jit::Closure linear_function(std::string_view op, const A& a, const In& b) {
  const Tensor like(b.tensor());
  if constexpr (TensorLike<A>) {
    const Tensor matrix(a);
    return jit::closure_convert(op, b.where, [&](const Tensor& x) { return matmul(In(matrix, b.where), x); }, like);
  } else {
    return jit::closure_convert(op, b.where, a, like);
  }
}
LinearSolution solve(Method method, const jit::Closure& a, const std::optional<jit::Closure>& preconditioner,
                     const In& b, const LinearOptions& options);
std::string_view name_of(Method method);
/// The solution, or NaN where it did not converge.
Tensor or_nan(const LinearSolution& found);

template <class A>
LinearSolution solve(Method method, const A& a, const In& b, const LinearOptions& options) {
  return solve(method, linear_function(name_of(method), a, b), std::nullopt, b, options);
}
template <class A, class M>
LinearSolution solve_preconditioned(Method method, const A& a, const In& b, const M& preconditioner,
                                    const LinearOptions& options) {
  return solve(method, linear_function(name_of(method), a, b), linear_function(name_of(method), preconditioner, b), b,
               options);
}
template <class M>
concept Preconditioner = TensorLike<M> || std::is_invocable_v<const M&, const Tensor&>;
}  // namespace linear_detail

/// x with a(x) = b by conjugate gradients (Hestenes and Stiefel 1952). a is a function of one Tensor, or a matrix; it
/// must be linear, symmetric and positive definite. x has b's shape and (floating) dtype.
template <class A>
LinearSolution cg(const A& a, const In& b, LinearOptions options = {}) {
  return linear_detail::solve(linear_detail::Method::cg, a, b, options);
}
/// The same with a preconditioner, which approximates the inverse of a: a function of one Tensor, or a matrix.
template <class A, linear_detail::Preconditioner M>
LinearSolution cg(const A& a, const In& b, const M& preconditioner, LinearOptions options = {}) {
  return linear_detail::solve_preconditioned(linear_detail::Method::cg, a, b, preconditioner, options);
}

/// x with a(x) = b for any regular linear a, by stabilised biconjugate gradients (van der Vorst 1992).
template <class A>
LinearSolution bicgstab(const A& a, const In& b, LinearOptions options = {}) {
  return linear_detail::solve(linear_detail::Method::bicgstab, a, b, options);
}
template <class A, linear_detail::Preconditioner M>
LinearSolution bicgstab(const A& a, const In& b, const M& preconditioner, LinearOptions options = {}) {
  return linear_detail::solve_preconditioned(linear_detail::Method::bicgstab, a, b, preconditioner, options);
}

/// x with a(x) = b for any regular linear a, by minimal residuals over `restart` directions at a time (Saad and Schultz
/// 1986). Iterations are counted in whole cycles.
template <class A>
LinearSolution gmres(const A& a, const In& b, LinearOptions options = {}) {
  return linear_detail::solve(linear_detail::Method::gmres, a, b, options);
}
template <class A, linear_detail::Preconditioner M>
LinearSolution gmres(const A& a, const In& b, const M& preconditioner, LinearOptions options = {}) {
  return linear_detail::solve_preconditioned(linear_detail::Method::gmres, a, b, preconditioner, options);
}

}  // namespace solvers
SINTER_NAMESPACE_END
