// Kernels of CUDA C that users write: compiled by NVRTC at the first launch on a device, kept, and enqueued on a
// stream. Knows no ops.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/error.hpp>

#include <array>
#include <cstdint>
#include <string>

SINTER_NAMESPACE_BEGIN
namespace cuda {

/// Blocks, threads of a block, and bytes of dynamic shared memory.
struct UserLaunch {
  std::array<unsigned, 3> grid{1, 1, 1}, block{1, 1, 1};
  std::uint32_t shared_bytes = 0;
};

/// Enqueues kernel `name` of the source on the stream, on the device that this is one of. `parameters` are addresses of
/// its arguments. Throws UserError, at `where`, for source that does not compile or has no such kernel.
void launch_user_kernel(const std::string& name, const std::string& source, const UserLaunch& launch, void** parameters,
                        void* stream, Location where);

}  // namespace cuda
SINTER_NAMESPACE_END
