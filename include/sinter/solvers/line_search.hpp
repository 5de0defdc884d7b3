// What solvers of equations and minimisers share: functions of flat vectors, steps that are halved until they are good
// enough, and the derivative of a root. Included by .ipp files alone.
#pragma once

#include <sinter/jit/control/control.hpp>
#include <sinter/solvers/common.hpp>

SINTER_NAMESPACE_BEGIN
namespace solvers::detail {

/// What a solution depends on: where it begins, and what the function captured.
struct ImplicitArguments {
  Tensor x0;
  Tensors captured;
};

/// f of flat vectors, for an x of this shape.
inline Function flattened(const Function& f, const Shape& shape) {
  return [f, shape](const Tensor& x, std::span<const Tensor> captured) { return flat(f(reshape(x, shape), captured)); };
}
inline Tensor jacobian_of(const Function& f, const Tensor& x, std::span<const Tensor> captured) {
  return jit::jacobian([&](const Tensor& v) { return f(v, captured); })(x);
}
/// The gradient of a scalar function, as a function.
inline Function gradient_of(const Function& f) {
  return [f](const Tensor& x, std::span<const Tensor> captured) {
    return jit::grad([&](const Tensor& v) { return f(v, captured); })(x);
  };
}

struct Step {
  Tensor size, merit, tries;
};
inline constexpr int most_halvings = 30;
/// The first of the sizes 1, 1/2, 1/4, ... with merit(x + size * direction) <= merit0 + 1e-4 * size * slope (Armijo
/// 1966), up to rounding. Where there is none, a NaN merit included, `tries` is most_halvings.
template <class Merit>
Step backtrack(const Merit& merit, const Tensor& x, const Tensor& direction, const Tensor& merit0, const Tensor& slope,
               Location where) {
  const double rounding = x.dtype() == DType::f64 ? 1e-15 : 1e-6;
  const Tensor slack = abs(merit0) * rounding;
  const Tensor one = ones({}, {.dtype = x.dtype(), .device = x.device()});
  auto goes_on = [&](const Step& at) {
    const Tensor is_enough = at.merit <= merit0 + 1e-4 * at.size * slope + slack;
    return logical_and(logical_not(is_enough), at.tries < most_halvings);
  };
  auto halve = [&](const Step& at) {
    const Tensor size = at.size * 0.5;
    return Step{size, merit(x + size * direction), at.tries + 1};
  };
  return jit::while_loop(goes_on, halve, Step{one, merit(x + direction), zero_count(x)}, where);
}

/// From f(x, c) = 0: df/dx dx = -df/dc dc. So a gradient g of x gives u with (df/dx)^T u = g, and to c that of -u f.
inline ImplicitArguments implicit_gradients(const Function& f, const Tensor& x, const ImplicitArguments& given,
                                            const Tensor& gradient, Location where) {
  const Tensor matrix = transpose(jacobian_of(f, x, given.captured), 0, 1);
  const Tensor u = linalg::solve(In(matrix, where), gradient);
  return {zeros_like(given.x0), pulled_back_to_captured(f, x, given.captured, -u)};
}

}  // namespace solvers::detail
SINTER_NAMESPACE_END
