// A list of plain records that is appended to often: the way to more memory is kept out of line, so that appending is a
// few instructions.
#pragma once

#include <sinter/base/config.hpp>

#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>

SINTER_NAMESPACE_BEGIN
namespace x86 {

template <class T>
class Records {
  static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);

 public:
  explicit Records(std::size_t capacity) : memory_(allocate(capacity)), data_(begin_of(memory_)), capacity_(capacity) {}

  /// The reference holds until the next append.
  T& append(const T& record) {
    if (SINTER_UNLIKELY(size_ == capacity_)) grow();
    return *std::construct_at(data_ + size_++, record);
  }
  std::size_t size() const { return size_; }
  T& operator[](std::size_t i) { return data_[i]; }
  const T& operator[](std::size_t i) const { return data_[i]; }
  T& back() { return data_[size_ - 1]; }
  operator std::span<const T>() const { return {data_, size_}; }

 private:
  using Memory = std::unique_ptr<std::byte[]>;
  static Memory allocate(std::size_t records) { return Memory(new std::byte[records * sizeof(T)]); }
  static T* begin_of(const Memory& memory) { return reinterpret_cast<T*>(memory.get()); }
  [[gnu::noinline]] void grow() {
    Memory larger = allocate(2 * capacity_);
    std::memcpy(larger.get(), memory_.get(), size_ * sizeof(T));
    memory_ = std::move(larger);
    data_ = begin_of(memory_);
    capacity_ *= 2;
  }

  Memory memory_;
  T* data_;
  std::size_t size_ = 0, capacity_;
};

}  // namespace x86
SINTER_NAMESPACE_END
