// Lowering: a fusion group becomes a Kernel and its symbolic Geometry. Knows graphs through fusion nodes; no back ends.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/kernel/fusion.hpp>
#include <sinter/kernel/kernel.hpp>

#include <cstdint>
#include <string>
#include <vector>

SINTER_NAMESPACE_BEGIN

/// A number that bodies need as an operand: computed from extents, in 64 bits, and kept as f32 or f64 where only that
/// is computed with (a 64-bit integer beside f32 would halve the lanes of a vector).
struct PlanNumber {
  Dim value;
  DType dtype = DType::i64;
};

/// What a kernel's operand is: the memory of a fusion node, or one of the plan's numbers.
struct OperandRef {
  std::int32_t node = -1;
  std::int32_t number = -1;
  friend bool operator==(const OperandRef&, const OperandRef&) = default;
};

struct LoweredKernel {
  Kernel kernel;
  SymbolicGeometry geometry;
  std::vector<OperandRef> operands;  // one per operand of the kernel
};

/// Loads and stores the same elements at the same places.
bool is_plain_copy(const LoweredKernel& lowered);

/// `numbers` collects the symbolic numbers that bodies need as operands; `precision` is what products of f32 may be in.
LoweredKernel lower(const FusionGraph& nodes, const Fusion& fusion, const FusionGroup& group,
                    std::vector<PlanNumber>& numbers, MatmulPrecision precision);

/// The fusion nodes that compute the operands of the group's product inside its kernel, arguments first.
SmallVector<std::int32_t, 16> prologue_of(const FusionGraph& nodes, const FusionGroup& group);
/// "fused_mul_add_tanh": the ops of the group, shortened.
std::string kernel_name(const FusionGraph& nodes, const FusionGroup& group);

SINTER_NAMESPACE_END
