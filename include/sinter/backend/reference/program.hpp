// Program: a kernel put in order for interpretation. A value that varies over reduced axes may depend on a reduction
// over the same axes (softmax divides by a sum of exponentials of differences to a maximum), so the reduced axes are
// walked once per depth of such nesting; what varies over them is computed again in each pass. Knows no numbers.
#pragma once

#include <sinter/backend/reference/primitives.hpp>
#include <sinter/base/config.hpp>
#include <sinter/kernel/facts.hpp>
#include <sinter/kernel/kernel.hpp>

#include <string>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace reference_detail {

/// One walk over the reduced axes.
struct Pass {
  std::vector<InstId> outer;  // before the walk, once per outer point: what does not vary over reduced axes
  InstList inner;             // at each point of the walk
  InstList reductions;        // fed at each point of the walk
};

/// How one instruction is computed.
struct Step {
  VectorFunction map = nullptr;           // maps
  ReduceFunction reduce_lanes = nullptr;  // reductions: one sum per lane
  ReduceFunction reduce_all = nullptr;    // reductions: all lanes into one sum
  ScanFunction scan_lanes = nullptr;      // scans: one sum per lane
  ScanFunction scan_all = nullptr;        // scans: one sum along the lanes
};

struct Program {
  Kernel kernel;
  KernelFacts facts;
  std::vector<Step> steps;          // one per instruction
  std::vector<Pass> passes;         // at least one
  std::vector<Store> inner_stores;  // at each point of the last walk
  std::vector<Store> outer_stores;  // after it, once per outer point

  std::string text() const;
};

/// Throws InternalError on a malformed kernel, or one that applies a primitive to a dtype for which it has no meaning.
Program make_program(const Kernel& kernel);

}  // namespace reference_detail
SINTER_NAMESPACE_END
