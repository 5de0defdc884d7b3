// What a kernel costs at given sizes: the operations that it does and the memory that it must move. Counted, not
// measured. Knows kernels and geometries; no machine.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/kernel/kernel.hpp>

SINTER_NAMESPACE_BEGIN

/// Of numbers with a point a sum, difference, product, quotient or extremum is one operation, an fma two; functions
/// such as exp and tanh are `special`, one each. Of memory each operand counts once, by the elements that are touched.
struct KernelCost {
  double flops = 0, special = 0, bytes_read = 0, bytes_written = 0;
};
KernelCost cost_of(const Kernel& kernel, const BoundGeometry& geometry);

SINTER_NAMESPACE_END
