// The loop of every fuzzer: which seeds, for how long. SINTER_FUZZ_SECONDS sets the time of each test case (default 5),
// SINTER_FUZZ_ROUNDS the number of seeds instead, SINTER_FUZZ_FIRST the first seed, and SINTER_FUZZ_SEED runs exactly
// one.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <optional>

namespace sinter_test {

/// The number in an environment variable, if it is set.
inline std::optional<std::uint64_t> number_from_environment(const char* name) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::optional(std::uint64_t{std::strtoull(text, nullptr, 0)}) : std::nullopt;
}

/// The one seed to run, if the environment asks for one.
inline std::optional<std::uint64_t> only_seed() { return number_from_environment("SINTER_FUZZ_SEED"); }

/// Calls `run(seed)` for the one seed asked for, or from `first` on as often as is asked for, or until the time is over.
/// Returns how many calls it made.
template <class Run>
std::uint64_t fuzz_loop(std::uint64_t first, Run&& run) {
  if (const auto only = only_seed()) {
    run(*only);
    return 1;
  }
  const char* seconds = std::getenv("SINTER_FUZZ_SECONDS");
  const auto end =
      std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds != nullptr ? std::atof(seconds) : 5);
  first = number_from_environment("SINTER_FUZZ_FIRST").value_or(first);
  std::uint64_t seed = first;
  if (const auto rounds = number_from_environment("SINTER_FUZZ_ROUNDS")) {
    for (; seed - first < *rounds; ++seed) run(seed);
    return *rounds;
  }
  for (; std::chrono::steady_clock::now() < end; ++seed) run(seed);
  return seed - first;
}

}  // namespace sinter_test
