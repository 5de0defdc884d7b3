// What an operation that a back end computes whole is told of its operands, beside their types.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/graph/attrs.hpp>

#include <cstdint>

SINTER_NAMESPACE_BEGIN

/// Among an intrinsic's attributes on the CPU, in the place that planned_precision has on devices. Bit i: operand i is
/// a constant, whose address and elements stay as long as the launch, so that what is made of it can be kept.
inline constexpr OpAttr<std::int64_t> lasting_operands{"lasting_operands", 4};

SINTER_NAMESPACE_END
