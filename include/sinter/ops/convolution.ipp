// Windows as rows, grouped.
#pragma once

#include <sinter/base/index.hpp>
#include <sinter/ops/batch.hpp>
#include <sinter/ops/conv.ipp>
#include <sinter/ops/convolution.hpp>
#include <sinter/ops/view.hpp>
#include <sinter/ops/window_taps.hpp>

#include <algorithm>
#include <utility>

SINTER_NAMESPACE_BEGIN
namespace ops_detail {

/// Elements that a kernel of `taps` reaches over.
inline std::int64_t kernel_reach(std::int64_t taps, std::int64_t dilation) { return (taps - 1) * dilation + 1; }

/// [n, c, positions..., taps...].
inline Val convolution_windows(Val x, const Shape& weight, const Attrs& attrs) {
  using Op = ops::ConvolutionAttributes;
  Shape low{0, 0}, high{0, 0};
  IntVector axes, reach, every(as_index(2 * x.rank() - 2), 1);
  bool is_dilated = false;
  for (int i = 2; i < x.rank(); ++i) {
    const auto k = as_index(i - 2);
    low.push_back(attrs[Op::low][i - 2]);
    high.push_back(attrs[Op::high][i - 2]);
    axes.push_back(i);
    reach.push_back(kernel_reach(weight[i].value(), attrs[Op::dilation][k]));
    every[as_index(x.rank() - 2 + i)] = attrs[Op::dilation][k];
    is_dilated |= attrs[Op::dilation][k] > 1;
  }
  const Val seen = windows(pad(x, low, high, 0), axes, reach, attrs[Op::stride]);
  return is_dilated ? slice(seen, zero_starts(seen.rank()), seen.shape(), every) : seen;
}

/// The windows as rows, [groups, positions, inputs * taps], positions of all images. `seen` is [n, c, positions...,
/// taps...].
inline Val window_rows(Val seen, const Shape& weight, std::int64_t groups) {
  const int axes = weight.rank() - 2;
  IntVector order{1, 0};  // [c, n, positions..., taps...]: channels in front, to be cut into groups
  for (int i = 2; i < seen.rank(); ++i) order.push_back(i);
  Dim positions = seen.shape()[0], taps = 1;
  for (int i = 0; i < axes; ++i) {
    positions = positions * seen.shape()[2 + i];
    taps = taps * weight[2 + i];
  }
  const Val cut = reshape(permute(seen, order), {groups, weight[1], positions, taps});
  return reshape(permute(cut, {0, 2, 1, 3}), {groups, positions, weight[1] * taps});
}

/// Is each channel a group, with one output?
inline bool is_depthwise(const Shape& weight, std::int64_t groups) {
  return groups > 1 && is_one(weight[1]) && weight[0] == Dim(groups);
}

/// Each channel by itself: the windows times its weights, summed.
inline Val convolve_channels(Val seen, Val weight) {
  const int axes = weight.rank() - 2;
  Shape shape{weight.shape()[0]};
  IntVector summed;
  for (int i = 0; i < axes; ++i) shape.push_back(1);
  for (int i = 0; i < axes; ++i) {
    shape.push_back(weight.shape()[2 + i]);
    summed.push_back(2 + axes + i);
  }
  return sum(seen * reshape(weight, shape), summed);
}

}  // namespace ops_detail

