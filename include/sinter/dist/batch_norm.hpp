// Batch normalisation with the statistics of all ranks' examples.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/dist/mesh.hpp>
#include <sinter/expr/normalisation.hpp>

SINTER_NAMESPACE_BEGIN
namespace dist {

/// sinter::batch_norm_training with the statistics of the batches of all ranks together (PyTorch's SyncBatchNorm).
/// Batches may have different sizes, and none. Gradients are those of the sum of the ranks' losses, as everywhere;
/// averaged by data_parallel, of their mean. Throws ShapeError unless x is (batch, channels, ...) and the others are
/// (channels,).
BatchNormResult batch_norm_training(const In& x, const In& running_mean, const In& running_var, double momentum = 0.1,
                                    ChannelNormOptions options = {}, const Axis& over = {});

}  // namespace dist
SINTER_NAMESPACE_END
