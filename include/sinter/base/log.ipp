// Which lines are logged, and the form they have.
#pragma once

#include <sinter/base/log.hpp>

#include <sinter/base/context.ipp>  // log_topics, for_each_name
#include <sinter/base/error.hpp>
#include <sinter/base/fork.hpp>
#include <sinter/base/json_text.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <functional>
#include <iterator>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

SINTER_NAMESPACE_BEGIN

namespace base_detail {

/// What one line says of each topic.
inline constexpr std::pair<std::string_view, std::string_view> topic_texts[] = {
    {"recompiles", "the guard that a call broke; debug: all guards that it broke, of each version"},
    {"guards", "the guards of each new version"},
    {"graphs", "the graph of each new version, as traced and as optimised; debug: after each pass"},
    {"graph_breaks", "where a trace is cut and why"},
    {"fusion", "the groups that fusion made"},
    {"kernels", "the plan of each new version, and what a back end declined"},
    {"asm", "generated code"},
    {"memory", "how Options::memory_budget was met"},
    {"fallback", "what runs elsewhere than wanted, and why"},
    {"cuda", "the source of each CUDA kernel"},
    {"autotune", "what was measured, and what was chosen"},
    {"cache", "why compiled kernels cannot be kept on disk"},
    {"hot_paths", "lazy graphs that came often enough to be fused, and what that gained"},
    {"errors", "compilations that failed and were replaced, with programs that show why"},
    {"config", "what configuration files set"},
    {"dist", "ranks that fail, workers that lag behind or die, collectives of partitioned functions"},
    {"trace", "why a timeline cannot be written"},
    {"background", "when code from another thread took the place of what ran"},
};

struct LogSettings {
  /// Topics that were set while other threads may read them, in the place of Context::logs; never freed. Null: none.
  std::atomic<const std::string*> topics{nullptr};
  std::atomic<bool> is_json{false};
  std::atomic<std::int64_t> limit{0};  // lines of a topic in a second; 0: all
  /// Of one topic, in the second that began at `since`.
  struct Window {
    std::chrono::steady_clock::time_point since{};
    std::int64_t lines = 0, left_out = 0;
  };
  ForkSafeMutex mutex;  // of what follows
  std::map<std::string, Window, std::less<>> windows;
};
inline LogSettings& log_settings() { return process_object<LogSettings>(); }
/// The level of the line that this thread is sending.
inline LogLevel& level_of_line() noexcept {
  static thread_local constinit LogLevel level = LogLevel::info;
  return level;
}

inline constexpr std::pair<std::string_view, LogLevel> log_levels[] = {
    {"off", LogLevel::off}, {"warning", LogLevel::warning}, {"info", LogLevel::info}, {"debug", LogLevel::debug}};
inline LogLevel level_named(std::string_view text) {
  for (const auto& [name, level] : log_levels)
    if (name == text) return level;
  return LogLevel::info;
}
/// The level that the list gives to the topic; the last entry about it counts, `all` is about each.
inline LogLevel level_of(std::string_view topics, std::string_view topic) {
  LogLevel level = LogLevel::warning;
  for_each_name(topics, [&](std::string_view entry) {
    const std::size_t colon = entry.find(':');
    const std::string_view named = entry.substr(0, colon);
    if (named == topic || named == "all")
      level = colon == std::string_view::npos ? LogLevel::info : level_named(entry.substr(colon + 1));
  });
  return level;
}

/// How many letters must be changed, added or left out to make one word of the other.
inline std::size_t edits_between(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t changed = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, changed});
    }
  }
  return row[b.size()];
}

/// Fails for a name that is in no list: the fix names the nearest, and all.
[[noreturn]] inline void throw_unknown(std::string_view what, std::string_view name, std::string_view is_no,
                                       std::vector<std::string_view> known, std::string_view plural) {
  const std::string_view nearest = nearest_name(name, known);
  std::string fix = nearest.empty() ? std::string() : "did you mean '" + std::string(nearest) + "'? ";
  fix.append(plural).append(":");
  for (std::string_view each : known) fix.append(each == known.front() ? " " : ", ").append(each);
  throw UserError(what, "'" + std::string(name) + "' is no " + std::string(is_no), {}, fix);
}

SINTER_DECL void check_logs(std::string_view what, std::string_view topics) {
  for_each_name(topics, [&](std::string_view entry) {
    const std::size_t colon = entry.find(':');
    const std::string_view topic = entry.substr(0, colon);
    std::vector<std::string_view> known{"all"}, levels;
    known.insert(known.end(), std::begin(log_topics), std::end(log_topics));
    if (std::find(known.begin(), known.end(), topic) == known.end())
      throw_unknown(what, topic, "topic of the log", std::move(known), "topics");
    for (const auto& level : log_levels) levels.push_back(level.first);
    if (colon == std::string_view::npos) return;
    if (const std::string_view level = entry.substr(colon + 1);
        std::find(levels.begin(), levels.end(), level) == levels.end())
      throw_unknown(what, level, "level of the log", std::move(levels), "levels");
  });
}

SINTER_DECL void read_log_settings() {
  const std::string format = environment("SINTER_LOGS_FORMAT");
  if (!format.empty() && format != "text" && format != "json")
    throw_unknown("SINTER_LOGS_FORMAT", format, "form of log lines", {"text", "json"}, "forms");
  log_settings().is_json = format == "json";
  log_settings().limit = count_of_environment("SINTER_LOGS_LIMIT", 0);
}
SINTER_DECL bool writes_json() noexcept { return log_settings().is_json.load(std::memory_order_relaxed); }

