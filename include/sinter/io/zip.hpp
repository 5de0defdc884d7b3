// Zip archives (PKWARE's APPNOTE.TXT 6.3, with zip64), as far as files of arrays need them: where the stored entries of
// a mapped archive lie, and an archive written entry after entry. Must not know what entries hold.
#pragma once

#include <sinter/io/file.hpp>
#include <sinter/io/tensors.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace io::io_detail {

/// An entry: `bytes` bytes at `offset` of the file, all of them inside it.
struct ZipEntry {
  std::string name;
  bool is_compressed = false;
  std::uint64_t offset = 0, bytes = 0;
};
/// The entries in the order of the directory.
std::vector<ZipEntry> read_zip(const Source& source);

/// Writes stored entries; always with fields of zip64.
class ZipWriter {
 public:
  explicit ZipWriter(AtomicFile& file) : file_(file) {}
  /// An entry that holds both parts in a row; its data begin at a multiple of 64.
  void add(const std::string& name, std::string_view first, std::string_view second);
  void finish();

 private:
  AtomicFile& file_;
  std::string directory_;
  std::uint64_t count_ = 0;
};

}  // namespace io::io_detail
SINTER_NAMESPACE_END
