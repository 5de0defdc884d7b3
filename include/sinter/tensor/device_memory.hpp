// Memory of devices other than the host, as the lower layers see it: allocate, free, copy, synchronise, count. Each
// kind of device has one implementation, made by its back end and named in the one table of back ends
// (jit/backends.ipp). Work on a device is asynchronous and ordered by queues; a thread has a current queue per device.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/error.hpp>
#include <sinter/tensor/device.hpp>
#include <sinter/tensor/storage.hpp>

#include <cstddef>
#include <cstdint>
#include <string_view>

SINTER_NAMESPACE_BEGIN

/// A block of device memory; `block` is the allocator's own handle on it.
struct DeviceBlock {
  void* data = nullptr;
  void* block = nullptr;
};

enum class Waits : bool { no, yes };

class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;

  /// Throws DeviceError, naming `op`, unless the device is there and can be used.
  virtual void check(Device device, std::string_view op, Location where) = 0;

  /// Memory for work on the current queue. Throws OutOfMemory; everything stays usable then.
  virtual DeviceBlock allocate(std::size_t bytes, Device device) = 0;
  /// The memory may be reused by work that is enqueued later on the queue it was allocated for.
  virtual void free(DeviceBlock block, Device device) noexcept = 0;

  /// Copies on the current queue of the device that is not the host (of `to`'s, if neither is). Host memory has been
  /// read, or written, when it returns; a copy between devices is only enqueued.
  virtual void copy(void* to, Device to_device, const void* from, Device from_device, std::size_t bytes) = 0;

  /// Waits for all work on the current queue. Throws what went wrong in it.
  virtual void synchronise(Device device) = 0;
  /// Waits for everything on the device; reports nothing.
  virtual void drain(Device device) noexcept = 0;

  /// A name for the calling thread's current queue.
  virtual std::uint64_t current_queue(Device device) = 0;
  /// The same as the device's own libraries take it (a CUstream).
  virtual void* native_queue(Device device) = 0;
  /// Work enqueued from now on runs after everything that is on `queue` now.
  virtual void run_after(Device device, std::uint64_t queue) = 0;

  /// For the timeline: a point of the current queue, behind what is enqueued now. Null: the device tells no times.
  virtual void* mark_queue(Device) noexcept { return nullptr; }
  /// When the queue came to the point, as timeline_now() counts; -1: it has not come there yet, and is not waited for;
  /// -2: that is not known. But for -1 the mark is gone then.
  virtual std::int64_t time_of_mark(Device, void* /*mark*/, Waits /*waits*/) noexcept { return -2; }

  virtual MemoryStats stats(Device device) = 0;
  virtual void set_limit(Device device, std::int64_t bytes) = 0;
  virtual void reset_peak(Device device) = 0;
  virtual void release_cached(Device device) = 0;

  /// A second queue, for what runs beside the kernels of the current one, as native_queue() gives it: work that is
  /// enqueued there from now on runs after everything that is on the current queue now. Null: the device has none.
  virtual void* fork_queue(Device) { return nullptr; }
  /// Notes how far the second queue is filled. `point`: null, or what an earlier call gave, which is used again.
  virtual void* note_fork(Device, void* /*point*/) { return nullptr; }
  /// Work enqueued on the current queue from now on runs after the point.
  virtual void join_fork(Device, void* /*point*/) {}
  virtual void drop_fork(Device, void* /*point*/) noexcept {}
  /// mark_queue() of the second queue.
  virtual void* mark_fork(Device) noexcept { return nullptr; }
};

/// The implementation for devices of this kind, or null if this build has none. Defined by the jit layer.
DeviceMemory* find_device_memory(DeviceKind kind);
/// The implementation for a device that can be used; throws DeviceError otherwise.
DeviceMemory& device_memory(Device device, std::string_view op, Location where = {});

SINTER_NAMESPACE_END
