// The names of the leaves of a call's arguments, for guards and errors.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/expr/tree.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace jit {

namespace jit_detail {
struct NameVisitor;
}

/// "argument 1.layers[0].weight"; of containers also "size of argument 1.layers", which is structure.
class LeafNames {
 public:
  std::size_t size() const { return leaves_.size(); }
  bool is_structure(std::size_t leaf) const { return leaf < size() && leaves_[leaf].structure != nullptr; }
  std::string text(std::size_t leaf) const;

 private:
  friend struct jit_detail::NameVisitor;
  struct Part {
    std::int32_t whole;  // the part that it is a part of, -1: none
    tree::Step step;
  };
  struct Leaf {
    std::int32_t part;
    const char* structure;  // "size", "presence"; null: a leaf of its own
  };
  std::vector<Part> parts_;
  std::vector<Leaf> leaves_;
};

namespace jit_detail {
/// An argument without a layout is one leaf.
void name_leaves(LeafNames& names, std::span<const tree::View> arguments);
}  // namespace jit_detail

}  // namespace jit
SINTER_NAMESPACE_END
