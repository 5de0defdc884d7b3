// Events of the timeline on tracks of their own: what runs on the queues of a device, at times that the device tells
// later. Knows text and time.
#pragma once

#include <sinter/base/config.hpp>

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

SINTER_NAMESPACE_BEGIN

class JsonFields;  // json_text.hpp

namespace base_detail {
/// Asked before the timeline is written or ends: adds what has run by then. Null: nobody has such events.
inline constinit std::atomic<void (*)()> add_late_events{nullptr};
}  // namespace base_detail

namespace timeline {
/// A span on the track of this name, "cuda:0 stream 1".
void complete_on_track(const std::string& track, std::string_view category, std::string_view name, std::int64_t begin,
                       std::int64_t end, const JsonFields& fields);
}  // namespace timeline

SINTER_NAMESPACE_END
