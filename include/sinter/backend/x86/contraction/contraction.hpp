// Contractions: a driver over batches, row blocks and column panels that calls the micro-kernels; short epilogues run
// in their registers, others as a pointwise kernel over each finished tile while it is in L1. Knows Kernels and
// Geometries; must not know graphs.
#pragma once

#include <sinter/backend/x86/machine/isa.hpp>
#include <sinter/base/config.hpp>
#include <sinter/kernel/kernel.hpp>
#include <sinter/runtime/backend.hpp>

#include <memory>
#include <string>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace x86 {

/// A contraction kernel as an Executable. Null where declined; `why_declined` (if given) then says why. f32 and f64,
/// both operands plain loads.
/// Schedule: tile_rows and tile_columns bound the register tile, which else follows from the extents.
std::shared_ptr<const Executable> make_contraction_executable(const Kernel& kernel, const Schedule& schedule, Isa isa,
                                                              std::string* why_declined = nullptr);
/// The default, and other register tiles.
std::vector<Schedule> contraction_schedules(Isa isa);

}  // namespace x86
SINTER_NAMESPACE_END
