// Scratch memory and the operands in it.
#pragma once

#include <sinter/backend/cuda/product/measure.hpp>

#include <sinter/backend/cuda/device/api.ipp>
#include <sinter/backend/cuda/product/rounds.hpp>
#include <sinter/base/index.hpp>
#include <sinter/base/json_text.hpp>
#include <sinter/base/timeline.hpp>
#include <sinter/tensor/half.hpp>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <span>
#include <stdexcept>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace cuda {
namespace cuda_detail {

/// Bytes that a kernel reaches of each operand. Accesses whose least offset is below zero do not occur: operands are
/// whole buffers.
inline std::vector<std::size_t> operand_extents(const Kernel& kernel, const BoundGeometry& geometry) {
  std::vector<std::size_t> bytes(kernel.operands.size());
  for (std::size_t i = 0; i < kernel.accesses.size(); ++i) {
    std::int64_t last = geometry.accesses[i].offset;
    for (int a = 0; a < kernel.rank(); ++a) {
      const auto axis = as_index(a);
      const StrideClass known = kernel.accesses[i].stride[axis];
      const std::int64_t stride = known == StrideClass::zero   ? 0
                                  : known == StrideClass::unit ? 1
                                                               : geometry.accesses[i].stride[axis];
      last += std::max<std::int64_t>(geometry.extent[axis] - 1, 0) * std::max<std::int64_t>(stride, 0);
    }
    const std::uint16_t operand = kernel.accesses[i].operand;
    bytes[operand] = std::max(bytes[operand], as_index(last + 1) * as_index(size_of(kernel.operands[operand].dtype)));
  }
  return bytes;
}

/// A stream, two events and memory, for the time of a measurement.
class Scratch {
 public:
  Scratch(Gpu& gpu, std::size_t bytes) : gpu_(gpu), stream_(gpu.acquire_stream()) {
    const MemoryStats stats = gpu.pool().stats();
    const bool exceeds_limit =
        stats.limit > 0 && stats.in_use + stats.cached + static_cast<std::int64_t>(bytes) > stats.limit;
    try {
      if (exceeds_limit || bytes > gpu.total_memory() / 4)
        throw std::runtime_error(std::to_string(bytes) + " bytes of scratch memory are too much");
      capture_ = CU_STREAM_CAPTURE_MODE_RELAXED;
      require_done(api().call_cuThreadExchangeStreamCaptureMode(&capture_),
                   "the mode of capture");  // a capture of the user's is not disturbed
      is_exchanged_ = true;
      for (CUevent& event : events_)
        require_done(api().call_cuEventCreate(&event, CU_EVENT_DEFAULT), "making an event");
      CUmemPoolProps properties{};
      properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
      properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
      properties.location.id = gpu.index();
      require_done(api().call_cuMemPoolCreate(&pool_, &properties),
                   "making a pool");  // freeing from it waits for no other stream
      require_done(api().call_cuMemAllocFromPoolAsync(&memory_, bytes, pool_, stream_.handle),
                   "allocating scratch memory");
      require_done(api().call_cuMemsetD8Async(memory_, 0, bytes, stream_.handle), "filling scratch memory");
    } catch (...) {
      release();
      throw;
    }
  }
  ~Scratch() { release(); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  char* memory() const { return reinterpret_cast<char*>(memory_); }
  CUstream stream() const { return stream_.handle; }

  /// Numbers of both signs, none zero, well inside the range of every dtype: products of equal or zero numbers, or of
  /// NaN, need less power, and so would run faster than real ones.
  void fill_with_numbers(char* target, std::size_t bytes, DType dtype) {
    std::vector<char> pattern(std::min<std::size_t>(bytes, std::size_t{1} << 16));
    std::uint32_t state = 12345;
    const auto next = [&] {
      state = state * 1664525u + 1013904223u;
      const double number = 0.25 + static_cast<double>(state >> 9) / (1 << 23);
      return (state >> 8 & 1) != 0 ? number : -number;
    };
    const bool is_f16 = dtype == DType::f16, is_half = is_f16 || dtype == DType::bf16;
    for (std::size_t at = 0; is_half && at + 2 <= pattern.size(); at += 2) {
      const auto x = static_cast<float>(next());
      const std::uint16_t bits = is_f16 ? float16(x).bits : bfloat16(x).bits;
      std::memcpy(pattern.data() + at, &bits, 2);
    }
    for (std::size_t at = 0; !is_half && at + 8 <= pattern.size(); at += 8) {
      const double d = next();
      const float f[2] = {static_cast<float>(d), static_cast<float>(next())};
      std::memcpy(pattern.data() + at, dtype == DType::f64 ? static_cast<const void*>(&d) : f, 8);
    }
    gpu_.staging().to_device(target, pattern.data(), pattern.size(), stream());
    for (std::size_t done = pattern.size(); done < bytes;) {  // twice as much each time
      const std::size_t size = std::min(done, bytes - done);
      require_done(api().call_cuMemcpyDtoDAsync(reinterpret_cast<CUdeviceptr>(target) + done,
                                                reinterpret_cast<CUdeviceptr>(target), size, stream()),
                   "filling scratch memory");
      done += size;
    }
  }
  /// Microseconds of one of `times` runs.
  double time(const std::function<void()>& run, int times) {
    require_done(api().call_cuEventRecord(events_[0], stream()), "recording an event");
    for (int i = 0; i < times; ++i) run();
    require_done(api().call_cuEventRecord(events_[1], stream()), "recording an event");
    require_done(api().call_cuEventSynchronize(events_[1]), "running a candidate");
    float milliseconds = 0;
    require_done(api().call_cuEventElapsedTime(&milliseconds, events_[0], events_[1]), "reading the time");
    return static_cast<double>(milliseconds) * 1000 / times;
  }
  static void require_done(CUresult result, const char* what) {
    if (result != CUDA_SUCCESS) throw std::runtime_error(std::string(what) + " failed: " + result_text(result));
  }

 private:
  void release() noexcept {
    if (memory_ != 0) {
      api().call_cuMemFreeAsync(memory_, stream_.handle);
      api().call_cuStreamSynchronize(stream_.handle);
    }
    if (pool_ != nullptr) api().call_cuMemPoolDestroy(pool_);
    for (CUevent event : events_)
      if (event != nullptr) api().call_cuEventDestroy(event);
    if (is_exchanged_) api().call_cuThreadExchangeStreamCaptureMode(&capture_);
    gpu_.release_stream(stream_);
  }

  Gpu& gpu_;
  const StreamState& stream_;
  std::array<CUevent, 2> events_{};
  CUmemoryPool pool_ = nullptr;
  CUdeviceptr memory_ = 0;
  CUstreamCaptureMode capture_{};
  bool is_exchanged_ = false;
};

/// Runs lists of one step on scratch memory.
class ScratchOperands {
 public:
  ScratchOperands(Gpu& gpu, const Kernel& kernel, const StepBinding& binding, std::size_t workspace_bytes)
      : binding_(binding), extents_(operand_extents(kernel, binding.geometry)), scratch_(gpu, place(workspace_bytes)) {
    for (std::size_t i = 0; i < extents_.size(); ++i) {
      if (is_host(i)) {
        operands_.push_back(&host_number_);  // a zero: it may be an index
        continue;
      }
      char* const target = scratch_.memory() + places_[i];
      if (is_floating(kernel.operands[i].dtype))
        scratch_.fill_with_numbers(target, extents_[i], kernel.operands[i].dtype);  // else zeros: valid indices
      operands_.push_back(target);
    }
  }
  Scratch& scratch() { return scratch_; }

