// See the header. The shape rules are PyTorch's.
#pragma once

#include <sinter/expr/pooling.hpp>

#include <sinter/base/index.hpp>
#include <sinter/expr/gather_scatter.hpp>
#include <sinter/expr/gather_scatter_records.hpp>
#include <sinter/expr/layers.hpp>
#include <sinter/expr/recording.hpp>
#include <sinter/expr/shapes.hpp>
#include <sinter/expr/term.hpp>
#include <sinter/ops/window_argmax.hpp>

#include <algorithm>

#include <limits>
#include <string>
#include <string_view>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace expr_detail {

/// The windows along one axis of an image.
struct PoolAxis {
  int axis = 0;
  std::int64_t size = 0, stride = 0, padding = 0, dilation = 1;
  Dim extent, high;  // of the image; so much follows after its end

  std::int64_t span() const { return dilation * (size - 1) + 1; }
};

/// A last window that begins inside the image or the padding before it may reach beyond the padding at the end.
inline Dim padding_at_end(const PoolAxis& along, bool ceil_mode) {
  const Dim last = along.extent + Dim(2 * along.padding - along.span());
  if (!ceil_mode) return along.padding;
  Dim steps = (last + Dim(along.stride - 1)) / Dim(along.stride);
  if (!is_at_most(steps * Dim(along.stride) + Dim(1), along.extent + Dim(along.padding))) steps -= Dim(1);
  const Dim high = steps * Dim(along.stride) + Dim(along.span() - along.padding) - along.extent;
  return is_at_most(along.padding, high) ? high : Dim(along.padding);
}

/// Which numbers have windows: the largest one is there of whole numbers, too.
enum class Pooled : std::uint8_t { floating, numbers };

template <int N>
std::vector<PoolAxis> pool_axes(const Tensor& image, const NumberPerAxis<N>& size, const NumberPerAxis<N>& stride,
                                const NumberPerAxis<N>& padding, const NumberPerAxis<N>& dilation, bool ceil_mode,
                                Pooled pooled, std::string_view op, Location where) {
  const Shape shape = image.shape();
  if (shape.rank() != N + 2)
    throw ShapeError(op, "x is " + shape.text(), where,
                     "it must have " + std::to_string(N + 2) + " axes: images, channels, and those of the window");
  if (!is_floating(image.dtype()) && !(pooled == Pooled::numbers && is_integer(image.dtype())))
    throw DTypeError(op, "x is " + std::string(name(image.dtype())), where, "cast it");
  std::vector<PoolAxis> axes;
  for (int i = 0; i < N; ++i) {
    PoolAxis along{i + 2, size[i], stride[i] == 0 ? size[i] : stride[i], padding[i], dilation[i], shape[i + 2], 0};
    if (along.size < 1 || along.stride < 1 || along.dilation < 1)
      throw ShapeError(op, "size, stride and dilation must be positive", where);
    if (along.padding < 0 || 2 * along.padding > along.size)
      throw ShapeError(op, "padding " + std::to_string(along.padding) + " of a window of " + std::to_string(along.size),
                       where, "it must be at most half of the window, or some windows would see nothing else");
    if (!is_at_most(along.span(), along.extent + Dim(2 * along.padding)))
      throw ShapeError(op,
                       "a window of " + std::to_string(along.span()) + " does not fit axis " +
                           std::to_string(along.axis) + " of " + shape.text() +
                           (along.padding != 0 ? " padded by " + std::to_string(along.padding) : ""),
                       where);
    along.high = padding_at_end(along, ceil_mode);
    axes.push_back(along);
  }
  return axes;
}

