// Inverse distribution functions of uniform numbers, and races of exponential ones.
#pragma once

#include <sinter/expr/distributions.hpp>

#include <sinter/expr/recording.hpp>
#include <sinter/expr/term.hpp>

#include <cmath>
#include <numbers>

SINTER_NAMESPACE_BEGIN

namespace expr_detail {
inline void require_parameter(bool holds, std::string_view op, const char* parameter, double value, const char* rule,
                              Location where) {
  if (!holds) throw UserError(op, std::string(parameter) + " is " + std::to_string(value), where, rule);
}
/// Mean 1. Uniform numbers are below 1, so all are finite.
inline Term standard_exponential(const Shape& shape, TensorOptions options, Location where) {
  if (const DType dtype = options.dtype_or(DType::f32); is_half(dtype)) {
    options.dtype = DType::f32;
    return {cast(standard_exponential(shape, options, where), dtype), where};
  }
  const Term u(rand(shape, options, where), where);
  return -apply<ops::Log1p>(-u);
}
}  // namespace expr_detail

SINTER_DECL Tensor uniform(double low, double high, const Shape& shape, TensorOptions options, Location where) {
  expr_detail::require_parameter(low <= high, "uniform", "low", low, "it must be at most `high`", where);
  return expr_detail::Term(rand(shape, options, where), where) * (high - low) + low;
}
SINTER_DECL Tensor normal(double mean, double stddev, const Shape& shape, TensorOptions options, Location where) {
  expr_detail::require_parameter(stddev >= 0, "normal", "stddev", stddev, "it must not be negative", where);
  return expr_detail::Term(randn(shape, options, where), where) * stddev + mean;
}
SINTER_DECL Tensor log_normal(double mean, double stddev, const Shape& shape, TensorOptions options, Location where) {
  expr_detail::require_parameter(stddev >= 0, "log_normal", "stddev", stddev, "it must not be negative", where);
  return expr_detail::apply<ops::Exp>(expr_detail::Term(randn(shape, options, where), where) * stddev + mean);
}
SINTER_DECL Tensor exponential(double rate, const Shape& shape, TensorOptions options, Location where) {
  expr_detail::require_parameter(rate > 0, "exponential", "rate", rate, "it must be positive", where);
  return expr_detail::standard_exponential(shape, options, where) * (1 / rate);
}
SINTER_DECL Tensor cauchy(double median, double scale, const Shape& shape, TensorOptions options, Location where) {
  expr_detail::require_parameter(scale > 0, "cauchy", "scale", scale, "it must be positive", where);
  const expr_detail::Term u(rand(shape, options, where), where);
  return expr_detail::apply<ops::Tan>((u - 0.5) * std::numbers::pi) * scale + median;
}
/// The difference of two exponential numbers: unlike the inverse distribution function it is finite everywhere.
SINTER_DECL Tensor laplace(double mean, double scale, const Shape& shape, TensorOptions options, Location where) {
  expr_detail::require_parameter(scale > 0, "laplace", "scale", scale, "it must be positive", where);
  const expr_detail::Term a = expr_detail::standard_exponential(shape, options, where);
  return (a - expr_detail::standard_exponential(shape, options, where)) * scale + mean;
}
SINTER_DECL Tensor geometric(double p, const Shape& shape, TensorOptions options, Location where) {
  expr_detail::require_parameter(p > 0 && p <= 1, "geometric", "p", p, "it must be in (0, 1]", where);
  const expr_detail::Term time = expr_detail::standard_exponential(shape, options, where);
  return expr_detail::apply<ops::Floor>(time * (-1 / std::log1p(-p))) + 1.0;
}

