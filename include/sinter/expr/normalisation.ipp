// Statistics over the axes of each, in the two-pass form that does not cancel.
#pragma once

#include <sinter/expr/normalisation.hpp>

#include <sinter/base/index.hpp>
#include <sinter/expr/recording.hpp>
#include <sinter/expr/term.hpp>

#include <limits>

SINTER_NAMESPACE_BEGIN
namespace expr_detail {

inline Tensor floating_operand(const In& x, std::string_view op) {
  const Tensor value(x.tensor());
  if (is_floating(value.dtype())) return value;
  throw DTypeError(op, "x is " + value.impl()->type.text() + ", it must be floating", x.where,
                   "cast it to a floating dtype first: cast(x, DType::f32)");
}

/// A value for each channel as it broadcasts over x: (channels, 1, ...).
inline Tensor by_channel(const Tensor& values, const Tensor& x, std::string_view what, std::string_view op,
                         Location where) {
  if (values.rank() != 1 || !(values.shape()[0] == x.shape()[1]))
    throw ShapeError(op, "x is " + x.shape().text() + ", " + std::string(what) + " is " + values.shape().text(), where,
                     "one number for each channel is required: (" + x.shape()[1].text() + ",)");
  Shape column{x.shape()[1]};
  for (int i = 2; i < x.rank(); ++i) column.push_back(1);
  return reshape(cast(In(values, where), x.dtype()), column);
}
inline Tensor with_channels(const In& x, std::string_view op) {
  const Tensor value = floating_operand(x, op);
  if (value.rank() < 2)
    throw ShapeError(op, "x is " + value.shape().text(), x.where, "x must be (batch, channels, ...)");
  return value;
}
inline Tensor scaled_by_channel(Tensor x, const ChannelNormOptions& options, std::string_view op, Location where) {
  if (options.weight) x = x * by_channel(*options.weight, x, "weight", op, where);
  if (options.bias) x = x + by_channel(*options.bias, x, "bias", op, where);
  return x;
}

struct Statistics {
  Tensor centred, mean, variance;
};
/// Of f16 in f32, whose range holds the squares.
inline Statistics statistics(const Tensor& x, Axes axes, Location where) {
  const Tensor wide = wide_for_squares(Term(x, where)), mean = sinter::mean(In(wide, where), axes, keepdim);
  const Tensor centred = wide - mean;
  return {centred, mean, sinter::mean(In(square(centred), where), axes, keepdim)};
}
inline Tensor normalised_by(const Statistics& found, double eps, DType dtype, Location where) {
  return cast(In(Tensor(found.centred * rsqrt(found.variance + eps)), where), dtype);
}
inline std::vector<int> axes_from(int first, int rank) {
  std::vector<int> axes;
  for (int i = first; i < rank; ++i) axes.push_back(i);
  return axes;
}

}  // namespace expr_detail

SINTER_DECL Tensor rms_norm(const In& x, const Shape& shape, RmsNormOptions options) {
  const Tensor value = expr_detail::floating_operand(x, "rms_norm");
  const Shape whole = value.shape();
  const int first = whole.rank() - shape.rank();
  bool fits = first >= 0 && shape.rank() > 0;
  for (int i = 0; fits && i < shape.rank(); ++i) fits = shape[i] == whole[first + i];
  if (!fits || (options.weight && !(options.weight->shape() == shape)))
    throw ShapeError("rms_norm",
                     "x is " + whole.text() + ", its last axes are to be " + shape.text() +
                         (options.weight ? ", weight is " + options.weight->shape().text() : ""),
                     x.where, "the shape must be that of the last axes of x, and of the weight");
  const double smallest = row(value.dtype()).epsilon();
  const Axes axes(expr_detail::axes_from(first, whole.rank()));
  if (value.dtype() == DType::f16) {  // in f32, whose range holds the squares
    RmsNormOptions wide = options;
    wide.eps = options.eps.value_or(smallest);
    return cast(In(rms_norm(In(cast(In(value, x.where), DType::f32), x.where), shape, wide), x.where), DType::f16);
  }
  const Tensor scale = rsqrt(mean(In(square(value), x.where), axes, keepdim) + options.eps.value_or(smallest));
  if (!options.weight) return value * scale;
  return value * scale * cast(In(*options.weight, x.where), value.dtype());
}