/// [..., positions..., window...].
inline Tensor seen_windows(const Tensor& image, const std::vector<PoolAxis>& axes, double fill, Location where) {
  Shape low, high;
  for (int i = 0; i < image.rank(); ++i) {
    low.push_back(0);
    high.push_back(0);
  }
  IntVector at, spans, strides;
  bool is_padded = false;
  std::vector<Index> taps(as_index(image.rank()), Index(all));
  for (const PoolAxis& along : axes) {
    low.set(along.axis, along.padding);
    high.set(along.axis, along.high);
    is_padded |= !(along.padding == 0 && along.high.is_static() && along.high.value() == 0);
    at.push_back(along.axis);
    spans.push_back(along.span());
    strides.push_back(along.stride);
    taps.push_back(along.dilation == 1 ? Index(all) : Index(Slice{0, along.span(), along.dilation}));
  }
  Tensor whole = image;
  if (is_padded) {
    Attrs border{.value = fill};
    border.set(ops::Pad::low, low);
    border.set(ops::Pad::high, high);
    whole = record<ops::Pad>({Leaf(image.impl())}, std::move(border), where);
  }
  Attrs windowed{.axes = at};
  windowed.set(ops::Windows::sizes, spans);
  windowed.set(ops::Windows::strides, strides);
  const Tensor windows = record<ops::Windows>({Leaf(whole.impl())}, std::move(windowed), where);
  for (const PoolAxis& along : axes)
    if (along.dilation != 1) return index(In(windows, where), taps);
  return windows;
}

/// One value for each window, by an op over the windows' axes. Of three axes the outermost comes last: all windows at
/// once would have two axes for each of three, which under vmap are more than a tensor may have.
template <class Op>
Tensor over_windows(Tensor image, const std::vector<PoolAxis>& axes, double fill, Location where) {
  const std::size_t apart = axes.size() == 3 ? 1 : 0;
  const auto reduce = [&](const std::vector<PoolAxis>& along) {
    const Tensor seen = seen_windows(image, along, fill, where);
    IntVector reduced;
    for (int axis = image.rank(); axis < seen.rank(); ++axis) reduced.push_back(axis);
    image = record<Op>({Leaf(seen.impl())}, Attrs{.axes = reduced}, where);
  };
  reduce({axes.begin() + static_cast<std::ptrdiff_t>(apart), axes.end()});
  if (apart != 0) reduce({axes.front()});
  return image;
}

/// One example as a batch of one, and back: [c, ...] for N axes of windows.
template <int N>
bool is_example(const In& x) {
  return x.tensor()->type.shape.rank() == N + 1;
}
inline In as_batch(const In& x) { return In(unsqueeze(x, 0), x.where); }
inline Tensor without_batch(const Tensor& x, Location at) { return squeeze(In(x, at), 0); }

/// What surrounds an image whose largest elements are wanted.
inline double never_largest(DType dtype) {
  return is_floating(dtype) ? -std::numeric_limits<double>::infinity()
                            : static_cast<double>(tensor_detail::lowest(dtype));
}

template <int N>
Tensor max_pool(const In& x, const MaxPoolOptions<N>& options, std::string_view op) {
  if (is_example<N>(x)) return without_batch(max_pool<N>(as_batch(x), options, op), x.where);
  const Tensor image(x.tensor());
  const std::vector<PoolAxis> axes = pool_axes<N>(image, options.size, options.stride, options.padding,
                                                  options.dilation, options.ceil_mode, Pooled::numbers, op, x.where);
  return over_windows<ops::WindowMax>(image, axes, never_largest(image.dtype()), x.where);
}

/// An extent as a number to compute positions with.
inline Term whole(Dim number, Location at) { return {cast(In(number, at), DType::i64), at}; }

