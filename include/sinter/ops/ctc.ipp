// The recursions over steps, in logarithms.
#pragma once

#include <sinter/ops/ctc.hpp>

#include <sinter/base/index.hpp>
#include <sinter/base/number_kind.hpp>
#include <sinter/base/threads.hpp>
#include <sinter/ops/batch.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace ops_detail {

inline constexpr double impossible = -std::numeric_limits<double>::infinity();

/// log(e^a + e^b). NaN where one of them is.
inline double log_of_sum(double a, double b) {
  if (a == impossible) return b;
  if (b == impossible) return a;
  return std::max(a, b) + std::log1p(std::exp(-std::abs(a - b)));
}

/// One sequence: the states are its labels with blanks between them and at both ends.
template <class T>
struct CtcSequence {
  const T* log_probabilities;  // of the first step
  std::int64_t step_stride, steps, labels, blank;
  const std::int64_t* targets;

  std::int64_t states() const { return 2 * labels + 1; }
  std::int64_t label(std::int64_t state) const { return state % 2 == 0 ? blank : targets[state / 2]; }
  double emitted(std::int64_t step, std::int64_t state) const {
    return static_cast<double>(log_probabilities[step * step_stride + label(state)]);
  }
  /// A label may follow the one before it without a blank if they differ.
  bool may_skip_to(std::int64_t state) const {
    return state >= 2 && state % 2 == 1 && label(state) != label(state - 2);
  }

  /// The logarithms of the probability of being in each state after `step`, from those before it.
  void advance(const double* before, double* after, std::int64_t step) const {
    for (std::int64_t state = states(); state-- > 0;) {
      double sum = before[state];
      if (state >= 1) sum = log_of_sum(sum, before[state - 1]);
      if (may_skip_to(state)) sum = log_of_sum(sum, before[state - 2]);
      after[state] = sum + emitted(step, state);
    }
  }
  void begin(double* first) const {
    std::fill_n(first, states(), impossible);
    first[0] = emitted(0, 0);
    if (labels > 0) first[1] = emitted(0, 1);
  }
  double log_likelihood(const double* last) const {
    return labels == 0 ? last[0] : log_of_sum(last[states() - 1], last[states() - 2]);
  }
  /// `row` has room for all states.
  double loss(double* row) const {
    if (steps == 0) return labels == 0 ? 0 : std::numeric_limits<double>::infinity();
    begin(row);
    for (std::int64_t step = 1; step < steps; ++step) advance(row, row, step);
    return -log_likelihood(row);
  }
  /// Of the rest of the sequence after a step, from each state.
  void step_back(double* later, std::int64_t step) const {
    for (std::int64_t state = 0; state < states(); ++state) {
      double sum = later[state] + emitted(step, state);
      if (state + 1 < states()) sum = log_of_sum(sum, later[state + 1] + emitted(step, state + 1));
      if (state + 2 < states() && may_skip_to(state + 2))
        sum = log_of_sum(sum, later[state + 2] + emitted(step, state + 2));
      later[state] = sum;
    }
  }
  /// Subtracts the probability of each state at each step, given the labels. `rows` has room for all states of all
  /// steps, `later` for those of one. Returns the loss.
  double subtract_posterior(double* rows, double* later, T* gradient) const {
    if (steps == 0) return labels == 0 ? 0 : std::numeric_limits<double>::infinity();
    begin(rows);
    for (std::int64_t step = 1; step < steps; ++step)
      advance(rows + (step - 1) * states(), rows + step * states(), step);
    const double total = log_likelihood(rows + (steps - 1) * states());
    if (total == impossible) return -total;
    std::fill_n(later, states(), impossible);
    later[states() - 1] = 0;
    if (labels > 0) later[states() - 2] = 0;
    for (std::int64_t step = steps; step-- > 0;) {
      for (std::int64_t state = 0; state < states(); ++state) {
        T& to = gradient[step * step_stride + label(state)];
        to = static_cast<T>(static_cast<double>(to) - std::exp(rows[step * states() + state] + later[state] - total));
      }
      if (step > 0) step_back(later, step);
    }
    return -total;
  }
};

