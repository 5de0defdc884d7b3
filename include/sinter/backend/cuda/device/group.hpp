// CUDA graphs: launches of a frame that are enqueued as one. A graph is built from the launches' own data; library
// calls alone are recorded, each as a small graph of its own inside. What must wait for what is told by the frame; the
// rest may run side by side. Knows launches, nothing of plans.
#pragma once

#include <sinter/backend/cuda/device/device.hpp>
#include <sinter/base/config.hpp>
#include <sinter/runtime/backend.hpp>

#include <memory>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace cuda {
namespace cuda_detail {

/// Of launches that CudaBackend::can_group() takes.
std::unique_ptr<LaunchGroup> make_group(Gpu& gpu, std::vector<GroupedLaunch> launches);

}  // namespace cuda_detail
}  // namespace cuda
SINTER_NAMESPACE_END
