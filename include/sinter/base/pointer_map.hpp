// PointerMap: values by address, in one block of memory. For walks over recorded statements and graphs.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/index.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

SINTER_NAMESPACE_BEGIN

/// Open addressing with linear probing; entries are never removed. V has a default value.
template <class V>
class PointerMap {
 public:
  explicit PointerMap(std::size_t expected = 16) {
    std::size_t places = 32;
    while (places < 2 * expected) places *= 2;
    places_.resize(places);
  }
  /// The value of `key`, or null. Stays until the next insert.
  V* find(const void* key) {
    for (std::size_t at = hash(key);; ++at) {
      Place& place = places_[at & (places_.size() - 1)];
      if (place.key == key) return &place.value;
      if (place.key == nullptr) return nullptr;
    }
  }
  bool contains(const void* key) { return find(key) != nullptr; }
  /// The value of `key`, made if there is none.
  V& operator[](const void* key) {
    if (SINTER_UNLIKELY(2 * count_ >= places_.size())) grow();
    for (std::size_t at = hash(key);; ++at) {
      Place& place = places_[at & (places_.size() - 1)];
      if (place.key == key) return place.value;
      if (place.key != nullptr) continue;
      ++count_;
      place.key = key;
      return place.value;
    }
  }

 private:
  struct Place {
    const void* key = nullptr;
    V value{};
  };
  static std::size_t hash(const void* key) {  // Fibonacci hashing (Knuth 6.4): the high bits are the good ones
    return as_index(reinterpret_cast<std::uintptr_t>(key) * 0x9E3779B97F4A7C15ull >> 32);
  }
  void grow() {
    std::vector<Place> old = std::exchange(places_, std::vector<Place>(places_.size() * 2));
    count_ = 0;
    for (Place& place : old)
      if (place.key != nullptr) (*this)[place.key] = std::move(place.value);
  }

  std::vector<Place> places_;
  std::size_t count_ = 0;
};

SINTER_NAMESPACE_END
