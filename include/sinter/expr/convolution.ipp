// Numbers for each axis, and which op computes what: plain images conv2d, all else convolution.
#pragma once

#include <sinter/expr/convolution.hpp>

#include <sinter/base/index.hpp>
#include <sinter/expr/recording.hpp>

SINTER_NAMESPACE_BEGIN
namespace expr_detail {

inline IntVector numbers_for(const PerAxis& given, int axes, std::string_view what, std::string_view op,
                             Location where) {
  const std::span<const std::int64_t> list = given.list();
  if (list.size() != 1 && list.size() != as_index(axes))
    throw ShapeError(op, std::to_string(list.size()) + " numbers for " + std::string(what), where,
                     "one, or " + std::to_string(axes) + " are required: one for each axis");
  IntVector out;
  for (int i = 0; i < axes; ++i) out.push_back(list[list.size() == 1 ? 0 : as_index(i)]);
  return out;
}

struct ConvNumbers {
  IntVector stride, dilation, low, high;
};

/// The extents of a convolution's kernel shape the code: where they are symbolic, their values become guards.
/// Those of its channels, too, where they are cut into groups.
inline Tensor with_known_kernel(const In& weight, int axes, std::int64_t groups, const Tensor& x, std::string_view op,
                                Location where) {
  const Tensor kernel(weight.tensor());
  Shape shape = kernel.shape();
  if (shape.rank() != axes + 2 || x.rank() != axes + 2)
    throw ShapeError(
        op, "x is " + x.shape().text() + ", weight is " + shape.text(), where,
        axes == 2 ? "x must be (n, channels, height, width) and weight (outputs, channels, kernel height, kernel width)"
                  : "both must have " + std::to_string(axes + 2) + " axes");
  for (int axis = groups == 1 ? 2 : 0; axis < shape.rank(); ++axis)
    shape.set(axis, static_cast<std::int64_t>(shape[axis]));
  return reshape(In(kernel, where), shape);
}

/// The op's rule on channels, said in the terms of the function that was called.
inline void require_channels(const Shape& x, const Shape& weight, std::int64_t groups, std::string_view op,
                             Location where) {
  if (groups < 1 || weight[1] * Dim(groups) == x[1]) return;
  const bool is_grouped = groups > 1;
  throw ShapeError(
      op,
      "x is " + x.text() + ", weight is " + weight.text() +
          (is_grouped ? ", groups are " + std::to_string(groups) : std::string()),
      where,
      "x has " + x[1].text() + " channels: weight.size(1), which is " + weight[1].text() +
          (is_grouped ? ", must be as many divided by the groups" : ", must be as many, or fewer with .groups"));
}

/// The op's bounds, said by the function that was called.
inline void require_number(std::int64_t number, std::string_view what, std::int64_t least, std::string_view op,
                           Location where) {
  constexpr std::int64_t most = std::int64_t{1} << 30;
  if (number >= least && number <= most) return;
  throw ShapeError(op, std::string(what) + " is " + std::to_string(number), where,
                   "it must be from " + std::to_string(least) + " to " + std::to_string(most));
}

inline ConvNumbers conv_numbers(const ConvOptions& options, const Shape& kernel, std::string_view op, Location where) {
  const int axes = kernel.rank() - 2;
  ConvNumbers out{numbers_for(options.stride, axes, "stride", op, where),
                  numbers_for(options.dilation, axes, "dilation", op, where),
                  {},
                  {}};
  if (options.padding.kind() == ConvPadding::numbers) {
    out.low = numbers_for(options.padding.before(), axes, "padding", op, where);
    out.high = numbers_for(options.padding.after(), axes, "padding", op, where);
  }
  for (int i = 0; i < axes; ++i) {
    const auto k = as_index(i);
    require_number(out.stride[k], "stride", 1, op, where);
    require_number(out.dilation[k], "dilation", 1, op, where);
    const bool is_same = options.padding.kind() == ConvPadding::same;
    if (options.padding.kind() != ConvPadding::numbers) {
      const std::int64_t zeros = is_same ? out.dilation[k] * (kernel[2 + i].value() - 1) : 0;
      out.low.push_back(zeros / 2);
      out.high.push_back(zeros - zeros / 2);
    }
    if (is_same && out.stride[k] != 1)
      throw ShapeError(op, "the padding is same, and the stride is " + std::to_string(out.stride[k]), where,
                       "stride 1 is required; name the padding in numbers");
    require_number(out.low[k], "padding", 0, op, where);
    require_number(out.high[k], "padding", 0, op, where);
  }
  return out;
}

/// That a window of `size` fits symbolic axes; the op checks static ones.
inline void require_reach(const Shape& x, int axis, std::int64_t size, std::int64_t padding, std::string_view op,
                          Location where) {
  if (x[axis].is_static() || is_at_most(size, x[axis] + Dim(padding))) return;
  throw ShapeError(
      op, "a window of " + std::to_string(size) + " does not fit axis " + std::to_string(axis) + " of " + x.text(),
      where);
}

inline Tensor convolve(const Tensor& x, const Tensor& weight, const ConvNumbers& numbers, std::int64_t groups,
                       Location where) {
  SharedAttrs shared;
  Attrs& attrs = shared.edit();
  Shape low, high;
  for (std::int64_t number : numbers.low) low.push_back(number);
  for (std::int64_t number : numbers.high) high.push_back(number);
  attrs.set(ops::Convolution::stride, numbers.stride);
  attrs.set(ops::Convolution::dilation, numbers.dilation);
  attrs.set(ops::Convolution::low, low);
  attrs.set(ops::Convolution::high, high);
  attrs.set(ops::Convolution::groups, groups);
  return record<ops::Convolution>({Leaf(x.impl()), Leaf(weight.impl())}, std::move(shared), where);
}

inline Tensor with_bias(const Tensor& x, const std::optional<Tensor>& bias, std::string_view op, Location where) {
  if (!bias) return x;
  if (bias->rank() != 1 || !(bias->shape()[0] == x.shape()[1]))
    throw ShapeError(op, "bias is " + bias->shape().text() + ", the result is " + x.shape().text(), where,
                     "one number for each output channel is required");
  Shape column{x.shape()[1]};
  for (int i = 2; i < x.rank(); ++i) column.push_back(1);
  return x + reshape(In(*bias, where), column);
}

/// Whether x is [c, s...] and stands for a batch of one.
inline bool is_one_example(const In& x, const In& weight, int axes) {
  return x.tensor()->type.shape.rank() == axes + 1 && weight.tensor()->type.shape.rank() == axes + 2;
}

inline Tensor conv(const In& given, const In& weight, const ConvOptions& options, int axes, std::string_view op) {
  const Location where = given.where;
  if (is_one_example(given, weight, axes))
    return squeeze(In(conv(In(unsqueeze(given, 0), where), weight, options, axes, op), where), 0);
  const Tensor x(given.tensor());
  const Tensor kernel = with_known_kernel(weight, axes, options.groups, x, op, where);
  require_channels(x.shape(), kernel.shape(), options.groups, op, where);
  const ConvNumbers numbers = conv_numbers(options, kernel.shape(), op, where);
  bool is_plain = axes == 2 && options.groups == 1;
  for (std::size_t i = 0; i < as_index(axes); ++i) {
    is_plain &= numbers.dilation[i] == 1 && numbers.low[i] == numbers.high[i];
    const std::int64_t reach = (kernel.shape()[static_cast<int>(i) + 2].value() - 1) * numbers.dilation[i] + 1;
    require_reach(x.shape(), static_cast<int>(i) + 2, reach, numbers.low[i] + numbers.high[i], op, where);
  }
  if (!is_plain) return with_bias(convolve(x, kernel, numbers, options.groups, where), options.bias, op, where);
  SharedAttrs shared;
  Attrs& attrs = shared.edit();
  attrs.set(ops::Conv2d::stride, numbers.stride);
  attrs.set(ops::Conv2d::padding, numbers.low);
  return with_bias(record<ops::Conv2d>({Leaf(x.impl()), Leaf(kernel.impl())}, std::move(shared), where), options.bias,
                   op, where);
}

/// weight [c, o / groups, k...] as the kernel of the adjoint: [o, c / groups, k...], mirrored.
inline Tensor adjoint_kernel(const Tensor& weight, std::int64_t groups, Location where) {
  const Shape shape = weight.shape();
  std::vector<int> axes, order{0, 2, 1};
  Shape cut{groups, shape[0] / Dim(groups), shape[1]}, joined{shape[1] * Dim(groups), shape[0] / Dim(groups)};
  for (int i = 2; i < shape.rank(); ++i) {
    axes.push_back(i);
    order.push_back(i + 1);
    cut.push_back(shape[i]);
    joined.push_back(shape[i]);
  }
  const Tensor mirrored = flip(In(weight, where), Axes(axes));
  return reshape(In(permute(In(reshape(In(mirrored, where), cut), where), Axes(order)), where), joined);
}

/// x with stride - 1 zeros between its elements.
inline Tensor spread_by(const Tensor& x, const IntVector& stride, Location where) {
  Shape shape = x.shape();
  std::vector<Index> places(2, Index(all));
  bool is_dense = true;
  for (int i = 2; i < shape.rank(); ++i) {
    const std::int64_t step = stride[as_index(i - 2)];
    is_dense &= step == 1;
    shape.set(i, (shape[i] - Dim(1)) * Dim(step) + Dim(1));
    places.push_back(Index(Slice{0, shape[i], step}, where));
  }
  if (is_dense) return x;
  const Tensor zero = zeros(shape, {.dtype = x.dtype(), .device = x.device()}, where);
  return update(In(zero, where), places, In(x, where));
}

struct TransposedNumbers {
  IntVector stride, padding, extra, dilation;
  Shape extents;  // of the result
};
inline TransposedNumbers transposed_numbers(const Tensor& x, const Shape& kernel, const ConvTransposeOptions& options,
                                            std::string_view op, Location where) {
  const int axes = kernel.rank() - 2;
  TransposedNumbers out{numbers_for(options.stride, axes, "stride", op, where),
                        numbers_for(options.padding, axes, "padding", op, where),
                        numbers_for(options.output_padding, axes, "output_padding", op, where),
                        numbers_for(options.dilation, axes, "dilation", op, where),
                        {}};
  for (int i = 0; i < axes; ++i) {
    const auto k = as_index(i);
    const std::int64_t stride = out.stride[k], dilation = out.dilation[k], padding = out.padding[k],
                       extra = out.extra[k];
    if (stride < 1 || dilation < 1 || padding < 0 || extra < 0 || extra >= std::max(stride, dilation))
      throw ShapeError(op,
                       "stride " + std::to_string(stride) + ", dilation " + std::to_string(dilation) + ", padding " +
                           std::to_string(padding) + ", output_padding " + std::to_string(extra),
                       where, "stride and dilation must be positive, output_padding less than one of them");
    const std::int64_t reach = dilation * (kernel[2 + i].value() - 1);
    const Dim length = (x.shape()[2 + i] - Dim(1)) * Dim(stride) + Dim(reach - 2 * padding + extra + 1);
    if (!is_at_most(1, x.shape()[2 + i]) || !is_at_most(1, length))
      throw ShapeError(
          op,
          "axis " + std::to_string(2 + i) + " of the result has extent " + length.text() + ": x is " + x.shape().text(),
          where, "x must not be empty, and the padding less");
    out.extents.push_back(length);
  }
  return out;
}

/// The gradient by the image of a convolution whose result has the extents of x.
inline Tensor image_gradient(const Tensor& x, const Tensor& kernel, const TransposedNumbers& numbers,
                             std::int64_t groups, Location where) {
  Shape image{x.shape()[0], kernel.shape()[1] * Dim(groups)}, border;
  for (const Dim extent : numbers.extents) image.push_back(extent);
  for (const std::int64_t padding : numbers.padding) border.push_back(padding);
  SharedAttrs shared;
  Attrs& attrs = shared.edit();
  attrs.shape = image;
  attrs.set(ops::ConvolutionGradient::by, ops::ConvolutionOperand::image);
  attrs.set(ops::ConvolutionGradient::stride, numbers.stride);
  attrs.set(ops::ConvolutionGradient::dilation, numbers.dilation);
  attrs.set(ops::ConvolutionGradient::low, border);
  attrs.set(ops::ConvolutionGradient::high, border);
  attrs.set(ops::ConvolutionGradient::groups, groups);
  return record<ops::ConvolutionGradient>({Leaf(x.impl()), Leaf(kernel.impl())}, std::move(shared), where);
}

/// x spread by the stride, and convolved with the mirrored kernel: the result may have more elements at its end than a
/// convolution would pass over.
inline Tensor convolve_spread(Tensor x, const Tensor& kernel, const TransposedNumbers& numbers, std::int64_t groups,
                              Location where) {
  const int axes = kernel.rank() - 2;
  ConvNumbers own{IntVector(as_index(axes), 1), numbers.dilation, {}, {}};
  x = spread_by(x, numbers.stride, where);
  for (int i = 0; i < axes; ++i) {
    const auto k = as_index(i);
    const std::int64_t border = numbers.dilation[k] * (kernel.shape()[2 + i].value() - 1) - numbers.padding[k],
                       extra = numbers.extra[k];
    own.low.push_back(std::max<std::int64_t>(border, 0));
    own.high.push_back(std::max<std::int64_t>(border + extra, 0));
    const std::int64_t front = std::max<std::int64_t>(-border, 0), back = std::max<std::int64_t>(-border - extra, 0);
    if (front + back > 0) x = part_of(x, 2 + i, front, x.shape()[2 + i] - back, where);
  }
  return convolve(x, adjoint_kernel(kernel, groups, where), own, groups, where);
}

inline Tensor conv_transpose(const In& given, const In& weight, const ConvTransposeOptions& options, int axes,
                             std::string_view op) {
  const Location where = given.where;
  if (is_one_example(given, weight, axes))
    return squeeze(In(conv_transpose(In(unsqueeze(given, 0), where), weight, options, axes, op), where), 0);
  const Tensor x(given.tensor());
  const Tensor kernel = with_known_kernel(weight, axes, options.groups, x, op, where);
  const Shape shape = kernel.shape();
  if (options.groups < 1 || !(shape[0] == x.shape()[1]) || !(shape[0] % Dim(options.groups) == Dim(0)))
    throw ShapeError(
        op,
        "x is " + x.shape().text() + ", weight is " + shape.text() + ", groups are " + std::to_string(options.groups),
        where, "weight must be (channels, outputs / groups, kernel), channels a multiple of the groups");
  const TransposedNumbers numbers = transposed_numbers(x, shape, options, op, where);
  bool is_gradient = true;
  for (std::size_t i = 0; i < as_index(axes); ++i) is_gradient &= numbers.extra[i] < numbers.stride[i];
  return with_bias(is_gradient ? image_gradient(x, kernel, numbers, options.groups, where)
                               : convolve_spread(x, kernel, numbers, options.groups, where),
                   options.bias, op, where);
}

}  // namespace expr_detail

