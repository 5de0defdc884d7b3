// Axis by axis: gathers at computed places, weighted.
#pragma once

#include <sinter/expr/resample.hpp>

#include <sinter/base/index.hpp>
#include <sinter/base/small_vector.hpp>
#include <sinter/expr/adaptive_pool.hpp>
#include <sinter/expr/indexing.hpp>
#include <sinter/expr/padding.hpp>
#include <sinter/expr/recording.hpp>
#include <sinter/expr/resample_places.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <optional>
#include <span>
#include <utility>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace expr_detail {

/// Elements at these places of the axis, which are moved into it.
inline Tensor taken_at(const Tensor& x, const Resampled& axis, const Tensor& places, Location at) {
  const Tensor index = cast(In(places, at), DType::i64);
  const Tensor inside = clamp(index, Scalar(0), Scalar(axis.from - Dim(1)));
  return take(In(x, at), In(inside, at), axis.axis);
}

/// Cubic convolution with a = -3/4 (Keys 1981): the weight at distance t, up to 1 and from 1 to 2.
inline Tensor cubic_near(const Tensor& t) { return ((t * 1.25) - 2.25) * t * t + 1; }
inline Tensor cubic_far(const Tensor& t) { return (((t * -0.75) + 3.75) * t - 6) * t + 3; }

inline Tensor cubic_along(const Tensor& x, const Resampled& axis, Align align, Location at) {
  const DType dtype = resampled_in(x);
  const Tensor place = source_places(axis, Interpolation::bicubic, align, dtype, x.device(), at);
  const Tensor below = floor(place), t = place - below;
  const Tensor weights[] = {cubic_far(t + 1), cubic_near(t), cubic_near(1 - t), cubic_far(2 - t)};
  Tensor total;
  for (int i = 0; i < 4; ++i) {
    const Tensor taken = cast(In(taken_at(x, axis, below + (i - 1), at), at), dtype);
    const Tensor part = taken * along_axis_of(weights[i], x, axis.axis, at);
    total = i == 0 ? part : Tensor(total + part);
  }
  return cast(In(total, at), x.dtype());
}

/// At most so many old elements lie on each side of a place for each unit of the filter's radius.
inline Dim filter_reach(const Resampled& axis, Align align) {
  if (align == Align::pixel_corners) return (axis.from + axis.to - Dim(1)) / axis.to;
  if (is_at_most(axis.to, 1)) return 1;
  return (axis.from + axis.to - Dim(2)) / (axis.to - Dim(1));
}

/// Each new element is a mean of old ones, weighted by a triangle or by Keys's cubic with a = -1/2 that is as much
/// wider as the axis becomes shorter. Those of its window alone are seen, so that no other has part in it, be it NaN.
inline Tensor filtered_along(const Tensor& x, const Resampled& axis, const InterpolateOptions& options, Location at) {
  const DType dtype = x.dtype() == DType::f64 ? DType::f64 : DType::f32;
  const TensorOptions like{.dtype = dtype, .device = x.device()};
  auto number = [&](Dim dim) { return Tensor(cast(In(Scalar(dim), at), dtype)); };
  Tensor per = axis.scale ? Tensor(full({}, 1 / *axis.scale, {.dtype = dtype, .device = Device::cpu()}, at))
                          : Tensor(number(axis.from) / number(axis.to));
  if (options.align == Align::pixel_centres)
    per = is_at_most(axis.to, 1) ? per * 0.0 : Tensor((number(axis.from) - 1.0) / (number(axis.to) - 1.0));
  const std::int64_t radius = options.mode == Interpolation::linear ? 1 : 2;
  const Dim taps = filter_reach(axis, options.align) * Dim(2 * radius);
  const Tensor centre = (arange(axis.to, like, at) + 0.5) * per, width = maximum(per, 1.0);
  const Tensor first = floor(centre - width * static_cast<double>(radius) + 0.5);
  // Vectors run along the last axis. There the taps come before the new elements, else after them.
  const int of_taps = axis.axis == x.rank() - 1 ? 0 : 1, of_new = 1 - of_taps;
  const Tensor place = unsqueeze(In(first, at), of_taps) + unsqueeze(In(arange(taps, like, at), at), of_new);
  const Tensor t = abs(place + 0.5 - unsqueeze(In(centre, at), of_taps)) / width;
  const Tensor near = ((t * 1.5) - 2.5) * t * t + 1, far = (((t * -0.5) + 2.5) * t - 4) * t + 2;
  const Tensor cubic = where(t < 1, near, where(t < 2, far, 0.0));
  const Tensor filter = options.mode == Interpolation::linear ? Tensor(maximum(1 - t, 0.0)) : cubic;
  const Tensor is_inside = (place >= 0) & (place <= Scalar(axis.from - Dim(1)));
  const Tensor weights = where(is_inside, filter, 0.0);
  Shape column = weights.shape();
  for (int i = axis.axis + 1; i < x.rank(); ++i) column.push_back(1);
  const Tensor parts = reshape(In(Tensor(weights / sum(In(weights, at), of_taps, Keep::yes)), at), column);
  const Tensor seen = taken_at(cast(In(x, at), dtype), axis, place, at);
  const Tensor mixed = sum(In(Tensor(where(parts != 0.0, seen * parts, 0.0)), at), axis.axis + of_taps);
  return cast(In(mixed, at), x.dtype());
}

