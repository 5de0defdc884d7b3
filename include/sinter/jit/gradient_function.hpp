// jit::grad and value_and_grad of a compiled function, called outside of traces: the gradient is compiled as the
// function is, once, and kept with it. Inside a trace the function becomes part of that, as any compiled function does.
#pragma once

#include <sinter/autodiff/transforms.hpp>
#include <sinter/jit/compile.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace jit::autodiff_detail {

/// The user's function, without the compiled code that keeps what is made of it.
template <class F>
struct SharedFunction {
  using TakesArgumentsOf = F;
  std::shared_ptr<const void> f;
  template <class... A>
    requires std::invocable<const F&, const A&...>
  auto operator()(const A&... args) const {
    return (*static_cast<const F*>(f.get()))(args...);
  }
};

/// The value and a list of gradients: what compiled code can give.
template <class F, std::size_t... Wrt>
struct ValueAndGradientList {
  using TakesArgumentsOf = F;
  F f;
  Location where;
  template <class... A>
  auto operator()(const A&... args) const {
    parameters_t<F, A...> parameters{args...};
    return traced_gradients(f, where, std::index_sequence<Wrt...>{}, parameters);
  }
};

template <class F>
struct CompiledGradient<Compiled<F>> {
  static constexpr bool is_known = true;

  template <std::size_t... Wrt, class... A>
  static auto value_and_list(const Compiled<F>& f, Location where, std::index_sequence<Wrt...>, const A&... args) {
    return of<ValueAndGradientList<SharedFunction<F>, Wrt...>>(
        f, {}, [&] { return ValueAndGradientList<SharedFunction<F>, Wrt...>{{f.f_}, where}; })(args...);
  }
  template <class... A>
  static auto value_and_listed(const Compiled<F>& f, Location where, const ArgumentNumbers& wrt, const A&... args) {
    std::vector<std::int64_t> numbers;
    for (std::int64_t number : wrt.list()) numbers.push_back(number);
    return of<ValueAndListedGrad<SharedFunction<F>>>(
        f, numbers, [&] { return ValueAndListedGrad<SharedFunction<F>>{{f.f_}, wrt, where}; })(args...);
  }

 private:
  /// The compiled function of type G that this one keeps.
  template <class G, class Make>
  static Compiled<G> of(const Compiled<F>& f, const std::vector<std::int64_t>& numbers, const Make& make) {
    const std::shared_ptr<const void> made =
        jit_detail::derived(*f.state_, &jit_detail::types_tag<G>, numbers, [&]() -> std::shared_ptr<const void> {
          return std::make_shared<const Compiled<G>>(make(), jit_detail::another(*f.state_));
        });
    return *static_cast<const Compiled<G>*>(made.get());
  }
};

}  // namespace jit::autodiff_detail
SINTER_NAMESPACE_END
