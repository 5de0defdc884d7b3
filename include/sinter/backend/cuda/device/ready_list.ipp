// Loading code, keeping it, and the addresses that are written once.
#pragma once

#include <sinter/backend/cuda/device/ready_list.hpp>

#include <sinter/backend/cuda/backend.hpp>
#include <sinter/backend/cuda/device/api.ipp>
#include <sinter/base/fork.hpp>
#include <sinter/base/index.hpp>
#include <sinter/base/timeline.hpp>

#include <array>
#include <cstring>
#include <mutex>
#include <utility>

SINTER_NAMESPACE_BEGIN
namespace cuda {
namespace cuda_detail {

SINTER_DECL Module::Module(Gpu& gpu, const std::string& cubin, const std::vector<std::string>& entries) : gpu_(gpu) {
  const DriverApi& driver = api();
  const TimelineSpan span("load", "load a module");
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

SINTER_DECL Module::~Module() {
  try {                   // the device may be gone
    gpu_.wait_for_all();  // launches may still run
    api().call_cuModuleUnload(module_);
  } catch (const Error&) {}
}

SINTER_DECL std::shared_ptr<const Module> Modules::get(Gpu& gpu, const std::string& source,
                                                       const std::vector<std::string>& entries) {
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
    std::string architecture = gpu.target().architecture();
    if (source.find("wgmma.") != std::string::npos) architecture += "a";  // instructions of one architecture alone
    const std::string cubin = cubin_of(source, entries.empty() ? "kernel" : entries.front(), architecture);
    entry->module = std::make_shared<const Module>(gpu, cubin, entries);
  }
  return entry->module;
}

SINTER_DECL void Modules::clear() {
  std::scoped_lock lock(mutex_);
  table_.clear();
}

SINTER_DECL Modules& Modules::of(const Gpu& gpu) {
  auto* all = &process_object<std::array<Modules, max_devices>>();
  return (*all)[as_index(gpu.index())];
}

SINTER_DECL ReadyList::ReadyList(Gpu& gpu, LaunchList made) : list(std::move(made)) {
  if (!list.source.empty()) module = Modules::of(gpu).get(gpu, list.source, list.entries);
}

SINTER_DECL void ReadyList::set_tensor_map(GpuLaunch& launch, const ParameterPatch& patch, const void* address) {
  TensorMap& map = launch.tensor_maps[patch.at / 128];
  if (map.address == address) return;
  CUtensorMap encoded{};
  const CUtensorMapDataType type = map.dtype == DType::bf16  ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
                                   : map.dtype == DType::f16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16
                                                             : CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
  const std::array<cuuint32_t, 5> every{1, 1, 1, 1, 1};
  const CUresult result = api().call_cuTensorMapEncodeTiled(
      &encoded, type, static_cast<cuuint32_t>(map.rank), const_cast<void*>(address), map.extent.data(),
      map.byte_stride.data() + 1, map.box.data(), every.data(), CU_TENSOR_MAP_INTERLEAVE_NONE,
      CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS) throw DeviceError("cuda", "describing an operand failed: " + result_text(result));
  std::memcpy(launch.parameters.data() + patch.at / 8, &encoded, sizeof encoded);
  map.address = address;
}

SINTER_DECL void ReadyList::prepare_for(const StreamState& stream, Gpu& gpu, const LaunchLabel& label) {
  fault_stream_ = stream.id;
  if (list.call) list.call->note_use();
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

}  // namespace cuda_detail
}  // namespace cuda
SINTER_NAMESPACE_END
