// Trees: how arguments and results of any shape (tensors, tuples, containers, user structs) are taken apart into
// leaves. One visitor serves tracing, guards, gradients and results. Aggregates up to 16 fields work unaided; other
// classes name their fields with SINTER_FIELDS(a, b, ...).
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/tensor/tensor.hpp>

#include <array>
#include <concepts>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

SINTER_NAMESPACE_BEGIN

namespace tree {

template <class>
inline constexpr bool always_false = false;
template <class T>
inline constexpr bool is_vector = false;
template <class T, class A>
inline constexpr bool is_vector<std::vector<T, A>> = true;
template <class T>
inline constexpr bool is_map = false;
template <class K, class T, class C, class A>
inline constexpr bool is_map<std::map<K, T, C, A>> = true;
template <class T>
inline constexpr bool is_optional = false;
template <class T>
inline constexpr bool is_optional<std::optional<T>> = true;
template <class T>
concept TupleLike = requires { std::tuple_size<T>::value; };
template <class T>
concept HasFields = requires(T& object) { object.sinter_fields([](auto&...) {}); };

/// Converts to anything: to count the fields of an aggregate.
struct AnyField {
  template <class T>
  operator T() const;
};
template <class T, std::size_t... I>
consteval bool takes_fields(std::index_sequence<I...>) {
  return requires { T{(static_cast<void>(I), AnyField{})...}; };
}
template <class T, std::size_t N = 17>
consteval std::size_t field_count() {
  if constexpr (takes_fields<T>(std::make_index_sequence<N>{})) return N;
  else if constexpr (N == 0) return 0;
  else return field_count<T, N - 1>();
}

/// Calls `visit(field...)` with the fields of an aggregate.
template <class T, class F>
decltype(auto) with_fields(T& object, F&& visit) {
  constexpr std::size_t count = field_count<std::remove_const_t<T>>();
  static_assert(count <= 16,
                "sinter: aggregates of up to 16 fields can be taken apart; use SINTER_FIELDS(...) in larger ones");
  if constexpr (count == 0) return visit();
  else if constexpr (count == 1) {
    auto& [f0] = object;
    return visit(f0);
  } else if constexpr (count == 2) {
    auto& [f0, f1] = object;
    return visit(f0, f1);
  } else if constexpr (count == 3) {
    auto& [f0, f1, f2] = object;
    return visit(f0, f1, f2);
  } else if constexpr (count == 4) {
    auto& [f0, f1, f2, f3] = object;
    return visit(f0, f1, f2, f3);
  } else if constexpr (count == 5) {
    auto& [f0, f1, f2, f3, f4] = object;
    return visit(f0, f1, f2, f3, f4);
  } else if constexpr (count == 6) {
    auto& [f0, f1, f2, f3, f4, f5] = object;
    return visit(f0, f1, f2, f3, f4, f5);
  } else if constexpr (count == 7) {
    auto& [f0, f1, f2, f3, f4, f5, f6] = object;
    return visit(f0, f1, f2, f3, f4, f5, f6);
  } else if constexpr (count == 8) {
    auto& [f0, f1, f2, f3, f4, f5, f6, f7] = object;
    return visit(f0, f1, f2, f3, f4, f5, f6, f7);
  } else if constexpr (count == 9) {
    auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8] = object;
    return visit(f0, f1, f2, f3, f4, f5, f6, f7, f8);
  } else if constexpr (count == 10) {
    auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8, f9] = object;
    return visit(f0, f1, f2, f3, f4, f5, f6, f7, f8, f9);
  } else if constexpr (count == 11) {
    auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10] = object;
    return visit(f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10);
  } else if constexpr (count == 12) {
    auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11] = object;
    return visit(f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11);
  } else if constexpr (count == 13) {
    auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12] = object;
    return visit(f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12);
  } else if constexpr (count == 14) {
    auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13] = object;
    return visit(f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13);
  } else if constexpr (count == 15) {
    auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14] = object;
    return visit(f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14);
  } else if constexpr (count == 16) {
    auto& [f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15] = object;
    return visit(f0, f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15);
  }
}

template <class T, class V>
void visit_leaves(T& object, V& visitor);