SINTER_DECL std::string log_help() {
  std::string text =
      "SINTER_LOGS=topic,topic:level,... with the levels off, warning, info (where none is named) and debug.\n"
      "SINTER_LOGS_FORMAT=json writes a JSON object for each line, SINTER_LOGS_LIMIT=n at most n lines of a topic in a "
      "second.\n  all: each of these topics\n";
  for (const LogTopic& topic : list_log_topics())
    text.append("  ").append(topic.name).append(": ").append(topic.says).append("\n");
  text.pop_back();
  return text;
}

/// Whether the line is one too many; else how many were left out before it.
inline bool is_beyond_limit(std::string_view topic, std::int64_t& left_out) {
  LogSettings& settings = log_settings();
  const std::int64_t limit = settings.limit.load(std::memory_order_relaxed);
  if (limit <= 0) return false;
  const auto now = std::chrono::steady_clock::now();
  std::scoped_lock lock(settings.mutex);
  auto window = settings.windows.find(topic);
  if (window == settings.windows.end())
    window = settings.windows.emplace(std::string(topic), LogSettings::Window{now}).first;
  if (now - window->second.since >= std::chrono::seconds(1)) {
    left_out = window->second.left_out;
    window->second = {now, 0, 0};
  }
  if (window->second.lines < limit) {
    ++window->second.lines;
    return false;
  }
  ++window->second.left_out;
  return true;
}

inline void send(std::string_view topic, LogLevel level, std::string_view line) {
  const auto& sink = Context::get().sink;
  std::int64_t left_out = 0;
  if (!sink || is_beyond_limit(topic, left_out)) return;
  struct Restore {
    LogLevel before;
    ~Restore() { level_of_line() = before; }
  } restore{std::exchange(level_of_line(), level)};
  if (left_out > 0) sink(topic, std::to_string(left_out) + " lines of this topic were left out: SINTER_LOGS_LIMIT");
  sink(topic, line);
}

}  // namespace base_detail

SINTER_DECL std::string_view name(LogLevel level) {
  for (const auto& [text, each] : base_detail::log_levels)
    if (each == level) return text;
  __builtin_unreachable();
}

SINTER_DECL std::vector<LogTopic> list_log_topics() {
  std::vector<LogTopic> topics;
  for (std::string_view topic : base_detail::log_topics) {
    const auto* text = std::find_if(std::begin(base_detail::topic_texts), std::end(base_detail::topic_texts),
                                    [&](const auto& each) { return each.first == topic; });
    topics.push_back({topic, text == std::end(base_detail::topic_texts) ? std::string_view() : text->second});
  }
  return topics;
}

SINTER_DECL void set_logs(std::string topics) {
  base_detail::check_logs("set_logs", topics);
  Context::get().logs = std::move(topics);
  base_detail::log_settings().topics = nullptr;
}
namespace base_detail {
SINTER_DECL void publish_logs(std::string topics) {
  check_logs("set_logs", topics);
  log_settings().topics.store(new std::string(std::move(topics)), std::memory_order_release);
}
}  // namespace base_detail
SINTER_DECL void set_log_format(LogFormat format) { base_detail::log_settings().is_json = format == LogFormat::json; }
SINTER_DECL void set_log_limit(std::int64_t lines_per_second) {
  base_detail::log_settings().limit = std::max<std::int64_t>(0, lines_per_second);
}

SINTER_DECL std::string_view nearest_name(std::string_view word, const std::vector<std::string_view>& names) {
  std::string_view nearest;
  std::size_t fewest = std::max<std::size_t>(1, word.size() / 3) + 1;
  for (std::string_view each : names) {
    const std::size_t edits = base_detail::edits_between(word, each);
    const bool is_beginning = word.size() >= 3 && each.starts_with(word);
    if (edits < fewest || (is_beginning && nearest.empty())) {
      fewest = std::min(fewest, edits);
      nearest = each;
    }
  }
  return nearest;
}

SINTER_DECL std::string log_record(std::string_view topic, std::string_view line) {
  using namespace std::chrono;
  const auto now = duration_cast<microseconds>(system_clock::now().time_since_epoch()).count();
  std::array<char, 48> time{};
  std::snprintf(time.data(), time.size(), "{\"time\":%lld.%06lld", static_cast<long long>(now / 1'000'000),
                static_cast<long long>(now % 1'000'000));
  std::string record = time.data();
  record.append(",\"level\":\"").append(name(base_detail::level_of_line())).append("\",\"topic\":");
  append_json(record, topic);
  record.append(",\"thread\":").append(std::to_string(std::hash<std::thread::id>{}(std::this_thread::get_id())));
  record.append(",\"line\":");
  append_json(record, line);
  return record + "}";
}

SINTER_DECL bool is_logged(std::string_view topic, LogLevel level) {
  const Context& context = Context::get();
  const std::string* const published = base_detail::log_settings().topics.load(std::memory_order_acquire);
  const std::string& logs = published != nullptr ? *published : context.logs;
  if (logs.empty()) return level == LogLevel::warning;
  return level != LogLevel::off && level <= base_detail::level_of(logs, topic);
}
SINTER_DECL bool is_logged(std::string_view topic) { return is_logged(topic, LogLevel::info); }

SINTER_DECL void note(std::string_view topic, LogLevel level, std::string_view line) {
  if (is_logged(topic, level)) base_detail::send(topic, level, line);
}
SINTER_DECL void note(std::string_view topic, std::string_view line) { note(topic, LogLevel::info, line); }
SINTER_DECL void warn(std::string_view topic, std::string_view line) { note(topic, LogLevel::warning, line); }

SINTER_NAMESPACE_END
