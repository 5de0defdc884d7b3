// Padding by rules other than a value, and rolls along several axes: parts of a tensor joined along one axis after the
// other. A part that is read by elementwise operations alone is never stored.
#pragma once

#include <sinter/expr/padding.hpp>

#include <sinter/base/index.hpp>
#include <sinter/expr/functions.hpp>
#include <sinter/expr/layers.hpp>
#include <sinter/expr/recording.hpp>

#include <string>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace expr_detail {

inline constexpr int longest_mirror_of_slices = 4;  // elements; more are gathered

inline Tensor piece_of(const Tensor& x, int axis, Dim start, Dim end, Location where) {
  std::vector<Index> positions(as_index(axis) + 1, Index(all));
  positions.back() = Index(Slice{start, end, 1});
  return index(In(x, where), positions);
}

/// Elements start, start + 1, ... of an axis, the last one first.
inline void add_mirrored(std::vector<Tensor>& parts, const Tensor& x, int axis, Dim start, int count, Location where) {
  if (count <= longest_mirror_of_slices) {
    for (int i = count; i-- > 0;) parts.push_back(piece_of(x, axis, start + Dim(i), start + Dim(i + 1), where));
    return;
  }
  std::vector<std::int64_t> backwards;
  for (int i = count; i-- > 0;) backwards.push_back(i);
  const Tensor order = to_device(In(copy_of(backwards), where), x.device());
  parts.push_back(take(In(piece_of(x, axis, start, start + Dim(count), where), where), In(order, where), axis));
}

inline Tensor repeated(const Tensor& element, int axis, int count, Location where) {
  Shape shape = element.shape();
  shape.set(axis, count);
  return count == 1 ? element : expand(In(element, where), shape);
}

inline void require_extent(const Tensor& x, int axis, int least, std::string_view rule, Location where) {
  const Dim extent = x.shape()[axis];
  if (is_at_most(least, extent)) return;
  throw ShapeError("pad",
                   std::string(rule) + " padding needs at least " + std::to_string(least) + " elements along axis " +
                       std::to_string(axis) + " of " + x.shape().text(),
                   where);
}

inline Tensor pad_axis(const Tensor& x, int axis, int low, int high, PadMode mode, Location where) {
  const Dim extent = x.shape()[axis];
  std::vector<Tensor> parts;
  switch (mode) {
    case PadMode::constant: break;
    case PadMode::reflect:
      require_extent(x, axis, std::max(low, high) + 1, "reflect", where);
      add_mirrored(parts, x, axis, 1, low, where);
      parts.push_back(x);
      add_mirrored(parts, x, axis, extent - Dim(high + 1), high, where);
      break;
    case PadMode::replicate:
      require_extent(x, axis, 1, "replicate", where);
      if (low > 0) parts.push_back(repeated(piece_of(x, axis, 0, 1, where), axis, low, where));
      parts.push_back(x);
      if (high > 0) parts.push_back(repeated(piece_of(x, axis, extent - Dim(1), extent, where), axis, high, where));
      break;
    case PadMode::circular:
      require_extent(x, axis, std::max(low, high), "circular", where);
      if (low > 0) parts.push_back(piece_of(x, axis, extent - Dim(low), extent, where));
      parts.push_back(x);
      if (high > 0) parts.push_back(piece_of(x, axis, 0, high, where));
      break;
  }
  return concat(parts, axis, where);
}

/// What negative widths cut off.
inline Tensor cropped(Tensor x, std::span<const std::pair<int, int>> widths, Location where) {
  for (std::size_t i = 0; i < widths.size(); ++i) {
    const int axis = static_cast<int>(i);
    const Dim before = std::max(-widths[i].first, 0), after = std::max(-widths[i].second, 0);
    if (before.value() == 0 && after.value() == 0) continue;
    const Dim extent = x.shape()[axis];
    if (!is_at_most(before + after, extent))
      throw ShapeError("pad",
                       "widths {" + std::to_string(widths[i].first) + ", " + std::to_string(widths[i].second) +
                           "} cut more than there is off axis " + std::to_string(axis) + " of " + x.shape().text(),
                       where);
    x = piece_of(x, axis, before, extent - after, where);
  }
  return x;
}

