// The file and the buffers of the timeline. After each write the file is a complete JSON array: the bracket that closes
// it is written over by what comes next.
#pragma once

#include <sinter/base/timeline.hpp>

#include <sinter/base/context.hpp>
#include <sinter/base/fork.hpp>
#include <sinter/base/instruction_file.hpp>
#include <sinter/base/json_text.hpp>
#include <sinter/base/per_thread.hpp>
#include <sinter/base/timeline_track.hpp>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/types.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/syscall.h>
#endif

SINTER_NAMESPACE_BEGIN

namespace base_detail {
inline std::int64_t steady_nanoseconds() noexcept {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}
inline long timeline_thread() noexcept {
#ifdef __linux__
  return ::syscall(SYS_gettid);
#else
  return static_cast<long>(thread_slot());
#endif
}

/// What a thread has recorded and not written. Whoever has its number afterwards goes on with it.
struct alignas(64) TimelineBuffer {
  static constexpr std::size_t limit = std::size_t{64} << 10;
  ForkSafeMutex mutex;
  std::string text;  // ",\n{...}" for each event
  long thread = -1;  // that wrote into it last, by the system's number
  std::uint64_t recording = 0;
};

/// The rank that a launcher of several processes gave to this one, or "".
inline std::string rank_of_launcher() {
  constexpr const char* names[][2] = {{"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"},
                                      {"PMI_SIZE", "PMI_RANK"},
                                      {"WORLD_SIZE", "RANK"},
                                      {"SLURM_NTASKS", "SLURM_PROCID"}};
  for (const auto& [size, rank] : names) {
    const char *const processes = std::getenv(size), *const own = std::getenv(rank);
    if (processes == nullptr || own == nullptr || std::atoi(processes) < 2) continue;
    const std::string_view text = own;
    if (!text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos) return own;
  }
  return {};
}

/// "run.json" becomes "run.OWN.json".
inline std::string name_with(std::string path, const std::string& own) {
  if (own.empty()) return path;
  const std::size_t dot = path.rfind('.'), slash = path.rfind('/');
  const bool has_end = dot != std::string::npos && (slash == std::string::npos || dot > slash + 1) && dot > 0;
  path.insert(has_end ? dot : path.size(), "." + own);
  return path;
}
inline void ask_for_late_events() {
  if (auto* add = add_late_events.load()) add();
}

class Timeline {
 public:
  static Timeline& instance() { return process_object<Timeline>(); }

  Timeline() {
    in_forked_child([] { instance().start_anew(); });
    std::atexit([] {
      ask_for_late_events();
      instance().write_all();
    });
  }

  void start(const std::string& path, std::string_view origin, Location where) {
    std::scoped_lock lock(mutex_);
    if ((watchers.load() & timeline_watches) != 0)
      throw UserError(origin, "a timeline is already being recorded into '" + path_ + "'", where,
                      "call jit::stop_trace() before, or record one timeline at a time");
    path_ = path;
    if (origin == "SINTER_TRACE") path_ = name_with(path_, rank_of_launcher());  // all ranks have the same environment
    recording_.fetch_add(1);
    error_.clear();
    if (!open()) {
      const int error = errno;
      error_.clear();
      throw UserError(origin, "the file '" + path_ + "' cannot be written: " + std::strerror(error), where,
                      "name a file in a folder that exists and may be written to");
    }
    start_ = steady_nanoseconds();
    watchers.fetch_or(timeline_watches);
  }

  void stop() {
    ask_for_late_events();
    watchers.fetch_and(~timeline_watches);
    write_all();
    std::scoped_lock lock(mutex_);
    if (file_ >= 0) ::close(file_);
    file_ = -1;
  }

  /// On the steady clock, when the recording began.
  std::int64_t start() const noexcept { return start_.load(std::memory_order_relaxed); }
  std::uint64_t next_arrow() noexcept { return arrows_.fetch_add(1, std::memory_order_relaxed) + 1; }