namespace ops {

SINTER_DECL Type Convolution::infer(const InferArgs& args) {
  ops_detail::require_floating(args);
  ops_detail::require_same_dtype(args);
  const Shape &x = args.in[0].shape, &weight = args.in[1].shape;
  const int axes = x.rank() - 2;
  const std::int64_t parts = args.attrs[groups];
  const bool fits = axes >= 1 && axes <= 3 && weight.rank() == x.rank() && parts >= 1 &&
                    parts <= ops_detail::most_window_number && x[1] == weight[1] * Dim(parts) &&
                    weight[0] % Dim(parts) == Dim(0);
  if (!fits)
    throw ShapeError(args.op,
                     "x is " + x.text() + ", weight is " + weight.text() + ", groups are " + std::to_string(parts),
                     args.where,
                     "x must be (n, channels, 1 to 3 axes) and weight (outputs, channels / groups, kernel), outputs a "
                     "multiple of the groups");
  ensure(args.attrs[stride].size() == as_index(axes) && args.attrs[dilation].size() == as_index(axes) &&
             args.attrs[low].rank() == axes && args.attrs[high].rank() == axes,
         "convolution: stride, dilation and padding of each axis are required");
  Shape out{x[0], weight[0]};
  for (int i = 0; i < axes; ++i) {
    if (!weight[2 + i].is_static())
      throw ShapeError(args.op, "the kernel's extents must be known: weight is " + weight.text(), args.where,
                       "do not mark them dynamic");
    const std::int64_t step = args.attrs[stride][as_index(i)], apart = args.attrs[dilation][as_index(i)];
    ops_detail::require_window_number(args, "the kernel", weight[2 + i].value(), 1);
    ops_detail::require_window_number(args, "stride", step, 1);
    ops_detail::require_window_number(args, "dilation", apart, 1);
    for (Dim border : {args.attrs[low][i], args.attrs[high][i]})
      if (border.is_static()) ops_detail::require_window_number(args, "padding", border.value(), 0);
    const std::int64_t reach = ops_detail::kernel_reach(weight[2 + i].value(), apart);
    const Dim extent = x[2 + i] + args.attrs[low][i] + args.attrs[high][i];
    if (ops_detail::is_shorter(extent, reach))
      throw ShapeError(args.op,
                       "a kernel that reaches over " + std::to_string(reach) + " does not fit axis " +
                           std::to_string(2 + i) + " of " + x.text() + " with its padding",
                       args.where);
    out.push_back((extent - Dim(reach)) / Dim(step) + Dim(1));
  }
  return ops_detail::with_shape(args, out);
}

SINTER_DECL Val Convolution::decompose(const DecomposeArgs& args) {
  const Val weight = args.in[1];
  const Shape shape = weight.shape();
  const std::int64_t parts = args.attrs[groups];
  const int axes = weight.rank() - 2;
  const Val seen = ops_detail::convolution_windows(args.in[0], shape, args.attrs);
  if (ops_detail::is_depthwise(shape, parts)) return ops_detail::convolve_channels(seen, weight);
  const Val rows = ops_detail::window_rows(seen, shape, parts);
  const Dim positions = rows.shape()[1], inputs_and_taps = rows.shape()[2], outputs = shape[0] / Dim(parts);
  const Val columns = transpose(reshape(weight, {parts, outputs, inputs_and_taps}));
  const Val product =
      parts == 1 ? matmul(reshape(rows, {positions, inputs_and_taps}), reshape(columns, {inputs_and_taps, outputs}))
                 : matmul(rows, columns);  // [groups, positions, outputs]
  const Val joined = permute(reshape(product, {parts, positions, outputs}), {1, 0, 2});
  Shape spread{seen.shape()[0]};
  IntVector channels_second{0, axes + 1};
  for (int i = 0; i < axes; ++i) {
    spread.push_back(seen.shape()[2 + i]);
    channels_second.push_back(1 + i);
  }
  spread.push_back(shape[0]);
  return permute(reshape(joined, spread), channels_second);
}

}  // namespace ops

