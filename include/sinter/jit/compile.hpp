// compile(): the one entry point, and the typed half of compiled functions: taking arguments apart, calling the user's
// function on stand-ins, and putting results together.
#pragma once

#include <sinter/autodiff/transforms.hpp>
#include <sinter/expr/host.hpp>
#include <sinter/expr/tree.hpp>
#include <sinter/jit/arguments.hpp>
#include <sinter/jit/function.hpp>
#include <sinter/jit/options.hpp>
#include <sinter/jit/stance.hpp>
#include <sinter/tensor/call_journal.hpp>

#include <array>
#include <concepts>
#include <functional>
#include <memory>
#include <source_location>
#include <tuple>
#include <type_traits>
#include <utility>

SINTER_NAMESPACE_BEGIN
namespace jit {

namespace jit_detail {

/// What a call gives back for a function result of type R: expressions become Tensors, inside tuples too.
template <class R>
struct Result {
  using type = R;
  static R make(R&& r) { return std::move(r); }
};
template <class Op, class... A>
struct Result<Expr<Op, A...>> {
  using type = Tensor;
  static Tensor make(Expr<Op, A...>&& r) { return Tensor(std::move(r)); }
};
template <class... R>
struct Result<std::tuple<R...>> {
  using type = std::tuple<typename Result<R>::type...>;
  static type make(std::tuple<R...>&& r) {
    return std::apply([](R&... parts) { return type{Result<R>::make(std::move(parts))...}; }, r);
  }
};
template <class A, class B>
struct Result<std::pair<A, B>> {
  using type = std::pair<typename Result<A>::type, typename Result<B>::type>;
  static type make(std::pair<A, B>&& r) { return {Result<A>::make(std::move(r.first)), Result<B>::make(std::move(r.second))}; }
};
template <>
struct Result<Variable> {
  using type = Tensor;
  static Tensor make(Variable&& r) { return r.value(); }
};
template <class F, class Arguments>
struct RawResult;
template <class F, class... T>
struct RawResult<F, std::tuple<T...>> {
  using type = std::remove_cvref_t<std::invoke_result_t<const F&, const T&...>>;
};
struct Nothing {};
template <class R>
using result_of_t = typename Result<std::conditional_t<std::is_void_v<R>, Nothing, R>>::type;

/// Replaces the leaves of an argument by the trace's stand-ins.
struct StandInVisitor {
  FunctionTrace& trace;
  void tensor(Tensor& x) { x = Tensor(trace.next_leaf()); }
  void scalar(Scalar& x) { x = Scalar(trace.next_leaf()); }
  void variable(const Variable&) { trace.skip_leaf(); }
  void fixed(std::int64_t) { trace.skip_leaf(); }
};
template <class T, class A>
T stand_in(const A& arg, FunctionTrace& trace) {
  if constexpr (std::same_as<T, Tensor>) return Tensor(trace.next_leaf());
  else if constexpr (std::same_as<T, Scalar>) return Scalar(trace.next_leaf());
  else {
    T copy = arg;
    StandInVisitor visitor{trace};
    tree::visit_leaves(copy, visitor);
    return copy;
  }
}

/// Collects the values of a traced result.
struct CollectVisitor {
  std::vector<Ref<TensorImpl>>& values;
  void tensor(const Tensor& x) { values.push_back(x.impl()); }
  void scalar(const Scalar& x) { values.push_back(In(x).tensor()); }
  void variable(const Variable& x) { values.push_back(x.value().impl()); }
  void dim(const Dim&) {}
  void fixed(std::int64_t) {}
};
/// Puts the values of a call, and the extents of its symbols, into a copy of the traced result.
struct FillVisitor {
  Ref<TensorImpl>* values;
  std::span<const std::int64_t> symbols;
  void tensor(Tensor& x) { x = Tensor(std::move(*values++)); }
  void scalar(Scalar& x) { x = item(In(Tensor(std::move(*values++)), Location())); }
  void variable(const Variable&) { ++values; }
  void dim(Dim& x) { x = Dim(x.evaluate(symbols)); }
  void dim(const Dim&) {}   // keys of maps
  void fixed(std::int64_t) {}
};

/// Room for the values of a call's results; no allocation for a few of them.
class ResultValues {
 public:
  explicit ResultValues(std::size_t count) : many_(count > few_.size() ? count : 0) {}
  Ref<TensorImpl>* data() { return many_.empty() ? few_.data() : many_.data(); }

