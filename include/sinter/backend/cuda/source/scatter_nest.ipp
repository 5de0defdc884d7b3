// Five methods. Atomics: a thread for each value, where the combiner is exact (sums and extrema of integers). By
// places: a warp owns one place of the gathered axis and 128 elements of what lies inside it, looks through all
// indices, and takes in what is meant for it. By lists: points are first collected for each place, and a warp takes in
// those of its own, the first point first; where a place is one element and lists are short on average, a thread does
// so for a short list, and a warp of a launch after it for a long one. Sorted: points are sorted by their places, and a
// thread takes in a short list, a warp a long one; where a place is one element values are, with many places into bins
// of neighbouring ones, a block for each. In order: a thread owns one point of the axes along which places differ and
// goes through all others, changing memory. The last four are chosen by an estimate of their time, and combine in the
// same order.
#pragma once

#include <sinter/backend/cuda/source/scatter_nest.hpp>

#include <sinter/base/context.hpp>
#include <sinter/base/index.hpp>
#include <sinter/kernel/loop_nest/verify.hpp>
#include <sinter/kernel/loop_nest/writer.hpp>

#include <algorithm>
#include <initializer_list>
#include <limits>
#include <utility>

SINTER_NAMESPACE_BEGIN
namespace cuda_source_detail {

SINTER_DECL ScatterAxes::ScatterAxes(const BoundKernel& bound) {
  const Store& store = bound.kernel.stores[0];
  for (int a : bound.parallel) {
    const bool is_free = bound.stride_class(store.access, a) != StrideClass::zero;
    (!is_free ? colliding : bound.varies(store.index, a) ? free_indexed : free).push_back(a);
    if (is_free) all_free.push_back(a);
    if (bound.varies(store.index, a)) indexed.push_back(a);
  }
  extent = bound.geometry.accesses[store.access].gather_extent;
  places = bound.points(free_indexed) * extent;
  positions = bound.points(free_indexed) * bound.points(colliding);
  inner = bound.points(free);
}

class ScatterNestBuilder : private kernel_detail::NestWriter {
 public:
  explicit ScatterNestBuilder(const BoundKernel& bound)
      : NestWriter(bound.kernel), b_(bound), store_(bound.kernel.stores[0]), axes_(bound) {
    nest_.is_on_gpu = true;
    nest_.places.resize(bound.kernel.body.size(), {NestLevel::outer, false});
  }

  LoopNest run() {
    const std::size_t variant = open_variant(VariantKind::whole);
    if (is_atomic()) {
      build_check();
      build_atomic();
    } else if (can_sort() && sorted() < std::min({by_places(), by_lists(), in_order()})) {
      build_sorted();
    } else if (axes_.list_bytes() <= most_list_bytes && by_lists() < std::min(by_places(), in_order())) {
      build_by_lists();
    } else {
      build_check();
      if (by_places() <= in_order()) build_places({.range = LoopRange::places, .lanes = 32}, LoopRange::whole);
      else build_in_order();
    }
    close(variant);
    if (SINTER_UNLIKELY(Context::get().checks)) verify(nest_);
    return std::move(nest_);
  }

 private:
  static constexpr std::int64_t most_list_bytes = std::int64_t{1} << 30;
  static constexpr double look = 2.5e-7;  // of a warp that waits for 32 indices

  // ---- choices

