// Operators of ONNX with windows, and those that resample: convolutions, pools, Resize, GridSample.
#pragma once

#include <sinter/io/onnx/windows.hpp>

#include <sinter/base/index.hpp>
#include <sinter/expr/adaptive_pool.hpp>
#include <sinter/expr/convolution.hpp>
#include <sinter/expr/creation.hpp>
#include <sinter/expr/expr.hpp>
#include <sinter/expr/functions.hpp>
#include <sinter/expr/gather_scatter.hpp>
#include <sinter/expr/host.hpp>
#include <sinter/expr/indexing.hpp>
#include <sinter/expr/layers.hpp>
#include <sinter/expr/matrices.hpp>
#include <sinter/expr/padding.hpp>
#include <sinter/expr/pooling.hpp>
#include <sinter/expr/resample.hpp>
#include <sinter/expr/shapes.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

SINTER_NAMESPACE_BEGIN
namespace io::onnx_detail {

using Numbers = std::vector<std::int64_t>;

inline std::string automatic_padding(const NodeCall& call) {
  const std::string automatic = call.text("auto_pad", "NOTSET");
  if (automatic != "NOTSET" && automatic != "VALID" && automatic != "SAME_UPPER" && automatic != "SAME_LOWER")
    call.fail("auto_pad is '" + automatic + "'", "NOTSET, VALID, SAME_UPPER or SAME_LOWER");
  return automatic;
}

/// The windows of a node over the axes after (batch, channels). Widths of padding are numbers; `extra` is what the last
/// window needs beyond them where extents are rounded up.
struct WindowShape {
  Numbers size, stride, dilation, low, high, extra;
  std::size_t axes() const { return size.size(); }
  bool is_padded() const {
    const auto any_of = [](const Numbers& list) {
      return std::any_of(list.begin(), list.end(), [](auto x) { return x != 0; });
    };
    return any_of(low) || any_of(high) || any_of(extra);
  }
};
/// Products of two of them are numbers, too.
inline constexpr std::int64_t most_number = 1 << 29;
inline Numbers numbers_of(const NodeCall& call, std::string_view name, std::size_t count, std::int64_t otherwise) {
  Numbers list = call.integers(name);
  if (list.empty()) list.assign(count, otherwise);
  if (list.size() != count)
    call.fail(std::string(name) + " has " + std::to_string(list.size()) + " numbers, not " + std::to_string(count));
  for (const std::int64_t number : list)
    if (number < -most_number || number > most_number)
      call.fail(std::string(name) + " has the number " + std::to_string(number));
  return list;
}
inline std::int64_t extent_of(const Tensor& x, std::size_t spatial) {
  return static_cast<std::int64_t>(x.shape()[static_cast<int>(spatial) + 2]);
}
inline WindowShape windows_of(const NodeCall& call, const Tensor& x, Numbers size) {
  const std::size_t n = size.size();
  if (x.rank() != static_cast<int>(n) + 2 || n < 1 || n > 3)
    call.fail("windows of " + std::to_string(n) + " axes on " + x.shape().text(),
              "1 to 3 axes after (batch, channels)");
  WindowShape out{
      size, numbers_of(call, "strides", n, 1), numbers_of(call, "dilations", n, 1), Numbers(n), Numbers(n), Numbers(n)};
  for (std::size_t i = 0; i < n; ++i)
    if (out.stride[i] < 1 || out.dilation[i] < 1 || out.size[i] < 1 || out.size[i] > most_number)
      call.fail("a size, stride or dilation is below 1, or too large");
  const Numbers pads = numbers_of(call, "pads", 2 * n, 0);
  const std::string automatic = automatic_padding(call);
  for (std::size_t i = 0; i < n; ++i) {
    if (automatic == "NOTSET") out.low[i] = pads[i], out.high[i] = pads[i + n];
    if (automatic != "SAME_UPPER" && automatic != "SAME_LOWER") continue;
    const std::int64_t extent = extent_of(x, i), count = (extent + out.stride[i] - 1) / out.stride[i];
    const std::int64_t missing =
        std::max<std::int64_t>((count - 1) * out.stride[i] + (out.size[i] - 1) * out.dilation[i] + 1 - extent, 0);
    out.low[i] = automatic == "SAME_UPPER" ? missing / 2 : missing - missing / 2;
    out.high[i] = missing - out.low[i];
  }
  if (!call.flag("ceil_mode")) return out;
  for (std::size_t i = 0; i < n; ++i) {
    const std::int64_t window = (out.size[i] - 1) * out.dilation[i] + 1, extent = extent_of(x, i);
    const std::int64_t room = extent + out.low[i] + out.high[i] - window;
    std::int64_t count = (room + out.stride[i] - 1) / out.stride[i] + 1;
    if ((count - 1) * out.stride[i] >= extent + out.low[i]) --count;  // it would begin behind the end
    out.extra[i] = std::max<std::int64_t>((count - 1) * out.stride[i] - room, 0);
  }
  return out;
}
inline std::vector<std::pair<int, int>> widths_of(const WindowShape& windows, bool with_extra) {
  std::vector<std::pair<int, int>> widths{{0, 0}, {0, 0}};
  for (std::size_t i = 0; i < windows.axes(); ++i)
    widths.emplace_back(static_cast<int>(windows.low[i]),
                        static_cast<int>(windows.high[i] + (with_extra ? windows.extra[i] : 0)));
  return widths;
}
inline Numbers spatial_extents(const Tensor& weight) {
  Numbers size;
  for (int i = 2; i < weight.rank(); ++i) size.push_back(static_cast<std::int64_t>(weight.shape()[i]));
  return size;
}

inline Tensor convolved(const NodeCall& call, Tensor x, const Tensor& weight, std::optional<Tensor> bias) {
  const WindowShape windows = windows_of(call, x, spatial_extents(weight));
  ConvOptions options{.stride = windows.stride,
                      .dilation = windows.dilation,
                      .groups = call.integer("group", 1),
                      .bias = std::move(bias)};
  if (windows.low == windows.high) options.padding = ConvPadding(windows.low);
  else x = pad(call.in(x), widths_of(windows, false));
  if (windows.axes() == 1) return conv1d(call.in(x), call.in(weight), options);
  return windows.axes() == 2 ? conv2d(call.in(x), call.in(weight), options)
                             : conv3d(call.in(x), call.in(weight), options);
}
inline Operands run_conv(const NodeCall& call) { return {convolved(call, call.x(0), call.x(1), call.optional(2))}; }
/// Products and sums of integers are exact in f64.
inline Operands run_conv_integer(const NodeCall& call) {
  const Tensor x = less_zero_point(call, 0, 2, 1).to(DType::f64, call.where());
  const Tensor weight = less_zero_point(call, 1, 3, 0).to(DType::f64, call.where());
  return {convolved(call, x, weight, {}).to(DType::i32, call.where())};
}

/// The whole adjoint, of which the padding is cut off.
inline Operands run_conv_transpose(const NodeCall& call) {
  const Tensor x = call.x(0), weight = call.x(1);
  const Numbers size = spatial_extents(weight);
  const std::size_t n = size.size();
  const Numbers stride = numbers_of(call, "strides", n, 1), dilation = numbers_of(call, "dilations", n, 1),
                further = numbers_of(call, "output_padding", n, 0), pads = numbers_of(call, "pads", 2 * n, 0);
  const std::string automatic = automatic_padding(call);
  const bool is_same = automatic == "SAME_UPPER" || automatic == "SAME_LOWER";
  Numbers wanted = call.integers("output_shape");
  if (wanted.size() > n) wanted.erase(wanted.begin(), wanted.end() - static_cast<std::ptrdiff_t>(n));
  if (!wanted.empty() && (wanted.size() != n || *std::max_element(wanted.begin(), wanted.end()) > most_number ||
                          *std::min_element(wanted.begin(), wanted.end()) < 0))
    call.fail("an output_shape that no result has");
  std::vector<std::pair<int, int>> cut{{0, 0}, {0, 0}};
  for (std::size_t i = 0; i < n; ++i) {
    std::int64_t low = automatic == "NOTSET" ? pads[i] : 0, high = automatic == "NOTSET" ? pads[i + n] : 0;
    if (!wanted.empty() || is_same) {
      const std::int64_t extent = extent_of(x, i), out = wanted.empty() ? extent * stride[i] : wanted[i];
      const std::int64_t beyond = stride[i] * (extent - 1) + further[i] + (size[i] - 1) * dilation[i] + 1 - out;
      low = automatic == "SAME_UPPER" || beyond < 0 ? std::max<std::int64_t>(beyond / 2, 0) : beyond - beyond / 2;
      high = beyond - low;
    }
    cut.emplace_back(static_cast<int>(-low), static_cast<int>(further[i] - high));
  }
  ConvTransposeOptions options{.stride = stride, .dilation = dilation, .groups = call.integer("group", 1)};
  Tensor out = n == 1   ? conv_transpose1d(call.in(x), call.in(weight), options)
               : n == 2 ? conv_transpose2d(call.in(x), call.in(weight), options)
                        : conv_transpose3d(call.in(x), call.in(weight), options);
  out = pad(call.in(out), cut);
  if (!call.has(2)) return {out};
  Shape channels{1, call.x(2).numel()};
  while (channels.rank() < out.rank()) channels.push_back(1);
  return {call.make("add", {call.in(out), call.in(reshape(call.in(call.x(2)), channels))})};
}

template <int N>
NumberPerAxis<N> per_axis(const Numbers& list) {
  NumberPerAxis<N> out = 0;
  for (int i = 0; i < N; ++i) out.values[as_index(i)] = list[as_index(i)];
  return out;
}
template <int N>
MaxPoolOptions<N> max_options(const WindowShape& w) {
  return {.size = per_axis<N>(w.size), .stride = per_axis<N>(w.stride), .dilation = per_axis<N>(w.dilation)};
}
template <int N>
AvgPoolOptions<N> avg_options(const WindowShape& w) {
  return {.size = per_axis<N>(w.size), .stride = per_axis<N>(w.stride)};
}
inline Ordered max_pooled(const NodeCall& call, const Tensor& x, const WindowShape& w, bool with_indices) {
  const In in = call.in(x);
  if (w.axes() == 1)
    return with_indices ? max_pool1d_with_indices(in, max_options<1>(w))
                        : Ordered{max_pool1d(in, max_options<1>(w)), {}};
  if (w.axes() == 2)
    return with_indices ? max_pool2d_with_indices(in, max_options<2>(w))
                        : Ordered{max_pool2d(in, max_options<2>(w)), {}};
  return with_indices ? max_pool3d_with_indices(in, max_options<3>(w)) : Ordered{max_pool3d(in, max_options<3>(w)), {}};
}
/// Sums of the elements at the same place of all windows, where they are apart.
inline Tensor mean_pooled(const NodeCall& call, const Tensor& x, const WindowShape& w) {
  const bool is_dense = std::all_of(w.dilation.begin(), w.dilation.end(), [](auto d) { return d == 1; });
  if (is_dense && w.axes() == 1) return avg_pool1d(call.in(x), avg_options<1>(w));
  if (is_dense && w.axes() == 2) return avg_pool2d(call.in(x), avg_options<2>(w));
  if (is_dense) return avg_pool3d(call.in(x), avg_options<3>(w));
  Tensor out = x;
  for (std::size_t i = 0; i < w.axes(); ++i) {
    const std::int64_t extent = extent_of(x, i), last = extent - (w.size[i] - 1) * w.dilation[i];
    std::optional<Tensor> line;
    for (std::int64_t at = 0; at < w.size[i]; ++at) {
      std::vector<Index> part(as_index(x.rank()), Index(all, call.where()));
      part[i + 2] = Index(Slice{Dim(at * w.dilation[i]), Dim(at * w.dilation[i] + last), w.stride[i]}, call.where());
      const Tensor taken = index(call.in(out), part);
      line = line ? Tensor(call.make("add", {call.in(*line), call.in(taken)})) : taken;
    }
    out = call.make("div", {call.in(*line), call.in(static_cast<double>(w.size[i]))});
  }
  return out;
}

/// Places in the padded planes as places in the whole of x; within a plane in row-major order, or column-major.
inline Tensor places_in_tensor(const NodeCall& call, const Tensor& places, const Tensor& x, const Tensor& padded,
                               const WindowShape& w) {
  Shape plane;
  for (int i = 2; i < padded.rank(); ++i) plane.push_back(padded.shape()[i]);
  const std::vector<Tensor> along = unravel_index(call.in(places), plane);
  const Dim planes = x.shape()[0] * x.shape()[1];
  Tensor at = reshape(call.in(arange(planes, {.dtype = DType::i64}, call.where())), [&] {
    Shape shape{x.shape()[0], x.shape()[1]};
    while (shape.rank() < x.rank()) shape.push_back(1);
    return shape;
  }());
  for (std::size_t step = 0; step < w.axes(); ++step) {
    const std::size_t i = call.flag("storage_order") ? w.axes() - 1 - step : step;
    at = call.make("mul", {call.in(at), In(x.shape()[static_cast<int>(i) + 2], call.where())});
    at = call.make("add", {call.in(at), call.in(call.make("sub", {call.in(along[i]), In(w.low[i], call.where())}))});
  }
  return at;
}
inline Operands run_max_pool(const NodeCall& call) {
  const DType dtype = call.operand(0).dtype();
  // Windows are of floating numbers, which hold all integers of 16 bits.
  const Tensor x = is_floating(dtype) ? call.x(0) : call.x(0).to(DType::f64, call.where());
  const WindowShape w = windows_of(call, x, call.integers("kernel_shape"));
  constexpr double lowest = -std::numeric_limits<double>::infinity();
  const Tensor padded = w.is_padded() ? pad(call.in(x), widths_of(w, true), lowest) : x;
  const Ordered found = max_pooled(call, padded, w, call.wants(1));
  const Tensor values = found.values.to(dtype, call.where());
  if (!call.wants(1)) return {values};
  return {values, places_in_tensor(call, found.indices, x, padded, w)};
}
/// Padding counts in the mean or does not; what rounding up adds never does.
inline Operands run_average_pool(const NodeCall& call) {
  const Tensor x = call.x(0);
  const WindowShape w = windows_of(call, x, call.integers("kernel_shape"));
  if (!w.is_padded()) return {mean_pooled(call, x, w)};
  Shape one{1, 1};
  for (int i = 2; i < x.rank(); ++i) one.push_back(x.shape()[i]);
  Tensor counted = ones(one, {.dtype = x.dtype()}, call.where());
  if (call.flag("count_include_pad")) {
    counted = pad(call.in(counted), widths_of(w, false), 1);
    WindowShape rest = w;
    rest.low.assign(w.axes(), 0);
    rest.high = w.extra;
    counted = pad(call.in(counted), widths_of(rest, false));
  } else {
    counted = pad(call.in(counted), widths_of(w, true));
  }
  const Tensor means = mean_pooled(call, pad(call.in(x), widths_of(w, true)), w);
  return {call.make("div", {call.in(means), call.in(mean_pooled(call, counted, w))})};
}
inline Operands run_lp_pool(const NodeCall& call) {
  const Tensor x = call.x(0);
  const WindowShape w = windows_of(call, x, call.integers("kernel_shape"));
  const double p = static_cast<double>(call.integer("p", 2));
  const Tensor powers =
      call.make("pow", {call.in(call.make("abs", {call.in(pad(call.in(x), widths_of(w, true)))})), call.in(p)});
  double count = 1;
  for (const std::int64_t size : w.size) count *= static_cast<double>(size);
  const Tensor sums = call.make("mul", {call.in(mean_pooled(call, powers, w)), call.in(count)});
  return {call.make("pow", {call.in(sums), call.in(1 / p)})};
}
inline Operands run_global_pool(const NodeCall& call) {
  const Tensor x = call.x(0);
  std::vector<int> axes;
  for (int i = 2; i < x.rank(); ++i) axes.push_back(i);
  if (axes.empty()) return {x};
  if (call.op() == "GlobalAveragePool") return {mean(call.in(x), axes, keepdim)};
  if (call.op() == "GlobalMaxPool") return {amax(call.in(x), axes, keepdim)};
  const double p = static_cast<double>(call.integer("p", 2));
  const Tensor powers = call.make("pow", {call.in(call.make("abs", {call.in(x)})), call.in(p)});
  return {call.make("pow", {call.in(sum(call.in(powers), axes, keepdim)), call.in(1 / p)})};
}
inline Operands run_max_unpool(const NodeCall& call) {
  const Tensor x = call.x(0), places = call.x(1);
  const Numbers size = call.integers("kernel_shape");
  const Numbers stride = numbers_of(call, "strides", size.size(), 1),
                pads = numbers_of(call, "pads", 2 * size.size(), 0);
  Shape out{x.shape()[0], x.shape()[1]};
  for (std::size_t i = 0; i < size.size(); ++i)
    out.push_back(Dim((extent_of(x, i) - 1) * stride[i] + size[i] - pads[i] - pads[i + size.size()]));
  // Places count through the tensor of the extents that windows imply; a stated shape is larger.
  const Tensor flat = put(call.in(zeros(out, {.dtype = x.dtype()}, call.where())), call.in(places), call.in(x));
  if (!call.has(2)) return {flat};
  if (call.operand(2).shape().numel().value() != flat.rank()) call.fail("a shape of another rank");
  const Numbers wanted = call.integers(2);
  std::vector<std::pair<int, int>> beyond;
  for (int i = 0; i < flat.rank(); ++i)
    beyond.emplace_back(0, static_cast<int>(wanted[as_index(i)] - flat.shape()[i].value()));
  return {pad(call.in(flat), beyond)};
}

inline Operands run_grid_sample(const NodeCall& call) {
  const std::string mode = call.text("mode", "linear"), padding = call.text("padding_mode", "zeros");
  GridSampleOptions options;
  if (mode != "nearest" && mode != "linear" && mode != "bilinear" && mode != "cubic" && mode != "bicubic")
    call.fail("the mode is '" + mode + "'");
  if (padding != "zeros" && padding != "border" && padding != "reflection")
    call.fail("padding_mode is '" + padding + "'", "zeros, border or reflection");
  if (mode == "nearest") options.mode = Interpolation::nearest;
  else if (mode == "cubic" || mode == "bicubic") options.mode = Interpolation::bicubic;
  if (padding == "border") options.padding = GridPadding::border;
  else if (padding == "reflection") options.padding = GridPadding::reflection;
  if (call.flag("align_corners")) options.align = Align::pixel_centres;
  return {grid_sample(call.in(call.x(0)), call.in(call.x(1)), options)};
}
inline Operands run_col2im(const NodeCall& call) {
  const std::vector<Dim> image = call.dims(1);
  const Numbers block = call.integers(2);
  const Numbers pads = numbers_of(call, "pads", 2 * block.size(), 0);
  if (block.size() != 2 || pads[0] != pads[2] || pads[1] != pads[3])
    call.fail("blocks of " + std::to_string(block.size()) + " axes, or other padding before than after",
              "images are put together with the same padding at both ends");
  return {fold(call.in(call.x(0)), Shape(std::span<const Dim>(image)), block,
               {.dilation = numbers_of(call, "dilations", 2, 1),
                .padding = Numbers{pads[0], pads[1]},
                .stride = numbers_of(call, "strides", 2, 1)})};
}

SINTER_DECL std::span<const Operator> window_operators() {
  static constexpr Operator table[] = {
      {"Conv", run_conv},
      {"ConvInteger", run_conv_integer},
      {"ConvTranspose", run_conv_transpose},
      {"MaxPool", run_max_pool},
      {"AveragePool", run_average_pool},
      {"LpPool", run_lp_pool},
      {"GlobalAveragePool", run_global_pool},
      {"GlobalMaxPool", run_global_pool},
      {"GlobalLpPool", run_global_pool},
      {"MaxUnpool", run_max_unpool},
      {"GridSample", run_grid_sample},
      {"Col2Im", run_col2im},
  };
  return table;
}

}  // namespace io::onnx_detail
SINTER_NAMESPACE_END
