// The configuration of this process, and when it is read.
#pragma once

#include <sinter/jit/config/configuration.hpp>
#include <sinter/jit/config/configure.hpp>

#include <sinter/base/context.hpp>
#include <sinter/base/error.hpp>
#include <sinter/base/fork.hpp>
#include <sinter/base/log.hpp>
#include <sinter/graph/pending_node.hpp>

#include <sys/stat.h>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <mutex>
#include <sstream>
#include <utility>

SINTER_NAMESPACE_BEGIN
namespace jit {

namespace config_detail {

using Clock = std::chrono::steady_clock;

/// What tells one state of a file from another.
struct FileState {
  std::int64_t seconds = 0, nanoseconds = 0, bytes = -1;
  friend bool operator==(const FileState&, const FileState&) = default;
};
inline FileState state_of(const std::string& path) {
  struct stat found{};
  if (::stat(path.c_str(), &found) != 0) return {};
  return {found.st_mtim.tv_sec, found.st_mtim.tv_nsec, static_cast<std::int64_t>(found.st_size)};
}

struct Current {
  std::atomic<bool> is_empty{true}, has_read_environment{false};
  ForkSafeMutex reading;  // of the environment; taken before `mutex`
  ForkSafeMutex mutex;    // of what follows
  std::shared_ptr<const jit_detail::Configuration> configuration;
  std::string watched;  // the file, or ""
  FileState state{};
  Clock::time_point next_look{};
  static Current& instance() { return process_object<Current>(); }
};

inline std::string text_of_file(const std::string& path, Location where) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (file) text << file.rdbuf();
  if (!file)
    throw UserError("configure", "the file '" + path + "' cannot be read", where, "give the path of a YAML file");
  return text.str();
}

/// Who wants the file: the program, before it starts threads, or whichever thread needs settings first while others
/// run.
enum class AskedBy : bool { program, first_use };

/// What the process has one of, but for `hot`.
inline void take_for_process(const jit_detail::Configuration& configuration, AskedBy by) {
  if (configuration.logs && by == AskedBy::program) set_logs(*configuration.logs);
  if (configuration.logs && by == AskedBy::first_use) base_detail::publish_logs(*configuration.logs);
}
using Hot = decltype(jit_detail::Configuration::hot);
/// Context::hot is read under the lock of the evaluator, whose holder may wait for `reading`: set without that lock.
inline void set_hot(const Hot& hot) {
  if (!hot) return;
  std::scoped_lock lock(evaluation_mutex());
  Context::get().hot = *hot;
}
/// Returns what set_hot() is to be given.
inline Hot configure_as(const std::string& path, ConfigureOptions options, AskedBy by, Location where);
inline void take(jit_detail::Configuration configuration) {
  if (configuration.log_format) set_log_format(*configuration.log_format == "json" ? LogFormat::json : LogFormat::text);
  if (configuration.log_limit) set_log_limit(*configuration.log_limit);
  Current& current = Current::instance();
  std::scoped_lock lock(current.mutex);
  current.configuration = std::make_shared<const jit_detail::Configuration>(std::move(configuration));
  current.is_empty = false;
}

/// Threads that come meanwhile wait. A fault is said again to whoever needs the file next.
inline void read_environment() {
  Current& current = Current::instance();
  Hot hot;
  {
    std::scoped_lock lock(current.reading);
    if (current.has_read_environment.load(std::memory_order_acquire)) return;
    const char* path = std::getenv("SINTER_CONFIG");
    if (path != nullptr && *path != '\0') hot = configure_as(path, {}, AskedBy::first_use, Location());
    current.has_read_environment = true;
  }
  set_hot(hot);
}

/// The file once more, if it is watched, has changed, and was not looked at within a second.
inline void look_again() {
  Current& current = Current::instance();
  std::string path;
  {
    std::scoped_lock lock(current.mutex);
    const Clock::time_point now = Clock::now();
    if (current.watched.empty() || now < current.next_look) return;
    current.next_look = now + std::chrono::seconds(1);
    const FileState state = state_of(current.watched);
    if (state == current.state) return;
    current.state = state;
    path = current.watched;
  }
  try {
    take(jit_detail::read_configuration(text_of_file(path, {}), path, {}));
    note("config", path + " was read again");
  } catch (const Error& error) { warn("config", std::string("the settings stay as they were: ") + error.what()); }
}

/// Null: no file says anything.
inline std::shared_ptr<const jit_detail::Configuration> configuration_now() {
  Current& current = Current::instance();
  if (!current.has_read_environment.load(std::memory_order_acquire)) read_environment();
  if (current.is_empty.load(std::memory_order_relaxed)) return nullptr;
  look_again();
  std::scoped_lock lock(current.mutex);
  return current.configuration;
}

inline ScopeSettings settings_for(const std::vector<jit_detail::SettingsFor>& list, std::string_view text) {
  ScopeSettings settings;
  for (const jit_detail::SettingsFor& each : list)
    if (jit_detail::fits_pattern(text, each.pattern)) settings = settings.with(each.settings);
  return settings;
}

/// Of these settings those that the options leave as they are by themselves.
inline ScopeSettings where_unset(ScopeSettings settings, const Options& options) {
  const Options by_itself;
  if (options.mode != by_itself.mode) settings.mode.reset();
  if (options.backend.function() != nullptr || !options.backend.name().empty()) settings.backend.reset();
  if (options.matmul_precision) settings.matmul_precision.reset();
  if (options.dynamic != by_itself.dynamic) settings.dynamic.reset();
  if (options.fullgraph) settings.fullgraph.reset();
  if (!options.fuse) settings.fuse.reset();
  if (options.allow_fallback) settings.allow_fallback.reset();
  if (options.suppress_errors) settings.suppress_errors.reset();
  if (options.horizontal_fusion.has_value()) settings.horizontal_fusion.reset();
  if (options.epilogue_fusion.has_value()) settings.epilogue_fusion.reset();
  if (options.recompile_limit != by_itself.recompile_limit) settings.recompile_limit.reset();
  if (options.memory_budget != by_itself.memory_budget) settings.memory_budget.reset();
  return settings;
}

inline Hot configure_as(const std::string& path, ConfigureOptions options, AskedBy by, Location where) {
  const FileState state = state_of(path);
  auto read = jit_detail::read_configuration(text_of_file(path, where), path, where);
  take_for_process(read, by);
  const Hot hot = read.hot;
  take(std::move(read));
  Current& current = Current::instance();
  current.has_read_environment = true;
  std::scoped_lock lock(current.mutex);
  current.watched = options.watch == Watch::yes ? path : std::string();
  current.state = state;
  current.next_look = Clock::now();
  return hot;
}

}  // namespace config_detail

