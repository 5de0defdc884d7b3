// Epochs. A thread that reads writes the epoch into a place of its own and then reads the slot; a thread that replaces
// a value exchanges it in the slot and then reads those places. All four are sequentially consistent, so that either
// the reader gets the new value or the writer sees the reader.
#pragma once

#include <sinter/tensor/slot.hpp>

#include <sinter/base/block_pool.hpp>
#include <sinter/base/fork.hpp>
#include <sinter/base/per_thread.hpp>
#include <sinter/tensor/call_journal.hpp>

#include <algorithm>
#include <chrono>
#include <limits>
#include <thread>

SINTER_NAMESPACE_BEGIN

namespace tensor_detail {

struct alignas(64) Reader {
  std::atomic<std::uint64_t> entered{0};  // epoch of the outermost open section; 0: none
  int depth = 0;
  std::atomic<int> claims{0};  // SlotClaims that may hold slots; only this thread changes it
};
/// A replaced value that may still be read by sections entered before epoch `since`.
struct RetiredValue {
  TensorImpl* value;
  std::uint64_t since;
  RetiredValue* next;
};
struct Readers {
  PerThread<Reader> threads;
  std::atomic<std::uint64_t> epoch{1};
  std::atomic<int> unnumbered{0};  // open sections of threads without a number
  std::atomic<RetiredValue*> retired{nullptr};
  bool does_another_thread_claim() const noexcept {
    const Reader* own = thread_slot() >= 0 ? threads.at(thread_slot()) : nullptr;
    bool does = false;
    threads.for_each([&](const Reader& reader) { does |= &reader != own && reader.claims.load() != 0; });
    return does;
  }
  /// A forked child has none of them, whatever they were reading.
  void forget_other_threads() noexcept {
    const Reader* own = thread_slot() >= 0 ? threads.at(thread_slot()) : nullptr;
    threads.for_each([&](Reader& reader) {
      if (&reader != own) {
        reader.entered = 0;
        reader.depth = 0;
        reader.claims = 0;
      }
    });
    if (own != nullptr) unnumbered = 0;
  }
  static Readers& instance() {
    return process_object([] {
      in_forked_child([] { instance().forget_other_threads(); });
      wait_before_fork([] { return instance().does_another_thread_claim(); });
      return new Readers;
    });
  }
};

inline constexpr std::uint64_t no_reader = std::numeric_limits<std::uint64_t>::max();

/// The lowest epoch in which a section that is open now was entered. `ignored`: a place to pass over.
inline std::uint64_t oldest_reader(Readers& readers, const Reader* ignored = nullptr) noexcept {
  if (readers.unnumbered.load() != 0) return 0;
  std::uint64_t oldest = no_reader;
  const int slots = thread_slots_in_use();
  for (int slot = 0; slot < slots; ++slot) {
    const Reader* reader = readers.threads.at(slot);
    if (reader == nullptr || reader == ignored) continue;
    if (std::uint64_t entered = reader->entered.load(); entered != 0) oldest = std::min(oldest, entered);
  }
  return oldest;
}

inline void push_retired(Readers& readers, RetiredValue* node) noexcept {
  node->next = readers.retired.load(std::memory_order_relaxed);
  while (
      !readers.retired.compare_exchange_weak(node->next, node, std::memory_order_release, std::memory_order_relaxed)) {}
}

SINTER_DECL void release_retired() noexcept {
  Readers& readers = Readers::instance();
  if (SINTER_LIKELY(readers.retired.load(std::memory_order_relaxed) == nullptr)) return;
  RetiredValue* node = readers.retired.exchange(nullptr, std::memory_order_acquire);
  const std::uint64_t oldest = oldest_reader(readers);
  while (node != nullptr) {
    RetiredValue* next = node->next;
    if (node->since <= oldest) {
      node->value->release();
      BlockPool<sizeof(RetiredValue)>::release(node);
    } else {
      push_retired(readers, node);
    }
    node = next;
  }
}

/// Releases values that have been replaced, now or when nobody can be reading them.
inline void retire(std::span<TensorImpl* const> values) noexcept {
  Readers& readers = Readers::instance();
  if (SINTER_LIKELY(oldest_reader(readers) == no_reader)) {
    for (TensorImpl* value : values) value->release();
  } else {
    const std::uint64_t since = readers.epoch.fetch_add(1) + 1;
    for (TensorImpl* value : values) {
      try {
        push_retired(readers, new (BlockPool<sizeof(RetiredValue)>::allocate()) RetiredValue{value, since, nullptr});
      } catch (...) {  // no memory even for this: the value stays, which is safe
      }
    }
  }
  release_retired();
}

}  // namespace tensor_detail

SINTER_DECL void ReadSection::enter() {
  auto& readers = tensor_detail::Readers::instance();
  if (tensor_detail::Reader* own = readers.threads.get(); SINTER_LIKELY(own != nullptr)) {
    if (own->depth++ == 0) own->entered.store(readers.epoch.load());
  } else {
    readers.unnumbered.fetch_add(1);
  }
}
SINTER_DECL void ReadSection::leave() noexcept {
  auto& readers = tensor_detail::Readers::instance();
  tensor_detail::Reader* own = thread_slot() >= 0 ? readers.threads.at(thread_slot()) : nullptr;
  if (SINTER_LIKELY(own != nullptr)) {
    if (--own->depth == 0) own->entered.store(0, std::memory_order_release);
  } else {
    readers.unnumbered.fetch_sub(1);
  }
}

