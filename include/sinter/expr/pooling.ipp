// See the header. The shape rules are PyTorch's.
#pragma once

#include <sinter/expr/pooling.hpp>

#include <sinter/base/index.hpp>
#include <sinter/expr/layers.hpp>
#include <sinter/expr/recording.hpp>

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

template <int N>
std::vector<PoolAxis> pool_axes(const Tensor& image, const NumberPerAxis<N>& size, const NumberPerAxis<N>& stride,
                                const NumberPerAxis<N>& padding, const NumberPerAxis<N>& dilation, bool ceil_mode,
                                std::string_view op, Location where) {
  const Shape shape = image.shape();
  if (shape.rank() != N + 2)
    throw ShapeError(op, "x is " + shape.text(), where,
                     "it must have " + std::to_string(N + 2) + " axes: images, channels, and those of the window");
  if (!is_floating(image.dtype())) throw DTypeError(op, "x is " + std::string(name(image.dtype())), where, "cast it");
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

template <int N>
Tensor max_pool(const In& x, const MaxPoolOptions<N>& options, std::string_view op) {
  const Tensor image(x.tensor());
  const std::vector<PoolAxis> axes = pool_axes<N>(image, options.size, options.stride, options.padding,
                                                  options.dilation, options.ceil_mode, op, x.where);
  return over_windows<ops::WindowMax>(image, axes, -std::numeric_limits<double>::infinity(), x.where);
}

/// The sum of each window; with its elements' number where that is not the same everywhere.
template <int N>
Tensor avg_pool(const In& x, const AvgPoolOptions<N>& options, std::string_view op) {
  const Tensor image(x.tensor());
  const std::vector<PoolAxis> axes =
      pool_axes<N>(image, options.size, options.stride, options.padding, 1, options.ceil_mode, op, x.where);
  const auto summed = [&](const Tensor& of, const std::vector<PoolAxis>& along) {
    return over_windows<ops::Sum>(of, along, 0, x.where);
  };
  std::int64_t count = 1;
  bool is_same = true;
  std::vector<PoolAxis> counted = axes;
  Shape ones{1, 1};
  for (PoolAxis& along : counted) {
    count *= along.size;
    const Dim beyond = along.high - Dim(along.padding);
    is_same &= (options.count_include_pad || along.padding == 0) && beyond.is_static() && beyond.value() == 0;
    if (options.count_include_pad) {  // what lies beyond the padding does not count
      along.extent += Dim(2 * along.padding);
      along.high = beyond;
      along.padding = 0;
    }
    ones.push_back(along.extent);
  }
  const Tensor sums = summed(image, axes);
  if (is_same) return sums / static_cast<double>(count);
  return sums / summed(full(ones, 1, {.dtype = image.dtype(), .device = image.device()}), counted);
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

SINTER_NAMESPACE_END
