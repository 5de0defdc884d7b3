// The ready folds, and what holds for every one.
#pragma once

#include <sinter/ops/scalar_fold.hpp>

#include <sinter/base/error.hpp>

#include <bit>
#include <cstdio>
#include <limits>

SINTER_NAMESPACE_BEGIN

SINTER_DECL FoldState fold_state(DType dtype, double value) {
  ScalarBuilder builder;
  return {dtype, builder.body().at(builder.imm(value, dtype).id).bits};
}

namespace ops_detail {

enum class Extreme : std::uint8_t { smallest, largest };

/// What nothing is beyond.
inline FoldState least_extreme(DType dtype, Extreme which) {
  const bool is_largest = which == Extreme::largest;
  if (is_floating(dtype))
    return fold_state(dtype,
                      is_largest ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity());
  return visit_computed(dtype, [&](auto tag) -> FoldState {
    using Limits = std::numeric_limits<decltype(tag)>;
    return {dtype,
            static_cast<std::uint64_t>(static_cast<std::int64_t>(is_largest ? Limits::lowest() : Limits::max()))};
  });
}

/// Whether `x` is more extreme than `best`: beyond it, or the first NaN.
inline ScalarValue is_beyond(ScalarBuilder& s, ScalarValue x, ScalarValue best, Extreme which) {
  if (!is_floating(x.dtype)) return which == Extreme::largest ? s.lt(best, x) : s.lt(x, best);
  const ScalarValue is_not = which == Extreme::largest ? s.le(x, best) : s.le(best, x);
  const ScalarValue is_number = s.eq(best, best);  // by itself: compilers differ in which argument comes first
  return s.and_(s.not_(is_not), is_number);
}

/// A state that nothing has entered has position 0 and the least extreme: a row of nothing else has its first element
/// at 0, too.
inline ScalarFold position_fold(DType value, PositionOrder order, Extreme which) {
  const auto take = [](ScalarBuilder& s, ScalarValue condition, const ScalarValues& a, const ScalarValues& b) {
    return ScalarValues{s.select(condition, a[0], b[0]), s.select(condition, a[1], b[1])};
  };
  // Lanes are not runs of neighbours: of equals the one with the lower position is the first.
  const auto merge = [&](ScalarBuilder& s, const ScalarValues& older, const ScalarValues& newer) {
    ScalarValue is_equal = s.eq(older[0], newer[0]);
    if (is_floating(value)) {
      const ScalarValue newer_is_nan = s.ne(newer[0], newer[0]);
      is_equal = s.or_(is_equal, s.and_(s.ne(older[0], older[0]), newer_is_nan));
    }
    const ScalarValue is_earlier = s.and_(is_equal, s.lt(newer[1], older[1]));
    return take(s, s.or_(is_beyond(s, newer[0], older[0], which), is_earlier), newer, older);
  };
  const auto step = [&](ScalarBuilder& s, const ScalarValues& state, const ScalarValues& point) {
    if (order == PositionOrder::any) return merge(s, state, point);
    return take(s, is_beyond(s, point[0], state[0], which), point, state);
  };
  return make_fold({value, DType::i64}, {least_extreme(value, which), fold_state(DType::i64, 0)}, step, merge,
                   [](ScalarBuilder&, const ScalarValues& state) { return ScalarValues{state[1], state[0]}; });
}

/// What to take a number's distance from: 0 where all are infinite, or there are none.
inline ScalarValue finite_or_zero(ScalarBuilder& s, ScalarValue greatest) {
  const ScalarValue infinity = s.imm(std::numeric_limits<double>::infinity(), greatest);
  return s.select(s.eq(s.abs(greatest), infinity), s.imm(0, greatest), greatest);
}

/// Two states (greatest, sums...) as one: sums are scaled to the greater of both. NaN in the greatest goes everywhere.
inline ScalarValues merge_scaled(ScalarBuilder& s, const ScalarValues& older, const ScalarValues& newer) {
  const ScalarValue greatest = s.max(older[0], newer[0]), origin = finite_or_zero(s, greatest);
  const ScalarValue lowest = s.imm(-std::numeric_limits<double>::infinity(), greatest);
  const auto scale = [&](const ScalarValues& state) { return s.exp(s.sub(state[0], origin)); };
  const ScalarValue older_scale = scale(older), newer_scale = scale(newer);
  ScalarValues merged{greatest};
  for (std::size_t i = 1; i < older.size(); ++i) {
    const ScalarValue sum = s.add(s.mul(older[i], older_scale), s.mul(newer[i], newer_scale));
    // Nothing but -infinity entered the one: the other stays as it is.
    merged.push_back(s.select(s.eq(newer[0], lowest), older[i], s.select(s.eq(older[0], lowest), newer[i], sum)));
  }
  return merged;
}

}  // namespace ops_detail

SINTER_DECL ScalarFold argmax_fold(DType value, PositionOrder order) {
  return ops_detail::position_fold(value, order, ops_detail::Extreme::largest);
}
SINTER_DECL ScalarFold argmin_fold(DType value, PositionOrder order) {
  return ops_detail::position_fold(value, order, ops_detail::Extreme::smallest);
}

