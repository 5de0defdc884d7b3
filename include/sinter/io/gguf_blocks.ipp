// The layouts are those of ggml's block structs (ggml-common.h): small blocks of 32 elements with one scale,
// super-blocks of 256 in which groups of 16 or 32 have scales (and minima) of 4 to 8 bits.
#pragma once

#include <sinter/io/gguf_blocks.hpp>

#include <sinter/tensor/half.hpp>

#include <array>
#include <bit>

SINTER_NAMESPACE_BEGIN
namespace io::io_detail {

using GgufBytes = const unsigned char*;

inline float gguf_f16(GgufBytes at) {
  return static_cast<float>(std::bit_cast<float16>(static_cast<std::uint16_t>(at[0] | at[1] << 8)));
}
inline int gguf_i8(unsigned char byte) { return static_cast<signed char>(byte); }
/// Element i of 32 that are 16 bytes: the low halves of the bytes come first.
inline int gguf_half_byte(GgufBytes bytes, std::size_t i) { return i < 16 ? bytes[i] & 15 : bytes[i - 16] >> 4; }
/// Bit i of a number of 32 bits.
inline int gguf_bit(GgufBytes bytes, std::size_t i) { return bytes[i / 8] >> i % 8 & 1; }

inline void decode_q8_0(GgufBytes block, float* to) {
  const float scale = gguf_f16(block);
  for (std::size_t i = 0; i < 32; ++i) to[i] = scale * static_cast<float>(gguf_i8(block[2 + i]));
}
inline void decode_q4_0(GgufBytes block, float* to) {
  const float scale = gguf_f16(block);
  for (std::size_t i = 0; i < 32; ++i) to[i] = scale * static_cast<float>(gguf_half_byte(block + 2, i) - 8);
}
inline void decode_q4_1(GgufBytes block, float* to) {
  const float scale = gguf_f16(block), least = gguf_f16(block + 2);
  for (std::size_t i = 0; i < 32; ++i) to[i] = scale * static_cast<float>(gguf_half_byte(block + 4, i)) + least;
}
inline void decode_q5_0(GgufBytes block, float* to) {
  const float scale = gguf_f16(block);
  for (std::size_t i = 0; i < 32; ++i)
    to[i] = scale * static_cast<float>((gguf_half_byte(block + 6, i) | gguf_bit(block + 2, i) << 4) - 16);
}
inline void decode_q5_1(GgufBytes block, float* to) {
  const float scale = gguf_f16(block), least = gguf_f16(block + 2);
  for (std::size_t i = 0; i < 32; ++i)
    to[i] = scale * static_cast<float>(gguf_half_byte(block + 8, i) | gguf_bit(block + 4, i) << 4) + least;
}

/// What the twelve bytes of Q4_K and Q5_K say of group `group` of 8: six bits of scale and six of minimum.
struct GgufGroup {
  int scale, least;
};
inline GgufGroup gguf_group(GgufBytes packed, std::size_t group) {
  if (group < 4) return {packed[group] & 63, packed[group + 4] & 63};
  const int last = packed[group + 4];
  return {(last & 15) | packed[group - 4] >> 6 << 4, last >> 4 | packed[group] >> 6 << 4};
}

inline void decode_q2_k(GgufBytes block, float* to) {
  const GgufBytes groups = block, values = block + 16;
  const float scale = gguf_f16(block + 80), least = gguf_f16(block + 82);
  for (std::size_t i = 0; i < 256; ++i) {
    const int group = groups[i / 16];
    const int value = values[i / 128 * 32 + i % 32] >> i % 128 / 32 * 2 & 3;
    to[i] = scale * static_cast<float>(group & 15) * static_cast<float>(value) - least * static_cast<float>(group >> 4);
  }
}
inline void decode_q3_k(GgufBytes block, float* to) {
  const GgufBytes high = block, values = block + 32, groups = block + 96;
  const float scale = gguf_f16(block + 108);
  for (std::size_t i = 0; i < 256; ++i) {
    const std::size_t group = i / 16;
    const int low_bits = groups[group % 8] >> group / 8 * 4 & 15,
              high_bits = groups[8 + group % 4] >> group / 4 * 2 & 3;
    const int value = values[i / 128 * 32 + i % 32] >> i % 128 / 32 * 2 & 3;
    const int less = high[i % 32] >> i / 32 & 1 ? 0 : 4;
    to[i] = scale * static_cast<float>((low_bits | high_bits << 4) - 32) * static_cast<float>(value - less);
  }
}
/// Q4_K, and Q5_K, whose fifth bits are in `high`.
inline void decode_q45_k(GgufBytes block, GgufBytes high, GgufBytes values, float* to) {
  const float scale = gguf_f16(block), least = gguf_f16(block + 2);
  for (std::size_t group = 0; group < 8; ++group) {
    const GgufGroup scales = gguf_group(block + 4, group);
    const float step = scale * static_cast<float>(scales.scale), offset = least * static_cast<float>(scales.least);
    for (std::size_t i = 0; i < 32; ++i) {
      int value = values[group / 2 * 32 + i] >> group % 2 * 4 & 15;
      if (high != nullptr) value |= (high[i] >> group & 1) << 4;
      to[group * 32 + i] = step * static_cast<float>(value) - offset;
    }
  }
}
inline void decode_q4_k(GgufBytes block, float* to) { decode_q45_k(block, nullptr, block + 16, to); }
inline void decode_q5_k(GgufBytes block, float* to) { decode_q45_k(block, block + 16, block + 48, to); }
inline void decode_q6_k(GgufBytes block, float* to) {
  const GgufBytes low = block, high = block + 128, groups = block + 192;
  const float scale = gguf_f16(block + 208);
  for (std::size_t i = 0; i < 256; ++i) {
    const std::size_t half = i / 128, quarter = i % 128 / 32, lane = i % 32;
    const int low_bits = low[half * 64 + quarter % 2 * 32 + lane] >> quarter / 2 * 4 & 15;
    const int high_bits = high[half * 32 + lane] >> quarter * 2 & 3;
    to[i] = scale * static_cast<float>(gguf_i8(groups[i / 16])) * static_cast<float>((low_bits | high_bits << 4) - 32);
  }
}

/// What the sixteen values of IQ4_NL and IQ4_XS stand for.
inline constexpr std::array<signed char, 16> gguf_iq4_values{-127, -104, -83, -65, -49, -35, -22, -10,
                                                             1,    13,   25,  38,  53,  69,  89,  113};
inline float gguf_iq4(GgufBytes bytes, std::size_t i) {
  return static_cast<float>(gguf_iq4_values[static_cast<std::size_t>(gguf_half_byte(bytes, i))]);
}
inline void decode_iq4_nl(GgufBytes block, float* to) {
  const float scale = gguf_f16(block);
  for (std::size_t i = 0; i < 32; ++i) to[i] = scale * gguf_iq4(block + 2, i);
}
inline void decode_iq4_xs(GgufBytes block, float* to) {
  const float scale = gguf_f16(block);
  const int high = block[2] | block[3] << 8;
  for (std::size_t group = 0; group < 8; ++group) {
    const int bits = (block[4 + group / 2] >> group % 2 * 4 & 15) | (high >> 2 * group & 3) << 4;
    const float step = scale * static_cast<float>(bits - 32);
    for (std::size_t i = 0; i < 32; ++i) to[group * 32 + i] = step * gguf_iq4(block + 8 + group * 16, i);
  }
}

inline constexpr std::array<GgufBlock, 12> gguf_blocks{{{2, "Q4_0", 32, 18, decode_q4_0},
                                                        {3, "Q4_1", 32, 20, decode_q4_1},
                                                        {6, "Q5_0", 32, 22, decode_q5_0},
                                                        {7, "Q5_1", 32, 24, decode_q5_1},
                                                        {8, "Q8_0", 32, 34, decode_q8_0},
                                                        {10, "Q2_K", 256, 84, decode_q2_k},
                                                        {11, "Q3_K", 256, 110, decode_q3_k},
                                                        {12, "Q4_K", 256, 144, decode_q4_k},
                                                        {13, "Q5_K", 256, 176, decode_q5_k},
                                                        {14, "Q6_K", 256, 210, decode_q6_k},
                                                        {20, "IQ4_NL", 32, 18, decode_iq4_nl},
                                                        {23, "IQ4_XS", 256, 136, decode_iq4_xs}}};

SINTER_DECL const GgufBlock* find_gguf_block(std::uint64_t code) {
  for (const GgufBlock& block : gguf_blocks)
    if (block.code == code) return &block;
  return nullptr;
}
SINTER_DECL std::string gguf_block_names() {
  std::string names;
  for (const GgufBlock& block : gguf_blocks) names.append(names.empty() ? "" : ", ").append(block.name);
  return names;
}

}  // namespace io::io_detail
SINTER_NAMESPACE_END
