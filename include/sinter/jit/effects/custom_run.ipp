// Calls through a registered back end.
#pragma once

#include <sinter/jit/effects/custom_run.hpp>

#include <sinter/autodiff/tape.hpp>
#include <sinter/base/index.hpp>
#include <sinter/expr/host.hpp>
#include <sinter/jit/call/delivery.hpp>
#include <sinter/jit/call/function.hpp>

#include <mutex>
#include <utility>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace jit::jit_detail {

inline Tensor value_of(const ArgLeaf& leaf) {
  if (leaf.kind != LeafKind::scalar)
    return leaf.impl != nullptr ? Tensor(Ref<TensorImpl>::share(leaf.impl))
                                : expr_detail::copy_strided(*leaf.type, leaf.data, *leaf.strides);
  const DType dtype = leaf.number_kind == DTypeClass::floating  ? DType::f64
                      : leaf.number_kind == DTypeClass::integer ? DType::i64
                                                                : DType::bool_;
  return expr_detail::copy_strided({dtype, Device::cpu(), {}}, &leaf.integer, {});
}

inline std::vector<Tensor> input_values(const Entry& entry, std::span<const ArgLeaf> args) {
  std::vector<Tensor> values;
  for (const PlanInput& input : entry.end.inputs) {
    if (input.source == PlanInput::Source::leaf) values.push_back(value_of(args[as_index(input.index)]));
    else values.emplace_back(input.slot->here()->value());
  }
  return values;
}

SINTER_DECL void compile_custom(Entry& entry, const BackendFunction& backend, std::string_view name, Graph graph,
                                std::span<const ArgLeaf> args, Location where) {
  for (Value v : graph.outputs()) entry.custom_outputs.push_back(graph.type(v));
  const std::vector<Tensor> examples = input_values(entry, args);
  entry.custom = backend(graph, examples);
  if (!entry.custom)
    throw UserError("compile", std::string(name) + " returned an empty function", where,
                    "throw an exception to refuse a graph");
  entry.optimised = std::move(graph);
}

SINTER_DECL void check_custom_outputs(std::span<const Tensor> outputs, std::span<const Type> wanted,
                                      std::span<const std::int64_t> symbols, std::string_view op, Location where) {
  if (outputs.size() != wanted.size())
    throw UserError(op,
                    "the back end gave " + std::to_string(outputs.size()) + " values for the " +
                        std::to_string(wanted.size()) + " outputs of the graph",
                    where);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    Type type = wanted[i];
    for (int axis = 0; axis < type.shape.rank(); ++axis) type.shape.set(axis, Dim(type.shape[axis].evaluate(symbols)));
    eval(In(outputs[i], where));
    if (!identical(outputs[i].impl()->type, type))
      throw UserError(op,
                      "the back end gave " + outputs[i].impl()->type.text() + " for output " + std::to_string(i) +
                          " of the graph, which is " + type.text(),
                      where);
  }
}

/// The results as they stand on the tape; what is saved goes there.
inline void put_results_on_tape(const Entry& entry, std::span<const Tensor> inputs, const ArgList& args,
                                std::span<const std::int64_t> symbols, std::vector<Ref<TensorImpl>>& results,
                                Location where) {
  std::vector<TensorImpl*> values;
  for (const Tensor& input : inputs) values.push_back(input.impl().get());
  TapedCall taped(*entry.gradient, entry.tape_attrs.of(entry.gradient, symbols),
                  inputs_on_tape(*entry.gradient, entry.end.inputs, values, args), where);
  std::vector<Ref<TensorImpl>> made = std::move(results);
  results = std::vector<Ref<TensorImpl>>(entry.gradient->results());
  taped.deliver(made, results.data());
}

SINTER_DECL void run_custom(const Entry& entry, const ArgList& args, std::span<const std::int64_t> symbols,
                            Ref<TensorImpl>* results, Targets targets, Location where) {
  const std::vector<Tensor> inputs = input_values(entry, args.leaves());
  std::vector<Tensor> outputs = [&] {
    NoGradGuard no_grad;  // the tape gets the call as a whole
    return entry.custom(inputs);
  }();
  check_custom_outputs(outputs, entry.custom_outputs, symbols, "compile", where);
  FinishedCall call;
  for (std::size_t i = 0; i < entry.end.results; ++i) call.results.push_back(std::move(outputs[i]).take());
  for (std::size_t i = 0; i < entry.end.assignments.size(); ++i) {
    const Assignment& assignment = entry.end.assignments[i];
    VariableSlot* slot = assignment.leaf >= 0 ? args.leaves()[as_index(assignment.leaf)].slot : assignment.slot->here();
    call.assigned.emplace_back(slot->shared_from_this(), std::move(outputs[entry.end.results + i]).take());
  }
  if (entry.gradient != nullptr && targets.empty())
    put_results_on_tape(entry, inputs, args, symbols, call.results, where);
  call.results.resize(entry.end.results - entry.end.saved);
  deliver(call, {results, nullptr}, targets, args, entry.held, where);
}

}  // namespace jit::jit_detail
SINTER_NAMESPACE_END
