// Launch lists made ready: modules, kept by their text, and lists with their code and scratch memory. Knows no steps.
#pragma once

#include <sinter/backend/cuda/backend.hpp>
#include <sinter/base/fork.hpp>
#include <sinter/base/index.hpp>

#include <sinter/backend/cuda/device/api.ipp>
#include <sinter/backend/cuda/device/driver.hpp>
#include <sinter/tensor/storage.hpp>

#include <array>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace cuda {
namespace cuda_detail {

/// Loaded machine code of one kernel on one GPU.
class Module {
 public:
  Module(Gpu& gpu, const std::string& cubin, const std::vector<std::string>& entries) : gpu_(gpu) {
    const DriverApi& driver = api();
    gpu.enter();
    gpu.check(driver.call_cuModuleLoadData(&module_, cubin.data()), "loading a kernel");
    for (const std::string& entry : entries) {
      CUfunction function = nullptr;
      gpu.check(driver.call_cuModuleGetFunction(&function, module_, entry.c_str()), "finding kernel " + entry);
      int fixed = 0;
      gpu.check(driver.call_cuFuncGetAttribute(&fixed, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, function),
                "reading a kernel's attributes");
      const int most = static_cast<int>(gpu.target().shared_bytes) - fixed;
      gpu.check(driver.call_cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, most),
                "setting a kernel's shared memory");
      functions_.push_back(function);
    }
  }
  ~Module() {
    try {                   // the device may be gone
      gpu_.wait_for_all();  // launches may still run
      api().call_cuModuleUnload(module_);
    } catch (const Error&) {}
  }
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;
  CUfunction function(std::size_t entry) const { return functions_[entry]; }

 private:
  Gpu& gpu_;
  CUmodule module_ = nullptr;
  std::vector<CUfunction> functions_;
};

/// The modules of one GPU by their source text. Kept while something uses them, and the latest ones anyway.
class Modules {
 public:
  std::shared_ptr<const Module> get(Gpu& gpu, const std::string& source, const std::vector<std::string>& entries) {
    std::shared_ptr<Entry> entry;
    {
      std::scoped_lock lock(mutex_);
      if (table_.size() >= most) table_.clear();  // launches keep theirs
      auto& place = table_[source];
      if (!place) place = std::make_shared<Entry>();
      entry = place;
    }
    std::scoped_lock lock(entry->compiling);  // others that want it wait
    if (!entry->module) {
      const std::string cubin =
          cubin_of(source, entries.empty() ? "kernel" : entries.front(), gpu.target().architecture());
      entry->module = std::make_shared<const Module>(gpu, cubin, entries);
    }
    return entry->module;
  }
  void clear() {
    std::scoped_lock lock(mutex_);
    table_.clear();
  }
  static Modules& of(const Gpu& gpu) {
    auto* all = &process_object<std::array<Modules, max_devices>>();
    return (*all)[as_index(gpu.index())];
  }

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
  std::vector<std::uint8_t> operand_bytes;
};

/// A launch list with its code, addresses that never change written.
struct ReadyList {
  LaunchList list;
  std::shared_ptr<const Module> module;
  Ref<Storage> workspace;   // allocated by the first run, for its stream
  bool has_called = false;  // the library, which has then loaded what it needs

  ReadyList(Gpu& gpu, LaunchList made) : list(std::move(made)) {
    if (!list.source.empty()) module = Modules::of(gpu).get(gpu, list.source, list.entries);
  }
  void prepare(Gpu& gpu, const LaunchLabel& label) {
    const StreamState& stream = gpu.stream();
    if (SINTER_LIKELY(is_prepared_ && fault_stream_ == stream.id)) return;
    fault_stream_ = stream.id;
    const std::size_t bytes = list.workspace_bytes + (list.call ? list.call->scratch_bytes() : 0);
    if (bytes > 0 && !is_prepared_) workspace = Storage::allocate(bytes, Device::cuda(gpu.index()));
    for (GpuLaunch& launch : list.launches)
      for (const ParameterPatch& patch : launch.patches) {
        if (patch.kind == ParameterPatch::Kind::workspace && workspace)
          set(launch, patch, static_cast<char*>(workspace->data()) + patch.byte_offset);
        if (patch.kind == ParameterPatch::Kind::fault) set(launch, patch, gpu.fault_record(stream));
        if (patch.kind == ParameterPatch::Kind::tag) launch.parameters[patch.at / 8] = label.tag;
      }
    is_prepared_ = true;
  }
  static void set(GpuLaunch& launch, const ParameterPatch& patch, const void* address) {
    launch.parameters[patch.at / 8] = reinterpret_cast<std::uintptr_t>(address);
  }

 private:
  bool is_prepared_ = false;
  std::uint64_t fault_stream_ = 0;  // whose record the launches write
};

}  // namespace cuda_detail
}  // namespace cuda
SINTER_NAMESPACE_END
