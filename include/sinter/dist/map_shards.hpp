// Work on many inputs divided over workers: threads, or processes, whose death costs no more than the input that they
// had. Results come in the order of the inputs. For simulation and inference; no collectives.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/dist/error.hpp>
#include <sinter/expr/host.hpp>
#include <sinter/expr/tree.hpp>
#include <sinter/tensor/tensor.hpp>

#include <chrono>
#include <cstdint>
#include <cstring>
#include <functional>
#include <optional>
#include <source_location>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace dist {

enum class WorkerKind : std::uint8_t {
  threads,
  processes,  // forked from this one: they see everything that it has, and change nothing of it
};

struct WorkerOptions {
  int workers = 0;  // 0: as many as there are processors
  WorkerKind kind = WorkerKind::threads;
  /// An input that takes this many times the median of the others is logged (SINTER_LOGS=dist).
  double straggler = 4;
  /// Of processes: how long one input may take; then its worker is ended, and the input given to another. 0: no limit.
  std::chrono::milliseconds timeout{0};
  /// Of processes: how often an input is tried whose worker dies.
  int attempts = 3;
};

/// A long axis that is divided: `parts` of about equal size; 0: as many as there are workers.
struct DividedAxis {
  int axis = 0;
  std::int64_t parts = 0;
};

namespace dist_detail {
/// Work on inputs 0 to count - 1 in threads: `work(i)` by any of them, in any order.
void run_thread_workers(std::size_t count, const WorkerOptions& options, const std::function<void(std::size_t)>& work,
                        Location where);
/// The same in processes: `work(i)` gives bytes there, `take(i, bytes)` has them here.
void run_process_workers(std::size_t count, const WorkerOptions& options,
                         const std::function<std::string(std::size_t)>& work,
                         const std::function<void(std::size_t, std::string)>& take, Location where);
int worker_count(const WorkerOptions& options, Location where);
/// The part's extents along an axis.
std::vector<std::pair<Dim, Dim>> divided(Dim extent, std::int64_t parts, Location where);
Tensor part_of(const Tensor& x, int axis, Dim begin, Dim end, Location where);

// ---- what goes from a process to another, as bytes
void put_tensor(std::string& bytes, const Tensor& value, Location where);
Tensor get_tensor(const char*& at);
void put_bytes(std::string& bytes, const void* data, std::size_t size);
void get_bytes(const char*& at, void* data, std::size_t size);

template <class T>
inline constexpr bool is_packed = std::is_arithmetic_v<T> || std::is_enum_v<T>;
template <>
inline constexpr bool is_packed<Tensor> = true;
template <>
inline constexpr bool is_packed<std::string> = true;
template <class T>
inline constexpr bool is_packed<std::vector<T>> = is_packed<T>;
template <class... T>
inline constexpr bool is_packed<std::tuple<T...>> = (is_packed<T> && ...);
template <class A, class B>
inline constexpr bool is_packed<std::pair<A, B>> = is_packed<A> && is_packed<B>;

template <class T>
struct Packed {
  static_assert(is_packed<T>);
  static void put(std::string& bytes, const T& value, Location) { put_bytes(bytes, &value, sizeof value); }
  static T get(const char*& at) {
    T value{};
    get_bytes(at, &value, sizeof value);
    return value;
  }
};
template <>
struct Packed<Tensor> {
  static void put(std::string& bytes, const Tensor& value, Location where) { put_tensor(bytes, value, where); }
  static Tensor get(const char*& at) { return get_tensor(at); }
};
template <>
struct Packed<std::string> {
  static void put(std::string& bytes, const std::string& value, Location where) {
    Packed<std::uint64_t>::put(bytes, value.size(), where);
    bytes += value;
  }
  static std::string get(const char*& at) {
    const std::uint64_t size = Packed<std::uint64_t>::get(at);
    std::string value(at, static_cast<std::size_t>(size));
    at += size;
    return value;
  }
};
template <class T>
struct Packed<std::vector<T>> {
  static void put(std::string& bytes, const std::vector<T>& value, Location where) {
    Packed<std::uint64_t>::put(bytes, value.size(), where);
    for (const auto& element : value) Packed<T>::put(bytes, element, where);
  }
  static std::vector<T> get(const char*& at) {
    std::vector<T> value;
    for (std::uint64_t left = Packed<std::uint64_t>::get(at); left > 0; --left) value.push_back(Packed<T>::get(at));
    return value;
  }
};
template <class... T>
struct Packed<std::tuple<T...>> {
  static void put(std::string& bytes, const std::tuple<T...>& value, Location where) {
    std::apply([&](const T&... each) { (Packed<T>::put(bytes, each, where), ...); }, value);
  }
  static std::tuple<T...> get(const char*& at) { return std::tuple<T...>{Packed<T>::get(at)...}; }  // braces: in order
};
template <class A, class B>
struct Packed<std::pair<A, B>> {
  static void put(std::string& bytes, const std::pair<A, B>& value, Location where) {
    Packed<A>::put(bytes, value.first, where);
    Packed<B>::put(bytes, value.second, where);
  }
  static std::pair<A, B> get(const char*& at) { return std::pair<A, B>{Packed<A>::get(at), Packed<B>::get(at)}; }
};

/// The Tensors in a result are computed by the worker, not by who reads them: also those in containers, pairs, tuples
/// and structs with SINTER_FIELDS.
template <class R>
void finish(R& result, Location where) {
  using enum tree::Kind;
  constexpr tree::Kind kind = tree::kind_of<std::remove_const_t<R>>();
  const auto finish_all = [&](auto&... each) { (finish(each, where), ...); };
  if constexpr (kind == tensor) {
    eval(In(result, where));
  } else if constexpr (kind == elements) {
    if constexpr (!std::is_arithmetic_v<typename R::value_type>)
      for (auto& each : result) finish(each, where);
  } else if constexpr (kind == map) {
    for (auto& [key, value] : result) finish(value, where);
  } else if constexpr (kind == optional) {
    if (result) finish(*result, where);
  } else if constexpr (tree::HasFields<R>) {
    result.sinter_fields(finish_all);
  } else if constexpr (tree::TupleLike<R>) {
    std::apply(finish_all, result);
  }
}

template <class R, class Call>
std::vector<R> map_count(std::size_t count, const Call& call, const WorkerOptions& options, Location where) {
  std::vector<std::optional<R>> found(count);
  if (options.kind == WorkerKind::threads) {
    run_thread_workers(
        count, options,
        [&](std::size_t i) {
          R result = call(i);
          finish(result, where);
          found[i] = std::move(result);
        },
        where);
  } else if constexpr (is_packed<R>) {
    run_process_workers(
        count, options,
        [&](std::size_t i) {
          std::string bytes;
          Packed<R>::put(bytes, call(i), where);
          return bytes;
        },
        [&](std::size_t i, std::string bytes) {
          const char* at = bytes.data();
          found[i] = Packed<R>::get(at);
        },
        where);
  } else {
    throw UserError("map_shards", "the results are of a type that no process can send", where,
                    "a Tensor, a number, a std::string, or a vector, pair or tuple of such can come from another "
                    "process; take WorkerKind::threads for other types");
  }
  std::vector<R> results;
  results.reserve(count);
  for (auto& result : found) results.push_back(*std::move(result));
  return results;
}
}  // namespace dist_detail

