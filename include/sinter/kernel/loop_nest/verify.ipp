// One walk over the records, then one over each variant with what is known at each place.
#pragma once

#include <sinter/kernel/loop_nest/verify.hpp>

#include <sinter/base/index.hpp>
#include <sinter/kernel/loop_nest/text.hpp>
#include <sinter/kernel/loop_nest/verify_records.hpp>
#include <sinter/kernel/loop_nest/verify_updates.hpp>

#include <algorithm>
#include <bit>
#include <vector>

SINTER_NAMESPACE_BEGIN

namespace kernel_detail {

class NestVerifier {
 public:
  explicit NestVerifier(const LoopNest& nest)
      : nest_(nest),
        k_(*nest.kernel),
        facts_(facts_of(k_)),
        all_(static_cast<AxisMask>((1u << k_.rank()) - 1)),
        parallel_(static_cast<AxisMask>(all_ & ~facts_.reduced)),
        has_check_(k_.body.size()) {
    for (const NestNode& node : nest.nodes)
      if (node.kind == NestNodeKind::check) has_check_[node.first] = true;
  }

  void run() {
    check_operands(k_, facts_);
    if (!nest_.has(VariantKind::whole)) throw_bad_nest("the nest", "no variant that always holds");
    for (std::size_t place = 0; place < nest_.nodes.size(); place = nest_.nodes[place].end) variant(place);
  }

 private:
  /// What is known of a value at a place: `part` is the value of one block of a fold, `before` of a scan what the
  /// blocks before one gave.
  enum class Known : std::uint8_t { no, yes, part, before };
  struct Kept {
    bool is_there = false, lacks_last = false;  // lacks_last: the last block did not keep it
    int stage = 0;
    AxisMask points = 0, blocks = 0;
    Known known = Known::no;
  };
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
  bool is_known(InstId id) const { return k_.body[id].prim == Prim::immediate || at_.known[id] == Known::yes; }

  void variant(std::size_t place) {
    kind_ = nest_.variants[nest_.nodes[place].first];
    require(nest_.find(kind_) == place, place, "there is another variant of this kind");
    stage_ = 0;
    piece_ = 0;
    kept_.resize(0);
    kept_.resize(nest_.buffers.size());
    stored_.resize(0);
    stored_.resize(k_.stores.size());
    folded_.resize(0);
    folded_.resize(k_.body.size());
    nest_.for_each_child(place, [&](std::size_t child) { stage(child); });
    for (std::size_t s = 0; s < stored_.size(); ++s) require(stored_[s], place, "a store is missing");
    for (std::size_t i = 0; i < k_.body.size(); ++i)
      require(!is_folded(k_.body[i].prim) || !facts_.values[i].is_live || folded_[i], place,
              "a reduction is not folded");
  }

  void stage(std::size_t place) {
    ++stage_;
    threads_ = nest_.nodes[place].count;
    lanes_ = 1;
    at_ = {};
    at_.known.resize(k_.body.size());
    at_.checked.resize(k_.body.size());
    nest_.for_each_child(place, [&](std::size_t child) { node(child); });
    drop_kept_of_tasks();
  }
  void drop_kept_of_tasks() {
    for (std::size_t b = 0; b < kept_.size(); ++b)
      if (nest_.buffers[b].space != BufferSpace::workspace) kept_[b] = {};
  }

  void node(std::size_t place) {
    const NestNode& n = nest_.nodes[place];
    switch (n.kind) {
      case NestNodeKind::variant:
      case NestNodeKind::stage: return;  // are where they belong, or the records were refused
      case NestNodeKind::loop: return loop(place);
      case NestNodeKind::fold: return fold(place);
      case NestNodeKind::call: return call(place);
      case NestNodeKind::step: return step(place);
      case NestNodeKind::compute:
        for (const InstId id : nest_.ids_of(n)) compute(place, id);
        return check_time(place);
      case NestNodeKind::check: return check(place);
      case NestNodeKind::keep: return keep(place);
      case NestNodeKind::fetch: return fetch(place);
      case NestNodeKind::store: return store(place);
      case NestNodeKind::barrier: return barrier(place);
      case NestNodeKind::rescale: return rescale(place);
      case NestNodeKind::update:
      case NestNodeKind::check_index: return require(false, place, "an update of a kernel that is no scatter");
    }
  }

