// Dropout: elements or whole features set to zero at random.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/tensor/tensor.hpp>

SINTER_NAMESPACE_BEGIN

/// x / (1 - p), but 0 with probability p, each element by itself; drawn from this thread's generator (manual_seed). For
/// training: at inference leave it out. Srivastava et al. 2014.
Tensor dropout(const In& x, const Scalar& p = 0.5);
/// The same of whole features: everything after the axes (batch, channels) is dropped together.
Tensor feature_dropout(const In& x, const Scalar& p = 0.5);
/// Keeps mean 0 and variance 1 of selu's values: dropped elements get its lower bound. Klambauer et al. 2017.
Tensor alpha_dropout(const In& x, double p = 0.5);
/// The same of whole features.
Tensor feature_alpha_dropout(const In& x, double p = 0.5);

SINTER_NAMESPACE_END
