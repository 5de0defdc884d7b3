// Launches of equal text as one: a kernel whose parameter has the parameters of all, and whose blocks look up whose
// they are. Works on text and plain data; must not know streams or modules.
#pragma once

#include <sinter/backend/cuda/device/launch.hpp>
#include <sinter/base/config.hpp>

#include <cstddef>
#include <span>

SINTER_NAMESPACE_BEGIN
namespace cuda {

/// What a kernel's parameter may take: in general, and from CUDA 12.1 and compute capability 7.0 on.
inline constexpr std::size_t parameter_bytes = 4096, large_parameter_bytes = 32764;

/// One launch of a kernel whose blocks have one number each, and no scratch memory.
bool is_mergeable(const LaunchList& list);
/// Of two that are mergeable: all but addresses and numbers is the same.
bool have_equal_code(const LaunchList& a, const LaunchList& b);
/// How many of such a parameter have room in `most_bytes`.
std::size_t members_for(const LaunchList& list, std::size_t most_bytes);
/// One list for mergeable ones of equal code. Its operands are theirs, one after the other: `operand_counts` of each.
LaunchList merge_lists(std::span<const LaunchList* const> lists, std::span<const std::size_t> operand_counts);

}  // namespace cuda
SINTER_NAMESPACE_END
