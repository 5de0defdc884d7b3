// compile(): the one entry point, and the typed half of compiled functions: taking arguments apart, calling the user's
// function on placeholders, and putting results together.
#pragma once

#include <sinter/expr/host.hpp>
#include <sinter/expr/tree.hpp>
#include <sinter/jit/call/arguments.hpp>
#include <sinter/jit/call/call.hpp>
#include <sinter/jit/options.hpp>

#include <array>
#include <concepts>
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
  static type make(std::pair<A, B>&& r) {
    return {Result<A>::make(std::move(r.first)), Result<B>::make(std::move(r.second))};
  }
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

template <class R>
inline constexpr bool is_only_tensors = std::same_as<R, Tensor>;
template <class... R>
inline constexpr bool is_only_tensors<std::tuple<R...>> = (is_only_tensors<R> && ...);
template <class A, class B>
inline constexpr bool is_only_tensors<std::pair<A, B>> = is_only_tensors<A> && is_only_tensors<B>;

template <class R>
consteval std::size_t tensor_count() {
  if constexpr (std::same_as<R, Tensor>) return 1;
  else
    return []<template <class...> class T, class... P>(std::type_identity<T<P...>>) {
      return (tensor_count<P>() + ... + 0);
    }(std::type_identity<R>{});
}
template <class R>
R from_values(Ref<TensorImpl>*& values) {
  if constexpr (std::same_as<R, Tensor>) return Tensor(std::move(*values++));
  else
    return [&]<template <class...> class T, class... P>(std::type_identity<T<P...>>) {
      return R{from_values<P>(values)...};
    }(std::type_identity<R>{});
}

// What each call does is typed, unlike what only tracing does: visitors that the compiler sees through.
/// The Tensors of an argument that is an rvalue.
struct DonateVisitor {
  ArgList& list;
  void tensor(Tensor& x) { list.donate(x); }
  void tensor(const Tensor&) {}  // keys of maps
  void scalar(const Scalar&) {}
  void variable(const Variable&) {}
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
  void dim(const Dim&) {}  // keys of maps
  void fixed(std::int64_t) {}
};
template <class R>
SINTER_ALWAYS_INLINE R filled_result(const void* shape, Ref<TensorImpl>* values,
                                     std::span<const std::int64_t> symbols) {
  R result = *static_cast<const R*>(shape);
  FillVisitor fill{values, symbols};
  if constexpr (!std::same_as<R, Nothing>) tree::visit_leaves(result, fill);
  return result;
}

template <class A, class T>
void donate(T& arg, ArgList& list) {
  if constexpr (!std::is_reference_v<A> && !std::is_const_v<A> && std::same_as<argument_t<T>, T> &&
                !std::same_as<T, Borrowed> && !std::same_as<T, Lent> && !Arithmetic<T>) {
    DonateVisitor visitor{list};
    tree::visit_leaves(arg, visitor);
  }
}

inline BorrowedMut as_target(const BorrowedMut& target, Location = {}) { return target; }
template <EigenLike M>
BorrowedMut as_target(M& m, Location = {}) {
  return borrow_mut(m);
}

/// The user's function without its type: what is generated for a call depends on the types of arguments and result
/// alone.
template <class R, class Arguments>
struct Callee {
  const void* function;
  R (*invoke)(const void* function, const Arguments& arguments);
};

/// How an argument is handed to a function that runs uncompiled.
template <class T, class A>
T plain(const A& arg) {
  if constexpr (std::same_as<A, Lent>) return arg.is_memory ? copy_of(arg.memory) : arg.value;
  else if constexpr (std::same_as<T, Tensor> && (std::same_as<A, Borrowed> || EigenLike<A>)) return copy_of(arg);
  else return T(arg);
}
/// What the placeholders are put into: the argument itself, for its static parts.
template <class T, class A>
T unfilled(const A& arg) {
  if constexpr (std::same_as<T, Tensor> || std::same_as<T, Scalar>) return T();
  else return arg;
}

/// A call on `A...`, of which the traced types are in Arguments. Knows neither the function nor whether it is compiled.
template <class R, class Arguments, class... A>
struct TypedCall {
  const Callee<R, Arguments>& callee;
  std::tuple<const A&...> args;

