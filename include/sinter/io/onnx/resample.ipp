// Resize and Upsample: along one axis after the other, each element is a sum of a few elements at places that are
// computed here, from extents that are numbers. Places and weights follow ONNX's text on Resize.
#pragma once

#include <sinter/io/onnx/resample.hpp>

#include <sinter/base/index.hpp>
#include <sinter/expr/creation.hpp>
#include <sinter/expr/expr.hpp>
#include <sinter/expr/functions.hpp>
#include <sinter/expr/host.hpp>
#include <sinter/expr/indexing.hpp>
#include <sinter/expr/layers.hpp>
#include <sinter/expr/shapes.hpp>

#include <algorithm>
#include <cmath>
#include <numeric>

SINTER_NAMESPACE_BEGIN
namespace io::onnx_detail {

/// How an axis is resampled.
struct ResizedAxis {
  std::int64_t from = 0, to = 0;
  double scale = 1, roi_start = 0, roi_end = 1;
};
struct ResizeMode {
  std::string mode, places, rounding;
  double cubic = -0.75;
  bool excludes_outside = false, antialias = false;
  double outside = 0;
};

inline double place_of(const ResizeMode& how, const ResizedAxis& axis, std::int64_t at) {
  const auto x = static_cast<double>(at), from = static_cast<double>(axis.from), to = from * axis.scale;
  if (how.places == "align_corners") return axis.to == 1 ? 0 : x * (from - 1) / (to - 1);
  if (how.places == "asymmetric") return x / axis.scale;
  if (how.places == "pytorch_half_pixel") return axis.to > 1 ? (x + 0.5) / axis.scale - 0.5 : 0;
  if (how.places == "tf_half_pixel_for_nn") return (x + 0.5) / axis.scale;
  if (how.places == "half_pixel_symmetric") {
    const double adjusted = static_cast<double>(axis.to) / to, centre = from / 2;
    return centre * (1 - adjusted) + (x + 0.5) / axis.scale - 0.5;
  }
  if (how.places == "tf_crop_and_resize")
    return axis.to > 1 ? axis.roi_start * (from - 1) + x * (axis.roi_end - axis.roi_start) * (from - 1) / (to - 1)
                       : 0.5 * (axis.roi_start + axis.roi_end) * (from - 1);
  return (x + 0.5) / axis.scale - 0.5;
}
inline std::int64_t nearest_of(const ResizeMode& how, double place) {
  const double below = std::floor(place);
  const bool is_middle = place - below == 0.5;
  double at = std::round(place);
  if (how.rounding == "floor") at = below;
  else if (how.rounding == "ceil") at = std::ceil(place);
  else if (is_middle) at = how.rounding == "round_prefer_ceil" ? below + 1 : below;
  return static_cast<std::int64_t>(at);
}
/// The weight of an element so far away.
inline double weight_at(const ResizeMode& how, double distance) {
  const double x = std::abs(distance), a = how.cubic;
  if (how.mode == "linear") return std::max(1 - x, 0.0);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

/// For each element of the result the elements it is made of, and their weights: as many for each.
struct Taps {
  std::vector<std::vector<std::int64_t>> places;
  std::vector<std::vector<double>> weights;
};
inline Taps taps_of(const ResizeMode& how, const ResizedAxis& axis) {
  const double stretch = how.antialias && axis.scale < 1 ? axis.scale : 1;
  // An element of the result is made of four lengths of the axis at most.
  const double length = static_cast<double>(axis.from);
  const double reach = std::min((how.mode == "linear" ? 1 : 2) / stretch, 4 * length + 4);
  const int count = how.mode == "nearest" ? 1 : 2 * static_cast<int>(std::ceil(reach)) + (stretch < 1 ? 1 : 0);
  Taps out;
  out.places.assign(as_index(count), {});
  out.weights.assign(as_index(count), {});
  for (std::int64_t at = 0; at < axis.to; ++at) {
    const double place = place_of(how, axis, at);
    const bool is_outside =
        how.places == "tf_crop_and_resize" && (place < 0 || place > static_cast<double>(axis.from - 1));
    // Further out all taps are at the edge.
    const double near_by = place >= -length - count ? std::min(place, 2 * length + count) : -length - count;
    std::vector<double> weights;
    const auto first = how.mode == "nearest" ? nearest_of(how, near_by)
                                             : static_cast<std::int64_t>(std::floor(near_by)) - (count - 1) / 2;
    for (int tap = 0; tap < count; ++tap) {
      const std::int64_t from = first + tap;
      const bool is_inside = from >= 0 && from < axis.from;
      double weight = how.mode == "nearest" ? 1 : weight_at(how, (static_cast<double>(from) - near_by) * stretch);
      if (how.excludes_outside && !is_inside && how.mode != "nearest") weight = 0;
      weights.push_back(weight);
      out.places[as_index(tap)].push_back(std::clamp<std::int64_t>(from, 0, axis.from - 1));
    }
    const double all = std::accumulate(weights.begin(), weights.end(), 0.0);
    for (int tap = 0; tap < count; ++tap)
      out.weights[as_index(tap)].push_back(is_outside ? 0 : weights[as_index(tap)] / (all == 0 ? 1 : all));
  }
  return out;
}

/// x resampled along one axis; elements outside of a region that is cut out are `how.outside`.
inline Tensor resized_along(const NodeCall& call, const Tensor& x, int axis, const ResizeMode& how,
                            const ResizedAxis& to) {
  Taps taps = taps_of(how, to);
  Shape line;
  for (int i = 0; i < x.rank(); ++i) line.push_back(i == axis ? Dim(to.to) : Dim(1));
  const bool is_cut = how.places == "tf_crop_and_resize";
  std::optional<Tensor> out;
  for (std::size_t tap = 0; tap < taps.places.size(); ++tap) {
    const Shape count{Dim(to.to)};
    Tensor part = take(call.in(x), call.in(adopt(std::move(taps.places[tap]), count, call.where())), axis);
    const bool counts = how.mode != "nearest" || is_cut;
    const Tensor weight = counts
                              ? reshape(call.in(adopt(std::move(taps.weights[tap]), count, call.where())
                                                    .to(is_floating(x.dtype()) ? x.dtype() : DType::f32, call.where())),
                                        line)
                              : Tensor();
    if (how.mode != "nearest") part = call.make("mul", {call.in(part), call.in(weight)});
    else if (is_cut)
      part = call.make("where",
                       {call.in(call.make("eq", {call.in(weight), call.in(0)})), call.in(how.outside), call.in(part)});
    out = out ? Tensor(call.make("add", {call.in(*out), call.in(part)})) : part;
  }
  if (!is_cut || how.mode == "nearest") return *out;
  std::vector<float> beyond;
  for (std::int64_t at = 0; at < to.to; ++at) {
    const double place = place_of(how, to, at);
    beyond.push_back(place < 0 || place > static_cast<double>(to.from - 1) ? 1.F : 0.F);
  }
  const Tensor mask = reshape(call.in(adopt(std::move(beyond), Shape{Dim(to.to)}, call.where())), line);
  return call.make("where",
                   {call.in(call.make("eq", {call.in(mask), call.in(1)})), call.in(how.outside), call.in(*out)});
}

/// Scales, or the extents wanted, of the axes that are named.
inline std::vector<ResizedAxis> resized_axes(const NodeCall& call, const Tensor& x, const std::vector<int>& axes) {
  const bool is_old = call.op() == "Upsample" || call.opset() < 11;
  const std::size_t at_scales = is_old ? 1 : 2;
  std::vector<double> scales;
  std::vector<Dim> sizes;
  if (!is_old && call.has(3)) sizes = call.dims(3);
  if (sizes.empty()) scales = call.has(at_scales) ? call.reals(at_scales) : call.reals("scales");
  if (scales.size() + sizes.size() != axes.size())
    call.fail("there are " + std::to_string(scales.size() + sizes.size()) + " scales or extents for " +
              std::to_string(axes.size()) + " axes");
  const std::string policy = call.text("keep_aspect_ratio_policy", "stretch");
  std::vector<double> roi;
  if (!is_old && call.has(1)) roi = call.reals(1);
  std::vector<ResizedAxis> out(axes.size());
  for (std::size_t i = 0; i < axes.size(); ++i) {
    if (roi.size() == 2 * axes.size()) out[i].roi_start = roi[i], out[i].roi_end = roi[i + axes.size()];
    const Dim extent = x.shape()[axes[i]];
    // What stays as long as it is may be of any length.
    if (roi.empty() && policy == "stretch" && (sizes.empty() ? scales[i] == 1 : identical(sizes[i], extent))) continue;
    out[i].from = static_cast<std::int64_t>(extent);
    if (sizes.empty() && !(scales[i] > 0 && scales[i] * static_cast<double>(out[i].from) < 0x1p31))
      call.fail("a scale is " + std::to_string(scales[i]));
    const auto from = static_cast<double>(out[i].from);
    // In f32, as the scales are: 10 times 0.7 is 7.
    const auto scaled = static_cast<std::int64_t>(
        std::floor(sizes.empty() ? static_cast<float>(from) * static_cast<float>(scales[i]) : 0.F));
    out[i].to = sizes.empty() ? scaled : static_cast<std::int64_t>(sizes[i]);
    out[i].scale = sizes.empty() ? scales[i] : static_cast<double>(out[i].to) / from;
    if (!(out[i].scale > 0) || out[i].to < 0) call.fail("a scale is " + std::to_string(out[i].scale));
  }
  if (sizes.empty() || policy == "stretch") return out;
  double scale = out[0].scale;
  for (const ResizedAxis& axis : out)
    scale = policy == "not_larger" ? std::min(scale, axis.scale) : std::max(scale, axis.scale);
  for (ResizedAxis& axis : out) {
    axis.scale = scale;
    axis.to = static_cast<std::int64_t>(std::floor(scale * static_cast<double>(axis.from) + 0.5));
  }
  return out;
}

inline void check_mode(const NodeCall& call, const std::string& name, const std::string& mode,
                       std::initializer_list<std::string_view> known) {
  if (std::find(known.begin(), known.end(), mode) == known.end()) call.fail(name + " is '" + mode + "'");
}
inline Operands run_resize(const NodeCall& call) {
  Tensor x = call.x(0);
  std::vector<int> axes(as_index(x.rank()));
  std::iota(axes.begin(), axes.end(), 0);
  if (call.has_attribute("axes")) axes = call.axes(call.integers("axes"), x.rank());
  const bool is_old = call.op() == "Upsample" || call.opset() < 11;
  const ResizeMode how{.mode = call.text("mode", "nearest"),
                       .places = is_old ? "asymmetric" : call.text("coordinate_transformation_mode", "half_pixel"),
                       .rounding = is_old ? "floor" : call.text("nearest_mode", "round_prefer_floor"),
                       .cubic = call.real("cubic_coeff_a", -0.75),
                       .excludes_outside = call.flag("exclude_outside"),
                       .antialias = call.flag("antialias"),
                       .outside = call.real("extrapolation_value", 0)};
  check_mode(call, "mode", how.mode, {"nearest", "linear", "cubic"});
  check_mode(call, "coordinate_transformation_mode", how.places,
             {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric",
              "tf_crop_and_resize", "tf_half_pixel_for_nn"});
  check_mode(call, "nearest_mode", how.rounding, {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"});
  check_mode(call, "keep_aspect_ratio_policy", call.text("keep_aspect_ratio_policy", "stretch"),
             {"stretch", "not_larger", "not_smaller"});
  const DType dtype = x.dtype();
  const DType computed = how.mode == "nearest" || dtype == DType::f64 ? dtype : DType::f32;
  const std::vector<ResizedAxis> resized = resized_axes(call, x, axes);
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const bool is_cut = how.places == "tf_crop_and_resize" && (resized[i].roi_start != 0 || resized[i].roi_end != 1);
    if (resized[i].from == resized[i].to && resized[i].scale == 1 && !is_cut) continue;
    if (resized[i].to == 0) {
      x = narrow(call.in(x), axes[i], 0, 0);
      continue;
    }
    if (resized[i].from == 0) call.fail("an axis without elements");
    x = resized_along(call, x.to(computed, call.where()), axes[i], how, resized[i]);
  }
  return {x.to(dtype, call.where())};
}

SINTER_DECL std::span<const Operator> resample_operators() {
  static constexpr Operator table[] = {{"Resize", run_resize}, {"Upsample", run_resize}};
  return table;
}

}  // namespace io::onnx_detail
SINTER_NAMESPACE_END
