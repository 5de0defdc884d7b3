// Setting the default precision of products. See the header.
#pragma once

#include <sinter/tensor/precision.hpp>

#include <string>

SINTER_NAMESPACE_BEGIN

SINTER_DECL void tensor_detail::check_precision(MatmulPrecision precision, std::string_view op, Location where) {
  if (precision <= MatmulPrecision::tf32) return;
  throw UserError(
      op,
      "the precision has the value " + std::to_string(static_cast<int>(precision)) + ", which is no MatmulPrecision",
      where, "use MatmulPrecision::f32, tf32x3 or tf32");
}

SINTER_DECL void set_matmul_precision(MatmulPrecision precision, Location where) {
  tensor_detail::check_precision(precision, "set_matmul_precision", where);
  tensor_detail::matmul_precision_bit.store(precision_bit(precision), std::memory_order_relaxed);
}

SINTER_NAMESPACE_END
