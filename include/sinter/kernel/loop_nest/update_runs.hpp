// The loops around an update, as the interpreter of loop nests runs them: which points come in which order, and which
// of them are for a place. Knows nests of scatters; no values but indices.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/index.hpp>
#include <sinter/kernel/facts.hpp>
#include <sinter/kernel/loop_nest/cells.hpp>
#include <sinter/kernel/loop_nest/lane_folds.hpp>
#include <sinter/kernel/loop_nest/loop_nest.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace kernel_detail {

class UpdateRuns {
 public:
  using Point = std::array<std::int64_t, max_axes>;

  UpdateRuns(const LoopNest& nest, const BoundGeometry& geometry) : nest_(nest), extent_(geometry.extent) {
    const Kernel& kernel = *nest.kernel;
    if (kernel.kind != KernelKind::scatter) return;
    places_ = geometry.accesses[kernel.stores[0].access].gather_extent;
    if (nest.calls.empty()) return;
    positions_ = nest.calls[0].k;
    outside_ = static_cast<AxisMask>(facts_of(kernel).values[kernel.stores[0].index].axes & ~positions_);
    lists_.resize(as_index(points(outside_) * places_));
  }

  /// Does the update take place here, where `index` says where to?
  bool takes(std::int64_t index) const { return place_ < 0 || from_list_ || index == place_; }
  std::int64_t place() const { return place_; }
  bool is_from_list() const { return from_list_; }
  /// Puts the point into the list of its place.
  void list(std::int64_t index, const Point& at) {
    if (!nest_.calls.empty()) list_of(index, at).push_back(position(positions_, at));
  }

  /// Calls run() with each of a loop's points in `at`. What the grid shares out comes backwards, as it may.
  template <class Run>
  void loop(const Loop& l, Point& at, Run&& run) {
    if (is_over_places(l)) return in_places(l, at, run);
    if (l.range == LoopRange::listed) return in_list(at, run);
    const bool is_grid = l.mode == LoopMode::grid, is_over = l.range == LoopRange::blocks;
    const std::int64_t outer = block_, count = points(l.axes), step = is_over ? l.step : 1,
                       begin = l.range == LoopRange::block ? outer : 0,
                       end = l.range == LoopRange::block ? std::min(count, begin + l.lanes * l.copies) : count;
    for (std::int64_t i = 0, steps = (end - begin + step - 1) / step; i < steps; ++i) {
      const std::int64_t point = begin + (is_grid ? steps - 1 - i : i) * step;
      if (is_over) block_ = point;
      else decode(l.axes, point, at);
      run();
    }
    if (!is_over) decode(l.axes, 0, at);
    block_ = outer;
  }

 private:
  std::int64_t points(AxisMask axes) const {
    std::int64_t count = 1;
    for (int a = 0; a < max_axes; ++a)
      if ((axes >> a & 1) != 0) count *= extent_[as_index(a)];
    return count;
  }
  std::int64_t position(AxisMask axes, const Point& at) const {
    std::int64_t position = 0;
    for (int a = 0; a < max_axes; ++a)
      if ((axes >> a & 1) != 0) position = position * extent_[as_index(a)] + at[as_index(a)];
    return position;
  }
  void decode(AxisMask axes, std::int64_t position, Point& at) const {
    for (int a = max_axes - 1; a >= 0; --a) {
      if ((axes >> a & 1) == 0) continue;
      at[as_index(a)] = position % extent_[as_index(a)];
      position /= extent_[as_index(a)];
    }
  }
  std::vector<std::int64_t>& list_of(std::int64_t place, const Point& at) {
    return lists_[as_index(position(outside_, at) * places_ + place)];
  }

  template <class Run>
  void in_places(const Loop& l, Point& at, Run&& run) {
    for (place_ = places_ - 1; place_ >= 0; --place_) {
      const bool is_short =
          l.range != LoopRange::places && list_of(place_, at).size() <= static_cast<std::size_t>(l.step);
      if (l.range == LoopRange::places || is_short == (l.range == LoopRange::short_places)) run();
    }
  }
  template <class Run>
  void in_list(Point& at, Run&& run) {
    std::vector<std::int64_t>& list = list_of(place_, at);
    std::sort(list.begin(), list.end());
    from_list_ = true;
    for (const std::int64_t position : list) {
      decode(positions_, position, at);
      run();
    }
    from_list_ = false;
    decode(positions_, 0, at);
  }

  const LoopNest& nest_;
  const Point extent_;
  AxisMask positions_ = 0, outside_ = 0;  // axes along which updates of a place lie, and what lies around the index
  std::int64_t places_ = 0, place_ = -1, block_ = 0;
  bool from_list_ = false;
  std::vector<std::vector<std::int64_t>> lists_;  // of each point outside and place
};

/// What an update leaves: `value` combined with `old`, both cells of the dtype that is computed in.
template <bool is_wide>
void combine_cells(Combine combine, DType in_memory, void* old, const void* value) {
  visit_computed(computed_in(in_memory), [&](auto tag) {
    using Cell = CellOf<decltype(tag), is_wide>;
    Cell& a = *static_cast<Cell*>(old);
    const Cell b = *static_cast<const Cell*>(value);
    const bool is_extreme = combine == Combine::min || combine == Combine::max;
    if (in_memory == DType::u64 && is_extreme) {  // the bits of i64 that are computed with
      const bool is_less = static_cast<std::uint64_t>(b) < static_cast<std::uint64_t>(a);
      if (is_less == (combine == Combine::min)) a = b;
      return;
    }
    switch (combine) {
      case Combine::none: a = b; return;
      case Combine::add: a = combined(Prim::reduce_add, a, b); return;
      case Combine::mul: a = combined(Prim::reduce_mul, a, b); return;
      case Combine::min: a = combined(Prim::reduce_min, a, b); return;
      case Combine::max: a = combined(Prim::reduce_max, a, b); return;
    }
  });
}

}  // namespace kernel_detail
SINTER_NAMESPACE_END
