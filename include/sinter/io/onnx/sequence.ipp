// Recurrent operators of ONNX, each a scan over its steps, and If.
#pragma once

#include <sinter/io/onnx/sequence.hpp>

#include <sinter/base/index.hpp>
#include <sinter/expr/creation.hpp>
#include <sinter/expr/expr.hpp>
#include <sinter/expr/functions.hpp>
#include <sinter/expr/host.hpp>
#include <sinter/expr/layers.hpp>
#include <sinter/expr/shapes.hpp>
#include <sinter/jit/control/control.hpp>

#include <array>
#include <optional>
#include <tuple>

SINTER_NAMESPACE_BEGIN
namespace io::onnx_detail {

/// The weights of one direction, and the state it starts with.
struct Recurrent {
  Tensor input_weight, recurrent_weight;             // (gates h, n), (gates h, h)
  Tensor input_bias, recurrent_bias;                 // (gates h)
  std::array<std::optional<Tensor>, 3> peepholes{};  // (h), of input, output and forget gate; LSTM alone
  Tensor hidden, cell;                               // (batch, h)
  std::array<std::string, 3> functions{};
  bool is_linear_before_reset = false;
};
/// What a direction gives: all hidden states (steps, batch, h), the last one, the last cell.
struct RecurrentResult {
  Tensor all, hidden, cell;
};

inline Tensor activated(const NodeCall& call, const std::string& function, const Tensor& x) {
  if (function == "Sigmoid") return call.make("sigmoid", {call.in(x)});
  if (function == "Tanh") return call.make("tanh", {call.in(x)});
  if (function == "Relu") return call.make("relu", {call.in(x)});
  if (function == "Softsign") return call.make("softsign", {call.in(x)});
  if (function == "Softplus") return call.make("softplus", {call.in(x)});
  call.fail("the activation '" + function + "'", "Sigmoid, Tanh, Relu, Softsign and Softplus are read");
}
inline Tensor plus(const NodeCall& call, const Tensor& a, const Tensor& b) {
  return call.make("add", {call.in(a), call.in(b)});
}
inline Tensor times(const NodeCall& call, const Tensor& a, const Tensor& b) {
  return call.make("mul", {call.in(a), call.in(b)});
}
/// x (..., n) times the transposed weight (m, n).
inline Tensor projected(const NodeCall& call, const Tensor& x, const Tensor& weight) {
  return matmul(call.in(x), call.in(transpose(call.in(weight), 0, 1)));
}

inline RecurrentResult run_lstm_direction(const NodeCall& call, const Tensor& gates, const Recurrent& r, bool reverse) {
  const auto step = [&](std::tuple<Tensor, Tensor> state, Tensor x) {
    const auto& [hidden, cell] = state;
    const std::vector<Tensor> parts = split(call.in(plus(call, x, projected(call, hidden, r.recurrent_weight))), 4, -1);
    const auto gate = [&](const Tensor& part, std::size_t peephole, const Tensor& seen) {
      const std::optional<Tensor>& weight = r.peepholes[peephole];
      return activated(call, r.functions[0], weight ? plus(call, part, times(call, *weight, seen)) : part);
    };
    const Tensor i = gate(parts[0], 0, cell), f = gate(parts[2], 2, cell);
    const Tensor kept = plus(call, times(call, f, cell), times(call, i, activated(call, r.functions[1], parts[3])));
    const Tensor o = gate(parts[1], 1, kept);
    const Tensor out = times(call, o, activated(call, r.functions[2], kept));
    return std::pair(std::tuple<Tensor, Tensor>(out, kept), out);
  };
  const auto [last, all] =
      jit::scan(step, std::tuple<Tensor, Tensor>(r.hidden, r.cell), gates, {.reverse = reverse}, call.where());
  return {all, std::get<0>(last), std::get<1>(last)};
}
inline RecurrentResult run_gru_direction(const NodeCall& call, const Tensor& gates, const Recurrent& r, bool reverse) {
  const std::vector<Tensor> weights = split(call.in(r.recurrent_weight), 3, 0),
                            biases = split(call.in(r.recurrent_bias), 3, 0);
  const auto step = [&](Tensor hidden, Tensor x) {
    const std::vector<Tensor> parts = split(call.in(x), 3, -1);
    const auto gate = [&](std::size_t at) {
      return activated(call, r.functions[0],
                       plus(call, parts[at], plus(call, projected(call, hidden, weights[at]), biases[at])));
    };
    const Tensor z = gate(0), reset = gate(1);
    const Tensor before = r.is_linear_before_reset
                              ? times(call, reset, plus(call, projected(call, hidden, weights[2]), biases[2]))
                              : plus(call, projected(call, times(call, reset, hidden), weights[2]), biases[2]);
    const Tensor candidate = activated(call, r.functions[1], plus(call, parts[2], before));
    const Tensor moved = times(call, z, call.make("sub", {call.in(hidden), call.in(candidate)}));
    const Tensor out = plus(call, candidate, moved);
    return std::pair(out, out);
  };
  const auto [last, all] = jit::scan(step, r.hidden, gates, {.reverse = reverse}, call.where());
  return {all, last, last};
}
inline RecurrentResult run_rnn_direction(const NodeCall& call, const Tensor& gates, const Recurrent& r, bool reverse) {
  const auto step = [&](Tensor hidden, Tensor x) {
    const Tensor out = activated(call, r.functions[0], plus(call, x, projected(call, hidden, r.recurrent_weight)));
    return std::pair(out, out);
  };
  const auto [last, all] = jit::scan(step, r.hidden, gates, {.reverse = reverse}, call.where());
  return {all, last, last};
}

/// The parts of direction `d`.
inline Recurrent direction_of(const NodeCall& call, const Tensor& x, int d, std::int64_t gates) {
  Recurrent out;
  const bool is_lstm = call.op() == "LSTM", is_gru = call.op() == "GRU";
  const auto part = [&](std::size_t i) { return select(call.in(call.x(i)), 0, Dim(d)); };
  out.input_weight = part(1);
  out.recurrent_weight = part(2);
  const Dim width = out.recurrent_weight.shape()[1], all = width * Dim(gates);
  const auto nothing = [&](const Shape& shape) { return zeros(shape, {.dtype = x.dtype()}, call.where()); };
  const Tensor bias = call.has(3) ? part(3) : nothing({all * Dim(2)});
  out.input_bias = narrow(call.in(bias), 0, 0, all);
  out.recurrent_bias = narrow(call.in(bias), 0, all, all);
  out.hidden = call.has(5) ? part(5) : nothing({x.shape()[1], width});
  if (is_lstm) out.cell = call.has(6) ? part(6) : nothing({x.shape()[1], width});
  for (int i = 0; i < 3 && is_lstm && call.has(7); ++i)
    out.peepholes[as_index(i)] = narrow(call.in(part(7)), 0, width * Dim(i), width);
  out.functions = is_lstm  ? std::array<std::string, 3>{"Sigmoid", "Tanh", "Tanh"}
                  : is_gru ? std::array<std::string, 3>{"Sigmoid", "Tanh", ""}
                           : std::array<std::string, 3>{"Tanh", "", ""};
  const std::vector<std::string> stated = call.texts("activations");
  const std::size_t each = is_lstm ? 3 : is_gru ? 2 : 1;
  for (std::size_t i = 0; i < each && stated.size() >= each * as_index(d + 1); ++i)
    out.functions[i] = stated[as_index(d) * each + i];
  out.is_linear_before_reset = call.flag("linear_before_reset");
  return out;
}

/// x (steps, batch, n), or (batch, steps, n) with layout 1, to (steps, directions, batch, h) and the last states.
inline Operands run_recurrent(const NodeCall& call) {
  if (call.has_attribute("clip") || call.flag("input_forget")) call.fail("clip or input_forget is set");
  const bool is_lstm = call.op() == "LSTM", is_gru = call.op() == "GRU", batch_first = call.flag("layout");
  if (batch_first && (call.has(5) || call.has(6))) call.fail("layout 1 with initial states");
  const std::string direction = call.text("direction", "forward");
  const int directions = direction == "bidirectional" ? 2 : 1;
  const Tensor x = batch_first ? transpose(call.in(call.x(0)), 0, 1) : call.x(0);
  if (call.has(4))
    for (const std::int64_t length : call.integers(4))
      if (!(Dim(length) == x.shape()[0]))
        call.fail("a sequence of " + std::to_string(length) + " steps among those of " + x.shape()[0].text(),
                  "run each length by itself");
  std::vector<Tensor> all, hidden, cell;
  for (int d = 0; d < directions; ++d) {
    const Recurrent r = direction_of(call, x, d, is_lstm ? 4 : is_gru ? 3 : 1);
    Tensor gates = plus(call, projected(call, x, r.input_weight), r.input_bias);
    if (!is_gru) gates = plus(call, gates, r.recurrent_bias);
    const bool is_reversed = direction == "reverse" || d == 1;
    const RecurrentResult out = is_lstm  ? run_lstm_direction(call, gates, r, is_reversed)
                                : is_gru ? run_gru_direction(call, gates, r, is_reversed)
                                         : run_rnn_direction(call, gates, r, is_reversed);
    all.push_back(out.all);
    hidden.push_back(out.hidden);
    cell.push_back(out.cell);
  }
  Tensor states = stack(all, 1, call.where()), last = stack(hidden, 0, call.where()),
         cells = stack(cell, 0, call.where());
  if (batch_first) {
    states = permute(call.in(states), {2, 0, 1, 3});
    last = transpose(call.in(last), 0, 1);
    cells = transpose(call.in(cells), 0, 1);
  }
  return {states, last, cells};
}

/// A condition that is known picks a branch; of one that is computed the value is read.
inline Operands run_if(const NodeCall& call) {
  return call.run(call.graph(call.integer(0) != 0 ? "then_branch" : "else_branch"));
}

SINTER_DECL std::span<const Operator> sequence_operators() {
  static constexpr Operator table[] = {
      {"LSTM", run_recurrent}, {"GRU", run_recurrent}, {"RNN", run_recurrent}, {"If", run_if}};
  return table;
}

}  // namespace io::onnx_detail
SINTER_NAMESPACE_END
