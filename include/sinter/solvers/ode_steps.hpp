// One step of each method of odeint, for flat vectors. Included by .ipp files alone.
#pragma once

#include <sinter/expr/host.hpp>
#include <sinter/jit/control/control.hpp>
#include <sinter/solvers/common.hpp>
#include <sinter/solvers/ode.hpp>
#include <sinter/solvers/ode_tableaux.hpp>

#include <algorithm>
#include <cmath>

SINTER_NAMESPACE_BEGIN
namespace solvers::ode_detail {

using namespace detail;

/// f(t, y) with the values that it captured.
using RateFunction = std::function<Tensor(const Tensor& t, const Tensor& y, std::span<const Tensor> captured)>;
struct Equation {
  RateFunction f;
  OdeMethod method{};
  OdeGradient gradient{};
  double rtol = 0, atol = 0, first_step = 0;
  std::int64_t max_steps = 0;
  Location where{};
};

/// What a step from (t, y) of size h has given.
struct Attempt {
  Tensor y, f;
  Tensor error;  // at most 1: within the tolerance
  Tensor dense;  // rk45: y at t + theta h is y + h (dense[0] theta + ... + dense[3] theta^4)
};
/// Where a step begins. f is the rate there.
struct Start {
  Tensor t, y, f, h;
};

inline Tensor root_mean_square(const Tensor& x) { return sqrt(mean(square(x))); }
inline Tensor scale_of(const Equation& e, const Tensor& a, const Tensor& b) {
  return e.atol + e.rtol * maximum(abs(a), abs(b));
}
/// What is added up of stages.
template <class Weights>
Tensor weighted_sum(const Tensors& stages, std::size_t count, const Weights& weight) {
  Tensor total;
  bool is_first = true;
  for (std::size_t i = 0; i < count; ++i) {
    if (weight(i) == 0) continue;
    total = is_first ? Tensor(stages[i] * weight(i)) : Tensor(total + stages[i] * weight(i));
    is_first = false;
  }
  return is_first ? zeros_like(stages[0]) : total;
}

/// All stages, the last of which is the rate at the end, and the end.
template <std::size_t Count>
Tensor run_stages(const Equation& e, std::span<const Tensor> captured, const Tableau<Count>& tableau, const Start& at,
                  Tensors& stages) {
  Tensor y;
  stages = {at.f};
  for (std::size_t stage = 1; stage <= Count; ++stage) {
    y = at.y + at.h * weighted_sum(stages, stage, [&](std::size_t i) { return tableau.weight(stage, i); });
    stages.push_back(e.f(at.t + at.h * tableau.c[stage], y, captured));
  }
  return y;
}

inline Attempt try_rk45(const Equation& e, std::span<const Tensor> captured, const Start& at) {
  Tensors k, dense;
  const Tensor y = run_stages(e, captured, rk45_tableau, at, k);
  const Tensor error = at.h * weighted_sum(k, 7, [](std::size_t i) { return rk45_error[i]; });
  for (std::size_t power = 0; power < 4; ++power)
    dense.push_back(weighted_sum(k, 7, [power](std::size_t i) { return rk45_dense[i][power]; }));
  return {y, k[6], root_mean_square(error / scale_of(e, at.y, y)), stack(dense, 0)};
}

/// The error by two estimates of orders 5 and 3 (Hairer, Norsett and Wanner, II.10).
inline Attempt try_dopri8(const Equation& e, std::span<const Tensor> captured, const Start& at) {
  Tensors k;
  const Tensor y = run_stages(e, captured, dopri8_tableau, at, k), scale = scale_of(e, at.y, y);
  auto estimate = [&](const std::array<double, 13>& weights) {
    return mean(square(weighted_sum(k, 13, [&](std::size_t i) { return weights[i]; }) / scale));
  };
  const Tensor fifth = estimate(dopri8_error5), third = estimate(dopri8_error3);
  const Tensor error = abs(at.h) * safe_quotient(fifth, sqrt(fifth + 0.01 * third));
  return {y, k[12], error, zeros_like(error)};
}

// ---- Radau IIA (Hairer and Wanner, Solving Ordinary Differential Equations II, IV.5 and IV.8)

inline constexpr double sqrt6 = 2.449489742783178;
inline constexpr int newton_iterations = 10;

inline Tensor numbers_like(const Tensor& y, std::vector<double> values, const Shape& shape) {
  return cast(copy_of(values, shape), y.dtype()).to(y.device());
}
inline Tensor radau_matrix(const Tensor& y) {
  return numbers_like(
      y,
      {(88 - 7 * sqrt6) / 360, (296 - 169 * sqrt6) / 1800, (-2 + 3 * sqrt6) / 225, (296 + 169 * sqrt6) / 1800,
       (88 + 7 * sqrt6) / 360, (-2 - 3 * sqrt6) / 225, (16 - sqrt6) / 36, (16 + sqrt6) / 36, 1. / 9},
      {3, 3});
}
/// The equations of the three stages, y + z[i], where z is a flat (3, n).
inline Tensor stage_equations(const Equation& e, std::span<const Tensor> captured, const Start& at, const Tensor& z) {
  const double nodes[] = {(4 - sqrt6) / 10, (4 + sqrt6) / 10, 1};
  const Tensor rows = reshape(z, {3, at.y.numel()});
  Tensors rates;
  for (int i = 0; i < 3; ++i) rates.push_back(e.f(at.t + at.h * nodes[i], at.y + rows(i), captured));
  return flat(rows - at.h * matmul(radau_matrix(at.y), stack(rates, 0)));
}

struct NewtonState {
  Tensor z, change, iterations;
};
/// Newton's method with one matrix; where the steps are differentiated, once more with the exact one: at the solution
/// that iteration has the derivatives that the solution has.
inline std::pair<Tensor, Tensor> solve_stages(const Equation& e, std::span<const Tensor> captured, const Start& at,
                                              const Tensor& jacobian) {
  const Dim n = at.y.numel();
  const Tensor matrix =
      eye(Dim(3) * n, {.dtype = at.y.dtype(), .device = at.y.device()}) - at.h * kron(radau_matrix(at.y), jacobian);
  const linalg::LuFactorEx lu = linalg::lu_factor_ex(In(stop_gradient(matrix), e.where));
  auto correction = [&](const Tensor& z) {
    return linalg::lu_solve(lu.lu, lu.pivots, stage_equations(e, captured, at, z));
  };
  const Tensor scale = flat(expand(unsqueeze(scale_of(e, at.y, at.y), 0), {3, n}));
  // Of the tolerance; where that is near the rounding of y, what rounding leaves of it.
  const double rounding = at.y.dtype() == DType::f64 ? 2.2e-16 : 1.2e-7;
  const double enough = e.rtol > 0 ? std::clamp(10 * rounding / e.rtol, 1e-3, 0.1) : 1e-3;
  auto goes_on = [&](const NewtonState& s) { return logical_and(s.change > enough, s.iterations < newton_iterations); };
  auto iterate = [&](const NewtonState& s) {
    const Tensor dz = correction(s.z);
    return NewtonState{s.z - dz, root_mean_square(dz / scale), s.iterations + 1};
  };
  const Tensor zero = zeros_like(scale);
  const NewtonState end =
      jit::while_loop(goes_on, iterate, NewtonState{zero, sum(zero) + 1, zero_count(at.y)}, e.where);
  const Tensor is_solved = logical_and(lu.info == 0, end.change <= enough);
  if (e.gradient == OdeGradient::adjoint) return {end.z, is_solved};
  const Tensor z = stop_gradient(end.z);
  auto equations = [&](const Tensor& v) { return stage_equations(e, captured, at, v); };
  const Tensor exact = stop_gradient(jit::jacobian(equations)(z));
  return {z - linalg::solve_ex(In(exact, e.where), equations(z)).result, stop_gradient(is_solved)};
}

inline Attempt try_radau(const Equation& e, std::span<const Tensor> captured, const Start& at) {
  const Dim n = at.y.numel();
  const Tensor jacobian = stop_gradient(jit::jacobian([&](const Tensor& v) { return e.f(at.t, v, captured); })(at.y));
  const auto [z, is_solved] = solve_stages(e, captured, at, jacobian);
  const Tensor rows = reshape(z, {3, n}), y = at.y + rows(2);
  const double gamma = 3 + std::pow(3., 2. / 3) - std::pow(3., 1. / 3);
  const Tensor weights = numbers_like(at.y, {(-13 - 7 * sqrt6) / 3, (-13 + 7 * sqrt6) / 3, -1. / 3}, {3});
  const Tensor of_stages = matmul(weights, rows) / at.h;
  const Tensor matrix = eye(n, {.dtype = at.y.dtype(), .device = at.y.device()}) * (gamma / at.h) - jacobian;
  const linalg::LuFactorEx lu = linalg::lu_factor_ex(In(stop_gradient(matrix), e.where));
  auto filtered = [&](const Tensor& rate) {
    return linalg::lu_solve(lu.lu, lu.pivots, stop_gradient(rate + of_stages));
  };
  // A stiff part that is far from its equilibrium looks like an error until it is filtered twice.
  const Tensor scale = stop_gradient(scale_of(e, at.y, y)), once = filtered(at.f);
  const Tensor twice = filtered(e.f(at.t, at.y + once, captured));
  const Tensor rough = root_mean_square(once / scale), fine = root_mean_square(twice / scale);
  const Tensor error = where(rough < 1, rough, fine);
  return {y, e.f(at.t + at.h, y, captured), where(is_solved, error, std::numeric_limits<double>::quiet_NaN()),
          zeros_like(error)};
}

inline Attempt try_step(const Equation& e, std::span<const Tensor> captured, const Start& at) {
  switch (e.method) {
    case OdeMethod::rk45: return try_rk45(e, captured, at);
    case OdeMethod::dopri8: return try_dopri8(e, captured, at);
    case OdeMethod::radau: return try_radau(e, captured, at);
  }
  return {};
}
/// What the error of a step goes with: the size to this power.
inline double error_order(OdeMethod method) {
  switch (method) {
    case OdeMethod::rk45: return 5;
    case OdeMethod::dopri8: return 8;
    case OdeMethod::radau: return 4;
  }
  return 1;
}

}  // namespace solvers::ode_detail
SINTER_NAMESPACE_END
