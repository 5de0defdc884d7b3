// The walk over a nest's nodes.
#pragma once

#include <sinter/kernel/loop_nest/interpreter.hpp>

#include <sinter/base/address.hpp>
#include <sinter/base/error.hpp>
#include <sinter/base/index.hpp>
#include <sinter/kernel/facts.hpp>
#include <sinter/kernel/gather_error.hpp>
#include <sinter/kernel/loop_nest/cell_scans.hpp>
#include <sinter/kernel/loop_nest/cells.hpp>
#include <sinter/kernel/loop_nest/lane_folds.hpp>
#include <sinter/kernel/loop_nest/program_fold.hpp>
#include <sinter/kernel/loop_nest/rooms.hpp>
#include <sinter/kernel/loop_nest/text.hpp>
#include <sinter/kernel/loop_nest/update_runs.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

SINTER_NAMESPACE_BEGIN

namespace kernel_detail {

class NestInterpreter {
 public:
  NestInterpreter(const LoopNest& nest, const BoundGeometry& geometry, std::span<void* const> operands,
                  InterpretMode mode)
      : nest_(nest),
        k_(*nest.kernel),
        g_(geometry),
        operands_(operands),
        is_wide_(mode == InterpretMode::wide),
        reduced_(*nest.kernel, geometry),
        updates_(nest, geometry),
        cells_(k_.body.size() * as_index(nest.lanes)),
        is_known_(2 * k_.body.size()),
        checked_(k_.body.size()),
        folds_(nest.nodes.size()),
        running_(k_.body.size()),
        scans_(k_.body.size()),
        states_(k_.body.size()) {
    for (std::size_t i = 0; i < k_.accesses.size(); ++i) {
      auto& strides = strides_.emplace_back();
      for (int a = 0; a < k_.rank(); ++a) strides[as_index(a)] = stride_of(k_, g_, i, a);
    }
    for (std::size_t i = 0; i < k_.body.size(); ++i) prepare(static_cast<InstId>(i));
    for (const Loop& l : nest_.loops)
      if (l.mode == LoopMode::grid && is_pieces(l)) reduced_.piece = l.step;
    for (const Buffer& buffer : nest_.buffers) rooms_.push_back(make_room(nest, geometry, reduced_, buffer));
  }

  void run(VariantKind kind) {
    nest_.for_each_child(nest_.find(kind), [&](std::size_t stage) {
      ++stage_;
      iterate(stage);
    });
  }

 private:
  [[noreturn]] SINTER_NOINLINE void fail(std::size_t place, const char* what) const {
    throw InternalError("loop nest, node " + std::to_string(place) + " (" + node_title(nest_, place) + "): " + what);
  }

  // What does not change -----------------------------------------------------------------------------------------

