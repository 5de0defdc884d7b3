// See the header.
#pragma once

#include <sinter/ops/scalar_op.hpp>

#include <sinter/base/small_vector.hpp>

SINTER_NAMESPACE_BEGIN

SINTER_DECL ScalarValue lower_elementwise(ScalarBuilder& builder, const OpInfo& op,
                                          std::span<const ScalarValue> operands, const Attrs& attrs, DType result) {
  if (!is_narrow(result) || is_floating(result)) return builder.held(op.lower(builder, operands, attrs), result);
  SmallVector<ScalarValue, 4> bits;
  if (op.reads_bits)
    for (const ScalarValue x : operands)
      bits.push_back(builder.and_(x, builder.imm_int((std::int64_t{1} << 8 * size_of(result)) - 1, x.dtype)));
  const ScalarValue value =
      op.lower(builder, op.reads_bits ? std::span<const ScalarValue>(bits.begin(), bits.size()) : operands, attrs);
  return builder.held(value, result);
}

SINTER_NAMESPACE_END