  // Loops and folds -------------------------------------------------------------------------------------------------

  void loop(std::size_t place) {
    const Loop& l = nest_.loop_of(nest_.nodes[place]);
    check_axes(place, l);
    if (nest_.is_on_gpu) check_threads(place, l);
    else check_steps(place, l);
    const Scope outside = at_;
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
    nest_.for_each_child(place, [&](std::size_t child) { node(child); });
    const bool has_barrier = at_.has_barrier;
    at_ = outside;
    at_.has_barrier = has_barrier;
    if (l.mode == LoopMode::task || l.mode == LoopMode::grid) drop_kept_of_tasks();
  }
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

  /// Its loops are the tile's, and hold the sums and all that stands on them.
  void call(std::size_t place) {
    const Call& c = nest_.calls[nest_.nodes[place].first];
    const Loop& rows = nest_.loop_of(nest_.nodes[place + 1]);
    require(!in_call_ && folds_.empty() && !at_.has_vector, place, "a call inside of loops that are not tasks");
    require(rows.axes == c.m && rows.range == LoopRange::tile, place, "its loop does not walk the rows of a tile");
    if (c.kind == CallKind::gemm)
      require((facts_.values[c.a].axes & c.n) == 0 && (facts_.values[c.b].axes & c.m) == 0, place,
              "its operands stand in each other's place");
    in_call_ = true;
    loop(place + 1);
    in_call_ = false;
    if (c.kind == CallKind::transpose) return check_crossed(place, c);
    require(!facts_.values[c.value].is_live || folded_[c.value] || has_pieces(c.value), place, "its sums are not made");
  }
  bool has_pieces(InstId sums) const {
    for (std::size_t b = 0; b < kept_.size(); ++b)
      if (kept_[b].is_there && kept_[b].known == Known::part && nest_.buffers[b].value == sums) return true;
    return false;
  }
  /// What a transpose loads ahead lies side by side along rows.
  void check_crossed(std::size_t place, const Call& c) const {
    for (std::size_t inside = place; inside < nest_.nodes[place].end; ++inside) {
      const NestNode& n = nest_.nodes[inside];
      if (n.kind != NestNodeKind::compute || n.axis == 0) continue;
      for (const InstId id : nest_.ids_of(n))
        require(k_.body[id].prim == Prim::load &&
                    k_.accesses[k_.body[id].access].stride[as_index(std::countr_zero(c.m))] == StrideClass::unit,
                inside, "what has no neighbours along rows passes through shared memory");
    }
  }

  bool is_row_stage() const { return (facts_.reduced >> nest_.vector_axis & 1) != 0 || stage_ > 1; }
  bool is_pieces(const Loop& l) const { return is_over_blocks(l) && l.axes == facts_.reduced; }
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