  double number(const AxisList& axes) const { return static_cast<double>(b_.points(axes)); }
  bool is_atomic() const {
    const DType dtype = b_.inst(store_.value).dtype, in_memory = b_.dtype_of(store_.access);
    const bool has_atomic = store_.combine != Combine::none && store_.combine != Combine::mul,
               is_whole = in_memory == dtype && (dtype == DType::i32 || dtype == DType::i64);
    return has_atomic && (is_whole || in_memory == DType::u64);
  }
  /// Is what lies at a place one element, and are lists short on average?
  bool has_short_lists() const { return axes_.inner == 1 && b_.points(axes_.colliding) <= 4 * axes_.extent; }
  /// Infinite where more blocks would lie side by side than a grid has in y.
  double warps_of_place() const {
    constexpr std::int64_t most_in_y = 65535;
    if (quotient_up(axes_.inner, 128) > most_in_y) return std::numeric_limits<double>::infinity();
    return number(axes_.free_indexed) * static_cast<double>(quotient_up(axes_.inner, 128));
  }
  /// What a warp takes for a list of mean length: it looks through the list for each of its points, 32 at a time, or
  /// once through all indices.
  double seconds_of_list() const {
    if (has_short_lists()) return 0;
    const double indices = number(axes_.colliding),
                 mean = indices / static_cast<double>(std::max<std::int64_t>(axes_.extent, 1));
    return mean * mean <= indices ? mean * (mean / 32 + 1) * 0.6e-11 : indices / 32 * 1.2e-11;
  }
  /// One list, whose warp waits for each look.
  double seconds_of_chain() const {
    if (has_short_lists()) return 0;
    const double indices = number(axes_.colliding),
                 mean = indices / static_cast<double>(std::max<std::int64_t>(axes_.extent, 1));
    return look * (mean * mean <= indices ? mean * (mean / 32 + 1) : indices / 32);
  }
  double by_places() const {
    const double indices = number(axes_.colliding);
    return std::max(warps_of_place() * static_cast<double>(axes_.extent) * (indices / 32 + 4) * 1.2e-11,
                    indices / 32 * look);
  }
  double in_order() const {
    return number(axes_.colliding) * 0.6e-6 * static_cast<double>(quotient_up(b_.points(axes_.all_free), 200000));
  }
  double by_lists() const {
    constexpr double launches = 2e-5;  // of the kernels that collect points
    const double seconds_of_place = has_short_lists() ? 3e-11 : 4e-10;
    return launches + 5e-11 * number(axes_.colliding) + seconds_of_chain() +
           (seconds_of_place + seconds_of_list()) * static_cast<double>(axes_.extent) * warps_of_place();
  }

  bool can_sort() const {
    return b_.inst(store_.value).dtype != DType::bool_ && axes_.places <= PositionSortShape::most_keys &&
           axes_.positions < std::int64_t{1} << 31 &&
           axes_.sort_bytes(size_of(b_.inst(store_.value).dtype)) <= most_list_bytes;
  }
  /// Each kernel has a start; a list is taken in one after the other.
  double sorted() const {
    const double positions = static_cast<double>(axes_.positions), places = static_cast<double>(axes_.places),
                 mean = positions / std::max(places, 1.);
    if (axes_.inner == 1) return 1.2e-5 + 3e-11 * positions + mean * 4e-9 + places * 1e-11;
    const bool has_one_pass = axes_.places <= 1024;
    return (has_one_pass ? 1.2e-5 : 2.4e-5) + (has_one_pass ? 3e-11 : 7e-11) * positions + mean * 1.5e-8 +
           static_cast<double>(axes_.extent) * warps_of_place() * (4e-10 + mean * 1e-11);
  }

  // ---- stages

