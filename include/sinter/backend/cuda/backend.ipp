// Executables and launches.
#pragma once

#include <sinter/backend/cuda/backend.hpp>

#include <sinter/backend/cuda/device/api.ipp>
#include <sinter/backend/cuda/device/driver.hpp>
#include <sinter/backend/cuda/device/group.hpp>
#include <sinter/backend/cuda/device/iterations.hpp>
#include <sinter/backend/cuda/device/ready_list.hpp>
#include <sinter/backend/cuda/library/attention.hpp>
#include <sinter/backend/cuda/library/convolution.hpp>
#include <sinter/backend/cuda/library/library_op.hpp>
#include <sinter/backend/cuda/library/quantized.hpp>
#include <sinter/backend/cuda/product/product_binding.hpp>
#include <sinter/backend/cuda/source/merge.hpp>
#include <sinter/backend/cuda/source/source.hpp>
#include <sinter/base/context.hpp>
#include <sinter/base/fork.hpp>
#include <sinter/base/index.hpp>
#include <sinter/base/timeline.hpp>
#include <sinter/runtime/disk_cache.hpp>
#include <sinter/runtime/host_ops.hpp>

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>

SINTER_NAMESPACE_BEGIN
namespace cuda {

namespace cuda_detail {

/// One step of a frame.
class CudaLaunch final : public Launch {
 public:
  CudaLaunch(Gpu& gpu, const Kernel& kernel, StepBinding binding, const StepContext& step)
      : gpu_(gpu),
        label_(label_of(step)),
        binding_(std::move(binding)),
        aligned_(bind_product(gpu, kernel, binding_, choice_)) {
    note_host_operands();
  }
  CudaLaunch(Gpu& gpu, LaunchList list, const StepContext& step, std::vector<std::uint8_t> operand_bytes)
      : gpu_(gpu),
        label_(label_of(step)),
        binding_{nullptr, {}, step.host_operands.of_kernel(), std::move(operand_bytes)},
        aligned_(gpu, std::move(list)) {
    note_host_operands();
  }
  /// In the place of these, which outlive it; `list` is merge_lists() of theirs.
  CudaLaunch(Gpu& gpu, LaunchList list, const StepContext& step, std::vector<CudaLaunch*> members)
      : gpu_(gpu), label_(label_of(step)), members_(std::move(members)), aligned_(gpu, std::move(list)) {
    for (const CudaLaunch* member : members_) {
      binding_.operand_bytes.insert(binding_.operand_bytes.end(), member->binding_.operand_bytes.begin(),
                                    member->binding_.operand_bytes.end());
      is_on_host_.insert(is_on_host_.end(), member->is_on_host_.begin(), member->is_on_host_.end());
    }
  }