SINTER_DECL std::span<const std::int64_t> PerAxis::list() const { return numbers_; }
SINTER_DECL ConvPadding::ConvPadding(std::initializer_list<std::pair<std::int64_t, std::int64_t>> pairs)
    : kind_(Kind::numbers), before_(0), after_(0) {
  std::vector<std::int64_t> before, after;
  for (const auto& [low, high] : pairs) {
    before.push_back(low);
    after.push_back(high);
  }
  before_ = PerAxis(before);
  after_ = PerAxis(after);
}

SINTER_DECL Tensor conv1d(const In& x, const In& weight, ConvOptions options) {
  return expr_detail::conv(x, weight, options, 1, "conv1d");
}
SINTER_DECL Tensor conv2d(const In& x, const In& weight, ConvOptions options) {
  return expr_detail::conv(x, weight, options, 2, "conv2d");
}
SINTER_DECL Tensor conv3d(const In& x, const In& weight, ConvOptions options) {
  return expr_detail::conv(x, weight, options, 3, "conv3d");
}
SINTER_DECL Tensor conv_transpose1d(const In& x, const In& weight, ConvTransposeOptions options) {
  return expr_detail::conv_transpose(x, weight, options, 1, "conv_transpose1d");
}
SINTER_DECL Tensor conv_transpose2d(const In& x, const In& weight, ConvTransposeOptions options) {
  return expr_detail::conv_transpose(x, weight, options, 2, "conv_transpose2d");
}
SINTER_DECL Tensor conv_transpose3d(const In& x, const In& weight, ConvTransposeOptions options) {
  return expr_detail::conv_transpose(x, weight, options, 3, "conv_transpose3d");
}

