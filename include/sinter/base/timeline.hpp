// The timeline: what the library does and when, written as a file of trace events that Perfetto and chrome://tracing
// show (SINTER_TRACE, jit::start_trace). Each thread has a buffer of bounded size; a full one goes to the file. While
// nothing is recorded, whoever could record reads one flag. Knows text and time; nothing of tensors and kernels.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/error.hpp>

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

SINTER_NAMESPACE_BEGIN

class JsonFields;  // json_text.hpp

namespace base_detail {
/// Who watches what runs: `timeline_watches` while a timeline is recorded, `ranges_watch` while NVTX is told of spans,
/// and as many `one_watcher` as threads listen to their own steps (runtime/watch.hpp).
inline constexpr std::uint32_t timeline_watches = 1, ranges_watch = 2, one_watcher = 4;
inline constinit std::atomic<std::uint32_t> watchers{0};
}  // namespace base_detail

/// Does anybody watch? For code that runs often: everything else is asked behind this.
inline bool is_watched() noexcept {
#ifdef SINTER_NO_TIMELINE
  return false;
#else
  return base_detail::watchers.load(std::memory_order_relaxed) != 0;
#endif
}
/// Is a timeline recorded, or NVTX told of spans?
inline bool has_timeline() noexcept {
#ifdef SINTER_NO_TIMELINE
  return false;
#else
  return (base_detail::watchers.load(std::memory_order_relaxed) &
          (base_detail::timeline_watches | base_detail::ranges_watch)) != 0;
#endif
}

/// Begins to record into a new file. Throws UserError where it cannot be written (`origin` is what named it:
/// "SINTER_TRACE", "start_trace"), or where another one is being recorded.
void start_timeline(const std::string& path, std::string_view origin, Location where = {});
/// Writes what is recorded so far; the file is complete then, and recording goes on.
void write_timeline();
/// Writes the rest and records no more.
void stop_timeline();

/// Tells NVTX of every span from here on, for Nsight Systems: the library is `libnvToolsExt.so.1`, or the file that is
/// named. Throws UserError where it cannot be opened.
void start_ranges(const std::string& library);
namespace timeline {
/// For spans that are not a TimelineSpan.
void begin_range(std::string_view name);
void end_range() noexcept;
}  // namespace timeline

/// Nanoseconds on a steady clock, the same for all recordings: an event's time is counted from the beginning of its
/// recording when it is written.
std::int64_t timeline_now() noexcept;

namespace timeline {
/// Events of this thread; without a timeline they are dropped. `fields` are shown as the event's arguments.
void complete(std::string_view category, std::string_view name, std::int64_t begin, std::int64_t end,
              const JsonFields& fields);
void instant(std::string_view category, std::string_view name, const JsonFields& fields);
/// A value over time, as a curve of the process.
void counter(std::string_view name, std::string_view series, std::int64_t value);
/// What this thread's parallel loops are named after while a kernel runs, and the span of the kernel.
struct Task {
  std::string_view name;
  long thread = -1;  // by the system's number; -1: none
  std::int64_t begin = 0;
};
/// An arrow from the task's span to the span of this thread that begins at `at`.
void arrow(const Task& from, std::int64_t at);
long thread_number() noexcept;
inline Task& current_task() noexcept {
  static thread_local constinit Task task;
  return task;
}
}  // namespace timeline

/// A span of the timeline from here to the end of the scope, an exception included. Costs a load where nothing is
/// recorded.
class [[nodiscard]] TimelineSpan {
 public:
  TimelineSpan(std::string_view category, std::string_view name) {
    if (SINTER_UNLIKELY(has_timeline())) begin(category, name);
  }
  TimelineSpan(const TimelineSpan&) = delete;
  TimelineSpan& operator=(const TimelineSpan&) = delete;
  ~TimelineSpan() {
    if (SINTER_UNLIKELY(open_ != nullptr)) end();
  }
  /// Whether the span is recorded; only then it has fields().
  bool is_on() const noexcept { return open_ != nullptr; }
  JsonFields& fields() noexcept;
  /// Adds the line of the user.
  void add_line(Location where);

 private:
  struct Open;
  void begin(std::string_view category, std::string_view name);
  void end() noexcept;
  Open* open_ = nullptr;
};

SINTER_NAMESPACE_END
