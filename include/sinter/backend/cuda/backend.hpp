// The CUDA back end: kernels of one GPU behind the Backend interface. Generated source becomes a cubin (NVRTC, or the
// disk cache), a module, and launches on the calling thread's stream. Knows nothing of how source is generated.
#pragma once

#include <sinter/backend/cuda/device/device.hpp>
#include <sinter/base/config.hpp>
#include <sinter/runtime/backend.hpp>

#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace cuda {

/// cubin of the source for the architecture: from the disk cache, or compiled and stored there.
std::string cubin_of(const std::string& source, std::string_view name, const std::string& architecture);

class CudaBackend final : public Backend {
 public:
  explicit CudaBackend(Gpu& gpu);

  std::string_view name() const override { return "cuda"; }
  std::string cache_key() const override { return cache_key_; }
  Limits limits() const override;
  Device device() const override { return Device::cuda(gpu_.index()); }
  std::vector<Schedule> schedules(const Kernel& kernel) const override;
  bool compiles_when_bound() const override { return true; }
  std::shared_ptr<const Executable> compile(const Kernel& kernel, const Schedule& schedule,
                                            std::string* why_declined = nullptr) override;
  Intrinsic intrinsic(const Graph& graph, const Node& node, MatmulPrecision precision) const override;
  std::unique_ptr<Launch> bind_op(const BoundOp& op, const StepContext& step) override;
  bool can_group(const Launch& launch) const override;
  std::unique_ptr<LaunchGroup> group(std::vector<GroupedLaunch> launches) override;
  bool merges_launches() const override { return true; }
  std::vector<MergedLaunch> merge(std::span<Launch* const> launches) override;
  std::unique_ptr<IterationQueue> iterations() override;

 private:
  Gpu& gpu_;
  std::string cache_key_;
};

/// Drops what this process knows of measured products, on all devices; what is on disk, in the folder that the
/// environment names now, is found again.
void forget_product_choices(Device device);

/// The back end of a GPU. Throws DeviceError when it cannot be used.
CudaBackend& backend(Device device);

}  // namespace cuda
SINTER_NAMESPACE_END
