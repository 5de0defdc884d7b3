// Shape rules, decompositions and derivatives of convolution and pooling.
#pragma once

#include <sinter/base/index.hpp>
#include <sinter/ops/conv.hpp>
#include <sinter/ops/convolution.hpp>
#include <sinter/ops/unary.hpp>
#include <sinter/ops/view.hpp>
#include <sinter/ops/window_argmax.hpp>

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace ops_detail {

/// Extents of the windows' positions over height and width. Throws ShapeError when a window does not fit.
inline Shape window_positions(const InferArgs& args, const Shape& image, std::span<const std::int64_t> size,
                              std::span<const std::int64_t> stride, std::span<const std::int64_t> padding) {
  Shape out;
  for (int i = 0; i < 2; ++i) {
    const auto k = as_index(i);
    require_window_number(args, "the window", size[k], 1);
    require_window_number(args, "stride", stride[k], 1);
    require_window_number(args, "padding", padding[k], 0);
    const Dim extent = image[2 + i] + Dim(2 * padding[k]);
    if (is_shorter(extent, size[k]))
      throw ShapeError(args.op,
                       "a window of " + std::to_string(size[k]) + " does not fit axis " + std::to_string(2 + i) +
                           " of " + image.text() + (padding[k] ? " padded by " + std::to_string(padding[k]) : ""),
                       args.where);
    out.push_back((extent - Dim(size[k])) / Dim(stride[k]) + Dim(1));
  }
  return out;
}

inline Type infer_pool(const InferArgs& args) {
  require_rank(args, 0, 4);
  const IntVector &window = args.attrs[ops::PoolAttributes::window], &stride = args.attrs[ops::PoolAttributes::stride];
  ensure(window.size() == 2 && stride.size() == 2, "pooling: window and stride of height and width are required");
  const Shape& x = args.in[0].shape;
  const std::int64_t none[] = {0, 0};
  const Shape positions = window_positions(args, x, window, stride, none);
  return with_shape(args, {x[0], x[1], positions[0], positions[1]});
}

/// [n, c, positions_h, positions_w, kh, kw].
inline Val pool_windows(Val x, const Attrs& attrs) {
  return windows(x, {2, 3}, attrs[ops::PoolAttributes::window], attrs[ops::PoolAttributes::stride]);
}

/// The numbers of a conv2d, static by its rule where a kernel needs them.
struct ConvNumbers {
  std::int64_t kernel[2], stride[2], padding[2];
  ConvNumbers(const Shape& weight, const Attrs& attrs)
      : kernel{weight[2].value(), weight[3].value()},
        stride{attrs[ops::Conv2d::stride][0], attrs[ops::Conv2d::stride][1]},
        padding{attrs[ops::Conv2d::padding][0], attrs[ops::Conv2d::padding][1]} {}
};

/// Each position's window as a row: [n * positions, c * kh * kw]; `positions` gets [n, positions_h, positions_w].
inline Val window_rows(Val x, const ConvNumbers& conv, Shape& positions) {
  const Shape border{0, 0, conv.padding[0], conv.padding[1]};
  const Val seen =
      windows(pad(x, border, border, 0), {2, 3}, {conv.kernel[0], conv.kernel[1]}, {conv.stride[0], conv.stride[1]});
  const Shape shape = seen.shape();  // [n, c, positions_h, positions_w, kh, kw]
  positions = {shape[0], shape[2], shape[3]};
  return reshape(permute(seen, {0, 2, 3, 1, 4, 5}), {positions.numel(), shape[1] * shape[4] * shape[5]});
}

/// weight[:, :, ::-1, ::-1] with the two channel axes exchanged.
inline Val mirrored(Val weight) {
  const Shape shape = weight.shape();
  const std::int64_t taps = shape[2].value() * shape[3].value();
  if (taps > 1) {
    const Val backwards = static_cast<double>(taps - 1) - iota(weight, {taps}, 0, DType::i64);
    weight = reshape(take(reshape(weight, {shape[0], shape[1], taps}), backwards, 2), shape);
  }
  return permute(weight, {1, 0, 2, 3});
}

/// With stride 1 and no padding.
inline Val conv2d(Val x, Val weight) {
  return apply(op_info<ops::Conv2d>, {x, weight},
               Attrs{}.with(ops::Conv2d::stride, {1, 1}).with(ops::Conv2d::padding, {0, 0}));
}

/// One node; see ConvolutionGradient.
inline Val convolution_gradient(Val first, Val second, ops::ConvolutionOperand by, const Shape& shape,
                                const Attrs& attrs) {
  Attrs own = attrs;
  own.shape = shape;
  own.set(ops::ConvolutionGradient::by, by);
  return apply(op_info<ops::ConvolutionGradient>, {first, second}, std::move(own));
}

/// Gradient by the image: the positions' gradients spread by the stride and bordered, convolved with the mirrored
/// weight. Of single elements, the product is spread.
inline Val conv_image_gradient(Val dout, Val weight, const ConvNumbers& conv, const Shape& image) {
  const bool is_single = conv.kernel[0] * conv.kernel[1] == 1 && conv.padding[0] == 0 && conv.padding[1] == 0;
  if (is_single && conv.stride[0] * conv.stride[1] > 1)
    return place(conv2d(dout, mirrored(weight)), image, {0, 0, 0, 0}, {1, 1, conv.stride[0], conv.stride[1]});
  Shape spread{image[0], weight.shape()[0]}, starts{0, 0}, crop_starts{0, 0}, crop_ends{image[0], image[1]};
  for (std::size_t i = 0; i < 2; ++i) {
    const Dim extent = image[static_cast<int>(i) + 2];
    const std::int64_t border = conv.kernel[i] - 1 - conv.padding[i];
    const std::int64_t cropped = border < 0 ? -border : 0;  // more padding than the kernel reaches
    spread.push_back(extent + Dim(2 * cropped + conv.kernel[i] - 1));
    starts.push_back(border + cropped);
    crop_starts.push_back(cropped);
    crop_ends.push_back(extent + Dim(cropped));
  }
  const Val bordered = place(dout, spread, starts, {1, 1, conv.stride[0], conv.stride[1]});
  return slice(conv2d(bordered, mirrored(weight)), crop_starts, crop_ends, {1, 1, 1, 1});
}

SINTER_DECL bool sees_single_elements(const Shape& weight, const Attrs& attrs) {
  const ConvNumbers conv(weight, attrs);
  bool is_so = true;
  for (std::size_t i = 0; i < 2; ++i) is_so &= conv.kernel[i] == 1 && conv.stride[i] == 1 && conv.padding[i] == 0;
  return is_so;
}

SINTER_DECL Batched batch_images(const BatchArgs& a) {
  if (a.in.size() > 1 && a.is_batched(1)) return {};
  const Shape shape = a.in[0].shape();  // [batch, n, c, h, w]
  ValList operands(a.in.begin(), a.in.end());
  operands[0] = reshape(a.in[0], {shape[0] * shape[1], shape[2], shape[3], shape[4]});
  const Val joined = apply(a.op, operands, a.attrs);
  Shape out{shape[0]};
  out.push_back(shape[1]);
  for (int i = 1; i < 4; ++i) out.push_back(joined.shape()[i]);
  return reshape(joined, out);
}

/// From the gradient of what pool_windows() gave.
inline ValList gradient_of_windows(const VjpArgs& a, Val seen, Val gradient) {
  using Pool = ops::PoolAttributes;
  const Attrs windowed = Attrs{.axes = {2, 3}}
                             .with(ops::Windows::sizes, a.attrs[Pool::window])
                             .with(ops::Windows::strides, a.attrs[Pool::stride]);
  return ops::Windows::vjp(VjpArgs{a.in, seen, gradient, windowed, a.where});
}

/// The number of elements of a window over `axes`.
inline std::int64_t count_of_places(Val seen, const IntVector& axes) {
  std::int64_t count = 1;
  for (const std::int64_t axis : axes) count *= seen.shape()[static_cast<int>(axis)].value();
  return count;
}

/// Windows of more places are reduced as any other axes are.
inline bool has_few_places(Val seen, const IntVector& axes) {
  constexpr std::int64_t most_places = 16;
  const std::int64_t places = count_of_places(seen, axes);
  return places > 0 && places <= most_places;
}

/// The elements at one place of each window: `place` counts through `axes`, the last one fastest.
inline Val at_place(Val seen, const IntVector& axes, std::int64_t place) {
  const Shape shape = seen.shape();
  Shape starts, ends = shape, result;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    starts.push_back(0);
    if (std::find(axes.begin(), axes.end(), axis) == axes.end()) result.push_back(shape[axis]);
  }
  for (std::size_t i = axes.size(); i-- > 0;) {
    const int axis = static_cast<int>(axes[i]);
    const std::int64_t at = place % shape[axis].value();
    place /= shape[axis].value();
    starts.set(axis, at);
    ends.set(axis, at + 1);
  }
  return reshape(slice(seen, starts, ends, IntVector(as_index(shape.rank()), 1)), result);
}

