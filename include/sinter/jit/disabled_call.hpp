// A call of a disabled function inside a trace, typed: its arguments are copied and the traced values in them become the
// operands; each run puts values in their places and takes the result apart. Knows nothing of trace trees.
#pragma once

#include <sinter/expr/functions.hpp>
#include <sinter/expr/host.hpp>
#include <sinter/expr/tree.hpp>
#include <sinter/graph/eager_call.hpp>
#include <sinter/graph/record.hpp>
#include <sinter/jit/stance.hpp>

#include <algorithm>
#include <bit>
#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace jit::jit_detail {

[[noreturn]] void throw_disabled(std::string_view what, Location where, std::string_view fix);
/// The call in `trace`, after the checks that all traces share.
EagerResults call_eagerly(Trace& trace, const std::shared_ptr<const EagerCall>& call, std::span<const Ref<TensorImpl>> operands);
/// Ready, row-major, and nothing that a tape follows.
Ref<TensorImpl> eager_result(const Ref<TensorImpl>& value, Location where);

/// The same type and elements, as far as they can be compared here.
bool has_same_elements(const Ref<TensorImpl>& a, const Ref<TensorImpl>& b);

/// What a call gives: expressions become Tensors.
template <class R>
using disabled_result_t = std::conditional_t<is_expr<std::remove_cvref_t<R>>, Tensor, R>;
/// How an argument is kept.
template <class A>
using kept_t = std::conditional_t<is_expr<std::remove_cvref_t<A>>, Tensor, std::decay_t<A>>;

inline std::int64_t bits_of(double x) { return std::bit_cast<std::int64_t>(x); }
inline std::int64_t bits_of(const Leaf& number) { return number.kind == DTypeClass::floating ? bits_of(number.number) : number.integer; }
/// C++ numbers whole; long double as double, which is what tensors hold at most.
template <class T>
std::int64_t bits_of_number(T x) {
  if constexpr (std::is_floating_point_v<T>) return bits_of(static_cast<double>(x));
  else return static_cast<std::int64_t>(x);
}

/// Takes the traced leaves out of the arguments of a call.
struct OperandVisitor {
  std::vector<Ref<TensorImpl>>& operands;
  std::vector<std::uint8_t>& is_operand;              // by tensor and number
  std::vector<Ref<TensorImpl>>& constants;
  std::vector<std::int64_t>& fixed_values;
  void tensor(Tensor& x) {
    const bool is_traced = x.impl()->trace != 0 && !x.is_ready();
    is_operand.push_back(is_traced);
    (is_traced ? operands : constants).push_back(x.impl());
    if (is_traced) x = Tensor();                      // nothing of the trace outlives it
  }
  void tensor(const Tensor& x) { constants.push_back(x.impl()); }   // keys of maps
  void scalar(Scalar& x) {
    is_operand.push_back(!x.is_number());
    if (x.is_number()) return fixed(bits_of(x.leaf()));
    operands.push_back(x.leaf().value);
    x = Scalar();
  }
  void scalar(const Scalar& x) { fixed(bits_of(x.leaf())); }
  void variable(const Variable& x) { fixed_values.push_back(static_cast<std::int64_t>(reinterpret_cast<std::intptr_t>(x.slot().get()))); }
  void fixed(std::int64_t value) { fixed_values.push_back(value); }
};
/// Puts this call's values there.
struct OperandFiller {
  const std::uint8_t* is_operand;
  const Ref<TensorImpl>* values;
  void tensor(Tensor& x) {
    if (*is_operand++ != 0) x = Tensor(*values++);
  }
  void tensor(const Tensor&) {}
  void scalar(Scalar& x) {
    if (*is_operand++ != 0) x = item(In(Tensor(*values++), Location()));
  }
  void scalar(const Scalar&) {}
  void variable(const Variable&) {}
  void fixed(std::int64_t) {}
};
/// Takes a result apart.
struct ResultReader {
  EagerResults& results;
  Location where;
  void tensor(const Tensor& x) { results.values.push_back(eager_result(x.impl(), where)); }
  void scalar(const Scalar& x) { results.values.push_back(eager_result(In(x).tensor(), where)); }
  void variable(const Variable&) {}
  void fixed(std::int64_t value) { results.fixed.push_back(value); }
};
struct ResultFiller {
  const Ref<TensorImpl>* values;
  void tensor(Tensor& x) { x = Tensor(*values++); }
  void tensor(const Tensor&) { ++values; }
  void scalar(Scalar& x) {
    if ((*values)->is_ready()) x = item(In(Tensor(*values), Location()));
    else x = Scalar(*values);
    ++values;
  }
  void scalar(const Scalar&) { ++values; }
  void variable(const Variable&) {}
  void fixed(std::int64_t) {}
};