/// How many elements each window along one axis has, of those that count: a column that stretches over the axes after.
inline Term window_counts(const PoolAxis& along, const Tensor& pooled, bool counts_padding, Location at) {
  const Dim limit = along.extent + Dim(counts_padding ? along.padding : 0);
  // Whole numbers below 2^24 are exact in f32, of which twice as many fit a vector.
  const bool is_short = pooled.dtype() != DType::f64 && limit.is_static() && limit.value() < (1 << 24) - along.span();
  const DType dtype = is_short ? DType::f32 : DType::f64;
  Shape column{pooled.shape()[along.axis]};
  for (int i = along.axis + 1; i < pooled.rank(); ++i) column.push_back(1);
  const Tensor numbers = arange(column[0], {.dtype = dtype, .device = pooled.device()}, at);
  const Term start = Term(reshape(In(numbers, at), column), at) * static_cast<double>(along.stride) -
                     static_cast<double>(along.padding);
  const Term end = apply<ops::Minimum>(start + static_cast<double>(along.span()), Term(cast(In(limit, at), dtype), at));
  return end - (counts_padding ? start : apply<ops::Maximum>(start, Term(cast(In(0.0, at), dtype), at)));
}

/// The sum of each window by the number of its elements. What lies beyond the padding never counts.
template <int N>
Tensor avg_pool(const In& x, const AvgPoolOptions<N>& options, std::string_view op) {
  if (is_example<N>(x)) return without_batch(avg_pool<N>(as_batch(x), options, op), x.where);
  if (options.divisor && *options.divisor == 0)
    throw UserError(op, "divisor is 0", x.where, "leave it out to divide by the number of elements");
  const Tensor image(x.tensor());
  if (image.dtype() == DType::f16)  // a sum may be beyond its range, where the mean is not
    return cast(In(avg_pool<N>(In(cast(In(image, x.where), DType::f32), x.where), options, op), x.where), DType::f16);
  const std::vector<PoolAxis> axes = pool_axes<N>(image, options.size, options.stride, options.padding, 1,
                                                  options.ceil_mode, Pooled::floating, op, x.where);
  const Tensor sums = over_windows<ops::WindowSum>(image, axes, 0, x.where);
  if (options.divisor) return sums / static_cast<double>(*options.divisor);
  std::int64_t count = 1;  // where it is the same everywhere
  std::vector<Term> counts;
  for (const PoolAxis& along : axes) {
    const bool is_same = (options.count_include_pad || along.padding == 0) && along.high.is_static() &&
                         along.high.value() == along.padding;
    if (is_same) count *= along.size;
    else counts.push_back(window_counts(along, sums, options.count_include_pad, x.where));
  }
  if (counts.empty()) return sums / static_cast<double>(count);
  Term total = counts[0];
  for (std::size_t i = 1; i < counts.size(); ++i) total = total * counts[i];
  if (count != 1) total = total * static_cast<double>(count);
  return Term(sums, x.where) / Term(cast(total, sums.dtype()), x.where);
}

/// Positions along an axis of the image of what is `tap` elements into each window. A window whose elements are all
/// equal has the first one that is inside.
inline Term positions_of_taps(const Term& tap, const PoolAxis& along) {
  const Location at = tap.where;
  const TensorOptions like{.dtype = DType::i64, .device = tap.value.device()};
  Shape column{tap.shape()[along.axis]};
  for (int i = along.axis + 1; i < tap.rank(); ++i) column.push_back(1);
  const Tensor numbers = arange(column[0], like, at);
  const Term start = Term(reshape(In(numbers, at), column), at) * whole(along.stride, at) - whole(along.padding, at);
  const Term dilation = whole(along.dilation, at);
  const Term first = apply<ops::FloorDivide>(whole(along.dilation - 1, at) - start, dilation);
  return apply<ops::Maximum>(tap, first) * dilation + start;
}

/// The largest elements of windows over `axes`, and where they are, counted through these axes.
inline Ordered pooled_with_places(const Tensor& image, const std::vector<PoolAxis>& axes, Location at) {
  const Tensor seen = seen_windows(image, axes, never_largest(image.dtype()), at);
  IntVector reduced;
  for (int axis = image.rank(); axis < seen.rank(); ++axis) reduced.push_back(axis);
  const Tensor values = record<ops::WindowMax>({Leaf(seen.impl())}, Attrs{.axes = reduced}, at);
  Term tap(record<ops::WindowArgmax>({Leaf(seen.impl())}, Attrs{.axes = reduced}, at), at);
  Term place = whole(0, at);
  Dim below = 1;
  for (std::size_t i = axes.size(); i-- > 0;) {
    const Term size = whole(axes[i].size, at);
    const Term position = positions_of_taps(i == 0 ? tap : apply<ops::Rem>(tap, size), axes[i]);
    place = position * whole(below, at) + place;
    tap = apply<ops::FloorDivide>(tap, size);
    below = below * axes[i].extent;
  }
  return {values, place};
}

