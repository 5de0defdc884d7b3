// The gate that sections pass. Entering counts and then looks whether the gate is closed; fork() closes it and then looks
// at the count. Both are sequentially consistent: either the thread that enters sees the gate closed and leaves again, or
// fork() sees it inside and waits. A thread that is inside may enter further sections, so it comes out in the end.
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

struct ForkGate {
  std::atomic<int> inside{0};        // threads that have a section open
  std::atomic<int> closings{0};      // forks under way
  std::atomic<bool> is_armed{false};
  std::array<std::atomic<void (*)()>, 16> child_functions{};
};
inline ForkGate& fork_gate() noexcept {
  static constinit ForkGate gate;
  return gate;
}
inline int& fork_section_depth() noexcept {
  static thread_local constinit int depth = 0;
  return depth;
}

/// Yields at first, then sleeps. True as long as there is time left.
inline bool wait_a_little(int round, std::chrono::steady_clock::time_point until) noexcept {
  if (round < 100) std::this_thread::yield();
  else std::this_thread::sleep_for(std::chrono::microseconds(50));
  return std::chrono::steady_clock::now() < until;
}

inline void before_fork() noexcept {
  ForkGate& gate = fork_gate();
  gate.closings.fetch_add(1);
  // A thread that forks inside a section of its own may be what the others wait for: then they get a moment only. The
  // other limit is for a function of the user that waits for the forking thread: a fork must not hang.
  const int own = fork_section_depth() > 0 ? 1 : 0;
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(own != 0 ? 200 : 10'000);
  for (int round = 0; gate.inside.load() > own && wait_a_little(round, until); ++round) {
  }
}
inline void after_fork_in_parent() noexcept { fork_gate().closings.fetch_sub(1); }
inline void after_fork_in_child() noexcept {
  ForkGate& gate = fork_gate();
  gate.inside = fork_section_depth() > 0 ? 1 : 0;
  gate.closings = 0;
  for (auto& place : gate.child_functions)
    if (auto* forget = place.load()) forget();
}

/// Threads that come at the same time may each do it: the functions may run twice.
SINTER_NOINLINE inline void arm(ForkGate& gate) noexcept {
#if defined(__unix__) || defined(__APPLE__)
  pthread_atfork(&before_fork, &after_fork_in_parent, &after_fork_in_child);
#endif
  gate.is_armed = true;
}

}  // namespace base_detail

SINTER_DECL int& ForkSection::depth() noexcept { return base_detail::fork_section_depth(); }

SINTER_DECL void ForkSection::enter() noexcept {
  base_detail::ForkGate& gate = base_detail::fork_gate();
  if (SINTER_UNLIKELY(!gate.is_armed.load(std::memory_order_relaxed))) base_detail::arm(gate);
  for (;;) {
    gate.inside.fetch_add(1);
    if (SINTER_LIKELY(gate.closings.load() == 0)) return;
    gate.inside.fetch_sub(1);
    for (int round = 0; gate.closings.load() != 0; ++round) base_detail::wait_a_little(round, {});
  }
}
SINTER_DECL void ForkSection::leave() noexcept { base_detail::fork_gate().inside.fetch_sub(1); }

SINTER_DECL void in_forked_child(void (*forget)()) noexcept {
  base_detail::ForkGate& gate = base_detail::fork_gate();
  if (!gate.is_armed.load(std::memory_order_relaxed)) base_detail::arm(gate);
  for (auto& place : gate.child_functions) {
    void (*found)() = nullptr;
    if (place.compare_exchange_strong(found, forget) || found == forget) return;
  }
}

SINTER_NAMESPACE_END