SINTER_DECL ScalarFold min_max_fold(DType value) {
  using ops_detail::Extreme;
  const auto both = [](ScalarBuilder& s, const ScalarValues& a, ScalarValue low, ScalarValue high) {
    return ScalarValues{s.min(a[0], low), s.max(a[1], high)};
  };
  return make_fold(
      {value},
      {ops_detail::least_extreme(value, Extreme::smallest), ops_detail::least_extreme(value, Extreme::largest)},
      [&](ScalarBuilder& s, const ScalarValues& state, const ScalarValues& x) { return both(s, state, x[0], x[0]); },
      [&](ScalarBuilder& s, const ScalarValues& older, const ScalarValues& newer) {
        return both(s, older, newer[0], newer[1]);
      },
      [](ScalarBuilder&, const ScalarValues& state) { return state; });
}

SINTER_DECL ScalarFold moments_fold(DType value) {
  const auto step = [](ScalarBuilder& s, const ScalarValues& state, const ScalarValues& x) {
    const ScalarValue count = s.add(state[0], s.imm(1, state[0])), distance = s.sub(x[0], state[1]);
    const ScalarValue mean = s.add(state[1], s.div(distance, count));
    return ScalarValues{count, mean, s.fma(distance, s.sub(x[0], mean), state[2])};
  };
  const auto merge = [](ScalarBuilder& s, const ScalarValues& older, const ScalarValues& newer) {
    const ScalarValue zero = s.imm(0, older[0]), none_newer = s.eq(newer[0], zero), none_older = s.eq(older[0], zero);
    const ScalarValue count = s.add(older[0], newer[0]), distance = s.sub(newer[1], older[1]);
    const ScalarValue shift = s.mul(distance, s.div(newer[0], count));
    const ScalarValue mean = s.add(older[1], shift);
    const ScalarValue squares = s.fma(s.mul(distance, shift), older[0], s.add(older[2], newer[2]));
    const auto pick = [&](std::size_t i, ScalarValue merged) {
      return s.select(none_newer, older[i], s.select(none_older, newer[i], merged));
    };
    return ScalarValues{count, pick(1, mean), pick(2, squares)};
  };
  return make_fold({value}, {fold_state(value, 0), fold_state(value, 0), fold_state(value, 0)}, step, merge,
                   [](ScalarBuilder&, const ScalarValues& state) { return state; });
}

SINTER_DECL ScalarFold log_sum_exp_fold(DType value) {
  const double lowest = -std::numeric_limits<double>::infinity();
  return make_fold(
      {value}, {fold_state(value, lowest), fold_state(value, 0)},
      [](ScalarBuilder& s, const ScalarValues& state, const ScalarValues& x) {
        const ScalarValue greatest = s.max(state[0], x[0]), origin = ops_detail::finite_or_zero(s, greatest);
        return ScalarValues{greatest, s.fma(state[1], s.exp(s.sub(state[0], origin)), s.exp(s.sub(x[0], origin)))};
      },
      ops_detail::merge_scaled,
      [](ScalarBuilder& s, const ScalarValues& state) {
        return ScalarValues{s.add(s.log(state[1]), ops_detail::finite_or_zero(s, state[0])), state[0], state[1]};
      });
}

SINTER_DECL ScalarFold softmax_mean_fold(DType value) {
  const double lowest = -std::numeric_limits<double>::infinity();
  return make_fold(
      {value, value}, {fold_state(value, lowest), fold_state(value, 0), fold_state(value, 0)},
      [](ScalarBuilder& s, const ScalarValues& state, const ScalarValues& point) {
        const ScalarValue greatest = s.max(state[0], point[0]), origin = ops_detail::finite_or_zero(s, greatest);
        const ScalarValue scale = s.exp(s.sub(state[0], origin)), weight = s.exp(s.sub(point[0], origin));
        return ScalarValues{greatest, s.fma(state[1], scale, weight), s.fma(state[2], scale, s.mul(weight, point[1]))};
      },
      ops_detail::merge_scaled,
      [](ScalarBuilder& s, const ScalarValues& state) {
        return ScalarValues{s.div(state[2], state[1]), s.add(s.log(state[1]), ops_detail::finite_or_zero(s, state[0]))};
      });
}

SINTER_DECL std::span<const FoldRow> fold_rows() {
  static constexpr FoldRow rows[] = {
      {"argmax", [](DType value) { return argmax_fold(value); }, true},
      {"argmin", [](DType value) { return argmin_fold(value); }, true},
      {"min_max", min_max_fold, true},
      {"moments", moments_fold, false},
      {"log_sum_exp", log_sum_exp_fold, false},
      {"softmax_mean", softmax_mean_fold, false},
  };
  return rows;
}

// Every fold ---------------------------------------------------------------------------------------------------------

