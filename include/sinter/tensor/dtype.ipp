// Why two dtypes have no common one.
#pragma once

#include <sinter/tensor/dtype.hpp>

#include <string>

SINTER_NAMESPACE_BEGIN
namespace tensor_detail {

SINTER_DECL void refuse_promotion(DType a, DType b, std::string_view op, Location where) {
  const std::string pair = std::string(name(a)) + " with " + std::string(name(b));
  if (is_f8(a) || is_f8(b))
    throw DTypeError(op, pair + " has no common dtype: f8e4m3 and f8e5m2 are not promoted", where,
                     "cast both to the dtype to compute in: cast(x, DType::f32)");
  throw DTypeError(op, pair + " has no common dtype: no integer has all values of both", where,
                   "cast one of them: cast(x, DType::i64) keeps what is below 2^63, cast(x, DType::u64) what is not "
                   "negative");
}

}  // namespace tensor_detail
SINTER_NAMESPACE_END