  R invoke_plain() const { return invoke_plain(std::index_sequence_for<A...>{}); }
  SINTER_ALWAYS_INLINE void flatten(ArgList& list) const { flatten(list, std::index_sequence_for<A...>{}); }
  TraceFunction trace() const {
    return {const_cast<TypedCall*>(this), [](void* call, FunctionTrace& recorder) {
              return static_cast<const TypedCall*>(call)->trace_on(recorder, std::index_sequence_for<A...>{});
            }};
  }
  /// Takes the arguments apart, and finds or makes the entry.
  const CompiledEntry* find(FunctionState& function, ArgList& list, Symbols& symbols) const {
    flatten(list);
    list.types = &types_tag<R, Arguments>;
    return entry_for(function, list, trace(), symbols);
  }

 private:
  template <std::size_t... I>
  R invoke_plain(std::index_sequence<I...>) const {
    return callee.invoke(callee.function, Arguments(plain<std::tuple_element_t<I, Arguments>>(std::get<I>(args))...));
  }
  template <std::size_t... I>
  SINTER_ALWAYS_INLINE void flatten(ArgList& list, std::index_sequence<I...>) const {
    (jit_detail::flatten<std::tuple_element_t<I, Arguments>>(std::get<I>(args), list), ...);
  }
  template <class T, class B>
  static tree::View names_of(const B& arg) {
    if constexpr (std::same_as<B, Borrowed> || std::same_as<B, Lent> || std::same_as<T, Scalar> ||
                  std::same_as<T, Tensor>)
      return {};
    else return tree::view_of(arg);
  }
  template <std::size_t... I>
  SINTER_COLD TracedResult trace_on(FunctionTrace& recorder, std::index_sequence<I...>) const {
    Arguments traced(unfilled<std::tuple_element_t<I, Arguments>>(std::get<I>(args))...);
    const std::array<TracedArgument, sizeof...(A)> parts{TracedArgument{
        tree::part_of(std::get<I>(traced)), names_of<std::tuple_element_t<I, Arguments>>(std::get<I>(args))}...};
    insert_placeholders(recorder, parts);
    std::shared_ptr<const void> value = share(callee.invoke(callee.function, traced));
    const tree::View view = tree::view_of(*static_cast<const R*>(value.get()));
    return result_of_trace(std::move(value), view);
  }
};

template <class R, class Arguments, class... A>
SINTER_NOINLINE SINTER_COLD R call_uncompiled(FunctionState& function, const TypedCall<R, Arguments, A...>& call) {
  PlainCall plain(function);
  R result = call.invoke_plain();
  plain.keep();
  return result;
}
template <class R, class Arguments, class... A>
SINTER_NOINLINE SINTER_COLD void into_uncompiled(FunctionState& function, const TypedCall<R, Arguments, A...>& call,
                                                 const ArgList& list, Targets targets) {
  PlainCallInto plain(function);
  const R result = call.invoke_plain();
  plain.deliver(tree::view_of(result), targets, list);
}

/// A function that reads values: what comes back, static values too, is that of the path taken.
template <class R, class Call>
SINTER_NOINLINE R call_tree(FunctionState& function, const CompiledEntry& entry, const ArgList& list,
                            std::span<const std::int64_t> symbols, const Call& call) {
  TreeValues tree;
  run_tree(function, entry, list, symbols, call.trace(), {}, tree);
  return filled_result<R>(tree.shape, tree.values.data(), symbols);
}

