// Which side of a bound an index is on, where that is the same everywhere: what lowering leaves out of a patch, and
// what is not counted of it before. Knows index maps; no graphs.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/kernel/index_map.hpp>

#include <optional>
#include <utility>

SINTER_NAMESPACE_BEGIN
namespace kernel_detail {

/// The comparison `index >= bound` as it is written: the bound has all constants, and is divided by the index's only
/// factor.
struct BoundedIndex {
  AxisIndex walked;
  Dim bound;
};
inline BoundedIndex bounded_index(const AxisIndex& index, Dim bound) {
  BoundedIndex out{index, bound - index.offset};
  out.walked.offset = Dim(0);
  if (out.walked.terms.size() == 1 && out.walked.terms[0].factor.is_static() &&
      out.walked.terms[0].factor.value() > 1) {
    const Dim factor = out.walked.terms[0].factor;  // factor * i >= bound is i >= bound / factor, rounded up
    out.bound = (out.bound + factor - Dim(1)) / factor;
    out.walked.terms[0].factor = Dim(1);
  }
  return out;
}

/// Is it so, or not, for every value of the index?
inline std::optional<bool> known_at_least(const Space& space, const BoundedIndex& index) {
  Dim last = 0;
  for (const IndexTerm& term : index.walked.terms) {
    if (!term.factor.is_static() || term.factor.value() < 0) return std::nullopt;
    last += term.factor * (space[term.axis].extent - Dim(1));
  }
  const auto is_known = [](Dim a, Dim b) { return (a - b).is_static() && (a - b).value() >= 0; };
  if (is_known(Dim(0), index.bound)) return true;
  if (is_known(index.bound, last + Dim(1))) return false;
  return std::nullopt;
}

/// What of a patch, which has a part from `starts` on, is seen at an index map.
struct SeenOfPatch {
  bool part = true, base = true;
};
inline SeenOfPatch seen_of_patch(const Space& space, const IndexMap& map, const Shape& starts, const Shape& part) {
  SeenOfPatch seen{.part = true, .base = false};
  for (int i = 0; i < map.rank; ++i) {
    const std::optional<bool> begins = known_at_least(space, bounded_index(map[i], starts[i])),
                              ends = known_at_least(space, bounded_index(map[i], starts[i] + part[i]));
    if (begins == false || ends == true) return {.part = false, .base = true};
    seen.base = seen.base || begins != true || ends != false;
  }
  return seen;
}

}  // namespace kernel_detail
SINTER_NAMESPACE_END
