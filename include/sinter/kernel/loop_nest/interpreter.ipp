// The walk over a nest's nodes.
#pragma once

#include <sinter/kernel/loop_nest/interpreter.hpp>

#include <sinter/base/error.hpp>
#include <sinter/base/index.hpp>
#include <sinter/kernel/facts.hpp>
#include <sinter/kernel/loop_nest/cell_scans.hpp>
#include <sinter/kernel/loop_nest/cells.hpp>
#include <sinter/kernel/loop_nest/interpreter_values.hpp>
#include <sinter/kernel/loop_nest/lane_folds.hpp>
#include <sinter/kernel/loop_nest/program_fold.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <memory>
#include <vector>

SINTER_NAMESPACE_BEGIN

namespace kernel_detail {

class NestInterpreter : NestValues {
 public:
  NestInterpreter(const LoopNest& nest, const BoundGeometry& geometry, std::span<void* const> operands,
                  InterpretMode mode)
      : NestValues(nest, geometry, operands, mode),
        folds_(nest.nodes.size()),
        running_(k_.body.size()),
        scans_(k_.body.size()) {}

  void run(VariantKind kind) {
    nest_.for_each_child(nest_.find(kind), [&](std::size_t stage) {
      ++stage_;
      iterate(stage);
    });
  }

 private:
  // Nodes ------------------------------------------------------------------------------------------------------------

  void node(std::size_t place) {
    const NestNode& n = nest_.nodes[place];
    switch (n.kind) {
      case NestNodeKind::variant:
      case NestNodeKind::stage: fail(place, "not where it belongs");
      case NestNodeKind::loop: return loop(place, nest_.loop_of(n));
      case NestNodeKind::fold: return fold(place);
      case NestNodeKind::call: return iterate(place);
      case NestNodeKind::step: return step(place);
      case NestNodeKind::compute:
        for (const InstId id : nest_.ids_of(n)) compute(place, id);
        if (nest_.is_on_gpu && LoopNest::time_of(n) == ComputeTime::for_step)
          for_step_.insert(for_step_.end(), nest_.ids_of(n).begin(), nest_.ids_of(n).end());
        return;
      case NestNodeKind::check: return check(place);
      case NestNodeKind::keep: return keep(place);
      case NestNodeKind::fetch: return fetch(place);
      case NestNodeKind::store: return store(place);
      case NestNodeKind::barrier: return;  // lanes run one after the other
      case NestNodeKind::rescale: return rescale(place);
      case NestNodeKind::update: return update(place);
      case NestNodeKind::check_index: return check_index(place);
    }
  }

  /// What is known inside is not known outside.
  void iterate(std::size_t place) {
    const std::size_t outside = known_.size();
    nest_.for_each_child(place, [&](std::size_t child) { node(child); });
    for (; known_.size() > outside; known_.pop_back()) is_known_[known_.back()] = 0;
  }

  void loop(std::size_t place, const Loop& l) {
    if (k_.kind == KernelKind::scatter) return updates_.loop(l, at_, [&] { iterate(place); });
    if (l.mode == LoopMode::lanes) return lanes(place, l);
    if (l.mode == LoopMode::grid && is_pieces(l)) return in_pieces(place, l);
    if (l.mode == LoopMode::task || l.mode == LoopMode::grid) return tasks(place, l, 0);
    const int axis = std::countr_zero(l.axes);
    std::int64_t& at = at_[as_index(axis)];
    const std::int64_t before = at, lanes = count_;
    std::int64_t begin = 0, end = extent(axis);
    if (l.range == LoopRange::block || l.range == LoopRange::tile) {
      std::int64_t length = tile_[as_index(axis)];
      if (l.range == LoopRange::block) length = nest_.is_on_gpu ? nest_.lanes : row_sum_block;
      begin = at * length;
      end = std::min(end, begin + length);
      if (l.range == LoopRange::block) first_ = begin;
    } else if (l.range == LoopRange::blocks) {
      end = blocks_of(end);
    } else if (l.range == LoopRange::single && end > l.step) {
      fail(place, "more than one step");
    }
    const bool is_vector = l.mode == LoopMode::vector;
    if (is_vector && l.tail == LoopTail::none && (end - begin) % l.step != 0) fail(place, "a vector is not full");
    for (at = begin; at < end; at += is_vector ? l.step : 1) {
      if (is_vector) count_ = std::min<std::int64_t>(l.step, end - at);
      iterate(place);
    }
    at = before;
    count_ = lanes;
    if (l.range == LoopRange::block) first_ = 0;
  }