/// {fn(inputs[0]), fn(inputs[1]), ...}, computed by workers side by side, each of which takes the next input when it is
/// done. What fn throws in a thread is thrown here (that of the first input, where several do); from a process it comes
/// as a DistError with its text. `fn` must stand several threads.
template <class T, class F>
auto map_shards(const std::vector<T>& inputs, const F& fn, WorkerOptions options = {},
                Location where = std::source_location::current()) {
  using Given = std::remove_cvref_t<std::invoke_result_t<const F&, const T&>>;
  using R = std::conditional_t<std::is_convertible_v<Given, Tensor> && !std::is_arithmetic_v<Given>, Tensor, Given>;
  static_assert(!std::is_void_v<Given>, "sinter: the function given to map_shards returns its result");
  return dist_detail::map_count<R>(inputs.size(), [&](std::size_t i) -> R { return fn(inputs[i]); }, options, where);
}

/// fn of parts of x along an axis, joined along it: fn(x), where fn treats each position for itself. Parts may differ
/// by one in size.
template <class F>
Tensor map_shards(const Tensor& x, DividedAxis divided_axis, const F& fn, WorkerOptions options = {},
                  Location where = std::source_location::current()) {
  eval(In(x, where));
  const int axis = normalise_axis(divided_axis.axis, x.rank(), "map_shards", where);
  const std::int64_t parts = divided_axis.parts != 0 ? divided_axis.parts : dist_detail::worker_count(options, where);
  const auto bounds = dist_detail::divided(x.size(axis), parts, where);
  const std::vector<Tensor> results = dist_detail::map_count<Tensor>(
      bounds.size(),
      [&](std::size_t i) -> Tensor {
        return fn(dist_detail::part_of(x, axis, bounds[i].first, bounds[i].second, where));
      },
      options, where);
  return concat(std::span<const Tensor>(results), axis, where);
}

}  // namespace dist
SINTER_NAMESPACE_END