  void fold(std::size_t place) {
    const NestNode& n = nest_.nodes[place];
    const auto ids = nest_.ids_of(n);
    check_fold(place);
    const bool is_second = nest_.is_on_gpu && n.part == FoldPart::finish;
    require(in_call_ == (nest_.has_gemm() && !is_second), place, "sums of products outside of their call");
    if (n.part == FoldPart::scan) return scan(place, ids);
    if (folds_.empty()) {
      const bool may_be_scans = nest_.is_on_gpu && (n.part == FoldPart::blocks || n.part == FoldPart::before);
      for (const InstId id : ids) {
        require((may_be_scans ? is_folded(k_.body[id].prim) : is_reduction(k_.body[id].prim)) &&
                    (n.part != FoldPart::before || is_scan(k_.body[id].prim)) && facts_.values[id].is_live,
                place, "folds what is no live reduction");
        require(at_.known[id] == Known::no && (n.part == FoldPart::blocks || !folded_[id]), place, "folded twice");
      }
      require(is_walked(parallel_), place, "outside the loops over parallel axes");
    } else {
      const NestNode& outer = nest_.nodes[folds_.back()];
      require(std::ranges::equal(ids, nest_.ids_of(outer)), place, "other reductions than those of the fold around it");
      require(outer.axis < n.axis && outer.part == FoldPart::whole && n.part == FoldPart::whole, place,
              "inner axes are folded first");
    }
    folds_.push_back(place);
    steps_ = 0;
    loop(place + 1);
    folds_.pop_back();
    require(steps_ == 1, place, "not one step at each point");
    if (!folds_.empty()) return;
    for (const InstId id : ids) {
      const bool is_part = n.part == FoldPart::blocks || (n.part == FoldPart::online && id == ids.back()),
                 is_before = n.part == FoldPart::before;
      at_.known[id] = is_part ? Known::part : is_before ? Known::before : Known::yes;
      folded_[id] = folded_[id] || !(is_part || is_before);
    }
    if (n.part == FoldPart::online) online_ = online_sum(k_, ids);
  }
  void barrier(std::size_t place) {
    require(!at_.is_in_lanes, place, "a barrier that not all threads of a group come to");
    require(nest_.nodes[place].count != 0 || (is_row_stage() && lanes_ <= 32), place,
            "a group of more than a warp meets");
    at_.has_barrier = true;
  }
  void rescale(std::size_t place) {
    const InstId sum = nest_.nodes[place].first;
    require(online_.sum == sum && at_.known[sum] == Known::part, place, "no sum of an online fold");
    require(is_known(online_.shift), place, "the shift is not there yet");
    at_.known[sum] = Known::yes;
    folded_[sum] = true;
  }
  /// Each has one step, inside, after which it is known there.
  void scan(std::size_t place, std::span<const InstId> ids) {
    require(folds_.empty(), place, "scans inside of a fold");
    const Loop& l = nest_.loop_of(nest_.nodes[place + 1]);
    const bool is_block = l.range == LoopRange::block;
    require(l.lanes == 1 ? !is_block : l.lanes % 32 == 0 && l.lanes == threads_, place,
            "a scan by some of a block's threads");
    const Known before = is_block ? Known::before : Known::no;
    for (const InstId id : ids) {
      require(is_scan(k_.body[id].prim) && facts_.values[id].is_live, place, "scans what is no live scan");
      require(!folded_[id], place, "folded twice");
      require(at_.known[id] == before, place, "does not begin where the blocks before end");
    }
    folds_.push_back(place);
    in_turn_ = false;
    loop(place + 1);
    folds_.pop_back();
    for (const InstId id : ids) require(folded_[id], place, "a scan without a step");
    require(for_step_.empty(), place, "a value for a step that does not come");
  }
  void step_of_scans(std::size_t place, std::span<const InstId> ids) {
    const NestNode& scan = nest_.nodes[folds_.back()];
    const Loop& l = nest_.loop_of(nest_.nodes[folds_.back() + 1]);
    const bool is_of_all = ids.size() == scan.count, is_shared = nest_.is_on_gpu && l.lanes > 1;
    for (const InstId id : ids) require(is_known(k_.body[id].args[0]), place, "takes in a value that is not there yet");
    for (const InstId id : ids) step_of_scan(place, id);
    require(!is_shared || is_of_all || l.copies == 1, place, "several steps side by side enter one scan of several");
    require(!is_shared || !is_of_all || !in_turn_, place, "a value of one step, where all enter the scan together");
    for (; !for_step_.empty(); for_step_.pop_back()) at_.known[for_step_.back()] = Known::no;
  }
  void step_of_scan(std::size_t place, InstId id) {
    const auto scans = nest_.ids_of(nest_.nodes[folds_.back()]);
    const auto axis = static_cast<int>(nest_.nodes[folds_.back()].axis);
    require(std::ranges::find(scans, id) != scans.end(), place, "not in a fold of these reductions");
    require(!folded_[id] && at_.known[id] != Known::yes, place, "folded twice");
    require(is_walked(facts_.values[id].axes), place, "not at each point");
    require(nest_.is_on_gpu || nest_.places[id].level == at_.level, place, "not at the value's place");
    require(nest_.places[id].is_vector == ((facts_.values[id].axes >> nest_.vector_axis & 1) != 0) &&
                (axis != nest_.vector_axis || nest_.places[id].is_vector),
            place, "one number from lanes that differ");
    at_.known[id] = Known::yes;
    folded_[id] = true;
  }
  /// What is computed for a step enters a scan over lanes.
  void check_time(std::size_t place) {
    const NestNode& n = nest_.nodes[place];
    const bool is_in_scan = !folds_.empty() && nest_.nodes[folds_.back()].part == FoldPart::scan;
    if (LoopNest::time_of(n) != ComputeTime::for_step) {
      in_turn_ = true;
      return;
    }
    require(nest_.is_on_gpu && is_in_scan, place, "for a step of no scan over lanes");
    for (const InstId id : nest_.ids_of(n)) for_step_.push_back(id);
  }
  static bool is_folded(Prim prim) { return is_reduction(prim) || is_scan(prim); }

