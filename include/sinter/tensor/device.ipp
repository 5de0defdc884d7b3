// The default device of the process.
#pragma once

#include <sinter/tensor/device.hpp>

#include <atomic>
#include <ostream>

SINTER_NAMESPACE_BEGIN

SINTER_DECL std::ostream& operator<<(std::ostream& out, Device device) { return out << device.text(); }

namespace tensor_detail {
inline std::atomic<std::uint16_t>& default_device_word() noexcept {
  static constinit std::atomic<std::uint16_t> word{0};
  return word;
}
}  // namespace tensor_detail

SINTER_DECL Device default_device() noexcept {
  const std::uint16_t word = tensor_detail::default_device_word().load(std::memory_order_relaxed);
  return {static_cast<DeviceKind>(word >> 8), static_cast<std::uint8_t>(word & 0xFF)};
}

namespace tensor_detail {
SINTER_DECL void store_default_device(Device device) noexcept {
  default_device_word().store(static_cast<std::uint16_t>(static_cast<unsigned>(device.kind) << 8 | device.index),
                              std::memory_order_relaxed);
}
}  // namespace tensor_detail

SINTER_NAMESPACE_END
