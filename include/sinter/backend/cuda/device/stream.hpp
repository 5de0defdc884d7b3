// A stream of a GPU, as the pool and the devices know it.
#pragma once

#include <sinter/base/config.hpp>

#include <atomic>
#include <cstdint>

struct CUstream_st;

SINTER_NAMESPACE_BEGIN
namespace cuda {

/// A stream of a device. Objects live as long as the process; the streams of handles that are gone are used again.
struct StreamState {
  CUstream_st* handle = nullptr;
  int device = 0;
  std::uint64_t id = 0;  // never 0
  /// Streams whose work this one's was ordered behind (bits of fault records): a synchronisation reports what went
  /// wrong there, too.
  mutable std::atomic<std::uint64_t> follows{0};
};

}  // namespace cuda
SINTER_NAMESPACE_END