/// Rounded to a narrow dtype only where memory has it.
inline Val in_dtype(Val x, DType dtype) {
  const OpInfo& op = is_narrow(dtype) ? op_info<ops::Narrow> : op_info<ops::Cast>;
  return x.dtype() == dtype ? x : apply(op, {x}, {.dtype = dtype, .has_dtype = true});
}

/// Combines the places of small windows, so that neighbouring windows lie in the lanes of a vector: the last axis
/// first, each in halves, as a row is reduced. Each place is cast to `dtype` first.
template <class Combine>
Val over_places(Val seen, const IntVector& axes, DType dtype, Combine combine) {
  const Shape shape = seen.shape();
  std::int64_t places = 1;
  for (const std::int64_t axis : axes) places *= shape[static_cast<int>(axis)].value();
  std::vector<Val> values;
  for (std::int64_t place = 0; place < places; ++place) values.push_back(in_dtype(at_place(seen, axes, place), dtype));
  for (std::size_t i = axes.size(); i-- > 0;) {
    const auto length = as_index(shape[static_cast<int>(axes[i])].value());
    std::vector<Val> shorter;
    for (std::size_t first = 0; first < values.size(); first += length) {
      for (std::size_t half = std::bit_ceil(length) / 2; half > 0; half /= 2)
        for (std::size_t k = 0; k < half && k + half < length; ++k)
          values[first + k] = combine(values[first + k], values[first + k + half]);
      shorter.push_back(values[first]);
    }
    values = std::move(shorter);
  }
  return values.front();
}