namespace ops_detail {
inline bool may_stand_in_program(Prim prim) {
  return prim != Prim::load && prim != Prim::gather && prim != Prim::index && !is_reduction(prim);
}

inline void verify_program(const ScalarProgram& program, std::span<const DType> arguments) {
  for (std::size_t i = 0; i < program.body.size(); ++i) {
    const Inst& inst = program.body[i];
    ensure(may_stand_in_program(inst.prim), "fold: a program of more than maps");
    for (int k = 0; k < arity(inst.prim); ++k)
      ensure(inst.args[as_index(k)] < i, "fold: a value used before it is made");
    if (inst.prim == Prim::argument)
      ensure(inst.bits < arguments.size() && arguments[inst.bits] == inst.dtype, "fold: an argument that is not there");
  }
  for (const InstId result : program.results) ensure(result < program.body.size(), "fold: a result that is not there");
}

inline void verify_states(const ScalarFold& fold, const ScalarProgram& program) {
  ensure(program.results.size() == fold.states.size(), "fold: not one result for each number of the state");
  for (std::size_t i = 0; i < fold.states.size(); ++i)
    ensure(program.body[program.results[i]].dtype == fold.states[i].dtype, "fold: a state changes its dtype");
}
}  // namespace ops_detail

SINTER_DECL void verify(const ScalarFold& fold) {
  ensure(!fold.arguments.empty() && fold.arguments.size() <= max_fold_arguments, "fold: one to three arguments");
  ensure(!fold.states.empty() && fold.states.size() <= max_fold_states, "fold: one to four states");
  std::vector<DType> state, point, both;
  for (const FoldState& s : fold.states) {
    ensure(s.dtype != DType::bool_, "fold: a state of bool");
    state.push_back(s.dtype);
  }
  point = both = state;
  point.insert(point.end(), fold.arguments.begin(), fold.arguments.end());
  both.insert(both.end(), state.begin(), state.end());
  ops_detail::verify_program(fold.step, point);
  ops_detail::verify_program(fold.merge, both);
  ops_detail::verify_program(fold.finish, state);
  ops_detail::verify_states(fold, fold.step);
  ops_detail::verify_states(fold, fold.merge);
  ensure(!fold.finish.results.empty(), "fold: no result");
}

namespace ops_detail {
inline void add_to_hash(Hasher& h, const ScalarProgram& program) {
  h.add(program.body.size());
  for (const Inst& i : program.body) {
    const std::uint64_t word = static_cast<std::uint64_t>(i.prim) << 56 | static_cast<std::uint64_t>(i.dtype) << 48;
    h.add(word | std::uint64_t{i.args[0]} << 32 | std::uint64_t{i.args[1]} << 16 | i.args[2]).add(i.bits);
  }
  for (const InstId result : program.results) h.add(std::uint64_t{result});
}

inline std::string number_text(DType dtype, std::uint64_t bits) {
  const Inst inst{.dtype = dtype, .bits = bits};
  char number[40];
  if (is_floating(dtype)) std::snprintf(number, sizeof number, "%.9g", inst.number());
  else std::snprintf(number, sizeof number, "%lld", static_cast<long long>(inst.integer()));
  return number;
}

inline std::string program_text(std::string_view title, const ScalarProgram& program) {
  std::string text = "    " + std::string(title) + ":\n";
  for (std::size_t i = 0; i < program.body.size(); ++i) {
    const Inst& inst = program.body[i];
    text += "      %" + std::to_string(i) + " = " + std::string(name(inst.dtype)) + " " + std::string(name(inst.prim));
    if (inst.prim == Prim::immediate) text += " " + number_text(inst.dtype, inst.bits);
    if (inst.prim == Prim::argument) text += " " + std::to_string(inst.bits);
    for (int k = 0; k < arity(inst.prim); ++k) text += (k ? ", %" : " %") + std::to_string(inst.args[as_index(k)]);
    text += "\n";
  }
  text += "      give";
  for (std::size_t i = 0; i < program.results.size(); ++i)
    text += (i ? ", %" : " %") + std::to_string(program.results[i]);
  return text + "\n";
}
}  // namespace ops_detail

SINTER_DECL void add_to_hash(Hasher& hasher, const ScalarFold& fold) {
  hasher.add(fold.arguments.size() << 8 | fold.states.size());
  for (const DType dtype : fold.arguments) hasher.add(static_cast<std::uint64_t>(dtype));
  for (const FoldState& state : fold.states) hasher.add(static_cast<std::uint64_t>(state.dtype)).add(state.bits);
  for (const ScalarProgram* program : {&fold.step, &fold.merge, &fold.finish})
    ops_detail::add_to_hash(hasher, *program);
}

SINTER_DECL std::string text(const ScalarFold& fold) {
  std::string text = "of (";
  for (std::size_t i = 0; i < fold.arguments.size(); ++i)
    text += (i ? ", " : "") + std::string(name(fold.arguments[i]));
  text += "), state (";
  for (std::size_t i = 0; i < fold.states.size(); ++i)
    text += (i ? ", " : "") + std::string(name(fold.states[i].dtype)) + " " +
            ops_detail::number_text(fold.states[i].dtype, fold.states[i].bits);
  return text + ")\n" + ops_detail::program_text("step", fold.step) + ops_detail::program_text("merge", fold.merge) +
         ops_detail::program_text("finish", fold.finish);
}

SINTER_NAMESPACE_END
