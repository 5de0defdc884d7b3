// Launch lists made ready: modules, kept by their text, and lists with their code and scratch memory. Knows no steps.
#pragma once

#include <sinter/backend/cuda/device/device.hpp>
#include <sinter/backend/cuda/device/launch.hpp>
#include <sinter/base/config.hpp>
#include <sinter/base/fork.hpp>
#include <sinter/base/ref.hpp>
#include <sinter/runtime/backend.hpp>
#include <sinter/tensor/storage.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

struct CUfunc_st;
struct CUmod_st;

SINTER_NAMESPACE_BEGIN
namespace cuda {
namespace cuda_detail {

/// Loaded machine code of one kernel on one GPU.
class Module {
 public:
  Module(Gpu& gpu, const std::string& cubin, const std::vector<std::string>& entries);
  ~Module();
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;
  CUfunc_st* function(std::size_t entry) const { return functions_[entry]; }

 private:
  Gpu& gpu_;
  CUmod_st* module_ = nullptr;
  std::vector<CUfunc_st*> functions_;
};

/// The modules of one GPU by their source text. Kept while something uses them, and the latest ones anyway.
class Modules {
 public:
  std::shared_ptr<const Module> get(Gpu& gpu, const std::string& source, const std::vector<std::string>& entries);
  void clear();
  static Modules& of(const Gpu& gpu);

 private:
  static constexpr std::size_t most = 4096;
  struct Entry {
    ForkSafeMutex compiling;
    std::shared_ptr<const Module> module;
  };
  ForkSafeMutex mutex_;
  std::unordered_map<std::string, std::shared_ptr<Entry>> table_;
};

/// What launches of one step share: how to bind again when addresses are not aligned.
struct StepBinding {
  std::shared_ptr<const GeneratedKernel> kernel;
  BoundGeometry geometry;
  std::uint64_t host_operands = 0;
  std::vector<std::uint8_t> operand_bytes;  // of an element; on the host of what is read, a number or its two parts
  bool is_grouped = false;
};

/// A launch list with its code, addresses that never change written.
struct ReadyList {
  LaunchList list;
  std::shared_ptr<const Module> module;
  Ref<Storage> workspace;   // allocated by the first run, for its stream
  bool has_called = false;  // the library, which has then loaded what it needs

  ReadyList(Gpu& gpu, LaunchList made);
  void prepare(Gpu& gpu, const LaunchLabel& label) {
    const StreamState& stream = gpu.stream();
    if (SINTER_UNLIKELY(!is_prepared_ || fault_stream_ != stream.id)) prepare_for(stream, gpu, label);
  }
  static void set(GpuLaunch& launch, const ParameterPatch& patch, const void* address) {
    if (SINTER_UNLIKELY(patch.kind == ParameterPatch::Kind::tensor_map)) set_tensor_map(launch, patch, address);
    else launch.parameters[patch.at / 8] = reinterpret_cast<std::uintptr_t>(address);
  }

 private:
  static void set_tensor_map(GpuLaunch& launch, const ParameterPatch& patch, const void* address);
  void prepare_for(const StreamState& stream, Gpu& gpu, const LaunchLabel& label);

  bool is_prepared_ = false;
  std::uint64_t fault_stream_ = 0;  // whose record the launches write
};

}  // namespace cuda_detail
}  // namespace cuda
SINTER_NAMESPACE_END
