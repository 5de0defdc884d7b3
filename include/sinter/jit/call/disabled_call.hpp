// A call of a disabled function inside a trace, typed: its arguments are copied and the traced values in them become
// the operands; each run puts values in their places and takes the result apart. Knows nothing of trace trees.
#pragma once

#include <sinter/expr/functions.hpp>
#include <sinter/expr/host.hpp>
#include <sinter/expr/tree.hpp>
#include <sinter/graph/eager_call.hpp>
#include <sinter/graph/tracing.hpp>
#include <sinter/jit/call/stance.hpp>

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
EagerResults call_eagerly(Trace& trace, const std::shared_ptr<const EagerCall>& call,
                          std::span<const Ref<TensorImpl>> operands);

/// What a call gives: expressions become Tensors.
template <class R>
using disabled_result_t = std::conditional_t<is_expr<std::remove_cvref_t<R>>, Tensor, R>;
/// How an argument is kept.
template <class A>
using kept_t = std::conditional_t<is_expr<std::remove_cvref_t<A>>, Tensor, std::decay_t<A>>;

inline std::int64_t bits_of(double x) { return std::bit_cast<std::int64_t>(x); }
/// C++ numbers whole; long double as double, which is what tensors hold at most.
template <class T>
std::int64_t bits_of_number(T x) {
  if constexpr (std::is_floating_point_v<T>) return bits_of(static_cast<double>(x));
  else return static_cast<std::int64_t>(x);
}

/// What the arguments of a call hold: traced leaves, which become its operands, and the rest, by which calls are
/// compared.
struct DisabledArguments {
  std::vector<Ref<TensorImpl>> operands;
  std::vector<std::uint8_t> is_operand;  // by tensor and number
  std::vector<Ref<TensorImpl>> constants;
  std::vector<std::int64_t> fixed;
};
/// Takes the traced leaves out of an argument: nothing of the trace outlives it.
void take_operands(tree::Part argument, DisabledArguments& out);
/// Puts this call's values there; both are moved after what the argument needs.
void put_operands(tree::Part argument, const std::uint8_t*& is_operand, const Ref<TensorImpl>*& values);
/// Takes a result apart.
void read_result(tree::View result, EagerResults& out, Location where);
void fill_eager_result(tree::Part result, const Ref<TensorImpl>* values);
bool same_arguments(const DisabledArguments& a, const DisabledArguments& b);
void add_fixed(DisabledArguments& out, std::int64_t value);

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

/// What disable() was given.
template <class F>
struct DisabledFunction {
  std::shared_ptr<const F> function;  // shared with the compiled functions that call it
  bool is_recursive;                  // so are compiled functions that it calls
  Location where;
};
inline Stance stance_inside(bool is_recursive) { return is_recursive ? Stance::force_eager : current_stance(); }

template <class F, class R, class... A>
class DisabledCall final : public EagerCall {
 public:
  template <class... Given>
  DisabledCall(const DisabledFunction<F>& f, Location called_at, Given&&... args)
      : EagerCall(called_at, f.where),
        f_(f.function),
        is_recursive_(f.is_recursive),
        args_(std::forward<Given>(args)...) {
    std::apply([&](A&... arg) { (visit(arg, given_), ...); }, args_);
  }
  /// To be taken once: the call itself keeps nothing of the trace.
  std::vector<Ref<TensorImpl>> take_operands() { return std::move(given_.operands); }

  EagerResults run(std::span<const Ref<TensorImpl>> operands, std::span<const std::int64_t> symbols) const override {
    std::tuple<A...> args = args_;
    const std::uint8_t* is_operand = given_.is_operand.data();
    const Ref<TensorImpl>* values = operands.data();
    std::apply([&](A&... arg) { (fill(arg, is_operand, values, symbols), ...); }, args);
    TracePause pause;
    const StanceGuard stance(stance_inside(is_recursive_));
    EagerResults results;
    if constexpr (std::is_void_v<R>) {
      std::apply(*f_, std::as_const(args));
    } else {
      auto object = std::make_shared<R>(std::apply(*f_, std::as_const(args)));
      if constexpr (comes_back<R>() == ComesBack::number) {
        results.fixed.assign(1, bits_of_number(*object));
      } else if constexpr (comes_back<R>() == ComesBack::parts) {
        read_result(tree::view_of(std::as_const(*object)), results, where);
      } else {
        results.is_opaque = true;
      }
      results.object = std::move(object);
    }
    return results;
  }
  TypeKey type() const override { return type_key<DisabledCall>(); }
  bool is_same(const EagerCall& other) const override {
    return other.type() == type() && same_arguments(given_, static_cast<const DisabledCall&>(other).given_);
  }
  bool is_same_result(const void* a, const void* b) const override {
    if constexpr (comes_back<R>() == ComesBack::whole) return *static_cast<const R*>(a) == *static_cast<const R*>(b);
    else return a == b;
  }

 private:
  template <class T>
  static void visit(T& arg, DisabledArguments& given) {
    if constexpr (std::is_floating_point_v<T>) add_fixed(given, bits_of_number(arg));
    else if constexpr (std::same_as<T, Dim>) add_fixed(given, arg.is_static() ? arg.value() : -1);  // of each call
    else if constexpr (tree::can_visit<T>()) jit_detail::take_operands(tree::part_of(arg), given);
  }
  template <class T>
  static void fill(T& arg, const std::uint8_t*& is_operand, const Ref<TensorImpl>*& values,
                   std::span<const std::int64_t> symbols) {
    if constexpr (std::same_as<T, Dim>) arg = Dim(arg.evaluate(symbols));
    else if constexpr (tree::can_visit<T>()) put_operands(tree::part_of(arg), is_operand, values);
  }

  std::shared_ptr<const F> f_;
  bool is_recursive_;
  std::tuple<A...> args_;
  DisabledArguments given_;
};

template <class R, class F, class... A>
R call_in_trace(Trace& trace, const DisabledFunction<F>& f, Location where, A&&... args) {
  if constexpr (comes_back<R>() == ComesBack::never) {
    throw_disabled(
        "inside a compiled function its result cannot come back: it is a reference, holds Variables, or is of a type "
        "that can neither be taken apart nor compared",
        where, "return Tensors, Scalars, C++ values, or structs of them");
  } else if constexpr (!(std::copy_constructible<kept_t<A>> && ...) || !std::invocable<const F&, const kept_t<A>&...>) {
    throw_disabled(
        "inside a compiled function it is called again in each call on copies of its arguments, and one of them cannot "
        "be copied or is to be changed",
        where, "take arguments by value or const reference; capture by reference what the function changes");
  } else {
    const auto call = std::make_shared<DisabledCall<F, R, kept_t<A>...>>(f, where, std::forward<A>(args)...);
    const std::vector<Ref<TensorImpl>> operands = call->take_operands();
    EagerResults results = call_eagerly(trace, call, operands);
    if constexpr (!std::is_void_v<R>) {
      R result = *static_cast<const R*>(results.object.get());
      if constexpr (comes_back<R>() == ComesBack::parts) {
        fill_eager_result(tree::part_of(result), results.values.data());
      }
      return result;
    }
  }
}

}  // namespace jit::jit_detail
SINTER_NAMESPACE_END
