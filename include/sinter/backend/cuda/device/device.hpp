// The GPUs of this process: one object each, with its context, streams, memory pool, staging memory and what is needed
// to say which kernel failed. Also the streams that threads work on. Knows no kernels.
#pragma once

#include <sinter/backend/cuda/device/launch.hpp>
#include <sinter/backend/cuda/device/pool.hpp>
#include <sinter/backend/cuda/device/stream.hpp>
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
#include <vector>

struct CUctx_st;

SINTER_NAMESPACE_BEGIN
namespace cuda {

/// What error messages say of a launch; kept as long as the process.
struct LaunchLabel {
  std::string name;
  std::vector<Location> where;
  std::uint64_t tag = 0;     // never 0
  std::string text() const;  // "fused_mul_add (train.cpp:41, train.cpp:42)"
};
const LaunchLabel& label_of(const StepContext& step);

class Gpu {
 public:
  /// Throws DeviceError when there is no such device, naming `op`.
  static Gpu& get(Device device, std::string_view op, Location where = {});
  /// The device that the stream is one of; null: none that is in use.
  static Gpu* owner_of(CUstream_st* stream);

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
  /// Its stream for what runs beside the kernels; made at first use, and more urgent than they are.
  const StreamState& stream_beside();
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
  /// Under the lock.
  const StreamState& make_stream(int priority);
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
  std::atomic<const StreamState*> stream_beside_{nullptr};
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
