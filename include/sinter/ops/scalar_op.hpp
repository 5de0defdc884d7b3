// An elementwise op on scalar values: its own lowering, and what narrow dtypes add to it.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/graph/op_info.hpp>
#include <sinter/ops/scalar.hpp>

#include <span>

SINTER_NAMESPACE_BEGIN

/// `op` on operands that are held as ScalarBuilder says, with a result of dtype `result`. A narrow integer wraps, as
/// one of 32 bits does; f16 and bf16 stay f32 until they are stored.
ScalarValue lower_elementwise(ScalarBuilder& builder, const OpInfo& op, std::span<const ScalarValue> operands,
                              const Attrs& attrs, DType result);

SINTER_NAMESPACE_END
