// Uniform numbers against p.
#pragma once

#include <sinter/expr/dropout.hpp>

#include <sinter/expr/recording.hpp>

#include <cmath>

SINTER_NAMESPACE_BEGIN
namespace expr_detail {

/// Which elements of x stay, drawn in `shape`, which broadcasts to x's.
inline Tensor drawn_to_stay(const Tensor& x, const Shape& shape, const Scalar& p, std::string_view op, Location where) {
  if (!is_floating(x.dtype()))
    throw DTypeError(op, "x is " + x.impl()->type.text() + ", it must be floating", where,
                     "cast it to a floating dtype first: cast(x, DType::f32)");
  if (p.is_number() && !(p.number() >= 0 && p.number() <= 1))
    throw UserError(op, "p is " + std::to_string(p.number()) + ", it must be in [0, 1]", where);
  return rand(shape, {.dtype = DType::f32, .device = x.device()}, where) >= p;
}
inline Tensor dropped(const In& x, const Shape& shape, const Scalar& p, std::string_view op) {
  const Tensor value(x.tensor());
  const Tensor stays = drawn_to_stay(value, shape, p, op, x.where);
  const Tensor zero = zeros({}, {.dtype = value.dtype(), .device = Device::cpu()}, x.where);
  const bool none_stays = p.is_number() && p.number() == 1;  // and none is scaled: 1 / 0 would reach the gradient
  const Scalar scale = none_stays ? Scalar(1) : Scalar(1) / (Scalar(1) - p);
  return where(stays, value * scale, zero, x.where);
}

/// One draw for everything after the axes (batch, channels).
inline Shape shape_of_features(const Tensor& x, std::string_view op, Location where) {
  if (x.rank() < 2) throw ShapeError(op, "x is " + x.shape().text(), where, "x must be (batch, channels, ...)");
  Shape shape{x.shape()[0], x.shape()[1]};
  for (int i = 2; i < x.rank(); ++i) shape.push_back(1);
  return shape;
}
inline Tensor alpha_dropped(const Tensor& value, const Shape& shape, double p, std::string_view op, Location at) {
  constexpr double lower = -1.7580993408473766;  // -scale * alpha of selu
  const Tensor stays = drawn_to_stay(value, shape, p, op, at);
  if (p == 1) return zeros(value.shape(), {.dtype = value.dtype(), .device = value.device()}, at);
  const double a = 1 / std::sqrt((1 - p) * (1 + p * lower * lower)), b = -a * p * lower;
  return where(stays, value * a + b, a * lower + b, at);
}

}  // namespace expr_detail

SINTER_DECL Tensor dropout(const In& x, const Scalar& p) {
  const Tensor value(x.tensor());
  return expr_detail::dropped(In(value, x.where), value.shape(), p, "dropout");
}
SINTER_DECL Tensor feature_dropout(const In& x, const Scalar& p) {
  const Tensor value(x.tensor());
  const Shape shape = expr_detail::shape_of_features(value, "feature_dropout", x.where);
  return expr_detail::dropped(In(value, x.where), shape, p, "feature_dropout");
}
SINTER_DECL Tensor alpha_dropout(const In& x, double p) {
  const Tensor value(x.tensor());
  return expr_detail::alpha_dropped(value, value.shape(), p, "alpha_dropout", x.where);
}
SINTER_DECL Tensor feature_alpha_dropout(const In& x, double p) {
  const Tensor value(x.tensor());
  const Shape shape = expr_detail::shape_of_features(value, "feature_alpha_dropout", x.where);
  return expr_detail::alpha_dropped(value, shape, p, "feature_alpha_dropout", x.where);
}

SINTER_NAMESPACE_END
