// Walking the arguments for names, and putting names together from their parts.
#pragma once

#include <sinter/jit/call/leaf_names.hpp>

#include <sinter/base/index.hpp>
#include <sinter/jit/call/call.hpp>

#include <utility>

SINTER_NAMESPACE_BEGIN
namespace jit {

namespace jit_detail {
/// Names the leaves of the arguments, in the order in which ArgList has them.
struct NameVisitor final : tree::Reader {
  explicit NameVisitor(LeafNames& list) : names(list) {}
  LeafNames& names;
  std::int32_t at = -1;

  void enter(tree::Step step) {
    names.parts_.push_back({at, std::move(step)});
    at = static_cast<std::int32_t>(names.parts_.size()) - 1;
  }
  bool knows_path() const override { return true; }
  void enter_part(tree::Step::Kind kind, std::uint32_t index, std::string_view fields) override {
    enter({kind, index, fields, {}});
  }
  void enter_key(std::string key) override { enter({tree::Step::Kind::key, 0, {}, std::move(key)}); }
  void leave_part() override { at = names.parts_[as_index(at)].whole; }
  void tensor(const Tensor&) override { leaf(); }
  void scalar(const Scalar&) override { leaf(); }
  void variable(const Variable&) override { leaf(); }
  void fixed(std::int64_t) override { leaf(); }
  void dim(const Dim&) override { leaf(); }
  void structure(const char* what, std::int64_t) override { names.leaves_.push_back({at, what}); }
  void leaf() { names.leaves_.push_back({at, nullptr}); }
};

SINTER_DECL void name_leaves(LeafNames& names, std::span<const tree::View> arguments) {
  NameVisitor visitor(names);
  for (std::uint32_t position = 0; position < arguments.size(); ++position) {
    visitor.enter({tree::Step::Kind::argument, position, {}, {}});
    if (arguments[position].layout == nullptr) visitor.leaf();
    else arguments[position].read(visitor);
    visitor.leave_part();
  }
}
}  // namespace jit_detail

SINTER_DECL std::string LeafNames::text(std::size_t leaf) const {
  std::string text;
  for (std::int32_t part = leaves_[leaf].part; part >= 0; part = parts_[as_index(part)].whole)
    text = parts_[as_index(part)].step.text() + text;
  return leaves_[leaf].structure != nullptr ? leaves_[leaf].structure + (" of " + text) : text;
}

}  // namespace jit
SINTER_NAMESPACE_END
