// Bodies over a batch, and the choice between branches.
#pragma once

#include <sinter/ops/control_batch.hpp>

#include <sinter/base/index.hpp>
#include <sinter/graph/builder.hpp>
#include <sinter/ops/batch.hpp>
#include <sinter/ops/comparison.hpp>
#include <sinter/ops/control.hpp>
#include <sinter/ops/control_bodies.hpp>
#include <sinter/ops/statistics.hpp>

#include <memory>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace ops_detail {

inline void require_no_effects(const BatchArgs& args) {
  if (args.op.kind != OpKind::effect) return;
  throw UserError("vmap", "a body of " + std::string(args.op.name) + " has effects, which have no order over a batch",
                  args.where, "leave print, callback and check out of the mapped function");
}

inline Batched batched_operand(const BatchArgs& args, std::size_t i) { return {args.in[i], args.is_batched(i)}; }

/// `x` over the batch, whether or not it is yet.
inline Val over_batch(const Batched& x, Dim size) {
  return x.is_batched ? x.value : expand(x.value, batched_shape(size, x.value.shape()));
}

/// Inputs of a batched body, of the types that the body has for one example.
inline std::vector<Batched> batched_inputs(GraphBuilder& builder, const Graph& body, const std::vector<bool>& batched,
                                           const BatchArgs& args) {
  std::vector<Batched> inputs;
  for (std::size_t i = 0; i < body.inputs().size(); ++i) {
    Type type = body.type(body.inputs()[i]);
    if (batched[i]) type.shape = batched_shape(args.size, type.shape);
    inputs.push_back({Val{&builder, builder.input(type, {}, args.where), args.where}, batched[i]});
  }
  return inputs;
}

inline std::vector<Batched> results_over(const BatchArgs& args, const OpInfo& op, std::span<const Val> operands,
                                         Attrs attrs, const std::vector<bool>& batched) {
  Values inputs;
  for (const Val& v : operands) inputs.push_back(v.value);
  GraphBuilder* builder = args.in[0].builder;
  const Value node = builder->add(op, inputs, std::move(attrs), args.where);
  std::vector<Batched> results;
  for (std::size_t r = 0; r < batched.size(); ++r)
    results.push_back({Val{builder, {node.node, static_cast<std::int32_t>(r)}, args.where}, batched[r]});
  return results;
}

inline std::shared_ptr<const Graph> finished(GraphBuilder& builder, std::span<const Val> outputs) {
  std::vector<Value> values;
  for (const Val& v : outputs) values.push_back(v.value);
  return std::make_shared<const Graph>(builder.finish(values));
}

/// Whether each example takes branch `b` of `branches`. An index beyond the last branch is that of the last, below the
/// first of the first.
inline Val takes_branch(Val index, std::size_t b, std::size_t branches) {
  if (index.dtype() == DType::bool_) return b == 0 ? logical_not(index) : index;
  if (branches == 1) return eq(index, index);
  const double number = static_cast<double>(b);
  return b == 0 ? le(index, number) : b + 1 == branches ? ge(index, number) : eq(index, number);
}

/// x, whose gradient is passed on for the examples that take the branch.
inline Val select_gradient(Val is_taken, Val x) {
  if (is_complex(x.dtype())) return complex(select_gradient(is_taken, real(x)), select_gradient(is_taken, imag(x)));
  return apply(op_info<ops::SelectGradient>, {is_taken, x});
}

/// Operands of a branch, which is computed for all examples. Those that take another one may meet there a derivative
/// that is infinite or NaN, which a gradient of zero does not undo: what comes back from them is dropped where it
/// leaves the branch. That is known for single examples only, so that operands which all share are stretched over the
/// batch.
inline std::vector<Batched> branch_operands(const BatchArgs& args, Val is_taken) {
  std::vector<Batched> operands;
  for (std::size_t i = 1; i < args.in.size(); ++i) {
    operands.push_back(batched_operand(args, i));
    if (!is_differentiable(args.in[i].dtype())) continue;
    const Val x = with_batch(args, i);
    operands.back() = Batched(select_gradient(with_rank(is_taken, x.rank()), x));
  }
  return operands;
}

