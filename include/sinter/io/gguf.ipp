// Header, metadata, a table of tensors, the data.
#pragma once

#include <sinter/io/gguf.hpp>

#include <sinter/io/gguf_blocks.hpp>
#include <sinter/io/json.hpp>

#include <sinter/base/index.hpp>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstdio>
#include <utility>

SINTER_NAMESPACE_BEGIN
namespace io {
namespace io_detail {

inline constexpr std::uint64_t gguf_q4_0 = 2, gguf_q8_0 = 8;
inline constexpr std::size_t block_elements = 32;  // of these two, which may stay quantised

class GgufReader {
 public:
  GgufReader(const Source& source, GgufOptions options) : source_(source), options_(options) {}

  GgufFile read() {
    if (take(4) != "GGUF") source_.fail(0, "no GGUF file");
    if (const std::uint64_t version = number(4); version != 2 && version != 3)
      source_.fail(4, "version " + std::to_string(version) + " of GGUF", "versions 2 and 3 are read");
    const std::uint64_t tensors = number(8), entries = number(8);
    for (std::uint64_t i = 0; i < entries; ++i) {
      const std::string key(string());
      out_.metadata[key] = value(number(4), 0);
    }
    std::vector<Info> infos;
    for (std::uint64_t i = 0; i < tensors; ++i) infos.push_back(read_info());
    const std::uint64_t alignment = read_alignment(), data = (at_ + alignment - 1) / alignment * alignment;
    for (const Info& info : infos) {
      if (info.offset > source_.size() || info.offset % alignment != 0)
        source_.fail(info.at, "\"" + info.name + "\" lies at " + std::to_string(info.offset));
      const bool stays = options_.keep_quantized && info.shape.size() == 2 && is_weight(info);
      const bool is_new = !out_.tensors.contains(info.name) && !out_.weights.contains(info.name);
      if (!is_new) source_.fail(info.at, "\"" + info.name + "\" stands twice");
      if (stays) out_.weights.emplace(info.name, weight_of(info, data + info.offset));
      else out_.tensors.emplace(info.name, tensor_of(info, data + info.offset));
    }
    return std::move(out_);
  }

 private:
  struct Info {
    std::uint64_t at;
    std::string name;
    std::vector<std::int64_t> shape{};
    std::uint64_t type = 0, offset = 0;
  };

  std::string_view take(std::uint64_t bytes) {
    const std::string_view out = source_.text(at_, bytes);
    at_ += bytes;
    return out;
  }
  std::uint64_t number(int width) { return read_number(take(as_index(width)), 0, width); }
  std::string_view string() { return take(number(8)); }
  std::int64_t signed_number(int width) {
    const int unused = 64 - 8 * width;
    return static_cast<std::int64_t>(number(width) << unused) >> unused;
  }
  static std::string text_of(double value, const char* format) {
    char text[40];
    std::snprintf(text, sizeof text, format, value);
    return text;
  }

  std::string value(std::uint64_t type, int level) {
    switch (type) {
      case 0: return std::to_string(number(1));
      case 1: return std::to_string(signed_number(1));
      case 2: return std::to_string(number(2));
      case 3: return std::to_string(signed_number(2));
      case 4: return std::to_string(number(4));
      case 5: return std::to_string(signed_number(4));
      case 6: return text_of(std::bit_cast<float>(static_cast<std::uint32_t>(number(4))), "%.9g");
      case 7: return number(1) != 0 ? "true" : "false";
      case 8: return level == 0 ? std::string(string()) : json_string(string());
      case 9: return array(level);
      case 10: return std::to_string(number(8));
      case 11: return std::to_string(signed_number(8));
      case 12: return text_of(std::bit_cast<double>(number(8)), "%.17g");
      default: source_.fail(at_, "metadata of type " + std::to_string(type));
    }
  }
  std::string array(int level) {
    if (level == 8) source_.fail(at_, "arrays of more than 8 levels");
    const std::uint64_t type = number(4), count = number(8);
    std::string text = "[";
    for (std::uint64_t i = 0; i < count; ++i) text.append(i == 0 ? "" : ",").append(value(type, level + 1));
    return text + "]";
  }

  Info read_info() {
    Info info{at_, std::string(string())};
    const std::uint64_t rank = number(4);
    if (rank > as_index(max_rank)) source_.fail(info.at, "\"" + info.name + "\" has " + std::to_string(rank) + " axes");
    for (std::uint64_t axis = 0; axis < rank; ++axis) info.shape.push_back(signed_number(8));
    std::reverse(info.shape.begin(), info.shape.end());
    info.type = number(4);
    info.offset = number(8);
    return info;
  }
  std::uint64_t read_alignment() const {
    const auto found = out_.metadata.find("general.alignment");
    if (found == out_.metadata.end()) return 32;
    std::uint64_t alignment = 0;
    const std::string& text = found->second;
    std::from_chars(text.data(), text.data() + text.size(), alignment);
    if (alignment == 0 || alignment > 1 << 20 || !std::has_single_bit(alignment))
      source_.fail(at_, "general.alignment is " + text);
    return alignment;
  }

