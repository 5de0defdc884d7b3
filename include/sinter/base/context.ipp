// Reading of the environment and the default log sink. What is logged, and how, is in log.ipp.
#pragma once

#include <sinter/base/context.hpp>

#include <sinter/base/error.hpp>
#include <sinter/base/fork.hpp>
#include <sinter/base/instruction_file.hpp>
#include <sinter/base/log.hpp>
#include <sinter/base/timeline.hpp>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <system_error>

SINTER_NAMESPACE_BEGIN

namespace base_detail {
inline std::string environment(const char* name) {
  const char* text = std::getenv(name);
  return text != nullptr ? text : "";
}
inline bool is_set(const char* name) {
  std::string text = environment(name);
  return !text.empty() && text != "0";
}
/// What Sinter logs, as docs/environment.md lists it.
inline constexpr std::string_view log_topics[] = {
    "recompiles", "guards",   "graphs", "graph_breaks", "fusion", "kernels", "asm",  "memory", "fallback",
    "cuda",       "autotune", "cache",  "hot_paths",    "errors", "config",  "dist", "trace",  "background"};
/// Calls `visit(name)` for each name of a comma-separated list, without the blanks around it.
template <class F>
void for_each_name(std::string_view list, F&& visit) {
  for (std::size_t at = 0; at <= list.size();) {
    const std::size_t end = std::min(list.find(',', at), list.size());
    std::string_view name = list.substr(at, end - at);
    name.remove_prefix(std::min(name.find_first_not_of(' '), name.size()));
    name = name.substr(0, name.find_last_not_of(' ') + 1);
    if (!name.empty()) visit(name);
    at = end + 1;
  }
}
/// SINTER_LOGS, whose names must be topics: one that is misspelt would log nothing.
inline std::string logs_of_environment() {
  std::string logs = environment("SINTER_LOGS");
  if (logs == "help") return {};
  check_logs("SINTER_LOGS", logs);
  return logs;
}
inline std::int64_t count_of_environment(const char* name, std::int64_t otherwise) {
  const std::string text = environment(name);
  if (text.empty()) return otherwise;
  std::int64_t count = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (error != std::errc() || end != text.data() + text.size() || count < 0)
    throw UserError(name, "'" + text + "' is no whole number from 0 on");
  return count;
}
inline Context* make_context() {
  auto context = std::make_unique<Context>();
  context->is_eager = is_set("SINTER_EAGER");
  context->checks = is_set("SINTER_CHECK");
  context->is_disabled = is_set("SINTER_DISABLE") || is_set("SINTER_DEBUG_NANS");
  context->compiles_at_once = is_set("SINTER_COMPILE");
  context->outlines = environment("SINTER_OUTLINE") != "0";
  context->allows_fallback = is_set("SINTER_FALLBACK");
  context->hot = count_of_environment("SINTER_HOT", context->hot);
  context->threads = count_of_environment("SINTER_THREADS", context->threads);
  context->logs = logs_of_environment();
  read_log_settings();
  context->sink = [](std::string_view topic, std::string_view line) {
    if (writes_json()) std::clog << log_record(topic, line) + "\n";
    else std::clog << "[sinter:" << topic << "] " << line << "\n";
  };
#ifndef SINTER_NO_TIMELINE
  if (const std::string path = environment("SINTER_TRACE"); !path.empty()) start_timeline(path, "SINTER_TRACE");
  if (const std::string path = environment("SINTER_INSTRUCTION_LOG"); !path.empty())
    start_instruction_log(path, "SINTER_INSTRUCTION_LOG");
  if (is_set("SINTER_NVTX")) start_ranges(environment("SINTER_NVTX"));
#endif
  if (environment("SINTER_LOGS") == "help") context->sink("help", log_help());
  return context.release();
}
}  // namespace base_detail

SINTER_DECL Context& Context::get() {
  return process_object([] { return base_detail::make_context(); });
}

SINTER_NAMESPACE_END
