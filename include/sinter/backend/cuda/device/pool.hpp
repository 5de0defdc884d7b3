// The caching allocator of a GPU, and its staging memory: page-locked, for copies from and to the host. Knows streams
// and the driver, no devices.
#pragma once

#include <sinter/backend/cuda/device/stream.hpp>
#include <sinter/base/config.hpp>
#include <sinter/base/fork.hpp>
#include <sinter/tensor/device_memory.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

struct CUstream_st;
struct CUevent_st;

SINTER_NAMESPACE_BEGIN
namespace cuda {

/// A piece of the pool.
struct PoolBlock {
  void* data = nullptr;
  std::size_t bytes = 0;
  std::uint32_t size_class = 0;
  const StreamState* home = nullptr;  // work on this stream may use it again at once
  CUevent_st* last_use = nullptr;     // freed while another stream was current: reuse waits for this
};

/// Caching allocator of one device. Free blocks wait by stream and size class.
class Pool {
 public:
  explicit Pool(int device) : device_(device) {}
  PoolBlock* allocate(std::size_t bytes, const StreamState& stream);
  void free(PoolBlock* block, const StreamState& current) noexcept;
  /// Gives free blocks back to the driver.
  void trim();
  MemoryStats stats() const;
  void set_limit(std::int64_t bytes);
  void reset_peak();

 private:
  using FreeList = std::unordered_map<std::uint64_t, std::vector<PoolBlock*>>;  // key: stream id and size class
  static std::uint64_t key(const StreamState& stream, std::uint32_t size_class) { return stream.id << 16 | size_class; }
  PoolBlock* take_cached(std::uint32_t size_class, const StreamState& stream);
  PoolBlock* take_from_driver(std::uint32_t size_class, const StreamState& stream);
  void trim_locked();

  int device_;
  mutable ForkSafeMutex mutex_;
  FreeList free_;
  MemoryStats stats_;
};

/// Page-locked memory through which pageable host memory is copied, in pieces that overlap.
class Staging {
 public:
  void to_device(void* to, const void* from, std::size_t bytes, CUstream_st* stream);
  /// Returns when the data have arrived.
  void to_host(void* to, const void* from, std::size_t bytes, CUstream_st* stream);

 private:
  static constexpr std::size_t piece_bytes = std::size_t{4} << 20;
  static constexpr std::size_t pieces = 4;
  struct Piece {
    void* data = nullptr;
    CUevent_st* done = nullptr;
    bool is_pending = false;
  };
  Piece& next();
  ForkSafeMutex mutex_;
  std::array<Piece, pieces> ring_;
  std::size_t at_ = 0;
};

}  // namespace cuda
SINTER_NAMESPACE_END
