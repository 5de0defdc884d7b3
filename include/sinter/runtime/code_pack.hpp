// A pack: one file with many entries, each found by its whole key. Written once under another name and then renamed, so
// that whoever opens it has a file that never changes; damaged bytes are found by checksums when they are read. Knows
// bytes and files; must not know what entries are for, when they are written, or which ones go.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/hash.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace runtime_detail {

/// Of bytes that may have been damaged, about eight of them at a time; also where in the table a key is.
Hash128 checksum(std::string_view bytes);

/// What the table says of an entry; the key lies at `offset`, the value behind it.
struct PackEntry {
  Hash128 hash;  // of the key
  std::uint64_t offset = 0;
  std::uint32_t key_bytes = 0, value_bytes = 0;
  Hash128 check;               // of key and value
  std::uint64_t last_use = 0;  // hours since 1970
  std::uint64_t bytes() const { return std::uint64_t{key_bytes} + value_bytes; }
};

/// What is known of a pack. Its file is opened for each read: a program may close descriptors that it does not know,
/// and would get ours behind its own files.
class CodePack {
 public:
  enum class Opened : std::uint8_t { whole, missing, refused };
  /// The file of this name in an open folder. Refused: a file of another owner, one that others may read or write, a
  /// link, a damaged one, one of another `version`; `why` says which.
  static Opened open(int folder, const std::string& name, std::string_view version, std::shared_ptr<const CodePack>& to,
                     std::string& why);
  struct FileId {
    std::uint64_t device = 0, inode = 0, bytes = 0;
    friend bool operator==(const FileId&, const FileId&) = default;
  };
  CodePack(std::string name, const FileId& id, std::vector<PackEntry> entries);
  CodePack(const CodePack&) = delete;
  CodePack& operator=(const CodePack&) = delete;
  ~CodePack();

  /// By hash, in order.
  std::span<const PackEntry> entries() const { return entries_; }
  std::uint64_t bytes() const { return id_.bytes; }
  /// The first entry with this hash.
  std::size_t find(const Hash128& hash) const;
  /// Opens the file in its folder, for the caller to close; -1: it is not there any more, or another one.
  int reopen(int folder) const;
  /// Key and value of an entry, one behind the other; nothing where they are not what was written.
  std::optional<std::string> read(int file, const PackEntry& entry) const;

 private:
  std::string name_;
  FileId id_;
  std::vector<PackEntry> entries_;
};

/// An entry that is to be written.
struct NewPackEntry {
  Hash128 hash;  // of the key
  std::uint32_t key_bytes = 0;
  std::string bytes;  // key, then value
  std::uint64_t last_use = 0;
};
/// Writes a pack under a new name in the folder and renames it. False: errno says why, and nothing is left behind.
bool write_pack(int folder, const std::string& name, std::string_view version, std::vector<NewPackEntry> entries);
/// What files that are being written are called, up to a number.
inline constexpr std::string_view unfinished_pack = "unfinished-";

}  // namespace runtime_detail
SINTER_NAMESPACE_END
