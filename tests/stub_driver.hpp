// A driver of two GPUs and a cuBLASLt that compute nothing, an NVRTC that compiles nothing and an NCCL that sends
// nothing, for machines that have none: which context, stream and module a launch is made with is printed, and what
// streams wait for where SINTER_STUB_WAITS is set. All are one shared library that the compiler of this
// machine makes, and that the loader of a process finds in the place of NVIDIA's. With SINTER_STUB_TRUE bytes that the
// host reads are 1, a hundred of them at most; with SINTER_STUB_COPIES copies to the host are printed, with
// SINTER_STUB_GRAPHS what is recorded, made a part of a graph and destroyed. With SINTER_STUB_SLOW kernels take longer
// than products of cuBLASLt, with SINTER_STUB_NEWER that is of another version, with SINTER_STUB_REFUSES no algorithm
// that it is shown fits, with SINTER_STUB_ONE_SCALE it knows no scales of rows and columns. SINTER_STUB_COMPILES prints
// what NVRTC is asked.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace sinter_test {

inline constexpr const char* stub_driver_source = R"(
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <unistd.h>
namespace {
struct Context { int device; } contexts[2] = {{0}, {1}};
struct Stream { int device, number; };
struct Event { long long at; const Stream* stream; };
const bool tells_waits = std::getenv("SINTER_STUB_WAITS") != nullptr;
const bool tells_copies = std::getenv("SINTER_STUB_COPIES") != nullptr;
const bool tells_graphs = std::getenv("SINTER_STUB_GRAPHS") != nullptr;
struct Module { int device; };
struct Function { const Module* module; char name[128]; };
thread_local Context* current;
int device_now() { return current == nullptr ? -1 : current->device; }
long long now() { return std::chrono::steady_clock::now().time_since_epoch().count(); }
}
// Each function under the names that it has had.
#define ALL(type, name, parameters)                                   \
  extern "C" type name parameters;                                    \
  extern "C" type name##_v2 parameters __attribute__((alias(#name))); \
  extern "C" type name##_v3 parameters __attribute__((alias(#name))); \
  extern "C" type name##_v4 parameters __attribute__((alias(#name))); \
  extern "C" type name parameters
