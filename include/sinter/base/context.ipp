// Reading of the environment and the default log sink.
#pragma once

#include <sinter/base/context.hpp>

#include <sinter/base/fork.hpp>

#include <cstdlib>
#include <iostream>

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
inline Context* make_context() {
  auto* context = new Context;
  context->is_eager = is_set("SINTER_EAGER");
  context->checks = is_set("SINTER_CHECK");
  context->is_disabled = is_set("SINTER_DISABLE");
  context->compiles_at_once = is_set("SINTER_COMPILE");
  context->outlines = environment("SINTER_OUTLINE") != "0";
  context->allows_fallback = is_set("SINTER_FALLBACK");
  if (std::string hot = environment("SINTER_HOT"); !hot.empty()) context->hot = std::strtoll(hot.c_str(), nullptr, 10);
  context->logs = environment("SINTER_LOGS");
  context->isa = environment("SINTER_ISA");
  context->sink = [](std::string_view topic, std::string_view line) { std::clog << "[sinter:" << topic << "] " << line << "\n"; };
  return context;
}
}  // namespace base_detail

SINTER_DECL Context& Context::get() {
  return process_object([] { return base_detail::make_context(); });
}

SINTER_DECL bool is_logged(std::string_view topic) {
  const std::string& logs = Context::get().logs;
  if (logs.empty()) return false;
  if (logs == "all") return true;
  for (std::size_t at = 0; at <= logs.size();) {
    std::size_t end = logs.find(',', at);
    if (end == std::string::npos) end = logs.size();
    if (std::string_view(logs).substr(at, end - at) == topic) return true;
    at = end + 1;
  }
  return false;
}

SINTER_DECL void note(std::string_view topic, std::string_view line) {
  if (is_logged(topic) && Context::get().sink) Context::get().sink(topic, line);
}

SINTER_DECL void warn(std::string_view topic, std::string_view line) {
  if (Context::get().sink) Context::get().sink(topic, line);
}

SINTER_NAMESPACE_END
