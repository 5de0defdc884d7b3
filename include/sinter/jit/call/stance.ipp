// The stance of each thread.
#pragma once

#include <sinter/jit/call/stance.hpp>

SINTER_NAMESPACE_BEGIN
namespace jit {

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

SINTER_DECL Stance current_stance() noexcept { return jit_detail::mode_of_thread().stance(); }

SINTER_DECL StanceGuard::StanceGuard(Stance stance) noexcept : before_(current_stance()) {
  jit_detail::mode_of_thread().set(stance);
}
SINTER_DECL StanceGuard::~StanceGuard() { jit_detail::mode_of_thread().set(before_); }

}  // namespace jit
SINTER_NAMESPACE_END