#define NOTHING(name) ALL(int, name, (...)) { return 0; }
ALL(int, cuDriverGetVersion, (int* version)) { return *version = 13000, 0; }
ALL(int, cuDeviceGetCount, (int* count)) { return *count = 2, 0; }
ALL(int, cuDeviceGet, (int* device, int index)) { return *device = index, 0; }
ALL(int, cuDeviceGetName, (char* name, int size, int)) { return std::snprintf(name, size, "stub"), 0; }
ALL(int, cuDeviceGetAttribute, (int* value, int which, int)) {
  // 75, 76: capability; 16: multiprocessors; 97: shared memory; 82: registers
  *value = which == 75 ? 9 : which == 16 ? 8 : which == 97 ? 100000 : which == 82 ? 65536 : 0;
  return 0;
}
ALL(int, cuDeviceTotalMem, (std::size_t* bytes, int)) { return *bytes = std::size_t{1} << 32, 0; }
ALL(int, cuDeviceGetUuid, (void* uuid, int device)) { return std::memset(uuid, device, 16), 0; }
ALL(int, cuDevicePrimaryCtxRetain, (void** context, int device)) { return *context = &contexts[device], 0; }
ALL(int, cuCtxSetCurrent, (void* context)) { return current = static_cast<Context*>(context), 0; }
ALL(int, cuCtxGetCurrent, (void** context)) { return *context = current, 0; }
ALL(int, cuGetErrorName, (int, const char** name)) { return *name = "STUB", 0; }
ALL(int, cuGetErrorString, (int, const char** text)) { return *text = "an error of the stub", 0; }
ALL(int, cuMemAlloc, (void** place, std::size_t bytes)) { return *place = std::calloc(1, bytes), 0; }
ALL(int, cuMemFree, (void* place)) { return std::free(place), 0; }
ALL(int, cuMemGetInfo, (std::size_t* free, std::size_t* total)) { return *free = *total = std::size_t{1} << 32, 0; }
ALL(int, cuMemHostAlloc, (void** place, std::size_t bytes, unsigned)) { return *place = std::calloc(1, bytes), 0; }
ALL(int, cuMemFreeHost, (void* place)) { return std::free(place), 0; }
ALL(int, cuMemHostGetDevicePointer, (void** to, void* from, unsigned)) { return *to = from, 0; }
ALL(int, cuMemcpyHtoDAsync, (void* to, const void* from, std::size_t n, void*)) { return std::memcpy(to, from, n), 0; }
ALL(int, cuMemcpyDtoHAsync, (void* to, const void* from, std::size_t n, void*)) {
  static int trues = std::getenv("SINTER_STUB_TRUE") != nullptr ? 100 : 0;
  if (tells_copies) std::printf("%zu bytes to the host\n", n);
  std::memcpy(to, from, n);
  if (n == 1 && trues > 0) --trues, *static_cast<char*>(to) = 1;
  return 0;
}
ALL(int, cuMemcpyDtoDAsync, (void* to, const void* from, std::size_t n, void*)) { return std::memcpy(to, from, n), 0; }
ALL(int, cuMemcpyPeerAsync, (void* to, void*, const void* from, void*, std::size_t n, void*)) { return std::memcpy(to, from, n), 0; }
ALL(int, cuMemsetD8Async, (void* to, unsigned char value, std::size_t n, void*)) { return std::memset(to, value, n), 0; }
ALL(int, cuMemAllocFromPoolAsync, (void** place, std::size_t bytes, void*, void*)) { return *place = std::calloc(1, bytes), 0; }
ALL(int, cuMemFreeAsync, (void* place, void*)) { return std::free(place), 0; }
ALL(int, cuMemPoolCreate, (void** pool, const void*)) { return *pool = &contexts, 0; }
ALL(int, cuMemPoolGetAttribute, (void*, int, void* value)) { return *static_cast<unsigned long long*>(value) = 0, 0; }
ALL(int, cuStreamCreateWithPriority, (void** stream, unsigned, int)) {
  static int made[3] = {};
  return *stream = new Stream{device_now(), ++made[device_now() + 1]}, 0;
}
ALL(int, cuEventCreate, (void** event, unsigned)) { return *event = new Event{0, nullptr}, 0; }
ALL(int, cuEventDestroy, (void* event)) { return delete static_cast<Event*>(event), 0; }
ALL(int, cuEventRecord, (void* event, void* stream)) {
  *static_cast<Event*>(event) = {now(), static_cast<const Stream*>(stream)};
  return 0;
}
ALL(int, cuStreamWaitEvent, (void* stream, void* event, unsigned)) {
  const auto* of = static_cast<Event*>(event)->stream;
  if (tells_waits)
    std::printf("stream %d of %d waits for stream %d\n", static_cast<const Stream*>(stream)->number,
                static_cast<const Stream*>(stream)->device, of == nullptr ? 0 : of->number);
  return 0;
}
ALL(int, cuEventElapsedTime, (float* milliseconds, void* from, void* to)) {
  *milliseconds = static_cast<float>(static_cast<Event*>(to)->at - static_cast<Event*>(from)->at) / 1e6f;
  return 0;
}
ALL(int, cuModuleLoadData, (void** module, const void*)) { return *module = new Module{device_now()}, 0; }
ALL(int, cuModuleGetFunction, (void** function, void* module, const char* name)) {
  auto* made = new Function{static_cast<Module*>(module), {}};
  std::snprintf(made->name, sizeof made->name, "%s", name);
  return *function = made, 0;
}
extern "C" int nvrtcVersion(int* major, int* minor) { return *major = 13, *minor = 0, 0; }
extern "C" int nvrtcCreateProgram(void** program, ...) { return *program = contexts, 0; }
extern "C" int nvrtcDestroyProgram(void**) { return 0; }
extern "C" int nvrtcCompileProgram(void*, int, const char* const*) {
  return std::getenv("SINTER_STUB_COMPILES") != nullptr && std::printf("compile\n"), 0;
}
extern "C" int nvrtcGetProgramLogSize(void*, std::size_t* size) { return *size = 0, 0; }
extern "C" int nvrtcGetProgramLog(void*, char*) { return 0; }
extern "C" int nvrtcGetCUBINSize(void*, std::size_t* size) { return *size = 4, 0; }
extern "C" int nvrtcGetCUBIN(void*, char* text) { return std::memcpy(text, "stub", 4), 0; }
extern "C" const char* nvrtcGetErrorString(int) { return "an error of the stub"; }
ALL(int, cuFuncGetAttribute, (int* value, int, void*)) { return *value = 32, 0; }
ALL(int, cuOccupancyMaxActiveBlocksPerMultiprocessor, (int* blocks, void*, int, std::size_t)) { return *blocks = 2, 0; }
ALL(int, cuLaunchKernel, (void* function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                          void* stream, void**, void**)) {
  const auto* launched = static_cast<const Function*>(function);
  if (std::getenv("SINTER_STUB_SLOW") != nullptr) usleep(200);
  std::printf("launch %s: stream of %d, module of %d, context of %d\n", launched->name,
              static_cast<const Stream*>(stream)->device, launched->module->device, device_now());
  return 0;
}
// cuBLASLt: an algorithm for every product, and who starts it is printed.
extern "C" int cublasLtCreate(void** handle) {
  std::printf("%s thread starts cuBLASLt\n", gettid() == getpid() ? "the first" : "another");
  return *handle = contexts, 0;
}
extern "C" std::size_t cublasLtGetVersion() { return std::getenv("SINTER_STUB_NEWER") != nullptr ? 130100 : 130000; }
struct Found { unsigned char algorithm[64]; std::size_t scratch; int state; float waves; int reserved[4]; };
extern "C" int cublasLtMatmulAlgoGetHeuristic(void*, void*, void*, void*, void*, void*, void*, int, Found* found,
                                              int* count) {
  return *found = {}, *count = 1, 0;
}
extern "C" int cublasLtMatmulAlgoCheck(void*, void*, void*, void*, void*, void*, const void*, Found* found) {
  return *found = {}, std::getenv("SINTER_STUB_REFUSES") != nullptr ? 15 : 0;
}
extern "C" int cublasLtMatmulDescSetAttribute(void*, int which, const void*, std::size_t) {
  return which == 31 && std::getenv("SINTER_STUB_ONE_SCALE") != nullptr ? 15 : 0;
}
extern "C" int cublasLtMatmul(...) { return std::printf("product of cuBLASLt\n"), 0; }
#define MADE(name) extern "C" int name(void** made, ...) { return *made = contexts, 0; }
MADE(cublasLtMatmulDescCreate)
MADE(cublasLtMatmulPreferenceCreate)
MADE(cublasLtMatrixLayoutCreate)
// NCCL: of all_reduce its stream is printed.
#define NCCL(name, parameters) extern "C" int name parameters
NCCL(ncclGetUniqueId, (void*)) { return 0; }
NCCL(ncclCommInitRank, (void** comm, ...)) { return *comm = contexts, 0; }
NCCL(ncclAllReduce, (const void*, void*, std::size_t count, int, int, void*, void* stream)) {
  std::printf("all_reduce of %zu: stream %d of %d\n", count, static_cast<const Stream*>(stream)->number,
              static_cast<const Stream*>(stream)->device);
  return 0;
}
NCCL(ncclCommDestroy, (void*)) { return tells_graphs && std::printf("destroy communicator\n"), 0; }
NCCL(ncclCommAbort, (void*)) { return tells_graphs && std::printf("abort communicator\n"), 0; }
extern "C" const char* ncclGetErrorString(int) { return "an error of the stub"; }
ALL(int, cuStreamBeginCapture, (void* stream, int)) {
  if (tells_graphs) std::printf("record stream %d\n", static_cast<const Stream*>(stream)->number);
  return 0;
}
ALL(int, cuStreamEndCapture, (void*, void** graph)) { return *graph = tells_graphs ? contexts : nullptr, 0; }
ALL(int, cuGraphAddChildGraphNode, (void** node, void*, void** before, std::size_t count, void*)) {
  static char nodes[10000];
  static int made = 0;
  for (std::size_t i = 0; i < count; ++i)
    for (std::size_t k = 0; k < i; ++k)
      if (before[i] == before[k]) std::printf("waits for one node twice\n");
  if (tells_graphs) *node = &nodes[++made % 10000], std::printf("make call\n");
  return 0;
}
ALL(int, cuGraphInstantiateWithFlags, (void** graph, ...)) { return *graph = tells_graphs ? contexts : nullptr, 0; }
ALL(int, cuGraphExecDestroy, (void*)) { return tells_graphs && std::printf("destroy graph\n"), 0; }
ALL(int, cuGraphLaunch, (void*, void*)) { return std::printf("launch graph\n"), 0; }
ALL(int, cuGraphConditionalHandleCreate, (unsigned long long* handle, ...)) { return *handle = 1, 0; }
// With the data of edges, as from version 2 on; the graphs of a conditional node are told 32 bytes into its parameters.
ALL(int, cuGraphAddNode, (void** node, void*, const void*, const void*, std::size_t, void* parameters)) {
  static void* graphs[1] = {contexts};
  void** const given = graphs;
  std::memcpy(static_cast<char*>(parameters) + 32, &given, sizeof given);
  return std::printf("make condition\n"), *node = contexts, 0;
}
ALL(int, cuGraphAddKernelNode, (void** node, ...)) { return std::printf("make node\n"), *node = contexts, 0; }
)";

