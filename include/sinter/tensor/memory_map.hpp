// MemoryMap: which large blocks of memory there are and what they were made for, so that OutOfMemory can name those
// that hold most. A block is listed while it exists, in use or cached; who makes values in it writes a number into it.
// Knows nothing of the allocator.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/error.hpp>
#include <sinter/tensor/device.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

SINTER_NAMESPACE_BEGIN

class Storage;

namespace tensor_detail {

/// Stands for an operation and the user's line that asked for it.
enum class Maker : std::uint32_t { unknown = 0 };
/// Its number; the same for the same operation and line. Takes a lock: plans ask when they are made, not at calls.
Maker maker_of(std::string_view op, Location where);
/// "matmul at train.cpp:12", or "" for an unknown one.
std::string text_of(Maker maker);

/// Smaller blocks are not listed.
inline constexpr std::size_t listed_bytes = std::size_t{64} << 10;

void list_block(Storage& block);
void forget_block(Storage& block) noexcept;
/// "the largest buffers: 4194304 bytes of exp at main.cpp:7; ...", five at most, or "" if there is none on the device.
std::string largest_blocks(Device device);
/// What the allocation that this thread is making is for.
Maker& wanted_for() noexcept;

}  // namespace tensor_detail

SINTER_NAMESPACE_END
