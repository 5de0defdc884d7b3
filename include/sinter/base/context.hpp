// Context: the state of the process, created on first use and never destroyed. Settings come from the environment once.
#pragma once

#include <sinter/base/config.hpp>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

SINTER_NAMESPACE_BEGIN

/// Settings read from SINTER_* once. Plain fields: set them before threads start, or leave them. A variable with a
/// value that means nothing is a UserError from whatever needs a setting first.
struct Context {
  bool is_eager = false;          // SINTER_EAGER=1: evaluate each op at once
  bool checks = false;            // SINTER_CHECK=1: verifier after every pass, more purity checks
  bool is_disabled = false;       // SINTER_DISABLE=1: compile() runs the plain function
  bool compiles_at_once = false;  // SINTER_COMPILE=1: lazy graphs compile when they are first run
  bool outlines = true;           // SINTER_OUTLINE=0: the whole graph as one plan, no calls of regions
  bool allows_fallback = false;   // SINTER_FALLBACK=1: what the back end of a device declines runs on the CPU
  std::int64_t hot = 10;          // SINTER_HOT: runs before a lazy graph is compiled
  std::int64_t threads = 0;  // SINTER_THREADS: for large kernels, when the pool starts; 0: the processors we may run on
  std::string logs;          // SINTER_LOGS: comma-separated topics
  /// Receives every log line; replaceable. The default writes to std::clog.
  std::function<void(std::string_view topic, std::string_view line)> sink;

  static Context& get();
};

/// True when Context::logs names the topic, or "all".
bool is_logged(std::string_view topic);
/// Sends one line to the sink if the topic is logged.
void note(std::string_view topic, std::string_view line);
/// Sends one line to the sink whatever SINTER_LOGS says: for what a user must see. Such lines are rare.
void warn(std::string_view topic, std::string_view line);

SINTER_NAMESPACE_END