  void check_fold(std::size_t place) const {
    const NestNode& n = nest_.nodes[place];
    const Loop& l = nest_.loop_of(nest_.nodes[place + 1]);
    require((facts_.reduced >> n.axis & 1) != 0, place, "folds an axis that is not reduced");
    require(nest_.is_on_gpu ? l.mode == LoopMode::lanes && folds_.empty() : l.axes == axis_bit(n.axis), place,
            "its loop walks another axis");
    switch (n.part) {
      case FoldPart::scan:
        return require(l.range == LoopRange::whole || (nest_.is_on_gpu && l.range == LoopRange::block), place,
                       "its loop does not walk the whole axis");
      case FoldPart::before:
        return require(l.range == LoopRange::blocks_before, place, "its loop does not walk the blocks before one");
      case FoldPart::online:
        require(nest_.is_on_gpu && online_sum(k_, nest_.ids_of(n)).sum != no_inst, place, "no sum of exponentials");
        return require(l.range == LoopRange::whole || l.range == LoopRange::single, place,
                       "its loop does not walk the whole axis");
      case FoldPart::whole:
        return require(l.range == LoopRange::whole || l.range == LoopRange::single, place,
                       "its loop does not walk the whole axis");
      case FoldPart::blocks: return require(l.range == LoopRange::block, place, "its loop does not walk one block");
      case FoldPart::finish: return require(l.range == LoopRange::blocks, place, "its loop does not walk the blocks");
    }
  }

  void step(std::size_t place) {
    const auto ids = nest_.ids_of(nest_.nodes[place]);
    if (!folds_.empty() && nest_.nodes[folds_.back()].part == FoldPart::scan) {
      step_of_scans(place, ids);
      return;
    }
    require(!folds_.empty() && std::ranges::equal(ids, nest_.ids_of(nest_.nodes[folds_.back()])), place,
            "not in a fold of these reductions");
    AxisMask folded = 0;
    for (const std::size_t f : folds_)
      folded |= nest_.is_on_gpu ? nest_.loop_of(nest_.nodes[f + 1]).axes : axis_bit(nest_.nodes[f].axis);
    require(folded == facts_.reduced, place, "a reduced axis is not folded");
    require(static_cast<AxisMask>(at_.points | at_.blocks) == all_, place, "not at each point");
    const FoldPart part = nest_.nodes[folds_.back()].part;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const bool is_online = part == FoldPart::online && i + 1 == ids.size();
      const bool takes_blocks = part == FoldPart::finish || part == FoldPart::before;
      require(takes_blocks ? at_.known[nest_.holder(ids, i)] == Known::part
              : is_online  ? is_known(online_sum(k_, ids).value)
                           : has_arguments(ids[i]),
              place, "takes in a value that is not there yet");
    }
    ++steps_;
  }

