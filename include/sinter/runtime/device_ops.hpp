// Steps of a plan on a device that no kernel expresses, made of what every device has: memory, copies, and plans.
// Control flow is driven from the host while its values stay on the device; a function of the host gets copies of its
// operands. Must not know back ends.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/runtime/host_ops.hpp>
#include <sinter/tensor/device.hpp>

#include <cstdint>
#include <memory>
#include <span>

SINTER_NAMESPACE_BEGIN

/// For an op with `run`, whose bodies, if there are any, are plans on that device.
std::unique_ptr<Launch> bind_device_op(const HostOp& op, std::span<const std::int64_t> symbols, const StepContext& step,
                                       Device device);

SINTER_NAMESPACE_END