namespace ops_detail {

/// weight [o, c / groups, taps...] of the convolution that takes gradients of the result to those of x: mirrored, with
/// inputs and outputs of each group exchanged.
inline Val adjoint_weight(Val weight, std::int64_t groups) {
  const Shape shape = weight.shape();
  Shape cut{groups, shape[0] / Dim(groups), shape[1]}, joined{shape[1] * Dim(groups), shape[0] / Dim(groups)};
  std::int64_t taps = 1;
  IntVector order{0, 2, 1};
  for (int i = 2; i < shape.rank(); ++i) {
    taps *= shape[i].value();
    cut.push_back(shape[i]);
    joined.push_back(shape[i]);
    order.push_back(i + 1);
  }
  if (taps > 1) {
    const Val backwards = static_cast<double>(taps - 1) - iota(weight, {taps}, 0, DType::i64);
    weight = take(reshape(weight, {shape[0], shape[1], taps}), backwards, 2);
  }
  return reshape(permute(reshape(weight, cut), order), joined);
}

/// Do windows of single elements skip some of the image?
inline bool skips_elements(const Shape& weight, const Attrs& attrs) {
  using Op = ops::ConvolutionAttributes;
  std::int64_t steps = 1;
  for (int i = 2; i < weight.rank(); ++i) {
    const Dim low = attrs[Op::low][i - 2], high = attrs[Op::high][i - 2];
    if (!is_one(weight[i]) || !(low == Dim(0)) || !(high == Dim(0))) return false;
    steps = std::max(steps, attrs[Op::stride][as_index(i - 2)]);
  }
  return steps > 1;
}
/// Is the padding known, and more on one side of an axis than on the other?
inline bool is_uneven(const Attrs& attrs) {
  using Op = ops::ConvolutionAttributes;
  bool differ = false;
  for (int i = 0; i < attrs[Op::low].rank(); ++i) {
    const Dim low = attrs[Op::low][i], high = attrs[Op::high][i];
    if (!low.is_static() || !high.is_static()) return false;
    differ |= low.value() != high.value();
  }
  return differ;
}
/// The gradient by the padded image without its borders: libraries know no padding that is uneven.
inline Val cropped_image_gradient(Val dout, Val weight, const Shape& image, const Attrs& attrs) {
  using Op = ops::ConvolutionAttributes;
  Shape padded{image[0], image[1]}, starts{0, 0}, ends{image[0], image[1]}, none;
  for (int i = 2; i < image.rank(); ++i) {
    const Dim low = attrs[Op::low][i - 2];
    padded.push_back(image[i] + low + attrs[Op::high][i - 2]);
    starts.push_back(low);
    ends.push_back(low + image[i]);
    none.push_back(0);
  }
  Attrs own = attrs;
  own.set(Op::low, none);
  own.set(Op::high, none);
  const Val whole = convolution_gradient(dout, weight, ops::ConvolutionOperand::image, padded, own);
  return slice(whole, starts, ends, IntVector(as_index(image.rank()), 1));
}

/// The result's gradient spread by the stride and bordered, convolved with the mirrored weight. Padding beyond what the
/// kernel reaches is cropped away again; one that is no number is first taken for a part of the image. Of single
/// elements, the product is spread.
inline Val convolution_image_gradient(Val dout, Val weight, const Shape& image, const Attrs& attrs) {
  using Op = ops::Convolution;
  const Shape kernel = weight.shape();
  if (skips_elements(kernel, attrs)) {
    IntVector steps{1, 1};
    for (const std::int64_t step : attrs[Op::stride]) steps.push_back(step);
    Attrs own = attrs;
    own.set(Op::stride, IntVector(as_index(image.rank() - 2), 1));
    const Val product = apply(op_info<Op>, {dout, adjoint_weight(weight, attrs[Op::groups])}, std::move(own));
    return place(product, image, zero_starts(image.rank()), steps);
  }
  Shape spread{image[0], kernel[0]}, starts{0, 0}, crop_starts{0, 0}, crop_ends{image[0], image[1]}, none;
  IntVector steps{1, 1}, ones;
  for (int i = 2; i < image.rank(); ++i) {
    const auto k = as_index(i - 2);
    const Dim low = attrs[Op::low][i - 2], high = attrs[Op::high][i - 2];
    const bool is_known = low.is_static() && high.is_static();
    const std::int64_t reach = kernel_reach(kernel[i].value(), attrs[Op::dilation][k]) - 1,
                       border = reach - (is_known ? low.value() : 0), cropped = std::max<std::int64_t>(-border, 0),
                       cropped_above = std::max<std::int64_t>((is_known ? high.value() : 0) - reach, 0);
    const Dim extent = is_known ? image[i] : image[i] + low + high;
    spread.push_back(extent + Dim(cropped + cropped_above + reach));
    starts.push_back(border + cropped);
    steps.push_back(attrs[Op::stride][k]);
    crop_starts.push_back(is_known ? Dim(cropped) : low);
    crop_ends.push_back(crop_starts[i] + image[i]);
    none.push_back(0);
    ones.push_back(1);
  }
  const Val bordered = place(dout, spread, starts, steps);
  Attrs own = attrs;
  own.set(Op::stride, ones);
  own.set(Op::low, none);
  own.set(Op::high, none);
  const Val whole = apply(op_info<Op>, {bordered, adjoint_weight(weight, attrs[Op::groups])}, std::move(own));
  return slice(whole, crop_starts, crop_ends, IntVector(as_index(image.rank()), 1));
}

/// The attributes that all convolutions have, without those of one op.
inline Attrs convolution_numbers(const Attrs& attrs) {
  using Op = ops::ConvolutionAttributes;
  return Attrs{}
      .with(Op::stride, attrs[Op::stride])
      .with(Op::dilation, attrs[Op::dilation])
      .with(Op::low, attrs[Op::low])
      .with(Op::high, attrs[Op::high])
      .with(Op::groups, attrs[Op::groups]);
}
/// Is it of plain images?
inline bool is_conv2d(const Shape& weight, const Attrs& attrs) {
  using Op = ops::ConvolutionAttributes;
  bool is_so = weight.rank() == 4 && attrs[Op::groups] == 1;
  for (int i = 0; is_so && i < 2; ++i) {
    const Dim low = attrs[Op::low][i], high = attrs[Op::high][i];
    is_so = attrs[Op::dilation][as_index(i)] == 1 && low.is_static() && high.is_static() && low.value() == high.value();
  }
  return is_so;
}
inline Attrs conv2d_numbers(const Attrs& attrs) {
  using Op = ops::ConvolutionAttributes;
  return Attrs{}
      .with(ops::Conv2d::stride, attrs[Op::stride])
      .with(ops::Conv2d::padding, {attrs[Op::low][0].value(), attrs[Op::low][1].value()});
}
inline Val convolve(Val x, Val weight, const Attrs& attrs) {
  if (is_conv2d(weight.shape(), attrs)) return apply(op_info<ops::Conv2d>, {x, weight}, conv2d_numbers(attrs));
  return apply(op_info<ops::Convolution>, {x, weight}, attrs);
}

/// Extents that are known and not the same.
inline bool differs(Dim a, Dim b) { return a.is_static() && b.is_static() && a.value() != b.value(); }

/// Sums over the positions of each channel.
inline Val depthwise_weight_gradient(Val x, Val dout, const Shape& weight, const Attrs& attrs) {
  const Val seen = convolution_windows(x, weight, attrs);  // [n, c, positions..., taps...]
  Shape shape = dout.shape();
  IntVector summed{0};
  for (int i = 2; i < weight.rank(); ++i) {
    shape.push_back(1);
    summed.push_back(i);
  }
  return reshape(sum(seen * reshape(dout, shape), summed), weight);
}

inline Val convolution_weight_gradient(Val x, Val dout, const Shape& weight, const Attrs& attrs) {
  using Op = ops::ConvolutionAttributes;
  if (is_depthwise(weight, attrs[Op::groups])) return depthwise_weight_gradient(x, dout, weight, attrs);
  IntVector channels_first{1, 0};
  for (int i = 2; i < dout.rank(); ++i) channels_first.push_back(i);
  Attrs own = attrs;
  own.shape = weight;
  return apply(op_info<ops::ConvolutionWeightGradient>, {x, permute(dout, channels_first)}, std::move(own));
}

}  // namespace ops_detail

