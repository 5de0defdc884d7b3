// In which order candidates are timed, and when enough is known. Knows no device: what times a candidate is a function.
#pragma once

#include <sinter/base/config.hpp>

#include <cstddef>
#include <functional>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace cuda {
namespace cuda_detail {

/// Microseconds of one of `times` runs of a candidate in a row. May throw: this one fails.
using CandidateTimer = std::function<double(std::size_t candidate, int times)>;

/// Medians, in microseconds, of runs that alternate, so that what else goes on meets all alike; negative where a
/// candidate fails. What is slower leaves, after the first rounds only if it is much slower; one that is left alone has
/// won. Runs of more than half a millisecond come in fewer rounds of several in a row: power limits long products, and
/// who needs less of it shows only after some milliseconds.
std::vector<double> medians_of_rounds(std::size_t count, const CandidateTimer& time);

}  // namespace cuda_detail
}  // namespace cuda
SINTER_NAMESPACE_END
