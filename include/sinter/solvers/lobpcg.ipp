// Rayleigh and Ritz over an orthonormal basis of the vectors, their preconditioned residuals and the last directions.
#pragma once

#include <sinter/solvers/lobpcg.hpp>

#include <sinter/jit/control/control.hpp>
#include <sinter/solvers/common.hpp>

#include <algorithm>
#include <utility>

SINTER_NAMESPACE_BEGIN
namespace solvers::lobpcg_detail {

using namespace detail;

/// ax: a(x). p: the last directions.
struct State {
  Tensor x, ax, p, values, iterations;
};
struct Problem {
  Function a, preconditioner;
  Tensors captured, of_preconditioner;
  std::int64_t n = 0, k = 0;
  bool is_largest = true;
};

/// Columns `from` to before `to`.
inline Tensor columns_of(const Tensor& x, Dim from, Dim to) { return narrow(x, 1, from, to - from); }
/// A function of columns was made for 3 k of them.
inline Tensor with_zeros(const Tensor& x) { return concat({x, zeros_like(x), zeros_like(x)}, 1); }
inline Tensor residuals_of(const State& at) { return at.ax - at.x * unsqueeze(at.values, 0); }
inline Tensor column_norms(const Tensor& x) { return sqrt(sum(square(x), 0)); }

inline State best_of(const Problem& problem, const Tensor& basis, const State& at) {
  const Tensor image = problem.a(basis, problem.captured), small = matmul(transpose(basis, 0, 1), image);
  const linalg::Eigh found = linalg::eigh((small + transpose(small, 0, 1)) * 0.5);
  const Dim k = problem.k, m = 3 * problem.k;
  const Tensor values =
      problem.is_largest ? Tensor(flip(narrow(found.eigenvalues, 0, m - k, k), 0)) : narrow(found.eigenvalues, 0, 0, k);
  const Tensor c = problem.is_largest ? Tensor(flip(columns_of(found.eigenvectors, m - k, m), 1))
                                      : columns_of(found.eigenvectors, 0, k);
  return {matmul(basis, c), matmul(image, c), matmul(columns_of(basis, k, m), narrow(c, 0, k, m - k)), values,
          at.iterations + 1};
}

inline State improved(const Problem& problem, const State& at) {
  Tensor w = residuals_of(at);
  if (problem.preconditioner)
    w = columns_of(problem.preconditioner(with_zeros(w), problem.of_preconditioner), 0, problem.k);
  // Residuals become small; as directions they are as good at any length.
  const Tensor sizes = column_norms(w), lengths = column_norms(at.p);
  const Tensor unit = w / unsqueeze(where(sizes > 0, sizes, 1), 0);
  const Tensor last = at.p / unsqueeze(where(lengths > 0, lengths, 1), 0);
  return best_of(problem, linalg::qr(concat({at.x, unit, last}, 1)).q, at);
}

inline Tensor limit_of(const State& at, const LobpcgOptions& options) {
  return maximum(largest_of(at.values) * options.rtol, options.atol);
}

inline LobpcgSolution run(const Problem& problem, const Tensor& x0, const LobpcgOptions& options, Location where) {
  const Tensor like = zeros({problem.k}, {.dtype = x0.dtype(), .device = x0.device()});
  // Its columns beyond x0 are any that complete an orthonormal basis.
  const Tensor basis = linalg::qr(with_zeros(x0)).q;
  const State start = best_of(problem, basis, {x0, x0, x0, like, zero_count(x0)});
  const std::int64_t most =
      options.max_iterations > 0 ? options.max_iterations : std::max<std::int64_t>(100, 20 * problem.k);
  return [&](const State& end) {
    const Tensor residuals = column_norms(residuals_of(end));
    return LobpcgSolution{end.values, end.x, sinter::all(residuals <= limit_of(end, options)), end.iterations,
                          residuals};
  }(jit::while_loop(
             [&](const State& at) {
               return logical_and(any(column_norms(residuals_of(at)) > limit_of(at, options)), at.iterations < most);
             },
             [&](const State& at) { return improved(problem, at); }, start, where));
}

SINTER_DECL LobpcgSolution solve(const jit::Closure& a, const std::optional<jit::Closure>& preconditioner, const In& x0,
                                 const LobpcgOptions& options) {
  constexpr std::string_view op = "lobpcg";
  const Tensor x(x0.tensor());
  require_real(op, "x0", x, x0.where);
  const Shape shape = x.shape();
  if (shape.rank() != 2 || !shape[0].is_static() || !shape[1].is_static() || shape[1].value() < 1 ||
      3 * shape[1].value() > shape[0].value())
    throw ShapeError(op, "x0 is " + shape.text(), x0.where,
                     "(n, k) with 3 k <= n is required; linalg::eigh finds all eigenvalues of a small matrix");
  const Tensor wide = concat({x, x, x}, 1, x0.where);
  require_endomorphism(op, a, wide, x0.where);
  if (preconditioner) require_endomorphism(op, *preconditioner, wide, x0.where);
  const auto constants = [](std::span<const Tensor> values) {
    Tensors out;
    for (const Tensor& value : values) out.push_back(is_floating(value.dtype()) ? Tensor(stop_gradient(value)) : value);
    return out;
  };
  Problem problem{a, {}, constants(a.captured()), {}, shape[0].value(), shape[1].value(), options.largest};
  if (preconditioner) {
    problem.preconditioner = *preconditioner;
    problem.of_preconditioner = constants(preconditioner->captured());
  }
  LobpcgSolution found = run(problem, stop_gradient(x), options, x0.where);
  // From a x = v x with |x| = 1: dv = x (da) x, which is the derivative of this product.
  const Tensors captured(a.captured().begin(), a.captured().end());
  if (has_floating(captured)) {
    const Tensor image = columns_of(problem.a(with_zeros(found.vectors), captured), 0, problem.k);
    const Tensor products = sum(found.vectors * image, 0);
    found.values = found.values + (products - stop_gradient(products));
  }
  return found;
}

}  // namespace solvers::lobpcg_detail
SINTER_NAMESPACE_END