inline void require_widths(const Tensor& x, std::size_t widths, Location where) {
  if (static_cast<int>(widths) != x.rank())
    throw ShapeError("pad", std::to_string(widths) + " widths for shape " + x.shape().text(), where,
                     "give one {low, high} per axis");
}

}  // namespace expr_detail

SINTER_DECL Tensor pad(const In& x, std::initializer_list<std::pair<int, int>> widths, double value) {
  return pad(x, std::span<const std::pair<int, int>>(widths.begin(), widths.size()), value);
}
SINTER_DECL Tensor pad(const In& x, std::span<const std::pair<int, int>> widths, double value) {
  Tensor input(x.tensor());
  expr_detail::require_widths(input, widths.size(), x.where);
  input = expr_detail::cropped(input, widths, x.where);
  Shape below, above;
  for (auto [low, high] : widths) {
    below.push_back(std::max(low, 0));
    above.push_back(std::max(high, 0));
  }
  Attrs element;
  expr_detail::fill_with(element, Scalar(value), input.dtype(), "pad", x.where);
  Attrs attrs{.value = input.dtype() == DType::bool_ ? static_cast<double>(element.integer)
                       : is_f8(input.dtype())        ? element.value
                                                     : value};
  attrs.set(ops::Pad::low, below);
  attrs.set(ops::Pad::high, above);
  return expr_detail::record<ops::Pad>({Leaf(input.impl())}, std::move(attrs), x.where);
}
SINTER_DECL std::vector<std::pair<int, int>> expr_detail::equal_widths(const In& x, int width) {
  return std::vector<std::pair<int, int>>(as_index(x.tensor()->type.shape.rank()), {width, width});
}
SINTER_DECL Tensor expr_detail::padded(const In& x, std::span<const std::pair<int, int>> widths, PadMode mode) {
  if (mode == PadMode::constant) return pad(x, widths, 0.0);
  Tensor padded(x.tensor());
  expr_detail::require_widths(padded, widths.size(), x.where);
  padded = expr_detail::cropped(padded, widths, x.where);
  for (std::size_t i = 0; i < widths.size(); ++i) {
    const int low = std::max(widths[i].first, 0), high = std::max(widths[i].second, 0);
    if (low > 0 || high > 0) padded = expr_detail::pad_axis(padded, static_cast<int>(i), low, high, mode, x.where);
  }
  return padded;
}

SINTER_DECL Tensor roll(const In& x, std::span<const std::int64_t> shifts, std::span<const int> axes) {
  if (shifts.size() != axes.size())
    throw ShapeError("roll", std::to_string(shifts.size()) + " shifts for " + std::to_string(axes.size()) + " axes",
                     x.where, "give one shift per axis");
  Tensor rolled(x.tensor());
  for (std::size_t i = 0; i < axes.size(); ++i) rolled = roll(In(rolled, x.where), shifts[i], axes[i]);
  return rolled;
}
SINTER_DECL Tensor roll(const In& x, std::initializer_list<std::int64_t> shifts, std::initializer_list<int> axes) {
  return roll(x, std::span<const std::int64_t>(shifts.begin(), shifts.size()),
              std::span<const int>(axes.begin(), axes.size()));
}

SINTER_DECL Tensor roll(const In& x, std::int64_t shift, int axis) {
  Tensor whole(x.tensor());
  axis = normalise_axis(axis, whole.rank(), "roll", x.where);
  Dim extent = whole.shape()[axis];
  if (extent.is_static())
    shift = extent.value() == 0 ? 0 : ((shift % extent.value()) + extent.value()) % extent.value();
  if (shift == 0) return whole;
  if (extent.as_symbol() < 0 && !extent.is_static() && extent == Dim(0))
    return whole;  // asked for: a symbol alone is never 0
  const bool is_within = expr_detail::is_at_most(shift > 0 ? shift : -shift, extent);
  Dim cut = !is_within ? Dim(-shift) % extent : shift > 0 ? extent - Dim(shift) : Dim(-shift);
  std::vector<Index> head(as_index(axis) + 1, Index(all)), tail = head;
  head.back() = Index(Slice{0, cut, 1});
  tail.back() = Index(Slice{cut, extent, 1});
  return concat({index(In(whole, x.where), tail), index(In(whole, x.where), head)}, axis, x.where);
}

SINTER_NAMESPACE_END
