// The texts of the steps that lead to a leaf.
#pragma once

#include <sinter/expr/tree.hpp>

#include <algorithm>

SINTER_NAMESPACE_BEGIN
namespace tree {

namespace detail {
/// Number `index` of "w, bias_, ...".
inline std::string field_name(std::string_view names, std::size_t index) {
  for (; index > 0; --index) {
    auto comma = names.find(',');
    if (comma == std::string_view::npos) return {};
    names.remove_prefix(comma + 1);
  }
  names = names.substr(0, names.find(','));
  names.remove_prefix(std::min(names.find_first_not_of(' '), names.size()));
  return std::string(names);
}
}  // namespace detail

SINTER_DECL std::string Step::text() const {
  switch (kind) {
    case Kind::argument: return "argument " + std::to_string(index);
    case Kind::field: return "." + (names.empty() ? "field" + std::to_string(index) : detail::field_name(names, index));
    case Kind::item: return "[" + std::to_string(index) + "]";
    case Kind::key: return key;
  }
  __builtin_unreachable();
}

}  // namespace tree
SINTER_NAMESPACE_END
