// Scatters on x86: the driver of kernels whose values are combined with elements at computed places. Index and value
// are computed by generated loops, a block at a time; rows that lie in one piece are combined by a generated loop,
// single elements by compiled functions. Results do not depend on the number of threads.
#pragma once

#include <sinter/backend/x86/machine/isa.hpp>
#include <sinter/base/config.hpp>
#include <sinter/kernel/kernel.hpp>

#include <memory>
#include <string>

SINTER_NAMESPACE_BEGIN
class Executable;

namespace x86 {

/// Null where declined.
std::shared_ptr<const Executable> make_scatter_executable(const Kernel& kernel, const Schedule& schedule, Isa isa,
                                                          std::string* why_declined = nullptr);

}  // namespace x86
SINTER_NAMESPACE_END
