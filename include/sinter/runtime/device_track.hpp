// What runs on the queues of devices other than the host, for the timeline: a launch is noted with a point of its queue
// before and behind it, and becomes a span on the queue's own track once the device tells the times. Knows no plans.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/json_text.hpp>
#include <sinter/tensor/device_memory.hpp>

#include <string>
#include <string_view>

SINTER_NAMESPACE_BEGIN
namespace runtime_detail {

/// One launch, or several as one: from here to finish().
class TrackedLaunch {
 public:
  TrackedLaunch() = default;
  TrackedLaunch(DeviceMemory& memory, Device device);
  /// Notes the end. Costs two events of the device where a timeline is recorded.
  void finish(std::string_view name, JsonFields fields);

 private:
  DeviceMemory* memory_ = nullptr;
  Device device_{};
  void* begin_ = nullptr;
};

}  // namespace runtime_detail
SINTER_NAMESPACE_END
