// Formulas of uniform and normal numbers, and a race for classes.
#pragma once

#include <sinter/expr/sampling.hpp>

#include <sinter/expr/creation.ipp>
#include <sinter/expr/distributions.ipp>
#include <sinter/expr/recording.hpp>
#include <sinter/expr/term.hpp>

#include <numbers>
#include <string>
#include <utility>

SINTER_NAMESPACE_BEGIN
namespace expr_detail {

/// Parameters as they are, and what a draw for each takes.
struct Parameters {
  Term first, second;
  Shape shape;
  TensorOptions options;
};
inline Parameters parameters_of(const In& a, const In& b, std::string_view op) {
  const Term first = floating(operand_beside(a, b)), second = floating(operand_beside(b, a));
  const DType dtype = common_dtype(a, first, b, second, op);
  const Term& placed = a.leaf.value ? first : second;
  return {first,
          second,
          broadcast(first.shape(), second.shape(), op, a.where),
          {.dtype = dtype, .device = placed.value.device()}};
}
/// centre + width * drawn, where what is drawn has neither.
template <class Draw>
Term moved(const In& centre, const In& width, std::string_view op, const Draw& draw) {
  const Parameters p = parameters_of(centre, width, op);
  return p.first + p.second * draw(p.shape, p.options);
}

}  // namespace expr_detail

SINTER_DECL Tensor uniform(const In& low, const In& high) {
  const expr_detail::Parameters p = expr_detail::parameters_of(low, high, "uniform");
  const expr_detail::Term u(rand(p.shape, p.options, low.where), low.where);
  return p.first + (p.second - p.first) * u;
}
SINTER_DECL Tensor normal(const In& mean, const In& stddev) {
  return expr_detail::moved(mean, stddev, "normal", [&](const Shape& shape, TensorOptions options) {
    return expr_detail::Term(randn(shape, options, mean.where), mean.where);
  });
}
SINTER_DECL Tensor log_normal(const In& mean, const In& stddev) {
  return expr_detail::apply<ops::Exp>(expr_detail::Term(normal(mean, stddev), mean.where));
}
SINTER_DECL Tensor exponential(const In& rate) {
  const expr_detail::Term given = expr_detail::floating(rate);
  const TensorOptions options{.dtype = given.dtype(), .device = given.value.device()};
  return expr_detail::standard_exponential(given.shape(), options, rate.where) / given;
}
SINTER_DECL Tensor cauchy(const In& median, const In& scale) {
  return expr_detail::moved(median, scale, "cauchy", [&](const Shape& shape, TensorOptions options) {
    const expr_detail::Term u(rand(shape, options, median.where), median.where);
    return expr_detail::apply<ops::Tan>((u - 0.5) * std::numbers::pi);
  });
}
SINTER_DECL Tensor laplace(const In& mean, const In& scale) {
  return expr_detail::moved(mean, scale, "laplace", [&](const Shape& shape, TensorOptions options) {
    const expr_detail::Term a = expr_detail::standard_exponential(shape, options, mean.where);
    return a - expr_detail::standard_exponential(shape, options, mean.where);
  });
}
SINTER_DECL Tensor geometric(const In& p) {
  const expr_detail::Term given = expr_detail::floating(p);
  const TensorOptions options{.dtype = given.dtype(), .device = given.value.device()};
  const expr_detail::Term time = expr_detail::standard_exponential(given.shape(), options, p.where);
  return expr_detail::apply<ops::Floor>(time / -expr_detail::apply<ops::Log1p>(-given)) + 1.0;
}