SINTER_DECL Ref<TensorImpl> VariableSlot::value() const {
  ReadSection section;
  return Ref<TensorImpl>::share(peek(section));
}

/// Another thread is writing the value in place.
SINTER_DECL std::uintptr_t VariableSlot::wait() const {
  for (int round = 0;; ++round) {
    if (std::uintptr_t word = word_.load(); (word & claimed) == 0) return word;
    if (round < 1000) std::this_thread::yield();
    else std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

SINTER_DECL TensorImpl* VariableSlot::exchange(TensorImpl* next) noexcept {
  std::uintptr_t word = word_.load();
  do {
    if (SINTER_UNLIKELY((word & claimed) != 0)) word = wait();
  } while (!word_.compare_exchange_weak(word, reinterpret_cast<std::uintptr_t>(next)));
  return reinterpret_cast<TensorImpl*>(word);
}

SINTER_DECL void VariableSlot::set(Ref<TensorImpl> next) {
  TensorImpl* old = exchange(next.detach());
  if (CallJournal* journal = CallJournal::current()) journal->note_assigned(*this, Ref<TensorImpl>::share(old));
  tensor_detail::retire({&old, 1});
}

SINTER_DECL bool VariableSlot::set_if(const TensorImpl& expected, Ref<TensorImpl> next) {
  auto* old = const_cast<TensorImpl*>(&expected);
  if ((word_.load() & claimed) != 0) wait();
  auto word = reinterpret_cast<std::uintptr_t>(old);
  if (!word_.compare_exchange_strong(word, reinterpret_cast<std::uintptr_t>(next.get()))) return false;
  static_cast<void>(next.detach());
  if (CallJournal* journal = CallJournal::current()) journal->note_assigned(*this, Ref<TensorImpl>::share(old));
  tensor_detail::retire({&old, 1});
  return true;
}

SINTER_DECL void set_slots(std::span<VariableSlot* const> slots, std::span<TensorImpl*> values) noexcept {
  CallJournal* journal = slots.empty() ? nullptr : CallJournal::current();
  for (std::size_t i = 0; i < slots.size(); ++i) {
    values[i] = slots[i]->exchange(values[i]);
    if (journal != nullptr) journal->note_assigned(*slots[i], Ref<TensorImpl>::share(values[i]));
  }
  if (!slots.empty()) tensor_detail::retire(values);
}

/// False for a thread without a number, whose claims would not be confirmed.
SINTER_DECL void SlotClaims::reserve(std::size_t count) { slots_.reserve(count); }

/// Announces, then looks at the gate; fork() closes the gate, then looks for announcements. Not before both is a slot
/// touched: a child that was forked in between would find it claimed for ever.
SINTER_DECL bool SlotClaims::announce() {
  if (SINTER_UNLIKELY(reader_ == nullptr)) reader_ = tensor_detail::Readers::instance().threads.get();
  if (SINTER_UNLIKELY(reader_ == nullptr)) return false;
  reader_->claims.fetch_add(1);
  is_announced_ = true;
  if (SINTER_LIKELY(!is_fork_under_way())) return true;
  withdraw();
  return false;
}
SINTER_DECL void SlotClaims::withdraw() noexcept {
  if (is_announced_)
    reader_->claims.store(reader_->claims.load(std::memory_order_relaxed) - 1, std::memory_order_release);
  is_announced_ = false;
}
SINTER_DECL bool SlotClaims::add(VariableSlot& slot) {
  slots_.push_back(nullptr);
  if (!is_announced_ && !announce()) return false;
  if ((slot.word_.fetch_or(VariableSlot::claimed) & VariableSlot::claimed) != 0) return false;
  slots_.back() = &slot;
  return true;
}

SINTER_DECL void SlotClaims::confirm() {
  if (slots_.empty()) return;
  auto& readers = tensor_detail::Readers::instance();
  const tensor_detail::Reader* own = thread_slot() >= 0 ? readers.threads.at(thread_slot()) : nullptr;
  // One section of this thread is the call's own; a second one belongs to a call around it, which still reads.
  // A journal may have to put the old values back.
  const bool is_alone = own != nullptr && own->depth <= 1 && CallJournal::current() == nullptr &&
                        tensor_detail::oldest_reader(readers, own) == tensor_detail::no_reader;
  for (VariableSlot*& slot : slots_) {
    if (slot == nullptr) continue;
    const auto* value = reinterpret_cast<const TensorImpl*>(slot->word_.load() & ~VariableSlot::claimed);
    // After the look at the readers: those who have left have counted what they keep.
    if (is_alone && value->is_ready() && value->use_count() == 1 && value->storage->use_count() == 1 &&
        value->storage->is_ours() && value->is_dense())
      continue;
    give_back(*slot);
    slot = nullptr;
  }
}

SINTER_DECL void SlotClaims::publish(std::size_t i, Ref<TensorImpl> value) noexcept {
  std::uintptr_t word = slots_[i]->word_.exchange(reinterpret_cast<std::uintptr_t>(value.detach()));
  slots_[i] = nullptr;
  reinterpret_cast<TensorImpl*>(word & ~VariableSlot::claimed)->release();  // nobody else saw it
}

SINTER_DECL void SlotClaims::clear() noexcept {
  for (VariableSlot* slot : slots_)
    if (slot != nullptr) give_back(*slot);
  slots_.clear();
  withdraw();
}

SINTER_NAMESPACE_END
