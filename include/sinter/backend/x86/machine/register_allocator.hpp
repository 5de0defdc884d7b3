// Linear-scan allocation of the virtual vector and mask registers of a stream. Intervals are hulls over the stream's
// order, stretched to the end of loops they are live into; the interval with the lowest use density is spilled as a
// whole. Constants are never stored: without a register they are read from the pool.
#pragma once

#include <sinter/backend/x86/machine/vector_ir.hpp>

#include <vector>

SINTER_NAMESPACE_BEGIN
namespace x86 {

/// Where a virtual register lives.
struct Place {
  enum class Kind : std::uint8_t { unused, reg, slot, pool };
  Kind kind = Kind::unused;
  std::uint8_t reg = 0;
  VReg next = no_vreg;      // constants: the next one of the same region
  std::int32_t offset = 0;  // slot: from rsp; pool: from the pool's start
};

struct Allocation {
  std::vector<Place> place;             // per virtual register
  std::vector<VReg> first_constant;     // per region; by place[].next, in order
  std::uint32_t general_registers = 0;  // a bit for each that the stream names
  std::array<std::uint8_t, 2> scratch_vec{}, scratch_mask{};
  int frame_bytes = 0;  // the stream's own plus spill slots
  bool aligned_frame = false;
  int spills = 0;
};

Allocation allocate_registers(const CodeStream& stream);

}  // namespace x86
SINTER_NAMESPACE_END
