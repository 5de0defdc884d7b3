// Values of a nest at the point where its interpreter stands: what is known there, how instructions, buffers and
// updates make and move it. Knows no loops and no folds but the states that these leave.
#pragma once

#include <sinter/base/address.hpp>
#include <sinter/base/error.hpp>
#include <sinter/base/index.hpp>
#include <sinter/kernel/facts.hpp>
#include <sinter/kernel/gather_error.hpp>
#include <sinter/kernel/loop_nest/cells.hpp>
#include <sinter/kernel/loop_nest/interpreter.hpp>
#include <sinter/kernel/loop_nest/lane_folds.hpp>
#include <sinter/kernel/loop_nest/rooms.hpp>
#include <sinter/kernel/loop_nest/text.hpp>
#include <sinter/kernel/loop_nest/update_runs.hpp>

#include <array>
#include <cstring>
#include <string>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace kernel_detail {

class NestValues {
 public:
  NestValues(const LoopNest& nest, const BoundGeometry& geometry, std::span<void* const> operands, InterpretMode mode)
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

 protected:
  [[noreturn]] SINTER_NOINLINE void fail(std::size_t place, const char* what) const {
    throw InternalError("loop nest, node " + std::to_string(place) + " (" + node_title(nest_, place) + "): " + what);
  }

  bool is_pieces(const Loop& l) const { return is_over_blocks(l) && l.axes == reduced_.mask && reduced_.mask != 0; }
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

  void know(std::size_t id) {
    if (is_known_[id] != 0) return;
    is_known_[id] = 1;
    known_.push_back(id);
  }
  const void* read(std::size_t place, InstId id) {
    if (is_known_[id] == 0) fail(place, "reads a value that was not written on the way to it");
    return cells(id);
  }

  // States of folds -------------------------------------------------------------------------------------------------

  using StatePointers = std::array<void*, max_fold_states>;
  std::size_t state_count(InstId id) const { return kernel_detail::state_count(k_, id); }
  /// Where the state of a reduction is when its fold has ended: its value, unless it has several numbers.
  StatePointers states_of(InstId id) {
    if (k_.body[id].prim != Prim::fold) return {cells(id)};
    StatePointers states{};
    for (std::size_t s = 0; s < state_count(id); ++s) states[s] = states_[id].data() + s * as_index(nest_.lanes);
    return states;
  }
  /// Lanes that a value has: those of the step, or as many equal ones as any step may want.
  std::int64_t width(InstId id) const { return nest_.places[id].is_vector ? count_ : nest_.lanes; }

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
  std::vector<std::vector<CellRoom>> states_;  // of folds that have ended, `lanes` cells each
  std::vector<Room> rooms_;
  // A point, or the number of a block or tile; 0 along axes that are not walked.
  std::array<std::int64_t, max_axes> at_{};
  std::int64_t count_ = 1;  // lanes of the step
  std::int64_t flat_ = 0;   // on a GPU: the point of the reduced axes as one, or a piece of them
  std::uint32_t stage_ = 0, task_ = 0;
};

}  // namespace kernel_detail
SINTER_NAMESPACE_END
