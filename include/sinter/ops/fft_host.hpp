// What tables need of the transforms of lines in memory: see fft_host.ipp.
#pragma once

#include <sinter/base/config.hpp>

#include <vector>

SINTER_NAMESPACE_BEGIN
namespace fft_detail {

/// The transform of one line of complex numbers, in place.
void transform_in_double(std::vector<double>& line);

}  // namespace fft_detail
SINTER_NAMESPACE_END
