// Memory of pending nodes: a block for the node and its leaves, of two sizes from the thread's pools, and how many of
// them the thread has. Knows nothing of what they say. Included by pending_node.ipp alone.
#pragma once

#include <sinter/base/block_pool.hpp>
#include <sinter/base/config.hpp>
#include <sinter/graph/pending_node.hpp>
#include <sinter/tensor/leaf.hpp>

#include <cstddef>
#include <cstdint>
#include <new>

SINTER_NAMESPACE_BEGIN

namespace graph_detail {

/// Pending nodes alive on this thread, which nobody has run; bounds how much work can accumulate.
inline std::int64_t& pending_nodes() noexcept {
  static thread_local constinit std::int64_t count = 0;
  return count;
}

inline constexpr std::size_t small_leaves = 4, large_leaves = 16;
inline constexpr std::size_t small_bytes = sizeof(PendingNode) + small_leaves * sizeof(Leaf);
inline constexpr std::size_t large_bytes = sizeof(PendingNode) + large_leaves * sizeof(Leaf);

inline void* allocate_pending_node(std::size_t leaves) {
  if (leaves <= small_leaves) return BlockPool<small_bytes>::allocate();
  if (leaves <= large_leaves) return BlockPool<large_bytes>::allocate();
  return ::operator new(sizeof(PendingNode) + leaves * sizeof(Leaf), std::align_val_t{16});
}
inline void free_pending_node(void* block, std::size_t leaves) noexcept {
  if (leaves <= small_leaves) BlockPool<small_bytes>::release(block);
  else if (leaves <= large_leaves) BlockPool<large_bytes>::release(block);
  else ::operator delete(block, std::align_val_t{16});
}

}  // namespace graph_detail

SINTER_NAMESPACE_END