/// An axis of known extents that becomes `times` / `stride` as long: `times` new elements lie alike within all groups
/// of `stride` old ones, of which there are `groups`. times 0: these numbers are too large, or not known.
struct Phases {
  std::int64_t times = 0, stride = 1, groups = 0;
};
inline Phases phases_of(const Resampled& axis, Align align) {
  constexpr std::int64_t most = 4;  // each has code of its own
  if (align == Align::pixel_centres || !axis.from.is_static() || !axis.to.is_static()) return {};
  const std::int64_t from = axis.from.value(), to = axis.to.value(), groups = std::gcd(from, to);
  const bool is_exact = !axis.scale || *axis.scale * static_cast<double>(from) == static_cast<double>(to);
  if (!is_exact || to > most * groups || from > most * groups) return {};
  return {to / groups, from / groups, groups};
}

/// The old elements that a new one is made of: their distances from the first one of the group, and their weights.
struct Taps {
  SmallVector<std::int64_t, 8> at;
  SmallVector<double, 8> weight;
  void add(std::int64_t place, double w) {
    if (w == 0) return;
    at.push_back(place);
    weight.push_back(w);
  }
};
/// Keys's cubic of parameter a, or a triangle, at distance t.
inline double filter_at(double t, Interpolation mode, double a) {
  if (mode == Interpolation::linear) return t < 1 ? 1 - t : 0;
  return t < 1 ? (t * (a + 2) - (a + 3)) * t * t + 1 : t < 2 ? (((t - 5) * t + 8) * t - 4) * a : 0;
}
inline Taps taps_of(const Phases& phases, std::int64_t phase, const InterpolateOptions& options) {
  const double per = static_cast<double>(phases.stride) / static_cast<double>(phases.times);
  const double centre = (static_cast<double>(phase) + 0.5) * per, width = options.antialias ? std::max(per, 1.0) : 1;
  const double radius = width * (options.mode == Interpolation::linear ? 1 : 2), a = options.antialias ? -0.5 : -0.75;
  Taps taps;
  double sum = 0;
  const auto first = static_cast<std::int64_t>(std::floor(centre - radius - 0.5));
  for (std::int64_t place = first; static_cast<double>(place) < centre + radius; ++place) {
    const double distance = std::abs(static_cast<double>(place) + 0.5 - centre) / width;
    taps.add(place, filter_at(distance, options.mode, a));
  }
  for (double weight : taps.weight) sum += weight;
  for (double& weight : taps.weight) weight /= sum;
  return taps;
}

