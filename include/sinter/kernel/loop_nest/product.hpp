// Products as nests: the builders of a contraction kernel's nest for a processor and for a GPU, and what a renderer
// that does the sums its own way asks of one: the epilogue, as a pointwise kernel over finished sums. Knows kernels and
// nests; which tiles are good on a machine is its back end's matter.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/kernel/facts.hpp>
#include <sinter/kernel/loop_nest/choices.hpp>
#include <sinter/kernel/loop_nest/loop_nest.hpp>

#include <optional>
#include <string>
#include <vector>

SINTER_NAMESPACE_BEGIN

/// The nest of a contraction. Nothing where no nest expresses it, with the reason in `why`.
std::optional<LoopNest> build_product_nest(const Kernel& kernel, const NestChoices& choices, std::string& why);

/// The product of a kernel whose only reduction is one: rows and columns are the last axes that only one operand varies
/// along, columns the later of them. Nothing where an operand has no axis of its own, or where k is several axes.
std::optional<Call> find_gemm(const Kernel& kernel, const KernelFacts& facts);

/// How the threads of a GPU share a product out.
struct GpuProduct {
  Call call = {};
  int threads = 0;                      // of a block; 0 where it is no kernel of ours
  int tile_rows = 0, tile_columns = 0;  // 0: whoever computes it knows
  int width = 1;                        // neighbouring results that a thread takes at once
  // Teams of a block's threads share a tile's depth, each so many neighbours along k; their sums are added in order.
  int teams = 1, team_depth = 1;
  std::int64_t piece = 0;  // of k: pieces have blocks of their own, whose sums a second launch adds in order; 0: none
  int finish_threads = 128, finish_copies = 1;  // of that launch; pieces that a thread loads at once
};
LoopNest build_gpu_product_nest(const Kernel& kernel, const GpuProduct& product);

/// What follows the sums of a product, without the axis k: they are read from the last operand, through the last
/// access, whose rows lie apart and whose columns are adjacent.
struct ProductEpilogue {
  Kernel kernel;
  std::vector<std::uint16_t> access_of;  // its accesses but the last, as the product's kernel counts them
};
ProductEpilogue epilogue_of(const LoopNest& product);

SINTER_NAMESPACE_END