namespace ops {

SINTER_DECL ValList Convolution::vjp(const VjpArgs& a) {
  const Val x = a.in[0], weight = a.in[1];
  const Attrs numbers = ops_detail::convolution_numbers(a.attrs);
  using Operand = ConvolutionOperand;
  Val dx, dweight;
  if (a.needs(0)) dx = ops_detail::convolution_gradient(a.dout, weight, Operand::image, x.shape(), numbers);
  if (a.needs(1)) dweight = ops_detail::convolution_gradient(x, a.dout, Operand::weight, weight.shape(), numbers);
  return {dx, dweight};
}

SINTER_DECL Type ConvolutionGradient::infer(const InferArgs& args) {
  ops_detail::require_count(args, 2, 2);
  ops_detail::require_floating(args);
  ops_detail::require_same_dtype(args);
  const bool is_image = args.attrs[by] == ConvolutionOperand::image;
  const Shape &dout = args.in[is_image ? 0 : 1].shape, &other = args.in[is_image ? 1 : 0].shape,
              &x = is_image ? args.attrs.shape : other, &weight = is_image ? other : args.attrs.shape;
  const Type convolved[] = {Type{args.in[0].dtype, args.in[0].device, x},
                            Type{args.in[0].dtype, args.in[0].device, weight}};
  const Shape out = Convolution::infer({convolved, args.attrs, args.op, args.where}).shape;
  bool fits = dout.rank() == x.rank();
  fits = fits && dout[0] == out[0] && dout[1] == out[1];
  for (int i = 2; fits && i < x.rank(); ++i) fits = !ops_detail::differs(dout[i], out[i]);
  if (!fits)
    throw ShapeError(args.op,
                     "the gradient is " + dout.text() + ", the convolution of " + x.text() + " by " + weight.text() +
                         " is " + out.text(),
                     args.where);
  return ops_detail::with_shape(args, args.attrs.shape);
}

SINTER_DECL Val ConvolutionGradient::decompose(const DecomposeArgs& args) {
  const Attrs numbers = ops_detail::convolution_numbers(args.attrs);
  const Val first = args.in[0], second = args.in[1];
  const Shape& shape = args.attrs.shape;
  if (args.attrs[by] == ConvolutionOperand::weight)
    return ops_detail::convolution_weight_gradient(first, second, shape, numbers);
  if (ops_detail::is_conv2d(second.shape(), numbers))
    return ops_detail::conv_image_gradient(
        first, second, ops_detail::ConvNumbers(second.shape(), ops_detail::conv2d_numbers(numbers)), shape);
  if (ops_detail::is_uneven(numbers)) return ops_detail::cropped_image_gradient(first, second, shape, numbers);
  return ops_detail::convolution_image_gradient(first, second, shape, numbers);
}

/// Both gradients are linear in both operands: their derivatives are the convolution and the other gradient.
SINTER_DECL ValList ConvolutionGradient::vjp(const VjpArgs& a) {
  const Attrs numbers = ops_detail::convolution_numbers(a.attrs);
  const Val first = a.in[0], second = a.in[1];
  using Operand = ConvolutionOperand;
  Val dfirst, dsecond;
  if (a.attrs[by] == Operand::image) {
    if (a.needs(0)) dfirst = ops_detail::convolve(a.dout, second, numbers);
    if (a.needs(1)) dsecond = ops_detail::convolution_gradient(a.dout, first, Operand::weight, second.shape(), numbers);
  } else {
    if (a.needs(0)) dfirst = ops_detail::convolution_gradient(second, a.dout, Operand::image, first.shape(), numbers);
    if (a.needs(1)) dsecond = ops_detail::convolve(first, a.dout, numbers);
  }
  return {dfirst, dsecond};
}

SINTER_DECL Type ConvolutionWeightGradient::infer(const InferArgs& args) {
  ops_detail::require_count(args, 2, 2);
  ops_detail::require_floating(args);
  ops_detail::require_same_dtype(args);
  const Shape &x = args.in[0].shape, &dout = args.in[1].shape, &weight = args.attrs.shape;
  const Type convolved[] = {args.in[0], Type{args.in[0].dtype, args.in[0].device, weight}};
  const Shape out = Convolution::infer({convolved, args.attrs, args.op, args.where}).shape;
  bool fits = dout.rank() == x.rank() && dout[0] == out[1] && dout[1] == out[0];
  for (int i = 2; fits && i < x.rank(); ++i) fits = !ops_detail::differs(dout[i], out[i]);
  if (!fits)
    throw ShapeError(args.op,
                     "the gradient is " + dout.text() + ", the convolution of " + x.text() + " by " + weight.text() +
                         " is " + out.text(),
                     args.where, "the gradient has the channels in front");
  return ops_detail::with_shape(args, weight);
}

SINTER_DECL Val ConvolutionWeightGradient::decompose(const DecomposeArgs& args) {
  const Shape& weight = args.attrs.shape;
  const std::int64_t parts = args.attrs[groups];
  const Val seen = ops_detail::convolution_windows(args.in[0], weight, args.attrs),
            rows = ops_detail::window_rows(seen, weight, parts);
  const Dim outputs = weight[0] / Dim(parts), positions = rows.shape()[1], columns = rows.shape()[2];
  if (parts == 1)
    return reshape(matmul(reshape(args.in[1], {outputs, positions}), reshape(rows, {positions, columns})), weight);
  return reshape(matmul(reshape(args.in[1], {parts, outputs, positions}), rows), weight);
}

/// The batch joins the first axis of x; weights for each example make groups of their own.
SINTER_DECL Batched Convolution::batch(const BatchArgs& a) {
  if (a.is_batched(1)) {
    if (!a.size.is_static()) return {};
    const Val x = ops_detail::with_batch(a, 0), weight = a.in[1];  // [b, n, c, s...], [b, o, c / groups, k...]
    const Shape from = x.shape(), kernel = weight.shape();
    Shape joined{from[1], from[0] * from[2]}, kernels{kernel[0] * kernel[1]};
    for (int i = 3; i < from.rank(); ++i) joined.push_back(from[i]);
    for (int i = 2; i < kernel.rank(); ++i) kernels.push_back(kernel[i]);
    Attrs attrs = a.attrs;
    attrs.set(groups, a.attrs[groups] * a.size.value());
    const Val out = apply(a.op, {reshape(ops_detail::move_axis(x, 0, 1), joined), reshape(weight, kernels)}, attrs);
    Shape split{from[1], from[0], kernel[1]};
    for (int i = 2; i < out.rank(); ++i) split.push_back(out.shape()[i]);
    return ops_detail::move_axis(reshape(out, split), 1, 0);
  }
  const Shape from = a.in[0].shape();
  Shape joined{from[0] * from[1]};
  for (int i = 2; i < from.rank(); ++i) joined.push_back(from[i]);
  const Val out = apply(a.op, {reshape(a.in[0], joined), a.in[1]}, a.attrs);
  Shape split{from[0], from[1]};
  for (int i = 1; i < out.rank(); ++i) split.push_back(out.shape()[i]);
  return reshape(out, split);
}

/// By the image, the batch joins the images where the weight is one for all. Else each example makes groups of its own:
/// weights, or gradients by them, of [b, o, c / groups, k...] are those of b * o outputs.
SINTER_DECL Batched ConvolutionGradient::batch(const BatchArgs& a) {
  const bool is_image = a.attrs[by] == ConvolutionOperand::image;
  const Shape& made = a.attrs.shape;
  Attrs attrs = a.attrs;
  // Of [b, n, ...]: [b * n, ...].
  const auto joined = [](Val x) {
    const Shape from = x.shape();
    Shape to{from[0] * from[1]};
    for (int i = 2; i < from.rank(); ++i) to.push_back(from[i]);
    return reshape(x, to);
  };
  // Of [b, n, c, ...]: [n, b * c, ...].
  const auto beside = [](Val x) {
    const Val images = ops_detail::move_axis(x, 0, 1);
    const Shape from = images.shape();
    Shape to{from[0], from[1] * from[2]};
    for (int i = 3; i < from.rank(); ++i) to.push_back(from[i]);
    return reshape(images, to);
  };
  if (is_image && !a.is_batched(1)) {
    attrs.shape.set(0, a.size * made[0]);
    return reshape(apply(a.op, {joined(a.in[0]), a.in[1]}, std::move(attrs)), ops_detail::batched_shape(a.size, made));
  }
  if (!a.size.is_static()) return {};
  if (is_image) {
    attrs.shape.set(1, a.size * made[1]);
    attrs.set(groups, a.attrs[groups] * a.size.value());
    const Val out =
        apply(a.op, {beside(ops_detail::with_batch(a, 0)), joined(ops_detail::with_batch(a, 1))}, std::move(attrs));
    Shape split{made[0], a.size, made[1]};
    for (int i = 2; i < made.rank(); ++i) split.push_back(made[i]);
    return ops_detail::move_axis(reshape(out, split), 1, 0);
  }
  attrs.shape.set(0, a.size * made[0]);
  // One image for all: the examples' outputs are further outputs of it.
  const bool has_one_image = !a.is_batched(0) && a.attrs[groups] == 1;
  if (!has_one_image) attrs.set(groups, a.attrs[groups] * a.size.value());
  const Val image = has_one_image ? a.in[0] : beside(ops_detail::with_batch(a, 0));
  const Val out = apply(a.op, {image, beside(ops_detail::with_batch(a, 1))}, std::move(attrs));
  return reshape(out, ops_detail::batched_shape(a.size, made));
}

}  // namespace ops