template <int N>
Ordered max_pool_with_indices(const In& x, const MaxPoolOptions<N>& options, std::string_view op) {
  const Location at = x.where;
  if (is_example<N>(x)) {
    const Ordered pooled = max_pool_with_indices<N>(as_batch(x), options, op);
    return {without_batch(pooled.values, at), without_batch(pooled.indices, at)};
  }
  const Tensor image(x.tensor());
  const std::vector<PoolAxis> axes = pool_axes<N>(image, options.size, options.stride, options.padding,
                                                  options.dilation, options.ceil_mode, Pooled::numbers, op, at);
  if (N < 3) return pooled_with_places(image, axes, at);
  // The outermost axis comes last, as in over_windows(): its places choose among those of the planes.
  const Ordered planes = pooled_with_places(image, {axes.begin() + 1, axes.end()}, at);
  const Ordered deep = pooled_with_places(planes.values, {axes.front()}, at);
  const Term in_plane(take_along_axis(In(planes.indices, at), In(deep.indices, at), 2), at);
  return {deep.values, Term(deep.indices, at) * whole(axes[1].extent * axes.back().extent, at) + in_plane};
}

template <int N>
Tensor max_unpool(const In& x, const In& indices, const MaxUnpoolOptions<N>& options, std::string_view op) {
  const Location at = x.where;
  if (is_example<N>(x) && is_example<N>(indices))
    return without_batch(max_unpool<N>(as_batch(x), as_batch(indices), options, op), at);
  const Term values(x), places(indices);
  const Shape shape = values.shape();
  if (shape.rank() != N + 2 || !(places.shape() == shape) || !is_integer(places.dtype()))
    throw ShapeError(
        op, "x is " + shape.text() + ", indices are " + std::string(name(places.dtype())) + " " + places.shape().text(),
        at, "both must be (n, channels) and " + std::to_string(N) + " axes, indices of i32 or i64");
  if (options.extents.rank() != 0 && options.extents.rank() != N)
    throw ShapeError(op, "the extents are " + options.extents.text(), at,
                     std::to_string(N) + " of them are required, or none");
  Shape out{shape[0], shape[1]};
  Dim plane = 1, seen = 1;
  for (int i = 0; i < N; ++i) {
    const std::int64_t stride = options.stride[i] == 0 ? options.size[i] : options.stride[i];
    if (options.extents.rank() == 0 && (options.size[i] < 1 || stride < 1))
      throw ShapeError(op, "size and stride must be positive", at);
    out.push_back(options.extents.rank() != 0
                      ? options.extents[i]
                      : (shape[i + 2] - Dim(1)) * Dim(stride) + Dim(options.size[i] - 2 * options.padding[i]));
    plane = plane * out[i + 2];
    seen = seen * shape[i + 2];
  }
  const Shape flat{shape[0], shape[1], seen};
  const Tensor empty =
      zeros({shape[0], shape[1], plane}, {.dtype = values.dtype(), .device = values.value.device()}, at);
  // Places do not count from the end, as indices of scatter() do.
  const Tensor filled = record_scatter(empty, reshape(places, flat), reshape(values, flat),
                                       {.axis = 2, .shared = 2, .inner = 0}, Combine::none, at);
  return reshape(In(filled, at), out);
}