namespace expr_detail {
inline Tensor normalised_by(const In& x, const In& mean, const In& var, const ChannelNormOptions& options,
                            std::string_view op) {
  const Tensor value = with_channels(x, op);
  const Tensor centre = by_channel(Tensor(mean.tensor()), value, "mean", op, x.where);
  const Tensor spread = by_channel(Tensor(var.tensor()), value, "var", op, x.where);
  return scaled_by_channel((value - centre) * rsqrt(spread + options.eps), options, op, x.where);
}

/// With the statistics along `axes`; running ones, by channel, move towards their means over what is left.
inline BatchNormResult normalised_in_training(const In& x, const In& running_mean, const In& running_var,
                                              double momentum, const ChannelNormOptions& options,
                                              const std::vector<int>& axes, std::string_view op) {
  const Tensor value(x.tensor());
  const Tensor old_mean(running_mean.tensor()), old_var(running_var.tensor());
  by_channel(old_mean, value, "running_mean", op, x.where);
  by_channel(old_var, value, "running_var", op, x.where);
  const Statistics found = statistics(value, Axes(axes), x.where);
  const Tensor normalised = normalised_by(found, options.eps, value.dtype(), x.where);
  Dim count = 1;
  for (int axis : axes) count = count * value.shape()[axis];
  // Of a sample: more by count / (count - 1).
  const Tensor counted = cast(In(Scalar(count), x.where), found.variance.dtype());
  const Tensor sample = found.variance * (counted / (counted - 1));
  auto moved = [&](const Tensor& old, const Tensor& now) {
    const Dim channels = value.shape()[1];
    const bool is_one = identical(now.shape()[0], Dim(1));  // what a batch has
    const Tensor each = reshape(In(now, x.where), is_one ? Shape{channels} : Shape{now.shape()[0], channels});
    const Tensor next = stop_gradient(is_one ? Tensor(each) : mean(In(each, x.where), 0));
    return cast(In(Tensor(old * (1 - momentum) + next * momentum), x.where), old.dtype());
  };
  return {scaled_by_channel(normalised, options, op, x.where), moved(old_mean, found.mean), moved(old_var, sample)};
}

inline Tensor with_length(const In& x, std::string_view op) {
  const Tensor value = with_channels(x, op);
  if (value.rank() < 3)
    throw ShapeError(op, "x is " + value.shape().text(), x.where, "x must be (batch, channels, length, ...)");
  return value;
}
}  // namespace expr_detail

SINTER_DECL Tensor batch_norm(const In& x, const In& mean, const In& var, ChannelNormOptions options) {
  return expr_detail::normalised_by(x, mean, var, options, "batch_norm");
}
SINTER_DECL BatchNormResult batch_norm_training(const In& x, const In& running_mean, const In& running_var,
                                                double momentum, ChannelNormOptions options) {
  constexpr std::string_view op = "batch_norm_training";
  const Tensor value = expr_detail::with_channels(x, op);
  std::vector<int> axes{0};
  for (int i = 2; i < value.rank(); ++i) axes.push_back(i);
  return expr_detail::normalised_in_training(In(value, x.where), running_mean, running_var, momentum, options, axes,
                                             op);
}

SINTER_DECL Tensor instance_norm(const In& x, ChannelNormOptions options) {
  constexpr std::string_view op = "instance_norm";
  const Tensor value = expr_detail::with_length(x, op);
  const auto of_each = expr_detail::statistics(value, Axes(expr_detail::axes_from(2, value.rank())), x.where);
  const Tensor normalised = expr_detail::normalised_by(of_each, options.eps, value.dtype(), x.where);
  return expr_detail::scaled_by_channel(normalised, options, op, x.where);
}
SINTER_DECL Tensor instance_norm(const In& x, const In& mean, const In& var, ChannelNormOptions options) {
  const Tensor value = expr_detail::with_length(x, "instance_norm");
  return expr_detail::normalised_by(In(value, x.where), mean, var, options, "instance_norm");
}
SINTER_DECL BatchNormResult instance_norm_training(const In& x, const In& running_mean, const In& running_var,
                                                   double momentum, ChannelNormOptions options) {
  constexpr std::string_view op = "instance_norm_training";
  const Tensor value = expr_detail::with_length(x, op);
  return expr_detail::normalised_in_training(In(value, x.where), running_mean, running_var, momentum, options,
                                             expr_detail::axes_from(2, value.rank()), op);
}

SINTER_DECL Tensor group_norm(const In& x, std::int64_t groups, ChannelNormOptions options) {
  constexpr std::string_view op = "group_norm";
  const Tensor value = expr_detail::with_channels(x, op);
  const Shape shape = value.shape();
  if (groups < 1 || !(shape[1] % Dim(groups) == Dim(0)))
    throw ShapeError(op, shape[1].text() + " channels in " + std::to_string(groups) + " groups: x is " + shape.text(),
                     x.where, "the number of channels must be a multiple of the groups");
  Dim rest = shape[1] / Dim(groups);
  for (int i = 2; i < shape.rank(); ++i) rest = rest * shape[i];
  const Tensor grouped = reshape(In(value, x.where), Shape{shape[0], groups, rest});
  const auto of_group = expr_detail::statistics(grouped, -1, x.where);
  const Tensor normalised = expr_detail::normalised_by(of_group, options.eps, value.dtype(), x.where);
  return expr_detail::scaled_by_channel(reshape(In(normalised, x.where), shape), options, op, x.where);
}

SINTER_DECL Tensor local_response_norm(const In& x, int size, LocalResponseOptions options) {
  const Tensor value = expr_detail::with_channels(x, "local_response_norm");
  const Tensor wide = expr_detail::wide_for_squares(expr_detail::Term(value, x.where));
  if (wide.dtype() != value.dtype())
    return cast(In(local_response_norm(In(wide, x.where), size, options), x.where), value.dtype());
  if (size < 1) throw ShapeError("local_response_norm", "size is " + std::to_string(size) + ", at least 1", x.where);
  std::vector<std::pair<int, int>> widths(as_index(value.rank()));
  widths[1] = {size / 2, (size - 1) / 2};
  const Tensor squares = pad(In(square(value), x.where), widths);
  const Dim channels = value.shape()[1];
  Tensor total = expr_detail::part_of(squares, 1, 0, channels, x.where);
  for (int i = 1; i < size; ++i) total = total + expr_detail::part_of(squares, 1, i, channels + Dim(i), x.where);
  return value / pow(total * (options.alpha / size) + options.k, options.beta);
}

SINTER_NAMESPACE_END
