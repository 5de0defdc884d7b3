// Effects inside traced functions: print, check, callback. Each runs once for each call, in program order, whether the
// function is compiled, differentiated or run as it stands. Outside a trace they run at once.
#pragma once

#include <sinter/base/type_key.hpp>
#include <sinter/expr/functions.hpp>
#include <sinter/expr/host.hpp>

#include <array>
#include <concepts>
#include <functional>
#include <memory>
#include <source_location>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace jit {

/// A text with a place `{}` for each value, and the line where it was written. `{{` and `}}` stand for braces.
struct Format {
  std::string text;
  Location where;
  Format(const char* format, Location at = std::source_location::current()) : text(format), where(at) {}
  Format(std::string format, Location at = std::source_location::current()) : text(std::move(format)), where(at) {}
};

namespace effects_detail {
/// Something that a message names: a tensor or number of the trace, an extent, or text known now.
struct Word {
  Leaf leaf;
  Dim dim;
  std::string text;
  enum class Kind : std::uint8_t { value, dim, text } kind = Kind::text;
};
Word word_of(std::string_view text);
Word word_of(Dim dim);
Word word_of(Leaf value);
Word word_of_number(DType dtype, const void* number);
template <class T>
Word word_of(const T& x) {
  if constexpr (std::same_as<T, Dim>) return word_of(Dim(x));
  else if constexpr (Element<T>) return word_of_number(dtype_of<T>(), &x);
  else if constexpr (Arithmetic<T>) return word_of(std::string_view(std::to_string(x)));
  else if constexpr (std::convertible_to<const T&, std::string_view>) return word_of(std::string_view(x));
  else return word_of(In(x).leaf);
}
template <class T>
concept Printable = std::convertible_to<const T&, std::string_view> || std::convertible_to<const T&, In>;

void print(const Format& format, std::span<Word> words);
void check(const In& condition, const Format& message, std::span<Word> words);
}  // namespace effects_detail

/// Prints a line when the function runs: jit::print("loss {} at step {}", loss, step). Tensors look as NumPy shows
/// them. Takes tensors, numbers, extents and strings. Throws UserError when places and values do not match.
template <effects_detail::Printable... A>
void print(const Format& format, const A&... values) {
  std::array<effects_detail::Word, sizeof...(A)> words{effects_detail::word_of(values)...};
  effects_detail::print(format, words);
}

/// Where jit::print writes: called with each line, without the end of line, by the thread that runs the call. It may
/// throw: the call is then abandoned.
using PrintSink = std::function<void(std::string_view line)>;
/// Sets the sink of the process and gives the one before. The default (or an empty one) writes to std::cout, a line at
/// a time.
PrintSink set_print_sink(PrintSink sink);

/// Throws CheckError from the call when an element of `condition` (bool) is false; the message may name values. The
/// call's work is abandoned: it gives no results, and Variables keep the values from before it.
template <effects_detail::Printable... A>
void check(const In& condition, const Format& message, const A&... values) {
  std::array<effects_detail::Word, sizeof...(A)> words{effects_detail::word_of(values)...};
  effects_detail::check(condition, message, words);
}

/// What a callback gives: shape and dtype, which must be known while tracing. Extents may come from arguments
/// (x.size(0)).
struct ResultSpec {
  Shape shape{};
  DType dtype = DType::f32;
  /// The function has no effects: it may be left out, called once for two equal calls, or called again.
  bool pure = false;
  /// Gradients of the arguments, from arguments, result, and the gradient of the result. Traced like any function.
  std::function<std::vector<Tensor>(std::span<const Tensor> in, const Tensor& out, const Tensor& dout)> vjp = {};
};
/// Shape and dtype of `x`.
ResultSpec like(const In& x);

