// The chips that generated CUDA C is compiled for in tests that need no GPU.
#pragma once

#include <cstdint>
#include <iterator>
#include <string>

namespace sinter_test {

/// Compute capabilities: A100; L4 and RTX 40; H100 and H200; RTX 50.
inline constexpr int cuda_chips[] = {80, 89, 90, 120};

/// One of them for each number.
inline int cuda_chip(std::uint64_t number) { return cuda_chips[number % std::size(cuda_chips)]; }

/// As NVRTC calls it.
inline std::string architecture_of(int capability) { return "sm_" + std::to_string(capability); }

}  // namespace sinter_test
