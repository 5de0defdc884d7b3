// The stance of each thread.
#pragma once

#include <sinter/jit/call/stance.hpp>

#include <utility>

SINTER_NAMESPACE_BEGIN
namespace jit {

namespace jit_detail {
inline Stance& stance_of_thread() noexcept {
  static thread_local constinit Stance stance = Stance::default_;
  return stance;
}
}  // namespace jit_detail

SINTER_DECL std::string_view name(Stance stance) {
  switch (stance) {
    case Stance::default_: return "default_";
    case Stance::force_eager: return "force_eager";
    case Stance::eager_on_recompile: return "eager_on_recompile";
    case Stance::fail_on_recompile: return "fail_on_recompile";
    case Stance::eager_then_compile: return "eager_then_compile";
  }
  __builtin_unreachable();
}

SINTER_DECL Stance current_stance() noexcept { return jit_detail::stance_of_thread(); }

SINTER_DECL StanceGuard::StanceGuard(Stance stance) noexcept
    : before_(std::exchange(jit_detail::stance_of_thread(), stance)) {}
SINTER_DECL StanceGuard::~StanceGuard() { jit_detail::stance_of_thread() = before_; }

}  // namespace jit
SINTER_NAMESPACE_END