 private:
  std::array<Ref<TensorImpl>, 8> few_;
  std::vector<Ref<TensorImpl>> many_;
};

template <class R>
inline constexpr bool is_only_tensors = std::same_as<R, Tensor>;
template <class... R>
inline constexpr bool is_only_tensors<std::tuple<R...>> = (is_only_tensors<R> && ...);
template <class A, class B>
inline constexpr bool is_only_tensors<std::pair<A, B>> = is_only_tensors<A> && is_only_tensors<B>;

template <class R>
consteval std::size_t tensor_count() {
  if constexpr (std::same_as<R, Tensor>) return 1;
  else return []<template <class...> class T, class... P>(std::type_identity<T<P...>>) { return (tensor_count<P>() + ... + 0); }(std::type_identity<R>{});
}
template <class R>
R from_values(Ref<TensorImpl>*& values) {
  if constexpr (std::same_as<R, Tensor>) return Tensor(std::move(*values++));
  else return [&]<template <class...> class T, class... P>(std::type_identity<T<P...>>) { return R{from_values<P>(values)...}; }(std::type_identity<R>{});
}

/// The Tensors of an argument that is an rvalue.
struct GiveUpVisitor {
  ArgList& list;
  void tensor(Tensor& x) { list.give_up(x); }
  void tensor(const Tensor&) {}   // keys of maps
  void scalar(const Scalar&) {}
  void variable(const Variable&) {}
  void fixed(std::int64_t) {}
};
template <class A, class T>
void give_up(T& arg, ArgList& list) {
  if constexpr (!std::is_reference_v<A> && !std::is_const_v<A> && std::same_as<argument_t<T>, T> && !std::same_as<T, Borrowed> && !std::same_as<T, Lent> && !Arithmetic<T>) {
    GiveUpVisitor visitor{list};
    tree::visit_leaves(arg, visitor);
  }
}

inline BorrowedMut as_target(const BorrowedMut& target, Location = {}) { return target; }
template <EigenLike M>
BorrowedMut as_target(M& m, Location = {}) { return borrow_mut(m); }
/// Memory of a Tensor that nobody else sees.
BorrowedMut as_target(Tensor& x, Location where = {});

}  // namespace jit_detail

/// What compile() returns: call it like the function. Copies share the compiled code.
template <class F>
class Compiled {
 public:
  Compiled(F f, Options options, Location where)
      : f_(std::make_shared<const F>(std::move(f))), state_(std::make_shared<FunctionState>(std::move(options), where)) {
    static_assert(jit_detail::check_function<F>());
  }

  /// Calls the function. Inside another trace it becomes part of that trace.
  template <class... A>
    requires(jit_detail::Call<F, std::index_sequence_for<A...>, std::remove_cvref_t<A>...>::fits)
  auto operator()(A&&... args) const {
    using R = result_t<std::remove_cvref_t<A>...>;
    if (Trace::current() != nullptr) return call_plain<R>(args...);   // it becomes part of that trace
    if (state_->runs_plain()) return call_uncompiled<R>(args...);
    ArgList list;
    (jit_detail::give_up<A>(args, list), ...);
    return call<R>(list, std::as_const(args)...);
  }

  /// f.into(out...)(args...): results go into the given memory (BorrowedMut, Eigen objects, Tensors nobody else holds).
  template <class... O>
  [[nodiscard]] auto into(O&&... outputs) const {
    std::array<BorrowedMut, sizeof...(O)> targets{jit_detail::as_target(outputs, state_->where())...};
    return [self = *this, targets](const auto&... args) { self.call_into(Targets(targets), args...); };
  }

  /// Compiles for these arguments without running, and makes ready what calls on this thread need: after it, calls with
  /// arguments like these compile nothing, take no lock and allocate nothing (see docs/calls.md for the exact terms).
  template <class... A>
  void warm_up(const A&... args) const {
    ArgList list;
    SmallVector<std::int64_t, 8> symbols;
    if (state_->runs_plain()) return;
    with_entry<result_t<A...>>(
        list, symbols,
        [&](const Entry* entry, const TraceFunction& trace) {
          if (entry != nullptr) state_->warm_up(*entry, list, trace, symbols);
        },
        args...);
  }

