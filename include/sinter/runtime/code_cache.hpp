// The code cache: machine code of the CPU that survives the process, so that a second start of a program compiles
// nothing. All of a program's code is one pack (code_pack.hpp) in a folder of the user's own; what is new is written in
// batches, away from calls. Whatever is wrong with folder or file is a miss, never an error. Must not know what it
// holds, or who asks.
#pragma once

#include <sinter/base/code_stats.hpp>
#include <sinter/base/config.hpp>
#include <sinter/base/fork.hpp>
#include <sinter/runtime/code_pack.hpp>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

SINTER_NAMESPACE_BEGIN

namespace runtime_detail {

/// A value with the key it was found by.
struct FoundCode {
  std::string bytes;
  std::size_t key_bytes = 0;
  std::string_view value() const { return std::string_view(bytes).substr(key_bytes); }
};

/// The entries of one version of a program in one folder. Its functions may be called by several threads at once, and
/// by several processes on one folder.
class CodeCache {
 public:
  /// An empty folder or version, or no bytes: a cache that holds nothing. Nothing is read before the first find().
  CodeCache(std::string folder, std::string version, std::int64_t limit_bytes);

  bool holds_nothing() const { return folder_.empty(); }
  std::optional<FoundCode> find(std::string_view key);
  /// Keeps it for the next write(). False: it is too large, or known already.
  bool keep(std::string_view key, std::string_view value) noexcept;
  bool has_kept() const noexcept;
  /// Writes what was kept. Files of other versions make room where all together are larger than the limit.
  void write() noexcept;
  /// In a forked child: what is not written yet is its parent's to write.
  void forget_kept() noexcept;
  /// From now on nothing is logged: at exit, what the user's log writes to may be gone.
  void be_quiet() noexcept { is_quiet_ = true; }
  CodeCacheStats stats() const;
  /// Where the program's pack lies.
  std::string path() const { return folder_ + "/" + name_; }

 private:
  std::string open();
  std::optional<FoundCode> find_kept(const Hash128& hash, std::string_view key) const;
  bool write_batch(std::vector<NewPackEntry>& batch, std::string& why);
  bool find_in(const CodePack& pack, std::size_t at, std::string_view key, std::optional<FoundCode>& found);
  std::vector<NewPackEntry> merged(std::vector<NewPackEntry>& batch, const CodePack* old, int file);
  void drop_oldest(std::vector<NewPackEntry>& entries);
  void drop_other_packs(int folder);
  void fail(const std::string& why) noexcept;

  std::string folder_, version_, name_;
  std::uint64_t limit_;
  mutable ForkSafeMutex mutex_;  // guards what follows
  bool is_open_ = false;
  std::shared_ptr<const CodePack> pack_;
  std::vector<NewPackEntry> kept_;
  std::vector<Hash128> used_;  // entries of the pack
  std::mutex writing_;         // of who writes; fork() does not wait for disks
  std::atomic<bool> is_quiet_{false};
  std::atomic<std::int64_t> loaded_{0}, damaged_{0}, stored_{0}, dropped_{0}, failures_{0}, bytes_{0};
};

}  // namespace runtime_detail
SINTER_NAMESPACE_END
