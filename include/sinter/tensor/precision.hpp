// How precisely products of f32 matrices are computed. A permission, not a demand: a back end may always compute in full.
#pragma once

#include <sinter/base/config.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

SINTER_NAMESPACE_BEGIN

/// Of products of f32 matrices (matmul, linear, conv, attention and their gradients); nothing else is concerned.
///   f32     full precision
///   tf32x3  factors in two parts of 10 bits of mantissa each, three products on tensor cores: near full precision
///   tf32    factors rounded to 10 bits of mantissa, sums in f32: relative error about 1e-3
enum class MatmulPrecision : std::uint8_t { f32, tf32x3, tf32 };

constexpr std::string_view name(MatmulPrecision precision) {
  return std::array<std::string_view, 3>{"f32", "tf32x3", "tf32"}[static_cast<std::size_t>(precision)];
}

SINTER_NAMESPACE_END