/// What the taps of one phase give in all groups. `padded` has `ends` elements more at both ends.
inline Tensor mixed_by(const Taps& taps, const Tensor& padded, int axis, const Phases& phases, std::int64_t ends,
                       Location at) {
  Tensor total;
  for (std::size_t i = 0; i < taps.at.size(); ++i) {
    const std::int64_t start = ends + taps.at[i], stop = start + (phases.groups - 1) * phases.stride + 1;
    std::vector<Index> positions;
    for (int k = 0; k < axis; ++k) positions.emplace_back(all, at);
    positions.emplace_back(Slice{Dim(start), Dim(stop), phases.stride}, at);
    const Tensor part = index(In(padded, at), positions) * taps.weight[i];
    total = i == 0 ? part : Tensor(total + part);
  }
  return total;
}
inline Tensor with_ends(const Tensor& x, int axis, std::int64_t count, PadMode mode, Location at) {
  if (count == 0) return x;
  std::vector<std::pair<int, int>> widths(as_index(x.rank()));
  widths[as_index(axis)] = {static_cast<int>(count), static_cast<int>(count)};
  return pad(In(x, at), std::span<const std::pair<int, int>>(widths), mode);
}

/// The axis resampled by taps at constant distances, whose weights are numbers. Without antialiasing taps beyond an end
/// see the last element there; with it they are left out, and the others weigh more. (Of two taps between which an
/// axis becomes longer that is the same.)
inline Tensor resampled_by_phases(const Tensor& x, const Resampled& axis, const Phases& phases,
                                  const InterpolateOptions& options, Location at) {
  const DType dtype = x.dtype() == DType::f64 ? DType::f64 : DType::f32;
  std::vector<Taps> taps;
  std::int64_t ends = 0;
  for (std::int64_t phase = 0; phase < phases.times; ++phase) {
    taps.push_back(taps_of(phases, phase, options));
    ends = std::max({ends, -taps.back().at.front(), taps.back().at.back() - (phases.stride - 1)});
  }
  const bool leaves_out = options.antialias && (phases.stride > 1 || options.mode != Interpolation::linear);
  const PadMode mode = leaves_out ? PadMode::constant : PadMode::replicate;
  const Tensor padded = with_ends(cast(In(x, at), dtype), axis.axis, ends, mode, at);
  Tensor present;
  if (leaves_out) present = with_ends(ones({axis.from}, {.dtype = dtype, .device = x.device()}, at), 0, ends, mode, at);
  std::vector<Tensor> parts;
  for (const Taps& each : taps) {
    Tensor mixed = mixed_by(each, padded, axis.axis, phases, ends, at);
    if (leaves_out)
      mixed = mixed * along_axis_of(1 / mixed_by(each, present, 0, phases, ends, at), mixed, axis.axis, at);
    parts.push_back(mixed);
  }
  if (parts.size() == 1) return cast(In(parts[0], at), x.dtype());
  Shape shape = x.shape();
  shape.set(axis.axis, axis.to);
  const Tensor joined = stack(std::span<const Tensor>(parts), axis.axis + 1, at);
  return cast(In(reshape(In(joined, at), shape), at), x.dtype());
}