  /// Tasks do not depend on each other, so the last comes first.
  void tasks(std::size_t place, const Loop& l, int axis) {
    while (axis < k_.rank() && (l.axes >> axis & 1) == 0) ++axis;
    if (axis == k_.rank()) {
      ++task_;
      return iterate(place);
    }
    std::int64_t& at = at_[as_index(axis)];
    std::int64_t length = l.range == LoopRange::blocks ? l.step : 1;
    constexpr std::int64_t free_length = 21;
    if (l.range == LoopRange::tiles) length = tile_[as_index(axis)] = l.step != 0 ? l.step : free_length;
    for (at = (extent(axis) + length - 1) / length - 1; at >= 0; --at) tasks(place, l, axis + 1);
    at = 0;
  }

  // Threads of a GPU: what a group shares out comes one after the other here, in the order of the reduced axes as one.

  void in_pieces(std::size_t place, const Loop& l) {
    flat_ = reduced_.pieces() - (l.range == LoopRange::blocks_but_last ? 2 : 1);
    for (; flat_ >= 0; --flat_, ++task_) iterate(place);
    flat_ = 0;
  }
  void lanes(std::size_t place, const Loop& l) {
    const std::int64_t before = flat_, lanes_before = count_;
    const bool is_piece = l.range == LoopRange::block, has_points = !is_over_blocks(l),
               is_row = has_points && (l.axes >> nest_.vector_axis & 1) != 0;
    const std::int64_t begin = is_piece ? before * reduced_.piece : 0,
                       end = l.range == LoopRange::blocks          ? reduced_.pieces()
                             : l.range == LoopRange::blocks_before ? before
                             : is_piece                            ? std::min(reduced_.length, begin + reduced_.piece)
                                                                   : reduced_.length;
    if (l.range == LoopRange::single && reduced_.length > l.step * l.copies * l.lanes)
      fail(place, "more than one step");
    if (l.tail == LoopTail::none && (end - begin) % (l.step * l.copies * l.lanes) != 0)
      fail(place, "a tile is not full");
    first_ = begin;
    for (flat_ = begin; flat_ < end; flat_ += is_row ? l.step : 1) {
      if (has_points) reduced_.decode(flat_, at_);
      if (is_row) count_ = std::min<std::int64_t>(l.step, end - flat_);
      if (is_row && at_[as_index(nest_.vector_axis)] + count_ > extent(nest_.vector_axis))
        fail(place, "a vector that ends beyond its axis");
      iterate(place);
    }
    reduced_.decode(0, at_);
    flat_ = before;
    count_ = lanes_before;
    first_ = 0;
  }
  /// Of the sum of the last online fold.
  void rescale(std::size_t place) {
    const InstId sum = nest_.nodes[place].first;
    if (online_ == nullptr) fail(place, "no online fold has ended");
    static_cast<CellOnlineSum*>(online_)->rescale(read(place, online_sum_.greatest), read(place, online_sum_.shift),
                                                  cells(sum), nest_.lanes);
    know(sum);
  }

  // Reductions -------------------------------------------------------------------------------------------------------

  struct Running {
    CellFold* fold = nullptr;
    std::int64_t taken = 0;
    int axis = 0;
    bool finishes = false;
  };
  struct RunningScan {
    std::unique_ptr<CellScan> scan;
    Running running;
    bool is_open = false;
  };

