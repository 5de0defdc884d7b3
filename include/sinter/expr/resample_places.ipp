// Places are computed in the dtype of the weights; a corner of a cell is a gather.
#pragma once

#include <sinter/expr/resample_places.hpp>

#include <sinter/base/index.hpp>
#include <sinter/base/small_vector.hpp>
#include <sinter/expr/recording.hpp>
#include <sinter/expr/shapes.hpp>

#include <utility>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace expr_detail {

SINTER_DECL Tensor source_places(const Resampled& axis, Interpolation mode, Align align, DType dtype, Device device,
                                 Location at) {
  const Tensor position = arange(axis.to, {.dtype = dtype, .device = device}, at);
  auto number = [&](Dim dim) { return Tensor(cast(In(Scalar(dim), at), dtype)); };
  if (align == Align::pixel_centres) {
    if (is_at_most(axis.to, 1)) return position * 0.0;
    return position * Tensor((number(axis.from) - 1.0) / (number(axis.to) - 1.0));
  }
  const Tensor per = axis.scale ? Tensor(full({}, 1 / *axis.scale, {.dtype = dtype, .device = Device::cpu()}, at))
                                : Tensor(number(axis.from) / number(axis.to));
  if (mode == Interpolation::nearest) return position * per;
  return (position + 0.5) * per - (mode == Interpolation::nearest_exact ? 0.0 : 0.5);
}

SINTER_DECL Tensor along_axis_of(const Tensor& weights, const Tensor& x, int axis, Location at) {
  Shape column;
  for (int i = axis; i < x.rank(); ++i) column.push_back(i == axis ? weights.shape()[0] : Dim(1));
  return reshape(cast(In(weights, at), resampled_in(x)), column);
}

SINTER_DECL Tensor gathered_at_once(const Tensor& x, std::span<const Gathered> axes, Location at) {
  const int first = axes[0].axis.axis, count = static_cast<int>(axes.size());
  Tensor place;
  Dim joined = 1;
  for (int i = count; i-- > 0; joined = joined * axes[as_index(i)].axis.from) {
    Shape column;
    for (int k = i; k < count; ++k) column.push_back(k == i ? axes[as_index(i)].axis.to : Dim(1));
    const Tensor along = reshape(In(axes[as_index(i)].places, at), column);
    place = i == count - 1 ? along : Tensor(along * Scalar(joined) + place);
  }
  Shape flat;
  for (int i = 0; i < x.rank(); ++i) {
    if (i <= first || i >= first + count) flat.push_back(i == first ? joined : x.shape()[i]);
  }
  return take(In(reshape(In(x, at), flat), at), In(place, at), first);
}

/// What lies between two neighbours along each axis: their places, and the weight of the upper one.
struct Cells {
  Gathered below, above;
  Tensor weight;
};
inline Cells cells_of(const Tensor& x, const Resampled& axis, Align align, Location at) {
  const DType dtype = resampled_in(x);
  const Tensor given = source_places(axis, Interpolation::linear, align, dtype, x.device(), at);
  const Tensor place = maximum(given, 0.0), below = floor(place);
  const auto inside = [&](const Tensor& places) {
    return clamp(cast(In(places, at), DType::i64), Scalar(0), Scalar(axis.from - Dim(1)));
  };
  return {{axis, inside(below)}, {axis, inside(below + 1)}, along_axis_of(place - below, x, axis.axis, at)};
}

SINTER_DECL Tensor linear_at_once(const Tensor& x, std::span<const Resampled> axes, Align align, Location at) {
  std::vector<Cells> cells;
  for (const Resampled& axis : axes) cells.push_back(cells_of(x, axis, align, at));
  const std::size_t count = cells.size();
  std::vector<Tensor> corners;  // bit k of the number: above along axis k
  for (std::size_t corner = 0; corner < std::size_t{1} << count; ++corner) {
    std::vector<Gathered> places;
    for (std::size_t k = 0; k < count; ++k) places.push_back((corner >> k & 1) != 0 ? cells[k].above : cells[k].below);
    corners.push_back(cast(In(gathered_at_once(x, places, at), at), resampled_in(x)));
  }
  for (const Cells& cell : cells) {
    for (std::size_t i = 0; i + 1 < corners.size(); i += 2)
      corners[i / 2] = corners[i] * (1 - cell.weight) + corners[i + 1] * cell.weight;
    corners.resize(corners.size() / 2);
  }
  return cast(In(corners[0], at), x.dtype());
}

}  // namespace expr_detail
SINTER_NAMESPACE_END