/// The old element of each new one of an axis of known extents: source_places(), step for step, and limited.
template <class Real>
std::vector<std::int64_t> known_places(const Resampled& axis, Interpolation mode) {
  const std::int64_t from = axis.from.value(), to = axis.to.value();
  const Real per = axis.scale ? static_cast<Real>(1 / *axis.scale) : static_cast<Real>(from) / static_cast<Real>(to);
  const Real centre = mode == Interpolation::nearest_exact ? Real(0.5) : Real(0);
  std::vector<std::int64_t> places;
  for (std::int64_t i = 0; i < to; ++i) {
    const Real place = std::floor((static_cast<Real>(i) + centre) * per);
    places.push_back(static_cast<std::int64_t>(std::clamp(place, Real(0), static_cast<Real>(from - 1))));
  }
  return places;
}
/// Places at a constant distance are a slice; each element as often as every other one is a broadcast. Else nothing.
inline std::optional<Tensor> view_at(const Tensor& x, const Resampled& axis, const std::vector<std::int64_t>& places,
                                     Location at) {
  const std::int64_t count = std::ssize(places), from = axis.from.value(), first = places[0];
  const std::int64_t step = count > 1 ? places[1] - first : 1, times = count / from;
  const auto all_are = [&](auto place_of) {
    for (std::int64_t i = 0; i < count; ++i)
      if (places[as_index(i)] != place_of(i)) return false;
    return true;
  };
  if (step > 0 && all_are([&](std::int64_t i) { return first + i * step; })) {
    std::vector<Index> positions;
    for (int k = 0; k < axis.axis; ++k) positions.emplace_back(all, at);
    positions.emplace_back(Slice{Dim(first), Dim(places.back() + 1), step}, at);
    return index(In(x, at), positions);
  }
  if (times < 1 || count % from != 0 || !all_are([&](std::int64_t i) { return i / times; })) return {};
  Shape repeated, joined = x.shape();
  for (int i = 0; i < x.rank(); ++i) {
    repeated.push_back(x.shape()[i]);
    if (i == axis.axis) repeated.push_back(Dim(times));
  }
  joined.set(axis.axis, axis.to);
  return reshape(In(expand(In(unsqueeze(In(x, at), axis.axis + 1), at), repeated), at), joined);
}

/// On the CPU pixels between others are read by gathers of all axes together. Whole factors have a faster way, if not
/// there, then in the gradient, which scatters nothing.
inline bool is_linear_at_once(const Tensor& x, std::span<const Resampled> axes, const InterpolateOptions& options) {
  if (options.mode != Interpolation::linear || options.antialias || axes.size() < 2 || x.device() != Device::cpu())
    return false;
  if (axes.back().axis - axes.front().axis != static_cast<int>(axes.size()) - 1) return false;
  return std::all_of(axes.begin(), axes.end(), [&](const Resampled& axis) {
    const Phases phases = phases_of(axis, options.align);
    return phases.times == 0 || (phases.times > 1 && phases.stride > 1);
  });
}

/// On the CPU what known extents lead to is known now: views, or constant places.
inline Tensor nearest_along(Tensor x, std::span<const Resampled> axes, Interpolation mode, Location at) {
  constexpr std::int64_t most_known = 1 << 16;
  const DType dtype = x.dtype() == DType::f64 ? DType::f64 : DType::f32;
  std::vector<Gathered> gathered;
  for (const Resampled& axis : axes) {
    const bool is_known = axis.from.is_static() && axis.to.is_static() && axis.to.value() <= most_known;
    if (is_known && x.device() == Device::cpu()) {
      const std::vector<std::int64_t> places =
          dtype == DType::f64 ? known_places<double>(axis, mode) : known_places<float>(axis, mode);
      if (const std::optional<Tensor> view = view_at(x, axis, places, at)) x = *view;
      else gathered.push_back({axis, copy_of(places)});
    } else {
      const Tensor places = floor(source_places(axis, mode, Align::pixel_corners, dtype, x.device(), at));
      gathered.push_back({axis, clamp(cast(In(places, at), DType::i64), Scalar(0), Scalar(axis.from - Dim(1)))});
    }
  }
  const std::size_t count = gathered.size();
  const bool is_on_cpu = x.device() == Device::cpu();
  if (is_on_cpu && count > 1 && gathered.back().axis.axis - gathered[0].axis.axis == static_cast<int>(count) - 1)
    return gathered_at_once(x, gathered, at);
  for (const Gathered& each : gathered) x = take(In(x, at), In(each.places, at), each.axis.axis);
  return x;
}

