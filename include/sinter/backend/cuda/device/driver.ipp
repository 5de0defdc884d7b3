// Opening the libraries, finding their functions, and NVRTC's one use.
#pragma once

#include <sinter/backend/cuda/device/driver.hpp>

#include <sinter/backend/cuda/device/api.ipp>
#include <sinter/base/fork.hpp>
#include <sinter/base/json_text.hpp>
#include <sinter/base/timeline.hpp>

#include <dlfcn.h>

#include <atomic>
#include <cstdlib>
#include <mutex>
#include <type_traits>

SINTER_NAMESPACE_BEGIN
namespace cuda {

namespace cuda_detail {
struct Driver {
  DriverApi api;
  DriverStatus status;
  static const Driver& instance();
};
struct Nvrtc {
  NvrtcApi api;
  bool is_available = false;
  int version = 0;
  std::string detail;
  static const Nvrtc& instance();
};

inline std::string error_text(const DriverApi& api, CUresult result) {
  const char *name = nullptr, *text = nullptr;
  if (api.call_cuGetErrorName != nullptr) api.call_cuGetErrorName(result, &name);
  if (api.call_cuGetErrorString != nullptr) api.call_cuGetErrorString(result, &text);
  return (name != nullptr ? std::string(name) : "CUDA error " + std::to_string(static_cast<int>(result))) +
         (text != nullptr ? std::string(": ") + text : "");
}

/// Folders besides the loader's own in which the toolkit's libraries may be.
inline std::vector<std::string> library_folders() {
  std::vector<std::string> folders{""};
  for (const char* variable : {"SINTER_CUDA_PATH", "CUDA_HOME", "CUDA_PATH"})
    if (const char* path = std::getenv(variable); path != nullptr && *path != '\0')
      for (const char* inside : {"/", "/lib64/", "/lib/"}) folders.push_back(std::string(path) + inside);
  folders.emplace_back("/usr/local/cuda/lib64/");
  return folders;
}

/// Fills the table; the missing name, or "".
template <class Api>
std::string fill_table(void* library, Api& api);

#define SINTER_CUDA_TEXT_(x) #x
#define SINTER_CUDA_TEXT(x) SINTER_CUDA_TEXT_(x)
template <>
inline std::string fill_table(void* library, DriverApi& api) {
#define SINTER_CUDA_FIND(name)                                                                                 \
  api.call_##name = reinterpret_cast<decltype(api.call_##name)>(find_symbol(library, SINTER_CUDA_TEXT(name))); \
  if (api.call_##name == nullptr) return SINTER_CUDA_TEXT(name);
  SINTER_CUDA_DRIVER_FUNCTIONS(SINTER_CUDA_FIND)
#undef SINTER_CUDA_FIND
  const auto find = [&](const char* name, auto& function) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(find_symbol(library, name));
  };
  find("cuTensorMapEncodeTiled", api.call_cuTensorMapEncodeTiled);
#if CUDA_VERSION >= 12040
  find("cuGraphConditionalHandleCreate", api.call_cuGraphConditionalHandleCreate);
  find("cuGraphAddNode_v2", api.call_cuGraphAddNode_v2);
#endif
  return {};
}
template <>
inline std::string fill_table(void* library, NvrtcApi& api) {
#define SINTER_CUDA_FIND(name)                                                                                 \
  api.call_##name = reinterpret_cast<decltype(api.call_##name)>(find_symbol(library, SINTER_CUDA_TEXT(name))); \
  if (api.call_##name == nullptr) return SINTER_CUDA_TEXT(name);
  SINTER_CUDA_NVRTC_FUNCTIONS(SINTER_CUDA_FIND)
#undef SINTER_CUDA_FIND
  return {};
}
#undef SINTER_CUDA_TEXT
#undef SINTER_CUDA_TEXT_

inline std::atomic<bool>& forked_word() noexcept {
  static constinit std::atomic<bool> word{false};
  return word;
}

inline Driver* open_driver() {
  auto* driver = new Driver;
  in_forked_child([] { forked_word().store(true, std::memory_order_relaxed); });
  DriverStatus& status = driver->status;
  void* library = open_library({"libcuda.so.1", "libcuda.so"}, status.detail);
  if (library == nullptr) return driver;
  if (std::string missing = fill_table(library, driver->api); !missing.empty()) {
    status.detail = "libcuda has no function " + missing + ": the NVIDIA driver is older than this build needs";
    return driver;
  }
  const TimelineSpan span("load", "start the driver");
  if (CUresult result = driver->api.call_cuInit(0); result != CUDA_SUCCESS) {
    status.detail = "cuInit failed: " + error_text(driver->api, result);
    return driver;
  }
  driver->api.call_cuDriverGetVersion(&status.version);
  driver->api.call_cuDeviceGetCount(&status.device_count);
  status.is_available = status.device_count > 0;
  if (!status.is_available) status.detail = "the driver is there, but lists no device (CUDA_VISIBLE_DEVICES?)";
  return driver;
}

inline Nvrtc* open_nvrtc() {
  auto* nvrtc = new Nvrtc;
  void* library = open_library({"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"}, nvrtc->detail);
  if (library == nullptr) return nvrtc;
  if (std::string missing = fill_table(library, nvrtc->api); !missing.empty()) {
    nvrtc->detail = "libnvrtc has no function " + missing;
    return nvrtc;
  }
  int major = 0, minor = 0;
  nvrtc->api.call_nvrtcVersion(&major, &minor);
  nvrtc->version = major * 1000 + minor * 10;
  nvrtc->is_available = true;
  return nvrtc;
}

// Never closed: plans of static storage outlive everything.
inline const Driver& Driver::instance() {
  return process_object([] { return open_driver(); });
}
inline const Nvrtc& Nvrtc::instance() {
  return process_object([] { return open_nvrtc(); });
}
}  // namespace cuda_detail

SINTER_DECL void* open_library(const std::vector<std::string>& names, std::string& tried) {
  const TimelineSpan span("load", "open " + names.back());
  std::string failures;
  for (const std::string& folder : cuda_detail::library_folders())
    for (const std::string& name : names) {
      if (void* library = dlopen((folder + name).c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
      const char* reason = dlerror();
      const std::string text = reason != nullptr ? reason : "";
      if (failures.empty() ||
          (text.find("No such file") == std::string::npos && failures.find(text) == std::string::npos))
        failures += (failures.empty() ? "" : "; ") + text;
    }
  tried = "looked for";
  for (const std::string& name : names) tried += (name == names.front() ? " " : ", ") + name;
  tried += " in the loader's path";
  for (const std::string& folder : cuda_detail::library_folders())
    if (!folder.empty()) tried += ", " + folder;
  tried += " (" + failures + ")";
  return nullptr;
}
SINTER_DECL void* find_symbol(void* library, const char* name) { return dlsym(library, name); }

SINTER_DECL bool is_forked_child() noexcept { return cuda_detail::forked_word().load(std::memory_order_relaxed); }

SINTER_DECL const DriverStatus& driver_status() { return cuda_detail::Driver::instance().status; }

SINTER_DECL const DriverApi& driver_api(std::string_view op, Location where) {
  const auto& driver = cuda_detail::Driver::instance();
  if (!driver.status.is_available)
    throw DeviceError(op, "no CUDA device can be used: " + driver.status.detail, where,
                      "install the NVIDIA driver, or ask cuda::is_available() and use Device::cpu()");
  return driver.api;
}

SINTER_DECL bool has_nvrtc(std::string* why) {
  const auto& nvrtc = cuda_detail::Nvrtc::instance();
  if (why != nullptr) *why = nvrtc.detail;
  return nvrtc.is_available;
}
SINTER_DECL int nvrtc_version() { return cuda_detail::Nvrtc::instance().version; }
SINTER_DECL const NvrtcApi& nvrtc_api() {
  const auto& nvrtc = cuda_detail::Nvrtc::instance();
  if (!nvrtc.is_available)
    throw DeviceError("cuda", "NVRTC cannot be used: " + nvrtc.detail, {},
                      "install the CUDA Toolkit's NVRTC library, or name its folder in SINTER_CUDA_PATH");
  return nvrtc.api;
}

SINTER_DECL std::string compile_to_cubin(const std::string& source, std::string_view name,
                                         const std::string& architecture) {
  const NvrtcApi& api = nvrtc_api();
  TimelineSpan span("compile", "NVRTC");
  if (span.is_on()) span.fields().add("kernel", name);
  nvrtcProgram program = nullptr;
  const std::string file = std::string(name) + ".cu", target = "--gpu-architecture=" + architecture;
  auto check = [&](nvrtcResult result, const char* what) {
    if (result != NVRTC_SUCCESS)
      throw InternalError(std::string("NVRTC: ") + what + ": " + api.call_nvrtcGetErrorString(result));
  };
  check(api.call_nvrtcCreateProgram(&program, source.c_str(), file.c_str(), 0, nullptr, nullptr), "create");
  struct Destroy {
    const NvrtcApi& api;
    nvrtcProgram program;
    ~Destroy() { api.call_nvrtcDestroyProgram(&program); }
  } destroy{api, program};
  // fma arises only where the kernel says so, as on the CPU; division and square root are correctly rounded by default.
  const char* options[] = {target.c_str(), "--std=c++17", "--fmad=false", "--minimal"};
  const nvrtcResult result =
      api.call_nvrtcCompileProgram(program, nvrtc_version() >= 13000 ? 4 : 3, options);  // older ones lack the last
  if (result != NVRTC_SUCCESS) {
    std::size_t size = 0;
    std::string log;
    if (api.call_nvrtcGetProgramLogSize(program, &size) == NVRTC_SUCCESS && size > 0) {
      log.resize(size);
      api.call_nvrtcGetProgramLog(program, log.data());
    }
    throw InternalError("NVRTC refuses " + file + " for " + architecture + ": " + log.c_str() + "\n" + source);
  }
  std::size_t size = 0;
  check(api.call_nvrtcGetCUBINSize(program, &size), "cubin size");
  std::string cubin(size, '\0');
  check(api.call_nvrtcGetCUBIN(program, cubin.data()), "cubin");
  return cubin;
}

}  // namespace cuda
SINTER_NAMESPACE_END
