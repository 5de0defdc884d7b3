// Normalisations besides layer_norm, as functions of their weights and statistics.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/optional.hpp>
#include <sinter/tensor/tensor.hpp>

#include <cstdint>

SINTER_NAMESPACE_BEGIN

struct RmsNormOptions {
  Optional<Tensor> weight = {};
  Optional<double> eps = {};  // none: the distance from 1 to the next number of x's dtype
};
/// x / sqrt(mean of x^2 + eps) * weight over the last axes, whose extents are `shape`. Zhang and Sennrich 2019.
Tensor rms_norm(const In& x, const Shape& shape, RmsNormOptions options = {});

/// Of normalisations by channel, which is axis 1. Weight and bias are (channels,).
struct ChannelNormOptions {
  Optional<Tensor> weight = {}, bias = {};
  double eps = 1e-5;
};
/// (x - mean) / sqrt(var + eps) * weight + bias with statistics that are given, (channels,) each: inference.
Tensor batch_norm(const In& x, const In& mean, const In& var, ChannelNormOptions options = {});
struct BatchNormResult {
  Tensor value, running_mean, running_var;
};
/// The same with the batch's own statistics; running ones move by `momentum` towards them, constants for
/// differentiation. The running variance is that of a sample. Ioffe and Szegedy 2015.
BatchNormResult batch_norm_training(const In& x, const In& running_mean, const In& running_var, double momentum = 0.1,
                                    ChannelNormOptions options = {});
/// With the statistics of each example and channel. Ulyanov, Vedaldi and Lempitsky 2016.
Tensor instance_norm(const In& x, ChannelNormOptions options = {});
/// With statistics that are given, (channels,) each: inference with what `instance_norm_training` has gathered.
Tensor instance_norm(const In& x, const In& mean, const In& var, ChannelNormOptions options = {});
/// With those of each example and channel; running ones move by `momentum` towards their means over the batch,
/// constants for differentiation. The running variance is that of a sample.
BatchNormResult instance_norm_training(const In& x, const In& running_mean, const In& running_var,
                                       double momentum = 0.1, ChannelNormOptions options = {});
/// With the statistics of each example and group of channels.
Tensor group_norm(const In& x, std::int64_t groups, ChannelNormOptions options = {});

struct LocalResponseOptions {
  double alpha = 1e-4, beta = 0.75, k = 1;
};
/// x / (k + alpha * mean of x^2 over `size` channels around)^beta; channels beyond the ends count as 0.
Tensor local_response_norm(const In& x, int size, LocalResponseOptions options = {});

SINTER_NAMESPACE_END