template <class R, class Arguments, class... A>
SINTER_ALWAYS_INLINE R call_compiled(FunctionState& function, const Callee<R, Arguments>& callee, ArgList& list,
                                     const A&... args) {
  const TypedCall<R, Arguments, A...> call{callee, {args...}};
  Symbols symbols;
  const CompiledEntry* entry = call.find(function, list, symbols);
  if (SINTER_UNLIKELY(entry == nullptr)) return call_uncompiled(function, call);
  if constexpr (is_only_tensors<R>) {
    std::array<Ref<TensorImpl>, tensor_count<R>()> values;
    run(function, *entry, list, symbols, call.trace(), values.data(), {});
    Ref<TensorImpl>* at = values.data();
    return from_values<R>(at);
  } else {
    if (SINTER_UNLIKELY(entry->is_tree)) return call_tree<R>(function, *entry, list, symbols, call);
    ResultValues values(entry->results);
    run(function, *entry, list, symbols, call.trace(), values.data(), {});
    return filled_result<R>(entry->result_shape.get(), values.data(), symbols);
  }
}
template <class R, class Arguments, class... A>
SINTER_NOINLINE SINTER_COLD R call_plain(FunctionState& function, CallKind kind, const Callee<R, Arguments>& callee,
                                         const A&... args) {
  const TypedCall<R, Arguments, A...> call{callee, {args...}};
  return kind == CallKind::in_trace ? call.invoke_plain() : call_uncompiled(function, call);
}
/// One call, whatever becomes of it. Functions on the same types share it.
template <class R, class Arguments, class... A>
SINTER_NOINLINE R call_function(FunctionState& function, const Callee<R, Arguments>& callee, A&&... args) {
  const CallKind kind = kind_of_call(function);
  if (SINTER_UNLIKELY(kind != CallKind::compiled))
    return call_plain(function, kind, callee, as_argument(std::as_const(args))...);
  ArgList list;
  (donate<A>(args, list), ...);
  return call_compiled(function, callee, list, as_argument(std::as_const(args))...);
}
template <class R, class Arguments, class... A>
void call_compiled_into(FunctionState& function, const Callee<R, Arguments>& callee, ArgList& list, Targets targets,
                        const A&... args) {
  const TypedCall<R, Arguments, A...> call{callee, {args...}};
  if (SINTER_UNLIKELY(runs_plain(function))) {
    call.flatten(list);
    return into_uncompiled(function, call, list, targets);
  }
  Symbols symbols;
  const CompiledEntry* entry = call.find(function, list, symbols);
  if (SINTER_UNLIKELY(entry == nullptr)) return into_uncompiled(function, call, list, targets);
  if (SINTER_UNLIKELY(entry->is_tree)) {
    TreeValues tree;
    return run_tree(function, *entry, list, symbols, call.trace(), targets, tree);
  }
  if constexpr (is_only_tensors<R>) {
    std::array<Ref<TensorImpl>, tensor_count<R>()> values;
    run(function, *entry, list, symbols, call.trace(), values.data(), targets);
  } else {
    ResultValues values(entry->results);
    run(function, *entry, list, symbols, call.trace(), values.data(), targets);
  }
}

}  // namespace jit_detail

/// What compile() returns: call it like the function. Copies share the compiled code.
template <class F>
class Compiled {
 public:
  Compiled(F f, Options options, Location where)
      : f_(jit_detail::share(std::move(f))), state_(jit_detail::make_function(std::move(options), where)) {
    static_assert(jit_detail::check_function<F>());
  }

  /// Calls the function. Inside another trace it becomes part of that trace.
  template <class... A>
    requires(jit_detail::Call<F, std::index_sequence_for<A...>, std::remove_cvref_t<A>...>::fits)
  auto operator()(A&&... args) const {
    const auto callee = this->callee<std::remove_cvref_t<A>...>();
    if constexpr (std::same_as<result_t<std::remove_cvref_t<A>...>, jit_detail::Nothing>)
      static_cast<void>(jit_detail::call_function(*state_, callee, std::forward<A>(args)...));
    else return jit_detail::call_function(*state_, callee, std::forward<A>(args)...);
  }

  /// f.into(out...)(args...): results go into the given memory (BorrowedMut, Eigen objects, Tensors nobody else holds).
  template <class... O>
  [[nodiscard]] auto into(O&&... outputs) const {
    std::array<BorrowedMut, sizeof...(O)> targets{jit_detail::as_target(outputs, jit_detail::where_of(*state_))...};
    return [self = *this, targets](const auto&... args) { self.call_into(Targets(targets), args...); };
  }

  /// Compiles for these arguments without running, and makes ready what calls on this thread need: after it, calls with
  /// arguments like these compile nothing, take no lock and allocate nothing (see docs/calls.md for the exact terms).
  template <class... A>
  void warm_up(const A&... args) const {
    if (jit_detail::runs_plain(*state_)) return;
    with_call(
        [&](const auto& call) {
          ArgList list;
          Symbols symbols;
          if (const CompiledEntry* entry = call.find(*state_, list, symbols))
            jit_detail::warm_up(*state_, *entry, list, call.trace(), symbols);
        },
        as_argument(args)...);
  }

