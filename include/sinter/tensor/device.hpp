// Where a tensor lives.
#pragma once

#include <sinter/base/config.hpp>

#include <cstdint>
#include <iosfwd>
#include <string>

SINTER_NAMESPACE_BEGIN

enum class DeviceKind : std::uint8_t { cpu, cuda };

/// A processor with memory of its own.
struct Device {
  DeviceKind kind = DeviceKind::cpu;
  std::uint8_t index = 0;

  static constexpr Device cpu() { return {}; }
  static constexpr Device cuda(int index = 0) { return {DeviceKind::cuda, static_cast<std::uint8_t>(index)}; }
  std::string text() const { return kind == DeviceKind::cpu ? "cpu" : "cuda:" + std::to_string(index); }
  friend constexpr bool operator==(Device, Device) = default;
};
/// Writes text().
std::ostream& operator<<(std::ostream& out, Device device);

/// Where tensors are made that name no device: factories, random numbers, copy_of, literals. At first the CPU.
Device default_device() noexcept;

namespace tensor_detail {
void store_default_device(Device device) noexcept;  // unchecked; see set_default_device
}

SINTER_NAMESPACE_END
