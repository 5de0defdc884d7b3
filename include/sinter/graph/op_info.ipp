// What an op says of itself by name.
#pragma once

#include <sinter/graph/op_info.hpp>

SINTER_NAMESPACE_BEGIN

SINTER_DECL const AttrInfo* OpInfo::find_attribute(std::string_view wanted) const {
  for (const AttrInfo& info : attributes)
    if (info.name == wanted) return &info;
  return nullptr;
}

SINTER_DECL bool OpInfo::may_take_complex(const Attrs& attrs) const {
  return takes_complex || is_call || kind == OpKind::effect || kind == OpKind::leaf || !attrs.bodies.empty();
}

SINTER_DECL std::string_view OpInfo::body_name(std::size_t i) const {
  std::string_view rest = bodies;
  for (; i > 0 && rest.find(' ') != std::string_view::npos; --i) rest = rest.substr(rest.find(' ') + 1);
  return rest.substr(0, rest.find(' '));
}

SINTER_NAMESPACE_END
