// Small containers: SmallVector keeps its first N elements in place, more of them in a thread-local pool's memory; only
// trivially copyable elements.
#pragma once

#include <sinter/base/block_pool.hpp>
#include <sinter/base/config.hpp>
#include <sinter/base/index.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <new>
#include <span>
#include <type_traits>
#include <utility>

SINTER_NAMESPACE_BEGIN

/// A vector of trivially copyable elements; up to N of them live inside the object.
template <class T, std::size_t N>
class SmallVector {
  static_assert(std::is_trivially_copyable_v<T> && alignof(T) <= 16);

 public:
  using value_type = T;
  SmallVector() = default;
  explicit SmallVector(std::size_t count, T value = T{}) { resize(count, value); }
  SmallVector(std::initializer_list<T> items) { assign(items.begin(), items.end()); }
  template <class It>
  SmallVector(It first, It last) {
    assign(first, last);
  }
  explicit SmallVector(std::span<const T> items) { copy(items.data(), items.size()); }
  SmallVector(const SmallVector& other) { copy(other.data(), other.size_); }
  SmallVector(SmallVector&& other) noexcept
      : size_(other.size_), capacity_(other.capacity_), heap_(std::exchange(other.heap_, nullptr)) {
    if (!heap_ && size_ != 0) std::memcpy(static_cast<void*>(in_place()), other.in_place(), size_ * sizeof(T));
    other.size_ = 0;
    other.capacity_ = N;
  }
  ~SmallVector() { free_heap(); }
  SmallVector& operator=(const SmallVector& other) {
    if (this != &other) copy(other.data(), other.size_);
    return *this;
  }
  SmallVector& operator=(SmallVector&& other) noexcept {
    if (this == &other) return *this;
    free_heap();
    size_ = other.size_;
    capacity_ = other.capacity_;
    heap_ = std::exchange(other.heap_, nullptr);
    if (!heap_ && size_ != 0) std::memcpy(static_cast<void*>(in_place()), other.in_place(), size_ * sizeof(T));
    other.size_ = 0;
    other.capacity_ = N;
    return *this;
  }

  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T* data() { return heap_ != nullptr ? heap_ : in_place(); }
  const T* data() const { return heap_ != nullptr ? heap_ : in_place(); }
  T* begin() { return data(); }
  T* end() { return data() + size_; }
  const T* begin() const { return data(); }
  const T* end() const { return data() + size_; }
  T& operator[](std::size_t i) { return data()[i]; }
  const T& operator[](std::size_t i) const { return data()[i]; }
  T& back() { return data()[size_ - 1]; }
  const T& back() const { return data()[size_ - 1]; }
  T& front() { return data()[0]; }
  const T& front() const { return data()[0]; }

  void clear() { size_ = 0; }
  void push_back(T item) {
    if (size_ == capacity_) reserve(std::size_t{capacity_} * 2);
    data()[size_++] = item;
  }
  /// Adds an element made in its place: cheaper than a copy where T is large.
  SINTER_ALWAYS_INLINE T& emplace_back() {
    if (SINTER_UNLIKELY(size_ == capacity_)) grow();
    return *new (data() + size_++) T{};
  }
  void pop_back() { --size_; }
  void resize(std::size_t count, T value = T{}) {
    reserve(count);
    if (count > size_) std::fill(data() + size_, data() + count, value);
    size_ = static_cast<std::uint32_t>(count);
  }
  void reserve(std::size_t count) {
    if (count <= capacity_) return;
    T* grown = static_cast<T*>(allocate_pooled(count * sizeof(T)));
    if (heap_ == nullptr && size_ > N) __builtin_unreachable();  // GCC 13 warns of reads beyond the place otherwise
    std::copy_n(data(), size_, grown);
    free_heap();
    heap_ = grown;
    capacity_ = static_cast<std::uint32_t>(count);
  }
  void insert(std::size_t at, T item) {
    push_back(item);
    std::rotate(begin() + at, end() - 1, end());
  }
  void erase(std::size_t at) {
    std::copy(begin() + at + 1, end(), begin() + at);
    --size_;
  }
  template <class It>
  void assign(It first, It last) {
    if constexpr (std::is_same_v<It, T*> || std::is_same_v<It, const T*>) {
      copy(first, as_index(last - first));
    } else {
      size_ = 0;
      for (; first != last; ++first) push_back(static_cast<T>(*first));
    }
  }
  friend bool operator==(const SmallVector& a, const SmallVector& b) {
    return a.size_ == b.size_ && std::equal(a.begin(), a.end(), b.begin());
  }

 private:
  /// `items` may lie in this vector.
  void copy(const T* items, std::size_t count) {
    if (count == 0) {
      size_ = 0;
      return;
    }
    // then it does not lie here
    if (SINTER_UNLIKELY(count > capacity_)) {
      size_ = 0;
      reserve(count);
    }
    std::memmove(static_cast<void*>(data()), items, count * sizeof(T));
    size_ = static_cast<std::uint32_t>(count);
  }
  SINTER_NOINLINE void grow() { reserve(std::size_t{capacity_} * 2); }
  void free_heap() noexcept {
    if (SINTER_UNLIKELY(heap_ != nullptr)) release_pooled(heap_, capacity_ * sizeof(T));
  }
  T* in_place() { return reinterpret_cast<T*>(inline_); }
  const T* in_place() const { return reinterpret_cast<const T*>(inline_); }
  std::uint32_t size_ = 0, capacity_ = N;
  T* heap_ = nullptr;
  // Bytes, so that making an empty vector writes none of them.
  alignas(T) std::byte inline_[N * sizeof(T)];
};

using IntVector = SmallVector<std::int64_t, 8>;

SINTER_NAMESPACE_END
