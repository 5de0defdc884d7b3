// What fork() does: closes the gate, waits, and opens it again in the parent and in the child.
#pragma once

#include <sinter/base/fork.hpp>

#include <array>
#include <chrono>
#include <cstddef>
#include <thread>
#if defined(__unix__) || defined(__APPLE__)
#include <pthread.h>
#endif

SINTER_NAMESPACE_BEGIN

namespace base_detail {

template <class F>
using ForkFunctions = std::array<std::atomic<F*>, 16>;
inline constinit ForkFunctions<bool()> fork_waits_for{};
inline constinit ForkFunctions<void()> forked_child_functions{};

template <class F>
void add_fork_function(ForkFunctions<F>& list, F* function) noexcept {
  for (auto& place : list) {
    F* found = nullptr;
    if (place.compare_exchange_strong(found, function) || found == function) return;
  }
}

/// Yields at first, then sleeps. True as long as there is time left.
inline bool wait_a_little(int round, std::chrono::steady_clock::time_point until) noexcept {
  if (round < 100) std::this_thread::yield();
  else std::this_thread::sleep_for(std::chrono::microseconds(50));
  return std::chrono::steady_clock::now() < until;
}

inline bool is_anybody_inside(int own) noexcept {
  if (fork_gate.inside.load() > own) return true;
  for (auto& place : fork_waits_for)
    if (auto* is_busy = place.load(); is_busy != nullptr && is_busy()) return true;
  return false;
}

inline void before_fork() noexcept {
  fork_gate.closings.fetch_add(1);
  // A thread that forks inside a section of its own may be what the others wait for: then they get a moment only. The
  // other limit is for a function of the user that waits for the forking thread: a fork must not hang.
  const int own = fork_section_depth() > 0 ? 1 : 0;
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(own != 0 ? 200 : 10'000);
  ++fork_section_depth();  // what is asked below may open sections, and this thread must not wait at its own gate
  for (int round = 0; is_anybody_inside(own) && wait_a_little(round, until); ++round) {}
  --fork_section_depth();
}
inline void after_fork_in_parent() noexcept { fork_gate.closings.fetch_sub(1); }
inline void after_fork_in_child() noexcept {
  fork_gate.inside = fork_section_depth() > 0 ? 1 : 0;
  fork_gate.closings = 0;
  for (auto& place : forked_child_functions)
    if (auto* forget = place.load()) forget();
}

/// Once in a process: the functions must not run twice, which would close the gate in a child for ever.
inline void arm_fork_gate() noexcept {
  static constinit std::atomic<bool> is_armed{false};
  int not_armed = ForkGate::not_armed;
  if (!is_armed.exchange(true)) {
#if defined(__unix__) || defined(__APPLE__)
    pthread_atfork(&before_fork, &after_fork_in_parent, &after_fork_in_child);
#endif
    fork_gate.closings.compare_exchange_strong(not_armed, 0);
  }
  for (int round = 0; fork_gate.closings.load() == ForkGate::not_armed; ++round) wait_a_little(round, {});
}

SINTER_DECL void pass_closed_fork_gate() noexcept {
  if (fork_gate.closings.load() == ForkGate::not_armed) arm_fork_gate();
  while (fork_gate.closings.load() > 0) {
    fork_gate.inside.fetch_sub(1);
    for (int round = 0; fork_gate.closings.load() > 0; ++round) wait_a_little(round, {});
    fork_gate.inside.fetch_add(1);
  }
}

}  // namespace base_detail

SINTER_DECL void wait_before_fork(bool (*is_busy)()) noexcept {
  const ForkSection armed;
  base_detail::add_fork_function(base_detail::fork_waits_for, is_busy);
}
SINTER_DECL void in_forked_child(void (*forget)()) noexcept {
  const ForkSection armed;
  base_detail::add_fork_function(base_detail::forked_child_functions, forget);
}

SINTER_NAMESPACE_END
