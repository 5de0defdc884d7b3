// What the environment may say: each case is a process of its own, for settings are read once.
#include "catch.hpp"
#include "checks.hpp"
#include "run_again.hpp"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

using namespace sinter;

namespace {
/// What the hidden test below prints under these settings.
std::string settings_under(const std::string& settings) { return under(settings, "[.settings]"); }
}  // namespace

TEST_CASE("settings as this process has them", "[.settings]") {
  for (int attempt = 0; attempt < 2; ++attempt) {  // an error comes back at each use
    try {
      const Tensor x = ones({2}) + 1;
      const Context& context = Context::get();
      std::printf("logs=%s hot=%d threads=%d recompiles=%d\n", context.logs.c_str(), static_cast<int>(context.hot),
                  thread_count(), is_logged("recompiles"));
    } catch (const UserError& error) { std::printf("%s\n", error.what()); }
  }
}

TEST_CASE("environment: values that mean nothing are errors that name what may be said") {
  const std::string text = settings_under("SINTER_LOGS=guards,kernel");
  CHECK(occurrences(text, "sinter::UserError: SINTER_LOGS: 'kernel' is no topic of the log") == 2);
  for (const char* topic : {"all", "recompiles", "graph_breaks", "kernels", "memory", "autotune"})
    CHECK(has(text, topic));
  CHECK(occurrences(settings_under("SINTER_HOT=soon"), "sinter::UserError: SINTER_HOT: 'soon'") == 2);
  CHECK(occurrences(settings_under("SINTER_THREADS=-2"), "sinter::UserError: SINTER_THREADS: '-2'") == 2);
}

TEST_CASE("environment: lists of topics, and numbers") {
  CHECK(has(settings_under("SINTER_LOGS='guards, recompiles' SINTER_HOT=3 SINTER_THREADS=1"),
            "logs=guards, recompiles hot=3 threads=1 recompiles=1"));
  CHECK(has(settings_under("SINTER_LOGS=guards,all"), "recompiles=1"));
  CHECK(has(settings_under("SINTER_LOGS= SINTER_HOT= SINTER_THREADS="), "logs= hot=10"));
  CHECK(has(settings_under("SINTER_LOGS=guards"), "recompiles=0"));
}
