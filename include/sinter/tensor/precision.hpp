// How precisely products of f32 matrices are computed: a permission, not a demand, for a back end may always compute in
// full. The default of the process stands here; what a plan or kernel may do is said where those are.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/error.hpp>
#include <sinter/base/index.hpp>

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <source_location>
#include <string_view>

SINTER_NAMESPACE_BEGIN

/// Of products of f32 matrices (matmul, conv2d, attention and their gradients); nothing else is concerned.
///   f32     full precision
///   tf32x3  operands in two parts of 10 bits of mantissa each, three products on tensor cores: near full precision
///   tf32    operands rounded to 10 bits of mantissa, sums in f32: relative error about 1e-3
enum class MatmulPrecision : std::uint8_t { f32, tf32x3, tf32 };

constexpr std::string_view name(MatmulPrecision precision) {
  return std::array<std::string_view, 3>{"f32", "tf32x3", "tf32"}[as_index(precision)];
}

/// Sets of precisions, as bits.
constexpr std::uint8_t precision_bit(MatmulPrecision precision) {
  return static_cast<std::uint8_t>(1u << static_cast<unsigned>(precision));
}
inline constexpr std::uint8_t all_precisions = 0b111;

namespace tensor_detail {
/// The default of the process as a bit. Every guarded call reads it: so in the header, and as calls compare it.
inline constinit std::atomic<std::uint8_t> matmul_precision_bit{precision_bit(MatmulPrecision::f32)};
/// Throws UserError unless an enumerator stands for it.
void check_precision(MatmulPrecision precision, std::string_view op, Location where);
}  // namespace tensor_detail

/// What compiled functions without Options::matmul_precision and lazy evaluation may do. At first f32: full precision.
inline MatmulPrecision matmul_precision() noexcept {
  return static_cast<MatmulPrecision>(
      std::countr_zero(tensor_detail::matmul_precision_bit.load(std::memory_order_relaxed)));
}
/// Sets it, for all threads. A compiled function that depends on it compiles once more at its next call; lazy values
/// take the precision that is in force when they are computed. Throws UserError for a value that is no enumerator.
void set_matmul_precision(MatmulPrecision precision, Location where = std::source_location::current());

SINTER_NAMESPACE_END
