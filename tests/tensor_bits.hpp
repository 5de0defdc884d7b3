// The elements of an f32 tensor as numbers, and as bits, by which NaNs are equal to themselves.
#pragma once

#include <sinter/sinter.hpp>

#include <bit>
#include <cstdint>
#include <vector>

namespace sinter_test {

inline std::vector<float> floats(const sinter::Tensor& x) { return sinter::to_vector<float>(x); }
inline std::vector<std::uint32_t> bits(const sinter::Tensor& x) {
  std::vector<std::uint32_t> out;
  for (const float value : floats(x)) out.push_back(std::bit_cast<std::uint32_t>(value));
  return out;
}

}  // namespace sinter_test