inline Tensor resampled(const Tensor& x, const Resampled& axis, const InterpolateOptions& options, Location at) {
  const bool has_taps = options.mode == Interpolation::linear || options.mode == Interpolation::bicubic;
  if (const Phases phases = phases_of(axis, options.align); has_taps && phases.times > 0)
    return resampled_by_phases(x, axis, phases, options, at);
  if (options.antialias) return filtered_along(x, axis, options, at);
  switch (options.mode) {
    case Interpolation::nearest:
    case Interpolation::nearest_exact: break;  // all axes at once
    case Interpolation::linear: return linear_at_once(x, {&axis, 1}, options.align, at);
    case Interpolation::bicubic: return cubic_along(x, axis, options.align, at);
    case Interpolation::area: return adaptive_mean_along(x, axis.axis, axis.to, at);
  }
  __builtin_unreachable();
}

}  // namespace expr_detail

SINTER_DECL Tensor interpolate(const In& x, InterpolateOptions options) {
  constexpr std::string_view op = "interpolate";
  const Location at = x.where;
  Tensor value(x.tensor());
  const Shape shape = value.shape();
  const int axes = shape.rank() - 2;
  if (axes < 1 || axes > 3 || (options.mode == Interpolation::bicubic && axes != 2))
    throw ShapeError(op, "x is " + shape.text(), at,
                     options.mode == Interpolation::bicubic
                         ? "bicubic is for (batch, channels, height, width)"
                         : "x must be (batch, channels) and 1 to 3 axes; one picture "
                           "(height, width) gets them by unsqueeze(x, {0, 1})");
  const bool is_sized = options.size.rank() > 0;
  const std::size_t named = is_sized ? as_index(options.size.rank()) : options.scale.size();
  if (is_sized == !options.scale.empty() || (named != as_index(axes) && (is_sized || named != 1)))
    throw ShapeError(op,
                     "size is " + options.size.text() + ", " + std::to_string(options.scale.size()) +
                         " scales are given, x is " + shape.text(),
                     at, "give .size or .scale, one number for each axis after (batch, channels)");
  const bool is_weighted = options.mode == Interpolation::linear || options.mode == Interpolation::bicubic ||
                           options.mode == Interpolation::area;
  if (options.mode > Interpolation::area || (is_weighted && !is_floating(value.dtype())))
    throw DTypeError(op, "x is " + value.impl()->type.text() + ", it must be floating", at,
                     "cast it to a floating dtype first: cast(x, DType::f32)");
  if (options.antialias && options.mode != Interpolation::linear && options.mode != Interpolation::bicubic)
    throw UserError(op, "antialias is for linear and bicubic interpolation", at,
                    "area takes the mean of the pixels that are covered");
  std::vector<expr_detail::Resampled> changed;
  for (int i = 0; i < axes; ++i) {
    expr_detail::Resampled axis{2 + i, shape[2 + i], 0, {}};
    if (is_sized) {
      axis.to = options.size[i];
    } else {
      const double scale = options.scale[options.scale.size() == 1 ? 0 : as_index(i)];
      axis.scale = scale;
      axis.to = static_cast<std::int64_t>(std::floor(static_cast<double>(axis.from) * scale));
    }
    if (!expr_detail::is_at_most(1, axis.to) || !expr_detail::is_at_most(1, axis.from))
      throw ShapeError(
          op, "axis " + std::to_string(axis.axis) + " of " + shape.text() + " is to have extent " + axis.to.text(), at,
          "both must be at least 1");
    changed.push_back(axis);
  }
  if (options.mode == Interpolation::nearest || options.mode == Interpolation::nearest_exact)
    return expr_detail::nearest_along(value, changed, options.mode, at);
  // As in PyTorch a scale that changes no extent leaves the axis as it is, in this mode alone.
  if (options.mode == Interpolation::linear)
    std::erase_if(changed, [](const expr_detail::Resampled& axis) { return identical(axis.from, axis.to); });
  if (expr_detail::is_linear_at_once(value, changed, options))
    return expr_detail::linear_at_once(value, changed, options.align, at);
  for (const expr_detail::Resampled& axis : changed) value = expr_detail::resampled(value, axis, options, at);
  return value;
}

// ---- sampling at given places

