// eval(expression): a whole expression, run at once through the slot of its type. No graph is built on the way: the
// leaves' specs are compared with those of the plans that this type already has. Numbers are inputs, so changing one
// compiles nothing. And eval of several values, and of what holds tensors.
#pragma once

#include <sinter/expr/creation.hpp>
#include <sinter/expr/expr.hpp>
#include <sinter/expr/tree.hpp>
#include <sinter/graph/tracing.hpp>

#include <atomic>
#include <concepts>
#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

SINTER_NAMESPACE_BEGIN

namespace jit {
class FunctionState;
}
namespace jit::jit_detail {

/// The compiled versions of one expression type; null until the first evaluation.
template <class E>
inline constinit std::atomic<FunctionState*> slot_of{nullptr};
Tensor run_expression(std::atomic<FunctionState*>& slot, const ExprStructure& structure, std::span<Leaf> leaves,
                      Location where);

}  // namespace jit::jit_detail

/// The value of a temporary expression, computed now: `Tensor y = eval(gelu(a * x) + b);`.
template <class Op, class... A>
Tensor eval(Expr<Op, A...>&& expression) {
  using E = Expr<Op, A...>;
  if (current_trace() != nullptr || expression.is_recorded()) {
    Tensor value(std::move(expression));
    if (current_trace() == nullptr) eval(In(value, expression.where()));
    return value;
  }
  return jit::jit_detail::run_expression(jit::jit_detail::slot_of<E>, E::structure(), expression.leaves(),
                                         expression.where());
}

namespace jit::jit_detail {

template <class T>
concept ListOfTensors = std::convertible_to<const T&, std::span<const Tensor>>;

/// A struct, tuple, container or map: what tree::visit_leaves takes apart.
template <class T>
concept HoldsTensors = !ListOfTensors<T> && !std::same_as<T, Location> &&
                       (tree::kind_of<T>() == tree::Kind::elements || tree::kind_of<T>() == tree::Kind::map ||
                        tree::kind_of<T>() == tree::Kind::optional || tree::kind_of<T>() == tree::Kind::fields);

/// Gathers the tensors of values, those of Variables too.
struct TensorsOf {
  std::vector<Tensor> list{};
  void tensor(const Tensor& x) { list.push_back(x); }
  void variable(const Variable& v) { list.push_back(v.value()); }
  void scalar(const Scalar&) {}
  void dim(const Dim&) {}
  void fixed(std::int64_t) {}

  template <class T>
  void add(const T& value, Location where) {
    if constexpr (TensorLike<T>) list.emplace_back(In(value, where).tensor());
    else if constexpr (ListOfTensors<T>)
      for (const Tensor& x : std::span<const Tensor>(value)) list.push_back(x);
    else tree::visit_leaves(value, *this);
  }
};

}  // namespace jit::jit_detail

template <class T>
concept Evaluated = TensorLike<T> || jit::jit_detail::ListOfTensors<T> || jit::jit_detail::HoldsTensors<T>;

/// A value that is computed now, handed on: `Tensor y = eval(sum(x));`.
template <std::same_as<Tensor> T>  // no conversions: what is no Tensor is an In
const T& eval(const T& value, Location where = std::source_location::current()) {
  eval(In(value, where));
  return value;
}
template <class T>  // no reference: a temporary, const or not, is handed on by value
  requires(std::same_as<std::remove_const_t<T>, Tensor>)
std::remove_const_t<T> eval(T&& value, Location where = std::source_location::current()) {
  eval(In(std::as_const(value), where));
  return std::forward<T>(value);
}

/// Runs whatever the tensors of a struct, tuple or container need, all at once, and hands it on: `eval(step(state));`.
template <class T>
  requires(jit::jit_detail::HoldsTensors<T> || jit::jit_detail::ListOfTensors<T>)
const T& eval(const T& object, Location where = std::source_location::current()) {
  if constexpr (jit::jit_detail::ListOfTensors<T>) {
    eval(std::span<const Tensor>(object), where);
  } else {
    jit::jit_detail::TensorsOf tensors;
    tensors.add(object, where);
    eval(std::span<const Tensor>(tensors.list), where);
  }
  return object;
}
template <class T>
  requires(!std::is_lvalue_reference_v<T> && std::constructible_from<std::remove_const_t<T>, T> &&
           (jit::jit_detail::HoldsTensors<std::remove_const_t<T>> ||
            jit::jit_detail::ListOfTensors<std::remove_const_t<T>>))
std::remove_const_t<T> eval(T&& object, Location where = std::source_location::current()) {
  eval(std::as_const(object), where);
  return std::forward<T>(object);
}

/// Of several values: `eval(position, velocity);`. A list, `eval({a, b, c, d, e})`, takes any number of Tensors.
template <Evaluated A, Evaluated B>
void eval(const A& a, const B& b, Location where = std::source_location::current()) {
  jit::jit_detail::TensorsOf tensors;
  tensors.add(a, where);
  tensors.add(b, where);
  eval(std::span<const Tensor>(tensors.list), where);
}
template <Evaluated A, Evaluated B, Evaluated C>
void eval(const A& a, const B& b, const C& c, Location where = std::source_location::current()) {
  jit::jit_detail::TensorsOf tensors;
  tensors.add(a, where);
  tensors.add(b, where);
  tensors.add(c, where);
  eval(std::span<const Tensor>(tensors.list), where);
}

SINTER_NAMESPACE_END
