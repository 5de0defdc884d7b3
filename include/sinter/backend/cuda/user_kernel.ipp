// Compilation and launch of users' kernels.
#pragma once

#include <sinter/backend/cuda/user_kernel.hpp>

#include <sinter/backend/cuda/device/api.ipp>
#include <sinter/backend/cuda/device/device.hpp>
#include <sinter/backend/cuda/device/driver.hpp>
#include <sinter/backend/cuda/device/ready_list.hpp>
#include <sinter/base/index.hpp>

#include <memory>
#include <string_view>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace cuda {
namespace cuda_detail {

/// The device of the operands: the stream is one of its own. Its context is made current, for the user's function that
/// gives the launch may have left another one.
inline Gpu& gpu_of(void* stream, const std::string& name, Location where) {
  Gpu* const gpu = Gpu::owner_of(static_cast<CUstream>(stream));
  if (gpu == nullptr) throw DeviceError(name, "the stream is of no device of this process", where);
  gpu->enter();
  return *gpu;
}

inline std::shared_ptr<const Module> user_module(Gpu& gpu, const std::string& name, const std::string& source,
                                                 Location where) {
  try {
    return Modules::of(gpu).get(gpu, source, {name});
  } catch (const InternalError& error) {
    std::string_view log = error.what();
    if (const std::size_t own = log.find(source); own != std::string_view::npos) log = log.substr(0, own);
    throw UserError(name, "its CUDA source does not compile: " + std::string(log), where,
                    "lines are those of .cuda_source; it includes nothing");
  } catch (const DeviceError&) {
    throw UserError(name, "its CUDA source has no kernel of that name", where,
                    "write extern \"C\" __global__ void " + name + "(...)");
  }
}

}  // namespace cuda_detail

SINTER_DECL void launch_user_kernel(const std::string& name, const std::string& source, const UserLaunch& launch,
                                    void** parameters, void* stream, Location where) {
  using namespace cuda_detail;
  Gpu& gpu = gpu_of(stream, name, where);
  const std::shared_ptr<const Module> module = user_module(gpu, name, source, where);
  const auto& [gx, gy, gz] = launch.grid;
  const auto& [bx, by, bz] = launch.block;
  const CUresult result = api().call_cuLaunchKernel(module->function(0), gx, gy, gz, bx, by, bz, launch.shared_bytes,
                                                    static_cast<CUstream>(stream), parameters, nullptr);
  if (result == CUDA_SUCCESS) return;
  const auto text = [](const std::array<unsigned, 3>& sizes) {
    return "(" + std::to_string(sizes[0]) + ", " + std::to_string(sizes[1]) + ", " + std::to_string(sizes[2]) + ")";
  };
  const char* reason = nullptr;
  api().call_cuGetErrorString(result, &reason);
  throw UserError(name,
                  "the device refuses a launch of " + text(launch.grid) + " blocks of " + text(launch.block) +
                      " threads with " + std::to_string(launch.shared_bytes) +
                      " bytes of shared memory: " + (reason != nullptr ? reason : "?"),
                  where, "look at .cuda_launch");
}

}  // namespace cuda
SINTER_NAMESPACE_END