namespace random {

SINTER_DECL Tensor uniform(const Key& key, const In& low, const In& high) {
  const expr_detail::DrawsFrom source(key.data);
  return sinter::uniform(low, high);
}
SINTER_DECL Tensor normal(const Key& key, const In& mean, const In& stddev) {
  const expr_detail::DrawsFrom source(key.data);
  return sinter::normal(mean, stddev);
}
SINTER_DECL Tensor log_normal(const Key& key, const In& mean, const In& stddev) {
  const expr_detail::DrawsFrom source(key.data);
  return sinter::log_normal(mean, stddev);
}
SINTER_DECL Tensor exponential(const Key& key, const In& rate) {
  const expr_detail::DrawsFrom source(key.data);
  return sinter::exponential(rate);
}
SINTER_DECL Tensor cauchy(const Key& key, const In& median, const In& scale) {
  const expr_detail::DrawsFrom source(key.data);
  return sinter::cauchy(median, scale);
}
SINTER_DECL Tensor laplace(const Key& key, const In& mean, const In& scale) {
  const expr_detail::DrawsFrom source(key.data);
  return sinter::laplace(mean, scale);
}
SINTER_DECL Tensor geometric(const Key& key, const In& p) {
  const expr_detail::DrawsFrom source(key.data);
  return sinter::geometric(p);
}

SINTER_DECL Tensor gamma(const In& concentration, const In& rate) {
  const expr_detail::Parameters p = expr_detail::parameters_of(concentration, rate, "gamma");
  const Location where = concentration.where;
  const expr_detail::Term wide(cast(In(broadcast_to(p.first, p.shape), where), *p.options.dtype), where);
  return expr_detail::Term(sinter::standard_gamma(wide), where) / p.second;
}
SINTER_DECL Tensor gamma(const Key& key, const In& concentration, const In& rate) {
  const expr_detail::DrawsFrom source(key.data);
  return gamma(concentration, rate);
}

/// The fastest of a race wins: times that are exponential with rates as the probabilities.
SINTER_DECL Tensor categorical(const In& logits, const Shape& shape) {
  using expr_detail::Term;
  const Location where = logits.where;
  const Term given = expr_detail::floating(logits);
  if (given.rank() < 1) throw ShapeError("categorical", "logits are a scalar", where, "they need an axis");
  const Term wide(cast(given, DType::f64), where);
  const Term rates = expr_detail::apply<ops::Exp>(wide - Term(amax(wide, -1, Keep::yes), where));
  Shape drawn = shape;
  const Shape rows = given.shape();
  for (const Dim extent : rows.dims()) drawn.push_back(extent);
  const TensorOptions options{.dtype = DType::f64, .device = given.value.device()};
  const Term speed = rates / expr_detail::standard_exponential(drawn, options, where);
  return argmax(expr_detail::where_of(rates == 0.0, -1.0, speed), -1);
}
SINTER_DECL Tensor categorical(const Key& key, const In& logits, const Shape& shape) {
  const expr_detail::DrawsFrom source(key.data);
  return categorical(logits, shape);
}

SINTER_DECL Tensor bits(const Shape& shape, TensorOptions options, Location where) {
  const DType dtype = options.dtype_or(DType::u32);
  if (is_differentiable(dtype))
    throw DTypeError("random::bits", "dtype " + std::string(name(dtype)) + " is not whole", where,
                     "bitcast whole numbers of its size");
  if (dtype == DType::bool_)
    return cast(In(bits(shape, {.dtype = DType::u8, .device = options.device}, where) & 1, where), dtype);
  const bool is_long = dtype == DType::i64 || dtype == DType::u64;
  Shape words = shape;
  if (is_long) words.push_back(2);
  const Tensor drawn = expr_detail::draw<ops::RandomBits>(words, {}, options, where);
  if (!is_long) return cast(In(drawn, where), dtype);
  const Tensor high = left_shift(select(In(drawn, where), -1, 1), 32, where);
  return cast(In(Tensor(select(In(drawn, where), -1, 0) + high), where), dtype);
}
SINTER_DECL Tensor bits(const Key& key, const Shape& shape, TensorOptions options, Location where) {
  const expr_detail::DrawsFrom source(key.data);
  return bits(shape, options, where);
}

}  // namespace random
SINTER_NAMESPACE_END
