// The machine code of a plan, for files of functions. Knows plans; must not know files.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/runtime/plan.hpp>

SINTER_NAMESPACE_BEGIN
namespace runtime_detail {

/// Compiles the kernels of a plan for the CPU once more and binds them at the hints of its symbols, so that a
/// CodeRecording of this thread notes the code that first calls of such sizes want.
void compile_again(const Plan& plan);

}  // namespace runtime_detail
SINTER_NAMESPACE_END