/// How a result of type R comes back into a trace.
enum class ComesBack : std::uint8_t { nothing, number, parts, whole, never };
template <class R>
consteval ComesBack comes_back() {
  if constexpr (std::is_void_v<R>) return ComesBack::nothing;
  else if constexpr (std::is_reference_v<R> || !std::copy_constructible<R>) return ComesBack::never;
  else if constexpr (std::is_arithmetic_v<R>) return ComesBack::number;
  else if constexpr (tree::can_visit<R>()) return tree::has_variables<R>() ? ComesBack::never : ComesBack::parts;
  else if constexpr (std::equality_comparable<R>) return ComesBack::whole;
  else return ComesBack::never;
}

template <class F, class R, class... A>
class DisabledCall final : public EagerCall {
 public:
  template <class... Given>
  DisabledCall(std::shared_ptr<const F> f, Location called_at, Location made_at, std::vector<Ref<TensorImpl>>& operands, Given&&... args)
      : EagerCall(called_at, made_at), f_(std::move(f)), args_(std::forward<Given>(args)...) {
    OperandVisitor visitor{operands, is_operand_, constants_, fixed_};
    std::apply([&](A&... arg) { (visit(arg, visitor), ...); }, args_);
  }

  EagerResults run(std::span<const Ref<TensorImpl>> operands, std::span<const std::int64_t> symbols) const override {
    std::tuple<A...> args = args_;
    OperandFiller filler{is_operand_.data(), operands.data()};
    std::apply([&](A&... arg) { (fill(arg, filler, symbols), ...); }, args);
    TracePause pause;
    StanceGuard eager(Stance::force_eager);
    EagerResults results;
    if constexpr (std::is_void_v<R>) {
      std::apply(*f_, std::as_const(args));
    } else {
      auto object = std::make_shared<R>(std::apply(*f_, std::as_const(args)));
      if constexpr (comes_back<R>() == ComesBack::number) {
        results.fixed.push_back(bits_of_number(*object));
      } else if constexpr (comes_back<R>() == ComesBack::parts) {
        ResultReader reader{results, where};
        tree::visit_leaves(std::as_const(*object), reader);
      } else {
        results.is_opaque = true;
      }
      results.object = std::move(object);
    }
    return results;
  }
  TypeKey type() const override { return type_key<DisabledCall>(); }
  bool is_same(const EagerCall& other) const override {
    const auto* same = other.type() == type() ? static_cast<const DisabledCall*>(&other) : nullptr;
    return same != nullptr && is_operand_ == same->is_operand_ && fixed_ == same->fixed_ &&
           std::equal(constants_.begin(), constants_.end(), same->constants_.begin(), same->constants_.end(), has_same_elements);
  }
  bool is_same_result(const void* a, const void* b) const override {
    if constexpr (comes_back<R>() == ComesBack::whole) return *static_cast<const R*>(a) == *static_cast<const R*>(b);
    else return a == b;
  }

 private:
  template <class T>
  static void visit(T& arg, OperandVisitor& visitor) {
    if constexpr (std::is_floating_point_v<T>) visitor.fixed(bits_of_number(arg));
    else if constexpr (std::same_as<T, Dim>) visitor.fixed(arg.is_static() ? arg.value() : -1);   // of each call
    else if constexpr (tree::can_visit<T>()) tree::visit_leaves(arg, visitor);
  }
  template <class T>
  static void fill(T& arg, OperandFiller& filler, std::span<const std::int64_t> symbols) {
    if constexpr (std::same_as<T, Dim>) arg = Dim(arg.evaluate(symbols));
    else if constexpr (tree::can_visit<T>()) tree::visit_leaves(arg, filler);
  }

  std::shared_ptr<const F> f_;
  std::tuple<A...> args_;
  std::vector<std::uint8_t> is_operand_;
  std::vector<Ref<TensorImpl>> constants_;
  std::vector<std::int64_t> fixed_;
};

template <class R, class F, class... A>
R call_in_trace(Trace& trace, const std::shared_ptr<const F>& f, Location where, Location disabled_at, A&&... args) {
  if constexpr (comes_back<R>() == ComesBack::never) {
    throw_disabled("inside a compiled function its result cannot come back: it is a reference, holds Variables, or is of a type that can neither be taken apart nor compared", where,
                   "return Tensors, Scalars, C++ values, or structs of them");
  } else if constexpr (!(std::copy_constructible<kept_t<A>> && ...) || !std::invocable<const F&, const kept_t<A>&...>) {
    throw_disabled("inside a compiled function it is called again in each call on copies of its arguments, and one of them cannot be copied or is to be changed", where,
                   "take arguments by value or const reference; capture by reference what the function changes");
  } else {
    std::vector<Ref<TensorImpl>> operands;
    const std::shared_ptr<const EagerCall> call = std::make_shared<DisabledCall<F, R, kept_t<A>...>>(f, where, disabled_at, operands, std::forward<A>(args)...);
    EagerResults results = call_eagerly(trace, call, operands);
    if constexpr (!std::is_void_v<R>) {
      R result = *static_cast<const R*>(results.object.get());
      if constexpr (comes_back<R>() == ComesBack::parts) {
        ResultFiller filler{results.values.data()};
        tree::visit_leaves(result, filler);
      }
      return result;
    }
  }
}

}  // namespace jit::jit_detail
SINTER_NAMESPACE_END
