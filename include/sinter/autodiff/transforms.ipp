// The untyped halves of the derivative transforms: capture, rewrite, replay.
#pragma once

#include <sinter/autodiff/forward.hpp>
#include <sinter/autodiff/reverse.hpp>
#include <sinter/autodiff/transform_trace.hpp>
#include <sinter/autodiff/transforms.hpp>
#include <sinter/base/context.hpp>
#include <sinter/base/index.hpp>
#include <sinter/passes/dce.hpp>
#include <sinter/passes/outline.hpp>

#include <algorithm>
#include <string>

SINTER_NAMESPACE_BEGIN
namespace jit {

SINTER_DECL ArgumentNumbers::ArgumentNumbers(std::initializer_list<int> numbers)
    : numbers_(numbers.begin(), numbers.end()) {}

SINTER_DECL std::size_t Grads::size() const { return entries_.size(); }
SINTER_DECL void Grads::add(std::shared_ptr<VariableSlot> slot, Tensor gradient) {
  entries_.emplace_back(std::move(slot), std::move(gradient));
}

SINTER_DECL Tensor Grads::operator[](const Variable& variable) const {
  for (const auto& [slot, gradient] : entries_)
    if (slot == variable.slot()) return gradient;
  throw UserError(
      "Grads",
      "no gradient by this variable" + (variable.name().empty() ? std::string() : " '" + variable.name() + "'"), {},
      "make it part of the parameter that value_and_grad differentiates by");
}

namespace autodiff_detail {

/// The backward half of a call.
struct BackwardCall {
  std::vector<Ref<TensorImpl>> results;
  Graph backward;
  std::vector<Ref<TensorImpl>> saved;  // its first inputs
  std::vector<Type> result_types;      // of its further inputs
};
SINTER_DECL const std::vector<Ref<TensorImpl>>& results_of(const BackwardCall& call) { return call.results; }

SINTER_DECL void put_gradients(tree::Part parameter, const Tensor*& gradients, Grads* by_variable) {
  struct Put final : tree::Editor {
    Put(const Tensor*& first, Grads* place) : next(first), by_variable(place) {}
    const Tensor*& next;
    Grads* by_variable;
    using Editor::scalar, Editor::tensor;
    void tensor(Tensor& x) override {
      if (is_differentiable(x.dtype())) x = *next++;
    }
    void scalar(Scalar& x) override { x = Scalar((next++)->impl()); }
    void variable(const Variable& x) override {
      if (!is_differentiable(x.dtype())) return;
      if (by_variable != nullptr) by_variable->add(x.slot(), *next);
      ++next;
    }
  } put(gradients, by_variable);
  parameter.edit(put);
}

SINTER_DECL std::vector<Ref<TensorImpl>> directions_in(tree::View tangents) {
  struct Collect final : tree::Reader {
    std::vector<Ref<TensorImpl>> values;
    void tensor(const Tensor& x) override {
      if (is_differentiable(x.dtype())) values.push_back(x.impl());
    }
    void scalar(const Scalar& x) override { values.push_back(as_value(x.leaf())); }
    void variable(const Variable&) override {}
  } collect;
  tangents.read(collect);
  return std::move(collect.values);
}

inline void require_parameters(std::string_view op, std::size_t parameters, Location where) {
  if (parameters > 0) return;
  throw DTypeError(op, "the parameters hold nothing floating to differentiate by", where,
                   "cast them to a floating dtype, or name other parameters: grad<1>(f)");
}

SINTER_DECL std::vector<std::size_t> checked_numbers(const ArgumentNumbers& numbers, std::size_t count,
                                                     Location where) {
  std::vector<std::size_t> out;
  const auto arguments = static_cast<std::int64_t>(count);
  for (std::int64_t number : numbers.list()) {
    if (number < -arguments || number >= arguments)
      throw IndexError("grad",
                       "there is no argument " + std::to_string(number) + ": the function is called with " +
                           std::to_string(arguments),
                       where, "arguments are numbered from 0");
    const auto from_start = as_index(number < 0 ? number + arguments : number);
    if (std::find(out.begin(), out.end(), from_start) != out.end())
      throw IndexError("grad", "argument " + std::to_string(from_start) + " is named twice", where);
    out.push_back(from_start);
  }
  return out;
}
SINTER_DECL void refuse_number(std::size_t argument, const Type* type, Location where) {
  const std::string number = std::to_string(argument);
  if (type != nullptr)
    throw DTypeError("grad", "argument " + number + " is " + type->text() + "; a floating one is required", where,
                     "cast it to a floating dtype first");
  throw UserError("grad", "argument " + number + " is no single Tensor, Scalar or Variable", where,
                  "name it at compile time: grad<" + number + ">(f) gives gradients of any type");
}

inline Derivatives split_results(const TracedCall& call, std::vector<Ref<TensorImpl>> values) {
  Derivatives out;
  const auto results = static_cast<std::ptrdiff_t>(call.results);
  for (auto at = values.begin() + results + static_cast<std::ptrdiff_t>(call.assigned.size()); at != values.end(); ++at)
    out.gradients.emplace_back(*at);
  values.resize(call.results);
  out.results = std::move(values);
  return out;
}

SINTER_DECL GradientCall::GradientCall(Location where) : trace_("grad"), where_(where) {}
SINTER_DECL GradientCall::~GradientCall() = default;
SINTER_DECL void GradientCall::open(tree::Part parameter) { insert_placeholders(*trace_, parameter); }

SINTER_DECL void GradientCall::close(tree::Part result) {
  require_parameters("grad", trace_->parameters(), where_);
  const std::vector<Ref<TensorImpl>> results = values_in({result.object, result.layout});
  const Type& loss = results[0]->type;
  if (is_complex(loss.dtype))
    throw DTypeError("grad", "the function returned " + loss.text() + "; a loss is a real number", where_,
                     "use real(z), or abs(z) of it");
  if (!is_floating(loss.dtype) || loss.shape.rank() != 0)
    throw ShapeError("grad", "the function returned " + loss.text() + "; a floating scalar is required", where_,
                     "use sum or mean of it");
  const TracedCall call = TransformTrace::end(std::move(trace_), results);
  std::vector<std::int32_t> wrt(call.parameters);
  for (std::size_t i = 0; i < wrt.size(); ++i) wrt[i] = static_cast<std::int32_t>(i);
  const Graph live = Dce{}(call.graph);
  const Graph graph = differentiate(Context::get().outlines ? Outline{}(live) : live, wrt, 0);
  derivatives_ = split_results(call, replay_call(call, graph));
  fill_values(result, derivatives_.results.data());
}

SINTER_DECL Derivatives jacobian_call(OpenTrace trace, const Ref<TensorImpl>& result, Location where) {
  require_parameters("jacobian", trace->parameters(), where);
  if (!is_floating(result->type.dtype))
    throw DTypeError(
        "jacobian", "the function returned " + result->type.text() + "; a floating result is required", where,
        is_complex(result->type.dtype) ? "give its parts: view_as_real(z)" : "cast it to a floating dtype");
  const TracedCall call = TransformTrace::end(std::move(trace), {&result, 1});
  return split_results(call, replay_call(call, jacobian_graph(call.graph, call.parameters, where)));
}

SINTER_DECL Tangents jvp_call(OpenTrace trace, std::span<const Ref<TensorImpl>> results,
                              std::vector<Ref<TensorImpl>> tangents, Location where) {
  require_parameters("jvp", trace->parameters(), where);
  const TracedCall call = TransformTrace::end(std::move(trace), results);
  if (tangents.size() != call.parameters)
    throw UserError("jvp",
                    std::to_string(tangents.size()) + " floating tangents for " + std::to_string(call.parameters) +
                        " floating primals",
                    where, "give each floating leaf of the primals a tangent of its shape");
  for (std::size_t i = 0; i < tangents.size(); ++i)
    tangents[i] = checked_derivative(std::move(tangents[i]), call.operands[i]->type, "jvp",
                                     "tangent " + std::to_string(i), where);
  std::vector<Ref<TensorImpl>> values =
      replay_call(call, jvp_graph(call.graph, call.parameters, call.results), tangents);
  Tangents out;
  const std::size_t first = call.results + call.assigned.size();
  for (std::size_t i = 0; i < call.results; ++i) {
    out.results.push_back(values[i]);
    out.tangents.push_back(values[first + i]);
  }
  return out;
}

SINTER_DECL std::shared_ptr<const BackwardCall> vjp_call(OpenTrace trace, std::span<const Ref<TensorImpl>> results,
                                                         Location where) {
  require_parameters("vjp", trace->parameters(), where);
  const TracedCall call = TransformTrace::end(std::move(trace), results);
  ForwardBackward halves = split_vjp(call.graph, call.parameters, call.results);
  std::vector<Ref<TensorImpl>> values = replay_call(call, halves.forward);
  auto out = std::make_shared<BackwardCall>();
  out->backward = std::move(halves.backward);
  const std::size_t saved = call.results + call.assigned.size();
  out->saved.assign(values.begin() + static_cast<std::ptrdiff_t>(saved), values.end());
  values.resize(call.results);
  for (const auto& value : values) out->result_types.push_back(value->type);
  out->results = std::move(values);
  return out;
}

SINTER_DECL std::vector<Tensor> pull_back(const BackwardCall& call, std::vector<Ref<TensorImpl>> gradients,
                                          Location where) {
  if (gradients.size() != call.result_types.size())
    throw UserError(
        "vjp",
        std::to_string(gradients.size()) + " gradients for " + std::to_string(call.result_types.size()) + " results",
        where, "give each result a gradient of its shape");
  std::vector<Ref<TensorImpl>> operands = call.saved;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const Type& type = call.result_types[i];
    const std::string what = gradients.size() == 1 ? std::string("the gradient") : "gradient " + std::to_string(i);
    // A result that is not floating has no gradient; what is given in its place is not looked at.
    operands.push_back(is_differentiable(type.dtype)
                           ? checked_derivative(std::move(gradients[i]), type, "vjp", what, where)
                           : call.results[i]);
  }
  std::vector<Tensor> pulled;
  for (const auto& value : replay(call.backward, operands)) pulled.emplace_back(value);
  return pulled;
}

}  // namespace autodiff_detail
}  // namespace jit
SINTER_NAMESPACE_END