  void open_grid(const AxisList& axes) { open_loop({.axes = mask_of(axes), .mode = LoopMode::grid}); }
  void open_grid_if_any(const AxisList& axes) {
    if (!axes.empty()) open_grid(axes);
  }
  void open_colliding(LoopRange range) {
    open_loop({.axes = mask_of(axes_.colliding), .mode = LoopMode::lanes, .range = range});
  }
  /// What the values are made of.
  void add_values(std::initializer_list<InstId> values) {
    const auto is_needed = b_.under({values.begin(), values.size()});
    const std::size_t first = nest_.ids.size();
    for (std::size_t i = 0; i < is_needed.size(); ++i)
      if (is_needed[i] && b_.kernel.body[i].prim != Prim::immediate) nest_.ids.push_back(static_cast<InstId>(i));
    add_ids_since(NestNodeKind::compute, first);
  }
  void add_update(UpdateOrder order) { add({.kind = NestNodeKind::update, .axis = static_cast<std::uint16_t>(order)}); }
  void build_check() {
    const std::size_t stage = open_stage(256);
    open_grid(axes_.indexed);
    add_index_check();
    close_from(stage);
  }
  void add_index_check() {
    add_values({store_.index});
    add({.kind = NestNodeKind::check_index});
  }
  void build_atomic() {
    const std::size_t stage = open_stage(256);
    open_grid(b_.parallel);
    add_values({store_.index, store_.value});
    add_update(UpdateOrder::atomic);
    close_from(stage);
  }
  void build_in_order() {
    const std::size_t stage = open_stage(128);
    open_grid(axes_.all_free);
    open_colliding(LoopRange::whole);
    add_values({store_.index, store_.value});
    add_update(UpdateOrder::in_order);
    close_from(stage);
  }
  void build_by_lists() {
    build_lists(CallKind::lists);
    if (!has_short_lists()) return build_places({.range = LoopRange::places, .lanes = 32}, LoopRange::listed);
    constexpr std::int64_t short_list = 16;
    build_places({.range = LoopRange::short_places, .lanes = 1, .step = short_list}, LoopRange::listed);
    build_places({.range = LoopRange::long_places, .lanes = 32, .step = short_list}, LoopRange::listed);
  }
  void build_sorted() {
    build_lists(CallKind::sort);
    if (axes_.has_bins()) return build_places({.range = LoopRange::places, .lanes = 1}, LoopRange::listed);
    const bool are_short = axes_.inner == 1 && b_.points(axes_.colliding) < 16 * axes_.extent;
    if (!are_short) return build_places({.range = LoopRange::places, .lanes = 32}, LoopRange::listed);
    constexpr std::int64_t short_list = 32;
    const std::size_t stage = open_stage(256);
    add_places({.range = LoopRange::short_places, .lanes = 1, .step = short_list}, LoopRange::listed);
    add_places({.range = LoopRange::long_places, .lanes = 32, .step = short_list}, LoopRange::listed);
    close_from(stage);
  }
  void build_lists(CallKind kind) {
    const std::size_t stage = open_stage(256);
    nest_.calls.push_back({.kind = kind, .value = store_.index, .k = mask_of(axes_.colliding)});
    open({.kind = NestNodeKind::call});
    AxisList points = axes_.free_indexed;
    for (const int a : axes_.colliding) points.push_back(a);
    open_grid(points);
    add_index_check();
    close_from(stage);
  }
  void build_places(const Loop& places, LoopRange points) {
    const std::size_t stage = open_stage(256);
    add_places(places, points);
    close_from(stage);
  }
  /// A thread owns a place, or a warp a place and some elements inside it. `points`: how it finds what is for it.
  void add_places(Loop places, LoopRange points) {
    const std::size_t first = nest_.nodes.size();
    open_grid_if_any(axes_.free_indexed);
    places.mode = LoopMode::grid;
    open_loop(places);
    constexpr int elements = 4;
    if (places.lanes > 1) {
      open_loop({.axes = mask_of(axes_.free),
                 .mode = LoopMode::grid,
                 .range = LoopRange::blocks,
                 .step = std::int64_t{places.lanes} * elements});
      open_loop({.axes = mask_of(axes_.free),
                 .mode = LoopMode::lanes,
                 .tail = LoopTail::mask,
                 .range = LoopRange::block,
                 .copies = elements,
                 .lanes = places.lanes});
    } else {
      open_grid_if_any(axes_.free);
    }
    open_colliding(points);
    if (points == LoopRange::listed) add_values({store_.value});
    else add_values({store_.index, store_.value});
    add_update(UpdateOrder::in_order);
    close_from(first);
  }

  const BoundKernel& b_;
  const Store store_;
  const ScatterAxes axes_;
};

SINTER_DECL LoopNest build_scatter_nest(const BoundKernel& bound) { return ScatterNestBuilder(bound).run(); }

}  // namespace cuda_source_detail
SINTER_NAMESPACE_END
