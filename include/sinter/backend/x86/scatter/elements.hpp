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

/// The places [0, extent) of a target. Negative indices count from `wrap` on down; 0: there are none that count.
struct Places {
  std::int64_t extent = 0, wrap = 0;
  std::int64_t of(std::int64_t index) const { return index + (index >> 63 & wrap); }
  bool hold(std::int64_t place) const { return static_cast<std::uint64_t>(place) < static_cast<std::uint64_t>(extent); }
};

/// `count` updates in order. Returns the number of the first whose index has no place, at which it stops; `count` if
/// there is none.
using UpdateElements = std::int64_t (*)(char* target, std::int64_t target_stride, std::int64_t gather_stride,
                                        Places places, ElementRun index, ElementRun value, std::int64_t count);
/// The number of the first index of the run that has no place; `count` if there is none.
using CheckIndices = std::int64_t (*)(ElementRun index, Places places, std::int64_t count);

/// Rows of a few columns that lie in one piece, in the target and in the values.
struct NarrowRows {
  char* target = nullptr;
  std::int64_t target_stride = 0, gather_stride = 0, columns = 0;
  std::int64_t first_place = 0, end_place = 0;  // rows elsewhere are left out
};
/// `count` rows in order, all of whose indices have a place.
using UpdateRows = void (*)(const NarrowRows& rows, Places places, ElementRun index, ElementRun value,
                            std::int64_t count);

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

inline constexpr std::int64_t widest_narrow_row = 8;  // from here on vectors pay
template <class T>
inline constexpr std::int64_t size_in_bytes = sizeof(T);

template <class T, class I, Combine combine>
std::int64_t update_apart(char* target, std::int64_t target_stride, std::int64_t gather_stride, Places places,
                          ElementRun index, ElementRun value, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t at = places.of(*reinterpret_cast<const I*>(index.data + i * index.stride));
    if (SINTER_UNLIKELY(!places.hold(at))) return i;
    T& to = *reinterpret_cast<T*>(target + i * target_stride + at * gather_stride);
    to = updated<combine>(to, *reinterpret_cast<const T*>(value.data + i * value.stride));
  }
  return count;
}

/// Whether most indices are the one before them: a sample tells.
template <class I>
bool has_runs(const I* index, std::int64_t count) {
  constexpr std::int64_t samples = 16;
  if (count < 4 * samples) return false;
  std::int64_t same = 0;
  for (std::int64_t k = 0; k < samples; ++k) same += index[k * (count / samples)] == index[k * (count / samples) + 1];
  return same >= samples * 3 / 4;
}
/// Elements of one place after the other are combined in a register, in their order: memory would return each sum late.
template <class T, class I, Combine combine>
std::int64_t update_runs(char* target, std::int64_t gather_stride, Places places, const I* index, const T* value,
                         std::int64_t step, std::int64_t count) {
  for (std::int64_t i = 0; i < count;) {
    const I current = index[i];
    const std::int64_t at = places.of(current);
    if (SINTER_UNLIKELY(!places.hold(at))) return i;
    T& to = *reinterpret_cast<T*>(target + at * gather_stride);
    T result = to;
    do result = updated<combine>(result, value[i * step]);
    while (++i < count && index[i] == current);
    to = result;
  }
  return count;
}
/// Of a target that is one line; see update_dense().
template <class T, class I, Combine combine>
std::int64_t update_line(T* line, Places places, const I* index, const T* value, std::int64_t step,
                         std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t at = places.of(index[i]);
    if (SINTER_UNLIKELY(!places.hold(at))) return i;
    line[at] = updated<combine>(line[at], value[i * step]);
  }
  return count;
}
/// Of indices side by side; the values are, or (`step` 0) there is one for all.
template <class T, class I, Combine combine>
std::int64_t update_dense(char* target, std::int64_t target_stride, std::int64_t gather_stride, Places places,
                          const I* index, const T* value, std::int64_t step, std::int64_t count) {
  if (target_stride == 0 && gather_stride == size_in_bytes<T>)
    return update_line<T, I, combine>(reinterpret_cast<T*>(target), places, index, value, step, count);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t at = places.of(index[i]);
    if (SINTER_UNLIKELY(!places.hold(at))) return i;
    T& to = *reinterpret_cast<T*>(target + i * target_stride + at * gather_stride);
    to = updated<combine>(to, value[i * step]);
  }
  return count;
}

