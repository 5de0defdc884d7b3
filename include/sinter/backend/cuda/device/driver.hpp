// The CUDA driver and NVRTC, opened at run time: one binary runs with and without them. Owns the tables of
// function pointers and the messages that say what was looked for; knows no kernels and no memory.
#pragma once

#include <sinter/backend/cuda/device/api.hpp>
#include <sinter/base/config.hpp>
#include <sinter/base/error.hpp>

#include <string>
#include <string_view>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace cuda {

/// What this process found when it first asked.
struct DriverStatus {
  bool is_available = false;  // libcuda was opened, is recent enough, and there is a device
  int device_count = 0;
  int version = 0;     // 13000 for 13.0
  std::string detail;  // what was looked for and how it failed; empty when available
};
const DriverStatus& driver_status();

/// True in a process that was forked after the driver was opened: CUDA does not survive a fork.
bool is_forked_child() noexcept;

/// The driver's functions. Throws DeviceError when driver_status() says that there is none.
const DriverApi& driver_api(std::string_view op, Location where = {});

/// True when NVRTC can be opened; needs no GPU. `why` receives what was tried.
bool has_nvrtc(std::string* why = nullptr);
const NvrtcApi& nvrtc_api();
/// 13000 for 13.0; 0 without NVRTC.
int nvrtc_version();

/// Include-free CUDA C to a cubin, with NVRTC. `architecture` is "sm_80", "sm_90a", ... Needs no GPU. Throws
/// InternalError with NVRTC's log when the source is wrong, DeviceError when there is no NVRTC. May run on several
/// threads at once.
std::string compile_to_cubin(const std::string& source, std::string_view name, const std::string& architecture);

/// The first of `names` that dlopen finds, after the folders of SINTER_CUDA_PATH; null: none, and `tried` gets a line
/// each.
void* open_library(const std::vector<std::string>& names, std::string& tried);
void* find_symbol(void* library, const char* name);

}  // namespace cuda
SINTER_NAMESPACE_END