  /// What the call with these arguments compiles to: graph, guards, kernels, memory, code.
  template <class... A>
  Explanation explain(const A&... args) const {
    ArgList list;
    SmallVector<std::int64_t, 8> symbols;
    if (state_->runs_plain()) return jit::explain(nullptr, symbols);
    return with_entry<result_t<A...>>(list, symbols, [&](const Entry* entry) { return jit::explain(entry, symbols); }, args...);
  }

  /// As into(), with the targets in a list.
  template <class... A>
  void call_into(Targets targets, const A&... args) const {
    using R = result_t<A...>;
    ArgList list;
    if (state_->runs_plain()) {
      flatten(list, as_argument(args)...);
      return into_uncompiled<R>(list, targets, args...);
    }
    SmallVector<std::int64_t, 8> symbols;
    with_entry<R>(
        list, symbols,
        [&](const Entry* entry, const TraceFunction& trace) {
          if (SINTER_UNLIKELY(entry == nullptr)) return into_uncompiled<R>(list, targets, args...);
          if (SINTER_UNLIKELY(entry->tree != nullptr)) {
            std::vector<Ref<TensorImpl>> values;
            state_->run_tree(*entry, list, symbols, trace, {nullptr, &values}, targets);
            return;
          }
          if constexpr (jit_detail::is_only_tensors<R>) {
            std::array<Ref<TensorImpl>, jit_detail::tensor_count<R>()> values;
            state_->run(*entry, list, symbols, trace, values.data(), targets);
          } else {
            jit_detail::ResultValues values(entry->end.results);
            state_->run(*entry, list, symbols, trace, values.data(), targets);
          }
        },
        args...);
  }

  Stats stats() const { return state_->stats(); }
  void reset() const { state_->reset(); }
  const F& function() const { return *f_; }

 private:
  template <class... A>
  using arguments_t = jit_detail::traced_arguments_t<F, A...>;
  template <class... A>
  using raw_t = typename jit_detail::RawResult<F, arguments_t<A...>>::type;
  template <class... A>
  using result_t = jit_detail::result_of_t<raw_t<A...>>;

  template <class R, class... A>
  auto call_plain(const A&... args) const {
    using Arguments = arguments_t<A...>;
    auto invoke = [&]<std::size_t... I>(std::index_sequence<I...>) -> decltype(auto) {
      return (*f_)(static_cast<const std::tuple_element_t<I, Arguments>&>(plain<std::tuple_element_t<I, Arguments>>(args))...);
    };
    if constexpr (std::is_void_v<raw_t<A...>>) invoke(std::index_sequence_for<A...>{});
    else return jit_detail::Result<raw_t<A...>>::make(invoke(std::index_sequence_for<A...>{}));
  }
  /// A call that no compiled code serves: the function itself, on the caller's values. If it throws, Variables are as before.
  template <class R, class... A>
  auto call_uncompiled(const A&... args) const {
    state_->count_plain_call();
    CallJournal journal(CallJournal::Reads::ignored);
    if constexpr (std::is_void_v<raw_t<A...>>) {
      call_plain<R>(args...);
      journal.keep();
    } else {
      auto result = call_plain<R>(args...);
      journal.keep();
      return result;
    }
  }
  /// As that, with results into given memory. Compiled functions that it calls run uncompiled, too, so that all they read is
  /// seen.
  template <class R, class... A>
  void into_uncompiled(const ArgList& list, Targets targets, const A&... args) const {
    state_->count_plain_call();
    StanceGuard eager(Stance::force_eager);
    CallJournal journal(CallJournal::Reads::noted);
    std::vector<Ref<TensorImpl>> values;
    if constexpr (std::is_void_v<raw_t<A...>>) {
      call_plain<R>(args...);
    } else {
      const auto result = call_plain<R>(args...);
      jit_detail::CollectVisitor collect{values};
      tree::visit_leaves(result, collect);
    }
    state_->deliver_uncompiled(std::move(values), targets, list, journal);
    journal.keep();
  }
  template <class T, class A>
  static T plain(const A& arg) {
    if constexpr (std::same_as<A, Lent>) return arg.is_memory ? copy_of(arg.memory) : arg.value;
    else if constexpr (std::same_as<T, Tensor> && (std::same_as<A, Borrowed> || EigenLike<A>)) return copy_of(arg);
    else return T(arg);
  }

