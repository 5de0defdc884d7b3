// Memory of a thread for rows and tiles of loops in progress. Knows no kernels.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/per_thread.hpp>

#include <cstddef>
#include <new>

SINTER_NAMESPACE_BEGIN
namespace x86 {
namespace x86_detail {

/// This thread's scratch memory; grows, and lives as long as the thread.
inline void* thread_scratch(std::size_t bytes) {
  struct Buffer {
    void* data = nullptr;
    std::size_t size = 0;
    ~Buffer() { ::operator delete(data, std::align_val_t{64}); }
  };
  Buffer& buffer = thread_object([] { return new Buffer; });
  if (buffer.size < bytes) {
    ::operator delete(buffer.data, std::align_val_t{64});
    buffer.data = nullptr;
    buffer.size = 0;
    buffer.data = ::operator new(bytes, std::align_val_t{64});
    buffer.size = bytes;
  }
  return buffer.data;
}

}  // namespace x86_detail
}  // namespace x86
SINTER_NAMESPACE_END