  void run(void* const* operands) override {
    if (SINTER_UNLIKELY(is_split(operands))) {
      for (CudaLaunch* member : members_) {
        member->run(operands);
        operands += member->operand_count();
      }
      return;
    }
    gpu_.enter();
    const StreamState& stream = gpu_.stream();
    gpu_.note_launch(label_);
    ReadyList& ready = list_for(operands);
    ready.prepare(gpu_, label_);
    if (ready.list.call) call_library(ready, operands, stream.handle);
    for (GpuLaunch& launch : ready.list.launches) {
      for (const ParameterPatch& patch : launch.patches) fill(launch, patch, operands);
      void* parameters[] = {launch.parameters.data()};
      const auto& [gx, gy, gz] = launch.grid;
      const auto& [bx, by, bz] = launch.block;
      const CUfunction function = ready.module->function(launch.entry);
      const CUresult enqueued =
          launch.is_cooperative ? api().call_cuLaunchCooperativeKernel(function, gx, gy, gz, bx, by, bz,
                                                                       launch.shared_bytes, stream.handle, parameters)
                                : api().call_cuLaunchKernel(function, gx, gy, gz, bx, by, bz, launch.shared_bytes,
                                                            stream.handle, parameters, nullptr);
      if (SINTER_UNLIKELY(enqueued != CUDA_SUCCESS)) fail(enqueued, ready.list.entries[launch.entry], launch);
    }
    if (SINTER_UNLIKELY(Context::get().checks)) wait(stream);
  }
  TypeKey type() const override { return type_key<CudaLaunch>(); }
  const LaunchList& list() const { return aligned_.list; }
  const LaunchLabel& label() const { return label_; }
  std::size_t operand_count() const { return binding_.operand_bytes.size(); }
  bool has_host_operands() const { return std::find(is_on_host_.begin(), is_on_host_.end(), 1) != is_on_host_.end(); }
  /// For operands that are less aligned than usual it runs its members one by one.
  bool is_split(void* const* operands) const {
    return !members_.empty() && aligned_.list.needs_alignment && !is_aligned(operands);
  }
  /// The source, and how a product is computed.
  std::string listing() const {
    const LaunchList& list = aligned_.list;
    if (!choice_ || !list.algorithm) return list.source;
    const std::string call = list.call ? " (" + list.call->text() + ")" : "";
    return "// product by " + std::string(name_of(*list.algorithm)) + call + ", " + choice_->why + "\n" + list.source;
  }
  /// What a library call of that list depends on: addresses, and numbers of the host.
  void addresses(const ReadyList& ready, void* const* operands, std::vector<std::uint64_t>& places) const {
    places.clear();
    places.push_back(ready.workspace ? reinterpret_cast<std::uintptr_t>(ready.workspace->data()) : 0);
    for (std::size_t i = 0; i < binding_.operand_bytes.size(); ++i) {
      if (is_on_host_[i] == 0) {
        places.push_back(reinterpret_cast<std::uintptr_t>(operands[i]));
        continue;
      }
      for (std::int64_t at = 0; at < binding_.operand_bytes[i]; at += 8) places.push_back(bits_of(operands, i, at));
    }
  }

  static void call_library(ReadyList& ready, void* const* operands, CUstream stream) {
    ready.list.call->run(operands, ready.workspace ? ready.workspace->data() : nullptr, stream);
    ready.has_called = true;
  }

  /// The list for these operands with addresses and values filled in, not enqueued.
  ReadyList& filled(void* const* operands) {
    gpu_.note_launch(label_);
    ReadyList& ready = list_for(operands);
    ready.prepare(gpu_, label_);
    for (GpuLaunch& launch : ready.list.launches)
      for (const ParameterPatch& patch : launch.patches) fill(launch, patch, operands);
    return ready;
  }