  void prepare(InstId id) {
    const Inst& inst = k_.body[id];
    memory_.push_back(is_wide_ ? cell_memory<true>(inst.dtype) : cell_memory<false>(inst.dtype));
    maps_.push_back(nullptr);
    if (inst.prim == Prim::immediate) {
      memory_[id].fill(cells(id), inst, nest_.lanes);
      is_known_[id] = 1;
      return;
    }
    if (inst.prim == Prim::fold) states_[id].resize(k_.folds[inst.access].states.size() * as_index(nest_.lanes));
    const int count = arity(inst.prim);
    if (count == 0 || is_reduction(inst.prim) || is_scan(inst.prim) || reads_memory(inst.prim)) return;
    const DType from = k_.body[inst.args[as_index(count - 1)]].dtype;
    maps_[id] = is_wide_ ? cell_map<true>(inst, from) : cell_map<false>(inst, from);
    if (maps_[id] == nullptr)
      throw InternalError("primitive " + std::string(name(inst.prim)) + " has no meaning for " +
                          std::string(name(from)));
  }
  std::int64_t extent(int axis) const { return g_.extent[as_index(axis)]; }
  void* cells(InstId id) { return cells_.data() + as_index(id) * as_index(nest_.lanes); }

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
  void know(std::size_t id) {
    if (is_known_[id] != 0) return;
    is_known_[id] = 1;
    known_.push_back(id);
  }
  const void* read(std::size_t place, InstId id) {
    if (is_known_[id] == 0) fail(place, "reads a value that was not written on the way to it");
    return cells(id);
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

  bool is_pieces(const Loop& l) const { return is_over_blocks(l) && l.axes == reduced_.mask && reduced_.mask != 0; }
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
  using StatePointers = std::array<void*, max_fold_states>;
  std::size_t state_count(InstId id) const { return kernel_detail::state_count(k_, id); }
  /// Where the state of a reduction is when its fold has ended: its value, unless it has several numbers.
  StatePointers states_of(InstId id) {
    if (k_.body[id].prim != Prim::fold) return {cells(id)};
    StatePointers states{};
    for (std::size_t s = 0; s < state_count(id); ++s) states[s] = states_[id].data() + s * as_index(nest_.lanes);
    return states;
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
  /// Lanes that a value has: those of the step, or as many equal ones as any step may want.
  std::int64_t width(InstId id) const { return nest_.places[id].is_vector ? count_ : nest_.lanes; }

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

  // Values -----------------------------------------------------------------------------------------------------------

  std::byte* address(std::uint16_t access, std::int64_t displacement) const {
    std::int64_t element = g_.accesses[access].offset + displacement;
    for (int a = 0; a < k_.rank(); ++a) element += at_[as_index(a)] * strides_[access][as_index(a)];
    const std::uint16_t operand = k_.accesses[access].operand;
    return displaced(static_cast<std::byte*>(operands_[operand]), element * size_of(k_.operands[operand].dtype));
  }
  CellMemory memory_of(std::uint16_t access) const {
    const DType dtype = dtype_in_memory(k_, access);
    return is_wide_ ? cell_memory<true>(dtype) : cell_memory<false>(dtype);
  }
  std::int64_t lane_stride(std::uint16_t access) const { return strides_[access][as_index(nest_.vector_axis)]; }

  void compute(std::size_t place, InstId id) {
    const Inst& inst = k_.body[id];
    const bool is_vector = nest_.places[id].is_vector;
    if (inst.prim == Prim::load) {
      memory_of(inst.access).load(cells(id), address(inst.access, 0), lane_stride(inst.access), is_vector ? count_ : 1);
      if (!is_vector) memory_[id].spread(cells(id), nest_.lanes);
    } else if (inst.prim == Prim::gather) {
      gather(place, id);
    } else if (inst.prim == Prim::guarded_load) {
      guarded_load(place, id);
    } else if (inst.prim == Prim::index) {
      const auto axis = as_index(inst.bits);
      auto* indices = static_cast<std::int64_t*>(cells(id));
      for (std::int64_t l = 0; l < width(id); ++l)
        indices[l] = at_[axis] + (is_vector && static_cast<int>(axis) == nest_.vector_axis ? l : 0);
    } else {
      std::array<const void*, 3> arguments{};
      for (int k = 0; k < arity(inst.prim); ++k) arguments[as_index(k)] = read(place, inst.args[as_index(k)]);
      if (maps_[id] == nullptr) fail(place, "computes what is no map");
      maps_[id](cells(id), arguments.data(), width(id));
    }
    know(id);
  }

  /// Lane by lane, so that nothing is read where the condition does not hold.
  void guarded_load(std::size_t place, InstId id) {
    const Inst& inst = k_.body[id];
    const auto* holds = static_cast<const Stored<bool>*>(read(place, inst.args[0]));
    const auto* fill = static_cast<const std::byte*>(read(place, inst.args[1]));
    const bool is_vector = nest_.places[id].is_vector;
    const std::size_t bytes = memory_[id].bytes;
    for (std::int64_t l = 0; l < (is_vector ? count_ : 1); ++l) {
      std::byte* cell = static_cast<std::byte*>(cells(id)) + as_index(l) * bytes;
      if (holds[l]) memory_of(inst.access).load(cell, address(inst.access, l * lane_stride(inst.access)), 0, 1);
      else std::memcpy(cell, fill + as_index(l) * bytes, bytes);
    }
    if (!is_vector) memory_[id].spread(cells(id), nest_.lanes);
  }

  std::int64_t index_at(InstId index, std::int64_t lane) {
    return k_.body[index].dtype == DType::i32 ? static_cast<const std::int32_t*>(cells(index))[lane]
                                              : static_cast<const std::int64_t*>(cells(index))[lane];
  }
  std::int64_t checked_index(InstId gather, std::int64_t lane) {
    const std::int64_t index = index_at(k_.body[gather].args[0], lane);
    const std::int64_t end = g_.accesses[k_.body[gather].access].gather_extent;
    if (index < 0 || index >= end) throw GatherError(index, end);
    return index;
  }
  void gather(std::size_t place, InstId id) {
    const Inst& inst = k_.body[id];
    const bool is_vector = nest_.places[id].is_vector, is_checked = is_known_[k_.body.size() + id] != 0;
    if (!is_checked) read(place, inst.args[0]);
    for (std::int64_t l = 0; l < (is_vector ? count_ : 1); ++l) {
      const std::int64_t index = is_checked ? checked_[id] : checked_index(id, l);
      const std::int64_t element = index * g_.accesses[inst.access].gather_stride + l * lane_stride(inst.access);
      memory_of(inst.access)
          .load(static_cast<std::byte*>(cells(id)) + as_index(l) * memory_[id].bytes, address(inst.access, element), 0,
                1);
    }
    if (!is_vector) memory_[id].spread(cells(id), nest_.lanes);
  }
  void check(std::size_t place) {
    const InstId gather = nest_.nodes[place].first;
    read(place, k_.body[gather].args[0]);
    checked_[gather] = checked_index(gather, 0);
    know(k_.body.size() + gather);
  }

  void store(std::size_t place) {
    const Store& s = k_.stores[nest_.nodes[place].first];
    const void* value = read(place, s.value);
    memory_of(s.access).store(value, address(s.access, 0), lane_stride(s.access), count_);
  }

  std::int64_t checked_index(std::size_t place, const Store& s) {
    read(place, s.index);
    const std::int64_t index = index_at(s.index, 0), end = g_.accesses[s.access].gather_extent;
    if (index < 0 || index >= end) throw GatherError(index, end);
    return index;
  }
  void check_index(std::size_t place) { updates_.list(checked_index(place, k_.stores[nest_.nodes[place].first]), at_); }
  void update(std::size_t place) {
    const Store& s = k_.stores[nest_.nodes[place].first];
    const void* value = read(place, s.value);
    const std::int64_t index = updates_.is_from_list() ? updates_.place() : checked_index(place, s);
    if (!updates_.takes(index)) return;
    std::byte* const target = address(s.access, index * g_.accesses[s.access].gather_stride);
    CellRoom old;
    memory_of(s.access).load(&old, target, 0, 1);
    (is_wide_ ? combine_cells<true> : combine_cells<false>)(s.combine, dtype_in_memory(k_, s.access), &old, value);
    memory_of(s.access).store(&old, target, 0, 1);
  }

  // Buffers ----------------------------------------------------------------------------------------------------------

  /// Calls move(number of a cell, lane) for the cells of this step.
  template <class Move>
  void for_each_cell(const NestNode& n, const Room& room, Move&& move) const {
    std::int64_t first = 0;
    for (int a = 0; a < k_.rank(); ++a) first += at_[as_index(a)] * room.stride[as_index(a)];
    first += flat_ * room.flat_stride;
    const Buffer& buffer = nest_.buffer_of(n);
    // On a GPU each column has its cell, whether or not the value differs.
    const bool is_vector = nest_.places[buffer.value].is_vector ||
                           (nest_.is_on_gpu && (buffer.axes & ~reduced_.mask & axis_bit(nest_.vector_axis)) != 0);
    for (std::int64_t l = 0; l < (is_vector ? count_ : 1); ++l)
      move(as_index(first + l * room.lane_stride), as_index(l));
  }
  /// Beyond the part of a row that is kept.
  bool is_beyond(const NestNode& n) const {
    const std::int64_t points = nest_.buffer_of(n).points;
    return points != 0 && flat_ >= points;
  }
  bool is_workspace(const NestNode& n) const { return nest_.buffer_of(n).space == BufferSpace::workspace; }

  void keep(std::size_t place) {
    const NestNode& n = nest_.nodes[place];
    Room& room = rooms_[n.first];
    const InstId id = nest_.buffer_of(n).value;
    if (is_beyond(n)) return;
    const auto* value = static_cast<const std::byte*>(read(place, id));
    for_each_cell(n, room, [&](std::size_t cell, std::size_t lane) {
      std::memcpy(&room.cells[cell], value + lane * memory_[id].bytes, memory_[id].bytes);
      keep_state(room, cell, id, lane);
      room.marks[cell] = is_workspace(n) ? stage_ : task_;
    });
  }
  void fetch(std::size_t place) {
    const NestNode& n = nest_.nodes[place];
    const Room& room = rooms_[n.first];
    const InstId id = nest_.buffer_of(n).value;
    if (is_beyond(n)) return compute(place, id);
    for_each_cell(n, room, [&](std::size_t cell, std::size_t lane) {
      const std::uint32_t mark = room.marks[cell];
      if (is_workspace(n) ? mark == 0 || mark >= stage_ : mark != task_)
        fail(place, "fetches from a buffer what was not kept there");
      fetch_state(room, cell, id, lane);
      std::memcpy(static_cast<std::byte*>(cells(id)) + lane * memory_[id].bytes, &room.cells[cell], memory_[id].bytes);
    });
    if (!nest_.places[id].is_vector) memory_[id].spread(cells(id), nest_.lanes);
    know(id);
  }
  /// The states of a fold lie behind the values, one cell each.
  void keep_state(Room& room, std::size_t cell, InstId id, std::size_t lane) {
    if (k_.body[id].prim != Prim::fold) return;
    for (std::size_t s = 0; s < state_count(id); ++s)
      std::memcpy(&room.cells[(s + 1) * room.marks.size() + cell], state_of_lane(id, s, lane), state_bytes(id, s));
  }
  void fetch_state(const Room& room, std::size_t cell, InstId id, std::size_t lane) {
    if (k_.body[id].prim != Prim::fold) return;
    for (std::size_t s = 0; s < state_count(id); ++s)
      std::memcpy(state_of_lane(id, s, lane), &room.cells[(s + 1) * room.marks.size() + cell], state_bytes(id, s));
  }
  std::size_t state_bytes(InstId id, std::size_t state) const {
    const DType dtype = k_.folds[k_.body[id].access].states[state].dtype;
    return (is_wide_ ? cell_memory<true>(dtype) : cell_memory<false>(dtype)).bytes;
  }
  std::byte* state_of_lane(InstId id, std::size_t state, std::size_t lane) {
    return static_cast<std::byte*>(states_of(id)[state]) + lane * state_bytes(id, state);
  }

  const LoopNest& nest_;
  const Kernel& k_;
  const BoundGeometry& g_;
  std::span<void* const> operands_;
  bool is_wide_;
  JoinedAxes reduced_;
  UpdateRuns updates_;
  std::vector<std::array<std::int64_t, max_axes>> strides_;  // of accesses
  std::vector<CellMemory> memory_;                           // of instructions
  std::vector<scalar_meaning::VectorFunction> maps_;
  std::vector<CellRoom> cells_;
  std::vector<char> is_known_;      // instructions, then gathers whose index was checked and scans' carries
  std::vector<std::size_t> known_;  // those, in the order in which they came to be known
  std::vector<std::int64_t> checked_;
  std::vector<std::vector<std::unique_ptr<CellFold>>> folds_;  // of nodes
  std::vector<std::vector<Running>> running_;                  // of reductions, outer axes first
  std::vector<RunningScan> scans_;                             // of instructions
  std::vector<InstId> for_step_;                               // what is known until the next step
  std::vector<std::vector<CellRoom>> states_;                  // of folds that have ended, `lanes` cells each
  std::array<const void*, max_fold_states> in_{};              // what a fold takes in
  std::vector<Room> rooms_;
  // A point, or the number of a block or tile; 0 along axes that are not walked.
  std::array<std::int64_t, max_axes> at_{};
  std::array<std::int64_t, max_axes> tile_{};  // lengths of tiles
  std::int64_t count_ = 1;                     // lanes of the step
  std::int64_t first_ = 0;                     // the first point of the block that is walked
  std::int64_t flat_ = 0;                      // on a GPU: the point of the reduced axes as one, or a piece of them
  OnlineSum online_sum_;                       // of the online fold that runs, or ran last
  CellFold* online_ = nullptr;
  std::uint32_t stage_ = 0, task_ = 0;
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