SINTER_DECL void configure(const std::string& path, ConfigureOptions options, Location where) {
  config_detail::set_hot(config_detail::configure_as(path, options, config_detail::AskedBy::program, where));
}

SINTER_DECL void configure_from(std::string_view yaml, Location where) {
  auto read = jit_detail::read_configuration(yaml, "", where);
  config_detail::take_for_process(read, config_detail::AskedBy::program);
  config_detail::set_hot(read.hot);
  config_detail::take(std::move(read));
  auto& current = config_detail::Current::instance();
  current.has_read_environment = true;
  std::scoped_lock lock(current.mutex);
  current.watched.clear();
}

SINTER_DECL void reset_configuration() {
  auto& current = config_detail::Current::instance();
  current.has_read_environment = true;
  std::scoped_lock lock(current.mutex);
  current.configuration = nullptr;
  current.watched.clear();
  current.is_empty = true;
}

namespace jit_detail {

SINTER_DECL bool fits_pattern(std::string_view text, std::string_view pattern) noexcept {
  std::size_t t = 0, p = 0, star = std::string_view::npos, after_star = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      after_star = t;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
      ++p;
      ++t;
    } else if (star != std::string_view::npos) {  // the last `*` takes one letter more
      p = star + 1;
      t = ++after_star;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

SINTER_DECL ScopeSettings settings_for_scope(std::string_view path) {
  const auto configuration = config_detail::configuration_now();
  return configuration == nullptr ? ScopeSettings() : config_detail::settings_for(configuration->scopes, path);
}
SINTER_DECL ScopeSettings settings_for_region(std::string_view path) {
  const auto configuration = config_detail::configuration_now();
  return configuration == nullptr ? ScopeSettings() : config_detail::settings_for(configuration->regions, path);
}

SINTER_DECL Options configured(Options options, Location where) {
  const auto configuration = config_detail::configuration_now();
  if (configuration == nullptr) return options;
  ScopeSettings own = config_detail::settings_for(configuration->functions, where.text());
  const bool is_off = !own.compile.value_or(configuration->options.compile.value_or(true));
  Options made = own.applied_to(config_detail::where_unset(configuration->options, options).applied_to(options));
  if (is_off) made = Options{.backend = "noop"};
  return made;
}

}  // namespace jit_detail

SINTER_DECL std::string configuration_schema() {
  using namespace jit_detail;
  std::string settings;
  for (const Setting& setting : settings_table()) {
    settings.append(settings.empty() ? "" : ",\n").append("        \"").append(setting.name).append("\": { ");
    switch (setting.type) {
      case SettingType::boolean: settings += "\"type\": \"boolean\""; break;
      case SettingType::number:
        settings += "\"type\": \"integer\", \"minimum\": " + std::to_string(setting.least);
        break;
      case SettingType::text: settings += "\"type\": \"string\""; break;
      case SettingType::choice: {
        settings += "\"enum\": [";
        for (std::string_view each : setting.choices)
          settings.append(each == setting.choices.front() ? "\"" : ", \"").append(each).append("\"");
        settings += "]";
        break;
      }
    }
    settings.append(", \"description\": \"").append(setting.says).append("\" }");
  }
  std::string topics;
  for (const LogTopic& topic : list_log_topics()) topics.append(topics.empty() ? "" : "|").append(topic.name);
  const std::string topic = "(all|" + topics + ")(:(off|warning|info|debug))?";
  const auto by_pattern = [](std::string_view says) {
    return "{ \"type\": \"object\", \"additionalProperties\": { \"$ref\": \"#/$defs/settings\" }, \"description\": \"" +
           std::string(says) + "\" }";
  };
  return "{\n  \"$schema\": \"https://json-schema.org/draft/2020-12/schema\",\n"
         "  \"title\": \"Configuration of Sinter\",\n  \"type\": \"object\",\n  \"additionalProperties\": false,\n"
         "  \"properties\": {\n"
         "    \"logs\": { \"type\": [\"string\", \"array\"], \"pattern\": \"^\\\\s*" +
         topic + "(\\\\s*,\\\\s*" + topic + ")*\\\\s*$\", \"items\": { \"type\": \"string\", \"pattern\": \"^" + topic +
         "$\" }, \"description\": \"topics, as SINTER_LOGS\" },\n"
         "    \"log_format\": { \"enum\": [\"text\", \"json\"], \"description\": \"as SINTER_LOGS_FORMAT\" },\n"
         "    \"log_limit\": { \"type\": \"integer\", \"minimum\": 0, \"description\": \"as SINTER_LOGS_LIMIT\" },\n"
         "    \"hot\": { \"type\": \"integer\", \"minimum\": 0, \"description\": \"as SINTER_HOT\" },\n"
         "    \"options\": { \"$ref\": \"#/$defs/settings\", \"description\": \"of functions that leave an option as "
         "it "
         "is by itself\" },\n    \"scopes\": " +
         by_pattern("by pattern of the path of a scope") +
         ",\n    \"functions\": " + by_pattern("by pattern of file:line of the call of compile()") +
         ",\n    \"regions\": " + by_pattern("by pattern of the path of a block in its model") +
         "\n  },\n  \"$defs\": {\n    \"settings\": {\n      \"type\": \"object\",\n      \"additionalProperties\": "
         "false,\n      \"properties\": {\n" +
         settings + "\n      }\n    }\n  }\n}\n";
}

}  // namespace jit
SINTER_NAMESPACE_END
