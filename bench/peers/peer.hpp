// What programs of peers share: the rows' form, and settings of libraries that are read before `main`.
#pragma once

#include "../comparison.hpp"
#include "../eigen_peers.hpp"

#include <unistd.h>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace bench {

inline std::vector<float> normal_numbers(std::int64_t count, unsigned seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) value = normal(random);
  return values;
}

/// Calls the peer once, compares what it wrote to `result` with `expected`, and times it.
template <class Call>
void time_checked(benchmark::State& state, const char* peer_name, std::span<const float> result,
                  std::span<const float> expected, double tolerance, Call&& call) {
  call();
  if (!agree(state, result, expected, tolerance)) return;
  state.SetLabel(peer_name);
  time_alone(state, call);
}

/// Starts this program again with those of the variables that are not set yet.
inline void set_environment(char** argv, std::initializer_list<std::pair<const char*, std::string>> variables) {
  bool has_changed = false;
  for (const auto& [name, value] : variables) {
    if (std::getenv(name) != nullptr) continue;
    setenv(name, value.c_str(), 0);
    has_changed = true;
  }
  if (has_changed) execv("/proc/self/exe", argv);
}

/// As bench::run; tools/bench takes the rows as those of a peer of rows with the same names, and labels as the peer's
/// name.
inline int run_peer(int argc, char** argv) {
  benchmark::AddCustomContext("is_peer", "yes");
  return run(argc, argv);
}

}  // namespace bench
