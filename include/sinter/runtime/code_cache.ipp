// Reading, merging, eviction, and the lock that keeps processes from losing each other's entries.
#pragma once

#include <sinter/runtime/code_cache.hpp>

#include <sinter/base/context.hpp>
#include <sinter/base/index.hpp>
#include <sinter/runtime/code_pack.ipp>

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <ctime>
#include <exception>
#include <limits>
#include <mutex>
#include <new>
#include <thread>
#include <utility>

SINTER_NAMESPACE_BEGIN
namespace runtime_detail {

inline constexpr std::string_view pack_ending = ".code";

inline std::uint64_t hours_now() {
  const auto since = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::hours>(since).count());
}

/// Opens a folder that only we have rights to; else `why` says what is wrong (empty: there is none).
inline int open_private_folder(const std::string& path, std::string& why) {
  const int folder = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
  if (folder < 0) {
    if (errno != ENOENT) why = std::strerror(errno);
    return -1;
  }
  struct stat status{};
  why = ::fstat(folder, &status) != 0 ? std::string_view(std::strerror(errno)) : why_not_private(status);
  if (why.empty()) return folder;
  ::close(folder);
  return -1;
}

/// The folder's lock, which the system drops when a process dies.
class FolderLock {
 public:
  /// Waits a little. Where the file system has no locks there is none: then one of two processes that write at the same
  /// time loses what it wrote, and no more.
  explicit FolderLock(int folder)
      : file_(::openat(folder, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, S_IRUSR | S_IWUSR)) {
    for (int round = 0; file_.is_open() && round < 40; ++round) {
      is_held_ = ::flock(file_.handle(), LOCK_EX | LOCK_NB) == 0;
      if (is_held_ || errno != EWOULDBLOCK) break;
      is_busy_ = round == 39;
      if (!is_busy_) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;
  ~FolderLock() {
    if (is_held_) ::flock(file_.handle(), LOCK_UN);  // a forked child may have the file open, too
  }
  bool is_held() const { return is_held_; }
  bool is_busy() const { return is_busy_; }

 private:
  File file_;
  bool is_held_ = false, is_busy_ = false;
};

SINTER_DECL CodeCache::CodeCache(std::string folder, std::string version, std::int64_t limit_bytes)
    : folder_(version.empty() || limit_bytes <= 0 ? std::string() : std::move(folder)),
      version_(std::move(version)),
      name_(hex_text(checksum(version_)) + std::string(pack_ending)),
      limit_(static_cast<std::uint64_t>(std::max<std::int64_t>(limit_bytes, 0))) {}

/// The caller holds the lock. What is wrong, for the log. Packs that are in use become younger, for others' eviction.
SINTER_DECL std::string CodeCache::open() {
  is_open_ = true;
  pack_ = nullptr;
  std::string why;
  const File folder(open_private_folder(folder_, why));
  if (folder.is_open() && CodePack::open(folder.handle(), name_, version_, pack_, why) == CodePack::Opened::whole) {
    bytes_ = static_cast<std::int64_t>(pack_->bytes());
    struct stat status{};
    if (::fstatat(folder.handle(), name_.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 &&
        status.st_mtime + 24 * 3600 < std::time(nullptr))
      ::utimensat(folder.handle(), name_.c_str(), nullptr, AT_SYMLINK_NOFOLLOW);
  }
  if (why.empty()) return {};
  damaged_.fetch_add(1, std::memory_order_relaxed);
  return "code is not read from " + (folder.is_open() ? path() : folder_) + ": " + why;
}

SINTER_DECL std::optional<FoundCode> CodeCache::find_kept(const Hash128& hash, std::string_view key) const {
  for (const NewPackEntry& entry : kept_)
    if (entry.hash == hash && std::string_view(entry.bytes).substr(0, entry.key_bytes) == key)
      return FoundCode{entry.bytes, key.size()};
  return {};
}

/// Looks through the entries of one hash. False: the file is not that pack any more.
SINTER_DECL bool CodeCache::find_in(const CodePack& pack, std::size_t at, std::string_view key,
                                    std::optional<FoundCode>& found) {
  std::string why;
  const File folder(open_private_folder(folder_, why));
  if (!folder.is_open()) return false;
  const File file(pack.reopen(folder.handle()));
  if (!file.is_open()) return false;
  const std::span<const PackEntry> entries = pack.entries();
  const Hash128 hash = entries[at].hash;
  for (; !found && at < entries.size() && entries[at].hash == hash; ++at) {
    if (entries[at].key_bytes != key.size()) continue;
    std::optional<std::string> both = pack.read(file.handle(), entries[at]);
    if (!both) damaged_.fetch_add(1, std::memory_order_relaxed);
    if (!both || std::string_view(*both).substr(0, key.size()) != key) continue;
    found = FoundCode{std::move(*both), key.size()};
    const std::scoped_lock lock(mutex_);
    used_.push_back(hash);
  }
  return true;
}

SINTER_DECL std::optional<FoundCode> CodeCache::find(std::string_view key) {
  if (holds_nothing()) return {};
  const Hash128 hash = checksum(key);
  std::string problem;
  std::shared_ptr<const CodePack> pack;
  std::optional<FoundCode> found;
  for (bool is_current = false; !is_current && !found;) {
    {
      const std::scoped_lock lock(mutex_);
      const bool is_replaced = pack != nullptr && pack == pack_;  // by another process: once more
      const bool is_second = pack != nullptr;
      if (!is_open_ || is_replaced) problem = open();
      found = find_kept(hash, key);
      pack = pack_;
      is_current = is_second;
    }
    if (!problem.empty()) note("cache", std::exchange(problem, {}));
    if (found || pack == nullptr) break;
    const std::size_t at = pack->find(hash);
    if (at == pack->entries().size() || !(pack->entries()[at].hash == hash)) break;
    if (find_in(*pack, at, key, found)) break;
  }
  if (found) loaded_.fetch_add(1, std::memory_order_relaxed);
  return found;
}

SINTER_DECL bool CodeCache::keep(std::string_view key, std::string_view value) noexcept {
  if (holds_nothing() || key.size() + value.size() > limit_ / 4) return false;
  try {
    NewPackEntry entry{checksum(key), static_cast<std::uint32_t>(key.size()), std::string(), hours_now()};
    entry.bytes.reserve(key.size() + value.size());
    entry.bytes.append(key).append(value);
    const std::scoped_lock lock(mutex_);
    if (find_kept(entry.hash, key)) return false;  // another thread generated it at the same time
    kept_.push_back(std::move(entry));
    return true;
  } catch (...) {  // out of memory: it is not kept
    return false;
  }
}

SINTER_DECL bool CodeCache::has_kept() const noexcept {
  const std::scoped_lock lock(mutex_);
  return !kept_.empty();
}
SINTER_DECL void CodeCache::forget_kept() noexcept {
  kept_.clear();
  new (&writing_) std::mutex;  // a thread that is not here may hold the old one
}

/// What is to be in the file: of the old entries those that are whole, then the new ones.
SINTER_DECL std::vector<NewPackEntry> CodeCache::merged(std::vector<NewPackEntry>& batch, const CodePack* old,
                                                        int file) {
  std::vector<Hash128> used;
  {
    const std::scoped_lock lock(mutex_);
    used = used_;
  }
  std::sort(used.begin(), used.end());
  std::vector<NewPackEntry> entries;
  for (const PackEntry& entry : old != nullptr ? old->entries() : std::span<const PackEntry>()) {
    std::optional<std::string> both = old->read(file, entry);
    if (!both || entry.key_bytes > both->size()) continue;
    const std::string_view key = std::string_view(*both).substr(0, entry.key_bytes);
    const bool is_newer_here = std::any_of(batch.begin(), batch.end(), [&](const NewPackEntry& made) {
      return made.hash == entry.hash && std::string_view(made.bytes).substr(0, made.key_bytes) == key;
    });
    if (is_newer_here) continue;
    const bool is_used = std::binary_search(used.begin(), used.end(), entry.hash);
    const std::uint64_t last_use = is_used ? hours_now() : entry.last_use;
    entries.push_back({entry.hash, entry.key_bytes, std::move(*both), last_use});
  }
  entries.insert(entries.begin(), batch.begin(), batch.end());  // among equals they stay
  return entries;
}

/// Above the limit: down to three quarters of it, oldest use first.
SINTER_DECL void CodeCache::drop_oldest(std::vector<NewPackEntry>& entries) {
  const auto bytes_of = [](const NewPackEntry& entry) { return entry.bytes.size() + sizeof(PackEntry); };
  std::uint64_t bytes = sizeof(PackHeader) + version_.size();
  for (const NewPackEntry& entry : entries) bytes += bytes_of(entry);
  if (bytes <= limit_) return;
  std::vector<std::pair<std::uint64_t, std::size_t>> order;  // the youngest first, then as they are
  for (std::size_t i = 0; i < entries.size(); ++i) order.emplace_back(~entries[i].last_use, i);
  std::sort(order.begin(), order.end());
  std::vector<NewPackEntry> sorted;
  for (const auto& [age, i] : order) sorted.push_back(std::move(entries[i]));
  entries = std::move(sorted);
  for (; !entries.empty() && bytes > limit_ / 4 * 3; entries.pop_back()) {
    bytes -= bytes_of(entries.back());
    dropped_.fetch_add(1, std::memory_order_relaxed);
  }
}

/// Of packs of other versions and programs those that were used least recently, until all fit. Also what processes left
/// that were killed while they wrote. The caller holds the folder's lock.
SINTER_DECL void CodeCache::drop_other_packs(int folder) {
  struct Other {
    std::string name;
    std::time_t used;
    std::uint64_t bytes;
  };
  std::vector<Other> others;
  std::uint64_t total = 0;
  const int again = ::openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR* const list = again >= 0 ? ::fdopendir(again) : nullptr;
  if (list == nullptr) {
    if (again >= 0) ::close(again);
    return;
  }
  while (const dirent* item = ::readdir(list)) {
    const std::string name = item->d_name;
    if (name.starts_with(unfinished_pack)) ::unlinkat(folder, name.c_str(), 0);
    struct stat status{};
    if (!name.ends_with(pack_ending) || ::fstatat(folder, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) continue;
    total += static_cast<std::uint64_t>(status.st_size);
    if (name != name_) others.push_back({name, status.st_mtime, static_cast<std::uint64_t>(status.st_size)});
  }
  ::closedir(list);
  std::sort(others.begin(), others.end(), [](const Other& a, const Other& b) { return a.used < b.used; });
  for (const Other& other : others) {
    if (total <= limit_) return;
    if (::unlinkat(folder, other.name.c_str(), 0) == 0) total -= other.bytes;
  }
}

/// False: nothing was written. Where `why` is empty, another process is writing and it may be tried again.
SINTER_DECL bool CodeCache::write_batch(std::vector<NewPackEntry>& batch, std::string& why) {
  if (!make_folders(folder_)) {
    why = std::strerror(errno);
    return false;
  }
  const File folder(open_private_folder(folder_, why));
  if (!folder.is_open()) {
    if (why.empty()) why = "it went away";
    return false;
  }
  const FolderLock lock(folder.handle());
  if (lock.is_busy()) return false;
  std::shared_ptr<const CodePack> pack;
  std::string why_not_read;  // then it is replaced
  CodePack::open(folder.handle(), name_, version_, pack, why_not_read);
  const File old(pack ? pack->reopen(folder.handle()) : -1);
  std::vector<NewPackEntry> entries = merged(batch, old.is_open() ? pack.get() : nullptr, old.handle());
  drop_oldest(entries);
  if (!write_pack(folder.handle(), name_, version_, std::move(entries))) {
    why = std::strerror(errno);
    return false;
  }
  if (lock.is_held()) drop_other_packs(folder.handle());
  if (CodePack::open(folder.handle(), name_, version_, pack, why_not_read) != CodePack::Opened::whole) pack = nullptr;
  bytes_ = pack ? static_cast<std::int64_t>(pack->bytes()) : 0;
  const std::scoped_lock guard(mutex_);
  pack_ = std::move(pack);
  used_.clear();
  is_open_ = true;
  return true;
}

SINTER_DECL void CodeCache::fail(const std::string& why) noexcept {
  try {
    if (failures_.fetch_add(1, std::memory_order_relaxed) == 0 && !is_quiet_)
      note("cache", "cannot write to " + folder_ + ": " + why);
  } catch (...) {  // the user's log sink threw
  }
}

SINTER_DECL void CodeCache::write() noexcept {
  std::string why;
  try {
    const std::scoped_lock writing(writing_);
    std::vector<NewPackEntry> batch;
    {
      const std::scoped_lock lock(mutex_);
      batch.swap(kept_);
    }
    if (batch.empty()) return;
    const auto count = static_cast<std::int64_t>(batch.size());
    if (write_batch(batch, why)) {
      stored_.fetch_add(count, std::memory_order_relaxed);
      return;
    }
    if (why.empty() && is_quiet_) why = "another process is writing";  // and there is no later
    if (why.empty()) {                                                 // busy
      const std::scoped_lock lock(mutex_);
      kept_.insert(kept_.end(), std::make_move_iterator(batch.begin()), std::make_move_iterator(batch.end()));
      return;
    }
  } catch (const std::exception& error) {
    try {
      why = error.what();
    } catch (...) {  // no memory for the text
    }
  } catch (...) {  // the user's log sink threw
  }
  fail(why);
}

SINTER_DECL CodeCacheStats CodeCache::stats() const {
  CodeCacheStats stats;
  stats.loaded = loaded_;
  stats.damaged = damaged_;
  stats.stored = stored_;
  stats.dropped = dropped_;
  stats.failures = failures_;
  stats.bytes = bytes_;
  return stats;
}

}  // namespace runtime_detail
SINTER_NAMESPACE_END