  bool has_arguments(InstId id) const {
    const auto& args = k_.body[id].args;
    return std::all_of(args.begin(), args.begin() + arity(k_.body[id].prim), [&](InstId a) { return is_known(a); });
  }

  // Values ----------------------------------------------------------------------------------------------------------

  void compute(std::size_t place, InstId id) {
    const Inst& inst = k_.body[id];
    const ValuePlace& value = nest_.places[id];
    require(inst.prim != Prim::immediate && !is_folded(inst.prim), place, "computes what needs no computing");
    require(at_.known[id] == Known::no, place, "computes again what is there");
    require(is_walked(facts_.values[id].axes), place, "outside a loop over an axis that a value varies along");
    require(nest_.is_on_gpu || value.level == at_.level, place, "not at the value's place");
    require(value.is_vector ? at_.has_vector : (facts_.values[id].axes >> nest_.vector_axis & 1) == 0, place,
            "lanes that differ outside vectors");
    for (int a = 0; a < arity(inst.prim); ++a) {
      const InstId argument = inst.args[as_index(a)];
      require(is_known(argument), place, "uses a value that is not there yet");
      require(value.is_vector || k_.body[argument].prim == Prim::immediate || !nest_.places[argument].is_vector, place,
              "one number from lanes that differ");
    }
    if (inst.prim == Prim::gather) require(!has_check_[id] || at_.checked[id], place, "an index that is not checked");
    if (reads_memory(inst.prim)) {
      require(!may_be_written(inst.access), place, "reads an operand after it was written");
      at_.has_barrier = at_.has_barrier && in_call_ && folds_.empty();  // an epilogue reads where it writes
    }
    at_.known[id] = Known::yes;
  }

  void check(std::size_t place) {
    const InstId gather = nest_.nodes[place].first, index = k_.body[gather].args[0];
    require(is_known(index), place, "checks an index that is not there yet");
    require(!nest_.places[index].is_vector, place, "checks one index where there is one for each lane");
    require(!at_.checked[gather], place, "checks again what was checked");
    at_.checked[gather] = true;
  }

  /// The axes that a buffer has at this place: all that are walked, or those below the tasks.
  AxisMask axes_at(BufferSpace space) const {
    const auto walked = static_cast<AxisMask>(at_.points | at_.blocks);
    return space == BufferSpace::workspace ? walked : static_cast<AxisMask>(walked & ~at_.tasks);
  }
  void keep(std::size_t place) {
    const Buffer& buffer = nest_.buffer_of(nest_.nodes[place]);
    Kept& kept = kept_[nest_.nodes[place].first];
    require(at_.known[buffer.value] == Known::yes || at_.known[buffer.value] == Known::part, place,
            "keeps a value that is not there yet");
    require(!kept.is_there, place, "keeps again what was kept");
    require(buffer.axes == axes_at(buffer.space), place, "other axes than those of the loops around it");
    require(buffer.space != BufferSpace::reg || at_.is_single, place, "a register in a loop of several steps");
    require(at_.known[buffer.value] == Known::yes || buffer.space == BufferSpace::workspace, place,
            "the value of one block");
    require((buffer.space != BufferSpace::shared || nest_.is_on_gpu) &&
                (buffer.space != BufferSpace::tile || !nest_.is_on_gpu),
            place, "memory that the machine does not have");
    require(buffer.points == 0 || (buffer.space == BufferSpace::shared && k_.body[buffer.value].prim == Prim::load),
            place, "a part of what cannot be loaded again");
    kept = {true,
            at_.lacks_last,
            stage_,
            static_cast<AxisMask>(at_.points & buffer.axes),
            static_cast<AxisMask>(at_.blocks & buffer.axes),
            at_.known[buffer.value]};
  }
  /// A value of a workspace is the same along the axes that this has not, unless it is that of one block.
  bool has_axes_of(const Buffer& buffer, const Kept& kept) const {
    const AxisMask here = axes_at(buffer.space);
    if (buffer.space != BufferSpace::workspace || kept.known == Known::part) return buffer.axes == here;
    return (buffer.axes & ~here) == 0;
  }
  void fetch(std::size_t place) {
    const Buffer& buffer = nest_.buffer_of(nest_.nodes[place]);
    const Kept& kept = kept_[nest_.nodes[place].first];
    require(at_.known[buffer.value] == Known::no, place, "fetches what is there");
    require(kept.is_there && (!kept.lacks_last || at_.is_before), place, "fetches what was not kept before");
    require((buffer.space == BufferSpace::workspace) == (kept.stage < stage_), place, "kept in the wrong stage");
    require(has_axes_of(buffer, kept) && kept.points == (at_.points & buffer.axes) &&
                kept.blocks == (at_.blocks & buffer.axes),
            place, "other axes than those of the keep");
    require(buffer.space != BufferSpace::reg || at_.is_single, place, "a register in a loop of several steps");
    require(nest_.is_on_gpu || kept.known == Known::part || nest_.places[buffer.value].level == at_.level, place,
            "not at the value's place");
    if (buffer.points != 0) {  // beyond them it is a load
      require(!may_be_written(k_.body[buffer.value].access), place, "reads an operand after it was written");
      at_.has_barrier = false;
    }
    at_.known[buffer.value] = kept.known;
  }

