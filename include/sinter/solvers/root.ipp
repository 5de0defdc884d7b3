// The iterations of Newton, Broyden and bisection, and the derivatives of roots.
#pragma once

#include <sinter/solvers/root.hpp>

#include <sinter/solvers/line_search.hpp>

#include <utility>

SINTER_NAMESPACE_BEGIN
namespace solvers::root_detail {

using namespace detail;

/// A system of equations for a flat x.
struct Equations {
  Function f;
  RootMethod method{};
  double tolerance = 0;
  std::int64_t max_iterations = 0;
  Location where{};
};
struct RootState {
  Tensor x, f;
  Tensor inverse;  // of the matrix of derivatives, for Broyden's method; else a number
  Tensor iterations, goes_on;
};

/// One iteration: a direction, a step along it, and what becomes of the inverse.
inline RootState next_root(const Equations& e, const ImplicitArguments& args, const RootState& at) {
  Tensor direction, is_regular;
  if (e.method == RootMethod::newton) {
    const linalg::SolveEx solved = linalg::solve_ex(In(jacobian_of(e.f, at.x, args.captured), e.where), -at.f);
    direction = solved.result;
    is_regular = solved.info == 0;
  } else {
    direction = -matmul(at.inverse, at.f);
    is_regular = isfinite(sum(direction));
  }
  const Tensor squares = dot_of(at.f, at.f);
  auto merit = [&](const Tensor& x) {
    const Tensor f = e.f(x, args.captured);
    return Tensor(0.5 * dot_of(f, f));
  };
  const Step step = backtrack(merit, at.x, direction, 0.5 * squares, -squares, e.where);
  const Tensor moved = at.x + step.size * direction, x = where(is_regular, moved, at.x);
  const Tensor f = e.f(x, args.captured), dx = x - at.x;
  Tensor inverse = at.inverse;
  if (e.method == RootMethod::broyden) {
    const Tensor hy = matmul(inverse, f - at.f), row = matmul(dx, inverse);
    inverse = inverse + outer(safe_quotient(dx - hy, dot_of(dx, hy)), row);
  }
  return {x, f, inverse, at.iterations + 1, logical_and(is_regular, any(dx != 0))};
}

inline RootSolution run(const Equations& e, const ImplicitArguments& args) {
  Tensor inverse = zeros_like(sum(args.x0)), is_regular = inverse == 0;
  if (e.method == RootMethod::broyden) {
    const linalg::InvEx made = linalg::inv_ex(In(jacobian_of(e.f, args.x0, args.captured), e.where));
    inverse = made.inverse;
    is_regular = made.info == 0;
  }
  auto goes_on = [&](const RootState& at) {
    return logical_and(at.goes_on,
                       logical_and(logical_not(largest_of(at.f) <= e.tolerance), at.iterations < e.max_iterations));
  };
  const RootState start{args.x0, e.f(args.x0, args.captured), inverse, zero_count(args.x0), is_regular};
  const RootState end =
      jit::while_loop(goes_on, [&](const RootState& at) { return next_root(e, args, at); }, start, e.where);
  const Tensor residual = largest_of(end.f);
  return {end.x, residual <= e.tolerance, end.iterations, residual};
}

inline RootSolution solve_with_rule(const Equations& e, const ImplicitArguments& args) {
  return jit::custom_vjp([e](const ImplicitArguments& given) { return run(e, given); },
                         [e](const ImplicitArguments& given, const RootSolution& found, const RootSolution& gradient) {
                           return implicit_gradients(e.f, found.x, given, gradient.x, e.where);
                         },
                         e.where)(args);
}

SINTER_DECL RootSolution solve(const jit::Closure& f, const In& x0, const RootOptions& options) {
  const Tensor start(x0.tensor());
  require_real("root", "x0", start, x0.where);
  require_endomorphism("root", f, start, x0.where);
  const Shape shape = start.shape();
  const Equations e{flattened(f, shape), options.method,
                    options.tolerance.value_or(start.dtype() == DType::f64 ? 1e-10 : 1e-5), options.max_iterations,
                    x0.where};
  RootSolution found = solve_with_rule(e, {flat(start), f.captured()});
  found.x = reshape(found.x, shape);
  return found;
}

// ---- bisection

struct Bracket {
  Tensor low, high, f_low, iterations;
};
struct BracketArguments {
  Tensor low, high;
  Tensors captured;
};

inline Tensor width_of(const Bracket& at) {
  return abs(at.high - at.low) / maximum(maximum(abs(at.low), abs(at.high)), 1);
}
inline BisectSolution run_bisection(const Function& f, double tolerance, std::int64_t max_iterations,
                                    const BracketArguments& args, Location at_line) {
  const Tensor f_low = f(args.low, args.captured), f_high = f(args.high, args.captured);
  const Tensor is_bracket = sign(f_low) * sign(f_high) <= 0;
  auto goes_on = [&](const Bracket& at) {
    const Tensor is_wide = logical_and(is_bracket, width_of(at) > tolerance);
    return logical_and(any(is_wide), at.iterations < max_iterations);
  };
  auto halve = [&](const Bracket& at) {
    const Tensor middle = at.low + 0.5 * (at.high - at.low), f_middle = f(middle, args.captured);
    const Tensor is_left = sign(at.f_low) * sign(f_middle) <= 0;  // the change of sign
    return Bracket{where(is_left, at.low, middle), where(is_left, middle, at.high), where(is_left, at.f_low, f_middle),
                   at.iterations + 1};
  };
  // A root at the upper end is one from the start.
  const Tensor low = where(f_high == 0, args.high, args.low), f_start = where(f_high == 0, f_high, f_low);
  const Bracket end = jit::while_loop(goes_on, halve, Bracket{low, args.high, f_start, zero_count(args.low)}, at_line);
  const Tensor x = where(end.f_low == 0, end.low, end.low + 0.5 * (end.high - end.low));
  const Tensor residual = abs(f(x, args.captured));
  const Tensor converged = logical_and(is_bracket, logical_and(width_of(end) <= tolerance, isfinite(residual)));
  return {x, converged, end.iterations, residual};
}

SINTER_DECL BisectSolution bisect(const jit::Closure& closure, const In& low, const In& high,
                                  const BisectOptions& options) {
  const Tensor left(low.tensor()), right(high.tensor());
  require_real("bisect", "low", left, low.where);
  require_endomorphism("bisect", closure, left, low.where);
  if (!(left.shape() == right.shape()) || left.dtype() != right.dtype())
    throw ShapeError("bisect", "low is " + left.impl()->type.text() + ", high is " + right.impl()->type.text(),
                     low.where, "both ends must have one shape and dtype");
  const double tolerance = options.tolerance.value_or(left.dtype() == DType::f64 ? 1e-14 : 1e-6);
  const Function f = closure;
  const Location at_line = low.where;
  auto forward = [f, tolerance, at_line, most = options.max_iterations](const BracketArguments& args) {
    return run_bisection(f, tolerance, most, args, at_line);
  };
  auto backward = [f](const BracketArguments& args, const BisectSolution& found, const BisectSolution& gradient) {
    const Tensor slope = pulled_back(f, found.x, args.captured, ones_like(found.x));
    // Elements that nobody uses may have no slope.
    const Tensor is_used = gradient.x != 0, share = where(is_used, -gradient.x / where(is_used, slope, 1), 0);
    return BracketArguments{zeros_like(args.low), zeros_like(args.high),
                            pulled_back_to_captured(f, found.x, args.captured, share)};
  };
  return jit::custom_vjp(forward, backward, at_line)(BracketArguments{left, right, closure.captured()});
}

}  // namespace solvers::root_detail
SINTER_NAMESPACE_END
