// The interpreter of loop nests as a back end that runs a GPU's nests on the host: what generated CUDA C is written
// from, without a compiler.
#pragma once

#ifdef SINTER_CUDA
#include <sinter/backend/cuda/source/gpu_nest.hpp>
#include <sinter/backend/cuda/source/source.hpp>
#include <sinter/backend/cuda/source/tensor.hpp>
#include <sinter/backend/cuda/source/transpose.hpp>
#include <sinter/kernel/loop_nest/interpreter.hpp>
#include <sinter/kernel/loop_nest/text.hpp>
#include <sinter/kernel/loop_nest/verify.hpp>
#include <sinter/runtime/backend.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace sinter_test {
using namespace sinter;

/// A kernel with its numbers and its nest, which refers to it. Products are those of the ordinary units.
struct GpuNest {
  GpuNest(const Kernel& kernel, const BoundGeometry& geometry, const Schedule& schedule = {}, int multiprocessors = 132,
          bool is_aligned = true)
      : bound(cuda_source_detail::bind_kernel(kernel, geometry)) {
    target.multiprocessors = multiprocessors;
    if (kernel.kind == KernelKind::contraction && take_product(is_aligned)) return;
    if (bound.reduced.empty() && kernel.kind != KernelKind::scatter)
      if (auto across = cuda_source_detail::build_transpose_nest(bound)) {
        nest = std::move(*across);
        return;
      }
    nest = cuda_source_detail::build_gpu_nest(bound, {schedule, target, is_aligned});
  }
  GpuNest(const GpuNest&) = delete;
  GpuNest& operator=(const GpuNest&) = delete;

  bool take_product(bool is_aligned) {
    cuda_source_detail::Writer writer(bound, target, 0, is_aligned);
    cuda_source_detail::ProductWriter product(writer);
    if (!product.choose()) return false;
    product.run();
    nest = product.nest();
    return true;
  }

  cuda_source_detail::BoundKernel bound;
  cuda::Target target;
  LoopNest nest;
};

class GpuNestBackend final : public Backend {
 public:
  explicit GpuNestBackend(InterpretMode mode, int multiprocessors = 132, Schedule schedule = {})
      : mode_(mode), multiprocessors_(multiprocessors), schedule_(std::move(schedule)) {}
  std::string_view name() const override { return "gpu nest"; }
  std::string cache_key() const override {
    return std::string("gpu-nest-") + (mode_ == InterpretMode::exact ? "exact-" : "wide-") +
           std::to_string(multiprocessors_) + schedule_.text();
  }
  Limits limits() const override { return cuda::generator_limits(); }
  std::vector<Schedule> schedules(const Kernel&) const override { return {schedule_}; }
  std::shared_ptr<const Executable> compile(const Kernel& kernel, const Schedule& schedule, std::string*) override {
    cuda::Target target;
    target.multiprocessors = multiprocessors_;
    if (!cuda::generate(kernel, schedule, target)) return nullptr;
    return std::make_shared<Compiled>(kernel, schedule, mode_, multiprocessors_);
  }

 private:
  class Run final : public Launch {
   public:
    Run(const Kernel& kernel, const BoundGeometry& geometry, const Schedule& schedule, InterpretMode mode,
        int processors)
        : kernel_(kernel), geometry_(geometry), schedule_(schedule), mode_(mode), processors_(processors) {}
    void run(void* const* operands) override {
      for (int a = 0; a < kernel_.rank(); ++a)
        if (!kernel_.is_reduced(a) && geometry_.extent[static_cast<std::size_t>(a)] == 0) return;
      const GpuNest gpu(kernel_, geometry_, schedule_, processors_, is_aligned(operands));
      verify(gpu.nest);
      const cuda_source_detail::BoundKernel& bound = gpu.bound;
      interpret(gpu.nest, VariantKind::whole, bound.geometry, {operands, bound.kernel.operands.size()}, mode_);
    }

   private:
    /// As whoever launches the text decides.
    bool is_aligned(void* const* operands) const {
      cuda::Target target;
      target.multiprocessors = processors_;
      const cuda::LaunchList list = cuda::generate(kernel_, schedule_, target)->bind(geometry_, 0, true);
      for (const cuda::GpuLaunch& launch : list.launches)
        for (const cuda::ParameterPatch& patch : launch.patches)
          if (list.needs_alignment && patch.kind == cuda::ParameterPatch::Kind::operand &&
              reinterpret_cast<std::uintptr_t>(operands[patch.index]) % 16 != 0)
            return false;
      return true;
    }

    const Kernel& kernel_;
    BoundGeometry geometry_;
    const Schedule& schedule_;
    InterpretMode mode_;
    int processors_;
  };
  class Compiled final : public Executable {
   public:
    Compiled(const Kernel& kernel, const Schedule& schedule, InterpretMode mode, int processors)
        : kernel_(kernel), schedule_(schedule), mode_(mode), processors_(processors) {}
    std::unique_ptr<Launch> bind(const BoundGeometry& geometry) const override {
      return std::make_unique<Run>(kernel_, geometry, schedule_, mode_, processors_);
    }

   private:
    Kernel kernel_;
    Schedule schedule_;
    InterpretMode mode_;
    int processors_;
  };

  InterpretMode mode_;
  int multiprocessors_;
  Schedule schedule_;
};

}  // namespace sinter_test
#endif
