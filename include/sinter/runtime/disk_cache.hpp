// The disk cache: compiled code that survives the process. Content-addressed: an entry is found by everything that went
// into it, held in full and compared, so that a collision is a miss. Checksummed: a damaged, truncated or foreign file
// is a miss, never an error. Safe for concurrent processes: entries appear by an atomic rename. Must not know what it
// holds.
#pragma once

#include <sinter/base/config.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

SINTER_NAMESPACE_BEGIN

struct DiskCacheStats {
  std::int64_t hits = 0;
  std::int64_t misses = 0;   // damaged entries included
  std::int64_t damaged = 0;  // found, but not usable
  std::int64_t stores = 0;
  std::int64_t failures = 0;  // entries that could not be written; the first is logged (topic "cache")
};

/// A folder of entries. Cheap to make; all state is on disk and in the process's counters.
class DiskCache {
 public:
  /// SINTER_CACHE_DIR, else $XDG_CACHE_HOME/sinter, else $HOME/.cache/sinter; SINTER_CACHE_DIR=off (or no home): a
  /// cache that holds nothing.
  static DiskCache standard();
  explicit DiskCache(std::string folder) : folder_(std::move(folder)) {}

  /// The value stored under this key, if it is there and whole.
  std::optional<std::string> find(std::string_view key) const;
  /// Stores it. Failures (a full disk, no permission) are counted, not thrown.
  void store(std::string_view key, std::string_view value) const noexcept;
  const std::string& folder() const { return folder_; }
  /// Where the entry of a key lies.
  std::string path_of(std::string_view key) const;

 private:
  std::string folder_;  // empty: holds nothing
};

DiskCacheStats disk_cache_stats();

SINTER_NAMESPACE_END