namespace expr_detail {

/// Places between the pixels -0.5 and n - 0.5, or 0 and n - 1, seen in mirrors at both ends.
inline Tensor reflected(const Tensor& place, const Tensor& size, Align align) {
  const bool is_centred = align == Align::pixel_centres;
  const double low = is_centred ? 0 : -0.5;
  const Tensor span = is_centred ? Tensor(size - 1) : size;
  const Tensor distance = abs(place - low), period = maximum(span, 1.0) * 2;
  const Tensor within = distance - floor(distance / period) * period;
  const Tensor mirrored = minimum(within, period - within) + low;
  return where(span > 0, mirrored, 0.0);
}

/// A length as a number to compute places with.
inline Tensor length_of(Dim extent, const Tensor& like, Location at) {
  return cast(In(Scalar(extent), at), like.dtype());
}
/// Coordinates of -1 to 1 as places of pixels.
inline Tensor pixel_places(const Tensor& given, Dim extent, Align align, Location at) {
  const Tensor size = length_of(extent, given, at);
  if (align == Align::pixel_centres) return (given + 1) * (size - 1) * 0.5;
  return ((given + 1) * size - 1) * 0.5;
}
/// Places as the padding moves them.
inline Tensor padded_places(Tensor place, Dim extent, const GridSampleOptions& options, Location at) {
  const Tensor size = length_of(extent, place, at);
  if (options.padding == GridPadding::reflection) place = reflected(place, size, options.align);
  if (options.padding != GridPadding::zeros) place = clamp(place, 0.0, size - 1);
  return place;
}

/// The pixels at places, which are whole numbers, one tensor for each axis, of each image: (n, places, c), zeros
/// outside.
struct PixelReader {
  Tensor rows;  // (n, pixels, c)
  std::vector<Dim> extents;
  Location at;
  Tensor operator()(const std::vector<Tensor>& place) const {
    Tensor is_inside;
    for (std::size_t k = 0; k < place.size(); ++k) {
      const Tensor fits = (place[k] >= 0) & (place[k] <= Scalar(extents[k] - Dim(1)));
      is_inside = k == 0 ? fits : Tensor(is_inside & fits);
    }
    Tensor index;
    for (std::size_t k = 0; k < place.size(); ++k) {
      const Tensor whole = cast(In(Tensor(where(is_inside, place[k], 0.0)), at), DType::i64);
      index = k == 0 ? whole : Tensor(index * extents[k] + whole);
    }
    SharedAttrs shared;
    Attrs& attrs = shared.edit();
    attrs.axes.push_back(1);
    attrs.set(ops::Take::shared, 1);
    const Tensor found = record<ops::Take>({Leaf(rows.impl()), Leaf(index.impl())}, std::move(shared), at);
    return where(unsqueeze(In(is_inside, at), -1), found, 0.0, at);
  }
};

/// Between the pixels below and above along each axis. `chosen` are the places along the first axes.
inline Tensor linear_at(const PixelReader& pixels, const std::vector<Tensor>& places, std::vector<Tensor> chosen = {}) {
  const std::size_t axis = chosen.size();
  if (axis == places.size()) return pixels(chosen);
  const Tensor below = floor(places[axis]);
  const Tensor weight = unsqueeze(In(Tensor(places[axis] - below), pixels.at), -1);
  chosen.push_back(below);
  const Tensor low = linear_at(pixels, places, chosen);
  chosen.back() = below + 1;
  return low * (1 - weight) + linear_at(pixels, places, std::move(chosen)) * weight;
}

/// The pixels around a place along one axis, moved as the padding says, and their weights.
struct CubicTaps {
  Tensor places[4], weights[4];
};
inline CubicTaps cubic_taps(const Tensor& place, Dim extent, const GridSampleOptions& options, Location at) {
  const Tensor below = floor(place), t = place - below;
  const Tensor weights[] = {cubic_far(t + 1), cubic_near(t), cubic_near(1 - t), cubic_far(2 - t)};
  CubicTaps taps;
  for (int i = 0; i < 4; ++i) {
    taps.places[i] = padded_places(below + (i - 1), extent, options, at);
    taps.weights[i] = unsqueeze(In(weights[i], at), -1);
  }
  return taps;
}
inline Tensor cubic_at(const PixelReader& pixels, const std::vector<Tensor>& places, const GridSampleOptions& options) {
  const CubicTaps down = cubic_taps(places[0], pixels.extents[0], options, pixels.at),
                  right = cubic_taps(places[1], pixels.extents[1], options, pixels.at);
  Tensor total;
  for (int i = 0; i < 4; ++i) {
    Tensor row;
    for (int j = 0; j < 4; ++j) {
      const Tensor part = pixels({down.places[i], right.places[j]}) * right.weights[j];
      row = j == 0 ? part : Tensor(row + part);
    }
    total = i == 0 ? Tensor(row * down.weights[i]) : Tensor(total + row * down.weights[i]);
  }
  return total;
}

inline void check_grid(const Tensor& image, const Tensor& grid, const GridSampleOptions& options, Location at) {
  constexpr std::string_view op = "grid_sample";
  const Shape shape = image.shape(), places = grid.shape();
  const int axes = shape.rank() - 2;
  if ((axes != 2 && axes != 3) || places.rank() != axes + 2 || !(shape[0] == places[0]) || !(places[-1] == Dim(axes)))
    throw ShapeError(op, "x is " + shape.text() + ", grid is " + places.text(), at,
                     axes == 3 ? "x must be (n, c, d, h, w) and grid (n, d', h', w', 3)"
                               : "x must be (n, c, h, w) and grid (n, h', w', 2)");
  if (!is_floating(image.dtype()) || image.dtype() != grid.dtype())
    throw DTypeError(op, "x is " + image.impl()->type.text() + ", grid is " + grid.impl()->type.text(), at,
                     "both must have one floating dtype");
  const bool is_cubic = options.mode == Interpolation::bicubic;
  if (options.mode != Interpolation::linear && options.mode != Interpolation::nearest && !is_cubic)
    throw UserError(op, "the mode is neither linear, nearest nor bicubic", at);
  if (is_cubic && axes == 3)
    throw UserError(op, "the mode is bicubic, and x is " + shape.text(), at, "volumes are sampled linear or nearest");
}

}  // namespace expr_detail