/// One step on the way to a leaf: a member, an element, a key or what it stands for. Its text is made only when it is
/// asked for.
struct Step {
  enum class Kind : std::uint8_t { argument, field, item, key };
  Kind kind = Kind::argument;
  std::uint32_t index = 0;
  std::string_view names{};  // of the fields: "w, bias_, ..."; without, fields are numbered
  std::string key{};
  std::string text() const;
};

/// Reads the leaves of an object of any type: what code that does not know the type gives to visit_leaves() through a
/// View.
class Reader {
 public:
  virtual void tensor(const Tensor& x) = 0;
  virtual void scalar(const Scalar& x) = 0;
  virtual void variable(const Variable& x) = 0;
  virtual void fixed(std::int64_t) {}
  /// An extent. The default takes it for a static value.
  virtual void dim(const Dim& x) { fixed(static_cast<std::int64_t>(x)); }
  /// A size of a container, or the presence of an optional value.
  virtual void structure(const char*, std::int64_t value) { fixed(value); }
  /// Around each part, for readers that know where they are.
  virtual bool knows_path() const { return false; }
  virtual void enter_part(Step::Kind, std::uint32_t, std::string_view) {}
  virtual void enter_key(std::string) {}
  virtual void leave_part() {}

 protected:
  ~Reader() = default;
};
/// As that, for objects whose leaves are replaced. The keys of maps are only shown.
class Editor {
 public:
  virtual void tensor(Tensor& x) = 0;
  virtual void scalar(Scalar& x) = 0;
  virtual void variable(const Variable& x) = 0;
  virtual void fixed(std::int64_t) {}
  virtual void dim(Dim& x) { fixed(static_cast<std::int64_t>(x)); }
  virtual void tensor(const Tensor&) {}
  virtual void scalar(const Scalar&) {}
  virtual void dim(const Dim& x) { fixed(static_cast<std::int64_t>(x)); }

 protected:
  ~Editor() = default;
};
/// An object, and how its leaves are visited. Valid as long as the object.
struct View {
  const void* object = nullptr;
  void (*visit)(const void* object, Reader& reader) = nullptr;
  void read(Reader& reader) const { visit(object, reader); }
};
struct Part {
  void* object = nullptr;
  void (*visit)(void* object, Editor& editor) = nullptr;
  void edit(Editor& editor) const { visit(object, editor); }
};
namespace detail {
template <class T>
SINTER_COLD void read_leaves(const void* object, Reader& reader) {
  visit_leaves(*static_cast<const T*>(object), reader);
}
template <class T>
void edit_leaves(void* object, Editor& editor) {
  visit_leaves(*static_cast<T*>(object), editor);
}
}  // namespace detail
template <class T>
View view_of(const T& object) {
  return {&object, &detail::read_leaves<T>};
}
template <class T>
Part part_of(T& object) {
  return {&object, &detail::edit_leaves<T>};
}

/// Visitors that want to know where they are: enter(step) before a part, leave() after it; structure("size", n) in
/// place of fixed(n) for sizes of containers and the presence of optionals.
template <class V>
concept KnowsPath = requires(V& visitor) {
  visitor.enter(Step());
  visitor.leave();
};

namespace detail {
/// `key`: the text of a key of a map, or null.
template <class T, class V, class Key>
void visit_part(T& object, V& visitor, Step::Kind kind, std::uint32_t index, std::string_view names, const Key& key) {
  if constexpr (KnowsPath<V>) {
    if constexpr (std::is_null_pointer_v<Key>) visitor.enter(Step{kind, index, names, {}});
    else visitor.enter(Step{kind, index, names, key()});
    visit_leaves(object, visitor);
    visitor.leave();
  } else if constexpr (std::same_as<V, Reader>) {
    if constexpr (std::is_null_pointer_v<Key>) visitor.enter_part(kind, index, names);
    else if (visitor.knows_path()) visitor.enter_key(key());
    visit_leaves(object, visitor);
    visitor.leave_part();
  } else {
    visit_leaves(object, visitor);
  }
}
template <class V>
void visit_structure(V& visitor, const char* what, std::int64_t value) {
  if constexpr (KnowsPath<V> || std::same_as<V, Reader>) visitor.structure(what, value);
  else visitor.fixed(value);
}
template <class T>
constexpr std::string_view field_names() {
  if constexpr (requires { T::sinter_field_names(); }) return T::sinter_field_names();
  else return {};
}
/// "names": of SINTER_FIELDS; without, fields are numbered.
template <class V, class... F>
void visit_fields(V& visitor, [[maybe_unused]] std::string_view names, F&... fields) {
  [[maybe_unused]] std::uint32_t index = 0;
  (visit_part(fields, visitor, Step::Kind::field, index++, names, nullptr), ...);
}
/// An extent stays symbolic for visitors that have .dim(Dim&); for others it is a static value.
template <class D, class V>
void visit_dim(D& object, V& visitor) {
  if constexpr (requires { visitor.dim(object); }) visitor.dim(object);
  else visitor.fixed(static_cast<std::int64_t>(object));
}
template <class K>
std::string key_text(const K& key) {
  if constexpr (std::is_convertible_v<const K&, std::string>) return "[\"" + std::string(key) + "\"]";
  else if constexpr (std::is_integral_v<K>) return "[" + std::to_string(key) + "]";
  else return "[...]";
}
}  // namespace detail