template <int N>
Tensor lp_pool(const In& x, double p, const LpPoolOptions<N>& options, std::string_view op) {
  if (is_example<N>(x)) return without_batch(lp_pool<N>(as_batch(x), p, options, op), x.where);
  if (!(p > 0)) throw UserError(op, "p is " + std::to_string(p) + ", it must be positive", x.where);
  const Tensor image(x.tensor());
  if (image.dtype() == DType::f16)
    return cast(In(lp_pool<N>(In(cast(In(image, x.where), DType::f32), x.where), p, options, op), x.where), DType::f16);
  const std::vector<PoolAxis> axes =
      pool_axes<N>(image, options.size, options.stride, 0, 1, options.ceil_mode, Pooled::floating, op, x.where);
  const Term base(image, x.where);
  const Term powers = p == 1 ? base : p == 2 ? squared(base) : apply<ops::Pow>(base, p);
  const Term total(over_windows<ops::WindowSum>(powers, axes, 0, x.where), x.where);
  if (p == 1) return total;
  const Term is_zero = total == 0.0,
             nonzero = where_of(is_zero, 1.0, total);  // the derivative of a root at 0 is infinite
  return where_of(is_zero, 0.0, p == 2 ? apply<ops::Sqrt>(nonzero) : apply<ops::Pow>(nonzero, 1 / p));
}

/// Starts of windows along one axis: floor((i + u) a) - floor(u a) with a = (extent - size) / (windows - 1), and the
/// last one at the end.
inline Term fractional_starts(const Term& u, Dim extent, std::int64_t size, std::int64_t windows) {
  const Location at = u.where;
  const Term free(cast(In(extent - Dim(size), at), u.dtype()), at);
  const Term number(arange(Dim(windows), {.dtype = u.dtype(), .device = u.value.device()}, at), at);
  const Term step = free / static_cast<double>(std::max<std::int64_t>(windows - 1, 1));
  const Term start = apply<ops::Floor>((number + u) * step) - apply<ops::Floor>(u * step);
  return {cast(where_of(number == static_cast<double>(windows - 1), free, start), DType::i64), at};
}

template <int N>
Tensor fractional_max_pool(const In& x, const FractionalMaxPoolOptions<N>& options,
                           const std::optional<Tensor>& samples, std::string_view op) {
  const Location at = x.where;
  if (is_example<N>(x)) return without_batch(fractional_max_pool<N>(as_batch(x), options, samples, op), at);
  Term image(x);
  const Shape given = image.shape();
  for (int i = 0; i < N; ++i)
    if (given.rank() == N + 2 && (options.size[i] < 1 || options.extent[i] < 1 ||
                                  !is_at_most(options.size[i] + options.extent[i] - 1, given[i + 2])))
      throw ShapeError(op,
                       std::to_string(options.extent[i]) + " windows of " + std::to_string(options.size[i]) +
                           " along axis " + std::to_string(i + 2) + " of " + given.text(),
                       at, "at least 1 of each is required, and together at most the extent and 1");
  if (given.rank() != N + 2 || (samples && !(samples->shape() == Shape{given[0], given[1], N})))
    throw ShapeError(op, "x is " + given.text() + (samples ? ", samples are " + samples->shape().text() : ""), at,
                     "x must be (n, channels) and " + std::to_string(N) + " axes, samples (n, channels, axes)");
  Term u(samples ? *samples : rand({given[0], given[1], N}, {.device = image.value.device()}, at), at);
  if (is_half(u.dtype())) u = Term(cast(u, DType::f32), at);  // places are computed in it
  for (int i = 0; i < N; ++i) {
    const int axis = i + 2, drawn = N == 2 ? 1 - i : i;  // PyTorch's order: of two axes the last one is first
    const Term of_axis(part_of(u, 2, drawn, drawn + 1, at), at);
    const Term starts = fractional_starts(of_axis, given[axis], options.size[i], options.extent[i]);
    const Term taps(arange(Dim(options.size[i]), {.dtype = DType::i64, .device = image.value.device()}, at), at);
    Shape places{given[0], given[1]};
    for (int k = 2; k < N + 2; ++k) places.push_back(k == axis ? Dim(options.extent[i] * options.size[i]) : Dim(1));
    const Term index(reshape(Term(unsqueeze(starts, -1), at) + taps, places), at);
    const Term seen(
        unflatten(In(take_along_axis(image, index, axis), at), axis, Shape{options.extent[i], options.size[i]}), at);
    image = Term(record<ops::WindowMax>({leaf_of(seen)}, Attrs{.axes = {axis + 1}}, at), at);
  }
  return image;
}

}  // namespace expr_detail