 private:
  void note_host_operands() {
    for (std::size_t i = 0; i < binding_.operand_bytes.size(); ++i)
      is_on_host_.push_back(static_cast<std::uint8_t>(i < 64 && (binding_.host_operands >> i & 1) != 0));
  }
  ReadyList& list_for(void* const* operands) {
    if (SINTER_LIKELY(!aligned_.list.needs_alignment || is_aligned(operands))) return aligned_;
    if (!unaligned_)
      unaligned_ =
          std::make_unique<ReadyList>(gpu_, binding_.kernel->bind(binding_.geometry, binding_.host_operands, false,
                                                                  aligned_.list.algorithm, binding_.is_grouped));
    return *unaligned_;
  }
  bool is_aligned(void* const* operands) const {
    for (std::size_t i = 0; i < binding_.operand_bytes.size(); ++i)
      if (is_on_host_[i] == 0 && reinterpret_cast<std::uintptr_t>(operands[i]) % 16 != 0) return false;
    return true;
  }
  void fill(GpuLaunch& launch, const ParameterPatch& patch, void* const* operands) const {
    if (patch.kind == ParameterPatch::Kind::operand || patch.kind == ParameterPatch::Kind::tensor_map) {
      ReadyList::set(launch, patch, static_cast<const char*>(operands[patch.index]) + patch.byte_offset);
    } else if (patch.kind == ParameterPatch::Kind::value) {
      launch.parameters[patch.at / 8] = bits_of(operands, patch.index, patch.byte_offset);
    }
  }
  /// Of an operand on the host, as many from this byte on as a parameter holds.
  std::uint64_t bits_of(void* const* operands, std::size_t operand, std::int64_t from) const {
    std::uint64_t bits = 0;
    const std::int64_t left = binding_.operand_bytes[operand] - from;
    std::memcpy(&bits, static_cast<const char*>(operands[operand]) + from, as_index(std::min<std::int64_t>(left, 8)));
    return bits;
  }
  [[noreturn]] void fail(CUresult result, const std::string& entry, const GpuLaunch& launch) const {
    auto extent = [](const std::array<std::uint32_t, 3>& e) {
      return std::to_string(e[0]) + "x" + std::to_string(e[1]) + "x" + std::to_string(e[2]);
    };
    throw DeviceError(label_.text(),
                      "launching " + entry + " (grid " + extent(launch.grid) + ", block " + extent(launch.block) +
                          ", shared memory " + std::to_string(launch.shared_bytes) +
                          ") on cuda:" + std::to_string(gpu_.index()) + " failed: " + result_text(result) + "; " +
                          gpu_.recent_launches(),
                      where());
  }
  Location where() const { return label_.where.empty() ? Location() : label_.where.front(); }
  void wait(const StreamState& stream) const {
    const CUresult result = api().call_cuStreamSynchronize(stream.handle);
    if (result != CUDA_SUCCESS)
      throw DeviceError(label_.text(),
                        "the kernel failed on cuda:" + std::to_string(gpu_.index()) + ": " + result_text(result),
                        where());
  }

  Gpu& gpu_;
  const LaunchLabel& label_;
  StepBinding binding_;
  std::vector<CudaLaunch*> members_;      // none: a launch of its own
  std::vector<std::uint8_t> is_on_host_;  // of each operand
  std::optional<ProductChoice> choice_;
  ReadyList aligned_;
  std::unique_ptr<ReadyList> unaligned_;
};

class CudaExecutable final : public Executable {
 public:
  CudaExecutable(Gpu& gpu, const Kernel& kernel, std::shared_ptr<const GeneratedKernel> generated)
      : gpu_(gpu), kernel_(kernel), generated_(std::move(generated)) {}
  std::unique_ptr<Launch> bind(const BoundGeometry& geometry) const override {
    return bind(geometry, StepContext{"kernel", {}, {}});
  }
  std::unique_ptr<Launch> bind(const BoundGeometry& geometry, const StepContext& step) const override {
    std::vector<std::uint8_t> bytes;
    for (const Operand& operand : kernel_.operands) bytes.push_back(static_cast<std::uint8_t>(size_of(operand.dtype)));
    read_host_operands(geometry, step, bytes);
    auto launch = std::make_unique<CudaLaunch>(
        gpu_, kernel_,
        StepBinding{generated_, geometry, step.host_operands.of_kernel(), std::move(bytes), step.is_grouped}, step);
    std::scoped_lock lock(mutex_);
    last_listing_ = launch->listing();
    return launch;
  }
  /// The source for the extents that were bound last.
  std::string listing() const override {
    std::scoped_lock lock(mutex_);
    return last_listing_;
  }

 private:
  /// Numbers by value are read at one place, whatever the index; of complex ones, also the part that comes second.
  void read_host_operands(const BoundGeometry& geometry, const StepContext& step,
                          std::vector<std::uint8_t>& bytes) const {
    for (std::size_t i = 0; i < kernel_.accesses.size(); ++i) {
      const std::size_t operand = kernel_.accesses[i].operand;
      if (!step.host_operands.has(operand)) continue;
      const std::int64_t offset = geometry.accesses[i].offset, size = size_of(kernel_.operands[operand].dtype);
      bool is_fixed = (offset == 0 || offset == 1) && !kernel_.operands[operand].written;
      for (int a = 0; a < kernel_.rank(); ++a)
        is_fixed &= geometry.accesses[i].stride[as_index(a)] == 0 || geometry.extent[as_index(a)] <= 1;
      ensure(is_fixed, "cuda: an operand in host memory is no number");
      bytes[operand] = std::max(bytes[operand], static_cast<std::uint8_t>((offset + 1) * size));
    }
  }

