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
