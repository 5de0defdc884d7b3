// From a stream with registers to bytes.
#pragma once

#include <sinter/backend/x86/machine/register_allocator.hpp>
#include <sinter/backend/x86/machine/vector_ir.hpp>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace x86 {

/// Appends the function to `bytes` at the next multiple of 64 and returns where it starts: prologue, the stream,
/// its constants. The code is position independent. `listing` (if given) receives the disassembly, which AsmJit makes.
/// Throws InternalError where an instruction has operands that the machine does not have.
std::size_t encode(const CodeStream& stream, const Allocation& allocation, std::vector<std::byte>& bytes,
                   std::string* listing = nullptr);

namespace x86_detail {
/// The same without AsmJit. Nothing, and `bytes` as before, where an instruction has a form that Assembler lacks.
std::optional<std::size_t> assemble(const CodeStream& stream, const Allocation& allocation,
                                    std::vector<std::byte>& bytes);
}  // namespace x86_detail

}  // namespace x86
SINTER_NAMESPACE_END
