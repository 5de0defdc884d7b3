// Two collectives, of a number for each channel: sums, then squares of what differs from the mean.
#pragma once

#include <sinter/dist/batch_norm.hpp>

#include <sinter/dist/collectives.hpp>
#include <sinter/expr/creation.hpp>
#include <sinter/expr/functions.hpp>
#include <sinter/expr/shapes.hpp>

#include <utility>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace dist {

SINTER_DECL BatchNormResult batch_norm_training(const In& x, const In& running_mean, const In& running_var,
                                                double momentum, ChannelNormOptions options, const Axis& over) {
  const Location where = x.where;
  const Tensor value(x.tensor());
  if (value.rank() < 2)
    throw ShapeError("batch_norm_training", "x is " + value.impl()->type.text(), where,
                     "x must be (batch, channels, ...)");
  if (!is_floating(value.dtype()))
    throw DTypeError("batch_norm_training", "x is " + value.impl()->type.text(), where, "cast it to a floating dtype");
  const Dim channels = value.size(1);
  const Tensor old_mean(running_mean.tensor()), old_var(running_var.tensor());
  for (const Tensor* running : {&old_mean, &old_var})
    if (running->rank() != 1 || !(running->size(0) == channels))
      throw ShapeError(
          "batch_norm_training",
          "the running statistics are " + running->impl()->type.text() + ", x is " + value.impl()->type.text(), where,
          "one number for each channel, which is axis 1 of x");
  std::vector<int> axes{0};
  Dim count = value.size(0);
  Shape of_channels{1, channels};
  for (int axis = 2; axis < value.rank(); ++axis) {
    axes.push_back(axis);
    count = count * value.size(axis);
    of_channels.push_back(1);
  }
  const DType dtype = is_half(value.dtype()) ? DType::f32 : value.dtype();
  const Tensor wide = value.dtype() == dtype ? value : cast(In(value, where), dtype);
  const Tensor own_count = full({1}, 1, {.dtype = dtype, .device = value.device()}, where) * Scalar(count);
  const Tensor sums = all_reduce(In(concat({sum(In(wide, where), Axes(axes)), own_count}, 0, where), where), over);
  const Tensor total = sums(slice(channels, channels + 1));
  const Tensor mean = sums(slice(0, channels)) / total;
  const Tensor squares = sum(In(square(wide - reshape(In(mean, where), of_channels)), where), Axes(axes));
  const Tensor var = all_reduce(In(squares, where), over) / total;

  const auto moved = [&](const Tensor& old, const Tensor& now) {
    return cast(In(Tensor(old * (1 - momentum) + stop_gradient(now) * momentum), where), old.dtype());
  };
  const Tensor normalised = batch_norm(In(value, where), In(mean, where), In(var, where), std::move(options));
  return {normalised, moved(old_mean, mean), moved(old_var, Tensor(var * (total / (total - 1))))};
}

}  // namespace dist
SINTER_NAMESPACE_END
