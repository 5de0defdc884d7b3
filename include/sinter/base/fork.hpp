// What makes fork() harmless while other threads are inside the library. The child has the forking thread only: a lock
// that another thread held would stay locked, and what it guards might be half written. So whoever takes a lock of the
// library is inside a section first, and fork() waits until no other thread is inside one.
//
// How to use it: take `ForkSafeMutex` for std::mutex and `ForkSafeSharedMutex` for std::shared_mutex; open a
// ForkSection around std::call_once and around any state that others must not find half changed; make objects of the
// process with process_object<T>() instead of a static local variable, whose guard is a lock as well. Where state of
// other threads has to be forgotten in the child, register a function with in_forked_child(). Never run functions of
// the user or wait for another thread inside a section: fork() would wait as long.
#pragma once

#include <sinter/base/config.hpp>

#include <atomic>
#include <mutex>
#include <shared_mutex>
#include <type_traits>

SINTER_NAMESPACE_BEGIN

namespace base_detail {
/// Entering counts and then looks whether the gate is closed; fork() closes it and then looks at the count. Both are
/// sequentially consistent: either the thread that enters sees the gate closed and leaves again, or fork() sees it
/// inside and waits. A thread that is inside may enter further sections, so it comes out in the end.
struct ForkGate {
  static constexpr int not_armed = -1;   // the functions for fork() are not registered yet
  std::atomic<int> inside{0};            // threads that have a section open
  std::atomic<int> closings{not_armed};  // forks under way
};
inline constinit ForkGate fork_gate;
inline int& fork_section_depth() noexcept {
  static thread_local constinit int depth = 0;
  return depth;
}
/// Arms the gate, or leaves and waits until it is open.
void pass_closed_fork_gate() noexcept;
}  // namespace base_detail

/// While one is open in a thread, fork() in another thread waits. Sections nest; one belongs to its thread.
class ForkSection {
 public:
  ForkSection() noexcept { begin(); }
  ForkSection(const ForkSection&) = delete;
  ForkSection& operator=(const ForkSection&) = delete;
  ~ForkSection() { end(); }
  static void begin() noexcept {
    using namespace base_detail;
    if (fork_section_depth()++ != 0) return;
    fork_gate.inside.fetch_add(1);
    if (SINTER_UNLIKELY(fork_gate.closings.load() != 0)) pass_closed_fork_gate();
  }
  static void end() noexcept {
    if (--base_detail::fork_section_depth() == 0) base_detail::fork_gate.inside.fetch_sub(1);
  }
};

/// A mutex that a forked child finds unlocked, unless the forking thread holds it.
template <class Base>
class ForkSafe {
 public:
  void lock() {
    ForkSection::begin();
    base_.lock();
  }
  bool try_lock() {
    ForkSection::begin();
    const bool is_locked = base_.try_lock();
    if (!is_locked) ForkSection::end();
    return is_locked;
  }
  void unlock() {
    base_.unlock();
    ForkSection::end();
  }
  void lock_shared()
    requires requires(Base& base) { base.lock_shared(); }
  {
    ForkSection::begin();
    base_.lock_shared();
  }
  void unlock_shared()
    requires requires(Base& base) { base.unlock_shared(); }
  {
    base_.unlock_shared();
    ForkSection::end();
  }

 private:
  Base base_;
};
using ForkSafeMutex = ForkSafe<std::mutex>;
using ForkSafeSharedMutex = ForkSafe<std::shared_mutex>;

/// Has fork() wait until `is_busy` is false, besides for sections: for threads that announce in a place of their own
/// that they are busy, and then see to it that is_fork_under_way() is false.
void wait_before_fork(bool (*is_busy)()) noexcept;
inline bool is_fork_under_way() noexcept { return base_detail::fork_gate.closings.load() > 0; }

/// Runs `forget` in every child forked from now on, before fork() returns there. A function that is given twice runs
/// once.
void in_forked_child(void (*forget)()) noexcept;

namespace base_detail {
template <class T, class Make>
struct ProcessObject {
  static inline constinit std::atomic<T*> place{nullptr};
  static inline constinit ForkSafeMutex making{};
  SINTER_NOINLINE static T& make(Make& make) {
    std::scoped_lock lock(making);
    T* object = place.load(std::memory_order_relaxed);
    if (object == nullptr) place.store(object = make(), std::memory_order_release);
    return *object;
  }
};
}  // namespace base_detail

/// The one object that `make` returns a pointer to in this process: made at its first use and never destroyed, so that
/// static destructors and threads that run during exit may use it. There is one for each type of `make`.
template <class Make>
auto& process_object(Make make) {
  using Object = base_detail::ProcessObject<std::remove_pointer_t<decltype(make())>, Make>;
  auto* object = Object::place.load(std::memory_order_acquire);
  return SINTER_LIKELY(object != nullptr) ? *object : Object::make(make);
}
/// The one T of the process, made by its default constructor.
template <class T>
T& process_object() {
  return process_object([] { return new T; });
}

SINTER_NAMESPACE_END
