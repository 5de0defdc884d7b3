// Trees: how arguments and results of any shape (tensors, tuples, containers, user structs) are taken apart into
// leaves. Tracing, guards, gradients and results go by one constant for each type, its Layout, and are code without
// types (tree_walk.hpp); visit_leaves() is for visitors of users. Aggregates up to 16 fields work unaided; other
// classes name their fields with SINTER_FIELDS(a, b, ...).
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/tensor/tensor.hpp>

#include <array>
#include <concepts>
#include <cstdint>
#include <map>
#include <memory>
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
/// The most values that `T{...}` takes, of up to 17. Where it takes some it takes all numbers up to the most: a member
/// without a default needs those before it, too.
template <class T, std::size_t N = 0>
consteval std::size_t field_count() {
  if constexpr (N == 17) return takes_fields<T>(std::make_index_sequence<N>{}) ? N : 0;
  else if constexpr (!takes_fields<T>(std::make_index_sequence<N>{})) return field_count<T, N + 1>();
  else if constexpr (!takes_fields<T>(std::make_index_sequence<N + 1>{})) return N;
  else return field_count<T, N + 1>();
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

/// Calls `visit(field...)` with what a class of any kind is made of.
template <class T, class F>
decltype(auto) for_fields(T& object, F&& visit) {
  using Plain = std::remove_const_t<T>;
  if constexpr (HasFields<T>) return object.sinter_fields(std::forward<F>(visit));
  else if constexpr (TupleLike<Plain>)
    return [&]<std::size_t... I>(std::index_sequence<I...>) -> decltype(auto) {
      using std::get;
      return visit(get<I>(object)...);
    }(std::make_index_sequence<std::tuple_size_v<Plain>>{});
  else if constexpr (std::is_empty_v<Plain>) return visit();
  else return with_fields(object, std::forward<F>(visit));
}

/// What an object is to whoever takes it apart.
enum class Kind : std::uint8_t { tensor, scalar, variable, dim, number, text, elements, map, optional, fields, none };
template <class T>
consteval Kind kind_of() {
  if constexpr (std::same_as<T, Tensor>) return Kind::tensor;
  else if constexpr (std::same_as<T, Scalar>) return Kind::scalar;
  else if constexpr (std::same_as<T, Variable>) return Kind::variable;
  else if constexpr (std::same_as<T, Dim>) return Kind::dim;
  else if constexpr (std::is_enum_v<T> || std::is_integral_v<T>) return Kind::number;
  else if constexpr (std::is_floating_point_v<T>) return Kind::none;
  else if constexpr (std::same_as<T, std::string>) return Kind::text;
  else if constexpr (is_vector<T>) return Kind::elements;
  else if constexpr (is_map<T>) return Kind::map;
  else if constexpr (is_optional<T>) return Kind::optional;
  else if constexpr (HasFields<T> || TupleLike<T> || std::is_empty_v<T> ||
                     (std::is_aggregate_v<T> && std::is_class_v<T>))
    return Kind::fields;
  else return Kind::none;
}
template <class T>
consteval void require_visitable() {
  static_assert(!std::is_floating_point_v<T>,
                "sinter: a float or double would be frozen into the compiled function; declare it Scalar");
  static_assert(kind_of<T>() != Kind::none || std::is_floating_point_v<T>,
                "sinter: this type cannot be taken apart; write SINTER_FIELDS(member, ...) in it, or pass its tensors");
}

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

/// Reads the leaves of an object of any type: what code that does not know the type gives to a View.
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
/// How the objects of a type are taken apart, for code that does not know the type: one constant for each type, so that
/// a type costs the compiler one table and hardly a function, however many places visit its objects.
struct Layout {
  /// Of a std::vector.
  struct Elements {
    void* first;
    std::size_t count;
  };
  using EachEntry = void (*)(void* context, void* key, void* value);

  Kind kind = Kind::none;
  bool is_const = false;                 // its leaves are only shown
  bool is_signed = false;                // a number
  bool is_row = false;                   // fields: nothing but Tensors, one behind the other
  std::uint32_t size = 0;                // of the object, in bytes
  std::uint32_t count = 0;               // fields
  const Layout* const* parts = nullptr;  // of the fields; of the elements, or the value; of key and value
  std::string_view names{};              // of the fields: "w, bias_, ..."; without, fields are numbered
  // What its kind needs: addresses of the parts of an object.
  void (*fields)(void* object, void** addresses) = nullptr;
  Elements (*elements)(void* object) = nullptr;
  void* (*value)(void* object) = nullptr;  // null: it holds none
  void (*entries)(void* object, void* context, EachEntry each) = nullptr;
  std::string (*key_text)(const void* key) = nullptr;
};
template <class T>
struct LayoutOf {
  static const Layout value;
};

/// An object whose leaves can be read, whatever its type. Valid as long as the object.
struct View {
  const void* object = nullptr;
  const Layout* layout = nullptr;
  void read(Reader& reader) const;
};
/// As that, for objects whose leaves are replaced.
struct Part {
  void* object = nullptr;
  const Layout* layout = nullptr;
  void edit(Editor& editor) const;
};
template <class T>
View view_of(const T& object) {
  return {std::addressof(object), &LayoutOf<T>::value};
}
template <class T>
Part part_of(T& object) {
  return {std::addressof(object), &LayoutOf<T>::value};
}

namespace detail {
template <class K>
std::string key_text(const K& key) {
  if constexpr (std::is_convertible_v<const K&, std::string>) return "[\"" + std::string(key) + "\"]";
  else if constexpr (std::is_integral_v<K>) return "[" + std::to_string(key) + "]";
  else return "[...]";
}
template <class T>
constexpr std::string_view field_names() {
  if constexpr (requires { T::sinter_field_names(); }) return T::sinter_field_names();
  else return {};
}

/// The types of fields; const where they are.
template <class... F>
struct FieldList {
  static constexpr std::size_t count = sizeof...(F);
  static constexpr const Layout* layouts[count + 1] = {&LayoutOf<F>::value..., nullptr};
};
/// Fields of a plain aggregate lie in their order; with no room between them their places are known.
template <class T, class... F>
consteval bool is_row_of_tensors(FieldList<F...>) {
  return !HasFields<T> && !TupleLike<T> && sizeof...(F) > 0 && (std::same_as<F, Tensor> && ...) &&
         sizeof(T) == sizeof...(F) * sizeof(Tensor);
}
struct ListFields {
  template <class... F>
  FieldList<F...> operator()(F&...) const {
    return {};
  }
};
template <class T>
using fields_t = decltype(for_fields(std::declval<T&>(), ListFields{}));

struct StoreAddresses {
  void** addresses;
  template <class... F>
  void operator()(F&... fields) const {
    [[maybe_unused]] void** next = addresses;
    ((*next++ = const_cast<void*>(static_cast<const void*>(std::addressof(fields)))), ...);
  }
};
template <class T>
void addresses_of_fields(void* object, void** addresses) {
  for_fields(*static_cast<T*>(object), StoreAddresses{addresses});
}
template <class T>
Layout::Elements elements_of(void* object) {
  auto& list = *static_cast<T*>(object);
  return {list.data(), list.size()};
}
template <class T>
void* value_of(void* object) {
  auto& optional = *static_cast<T*>(object);
  return optional.has_value() ? std::addressof(*optional) : nullptr;
}
template <class T>
void visit_entries(void* object, void* context, Layout::EachEntry each) {
  for (auto& [key, value] : *static_cast<T*>(object))
    each(context, const_cast<void*>(static_cast<const void*>(std::addressof(key))), std::addressof(value));
}
template <class K>
std::string text_of_key(const void* key) {
  return key_text(*static_cast<const K*>(key));
}

template <class T>
consteval Layout layout_of() {
  using Plain = std::remove_const_t<T>;
  require_visitable<Plain>();
  constexpr Kind kind = kind_of<Plain>();
  Layout layout{.kind = kind, .is_const = std::is_const_v<T>, .size = sizeof(Plain)};
  if constexpr (std::is_enum_v<Plain>) {
    layout.is_signed = std::is_signed_v<std::underlying_type_t<Plain>>;
  } else if constexpr (kind == Kind::number) {
    layout.is_signed = std::is_signed_v<Plain>;
  } else if constexpr (kind == Kind::elements) {
    layout.parts = FieldList<typename Plain::value_type>::layouts;
    layout.elements = &elements_of<Plain>;
  } else if constexpr (kind == Kind::optional) {
    layout.parts = FieldList<typename Plain::value_type>::layouts;
    layout.value = &value_of<Plain>;
  } else if constexpr (kind == Kind::map) {
    layout.parts = FieldList<const typename Plain::key_type, typename Plain::mapped_type>::layouts;
    layout.entries = &visit_entries<Plain>;
    layout.key_text = &text_of_key<typename Plain::key_type>;
  } else if constexpr (kind == Kind::fields) {
    layout.count = fields_t<Plain>::count;
    layout.parts = fields_t<Plain>::layouts;
    layout.names = field_names<Plain>();
    layout.is_row = is_row_of_tensors<Plain>(fields_t<Plain>{});
    layout.fields = &addresses_of_fields<Plain>;
  }
  return layout;
}
}  // namespace detail

template <class T>
constinit const Layout LayoutOf<T>::value = detail::layout_of<T>();

/// Visitors that want to know where they are: enter(step) before a part, leave() behind it; structure("size", n) in
/// place of fixed(n) for sizes of containers and the presence of optionals.
template <class V>
concept KnowsPath = requires(V& visitor) {
  visitor.enter(Step());
  visitor.leave();
};

template <class T, class V>
void visit_leaves(T& object, V& visitor);

namespace detail {
/// `key`: the text of a key of a map, or null.
template <class T, class V, class Key>
void visit_part(T& object, V& visitor, Step::Kind kind, std::uint32_t index, std::string_view names, const Key& key) {
  if constexpr (KnowsPath<V>) {
    if constexpr (std::is_null_pointer_v<Key>) visitor.enter(Step{kind, index, names, {}});
    else visitor.enter(Step{kind, index, names, key()});
    visit_leaves(object, visitor);
    visitor.leave();
  } else {
    visit_leaves(object, visitor);
  }
}
template <class V>
void visit_structure(V& visitor, const char* what, std::int64_t value) {
  if constexpr (KnowsPath<V>) visitor.structure(what, value);
  else visitor.fixed(value);
}
/// An extent stays symbolic for visitors that have .dim(Dim&); for others it is a static value.
template <class D, class V>
void visit_dim(D& object, V& visitor) {
  if constexpr (requires { visitor.dim(object); }) visitor.dim(object);
  else visitor.fixed(static_cast<std::int64_t>(object));
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
  require_visitable<Plain>();
  constexpr Kind kind = kind_of<Plain>();
  if constexpr (kind == Kind::tensor) visitor.tensor(object);
  else if constexpr (kind == Kind::variable) visitor.variable(object);
  else if constexpr (kind == Kind::scalar) visitor.scalar(object);
  else if constexpr (kind == Kind::number) visitor.fixed(static_cast<std::int64_t>(object));
  else if constexpr (kind == Kind::dim) detail::visit_dim(object, visitor);
  else if constexpr (kind == Kind::text) {
    visitor.fixed(static_cast<std::int64_t>(object.size()));
    for (char c : object) visitor.fixed(c);
  } else if constexpr (kind == Kind::elements) {
    detail::visit_structure(visitor, "size", static_cast<std::int64_t>(object.size()));
    [[maybe_unused]] std::uint32_t index = 0;
    for (auto& item : object) detail::visit_part(item, visitor, Step::Kind::item, index++, {}, nullptr);
  } else if constexpr (kind == Kind::map) {
    detail::visit_structure(visitor, "size", static_cast<std::int64_t>(object.size()));
    for (auto& [key, item] : object) {
      detail::visit_part(key, visitor, Step::Kind::key, 0, {}, [&] { return " key " + detail::key_text(key); });
      detail::visit_part(item, visitor, Step::Kind::key, 0, {}, [&] { return detail::key_text(key); });
    }
  } else if constexpr (kind == Kind::optional) {
    detail::visit_structure(visitor, "presence", object.has_value());
    if (object.has_value()) visit_leaves(*object, visitor);
  } else if constexpr (kind == Kind::fields) {
    for_fields(object, [&](auto&... fields) {
      [[maybe_unused]] std::uint32_t index = 0;
      constexpr std::string_view names = detail::field_names<Plain>();
      (detail::visit_part(fields, visitor, Step::Kind::field, index++, names, nullptr), ...);
    });
  }
}

/// True when T has a Variable somewhere inside.
template <class T>
consteval bool has_variables();
/// True when visit_leaves() takes a T apart.
template <class T>
consteval bool can_visit();

namespace detail {
template <class... F>
consteval bool any_has_variables(FieldList<F...>) {
  return (has_variables<std::remove_const_t<F>>() || ...);
}
template <class... F>
consteval bool can_visit_all(FieldList<F...>) {
  return (can_visit<std::remove_const_t<F>>() && ...);
}
template <class T>
consteval bool has_too_many_fields() {
  if constexpr (HasFields<T> || TupleLike<T> || std::is_empty_v<T>) return false;
  else return field_count<T>() > 16;
}
}  // namespace detail

template <class T>
consteval bool has_variables() {
  constexpr Kind kind = kind_of<T>();
  if constexpr (kind == Kind::elements || kind == Kind::optional) return has_variables<typename T::value_type>();
  else if constexpr (kind == Kind::map) return has_variables<typename T::mapped_type>();
  else if constexpr (kind == Kind::fields) return detail::any_has_variables(detail::fields_t<T>{});
  else return kind == Kind::variable;
}
template <class T>
consteval bool can_visit() {
  constexpr Kind kind = kind_of<T>();
  if constexpr (kind == Kind::elements || kind == Kind::optional) return can_visit<typename T::value_type>();
  else if constexpr (kind == Kind::map)
    return can_visit<typename T::key_type>() && can_visit<typename T::mapped_type>();
  else if constexpr (kind != Kind::fields) return kind != Kind::none;
  else if constexpr (detail::has_too_many_fields<T>()) return false;
  else return detail::can_visit_all(detail::fields_t<T>{});
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
