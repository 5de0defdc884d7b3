// What runs on the queues of devices other than the host, for the timeline: a launch is noted with a point of its queue
// before and behind it, and becomes a span on the queue's own track once the device tells the times. Knows no plans.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/json_text.hpp>
#include <sinter/tensor/device_memory.hpp>

#include <string>
#include <string_view>
#include <utility>

SINTER_NAMESPACE_BEGIN
namespace runtime_detail {

/// One launch, or several as one: from here to finish().
class TrackedLaunch {
 public:
  TrackedLaunch() = default;
  enum class Queue : bool { current, beside };
  TrackedLaunch(DeviceMemory& memory, Device device, Queue queue = Queue::current);
  TrackedLaunch(TrackedLaunch&& other) noexcept
      : memory_(other.memory_),
        device_(other.device_),
        begin_(std::exchange(other.begin_, nullptr)),
        queue_(other.queue_) {}
  TrackedLaunch& operator=(TrackedLaunch other) noexcept {
    std::swap(memory_, other.memory_);
    std::swap(device_, other.device_);
    std::swap(begin_, other.begin_);
    std::swap(queue_, other.queue_);
    return *this;
  }
  /// One without an end, as the launch threw, has no span; the device gets its mark back.
  ~TrackedLaunch() {
    if (SINTER_UNLIKELY(begin_ != nullptr)) drop();
  }
  /// Notes the end. Costs two events of the device where a timeline is recorded.
  void finish(std::string_view name, JsonFields fields);

 private:
  void drop() noexcept;
  DeviceMemory* memory_ = nullptr;
  Device device_{};
  void* mark() const { return queue_ == Queue::beside ? memory_->mark_fork(device_) : memory_->mark_queue(device_); }
  void* begin_ = nullptr;
  Queue queue_ = Queue::current;
};

}  // namespace runtime_detail
SINTER_NAMESPACE_END
