// Products whose epilogue walks many arrays, as an optimiser's update of the weights whose gradients are summed: tasks
// are whole rows of the result, so that the epilogue reads and writes its arrays from end to end. Knows plans; must not
// know graphs.
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
struct RowPlan {
  ContractionPlan tiles;       // the register tiles; its blocks are what a task does
  ContractionPlan chunks;      // the same with a chunk's columns as a panel: what the epilogue is given at once
  std::int64_t panels = 0;     // of a full chunk
  std::int64_t row_bytes = 0;  // of sums in scratch

  std::int64_t tasks() const { return tiles.batches * chunks.panels * tiles.blocks; }
  /// The panels of a chunk.
  std::int64_t panels_of(std::int64_t chunk) const {
    return chunk == chunks.panels - 1 ? tiles.panels - chunk * panels : panels;
  }
};
/// Nothing where rows are short, sums are not made at once, or the epilogue has few arrays to walk.
std::optional<RowPlan> plan_rows(const ContractionParts& parts, const ContractionPlan& plan, Isa isa, int threads);

/// The sums, and thus all results, are those of ContractionLaunch.
std::unique_ptr<Launch> make_row_launch(const Kernel& kernel, const ContractionParts& parts, const RowPlan& plan,
                                        const BoundGeometry& geometry, Isa isa, EpilogueCode& code);

}  // namespace x86_contraction_detail
}  // namespace x86
SINTER_NAMESPACE_END