SINTER_DECL Tensor max_pool1d(const In& x, MaxPoolOptions<1> options) {
  return expr_detail::max_pool<1>(x, options, "max_pool1d");
}
SINTER_DECL Tensor max_pool2d(const In& x, MaxPoolOptions<2> options) {
  return expr_detail::max_pool<2>(x, options, "max_pool2d");
}
SINTER_DECL Tensor max_pool3d(const In& x, MaxPoolOptions<3> options) {
  return expr_detail::max_pool<3>(x, options, "max_pool3d");
}
SINTER_DECL Tensor avg_pool1d(const In& x, AvgPoolOptions<1> options) {
  return expr_detail::avg_pool<1>(x, options, "avg_pool1d");
}
SINTER_DECL Tensor avg_pool2d(const In& x, AvgPoolOptions<2> options) {
  return expr_detail::avg_pool<2>(x, options, "avg_pool2d");
}
SINTER_DECL Tensor avg_pool3d(const In& x, AvgPoolOptions<3> options) {
  return expr_detail::avg_pool<3>(x, options, "avg_pool3d");
}
SINTER_DECL Ordered max_pool1d_with_indices(const In& x, MaxPoolOptions<1> options) {
  return expr_detail::max_pool_with_indices<1>(x, options, "max_pool1d_with_indices");
}
SINTER_DECL Ordered max_pool2d_with_indices(const In& x, MaxPoolOptions<2> options) {
  return expr_detail::max_pool_with_indices<2>(x, options, "max_pool2d_with_indices");
}
SINTER_DECL Ordered max_pool3d_with_indices(const In& x, MaxPoolOptions<3> options) {
  return expr_detail::max_pool_with_indices<3>(x, options, "max_pool3d_with_indices");
}
SINTER_DECL Tensor max_unpool1d(const In& x, const In& indices, MaxUnpoolOptions<1> options) {
  return expr_detail::max_unpool<1>(x, indices, options, "max_unpool1d");
}
SINTER_DECL Tensor max_unpool2d(const In& x, const In& indices, MaxUnpoolOptions<2> options) {
  return expr_detail::max_unpool<2>(x, indices, options, "max_unpool2d");
}
SINTER_DECL Tensor max_unpool3d(const In& x, const In& indices, MaxUnpoolOptions<3> options) {
  return expr_detail::max_unpool<3>(x, indices, options, "max_unpool3d");
}
SINTER_DECL Tensor lp_pool1d(const In& x, double p, LpPoolOptions<1> options) {
  return expr_detail::lp_pool<1>(x, p, options, "lp_pool1d");
}
SINTER_DECL Tensor lp_pool2d(const In& x, double p, LpPoolOptions<2> options) {
  return expr_detail::lp_pool<2>(x, p, options, "lp_pool2d");
}
SINTER_DECL Tensor lp_pool3d(const In& x, double p, LpPoolOptions<3> options) {
  return expr_detail::lp_pool<3>(x, p, options, "lp_pool3d");
}
SINTER_DECL Tensor fractional_max_pool2d(const In& x, FractionalMaxPoolOptions<2> options,
                                         const std::optional<Tensor>& samples) {
  return expr_detail::fractional_max_pool<2>(x, options, samples, "fractional_max_pool2d");
}
SINTER_DECL Tensor fractional_max_pool3d(const In& x, FractionalMaxPoolOptions<3> options,
                                         const std::optional<Tensor>& samples) {
  return expr_detail::fractional_max_pool<3>(x, options, samples, "fractional_max_pool3d");
}

SINTER_NAMESPACE_END
