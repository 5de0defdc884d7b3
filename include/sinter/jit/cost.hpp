// Cost: operations and bytes, as numbers. Knows nothing of what they are counted from.
#pragma once

#include <sinter/base/config.hpp>

#include <string>

SINTER_NAMESPACE_BEGIN
namespace jit {

/// How fast a machine is, in operations and bytes per second; by default one thread of a processor with AVX2 at 3 GHz.
struct MachineRates {
  double flops = 96e9;
  double special = 2e9;
  double bytes = 12e9;
};

/// Counted, not measured. Of numbers with a point a sum, difference, product or extremum is one operation, an fma two;
/// functions such as exp and tanh are `special`, one each. Of memory each operand counts once, by the elements that are
/// touched: what the caches make of it is another matter.
struct Cost {
  double flops = 0, special = 0, bytes_read = 0, bytes_written = 0;
  /// Some of it is not counted: what the host computes by functions of its own, and all rounds of loops but one.
  bool is_incomplete = false;

  double bytes() const { return bytes_read + bytes_written; }
  /// Operations for each byte.
  double intensity() const { return bytes() > 0 ? (flops + special) / bytes() : 0; }
  /// By the roofline model (Williams, Waterman, Patterson, 2009): memory and arithmetic overlap, the slower one counts.
  double seconds(const MachineRates& rates = {}) const;
  Cost& operator+=(const Cost& other);
  std::string text() const;
};

}  // namespace jit
SINTER_NAMESPACE_END
