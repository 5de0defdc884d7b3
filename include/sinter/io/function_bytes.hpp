// Numbers and texts as bytes in a row, for files of functions: a writer, and a reader that trusts nothing. Must not
// know what they stand for.
#pragma once

#include <sinter/io/file.hpp>
#include <sinter/tensor/shape.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace io::io_detail {

/// How files of functions begin, the version of the format, the size of the head, and where weights may lie.
inline constexpr std::string_view function_magic = "SINTERFN";
inline constexpr std::uint64_t function_format = 1;
/// Added to the byte of a mode that measures, where what was measured follows the options.
inline constexpr std::uint8_t has_tuning = 8;
inline constexpr std::size_t function_head = 64, weight_alignment = 64;

/// Detects damage; not made to withstand intent.
std::uint64_t checksum(std::span<const std::byte> bytes);

class ByteWriter {
 public:
  void byte(std::uint8_t value) { bytes_.push_back(static_cast<char>(value)); }
  /// Seven bits a byte, the lowest first.
  void number(std::uint64_t value);
  void count(std::size_t value) { number(value); }
  /// Small for numbers near zero.
  void integer(std::int64_t value);
  void word(std::uint64_t value);
  /// A text that is written once, however often it comes.
  void text(std::string_view value);
  void dim(Dim value);
  void shape(const Shape& value);
  void type(const Type& value);
  void where(Location value);

  /// All texts, and then the bytes.
  std::string finish();

 private:
  std::string bytes_;
  std::map<std::string, std::size_t, std::less<>> known_;
  std::vector<std::string> texts_;
};

/// Reads what a ByteWriter wrote. Whatever the bytes are: nothing is read beyond them, nothing is allocated that they
/// do not pay for, and what is wrong is an IoError that names the byte.
class ByteReader {
 public:
  ByteReader(std::span<const std::byte> bytes, std::string path, std::uint64_t offset, Location where);

  std::uint8_t byte();
  std::uint8_t byte_up_to(std::uint8_t most, const char* what);
  bool flag() { return byte_up_to(1, "a flag") != 0; }
  std::uint64_t number();
  /// Of things that take at least a byte each.
  std::size_t count();
  /// Below `limit`.
  std::int32_t index(std::size_t limit, const char* what);
  /// As that, or -1.
  std::int32_t index_or_none(std::size_t limit, const char* what);
  std::int64_t integer();
  std::uint64_t word();
  /// Lives as long as the process: errors and Locations keep it.
  std::string_view text();
  Dim dim();
  Shape shape();
  Type type();
  Location where();
  DType dtype();
  Device device();
  bool at_end() const { return at_ == bytes_.size(); }

  /// Extents may name symbols below this number.
  void set_symbols(std::size_t count) { symbols_ = count; }
  [[noreturn]] void fail(const std::string& what) const;

 private:
  void take_texts();
  Dim parsed_dim(std::string_view written) const;
  std::string_view raw(std::size_t size);
  std::span<const std::byte> bytes_;
  std::string path_;
  std::uint64_t offset_;
  Location where_;
  std::size_t at_ = 0, symbols_ = 0;
  std::vector<const std::string*> texts_;
  std::map<std::string_view, Dim> dims_;  // read before
};

}  // namespace io::io_detail
SINTER_NAMESPACE_END
