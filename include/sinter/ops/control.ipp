// Shape rules, runs and pruning of control flow.
#pragma once

#include <sinter/ops/control.hpp>

#include <sinter/base/index.hpp>
#include <sinter/ops/control_bodies.hpp>

#include <algorithm>
#include <string>

SINTER_NAMESPACE_BEGIN
namespace ops_detail {

/// A body takes what the node gives it. Extents that are symbols still may turn out equal.
inline void require_parameter(const InferArgs& args, const Type& given, const Type& parameter) {
  bool fits = given.dtype == parameter.dtype && given.shape.rank() == parameter.shape.rank();
  for (int i = 0; fits && i < given.shape.rank(); ++i)
    fits = !given.shape[i].is_static() || !parameter.shape[i].is_static() ||
           given.shape[i].value() == parameter.shape[i].value();
  if (!fits)
    throw InternalError(std::string(args.op) + ": a body takes " + parameter.text() + " but gets " + given.text(),
                        args.where);
}

inline const Type& body_input(const Graph& body, std::size_t i) { return body.type(body.inputs()[i]); }
inline const Type& body_output(const Graph& body, std::size_t i) { return body.type(body.outputs()[i]); }

inline void add_token_type(TypeList& out, Tokens tokens) {
  if (tokens == Tokens::one) out.push_back({DType::bool_, Device::cpu(), {}});
}

inline void copy_value(HostCall& call, void* to, const HostView& from) {
  if (from.numel > 0) call.copy(to, from.data, from.bytes());
}

// ---- switch

SINTER_DECL void infer_switch(const InferArgs& args, TypeList& out, Tokens tokens) {
  const auto& bodies = args.attrs.bodies;
  ensure(!bodies.empty() && args.in.size() > as_index(tokens), "switch: branches and an index are required");
  ensure(!is_zero(args.in[0].shape.numel(args.where)), "switch: the index is a number");
  const std::size_t operands = args.in.size() - as_index(tokens);
  for (const auto& body : bodies) {
    ensure(body->inputs().size() + 1 == operands && body->outputs().size() == bodies[0]->outputs().size(),
           "switch: branches take the operands and give the same number of results");
    for (std::size_t i = 1; i < operands; ++i) require_parameter(args, args.in[i], body_input(*body, i - 1));
    for (std::size_t r = 0; r < body->outputs().size(); ++r)
      require_parameter(args, body_output(*body, r), body_output(*bodies[0], r));
  }
  for (std::size_t r = 0; r < bodies[0]->outputs().size(); ++r) out.push_back(body_output(*bodies[0], r));
  add_token_type(out, tokens);
}

inline void** switch_places(HostCall& call, Tokens tokens) {
  return static_cast<void**>(
      call.scratch(0, (call.in.size() + call.out.size() - 1 - 2 * as_index(tokens)) * sizeof(void*)));
}
SINTER_DECL void prepare_switch(HostCall& call, Tokens tokens) { switch_places(call, tokens); }

SINTER_DECL void run_switch(HostCall& call, Tokens tokens) {
  const HostView& index = call.in[0];
  std::int64_t chosen = 0;
  const void* number = call.on_host(index.data, index.bytes());
  if (index.dtype == DType::bool_) chosen = *static_cast<const bool*>(number);
  else
    visit_dtype(index.dtype, [&](auto element) {
      chosen = static_cast<std::int64_t>(*static_cast<const decltype(element)*>(number));
    });
  chosen = std::clamp<std::int64_t>(chosen, 0, static_cast<std::int64_t>(call.attrs.bodies.size()) - 1);
  const auto operands = call.in.subspan(1, call.in.size() - 1 - as_index(tokens));
  const auto results = call.out.first(call.out.size() - as_index(tokens));
  void** const inputs = switch_places(call, tokens);
  void** const outputs = inputs + operands.size();
  for (std::size_t i = 0; i < operands.size(); ++i) inputs[i] = operands[i].data;
  for (std::size_t r = 0; r < results.size(); ++r) outputs[r] = results[r].data;
  call.run_body(as_index(chosen), {inputs, operands.size()}, {outputs, results.size()});
}

SINTER_DECL void prune_switch(const PruneArgs& args, Tokens tokens) {
  Node& node = args.node;
  const std::size_t results = node.attrs.bodies[0]->outputs().size();
  std::vector<bool> keeps_output(args.used.begin(), args.used.begin() + static_cast<std::ptrdiff_t>(results));
  std::vector<bool> keeps_input(node.attrs.bodies[0]->inputs().size(), false);
  for (const auto& body : node.attrs.bodies) mark_used_inputs(*body, keeps_output, keeps_input);
  node.edit_attrs([&](Attrs& attrs) {
    for (auto& body : attrs.bodies) body = cut_body(*body, keeps_output, keeps_input);
  });
  keep_operands(node, 1, keeps_input);
  keep_results(args, keeps_output, tokens);
}

// ---- while_loop

SINTER_DECL std::size_t carries_of(const Node& node) {
  if (node.op == &op_info<ops::Scan>) return as_index(node.attrs[ops::Scan::carries]);
  if (node.op == &op_info<ops::WhileLoop>) return as_index(node.attrs[ops::WhileLoop::carries]);
  return 0;
}

SINTER_DECL void infer_while(const InferArgs& args, TypeList& out, Tokens tokens) {
  const std::int64_t count = args.attrs[ops::WhileLoop::carries];
  const auto carries = as_index(count);
  ensure(args.attrs.bodies.size() == 2 && args.in.size() >= as_index(tokens),
         "while_loop: a condition and a body are required");
  const std::size_t operands = args.in.size() - as_index(tokens);
  ensure(count >= 0 && operands >= carries, "while_loop: the carries are among the operands");
  const Graph &condition = *args.attrs.bodies[0], &body = *args.attrs.bodies[1];
  ensure(condition.outputs().size() == 1 && body.outputs().size() == carries + 1 &&
             condition.inputs().size() == operands && body.inputs().size() == operands,
         "while_loop: bodies take the operands, and give the carries and the condition");
  for (const Type& told : {body_output(condition, 0), body_output(body, carries)})
    ensure(told.dtype == DType::bool_ && told.shape.rank() == 0, "while_loop: the condition is one bool");
  for (std::size_t i = 0; i < operands; ++i)
    for (const Graph* graph : {&condition, &body}) require_parameter(args, args.in[i], body_input(*graph, i));
  for (std::size_t c = 0; c < carries; ++c) {
    require_parameter(args, body_output(body, c), args.in[c]);
    out.push_back(args.in[c]);
  }
  add_token_type(out, tokens);
}

/// Room for the addresses that bodies are given: operands, carries, and the condition.
inline void** while_places(HostCall& call, Tokens tokens) {
  const auto carries = as_index(call.attrs[ops::WhileLoop::carries]);
  return static_cast<void**>(call.scratch(0, (call.in.size() - as_index(tokens) + carries + 1) * sizeof(void*)));
}
SINTER_DECL void prepare_while(HostCall& call, Tokens tokens) {
  const auto carries = as_index(call.attrs[ops::WhileLoop::carries]);
  while_places(call, tokens);
  for (std::size_t c = 0; c < carries; ++c)
    if (!call.updates_in_place(1, c)) call.place(1 + c, call.out[c].bytes());
  call.place(1 + carries, sizeof(bool));
}

/// Carries alternate between two places: the results, and memory of the loop. Those that the body updates in place stay
/// in the results.
/// Iterations that the host asks about before a device goes on alone: what it needs for that pays in long loops only.
inline constexpr std::int64_t asked_iterations = 8;

SINTER_DECL void run_while(HostCall& call, Tokens tokens) {
  const auto carries = as_index(call.attrs[ops::WhileLoop::carries]);
  const std::size_t operands = call.in.size() - as_index(tokens);
  void** const inputs = while_places(call, tokens);
  void** const outputs = inputs + operands;
  void* condition = call.place(1 + carries, sizeof(bool));
  const auto goes_on = [&] { return *static_cast<const bool*>(call.on_host(condition, sizeof(bool))); };
  for (std::size_t i = 0; i < operands; ++i) inputs[i] = call.in[i].data;
  call.run_body(0, {inputs, operands}, {&condition, 1});
  bool continues = goes_on();
  if (continues)
    for (std::size_t c = 0; c < carries; ++c) outputs[c] = call.out[c].data;
  outputs[carries] = condition;
  std::int64_t iteration = 0;
  for (bool is_first = true; continues; continues = goes_on()) {
    using enum HostCall::Repeated;
    const auto repeated =
        iteration++ == asked_iterations ? call.repeat(1, {inputs, operands}, {outputs, carries + 1}) : not_begun;
    if (repeated == ended_inside) break;
    if (repeated == not_begun)
      call.run_body(1, {inputs, operands}, {outputs, carries + 1});  // the last output is the condition
    for (std::size_t c = 0; c < carries; ++c) {
      std::swap(inputs[c], outputs[c]);
      if (!is_first) continue;
      outputs[c] = call.updates_in_place(1, c) ? inputs[c] : call.place(1 + c, call.out[c].bytes());
    }
    is_first = false;
    if (repeated == ended_outside) break;
  }
  for (std::size_t c = 0; c < carries; ++c)
    if (call.out[c].numel > 0 && inputs[c] != call.out[c].data)
      call.copy(call.out[c].data, inputs[c], call.out[c].bytes());
}

SINTER_DECL void prune_while(const PruneArgs& args, Tokens tokens) {
  Node& node = args.node;
  const auto carries = as_index(node.attrs[ops::WhileLoop::carries]);
  std::vector<bool> keeps_input(node.attrs.bodies[0]->inputs().size(), false);
  std::fill_n(keeps_input.begin(), carries, true);
  for (const auto& body : node.attrs.bodies)
    mark_used_inputs(*body, std::vector<bool>(body->outputs().size(), true), keeps_input);
  node.edit_attrs([&](Attrs& attrs) {
    for (auto& body : attrs.bodies)
      body = cut_body(*body, std::vector<bool>(body->outputs().size(), true), keeps_input);
  });
  keep_operands(node, 0, keeps_input);
  keep_results(args, std::vector<bool>(carries, true), tokens);
}

// ---- scan

SINTER_DECL void infer_scan(const InferArgs& args, TypeList& out, Tokens tokens) {
  ensure(args.attrs.bodies.size() == 1 && args.attrs.has(ops::Scan::length),
         "scan: one body and a length are required");
  ensure(args.in.size() >= as_index(tokens), "scan: a token is required");
  const Graph& body = *args.attrs.bodies[0];
  const std::size_t operands = args.in.size() - as_index(tokens);
  const auto is_count = [](std::int64_t count, std::size_t most) {
    return count >= 0 && static_cast<std::uint64_t>(count) <= most;
  };
  ensure(is_count(args.attrs[ops::Scan::carries], std::min(operands, body.outputs().size())),
         "scan: the carries are operands, and results of the body");
  const ScanLayout at(args.attrs, operands);
  const Dim length = args.attrs[ops::Scan::length];
  ensure(is_count(args.attrs[ops::Scan::scanned], operands - at.carries) && body.inputs().size() == operands,
         "scan: the body takes carries, slices and captures");
  ensure(!length.is_static() || length.value() >= 0, "scan: the number of iterations is negative");
  for (std::int64_t c : args.attrs[ops::Scan::saved])
    ensure(c >= 0 && is_count(c + 1, at.carries), "scan: only carries are stacked");
  auto stacked = [&](Type type) {
    if (type.shape.rank() == max_rank)
      throw ShapeError(args.op, "a value of rank " + std::to_string(max_rank) + " cannot be stacked", args.where,
                       "reshape it to a lower rank inside the body");
    type.shape.insert(0, length);
    return type;
  };
  for (std::size_t i = 0; i < at.operands; ++i) {
    const bool is_slice = i >= at.carries && i < at.carries + at.xs;
    require_parameter(args, args.in[i], is_slice ? stacked(body_input(body, i)) : body_input(body, i));
  }
  for (std::size_t c = 0; c < at.carries; ++c) {
    require_parameter(args, body_output(body, c), args.in[c]);
    out.push_back(args.in[c]);
  }
  for (std::size_t y = 0; y < at.ys; ++y) out.push_back(stacked(body_output(body, at.carries + y)));
  for (std::int64_t c : args.attrs[ops::Scan::saved]) out.push_back(stacked(args.in[as_index(c)]));
  add_token_type(out, tokens);
}

/// The memory that a carry of a scan goes through: a stack of all its values if one is wanted, else the result and
/// memory of the loop in turn, such that the last iteration writes the result. What the body updates in place is in the
/// result after the first.
class CarryPlaces {
 public:
  CarryPlaces(HostCall& call, std::size_t carry, std::int64_t length, void* stack)
      : bytes_(static_cast<std::int64_t>(call.out[carry].bytes())),
        length_(length),
        result_(static_cast<char*>(call.out[carry].data)),
        stack_(static_cast<char*>(stack)) {
    if (stack_ == nullptr && length > 1)
      other_ = call.updates_in_place(0, carry) ? result_
                                               : static_cast<char*>(call.place(1 + carry, call.out[carry].bytes()));
  }
  /// Where iteration number `iteration`, which is not the first, reads it; `slice` is the number of its slice.
  void* input(std::int64_t iteration, std::int64_t slice) const {
    if (stack_ != nullptr) return stack_ + slice * bytes_;
    return (length_ - iteration) % 2 == 0 ? result_ : other_;
  }
  void* output(std::int64_t iteration, std::int64_t next_slice) const {
    if (iteration + 1 == length_) return result_;
    return input(iteration + 1, next_slice);
  }