  template <class... A>
  static void flatten(ArgList& list, const A&... args) {
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      (jit_detail::flatten<std::tuple_element_t<I, arguments_t<A...>>>(args, list), ...);
    }(std::index_sequence_for<A...>{});
  }
  /// Takes the arguments apart, finds or makes the entry, and hands it to `use`.
  template <class R, class Use, class... A>
  decltype(auto) with_entry(ArgList& list, SmallVector<std::int64_t, 8>& symbols, Use&& use, const A&... args) const {
    return with_arguments<R>(list, symbols, std::forward<Use>(use), std::index_sequence_for<A...>{}, as_argument(args)...);
  }
  template <class R, class Use, std::size_t... I, class... A>
  decltype(auto) with_arguments(ArgList& list, SmallVector<std::int64_t, 8>& symbols, Use&& use, std::index_sequence<I...>, const A&... args) const {
    using Arguments = arguments_t<A...>;
    flatten(list, args...);
    list.types = &jit_detail::types_tag<R, Arguments>;
    auto trace = [&](FunctionTrace& recorder) {
      [[maybe_unused]] jit_detail::NameVisitor names{recorder.guards().names};   // of a function without arguments
      (names.template argument<std::tuple_element_t<I, Arguments>>(I, args), ...);
      // Braces fix the order in which stand-ins are taken.
      Arguments traced{jit_detail::stand_in<std::tuple_element_t<I, Arguments>>(args, recorder)...};
      TracedResult result;
      if constexpr (std::is_void_v<raw_t<A...>>) {
        std::apply(*f_, std::as_const(traced));
        result.shape = std::make_shared<R>();
      } else {
        auto value = std::make_shared<R>(jit_detail::Result<raw_t<A...>>::make(std::apply(*f_, std::as_const(traced))));
        jit_detail::CollectVisitor collect{result.values};
        tree::visit_leaves(*value, collect);
        result.shape = std::move(value);
      }
      return result;
    };
    const Entry* entry = state_->entry_for(list, TraceFunction::of(trace), symbols);
    if constexpr (std::invocable<Use&, const Entry*, const TraceFunction&>) return use(entry, TraceFunction::of(trace));
    else return use(entry);
  }

  template <class R, class... A>
  auto call(ArgList& list, const A&... args) const {
    SmallVector<std::int64_t, 8> symbols;
    return with_entry<R>(
        list, symbols,
        [&](const Entry* entry, const TraceFunction& trace) {
          if (SINTER_UNLIKELY(entry == nullptr)) return call_uncompiled<R>(args...);
          if constexpr (std::same_as<R, jit_detail::Nothing>) {
            if (SINTER_UNLIKELY(entry->tree != nullptr)) return static_cast<void>(call_tree<R>(*entry, list, symbols, trace));
          } else {
            if (SINTER_UNLIKELY(entry->tree != nullptr)) return call_tree<R>(*entry, list, symbols, trace);
          }
          if constexpr (jit_detail::is_only_tensors<R>) {
            std::array<Ref<TensorImpl>, jit_detail::tensor_count<R>()> values;
            state_->run(*entry, list, symbols, trace, values.data());
            Ref<TensorImpl>* at = values.data();
            return jit_detail::from_values<R>(at);
          } else {
            jit_detail::ResultValues values(entry->end.results);
            state_->run(*entry, list, symbols, trace, values.data());
            if constexpr (!std::same_as<R, jit_detail::Nothing>) {
              R result = *static_cast<const R*>(entry->result_shape.get());
              jit_detail::FillVisitor fill{values.data(), symbols};
              tree::visit_leaves(result, fill);
              return result;
            }
          }
        },
        args...);
  }

