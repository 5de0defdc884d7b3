// Keys of keys, and distributions by formulas.
#pragma once

#include <sinter/expr/keys.hpp>

#include <sinter/expr/host.hpp>
#include <sinter/expr/linalg.hpp>
#include <sinter/expr/recording.hpp>
#include <sinter/expr/term.hpp>
#include <sinter/ops/host_elementwise.hpp>
#include <sinter/ops/random.hpp>

#include <cmath>
#include <numbers>
#include <string>
#include <utility>

SINTER_NAMESPACE_BEGIN
namespace random {

namespace detail {
using expr_detail::Term;

// Counters of a key's own draws stay below 2^62 (ops/random.hpp); those above make other keys.
inline constexpr std::int64_t split_counter = std::int64_t{1} << 62,
                              fold_counter = split_counter + (split_counter >> 1);

/// Keys, each of two words that follow each other along the last axis.
inline Tensor keys_at(const Key& key, const Tensor& counter, const Shape& words, Location where) {
  if (key.data.dtype() != DType::i64 || key.data.rank() != 0)
    throw ShapeError("random", "a key is " + key.data.impl()->type.text(), where,
                     "it is i64[]: make it by random::key(seed), and map many by jit::vmap");
  SharedAttrs shared;
  shared.edit().shape = words;
  shared.edit().device = key.data.device();
  const Tensor bits =
      expr_detail::record<ops::RandomBits>({Leaf(key.data.impl()), Leaf(counter.impl())}, std::move(shared), where);
  return select(In(bits, where), -1, 0) + left_shift(select(In(bits, where), -1, 1), 32, where);
}
inline Tensor constant(std::int64_t value) { return copy_of(std::vector<std::int64_t>{value}, {}); }

inline Term floating_parameter(const In& x, std::string_view op, const char* what) {
  const Term t(x);
  if (!is_floating(t.dtype()))
    throw DTypeError(op, std::string(what) + " is " + std::string(name(t.dtype())), x.where, "convert it: x.to(f32)");
  return t;
}
/// The logarithm of a gamma number, in f64: the number itself may be below all others where the parameter is small.
inline Term log_gamma_number(const Term& alpha) {
  const Term a(cast(alpha, DType::f64), alpha.where), start(rand_like(a), alpha.where);
  return {Tensor(record_op(op_info<ops::GammaSample>, {expr_detail::leaf_of(a), expr_detail::leaf_of(start)},
                           Attrs{}.with(ops::GammaSample::logarithm, true), alpha.where)),
          alpha.where};
}
inline Term stretched(const Term& x, const Shape& shape) { return {broadcast_to(x, shape), x.where}; }
/// Both as f64 of their common shape.
inline std::pair<Term, Term> together(const Term& a, const Term& b) {
  const std::vector<Tensor> both = broadcast_tensors({a.value, b.value}, a.where);
  return {Term(cast(In(both[0], a.where), DType::f64), a.where), Term(cast(In(both[1], a.where), DType::f64), a.where)};
}
}  // namespace detail

SINTER_DECL Key key(std::int64_t seed) { return {detail::constant(seed)}; }
SINTER_DECL Key split_many(const Key& key, Dim count, Location where) {
  return {detail::keys_at(key, detail::constant(detail::split_counter), {count, 2}, where)};
}
SINTER_DECL std::vector<Key> split(const Key& key, std::int64_t count, Location where) {
  if (count < 1) throw UserError("random::split", "count is " + std::to_string(count), where, "1 at least");
  const Key all_of_them = split_many(key, count, where);
  std::vector<Key> out;
  for (std::int64_t i = 0; i < count; ++i) out.push_back({select(In(all_of_them.data, where), 0, i)});
  return out;
}
SINTER_DECL Key fold_in(const Key& key, const In& number) {
  const detail::Term given(number);
  if (is_floating(given.dtype()) || given.rank() != 0)
    throw DTypeError("random::fold_in", "the number is " + given.value.impl()->type.text(), number.where,
                     "it must be one whole number");
  const Tensor whole = cast(given, DType::i64);
  const Tensor counter = detail::constant(detail::fold_counter) + (whole & ((detail::split_counter >> 1) - 1));
  return {detail::keys_at(key, counter, {2}, number.where)};
}

// ---- by key

#define SINTER_BY_KEY(call)                      \
  const expr_detail::DrawsFrom source(key.data); \
  return call
SINTER_DECL Tensor rand(const Key& key, const Shape& shape, TensorOptions options, Location where) {
  SINTER_BY_KEY(sinter::rand(shape, options, where));
}
SINTER_DECL Tensor randn(const Key& key, const Shape& shape, TensorOptions options, Location where) {
  SINTER_BY_KEY(sinter::randn(shape, options, where));
}
SINTER_DECL Tensor uniform(const Key& key, double low, double high, const Shape& shape, TensorOptions options,
                           Location where) {
  SINTER_BY_KEY(sinter::uniform(low, high, shape, options, where));
}
SINTER_DECL Tensor normal(const Key& key, double mean, double stddev, const Shape& shape, TensorOptions options,
                          Location where) {
  SINTER_BY_KEY(sinter::normal(mean, stddev, shape, options, where));
}
SINTER_DECL Tensor log_normal(const Key& key, double mean, double stddev, const Shape& shape, TensorOptions options,
                              Location where) {
  SINTER_BY_KEY(sinter::log_normal(mean, stddev, shape, options, where));
}
SINTER_DECL Tensor exponential(const Key& key, double rate, const Shape& shape, TensorOptions options, Location where) {
  SINTER_BY_KEY(sinter::exponential(rate, shape, options, where));
}
SINTER_DECL Tensor cauchy(const Key& key, double median, double scale, const Shape& shape, TensorOptions options,
                          Location where) {
  SINTER_BY_KEY(sinter::cauchy(median, scale, shape, options, where));
}
SINTER_DECL Tensor laplace(const Key& key, double mean, double scale, const Shape& shape, TensorOptions options,
                           Location where) {
  SINTER_BY_KEY(sinter::laplace(mean, scale, shape, options, where));
}
SINTER_DECL Tensor geometric(const Key& key, double p, const Shape& shape, TensorOptions options, Location where) {
  SINTER_BY_KEY(sinter::geometric(p, shape, options, where));
}
SINTER_DECL Tensor bernoulli(const Key& key, const In& p) { SINTER_BY_KEY(sinter::bernoulli(p)); }
SINTER_DECL Tensor poisson(const Key& key, const In& rate) { SINTER_BY_KEY(sinter::poisson(rate)); }
SINTER_DECL Tensor standard_gamma(const Key& key, const In& alpha) { SINTER_BY_KEY(sinter::standard_gamma(alpha)); }
SINTER_DECL Tensor randint(const Key& key, std::int64_t low, std::int64_t high, const Shape& shape,
                           TensorOptions options, Location where) {
  SINTER_BY_KEY(sinter::randint(low, high, shape, options, where));
}
SINTER_DECL Tensor randperm(const Key& key, Dim count, TensorOptions options, Location where) {
  SINTER_BY_KEY(sinter::randperm(count, options, where));
}
SINTER_DECL Tensor multinomial(const Key& key, const In& weights, Dim count, Replacement replacement) {
  SINTER_BY_KEY(sinter::multinomial(weights, count, replacement));
}
SINTER_DECL Tensor truncated_normal(const Key& key, double low, double high, const Shape& shape, TensorOptions options,
                                    Location where) {
  SINTER_BY_KEY(truncated_normal(low, high, shape, options, where));
}
SINTER_DECL Tensor student_t(const Key& key, const In& freedom) { SINTER_BY_KEY(student_t(freedom)); }
SINTER_DECL Tensor beta(const Key& key, const In& a, const In& b) { SINTER_BY_KEY(beta(a, b)); }
SINTER_DECL Tensor dirichlet(const Key& key, const In& alpha) { SINTER_BY_KEY(dirichlet(alpha)); }
SINTER_DECL Tensor binomial(const Key& key, const In& n, const In& p) { SINTER_BY_KEY(binomial(n, p)); }
SINTER_DECL Tensor multivariate_normal(const Key& key, const In& mean, const In& covariance, const Shape& shape) {
  SINTER_BY_KEY(multivariate_normal(mean, covariance, shape));
}
SINTER_DECL Tensor permutation(const Key& key, const In& x, int axis) { SINTER_BY_KEY(permutation(x, axis)); }
SINTER_DECL Tensor choice(const Key& key, const In& x, Dim count, ChoiceOptions options) {
  SINTER_BY_KEY(choice(x, count, std::move(options)));
}
#undef SINTER_BY_KEY

// ---- formulas

/// Above 0 mirrored to the lower tail, where the distribution function keeps its digits.
SINTER_DECL Tensor truncated_normal(double low, double high, const Shape& shape, TensorOptions options,
                                    Location where) {
  if (!(low < high))
    throw UserError("truncated_normal", "low is " + std::to_string(low) + ", high is " + std::to_string(high), where,
                    "low must be less than high");
  const DType dtype = options.dtype_or(DType::f32);
  if (!is_floating(dtype))
    throw DTypeError("truncated_normal", "dtype " + std::string(name(dtype)) + " is not floating", where);
  const bool is_mirrored = low > 0;
  const double from = is_mirrored ? -high : low, to = is_mirrored ? -low : high;
  auto distribution = [](double x) { return 0.5 * std::erfc(-x / std::numbers::sqrt2); };
  const double start = distribution(from), width = distribution(to) - start;
  const detail::Term u(sinter::rand(shape, {.dtype = DType::f64, .device = options.device}, where), where);
  if (to <
      -37) {  // the distribution function underflows; the density there is near that of sqrt(near^2 + 2 exponential)
    const double near = -to, far = -from;
    const double rest = std::expm1(0.5 * (near - far) * (near + far));
    const Tensor size = clamp(sqrt(log1p(Tensor(u * rest)) * -2.0 + near * near), near, far, where);
    return cast(In(is_mirrored ? size : Tensor(-size), where), dtype);
  }
  const Tensor x = clamp(ndtri(u * width + start), from, to, where);
  return cast(In(is_mirrored ? Tensor(-x) : x, where), dtype);
}
SINTER_DECL Tensor student_t(const In& freedom) {
  using detail::Term;
  const Term given = detail::floating_parameter(freedom, "student_t", "freedom");
  const Term half = Term(cast(given, DType::f64), given.where) * 0.5;
  const Term normal_number(randn_like(half), given.where), gamma_number(sinter::standard_gamma(half), given.where);
  return cast(normal_number / Term(sqrt(Tensor(gamma_number / half)), given.where), given.dtype());
}
SINTER_DECL Tensor beta(const In& a, const In& b) {
  using detail::Term;
  const Term first = detail::floating_parameter(a, "beta", "a"), second = detail::floating_parameter(b, "beta", "b");
  const auto [x, y] = detail::together(first, second);
  const Term log_x = detail::log_gamma_number(x);
  const Term odds = log_x - detail::log_gamma_number(y);
  return cast(Term(sigmoid(Tensor(odds)), a.where), expr_detail::common_dtype(a, first, b, second, "beta"));
}
SINTER_DECL Tensor dirichlet(const In& alpha) {
  const detail::Term given = detail::floating_parameter(alpha, "dirichlet", "alpha");
  if (given.rank() < 1) throw ShapeError("dirichlet", "alpha is a scalar", alpha.where, "it needs an axis");
  return cast(In(softmax(detail::log_gamma_number(given), -1), alpha.where), given.dtype());
}
SINTER_DECL Tensor binomial(const In& n, const In& p) {
  using detail::Term;
  const Term probability = detail::floating_parameter(p, "binomial", "p"), count(n);
  const auto [trials, chance] = detail::together(count, probability);
  const Term start(rand_like(chance), p.where);
  return cast(expr_detail::apply<ops::BinomialSample>(trials, chance, start), probability.dtype());
}
SINTER_DECL Tensor multivariate_normal(const In& mean, const In& covariance, const Shape& shape) {
  using detail::Term;
  const Term centre = detail::floating_parameter(mean, "multivariate_normal", "mean"), matrix(covariance);
  if (centre.rank() != 1 || matrix.rank() != 2 || !(matrix.shape()[0] == centre.shape()[0]))
    throw ShapeError(
        "multivariate_normal",
        "mean is " + centre.value.impl()->type.text() + ", covariance is " + matrix.value.impl()->type.text(),
        mean.where, "they must be (k) and (k, k)");
  Shape drawn = shape;
  drawn.push_back(centre.shape()[0]);
  const Term z(sinter::randn(drawn, {.dtype = centre.dtype(), .device = centre.value.device()}, mean.where),
               mean.where);
  const Tensor factor = linalg::cholesky(matrix);
  return Term(matmul(z, In(transpose(factor, 0, 1), mean.where)), mean.where) + centre;
}
SINTER_DECL Tensor permutation(const In& x, int axis) {
  const detail::Term given(x);
  if (given.rank() < 1) throw ShapeError("permutation", "x is a scalar", x.where, "it needs an axis");
  const Dim count = given.value.size(axis, x.where);
  return take(given, sinter::randperm(count, {.dtype = DType::i64, .device = given.value.device()}, x.where), axis);
}
SINTER_DECL Tensor choice(const In& x, Dim count, ChoiceOptions options) {
  const detail::Term given(x);
  if (given.rank() < 1) throw ShapeError("choice", "x is a scalar", x.where, "it needs an axis");
  const Dim number = given.value.size(options.axis, x.where);
  const Tensor weights =
      options.weights.value_or(ones({number}, {.dtype = DType::f64, .device = given.value.device()}, x.where));
  if (weights.rank() != 1 || !(weights.size(0) == number))
    throw ShapeError("choice", "weights are " + weights.impl()->type.text(), x.where,
                     "there must be one for each of the " + number.text() + " slices");
  return take(given, sinter::multinomial(In(weights, x.where), count, options.replacement), options.axis);
}

}  // namespace random
SINTER_NAMESPACE_END