/// Visits the leaves of `object`: visitor.tensor(Tensor&), .variable(const Variable&), .scalar(Scalar&), and
/// .fixed(int64) for static values (integers, enums, bool, strings by size and characters, sizes of containers, the
/// presence of optionals). A visitor with .dim(Dim&) gets extents, which are static values otherwise; one that
/// KnowsPath is told where it is. Leaves of an object that is not const may be changed in place; keys of maps and
/// leaves of const objects come as const. The order is fixed: members as they are declared or as SINTER_FIELDS names
/// them, elements as the container has them, of maps the key before its value. So two objects of one type and with
/// equal static values have the same leaves in the same places. What cannot be taken apart is a static_assert that says
/// what to do. Example: docs/reference.md, Structs.
template <class T, class V>
void visit_leaves(T& object, V& visitor) {
  using Plain = std::remove_const_t<T>;
  if constexpr (std::same_as<Plain, Tensor>) visitor.tensor(object);
  else if constexpr (std::same_as<Plain, Variable>) visitor.variable(object);
  else if constexpr (std::same_as<Plain, Scalar>) visitor.scalar(object);
  else if constexpr (std::is_enum_v<Plain>) visitor.fixed(static_cast<std::int64_t>(object));
  else if constexpr (std::is_integral_v<Plain>) visitor.fixed(static_cast<std::int64_t>(object));
  else if constexpr (std::is_floating_point_v<Plain>)
    static_assert(always_false<T>,
                  "sinter: a float or double would be frozen into the compiled function; declare it Scalar");
  else if constexpr (std::same_as<Plain, Dim>) detail::visit_dim(object, visitor);
  else if constexpr (std::same_as<Plain, std::string>) {
    visitor.fixed(static_cast<std::int64_t>(object.size()));
    for (char c : object) visitor.fixed(c);
  } else if constexpr (is_vector<Plain>) {
    detail::visit_structure(visitor, "size", static_cast<std::int64_t>(object.size()));
    [[maybe_unused]] std::uint32_t index = 0;
    for (auto& item : object) detail::visit_part(item, visitor, Step::Kind::item, index++, {}, nullptr);
  } else if constexpr (is_map<Plain>) {
    detail::visit_structure(visitor, "size", static_cast<std::int64_t>(object.size()));
    for (auto& [key, item] : object) {
      detail::visit_part(key, visitor, Step::Kind::key, 0, {}, [&] { return " key " + detail::key_text(key); });
      detail::visit_part(item, visitor, Step::Kind::key, 0, {}, [&] { return detail::key_text(key); });
    }
  } else if constexpr (is_optional<Plain>) {
    detail::visit_structure(visitor, "presence", object.has_value());
    if (object.has_value()) visit_leaves(*object, visitor);
  } else if constexpr (HasFields<T>) {
    object.sinter_fields(
        [&](auto&... fields) { detail::visit_fields(visitor, detail::field_names<Plain>(), fields...); });
  } else if constexpr (TupleLike<Plain>) {
    std::apply([&](auto&... items) { detail::visit_fields(visitor, {}, items...); }, object);
  } else if constexpr (std::is_empty_v<Plain>) {
  } else if constexpr (std::is_aggregate_v<Plain>) {
    with_fields(object, [&](auto&... fields) { detail::visit_fields(visitor, {}, fields...); });
  } else {
    static_assert(
        always_false<T>,
        "sinter: this type cannot be taken apart; write SINTER_FIELDS(member, ...) in it, or pass its tensors");
  }
}

