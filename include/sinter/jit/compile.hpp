// compile(): the one entry point, and the typed half of compiled functions: it says what the types of a call are, calls
// the user's function on placeholders, and gives results their type. All else is done without types (call.hpp), so that
// a call of new types costs the compiler little.
#pragma once

#include <sinter/autodiff/transforms.hpp>
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

inline BorrowedMut as_target(const BorrowedMut& target, Location = {}) { return target; }
template <EigenLike M>
BorrowedMut as_target(M& m, Location = {}) {
  return borrow_mut(m);
}

/// What a function that runs on copies of its arguments gets in the place of one of type A.
template <class T, class A>
T copy_of_argument(const void* object, bool is_traced) {
  const A& arg = *static_cast<const A*>(object);
  if constexpr (std::same_as<A, Borrowed> || std::same_as<A, Lent>) return is_traced ? T() : T(owned_copy(arg));
  else return T(arg);
}

/// The function that calls the user's. What is generated depends on the types of arguments and result alone.
template <class R, class Arguments>
struct OnCopies;
template <class R, class... T>
struct OnCopies<R, std::tuple<T...>> {
  using Invoke = R (*)(const void* callee, const T&... arguments);

  SINTER_COLD static void* run(const CallRequest& call, FunctionTrace* trace, T... copies) {
    if (trace != nullptr) {
      void* const objects[sizeof...(T) + 1] = {std::addressof(copies)..., nullptr};
      put_placeholders(*trace, call, objects);
    }
    return new R(reinterpret_cast<Invoke>(call.invoke)(call.callee, copies...));
  }
  template <class... A>
  SINTER_COLD static void* call(const CallRequest& call, FunctionTrace* trace) {
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      return run(call, trace, copy_of_argument<T, A>(call.objects[I], trace != nullptr)...);
    }(std::index_sequence_for<A...>{});
  }
  /// `A`: as given, for lvalues a reference.
  template <class... A>
  struct Types {
    static constexpr ArgumentType arguments[sizeof...(A) + 1] = {argument_type<T, A>()..., ArgumentType()};
    static constexpr CallTypes value{&types_tag<R, std::tuple<T...>>,
                                     arguments,
                                     sizeof...(A),
                                     is_plain(arguments),
                                     &tree::LayoutOf<R>::value,
                                     &call<argument_t<std::remove_cvref_t<A>>...>,
                                     &destroy<R>};
  };
};

/// A function and the types of a call of it.
struct TypedCallee {
  FunctionState& function;
  const CallTypes& types;
  const void* callee;
  void (*invoke)();
};
/// use(the request that these arguments make).
template <class Use, class... A>
auto with_request(const TypedCallee& callee, const Use& use, const A&... args) {
  const void* const objects[sizeof...(A) + 1] = {std::addressof(args)..., nullptr};
  return use(CallRequest{callee.function, callee.types, callee.callee, callee.invoke, objects});
}
/// One call. Functions with the same types share it.
template <class R, class... A>
SINTER_NOINLINE R call_function(const TypedCallee& callee, const A&... args) {
  const void* const objects[sizeof...(A) + 1] = {std::addressof(args)..., nullptr};
  const CallRequest request{callee.function, callee.types, callee.callee, callee.invoke, objects};
  if constexpr (is_only_tensors<R>) {
    std::array<Ref<TensorImpl>, tensor_count<R>()> values;
    call_for_tensors(request, values.data());
    Ref<TensorImpl>* at = values.data();
    return from_values<R>(at);
  } else {
    OpenCall call(request);
    R result = *static_cast<const R*>(call.shape());
    call.fill(&result);
    return result;
  }
}

}  // namespace jit_detail

namespace jit_detail {
/// The state of a compiled function of any type.
struct StateAccess {
  template <class C>
  static const std::shared_ptr<FunctionState>& of(const C& compiled) {
    return compiled.state_;
  }
};
}  // namespace jit_detail

