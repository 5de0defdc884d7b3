// Runs a loop nest on the memory of the host, node by node: what a nest means, whatever machine it was made for. For
// tests and for looking at nests; nothing here is quick.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/kernel/kernel.hpp>
#include <sinter/kernel/loop_nest/loop_nest.hpp>

#include <cstdint>
#include <span>

SINTER_NAMESPACE_BEGIN

enum class InterpretMode : std::uint8_t {
  // primitives as ops/scalar_maps.hpp has them, reductions in the Kernel's order, each step rounded to its dtype
  exact,
  wide,  // f32 in f64, f64 in long double, rounded where it is stored: what the error of a result is measured against
};

/// Does the nest have this variant, and does it hold for these extents?
bool applies(const LoopNest& nest, VariantKind kind, const BoundGeometry& geometry);

/// `operands[i]` is the base address of Kernel::operands[i]. Throws GatherError for an index out of range;
/// InternalError where the variant does not apply, where a node reads a value or a buffer that was not written on the
/// way to it, and where a reduction takes points out of order.
void interpret(const LoopNest& nest, VariantKind kind, const BoundGeometry& geometry, std::span<void* const> operands,
               InterpretMode mode);

SINTER_NAMESPACE_END