namespace effects_detail {

/// One value that a callback gave back.
struct Returned {
  Tensor value;
  enum class Kind : std::uint8_t { tensor, number, elements } kind = Kind::tensor;
};
/// A callback without its types.
struct CallbackSpec {
  std::function<void(std::span<const Tensor> in, std::vector<Returned>& out)> run;
  TypeKey kind = nullptr;  // of the function
  bool is_stateless = false;
  const void* address = nullptr;  // of what a pointer points to
  std::string name{};             // by which it was found, of a function that was loaded
  /// Of functions given by pointer and of objects without members this is known; others may hold anything.
  bool is_known_as(const CallbackSpec& other) const {
    if (address != nullptr || other.address != nullptr) return address == other.address;
    return kind == other.kind && is_stateless;
  }
};
std::vector<Tensor> callback(CallbackSpec spec, std::span<const ResultSpec> results, std::span<const In> args,
                             Location where);

/// The code of a function that is given by pointer.
template <class F>
const void* address_of(const F& fn) {
  if constexpr (std::is_pointer_v<F> && std::is_function_v<std::remove_pointer_t<F>>)
    return reinterpret_cast<const void*>(fn);
  else return nullptr;
}

void collect(std::vector<Returned>& out, Tensor value, Returned::Kind kind = Returned::Kind::tensor);
template <Element T>
void collect(std::vector<Returned>& out, T value) {
  collect(out, tensor({value}), Returned::Kind::number);
}
template <Element T>
void collect(std::vector<Returned>& out, const std::vector<T>& values) {
  collect(out, copy_of(values), Returned::Kind::elements);
}
void collect(std::vector<Returned>& out, std::vector<Tensor> values);
template <class T>
  requires requires { std::tuple_size<T>::value; }
void collect(std::vector<Returned>& out, T values) {
  std::apply([&](auto&... value) { (collect(out, std::move(value)), ...); }, values);
}

/// An argument as the function wants it: a Tensor, a number, a vector of elements.
struct CallbackArgument {
  const Tensor& value;
  operator const Tensor&() const { return value; }
  template <Element T>
  operator T() const {
    return item<T>(value);
  }
  template <Element T>
  operator std::vector<T>() const {
    return to_vector<T>(value);
  }
};

template <std::size_t... I, class F>
decltype(auto) invoke(const F& fn, std::span<const Tensor> in, std::index_sequence<I...>) {
  if constexpr (std::invocable<const F&, decltype(in[I])...>) return fn(in[I]...);
  else return fn(CallbackArgument{in[I]}...);
}

template <class F, std::size_t N, std::size_t R>
std::vector<Tensor> call_back(F fn, const std::array<ResultSpec, R>& results, const std::array<In, N>& args,
                              Location where) {
  CallbackSpec spec;
  spec.kind = type_key<F>();
  spec.is_stateless = std::is_empty_v<F>;
  spec.address = address_of(fn);
  spec.run = [fn = std::move(fn)](std::span<const Tensor> in, std::vector<Returned>& out) {
    using Result = decltype(invoke(fn, in, std::make_index_sequence<N>{}));
    if constexpr (std::is_void_v<Result>) invoke(fn, in, std::make_index_sequence<N>{});
    else collect(out, std::remove_cvref_t<Result>(invoke(fn, in, std::make_index_sequence<N>{})));
  };
  return callback(std::move(spec), results, args, where);
}
template <class F, std::size_t N>
Tensor call_back(F fn, const ResultSpec& result, const std::array<In, N>& args, Location where) {
  return call_back(std::move(fn), std::array<ResultSpec, 1>{result}, args, where)[0];
}
template <class F, std::size_t N>
void call_back(F fn, const std::array<In, N>& args, Location where) {
  call_back(std::move(fn), std::array<ResultSpec, 0>{}, args, where);
}

/// A registered callback for each number of arguments that it takes.
using CallbackRuns = std::array<std::function<void(std::span<const Tensor> in, std::vector<Returned>& out)>, 7>;
void register_callback(std::string name, CallbackSpec like, CallbackRuns runs, Location where);
template <class F, std::size_t N>
consteval bool takes_arguments() {
  return []<std::size_t... I>(std::index_sequence<I...>) {
    if constexpr (std::invocable<const F&, decltype((static_cast<void>(I), std::declval<const Tensor&>()))...>)
      return true;
    else return std::invocable<const F&, decltype((static_cast<void>(I), std::declval<CallbackArgument>()))...>;
  }(std::make_index_sequence<N>{});
}
}  // namespace effects_detail

/// Gives the function of a jit::callback a name, under which saved functions find it: the program that saves and the
/// one that loads register it. A name stands for one function: a pointer, or an object without members, since of
/// objects with members nobody knows which is the one that was saved.
template <class F>
void register_callback(std::string name, F fn, Location where = std::source_location::current()) {
  effects_detail::CallbackSpec like;
  like.kind = type_key<F>();
  like.is_stateless = std::is_empty_v<F>;
  like.address = effects_detail::address_of(fn);
  effects_detail::CallbackRuns runs;
  [&]<std::size_t... N>(std::index_sequence<N...>) {
    const auto add = [&]<std::size_t Count>(std::integral_constant<std::size_t, Count>) {
      if constexpr (effects_detail::takes_arguments<F, Count>())
        runs[Count] = [fn](std::span<const Tensor> in, std::vector<effects_detail::Returned>& out) {
          using Result = decltype(effects_detail::invoke(fn, in, std::make_index_sequence<Count>{}));
          if constexpr (std::is_void_v<Result>) effects_detail::invoke(fn, in, std::make_index_sequence<Count>{});
          else
            effects_detail::collect(
                out, std::remove_cvref_t<Result>(effects_detail::invoke(fn, in, std::make_index_sequence<Count>{})));
        };
    };
    (add(std::integral_constant<std::size_t, N>{}), ...);
  }(std::make_index_sequence<7>{});
  effects_detail::register_callback(std::move(name), std::move(like), std::move(runs), where);
}