SINTER_DECL Tensor grid_sample(const In& x, const In& grid, GridSampleOptions options) {
  const Location at = x.where;
  const Tensor image(x.tensor()), given(grid.tensor());
  expr_detail::check_grid(image, given, options, at);
  const Shape shape = image.shape(), places = given.shape();
  const int axes = shape.rank() - 2;
  Dim count = 1, pixels = 1;
  std::vector<int> channels_last{0}, channels_first{0, axes + 1};
  std::vector<Dim> extents;
  Shape result{shape[0]};
  for (int i = 0; i < axes; ++i) {
    count = count * places[1 + i];
    pixels = pixels * shape[2 + i];
    extents.push_back(shape[2 + i]);
    channels_last.push_back(2 + i);
    channels_first.push_back(1 + i);
    result.push_back(places[1 + i]);
  }
  channels_last.push_back(1);
  result.push_back(shape[1]);
  const Tensor flat = reshape(In(given, at), Shape{places[0], count, axes});
  const Tensor rows = reshape(In(permute(In(image, at), channels_last), at), Shape{shape[0], pixels, shape[1]});
  std::vector<Tensor> at_axis;  // coordinates come in the reverse order of the axes
  for (int i = 0; i < axes; ++i) {
    const Tensor coordinate = select(In(flat, at), -1, axes - 1 - i);
    const Tensor place = expr_detail::pixel_places(coordinate, shape[2 + i], options.align, at);
    const bool is_cubic = options.mode == Interpolation::bicubic;  // there the padding moves pixels, not the place
    Tensor moved = is_cubic ? place : expr_detail::padded_places(place, shape[2 + i], options, at);
    at_axis.push_back(options.mode == Interpolation::nearest ? Tensor(round(moved)) : moved);
  }
  const expr_detail::PixelReader reader{rows, extents, at};
  const Tensor value = options.mode == Interpolation::nearest  ? reader(at_axis)
                       : options.mode == Interpolation::linear ? expr_detail::linear_at(reader, at_axis)
                                                               : expr_detail::cubic_at(reader, at_axis, options);
  return permute(In(reshape(In(value, at), result), at), channels_first);
}

