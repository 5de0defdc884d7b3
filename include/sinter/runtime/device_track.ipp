// Launches whose times are not known yet, oldest first.
#pragma once

#include <sinter/runtime/device_track.hpp>

#include <sinter/base/fork.hpp>
#include <sinter/base/timeline.hpp>
#include <sinter/base/timeline_track.hpp>

#include <cstddef>
#include <deque>
#include <map>
#include <mutex>
#include <string>
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
using NotedQueue = std::deque<NotedLaunch>;
struct NotedLaunches {
  ForkSafeMutex mutex;
  std::map<std::string, NotedQueue> by_track;
  static NotedLaunches& instance() { return process_object<NotedLaunches>(); }
};

/// Moves the oldest launch into the timeline. Not done: its times are not known yet. Under the lock.
inline bool write_oldest(NotedQueue& queue, Waits waits) {
  NotedLaunch& first = queue.front();
  if (first.began == -1) first.began = first.memory->time_of_mark(first.device, first.begin, waits);
  if (first.began == -1) return false;
  const std::int64_t end = first.end == nullptr ? -2 : first.memory->time_of_mark(first.device, first.end, waits);
  if (end == -1) return false;
  const NotedLaunch known = std::move(first);
  queue.pop_front();  // its marks are gone
  if (known.began >= 0 && end >= 0)
    timeline::complete_on_track(known.track, "kernel", known.name, known.began, end, known.fields);
  return true;
}
inline void write_all_noted() {
  NotedLaunches& noted = NotedLaunches::instance();
  std::scoped_lock lock(noted.mutex);
  for (auto& each : noted.by_track)
    while (!each.second.empty() && write_oldest(each.second, Waits::yes)) {}
}
inline void note_launch(NotedLaunch launch) {
  static const bool is_registered = [] {
    base_detail::add_late_events = &write_all_noted;
    in_forked_child([] { NotedLaunches::instance().by_track.clear(); });  // the device is the parent's
    return true;
  }();
  static_cast<void>(is_registered);
  constexpr std::size_t most_waiting = 4096;  // of a queue; beyond it events would take memory without end
  NotedLaunches& noted = NotedLaunches::instance();
  std::scoped_lock lock(noted.mutex);
  NotedQueue& queue = noted.by_track[launch.track];
  queue.push_back(std::move(launch));
  while (!queue.empty() && write_oldest(queue, queue.size() > most_waiting ? Waits::yes : Waits::no)) {}
}

SINTER_DECL TrackedLaunch::TrackedLaunch(DeviceMemory& memory, Device device, Queue queue)
    : memory_(&memory), device_(device), queue_(queue) {
  const bool is_recorded = (base_detail::watchers.load(std::memory_order_relaxed) & base_detail::timeline_watches) != 0;
  if (is_recorded) begin_ = mark();
}

SINTER_DECL void TrackedLaunch::finish(std::string_view name, JsonFields fields) {
  if (begin_ == nullptr) return;
  NotedLaunch launch{memory_, device_, std::exchange(begin_, nullptr), mark(), {}, {}, {}, -1};
  launch.track =
      device_.text() +
      (queue_ == Queue::beside ? " communication" : " stream " + std::to_string(memory_->current_queue(device_)));
  launch.name = name;
  launch.fields = std::move(fields);
  note_launch(std::move(launch));
}

SINTER_DECL void TrackedLaunch::drop() noexcept {
  try {
    NotedLaunch launch{memory_, device_, std::exchange(begin_, nullptr), nullptr, {}, {}, {}, -1};
    launch.track = device_.text() + " without an end";
    note_launch(std::move(launch));
  } catch (...) {
    // no memory: the device keeps the mark
  }
}

}  // namespace runtime_detail
SINTER_NAMESPACE_END