  /// `rest`: the fields of the event besides process and thread; of another thread where its number is given.
  void add(std::string_view rest, long of_thread = -1) {
    if ((watchers.load(std::memory_order_relaxed) & timeline_watches) == 0) return;
    TimelineBuffer* own = buffers_.get();
    TimelineBuffer& buffer = own != nullptr ? *own : others_;
    std::scoped_lock lock(buffer.mutex);
    const long thread = timeline_thread();
    const std::uint64_t recording = recording_.load(std::memory_order_relaxed);
    if (buffer.recording != recording) buffer.text.clear();  // events of a recording that has ended
    if (buffer.recording != recording || buffer.thread != thread) name_thread(buffer, thread);
    buffer.recording = recording;
    buffer.thread = thread;
    open_event(buffer, of_thread >= 0 ? of_thread : thread);
    buffer.text.append(rest).append("}");
    if (buffer.text.size() >= TimelineBuffer::limit) write(buffer);
  }

  /// The number of a track that is no thread's; names it where this recording has not seen it.
  long track(const std::string& name) {
    long number = 0;
    bool is_new = false;
    {
      std::scoped_lock lock(tracks_mutex_);
      Track& known = tracks_.try_emplace(name, Track{first_track + static_cast<long>(tracks_.size()), 0}).first->second;
      is_new = known.recording != recording_.load(std::memory_order_relaxed);
      known.recording = recording_.load(std::memory_order_relaxed);
      number = known.number;
    }
    if (is_new) {
      std::string text = "\"ph\":\"M\",\"name\":\"thread_name\",\"args\":{\"name\":";
      append_json(text, name);
      add(text + "}", number);
    }
    return number;
  }

  void write_all() {
    const auto flush = [this](TimelineBuffer& buffer) {
      std::scoped_lock lock(buffer.mutex);
      if (buffer.recording == recording_.load()) write(buffer);
      buffer.text.clear();
    };
    buffers_.for_each(flush);
    flush(others_);
  }

 private:
  static void open_event(TimelineBuffer& buffer, long thread) {
    buffer.text.append(",\n{\"pid\":").append(std::to_string(::getpid()));
    buffer.text.append(",\"tid\":").append(std::to_string(thread)).append(",");
  }
  static void name_thread(TimelineBuffer& buffer, long thread) {
    char name[64] = "";
    if (::pthread_getname_np(::pthread_self(), name, sizeof name) != 0) name[0] = '\0';
    const bool is_main = thread == static_cast<long>(::getpid());
    open_event(buffer, thread);
    buffer.text += "\"ph\":\"M\",\"name\":\"thread_name\",\"args\":{\"name\":";
    append_json(buffer.text, (is_main ? "main thread " : "thread ") + std::string(name));
    buffer.text += "}}";
  }

  /// The caller holds `mutex_`.
  bool open() {
    if (file_ >= 0) ::close(file_);
    file_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (file_ < 0) return false;
    end_ = 0;
    const std::string pid = std::to_string(::getpid());
    put("[\n{\"pid\":" + pid + ",\"tid\":" + pid +
        ",\"ph\":\"M\",\"name\":\"process_name\",\"args\":{\"name\":\"Sinter\"}}");
    return file_ >= 0;
  }
  /// Appends, and closes the array behind. Where the system takes no more, what came before stays complete.
  void put(std::string_view text) {
    if (file_ < 0) return;
    std::string whole(text);
    whole += "\n]\n";
    for (std::size_t done = 0; done < whole.size();) {
      const ::ssize_t wrote =
          ::pwrite(file_, whole.data() + done, whole.size() - done, static_cast<::off_t>(end_ + done));
      if (wrote < 0 && errno == EINTR) continue;
      if (wrote <= 0) return give_up();
      done += static_cast<std::size_t>(wrote);
    }
    end_ += text.size();
  }
  void give_up() {
    const int error = errno;
    watchers.fetch_and(~timeline_watches);
    if (::ftruncate(file_, static_cast<::off_t>(end_)) == 0) {
      [[maybe_unused]] const ::ssize_t closed = ::pwrite(file_, "\n]\n", 3, static_cast<::off_t>(end_));
    }
    ::close(file_);
    file_ = -1;
    errno = error;
    error_ = "the timeline ends here: '" + path_ + "' takes no more: " + std::strerror(error);
  }
  /// The caller holds the buffer.
  void write(TimelineBuffer& buffer) {
    if (buffer.text.empty()) return;
    std::string error;
    {
      std::scoped_lock lock(mutex_);
      if (file_ < 0 && !is_opened_late_) return buffer.text.clear();
      if (std::exchange(is_opened_late_, false) && !open()) watchers.fetch_and(~timeline_watches);
      put(buffer.text);
      error.swap(error_);
    }
    buffer.text.clear();
    if (!error.empty()) warn("trace", error);
  }