/// The maximum is the same in any order.
inline Val largest_in_windows(Val seen, const IntVector& axes) {
  return has_few_places(seen, axes) ? over_places(seen, axes, seen.dtype(), [](Val a, Val b) { return maximum(a, b); })
                                    : amax(seen, axes);
}

/// Is the sum of the places in halves, each axis by itself, the sum as any other axes are reduced? Along an outer axis
/// two lanes take turns in a sum: of up to four places that is the order of halves.
inline bool adds_in_halves(Val seen, const IntVector& axes) {
  return !axes.empty() && has_few_places(seen, axes) &&
         std::all_of(axes.begin(), axes.end() - 1,
                     [&](std::int64_t axis) { return seen.shape()[static_cast<int>(axis)].value() <= 4; });
}

/// A dtype that tells so many places apart, as wide as values are computed: f16 and bf16 round those from 2049 and 257
/// on.
inline DType place_dtype(DType of, std::int64_t count) {
  if (of == DType::f64) return DType::f64;
  return count > (std::int64_t{1} << 24) ? DType::i64 : DType::f32;
}

/// Halves would round narrow floats each time.
inline Val mean_of_windows(Val seen, const IntVector& axes) {
  const bool is_wide = seen.dtype() == DType::f32 || seen.dtype() == DType::f64;
  if (!is_wide || !adds_in_halves(seen, axes)) return mean(seen, axes);
  return over_places(seen, axes, seen.dtype(), [](Val a, Val b) { return a + b; }) /
         element_count(seen, axes, seen.dtype());
}

