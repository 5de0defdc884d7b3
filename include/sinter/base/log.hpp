// What SINTER_LOGS may say and how lines come out: topics with levels, the form of a line, limits. The settings
// themselves are Context::logs and Context::sink (context.hpp). Must not know who logs.
#pragma once

#include <sinter/base/config.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

SINTER_NAMESPACE_BEGIN

/// How much of a topic is logged, from least to most. A topic that is named without a level has `info`.
enum class LogLevel : std::uint8_t { off, warning, info, debug };
std::string_view name(LogLevel level);

/// The form of a line from the sink that is there by default: "[sinter:graphs] ..." or an object of JSON.
enum class LogFormat : std::uint8_t { text, json };

struct LogTopic {
  std::string_view name, says;
};
/// What Sinter logs.
std::vector<LogTopic> list_log_topics();

/// Logs these topics from now on, instead of those that SINTER_LOGS named: "graphs:debug, recompiles" or "all". Set it
/// before threads start. Throws UserError for a name that is no topic, with the nearest that is one.
void set_logs(std::string topics);
void set_log_format(LogFormat format);
/// At most so many lines of a topic in a second; what is left out is counted, and said with the next line. 0: all.
void set_log_limit(std::int64_t lines_per_second);

/// True when Context::logs asks for lines of this level. Warnings are asked for unless a topic is off ("cuda:off").
bool is_logged(std::string_view topic, LogLevel level);
/// Sends one line of this level to the sink if it is asked for.
void note(std::string_view topic, LogLevel level, std::string_view line);

/// For a sink of one's own: the line as an object of JSON, with time, level, topic and thread.
std::string log_record(std::string_view topic, std::string_view line);

/// The one of `names` that `word` is most like, or "" where none is like it: for messages about misspelt names.
std::string_view nearest_name(std::string_view word, const std::vector<std::string_view>& names);

namespace base_detail {
/// Throws UserError, as of `what`, unless these are topics, with levels that there are.
void check_logs(std::string_view what, std::string_view topics);
/// SINTER_LOGS_FORMAT and SINTER_LOGS_LIMIT.
void read_log_settings();
bool writes_json() noexcept;
/// As set_logs(), while other threads log. They hold until the next set_logs(), whatever Context::logs says; each set
/// stays in memory.
void publish_logs(std::string topics);
std::string log_help();
}  // namespace base_detail

SINTER_NAMESPACE_END
