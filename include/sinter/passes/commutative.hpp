// Ops whose operands may be exchanged without changing a bit of the result (but the payload of a NaN). Maximum and
// minimum are not among them: of 0 and -0 they may return either.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/ops/registry.hpp>

SINTER_NAMESPACE_BEGIN

namespace passes_detail {

inline constexpr const OpInfo* commutative_ops[] = {
    &op_info<ops::Add>, &op_info<ops::Mul>, &op_info<ops::Eq>,  &op_info<ops::Ne>,
    &op_info<ops::And>, &op_info<ops::Or>,  &op_info<ops::Xor>,
};

inline bool is_commutative(const OpInfo& op) {
  for (const OpInfo* commutative : commutative_ops)
    if (commutative == &op) return true;
  return false;
}

}  // namespace passes_detail

SINTER_NAMESPACE_END
