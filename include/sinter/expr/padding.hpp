// What stands beyond the ends of a tensor: padding by a value or by a rule, and rolls.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/expr/handles.hpp>

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <utility>
#include <vector>

SINTER_NAMESPACE_BEGIN

/// What stands beyond the ends of an axis: a value; the elements next to the end, mirrored at the last one, which is
/// not repeated; the last one over and over; those of the other end.
enum class PadMode : std::uint8_t { constant, reflect, replicate, circular };
namespace expr_detail {
Tensor padded(const In& x, std::span<const std::pair<int, int>> widths, PadMode mode);
/// {width, width} for each axis of x.
std::vector<std::pair<int, int>> equal_widths(const In& x, int width);
}  // namespace expr_detail
/// Padding per axis {low, high}. Negative widths cut off; that comes first.
Tensor pad(const In& x, std::initializer_list<std::pair<int, int>> widths, double value = 0);
Tensor pad(const In& x, std::span<const std::pair<int, int>> widths, double value = 0);
template <std::same_as<PadMode> M>
Tensor pad(const In& x, std::span<const std::pair<int, int>> widths, M mode) {
  return expr_detail::padded(x, widths, mode);
}
template <std::same_as<PadMode> M>
Tensor pad(const In& x, std::initializer_list<std::pair<int, int>> widths, M mode) {
  return expr_detail::padded(x, {widths.begin(), widths.size()}, mode);
}
/// As many on both sides of every axis: pad(x, 1).
template <std::same_as<int> W>
Tensor pad(const In& x, W width, double value = 0) {
  const auto widths = expr_detail::equal_widths(x, width);
  return pad(x, std::span<const std::pair<int, int>>(widths), value);
}
template <std::same_as<int> W, std::same_as<PadMode> M>
Tensor pad(const In& x, W width, M mode) {
  const auto widths = expr_detail::equal_widths(x, width);
  return expr_detail::padded(x, widths, mode);
}
Tensor roll(const In& x, std::int64_t shift, int axis);
/// One shift per axis.
Tensor roll(const In& x, std::initializer_list<std::int64_t> shifts, std::initializer_list<int> axes);
Tensor roll(const In& x, std::span<const std::int64_t> shifts, std::span<const int> axes);

SINTER_NAMESPACE_END
