// The loop over steps and times, the size of steps, and the adjoint equation.
#pragma once

#include <sinter/solvers/ode.hpp>

#include <sinter/solvers/ode_steps.hpp>

#include <limits>
#include <string>
#include <utility>

SINTER_NAMESPACE_BEGIN
namespace solvers::ode_detail {

/// Between two steps. The last one went from t0 and y0 to t and y.
struct OdeState {
  Tensor t0, y0, dense;
  Tensor t, y, f;
  Tensor size;  // of the next step, without its sign
  Tensor steps, tries, is_going;
};
struct OdeArguments {
  Tensor y0, times;
  Tensors captured;
};

/// A first step whose error will be small (Hairer, Norsett and Wanner, II.4).
inline Tensor first_size(const Equation& e, const OdeArguments& args, const Tensor& f, const Tensor& span) {
  const Tensor& y = args.y0;
  if (e.first_step > 0) return minimum(full_like(abs(span), e.first_step), abs(span));
  const Tensor scale = scale_of(e, y, y), d0 = root_mean_square(y / scale), d1 = root_mean_square(f / scale);
  const Tensor is_small = logical_or(d0 < 1e-5, d1 < 1e-5);
  const Tensor h0 = minimum(where(is_small, 1e-6, 0.01 * d0 / where(is_small, 1, d1)), abs(span));
  const Tensor next = e.f(args.times(0) + sign(span) * h0, y + sign(span) * h0 * f, args.captured);
  const Tensor d2 = root_mean_square((next - f) / scale) / where(h0 == 0, 1, h0), steepest = maximum(d1, d2);
  const Tensor is_flat = steepest <= 1e-15;
  const Tensor by_rates = pow(0.01 / where(is_flat, 1, steepest), 1 / error_order(e.method));
  const Tensor h1 = where(is_flat, maximum(h0 * 1e-3, 1e-6), by_rates);
  return minimum(minimum(100 * h0, h1), abs(span));
}

inline Tensor goes_on(const Equation& e, const OdeState& s, const Tensor& target, const Tensor& direction) {
  const Tensor is_before = (target - s.t) * direction > 0;
  return logical_and(logical_and(is_before, s.is_going), s.tries < e.max_steps);
}

/// Tries one step towards `target`, no further than `end`.
inline OdeState next_state(const Equation& e, const OdeArguments& args, const OdeState& s, const Tensor& target,
                           const Tensor& direction) {
  const Tensor last = args.times(args.times.size(0) - Dim(1)), end = e.method == OdeMethod::rk45 ? last : target;
  const Tensor left = abs(end - s.t), is_last = s.size >= left;
  const Tensor size = where(is_last, left, s.size), h = size * direction;
  const Attempt made = try_step(e, args.captured, {s.t, s.y, s.f, h});
  const Tensor error = stop_gradient(made.error), is_accepted = error <= 1;
  const Tensor grown = 0.9 * pow(maximum(error, 1e-10), -1 / error_order(e.method));
  const Tensor factor = where(isfinite(error), clamp(grown, 0.2, 10), 0.2);
  // A step that was cut short says nothing against the size that was meant.
  const Tensor proposed = size * where(is_accepted, factor, minimum(factor, 0.9));
  const Tensor next_size = stop_gradient(where(logical_and(is_accepted, is_last), maximum(proposed, s.size), proposed));
  const double smallest = s.t.dtype() == DType::f64 ? 1e-15 : 1e-7;
  const Tensor is_going = next_size > smallest * maximum(abs(s.t), 1e-30);
  return {where(is_accepted, s.t, s.t0),
          where(is_accepted, s.y, s.y0),
          where(is_accepted, made.dense, s.dense),
          where(is_accepted, where(is_last, end, s.t + h), s.t),
          where(is_accepted, made.y, s.y),
          where(is_accepted, made.f, s.f),
          next_size,
          s.steps + 1,
          s.tries + 1,
          is_going};
}

/// Steps until the target is reached or passed.
inline OdeState advance(const Equation& e, const OdeArguments& args, const OdeState& start, const Tensor& target,
                        const Tensor& direction) {
  auto test = [&](const OdeState& s) { return goes_on(e, s, target, direction); };
  auto step = [&](const OdeState& s) { return next_state(e, args, s, target, direction); };
  if (e.gradient == OdeGradient::adjoint) return jit::while_loop(test, step, start, e.where);
  return jit::fori_loop(
      0, e.max_steps,
      [&](const Scalar&, const OdeState& s) {
        return jit::cond(In(test(s), e.where), step, [](const OdeState& done) { return done; }, s);
      },
      start, e.where);
}

/// y at the target, which lies in the last step; NaN where that was not reached.
inline Tensor value_at(const Equation& e, const OdeState& s, const Tensor& target, const Tensor& direction) {
  const Tensor is_reached = (target - s.t) * direction <= 0;
  Tensor y = s.y;
  if (e.method == OdeMethod::rk45) {
    const Tensor h = s.t - s.t0, is_inside = logical_and(h != 0, target != s.t);
    const Tensor theta = where(is_inside, (target - s.t0) / where(h == 0, 1, h), 1);
    const Tensor rise =
        s.dense(0) * theta + s.dense(1) * (theta * theta) + s.dense(2) * pow(theta, 3.) + s.dense(3) * pow(theta, 4.);
    y = where(is_inside, s.y0 + h * rise, s.y);
  }
  return where(is_reached, y, std::numeric_limits<double>::quiet_NaN());
}

inline OdeSolution run(const Equation& e, const OdeArguments& args) {
  const Tensor t0 = args.times(0), span = stop_gradient(args.times(args.times.size(0) - Dim(1)) - t0);
  const Tensor direction = sign(span), f = e.f(t0, args.y0, args.captured);
  const Dim n = args.y0.numel();
  const TensorOptions like{.dtype = args.y0.dtype(), .device = args.y0.device()};
  const Tensor dense = e.method == OdeMethod::rk45 ? zeros({4, n}, like) : zeros({}, like);
  const Tensor size = stop_gradient(first_size(e, args, f, span)), zero = zero_count(args.y0);
  const OdeState start{t0, args.y0, dense, t0, args.y0, f, size, zero, zero, isfinite(size)};
  auto to_next = [&](const OdeState& s, const Tensor& target) {
    OdeState fresh = s;
    fresh.tries = zero;
    const OdeState end = advance(e, args, fresh, target, direction);
    return std::tuple{end, value_at(e, end, target, direction)};
  };
  const Tensor targets = narrow(args.times, 0, 1, args.times.size(0) - Dim(1));
  const auto [end, values] = jit::scan(to_next, start, targets, {}, e.where);
  const Tensor y = cat({unsqueeze(args.y0, 0), values}, 0);
  return {y, all(logical_not(isnan(stop_gradient(y)))), end.steps};
}

// ---- the adjoint equation

/// Gradients of the floating ones, end to end.
inline Tensor joined(std::span<const Tensor> list, DType dtype) {
  Tensors parts;
  for (const Tensor& x : list)
    if (is_floating(x.dtype())) parts.push_back(flat(cast(x, dtype)));
  return cat(parts, 0);
}
inline Tensors taken_apart(const Tensor& joined_ones, std::span<const Tensor> like) {
  Tensors out;
  Dim at = 0;
  for (const Tensor& x : like) {
    if (!is_floating(x.dtype())) {
      out.push_back(x);
      continue;
    }
    out.push_back(cast(reshape(narrow(joined_ones, 0, at, x.numel()), x.shape()), x.dtype()));
    at += x.numel();
  }
  return out;
}
struct RateArguments {
  Tensor y;
  Tensors captured;
};
/// Of (y, a, g): y' = f, a' = -a df/dy, g' = -a df/dc, where c is what f captured.
inline RateFunction adjoint_rate(const RateFunction& f, Dim n) {
  return [f, n](const Tensor& t, const Tensor& state, std::span<const Tensor> captured) {
    const Tensor a = narrow(state, 0, n, n);
    const RateArguments at{narrow(state, 0, 0, n), Tensors(captured.begin(), captured.end())};
    const auto [rate, pullback] = jit::vjp([&](const RateArguments& x) { return f(t, x.y, x.captured); }, at);
    const RateArguments gradients = pullback(a);
    if (!has_floating(captured)) return cat({rate, -gradients.y}, 0);
    return cat({rate, -gradients.y, -joined(gradients.captured, a.dtype())}, 0);
  };
}

inline OdeSolution solve_with_rule(const Equation& e, const OdeArguments& args, int orders);

/// Integrates the adjoint equation from each of the times to the one before it, from the value that odeint gave there.
inline OdeArguments adjoint_gradients(const Equation& e, const OdeArguments& args, const Tensor& y, const Tensor& dy,
                                      int orders) {
  const Dim n = args.y0.numel(), count = args.times.size(0), before = count - Dim(1);
  Equation adjoint = e;
  adjoint.f = adjoint_rate(e.f, n);
  adjoint.first_step = 0;
  const bool has_captured = has_floating(args.captured);
  const Tensor none = zeros_like(args.y0);
  struct Carry {
    Tensor a, g;
  };
  auto to_one_before = [&](const Carry& carry, const std::tuple<Tensor, Tensor, Tensor, Tensor>& slices) {
    const auto& [value, gradient, from, to] = slices;
    const Tensor a = carry.a + gradient;
    const Tensor state = has_captured ? cat({value, a, carry.g}, 0) : cat({value, a}, 0);
    const OdeArguments back{state, stack({from, to}, 0), args.captured};
    const Tensor end = solve_with_rule(adjoint, back, orders - 1).y(1);
    const Tensor g = has_captured ? narrow(end, 0, Dim(2) * n, end.numel() - Dim(2) * n) : carry.g;
    return std::tuple{Carry{narrow(end, 0, n, n), g}, dot_of(gradient, e.f(from, value, args.captured))};
  };
  const Tensor zeros_of_captured = has_captured ? zeros_like(joined(args.captured, args.y0.dtype())) : zeros_like(none);
  const auto [end, by_time] = jit::scan(to_one_before, Carry{none, zeros_of_captured},
                                        std::tuple{narrow(y, 0, 1, before), narrow(dy, 0, 1, before),
                                                   narrow(args.times, 0, 1, before), narrow(args.times, 0, 0, before)},
                                        {.reverse = true}, e.where);
  const Tensor by_first = -dot_of(end.a, e.f(args.times(0), args.y0, args.captured));
  return {end.a + dy(0), cat({unsqueeze(by_first, 0), by_time}, 0),
          has_captured ? taken_apart(end.g, args.captured) : args.captured};
}

inline OdeSolution solve_with_rule(const Equation& e, const OdeArguments& args, int orders) {
  if (e.gradient == OdeGradient::discrete || orders == 0) return run(e, args);
  return jit::custom_vjp([e](const OdeArguments& given) { return run(e, given); },
                         [e, orders](const OdeArguments& given, const OdeSolution& found, const OdeSolution& gradient) {
                           return adjoint_gradients(e, given, found.y, gradient.y, orders);
                         },
                         e.where)(args);
}

SINTER_DECL Tensor first_time(const In& times, const Tensor& y0) {
  const Tensor list(times.tensor());
  if (list.rank() != 1 || list.size(0) < Dim(1))
    throw ShapeError("odeint", "times are " + list.impl()->type.text(), times.where,
                     "they must be a list, the first of which is that of y0");
  return cast(In(list, times.where), y0.dtype())(0);
}

SINTER_DECL OdeSolution odeint(const jit::Closure& f, const In& y0, const In& times, const OdeOptions& options) {
  const Tensor start(y0.tensor());
  const Location where = y0.where;
  require_real("odeint", "y0", start, where);
  require_endomorphism("odeint", f, start, where);
  if (options.max_steps < 1)
    throw UserError("odeint", "max_steps is " + std::to_string(options.max_steps), where, "1 at least");
  const bool is_wide = start.dtype() == DType::f64;
  const Shape shape = start.shape();
  const RateFunction rate = [f, shape](const Tensor& t, const Tensor& y, std::span<const Tensor> captured) {
    const Tensor args[] = {t, reshape(y, shape)};
    return flat(f(args, captured));
  };
  const Equation e{rate,
                   options.method,
                   options.gradient,
                   options.rtol.value_or(is_wide ? 1e-6 : 1e-4),
                   options.atol.value_or(is_wide ? 1e-9 : 1e-6),
                   options.first_step,
                   options.max_steps,
                   where};
  const Tensor list = cast(In(Tensor(times.tensor()), times.where), start.dtype());
  OdeSolution found = solve_with_rule(e, {flat(start), list, f.captured()}, 2);
  std::vector<Dim> extents{list.size(0)};
  for (Dim extent : shape.dims()) extents.push_back(extent);
  found.y = reshape(found.y, Shape(extents));
  return found;
}

}  // namespace solvers::ode_detail
SINTER_NAMESPACE_END
