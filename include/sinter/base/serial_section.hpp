// SerialSection: a stretch of code that wakes no worker thread. Knows nothing of the pool.
#pragma once

#include <sinter/base/config.hpp>

SINTER_NAMESPACE_BEGIN

/// While one that is on lives, parallel_for of this thread runs on the caller alone.
class [[nodiscard]] SerialSection {
 public:
  explicit SerialSection(bool is_on = true) noexcept;
  ~SerialSection();
  SerialSection(const SerialSection&) = delete;
  SerialSection& operator=(const SerialSection&) = delete;

 private:
  bool is_on_, before_ = false;
};

SINTER_NAMESPACE_END
