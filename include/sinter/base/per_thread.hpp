// One object per thread and owner, found without a lock and without an atomic read-modify-write. Threads have small
// numbers while they live; a thread that starts takes over number and objects of one that ended.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/index.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <type_traits>
#include <utility>

SINTER_NAMESPACE_BEGIN

namespace base_detail {
inline constexpr int slot_chunk = 32, max_thread_slots = 1024;
inline constexpr int unknown_slot = -2, no_slot = -1;
inline int& own_thread_slot() noexcept {
  static thread_local constinit int slot = unknown_slot;
  return slot;
}
int take_thread_slot() noexcept;
}  // namespace base_detail

/// This thread's number, from 0 on, different from that of every other living thread. -1 for threads past the 1024th
/// and after a thread's end has begun. Whoever takes over a number sees everything its former owner did.
inline int thread_slot() noexcept {
  int slot = base_detail::own_thread_slot();
  return SINTER_LIKELY(slot != base_detail::unknown_slot) ? slot : base_detail::take_thread_slot();
}
/// One more than the highest number given so far.
int thread_slots_in_use() noexcept;

/// A T for each thread that asked. Freed with the owner; T should fill cache lines of its own (alignas(64)).
template <class T>
class PerThread {
 public:
  PerThread() = default;
  PerThread(const PerThread&) = delete;
  PerThread& operator=(const PerThread&) = delete;
  ~PerThread() {
    for (auto& place : chunks_)
      if (Chunk* chunk = place.load(std::memory_order_acquire)) {
        for (auto& item : chunk->items) delete item.load(std::memory_order_acquire);
        delete chunk;
      }
  }

  /// This thread's object, made on first use; null for a thread without a number.
  T* get() const {
    const int slot = thread_slot();
    if (SINTER_UNLIKELY(slot < 0)) return nullptr;
    T* item = at(slot);
    return SINTER_LIKELY(item != nullptr) ? item : make(slot);
  }
  /// The object of the thread with this number, or null. The caller knows what may be read of it. Sequentially
  /// consistent with its making.
  T* at(int slot) const noexcept {
    Chunk* chunk = chunks_[as_index(slot) / base_detail::slot_chunk].load();
    return chunk != nullptr ? chunk->items[as_index(slot) % base_detail::slot_chunk].load() : nullptr;
  }
  template <class F>
  void for_each(F&& visit) const {
    for (auto& place : chunks_)
      if (Chunk* chunk = place.load(std::memory_order_acquire))
        for (auto& item : chunk->items)
          if (T* found = item.load(std::memory_order_acquire)) visit(*found);
  }

 private:
  struct Chunk {
    std::array<std::atomic<T*>, base_detail::slot_chunk> items{};
  };
  SINTER_NOINLINE T* make(int slot) const {
    auto& place = chunks_[as_index(slot) / base_detail::slot_chunk];
    Chunk* chunk = place.load();
    if (chunk == nullptr) {
      auto* made = new Chunk;
      if (place.compare_exchange_strong(chunk, made)) chunk = made;
      else delete made;  // another thread was first; `chunk` is its one
    }
    T* item = new T;
    chunk->items[as_index(slot) % base_detail::slot_chunk].store(item);
    return item;
  }
  mutable std::array<std::atomic<Chunk*>, base_detail::max_thread_slots / base_detail::slot_chunk> chunks_{};
};

namespace base_detail {
/// Trivially destructible, so that it can be asked while the thread's other objects die.
template <class T, class Make>
struct ThreadObject {
  static T*& place() noexcept {
    static thread_local constinit T* object = nullptr;
    return object;
  }
  struct Sweeper {
    ~Sweeper() { delete std::exchange(place(), nullptr); }
  };
  SINTER_NOINLINE static T& make(Make& make) {
    place() = make();
    static thread_local Sweeper sweeper;
    static_cast<void>(sweeper);
    return *place();
  }
};
}  // namespace base_detail

/// This thread's own object that `make` returns a pointer to: made at its first use, destroyed with the thread. Whoever
/// asks after that, as static destructors do on the main thread, gets a new one, which stays. There is one for each
/// type of `make`.
template <class Make>
auto& thread_object(Make make) {
  using Object = base_detail::ThreadObject<std::remove_pointer_t<decltype(make())>, Make>;
  auto* object = Object::place();
  return SINTER_LIKELY(object != nullptr) ? *object : Object::make(make);
}

SINTER_NAMESPACE_END
