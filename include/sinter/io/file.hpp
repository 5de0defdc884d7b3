// Files as the formats of io/ use them: IoError; a file mapped for reading, which Tensors share; and a file that is
// written beside its name and takes its place when it is whole. Must not know any format.
#pragma once

#include <sinter/base/error.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

SINTER_NAMESPACE_BEGIN

/// A file that cannot be read or written, or does not hold what its format asks for. The message names it and, where it
/// is known, the offset in bytes.
class IoError : public UserError {
 public:
  IoError(std::string_view op, const std::string& path, std::string_view what, Location where = {},
          std::string_view fix = {});
};

namespace io {

/// A whole file in memory, read-only, by mmap: pages are read when they are used. Unmapped with the last owner. The
/// file must not be cut short or written to meanwhile; replacing it by rename is safe.
class MappedFile {
 public:
  static std::shared_ptr<const MappedFile> open(const std::string& path, std::string_view function, Location where);
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  const std::string& path() const { return path_; }
  std::span<const std::byte> bytes() const;

 private:
  MappedFile(std::string path, const std::byte* first, std::size_t size);
  std::string path_;
  const std::byte* first_;
  std::size_t size_;
};

/// A file that nobody sees before commit(): it is written under a name of its own in the same folder, brought to the
/// disk, and renamed. After a failure or a crash at any moment the old file is there, or the new one.
class AtomicFile {
 public:
  AtomicFile(std::string path, std::string_view function, Location where);
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  ~AtomicFile();

  void write(const void* from, std::size_t bytes);
  void write(std::string_view text) { write(text.data(), text.size()); }
  std::uint64_t written() const { return written_; }
  void commit();

 private:
  [[noreturn]] void fail(const char* what) const;
  std::string path_, temporary_, function_;
  Location where_;
  int handle_ = -1;
  std::uint64_t written_ = 0;
};

}  // namespace io
SINTER_NAMESPACE_END