  /// A forked child records into a file of its own, named after it, which is made when there is something to write.
  void start_anew() noexcept {
    buffers_.for_each([](TimelineBuffer& buffer) { buffer.text.clear(), buffer.thread = -1; });
    others_.text.clear();
    if ((watchers.load() & timeline_watches) == 0) return;
    watchers.fetch_and(timeline_watches | ranges_watch);  // other threads, which listened, are gone
    if (has_instruction_log()) watchers.fetch_add(one_watcher);
    if (file_ >= 0) ::close(file_);
    file_ = -1;
    is_opened_late_ = true;
    path_ = name_with(path_, std::to_string(::getpid()));
  }

  struct Track {
    long number;
    std::uint64_t recording;  // that has its name
  };
  static constexpr long first_track = 1L << 30;  // beyond the system's numbers of threads
  ForkSafeMutex tracks_mutex_;
  std::map<std::string, Track> tracks_;
  ForkSafeMutex mutex_;  // of the file; taken after a buffer's
  std::string path_, error_;
  int file_ = -1;
  bool is_opened_late_ = false;
  std::uint64_t end_ = 0;  // where the next event goes
  std::atomic<std::uint64_t> recording_{0}, arrows_{0};
  std::atomic<std::int64_t> start_{0};
  PerThread<TimelineBuffer> buffers_;
  TimelineBuffer others_;  // of threads without a number
};

/// Microseconds with three digits behind the point, as the format has them.
inline void append_time(std::string& to, std::string_view name, std::int64_t nanoseconds) {
  char text[48];
  const long long whole = nanoseconds / 1000, rest = nanoseconds % 1000;
  std::snprintf(text, sizeof text, "%lld.%03lld", whole, rest);
  to.append("\"").append(name).append("\":").append(text);
}
inline std::string event_of(std::string_view phase, std::string_view category, std::string_view name, std::int64_t at) {
  std::string text = "\"ph\":\"";
  text.append(phase).append("\",\"cat\":");
  append_json(text, category);
  text += ",\"name\":";
  append_json(text, name);
  text += ',';
  append_time(text, "ts", std::max<std::int64_t>(0, at - Timeline::instance().start()));
  return text;
}
}  // namespace base_detail

namespace base_detail {
/// The two functions of NVTX that are used, found at run time.
struct RangeLibrary {
  std::atomic<int (*)(const char*)> push{nullptr};
  std::atomic<int (*)()> pop{nullptr};
  static RangeLibrary& instance() { return process_object<RangeLibrary>(); }
};
}  // namespace base_detail

SINTER_DECL void start_ranges(const std::string& library) {
  const std::string file = library.find('/') != std::string::npos ? library : "libnvToolsExt.so.1";
  void* const opened = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  auto* const push =
      opened == nullptr ? nullptr : reinterpret_cast<int (*)(const char*)>(::dlsym(opened, "nvtxRangePushA"));
  auto* const pop = opened == nullptr ? nullptr : reinterpret_cast<int (*)()>(::dlsym(opened, "nvtxRangePop"));
  if (push == nullptr || pop == nullptr)
    throw UserError(
        "SINTER_NVTX", "'" + file + "' cannot be opened, or has no NVTX in it", {},
        "install NVTX (it comes with the CUDA Toolkit), or name its file: SINTER_NVTX=/path/libnvToolsExt.so.1");
  base_detail::RangeLibrary& ranges = base_detail::RangeLibrary::instance();
  ranges.push = push;
  ranges.pop = pop;
  base_detail::watchers.fetch_or(base_detail::ranges_watch);
}
namespace timeline {
SINTER_DECL void begin_range(std::string_view name) {
  if (auto* push = base_detail::RangeLibrary::instance().push.load()) push(std::string(name).c_str());
}
SINTER_DECL void end_range() noexcept {
  if (auto* pop = base_detail::RangeLibrary::instance().pop.load()) pop();
}
}  // namespace timeline

