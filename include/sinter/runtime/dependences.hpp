// Which of several steps must wait for which, by the memory that they read and write. Knows neither plans nor kernels.
#pragma once

#include <sinter/base/config.hpp>

#include <cstdint>
#include <span>
#include <vector>

SINTER_NAMESPACE_BEGIN

/// A stretch of memory that a step reads, or writes and perhaps reads. Different spaces never overlap.
struct MemoryUse {
  std::uint32_t space = 0;
  std::int64_t begin = 0, end = 0;
  bool is_written = false;
};

/// For each step those before it, in ascending order, that must be done when it starts: steps that touch the same
/// memory, one of them writing. Those that others of them wait for anyway are left out.
std::vector<std::vector<std::uint32_t>> dependences_of(std::span<const std::vector<MemoryUse>> steps);

SINTER_NAMESPACE_END
