// From a kernel and its numbers to CUDA C and the launches of it. A pure function: needs no GPU, no driver and no
// compiler. Must not know modules, streams, memory.
#pragma once

#include <sinter/backend/cuda/device/launch.hpp>
#include <sinter/base/config.hpp>
#include <sinter/kernel/kernel.hpp>
#include <sinter/runtime/backend.hpp>

#include <memory>
#include <string>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace cuda {

/// What fusion must respect: 8-byte pointers and strides fit a parameter, bodies compile in tens of milliseconds, and
/// operands are computed on the way into products that no library call would win.
Limits generator_limits(int capability = Target{}.capability);
/// The default first; rows also with other numbers of accesses for each thread, elementwise kernels with other widths,
/// numbers of items for each thread and of threads for each block.
std::vector<Schedule> generator_schedules(const Kernel& kernel);
/// Null where the kernel or a step of the schedule is declined, with the reason in `why_declined` (if not null).
/// What the parameter of a kernel's text may take, whatever its extents; it has an address and strides for each access.
std::size_t most_parameter_bytes(const Kernel& kernel);
std::shared_ptr<const GeneratedKernel> generate(const Kernel& kernel, const Schedule& schedule, const Target& target,
                                                std::string* why_declined = nullptr);

}  // namespace cuda
SINTER_NAMESPACE_END
