// Launches whose times are not known yet, oldest first.
#pragma once

#include <sinter/runtime/device_track.hpp>

#include <sinter/base/fork.hpp>
#include <sinter/base/timeline.hpp>
#include <sinter/base/timeline_track.hpp>

#include <cstddef>
#include <deque>
#include <mutex>
#include <utility>

SINTER_NAMESPACE_BEGIN
namespace runtime_detail {

struct NotedLaunch {
  DeviceMemory* memory = nullptr;
  Device device{};
  void *begin = nullptr, *end = nullptr;
  std::string track, name;
  JsonFields fields{};
  std::int64_t began = -1;  // once it is known
};
struct NotedLaunches {
  ForkSafeMutex mutex;
  std::deque<NotedLaunch> list;
  static NotedLaunches& instance() { return process_object<NotedLaunches>(); }
};

/// Moves launches whose times are known into the timeline. Under the lock.
inline void write_noted(NotedLaunches& noted, Waits waits) {
  while (!noted.list.empty()) {
    NotedLaunch& first = noted.list.front();
    if (first.began == -1) first.began = first.memory->time_of_mark(first.device, first.begin, waits);
    if (first.began == -1) return;
    const std::int64_t end = first.memory->time_of_mark(first.device, first.end, waits);
    if (end == -1) return;
    if (first.began >= 0 && end >= 0)
      timeline::complete_on_track(first.track, "kernel", first.name, first.began, end, first.fields);
    noted.list.pop_front();
  }
}
inline void write_all_noted() {
  NotedLaunches& noted = NotedLaunches::instance();
  std::scoped_lock lock(noted.mutex);
  write_noted(noted, Waits::yes);
}

SINTER_DECL TrackedLaunch::TrackedLaunch(DeviceMemory& memory, Device device) : memory_(&memory), device_(device) {
  const bool is_recorded = (base_detail::watchers.load(std::memory_order_relaxed) & base_detail::timeline_watches) != 0;
  if (is_recorded) begin_ = memory.mark_queue(device);
}

SINTER_DECL void TrackedLaunch::finish(std::string_view name, JsonFields fields) {
  if (begin_ == nullptr) return;
  NotedLaunch launch{memory_, device_, std::exchange(begin_, nullptr), memory_->mark_queue(device_), {}, {}, {}, -1};
  launch.track = device_.text() + " stream " + std::to_string(memory_->current_queue(device_));
  launch.name = name;
  launch.fields = std::move(fields);
  static const bool is_registered = [] {
    base_detail::add_late_events = &write_all_noted;
    in_forked_child([] { NotedLaunches::instance().list.clear(); });  // the device is the parent's
    return true;
  }();
  static_cast<void>(is_registered);
  constexpr std::size_t most_waiting = 4096;  // beyond it events would take memory without end
  NotedLaunches& noted = NotedLaunches::instance();
  std::scoped_lock lock(noted.mutex);
  noted.list.push_back(std::move(launch));
  write_noted(noted, noted.list.size() > most_waiting ? Waits::yes : Waits::no);
}

}  // namespace runtime_detail
SINTER_NAMESPACE_END