  /// What the call with these arguments compiles to: graph, guards, kernels, memory, code.
  template <class... A>
  Explanation explain(const A&... args) const {
    if (jit_detail::runs_plain(*state_)) return jit::explain(nullptr, {});
    return with_call(
        [&](const auto& call) {
          ArgList list;
          Symbols symbols;
          const CompiledEntry* entry = call.find(*state_, list, symbols);
          return jit::explain(entry, symbols);
        },
        as_argument(args)...);
  }

  /// As into(), with the targets in a list.
  template <class... A>
  void call_into(Targets targets, const A&... args) const {
    ArgList list;
    jit_detail::call_compiled_into(*state_, callee<A...>(), list, targets, as_argument(args)...);
  }

  Stats stats() const { return jit_detail::stats_of(*state_); }
  void reset() const { jit_detail::reset(*state_); }
  const F& function() const { return *static_cast<const F*>(f_.get()); }

 private:
  template <class... A>
  using arguments_t = jit_detail::traced_arguments_t<F, A...>;
  template <class... A>
  using raw_t = typename jit_detail::RawResult<F, arguments_t<A...>>::type;
  template <class... A>
  using result_t = jit_detail::result_of_t<raw_t<A...>>;

  template <class... A>
  jit_detail::Callee<result_t<A...>, arguments_t<A...>> callee() const {
    return {f_.get(), &invoke<result_t<A...>, raw_t<A...>, arguments_t<A...>>};
  }
  template <class R, class Raw, class Arguments>
  SINTER_COLD static R invoke(const void* function, const Arguments& arguments) {
    const F& f = *static_cast<const F*>(function);
    if constexpr (std::is_void_v<Raw>) return std::apply(f, arguments), R();
    else return jit_detail::Result<Raw>::make(std::apply(f, arguments));
  }
  template <class Use, class... A>
  auto with_call(const Use& use, const A&... args) const {
    const auto callee = this->callee<A...>();
    return use(typed_call(callee, args...));
  }
  template <class R, class Arguments, class... A>
  static jit_detail::TypedCall<R, Arguments, A...> typed_call(const jit_detail::Callee<R, Arguments>& callee,
                                                              const A&... args) {
    return {callee, {args...}};
  }
  std::shared_ptr<const void> f_;  // an F
  std::shared_ptr<FunctionState> state_;
};

/// Compiles `f` for the arguments it is called with: traced once per kind of arguments, guarded, fused, and run as
/// machine code. f takes Tensors, Scalars, structs, containers and static values by value or const reference and
/// returns Tensors, tuples, containers or structs of them. It may run several times while it is traced, so keep host
/// effects out.
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
  R operator()(const std::conditional_t<std::same_as<P, Tensor>, Tensor, P>&... args) const {
    return checked().call(args...);
  }
  /// As Compiled::into; arguments are Tensors, Scalars, ... as in the signature, or lent memory for Tensors.
  template <class... O>
  [[nodiscard]] auto into(O&&... outputs) const {
    std::array<BorrowedMut, sizeof...(O)> targets{jit_detail::as_target(outputs)...};
    return [self = *this, targets](const auto&... args) {
      self.checked().call_into(Targets(targets), convert<P>(args)...);
    };
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
    void call_into(std::span<const BorrowedMut> targets, const lent_t<P>&... args) const override {
      compiled.call_into(targets, args...);
    }
    void warm_up(const P&... args) const override { compiled.warm_up(args...); }
    Explanation explain(const P&... args) const override { return compiled.explain(args...); }
    Stats stats() const override { return compiled.stats(); }
    void reset() const override { compiled.reset(); }
    Compiled<F> compiled;
  };
  const Base& checked() const {
    if (call_ == nullptr)
      throw UserError("jit::Function", "the function is empty", {}, "assign the result of jit::compile to it");
    return *call_;
  }
  std::shared_ptr<const Base> call_;
};

}  // namespace jit
SINTER_NAMESPACE_END