// ---- channels and pixels

namespace expr_detail {
/// x with the axes before the last three as one, and a check that `divided` is a multiple of `by`.
inline Tensor as_images(const Tensor& x, std::string_view op, Location at) {
  const Shape shape = x.shape();
  if (shape.rank() < 3) throw ShapeError(op, "x is " + shape.text(), at, "x must be (..., channels, height, width)");
  Dim batch = 1;
  for (int i = 0; i + 3 < shape.rank(); ++i) batch = batch * shape[i];
  return reshape(In(x, at), Shape{batch, shape[-3], shape[-2], shape[-1]});
}
inline void require_multiple(Dim extent, std::int64_t by, const Shape& shape, std::string_view op, Location at) {
  if (by >= 1 && extent % Dim(by) == Dim(0)) return;
  throw ShapeError(op, "x is " + shape.text() + ", and " + extent.text() + " is no multiple of " + std::to_string(by),
                   at);
}
inline Tensor with_last_three(const Tensor& x, const Shape& whole, Dim channels, Dim height, Dim width, Location at) {
  Shape shape = whole;
  shape.set(shape.rank() - 3, channels);
  shape.set(shape.rank() - 2, height);
  shape.set(shape.rank() - 1, width);
  return reshape(In(x, at), shape);
}
}  // namespace expr_detail

SINTER_DECL Tensor pixel_shuffle(const In& x, std::int64_t factor) {
  const Location at = x.where;
  const Tensor whole(x.tensor()), images = expr_detail::as_images(whole, "pixel_shuffle", at);
  const Shape shape = images.shape();
  expr_detail::require_multiple(shape[1], factor * factor, whole.shape(), "pixel_shuffle", at);
  const Dim r = factor, channels = shape[1] / (r * r);
  const Tensor parts = reshape(In(images, at), Shape{shape[0], channels, r, r, shape[2], shape[3]});
  return expr_detail::with_last_three(permute(In(parts, at), {0, 1, 4, 2, 5, 3}), whole.shape(), channels, shape[2] * r,
                                      shape[3] * r, at);
}
SINTER_DECL Tensor pixel_unshuffle(const In& x, std::int64_t factor) {
  const Location at = x.where;
  const Tensor whole(x.tensor()), images = expr_detail::as_images(whole, "pixel_unshuffle", at);
  const Shape shape = images.shape();
  expr_detail::require_multiple(shape[2], factor, whole.shape(), "pixel_unshuffle", at);
  expr_detail::require_multiple(shape[3], factor, whole.shape(), "pixel_unshuffle", at);
  const Dim r = factor, height = shape[2] / r, width = shape[3] / r;
  const Tensor parts = reshape(In(images, at), Shape{shape[0], shape[1], height, r, width, r});
  return expr_detail::with_last_three(permute(In(parts, at), {0, 1, 3, 5, 2, 4}), whole.shape(), shape[1] * r * r,
                                      height, width, at);
}
SINTER_DECL Tensor channel_shuffle(const In& x, std::int64_t groups) {
  const Location at = x.where;
  const Tensor whole(x.tensor());
  const Shape shape = whole.shape();
  if (shape.rank() < 2)
    throw ShapeError("channel_shuffle", "x is " + shape.text(), at, "x must be (batch, channels, ...)");
  expr_detail::require_multiple(shape[1], groups, shape, "channel_shuffle", at);
  Dim rest = 1;
  for (int i = 2; i < shape.rank(); ++i) rest = rest * shape[i];
  const Tensor dealt = reshape(In(whole, at), Shape{shape[0], groups, shape[1] / Dim(groups), rest});
  return reshape(In(transpose(In(dealt, at), 1, 2), at), shape);
}

SINTER_NAMESPACE_END
