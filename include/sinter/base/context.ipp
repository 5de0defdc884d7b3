// Reading of the environment and the default log sink.
#pragma once

#include <sinter/base/context.hpp>

#include <sinter/base/error.hpp>
#include <sinter/base/fork.hpp>
#include <sinter/base/timeline.hpp>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <iostream>
#include <iterator>
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
inline constexpr std::string_view log_topics[] = {"recompiles", "guards", "graphs", "graph_breaks", "fusion",
                                                  "kernels",    "asm",    "memory", "fallback",     "cuda",
                                                  "autotune",   "cache",  "dist",   "trace"};
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
  for_each_name(logs, [](std::string_view name) {
    if (name == "all" || std::find(std::begin(log_topics), std::end(log_topics), name) != std::end(log_topics)) return;
    std::string known = "all";
    for (std::string_view topic : log_topics) known.append(", ").append(topic);
    throw UserError("SINTER_LOGS", "'" + std::string(name) + "' is no topic of the log", {}, "topics: " + known);
  });
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
  context->is_disabled = is_set("SINTER_DISABLE");
  context->compiles_at_once = is_set("SINTER_COMPILE");
  context->outlines = environment("SINTER_OUTLINE") != "0";
  context->allows_fallback = is_set("SINTER_FALLBACK");
  context->hot = count_of_environment("SINTER_HOT", context->hot);
  context->threads = count_of_environment("SINTER_THREADS", context->threads);
  context->logs = logs_of_environment();
  context->sink = [](std::string_view topic, std::string_view line) {
    std::clog << "[sinter:" << topic << "] " << line << "\n";
  };
#ifndef SINTER_NO_TIMELINE
  if (const std::string path = environment("SINTER_TRACE"); !path.empty()) start_timeline(path, "SINTER_TRACE");
  if (is_set("SINTER_NVTX")) start_ranges(environment("SINTER_NVTX"));
#endif
  return context.release();
}
}  // namespace base_detail

SINTER_DECL Context& Context::get() {
  return process_object([] { return base_detail::make_context(); });
}

SINTER_DECL bool is_logged(std::string_view topic) {
  const std::string& logs = Context::get().logs;
  if (logs.empty()) return false;
  bool is_named = false;
  base_detail::for_each_name(logs, [&](std::string_view name) { is_named |= name == topic || name == "all"; });
  return is_named;
}

SINTER_DECL void note(std::string_view topic, std::string_view line) {
  if (is_logged(topic) && Context::get().sink) Context::get().sink(topic, line);
}

SINTER_DECL void warn(std::string_view topic, std::string_view line) {
  if (Context::get().sink) Context::get().sink(topic, line);
}

SINTER_NAMESPACE_END