/// True when T has a Variable somewhere inside.
template <class T>
consteval bool has_variables();

namespace detail {
template <class... T>
consteval bool any_has_variables() {
  return (has_variables<std::remove_cvref_t<T>>() || ...);
}
template <class T>
struct FieldTypes {
  template <class... F>
  static std::bool_constant<any_has_variables<F...>()> collect(F&...) {
    return {};
  }
};
}  // namespace detail

template <class T>
consteval bool has_variables() {
  if constexpr (std::same_as<T, Variable>) return true;
  else if constexpr (std::same_as<T, Tensor> || std::same_as<T, Scalar> || std::is_arithmetic_v<T> ||
                     std::is_enum_v<T> || std::same_as<T, std::string> || std::same_as<T, Dim>)
    return false;
  else if constexpr (is_vector<T> || is_optional<T>) return has_variables<typename T::value_type>();
  else if constexpr (is_map<T>) return has_variables<typename T::mapped_type>();
  else if constexpr (TupleLike<T>)
    return decltype(std::apply([](auto&... items) { return detail::FieldTypes<T>::collect(items...); },
                               std::declval<T&>()))::value;
  else if constexpr (HasFields<T>)
    return decltype(std::declval<T&>().sinter_fields(
        [](auto&... fields) { return detail::FieldTypes<T>::collect(fields...); }))::value;
  else if constexpr (std::is_empty_v<T>) return false;
  else if constexpr (std::is_aggregate_v<T>)
    return decltype(with_fields(std::declval<T&>(),
                                [](auto&... fields) { return detail::FieldTypes<T>::collect(fields...); }))::value;
  else return false;
}

/// True when visit_leaves() takes a T apart.
template <class T>
consteval bool can_visit();

namespace detail {
template <class... T>
consteval bool can_visit_all() {
  return (can_visit<std::remove_cvref_t<T>>() && ...);
}
struct CanVisitFields {
  template <class... F>
  std::bool_constant<can_visit_all<F...>()> operator()(F&...) const {
    return {};
  }
};
}  // namespace detail

template <class T>
consteval bool can_visit() {
  if constexpr (std::same_as<T, Tensor> || std::same_as<T, Variable> || std::same_as<T, Scalar> || std::is_enum_v<T> ||
                std::is_integral_v<T> || std::same_as<T, std::string> || std::same_as<T, Dim>)
    return true;
  else if constexpr (std::is_floating_point_v<T>) return false;
  else if constexpr (is_vector<T> || is_optional<T>) return can_visit<typename T::value_type>();
  else if constexpr (is_map<T>) return can_visit<typename T::key_type>() && can_visit<typename T::mapped_type>();
  else if constexpr (HasFields<T>) return decltype(std::declval<T&>().sinter_fields(detail::CanVisitFields{}))::value;
  else if constexpr (TupleLike<T>) return decltype(std::apply(detail::CanVisitFields{}, std::declval<T&>()))::value;
  else if constexpr (std::is_empty_v<T>) return true;
  else if constexpr (std::is_aggregate_v<T> && std::is_class_v<T> && field_count<T>() <= 16)
    return decltype(with_fields(std::declval<T&>(), detail::CanVisitFields{}))::value;
  else return false;
}

}  // namespace tree

SINTER_NAMESPACE_END

/// Names the members by which a class with constructors, private members or bases is taken apart:
///   class Linear { Tensor w, b; public: SINTER_FIELDS(w, b) ... };
#define SINTER_FIELDS(...)                            \
  template <class Visit>                              \
  decltype(auto) sinter_fields(Visit&& visit) {       \
    return visit(__VA_ARGS__);                        \
  }                                                   \
  template <class Visit>                              \
  decltype(auto) sinter_fields(Visit&& visit) const { \
    return visit(__VA_ARGS__);                        \
  }                                                   \
  static constexpr const char* sinter_field_names() { return #__VA_ARGS__; }
