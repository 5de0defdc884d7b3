// Giving out and taking back thread numbers.
#pragma once

#include <sinter/base/per_thread.hpp>

#include <sinter/base/fork.hpp>
#include <sinter/base/index.hpp>

#include <bitset>
#include <mutex>

SINTER_NAMESPACE_BEGIN

namespace base_detail {

struct ThreadSlots {
  ForkSafeMutex mutex;
  std::bitset<max_thread_slots> is_taken;
  std::atomic<int> in_use{0};
  static ThreadSlots& instance() { return process_object<ThreadSlots>(); }
};

/// Lives until its thread ends.
struct ThreadSlotLease {
  ~ThreadSlotLease() {
    ThreadSlots& slots = ThreadSlots::instance();
    const int slot = own_thread_slot();
    own_thread_slot() = no_slot;
    std::scoped_lock lock(slots.mutex);
    if (slot >= 0) slots.is_taken.reset(as_index(slot));
  }
};

SINTER_DECL int take_thread_slot() noexcept {
  ThreadSlots& slots = ThreadSlots::instance();
  static thread_local ThreadSlotLease lease;
  static_cast<void>(lease);
  std::scoped_lock lock(slots.mutex);
  int slot = 0;
  while (slot < max_thread_slots && slots.is_taken[as_index(slot)]) ++slot;
  if (slot == max_thread_slots) return own_thread_slot() = no_slot;
  slots.is_taken.set(as_index(slot));
  if (slot >= slots.in_use.load(std::memory_order_relaxed)) slots.in_use.store(slot + 1, std::memory_order_seq_cst);
  return own_thread_slot() = slot;
}

}  // namespace base_detail

SINTER_DECL int thread_slots_in_use() noexcept {
  return base_detail::ThreadSlots::instance().in_use.load(std::memory_order_seq_cst);
}

SINTER_NAMESPACE_END