inline std::int64_t checked_length(const HostCall& call, std::size_t operand, std::int64_t sequence,
                                   std::int64_t most) {
  const std::int64_t length = call.in[operand].as<std::int64_t>()[sequence];
  if (length >= 0 && length <= most) return length;
  const std::string what = operand == 2 ? "input length " : "target length ";
  throw IndexError("ctc_loss", what + std::to_string(length) + " of sequence " + std::to_string(sequence), call.where,
                   "it must be from 0 to " + std::to_string(most));
}
inline IndexError blank_error(std::string_view op, std::int64_t blank, Dim classes, Location where) {
  return {op, "the blank is class " + std::to_string(blank) + " of " + classes.text(), where};
}
template <class T>
CtcSequence<T> ctc_sequence(const HostCall& call, std::int64_t i, std::int64_t blank) {
  const Shape &shape = call.in[0].shape, &targets = call.in[1].shape;
  const std::int64_t classes = shape[2].value(), most = targets[1].value();
  if (blank >= classes) throw blank_error("ctc_loss", blank, shape[2], call.where);
  CtcSequence<T> out{call.in[0].as<T>() + i * classes,
                     shape[1].value() * classes,
                     checked_length(call, 2, i, shape[0].value()),
                     checked_length(call, 3, i, most),
                     blank,
                     call.in[1].as<std::int64_t>() + i * most};
  for (std::int64_t k = 0; k < out.labels; ++k) {
    if (out.targets[k] == ops::no_ctc_target)
      throw IndexError("ctc_loss", "the targets end before those of sequence " + std::to_string(i) + " do", call.where,
                       "their number must be the sum of the target lengths");
    if (out.targets[k] < 0 || out.targets[k] >= classes || out.targets[k] == blank)
      throw IndexError("ctc_loss", "target " + std::to_string(out.targets[k]) + " of sequence " + std::to_string(i),
                       call.where,
                       "it must be a class from 0 to " + std::to_string(classes - 1) + ", and not the blank " +
                           std::to_string(blank));
  }
  return out;
}
/// All sequences, with memory of its own for those that run at the same time.
template <class F>
void for_each_sequence(HostCall& call, std::size_t numbers, F&& run) {
  const std::int64_t count = call.in[0].shape[1].value(), parts = std::min<std::int64_t>(count, thread_count());
  if (count == 0) return;
  const std::size_t piece = (numbers + 7) / 8 * 8;
  auto* memory = static_cast<double*>(call.scratch(0, piece * sizeof(double) * as_index(parts)));
  const double nanoseconds = 20.0 * static_cast<double>(call.in[0].shape[0].value()) *
                             static_cast<double>(2 * call.in[1].shape[1].value() + 1);
  parallel_for(parts, nanoseconds * static_cast<double>(count) / static_cast<double>(parts),
               [&](std::int64_t first, std::int64_t last) {
                 for (std::int64_t part = first; part < last; ++part)
                   for (std::int64_t i = count * part / parts; i < count * (part + 1) / parts; ++i)
                     run(i, memory + piece * as_index(part));
               });
}
inline std::size_t ctc_states(const HostCall& call) { return as_index(2 * call.in[1].shape[1].value() + 1); }

template <class T>
void run_ctc_loss(HostCall& call) {
  const std::int64_t blank = call.attrs[ops::CtcLoss::blank];
  const bool zero_infinity = call.attrs[ops::CtcLoss::zero_infinity];
  for_each_sequence(call, ctc_states(call), [&](std::int64_t i, double* row) {
    const double loss = ctc_sequence<T>(call, i, blank).loss(row);
    call.out[0].as<T>()[i] = static_cast<T>(zero_infinity && is_infinite_number(loss) ? 0 : loss);
  });
}
template <class T>
void run_ctc_gradient(HostCall& call) {
  const std::int64_t blank = call.attrs[ops::CtcGradient::blank];
  const std::int64_t steps = call.in[0].shape[0].value(), classes = call.in[0].shape[2].value();
  const bool zero_infinity = call.attrs[ops::CtcGradient::zero_infinity];
  T* out = call.out[0].as<T>();
  std::fill_n(out, call.out[0].numel, T{0});
  const std::size_t states = ctc_states(call);
  for_each_sequence(call, states * as_index(steps + 1), [&](std::int64_t i, double* memory) {
    const CtcSequence<T> sequence = ctc_sequence<T>(call, i, blank);
    T* gradient = out + i * classes;
    if (!is_infinite_number(sequence.subtract_posterior(memory + states, memory, gradient)) || zero_infinity) return;
    for (std::int64_t step = 0; step < sequence.steps; ++step)
      std::fill_n(gradient + step * sequence.step_stride, classes, std::numeric_limits<T>::quiet_NaN());
  });
}

