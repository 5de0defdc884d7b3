// Which kinds of fusion a plan is made with. Plain data, shared by options and plans.
#pragma once

#include <sinter/base/config.hpp>

SINTER_NAMESPACE_BEGIN

struct FusionChoices {
  bool fuse = true;        // false: one kernel per node, nothing recomputed
  bool horizontal = true;  // independent kernels run as one launch
  bool epilogues = true;   // products take in what is computed from their results
  FusionChoices() = default;
  FusionChoices(bool is_on) : fuse(is_on), horizontal(is_on), epilogues(is_on) {}
};

SINTER_NAMESPACE_END