  void run(ReadyList& ready) {
    char* const workspace = scratch_.memory() + workspace_;
    if (ready.list.call) ready.list.call->run(operands_.data(), workspace, scratch_.stream());
    for (GpuLaunch& launch : ready.list.launches) {
      for (const ParameterPatch& patch : launch.patches) fill(launch, patch, workspace);
      void* parameters[] = {launch.parameters.data()};
      const auto& [gx, gy, gz] = launch.grid;
      const auto& [bx, by, bz] = launch.block;
      if (launch.is_cooperative) throw std::runtime_error("a cooperative launch is not measured");
      Scratch::require_done(api().call_cuLaunchKernel(ready.module->function(launch.entry), gx, gy, gz, bx, by, bz,
                                                      launch.shared_bytes, scratch_.stream(), parameters, nullptr),
                            "launching a candidate");
    }
  }

 private:
  static constexpr std::size_t round(std::size_t bytes) { return (bytes + 511) / 512 * 512; }
  bool is_host(std::size_t operand) const { return (binding_.host_operands >> operand & 1) != 0; }
  std::size_t place(std::size_t workspace_bytes) {
    std::size_t at = 0;
    for (std::size_t i = 0; i < extents_.size(); ++i) {
      places_.push_back(at);
      if (!is_host(i)) at += round(extents_[i] + 8);
    }
    fault_ = at;
    workspace_ = at + 512;
    return workspace_ + round(workspace_bytes + 1);
  }
  void fill(GpuLaunch& launch, const ParameterPatch& patch, const char* workspace) const {
    switch (patch.kind) {
      case ParameterPatch::Kind::operand:
      case ParameterPatch::Kind::tensor_map:
        ReadyList::set(launch, patch, static_cast<const char*>(operands_[patch.index]) + patch.byte_offset);
        break;
      case ParameterPatch::Kind::value: launch.parameters[patch.at / 8] = host_number_; break;
      case ParameterPatch::Kind::workspace: ReadyList::set(launch, patch, workspace + patch.byte_offset); break;
      case ParameterPatch::Kind::fault: ReadyList::set(launch, patch, scratch_.memory() + fault_); break;
      case ParameterPatch::Kind::tag: launch.parameters[patch.at / 8] = 1; break;
    }
  }

  const StepBinding& binding_;
  std::vector<std::size_t> extents_, places_;
  std::size_t fault_ = 0, workspace_ = 0;
  std::uint64_t host_number_ = 0;
  Scratch scratch_;
  std::vector<void*> operands_;
};

SINTER_DECL std::vector<double> measure(Gpu& gpu, const Kernel& kernel, const StepBinding& binding,
                                        std::size_t workspace_bytes, std::size_t count,
                                        const std::function<ReadyList&(std::size_t)>& candidate) {
  TimelineSpan span("compile", "measure candidates");
  if (span.is_on()) span.fields().add("candidates", static_cast<long long>(count));
  ScratchOperands operands(gpu, kernel, binding, workspace_bytes);
  return medians_of_rounds(count, [&](std::size_t i, int times) {
    ReadyList& list = candidate(i);
    return operands.scratch().time([&] { operands.run(list); }, times);
  });
}

}  // namespace cuda_detail
}  // namespace cuda
SINTER_NAMESPACE_END
