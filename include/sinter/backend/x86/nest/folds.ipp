// Folds with state in generated loops: their programs on vectors, one register for each number of a state. Every step
// computes the new numbers first and then moves them, by the condition itself where a number is chosen or kept, so that
// lanes beyond a tail keep theirs.
#pragma once

#include <sinter/backend/x86/nest/generator.hpp>

#include <sinter/backend/x86/machine/lower.hpp>
#include <sinter/base/index.hpp>

#include <algorithm>
#include <cstddef>

SINTER_NAMESPACE_BEGIN
namespace x86 {

/// Indices of i32 stay so inside programs.
SINTER_DECL DType LoopGenerator::in_register(DType dtype) const {
  return dtype == DType::i64 && nest_.narrow_index ? DType::i32 : dtype;
}

/// The running values of reduction number `i` of the list for vector `copy`: one, or its state; none for a further
/// result of a fold that the list has already.
SINTER_DECL void LoopGenerator::add_values(std::vector<Running>& values, Reductions reductions, std::size_t i,
                                           int copy) {
  const Inst& inst = kernel_.body[reductions[i]];
  if (nest_.holder(reductions, i) != reductions[i]) return;
  const std::size_t numbers = inst.prim == Prim::fold ? kernel_.folds[inst.access].states.size() : 1;
  for (std::size_t n = 0; n < numbers; ++n) {
    const DType dtype = inst.prim == Prim::fold ? in_register(kernel_.folds[inst.access].states[n].dtype) : inst.dtype;
    values.push_back({.reg = s_.new_vec(b_.bytes(lane_of(dtype))),
                      .prim = inst.prim,
                      .dtype = dtype,
                      .holder = reductions[i],
                      .number = static_cast<std::uint16_t>(n),
                      .copy = copy});
  }
}

SINTER_DECL std::size_t LoopGenerator::numbers_of(const Running& value) const {
  return value.prim == Prim::fold ? fold_of(value).states.size() : 1;
}

SINTER_DECL LoopGenerator::Point LoopGenerator::point_of(InstId holder, int copy) {
  const Inst& inst = kernel_.body[holder];
  Point point = no_point;
  for (std::size_t k = 0; k < kernel_.folds[inst.access].arguments.size(); ++k)
    point[k] = body_.value(inst.args[k], copy);
  return point;
}

/// All values of a program but those that `skips` says.
SINTER_DECL std::vector<VReg> LoopGenerator::run_program(const ScalarProgram& program, std::span<const VReg> arguments,
                                                         const std::vector<char>& skips) {
  std::vector<VReg> values(program.body.size(), no_vreg);
  for (std::size_t i = 0; i < program.body.size(); ++i) {
    Inst inst = program.body[i];
    if (skips[i] != 0) continue;
    if (inst.prim == Prim::argument) {
      values[i] = arguments[inst.bits];
    } else if (inst.prim == Prim::immediate) {
      values[i] = body_.constant_of(inst);
    } else {
      std::array<VReg, 3> in{};
      const int count = arity(inst.prim);
      for (int k = 0; k < count; ++k) in[as_index(k)] = values[inst.args[as_index(k)]];
      const DType from = in_register(program.body[inst.args[as_index(count - 1)]].dtype);
      inst.dtype = in_register(inst.dtype);
      values[i] = lower(b_, inst, from, std::span<const VReg>(in.data(), as_index(count)));
    }
  }
  return values;
}

/// Is result `number` the argument of that number, or under a condition another value? Then the condition moves it.
SINTER_DECL bool LoopGenerator::is_conditional(const ScalarProgram& program, std::size_t number) {
  const InstId result = program.results[number];
  const Inst& inst = program.body[result];
  if (inst.prim != Prim::select) return false;
  const Inst& otherwise = program.body[inst.args[2]];
  if (otherwise.prim != Prim::argument || otherwise.bits != number) return false;
  std::size_t uses = as_index(std::count(program.results.begin(), program.results.end(), result));
  for (const Inst& user : program.body)
    for (int k = 0; k < arity(user.prim); ++k) uses += user.args[as_index(k)] == result;
  return uses == 1;
}

/// state = program(arguments), where the tail says so.
SINTER_DECL void LoopGenerator::update_state(std::span<const Running> state, const ScalarProgram& program,
                                             std::span<const VReg> arguments, const Tail& tail) {
  const bool is_older = arguments[0] == state[0].reg;  // else the state is what follows
  std::vector<char> skips(program.body.size());
  for (std::size_t n = 0; n < state.size(); ++n)
    if (is_older && is_conditional(program, n)) skips[program.results[n]] = 1;
  const std::vector<VReg> values = run_program(program, arguments, skips);
  std::vector<VReg> next(state.size());
  const auto is_state = [&](VReg reg) {
    return std::any_of(state.begin(), state.end(), [&](const Running& value) { return value.reg == reg; });
  };
  for (std::size_t n = 0; n < state.size(); ++n) {
    const InstId result = program.results[n];
    next[n] = values[skips[result] != 0 ? program.body[result].args[1] : result];
    if (next[n] != state[n].reg && is_state(next[n])) next[n] = b_.copy(lane_of(state[n].dtype), next[n]);
  }
  for (std::size_t n = 0; n < state.size(); ++n) {
    const InstId result = program.results[n];
    const Lane lane = lane_of(state[n].dtype);
    if (skips[result] != 0) {
      VReg condition = values[program.body[result].args[0]];
      if (tail.active()) condition = b_.mask_and(condition, tail.mask);
      b_.assign_where(lane, state[n].reg, next[n], Tail{.mask = condition});
    } else if (next[n] != state[n].reg) {
      const bool is_shared = std::count(next.begin(), next.end(), next[n]) != 1;
      if (tail.active() || is_shared || !s_.retarget_last(next[n], state[n].reg))
        b_.assign_where(lane, state[n].reg, next[n], tail);
    }
  }
}

SINTER_DECL void LoopGenerator::step_state(std::span<const Running> state, const Point& point, const Tail& tail) {
  std::vector<VReg> arguments;
  for (const Running& value : state) arguments.push_back(value.reg);
  for (const VReg reg : point)
    if (reg != no_vreg) arguments.push_back(reg);
  update_state(state, fold_of(state[0]).step, arguments, tail);
}

/// One vector of a row: the lanes that it belongs to take in a point each.
SINTER_DECL void LoopGenerator::accumulate_fold(std::size_t first, const Lane0& lane) {
  std::vector<Running> state(running_.begin() + static_cast<std::ptrdiff_t>(first),
                             running_.begin() + static_cast<std::ptrdiff_t>(first + numbers_of(running_[first])));
  for (std::size_t n = 0; n < state.size(); ++n) {
    const std::vector<VReg>& lanes = accumulators_[first + n].lanes;
    state[n].reg = lanes[as_index(lane.copy) % lanes.size()];
  }
  step_state(state, point_of(state[0].holder, lane.copy), lane.tail);
}

/// The state, which is the older, takes in another.
SINTER_DECL void LoopGenerator::merge_state(std::span<const Running> state, std::span<const VReg> newer) {
  std::vector<VReg> arguments;
  for (const Running& value : state) arguments.push_back(value.reg);
  arguments.insert(arguments.end(), newer.begin(), newer.end());
  update_state(state, fold_of(state[0]).merge, arguments, Tail{});
}

/// The state, which is the newer, is taken in by another, and has the result.
SINTER_DECL void LoopGenerator::merge_into_newer(std::span<const VReg> older, std::span<const Running> state) {
  std::vector<VReg> arguments(older.begin(), older.end());
  for (const Running& value : state) arguments.push_back(value.reg);
  update_state(state, fold_of(state[0]).merge, arguments, Tail{});
}

/// The state of all lanes of the block in every lane of `state`, which begins with the value number `first`.
SINTER_DECL void LoopGenerator::combine_state_lanes(std::span<const Running> state, std::size_t first) {
  const auto part = [&](std::size_t which) {
    std::vector<Running> values(state.begin(), state.end());
    for (std::size_t n = 0; n < values.size(); ++n) values[n].reg = accumulators_[first + n].lanes[which];
    return values;
  };
  for (std::size_t half = accumulators_[first].lanes.size() / 2; half >= 1; half /= 2)
    for (std::size_t i = 0; i < half; ++i) {
      std::vector<VReg> newer;
      for (const Running& value : part(i + half)) newer.push_back(value.reg);
      merge_state(part(i), newer);
    }
  for (std::size_t n = 0; n < state.size(); ++n)
    b_.assign(lane_of(state[n].dtype), state[n].reg, accumulators_[first + n].lanes[0]);
  merge_halves(state);
}

/// Lane i of a vector with lane i + half, half = lanes / 2, ..., 1; the result in every lane. On whole vectors: lanes
/// above those that count hold what does not matter.
SINTER_DECL void LoopGenerator::merge_halves(std::span<const Running> state) {
  for (int lanes = nest_.lanes; lanes > 1; lanes /= 2) {
    std::vector<VReg> upper;
    for (const Running& value : state) upper.push_back(b_.upper_lanes(lane_of(value.dtype), value.reg, lanes));
    merge_state(state, upper);
  }
  for (const Running& value : state) {
    const Lane lane = lane_of(value.dtype);
    b_.assign(lane, value.reg, b_.broadcast_first(lane, value.reg));
  }
}

/// Along an axis that is not the vector axis: a point, or what was folded along an inner axis.
SINTER_DECL void LoopGenerator::enter_fold(const std::vector<Running>& values, std::size_t first,
                                           const std::vector<Running>& items) {
  const std::span<const Running> state = std::span(values).subspan(first, numbers_of(values[first]));
  if (items[first].point != no_point) return step_state(state, items[first].point, Tail{});
  std::vector<VReg> newer;
  for (std::size_t n = 0; n < state.size(); ++n) newer.push_back(items[first + n].reg);
  merge_state(state, newer);
}

SINTER_DECL void LoopGenerator::add_state_to_totals(const Totals& totals, const std::vector<Running>& values,
                                                    std::size_t first) {
  const std::span<const Running> state = std::span(values).subspan(first, numbers_of(values[first]));
  std::vector<VReg> older;
  for (std::size_t n = 0; n < state.size(); ++n)
    older.push_back(b_.load_whole(lane_of(state[n].dtype), totals.sum(first + n)));
  merge_into_newer(older, state);
  for (std::size_t n = 0; n < state.size(); ++n)
    b_.store_whole(lane_of(state[n].dtype), totals.sum(first + n), state[n].reg);
}

SINTER_DECL std::size_t LoopGenerator::find_state(std::span<const Running> values, const Inst& result, int copy) const {
  std::size_t at = 0;
  while (values[at].prim != Prim::fold || values[at].copy != copy ||
         !shares_state(kernel_.body[values[at].holder], result))
    ++at;
  return at;
}

/// A result of an ended fold.
SINTER_DECL void LoopGenerator::publish_fold(InstId result, std::span<const Running> values, int copy) {
  const Inst& inst = kernel_.body[result];
  const std::size_t first = find_state(values, inst, copy);
  const ScalarProgram& program = fold_of(values[first]).finish;
  std::vector<VReg> state;
  for (std::size_t n = 0; n < numbers_of(values[first]); ++n) state.push_back(values[first + n].reg);
  std::vector<char> skips(program.body.size(), 1);
  const std::vector<bool> needed = instructions_under(program.body, program.results[inst.bits]);
  for (std::size_t i = 0; i < needed.size(); ++i) skips[i] = !needed[i];
  const VReg value = run_program(program, state, skips)[program.results[inst.bits]];
  body_.set_value(result, copy, value);
}

/// The same for rows of one vector: each row has a state of its own, and all of them take turns in each step.
SINTER_DECL void LoopGenerator::short_rows_fold(Reductions reductions, std::size_t reduction, int rows,
                                                const Tail& tail) {
  const InstId holder = reductions[reduction];
  std::vector<Running> values;
  for (int row = 0; row < rows; ++row) add_values(values, reductions, reduction, row);
  if (values.empty()) return;
  const std::size_t numbers = numbers_of(values[0]);
  const auto state = [&](std::size_t row) { return std::span<const Running>(values).subspan(row * numbers, numbers); };
  for (const Running& value : values) b_.assign(lane_of(value.dtype), value.reg, neutral(value));
  for (int row = 0; row < rows; ++row) step_state(state(as_index(row)), point_of(holder, row), tail);
  for (int row = 0; row < rows; ++row) merge_halves(state(as_index(row)));
  for (const InstId result : reductions)
    if (shares_state(kernel_.body[holder], kernel_.body[result]))
      for (int row = 0; row < rows; ++row) publish_fold(result, values, row);
}

}  // namespace x86
SINTER_NAMESPACE_END
