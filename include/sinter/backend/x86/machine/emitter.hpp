// From a stream with registers to bytes. The only place that uses the assembler library, of which nothing is visible
// here.
#pragma once

#include <sinter/backend/x86/machine/register_allocator.hpp>
#include <sinter/backend/x86/machine/vector_ir.hpp>

#include <cstddef>
#include <string>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace x86 {

/// Appends the function to `bytes` at the next multiple of 64 and returns where it starts: prologue, the stream,
/// its constants. The code is position independent. `listing` (if given) receives the disassembly.
/// Throws InternalError where the assembler refuses an instruction.
std::size_t encode(const CodeStream& stream, const Allocation& allocation, std::vector<std::byte>& bytes,
                   std::string* listing = nullptr);

}  // namespace x86
SINTER_NAMESPACE_END
