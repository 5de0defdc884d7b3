// FoldLanes: the states of a fold in several lanes, on the host: its programs run as maps over arrays, in the C++ types
// of the dtypes or in wider ones. What order lanes are fed and merged in is the caller's business. Knows scalars; no
// nests, no back ends.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/error.hpp>
#include <sinter/base/index.hpp>
#include <sinter/kernel/loop_nest/cells.hpp>
#include <sinter/ops/scalar_fold.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace kernel_detail {

/// Runs one program over up to `lanes` lanes at a time.
template <bool is_wide>
class ProgramRunner {
 public:
  ProgramRunner(const ScalarProgram& program, std::int64_t lanes)
      : program_(program), room_(program.body.size() * as_index(lanes)), values_(program.body.size()) {
    for (std::size_t i = 0; i < program.body.size(); ++i) {
      const Inst& inst = program.body[i];
      void* const room = room_.data() + i * as_index(lanes);
      values_[i] = room;
      maps_.push_back(nullptr);
      if (inst.prim == Prim::immediate) cell_memory<is_wide>(inst.dtype).fill(room, inst, lanes);
      if (inst.prim == Prim::immediate || inst.prim == Prim::argument) continue;
      const DType from = program.body[inst.args[as_index(arity(inst.prim) - 1)]].dtype;
      maps_[i] = cell_map<is_wide>(inst, from);
      if (maps_[i] == nullptr)
        throw InternalError("fold: " + std::string(name(inst.prim)) + " of " + std::string(name(from)));
    }
  }

  void run(std::span<const void* const> arguments, std::int64_t count) {
    for (std::size_t i = 0; i < program_.body.size(); ++i) {
      const Inst& inst = program_.body[i];
      if (inst.prim == Prim::argument) values_[i] = arguments[inst.bits];
      if (maps_[i] == nullptr) continue;
      std::array<const void*, 3> in{};
      for (int k = 0; k < arity(inst.prim); ++k) in[as_index(k)] = values_[inst.args[as_index(k)]];
      maps_[i](room_.data() + i * (room_.size() / program_.body.size()), in.data(), count);
    }
  }
  const void* result(std::size_t number) const { return values_[program_.results[number]]; }

 private:
  const ScalarProgram& program_;
  std::vector<CellRoom> room_;
  std::vector<const void*> values_;
  std::vector<scalar_meaning::VectorFunction> maps_;
};

template <bool is_wide>
class FoldLanes {
 public:
  using Pointers = std::array<const void*, 2 * max_fold_states>;

  FoldLanes(const ScalarFold& fold, std::int64_t lanes)
      : fold_(fold),
        lanes_(lanes),
        room_(fold.states.size() * as_index(lanes)),
        next_(room_.size()),
        step_(fold.step, lanes),
        merge_(fold.merge, lanes),
        finish_(fold.finish, lanes) {
    for (const FoldState& state : fold.states) bytes_.push_back(cell_memory<is_wide>(state.dtype).bytes);
    for (const DType dtype : fold.arguments) argument_bytes_.push_back(cell_memory<is_wide>(dtype).bytes);
  }

  std::int64_t lanes() const { return lanes_; }
  std::size_t states() const { return bytes_.size(); }
  std::size_t bytes(std::size_t state) const { return bytes_[state]; }
  std::byte* state(std::size_t number, std::int64_t lane = 0) {
    return reinterpret_cast<std::byte*>(room_.data() + number * as_index(lanes_)) + as_index(lane) * bytes_[number];
  }
  /// All states from a lane on.
  Pointers at(std::int64_t lane) {
    Pointers pointers{};
    for (std::size_t s = 0; s < states(); ++s) pointers[s] = state(s, lane);
    return pointers;
  }

  void start() {
    for (std::size_t s = 0; s < states(); ++s)
      cell_memory<is_wide>(fold_.states[s].dtype)
          .fill(state(s), {.dtype = fold_.states[s].dtype, .bits = fold_.states[s].bits}, lanes_);
  }
  /// Lanes [first, first + count) take in a point each: elements [from, from + count) of the arguments.
  void step(std::int64_t first, std::int64_t count, std::span<const void* const> arguments, std::int64_t from = 0) {
    Pointers in = at(first);
    for (std::size_t k = 0; k < argument_bytes_.size(); ++k)
      in[states() + k] = static_cast<const std::byte*>(arguments[k]) + as_index(from) * argument_bytes_[k];
    step_.run(in, count);
    take(step_, first, count);
  }
  /// Lanes [first, first + count), the older, take in states.
  void merge(std::int64_t first, std::int64_t count, std::span<const void* const> newer) {
    Pointers in = at(first);
    for (std::size_t s = 0; s < states(); ++s) in[states() + s] = newer[s];
    merge_.run(in, count);
    take(merge_, first, count);
  }
  /// Lane i with lane i + half, half = lanes / 2, ..., 1: the whole is in lane 0.
  void merge_halves() {
    for (std::int64_t half = lanes_ / 2; half >= 1; half /= 2) merge(0, half, at(half));
  }
  void set(std::int64_t count, std::span<const void* const> states_given) {
    for (std::size_t s = 0; s < states(); ++s) std::memmove(state(s), states_given[s], as_index(count) * bytes_[s]);
  }
  /// A result of the first `count` lanes.
  void result(std::size_t number, void* to, std::int64_t count) {
    finish_.run(at(0), count);
    std::memcpy(to, finish_.result(number), as_index(count) * cell_memory<is_wide>(fold_.result(number)).bytes);
  }

 private:
  void take(const ProgramRunner<is_wide>& program, std::int64_t first, std::int64_t count) {
    // A result may be another state as it was.
    for (std::size_t s = 0; s < states(); ++s)
      std::memcpy(next_.data() + s * as_index(lanes_), program.result(s), as_index(count) * bytes_[s]);
    for (std::size_t s = 0; s < states(); ++s)
      std::memcpy(state(s, first), next_.data() + s * as_index(lanes_), as_index(count) * bytes_[s]);
  }

  const ScalarFold& fold_;
  std::int64_t lanes_;
  std::vector<CellRoom> room_, next_;
  std::vector<std::size_t> bytes_, argument_bytes_;
  ProgramRunner<is_wide> step_, merge_, finish_;
};

}  // namespace kernel_detail
SINTER_NAMESPACE_END
