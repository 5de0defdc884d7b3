// Sorting, selection and search in exported headers: C++ that orders as ops/order.hpp says, and the numbers that a step
// of a plan gives it. Knows host steps; must not know plans.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/optional.hpp>
#include <sinter/runtime/host_ops.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace io::cpp_detail {

/// A step for run_order(numbers, operands, scratch).
struct OrderStep {
  std::vector<std::int64_t> numbers;
  std::size_t scratch_bytes = 0;
};
/// Nothing where the step is of another kind.
Optional<OrderStep> order_step(const HostOp& op, std::span<const std::int64_t> symbols);
/// C++11, to stand behind x86::runtime_source(). It has run_order().
std::string_view order_source();

}  // namespace io::cpp_detail
SINTER_NAMESPACE_END
