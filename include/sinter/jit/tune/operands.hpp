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

inline void fill(std::span<std::byte> memory, DType dtype, Fill how) {
  const std::size_t period = 65521 * as_index(size_of(dtype));  // a prime: lines of no operand are all alike
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
    memory_.resize(ranges_.size());
    bases_.assign(ranges_.size(), nullptr);
    for (std::size_t i = 0; i < ranges_.size(); ++i) {
      bases_[i] = given_[i];
      if (given_[i] != nullptr) continue;
      const std::int64_t size = size_of(kernel_.operands[i].dtype);
      const std::size_t count = as_index((ranges_[i].second - ranges_[i].first) * size);
      memory_[i].assign(count + 192, std::byte{});
      // What is touched first has the alignment of an allocation, and room after it as there.
      const auto skew = reinterpret_cast<std::uintptr_t>(memory_[i].data()) % 64;
      std::byte* const address = memory_[i].data() + (skew == 0 ? 0 : 64 - skew);
      fill({address, count}, kernel_.operands[i].dtype, how);
      bases_[i] = address - ranges_[i].first * size;
    }
    if (on_device_ == nullptr) return;
    places_.clear();
    host_ = bases_;
    for (std::size_t i = 0; i < ranges_.size(); ++i) {
      places_.push_back(given_[i] == nullptr ? Storage::allocate(bytes_of(i) + 192, device_) : Ref<Storage>());
      if (given_[i] != nullptr) continue;
      on_device_->copy(places_[i]->data(), device_, first_of(i), Device::cpu(), bytes_of(i));
      bases_[i] = static_cast<std::byte*>(places_[i]->data()) - ranges_[i].first * size_of(kernel_.operands[i].dtype);
    }
    memory_.clear();  // a copy to a device returns when the source has been read
    host_.clear();
  }
  void* const* bases() const { return bases_.data(); }
  /// Waits for what was enqueued.
  void wait() const {
    if (on_device_ != nullptr) on_device_->synchronise(device_);
  }
  bool is_on_host() const { return on_device_ == nullptr; }
  bool has_same_results(const Operands& other) const {
    if (on_device_ != nullptr) {
      for (std::size_t i = 0; i < ranges_.size(); ++i) {
        if (given_[i] != nullptr) continue;
        std::vector<std::byte> own(bytes_of(i)), others(bytes_of(i));
        on_device_->copy(own.data(), Device::cpu(), places_[i]->data(), device_, own.size());
        on_device_->copy(others.data(), Device::cpu(), other.places_[i]->data(), device_, others.size());
        if (own != others) return false;
      }
      return true;
    }
    for (std::size_t i = 0; i < ranges_.size(); ++i) {
      if (given_[i] != nullptr) continue;
      const std::int64_t size = size_of(kernel_.operands[i].dtype);
      const std::int64_t first = ranges_[i].first * size, count = ranges_[i].second * size - first;
      if (count > 0 && std::memcmp(static_cast<std::byte*>(bases_[i]) + first,
                                   static_cast<std::byte*>(other.bases_[i]) + first, as_index(count)) != 0)
        return false;
    }
    return true;
  }

 private:
  std::size_t bytes_of(std::size_t i) const {
    return as_index((ranges_[i].second - ranges_[i].first) * size_of(kernel_.operands[i].dtype));
  }
  const std::byte* first_of(std::size_t i) const {
    return static_cast<std::byte*>(host_[i]) + ranges_[i].first * size_of(kernel_.operands[i].dtype);
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
  std::vector<void*> bases_, host_, given_;
};

}  // namespace tuner_detail
}  // namespace jit::jit_detail
SINTER_NAMESPACE_END