/// What compile() returns: call it like the function. Copies share the compiled code.
template <class F>
class Compiled {
 public:
  using TakesArgumentsOf = F;
  Compiled(F f, Options options, Location where)
      : f_(jit_detail::share(std::move(f))), state_(jit_detail::make_function(std::move(options), where)) {
    static_assert(jit_detail::check_function<F>());
  }
  /// With back ends of its own: aot_function().
  Compiled(F f, std::shared_ptr<FunctionState> state) : f_(jit_detail::share(std::move(f))), state_(std::move(state)) {
    static_assert(jit_detail::check_function<F>());
  }

  /// Calls the function. Inside another trace it becomes part of that trace.
  template <class... A>
    requires(jit_detail::Call<F, std::index_sequence_for<A...>, std::remove_cvref_t<A>...>::fits)
  auto operator()(A&&... args) const {
    using R = result_t<std::remove_cvref_t<A>...>;
    if constexpr (std::same_as<R, jit_detail::Nothing>)
      jit_detail::call_function<R>(callee<A...>(), as_argument(std::as_const(args))...);
    else return jit_detail::call_function<R>(callee<A...>(), as_argument(std::as_const(args))...);
  }

  /// f.into(out...)(args...): results go into the given memory (BorrowedMut, Eigen objects, Tensors nobody else holds).
  template <class... O>
  [[nodiscard]] auto into(O&&... outputs) const {
    std::array<BorrowedMut, sizeof...(O)> targets{jit_detail::as_target(outputs, jit_detail::where_of(*state_))...};
    return [self = *this, targets](const auto&... args) { self.call_into(Targets(targets), args...); };
  }

  /// Compiles for these arguments without running, and makes ready what calls on this thread need: after it, calls with
  /// arguments like these compile nothing, take no lock and allocate nothing (see docs/realtime.md for the exact
  /// terms).
  template <class... A>
  void warm_up(const A&... args) const {
    with_request([](const jit_detail::CallRequest& call) { jit_detail::warm_up(call); }, args...);
  }

  /// What the call with these arguments compiles to: graph, guards, kernels, memory, code.
  template <class... A>
  Explanation explain(const A&... args) const {
    return with_request([](const jit_detail::CallRequest& call) { return jit_detail::explain(call); }, args...);
  }

  /// What the call with these arguments compiles to, as values: graph, passes, kernels, schedules, code, costs. Its
  /// compile() gives this function, with nothing left to do at its first call. jit::spec(shape) stands for a Tensor.
  /// Throws UserError where the call runs uncompiled, or the function reads values.
  template <class... A>
  Lowering<Compiled, A...> lower(const A&... args) const {
    return {with_request([](const jit_detail::CallRequest& call) { return jit_detail::lower(call); }, args...), *this,
            args...};
  }

  /// How this call is cut into a forward and a backward part. Throws UserError where no gradient is wanted of it, or
  /// the function reads values; what differentiating throws, where it has no derivative.
  template <class... A>
  Partition partition(const A&... args) const {
    return with_request([](const jit_detail::CallRequest& call) { return jit_detail::partition(call); }, args...);
  }

  /// As into(), with the targets in a list.
  template <class... A>
  void call_into(Targets targets, const A&... args) const {
    with_request([&](const jit_detail::CallRequest& call) { jit_detail::call_into(call, targets); }, args...);
  }

  /// From here on calls compile, trace and check nothing, and run on the calling thread alone; see docs/realtime.md.
  /// Throws UserError where nothing is compiled yet.
  void freeze(OnMiss miss = OnMiss::throws) const { jit_detail::freeze(*state_, miss); }
  void unfreeze() const { jit_detail::unfreeze(*state_); }
  bool is_frozen() const { return jit_detail::is_frozen(*state_); }

  Stats stats() const { return jit_detail::stats_of(*state_); }
  void reset() const { jit_detail::reset(*state_); }
  const F& function() const { return *static_cast<const F*>(f_.get()); }

