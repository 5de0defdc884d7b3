// Random numbers whose parameters are tensors, one number for each; classes, and raw bits. Numbers are differentiable
// by their parameters ("reparameterised") where they move with these. By key in the namespace `random`, else from this
// thread's generator. Knows nothing of how random numbers are made.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/expr/keys.hpp>
#include <sinter/tensor/tensor.hpp>

#include <source_location>

SINTER_NAMESPACE_BEGIN

// Parameters broadcast, and numbers have their floating dtype; whole parameters give f32. That they are in range is not
// checked.

/// Uniform from low to high: low + (high - low) * rand, which rounding may make high.
Tensor uniform(const In& low, const In& high);
/// mean + stddev * randn.
Tensor normal(const In& mean, const In& stddev);
/// The exponential of normal(mean, stddev).
Tensor log_normal(const In& mean, const In& stddev);
/// With the mean 1 / rate.
Tensor exponential(const In& rate);
Tensor cauchy(const In& median, const In& scale);
Tensor laplace(const In& mean, const In& scale);
/// How many trials the first success takes. No derivative: numbers are whole.
Tensor geometric(const In& p);

namespace random {

Tensor uniform(const Key& key, const In& low, const In& high);
Tensor normal(const Key& key, const In& mean, const In& stddev);
Tensor log_normal(const Key& key, const In& mean, const In& stddev);
Tensor exponential(const Key& key, const In& rate);
Tensor cauchy(const Key& key, const In& median, const In& scale);
Tensor laplace(const Key& key, const In& mean, const In& scale);
Tensor geometric(const Key& key, const In& p);

/// The gamma distribution with this shape parameter and rate: standard_gamma(concentration) / rate.
Tensor gamma(const In& concentration, const In& rate = 1);
Tensor gamma(const Key& key, const In& concentration, const In& rate = 1);
/// Positions (i64) along the last axis of `logits`, with probabilities that are as e^logits: of the shape before that
/// axis, with `shape` in front. Logits of minus infinity are not drawn. No derivative: gumbel_softmax has one.
Tensor categorical(const In& logits, const Shape& shape = {});
Tensor categorical(const Key& key, const In& logits, const Shape& shape = {});
/// Random bits in whole numbers, u32 unless the options say another dtype; every number of the dtype is equally likely.
Tensor bits(const Shape& shape, TensorOptions options = {}, Location where = std::source_location::current());
Tensor bits(const Key& key, const Shape& shape, TensorOptions options = {},
            Location where = std::source_location::current());

}  // namespace random
SINTER_NAMESPACE_END
