// Thread-local free lists of small blocks of one size: in steady state values, pending nodes and statements cost no
// call of the system's allocator. Blocks may be freed by another thread than the one that made them.
#pragma once

#include <sinter/base/config.hpp>

#include <cstddef>
#include <new>

SINTER_NAMESPACE_BEGIN

/// Fixed-size blocks of `Bytes`. At most `Capacity` free blocks are kept per thread.
template <std::size_t Bytes, std::size_t Capacity = 512>
class BlockPool {
 public:
  static void* allocate() {
    Cache& cache = local();
    if (SINTER_LIKELY(cache.head != nullptr)) {
      Free* block = cache.head;
      cache.head = block->next;
      --cache.count;
      return block;
    }
    return ::operator new(Bytes);
  }
  static void release(void* block) noexcept {
    Cache& cache = local();
    if (SINTER_UNLIKELY(cache.is_dead || cache.count == Capacity)) {
      ::operator delete(block);
      return;
    }
    auto* free = static_cast<Free*>(block);
    free->next = cache.head;
    cache.head = free;
    if (cache.count++ == 0) arm();
  }

 private:
  static_assert(Bytes >= sizeof(void*) && __STDCPP_DEFAULT_NEW_ALIGNMENT__ >= 16);
  struct Free {
    Free* next;
  };
  // Trivially destructible, so that frees after the thread's other objects died still find it.
  struct Cache {
    Free* head;
    std::size_t count;
    bool is_dead;
  };
  struct Sweeper {
    ~Sweeper() {
      Cache& cache = local();
      cache.is_dead = true;
      while (cache.head != nullptr) {
        Free* next = cache.head->next;
        ::operator delete(cache.head);
        cache.head = next;
      }
      cache.count = 0;
    }
  };
  static Cache& local() noexcept {
    static thread_local constinit Cache cache{nullptr, 0, false};
    return cache;
  }
  static void arm() noexcept {
    static thread_local Sweeper sweeper;
    static_cast<void>(sweeper);
  }
};

/// Free blocks that a thread keeps of a size: 64 KiB at most.
template <std::size_t Bytes>
inline constexpr std::size_t small_blocks_kept = Bytes <= 256 ? 256 : 8;

/// Memory of any size from pools of fixed sizes; past 64 KiB from the system. To be released with the same size.
template <std::size_t Bytes = 256>
void* allocate_pooled(std::size_t bytes) {
  if constexpr (Bytes > (std::size_t{64} << 10)) return ::operator new(bytes);
  else
    return bytes <= Bytes ? BlockPool<Bytes, small_blocks_kept<Bytes>>::allocate() : allocate_pooled<Bytes * 4>(bytes);
}
template <std::size_t Bytes = 256>
void release_pooled(void* block, std::size_t bytes) noexcept {
  if constexpr (Bytes > (std::size_t{64} << 10)) ::operator delete(block);
  else
    bytes <= Bytes ? BlockPool<Bytes, small_blocks_kept<Bytes>>::release(block)
                   : release_pooled<Bytes * 4>(block, bytes);
}

/// Fills the thread's pools with what a few calls inside each other take, so that no first one asks the system.
template <std::size_t Bytes = 256>
void prepare_pools() {
  if constexpr (Bytes <= (std::size_t{64} << 10)) {
    constexpr std::size_t count = Bytes <= 1024 ? 8 : Bytes <= 4096 ? 4 : 1;
    void* blocks[count];
    for (void*& block : blocks) block = allocate_pooled<Bytes>(Bytes);
    prepare_pools<Bytes * 4>();
    for (void* block : blocks) release_pooled<Bytes>(block, Bytes);
  }
}

SINTER_NAMESPACE_END
