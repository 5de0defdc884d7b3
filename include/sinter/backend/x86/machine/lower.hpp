// From one scalar instruction to vector operations: the meaning of every primitive that is computed (not loaded, stored
// or reduced), for every dtype. bool_ values are canonical masks. Knows nothing of loops and memory.
#pragma once

#include <sinter/backend/x86/nest/vector_builder.hpp>
#include <sinter/kernel/kernel.hpp>

#include <span>
#include <string>

SINTER_NAMESPACE_BEGIN
namespace x86 {

/// Why the generator cannot compute `inst` whose first argument has dtype `from`; empty when it can.
std::string why_not_lowered(const Inst& inst, DType from);

/// Emits `inst` on vectors. `from` is the dtype of its (last) argument. Clobbers rax, rdx, r9.
VReg lower(VectorBuilder& builder, const Inst& inst, DType from, std::span<const VReg> args);
/// exp of what is at most 0, or NaN: the same bits in one operation less.
VReg lower_exp_of_not_positive(VectorBuilder& builder, Lane lane, VReg x);

/// The value that a reduction starts from, and one step of it. bool_ reductions run on i32 zeros and ones.
std::uint64_t neutral_bits(Prim reduction, DType dtype);
VReg combine(VectorBuilder& builder, Prim reduction, DType dtype, VReg older, VReg newer);

namespace x86_detail {
/// A canonical mask as 0 and 1 of a lane type, and back.
VReg mask_to_number(VectorBuilder& builder, VReg mask, Lane lane);
VReg number_to_mask(VectorBuilder& builder, VReg value, Lane lane);
}  // namespace x86_detail

/// Rough machine instructions per vector, for choosing between recomputing and keeping.
int cost_of(Prim prim);

}  // namespace x86
SINTER_NAMESPACE_END