SINTER_DECL void start_timeline(const std::string& path, std::string_view origin, Location where) {
  base_detail::Timeline::instance().start(path, origin, where);
}
SINTER_DECL void write_timeline() {
  base_detail::ask_for_late_events();
  base_detail::Timeline::instance().write_all();
}
SINTER_DECL void stop_timeline() { base_detail::Timeline::instance().stop(); }
SINTER_DECL std::int64_t timeline_now() noexcept { return base_detail::steady_nanoseconds(); }

namespace timeline {
SINTER_DECL void complete(std::string_view category, std::string_view name, std::int64_t begin, std::int64_t end,
                          const JsonFields& fields) {
  std::string text = base_detail::event_of("X", category, name, begin);
  text += ',';
  base_detail::append_time(text, "dur", std::max<std::int64_t>(0, end - begin));
  if (!fields.empty()) text += ",\"args\":" + fields.object();
  base_detail::Timeline::instance().add(text);
}
SINTER_DECL void complete_on_track(const std::string& track, std::string_view category, std::string_view name,
                                   std::int64_t begin, std::int64_t end, const JsonFields& fields) {
  base_detail::Timeline& timeline = base_detail::Timeline::instance();
  std::string text = base_detail::event_of("X", category, name, begin);
  text += ',';
  base_detail::append_time(text, "dur", std::max<std::int64_t>(0, end - begin));
  if (!fields.empty()) text += ",\"args\":" + fields.object();
  timeline.add(text, timeline.track(track));
}
SINTER_DECL void instant(std::string_view category, std::string_view name, const JsonFields& fields) {
  if (!has_timeline()) return;
  std::string text = base_detail::event_of("i", category, name, timeline_now()) + ",\"s\":\"t\"";
  if (!fields.empty()) text += ",\"args\":" + fields.object();
  base_detail::Timeline::instance().add(text);
}
SINTER_DECL void counter(std::string_view name, std::string_view series, std::int64_t value) {
  if (!has_timeline()) return;
  base_detail::Timeline::instance().add(base_detail::event_of("C", "memory", name, timeline_now()) + ",\"args\":" +
                                        JsonFields().add(series, static_cast<long long>(value)).object());
}
SINTER_DECL void arrow(const Task& from, std::int64_t at) {
  base_detail::Timeline& timeline = base_detail::Timeline::instance();
  const std::string number = ",\"id\":" + std::to_string(timeline.next_arrow());
  timeline.add(base_detail::event_of("s", "arrow", "runs on", from.begin) + number, from.thread);
  timeline.add(base_detail::event_of("f", "arrow", "runs on", at) + number + ",\"bp\":\"e\"");
}
SINTER_DECL long thread_number() noexcept { return base_detail::timeline_thread(); }
}  // namespace timeline

struct TimelineSpan::Open {
  std::string category, name;
  JsonFields fields;
  std::int64_t begin = 0;
};
SINTER_DECL JsonFields& TimelineSpan::fields() noexcept { return open_->fields; }
SINTER_DECL void TimelineSpan::add_line(Location where) { open_->fields.add("line", where.text()); }
SINTER_DECL SINTER_COLD void TimelineSpan::begin(std::string_view category, std::string_view name) {
  open_ = new Open{std::string(category), std::string(name), {}, timeline_now()};
  timeline::begin_range(name);
}
SINTER_DECL SINTER_COLD void TimelineSpan::end() noexcept {
  const std::unique_ptr<Open> open(open_);
  timeline::end_range();
  try {
    timeline::complete(open->category, open->name, open->begin, timeline_now(), open->fields);
  } catch (...) {
    // no memory for the event: the timeline lacks it
  }
}

SINTER_NAMESPACE_END
