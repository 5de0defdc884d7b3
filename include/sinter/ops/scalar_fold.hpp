// ScalarFold: a reduction whose running value is a state of several numbers, as scalar programs: what a point does to
// the state, how two states become one, what comes out at the end. The ready ones stand in a table. Knows scalars; no
// axes and no order, which are a Kernel's business.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/hash.hpp>
#include <sinter/base/index.hpp>
#include <sinter/ops/scalar.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

SINTER_NAMESPACE_BEGIN

inline constexpr std::size_t max_fold_arguments = 3, max_fold_states = 4;

/// A straight-line function of scalars: maps of arguments and immediates.
struct ScalarProgram {
  std::vector<Inst> body;
  std::vector<InstId> results;
  friend bool operator==(const ScalarProgram&, const ScalarProgram&) = default;
};

/// One number of a fold's state; not of bool_.
struct FoldState {
  DType dtype = DType::f32;
  std::uint64_t bits = 0;  // what it starts from, as of an immediate
  friend bool operator==(const FoldState&, const FoldState&) = default;
};

/// The state that nothing has entered yet is neutral: merged with another one, on either side, it leaves that other bit
/// by bit. Lanes without points, and rows without elements, rest on it.
struct ScalarFold {
  std::vector<DType> arguments;  // of what enters at a point
  std::vector<FoldState> states;
  ScalarProgram step;    // the state, then the arguments at a point: the state with that point
  ScalarProgram merge;   // the state of what comes first, then that of what follows: the state of both
  ScalarProgram finish;  // the state: the results
  friend bool operator==(const ScalarFold&, const ScalarFold&) = default;

  DType result(std::size_t number) const { return finish.body[finish.results[number]].dtype; }
};

using ScalarValues = std::vector<ScalarValue>;

/// Builds a fold from three functions:
///   step(builder, state, arguments), merge(builder, older, newer), finish(builder, state) -> ScalarValues
template <class Step, class Merge, class Finish>
ScalarFold make_fold(std::vector<DType> arguments, std::vector<FoldState> states, Step&& step, Merge&& merge,
                     Finish&& finish);

/// A starting value of a state.
FoldState fold_state(DType dtype, double value);

/// In which order positions enter a fold.
enum class PositionOrder : std::uint8_t { ascending, any };
/// The lowest position (the second argument, from 0 on) of the largest, or smallest, of the first arguments. NaN counts
/// as the extreme, and zeros as equal. Results: the position, and the element there.
ScalarFold argmax_fold(DType value, PositionOrder order = PositionOrder::ascending);
ScalarFold argmin_fold(DType value, PositionOrder order = PositionOrder::ascending);
/// The smallest and the largest number; NaN wins, and -0 is less than +0.
ScalarFold min_max_fold(DType value);
/// How many, their mean, and the sum of squared deviations from it, by Chan, Golub and LeVeque, "Updating formulae and
/// a pairwise algorithm for computing sample variances", 1979. Results in that order. Floating dtypes.
ScalarFold moments_fold(DType value);
/// log(sum(exp(x))), without overflow: the greatest number, and the sum of exponentials of the differences from it.
/// Results: the logarithm, the greatest, the sum. Floating dtypes.
ScalarFold log_sum_exp_fold(DType value);
/// sum(exp(x) * y) / sum(exp(x)) for arguments x and y, the middle of an attention. Results: that, and the logarithm of
/// sum(exp(x)). Floating dtypes.
ScalarFold softmax_mean_fold(DType value);

struct FoldRow {
  std::string_view name;
  ScalarFold (*make)(DType value);
  bool takes_integers;
};
std::span<const FoldRow> fold_rows();

/// Throws InternalError where dtypes or numbers do not fit.
void verify(const ScalarFold& fold);
void add_to_hash(Hasher& hasher, const ScalarFold& fold);
/// Indented lines.
std::string text(const ScalarFold& fold);
/// Whether both are results of one fold over the same values, so that they share its state.
constexpr bool shares_state(const Inst& a, const Inst& b) {
  return a.prim == Prim::fold && b.prim == Prim::fold && a.access == b.access && a.args == b.args;
}

namespace ops_detail {
inline ScalarValues program_arguments(ScalarBuilder& builder, std::span<const DType> dtypes, std::size_t first) {
  ScalarValues values;
  for (std::size_t i = 0; i < dtypes.size(); ++i)
    values.push_back(builder.argument(static_cast<int>(first + i), dtypes[i]));
  return values;
}
inline ScalarProgram program_of(ScalarBuilder& builder, const ScalarValues& results) {
  ScalarProgram program;
  for (const ScalarValue& value : results) program.results.push_back(value.id);
  program.body = builder.take();
  return program;
}
}  // namespace ops_detail

template <class Step, class Merge, class Finish>
ScalarFold make_fold(std::vector<DType> arguments, std::vector<FoldState> states, Step&& step, Merge&& merge,
                     Finish&& finish) {
  using ops_detail::program_arguments;
  ScalarFold fold{std::move(arguments), std::move(states), {}, {}, {}};
  std::vector<DType> state;
  for (const FoldState& s : fold.states) state.push_back(s.dtype);
  ScalarBuilder stepping, merging, finishing;
  const ScalarValues before = program_arguments(stepping, state, 0);
  const ScalarValues taken = program_arguments(stepping, fold.arguments, state.size());
  fold.step = ops_detail::program_of(stepping, step(stepping, before, taken));
  const ScalarValues older = program_arguments(merging, state, 0),
                     newer = program_arguments(merging, state, state.size());
  fold.merge = ops_detail::program_of(merging, merge(merging, older, newer));
  const ScalarValues last = program_arguments(finishing, state, 0);
  fold.finish = ops_detail::program_of(finishing, finish(finishing, last));
  verify(fold);
  return fold;
}

SINTER_NAMESPACE_END
