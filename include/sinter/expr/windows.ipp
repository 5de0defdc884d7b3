// Windows as formulas of the position.
#pragma once

#include <sinter/expr/windows.hpp>

#include <sinter/expr/recording.hpp>
#include <sinter/expr/term.hpp>

#include <cmath>
#include <numbers>

SINTER_NAMESPACE_BEGIN

namespace expr_detail {
inline Term positions_of(Dim count, const window::Options& options, Location where) {
  return {arange(count, {.dtype = DType::f64, .device = options.device}, where), where};
}
inline Term in_f64(Dim extent, Location where) { return {cast(In(Scalar(extent), where), DType::f64), where}; }
/// The number of steps from the first element to where the window would have its last one.
inline Dim intervals_of(Dim count, const window::Options& options) {
  return options.ends == window::Ends::symmetric ? count - Dim(1) : count;
}
/// `formula` of the count, but one element is 1 (formulas divide by the steps, which are 0 then).
template <class Formula>
Tensor make_window(std::string_view op, Dim count, const window::Options& options, Location where,
                   const Formula& formula) {
  if (!is_floating(options.dtype))
    throw DTypeError(op, "dtype " + std::string(name(options.dtype)) + " is not floating", where);
  if (!is_at_most(0, count)) throw ShapeError(op, "a window of " + count.text() + " elements", where);
  if (count == Dim(1)) return ones({1}, {.dtype = options.dtype, .device = options.device}, where);
  const Term value = formula(positions_of(count, options, where));
  return cast(value, options.dtype);
}
inline Tensor cosines(std::string_view op, Dim count, std::initializer_list<double> weights,
                      const window::Options& options, Location where) {
  if (weights.size() == 0) throw UserError(op, "there are no weights", where);
  return make_window(op, count, options, where, [&](const Term& k) {
    const Term angle = k * (2 * std::numbers::pi) / in_f64(intervals_of(count, options), where);
    Term sum = k * 0.0;
    int i = 0;
    for (double weight : weights) {
      sum = sum + apply<ops::Cos>(angle * i) * (i % 2 == 0 ? weight : -weight);
      ++i;
    }
    return sum;
  });
}
}  // namespace expr_detail

namespace window {

SINTER_DECL Tensor general_cosine(Dim count, std::initializer_list<double> weights, Options options, Location where) {
  return expr_detail::cosines("general_cosine", count, weights, options, where);
}
SINTER_DECL Tensor general_hamming(Dim count, double alpha, Options options, Location where) {
  return expr_detail::cosines("general_hamming", count, {alpha, 1 - alpha}, options, where);
}
SINTER_DECL Tensor hann(Dim count, Options options, Location where) {
  return expr_detail::cosines("hann", count, {0.5, 0.5}, options, where);
}
SINTER_DECL Tensor hamming(Dim count, Options options, Location where) {
  return expr_detail::cosines("hamming", count, {0.54, 0.46}, options, where);
}
SINTER_DECL Tensor blackman(Dim count, Options options, Location where) {
  return expr_detail::cosines("blackman", count, {0.42, 0.5, 0.08}, options, where);
}
SINTER_DECL Tensor nuttall(Dim count, Options options, Location where) {
  return expr_detail::cosines("nuttall", count, {0.3635819, 0.4891775, 0.1365995, 0.0106411}, options, where);
}
SINTER_DECL Tensor bartlett(Dim count, Options options, Location where) {
  return expr_detail::make_window("bartlett", count, options, where, [&](const expr_detail::Term& k) {
    return 1.0 - absolute(k * 2.0 / expr_detail::in_f64(expr_detail::intervals_of(count, options), where) - 1.0);
  });
}
SINTER_DECL Tensor cosine(Dim count, Options options, Location where) {
  return expr_detail::make_window("cosine", count, options, where, [&](const expr_detail::Term& k) {
    const Dim steps = expr_detail::intervals_of(count, options) + Dim(1);
    return expr_detail::apply<ops::Sin>((k + 0.5) * std::numbers::pi / expr_detail::in_f64(steps, where));
  });
}
SINTER_DECL Tensor gaussian(Dim count, double stddev, Options options, Location where) {
  if (!(stddev > 0)) throw UserError("gaussian", "stddev is " + std::to_string(stddev), where, "it must be positive");
  return expr_detail::make_window("gaussian", count, options, where, [&](const expr_detail::Term& k) {
    const expr_detail::Term centre = expr_detail::in_f64(expr_detail::intervals_of(count, options), where) * 0.5;
    return expr_detail::apply<ops::Exp>(squared((k - centre) * (1 / stddev)) * -0.5);
  });
}
SINTER_DECL Tensor exponential(Dim count, double tau, std::optional<double> centre, Options options, Location where) {
  if (!(tau > 0)) throw UserError("exponential", "tau is " + std::to_string(tau), where, "it must be positive");
  if (centre && options.ends == Ends::symmetric)
    throw UserError("exponential", "a symmetric window with a centre of its own", where,
                    "leave the centre out, or take Ends::periodic");
  return expr_detail::make_window("exponential", count, options, where, [&](const expr_detail::Term& k) {
    const expr_detail::Term middle = expr_detail::in_f64(expr_detail::intervals_of(count, options), where) * 0.5;
    const expr_detail::Term away = centre ? k - *centre : k - middle;
    return expr_detail::apply<ops::Exp>(absolute(away) * (-1 / tau));
  });
}
/// i0(beta r) / i0(beta), of which both may be too large for f64, by i0e(x) = e^-x i0(x).
SINTER_DECL Tensor kaiser(Dim count, double beta, Options options, Location where) {
  if (!(beta >= 0)) throw UserError("kaiser", "beta is " + std::to_string(beta), where, "it must not be negative");
  return expr_detail::make_window("kaiser", count, options, where, [&](const expr_detail::Term& k) {
    using expr_detail::Term;
    const Term at = k * 2.0 / expr_detail::in_f64(expr_detail::intervals_of(count, options), where) - 1.0;
    const Term scaled = expr_detail::apply<ops::Sqrt>(expr_detail::at_least(1.0 - squared(at), 0)) * beta;
    const Term whole = expr_detail::apply<ops::I0e>(k * 0.0 + beta);
    return expr_detail::apply<ops::I0e>(scaled) / whole * expr_detail::apply<ops::Exp>(scaled - beta);
  });
}

}  // namespace window
SINTER_NAMESPACE_END
