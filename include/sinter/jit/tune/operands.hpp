// Operands to measure a kernel with: memory of its layout, made-up values, and what the call itself gives where it
// does.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/index.hpp>
#include <sinter/kernel/kernel.hpp>
#include <sinter/tensor/device.hpp>
#include <sinter/tensor/device_memory.hpp>
#include <sinter/tensor/storage.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace jit::jit_detail {
namespace tuner_detail {

/// Numbers from 0.25 to 1.25, with signs where those are wanted; whole numbers from 1 to 4, or zeros, which are valid
/// as indices.
enum class Fill : std::uint8_t { positive, signed_, indices };

inline constexpr std::size_t fill_period = 65521;  // elements; a prime: lines of no operand are all alike

inline void fill(std::span<std::byte> memory, DType dtype, Fill how) {
  const std::size_t period = fill_period * as_index(size_of(dtype));
  if (memory.size() > period) {
    fill(memory.first(period), dtype, how);
    for (std::size_t at = period; at < memory.size(); at += period)
      std::memcpy(memory.data() + at, memory.data(), std::min(period, memory.size() - at));
    return;
  }
  std::uint64_t state = 0x9E3779B97F4A7C15;
  const auto next = [&] { return (state = state * 6364136223846793005 + 1442695040888963407) >> 33; };
  const std::size_t size = as_index(size_of(dtype));
  for (std::size_t at = 0; at + size <= memory.size(); at += size) {
    const std::uint64_t bits = next();
    const double sign = how == Fill::signed_ && bits % 2 != 0 ? -1 : 1;
    // Whole mantissas: products of shorter ones are exact, and hide how often they are rounded.
    const double number =
        sign * (0.25 + std::ldexp(static_cast<double>(bits), -31) + std::ldexp(static_cast<double>(next()), -62));
    const auto put = [&](auto value) { std::memcpy(memory.data() + at, &value, sizeof value); };
    if (dtype == DType::f32) put(static_cast<float>(number));
    else if (dtype == DType::f64) put(number);
    else if (dtype == DType::bf16)
      put(static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(static_cast<float>(number)) >> 16));
    else if (dtype == DType::f16)
      put(static_cast<std::uint16_t>((sign < 0 ? 0x8000u : 0u) | 0x3400u | (bits & 0x7FFu)));
    else if (how != Fill::indices && size <= 8) memory[at] = std::byte(dtype == DType::bool_ ? bits & 1 : 1 + bits % 4);
  }
}

/// The same on a device: of what repeats itself the first part is copied there, and doubled there.
inline void fill(void* memory, std::size_t bytes, Device device, DType dtype, Fill how) {
  if (bytes == 0) return;
  DeviceMemory& there = device_memory(device, "max_autotune");
  std::vector<std::byte> first(std::min(bytes, fill_period * as_index(size_of(dtype))));
  fill(first, dtype, how);
  there.copy(memory, device, first.data(), Device::cpu(), first.size());
  for (std::size_t done = first.size(); done < bytes; done = std::min(bytes, 2 * done))
    there.copy(static_cast<std::byte*>(memory) + done, device, memory, device, std::min(done, bytes - done));
}

/// How much of what a device holds is compared: of much, copying all takes longer than most kernels.
enum class Compared : std::uint8_t { parts, whole };
inline constexpr std::size_t compared_block = std::size_t{1} << 20, compared_blocks = 32;

/// Bytes for the host to compare; of more than 32 MiB on a device 32 blocks from its start to its end.
inline std::vector<std::byte> bytes_at(const void* memory, std::size_t count, Device device, Compared compared) {
  const bool is_in_parts =
      device != Device::cpu() && compared == Compared::parts && count > compared_blocks * compared_block;
  std::vector<std::byte> bytes(is_in_parts ? compared_blocks * compared_block : count);
  if (count == 0) return bytes;
  if (device == Device::cpu()) {
    std::memcpy(bytes.data(), memory, count);
    return bytes;
  }
  DeviceMemory& there = device_memory(device, "max_autotune");
  if (!is_in_parts) there.copy(bytes.data(), Device::cpu(), memory, device, count);
  else
    for (std::size_t i = 0; i < compared_blocks; ++i)
      there.copy(bytes.data() + i * compared_block, Device::cpu(),
                 static_cast<const std::byte*>(memory) + (count - compared_block) / (compared_blocks - 1) * i, device,
                 compared_block);
  return bytes;
}

