// 128-bit structural hashing. Keys of every cache are hashed with it and compared for equality on a hit; addresses
// and names never enter a key. constexpr, so that an expression's structure is hashed at compile time.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/index.hpp>

#include <bit>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>

SINTER_NAMESPACE_BEGIN

/// A 128-bit hash value.
struct Hash128 {
  std::uint64_t low = 0, high = 0;
  friend constexpr auto operator<=>(const Hash128&, const Hash128&) = default;
};

/// Feeds words into two independent multiply-xor lanes. Order matters; feed lengths before variable-size data.
class Hasher {
 public:
  constexpr Hasher& add(std::uint64_t word) {
    a_ = mix(a_ ^ word, 0x9E3779B97F4A7C15ULL);
    b_ = mix(b_ + word, 0xC2B2AE3D27D4EB4FULL);
    return *this;
  }
  constexpr Hasher& add(std::string_view text) {
    add(text.size());
    std::uint64_t word = 0;
    int filled = 0;
    for (char c : text) {
      word = (word << 8) | static_cast<unsigned char>(c);
      if (++filled == 8) {
        add(word);
        word = 0;
        filled = 0;
      }
    }
    return filled != 0 ? add(word) : *this;
  }
  constexpr Hasher& add(double value) { return add(std::bit_cast<std::uint64_t>(value)); }
  constexpr Hasher& add(const Hash128& hash) { return add(hash.low).add(hash.high); }
  constexpr Hash128 finish() const { return {mix(a_, 0xFF51AFD7ED558CCDULL), mix(b_, 0xC4CEB9FE1A85EC53ULL)}; }

 private:
  static constexpr std::uint64_t mix(std::uint64_t x, std::uint64_t odd) {
    x *= odd;
    x ^= x >> 29;
    x *= 0xBF58476D1CE4E5B9ULL;
    return x ^ (x >> 32);
  }
  std::uint64_t a_ = 0x243F6A8885A308D3ULL, b_ = 0x13198A2E03707344ULL;
};

struct Hash128Hash {
  std::size_t operator()(const Hash128& h) const noexcept { return as_index(h.low ^ (h.high * 31)); }
};

SINTER_NAMESPACE_END
