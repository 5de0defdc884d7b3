// Stance: what a call of a compiled function may do on this thread, set for a stretch of code. Must not know functions
// or graphs; the typed half asks it before a call, the untyped half when no compiled version fits.
#pragma once

#include <sinter/base/config.hpp>

#include <cstdint>
#include <string_view>

SINTER_NAMESPACE_BEGIN
namespace jit {

/// What a call of a compiled function may do. A call that some compiled version fits runs it under every stance but
/// force_eager; the stances differ in what happens when none fits. The first compilation counts as one, too.
enum class Stance : std::uint8_t {
  default_,            // compile; past Options::recompile_limit run the function uncompiled, and say so
  force_eager,         // always run the function uncompiled
  eager_on_recompile,  // never compile: run the function uncompiled
  fail_on_recompile,  // a first version may be compiled, a further one throws RecompileError with the guard that failed
  eager_then_compile,  // run a function's first call uncompiled; what changed by the second becomes dynamic at once
};
std::string_view name(Stance stance);

/// The stance of this thread.
Stance current_stance() noexcept;

namespace jit_detail {
/// What a call asks of its thread before it goes the short way, in one byte: the stance, and whether scopes change
/// anything (scope.hpp).
class ThreadMode {
 public:
  Stance stance() const { return static_cast<Stance>(bits_ & stance_bits); }
  bool is_eager() const { return (bits_ & eager) != 0; }
  bool is_special() const { return (bits_ & (eager | scoped)) != 0; }
  bool is_scoped() const { return (bits_ & scoped) != 0; }
  void set(Stance stance) {
    bits_ = static_cast<std::uint8_t>((bits_ & scoped) | static_cast<unsigned>(stance) |
                                      (stance == Stance::force_eager ? eager : 0u));
  }
  void set_scoped(bool is_on) { bits_ = static_cast<std::uint8_t>((bits_ & ~scoped) | (is_on ? scoped : 0u)); }

 private:
  static constexpr unsigned stance_bits = 7, eager = 64, scoped = 128;
  std::uint8_t bits_ = 0;
};
inline ThreadMode& mode_of_thread() noexcept {
  static thread_local constinit ThreadMode mode;
  return mode;
}
}  // namespace jit_detail

/// Sets the stance of this thread while it lives; guards nest. Calls that other threads make are not touched.
class [[nodiscard]] StanceGuard {
 public:
  explicit StanceGuard(Stance stance) noexcept;
  ~StanceGuard();
  StanceGuard(const StanceGuard&) = delete;
  StanceGuard& operator=(const StanceGuard&) = delete;

 private:
  Stance before_;
};

}  // namespace jit
SINTER_NAMESPACE_END
