// Variable-length numbers, texts by number, extents as text.
#pragma once

#include <sinter/io/function_bytes.hpp>

#include <sinter/base/fork.hpp>
#include <sinter/base/index.hpp>
#include <sinter/graph/parse.hpp>

#include <array>
#include <cstring>
#include <mutex>
#include <set>
#include <utility>

SINTER_NAMESPACE_BEGIN
namespace io::io_detail {

SINTER_DECL std::uint64_t checksum(std::span<const std::byte> bytes) {
  // Four lanes, so that a processor does four at a time.
  constexpr std::array<std::uint64_t, 4> odd{0x9E3779B97F4A7C15ULL, 0xC2B2AE3D27D4EB4FULL, 0xFF51AFD7ED558CCDULL,
                                             0xBF58476D1CE4E5B9ULL};
  std::array<std::uint64_t, 4> lanes = odd;
  std::size_t at = 0;
  const auto add = [&](std::size_t lane, std::uint64_t word) {
    lanes[lane] = (lanes[lane] ^ word) * odd[lane];
    lanes[lane] ^= lanes[lane] >> 29;
  };
  for (; at + 32 <= bytes.size(); at += 32) {
    std::array<std::uint64_t, 4> words;
    std::memcpy(words.data(), bytes.data() + at, 32);
    for (std::size_t lane = 0; lane < 4; ++lane) add(lane, words[lane]);
  }
  for (; at < bytes.size(); ++at) add(at % 4, static_cast<std::uint64_t>(bytes[at]) + 1);
  std::uint64_t sum = bytes.size();
  for (std::size_t lane = 0; lane < 4; ++lane) sum = (sum ^ lanes[lane]) * odd[lane] + (sum >> 31);
  return sum ^ (sum >> 32);
}

SINTER_DECL void ByteWriter::number(std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) byte(static_cast<std::uint8_t>(value | 0x80));
  byte(static_cast<std::uint8_t>(value));
}
SINTER_DECL void ByteWriter::integer(std::int64_t value) {
  const auto bits = static_cast<std::uint64_t>(value);
  number(bits << 1 ^ (value < 0 ? ~std::uint64_t{0} : 0));
}
SINTER_DECL void ByteWriter::word(std::uint64_t value) {
  for (int i = 0; i < 8; ++i) byte(static_cast<std::uint8_t>(value >> (8 * i)));
}
SINTER_DECL void ByteWriter::text(std::string_view value) {
  const auto known = known_.find(value);
  if (known != known_.end()) return count(known->second);
  count(texts_.size());
  known_.emplace(value, texts_.size());
  texts_.emplace_back(value);
}
SINTER_DECL void ByteWriter::dim(Dim value) {
  byte(value.is_static() ? 0 : 1);
  if (value.is_static()) integer(value.value());
  else text(value.text());
}
SINTER_DECL void ByteWriter::shape(const Shape& value) {
  byte(static_cast<std::uint8_t>(value.rank()));
  for (Dim extent : value) dim(extent);
}
SINTER_DECL void ByteWriter::type(const Type& value) {
  text(name(value.dtype));
  byte(static_cast<std::uint8_t>(value.device.kind));
  byte(value.device.index);
  shape(value.shape);
}
SINTER_DECL void ByteWriter::where(Location value) {
  byte(value.file != nullptr ? 1 : 0);
  if (value.file == nullptr) return;
  const std::string_view file(value.file);
  text(file.substr(file.find_last_of('/') + 1));  // as errors show it: folders are nobody else's business
  number(value.line);
}
SINTER_DECL std::string ByteWriter::finish() {
  const std::string body = std::exchange(bytes_, {});
  count(texts_.size());
  for (const std::string& value : texts_) {
    count(value.size());
    bytes_ += value;
  }
  return std::exchange(bytes_, {}) + body;
}

/// A text that is never freed: few, for they come from few files.
inline const std::string& kept_text(std::string_view text) {
  struct Texts {
    ForkSafeMutex mutex;
    std::set<std::string, std::less<>> known;
  };
  auto& texts = process_object<Texts>();
  std::scoped_lock lock(texts.mutex);
  const auto found = texts.known.find(text);
  return found != texts.known.end() ? *found : *texts.known.emplace(text).first;
}

