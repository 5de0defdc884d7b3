// The GPUs of this process: one object each, with its context, streams, memory pool, staging memory and what is needed
// to say which kernel failed. Also the streams that threads work on. Knows no kernels.
#pragma once

#include <sinter/backend/cuda/device/launch.hpp>
#include <sinter/base/config.hpp>
#include <sinter/base/error.hpp>
#include <sinter/base/fork.hpp>
#include <sinter/tensor/device_memory.hpp>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

struct CUctx_st;
struct CUstream_st;
struct CUevent_st;

SINTER_NAMESPACE_BEGIN
namespace cuda {

/// A stream of a device. Objects live as long as the process; the streams of handles that are gone are used again.
struct StreamState {
  CUstream_st* handle = nullptr;
  int device = 0;
  std::uint64_t id = 0;  // never 0
  /// Streams whose work this one's was ordered after (bits of fault records): a synchronisation reports what went
  /// wrong there, too.
  mutable std::atomic<std::uint64_t> follows{0};
};

/// What error messages say of a launch; kept as long as the process.
struct LaunchLabel {
  std::string name;
  std::vector<Location> where;
  std::uint64_t tag = 0;     // never 0
  std::string text() const;  // "fused_mul_add (train.cpp:41, train.cpp:42)"
};
const LaunchLabel& label_of(const StepContext& step);

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

class Gpu {
 public:
  /// Throws DeviceError when there is no such device, naming `op`.
  static Gpu& get(Device device, std::string_view op, Location where = {});

  int index() const { return index_; }
  CUctx_st* context() const { return context_; }
  const Target& target() const { return target_; }
  const std::string& name() const { return name_; }
  std::size_t total_memory() const { return total_memory_; }
  Pool& pool() { return pool_; }
  Staging& staging() { return staging_; }

  /// Makes its context the calling thread's.
  void enter() const;
  /// The calling thread's stream on this device.
  const StreamState& stream() const;
  void set_stream(const StreamState* stream) const;  // null: the default stream
  const StreamState& default_stream() const { return *default_stream_; }
  const StreamState& stream_of(std::uint64_t id) const;
  const StreamState& acquire_stream();
  /// Notes that work on `later` is ordered after what is on `earlier`.
  static void note_order(const StreamState& earlier, const StreamState& later) noexcept {
    if (earlier.device == later.device)
      later.follows.fetch_or(
          std::uint64_t{1} << fault_number(earlier) | earlier.follows.load(std::memory_order_relaxed),
          std::memory_order_relaxed);
  }
  void release_stream(const StreamState& stream) noexcept;

  /// Remembers a launch for messages.
  void note_launch(const LaunchLabel& label) const noexcept {
    recent_[recent_count_.fetch_add(1, std::memory_order_relaxed) % recent_.size()].store(&label,
                                                                                          std::memory_order_relaxed);
  }
  /// Device address of the stream's fault record (launch.hpp); from now on synchronisation reads it.
  void* fault_record(const StreamState& stream);
  /// Waits for everything on the device; reports nothing. Not while another thread records a graph, which that would
  /// break.
  void wait_for_all() const;
  ForkSafeMutex& recording() const { return recording_; }
  /// Waits for the stream; throws what went wrong on the device, naming kernels.
  void synchronise(const StreamState& stream);
  /// Throws unless `result` is success: DeviceError with what ran last.
  void check(int result, std::string_view what) const;
  std::string recent_launches() const;

 private:
  explicit Gpu(int index);
  void check_fault(const StreamState& stream);
  /// Streams past so many share records.
  static constexpr std::size_t fault_records = 64, fault_words = 4;
  static std::size_t fault_number(const StreamState& stream) { return (stream.id - 1) % fault_records; }

  int index_;
  CUctx_st* context_ = nullptr;
  Target target_;
  std::string name_;
  std::size_t total_memory_ = 0;
  Pool pool_;
  Staging staging_;
  const StreamState* default_stream_ = nullptr;
  mutable ForkSafeMutex mutex_, recording_;
  std::vector<std::unique_ptr<StreamState>> streams_;
  std::vector<const StreamState*> idle_streams_;
  std::atomic<std::uint64_t*> fault_{nullptr};
  mutable std::array<std::atomic<const LaunchLabel*>, 8> recent_{};
  mutable std::atomic<std::size_t> recent_count_{0};
};

/// The memory of all GPUs, as the lower layers see it.
DeviceMemory& memory();

}  // namespace cuda
SINTER_NAMESPACE_END
