// Form of a pack: header, version, table, then keys and values. All numbers are in this machine's byte order.
#pragma once

#include <sinter/runtime/code_pack.hpp>

#include <sinter/base/index.hpp>
#include <sinter/runtime/disk_cache.ipp>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <limits>
#include <utility>

SINTER_NAMESPACE_BEGIN
namespace runtime_detail {

struct PackHeader {
  std::uint64_t magic, version_bytes, entries, file_bytes;
  Hash128 check;  // of version and table
};
inline constexpr std::uint64_t pack_magic = 0x314B434150544E53;  // "SNTPACK1"
inline constexpr std::uint64_t largest_pack = std::uint64_t{4} << 30;

/// Four lanes, so that multiplications overlap; a lane takes every fourth word.
SINTER_DECL Hash128 checksum(std::string_view bytes) {
  constexpr std::uint64_t odd = 0x9E3779B97F4A7C15ULL;
  std::uint64_t lane[4] = {bytes.size(), 1, 2, 3};
  const char* at = bytes.data();
  std::size_t left = bytes.size();
  const auto take = [&](std::uint64_t& to, std::uint64_t word) { to = std::rotl((to ^ word) * odd, 29) + odd; };
  for (; left >= 32; at += 32, left -= 32) {
    std::uint64_t words[4];
    std::memcpy(words, at, 32);
    for (int i = 0; i < 4; ++i) take(lane[i], words[i]);
  }
  for (int i = 0; left > 0; ++i) {
    std::uint64_t word = 0;
    const std::size_t now = std::min<std::size_t>(left, 8);
    std::memcpy(&word, at, now);
    take(lane[i], word);
    at += now;
    left -= now;
  }
  return Hasher{}.add(lane[0]).add(lane[1]).add(lane[2]).add(lane[3]).finish();
}

inline std::string_view as_bytes(const std::vector<PackEntry>& entries) {
  return {reinterpret_cast<const char*>(entries.data()), entries.size() * sizeof(PackEntry)};
}
inline Hash128 check_of_table(std::string_view version, const std::vector<PackEntry>& entries) {
  return Hasher{}.add(checksum(version)).add(checksum(as_bytes(entries))).finish();
}

inline bool read_at(int file, void* to, std::size_t bytes, std::uint64_t offset) {
  for (std::size_t done = 0; done < bytes;) {
    const ssize_t now = ::pread(file, static_cast<char*>(to) + done, bytes - done, static_cast<off_t>(offset + done));
    if (now < 0 && errno == EINTR) continue;
    if (now <= 0) return false;
    done += as_index(now);
  }
  return true;
}

/// Why a file or folder is not ours alone; empty: it is.
inline std::string_view why_not_private(const struct stat& status) {
  if (status.st_uid != ::geteuid()) return "another user owns it";
  if ((status.st_mode & (S_IRWXG | S_IRWXO)) != 0) return "other users have rights to it";
  return {};
}

inline CodePack::FileId id_of(const struct stat& status) {
  return {static_cast<std::uint64_t>(status.st_dev), static_cast<std::uint64_t>(status.st_ino),
          static_cast<std::uint64_t>(status.st_size)};
}
/// Of a pack, in an open folder; neither links nor what waits for others.
inline int open_pack_file(int folder, const std::string& name) {
  return ::openat(folder, name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
}

/// Reads the table; empty: it is there, else what is wrong.
inline std::string_view read_table(int file, std::string_view version, std::vector<PackEntry>& entries,
                                   CodePack::FileId& id) {
  struct stat status{};
  if (::fstat(file, &status) != 0 || !S_ISREG(status.st_mode)) return "no regular file";
  if (const std::string_view why = why_not_private(status); !why.empty()) return why;
  id = id_of(status);
  const std::uint64_t bytes = id.bytes;
  PackHeader header{};
  if (bytes > largest_pack || !read_at(file, &header, sizeof header, 0) || header.magic != pack_magic ||
      header.file_bytes != bytes || header.entries > bytes / sizeof(PackEntry))
    return "damaged";
  std::string stored(version.size(), '\0');
  entries.resize(header.entries);
  if (header.version_bytes != version.size()) return "of another version";
  if (!read_at(file, stored.data(), stored.size(), sizeof header) ||
      !read_at(file, entries.data(), entries.size() * sizeof(PackEntry), sizeof header + stored.size()) ||
      check_of_table(stored, entries) != header.check)
    return "damaged";
  return stored == version ? std::string_view() : "of another version";
}

SINTER_DECL CodePack::Opened CodePack::open(int folder, const std::string& name, std::string_view version,
                                            std::shared_ptr<const CodePack>& to, std::string& why) {
  const File file(open_pack_file(folder, name));
  if (!file.is_open()) {
    if (errno == ENOENT) return Opened::missing;
    why = std::strerror(errno);
    return Opened::refused;
  }
  std::vector<PackEntry> entries;
  FileId id;
  why = read_table(file.handle(), version, entries, id);
  if (!why.empty()) return Opened::refused;
  to = std::make_shared<CodePack>(name, id, std::move(entries));
  return Opened::whole;
}

SINTER_DECL CodePack::CodePack(std::string name, const FileId& id, std::vector<PackEntry> entries)
    : name_(std::move(name)), id_(id), entries_(std::move(entries)) {}
SINTER_DECL CodePack::~CodePack() = default;

SINTER_DECL std::size_t CodePack::find(const Hash128& hash) const {
  const auto at = std::lower_bound(entries_.begin(), entries_.end(), hash,
                                   [](const PackEntry& entry, const Hash128& h) { return entry.hash < h; });
  return as_index(at - entries_.begin());
}

SINTER_DECL int CodePack::reopen(int folder) const {
  const int file = open_pack_file(folder, name_);
  if (file < 0) return -1;
  struct stat status{};
  if (::fstat(file, &status) == 0 && id_of(status) == id_) return file;
  ::close(file);
  return -1;
}

SINTER_DECL std::optional<std::string> CodePack::read(int file, const PackEntry& entry) const {
  if (entry.offset > bytes() || entry.bytes() > bytes() - entry.offset) return {};
  std::string both(entry.bytes(), '\0');
  if (!read_at(file, both.data(), both.size(), entry.offset) || checksum(both) != entry.check) return {};
  return both;
}

inline bool write_parts(const File& file, std::string_view version, const std::vector<NewPackEntry>& entries) {
  std::vector<PackEntry> table;
  std::uint64_t offset = sizeof(PackHeader) + version.size() + entries.size() * sizeof(PackEntry);
  for (const NewPackEntry& entry : entries) {
    table.push_back({entry.hash, offset, entry.key_bytes,
                     static_cast<std::uint32_t>(entry.bytes.size() - entry.key_bytes), checksum(entry.bytes),
                     entry.last_use});
    offset += entry.bytes.size();
  }
  const PackHeader header{pack_magic, version.size(), entries.size(), offset, check_of_table(version, table)};
  if (!file.write_exactly(&header, sizeof header) || !file.write_exactly(version.data(), version.size()) ||
      !file.write_exactly(table.data(), as_bytes(table).size()))
    return false;
  return std::all_of(entries.begin(), entries.end(), [&](const NewPackEntry& entry) {
    return file.write_exactly(entry.bytes.data(), entry.bytes.size());
  });
}

SINTER_DECL bool write_pack(int folder, const std::string& name, std::string_view version,
                            std::vector<NewPackEntry> entries) {
  static constinit std::atomic<unsigned> count{0};
  std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return a.hash < b.hash; });
  const std::string unfinished =
      std::string(unfinished_pack) + std::to_string(::getpid()) + "-" + std::to_string(count.fetch_add(1));
  ::unlinkat(folder, unfinished.c_str(), 0);  // of a process that had our number
  const File file(
      ::openat(folder, unfinished.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, S_IRUSR | S_IWUSR));
  if (!file.is_open()) return false;
  if (write_parts(file, version, entries) && ::renameat(folder, unfinished.c_str(), folder, name.c_str()) == 0)
    return true;
  const int reason = errno;
  ::unlinkat(folder, unfinished.c_str(), 0);
  errno = reason;
  return false;
}

}  // namespace runtime_detail
SINTER_NAMESPACE_END