namespace ops_detail {
/// What the windows were of.
inline Shape padded_shape(const Attrs& attrs) {
  const Shape &low = attrs[ops::SumWindows::low], &high = attrs[ops::SumWindows::high];
  Shape padded = attrs.shape;
  if (low.rank() == padded.rank() && high.rank() == padded.rank())
    for (int i = 0; i < padded.rank(); ++i) padded.set(i, low[i] + padded[i] + high[i]);
  return padded;
}
}  // namespace ops_detail

namespace ops {

SINTER_DECL Type SumWindows::infer(const InferArgs& args) {
  const int rank = args.attrs.shape.rank(), low_rank = args.attrs[low].rank();
  ensure(low_rank == args.attrs[high].rank() && (low_rank == 0 || low_rank == rank),
         "sum_windows: padding is required for each axis, or for none");
  std::uint32_t seen_axes = 0;
  for (std::int64_t axis : args.attrs.axes) {
    const std::uint32_t bit = 1u << ops_detail::checked_axis(args, axis, args.attrs.shape.rank());
    if ((seen_axes & bit) != 0)
      throw IndexError(args.op, "axis " + std::to_string(axis) + " is named twice", args.where);
    seen_axes |= bit;
  }
  // The shape that windows have.
  const Type padded = ops_detail::with_shape(args, ops_detail::padded_shape(args.attrs));
  Attrs seen_attrs = Attrs{.axes = args.attrs.axes};
  seen_attrs.set(Windows::sizes, args.attrs[sizes]);
  seen_attrs.set(Windows::strides, args.attrs[strides]);
  const Type seen = Windows::infer(InferArgs{{&padded, 1}, seen_attrs, args.op, args.where});
  if (!(seen.shape == args.in[0].shape))
    throw ShapeError(args.op, "x is " + args.in[0].shape.text() + ", the sum is to be " + args.attrs.shape.text(),
                     args.where, "x must be " + seen.shape.text());
  return ops_detail::with_shape(args, args.attrs.shape);
}
SINTER_DECL Val SumWindows::decompose(const DecomposeArgs& args) {
  const Val x = args.in[0];
  const Shape& target = args.attrs.shape;
  IntVector axes;
  for (std::int64_t axis : args.attrs.axes)
    axes.push_back(axis < 0 ? axis + static_cast<std::int64_t>(target.rank()) : axis);
  const IntVector &size = args.attrs[sizes], &stride = args.attrs[strides];
  const Shape& before = args.attrs[low];
  // On processors single elements that are read by their places take up to twice as long as spread windows.
  if (x.type().device != Device::cpu())
    if (const Val sum = ops_detail::sum_of_taps(x, target, before, axes, size, stride)) return sum;
  const Val sum = ops_detail::sum_windows_along(x, ops_detail::padded_shape(args.attrs), axes, size, stride);
  if (before.rank() == 0) return sum;
  Shape ends;
  for (int i = 0; i < target.rank(); ++i) ends.push_back(before[i] + target[i]);
  return slice(sum, before, ends, IntVector(as_index(target.rank()), 1));
}
SINTER_DECL ValList SumWindows::vjp(const VjpArgs& a) {
  const bool is_padded = a.attrs[low].rank() > 0;
  const Val seen = is_padded ? pad(a.dout, a.attrs[low], a.attrs[high], 0) : a.dout;
  return {windows(seen, a.attrs.axes, a.attrs[sizes], a.attrs[strides])};
}
SINTER_DECL Batched SumWindows::batch(const BatchArgs& a) {
  Attrs attrs = a.attrs;
  attrs.shape = ops_detail::batched_shape(a.size, a.attrs.shape);
  attrs.axes = ops_detail::axes_past_batch(a.attrs.axes, attrs.shape.rank());
  if (a.attrs[low].rank() > 0) {
    attrs.set(low, ops_detail::batched_shape(0, a.attrs[low]));
    attrs.set(high, ops_detail::batched_shape(0, a.attrs[high]));
  }
  return apply(a.op, a.in, std::move(attrs));
}

}  // namespace ops
SINTER_NAMESPACE_END
