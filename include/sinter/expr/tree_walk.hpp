// walk(): visits the leaves of an object of which only the layout is known. Every visit of leaves that code without
// types makes comes here: reading, replacing, the arguments and results of calls.
#pragma once

#include <sinter/base/small_vector.hpp>
#include <sinter/expr/tree.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

SINTER_NAMESPACE_BEGIN
namespace tree::detail {

/// Its bytes: the object may be of any type of that size (long long, char16_t, an enum).
template <class T>
std::int64_t number_of_bytes(const void* object) {
  T value;
  std::memcpy(&value, object, sizeof(T));
  return static_cast<std::int64_t>(value);
}
/// A number of any integral type; larger ones by their low 64 bits.
inline std::int64_t number_at(const void* object, const Layout& layout) {
  switch (layout.size) {
    case 1: return layout.is_signed ? number_of_bytes<std::int8_t>(object) : number_of_bytes<std::uint8_t>(object);
    case 2: return layout.is_signed ? number_of_bytes<std::int16_t>(object) : number_of_bytes<std::uint16_t>(object);
    case 4: return layout.is_signed ? number_of_bytes<std::int32_t>(object) : number_of_bytes<std::uint32_t>(object);
    default: return number_of_bytes<std::int64_t>(object);
  }
}

template <class V>
void walk(void* object, const Layout& layout, V& visitor, bool is_const = false);
template <class V>
void walk_other(void* object, const Layout& layout, V& visitor, bool is_const);

/// As walk(), inline where the part is a Tensor: calls of compiled functions come this way.
template <class V>
SINTER_ALWAYS_INLINE void walk_part(void* object, const Layout& layout, V& visitor, bool is_const) {
  if (SINTER_LIKELY(layout.kind == Kind::tensor))
    return visitor.tensor(*static_cast<Tensor*>(object), is_const || layout.is_const);
  walk(object, layout, visitor, is_const);
}

template <class V>
SINTER_ALWAYS_INLINE void walk_fields_at(void* const* fields, const Layout& layout, V& visitor, bool is_const) {
  for (std::uint32_t i = 0; i < layout.count; ++i) {
    visitor.enter(Step::Kind::field, i, layout.names);
    walk_part(fields[i], *layout.parts[i], visitor, is_const);
    visitor.leave();
  }
}
template <class V>
SINTER_NOINLINE void walk_many_fields(void* object, const Layout& layout, V& visitor, bool is_const) {
  SmallVector<void*, 64> fields(layout.count);
  layout.fields(object, fields.data());
  walk_fields_at(fields.data(), layout, visitor, is_const);
}
template <class V>
SINTER_ALWAYS_INLINE void walk_row(void* object, std::size_t count, V& visitor, bool is_const, std::string_view names) {
  auto* const tensors = static_cast<Tensor*>(object);
  for (std::size_t i = 0; i < count; ++i) {
    visitor.enter(Step::Kind::field, static_cast<std::uint32_t>(i), names);
    visitor.tensor(tensors[i], is_const);
    visitor.leave();
  }
}
template <class V>
SINTER_ALWAYS_INLINE void walk_fields(void* object, const Layout& layout, V& visitor, bool is_const) {
  if (SINTER_LIKELY(layout.is_row)) return walk_row(object, layout.count, visitor, is_const, layout.names);
  std::array<void*, 16> fields;
  if (SINTER_UNLIKELY(layout.count > fields.size())) return walk_many_fields(object, layout, visitor, is_const);
  layout.fields(object, fields.data());
  walk_fields_at(fields.data(), layout, visitor, is_const);
}

template <class V>
void walk_elements(void* object, const Layout& layout, V& visitor, bool is_const) {
  const auto [first, count] = layout.elements(object);
  visitor.structure("size", static_cast<std::int64_t>(count));
  const Layout& part = *layout.parts[0];
  if (!V::has_path && part.is_row) return walk_row(first, count * part.count, visitor, is_const, {});
  for (std::size_t i = 0; i < count; ++i) {
    visitor.enter(Step::Kind::item, static_cast<std::uint32_t>(i), {});
    walk_part(static_cast<std::byte*>(first) + i * part.size, part, visitor, is_const);
    visitor.leave();
  }
}

template <class V>
void walk_entries(void* object, const Layout& layout, V& visitor, bool is_const) {
  struct Context {
    const Layout& layout;
    V& visitor;
    bool is_const;
  } context{layout, visitor, is_const};
  layout.entries(object, &context, [](void* opaque, void* key, void* value) {
    const auto& [map, to, is_shown] = *static_cast<Context*>(opaque);
    to.enter_key(" key ", map.key_text, key);
    walk(key, *map.parts[0], to, true);
    to.leave();
    to.enter_key("", map.key_text, key);
    walk(value, *map.parts[1], to, is_shown);
    to.leave();
  });
}

/// V: tensor(Tensor&, is_const), scalar(Scalar&, is_const), variable(const Variable&), dim(Dim&, is_const),
/// fixed(std::int64_t), structure(what, value); where it has_path, around each part enter(kind, index, names) or
/// enter_key(before, text, key), and leave().
template <class V>
void walk(void* object, const Layout& layout, V& visitor, bool is_const) {
  is_const = is_const || layout.is_const;
  // No jump through a table for what calls walk most: processors guess such jumps worst.
  if (SINTER_LIKELY(layout.kind == Kind::fields)) return walk_fields(object, layout, visitor, is_const);
  if (SINTER_LIKELY(layout.kind == Kind::elements)) return walk_elements(object, layout, visitor, is_const);
  if (SINTER_LIKELY(layout.kind == Kind::number)) return visitor.fixed(number_at(object, layout));
  walk_other(object, layout, visitor, is_const);
}

template <class V>
SINTER_NOINLINE void walk_other(void* object, const Layout& layout, V& visitor, bool is_const) {
  switch (layout.kind) {
    case Kind::fields:
    case Kind::elements:
    case Kind::number:
    case Kind::none: return;
    case Kind::tensor: return visitor.tensor(*static_cast<Tensor*>(object), is_const);
    case Kind::scalar: return visitor.scalar(*static_cast<Scalar*>(object), is_const);
    case Kind::variable: return visitor.variable(*static_cast<const Variable*>(object));
    case Kind::dim: return visitor.dim(*static_cast<Dim*>(object), is_const);
    case Kind::text: {
      const auto& text = *static_cast<const std::string*>(object);
      visitor.fixed(static_cast<std::int64_t>(text.size()));
      for (char c : text) visitor.fixed(c);
      return;
    }
    case Kind::map: {
      std::int64_t count = 0;
      layout.entries(object, &count, [](void* counted, void*, void*) { ++*static_cast<std::int64_t*>(counted); });
      visitor.structure("size", count);
      return walk_entries(object, layout, visitor, is_const);
    }
    case Kind::optional: {
      void* value = layout.value(object);
      visitor.structure("presence", value != nullptr);
      if (value != nullptr) walk(value, *layout.parts[0], visitor, is_const);
      return;
    }
  }
}

/// For visitors that do not ask where they are.
struct WithoutPath {
  static constexpr bool has_path = false;
  void enter(Step::Kind, std::uint32_t, std::string_view) {}
  void enter_key(const char*, std::string (*)(const void*), const void*) {}
  void leave() {}
};

}  // namespace tree::detail
SINTER_NAMESPACE_END
