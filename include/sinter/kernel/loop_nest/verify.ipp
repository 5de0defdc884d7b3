// One walk over the records, then one over each variant with what is known at each place.
#pragma once

#include <sinter/kernel/loop_nest/verify.hpp>

#include <sinter/base/index.hpp>
#include <sinter/kernel/loop_nest/verify_loops.hpp>
#include <sinter/kernel/loop_nest/verify_records.hpp>
#include <sinter/kernel/loop_nest/verify_updates.hpp>

#include <algorithm>
#include <bit>
#include <vector>

SINTER_NAMESPACE_BEGIN

namespace kernel_detail {

class NestVerifier : LoopVerifier {
 public:
  explicit NestVerifier(const LoopNest& nest) : LoopVerifier(nest), has_check_(k_.body.size()) {
    for (const NestNode& node : nest.nodes)
      if (node.kind == NestNodeKind::check) has_check_[node.first] = true;
  }

  void run() {
    check_operands(k_, facts_);
    if (!nest_.has(VariantKind::whole)) throw_bad_nest("the nest", "no variant that always holds");
    for (std::size_t place = 0; place < nest_.nodes.size(); place = nest_.nodes[place].end) variant(place);
  }

 private:
  struct Kept {
    bool is_there = false, lacks_last = false;  // lacks_last: the last block did not keep it
    int stage = 0;
    AxisMask points = 0, blocks = 0;
    Known known = Known::no;
  };

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
    team_ = nest_.nodes[place].axis;
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
    check_loop(place, l);
    const Scope outside = at_;
    enter(l);
    nest_.for_each_child(place, [&](std::size_t child) { node(child); });
    const bool has_barrier = at_.has_barrier;
    at_ = outside;
    at_.has_barrier = has_barrier;
    if (l.mode == LoopMode::task || l.mode == LoopMode::grid) drop_kept_of_tasks();
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

  SmallVector<bool, 256> has_check_;  // gathers whose index a check makes an offset
  int steps_ = 0;
  bool in_turn_ = false;  // something was computed since the scan around this place began, and not for a step
  SmallVector<InstId, 64> for_step_;
  OnlineSum online_;  // of the last online fold
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