  void fold(std::size_t place) {
    const NestNode& n = nest_.nodes[place];
    const auto ids = nest_.ids_of(n);
    if (n.part == FoldPart::scan) return scan(place, ids);
    auto& folds = folds_[place];
    const bool is_online = n.part == FoldPart::online;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const Inst& inst = k_.body[ids[i]];
      const bool is_vector_axis = n.axis == nest_.vector_axis;
      if (folds.size() == i && nest_.is_on_gpu)
        folds.push_back(is_wide_ ? make_fold_over_lanes<true>(nest_, place, inst, is_online && i + 1 == ids.size())
                                 : make_fold_over_lanes<false>(nest_, place, inst, is_online && i + 1 == ids.size()));
      else if (folds.size() == i)
        folds.push_back(is_wide_ ? make_cell_fold<true>(k_, inst, is_vector_axis, nest_.lanes)
                                 : make_cell_fold<false>(k_, inst, is_vector_axis, nest_.lanes));
      if (nest_.holder(ids, i) != ids[i]) continue;
      folds[i]->start();
      const bool takes_blocks = n.part == FoldPart::finish || n.part == FoldPart::before;
      running_[ids[i]].push_back({folds[i].get(), 0, n.axis, takes_blocks});
    }
    if (is_online) online_sum_ = online_sum(k_, ids);
    iterate(place);
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const InstId id = ids[i], holder = nest_.holder(ids, i);
      if (holder == id) {
        running_[id].pop_back();
        const StatePointers states = states_of(id);
        folds[i]->finish(std::span(states.data(), state_count(id)), width(id));
        if (!running_[id].empty()) take_folded(place, id);
      }
      if (is_online && i + 1 == ids.size()) online_ = folds[i].get();
      else if (n.part == FoldPart::before) know(carry_of(id));
      else if (running_[holder].empty()) know_result(id, holder);
    }
  }
  /// Where is_known_ says that there is what came before a scan.
  std::size_t carry_of(InstId scan) const { return k_.body.size() + scan; }
  void scan(std::size_t place, std::span<const InstId> ids) {
    const int axis = nest_.nodes[place].axis;
    const bool has_carry = nest_.loop_of(nest_.nodes[place + 1]).range == LoopRange::block;
    for (const InstId id : ids) {
      if (has_carry && is_known_[carry_of(id)] == 0) fail(place, "begins without what the blocks before gave");
      RunningScan& running = scans_[id];
      if (running.scan == nullptr)
        running.scan =
            is_wide_ ? make_scan_at<true>(nest_, place, k_.body[id]) : make_scan_at<false>(nest_, place, k_.body[id]);
      running.scan->start(has_carry ? cells(id) : nullptr);
      running = {std::move(running.scan), {.axis = axis}, true};
    }
    iterate(place);
    for (const InstId id : ids) scans_[id].is_open = false;
  }
  Cells state_cells(InstId id) {
    const StatePointers states = states_of(id);
    std::copy(states.begin(), states.end(), in_.begin());
    return {in_.data(), state_count(id)};
  }
  void take_folded(std::size_t place, InstId id) {
    Running& running = running_[id].back();
    check_order(place, running);
    running.fold->take_folded(state_cells(id), width(id));
    ++running.taken;
  }
  /// A result of an ended fold, from the state that `holder` has.
  void know_result(InstId id, InstId holder) {
    const Inst& inst = k_.body[id];
    if (inst.prim == Prim::fold) {
      if (is_wide_) finish_result<true>(id, holder);
      else finish_result<false>(id, holder);
    }
    know(id);
  }
  template <bool is_wide>
  void finish_result(InstId id, InstId holder) {
    FoldLanes<is_wide> lanes(k_.folds[k_.body[id].access], nest_.lanes);
    lanes.set(width(id), state_cells(holder));
    lanes.result(as_index(k_.body[id].bits), cells(id), width(id));
  }

  void check_order(std::size_t place, const Running& running) const {
    const std::int64_t at = nest_.is_on_gpu ? flat_ : at_[as_index(running.axis)];
    if (at - first_ != running.taken) fail(place, "takes in points out of order");
  }
  void step(std::size_t place) {
    const auto ids = nest_.ids_of(nest_.nodes[place]);
    for (std::size_t i = 0; i < ids.size(); ++i)
      if (nest_.holder(ids, i) == ids[i]) step(place, ids[i]);
    for (; !for_step_.empty(); for_step_.pop_back()) is_known_[for_step_.back()] = 0;
  }
  void step_of_scan(std::size_t place, InstId id) {
    auto& [scan, running, is_open] = scans_[id];
    if (!is_open) fail(place, "not in a fold of its reductions");
    check_order(place, running);
    scan->take(read(place, k_.body[id].args[0]), cells(id), width(id));
    running.taken += running.axis == nest_.vector_axis ? count_ : 1;
    know(id);
  }
  void step(std::size_t place, InstId id) {
    if (is_scan(k_.body[id].prim) && running_[id].empty()) return step_of_scan(place, id);
    if (running_[id].empty()) fail(place, "not in a fold of its reductions");
    Running& running = running_[id].back();
    check_order(place, running);
    if (running.finishes) {
      read(place, id);
      running.fold->take_block(state_cells(id));
    } else {
      const bool is_online = online_sum_.sum == id;
      const int count = is_online ? 1 : arity(k_.body[id].prim);
      for (int k = 0; k < count; ++k)
        in_[as_index(k)] = read(place, is_online ? online_sum_.value : k_.body[id].args[as_index(k)]);
      running.fold->take({in_.data(), as_index(count)}, count_);
    }
    running.taken += running.axis == nest_.vector_axis && !running.finishes ? count_ : 1;
  }

  std::vector<std::vector<std::unique_ptr<CellFold>>> folds_;  // of nodes
  std::vector<std::vector<Running>> running_;                  // of reductions, outer axes first
  std::vector<RunningScan> scans_;                             // of instructions
  std::vector<InstId> for_step_;                               // what is known until the next step
  std::array<const void*, max_fold_states> in_{};              // what a fold takes in
  std::array<std::int64_t, max_axes> tile_{};                  // lengths of tiles
  std::int64_t first_ = 0;                                     // the first point of the block that is walked
  OnlineSum online_sum_;                                       // of the online fold that runs, or ran last
  CellFold* online_ = nullptr;
};

}  // namespace kernel_detail

SINTER_DECL bool applies(const LoopNest& nest, VariantKind kind, const BoundGeometry& geometry) {
  if (!nest.has(kind)) return false;
  const std::int64_t columns = geometry.extent[as_index(nest.vector_axis)];
  switch (kind) {
    case VariantKind::whole: return true;
    case VariantKind::short_rows: return columns >= 1 && columns <= nest.lanes;
    case VariantKind::split: return columns >= 1;
    case VariantKind::packed: return true;
  }
  __builtin_unreachable();
}

SINTER_DECL void interpret(const LoopNest& nest, VariantKind kind, const BoundGeometry& geometry,
                           std::span<void* const> operands, InterpretMode mode) {
  ensure(applies(nest, kind, geometry), "interpret: the nest has no such variant for these extents");
  const Kernel& kernel = *nest.kernel;
  ensure(operands.size() == kernel.operands.size(), "interpret: an address for each operand is missing");
  for (int a = 0; a < kernel.rank(); ++a)
    if (!kernel.is_reduced(a) && geometry.extent[as_index(a)] == 0) return;
  kernel_detail::NestInterpreter(nest, geometry, operands, mode).run(kind);
}

SINTER_NAMESPACE_END