  Tensor tensor_of(const Info& info, std::uint64_t at) const {
    for (const DTypeRow& known : dtype_rows)
      if (known.gguf >= 0 && static_cast<std::uint64_t>(known.gguf) == info.type)
        return tensor_at(source_, at, known.dtype, info.shape);
    if (const GgufBlock* const block = find_gguf_block(info.type)) return dequantised(info, at, *block);
    source_.fail(info.at, "\"" + info.name + "\" is of the quantised type " + std::to_string(info.type),
                 "convert it to F16, BF16 or one of " + gguf_block_names());
  }
  static bool is_weight(const Info& info) { return info.type == gguf_q4_0 || info.type == gguf_q8_0; }
  /// The bytes of whole blocks.
  std::string_view blocks_of(const Info& info, std::uint64_t at, std::uint64_t count, const GgufBlock& block) const {
    if (info.shape.empty() || info.shape.back() % static_cast<std::int64_t>(block.elements) != 0)
      source_.fail(info.at, "\"" + info.name + "\" has rows that are no whole number of " + std::string(block.name) +
                                " blocks of " + std::to_string(block.elements));
    const std::string_view from = source_.text(at, count / block.elements * block.bytes);
    read_ += from.size();  // many may name one place
    if (read_ > source_.size()) source_.fail(info.at, "more quantised tensors than the file has bytes for");
    return from;
  }
  /// Scales and elements apart; of 4 bits neighbours share a byte, where a block has elements 16 apart in one.
  QuantizedWeight weight_of(const Info& info, std::uint64_t at) const {
    const std::uint64_t count = bytes_of(source_, info.at, DType::f32, info.shape) / sizeof(float);
    const bool is_q8 = info.type == gguf_q8_0;
    const std::size_t packed = is_q8 ? block_elements : block_elements / 2;
    const std::string_view from = blocks_of(info, at, count, *find_gguf_block(info.type));
    const std::size_t blocks = static_cast<std::size_t>(count) / block_elements;
    std::string scales(2 * blocks, 0), values(packed * blocks, 0);
    for (std::size_t block = 0; block < blocks; ++block) {
      const std::string_view bytes = from.substr(block * (2 + packed), 2 + packed);
      bytes.copy(scales.data() + 2 * block, 2);
      char* const to = values.data() + block * packed;
      if (is_q8) bytes.copy(to, packed, 2);
      const auto element = [&](std::size_t i) {
        const auto byte = static_cast<unsigned char>(bytes[2 + i % 16]);
        return i < 16 ? byte & 15 : byte >> 4;
      };
      for (std::size_t i = 0; !is_q8 && i < packed; ++i)
        to[i] = static_cast<char>(element(2 * i) | element(2 * i + 1) << 4);
    }
    const std::int64_t n = info.shape[0], k = info.shape[1], group = static_cast<std::int64_t>(block_elements);
    const DType stored = is_q8 ? DType::i8 : DType::u8;
    return {.values = copied_tensor(source_, values, stored, {n, is_q8 ? k : k / 2}),
            .scales = copied_tensor(source_, scales, DType::f16, {n, k / group}),
            .zero_points = copied_tensor(source_, {}, stored, {n, 0}),
            .bits = is_q8 ? 8 : 4,
            .group = group,
            .k = k};
  }
  Tensor dequantised(const Info& info, std::uint64_t at, const GgufBlock& block) const {
    const std::uint64_t count = bytes_of(source_, info.at, DType::f32, info.shape) / sizeof(float);
    const std::string_view from = blocks_of(info, at, count, block);
    std::vector<float> to(static_cast<std::size_t>(count));
    const auto* const bytes = reinterpret_cast<const unsigned char*>(from.data());
    for (std::size_t i = 0; i < to.size() / block.elements; ++i)
      block.decode(bytes + i * block.bytes, to.data() + i * block.elements);
    return copied_tensor(source_, {reinterpret_cast<const char*>(to.data()), to.size() * sizeof(float)}, DType::f32,
                         info.shape);
  }

  const Source& source_;
  const GgufOptions options_;
  std::uint64_t at_ = 0;
  mutable std::uint64_t read_ = 0;
  GgufFile out_;
};

}  // namespace io_detail

SINTER_DECL GgufFile load_gguf(const std::string& path, Location where) { return load_gguf(path, {}, where); }
SINTER_DECL GgufFile load_gguf(const std::string& path, GgufOptions options, Location where) {
  const io_detail::Source source{MappedFile::open(path, "load_gguf", where), "load_gguf", where};
  return io_detail::GgufReader(source, options).read();
}

}  // namespace io
SINTER_NAMESPACE_END