 private:
  friend struct autodiff_detail::CompiledGradient<Compiled>;
  friend struct jit_detail::StateAccess;
  template <class... A>
  using arguments_t = jit_detail::traced_arguments_t<F, A...>;
  template <class... A>
  using raw_t = typename expr_detail::CallResultOf<F, arguments_t<A...>>::type;
  template <class... A>
  using result_t = jit_detail::result_of_t<raw_t<A...>>;

  /// For arguments as they are given: lvalues are references.
  template <class... A>
  jit_detail::TypedCallee callee() const {
    using Invoked = Invoke<raw_t<std::remove_cvref_t<A>...>, arguments_t<std::remove_cvref_t<A>...>>;
    return {*state_, Invoked::OnCopies::template Types<A...>::value, f_.get(),
            reinterpret_cast<void (*)()>(&Invoked::call)};
  }
  template <class Raw, class Arguments>
  struct Invoke;
  template <class Raw, class... T>
  struct Invoke<Raw, std::tuple<T...>> {
    using R = jit_detail::result_of_t<Raw>;
    using OnCopies = jit_detail::OnCopies<R, std::tuple<T...>>;
    SINTER_COLD static R call(const void* function, const T&... arguments) {
      const F& f = *static_cast<const F*>(function);
      if constexpr (std::is_void_v<Raw>) {
        f(arguments...);
        return R();
      } else if constexpr (std::same_as<R, Raw>) {
        return f(arguments...);
      } else {
        return jit_detail::Result<Raw>::make(f(arguments...));
      }
    }
  };
  template <class Use, class... A>
  auto with_request(const Use& use, const A&... args) const {
    return jit_detail::with_request(callee<const A&...>(), use, as_argument(args)...);
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
  Function(const Compiled<F>& compiled) : call_(std::make_shared<Holder<F>>(compiled)) {
    static_assert(
        jit_detail::Call<F, std::index_sequence_for<P...>, P...>::fits,
        "sinter: the compiled function does not take as many arguments as the signature of this Function says");
  }

  explicit operator bool() const { return call_ != nullptr; }
  R operator()(const std::conditional_t<std::same_as<P, Tensor>, Tensor, P>&... args) const {
    return checked().call(args...);
  }
  /// With std::complex numbers for Tensors of rank 0.
  template <class... A>
    requires(sizeof...(A) == sizeof...(P) && (ComplexNumber<A> || ...))
  R operator()(const A&... args) const {
    return checked().call(with_number<P>(args)...);
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
  void freeze(OnMiss miss = OnMiss::throws) const { checked().freeze(miss); }
  void unfreeze() const { checked().unfreeze(); }
  bool is_frozen() const { return checked().is_frozen(); }
  /// The same without its type, for jit::save.
  std::shared_ptr<FunctionState> state() const { return checked().state(); }

 private:
  template <class T>
  using lent_t = std::conditional_t<std::same_as<T, Tensor>, Lent, T>;
  template <class T, class A>
  static decltype(auto) convert(const A& arg) {
    if constexpr (std::same_as<T, Tensor>) return Lent(arg);
    else return static_cast<T>(arg);
  }
  template <class T, class A>
  static decltype(auto) with_number(const A& arg) {
    static_assert(!ComplexNumber<A> || std::same_as<T, Tensor>, "sinter: a std::complex enters as a Tensor of rank 0");
    if constexpr (ComplexNumber<A>) return copy_of(borrowed_number(arg));
    else if constexpr (std::same_as<T, A>) return (arg);
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
    virtual void freeze(OnMiss miss) const = 0;
    virtual void unfreeze() const = 0;
    virtual bool is_frozen() const = 0;
    virtual std::shared_ptr<FunctionState> state() const = 0;
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
    void freeze(OnMiss miss) const override { compiled.freeze(miss); }
    void unfreeze() const override { compiled.unfreeze(); }
    bool is_frozen() const override { return compiled.is_frozen(); }
    std::shared_ptr<FunctionState> state() const override { return jit_detail::StateAccess::of(compiled); }
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
