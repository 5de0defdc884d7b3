// Products as nests: the builder of a contraction kernel's nest, and what a renderer that does the sums its own way
// asks of one: the epilogue, as a pointwise kernel over finished sums. Knows kernels and nests; no tiles of a machine.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/kernel/loop_nest/choices.hpp>
#include <sinter/kernel/loop_nest/loop_nest.hpp>

#include <optional>
#include <string>
#include <vector>

SINTER_NAMESPACE_BEGIN

/// The nest of a contraction. Nothing where no nest expresses it, with the reason in `why`.
std::optional<LoopNest> build_product_nest(const Kernel& kernel, const NestChoices& choices, std::string& why);

/// What follows the sums of a product, without the axis k: they are read from the last operand, through the last
/// access, whose rows lie apart and whose columns are adjacent.
struct ProductEpilogue {
  Kernel kernel;
  std::vector<std::uint16_t> access_of;  // its accesses but the last, as the product's kernel counts them
};
ProductEpilogue epilogue_of(const LoopNest& product);

SINTER_NAMESPACE_END
