// What a thread keeps from one tile of a product to the next.
#pragma once

#include <sinter/backend/x86/contraction/aligned_bytes.hpp>
#include <sinter/backend/x86/contraction/micro.hpp>
#include <sinter/backend/x86/nest/loop.hpp>
#include <sinter/base/config.hpp>
#include <sinter/base/per_thread.hpp>

#include <cstddef>

SINTER_NAMESPACE_BEGIN
namespace x86 {
namespace x86_contraction_detail {

/// Per thread: unfinished tiles, and what micro-kernels and the epilogue's code need.
struct TileScratch {
  AlignedBytes tile, loop, panel;
  AlignedBytes shared;  // of the thread that runs a product of whole rows: its packed B, which all threads read
  alignas(64) std::byte totals[max_tile_bytes];
  LoopArgs args;
  LoopArgs::Status status;
};
inline TileScratch& tile_scratch() {
  return thread_object([] { return new TileScratch; });
}

}  // namespace x86_contraction_detail
}  // namespace x86
SINTER_NAMESPACE_END