  /// A function that reads values: what comes back, static values too, is that of the path taken.
  template <class R>
  SINTER_NOINLINE R call_tree(const Entry& entry, const ArgList& list, std::span<const std::int64_t> symbols, TraceFunction trace) const {
    if constexpr (jit_detail::is_only_tensors<R>) {
      std::array<Ref<TensorImpl>, jit_detail::tensor_count<R>()> values;
      state_->run_tree(entry, list, symbols, trace, {values.data(), nullptr});
      Ref<TensorImpl>* at = values.data();
      return jit_detail::from_values<R>(at);
    } else {
      std::vector<Ref<TensorImpl>> values;
      TreeResult done = state_->run_tree(entry, list, symbols, trace, {nullptr, &values});
      R result = *static_cast<const R*>(done.shape);
      jit_detail::FillVisitor fill{values.data(), symbols};
      if constexpr (!std::same_as<R, jit_detail::Nothing>) tree::visit_leaves(result, fill);
      return result;
    }
  }

  std::shared_ptr<const F> f_;
  std::shared_ptr<FunctionState> state_;
};

/// Compiles `f` for the arguments it is called with: traced once per kind of arguments, guarded, fused, and run as
/// machine code. f takes Tensors, Scalars, structs, containers and static values by value or const reference and returns
/// Tensors, tuples, containers or structs of them. It may run several times while it is traced, so keep host effects out.
template <class F>
Compiled<std::decay_t<F>> compile(F&& f, Options options = {}, Location where = std::source_location::current()) {
  return Compiled<std::decay_t<F>>(std::forward<F>(f), std::move(options), where);
}

template <class Signature>
class Function;

/// A nameable type for compiled functions, to be stored in classes and declared in headers.
template <class R, class... P>
class Function<R(P...)> {
 public:
  Function() = default;
  template <class F>
  Function(const Compiled<F>& compiled) : call_(std::make_shared<Holder<F>>(compiled)) {}

  explicit operator bool() const { return call_ != nullptr; }
  R operator()(const std::conditional_t<std::same_as<P, Tensor>, Tensor, P>&... args) const { return checked().call(args...); }
  /// As Compiled::into; arguments are Tensors, Scalars, ... as in the signature, or lent memory for Tensors.
  template <class... O>
  [[nodiscard]] auto into(O&&... outputs) const {
    std::array<BorrowedMut, sizeof...(O)> targets{jit_detail::as_target(outputs)...};
    return [self = *this, targets](const auto&... args) { self.checked().call_into(Targets(targets), convert<P>(args)...); };
  }
  /// These as those of what compile() returns.
  void warm_up(const P&... args) const { checked().warm_up(args...); }
  Explanation explain(const P&... args) const { return checked().explain(args...); }
  Stats stats() const { return checked().stats(); }
  void reset() const { checked().reset(); }

 private:
  template <class T>
  using lent_t = std::conditional_t<std::same_as<T, Tensor>, Lent, T>;
  template <class T, class A>
  static decltype(auto) convert(const A& arg) {
    if constexpr (std::same_as<T, Tensor>) return Lent(arg);
    else return static_cast<T>(arg);
  }
  struct Base {
    virtual ~Base() = default;
    virtual R call(const P&...) const = 0;
    virtual void call_into(std::span<const BorrowedMut>, const lent_t<P>&...) const = 0;
    virtual void warm_up(const P&...) const = 0;
    virtual Explanation explain(const P&...) const = 0;
    virtual Stats stats() const = 0;
    virtual void reset() const = 0;
  };
  template <class F>
  struct Holder final : Base {
    explicit Holder(const Compiled<F>& c) : compiled(c) {}
    R call(const P&... args) const override { return compiled(args...); }
    void call_into(std::span<const BorrowedMut> targets, const lent_t<P>&... args) const override { compiled.call_into(targets, args...); }
    void warm_up(const P&... args) const override { compiled.warm_up(args...); }
    Explanation explain(const P&... args) const override { return compiled.explain(args...); }
    Stats stats() const override { return compiled.stats(); }
    void reset() const override { compiled.reset(); }
    Compiled<F> compiled;
  };
  const Base& checked() const {
    if (call_ == nullptr) throw UserError("jit::Function", "the function is empty", {}, "assign the result of jit::compile to it");
    return *call_;
  }
  std::shared_ptr<const Base> call_;
};

}  // namespace jit
SINTER_NAMESPACE_END
