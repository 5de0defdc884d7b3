// What users and compiled functions see of the code cache (docs/code_cache.md): figures, and when it is written. Knows
// no files.
#pragma once

#include <sinter/base/config.hpp>

#include <cstdint>

SINTER_NAMESPACE_BEGIN

/// Figures of this process. A kernel may have several pieces of code, and products share theirs.
struct CodeCacheStats {
  std::int64_t generated = 0;  // pieces of machine code that this process generated ...
  std::int64_t loaded = 0;     // ... and those that it took from the cache instead
  std::int64_t damaged = 0;    // found, but not usable
  std::int64_t stored = 0;     // written by this process
  std::int64_t dropped = 0;    // entries that made room for newer ones
  std::int64_t failures = 0;   // batches that could not be written; the first is logged (topic "cache")
  std::int64_t bytes = 0;      // of the program's file, when it was read or written last
};
CodeCacheStats code_cache_stats();

/// Writes what was compiled since the last time to disk. Else that happens about a second later, in a thread of its
/// own, and at exit; a program that ends in another way (_exit, a signal) may call this before.
void write_code_cache();

namespace runtime_detail {

/// Pieces of code that this thread generated, and that it loaded instead.
struct CodeCount {
  std::int64_t generated = 0, loaded = 0;
};
inline CodeCount& code_count_of_thread() noexcept {
  static thread_local constinit CodeCount count;
  return count;
}
/// What this thread has generated and loaded since it was made.
class CodeCounting {
 public:
  CodeCount so_far() const noexcept {
    const CodeCount& now = code_count_of_thread();
    return {now.generated - before_.generated, now.loaded - before_.loaded};
  }

 private:
  const CodeCount before_ = code_count_of_thread();
};

}  // namespace runtime_detail
SINTER_NAMESPACE_END
