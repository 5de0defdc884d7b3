// Guarded blocks, for debugging (SINTER_GUARD_PAGES): each block of host memory lies against an inaccessible page,
// so that what reads or writes past it stops there; generated code, which no sanitizer sees, too. A new block is full
// of NaN, and a freed one is gone. Knows nothing of the allocator.
#pragma once

#include <sinter/base/config.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

SINTER_NAMESPACE_BEGIN

namespace tensor_detail {

/// Which end of each block lies against an inaccessible page.
enum class GuardPages : std::uint8_t { none, at_start, at_end };
/// As SINTER_GUARD_PAGES says, read once. Throws UserError for what it does not know.
GuardPages guard_pages();

/// `bytes` of memory, each byte 0xFF, which makes a NaN of every floating dtype; null where the system has none left.
/// Its end lies against a page exactly, so it is aligned as far as its size is.
void* guarded_block(std::size_t bytes, GuardPages guards);
/// `data` and `bytes` are those of guarded_block.
void free_guarded_block(void* data, std::size_t bytes, GuardPages guards) noexcept;

/// Where pieces of these sizes lie in one guarded block, each against a page that belongs to none; the block's size.
std::int64_t place_guarded_pieces(std::span<const std::int64_t> bytes, GuardPages guards,
                                  std::vector<std::int64_t>& offsets);
/// Makes the pages between the pieces of such a block inaccessible.
void guard_pieces(void* block, std::span<const std::int64_t> bytes) noexcept;

}  // namespace tensor_detail

SINTER_NAMESPACE_END
