// The iterations of BFGS, L-BFGS, Gauss-Newton and Levenberg-Marquardt, and the derivatives of minima.
#pragma once

#include <sinter/solvers/minimize.hpp>

#include <sinter/solvers/line_search.hpp>
#include <sinter/solvers/linear.hpp>

#include <utility>

SINTER_NAMESPACE_BEGIN
namespace solvers::minimize_detail {

using namespace detail;

/// A scalar function of a flat x.
struct Objective {
  Function f;
  double tolerance = 0;
  std::int64_t max_iterations = 0;
  int history = 0;
  Location where{};
};
inline double standard_tolerance(DType dtype) { return dtype == DType::f64 ? 1e-8 : 1e-4; }

/// What iterations that follow a line search have in common.
struct Descent {
  Tensor x, value, gradient, iterations, goes_on;
};
inline std::pair<Tensor, Tensor> value_and_gradient(const Function& f, const Tensor& x,
                                                    std::span<const Tensor> captured) {
  return jit::value_and_grad([&](const Tensor& v) { return f(v, captured); })(x);
}
inline auto goes_on(const Objective& o) {
  return [&o](const auto& at) {
    const Tensor is_open = logical_not(largest_of(at.now.gradient) <= o.tolerance);
    return logical_and(at.now.goes_on, logical_and(is_open, at.now.iterations < o.max_iterations));
  };
}
inline Descent first_point(const Objective& o, const ImplicitArguments& args) {
  auto [value, gradient] = value_and_gradient(o.f, args.x0, args.captured);
  return {args.x0, value, gradient, zero_count(args.x0), isfinite(value)};
}
/// A step along a direction, or along the gradient where that does not lead down.
inline Descent descend(const Objective& o, const ImplicitArguments& args, const Descent& at, const Tensor& wanted) {
  const Tensor leads_down = dot_of(wanted, at.gradient) < 0;
  const Tensor direction = where(leads_down, wanted, -at.gradient), slope = dot_of(direction, at.gradient);
  auto merit = [&](const Tensor& x) { return o.f(x, args.captured); };
  const Step step = backtrack(merit, at.x, direction, at.value, slope, o.where);
  const Tensor is_found = step.tries < most_halvings, x = where(is_found, at.x + step.size * direction, at.x);
  auto [value, gradient] = value_and_gradient(o.f, x, args.captured);
  return {x, value, gradient, at.iterations + 1, logical_and(is_found, any(x != at.x))};
}
inline Minimum minimum_of(const Objective& o, const Descent& end) {
  const Tensor residual = largest_of(end.gradient);
  return {end.x, end.value, residual <= o.tolerance, end.iterations, residual};
}

// ---- BFGS

struct BfgsState {
  Descent now;
  Tensor inverse;  // an approximation of the inverse of the matrix of second derivatives
};
inline Tensor updated_inverse(const Tensor& inverse, const Tensor& s, const Tensor& y, const Tensor& is_first) {
  const Tensor sy = dot_of(s, y), is_convex = sy > 1e-10 * norm_of(s) * norm_of(y);
  // The first matrix gets the scale that the first step has shown (Nocedal and Wright 2006, 6.20).
  const Tensor h = where(is_first, inverse * safe_quotient(sy, dot_of(y, y)), inverse);
  const Tensor rho = safe_quotient(ones_like(sy), sy), hy = matmul(h, y);
  const Tensor grown = h + outer(s, s) * (rho + rho * rho * dot_of(y, hy)) - rho * (outer(hy, s) + outer(s, hy));
  return where(is_convex, grown, inverse);
}
inline Minimum run_bfgs(const Objective& o, const ImplicitArguments& args) {
  const Descent first = first_point(o, args);
  const Tensor unit = eye(args.x0.numel(), {.dtype = args.x0.dtype(), .device = args.x0.device()});
  const Tensor start = unit / maximum(norm_of(first.gradient), 1);
  auto step = [&](const BfgsState& at) {
    const Descent next = descend(o, args, at.now, -matmul(at.inverse, at.now.gradient));
    const Tensor is_first = at.now.iterations == 0, base = where(is_first, unit, at.inverse);
    return BfgsState{next, updated_inverse(base, next.x - at.now.x, next.gradient - at.now.gradient, is_first)};
  };
  return minimum_of(o, jit::while_loop(goes_on(o), step, BfgsState{first, start}, o.where).now);
}

// ---- L-BFGS

/// The newest pair is the last row. Rows that hold none have rho 0.
struct LbfgsState {
  Descent now;
  Tensor s, y, rho, scale;
};
inline Tensor with_row(const Tensor& rows, const Tensor& last) {
  return cat({narrow(rows, 0, 1, rows.shape()[0] - Dim(1)), unsqueeze(last, 0)}, 0);
}
/// The inverse matrix that the pairs stand for, times the gradient, in two recursions.
inline Tensor lbfgs_direction(const LbfgsState& at, int history) {
  Tensor q = at.now.gradient;
  Tensors alpha(static_cast<std::size_t>(history));
  for (int i = history - 1; i >= 0; --i) {
    Tensor& a = alpha[static_cast<std::size_t>(i)];
    a = at.rho(i) * dot_of(at.s(i), q);
    q = q - a * at.y(i);
  }
  q = at.scale * q;
  for (int i = 0; i < history; ++i) {
    const Tensor beta = at.rho(i) * dot_of(at.y(i), q);
    q = q + (alpha[static_cast<std::size_t>(i)] - beta) * at.s(i);
  }
  return -q;
}
inline Minimum run_lbfgs(const Objective& o, const ImplicitArguments& args) {
  const Descent first = first_point(o, args);
  const TensorOptions like{.dtype = args.x0.dtype(), .device = args.x0.device()};
  const Tensor rows = zeros({o.history, args.x0.numel()}, like);
  auto step = [&](const LbfgsState& at) {
    const Descent next = descend(o, args, at.now, lbfgs_direction(at, o.history));
    const Tensor s = next.x - at.now.x, y = next.gradient - at.now.gradient, sy = dot_of(s, y);
    const Tensor is_convex = sy > 1e-10 * norm_of(s) * norm_of(y), rho = safe_quotient(ones_like(sy), sy);
    return LbfgsState{next, where(is_convex, with_row(at.s, s), at.s), where(is_convex, with_row(at.y, y), at.y),
                      where(is_convex, with_row(at.rho, rho), at.rho),
                      where(is_convex, safe_quotient(sy, dot_of(y, y)), at.scale)};
  };
  const LbfgsState start{first, rows, rows, zeros({o.history}, like), 1 / maximum(norm_of(first.gradient), 1)};
  return minimum_of(o, jit::while_loop(goes_on(o), step, start, o.where).now);
}

/// As implicit_gradients of the gradient, by products with the matrix of second derivatives alone. What cg does not
/// solve has NaN as gradient.
inline ImplicitArguments gradients_by_products(const Function& gradient, const Tensor& x,
                                               const ImplicitArguments& given, const Tensor& of_x, Location at_line) {
  auto product = [&](const Tensor& v) { return pulled_back(gradient, x, given.captured, v); };
  const Tensor u =
      linear_detail::or_nan(cg(product, In(of_x, at_line), {.rtol = x.dtype() == DType::f64 ? 1e-10 : 1e-5}));
  return {zeros_like(given.x0), pulled_back_to_captured(gradient, x, given.captured, -u)};
}

/// The value is computed of the minimum again, outside of the rule, so that it has all its derivatives.
inline Minimum with_shape(Minimum found, const Function& f, const Shape& shape, std::span<const Tensor> captured) {
  found.value = f(found.x, captured);
  found.x = reshape(found.x, shape);
  return found;
}

SINTER_DECL Minimum minimize(const jit::Closure& f, const In& x0, const MinimizeOptions& options) {
  const Tensor start(x0.tensor());
  require_real("minimize", "x0", start, x0.where);
  if (f.result_type().shape.rank() != 0 || f.result_type().dtype != start.dtype())
    throw ShapeError("minimize", "the function gives " + f.result_type().text() + " for " + start.impl()->type.text(),
                     x0.where, "it must give a scalar of its argument's dtype: use sum or mean");
  if (options.history < 1)
    throw UserError("minimize", "history is " + std::to_string(options.history), x0.where, "1 at least");
  const Shape shape = start.shape();
  const Function scalar = [f, shape](const Tensor& x, std::span<const Tensor> captured) {
    return f(reshape(x, shape), captured);
  };
  const Objective o{scalar, options.tolerance.value_or(standard_tolerance(start.dtype())), options.max_iterations,
                    options.history, x0.where};
  const ImplicitArguments args{flat(start), f.captured()};
  const bool has_matrix = options.method == MinimizeMethod::bfgs;
  auto forward = [o, has_matrix](const ImplicitArguments& given) {
    return has_matrix ? run_bfgs(o, given) : run_lbfgs(o, given);
  };
  auto backward = [o, has_matrix](const ImplicitArguments& given, const Minimum& found, const Minimum& gradient) {
    const Function slope = gradient_of(o.f);
    return has_matrix ? implicit_gradients(slope, found.x, given, gradient.x, o.where)
                      : gradients_by_products(slope, found.x, given, gradient.x, o.where);
  };
  return with_shape(jit::custom_vjp(forward, backward, x0.where)(args), scalar, shape, args.captured);
}

// ---- sums of squares

inline Function half_of_squares(const Function& residuals) {
  return [residuals](const Tensor& x, std::span<const Tensor> captured) {
    const Tensor r = residuals(x, captured);
    return Tensor(0.5 * dot_of(r, r));
  };
}

struct GaussNewtonState {
  Descent now;
};
inline Minimum run_gauss_newton(const Objective& o, const Function& residuals, const ImplicitArguments& args) {
  auto step = [&](const GaussNewtonState& at) {
    const Tensor j = jacobian_of(residuals, at.now.x, args.captured), r = residuals(at.now.x, args.captured);
    return GaussNewtonState{descend(o, args, at.now, -linalg::lstsq(In(j, o.where), r).solution)};
  };
  return minimum_of(o, jit::while_loop(goes_on(o), step, GaussNewtonState{first_point(o, args)}, o.where).now);
}

struct MarquardtState {
  Descent now;
  Tensor damping, factor;
};
inline Minimum run_levenberg_marquardt(const Objective& o, const Function& residuals, const ImplicitArguments& args) {
  auto step = [&](const MarquardtState& at) {
    const Tensor j = jacobian_of(residuals, at.now.x, args.captured), normal = matmul(transpose(j, 0, 1), j);
    const Tensor scale = diag(normal) + 1e-12 * amax(diag(normal));
    const linalg::SolveEx solved = linalg::solve_ex(In(normal + diag(at.damping * scale), o.where), -at.now.gradient);
    const Tensor dx = where(isfinite(solved.result), solved.result, 0), x = at.now.x + dx;
    auto [value, gradient] = value_and_gradient(o.f, x, args.captured);
    const Tensor predicted = 0.5 * dot_of(dx, at.damping * scale * dx - at.now.gradient);
    const Tensor gain = (at.now.value - value) / predicted, is_better = value < at.now.value;
    const Tensor eased = at.damping * maximum(1 - pow(2 * gain - 1, 3.0), 1. / 3);
    const Tensor damping = where(is_better, eased, at.damping * at.factor);
    const Descent next{where(is_better, x, at.now.x), where(is_better, value, at.now.value),
                       where(is_better, gradient, at.now.gradient), at.now.iterations + 1, damping < 1e15};
    return MarquardtState{next, damping, where(is_better, 2, 2 * at.factor)};
  };
  const Tensor one = ones({}, {.dtype = args.x0.dtype(), .device = args.x0.device()});
  const MarquardtState start{first_point(o, args), 1e-3 * one, 2 * one};
  return minimum_of(o, jit::while_loop(goes_on(o), step, start, o.where).now);
}

SINTER_DECL Minimum least_squares(const jit::Closure& f, const In& x0, const LeastSquaresOptions& options) {
  const Tensor start(x0.tensor());
  require_real("least_squares", "x0", start, x0.where);
  if (f.result_type().dtype != start.dtype())
    throw DTypeError("least_squares",
                     "the function gives " + f.result_type().text() + " for " + start.impl()->type.text(), x0.where,
                     "it must give its argument's dtype");
  const Shape shape = start.shape();
  const Function residuals = flattened(f, shape);
  const Objective o{half_of_squares(residuals), options.tolerance.value_or(standard_tolerance(start.dtype())),
                    options.max_iterations, 0, x0.where};
  const ImplicitArguments args{flat(start), f.captured()};
  auto forward = [o, residuals, method = options.method](const ImplicitArguments& given) {
    return method == LeastSquaresMethod::gauss_newton ? run_gauss_newton(o, residuals, given)
                                                      : run_levenberg_marquardt(o, residuals, given);
  };
  auto backward = [o](const ImplicitArguments& given, const Minimum& found, const Minimum& gradient) {
    return implicit_gradients(gradient_of(o.f), found.x, given, gradient.x, o.where);
  };
  return with_shape(jit::custom_vjp(forward, backward, x0.where)(args), o.f, shape, args.captured);
}

}  // namespace solvers::minimize_detail
SINTER_NAMESPACE_END