 private:
  std::int64_t bytes_, length_;
  char *result_, *stack_, *other_ = nullptr;
};

/// Room for the addresses that the body is given, and for where the carries go.
inline void** scan_places(HostCall& call, const ScanLayout& at) {
  return static_cast<void**>(
      call.scratch(0, (at.operands + at.carries + at.ys) * sizeof(void*) + at.carries * sizeof(CarryPlaces)));
}
SINTER_DECL void prepare_scan(HostCall& call, Tokens tokens) {
  const ScanLayout at(call.attrs, call.in.size() - as_index(tokens));
  const std::int64_t length = call.value_of(call.attrs[ops::Scan::length]);
  const IntVector& saved = call.attrs[ops::Scan::saved];
  scan_places(call, at);
  for (std::size_t c = 0; c < at.carries; ++c)
    if (length > 1 && !call.updates_in_place(0, c) &&
        std::find(saved.begin(), saved.end(), static_cast<std::int64_t>(c)) == saved.end())
      call.place(1 + c, call.out[c].bytes());
}

SINTER_DECL void run_scan(HostCall& call, Tokens tokens) {
  const ScanLayout at(call.attrs, call.in.size() - as_index(tokens));
  const std::int64_t length = call.value_of(call.attrs[ops::Scan::length]);
  if (length <= 0) {
    for (std::size_t c = 0; c < at.carries; ++c) copy_value(call, call.out[c].data, call.in[c]);
    return;
  }
  const std::size_t outputs_count = at.carries + at.ys;
  void** const inputs = scan_places(call, at);
  void** const outputs = inputs + at.operands;
  auto* places = reinterpret_cast<CarryPlaces*>(outputs + outputs_count);
  const IntVector& saved = call.attrs[ops::Scan::saved];
  const std::int64_t first = at.is_reversed ? length - 1 : 0, direction = at.is_reversed ? -1 : 1;
  for (std::size_t c = 0; c < at.carries; ++c) {
    void* stack = nullptr;
    for (std::size_t s = 0; s < saved.size(); ++s)
      if (saved[s] == static_cast<std::int64_t>(c)) stack = call.out[outputs_count + s].data;
    new (places + c) CarryPlaces(call, c, length, stack);
    inputs[c] = call.in[c].data;
    if (stack != nullptr)
      copy_value(call, static_cast<char*>(stack) + first * static_cast<std::int64_t>(call.in[c].bytes()), call.in[c]);
  }
  for (std::size_t i = at.carries + at.xs; i < at.operands; ++i) inputs[i] = call.in[i].data;
  auto slice_of = [&](const HostView& view, std::int64_t i) {
    return static_cast<char*>(view.data) + i * (static_cast<std::int64_t>(view.bytes()) / length);
  };
  call.begin_iterations();
  for (std::int64_t iteration = 0, i = first; iteration < length; ++iteration, i += direction) {
    for (std::size_t c = 0; c < at.carries; ++c) {
      if (iteration > 0) inputs[c] = places[c].input(iteration, i);
      outputs[c] = places[c].output(iteration, i + direction);
    }
    for (std::size_t x = at.carries; x < at.carries + at.xs; ++x) inputs[x] = slice_of(call.in[x], i);
    for (std::size_t y = at.carries; y < outputs_count; ++y) outputs[y] = slice_of(call.out[y], i);
    call.run_body(0, {inputs, at.operands}, {outputs, outputs_count});
  }
  call.end_iterations();
}

SINTER_DECL void prune_scan(const PruneArgs& args, Tokens tokens) {
  Node& node = args.node;
  const ScanLayout at(node.attrs, node.inputs.size() - as_index(tokens));
  std::vector<bool> keeps_result(args.used.begin(), args.used.end() - static_cast<std::ptrdiff_t>(tokens));
  std::fill_n(keeps_result.begin(), at.carries, true);
  const std::vector<bool> keeps_output(keeps_result.begin(),
                                       keeps_result.begin() + static_cast<std::ptrdiff_t>(at.carries + at.ys));
  std::vector<bool> keeps_input(at.operands, false);
  std::fill_n(keeps_input.begin(), at.carries, true);
  mark_used_inputs(*node.attrs.bodies[0], keeps_output, keeps_input);
  node.edit_attrs([&](Attrs& attrs) {
    attrs.bodies[0] = cut_body(*attrs.bodies[0], keeps_output, keeps_input);
    std::int64_t scanned = 0;
    for (std::size_t x = at.carries; x < at.carries + at.xs; ++x) scanned += keeps_input[x];
    IntVector saved;
    for (std::size_t s = 0; s < attrs[ops::Scan::saved].size(); ++s)
      if (keeps_result[at.carries + at.ys + s]) saved.push_back(attrs[ops::Scan::saved][s]);
    attrs.set(ops::Scan::scanned, scanned);
    attrs.set(ops::Scan::saved, saved);
  });
  keep_operands(node, 0, keeps_input);
  keep_results(args, keeps_result, tokens);
}

}  // namespace ops_detail
SINTER_NAMESPACE_END
