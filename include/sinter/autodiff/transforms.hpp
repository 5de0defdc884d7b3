// grad and value_and_grad: the function is traced on placeholders, the graph is differentiated, and the result is
// recorded again on the real operands. Works inside and outside compile(), and on itself (second derivatives). Gradients
// have the type of the parameter; where a parameter holds Variables they come as Grads, indexed by Variable.
#pragma once

#include <sinter/autodiff/reverse.hpp>
#include <sinter/expr/capture.hpp>
#include <sinter/expr/functions.hpp>
#include <sinter/expr/tree.hpp>

#include <concepts>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace jit {

/// Gradients by Variable: g[net.w1].
class Grads {
 public:
  /// The gradient of `variable`. Throws UserError if the function was not differentiated by it.
  Tensor operator[](const Variable& variable) const;
  std::size_t size() const { return entries_.size(); }
  void add(std::shared_ptr<VariableSlot> slot, Tensor gradient) { entries_.emplace_back(std::move(slot), std::move(gradient)); }

 private:
  std::vector<std::pair<std::shared_ptr<VariableSlot>, Tensor>> entries_;
};

namespace autodiff_detail {

/// A trace for differentiation: parameters are placeholders; assignments to Variables inside are handed to the outside
/// after the replay.
class GradTrace : public Trace {
 public:
  GradTrace() : Trace("grad") {}
  /// Stands for `value`, a parameter to differentiate by.
  Ref<TensorImpl> parameter(const Ref<TensorImpl>& value);
  Ref<TensorImpl> variable_parameter(const std::shared_ptr<VariableSlot>& slot);
  void note_assignment(const std::shared_ptr<VariableSlot>& slot, const Ref<TensorImpl>& value) override;
  Ref<TensorImpl> read_variable(const std::shared_ptr<VariableSlot>& slot) override;

  struct Result {
    Tensor loss;
    std::vector<Tensor> gradients;   // one per parameter, in order
  };
  /// Differentiates `loss` and records loss and gradients in the enclosing trace, or lazily. Ends this trace.
  static Result finish(std::unique_ptr<GradTrace> trace, const Tensor& loss, Location where);

 private:
  Ref<TensorImpl> read_outside(const std::shared_ptr<VariableSlot>& slot) const;
  std::vector<Ref<TensorImpl>> placeholders_, values_;
  std::vector<std::pair<std::shared_ptr<VariableSlot>, Ref<TensorImpl>>> read_, assigned_;
};

/// Replaces floating leaves by placeholders.
struct ParameterVisitor {
  GradTrace& trace;
  void tensor(Tensor& x) {
    if (is_floating(x.dtype())) x = Tensor(trace.parameter(x.impl()));
  }
  void scalar(Scalar& x);
  void variable(const Variable& x) {
    if (is_floating(x.dtype())) trace.variable_parameter(x.slot());
  }
  void fixed(std::int64_t) {}
};
/// Replaces the same leaves by their gradients, in the same order.
struct GradientVisitor {
  const std::vector<Tensor>& gradients;
  std::size_t at = 0;
  Grads* by_variable = nullptr;
  void tensor(Tensor& x) {
    if (is_floating(x.dtype())) x = gradients[at++];
  }
  void scalar(Scalar& x) { x = Scalar(gradients[at++].impl()); }
  void variable(const Variable& x) {
    if (!is_floating(x.dtype())) return;
    if (by_variable != nullptr) by_variable->add(x.slot(), gradients[at]);
    ++at;
  }
  void fixed(std::int64_t) {}
};

/// How a parameter is held while tracing: numbers become Scalars, expressions Tensors.
template <class T>
using parameter_t = std::conditional_t<Arithmetic<T>, Scalar, std::conditional_t<is_expr<std::remove_cvref_t<T>>, Tensor, std::remove_cvref_t<T>>>;

template <class P>
auto gradient_of(P parameter, GradientVisitor& visitor) {
  if constexpr (std::same_as<P, Variable>) {
    Tensor gradient = visitor.gradients[visitor.at];
    visitor.variable(parameter);
    return gradient;
  } else if constexpr (tree::has_variables<P>()) {
    Grads grads;
    visitor.by_variable = &grads;
    tree::visit_leaves(parameter, visitor);
    visitor.by_variable = nullptr;
    return grads;
  } else {
    tree::visit_leaves(parameter, visitor);
    return parameter;
  }
}

template <std::size_t... Wrt, class F, class... A>
auto differentiate_call(const F& f, Location where, std::index_sequence<Wrt...>, const A&... args) {
  std::tuple<parameter_t<A>...> originals{args...};   // before the trace: expressions among them belong outside
  auto trace = std::make_unique<GradTrace>();
  auto parameters = originals;
  ParameterVisitor visitor{*trace};
  (tree::visit_leaves(std::get<Wrt>(parameters), visitor), ...);
  Tensor loss(In(std::apply(f, std::as_const(parameters)), where).tensor());
  auto result = GradTrace::finish(std::move(trace), loss, where);
  GradientVisitor collector{result.gradients};
  if constexpr (sizeof...(Wrt) == 1) {
    return std::pair(result.loss, gradient_of(std::get<Wrt>(originals)..., collector));
  } else {
    // Braces, so that gradients are taken in order.
    return std::pair(result.loss, std::tuple{gradient_of(std::get<Wrt>(originals), collector)...});
  }
}

template <std::size_t... Wrt>
using wrt_sequence = std::conditional_t<sizeof...(Wrt) == 0, std::index_sequence<0>, std::index_sequence<Wrt...>>;

template <class F, std::size_t... Wrt>
struct ValueAndGrad {
  F f;
  Location where;
  template <class... A>
  auto operator()(const A&... args) const {
    return differentiate_call(f, where, wrt_sequence<Wrt...>{}, args...);
  }
};
template <class F, std::size_t... Wrt>
struct Grad {
  F f;
  Location where;
  template <class... A>
  auto operator()(const A&... args) const {
    return differentiate_call(f, where, wrt_sequence<Wrt...>{}, args...).second;
  }
};

}  // namespace autodiff_detail

/// A function that returns {f(args...), gradients by the parameters Wrt (default: the first)}. f must return a floating
/// scalar (shape ()). One parameter: its gradient; several: a tuple of them.
template <std::size_t... Wrt, class F>
auto value_and_grad(F f, Location where = std::source_location::current()) {
  return autodiff_detail::ValueAndGrad<F, Wrt...>{std::move(f), where};
}
/// As value_and_grad, giving only the gradients.
template <std::size_t... Wrt, class F>
auto grad(F f, Location where = std::source_location::current()) {
  return autodiff_detail::Grad<F, Wrt...>{std::move(f), where};
}

}  // namespace jit
SINTER_NAMESPACE_END

#ifndef SINTER_SEPARATE_COMPILATION
#include <sinter/autodiff/transforms.ipp>
#endif
