// Elements combined one by one, at indices of either width: the innermost loop of a scatter whose places differ along
// the vector axis, and the check of indices.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/ops/scalar.hpp>
#include <sinter/ops/scalar_maps.hpp>
#include <sinter/tensor/dtype.hpp>

#include <cstddef>
#include <cstdint>
#include <type_traits>

SINTER_NAMESPACE_BEGIN
namespace x86 {

/// Values of a run of points; the stride is in bytes.
struct ElementRun {
  const char* data = nullptr;
  std::int64_t stride = 0;
};

/// `count` updates in order. Returns the number of the first whose index is not in [0, extent), at which it stops;
/// `count` if there is none.
using UpdateElements = std::int64_t (*)(char* target, std::int64_t target_stride, std::int64_t gather_stride,
                                        std::int64_t extent, ElementRun index, ElementRun value, std::int64_t count);
/// The number of the first index of the run that is not in [0, extent); `count` if there is none.
using CheckIndices = std::int64_t (*)(ElementRun index, std::int64_t extent, std::int64_t count);

namespace x86_detail {

/// `old` combined with `value`. Of two NaN the old one stays, as in exported headers (runtime_source.ipp): which of
/// them a sum gives is the choice of the compiler, but not where the instruction is named. A test of each result for
/// NaN would cost a tenth of the time of a scatter into the cache.
template <Combine combine, class T>
T updated(T old, T value) {
  constexpr bool is_sum = combine == Combine::add, is_product = combine == Combine::mul;
  if constexpr (std::is_same_v<T, float> && is_sum) asm("addss %1, %0" : "+x"(old) : "x"(value));
  else if constexpr (std::is_same_v<T, double> && is_sum) asm("addsd %1, %0" : "+x"(old) : "x"(value));
  else if constexpr (std::is_same_v<T, float> && is_product) asm("mulss %1, %0" : "+x"(old) : "x"(value));
  else if constexpr (std::is_same_v<T, double> && is_product) asm("mulsd %1, %0" : "+x"(old) : "x"(value));
  else return scalar_meaning::combined(combine, old, value);
  return old;
}

template <class T, class I, Combine combine>
std::int64_t update_elements(char* target, std::int64_t target_stride, std::int64_t gather_stride, std::int64_t extent,
                             ElementRun index, ElementRun value, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t at = *reinterpret_cast<const I*>(index.data + i * index.stride);
    if (SINTER_UNLIKELY(static_cast<std::uint64_t>(at) >= static_cast<std::uint64_t>(extent))) return i;
    T& to = *reinterpret_cast<T*>(target + i * target_stride + at * gather_stride);
    to = updated<combine>(to, *reinterpret_cast<const T*>(value.data + i * value.stride));
  }
  return count;
}

template <class T, class I>
UpdateElements update_function(Combine combine) {
  switch (combine) {
    case Combine::none: return update_elements<T, I, Combine::none>;
    case Combine::add: return update_elements<T, I, Combine::add>;
    case Combine::mul: return update_elements<T, I, Combine::mul>;
    case Combine::min: return update_elements<T, I, Combine::min>;
    case Combine::max: return update_elements<T, I, Combine::max>;
  }
  __builtin_unreachable();
}

template <class I>
std::int64_t check_indices(ElementRun index, std::int64_t extent, std::int64_t count) {
  const auto is_bad = [&](std::int64_t i) {
    const std::int64_t at = *reinterpret_cast<const I*>(index.data + i * index.stride);
    return static_cast<std::uint64_t>(at) >= static_cast<std::uint64_t>(extent);
  };
  constexpr std::int64_t block = 64;  // branches only between blocks
  std::int64_t i = 0;
  for (; i + block <= count; i += block) {
    bool any = false;
    for (std::int64_t k = 0; k < block; ++k) any |= is_bad(i + k);
    if (SINTER_UNLIKELY(any)) break;
  }
  for (; i < count; ++i)
    if (is_bad(i)) return i;
  return count;
}

}  // namespace x86_detail

inline UpdateElements update_function(DType dtype, DType index, Combine combine) {
  return visit_computed(dtype, [&](auto tag) {
    using T = scalar_meaning::Stored<decltype(tag)>;
    return index == DType::i32 ? x86_detail::update_function<T, std::int32_t>(combine)
                               : x86_detail::update_function<T, std::int64_t>(combine);
  });
}

inline CheckIndices check_function(DType index) {
  return index == DType::i32 ? x86_detail::check_indices<std::int32_t> : x86_detail::check_indices<std::int64_t>;
}

}  // namespace x86
SINTER_NAMESPACE_END