/// Functions that do nothing.
inline constexpr const char* idle_functions[] = {"cuInit",
                                                 "cuCtxSynchronize",
                                                 "cuPointerGetAttribute",
                                                 "cuMemPoolDestroy",
                                                 "cuMemPoolSetAttribute",
                                                 "cuMemPoolTrimTo",
                                                 "cuStreamDestroy",
                                                 "cuStreamSynchronize",
                                                 "cuStreamQuery",
                                                 "cuEventSynchronize",
                                                 "cuEventQuery",
                                                 "cuModuleUnload",
                                                 "cuFuncSetAttribute",
                                                 "cuLaunchCooperativeKernel",
                                                 "cuThreadExchangeStreamCaptureMode",
                                                 "cuGraphDestroy",
                                                 "cuGraphCreate",
                                                 "cuGraphExecKernelNodeSetParams",
                                                 "cuGraphUpload",
                                                 "cuGraphAddEmptyNode",
                                                 "cuGraphExecChildGraphNodeSetParams",
                                                 "cuGraphKernelNodeSetAttribute",
                                                 "cublasLtMatmulDescDestroy",
                                                 "cublasLtMatmulPreferenceDestroy",
                                                 "cublasLtMatmulPreferenceSetAttribute",
                                                 "cublasLtMatrixLayoutDestroy",
                                                 "cublasLtMatrixLayoutSetAttribute",
                                                 "ncclReduce",
                                                 "ncclBroadcast",
                                                 "ncclAllGather",
                                                 "ncclReduceScatter",
                                                 "ncclSend",
                                                 "ncclRecv",
                                                 "ncclGroupStart",
                                                 "ncclGroupEnd"};

/// The folder with the library, for LD_LIBRARY_PATH; "" where it cannot be made. It is the caller's to remove.
inline std::string make_stub_driver() {
  std::string folder = (std::filesystem::temp_directory_path() / "sinter_stub_driver_XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) return {};
  std::ofstream source(folder + "/stub.cpp");
  source << stub_driver_source;
  for (const char* name : idle_functions) source << "NOTHING(" << name << ")\n";
  source.close();
  const char* const compiler = std::getenv("CXX");
  const std::string command = std::string(compiler != nullptr ? compiler : "c++") +
                              " -std=c++20 -w -shared -fPIC -o '" + folder + "/libcuda.so.1' '" + folder +
                              "/stub.cpp' 2>'" + folder + "/log'";
  if (std::system(command.c_str()) != 0) return {};
  for (const char* name : {"/libnvrtc.so.13", "/libcublasLt.so.13"})
    std::filesystem::create_symlink("libcuda.so.1", folder + name);
  std::filesystem::create_symlink("libcuda.so.1", folder + "/libnccl.so.2");
  return folder;
}

}  // namespace sinter_test