  /// Whether an earlier store wrote the operand, or one that the memory plan may lay in its memory: of equal elements
  /// at equal strides.
  bool may_be_written(std::uint16_t access) const {
    const Access& read = k_.accesses[access];
    for (std::size_t s = 0; s < stored_.size(); ++s) {
      if (!stored_[s]) continue;
      const Access& store = k_.accesses[k_.stores[s].access];
      const bool shares = size_of(k_.operands[store.operand].dtype) == size_of(k_.operands[read.operand].dtype) &&
                          store.stride == read.stride;
      if (store.operand == read.operand || shares) return true;
    }
    return false;
  }

  void store(std::size_t place) {
    const std::uint16_t number = nest_.nodes[place].first;
    const Store& s = k_.stores[number];
    const bool is_inner =
        std::find(facts_.inner_stores.begin(), facts_.inner_stores.end(), number) != facts_.inner_stores.end();
    require(!stored_[number], place, "stores twice");
    require(is_known(s.value), place, "stores a value that is not there yet");
    require(at_.blocks == 0 && at_.points == (is_inner ? all_ : parallel_) && !at_.lacks_last, place,
            "not once at each of its points");
    // Threads without an item of a scan read nothing, and whoever adds pieces of a product has its results alone.
    const bool is_own = lanes_ == 1 && (k_.has_scan() || (nest_.has_gemm() && !in_call_));
    require(!nest_.is_on_gpu || facts_.reduced == 0 || is_inner || at_.has_barrier || is_own, place,
            "other lanes may still read what it writes");
    stored_[number] = true;
  }

  const LoopNest& nest_;
  const Kernel& k_;
  const KernelFacts facts_;
  const AxisMask all_, parallel_;
  SmallVector<bool, 256> has_check_;  // gathers whose index a check makes an offset
  Scope at_;
  VariantKind kind_ = VariantKind::whole;
  int stage_ = 0, steps_ = 0;
  bool in_call_ = false;
  int lanes_ = 1, threads_ = 0;  // of an item, on a GPU, and of a block
  std::int64_t piece_ = 0;       // points of the blocks that the reduced axes are cut into there
  bool in_turn_ = false;         // something was computed since the scan around this place began, and not for a step
  SmallVector<InstId, 64> for_step_;
  OnlineSum online_;                // of the last online fold
  std::vector<std::size_t> folds_;  // those around this place
  std::vector<Kept> kept_;
  SmallVector<bool, 64> stored_;  // stores
  SmallVector<bool, 256> folded_;
};

}  // namespace kernel_detail

SINTER_DECL void verify(const LoopNest& nest) {
  kernel_detail::NestRecords(nest).check();
  if (nest.kernel->kind == KernelKind::scatter) return kernel_detail::UpdateVerifier(nest).run();
  kernel_detail::NestVerifier(nest).run();
}

SINTER_NAMESPACE_END
