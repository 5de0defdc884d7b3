// What makes fork() harmless while other threads are inside the library. The child has the forking thread only: a lock
// that another thread held would stay locked, and what it guards might be half written. So whoever takes a lock of the
// library is inside a section first, and fork() waits until no other thread is inside one.
//
// How to use it: take `ForkSafeMutex` for std::mutex and `ForkSafeSharedMutex` for std::shared_mutex; open a ForkSection
// around std::call_once and around any state that others must not find half changed; make objects of the process with
// process_object<T>() instead of a static local variable, whose guard is a lock as well. Where state of other threads has
// to be forgotten in the child, register a function with in_forked_child(). Never run functions of the user or wait for
// another thread inside a section: fork() would wait as long.
#pragma once

#include <sinter/base/config.hpp>

#include <atomic>
#include <mutex>
#include <shared_mutex>
#include <type_traits>

SINTER_NAMESPACE_BEGIN

/// While one is open in a thread, fork() in another thread waits. Sections nest; one belongs to its thread.
class ForkSection {
 public:
  ForkSection() noexcept { begin(); }
  ForkSection(const ForkSection&) = delete;
  ForkSection& operator=(const ForkSection&) = delete;
  ~ForkSection() { end(); }
  static void begin() noexcept {
    if (depth()++ == 0) enter();
  }
  static void end() noexcept {
    if (--depth() == 0) leave();
  }

 private:
  static int& depth() noexcept;
  static void enter() noexcept;
  static void leave() noexcept;
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

/// Runs `forget` in every child forked from now on, before fork() returns there. A function that is given twice runs once.
void in_forked_child(void (*forget)()) noexcept;

/// The one object that `make` returns a pointer to in this process: made at its first use and never destroyed, so that
/// static destructors and threads that run during exit may use it. There is one for each type of `make`.
template <class Make>
auto& process_object(Make make) {
  using T = std::remove_pointer_t<decltype(make())>;
  static constinit std::atomic<T*> place{nullptr};
  T* object = place.load(std::memory_order_acquire);
  if (SINTER_LIKELY(object != nullptr)) return *object;
  static constinit ForkSafeMutex making;
  std::scoped_lock lock(making);
  object = place.load(std::memory_order_relaxed);
  if (object == nullptr) place.store(object = make(), std::memory_order_release);
  return *object;
}
/// The one T of the process, made by its default constructor.
template <class T>
T& process_object() {
  return process_object([] { return new T; });
}

SINTER_NAMESPACE_END
