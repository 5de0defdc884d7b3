// Along an axis, element h lies in the windows at h / stride - t, as element h % stride + t * stride of each, for t
// from 0 on (a tap), as far as there is such a window and it is as long. The last axis is summed up first.
#pragma once

#include <sinter/base/index.hpp>
#include <sinter/ops/bits.hpp>
#include <sinter/ops/leaf.hpp>
#include <sinter/ops/take.hpp>
#include <sinter/ops/view.hpp>
#include <sinter/ops/window_taps.hpp>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <utility>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace ops_detail {

class WindowTaps {
 public:
  WindowTaps(Val x, Shape target, const Shape& low, const IntVector& axes, const IntVector& sizes,
             const IntVector& strides)
      : x_(x), target_(std::move(target)), first_(axes.empty() ? 0 : static_cast<int>(axes[0])) {
    is_open_ = !axes.empty();
    for (int i = 0; i < target_.rank(); ++i) {
      const bool has_windows = i >= first_ && i < first_ + static_cast<int>(axes.size());
      is_open_ = is_open_ && (has_windows || identical(x.shape()[i], target_[i]));
    }
    for (std::size_t i = 0; i < axes.size(); ++i) {
      const int axis = first_ + static_cast<int>(i);
      const Dim before = low.rank() > 0 ? low[axis] : Dim(0);
      is_open_ = is_open_ && axes[i] == axis && target_[axis].is_static() && x.shape()[axis].is_static() &&
                 before.is_static() && before.value() >= 0;
      if (!is_open_) return;
      axes_.push_back({target_[axis].value(), before.value(), x.shape()[axis].value(), sizes[i], strides[i], {}, {}});
    }
  }

  Val run() {
    if (!is_open_ || !is_worth_it()) return {};
    for (std::size_t i = 0; i < axes_.size(); ++i) find_windows(i);
    taps_.resize(axes_.size());
    return sum_along(0);
  }

 private:
  struct Axis {
    std::int64_t extent, low, windows, size, stride;
    Val window, place;  // of the first tap, i32, for each element of the target
    std::int64_t taps() const { return (size + stride - 1) / stride; }
    std::int64_t last_window() const { return (low + extent - 1) / stride; }  // of the first tap
  };
  /// A value by what it was in x.
  struct Read {
    Value of;
    Val made;
  };

  bool is_worth_it() const {
    constexpr std::int64_t most_taps = 16, most_elements = std::int64_t{1} << 30;
    std::int64_t taps = 1, elements = 1;
    bool overlaps = false;
    for (const Axis& a : axes_) {
      if (a.taps() > most_taps || a.low + a.extent >= most_elements || a.windows == 0) return false;
      taps *= a.taps();
      elements *= std::max<std::int64_t>({a.extent, a.windows, 1});
      overlaps |= a.size > a.stride;
      if (elements >= most_elements || taps > most_taps) return false;
    }
    return overlaps;
  }

  /// Of each element by itself, so that one kernel computes everything.
  void find_windows(std::size_t i) {
    Axis& a = axes_[i];
    const Val inside = iota(x_, target_, first_ + static_cast<int>(i), DType::i32),
              element = a.low == 0 ? inside : inside + integer_number(inside, a.low);
    if (std::has_single_bit(static_cast<std::uint64_t>(a.stride))) {
      const int bits = std::countr_zero(static_cast<std::uint64_t>(a.stride));
      a.window = bits == 0 ? element : apply(op_info<ops::RightShift>, {element, integer_number(element, bits)});
    } else {
      a.window = floor_divide(element, integer_number(element, a.stride));
    }
    a.place = element - a.window * integer_number(element, a.stride);
  }

  /// In halves, the window that comes first at the front, as an axis of so many elements is summed up.
  Val sum_along(std::size_t i) {
    if (i == axes_.size()) return tap();
    std::vector<Val> sums;
    for (std::int64_t t = axes_[i].taps(); t-- > 0;) {
      taps_[i] = t;
      sums.push_back(sum_along(i + 1));
      if (!sums.back()) return {};
    }
    for (std::size_t half = std::bit_ceil(sums.size()) / 2; half > 0; half /= 2)
      for (std::size_t k = 0; k < half && k + half < sums.size(); ++k) sums[k] = sums[k] + sums[k + half];
    return sums[0];
  }
  Val window(std::size_t i) const { return axes_[i].window - integer_number(axes_[i].window, taps_[i]); }
  Val place(std::size_t i) const { return axes_[i].place + integer_number(axes_[i].place, taps_[i] * axes_[i].stride); }

