// VariableSlot: identity and content of a Variable, shared by its copies. Readers take no lock and no count: inside a
// ReadSection a value stays alive, and whoever replaces it puts it off until the sections that may see it have ended.
// A call that updates a Variable in place claims the slot; only then does a reader wait.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/ref.hpp>
#include <sinter/tensor/impl.hpp>

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

SINTER_NAMESPACE_BEGIN

namespace tensor_detail {
struct Reader;
}
struct GradientHooks;  // autodiff/tape.ipp

/// While one is open, the values that this thread reads in slots stay alive. Sections nest; one belongs to its thread.
class ReadSection {
 public:
  ReadSection() = default;
  ReadSection(const ReadSection&) = delete;
  ReadSection& operator=(const ReadSection&) = delete;
  ~ReadSection() { end(); }
  void begin() {
    if (!is_open_) enter();
    is_open_ = true;
  }
  void end() noexcept {
    if (is_open_) leave();
    is_open_ = false;
  }

 private:
  static void enter();
  static void leave() noexcept;
  bool is_open_ = false;
};

struct VariableSlot : public std::enable_shared_from_this<VariableSlot> {
 public:
  /// A Variable of which each thread has one of its own: the state of its default generator.
  enum class PerThreadRole : std::uint8_t { none, random_key, random_counter };

  VariableSlot(Ref<TensorImpl> value, std::string its_name)
      : name(std::move(its_name)), word_(reinterpret_cast<std::uintptr_t>(value.detach())) {}
  VariableSlot(const VariableSlot&) = delete;
  VariableSlot& operator=(const VariableSlot&) = delete;
  ~VariableSlot() { reinterpret_cast<TensorImpl*>(word_.load(std::memory_order_acquire))->release(); }

  /// The value now.
  Ref<TensorImpl> value() const;
  /// The value now, without a count of its own; valid until `section`, which this begins, ends.
  TensorImpl* peek(ReadSection& section) const {
    section.begin();
    return load();
  }
  void set(Ref<TensorImpl> next);
  /// As that, where the value is still `expected`, of which the caller holds a count.
  bool set_if(const TensorImpl& expected, Ref<TensorImpl> next);

  /// The slot of the gradient in tape style, or null: none is required (autodiff/tape.hpp).
  const std::shared_ptr<VariableSlot>* gradient() const {
    return has_gradient_.load(std::memory_order_acquire) ? &gradient_ : nullptr;
  }
  /// As gradient(), also where none is required any more: for who saw it, or overlaps nobody who gives it one.
  const std::shared_ptr<VariableSlot>& gradient_once_required() const { return gradient_; }
  /// Gives it a slot for its gradient, the only one that it ever has. Not for calls that overlap, as what follows.
  void make_gradient(std::shared_ptr<VariableSlot> slot) { gradient_ = std::move(slot); }
  void require_gradient(bool is_required) { has_gradient_.store(is_required, std::memory_order_release); }

  /// What code that met this Variable in one thread uses in the calling thread: itself, or the caller's of the same
  /// role.
  VariableSlot* here() { return SINTER_LIKELY(role == PerThreadRole::none) ? this : &of_this_thread(role); }
  friend bool is_same_role(const VariableSlot& a, const VariableSlot& b) {
    return &a == &b || (a.role != PerThreadRole::none && a.role == b.role);
  }

  const std::string name;
  std::shared_ptr<GradientHooks> hooks{};    // of a gradient's slot, and written before anybody else sees it
  PerThreadRole role = PerThreadRole::none;  // written before anybody else sees the slot

 private:
  friend class SlotClaims;
  /// Made at its first use in a thread. Defined by the expr layer.
  static VariableSlot& of_this_thread(PerThreadRole role);
  friend void set_slots(std::span<VariableSlot* const> slots, std::span<TensorImpl*> values) noexcept;
  static constexpr std::uintptr_t claimed = 1;

  TensorImpl* load() const {
    std::uintptr_t word = word_.load();
    if (SINTER_UNLIKELY((word & claimed) != 0)) word = wait();
    return reinterpret_cast<TensorImpl*>(word);
  }
  std::uintptr_t wait() const;
  TensorImpl* exchange(TensorImpl* next) noexcept;

  mutable std::atomic<std::uintptr_t> word_;  // the value, owned; lowest bit: claimed
  std::atomic<bool> has_gradient_{false};
  std::shared_ptr<VariableSlot> gradient_;  // written once, before the flag is first set
};

/// Gives each slot its value, whose count it takes over.
void set_slots(std::span<VariableSlot* const> slots, std::span<TensorImpl*> values) noexcept;

/// Slots whose values are about to be overwritten in place. Never waits. What is claimed is given back when this ends;
/// until then readers wait, so nothing in between may read Variables on this thread.
class SlotClaims {
 public:
  SlotClaims() = default;
  SlotClaims(const SlotClaims&) = delete;
  SlotClaims& operator=(const SlotClaims&) = delete;
  ~SlotClaims() { clear(); }
  void reserve(std::size_t count);
  /// Asks for a slot. False when another thread has claimed it.
  bool add(VariableSlot& slot);
  /// Keeps those whose memory nobody else can see: no other handle, no thread that is reading Variables now. Call once.
  void confirm();
  /// Is the i-th slot that was added still claimed?
  bool holds(std::size_t i) const { return slots_[i] != nullptr; }
  std::size_t size() const { return slots_.size(); }
  /// The value of a slot that is held.
  TensorImpl* value(std::size_t i) const {
    return reinterpret_cast<TensorImpl*>(slots_[i]->word_.load() & ~VariableSlot::claimed);
  }
  /// Gives it back with a new value.
  void publish(std::size_t i, Ref<TensorImpl> value) noexcept;
  /// Gives all back, as they are.
  void clear() noexcept;

 private:
  bool announce();
  void withdraw() noexcept;
  static void give_back(VariableSlot& slot) noexcept { slot.word_.fetch_and(~VariableSlot::claimed); }
  std::vector<VariableSlot*> slots_;         // null: not claimed any more
  tensor_detail::Reader* reader_ = nullptr;  // of the one thread that uses this
  bool is_announced_ = false;                // there: a forked child must not find slots that nobody gives back
};

namespace tensor_detail {
/// Frees replaced values that no thread can be reading any more.
void release_retired() noexcept;
}  // namespace tensor_detail

SINTER_NAMESPACE_END