/// Every example has an index of its own: all branches, and a choice.
inline void batch_choice(const BatchArgs& args, BatchedList& results) {
  std::vector<Val> chosen;
  const std::size_t branches = args.attrs.bodies.size();
  for (std::size_t b = branches; b-- > 0;) {
    const std::vector<Batched> operands = branch_operands(args, takes_branch(args.in[0], b, branches));
    const std::vector<Batched> found = args.vectorise(*args.in[0].builder, *args.attrs.bodies[b], operands, args.size);
    for (std::size_t r = 0; r < found.size(); ++r) {
      const Val value = over_batch(found[r], args.size);
      if (chosen.size() <= r) {
        chosen.push_back(value);
        continue;
      }
      const Val index = with_rank(args.in[0], value.rank());
      chosen[r] = where(index.dtype() == DType::bool_ ? logical_not(index) : le(index, static_cast<double>(b)), value,
                        chosen[r]);
    }
  }
  for (const Val& value : chosen) results.push_back(Batched(value));
}

SINTER_DECL void batch_switch(const BatchArgs& args, BatchedList& results) {
  require_no_effects(args);
  if (args.is_batched(0)) return batch_choice(args, results);
  std::vector<bool> batched;
  for (std::size_t i = 1; i < args.in.size(); ++i) batched.push_back(args.is_batched(i));
  Attrs attrs;
  std::vector<bool> all(args.attrs.bodies[0]->outputs().size(), true);
  for (const auto& body : args.attrs.bodies) {
    GraphBuilder builder(*body);
    std::vector<Val> outputs;
    for (const Batched& output :
         args.vectorise(builder, *body, batched_inputs(builder, *body, batched, args), args.size))
      outputs.push_back(over_batch(output, args.size));
    attrs.bodies.push_back(finished(builder, outputs));
  }
  for (const Batched& result : results_over(args, op_info<ops::Switch>, args.in, std::move(attrs), all))
    results.push_back(result);
}

/// Which operands of a loop are over the batch when the carries that an iteration makes so are counted in.
template <class Iteration>
std::vector<bool> settled(const BatchArgs& args, std::size_t carries, const Iteration& iteration) {
  std::vector<bool> batched;
  for (std::size_t i = 0; i < args.in.size(); ++i) batched.push_back(args.is_batched(i));
  for (bool changed = true; changed;) {
    changed = false;
    const std::vector<bool> after = iteration(batched);
    for (std::size_t c = 0; c < carries; ++c)
      if (after[c] && !batched[c]) batched[c] = changed = true;
  }
  return batched;
}
inline std::vector<bool> batched_outputs(const BatchArgs& args, const Graph& body, const std::vector<bool>& batched) {
  GraphBuilder builder(body);
  std::vector<bool> outputs;
  for (const Batched& output : args.vectorise(builder, body, batched_inputs(builder, body, batched, args), args.size))
    outputs.push_back(output.is_batched);
  return outputs;
}