SINTER_DECL ByteReader::ByteReader(std::span<const std::byte> bytes, std::string path, std::uint64_t offset,
                                   Location where)
    : bytes_(bytes), path_(std::move(path)), offset_(offset), where_(where) {
  take_texts();
}
SINTER_DECL void ByteReader::fail(const std::string& what) const {
  throw IoError("load", path_, "byte " + std::to_string(offset_ + at_) + ": " + what, where_,
                "the file is damaged, or no file of jit::save: save it again");
}
SINTER_DECL void ByteReader::take_texts() {
  constexpr std::size_t longest = 1 << 20;
  for (std::size_t left = count(); left > 0; --left) {
    const std::size_t size = count();
    if (size > longest) fail("a text of " + std::to_string(size) + " bytes");
    texts_.push_back(&kept_text(raw(size)));
  }
}
SINTER_DECL std::string_view ByteReader::raw(std::size_t size) {
  if (size > bytes_.size() - at_) fail(std::to_string(size) + " bytes are needed here, and the part ends before");
  const auto* first = reinterpret_cast<const char*>(bytes_.data()) + at_;
  at_ += size;
  return {first, size};
}
SINTER_DECL std::uint8_t ByteReader::byte() { return static_cast<std::uint8_t>(raw(1)[0]); }
SINTER_DECL std::uint8_t ByteReader::byte_up_to(std::uint8_t most, const char* what) {
  const std::uint8_t value = byte();
  if (value > most) fail(std::string(what) + " is " + std::to_string(value) + ", at most " + std::to_string(most));
  return value;
}
SINTER_DECL std::uint64_t ByteReader::number() {
  std::uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    const std::uint8_t next = byte();
    value |= std::uint64_t{next & 0x7fu} << shift;
    if ((next & 0x80) == 0) return value;
  }
  fail("a number of more than 64 bits");
}
SINTER_DECL std::size_t ByteReader::count() {
  const std::uint64_t value = number();
  if (value > bytes_.size() - at_) fail("a count of " + std::to_string(value) + " in what is left of the part");
  return static_cast<std::size_t>(value);
}
SINTER_DECL std::int32_t ByteReader::index(std::size_t limit, const char* what) {
  const std::uint64_t value = number();
  if (value >= limit)
    fail("number " + std::to_string(value) + " of " + std::to_string(limit) + " " + std::string(what));
  return static_cast<std::int32_t>(value);
}
SINTER_DECL std::int32_t ByteReader::index_or_none(std::size_t limit, const char* what) {
  return index(limit + 1, what) - 1;
}
SINTER_DECL std::int64_t ByteReader::integer() {
  const std::uint64_t bits = number();
  return static_cast<std::int64_t>(bits >> 1 ^ (~(bits & 1) + 1));
}
SINTER_DECL std::uint64_t ByteReader::word() {
  const std::string_view bytes = raw(8);
  std::uint64_t value = 0;
  for (std::size_t i = 8; i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[i]);
  return value;
}
SINTER_DECL std::string_view ByteReader::text() { return *texts_[as_index(index(texts_.size(), "texts"))]; }
/// The parser of graphs bounds the numbers of an extent.
SINTER_DECL Dim ByteReader::parsed_dim(std::string_view written) const {
  Dim found;
  try {
    const Graph graph = parse_graph("graph(%x: f32[" + std::string(written) + "]) { return %x }");
    found = graph.type(graph.inputs()[0]).shape[0];
  } catch (const UserError& error) { fail(error.what()); }
  if (found.text() != written) fail("'" + std::string(written) + "' is no extent");
  return found;
}
SINTER_DECL Dim ByteReader::dim() {
  if (!flag()) {
    const std::int64_t value = integer();
    constexpr std::int64_t most = std::int64_t{1} << 60;
    if (value > most || value < -most) fail("an extent of " + std::to_string(value));
    return value;
  }
  const std::string_view written = text();
  const auto known = dims_.find(written);
  const Dim found = known != dims_.end() ? known->second : dims_[written] = parsed_dim(written);
  std::vector<SymbolId> used;
  found.collect_symbols(used);
  for (SymbolId id : used)
    if (id >= symbols_) fail("symbol s" + std::to_string(id) + ", of " + std::to_string(symbols_));
  return found;
}
SINTER_DECL Shape ByteReader::shape() {
  Shape found;
  for (int rank = byte_up_to(max_rank, "the rank"); rank > 0; --rank) found.push_back(dim());
  return found;
}
SINTER_DECL DType ByteReader::dtype() {
  const std::string_view found = text();
  for (int i = 0; i < dtype_count; ++i)
    if (dtype_rows[as_index(i)].name == found) return static_cast<DType>(i);
  fail("'" + std::string(found) + "' is no dtype");
}
SINTER_DECL Device ByteReader::device() {
  Device found;
  found.kind = static_cast<DeviceKind>(byte_up_to(1, "the kind of a device"));
  found.index = byte();
  if (found.kind == DeviceKind::cpu && found.index != 0) fail("a CPU with a number");
  return found;
}
SINTER_DECL Type ByteReader::type() {
  Type found;
  found.dtype = dtype();
  found.device = device();
  found.shape = shape();
  for (Dim extent : found.shape)
    if (extent.is_static() && extent.value() < 0) fail("an extent is negative");
  return found;
}
SINTER_DECL Location ByteReader::where() {
  Location found;
  if (!flag()) return found;
  found.file = text().data();  // of a std::string that is never freed: a zero ends it
  const std::uint64_t line = number();
  if (line > 0xffffffffu) fail("a line of " + std::to_string(line));
  found.line = static_cast<std::uint32_t>(line);
  return found;
}

}  // namespace io::io_detail
SINTER_NAMESPACE_END