/// Places are widened one by one: all windows in f32 at once would be longer than the image.
inline Val sum_of_windows(Val seen, const IntVector& axes) {
  if (!adds_in_halves(seen, axes)) return sum(seen, axes);
  const DType dtype = computed_in(seen.dtype());
  return in_dtype(over_places(seen, axes, dtype, [](Val a, Val b) { return a + b; }), seen.dtype());
}

/// The number of each element's place in its window, which counts through `axes`.
inline Val numbers_of_places(Val seen, const IntVector& axes, DType dtype) {
  const Shape shape = seen.shape();
  Val place = iota(seen, shape, static_cast<int>(axes[0]), dtype);
  for (std::size_t i = 1; i < axes.size(); ++i) {
    const int axis = static_cast<int>(axes[i]);
    place = place * static_cast<double>(shape[axis].value()) + iota(seen, shape, axis, dtype);
  }
  return place;
}

/// Of few places, one after the other. Of more, each element gets a rank of its own, the smallest for the one that is
/// wanted.
inline Val place_of_largest(Val seen, const IntVector& axes) {
  const std::int64_t count = count_of_places(seen, axes);
  const DType dtype = place_dtype(seen.dtype(), count);
  const bool may_be_nan = is_floating(seen.dtype());
  if (has_few_places(seen, axes)) {
    Val best = at_place(seen, axes, 0), chosen = full(best, best.shape(), dtype, 0);
    for (std::int64_t place = 1; place < count; ++place) {
      const Val value = at_place(seen, axes, place);
      Val is_better = gt(value, best);
      // Rounded to their dtype, as they would be in memory, halves may be equal that are not as they are computed.
      if (is_half(seen.dtype())) is_better = logical_and(is_better, ne(value, best));
      if (may_be_nan)
        is_better = logical_or(is_better, logical_not(le(value, std::numeric_limits<double>::infinity())));
      best = where(is_better, value, best);
      chosen = where(is_better, static_cast<double>(place), chosen);
    }
    return cast(chosen, DType::i64);
  }
  const Val place = numbers_of_places(seen, axes, dtype);
  const Val is_largest = eq(seen, unreduce(amax(seen, axes), axes, seen.shape()));
  Val rank = where(is_largest, place, static_cast<double>(count));
  if (!may_be_nan) return cast(amin(rank, axes), DType::i64);
  rank = where(is_nan(seen), -1 - place, rank);
  const Val least = amin(rank, axes);
  return cast(where(lt(least, 0), -1 - least, least), DType::i64);
}

/// Of one value for each window.
inline Type infer_fold_of_windows(const InferArgs& args) {
  const Shape& from = args.in[0].shape;
  const Shape out = reduced_shape(args, from);
  for (std::int64_t axis : args.attrs.axes)
    if (!from[checked_axis(args, axis, from.rank())].is_static())
      throw ShapeError(args.op, "the window's extents must be known: the operand is " + from.text(), args.where);
  return with_shape(args, out);
}
/// Counted from the front.
inline IntVector ascending_axes(const IntVector& given, int rank) {
  IntVector axes;
  for (const std::int64_t axis : given) axes.push_back(axis < 0 ? axis + rank : axis);
  std::sort(axes.begin(), axes.end());
  return axes;
}

}  // namespace ops_detail

