// Products, gathers, layers, casts and moves between devices, recorded as their ops.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/optional.hpp>
#include <sinter/tensor/tensor.hpp>

#include <cstdint>
#include <source_location>
#include <string_view>

SINTER_NAMESPACE_BEGIN

/// Matrix product; batch axes broadcast; rank-1 operands are vectors, as in NumPy.
Tensor matmul(const In& a, const In& b);
/// The slices of `x` along `axis` at `indices` (i32 or i64, any shape). Out of range: IndexError when it runs.
Tensor take(const In& x, const In& indices, int axis = 0);
Tensor one_hot(const In& indices, Dim classes, DType dtype = DType::f32);
Tensor softmax(const In& x, int axis);
Tensor log_softmax(const In& x, int axis);
struct LayerNormOptions {
  Optional<Tensor> weight = {}, bias = {};
  double eps = 1e-5;
};
/// (x - mean) / sqrt(var + eps) * weight + bias over the last axes, whose extents are `shape`, which weight and bias
/// have. Ba, Kiros and Hinton 2016.
Tensor layer_norm(const In& x, const Shape& shape, LayerNormOptions options = {});
Tensor layer_norm(const In& x, const Shape& shape, const In& weight, const In& bias, LayerNormOptions options = {});
/// What becomes of the losses of single rows. `batchmean`, of kl_div alone: their sum divided by x.size(0).
enum class LossReduction : std::uint8_t { mean, sum, none, batchmean };
Tensor mse_loss(const In& prediction, const In& target);
Tensor max_pool2d(const In& x, std::int64_t size, std::int64_t stride = 0);  // stride 0: the size
Tensor avg_pool2d(const In& x, std::int64_t size, std::int64_t stride = 0);
Tensor cast(const In& x, DType dtype);
Tensor to_device(const In& x, Device device);
/// Where tensors are made from now on, in all threads, unless they name a device. Throws DeviceError if it cannot be
/// used.
void set_default_device(Device device, Location where = std::source_location::current());

namespace expr_detail {
/// The value, computed now, as data on the device.
Ref<TensorImpl> moved_now(const In& x, Device device, std::string_view function);
}  // namespace expr_detail

SINTER_NAMESPACE_END