namespace expr_detail {
struct WindowNumbers {
  IntVector kernel, dilation, padding, stride, reach;
};
inline WindowNumbers window_numbers(const PerAxis& kernel, const UnfoldOptions& options, std::string_view op,
                                    Location where) {
  WindowNumbers out{numbers_for(kernel, 2, "kernel", op, where),
                    numbers_for(options.dilation, 2, "dilation", op, where),
                    numbers_for(options.padding, 2, "padding", op, where),
                    numbers_for(options.stride, 2, "stride", op, where),
                    {}};
  for (std::size_t i = 0; i < 2; ++i) {
    if (out.kernel[i] < 1 || out.dilation[i] < 1 || out.padding[i] < 0 || out.stride[i] < 1)
      throw ShapeError(op, "kernel, dilation and stride must be positive and padding not negative", where);
    out.reach.push_back((out.kernel[i] - 1) * out.dilation[i] + 1);
  }
  return out;
}
inline std::vector<std::pair<int, int>> borders_of(const WindowNumbers& numbers) {
  const auto height = static_cast<int>(numbers.padding[0]), width = static_cast<int>(numbers.padding[1]);
  return {{0, 0}, {0, 0}, {height, height}, {width, width}};
}
}  // namespace expr_detail

SINTER_DECL Tensor unfold(const In& x, PerAxis kernel, UnfoldOptions options) {
  const Location where = x.where;
  const auto numbers = expr_detail::window_numbers(kernel, options, "unfold", where);
  const Tensor image(x.tensor());
  if (image.rank() != 4)
    throw ShapeError("unfold", "x is " + image.shape().text(), where, "x must be (n, channels, height, width)");
  const Tensor padded = pad(In(image, where), expr_detail::borders_of(numbers));
  for (int i = 0; i < 2; ++i)
    expr_detail::require_reach(padded.shape(), 2 + i, numbers.reach[as_index(i)], 0, "unfold", where);
  SharedAttrs shared;
  Attrs& attrs = shared.edit();
  attrs.axes = {2, 3};
  attrs.set(ops::Windows::sizes, numbers.reach);
  attrs.set(ops::Windows::strides, numbers.stride);
  const Tensor reached = expr_detail::record<ops::Windows>({Leaf(padded.impl())}, std::move(shared), where);
  std::vector<Index> taps(4, Index(all));
  for (std::size_t i = 0; i < 2; ++i)
    taps.push_back(Index(Slice{0, Dim(numbers.reach[i]), numbers.dilation[i]}, where));
  const Tensor seen = index(In(reached, where), taps);  // (n, c, positions, taps)
  const Shape shape = seen.shape();
  return reshape(In(permute(In(seen, where), {0, 1, 4, 5, 2, 3}), where),
                 Shape{shape[0], shape[1] * shape[4] * shape[5], shape[2] * shape[3]});
}

