// Products of few rows by a matrix that lies transposed, as weights do where gradients pass through them: computed the
// other way round, so that the matrix is read once, as it lies, and only the few rows are laid out. Knows plans; must
// not know graphs.
#pragma once

#include <sinter/backend/x86/contraction/bound_epilogue.hpp>
#include <sinter/backend/x86/contraction/plan.hpp>
#include <sinter/backend/x86/machine/isa.hpp>
#include <sinter/base/config.hpp>
#include <sinter/kernel/kernel.hpp>
#include <sinter/runtime/backend.hpp>

#include <cstdint>
#include <memory>
#include <optional>

SINTER_NAMESPACE_BEGIN
namespace x86 {
namespace x86_contraction_detail {

/// Numbers for one Geometry.
struct TurnedPlan {
  ContractionPlan tiles;       // C^T = B^T A^T; its blocks are what a task does, its packed operand is A^T
  ContractionPlan result;      // C, with a task's columns as a panel
  std::int64_t row_bytes = 0;  // of sums in scratch, rows of C^T
  bool is_contiguous = false;  // B^T's rows follow each other

  std::int64_t tasks() const { return tiles.batches * tiles.blocks; }
};
/// Nothing where B lies otherwise, or where laying it out costs less than turning the sums back.
std::optional<TurnedPlan> plan_turned(const ContractionParts& parts, const ContractionPlan& plan, Isa isa, int threads);

/// The sums, and thus all results, are those of ContractionLaunch. `code`: null where the sums are the result.
std::unique_ptr<Launch> make_turned_launch(const Kernel& kernel, const ContractionParts& parts, const TurnedPlan& plan,
                                           const BoundGeometry& geometry, Isa isa, EpilogueCode* code);

}  // namespace x86_contraction_detail
}  // namespace x86
SINTER_NAMESPACE_END