  /// What the windows of this tap have for each element of the target, 0 where there are none.
  Val tap() {
    read_.clear();
    Val is_there, windows;
    for (std::size_t i = 0; i < axes_.size(); ++i) {
      const Axis& a = axes_[i];
      const Val at = window(i);
      std::vector<Val> conditions;
      if (a.last_window() - taps_[i] >= a.windows) conditions.push_back(lt(at, static_cast<double>(a.windows)));
      if (taps_[i] > 0) conditions.push_back(ge(at, 0));
      if ((taps_[i] + 1) * a.stride > a.size) conditions.push_back(lt(place(i), static_cast<double>(a.size)));
      for (const Val& condition : conditions) is_there = is_there ? logical_and(is_there, condition) : condition;
      windows = windows ? windows * integer_number(at, a.windows) + at : at;
    }
    windows_ = is_there ? where(is_there, windows, integer_number(windows, 0)) : windows;
    const Val value = read(x_);
    if (!value) return {};
    return expand(is_there ? where(is_there, value, 0) : value, target_);
  }

  /// Is it the same for all elements of a window? (Of what has fewer axes these are the last ones.)
  bool is_one_per_window(const Shape& shape) const {
    for (int i = 1; i <= static_cast<int>(axes_.size()) && i <= shape.rank(); ++i)
      if (!(shape[-i].is_static() && shape[-i].value() == 1)) return false;
    return true;
  }
  /// What `x`, which is x_ or something that it is made of, has at the windows and places of the tap.
  Val read(Val x) {
    for (const Read& done : read_)
      if (done.of == x.value) return done.made;
    const Val made = made_of(x);
    read_.push_back({x.value, made});
    return made;
  }
  static const OpInfo* op_of(Val x) { return x.builder->node(x.value).op; }
  /// The one number that all of x is, if there is one.
  static Val number_of(Val x) {
    while (x.rank() > 0 && (op_of(x) == &op_info<ops::Expand> || op_of(x) == &op_info<ops::Reshape>))
      x.value = x.builder->node(x.value).inputs[0];
    if (x.rank() == 0) return x;
    if (op_of(x) != &op_info<ops::Full>) return {};
    Attrs attrs = x.builder->node(x.value).attrs;
    attrs.shape = {};
    return Val{x.builder, x.builder->add(op_info<ops::Full>, {}, std::move(attrs), x.where), x.where};
  }
  Val made_of(Val x) {
    if (const Val number = number_of(x)) return number;
    if (is_one_per_window(x.shape())) return taken(x);
    const OpInfo* const op = op_of(x);
    const Attrs attrs = x.builder->node(x.value).attrs;  // adding a node moves the nodes
    if (op == &op_info<ops::Iota>) return place_along(x, attrs);
    std::vector<Val> operands;
    for (const Value input : x.builder->node(x.value).inputs) operands.push_back({x.builder, input, x.where});
    if (op == &op_info<ops::Expand>) return is_one_per_window(operands[0].shape()) ? read(operands[0]) : Val{};
    if (op->kind != OpKind::elementwise) return {};
    for (Val& operand : operands) {
      operand = read(operand);
      if (!operand) return {};
    }
    return apply(*op, operands, attrs);
  }
  Val place_along(Val x, const Attrs& attrs) const {
    const int axis = static_cast<int>(attrs.axes[0]) - x.rank() + static_cast<int>(axes_.size());
    return axis < 0 ? Val{} : cast(place(as_index(axis)), x.dtype());
  }
  /// Of one value for each window, those of the tap's windows.
  Val taken(Val x) {
    const int axes = static_cast<int>(axes_.size());
    if (x.rank() != target_.rank() + axes) return {};
    for (int i = 0; i < target_.rank(); ++i)  // Take shares these axes: they must be whole
      if ((i < first_ || i >= first_ + axes) && !identical(x.shape()[i], target_[i])) return {};
    Shape flat;
    for (int i = 0; i < first_; ++i) flat.push_back(x.shape()[i]);
    std::int64_t windows = 1;
    for (int i = 0; i < axes; ++i) {
      const std::int64_t own = axes_[as_index(i)].windows;
      if (!identical(x.shape()[first_ + i], Dim(own))) return {};
      windows *= own;
    }
    flat.push_back(windows);
    for (int i = first_ + axes; i < target_.rank(); ++i) flat.push_back(x.shape()[i]);
    Attrs attrs{.axes = {first_}};
    attrs.set(ops::Take::shared, first_);
    attrs.set(ops::Take::inner, target_.rank() - first_ - axes);
    attrs.set(ops::Take::in_range, true);
    return apply(op_info<ops::Take>, {reshape(x, flat), windows_}, std::move(attrs));
  }

  Val x_;
  Shape target_;
  const int first_;  // axis of the target along which there are windows
  bool is_open_ = false;
  std::vector<Axis> axes_;
  std::vector<std::int64_t> taps_;
  Val windows_;  // of the tap, numbered through the axes
  std::vector<Read> read_;
};

SINTER_DECL Val sum_of_taps(Val x, const Shape& target, const Shape& low, const IntVector& axes, const IntVector& sizes,
                            const IntVector& strides) {
  return WindowTaps(x, target, low, axes, sizes, strides).run();
}

}  // namespace ops_detail
SINTER_NAMESPACE_END
