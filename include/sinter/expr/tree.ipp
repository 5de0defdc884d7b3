// Readers and editors on their way through an object, and the texts of the steps that lead to a leaf.
#pragma once

#include <sinter/expr/tree.hpp>
#include <sinter/expr/tree_walk.hpp>

#include <algorithm>
#include <utility>

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

struct ReadLeaves {
  static constexpr bool has_path = true;
  Reader& to;
  void tensor(const Tensor& x, bool) { to.tensor(x); }
  void scalar(const Scalar& x, bool) { to.scalar(x); }
  void variable(const Variable& x) { to.variable(x); }
  void dim(const Dim& x, bool) { to.dim(x); }
  void fixed(std::int64_t value) { to.fixed(value); }
  void structure(const char* what, std::int64_t value) { to.structure(what, value); }
  void enter(Step::Kind kind, std::uint32_t index, std::string_view names) { to.enter_part(kind, index, names); }
  void enter_key(const char* before, std::string (*text)(const void*), const void* key) {
    if (to.knows_path()) to.enter_key(before + text(key));
  }
  void leave() { to.leave_part(); }
};
struct EditLeaves : WithoutPath {
  explicit EditLeaves(Editor& editor) : to(editor) {}
  Editor& to;
  void tensor(Tensor& x, bool is_const) { is_const ? to.tensor(std::as_const(x)) : to.tensor(x); }
  void scalar(Scalar& x, bool is_const) { is_const ? to.scalar(std::as_const(x)) : to.scalar(x); }
  void variable(const Variable& x) { to.variable(x); }
  void dim(Dim& x, bool is_const) { is_const ? to.dim(std::as_const(x)) : to.dim(x); }
  void fixed(std::int64_t value) { to.fixed(value); }
  void structure(const char*, std::int64_t value) { to.fixed(value); }
};
}  // namespace detail

SINTER_DECL void View::read(Reader& reader) const {
  detail::ReadLeaves leaves{reader};
  detail::walk(const_cast<void*>(object), *layout, leaves);
}
SINTER_DECL void Part::edit(Editor& editor) const {
  detail::EditLeaves leaves(editor);
  detail::walk(object, *layout, leaves);
}

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
