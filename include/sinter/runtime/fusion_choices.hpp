// Which kinds of fusion a plan is made with. Plain data, shared by options and plans.
#pragma once

#include <sinter/base/config.hpp>

#include <concepts>

SINTER_NAMESPACE_BEGIN

struct FusionChoices {
  bool fuse = true;        // false: one kernel per node, nothing recomputed
  bool horizontal = true;  // independent kernels run as one launch
  bool epilogues = true;   // products take in what is computed from their results
  FusionChoices() = default;
  template <std::same_as<bool> B>  // nothing that only turns into one, such as a pointer
  FusionChoices(B is_on) : fuse(is_on), horizontal(is_on), epilogues(is_on) {}
};

SINTER_NAMESPACE_END
