// What reductions accumulate in and how, over plain arrays: wider than the dtype where the machine has it. Maps are
// those of ops/scalar_maps.hpp. Knows nothing of kernels.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/ops/scalar.hpp>
#include <sinter/ops/scalar_maps.hpp>
#include <sinter/tensor/dtype.hpp>

#include <cstdint>
#include <limits>
#include <type_traits>

SINTER_NAMESPACE_BEGIN
namespace reference_detail {

using scalar_meaning::Add;
using scalar_meaning::convert;
using scalar_meaning::Floating;
using scalar_meaning::map_bitcast;
using scalar_meaning::map_convert;
using scalar_meaning::map_of;
using scalar_meaning::Max;
using scalar_meaning::Min;
using scalar_meaning::Mul;
using scalar_meaning::narrow;
using scalar_meaning::Stored;
using scalar_meaning::VectorFunction;

/// What reductions accumulate in: wider than the dtype where the machine has it.
template <class T>
using Accumulator = std::conditional_t<std::is_same_v<T, double>, long double,
                                       std::conditional_t<std::is_same_v<T, float>, double, std::int64_t>>;
inline constexpr std::int64_t accumulator_bytes = sizeof(long double);

/// What a reduction over nothing gives.
template <class T>
Accumulator<T> neutral(Prim reduction) {
  using A = Accumulator<T>;
  using Limits = std::numeric_limits<std::conditional_t<std::is_same_v<T, std::uint8_t>, bool, T>>;
  if (reduction == Prim::reduce_mul) return 1;
  if (reduction == Prim::reduce_min)
    return Floating<T> ? static_cast<A>(Limits::infinity()) : static_cast<A>(Limits::max());
  if (reduction == Prim::reduce_max)
    return Floating<T> ? static_cast<A>(-Limits::infinity()) : static_cast<A>(Limits::lowest());
  return 0;
}

/// One step of a reduction (b: the second operand of `contract`).
template <Prim reduction, class A>
A reduce_step(A sum, A a, A b) {
  if constexpr (reduction == Prim::reduce_add) return Add{}(sum, a);
  else if constexpr (reduction == Prim::reduce_mul) return Mul{}(sum, a);
  else if constexpr (reduction == Prim::reduce_min) return Min{}(sum, a);
  else if constexpr (reduction == Prim::reduce_max) return Max{}(sum, a);
  else return Add{}(sum, Mul{}(a, b));
}

/// Feeds `count` values: into sums[i] each (`lanewise`), or all into sums[0] in order.
using ReduceFunction = void (*)(void* sums, const void* a, const void* b, std::int64_t count);

template <Prim reduction, class T, bool lanewise>
void reduce_values(void* sums, const void* a, const void* b, std::int64_t count) {
  using A = Accumulator<T>;
  auto* sum = static_cast<A*>(sums);
  auto *x = static_cast<const T*>(a), *y = static_cast<const T*>(b);
  const auto second = [&](std::int64_t i) { return reduction == Prim::contract ? static_cast<A>(y[i]) : A{}; };
  if constexpr (lanewise) {
    for (std::int64_t i = 0; i < count; ++i)
      sum[i] = reduce_step<reduction, A>(sum[i], static_cast<A>(x[i]), second(i));
  } else {
    A total = sum[0];
    for (std::int64_t i = 0; i < count; ++i) total = reduce_step<reduction, A>(total, static_cast<A>(x[i]), second(i));
    sum[0] = total;
  }
}

template <class T, bool lanewise>
ReduceFunction reduce_of(Prim reduction) {
  if (reduction == Prim::reduce_add) return reduce_values<Prim::reduce_add, T, lanewise>;
  if (reduction == Prim::reduce_mul) return reduce_values<Prim::reduce_mul, T, lanewise>;
  if (reduction == Prim::reduce_min) return reduce_values<Prim::reduce_min, T, lanewise>;
  if (reduction == Prim::reduce_max) return reduce_values<Prim::reduce_max, T, lanewise>;
  return reduce_values<Prim::contract, T, lanewise>;
}

/// Takes `count` values into sums as a ReduceFunction does, and gives each sum: with the value, or (exclusive) before
/// it.
using ScanFunction = void (*)(void* sums, const void* values, void* results, std::int64_t count);

template <Prim reduction, class T, bool lanewise, bool is_exclusive>
void scan_values(void* sums, const void* values, void* results, std::int64_t count) {
  using A = Accumulator<T>;
  auto* sum = static_cast<A*>(sums);
  for (std::int64_t i = 0; i < count; ++i) {
    A& total = sum[lanewise ? i : 0];
    const A before = total;
    total = reduce_step<reduction, A>(before, static_cast<A>(static_cast<const T*>(values)[i]), A{});
    static_cast<T*>(results)[i] = convert<T>(is_exclusive ? before : total);
  }
}

template <class T, bool lanewise>
ScanFunction scan_of(const Inst& scan) {
  const auto choose = [&]<Prim reduction>() -> ScanFunction {
    return scan.is_exclusive() ? scan_values<reduction, T, lanewise, true> : scan_values<reduction, T, lanewise, false>;
  };
  switch (scan.prim) {
    case Prim::scan_add: return choose.template operator()<Prim::reduce_add>();
    case Prim::scan_mul: return choose.template operator()<Prim::reduce_mul>();
    case Prim::scan_min: return choose.template operator()<Prim::reduce_min>();
    default: return choose.template operator()<Prim::reduce_max>();
  }
}

}  // namespace reference_detail
SINTER_NAMESPACE_END
