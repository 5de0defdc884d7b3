// SerialSection: a stretch of code that wakes no worker thread. Knows nothing of the pool.
#pragma once

#include <sinter/base/config.hpp>

#include <utility>

SINTER_NAMESPACE_BEGIN

namespace base_detail {
/// True while this thread runs chunks: a nested parallel_for stays on it.
inline bool& inside_chunk() noexcept {
  static thread_local constinit bool inside = false;
  return inside;
}
}  // namespace base_detail

/// While one that is on lives, parallel_for of this thread runs on the caller alone.
class [[nodiscard]] SerialSection {
 public:
  explicit SerialSection(bool is_on = true) noexcept : is_on_(is_on) {
    if (is_on_) before_ = std::exchange(base_detail::inside_chunk(), true);
  }
  ~SerialSection() {
    if (is_on_) base_detail::inside_chunk() = before_;
  }
  SerialSection(const SerialSection&) = delete;
  SerialSection& operator=(const SerialSection&) = delete;

 private:
  bool is_on_, before_ = false;
};

SINTER_NAMESPACE_END