namespace ops {

SINTER_DECL Type Conv2d::infer(const InferArgs& args) {
  ops_detail::require_floating(args);
  ops_detail::require_same_dtype(args);
  ensure(args.attrs[stride].size() == 2 && args.attrs[padding].size() == 2,
         "conv2d: stride and padding of height and width are required");
  const Shape &x = args.in[0].shape, &weight = args.in[1].shape;
  if (x.rank() != 4 || weight.rank() != 4 || !(x[1] == weight[1]))
    throw ShapeError(
        args.op, "x is " + x.text() + ", weight is " + weight.text(), args.where,
        "x must be (n, channels, height, width) and weight (outputs, channels, kernel height, kernel width)");
  if (!weight[2].is_static() || !weight[3].is_static())
    throw ShapeError(args.op, "the kernel's extents must be known: weight is " + weight.text(), args.where,
                     "do not mark them dynamic");
  const std::int64_t kernel[] = {weight[2].value(), weight[3].value()};
  const Shape positions = ops_detail::window_positions(args, x, kernel, args.attrs[stride], args.attrs[padding]);
  return ops_detail::with_shape(args, {x[0], weight[0], positions[0], positions[1]});
}

SINTER_DECL Val Conv2d::decompose(const DecomposeArgs& args) {
  const Val weight = args.in[1];
  const Shape shape = weight.shape();
  if (ops_detail::sees_single_elements(shape, args.attrs)) {
    const Shape image = args.in[0].shape();
    const Val product = matmul(expand(reshape(weight, {1, shape[0], shape[1]}), {image[0], shape[0], shape[1]}),
                               reshape(args.in[0], {image[0], image[1], image[2] * image[3]}));
    return reshape(product, {image[0], shape[0], image[2], image[3]});
  }
  Shape positions;
  const Val rows = ops_detail::window_rows(args.in[0], ops_detail::ConvNumbers(shape, args.attrs), positions);
  const Val product = matmul(rows, transpose(reshape(weight, {shape[0], shape[1] * shape[2] * shape[3]})));
  return permute(reshape(product, {positions[0], positions[1], positions[2], shape[0]}), {0, 3, 1, 2});
}

SINTER_DECL ValList Conv2d::vjp(const VjpArgs& a) {
  const Val x = a.in[0], weight = a.in[1];
  const Shape shape = weight.shape();
  const ops_detail::ConvNumbers conv(shape, a.attrs);
  const Shape border{conv.padding[0], conv.padding[1]};
  const Attrs numbers = Attrs{}
                            .with(ConvolutionAttributes::stride, a.attrs[stride])
                            .with(ConvolutionAttributes::dilation, {1, 1})
                            .with(ConvolutionAttributes::low, border)
                            .with(ConvolutionAttributes::high, border);
  using Operand = ConvolutionOperand;
  Val dx, dweight;
  if (a.needs(0)) dx = ops_detail::convolution_gradient(a.dout, weight, Operand::image, x.shape(), numbers);
  if (a.needs(1)) dweight = ops_detail::convolution_gradient(x, a.dout, Operand::weight, shape, numbers);
  return {dx, dweight};
}

SINTER_DECL Type MaxPool2d::infer(const InferArgs& args) {
  if (!is_integer(args.in[0].dtype)) ops_detail::require_floating(args);
  return ops_detail::infer_pool(args);
}
SINTER_DECL Val MaxPool2d::decompose(const DecomposeArgs& args) {
  return ops_detail::largest_in_windows(ops_detail::pool_windows(args.in[0], args.attrs), {4, 5});
}
/// Each element of a window gets a rank of its own, the smallest for the one that the window's result is.
SINTER_DECL ValList MaxPool2d::vjp(const VjpArgs& a) {
  const Val seen = ops_detail::pool_windows(a.in[0], a.attrs);
  const Shape shape = seen.shape();
  const std::int64_t height = a.attrs[window][0], width = a.attrs[window][1];
  const DType dtype = ops_detail::place_dtype(seen.dtype(), height * width);
  const Val place = iota(seen, shape, 4, dtype) * static_cast<double>(width) + iota(seen, shape, 5, dtype);
  const Val is_largest = eq(seen, unreduce(a.out, {4, 5}, shape));
  const Val rank = where(is_nan(seen), -1 - place, where(is_largest, place, static_cast<double>(height * width)));
  const Val is_chosen = eq(rank, amin(rank, {4, 5}, kept));
  return ops_detail::gradient_of_windows(a, seen, where(is_chosen, unreduce(a.dout, {4, 5}, shape), 0));
}

SINTER_DECL Type AvgPool2d::infer(const InferArgs& args) {
  ops_detail::require_floating(args);
  return ops_detail::infer_pool(args);
}
SINTER_DECL Val AvgPool2d::decompose(const DecomposeArgs& args) {
  return ops_detail::mean_of_windows(ops_detail::pool_windows(args.in[0], args.attrs), {4, 5});
}
SINTER_DECL ValList AvgPool2d::vjp(const VjpArgs& a) {
  const Val seen = ops_detail::pool_windows(a.in[0], a.attrs);
  const Val share = a.dout / static_cast<double>(a.attrs[window][0] * a.attrs[window][1]);
  return ops_detail::gradient_of_windows(a, seen, unreduce(share, {4, 5}, seen.shape()));
}

SINTER_DECL Type WindowMax::infer(const InferArgs& args) { return ops_detail::infer_fold_of_windows(args); }
SINTER_DECL Val WindowMax::decompose(const DecomposeArgs& args) {
  return ops_detail::largest_in_windows(args.in[0], ops_detail::ascending_axes(args.attrs.axes, args.in[0].rank()));
}
/// As in MaxPool2d, over any number of axes.
SINTER_DECL ValList WindowMax::vjp(const VjpArgs& a) {
  const Val seen = a.in[0];
  const IntVector axes = ops_detail::ascending_axes(a.attrs.axes, seen.rank());
  if (axes.empty()) return {a.dout};
  const DType dtype = ops_detail::place_dtype(seen.dtype(), ops_detail::count_of_places(seen, axes));
  const Val chosen = cast(apply(op_info<WindowArgmax>, {seen}, Attrs{.axes = axes}), dtype);
  const Val is_chosen = eq(ops_detail::numbers_of_places(seen, axes, dtype), unreduce(chosen, axes, seen.shape()));
  return {where(is_chosen, unreduce(a.dout, axes, seen.shape()), 0)};
}
SINTER_DECL Batched WindowMax::batch(const BatchArgs& a) {
  return apply(op_info<WindowMax>, {a.in[0]}, Attrs{.axes = ops_detail::axes_past_batch(a.attrs.axes, a.in[0].rank())});
}

SINTER_DECL Type WindowArgmax::infer(const InferArgs& args) {
  Type type = ops_detail::infer_fold_of_windows(args);
  type.dtype = DType::i64;
  return type;
}
SINTER_DECL Val WindowArgmax::decompose(const DecomposeArgs& args) {
  return ops_detail::place_of_largest(args.in[0], ops_detail::ascending_axes(args.attrs.axes, args.in[0].rank()));
}
SINTER_DECL Batched WindowArgmax::batch(const BatchArgs& a) {
  return apply(op_info<WindowArgmax>, {a.in[0]},
               Attrs{.axes = ops_detail::axes_past_batch(a.attrs.axes, a.in[0].rank())});
}

SINTER_DECL Type WindowSum::infer(const InferArgs& args) { return ops_detail::infer_fold_of_windows(args); }
SINTER_DECL Val WindowSum::decompose(const DecomposeArgs& args) {
  return ops_detail::sum_of_windows(args.in[0], ops_detail::ascending_axes(args.attrs.axes, args.in[0].rank()));
}
SINTER_DECL Batched WindowSum::batch(const BatchArgs& a) {
  return apply(op_info<WindowSum>, {a.in[0]}, Attrs{.axes = ops_detail::axes_past_batch(a.attrs.axes, a.in[0].rank())});
}

}  // namespace ops
SINTER_NAMESPACE_END