SINTER_DECL Tensor bernoulli(const In& p) {
  const expr_detail::Term t(p);
  if (!is_floating(t.dtype()))
    throw DTypeError("bernoulli", "p is " + std::string(name(t.dtype())), p.where, "convert it: p.to(f32)");
  return cast(expr_detail::Term(rand_like(t), p.where) < t, t.dtype());
}
namespace expr_detail {
/// A number for each parameter, drawn by an op that takes a uniform number to start from.
template <class Op>
Tensor drawn_on_host(const In& parameter, std::string_view op) {
  const Term given(parameter);
  if (!is_floating(given.dtype()))
    throw DTypeError(op, "the parameter is " + std::string(name(given.dtype())), parameter.where,
                     "convert it: x.to(f32)");
  const Term wide(cast(given, DType::f64), parameter.where);
  const Term start(rand(given.shape(), {.dtype = DType::f64, .device = given.value.device()}, parameter.where),
                   parameter.where);
  return cast(apply<Op>(wide, start), given.dtype());
}
}  // namespace expr_detail
SINTER_DECL Tensor poisson(const In& rate) { return expr_detail::drawn_on_host<ops::PoissonSample>(rate, "poisson"); }
SINTER_DECL Tensor standard_gamma(const In& alpha) {
  return expr_detail::drawn_on_host<ops::GammaSample>(alpha, "standard_gamma");
}
/// A number below 1 that f64 holds, times at most 2^53, is rounded to no more than the number below the product with 1.
SINTER_DECL Tensor randint(std::int64_t low, std::int64_t high, const Shape& shape, TensorOptions options,
                           Location where) {
  if (low >= high)
    throw UserError("randint", "low is " + std::to_string(low) + ", high is " + std::to_string(high), where,
                    "low must be less than high");
  const std::uint64_t numbers = static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low);
  if (numbers > std::uint64_t{1} << 53)
    throw UserError("randint", std::to_string(numbers) + " numbers to choose from", where, "there may be 2^53");
  const expr_detail::Term u(rand(shape, {.dtype = DType::f64, .device = options.device}, where), where);
  const Tensor steps = cast(expr_detail::apply<ops::Floor>(u * static_cast<double>(numbers)), DType::i64);
  return cast(In(Tensor(steps + low), where), options.dtype_or(DType::i64));
}
SINTER_DECL Tensor randperm(Dim count, TensorOptions options, Location where) {
  const Tensor keys = rand({count}, {.dtype = DType::f64, .device = options.device}, where);
  return cast(In(argsort(In(keys, where)), where), options.dtype_or(DType::i64));
}
/// With replacement by the inverse of the sums of weights. Without it the first in a race: times that are exponential
/// with the weights as rates finish in the order of draws without replacement (Efraimidis and Spirakis 2006).
SINTER_DECL Tensor multinomial(const In& weights, Dim count, Replacement replacement) {
  using expr_detail::Term;
  const Location where = weights.where;
  const Term given(weights);
  const Shape shape = given.shape();
  if (!is_floating(given.dtype()))
    throw DTypeError("multinomial", "weights are " + std::string(name(given.dtype())), where,
                     "convert them: weights.to(f32)");
  if (shape.rank() != 1 && shape.rank() != 2)
    throw ShapeError("multinomial", "weights are " + shape.text(), where, "they must be [n] or [rows, n]");
  const TensorOptions in_f64{.dtype = DType::f64, .device = given.value.device()};
  const Term w(cast(given, DType::f64), where);
  if (replacement == Replacement::no) {
    if (!expr_detail::is_at_most(count, shape[-1]))
      throw ShapeError("multinomial", count.text() + " of " + shape[-1].text() + " elements", where,
                       "draw no more than there are, or with Replacement::yes");
    const Term speed = w / expr_detail::standard_exponential(shape, in_f64, where);
    return topk(where_of(w == 0.0, -1.0, speed), count).indices;
  }
  Shape drawn = shape;
  drawn.set(shape.rank() - 1, count);
  const Term sums(cumsum(w, -1), where), total(narrow(sums, -1, shape[-1] - Dim(1), 1), where);
  return searchsorted(sums, Term(rand(drawn, in_f64, where), where) * total, {.right = true});
}

SINTER_NAMESPACE_END
