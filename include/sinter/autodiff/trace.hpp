// The trace that every transform of functions shares: the function runs on placeholders, what it recorded is captured as a
// graph, the transform rewrites the graph, and the result is recorded again on the real operands in the enclosing trace, or
// lazily. Also how parameters and results of any shape are taken apart for that. Knows no transform.
#pragma once

#include <sinter/expr/capture.hpp>
#include <sinter/expr/functions.hpp>
#include <sinter/expr/signature.hpp>
#include <sinter/expr/tree.hpp>

#include <concepts>
#include <memory>
#include <span>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace jit::autodiff_detail {

/// A function as a graph, and what it is called with.
struct TracedCall {
  Graph graph;                             // outputs: results, then the values assigned to Variables
  std::vector<Ref<TensorImpl>> operands;   // of the graph's inputs; the parameters come first
  std::size_t parameters = 0, results = 0;
  std::vector<std::shared_ptr<VariableSlot>> assigned;
};

/// Parameters are placeholders; assignments to Variables inside are handed to the outside after the replay.
class TransformTrace : public Trace {
 public:
  explicit TransformTrace(std::string_view name) : Trace(name) {}
  /// Stands for `value`, seen as one of type `type`.
  Ref<TensorImpl> parameter(const Ref<TensorImpl>& value, const Type& type);
  Ref<TensorImpl> parameter(const Ref<TensorImpl>& value) { return parameter(value, value->type); }
  /// What reading the Variable gives from here on.
  Ref<TensorImpl> variable_parameter(const std::shared_ptr<VariableSlot>& slot, const Ref<TensorImpl>& value, const Type& type);
  /// The Variable's value in the enclosing trace, or now.
  Ref<TensorImpl> read_outside(const std::shared_ptr<VariableSlot>& slot) const;
  std::size_t parameters() const { return placeholders_.size(); }
  const Ref<TensorImpl>& parameter_value(std::size_t i) const { return values_[i]; }

  void note_assignment(const std::shared_ptr<VariableSlot>& slot, const Ref<TensorImpl>& value) override;
  Ref<TensorImpl> read_variable(const std::shared_ptr<VariableSlot>& slot) override;
  /// Computed outside, from the values behind the parameters: the transform is that of the side taken. Refused where a
  /// parameter stands for many values (vmap).
  std::uint64_t read_value(const Ref<TensorImpl>& value, std::string_view op, Location where) override;
  /// In the enclosing trace, or now; refused where an operand belongs to this trace, for the function has no derivative.
  EagerResults call_eagerly(const std::shared_ptr<const EagerCall>& call, std::span<const Ref<TensorImpl>> operands) override;

  /// Captures what gives `results`, and ends the trace.
  static TracedCall end(std::unique_ptr<TransformTrace> trace, std::span<const Ref<TensorImpl>> results);

 private:
  std::vector<Ref<TensorImpl>> placeholders_, values_;
  std::vector<std::pair<std::shared_ptr<VariableSlot>, Ref<TensorImpl>>> read_, assigned_;
  std::unordered_map<const TensorImpl*, std::pair<Ref<TensorImpl>, Ref<TensorImpl>>> outside_;   // read before: itself, and the same outside
};

/// Records `graph` on the call's operands and `more`, and hands out what Variables were assigned.
std::vector<Ref<TensorImpl>> replay_call(const TracedCall& call, const Graph& graph, std::span<const Ref<TensorImpl>> more = {});
/// `value` as a derivative of something of type `type`: the shape is checked, the dtype made equal.
Ref<TensorImpl> checked_derivative(Ref<TensorImpl> value, const Type& type, std::string_view op, const std::string& what, Location where);
/// Gives a Variable its value after a replay: in the enclosing trace, or now.
void assign_outside(const std::shared_ptr<VariableSlot>& slot, const Ref<TensorImpl>& value);
/// A number as a weak value of no trace, so that it can be an operand of a replay; values as they are.
Ref<TensorImpl> as_value(const Leaf& x);

