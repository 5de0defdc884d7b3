// scatter_add as CUDA C. Deterministic: each element of the result is summed by one thread, in the order of the
// reference. Knows the description of the step; no plans.
#pragma once

#include <sinter/backend/cuda/device/launch.hpp>
#include <sinter/base/config.hpp>
#include <sinter/runtime/host_ops.hpp>

#include <cstdint>
#include <span>

SINTER_NAMESPACE_BEGIN
namespace cuda {

/// Operands are index, value, result, as for bind_host_op. An index out of range goes to the fault record.
LaunchList generate_scatter_add(const ScatterOp& op, std::span<const std::int64_t> symbols, const Target& target);

}  // namespace cuda
SINTER_NAMESPACE_END
