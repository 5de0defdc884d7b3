// The tables of the driver's and NVRTC's functions, with the types of the toolkit's headers. Only .ipp files of this
// back end include it.
#pragma once

#include <sinter/backend/cuda/device/api.hpp>

#include <sinter/backend/cuda/device/driver.hpp>
#include <sinter/base/error.hpp>

#include <string>
#include <string_view>

#include <cuda.h>
#include <nvrtc.h>

SINTER_NAMESPACE_BEGIN
namespace cuda {

// cuda.h renames some functions to their newest version by macros (cuMemAlloc is cuMemAlloc_v2): decltype sees the
// renamed function, and its renamed name is the one that the library is asked for, so that signature and symbol always
// match.
#define SINTER_CUDA_DRIVER_FUNCTIONS(X)                                                                                \
  X(cuInit)                                                                                                            \
  X(cuDriverGetVersion)                                                                                                \
  X(cuDeviceGetCount)                                                                                                  \
  X(cuDeviceGet)                                                                                                       \
  X(cuDeviceGetName)                                                                                                   \
  X(cuDeviceGetAttribute)                                                                                              \
  X(cuDeviceTotalMem) X(cuDeviceGetUuid) X(cuDevicePrimaryCtxRetain) X(cuCtxSetCurrent) X(cuCtxGetCurrent)             \
      X(cuCtxSynchronize) X(cuGetErrorName) X(cuGetErrorString) X(cuMemAlloc) X(cuMemFree) X(cuMemGetInfo)             \
          X(cuMemHostAlloc) X(cuMemFreeHost) X(cuMemHostGetDevicePointer) X(cuMemcpyHtoDAsync) X(cuMemcpyDtoHAsync)    \
              X(cuMemcpyDtoDAsync) X(cuMemcpyPeerAsync) X(cuMemsetD8Async) X(cuPointerGetAttribute) X(cuMemPoolCreate) \
                  X(cuMemPoolDestroy) X(cuMemPoolSetAttribute) X(cuMemPoolGetAttribute) X(cuMemPoolTrimTo)             \
                      X(cuMemAllocFromPoolAsync) X(cuMemFreeAsync) X(cuStreamCreateWithPriority) X(cuStreamDestroy)    \
                          X(cuStreamSynchronize) X(cuStreamQuery) X(cuStreamWaitEvent) X(cuEventCreate)                \
                              X(cuEventDestroy) X(cuEventRecord) X(cuEventSynchronize) X(cuEventQuery)                 \
                                  X(cuEventElapsedTime) X(cuModuleLoadData) X(cuModuleUnload) X(cuModuleGetFunction)   \
                                      X(cuFuncSetAttribute) X(cuFuncGetAttribute)                                      \
                                          X(cuOccupancyMaxActiveBlocksPerMultiprocessor) X(cuLaunchKernel)             \
                                              X(cuLaunchCooperativeKernel) X(cuThreadExchangeStreamCaptureMode)        \
                                                  X(cuStreamBeginCapture) X(cuStreamEndCapture)                        \
                                                      X(cuGraphInstantiateWithFlags) X(cuGraphLaunch)                  \
                                                          X(cuGraphDestroy) X(cuGraphExecDestroy) X(cuGraphCreate)     \
                                                              X(cuGraphAddKernelNode)                                  \
                                                                  X(cuGraphExecKernelNodeSetParams) X(cuGraphUpload)   \
                                                                      X(cuGraphAddEmptyNode)                           \
                                                                          X(cuGraphAddChildGraphNode)                  \
                                                                              X(cuGraphExecChildGraphNodeSetParams)    \
                                                                                  X(cuGraphKernelNodeSetAttribute)

#define SINTER_CUDA_NVRTC_FUNCTIONS(X) \
  X(nvrtcVersion)                      \
  X(nvrtcCreateProgram)                \
  X(nvrtcDestroyProgram)               \
  X(nvrtcCompileProgram)               \
  X(nvrtcGetCUBINSize) X(nvrtcGetCUBIN) X(nvrtcGetProgramLogSize) X(nvrtcGetProgramLog) X(nvrtcGetErrorString)

struct DriverApi {
#define SINTER_CUDA_MEMBER(name) decltype(&::name) call_##name = nullptr;
  SINTER_CUDA_DRIVER_FUNCTIONS(SINTER_CUDA_MEMBER)
#undef SINTER_CUDA_MEMBER
  decltype(&::cuTensorMapEncodeTiled) call_cuTensorMapEncodeTiled = nullptr;  // of 12.0: null with an older driver
#if CUDA_VERSION >= 12040
  // Of 12.4: null with an older driver.
  decltype(&::cuGraphConditionalHandleCreate) call_cuGraphConditionalHandleCreate = nullptr;
  CUresult (*call_cuGraphAddNode_v2)(CUgraphNode*, CUgraph, const CUgraphNode*, const CUgraphEdgeData*, std::size_t,
                                     CUgraphNodeParams*) = nullptr;
#endif
};

struct NvrtcApi {
#define SINTER_CUDA_MEMBER(name) decltype(&::name) call_##name = nullptr;
  SINTER_CUDA_NVRTC_FUNCTIONS(SINTER_CUDA_MEMBER)
#undef SINTER_CUDA_MEMBER
};

namespace cuda_detail {
SINTER_DECL const DriverApi& api() { return driver_api("cuda", Location()); }

SINTER_DECL std::string result_text(int result) {
  const char *name = nullptr, *text = nullptr;
  api().call_cuGetErrorName(static_cast<CUresult>(result), &name);
  api().call_cuGetErrorString(static_cast<CUresult>(result), &text);
  return std::string(name != nullptr ? name : "unknown CUDA error") + (text != nullptr ? std::string(": ") + text : "");
}

/// Outside of a device's own work: enumeration, contexts.
inline void require(CUresult result, std::string_view op, std::string_view what, Location where = {}) {
  if (result != CUDA_SUCCESS) throw DeviceError(op, std::string(what) + " failed: " + result_text(result), where);
}
}  // namespace cuda_detail

}  // namespace cuda
SINTER_NAMESPACE_END
