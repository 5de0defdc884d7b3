// How an op declares its attributes: each has a name, a type, and a place in Attrs. The text of graphs, its parser, and
// the verifier go by these declarations, so that an op's attributes are written down once, in the op's file. Must not
// know any op.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/index.hpp>
#include <sinter/base/small_vector.hpp>
#include <sinter/tensor/shape.hpp>

#include <array>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

SINTER_NAMESPACE_BEGIN

enum class AttrKind : std::uint8_t {
  // Members of Attrs, which mean the same for every op that has them.
  axes,
  shape,
  value,
  integer,
  dtype,
  device,
  keep_dims,
  data,
  // An op's own, in Attrs::own.
  number,   // a whole number
  real,     // a floating number
  flag,     // written as its name alone where it holds
  choice,   // one of an enumeration, written by name
  list,     // whole numbers
  extents,  // a Shape
  extent,   // a Dim, of which there may be none
  text,     // a string
};

namespace graph_detail {
/// How many attributes of one sort an op can have of its own. Numbers, reals, flags and choices are one sort; extents
/// and single extents are another. The last number is the plan's (planned_precision, lasting_operands).
inline constexpr std::size_t own_numbers = 5, own_lists = 2, own_shapes = 2, own_texts = 1;
}  // namespace graph_detail

/// One attribute of one op.
struct AttrInfo {
  std::string_view name;
  AttrKind kind = AttrKind::axes;
  std::uint8_t place = 0;      // among the op's own attributes of this sort
  std::int64_t fallback = 0;   // bits of the number that it is unless it is set
  std::string_view choices{};  // names of the enumerators, in order, with a blank between them

  constexpr std::int64_t choice_count() const {
    std::int64_t count = choices.empty() ? 0 : 1;
    for (char c : choices) count += c == ' ';
    return count;
  }
  /// The name of enumerator `number`, or "".
  constexpr std::string_view choice_name(std::int64_t number) const {
    std::string_view rest = choices;
    for (; number > 0 && !rest.empty(); --number) {
      const std::size_t end = rest.find(' ');
      rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
    }
    return number < 0 ? std::string_view() : rest.substr(0, rest.find(' '));
  }
  /// The enumerator of that name, or -1.
  constexpr std::int64_t choice_of(std::string_view wanted) const {
    for (std::int64_t i = 0; i < choice_count(); ++i)
      if (choice_name(i) == wanted) return i;
    return -1;
  }
};

/// An attribute that one op alone has, by which its value is read and set: `attrs[LayerNorm::eps]`.
/// The places of an op's attributes of one sort are told apart by number; describe<Op>() checks that they differ.
template <class T>
struct OpAttr : AttrInfo {
  constexpr OpAttr(std::string_view attr_name, std::size_t at)
    requires std::same_as<T, bool>
      : AttrInfo{attr_name, AttrKind::flag, checked(at, graph_detail::own_numbers)} {}
  /// A number that is `otherwise` unless it is set.
  constexpr OpAttr(std::string_view attr_name, std::size_t at, T otherwise = 0)
    requires std::same_as<T, std::int64_t> || std::same_as<T, double>
      : AttrInfo{attr_name, std::same_as<T, double> ? AttrKind::real : AttrKind::number,
                 checked(at, graph_detail::own_numbers), bits_of(otherwise)} {}
  /// Enumerators count from 0, which is what it is unless it is set; `names` has them in order, with a blank between.
  constexpr OpAttr(std::string_view attr_name, std::size_t at, std::string_view names)
    requires std::is_enum_v<T>
      : AttrInfo{attr_name, AttrKind::choice, checked(at, graph_detail::own_numbers), 0, names} {}
  constexpr OpAttr(std::string_view attr_name, std::size_t at)
    requires std::same_as<T, IntVector>
      : AttrInfo{attr_name, AttrKind::list, checked(at, graph_detail::own_lists)} {}
  constexpr OpAttr(std::string_view attr_name, std::size_t at)
    requires std::same_as<T, Shape> || std::same_as<T, Dim>
      : AttrInfo{attr_name, std::same_as<T, Dim> ? AttrKind::extent : AttrKind::extents,
                 checked(at, graph_detail::own_shapes)} {}
  constexpr OpAttr(std::string_view attr_name, std::size_t at)
    requires std::same_as<T, std::string>
      : AttrInfo{attr_name, AttrKind::text, checked(at, graph_detail::own_texts)} {}

  static constexpr std::int64_t bits_of(T value) {
    if constexpr (std::same_as<T, double>) return std::bit_cast<std::int64_t>(value);
    else return static_cast<std::int64_t>(value);
  }
  static constexpr T value_of(std::int64_t bits) {
    if constexpr (std::same_as<T, double>) return std::bit_cast<double>(bits);
    else return static_cast<T>(bits);
  }

 private:
  static constexpr std::uint8_t checked(std::size_t at, std::size_t places) {
    if (at >= places) throw "an op has no such place for attributes of this sort";  // in a constant: an error
    return static_cast<std::uint8_t>(at);
  }
};

/// What an op declares: `static constexpr auto attributes = attribute_list(attr::axes, eps);`
template <class... Infos>
constexpr std::array<AttrInfo, sizeof...(Infos)> attribute_list(const Infos&... infos) {
  return {infos...};
}

namespace graph_detail {

/// Attributes of one group share the places of Attrs::own; members of Attrs are groups of one.
constexpr int place_of(const AttrInfo& info) {
  const int at = info.place;
  switch (info.kind) {
    case AttrKind::axes:
    case AttrKind::shape:
    case AttrKind::value:
    case AttrKind::integer:
    case AttrKind::dtype:
    case AttrKind::device:
    case AttrKind::keep_dims:
    case AttrKind::data: return static_cast<int>(info.kind);
    case AttrKind::number:
    case AttrKind::real:
    case AttrKind::flag:
    case AttrKind::choice: return 100 + at;
    case AttrKind::list: return 200 + at;
    case AttrKind::extents:
    case AttrKind::extent: return 300 + at;
    case AttrKind::text: return 400 + at;
  }
  return -1;
}

/// Whether no two attributes have a name or a place in common.
constexpr bool are_apart(std::span<const AttrInfo> attributes) {
  for (std::size_t i = 0; i < attributes.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      if (attributes[i].name == attributes[j].name || place_of(attributes[i]) == place_of(attributes[j])) return false;
  return true;
}

}  // namespace graph_detail

SINTER_NAMESPACE_END
