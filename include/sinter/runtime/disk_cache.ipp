// Entries on disk: a header, the key, the value. The folder and its files are readable by their owner alone, since what
// is read from here is run.
#pragma once

#include <sinter/runtime/disk_cache.hpp>

#include <sinter/base/context.hpp>
#include <sinter/base/fork.hpp>
#include <sinter/base/hash.hpp>
#include <sinter/base/index.hpp>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

SINTER_NAMESPACE_BEGIN

namespace runtime_detail {

/// Start of each entry. Numbers are in this machine's byte order; a file from another one is damaged.
struct EntryHeader {
  std::uint64_t magic, version, key_bytes, value_bytes;
  std::uint64_t check_low, check_high;  // hash of key and value
};
inline constexpr std::uint64_t entry_magic = 0x45484341434E4953;  // "SINCACHE"
inline constexpr std::uint64_t entry_version = 1;
inline constexpr std::uint64_t largest_entry = std::uint64_t{1} << 30;

struct DiskCounters {
  std::atomic<std::int64_t> hits{0}, misses{0}, damaged{0}, stores{0}, failures{0};
  static DiskCounters& instance() { return process_object<DiskCounters>(); }
};

inline Hash128 check_of(std::string_view key, std::string_view value) { return Hasher{}.add(key).add(value).finish(); }

inline std::string hex_text(const Hash128& hash) {
  char text[40];
  std::snprintf(text, sizeof text, "%016llx%016llx", static_cast<unsigned long long>(hash.high),
                static_cast<unsigned long long>(hash.low));
  return text;
}

class File {
 public:
  explicit File(int handle) : handle_(handle) {}
  ~File() {
    if (handle_ >= 0) ::close(handle_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  bool is_open() const { return handle_ >= 0; }
  int handle() const { return handle_; }

  bool read_exactly(void* to, std::size_t bytes) const {
    for (std::size_t done = 0; done < bytes;) {
      const ssize_t now = ::read(handle_, static_cast<char*>(to) + done, bytes - done);
      if (now < 0 && errno == EINTR) continue;
      if (now <= 0) return false;
      done += as_index(now);
    }
    return true;
  }
  bool write_exactly(const void* from, std::size_t bytes) const {
    for (std::size_t done = 0; done < bytes;) {
      const ssize_t now = ::write(handle_, static_cast<const char*>(from) + done, bytes - done);
      if (now < 0 && errno == EINTR) continue;
      if (now <= 0) return false;
      done += as_index(now);
    }
    return true;
  }

 private:
  int handle_;
};

/// The value of a whole entry; `is_damaged` tells a file that is there and unusable.
inline std::optional<std::string> read_entry(const std::string& path, std::string_view key, bool& is_damaged) {
  const File file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  is_damaged = file.is_open();
  struct stat status{};
  EntryHeader header{};
  if (!file.is_open() || ::fstat(file.handle(), &status) != 0 || !S_ISREG(status.st_mode)) return {};
  if (status.st_uid != ::geteuid() || (status.st_mode & (S_IWGRP | S_IWOTH)) != 0)
    return {};  // others may have written it
  if (!file.read_exactly(&header, sizeof header)) return {};
  if (header.magic != entry_magic || header.version != entry_version || header.key_bytes != key.size() ||
      header.value_bytes > largest_entry)
    return {};
  if (static_cast<std::uint64_t>(status.st_size) != sizeof header + header.key_bytes + header.value_bytes) return {};
  std::string stored_key(header.key_bytes, '\0'), value(header.value_bytes, '\0');
  if (!file.read_exactly(stored_key.data(), stored_key.size()) || !file.read_exactly(value.data(), value.size()))
    return {};
  const Hash128 check = check_of(stored_key, value);
  if (stored_key != key || check.low != header.check_low || check.high != header.check_high) return {};
  is_damaged = false;
  return value;
}

/// Makes a folder and those above it, for the owner alone. A home that is not there is not for us to make.
inline bool make_folders(const std::string& path) {
  const char* const home = std::getenv("HOME");
  for (std::size_t at = 1; at <= path.size(); ++at) {
    if (at != path.size() && path[at] != '/') continue;
    if (home != nullptr && path.compare(0, at, home) == 0 && ::access(home, F_OK) != 0) return false;
    if (::mkdir(path.substr(0, at).c_str(), 0700) != 0 && errno != EEXIST) return false;
  }
  return true;
}

inline bool write_entry(const std::string& folder, const std::string& path, std::string_view key,
                        std::string_view value) {
  if (!make_folders(folder)) return false;
  std::string temporary = path + ".XXXXXX";  // a name of our own: other processes may be writing the same entry
  const File file(::mkostemp(temporary.data(), O_CLOEXEC));  // 0600
  if (!file.is_open()) return false;
  const Hash128 check = check_of(key, value);
  const EntryHeader header{entry_magic, entry_version, key.size(), value.size(), check.low, check.high};
  const bool is_whole = file.write_exactly(&header, sizeof header) && file.write_exactly(key.data(), key.size()) &&
                        file.write_exactly(value.data(), value.size());
  if (is_whole && ::rename(temporary.c_str(), path.c_str()) == 0) return true;
  ::unlink(temporary.c_str());
  return false;
}
}  // namespace runtime_detail

SINTER_DECL DiskCache DiskCache::standard() {
  const char* chosen = std::getenv("SINTER_CACHE_DIR");
  if (chosen != nullptr && *chosen != '\0')
    return DiskCache(std::strcmp(chosen, "off") == 0 ? std::string() : std::string(chosen));
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache != nullptr && *cache == '/')
    return DiskCache(std::string(cache) + "/sinter");
  if (const char* home = std::getenv("HOME"); home != nullptr && *home == '/')
    return DiskCache(std::string(home) + "/.cache/sinter");
  return DiskCache(std::string());
}

SINTER_DECL std::string DiskCache::path_of(std::string_view key) const {
  return folder_ + "/" + runtime_detail::hex_text(Hasher{}.add(key).finish());
}

SINTER_DECL std::optional<std::string> DiskCache::find(std::string_view key) const {
  if (folder_.empty()) return {};
  auto& counters = runtime_detail::DiskCounters::instance();
  bool is_damaged = false;
  std::optional<std::string> value = runtime_detail::read_entry(path_of(key), key, is_damaged);
  (value ? counters.hits : counters.misses).fetch_add(1, std::memory_order_relaxed);
  if (is_damaged) counters.damaged.fetch_add(1, std::memory_order_relaxed);
  return value;
}

SINTER_DECL void DiskCache::store(std::string_view key, std::string_view value) const noexcept {
  if (folder_.empty()) return;
  auto& counters = runtime_detail::DiskCounters::instance();
  try {
    if (runtime_detail::write_entry(folder_, path_of(key), key, value)) {
      counters.stores.fetch_add(1, std::memory_order_relaxed);
      return;
    }
    const int reason = errno;
    if (counters.failures.fetch_add(1, std::memory_order_relaxed) == 0)
      note("cache", "cannot write to " + folder_ + ": " + std::strerror(reason));
  } catch (...) {  // out of memory, or the user's log sink threw: the entry is not stored
    counters.failures.fetch_add(1, std::memory_order_relaxed);
  }
}

SINTER_DECL DiskCacheStats disk_cache_stats() {
  auto& counters = runtime_detail::DiskCounters::instance();
  return {counters.hits, counters.misses, counters.damaged, counters.stores, counters.failures};
}

SINTER_NAMESPACE_END
