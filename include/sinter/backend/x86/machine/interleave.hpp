// Two vectors of a loop's step, computed one after the other, made to alternate instruction by instruction. Knows
// streams, not what they compute.
#pragma once

#include <sinter/backend/x86/machine/vector_ir.hpp>

#include <cstdint>

SINTER_NAMESPACE_BEGIN
namespace x86 {

/// Lets the instructions of [first, second) and of [second, end of the stream) alternate. A processor holds a hundred
/// instructions that wait for others: of a long chain, which is most of a step, those are two vectors either way, but
/// in turns both have half of their chains done, and none waits while the other is finished. Leaves them as they are
/// where they are short, are not alike, depend on each other or on general registers, or need more registers together
/// than there are.
void interleave(CodeStream& stream, std::uint32_t first, std::uint32_t second);

}  // namespace x86
SINTER_NAMESPACE_END
