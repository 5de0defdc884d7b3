// Loops of a nest as the verifier walks them: what each may be where it stands, and what holds inside of it. For
// verify.ipp. Knows folds and calls only by their being there.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/index.hpp>
#include <sinter/kernel/facts.hpp>
#include <sinter/kernel/loop_nest/loop_nest.hpp>
#include <sinter/kernel/loop_nest/text.hpp>
#include <sinter/kernel/loop_nest/verify_records.hpp>

#include <bit>
#include <string>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace kernel_detail {

class LoopVerifier {
 public:
  explicit LoopVerifier(const LoopNest& nest)
      : nest_(nest),
        k_(*nest.kernel),
        facts_(facts_of(k_)),
        all_(static_cast<AxisMask>((1u << k_.rank()) - 1)),
        parallel_(static_cast<AxisMask>(all_ & ~facts_.reduced)) {}

 protected:
  /// What is known of a value at a place: `part` is the value of one block of a fold, `before` of a scan what the
  /// blocks before one gave.
  enum class Known : std::uint8_t { no, yes, part, before };
  /// What ends with an iteration.
  struct Scope {
    SmallVector<Known, 256> known;
    SmallVector<bool, 256> checked;              // gathers
    AxisMask points = 0, blocks = 0, tasks = 0;  // axes walked point by point; by blocks; by task loops in either way
    NestLevel level = NestLevel::kernel;
    bool has_vector = false, is_single = false;
    bool has_barrier = false, is_in_lanes = false;  // on a GPU: since the last load; inside a loop over lanes
    bool lacks_last = false, is_before = false;     // in blocks but for the last; in those before a block
  };

  void require(bool holds, std::size_t place, const char* what) const {
    if (SINTER_LIKELY(holds)) return;
    throw_bad_nest("node " + std::to_string(place) + " (" + node_title(nest_, place) + ")", what);
  }
  bool is_walked(AxisMask axes) const { return (axes & ~at_.points) == 0; }
  bool is_row_stage() const { return (facts_.reduced >> nest_.vector_axis & 1) != 0 || stage_ > 1; }
  bool is_pieces(const Loop& l) const { return is_over_blocks(l) && l.axes == facts_.reduced; }

  void check_loop(std::size_t place, const Loop& l) {
    check_axes(place, l);
    if (nest_.is_on_gpu) check_threads(place, l);
    else check_steps(place, l);
  }
  /// From here on at_ is what holds inside.
  void enter(const Loop& l) {
    if (is_of_parts(l)) at_.blocks |= l.axes;
    else at_.points |= l.axes;
    if (is_of_one_part(l)) {  // the points of a task are several
      at_.blocks &= static_cast<AxisMask>(~l.axes);
      at_.tasks &= static_cast<AxisMask>(~l.axes);
    }
    if (l.mode == LoopMode::task || l.mode == LoopMode::grid) at_.tasks |= l.axes;
    if (l.mode == LoopMode::vector) at_.has_vector = true;
    if (nest_.is_on_gpu) enter_threads(l);
    at_.is_single |= l.range == LoopRange::single;
    at_.level = level_of(nest_, facts_, l);
  }

  const LoopNest& nest_;
  const Kernel& k_;
  const KernelFacts facts_;
  const AxisMask all_, parallel_;
  Scope at_;
  VariantKind kind_ = VariantKind::whole;
  int stage_ = 0;
  bool in_call_ = false;
  std::vector<std::size_t> folds_;  // those around this place
  int lanes_ = 1, threads_ = 0;     // of an item, on a GPU, and of a block
  int team_ = 0;                    // blocks that share an item and meet in memory
  std::int64_t piece_ = 0;          // points of the blocks that the reduced axes are cut into there

