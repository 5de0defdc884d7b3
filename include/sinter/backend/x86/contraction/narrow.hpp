// Contractions whose operands are bf16, by a unit that multiplies these as they are. Sums are of f32, whatever the
// store. Knows Kernels and Geometries; must not know graphs.
#pragma once

#include <sinter/backend/x86/machine/isa.hpp>
#include <sinter/base/config.hpp>
#include <sinter/kernel/kernel.hpp>
#include <sinter/runtime/backend.hpp>

#include <memory>
#include <string>

SINTER_NAMESPACE_BEGIN
namespace x86 {

/// A contraction of f32 whose operands are loads of bf16.
bool is_narrow_product(const Kernel& kernel);
/// Such a kernel as an Executable. Null where declined; `why_declined` (if given) then says why.
std::shared_ptr<const Executable> make_narrow_executable(const Kernel& kernel, const Schedule& schedule,
                                                         ProductUnit unit, std::string* why_declined = nullptr);

}  // namespace x86
SINTER_NAMESPACE_END
