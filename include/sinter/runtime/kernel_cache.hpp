// The kernel cache: one per process, keyed by what is computed (Kernel), how (Schedule) and by whom (the back end's
// cache_key), with an equality check on every hit. Repeated blocks and functions share code by it. Knows no plans.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/runtime/backend.hpp>

#include <cstdint>
#include <memory>
#include <string>

SINTER_NAMESPACE_BEGIN

struct KernelCacheStats {
  std::int64_t hits = 0;
  std::int64_t misses = 0;  // compilations
  std::int64_t entries = 0;
  std::int64_t evictions = 0;
  std::int64_t code_bytes = 0;           // of the entries held
  std::int64_t compile_nanoseconds = 0;  // sum over all compilations
};

/// The executable of the kernel under a schedule; compiled if there is none. Null if the back end declines, with the
/// reason. Concurrent callers of one key wait for one compilation. A kernel that is known costs the back end nothing.
std::shared_ptr<const Executable> compiled_kernel(Backend& backend, const Kernel& kernel, const Schedule& schedule = {},
                                                  std::string* why_declined = nullptr);

KernelCacheStats kernel_cache_stats();
/// Drops the cache's references; plans keep theirs.
void clear_kernel_cache();
/// Bytes of code, and of what each entry holds beside it (6 KiB), above which the least recently used entries are
/// dropped. Default 256 MiB.
void set_kernel_cache_limit(std::int64_t bytes);

SINTER_NAMESPACE_END
