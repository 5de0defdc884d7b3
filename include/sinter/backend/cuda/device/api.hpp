// The functions of the driver and of NVRTC, as this back end calls them: api().call_cuMemAlloc(...). The tables' types
// are complete in api.ipp, which includes the toolkit's headers, and which .ipp files of this back end include to call
// a function; headers do without, so that they compile where there is no toolkit.
#pragma once

#include <sinter/base/config.hpp>

#include <string>

SINTER_NAMESPACE_BEGIN
namespace cuda {

struct DriverApi;
struct NvrtcApi;

namespace cuda_detail {
inline constexpr int max_devices = 64;

/// The driver's functions; throws DeviceError where there is none.
const DriverApi& api();
/// Name and meaning of a CUresult.
std::string result_text(int result);
}  // namespace cuda_detail

}  // namespace cuda
SINTER_NAMESPACE_END
