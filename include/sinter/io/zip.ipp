// Records of zip archives; section numbers are of APPNOTE.TXT.
#pragma once

#include <sinter/io/zip.hpp>

#include <sinter/base/index.hpp>

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

SINTER_NAMESPACE_BEGIN
namespace io::io_detail {

inline constexpr std::uint64_t local_signature = 0x04034b50, directory_signature = 0x02014b50,
                               end_signature = 0x06054b50, end64_signature = 0x06064b50, locator_signature = 0x07064b50;
inline constexpr std::uint64_t local_size = 30, directory_size = 46, end_size = 22, end64_size = 56, locator_size = 20;
inline constexpr std::uint64_t most_32 = 0xffffffff;

/// The CRC-32 of zip, continued from that of the bytes before.
inline std::uint32_t crc_of(std::string_view bytes, std::uint32_t before) {
  static constexpr auto table = [] {
    std::array<std::uint32_t, 256> out{};
    for (std::uint32_t i = 0; i < 256; ++i) {
      std::uint32_t value = i;
      for (int bit = 0; bit < 8; ++bit) value = (value & 1) != 0 ? value >> 1 ^ 0xedb88320u : value >> 1;
      out[i] = value;
    }
    return out;
  }();
  std::uint32_t crc = ~before;
  for (const char c : bytes) crc = crc >> 8 ^ table[(crc ^ static_cast<unsigned char>(c)) & 0xff];
  return ~crc;
}

struct ZipDirectory {
  std::uint64_t count, bytes, offset;
};

/// Sections 4.3.14 to 4.3.16. A comment may stand behind the last record.
inline ZipDirectory find_directory(const Source& source) {
  const std::uint64_t size = source.size();
  if (size < end_size) source.fail(0, "no zip archive: the file is too short");
  const std::uint64_t last = size - end_size, first = last > 0xffff ? last - 0xffff : 0;
  std::uint64_t at = last;
  while (read_number(source.text(at, 4), 0, 4) != end_signature) {
    if (at == first)
      source.fail(last, "no zip archive: it has no directory", "the file is cut short or of another kind");
    --at;
  }
  const std::string_view end = source.text(at, end_size);
  ZipDirectory directory{read_number(end, 10, 2), read_number(end, 12, 4), read_number(end, 16, 4)};
  if (directory.count != 0xffff && directory.bytes != most_32 && directory.offset != most_32) return directory;
  if (at < locator_size) return directory;
  const std::string_view locator = source.text(at - locator_size, locator_size);
  if (read_number(locator, 0, 4) != locator_signature) return directory;
  const std::uint64_t at64 = read_number(locator, 8, 8);
  const std::string_view end64 = source.text(at64, end64_size);
  if (read_number(end64, 0, 4) != end64_signature) source.fail(at64, "the zip64 directory is not here");
  return {read_number(end64, 32, 8), read_number(end64, 40, 8), read_number(end64, 48, 8)};
}

/// Section 4.5.3: sizes and offset that do not fit 32 bits, in this order, those that do not.
inline void read_zip64(const Source& source, std::uint64_t at, std::string_view extra,
                       std::array<std::uint64_t*, 3> fields) {
  for (std::size_t begin = 0; begin + 4 <= extra.size();) {
    const std::uint64_t id = read_number(extra, begin, 2), bytes = read_number(extra, begin + 2, 2);
    if (bytes > extra.size() - begin - 4) source.fail(at, "an extra field reaches beyond its entry");
    const std::string_view field = extra.substr(begin + 4, bytes);
    std::size_t next = 0;
    if (id == 1)
      for (std::uint64_t* value : fields) {
        if (*value != most_32) continue;
        if (field.size() - next < 8) source.fail(at, "a zip64 field is too short");
        *value = read_number(field, next, 8);
        next += 8;
      }
    begin += 4 + static_cast<std::size_t>(bytes);
  }
}

/// Section 4.3.12, and of the local header only where the data begin.
inline ZipEntry read_zip_entry(const Source& source, std::uint64_t& at) {
  const std::string_view record = source.text(at, directory_size);
  if (read_number(record, 0, 4) != directory_signature) source.fail(at, "no entry of the directory");
  const std::uint64_t flags = read_number(record, 8, 2), method = read_number(record, 10, 2);
  std::uint64_t packed = read_number(record, 20, 4), bytes = read_number(record, 24, 4);
  std::uint64_t local = read_number(record, 42, 4);
  const std::uint64_t name = read_number(record, 28, 2), extra = read_number(record, 30, 2);
  ZipEntry entry{std::string(source.text(at + directory_size, name)), method != 0, 0, 0};
  read_zip64(source, at, source.text(at + directory_size + name, extra), {&bytes, &packed, &local});
  if ((flags & 1) != 0) source.fail(at, "\"" + entry.name + "\" is encrypted");
  if (!entry.is_compressed && packed != bytes) source.fail(at, "\"" + entry.name + "\" is stored with two sizes");
  const std::string_view header = source.text(local, local_size);
  if (read_number(header, 0, 4) != local_signature) source.fail(local, "\"" + entry.name + "\" does not begin here");
  entry.offset = local + local_size + read_number(header, 26, 2) + read_number(header, 28, 2);
  entry.bytes = packed;
  source.text(entry.offset, entry.bytes);  // all of it is in the file
  at += directory_size + name + extra + read_number(record, 32, 2);
  return entry;
}

SINTER_DECL std::vector<ZipEntry> read_zip(const Source& source) {
  const ZipDirectory directory = find_directory(source);
  source.text(directory.offset, directory.bytes);
  if (directory.count > directory.bytes / directory_size)
    source.fail(directory.offset, std::to_string(directory.count) + " entries do not fit the directory");
  std::vector<ZipEntry> entries;
  std::uint64_t at = directory.offset;
  for (std::uint64_t i = 0; i < directory.count; ++i) entries.push_back(read_zip_entry(source, at));
  return entries;
}

SINTER_DECL void ZipWriter::add(const std::string& name, std::string_view first, std::string_view second) {
  constexpr std::uint64_t alignment = 64, zip64_bytes = 20;
  const std::uint64_t offset = file_.written(), bytes = first.size() + second.size();
  const std::uint32_t crc = crc_of(second, crc_of(first, 0));
  const std::uint64_t before = offset + local_size + name.size() + zip64_bytes + 4;
  const std::uint64_t padding = (alignment - before % alignment) % alignment;
  const auto common = [&](std::string& to, std::uint64_t extra) {  // from "version needed" to "extra field length"
    for (const std::uint64_t value : {std::uint64_t{45}, std::uint64_t{0x800}, std::uint64_t{0}})
      append_number(to, value, 2);
    append_number(to, 0, 2);       // time
    append_number(to, 0x0021, 2);  // 1 January 1980
    append_number(to, crc, 4);
    append_number(to, most_32, 4);
    append_number(to, most_32, 4);
    append_number(to, name.size(), 2);
    append_number(to, extra, 2);
  };
  std::string local;
  append_number(local, local_signature, 4);
  common(local, zip64_bytes + 4 + padding);
  local += name;
  append_number(local, 1, 2);
  append_number(local, 16, 2);
  append_number(local, bytes, 8);
  append_number(local, bytes, 8);
  append_number(local, 0x4153, 2);  // padding
  append_number(local, padding, 2);
  local.append(static_cast<std::size_t>(padding), '\0');
  file_.write(local);
  file_.write(first);
  file_.write(second);

  append_number(directory_, directory_signature, 4);
  append_number(directory_, 45, 2);
  common(directory_, 28);
  directory_.append(10, '\0');  // comment (2), disk (2), attributes (2 and 4)
  append_number(directory_, most_32, 4);
  directory_ += name;
  append_number(directory_, 1, 2);
  append_number(directory_, 24, 2);
  append_number(directory_, bytes, 8);
  append_number(directory_, bytes, 8);
  append_number(directory_, offset, 8);
  ++count_;
}

SINTER_DECL void ZipWriter::finish() {
  const std::uint64_t offset = file_.written(), end = offset + directory_.size();
  std::string last = std::move(directory_);
  append_number(last, end64_signature, 4);
  append_number(last, end64_size - 12, 8);
  append_number(last, 45, 2);
  append_number(last, 45, 2);
  append_number(last, 0, 8);  // disks
  append_number(last, count_, 8);
  append_number(last, count_, 8);
  append_number(last, end - offset, 8);
  append_number(last, offset, 8);
  append_number(last, locator_signature, 4);
  append_number(last, 0, 4);
  append_number(last, end, 8);
  append_number(last, 1, 4);
  append_number(last, end_signature, 4);
  append_number(last, 0, 4);
  append_number(last, 0xffff, 2);
  append_number(last, 0xffff, 2);
  append_number(last, most_32, 4);
  append_number(last, most_32, 4);
  append_number(last, 0, 2);
  file_.write(last);
}

}  // namespace io::io_detail
SINTER_NAMESPACE_END
