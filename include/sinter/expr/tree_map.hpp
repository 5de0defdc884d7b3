// tree::map: a function of Tensors, applied to all Tensors of an object, or of several objects of one form.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/error.hpp>
#include <sinter/expr/tree.hpp>
#include <sinter/tensor/tensor.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace tree {
namespace detail {

/// The Tensors of an object in their order.
struct Listed {
  std::vector<Tensor> tensors{};
  void tensor(const Tensor& x) { tensors.push_back(x); }
  void variable(const Variable& v) { tensors.push_back(v.value()); }
  void scalar(const Scalar&) {}
  void dim(const Dim&) {}  // stays symbolic
  void fixed(std::int64_t) {}
};

/// Replaces each Tensor by what `call` makes of it and of its number in the order of them.
template <class Call>
struct Replaced {
  Call call;
  std::size_t index = 0;
  void tensor(Tensor& x) { x = call(std::as_const(x), index++); }
  void scalar(Scalar&) {}
  void variable(const Variable&) {}
  void dim(const Dim&) {}
  void fixed(std::int64_t) {}
};

inline void require_tensors(std::size_t first, std::size_t other, Location where) {
  if (first != other)
    throw UserError("tree::map",
                    "the first object has " + std::to_string(first) + " tensors, another " + std::to_string(other),
                    where, "all have one form");
}
}  // namespace detail

template <class F, class... T>
concept MapsTensors = requires(F& f, const T&... tensors) {
  { f(tensors...) } -> std::convertible_to<Tensor>;
};

namespace detail {
template <class F, class T, class... U>
T map_over(Location where, F& f, T&& object, const U&... others) {
  static_assert(MapsTensors<F, Tensor, std::conditional_t<true, Tensor, U>...>,
                "sinter: the function of tree::map takes a Tensor of each object, and gives one");
  static_assert(!has_variables<T>(), "sinter: tree::map makes Tensors; assign Variables one by one");
  const auto listed = [](const auto& other) {
    Listed list;
    visit_leaves(other, list);
    return std::move(list.tensors);
  };
  const std::vector<std::vector<Tensor>> lists{listed(others)...};
  const std::size_t count = listed(object).size();
  for (const auto& list : lists) require_tensors(count, list.size(), where);
  const auto call = [&]<std::size_t... I>(const Tensor& x, [[maybe_unused]] std::size_t at, std::index_sequence<I...>) {
    return Tensor(f(x, lists[I][at]...));
  };
  const auto apply = [&](const Tensor& x, std::size_t at) { return call(x, at, std::index_sequence_for<U...>{}); };
  Replaced<decltype(apply)> replaced{apply};
  visit_leaves(object, replaced);
  return std::move(object);
}
}  // namespace detail

/// An object like the first one, whose Tensors are f of theirs: tree::map([](Tensor p, Tensor g) { return p - g; },
/// model, gradients). The others have as many Tensors, in the same order; of Variables in them the values are taken.
/// Scalars and static values are those of the first object. Throws UserError where the numbers of Tensors differ.
template <class F, class T>
T map(F f, T object, Location where = std::source_location::current()) {
  return detail::map_over(where, f, std::move(object));
}
template <class F, class T, class U>
T map(F f, T object, const U& a, Location where = std::source_location::current()) {
  return detail::map_over(where, f, std::move(object), a);
}
template <class F, class T, class U, class V>
T map(F f, T object, const U& a, const V& b, Location where = std::source_location::current()) {
  return detail::map_over(where, f, std::move(object), a, b);
}
template <class F, class T, class U, class V, class W>
T map(F f, T object, const U& a, const V& b, const W& c, Location where = std::source_location::current()) {
  return detail::map_over(where, f, std::move(object), a, b, c);
}
template <class F, class T, class U, class V, class W, class... More>  // whose errors have no line
  requires(sizeof...(More) > 0 && (!std::convertible_to<const More&, Location> && ...))
T map(F f, T object, const U& a, const V& b, const W& c, const More&... more) {
  return detail::map_over(Location(), f, std::move(object), a, b, c, more...);
}

}  // namespace tree
SINTER_NAMESPACE_END
