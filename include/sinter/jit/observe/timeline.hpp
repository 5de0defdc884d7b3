// The user's side of the timeline: begin, write and end one from the program, and mark stretches of the program in it.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/instruction_file.hpp>
#include <sinter/base/timeline.hpp>

#include <source_location>
#include <string>
#include <string_view>

SINTER_NAMESPACE_BEGIN
namespace jit {

/// Records a timeline into this file from here on, as SINTER_TRACE=path does for the whole run. Perfetto
/// (ui.perfetto.dev) and chrome://tracing show it; tools/trace_diff compares two. Throws UserError where the file
/// cannot be written, or a timeline is being recorded already.
inline void start_trace(const std::string& path, Location where = std::source_location::current()) {
  start_timeline(path, "start_trace", where);
}
/// Writes what is recorded so far: the file is complete, and the recording goes on. It is also written at exit. Throws
/// UserError where no timeline is recorded.
inline void write_trace(Location where = std::source_location::current()) {
  if ((base_detail::watchers.load(std::memory_order_relaxed) & base_detail::timeline_watches) == 0)
    throw UserError("write_trace", "no timeline is being recorded", where,
                    "set SINTER_TRACE=file.json, or call jit::start_trace(path) first");
  write_timeline();
}
/// Writes the rest and ends the recording; nothing happens where there is none.
inline void stop_trace() {
  if (has_timeline()) stop_timeline();
}

/// Writes a line for every operation that runs from here on, eager, lazy and compiled, into this file, as
/// SINTER_INSTRUCTION_LOG=path does for the whole run: docs/observing.md. tools/replay runs it again. Throws UserError
/// where the file cannot be written, or another log is being written.
void instruction_log(const std::string& path, Location where = std::source_location::current());
/// Ends the log; nothing happens where there is none.
inline void stop_instruction_log() { sinter::stop_instruction_log(); }

/// A stretch of the program, in the timeline and as a range of NVTX (SINTER_NVTX), from annotate() to the end of its
/// scope.
class [[nodiscard]] Annotation {
 public:
  explicit Annotation(std::string_view name, Location where = std::source_location::current()) : span_("user", name) {
    if (SINTER_UNLIKELY(span_.is_on())) span_.add_line(where);
  }

 private:
  TimelineSpan span_;
};

/// Marks this scope: `auto mark = jit::annotate("step");`. Costs a load where no timeline is recorded.
[[nodiscard]] inline Annotation annotate(std::string_view name, Location where = std::source_location::current()) {
  return Annotation(name, where);
}

}  // namespace jit
SINTER_NAMESPACE_END
