// A limit to the threads that parallel_for of this thread calls, beside that of the process. Knows nothing of the pool.
#pragma once

#include <sinter/base/config.hpp>

SINTER_NAMESPACE_BEGIN
namespace base_detail {

/// Threads that a parallel_for of this thread may use, the caller included; 0: as many as the process may.
inline int& thread_limit() noexcept {
  static thread_local constinit int limit = 0;
  return limit;
}

}  // namespace base_detail
SINTER_NAMESPACE_END