 private:
  /// One number of what varies along the vector axis is there where that is walked point by point.
  void enter_threads(const Loop& l) {
    at_.is_in_lanes |= l.mode == LoopMode::lanes;
    at_.lacks_last |= l.range == LoopRange::blocks_but_last;
    at_.is_before |= l.range == LoopRange::blocks_before;
    at_.has_vector |= (at_.points >> nest_.vector_axis & 1) != 0;
    if (l.mode == LoopMode::grid && !is_pieces(l)) lanes_ = l.lanes;
  }
  void check_axes(std::size_t place, const Loop& l) const {
    require((l.axes & at_.points) == 0, place, "an axis that is walked already");
    if (is_of_one_part(l) || l.range == LoopRange::blocks_before)
      require((l.axes & ~at_.blocks) == 0, place, "a block outside a loop over blocks");
    else require((l.axes & at_.blocks) == 0, place, "an axis that is walked by blocks");
    const bool has_tiles = l.range == LoopRange::tiles || l.range == LoopRange::tile;
    if (has_tiles)
      require(
          !nest_.calls.empty() && (l.axes & (nest_.calls[0].m | nest_.calls[0].n)) != 0 && std::has_single_bit(l.axes),
          place, "tiles of an axis that is no row or column of a call");
    require(l.range < LoopRange::places, place, "places of no update");
    if (nest_.is_on_gpu) return;
    require(!is_over_blocks(l) || l.range == LoopRange::blocks, place, "a range of a GPU");
    if (l.mode != LoopMode::task || l.range != LoopRange::whole)
      require(std::has_single_bit(l.axes), place, "not one axis");
    if (l.range == LoopRange::blocks || l.range == LoopRange::block)
      require(l.axes == axis_bit(nest_.vector_axis) && (l.axes & facts_.reduced) != 0, place,
              "blocks of an axis whose fold has none");
    if (l.range == LoopRange::tiles) require(l.mode == LoopMode::task, place, "tiles that are not tasks");
    if (l.range == LoopRange::tile) require(l.mode != LoopMode::task, place, "points of a tile that are tasks");
    if (l.mode == LoopMode::serial)
      require((l.axes & facts_.reduced) != 0 || (in_call_ && l.range == LoopRange::tile && !at_.has_vector), place,
              "a parallel axis whose points are not tasks");
    if (l.mode != LoopMode::task) return;
    require(at_.level <= NestLevel::outer && !at_.has_vector && folds_.empty() && !in_call_, place,
            "tasks are not outermost");
    require(l.range == LoopRange::blocks || (l.axes & facts_.reduced) == 0, place, "tasks over a reduced axis");
  }
  void check_steps(std::size_t place, const Loop& l) const {
    if (l.mode == LoopMode::vector) {
      require(l.axes == axis_bit(nest_.vector_axis), place, "vectors along an axis that is not the vector axis");
      require(l.step == nest_.lanes, place, "its vectors are not those of the nest");
      require(l.tail == LoopTail::mask && !is_of_parts(l), place, "vectors without a masked tail");
    } else {
      require(l.tail != LoopTail::mask, place, "a mask without vectors");
      require(l.range != LoopRange::single && l.range != LoopRange::block, place, "a range of vectors");
      require(l.range == LoopRange::tiles || l.step == (l.range == LoopRange::blocks ? row_sum_block : 1), place,
              "steps that its range does not have");
      require(l.copies == 1 || l.tail == LoopTail::stepwise, place, "several side by side, and nothing for the rest");
    }
    require(l.range != LoopRange::single || l.copies == 1, place, "several steps side by side where one is all");
    require((kind_ == VariantKind::short_rows && l.mode == LoopMode::vector) == (l.range == LoopRange::single), place,
            "one step where rows may be longer, or several where they are not");
  }
  /// The pieces that the reduced axes are cut into are the same for all.
  void check_pieces(std::size_t place, const Loop& l) {
    if (!is_pieces(l)) return;
    if (piece_ == 0) piece_ = l.step;
    require(l.step == piece_, place, "pieces of another length");
    require(l.range != (l.mode == LoopMode::lanes ? LoopRange::blocks_but_last : LoopRange::blocks_before), place,
            "other pieces than its threads have");
  }
  /// Steps of threads: items of the grid, their vectors, and what the lanes of a group share out.
  void check_threads(std::size_t place, const Loop& l) {
    const bool has_vectors = (l.axes >> nest_.vector_axis & 1) != 0;
    check_pieces(place, l);
    require(std::has_single_bit(unsigned{l.lanes}), place, "lanes that are no power of two");
    if (in_call_) return check_threads_of_call(place, l);
    switch (l.mode) {
      case LoopMode::serial:
      case LoopMode::task: return require(false, place, "a loop of another machine");
      case LoopMode::grid:
        if (l.range == LoopRange::tiles) return check_tiles_of_grid(place, l);
        require(at_.level <= NestLevel::outer && !at_.is_in_lanes && folds_.empty(), place,
                "the grid is not outermost");
        require(l.range == LoopRange::whole || is_over_blocks(l), place, "a range of vectors");
        require(l.tail == LoopTail::none && (is_over_blocks(l) || l.step == 1), place,
                "steps that its range does not have");
        if (is_pieces(l)) return;
        require(l.lanes <= most_block_lanes
                    ? threads_ % l.lanes == 0
                    : is_row_stage() && threads_ * 2 >= most_block_lanes && l.lanes % threads_ == 0,
                place, "a group of more than a block that is no cluster for a row");
        require(team_ <= 1 || (is_row_stage() && l.lanes == threads_ && l.lanes >= 32 && !k_.has_scan()), place,
                "a team of blocks that shares no row");
        require((l.axes & facts_.reduced) == 0, place, "points of a reduced axis in the grid");
        return require(l.range == LoopRange::whole || (l.range == LoopRange::blocks && l.step == nest_.lanes &&
                                                       l.axes == axis_bit(nest_.vector_axis)),
                       place, "blocks that are not one vector");
      case LoopMode::vector:
        require(l.axes == axis_bit(nest_.vector_axis) && l.step == nest_.lanes && l.range == LoopRange::block &&
                    !at_.is_in_lanes && l.copies == 1,
                place, "not the vector of an item");
        return require((facts_.reduced & l.axes) == 0, place, "an item's vector along a reduced axis");
      case LoopMode::lanes:
        require(l.axes == facts_.reduced && !at_.is_in_lanes, place, "lanes share out all reduced axes, once");
        require(l.lanes == lanes_, place, "other lanes than those of the item");
        return require(is_over_blocks(l) || l.step == (has_vectors ? nest_.lanes : 1), place,
                       "its vectors are not those of the nest");
    }
  }

  void check_tiles_of_grid(std::size_t place, const Loop& l) const {
    require(at_.level <= NestLevel::outer && folds_.empty() && l.tail == LoopTail::none, place,
            "the grid is not outermost");
  }
  /// What a group's threads do inside of a tile is the call's matter; k is shared out once.
  void check_threads_of_call(std::size_t place, const Loop& l) const {
    if (l.mode == LoopMode::lanes)
      return require(l.axes == facts_.reduced && !at_.is_in_lanes && !folds_.empty(), place,
                     "lanes share out all reduced axes, once");
    require(l.mode == LoopMode::serial || l.mode == LoopMode::vector, place, "a loop of another machine");
    require(l.range == LoopRange::tile, place, "not the points of a tile");
    if (l.mode == LoopMode::vector)
      require(l.axes == axis_bit(nest_.vector_axis) && l.step == nest_.lanes && l.tail == LoopTail::mask, place,
              "its vectors are not those of the nest");
  }
};

}  // namespace kernel_detail
SINTER_NAMESPACE_END
