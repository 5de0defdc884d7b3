// The queue of the loop that a thread is in, if any: what runs of a device's frames enqueue goes there, and whoever
// touches the device in another way has it flushed before. Knows no plans.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/runtime/backend.hpp>

#include <utility>

SINTER_NAMESPACE_BEGIN
namespace runtime_detail {

inline IterationQueue*& current_iterations() noexcept {
  static thread_local constinit IterationQueue* queue = nullptr;
  return queue;
}
inline void flush_iterations() {
  if (IterationQueue* const queue = current_iterations(); SINTER_UNLIKELY(queue != nullptr)) queue->flush();
}

/// For what enqueues work of its own.
class WithoutIterations {
 public:
  WithoutIterations() {
    flush_iterations();
    before_ = std::exchange(current_iterations(), nullptr);
  }
  ~WithoutIterations() { current_iterations() = before_; }
  WithoutIterations(const WithoutIterations&) = delete;
  WithoutIterations& operator=(const WithoutIterations&) = delete;

 private:
  IterationQueue* before_ = nullptr;
};

}  // namespace runtime_detail
SINTER_NAMESPACE_END
