// What calls of compiled functions may still see is destroyed once they have ended: a call opens a section, and whoever
// takes versions out of reach hands them over here. A section costs a few plain stores; the other side pays with a
// barrier in all threads. Knows nothing of versions.
#pragma once

#include <sinter/base/config.hpp>

#include <atomic>
#include <cstdint>
#include <memory>

SINTER_NAMESPACE_BEGIN
namespace jit {

namespace jit_detail {
/// Of one thread. `epoch` is odd while its outermost section is open.
struct alignas(64) CallMark {
  std::atomic<std::uint64_t> epoch{0};
  int depth = 0;
};
inline CallMark*& own_call_mark() noexcept {
  static thread_local constinit CallMark* mark = nullptr;
  return mark;
}
CallMark* take_call_mark();
}  // namespace jit_detail

/// While one is open in a thread, what it finds in compiled functions stays. Sections nest; one belongs to its thread.
class CallSection {
 public:
  CallSection() : mark_(jit_detail::own_call_mark()) {
    if (SINTER_UNLIKELY(mark_ == nullptr)) mark_ = jit_detail::take_call_mark();
    if (mark_->depth++ == 0) advance(std::memory_order_relaxed);
    std::atomic_signal_fence(
        std::memory_order_seq_cst);  // against the compiler; destroy_after_calls() sees to the processor
  }
  CallSection(const CallSection&) = delete;
  CallSection& operator=(const CallSection&) = delete;
  ~CallSection() {
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (--mark_->depth == 0) advance(std::memory_order_release);
  }

 private:
  void advance(std::memory_order order) noexcept {
    mark_->epoch.store(mark_->epoch.load(std::memory_order_relaxed) + 1, order);
  }
  jit_detail::CallMark* mark_;
};

/// Takes over what new calls no longer find; drops it when the calls that are open now have ended: at once, or when
/// this is called again. Where the system has no barrier for all threads of a process, it is kept.
void destroy_after_calls(std::shared_ptr<const void> what);

}  // namespace jit
SINTER_NAMESPACE_END