inline void check_ctc(const InferArgs& args, std::int64_t blank) {
  const Type &x = args.in[0], &targets = args.in[1];
  if (x.dtype != DType::f32 && x.dtype != DType::f64)
    throw DTypeError(args.op, "the logarithms are " + std::string(name(x.dtype)), args.where, "f32 or f64 is required");
  bool fits = x.shape.rank() == 3 && targets.shape.rank() == 2 && targets.shape[0] == x.shape[1];
  for (std::size_t i = 1; i < 4; ++i) {
    if (args.in[i].dtype != DType::i64) throw DTypeError(args.op, operands_text(args), args.where, "integers are i64");
    if (i > 1) fits = fits && args.in[i].shape.rank() == 1 && args.in[i].shape[0] == x.shape[1];
  }
  if (!fits)
    throw ShapeError(args.op, operands_text(args), args.where,
                     "logarithms (steps, n, classes), targets (n, labels) and two lengths (n,) are required");
  const Dim classes = x.shape[2];
  if (blank < 0 || is_shorter(classes - Dim(blank), 1)) throw blank_error(args.op, blank, classes, args.where);
}
/// The examples' sequences as one list of sequences, and the operands' batch with them.
inline std::vector<Val> joined_sequences(const BatchArgs& a) {
  std::vector<Val> out;
  for (std::size_t i = 0; i < 4; ++i) {
    Val x = with_batch(a, i);
    if (i == 0) x = move_axis(x, 0, 1);  // [t, b, n, c]
    Shape joined;
    const int at = i == 0 ? 1 : 0;
    for (int axis = 0; axis < x.rank(); ++axis)
      if (axis == at + 1) joined.set(at, joined[at] * x.shape()[axis]);
      else joined.push_back(x.shape()[axis]);
    out.push_back(reshape(x, joined));
  }
  return out;
}

}  // namespace ops_detail

namespace ops {

SINTER_DECL Type CtcLoss::infer(const InferArgs& args) {
  ops_detail::check_ctc(args, args.attrs[blank]);
  return ops_detail::with_shape(args, Shape{args.in[0].shape[1]});
}
SINTER_DECL void CtcLoss::run_on_host(HostCall& call) {
  if (call.in[0].dtype == DType::f64) ops_detail::run_ctc_loss<double>(call);
  else ops_detail::run_ctc_loss<float>(call);
}
SINTER_DECL ValList CtcLoss::vjp(const VjpArgs& a) {
  const Attrs attrs =
      Attrs{}.with(CtcGradient::blank, a.attrs[blank]).with(CtcGradient::zero_infinity, a.attrs[zero_infinity]);
  const Val slopes = apply(op_info<CtcGradient>, {a.in[0], a.in[1], a.in[2], a.in[3]}, attrs);
  return {slopes * reshape(a.dout, {a.dout.shape()[0], 1}), Val{}, Val{}, Val{}};
}
SINTER_DECL Batched CtcLoss::batch(const BatchArgs& a) {
  const Dim examples = ops_detail::with_batch(a, 2).shape()[0];
  const Val losses = apply(a.op, ops_detail::joined_sequences(a), a.attrs);
  return reshape(losses, {examples, losses.shape()[0] / examples});
}

SINTER_DECL Type CtcGradient::infer(const InferArgs& args) {
  ops_detail::check_ctc(args, args.attrs[blank]);
  return args.in[0];
}
SINTER_DECL void CtcGradient::run_on_host(HostCall& call) {
  if (call.in[0].dtype == DType::f64) ops_detail::run_ctc_gradient<double>(call);
  else ops_detail::run_ctc_gradient<float>(call);
}
SINTER_DECL ValList CtcGradient::vjp(const VjpArgs& a) {
  throw UserError("ctc_loss", "a second derivative is asked for", a.where, "there is only the first one");
}
SINTER_DECL Batched CtcGradient::batch(const BatchArgs& a) {
  const Val x = ops_detail::with_batch(a, 0);  // [b, t, n, c]
  const Val joined = apply(a.op, ops_detail::joined_sequences(a), a.attrs);
  const Shape shape{x.shape()[1], x.shape()[0], x.shape()[2], x.shape()[3]};
  return ops_detail::move_axis(reshape(joined, shape), 1, 0);
}

}  // namespace ops
SINTER_NAMESPACE_END