SINTER_DECL Tensor fold(const In& x, const Shape& size, PerAxis kernel, UnfoldOptions options) {
  const Location where = x.where;
  const auto numbers = expr_detail::window_numbers(kernel, options, "fold", where);
  const Tensor columns(x.tensor());
  const Shape from = columns.shape();
  const std::int64_t taps = numbers.kernel[0] * numbers.kernel[1];
  Shape whole{1, 1}, positions;
  for (int i = 0; i < std::min(size.rank(), 2); ++i) {
    const auto k = as_index(i);
    whole.push_back(size[i] + Dim(2 * numbers.padding[k]));
    positions.push_back((whole[2 + i] - Dim(numbers.reach[k])) / Dim(numbers.stride[k]) + Dim(1));
  }
  if (from.rank() != 3 || size.rank() != 2 || !(from[1] % Dim(taps) == Dim(0)) ||
      !(from[2] == positions[0] * positions[1]))
    throw ShapeError("fold", "x is " + from.text() + ", the images are to be " + size.text(), where,
                     "x must be (n, channels * " + std::to_string(taps) + ", positions), as unfold gives it");
  const Dim channels = from[1] / Dim(taps);
  whole.set(0, from[0]);
  whole.set(1, channels);
  const Shape split{from[0], channels, numbers.kernel[0], numbers.kernel[1], positions[0], positions[1]};
  Tensor seen = permute(In(reshape(In(columns, where), split), where), {0, 1, 4, 5, 2, 3});
  if (numbers.dilation[0] > 1 || numbers.dilation[1] > 1) {  // zeros between the taps
    const Shape spread{from[0], channels, positions[0], positions[1], numbers.reach[0], numbers.reach[1]};
    std::vector<Index> places(4, Index(all));
    for (std::size_t i = 0; i < 2; ++i)
      places.push_back(Index(Slice{0, Dim(numbers.reach[i]), numbers.dilation[i]}, where));
    const Tensor zero = zeros(spread, {.dtype = seen.dtype(), .device = seen.device()}, where);
    seen = update(In(zero, where), places, In(seen, where));
  }
  SharedAttrs shared;
  Attrs& attrs = shared.edit();
  attrs.axes = {2, 3};
  attrs.shape = whole;
  attrs.set(ops::SumWindows::sizes, numbers.reach);
  attrs.set(ops::SumWindows::strides, numbers.stride);
  Tensor image = expr_detail::record<ops::SumWindows>({Leaf(seen.impl())}, std::move(shared), where);
  for (int i = 0; i < 2; ++i) {
    const Dim border = numbers.padding[as_index(i)];
    image = expr_detail::part_of(image, 2 + i, border, border + size[i], where);
  }
  return image;
}

SINTER_NAMESPACE_END
