// Intrusive reference counting: Ref<T> holds one count of an object that derives from RefCounted<T>.
#pragma once

#include <sinter/base/config.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

SINTER_NAMESPACE_BEGIN

/// Base of intrusively counted objects. T::destroy(T*) frees it when the last Ref goes.
template <class T>
class RefCounted {
 public:
  RefCounted() = default;
  RefCounted(const RefCounted&) = delete;
  RefCounted& operator=(const RefCounted&) = delete;
  void retain() const noexcept { count_.fetch_add(1, std::memory_order_relaxed); }
  void release() const noexcept {
    // A sole owner needs no atomic read-modify-write: nobody else can add a count.
    if (count_.load(std::memory_order_acquire) == 1 || count_.fetch_sub(1, std::memory_order_acq_rel) == 1)
      T::destroy(const_cast<T*>(static_cast<const T*>(this)));
  }
  std::uint32_t use_count() const noexcept { return count_.load(std::memory_order_acquire); }

 protected:
  /// For objects that are kept for reuse after the last Ref went.
  void revive() noexcept { count_.store(1, std::memory_order_relaxed); }

 private:
  mutable std::atomic<std::uint32_t> count_{1};
};

/// A counted pointer. `Ref<T>::adopt(p)` takes over the count that a new object starts with.
template <class T>
class Ref {
 public:
  constexpr Ref() = default;
  constexpr Ref(std::nullptr_t) {}
  Ref(const Ref& other) noexcept : ptr_(other.ptr_) {
    if (ptr_ != nullptr) ptr_->retain();
  }
  Ref(Ref&& other) noexcept : ptr_(std::exchange(other.ptr_, nullptr)) {}
  Ref& operator=(Ref other) noexcept {
    std::swap(ptr_, other.ptr_);
    return *this;
  }
  ~Ref() {
    if (ptr_ != nullptr) ptr_->release();
  }
  static Ref adopt(T* ptr) noexcept {
    Ref ref;
    ref.ptr_ = ptr;
    return ref;
  }
  static Ref share(T* ptr) noexcept {
    if (ptr != nullptr) ptr->retain();
    return adopt(ptr);
  }
  T* get() const noexcept { return ptr_; }
  T* detach() noexcept { return std::exchange(ptr_, nullptr); }
  T& operator*() const noexcept { return *ptr_; }
  T* operator->() const noexcept { return ptr_; }
  explicit operator bool() const noexcept { return ptr_ != nullptr; }
  friend bool operator==(const Ref& a, const Ref& b) noexcept { return a.ptr_ == b.ptr_; }
  friend bool operator==(const Ref& a, std::nullptr_t) noexcept { return a.ptr_ == nullptr; }

 private:
  T* ptr_ = nullptr;
};

SINTER_NAMESPACE_END
