// The host in the place of a device's back end, where that has declined a kernel or has no form of an operation: copies
// of what is touched go to the host and back. Must not know back ends.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/runtime/backend.hpp>
#include <sinter/runtime/host_ops.hpp>
#include <sinter/tensor/device.hpp>

#include <cstdint>
#include <memory>
#include <span>

SINTER_NAMESPACE_BEGIN

/// For a kernel that the device's back end declined, compiled by one of the host.
std::unique_ptr<Launch> bind_host_kernel(const Kernel& kernel, const BoundGeometry& geometry,
                                         const Executable& executable, const StepContext& step, Device device);
SINTER_NAMESPACE_END
