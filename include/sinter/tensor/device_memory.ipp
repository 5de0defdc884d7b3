// Looking up the memory of a device.
#pragma once

#include <sinter/tensor/device_memory.hpp>

SINTER_NAMESPACE_BEGIN

SINTER_DECL DeviceMemory& device_memory(Device device, std::string_view op, Location where) {
  DeviceMemory* memory = device.kind == DeviceKind::cpu ? nullptr : find_device_memory(device.kind);
  if (memory == nullptr)
    throw DeviceError(op, "device " + device.text() + " is not part of this build", where,
                      "build with the back end for it (docs/cuda.md), or use Device::cpu()");
  memory->check(device, op, where);
  return *memory;
}

SINTER_NAMESPACE_END
