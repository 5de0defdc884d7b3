// From a kernel, a schedule and a machine's description to a loop nest for a CPU: pointwise, row and column kernels,
// and products, whose tiles are calls.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/kernel/loop_nest/loop_nest.hpp>
#include <sinter/kernel/schedule.hpp>

#include <optional>
#include <string>

SINTER_NAMESPACE_BEGIN

enum class IndexWidth : std::uint8_t { wide, narrow_if_possible };

/// Nothing where no nest expresses the kernel, with the reason in `why`. The nest refers to `kernel`.
std::optional<LoopNest> build_nest(const Kernel& kernel, const Schedule& schedule, const Machine& machine,
                                   IndexWidth width, std::string& why);

SINTER_NAMESPACE_END