  Gpu& gpu_;
  Kernel kernel_;
  std::shared_ptr<const GeneratedKernel> generated_;
  mutable ForkSafeMutex mutex_;
  mutable std::string last_listing_;
};
}  // namespace cuda_detail

SINTER_DECL std::string cubin_of(const std::string& source, std::string_view name, const std::string& architecture) {
  const std::string key = "cubin " SINTER_VERSION_STRING " nvrtc " + std::to_string(nvrtc_version()) + " driver " +
                          std::to_string(driver_status().version) + " " + architecture + "\n" + source;
  const DiskCache cache = DiskCache::standard();
  {
    const TimelineSpan span("load", "read a kernel");
    if (std::optional<std::string> known = cache.find(key)) return *std::move(known);
  }
  std::string cubin = compile_to_cubin(source, name, architecture);
  if (is_logged("cuda"))
    note("cuda",
         std::string(name) + ": " + std::to_string(cubin.size()) + " bytes for " + architecture + "\n" + source);
  cache.store(key, cubin);
  return cubin;
}

SINTER_DECL CudaBackend::CudaBackend(Gpu& gpu)
    : gpu_(gpu),
      cache_key_("cuda:" + std::to_string(gpu.index()) + " " + gpu.target().architecture() + " driver " +
                 std::to_string(driver_status().version) + "; " + gpu.name() + ", " +
                 std::to_string(gpu.target().multiprocessors) + " multiprocessors") {}

SINTER_DECL Limits CudaBackend::limits() const { return cuda::generator_limits(gpu_.target().capability); }

SINTER_DECL std::vector<Schedule> CudaBackend::schedules(const Kernel& kernel) const {
  return cuda::generator_schedules(kernel);
}

namespace cuda_detail {
/// Bytes of a kernel's parameter.
inline std::size_t parameter_limit() {
  const bool has_large = driver_status().version >= 12010 && nvrtc_version() >= 12010;
  return has_large ? large_parameter_bytes : parameter_bytes;
}
}  // namespace cuda_detail

SINTER_DECL std::shared_ptr<const Executable> CudaBackend::compile(const Kernel& kernel, const Schedule& schedule,
                                                                   std::string* why_declined) {
  const std::size_t needed = most_parameter_bytes(kernel);
  if (needed > parameter_bytes && needed > cuda_detail::parameter_limit()) {
    if (why_declined != nullptr)
      *why_declined = "cuda: its parameter may take " + std::to_string(needed) + " bytes; this driver and NVRTC take " +
                      std::to_string(cuda_detail::parameter_limit());
    return nullptr;
  }
  std::shared_ptr<const GeneratedKernel> generated = generate(kernel, schedule, gpu_.target(), why_declined);
  if (generated == nullptr) return nullptr;
  return std::make_shared<const cuda_detail::CudaExecutable>(gpu_, kernel, std::move(generated));
}

SINTER_DECL Intrinsic CudaBackend::intrinsic(const Graph& graph, const Node& node, MatmulPrecision precision) const {
  if (const Intrinsic product = quantized_intrinsic(gpu_, graph, node)) return product;
  if (const Intrinsic attention = attention_intrinsic(gpu_, graph, node, precision)) return attention;
  return cuda_detail::convolution_intrinsic(gpu_, graph, node);
}

SINTER_DECL std::unique_ptr<Launch> CudaBackend::bind_op(const BoundOp& op, const StepContext& step) {
  return cuda_detail::bind_library_op(gpu_, op, step);
}

SINTER_DECL bool CudaBackend::can_group(const Launch& launch) const {
  return launch.type() == type_key<cuda_detail::CudaLaunch>() || launch.type() == type_key<RecordableWork>();
}

namespace cuda_detail {
/// As many launches of equal text as one parameter holds, in the place of which one runs.
inline void merge_equal(Gpu& gpu, std::span<CudaLaunch* const> launches, std::span<const std::uint32_t> numbers,
                        std::vector<MergedLaunch>& merged) {
  const std::size_t most = parameter_limit();
  for (std::size_t first = 0, count = 0; first < launches.size(); first += count) {
    count = std::min(launches.size() - first, members_for(launches[first]->list(), most));
    if (count < 2) return;
    std::vector<CudaLaunch*> members(launches.begin() + static_cast<std::ptrdiff_t>(first),
                                     launches.begin() + static_cast<std::ptrdiff_t>(first + count));
    std::vector<const LaunchList*> lists;
    std::vector<std::size_t> operand_counts;
    for (const CudaLaunch* member : members) {
      lists.push_back(&member->list());
      operand_counts.push_back(member->operand_count());
    }
    MergedLaunch& made = merged.emplace_back();
    made.members.assign(numbers.begin() + static_cast<std::ptrdiff_t>(first),
                        numbers.begin() + static_cast<std::ptrdiff_t>(first + count));
    const LaunchLabel& label = members.front()->label();
    const StepContext step{std::to_string(count) + " x " + label.name, label.where};
    made.launch = std::make_unique<CudaLaunch>(gpu, merge_lists(lists, operand_counts), step, std::move(members));
  }
}
}  // namespace cuda_detail

SINTER_DECL std::vector<MergedLaunch> CudaBackend::merge(std::span<Launch* const> launches) {
  using cuda_detail::CudaLaunch;
  const auto is_kernel = [&](std::size_t i) { return launches[i]->type() == type_key<CudaLaunch>(); };
  std::vector<MergedLaunch> merged;
  std::vector<std::uint8_t> is_done(launches.size());
  for (std::size_t i = 0; i < launches.size(); ++i) {
    if (is_done[i] != 0 || !is_kernel(i)) continue;
    const LaunchList& list = static_cast<CudaLaunch&>(*launches[i]).list();
    if (!is_mergeable(list)) continue;
    std::vector<CudaLaunch*> equal;
    std::vector<std::uint32_t> numbers;
    for (std::size_t j = i; j < launches.size(); ++j) {
      if (is_done[j] != 0 || !is_kernel(j)) continue;
      auto& other = static_cast<CudaLaunch&>(*launches[j]);
      if (!is_mergeable(other.list()) || !have_equal_code(list, other.list())) continue;
      is_done[j] = 1;
      equal.push_back(&other);
      numbers.push_back(static_cast<std::uint32_t>(j));
    }
    cuda_detail::merge_equal(gpu_, equal, numbers, merged);
  }
  return merged;
}

SINTER_DECL std::unique_ptr<IterationQueue> CudaBackend::iterations() { return cuda_detail::make_iterations(gpu_); }

SINTER_DECL std::unique_ptr<LaunchGroup> CudaBackend::group(std::vector<GroupedLaunch> launches) {
  return cuda_detail::make_group(gpu_, std::move(launches));
}

SINTER_DECL void forget_product_choices(Device device) {
  static_cast<void>(Gpu::get(device, "products"));  // throws where it is none
  cuda_detail::product_choices().forget(DiskCache::standard());
}

SINTER_DECL CudaBackend& backend(Device device) {
  struct Table {
    ForkSafeMutex mutex;
    std::array<std::unique_ptr<CudaBackend>, cuda_detail::max_devices> backends;
  };
  Table* table = &process_object<Table>();
  Gpu& gpu = Gpu::get(device, "compile");
  std::scoped_lock lock(table->mutex);
  auto& place = table->backends[as_index(gpu.index())];
  if (!place) place = std::make_unique<CudaBackend>(gpu);
  return *place;
}

}  // namespace cuda
SINTER_NAMESPACE_END