SINTER_DECL void batch_while(const BatchArgs& args, BatchedList& results) {
  require_no_effects(args);
  const auto carries = as_index(args.attrs[ops::WhileLoop::carries]);
  const Graph &condition = *args.attrs.bodies[0], &iteration = *args.attrs.bodies[1];
  bool one_by_one = false;  // examples stop at different iterations: then every carry is over the batch
  const std::vector<bool> batched = settled(args, carries, [&](const std::vector<bool>& now) {
    one_by_one = batched_outputs(args, condition, now)[0];
    std::vector<bool> after = batched_outputs(args, iteration, now);
    if (one_by_one) after.assign(after.size(), true);
    return after;
  });
  auto any_of = [&](const Batched& goes_on) {
    return goes_on.is_batched ? apply(op_info<ops::Any>, {goes_on.value}, {.axes = {0}}) : goes_on.value;
  };
  Attrs attrs;
  attrs.set(ops::WhileLoop::carries, args.attrs[ops::WhileLoop::carries]);
  GraphBuilder first(condition), next(iteration);
  const Val test =
      any_of(args.vectorise(first, condition, batched_inputs(first, condition, batched, args), args.size)[0]);
  attrs.bodies.push_back(finished(first, {&test, 1}));
  std::vector<Batched> inputs = batched_inputs(next, iteration, batched, args);
  std::vector<Batched> made = args.vectorise(next, iteration, inputs, args.size);
  std::vector<Val> outputs;
  for (std::size_t c = 0; c < carries; ++c)
    outputs.push_back(batched[c] ? over_batch(made[c], args.size) : made[c].value);
  if (one_by_one) {  // those that are done keep what they have
    const Val goes_on = args.vectorise(next, condition, inputs, args.size)[0].value;
    for (std::size_t c = 0; c < carries; ++c) {
      outputs[c] = where(with_rank(goes_on, outputs[c].rank()), outputs[c], inputs[c].value);
      inputs[c] = Batched(outputs[c]);
    }
    outputs.push_back(any_of(args.vectorise(next, condition, inputs, args.size)[0]));
  } else {
    outputs.push_back(made[carries].value);
  }
  attrs.bodies.push_back(finished(next, outputs));
  std::vector<Val> operands;
  for (std::size_t i = 0; i < args.in.size(); ++i)
    operands.push_back(i < carries && batched[i] ? with_batch(args, i) : args.in[i]);
  const std::vector<bool> kinds(batched.begin(), batched.begin() + static_cast<std::ptrdiff_t>(carries));
  for (const Batched& result : results_over(args, op_info<ops::WhileLoop>, operands, std::move(attrs), kinds))
    results.push_back(result);
}

/// Slices go along the first axis, so that the batch of what is stacked comes second inside the loop.
SINTER_DECL void batch_scan(const BatchArgs& args, BatchedList& results) {
  require_no_effects(args);
  const ScanLayout at(args.attrs, args.in.size());
  const Graph& body = *args.attrs.bodies[0];
  const std::vector<bool> batched =
      settled(args, at.carries, [&](const std::vector<bool>& now) { return batched_outputs(args, body, now); });
  GraphBuilder builder(body);
  std::vector<Val> outputs, operands;
  std::vector<bool> kinds;
  for (const Batched& output : args.vectorise(builder, body, batched_inputs(builder, body, batched, args), args.size)) {
    const bool is_carry = outputs.size() < at.carries;
    kinds.push_back(is_carry ? batched[outputs.size()] : output.is_batched);
    outputs.push_back(kinds.back() ? over_batch(output, args.size) : output.value);
  }
  for (std::int64_t c : args.attrs[ops::Scan::saved]) kinds.push_back(batched[as_index(c)]);
  for (std::size_t i = 0; i < at.operands; ++i) {
    const bool is_slice = i >= at.carries && i < at.carries + at.xs;
    if (is_slice && batched[i]) operands.push_back(move_axis(args.in[i], 0, 1));
    else operands.push_back(i < at.carries && batched[i] ? with_batch(args, i) : args.in[i]);
  }
  Attrs attrs = args.attrs;
  attrs.bodies[0] = finished(builder, outputs);
  std::size_t r = 0;
  for (const Batched& result : results_over(args, op_info<ops::Scan>, operands, std::move(attrs), kinds)) {
    const bool is_stacked = r++ >= at.carries;
    results.push_back(is_stacked && result.is_batched ? Batched(move_axis(result.value, 1, 0)) : result);
  }
}

}  // namespace ops_detail
SINTER_NAMESPACE_END
