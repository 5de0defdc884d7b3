// The iterations of cg, bicgstab and gmres, and the derivative of what they give.
#pragma once

#include <sinter/solvers/linear.hpp>

#include <sinter/jit/control/control.hpp>
#include <sinter/solvers/common.hpp>

#include <algorithm>
#include <limits>
#include <utility>

SINTER_NAMESPACE_BEGIN
namespace solvers::linear_detail {

using namespace detail;

SINTER_DECL std::string_view name_of(Method method) {
  switch (method) {
    case Method::cg: return "cg";
    case Method::bicgstab: return "bicgstab";
    case Method::gmres: return "gmres";
  }
  return {};
}

/// All that a solution depends on. The captured values are arguments, so that derivatives reach them.
struct Arguments {
  Tensor b, x0;
  Tensors a, preconditioner;  // captured by the functions
};
struct Problem {
  Method method{};
  Function a, preconditioner;
  LinearOptions options{};
  Location where{};
};

/// A problem whose values are known: what an iteration calls.
struct System {
  std::function<Tensor(const Tensor&)> a, m;
  Tensor b, x0, target, limit;
  Location where;
};

/// r: the residual. z: preconditioned, rz: r z.
struct CgState {
  Tensor x, r, p, rz, iterations;
};
inline auto goes_on(const System& s) {
  return [&s](const auto& at) { return logical_and(norm_of(at.r) > s.target, at.iterations < s.limit); };
}

inline std::pair<Tensor, Tensor> run_cg(const System& s) {
  auto step = [&s](const CgState& at) {
    const Tensor ap = s.a(at.p), alpha = at.rz / dot_of(at.p, ap);
    const Tensor r = at.r - alpha * ap, z = s.m(r), rz = dot_of(r, z);
    return CgState{at.x + alpha * at.p, r, z + rz / at.rz * at.p, rz, at.iterations + 1};
  };
  const Tensor r = s.b - s.a(s.x0), z = s.m(r);
  const CgState end = jit::while_loop(goes_on(s), step, CgState{s.x0, r, z, dot_of(r, z), zero_count(s.b)}, s.where);
  return {end.x, end.iterations};
}

struct BicgstabState {
  Tensor x, r, p, v, rho, alpha, omega, iterations;
};
inline std::pair<Tensor, Tensor> run_bicgstab(const System& s) {
  const Tensor shadow = s.b - s.a(s.x0);
  auto step = [&](const BicgstabState& at) {
    const Tensor rho = dot_of(shadow, at.r);
    const Tensor beta = safe_quotient(rho, at.rho) * safe_quotient(at.alpha, at.omega);
    const Tensor p = at.r + beta * (at.p - at.omega * at.v), mp = s.m(p), v = s.a(mp);
    const Tensor alpha = safe_quotient(rho, dot_of(shadow, v));
    const Tensor half = at.r - alpha * v, mh = s.m(half), t = s.a(mh);
    const Tensor omega = safe_quotient(dot_of(t, half), dot_of(t, t));
    return BicgstabState{at.x + alpha * mp + omega * mh, half - omega * t, p, v, rho, alpha, omega, at.iterations + 1};
  };
  const Tensor zero = zeros_like(s.b), one = ones({}, {.dtype = s.b.dtype(), .device = s.b.device()});
  const BicgstabState end = jit::while_loop(
      goes_on(s), step, BicgstabState{s.x0, shadow, zero, zero, one, one, one, zero_count(s.b)}, s.where);
  return {end.x, end.iterations};
}

struct GmresState {
  Tensor x, r, iterations;
};
/// An orthonormal basis, a vector in each row, and a in it.
struct Krylov {
  Tensor basis, hessenberg;
};
/// Arnoldi's iteration from z / |z|. Directions are made orthogonal twice; those after the space is complete are zeros.
inline Krylov krylov_space(const System& s, const Tensor& z, Dim steps) {
  const TensorOptions like{.dtype = z.dtype(), .device = z.device()};
  Krylov start{zeros({steps + Dim(1), z.numel()}, like), zeros({steps + Dim(1), steps}, like)};
  start.basis.at(0) = flat(z) / norm_of(z);
  return jit::fori_loop(
      0, steps,
      [&](const Scalar& k, const Krylov& at) {
        const Tensor v = flat(s.m(s.a(reshape(at.basis(k), z.shape()))));
        const Tensor first = matmul(at.basis, v), once = v - matmul(first, at.basis);
        const Tensor second = matmul(at.basis, once), twice = once - matmul(second, at.basis);
        const Tensor size = norm_of(twice);
        // What is left of a complete space is rounding.
        const Tensor is_new = size > norm_of(v) * (z.dtype() == DType::f64 ? 1e-14 : 1e-6);
        Krylov next = at;
        next.basis.at(k + 1) = where(is_new, twice / size, 0);
        next.hessenberg.at(all, k) = first + second;
        next.hessenberg.at(k + 1, k) = where(is_new, size, 0);
        return next;
      },
      start, s.where);
}
inline std::pair<Tensor, Tensor> run_gmres(const System& s, int restart) {
  auto cycle = [&](const GmresState& at) {
    const Tensor z = s.m(at.r);
    const Dim n = s.b.numel(), steps = n.is_static() ? Dim(std::min<std::int64_t>(restart, n.value())) : Dim(restart);
    const Krylov space = krylov_space(s, z, steps);
    Tensor right = zeros({steps + Dim(1)}, {.dtype = z.dtype(), .device = z.device()});
    right.at(0) = norm_of(z);
    const Tensor h = where(isfinite(space.hessenberg), space.hessenberg, 0);
    const Tensor y = linalg::lstsq(In(h, s.where), right).solution;
    const Tensor x = at.x + reshape(matmul(y, narrow(space.basis, 0, 0, steps)), s.b.shape());
    return GmresState{x, s.b - s.a(x), at.iterations + steps};
  };
  const GmresState end =
      jit::while_loop(goes_on(s), cycle, GmresState{s.x0, s.b - s.a(s.x0), zero_count(s.b)}, s.where);
  return {end.x, end.iterations};
}

inline LinearSolution run(const Problem& problem, const Arguments& args) {
  const LinearOptions& options = problem.options;
  const Tensor limit = options.max_iterations > 0 ? zero_count(args.b) + options.max_iterations
                                                  : zero_count(args.b) + args.b.numel() * Dim(10);
  // A power of two keeps squares of large and small numbers numbers; a is linear.
  const Tensor largest = largest_of(args.b);
  const Tensor size = where(largest > 0, exp2(floor(log2(where(largest > 0, largest, 1)))), 1);
  const Tensor b = args.b / size;
  const System s{
      [&](const Tensor& x) { return problem.a(x, args.a); },
      [&](const Tensor& x) { return problem.preconditioner ? problem.preconditioner(x, args.preconditioner) : x; },
      b,
      args.x0 / size,
      maximum(norm_of(b) * options.rtol, options.atol / size),
      limit,
      problem.where};
  std::pair<Tensor, Tensor> found;
  switch (problem.method) {
    case Method::cg: found = run_cg(s); break;
    case Method::bicgstab: found = run_bicgstab(s); break;
    case Method::gmres: found = run_gmres(s, options.restart); break;
  }
  const Tensor residual = norm_of(s.b - s.a(found.first));
  return {found.first * size, residual <= s.target, found.second, residual * size};
}

/// The problem with the transposed function. That of cg is its own.
inline Problem transposed(const Problem& problem) {
  if (problem.method == Method::cg) return problem;
  auto transpose_of = [](const Function& f) -> Function {
    if (!f) return {};
    return [f](const Tensor& x, std::span<const Tensor> captured) { return pulled_back(f, x, captured, x); };
  };
  Problem out = problem;
  out.a = transpose_of(problem.a);
  out.preconditioner = transpose_of(problem.preconditioner);
  return out;
}

/// A gradient has no flag: what did not converge is NaN.
SINTER_DECL Tensor or_nan(const LinearSolution& found) {
  return where(found.converged, found.x, std::numeric_limits<double>::quiet_NaN());
}

/// From a(x) = b: a(dx) = db - (da)(x). So a gradient g of x gives u with a^T u = g to b, and to what a captured that
/// of -u a(x).
inline LinearSolution solve_with_rule(const Problem& problem, const Arguments& args, int orders) {
  auto forward = [problem](const Arguments& given) { return run(problem, given); };
  if (orders == 0) return forward(args);
  auto backward = [problem, orders](const Arguments& given, const LinearSolution& solution,
                                    const LinearSolution& gradient) {
    const Arguments adjoint{gradient.x, zeros_like(gradient.x), given.a, given.preconditioner};
    const Tensor u = or_nan(solve_with_rule(transposed(problem), adjoint, orders - 1));
    return Arguments{u, zeros_like(given.x0), pulled_back_to_captured(problem.a, solution.x, given.a, -u),
                     zeros_of(given.preconditioner)};
  };
  return jit::custom_vjp(forward, backward, problem.where)(args);
}

SINTER_DECL LinearSolution solve(Method method, const jit::Closure& a,
                                 const std::optional<jit::Closure>& preconditioner, const In& b,
                                 const LinearOptions& options) {
  const std::string_view op = name_of(method);
  const Tensor right(b.tensor());
  require_real(op, "b", right, b.where);
  require_endomorphism(op, a, right, b.where);
  if (preconditioner) require_endomorphism(op, *preconditioner, right, b.where);
  if (options.restart < 1) throw UserError(op, "restart is " + std::to_string(options.restart), b.where, "1 at least");
  const Tensor start = options.x0.value_or(zeros_like(right));
  if (!(start.shape() == right.shape()) || start.dtype() != right.dtype())
    throw ShapeError(op, "x0 is " + start.impl()->type.text() + ", b is " + right.impl()->type.text(), b.where,
                     "x0 must have the shape and dtype of b");
  Problem problem{method, a, {}, options, b.where};
  problem.options.x0.reset();
  if (preconditioner) problem.preconditioner = *preconditioner;
  return solve_with_rule(problem, {right, start, a.captured(), preconditioner ? preconditioner->captured() : Tensors{}},
                         derivative_orders);
}

}  // namespace solvers::linear_detail
SINTER_NAMESPACE_END