/// Calls a function of the host with the values of up to six arguments: once for each call, in order with other
/// effects, on the calling thread. It gets ready Tensors, or what its parameters say: numbers, std::vector<float>. What
/// it throws comes out of the call, which is abandoned as by check(). What it captures is that of the first trace; it
/// must not refer to what is gone when the traced function has returned.
template <class F>
void callback(F fn, Location where = std::source_location::current()) {
  effects_detail::call_back(std::move(fn), std::array<In, 0>{}, where);
}
template <class F>
void callback(F fn, const In& a) {
  effects_detail::call_back(std::move(fn), std::array{a}, a.where);
}
template <class F>
void callback(F fn, const In& a, const In& b) {
  effects_detail::call_back(std::move(fn), std::array{a, b}, a.where);
}
template <class F>
void callback(F fn, const In& a, const In& b, const In& c) {
  effects_detail::call_back(std::move(fn), std::array{a, b, c}, a.where);
}
template <class F>
void callback(F fn, const In& a, const In& b, const In& c, const In& d) {
  effects_detail::call_back(std::move(fn), std::array{a, b, c, d}, a.where);
}
template <class F>
void callback(F fn, const In& a, const In& b, const In& c, const In& d, const In& e) {
  effects_detail::call_back(std::move(fn), std::array{a, b, c, d, e}, a.where);
}
template <class F>
void callback(F fn, const In& a, const In& b, const In& c, const In& d, const In& e, const In& f) {
  effects_detail::call_back(std::move(fn), std::array{a, b, c, d, e, f}, a.where);
}

/// With a result, which is declared: `jit::callback(fn, jit::like(x), x)`, `jit::callback(fn, {.shape = {x.size(0)}},
/// x)`. The function returns a Tensor, a number, or the elements as std::vector. Throws UserError when it gives
/// something else.
template <class F>
Tensor callback(F fn, const ResultSpec& result, Location where = std::source_location::current()) {
  return effects_detail::call_back(std::move(fn), result, std::array<In, 0>{}, where);
}
template <class F>
Tensor callback(F fn, const ResultSpec& result, const In& a) {
  return effects_detail::call_back(std::move(fn), result, std::array{a}, a.where);
}
template <class F>
Tensor callback(F fn, const ResultSpec& result, const In& a, const In& b) {
  return effects_detail::call_back(std::move(fn), result, std::array{a, b}, a.where);
}
template <class F>
Tensor callback(F fn, const ResultSpec& result, const In& a, const In& b, const In& c) {
  return effects_detail::call_back(std::move(fn), result, std::array{a, b, c}, a.where);
}
template <class F>
Tensor callback(F fn, const ResultSpec& result, const In& a, const In& b, const In& c, const In& d) {
  return effects_detail::call_back(std::move(fn), result, std::array{a, b, c, d}, a.where);
}
template <class F>
Tensor callback(F fn, const ResultSpec& result, const In& a, const In& b, const In& c, const In& d, const In& e) {
  return effects_detail::call_back(std::move(fn), result, std::array{a, b, c, d, e}, a.where);
}

/// With several results: `auto [q, r] = jit::callback(fn, std::array{jit::like(x), jit::like(x)}, x)`. The function
/// returns a tuple, pair or array.
template <class F, std::size_t R, std::convertible_to<In>... A>
std::array<Tensor, R> callback(F fn, const std::array<ResultSpec, R>& results, const A&... args) {
  const std::array<In, sizeof...(A)> operands{In(args)...};
  std::vector<Tensor> values = effects_detail::call_back(std::move(fn), results, operands, {});
  return [&]<std::size_t... I>(std::index_sequence<I...>) {
    return std::array<Tensor, R>{std::move(values[I])...};
  }(std::make_index_sequence<R>{});
}

}  // namespace jit
SINTER_NAMESPACE_END
