// Lowering: a fusion group becomes a Kernel and its symbolic Geometry. Knows graphs through items; no back ends.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/kernel/fusion.hpp>
#include <sinter/kernel/kernel.hpp>

#include <cstdint>
#include <string>
#include <vector>

SINTER_NAMESPACE_BEGIN

/// What a kernel's operand is: the memory of an item, or one of the plan's numbers (an i64 computed from extents).
struct OperandRef {
  std::int32_t item = -1;
  std::int32_t number = -1;
  friend bool operator==(const OperandRef&, const OperandRef&) = default;
};

struct LoweredKernel {
  Kernel kernel;
  SymbolicGeometry geometry;
  std::vector<OperandRef> operands;   // one per operand of the kernel
};

/// `numbers` collects the symbolic numbers that bodies need as operands.
LoweredKernel lower(const ItemGraph& items, const Fusion& fusion, const FusionGroup& group, std::vector<Dim>& numbers);

/// "fused_mul_add_tanh": the ops of the group, shortened.
std::string kernel_name(const ItemGraph& items, const FusionGroup& group);

SINTER_NAMESPACE_END