template <class T, class I, Combine combine>
std::int64_t update_elements(char* target, std::int64_t target_stride, std::int64_t gather_stride, Places places,
                             ElementRun index, ElementRun value, std::int64_t count) {
  const bool is_dense = value.stride == size_in_bytes<T> || value.stride == 0;
  if (index.stride != size_in_bytes<I> || !is_dense)
    return update_apart<T, I, combine>(target, target_stride, gather_stride, places, index, value, count);
  const auto* at = reinterpret_cast<const I*>(index.data);
  const auto* from = reinterpret_cast<const T*>(value.data);
  const std::int64_t step = value.stride == 0 ? 0 : 1;
  if constexpr (combine != Combine::none)
    if (target_stride == 0 && has_runs(at, count))
      return update_runs<T, I, combine>(target, gather_stride, places, at, from, step, count);
  return update_dense<T, I, combine>(target, target_stride, gather_stride, places, at, from, step, count);
}

template <class T, class I, Combine combine>
void update_narrow_rows(const NarrowRows& rows, Places places, ElementRun index, ElementRun value, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t at = places.of(*reinterpret_cast<const I*>(index.data + i * index.stride));
    if (at < rows.first_place || at >= rows.end_place) continue;
    auto* to = reinterpret_cast<T*>(rows.target + i * rows.target_stride + at * rows.gather_stride);
    const auto* from = reinterpret_cast<const T*>(value.data + i * value.stride);
    for (std::int64_t c = 0; c < rows.columns; ++c) to[c] = updated<combine>(to[c], from[c]);
  }
}

struct ScatterFunctions {
  UpdateElements elements = nullptr;
  UpdateRows rows = nullptr;
};
template <class T, class I, Combine combine>
ScatterFunctions functions_of() {
  return {update_elements<T, I, combine>, update_narrow_rows<T, I, combine>};
}
template <class T, class I>
ScatterFunctions scatter_functions(Combine combine) {
  switch (combine) {
    case Combine::none: return functions_of<T, I, Combine::none>();
    case Combine::add: return functions_of<T, I, Combine::add>();
    case Combine::mul: return functions_of<T, I, Combine::mul>();
    case Combine::min: return functions_of<T, I, Combine::min>();
    case Combine::max: return functions_of<T, I, Combine::max>();
  }
  __builtin_unreachable();
}

/// Whether a block of indices that lie side by side may hold one without a place. The sign of what lies below or above
/// the range is collected; no branches, so that compilers use vectors.
template <class I>
bool may_be_bad(const I* index, std::int64_t block, Places places) {
  std::uint64_t signs = 0;
  for (std::int64_t k = 0; k < block; ++k) {
    const auto at = static_cast<std::uint64_t>(static_cast<std::int64_t>(index[k]));
    signs |= (at + static_cast<std::uint64_t>(places.wrap)) | (static_cast<std::uint64_t>(places.extent) - 1 - at);
  }
  return signs >> 63 != 0;
}
template <class I>
std::int64_t check_indices(ElementRun index, Places places, std::int64_t count) {
  constexpr std::int64_t block = 64;
  std::int64_t i = 0;
  if (index.stride == size_in_bytes<I> && places.wrap <= places.extent)
    while (i + block <= count && !may_be_bad(reinterpret_cast<const I*>(index.data) + i, block, places)) i += block;
  for (; i < count; ++i)
    if (!places.hold(places.of(*reinterpret_cast<const I*>(index.data + i * index.stride)))) return i;
  return count;
}

}  // namespace x86_detail

inline x86_detail::ScatterFunctions scatter_functions(DType dtype, DType index, Combine combine) {
  return visit_computed(dtype, [&](auto tag) {
    using T = scalar_meaning::Stored<decltype(tag)>;
    return index == DType::i32 ? x86_detail::scatter_functions<T, std::int32_t>(combine)
                               : x86_detail::scatter_functions<T, std::int64_t>(combine);
  });
}

inline CheckIndices check_function(DType index) {
  return index == DType::i32 ? x86_detail::check_indices<std::int32_t> : x86_detail::check_indices<std::int64_t>;
}

}  // namespace x86
SINTER_NAMESPACE_END