/// Memory for what a kernel may touch, from the operand's base on. On a GPU it is there, and the host keeps none of it.
class Operands {
 public:
  /// `given`: per operand its base in memory that is only read, or null; empty: all are made up.
  Operands(const Kernel& kernel, const BoundGeometry& geometry, Device device, std::span<void* const> given)
      : kernel_(kernel), device_(device), given_(given.begin(), given.end()) {
    given_.resize(kernel.operands.size());
    if (device_ != Device::cpu()) on_device_ = &device_memory(device_, "max_autotune");
    ranges_.resize(kernel.operands.size(), {0, 0});
    for (std::size_t a = 0; a < kernel.accesses.size(); ++a) include(geometry, a);
    for (std::size_t i = 0; i < ranges_.size(); ++i) {
      if (given_[i] != nullptr) ranges_[i] = {0, 0};
      bytes_ += as_index((ranges_[i].second - ranges_[i].first) * size_of(kernel.operands[i].dtype));
    }
  }
  std::size_t bytes() const { return bytes_; }
  void allocate(Fill how) {
    bases_ = given_;
    for (std::size_t i = 0; i < ranges_.size(); ++i) {
      if (given_[i] != nullptr) continue;
      bases_[i] = made_up(i, how) - ranges_[i].first * size_of(kernel_.operands[i].dtype);
    }
  }
  void* const* bases() const { return bases_.data(); }
  /// Waits for what was enqueued.
  void wait() const {
    if (on_device_ != nullptr) on_device_->synchronise(device_);
  }
  bool is_on_host() const { return on_device_ == nullptr; }
  /// What the kernel wrote; nothing for other operands.
  std::vector<std::vector<std::byte>> results(Compared compared) const {
    std::vector<std::vector<std::byte>> written(ranges_.size());
    for (std::size_t i = 0; i < ranges_.size(); ++i)
      if (kernel_.operands[i].written && given_[i] == nullptr)
        written[i] = bytes_at(first_of(i), bytes_of(i), device_, compared);
    return written;
  }
  /// Whether some of it is compared in parts.
  bool has_parts() const { return !is_on_host() && bytes_ > compared_blocks * compared_block; }

 private:
  std::size_t bytes_of(std::size_t i) const {
    return as_index((ranges_[i].second - ranges_[i].first) * size_of(kernel_.operands[i].dtype));
  }
  const std::byte* first_of(std::size_t i) const {
    return static_cast<std::byte*>(bases_[i]) + ranges_[i].first * size_of(kernel_.operands[i].dtype);
  }
  /// The operand's memory, with other numbers.
  std::byte* made_up(std::size_t i, Fill how) {
    const DType dtype = kernel_.operands[i].dtype;
    if (on_device_ != nullptr) {
      places_.resize(ranges_.size());
      if (!places_[i]) places_[i] = Storage::allocate(bytes_of(i) + 192, device_);
      fill(places_[i]->data(), bytes_of(i), device_, dtype, how);
      return static_cast<std::byte*>(places_[i]->data());
    }
    memory_.resize(ranges_.size());
    memory_[i].assign(bytes_of(i) + 192, std::byte{});
    // What is touched first has the alignment of an allocation, and room after it as there.
    const auto skew = reinterpret_cast<std::uintptr_t>(memory_[i].data()) % 64;
    std::byte* const address = memory_[i].data() + (skew == 0 ? 0 : 64 - skew);
    fill({address, bytes_of(i)}, dtype, how);
    return address;
  }
  void include(const BoundGeometry& geometry, std::size_t a) {
    const BoundGeometry::AccessNumbers& access = geometry.accesses[a];
    std::int64_t low = access.offset, high = access.offset;
    const auto stretch = [&](std::int64_t extent, std::int64_t stride) {
      (stride < 0 ? low : high) += (extent - 1) * stride;
    };
    for (int axis = 0; axis < kernel_.rank(); ++axis)
      stretch(geometry.extent[as_index(axis)], access.stride[as_index(axis)]);
    if (access.gather_extent > 0) stretch(access.gather_extent, access.gather_stride);
    auto& [first, end] = ranges_[kernel_.accesses[a].operand];
    first = first == end ? low : std::min(first, low);
    end = std::max(end, high + 1);
  }
  const Kernel& kernel_;
  std::vector<std::pair<std::int64_t, std::int64_t>> ranges_;  // elements from the operand's base
  std::size_t bytes_ = 0;
  Device device_;
  DeviceMemory* on_device_ = nullptr;
  std::vector<std::vector<std::byte>> memory_;
  std::vector<Ref<Storage>> places_;  // on the device
  std::vector<void*> bases_, given_;
};

}  // namespace tuner_detail
}  // namespace jit::jit_detail
SINTER_NAMESPACE_END
