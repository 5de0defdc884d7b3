// Evaluates the scalar body of an elementwise op on numbers, for folding. There is no switch over ops: the op lowers
// itself and the primitives are computed one by one, in the dtype that they have. Integer division by zero, integers to
// negative powers, conversions of what does not fit and what needs a place in a tensor are left to run time.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/graph/op_info.hpp>
#include <sinter/ops/scalar.hpp>

#include <cstdint>
#include <optional>
#include <span>

SINTER_NAMESPACE_BEGIN

/// One number of some dtype: `real` for floating dtypes (an f32 is held exactly), `integer` for the others.
struct Literal {
  DType dtype = DType::f32;
  double real = 0;
  std::int64_t integer = 0;
};

/// The value of `op`, of dtype `result`, on these operands, or nothing when it must be computed at run time.
std::optional<Literal> evaluate(const OpInfo& op, std::span<const Literal> operands, const Attrs& attrs, DType result);

SINTER_NAMESPACE_END
