// Convolution of one to three axes with any padding, dilation and groups, and the sum of windows that unfolding makes.
#pragma once

#include <sinter/ops/infer.hpp>
#include <sinter/ops/val_ops.hpp>

SINTER_NAMESPACE_BEGIN
namespace ops {

/// Of each axis, and how many groups the channels are in.
struct ConvolutionAttributes {
  static constexpr OpAttr<IntVector> stride{"stride", 0}, dilation{"dilation", 1};
  static constexpr OpAttr<Shape> low{"low", 0}, high{"high", 1};
  static constexpr OpAttr<std::int64_t> groups{"groups", 0, 1};
  static constexpr auto attributes = attribute_list(stride, dilation, low, high, groups);
};

/// convolution(x [n, c, s...], weight [o, c / groups, k...]) with `low` and `high` zeros around each axis s. One matrix
/// product for each group over the windows as rows; where each channel is a group, a sum over its windows.
struct Convolution : ConvolutionAttributes {
  static constexpr OpInfo info{.name = "convolution", .arity = 2, .kind = OpKind::composite};
  static Type infer(const InferArgs& args);
  static Val decompose(const DecomposeArgs& args);
  static ValList vjp(const VjpArgs& a);
  static Batched batch(const BatchArgs& a);
};

/// The gradient of a convolution by its weight, which is attrs.shape: of x [n, c, s...] and the result's gradient with
/// the channels in front, [o, n, positions...]. One matrix product for each group.
struct ConvolutionWeightGradient : ConvolutionAttributes {
  static constexpr OpInfo info{.name = "convolution_weight_gradient", .arity = 2, .kind = OpKind::composite};
  static constexpr auto attributes = attribute_list(attr::shape, stride, dilation, low, high, groups);
  static Type infer(const InferArgs& args);
  static Val decompose(const DecomposeArgs& args);
};

/// The gradient of a convolution by one of its operands, which is attrs.shape: by the image, of the result's gradient
/// and the weight; by the weight, of x and the result's gradient. The first is a convolution of the gradient, spread by
/// the stride, with the mirrored weight; the second a convolution_weight_gradient.
enum class ConvolutionOperand : std::uint8_t { image, weight };
struct ConvolutionGradient : ConvolutionAttributes {
  static constexpr OpInfo info{.name = "convolution_gradient", .arity = 2, .kind = OpKind::composite};
  static constexpr OpAttr<ConvolutionOperand> by{"by", 1, "image weight"};
  static constexpr auto attributes = attribute_list(attr::shape, by, stride, dilation, low, high, groups);
  static Type infer(const InferArgs& args);
  static Val decompose(const DecomposeArgs& args);
  static ValList vjp(const VjpArgs& a);
  static Batched batch(const BatchArgs& a);
};

/// The adjoint of windows: elements [positions..., sizes...] added up where they came from, in attrs.shape. The windows
/// were of that padded by `low` and `high` along each axis, where these are given: what lies there is left out.
struct SumWindows {
  static constexpr OpInfo info{.name = "sum_windows", .arity = 1, .kind = OpKind::composite};
  static constexpr OpAttr<IntVector> sizes{"sizes", 0}, strides{"strides", 1};
  static constexpr OpAttr<Shape> low{"low", 0}, high{"high", 1};
  static constexpr auto attributes = attribute_list(attr::axes, attr::shape, sizes, strides, low, high);
  static Type infer(const InferArgs& args);
  static Val decompose(const DecomposeArgs& args);
  static ValList vjp(const VjpArgs& a);
  static Batched batch(const BatchArgs& a);
};

}  // namespace ops
SINTER_NAMESPACE_END
