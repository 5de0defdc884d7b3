// The wire format of protocol buffers (https://protobuf.dev/programming-guides/encoding/), of which ONNX files are
// made: a reader that trusts nothing, and a writer. Must not know which message has which fields.
#pragma once

#include <sinter/io/tensors.hpp>

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>

SINTER_NAMESPACE_BEGIN
namespace io::onnx_detail {

enum class Wire : std::uint8_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

/// A part of a file.
struct ByteRange {
  std::uint64_t begin = 0, end = 0;
  std::uint64_t size() const { return end - begin; }
};

/// Goes through the fields of one message: `while (reader.next()) switch (reader.field()) ...`. Nothing is read beyond
/// the message, and what is wrong is an IoError that names the byte.
class WireReader {
 public:
  WireReader(const io_detail::Source& source, ByteRange range) : source_(source), at_(range.begin), end_(range.end) {}

  /// Reads the next field; false at the end.
  bool next() {
    if (at_ == end_) return false;
    start_ = at_;
    const std::uint64_t key = varint();
    const std::uint64_t wire = key & 7;
    if (key >> 3 == 0 || key >> 3 > most_field) fail("a field with the number " + std::to_string(key >> 3));
    field_ = static_cast<std::uint32_t>(key >> 3);
    if (wire != 0 && wire != 1 && wire != 2 && wire != 5) fail("a field of wire type " + std::to_string(wire));
    wire_ = static_cast<Wire>(wire);
    switch (wire_) {
      case Wire::varint: number_ = varint(); break;
      case Wire::fixed64: number_ = fixed(8); break;
      case Wire::fixed32: number_ = fixed(4); break;
      case Wire::bytes: range_ = take(varint()); break;
    }
    return true;
  }
  std::uint32_t field() const { return field_; }

  std::int64_t integer() const {
    if (wire_ != Wire::varint) fail("field " + std::to_string(field_) + " is no integer");
    return static_cast<std::int64_t>(number_);
  }
  float real() const {
    if (wire_ != Wire::fixed32) fail("field " + std::to_string(field_) + " is no float");
    return std::bit_cast<float>(static_cast<std::uint32_t>(number_));
  }
  /// Of a text or a message.
  ByteRange range() const {
    if (wire_ != Wire::bytes) fail("field " + std::to_string(field_) + " is neither text nor message");
    return range_;
  }
  std::string text() const {
    const ByteRange where = range();
    return std::string(source_.text(where.begin, where.size()));
  }

  /// use(number) for each element of a repeated field, which may be packed.
  template <class Use>
  void each_integer(const Use& use) const {
    if (wire_ != Wire::bytes) return use(integer());
    WireReader packed(source_, range_);
    packed.start_ = start_;
    while (packed.at_ != packed.end_) use(static_cast<std::int64_t>(packed.varint()));
  }
  template <class Use>
  void each_float(const Use& use) const {
    each_fixed(4, Wire::fixed32,
               [&](std::uint64_t bits) { use(std::bit_cast<float>(static_cast<std::uint32_t>(bits))); });
  }
  template <class Use>
  void each_double(const Use& use) const {
    each_fixed(8, Wire::fixed64, [&](std::uint64_t bits) { use(std::bit_cast<double>(bits)); });
  }

  [[noreturn]] void fail(const std::string& what) const {
    source_.fail(start_, what, "it is no ONNX file, or is damaged: get it again");
  }

 private:
  static constexpr std::uint64_t most_field = (1 << 29) - 1;

  template <class Use>
  void each_fixed(int width, Wire single, const Use& use) const {
    if (wire_ == single) return use(number_);
    const ByteRange all = range();
    if (all.size() % static_cast<std::uint64_t>(width) != 0) fail("a list that ends within a number");
    WireReader packed(source_, all);
    packed.start_ = start_;
    while (packed.at_ != packed.end_) use(packed.fixed(width));
  }
  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<unsigned char>(source_.text(take(1).begin, 1)[0]);
      value |= static_cast<std::uint64_t>(byte & 127) << shift;
      if (byte < 128) return value;
    }
    fail("a number of more than 64 bits");
  }
  std::uint64_t fixed(int width) {
    const ByteRange where = take(static_cast<std::uint64_t>(width));
    return io_detail::read_number(source_.text(where.begin, where.size()), 0, width);
  }
  ByteRange take(std::uint64_t bytes) {
    if (bytes > end_ - at_)
      fail(std::to_string(bytes) + " bytes are needed, the message has " + std::to_string(end_ - at_) + " left");
    const ByteRange taken{at_, at_ + bytes};
    at_ += bytes;
    return taken;
  }

  const io_detail::Source& source_;
  std::uint64_t at_, end_, start_ = 0, number_ = 0;
  std::uint32_t field_ = 0;
  Wire wire_ = Wire::varint;
  ByteRange range_{};
};

/// A message as bytes. Fields are written in the order of the calls.
class WireWriter {
 public:
  void integer(std::uint32_t field, std::int64_t value) {
    key(field, Wire::varint);
    varint(static_cast<std::uint64_t>(value));
  }
  void real(std::uint32_t field, float value) {
    key(field, Wire::fixed32);
    io_detail::append_number(bytes_, std::bit_cast<std::uint32_t>(value), 4);
  }
  void text(std::uint32_t field, std::string_view value) {
    key(field, Wire::bytes);
    varint(value.size());
    bytes_ += value;
  }
  void message(std::uint32_t field, const WireWriter& value) { text(field, value.bytes_); }
  const std::string& bytes() const { return bytes_; }

 private:
  void key(std::uint32_t field, Wire wire) { varint(std::uint64_t{field} << 3 | static_cast<std::uint64_t>(wire)); }
  void varint(std::uint64_t value) {
    for (; value > 127; value >>= 7) bytes_.push_back(static_cast<char>(value | 128));
    bytes_.push_back(static_cast<char>(value));
  }
  std::string bytes_;
};

}  // namespace io::onnx_detail
SINTER_NAMESPACE_END
