// Philox4x32-10, the counter-based random generator of Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy
// as 1, 2, 3" (SC 2011), and how `random_bits` uses it. Every back end gives these bits. Knows nothing of tensors.
#pragma once

#include <sinter/base/config.hpp>

#include <array>
#include <cstdint>

SINTER_NAMESPACE_BEGIN

using PhiloxWords = std::array<std::uint32_t, 4>;
using PhiloxKey = std::array<std::uint32_t, 2>;

inline constexpr std::uint32_t philox_multiplier_0 = 0xD2511F53, philox_multiplier_1 = 0xCD9E8D57;
inline constexpr std::uint32_t philox_weyl_0 = 0x9E3779B9, philox_weyl_1 = 0xBB67AE85;
inline constexpr int philox_rounds = 10;

constexpr PhiloxWords philox4x32(PhiloxWords counter, PhiloxKey key) {
  for (int round = 0; round < philox_rounds; ++round) {
    const std::uint64_t product_0 = std::uint64_t{philox_multiplier_0} * counter[0];
    const std::uint64_t product_1 = std::uint64_t{philox_multiplier_1} * counter[2];
    counter = {static_cast<std::uint32_t>(product_1 >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(product_1),
               static_cast<std::uint32_t>(product_0 >> 32) ^ counter[3] ^ key[1],
               static_cast<std::uint32_t>(product_0)};
    key = {key[0] + philox_weyl_0, key[1] + philox_weyl_1};
  }
  return counter;
}

/// Prim::random_bits: word 0 of the block whose counter is (element, counter), as a number in [0, 2^32).
constexpr std::int64_t philox_bits(std::int64_t key, std::int64_t counter, std::int64_t element) {
  const auto low = [](std::int64_t word) { return static_cast<std::uint32_t>(static_cast<std::uint64_t>(word)); };
  const auto high = [](std::int64_t word) {
    return static_cast<std::uint32_t>(static_cast<std::uint64_t>(word) >> 32);
  };
  return philox4x32({low(element), high(element), low(counter), high(counter)}, {low(key), high(key)})[0];
}

SINTER_NAMESPACE_END
