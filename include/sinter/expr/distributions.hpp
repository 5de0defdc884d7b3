// Random numbers of other distributions than rand and randn have, choices and permutations: formulas of those, drawn
// from the same generator. Knows nothing of how random numbers are made.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/tensor/tensor.hpp>

#include <cstdint>
#include <source_location>

SINTER_NAMESPACE_BEGIN

/// Uniform in [low, high).
Tensor uniform(double low, double high, const Shape& shape, TensorOptions options = {},
               Location where = std::source_location::current());
/// mean + stddev * randn.
Tensor normal(double mean, double stddev, const Shape& shape, TensorOptions options = {},
              Location where = std::source_location::current());
/// The exponential of normal(mean, stddev).
Tensor log_normal(double mean, double stddev, const Shape& shape, TensorOptions options = {},
                  Location where = std::source_location::current());
/// Times between events of which there are `rate` per unit: the mean is 1 / rate.
Tensor exponential(double rate, const Shape& shape, TensorOptions options = {},
                   Location where = std::source_location::current());
Tensor cauchy(double median, double scale, const Shape& shape, TensorOptions options = {},
              Location where = std::source_location::current());
/// Density e^(-|x - mean| / scale) / (2 scale).
Tensor laplace(double mean, double scale, const Shape& shape, TensorOptions options = {},
               Location where = std::source_location::current());
/// How many trials the first success takes, 1 or more, where each has the probability p.
Tensor geometric(double p, const Shape& shape, TensorOptions options = {},
                 Location where = std::source_location::current());

/// 1 with the probability p, else 0; of p's shape and (floating) dtype.
Tensor bernoulli(const In& p);
/// How many events there are where `rate` are expected; of rate's shape and (floating) dtype. The host draws them.
Tensor poisson(const In& rate);
/// The gamma distribution of this shape parameter, with scale 1; of alpha's shape and (floating) dtype. Divided by the
/// rate it has another scale; of two such numbers a / (a + b) has a beta distribution. The host draws them, and there
/// is no derivative by alpha.
Tensor standard_gamma(const In& alpha);
/// Whole numbers in [low, high), equally likely; at most 2^53 of them.
Tensor randint(std::int64_t low, std::int64_t high, const Shape& shape, TensorOptions options = {},
               Location where = std::source_location::current());
/// The numbers from 0 to count - 1 in random order.
Tensor randperm(Dim count, TensorOptions options = {}, Location where = std::source_location::current());
/// Whether an element can be drawn again.
enum class Replacement : std::uint8_t { no, yes };
/// `count` positions (i64) along the last axis of [n] or [rows, n], with probabilities that are as the weights.
/// Weights are not negative, one of them at least is not 0 (without replacement: `count` of them); that is not checked.
Tensor multinomial(const In& weights, Dim count, Replacement replacement = Replacement::no);

SINTER_NAMESPACE_END
