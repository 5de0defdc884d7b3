// Convolution and pooling of images [n, channels, height, width], through sliding windows.
#pragma once

#include <sinter/ops/infer.hpp>
#include <sinter/ops/val_ops.hpp>

SINTER_NAMESPACE_BEGIN

namespace ops_detail {
/// The batch joins the images' own first axis; weights for each example go through the decomposition.
Batched batch_images(const BatchArgs& args);
/// Of a conv2d: one product of matrices for each image, with the positions as they lie.
bool sees_single_elements(const Shape& weight, const Attrs& attrs);
}  // namespace ops_detail

namespace ops {

/// The attributes of pooling: extents and strides of the window, each of height and width.
struct PoolAttributes {
  static constexpr OpAttr<IntVector> window{"window", 0}, stride{"stride", 1};
  static constexpr auto attributes = attribute_list(window, stride);
};

/// conv2d(x [n, c, h, w], weight [o, c, kh, kw]). One matrix product over the windows as rows; its gradients are one
/// matrix product each. Stride and padding are those of height and width.
struct Conv2d {
  static constexpr OpAttr<IntVector> stride{"stride", 0}, padding{"padding", 1};
  static constexpr auto attributes = attribute_list(stride, padding);
  static constexpr OpInfo info{.name = "conv2d", .arity = 2, .kind = OpKind::composite};
  static Type infer(const InferArgs& args);
  static Val decompose(const DecomposeArgs& args);
  static ValList vjp(const VjpArgs& a);
  static Batched batch(const BatchArgs& a) { return ops_detail::batch_images(a); }
};

/// Largest element of each window. The first of equal elements gets the gradient, and where NaN is among them, the last
/// NaN.
struct MaxPool2d : PoolAttributes {
  static constexpr OpInfo info{.name = "max_pool2d", .arity = 1, .kind = OpKind::composite};
  static Type infer(const InferArgs& args);
  static Val decompose(const DecomposeArgs& args);
  static ValList vjp(const VjpArgs& a);
  static Batched batch(const BatchArgs& a) { return ops_detail::batch_images(a); }
};

/// Mean of each window.
struct AvgPool2d : PoolAttributes {
  static constexpr OpInfo info{.name = "avg_pool2d", .arity = 1, .kind = OpKind::composite};
  static Type infer(const InferArgs& args);
  static Val decompose(const DecomposeArgs& args);
  static ValList vjp(const VjpArgs& a);
  static Batched batch(const BatchArgs& a) { return ops_detail::batch_images(a); }
};

/// The largest element over attrs.axes, the last ones. The first of equal elements gets the gradient, and where NaN is
/// among them, the last NaN.
struct WindowMax {
  static constexpr OpInfo info{.name = "window_max", .arity = 1, .kind = OpKind::composite};
  static constexpr auto attributes = attribute_list(attr::axes);
  static Type infer(const InferArgs& args);
  static Val decompose(const DecomposeArgs& args);
  static ValList vjp(const VjpArgs& a);
  static Batched batch(const BatchArgs& a);
};

/// The sum over attrs.axes, the last ones (SumWindows is the adjoint of windows). Of f16 and bf16 it is of f32 and
/// rounded once.
struct WindowSum {
  static constexpr OpInfo info{.name = "window_sum", .arity = 1, .kind = OpKind::composite};
  static constexpr auto attributes = attribute_list(attr::axes);
  static Type infer(const InferArgs& args);
  static Val decompose(const DecomposeArgs& args);
  static ValList vjp(const VjpArgs& a) { return {unreduce(a.dout, a.attrs.axes, a.in[0].shape())}; }
  static Batched batch(const BatchArgs& a);
};

}  // namespace ops
SINTER_NAMESPACE_END
