// Size classes, lists of free blocks, and copies in pieces.
#pragma once

#include <sinter/backend/cuda/device/pool.hpp>

#include <sinter/backend/cuda/device/api.ipp>
#include <sinter/backend/cuda/device/device.hpp>
#include <sinter/backend/cuda/device/driver.hpp>

#include <algorithm>
#include <bit>
#include <cstring>

SINTER_NAMESPACE_BEGIN
namespace cuda {

namespace cuda_detail {
inline constexpr std::size_t smallest_block = 512;

/// Smallest class that holds `bytes`: four classes per power of two.
constexpr std::uint32_t pool_class(std::size_t bytes) {
  if (bytes <= smallest_block) return 0;
  const std::size_t units = bytes - 1;
  const auto exponent = static_cast<std::uint32_t>(std::bit_width(units) - 1);
  return (exponent - 9) * 4 + static_cast<std::uint32_t>((units >> (exponent - 2)) & 3) + 1;
}
constexpr std::size_t pool_class_bytes(std::uint32_t size_class) {
  if (size_class == 0) return smallest_block;
  const std::uint32_t exponent = (size_class - 1) / 4 + 9, quarter = (size_class - 1) % 4;
  const std::size_t bytes = (std::size_t{1} << exponent) + (std::size_t{quarter + 1} << (exponent - 2));
  return (bytes + smallest_block - 1) / smallest_block * smallest_block;
}
static_assert(pool_class_bytes(pool_class(513)) >= 513 && pool_class_bytes(pool_class(100000)) >= 100000 &&
              pool_class_bytes(pool_class(1 << 20)) == 1 << 20);
}  // namespace cuda_detail

SINTER_DECL PoolBlock* Pool::take_cached(std::uint32_t size_class, const StreamState& stream) {
  auto found = free_.find(key(stream, size_class));
  if (found == free_.end() || found->second.empty()) return nullptr;
  PoolBlock* block = found->second.back();
  found->second.pop_back();
  stats_.cached -= static_cast<std::int64_t>(block->bytes);
  if (block->last_use != nullptr) {
    driver_api("cuda").call_cuStreamWaitEvent(stream.handle, block->last_use, 0);
    driver_api("cuda").call_cuEventDestroy(block->last_use);
    block->last_use = nullptr;
  }
  return block;
}

SINTER_DECL PoolBlock* Pool::take_from_driver(std::uint32_t size_class, const StreamState& stream) {
  const std::size_t bytes = cuda_detail::pool_class_bytes(size_class);
  const std::string name = "cuda:" + std::to_string(device_);
  auto exceeds_limit = [&] {
    return stats_.limit > 0 && stats_.in_use + stats_.cached + static_cast<std::int64_t>(bytes) > stats_.limit;
  };
  if (exceeds_limit()) trim_locked();
  if (exceeds_limit())
    throw OutOfMemory(name, bytes,
                      "the limit of " + std::to_string(stats_.limit) + " bytes is reached (" +
                          std::to_string(stats_.in_use) + " in use); free tensors or raise set_memory_limit");
  const DriverApi& api = driver_api("cuda");
  CUdeviceptr address = 0;
  CUresult result = api.call_cuMemAlloc(&address, bytes);
  if (result == CUDA_ERROR_OUT_OF_MEMORY) {
    trim_locked();
    result = api.call_cuMemAlloc(&address, bytes);
  }
  if (result == CUDA_ERROR_OUT_OF_MEMORY) {
    std::size_t left = 0, total = 0;
    api.call_cuMemGetInfo(&left, &total);
    throw OutOfMemory(name, bytes,
                      "the device has " + std::to_string(left) + " of " + std::to_string(total) +
                          " bytes left; this process uses " + std::to_string(stats_.in_use));
  }
  if (result != CUDA_SUCCESS) Gpu::get(Device::cuda(device_), "allocate").check(result, "allocating memory");
  ++stats_.system_calls;
  return new PoolBlock{reinterpret_cast<void*>(address), bytes, size_class, &stream, nullptr};
}

SINTER_DECL PoolBlock* Pool::allocate(std::size_t bytes, const StreamState& stream) {
  if (bytes > (std::size_t{1} << 44))
    throw OutOfMemory("cuda:" + std::to_string(device_), bytes, "the size is beyond what any device has");
  const std::uint32_t size_class = cuda_detail::pool_class(bytes);
  std::scoped_lock lock(mutex_);
  PoolBlock* block = take_cached(size_class, stream);
  if (block == nullptr) block = take_from_driver(size_class, stream);
  ++stats_.allocations;
  stats_.in_use += static_cast<std::int64_t>(block->bytes);
  stats_.peak = std::max(stats_.peak, stats_.in_use);
  return block;
}

SINTER_DECL void Pool::free(PoolBlock* block, const StreamState& current) noexcept {
  std::scoped_lock lock(mutex_);
  stats_.in_use -= static_cast<std::int64_t>(block->bytes);
  stats_.cached += static_cast<std::int64_t>(block->bytes);
  if (SINTER_UNLIKELY(block->home != &current)) {  // perhaps used there
    const DriverApi& api = driver_api("cuda");
    if (api.call_cuEventCreate(&block->last_use, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS)
      api.call_cuEventRecord(block->last_use, current.handle);
  }
  free_[key(*block->home, block->size_class)].push_back(block);
}

/// cuMemFree waits for the device, so nothing reads a block any more.
SINTER_DECL void Pool::trim_locked() {
  const DriverApi& api = driver_api("cuda");
  for (auto& [key, blocks] : free_) {
    for (PoolBlock* block : blocks) {
      if (block->last_use != nullptr) {
        api.call_cuEventSynchronize(block->last_use);
        api.call_cuEventDestroy(block->last_use);
      }
      api.call_cuMemFree(reinterpret_cast<CUdeviceptr>(block->data));
      stats_.cached -= static_cast<std::int64_t>(block->bytes);
      delete block;
    }
    blocks.clear();
  }
}
SINTER_DECL void Pool::trim() {
  std::scoped_lock lock(mutex_);
  trim_locked();
}
SINTER_DECL MemoryStats Pool::stats() const {
  std::scoped_lock lock(mutex_);
  return stats_;
}
SINTER_DECL void Pool::set_limit(std::int64_t bytes) {
  std::scoped_lock lock(mutex_);
  stats_.limit = bytes;
}
SINTER_DECL void Pool::reset_peak() {
  std::scoped_lock lock(mutex_);
  stats_.peak = stats_.in_use;
}

SINTER_DECL Staging::Piece& Staging::next() {
  const DriverApi& api = driver_api("cuda");
  Piece& piece = ring_[at_++ % pieces];
  if (piece.data == nullptr) {
    cuda_detail::require(api.call_cuMemHostAlloc(&piece.data, piece_bytes, CU_MEMHOSTALLOC_PORTABLE), "copy",
                         "allocating page-locked memory");
    cuda_detail::require(api.call_cuEventCreate(&piece.done, CU_EVENT_DISABLE_TIMING), "copy", "making an event");
  }
  if (piece.is_pending)
    cuda_detail::require(api.call_cuEventSynchronize(piece.done), "copy", "waiting for an earlier copy");
  piece.is_pending = false;
  return piece;
}

SINTER_DECL void Staging::to_device(void* to, const void* from, std::size_t bytes, CUstream_st* stream) {
  const DriverApi& api = driver_api("cuda");
  std::scoped_lock lock(mutex_);
  for (std::size_t done = 0; done < bytes; done += piece_bytes) {
    const std::size_t size = std::min(piece_bytes, bytes - done);
    Piece& piece = next();
    std::memcpy(piece.data, static_cast<const char*>(from) + done, size);
    cuda_detail::require(api.call_cuMemcpyHtoDAsync(reinterpret_cast<CUdeviceptr>(to) + done, piece.data, size, stream),
                         "copy", "copying to the device");
    cuda_detail::require(api.call_cuEventRecord(piece.done, stream), "copy", "recording an event");
    piece.is_pending = true;
  }
}

SINTER_DECL void Staging::to_host(void* to, const void* from, std::size_t bytes, CUstream_st* stream) {
  const DriverApi& api = driver_api("cuda");
  std::scoped_lock lock(mutex_);
  struct Arrival {
    Piece* piece;
    std::size_t at, size;
  };
  std::array<Arrival, pieces> coming{};
  std::size_t first = 0, last = 0;  // of coming, as a ring
  auto arrive = [&] {
    const Arrival& arrival = coming[first++ % pieces];
    cuda_detail::require(api.call_cuEventSynchronize(arrival.piece->done), "copy", "waiting for data from the device");
    arrival.piece->is_pending = false;
    std::memcpy(static_cast<char*>(to) + arrival.at, arrival.piece->data, arrival.size);
  };
  for (std::size_t done = 0; done < bytes; done += piece_bytes) {
    if (last - first == pieces) arrive();
    Piece& piece = next();
    const std::size_t size = std::min(piece_bytes, bytes - done);
    cuda_detail::require(
        api.call_cuMemcpyDtoHAsync(piece.data, reinterpret_cast<CUdeviceptr>(from) + done, size, stream), "copy",
        "copying from the device");
    cuda_detail::require(api.call_cuEventRecord(piece.done, stream), "copy", "recording an event");
    piece.is_pending = true;
    coming[last++ % pieces] = {&piece, done, size};
  }
  while (first < last) arrive();
}

}  // namespace cuda
SINTER_NAMESPACE_END