/// How a parameter is held while tracing: numbers become Scalars, expressions Tensors.
template <class T>
using parameter_t =
    std::conditional_t<Arithmetic<T>, Scalar, std::conditional_t<is_expr<std::remove_cvref_t<T>>, Tensor, std::remove_cvref_t<T>>>;

/// Is a number of type A, as argument I of F, a static value?
template <class F, std::size_t I, class A>
consteval bool is_static_number() {
  if constexpr (Arithmetic<A> && expr_detail::Signature<F>::is_known) return !expr_detail::takes_scalar<F, I>();
  else return false;
}
template <class F, class I, class... A>
struct ParametersOf;
template <class F, std::size_t... I, class... A>
struct ParametersOf<F, std::index_sequence<I...>, A...> {
  using type = std::tuple<std::conditional_t<is_static_number<F, I, A>(), A, parameter_t<A>>...>;
};
/// How the arguments of a call of F are held.
template <class F, class... A>
using parameters_t = typename ParametersOf<F, std::index_sequence_for<A...>, A...>::type;

/// How a result is held: expressions and Variables become Tensors, inside pairs and tuples too.
template <class R>
struct Held {
  using type = std::conditional_t<is_expr<R> || std::same_as<R, Variable>, Tensor, std::conditional_t<Arithmetic<R>, Scalar, R>>;
  static type make(R&& r) { return type(std::move(r)); }
};
template <class... R>
struct Held<std::tuple<R...>> {
  using type = std::tuple<typename Held<R>::type...>;
  static type make(std::tuple<R...>&& r) {
    return std::apply([](R&... parts) { return type{Held<R>::make(std::move(parts))...}; }, r);
  }
};
template <class A, class B>
struct Held<std::pair<A, B>> {
  using type = std::pair<typename Held<A>::type, typename Held<B>::type>;
  static type make(std::pair<A, B>&& r) { return {Held<A>::make(std::move(r.first)), Held<B>::make(std::move(r.second))}; }
};
template <class R>
using held_result_t = typename Held<std::remove_cvref_t<R>>::type;
/// Calls `f` on the parameters of a tuple.
template <class F, class Parameters>
auto call_held(const F& f, const Parameters& parameters) {
  using R = std::remove_cvref_t<decltype(std::apply(f, parameters))>;
  return Held<R>::make(R(std::apply(f, parameters)));
}

/// Collects the values of a result.
struct CollectVisitor {
  std::vector<Ref<TensorImpl>>& values;
  void tensor(const Tensor& x) { values.push_back(x.impl()); }
  void scalar(const Scalar& x) { values.push_back(In(x).tensor()); }
  void variable(const Variable& x) { values.push_back(x.value().impl()); }
  void dim(const Dim&) {}   // stays what it is
  void fixed(std::int64_t) {}
};
template <class R>
std::vector<Ref<TensorImpl>> values_of(const R& result) {
  std::vector<Ref<TensorImpl>> values;
  CollectVisitor collect{values};
  tree::visit_leaves(result, collect);
  return values;
}
/// Puts values into a copy of a result.
struct FillVisitor {
  const Ref<TensorImpl>* values;
  void tensor(Tensor& x) { x = Tensor(*values++); }
  void scalar(Scalar& x) { x = Scalar(*values++); }
  void variable(const Variable&) { ++values; }
  void dim(const Dim&) {}
  void fixed(std::int64_t) {}
};
template <class R>
R with_values(R result, std::span<const Ref<TensorImpl>> values) {
  FillVisitor fill{values.data()};
  tree::visit_leaves(result, fill);
  return result;
}

/// Replaces floating leaves by placeholders.
struct ParameterVisitor {
  TransformTrace& trace;
  void tensor(Tensor& x) {
    if (is_floating(x.dtype())) x = Tensor(trace.parameter(x.impl()));
  }
  void scalar(Scalar& x) { x = Scalar(trace.parameter(as_value(x.leaf()))); }
  void variable(const Variable& x) {
    if (!is_floating(x.dtype())) return;
    const Ref<TensorImpl> value = trace.read_outside(x.slot());
    trace.variable_parameter(x.slot(), value, value->type);
  }
  void fixed(std::int64_t) {}
};

}  // namespace jit::autodiff_detail
SINTER_NAMESPACE_END
