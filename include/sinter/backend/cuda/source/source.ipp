// Which form takes a kernel, and what is declined.
#pragma once

#include <sinter/backend/cuda/source/source.hpp>

#include <sinter/backend/cuda/source/pointwise.hpp>
#include <sinter/backend/cuda/source/product.hpp>
#include <sinter/backend/cuda/source/reduction.hpp>
#include <sinter/backend/cuda/source/scan.hpp>
#include <sinter/backend/cuda/source/scatter.hpp>
#include <sinter/backend/cuda/source/transpose.hpp>
#include <sinter/backend/cuda/source/writer.hpp>
#include <sinter/base/index.hpp>

SINTER_NAMESPACE_BEGIN
namespace cuda_source_detail {

// A parameter holds at most 4 KB: a pointer for each access, a number for each of its strides.
inline constexpr std::size_t most_accesses = 64;

class SourceOfKernel final : public cuda::GeneratedKernel {
 public:
  SourceOfKernel(const Kernel& kernel, const Schedule& schedule, const cuda::Target& target)
      : kernel_(kernel), schedule_(schedule), target_(target) {}

  cuda::LaunchList bind(const BoundGeometry& geometry, std::uint64_t by_value, bool is_aligned,
                        std::optional<cuda::GemmAlgorithm> algorithm) const override {
    if (is_empty(geometry)) return {};
    const Nest nest = make_nest(kernel_, geometry);
    Writer writer(nest, schedule_, target_, by_value, is_aligned);
    if (kernel_.kind == KernelKind::contraction && write_product(writer, algorithm)) return writer.finish();
    if (kernel_.kind == KernelKind::scatter) {
      write_scatter(writer);
      return writer.finish();
    }
    if (nest.reduced.empty() && write_transpose(writer)) return writer.finish();
    if (kernel_.has_scan()) write_scan(writer);
    else if (nest.reduced.empty()) write_pointwise(writer);
    else write_reduction(writer);
    return writer.finish();
  }
  cuda::GemmProblem product(const BoundGeometry& geometry, std::uint64_t by_value, bool is_aligned) const override {
    if (kernel_.kind != KernelKind::contraction || is_empty(geometry)) return {};
    const Nest nest = make_nest(kernel_, geometry);
    Writer writer(nest, schedule_, target_, by_value, is_aligned);
    return gemm_problem(writer);
  }

 private:
  bool is_empty(const BoundGeometry& geometry) const {
    for (int a = 0; a < kernel_.rank(); ++a)
      if (!kernel_.is_reduced(a) && geometry.extent[as_index(a)] == 0) return true;
    return false;
  }

  Kernel kernel_;
  Schedule schedule_;
  cuda::Target target_;
};

}  // namespace cuda_source_detail

namespace cuda {

SINTER_DECL Limits generator_limits() {
  return {.narrow_products = {DType::f16, DType::bf16},
          .max_operands = 24,
          .max_accesses = static_cast<int>(cuda_source_detail::most_accesses),
          .max_body = 256,
          .max_reduced_axes = 2,
          .prologue_operations = 500'000'000};
}

SINTER_DECL std::vector<Schedule> generator_schedules(const Kernel& kernel) {
  std::vector<Schedule> schedules{Schedule{}};
  if (kernel.kind == KernelKind::row)
    for (const std::uint16_t accesses : std::initializer_list<std::uint16_t>{1, 2, 4, 8})
      schedules.push_back({{.action = ScheduleAction::unroll, .number = accesses}});
  return schedules;
}

SINTER_DECL std::shared_ptr<const GeneratedKernel> generate(const Kernel& kernel, const Schedule& schedule,
                                                            const Target& target, std::string* why_declined) {
  verify(kernel);
  for (const ScheduleStep& step : schedule.steps())
    if (kernel.kind != KernelKind::row || step.action != ScheduleAction::unroll || step.axis >= 0 || step.number == 0) {
      if (why_declined != nullptr) *why_declined = "cuda: step " + step.text() + ": only rows are unrolled";
      return nullptr;
    }
  if (kernel.accesses.size() > cuda_source_detail::most_accesses) {
    if (why_declined != nullptr)
      *why_declined = "cuda: " + std::to_string(kernel.accesses.size()) +
                      " accesses; a kernel's parameter has room for " +
                      std::to_string(cuda_source_detail::most_accesses);
    return nullptr;
  }
  return std::make_shared<const cuda_source_detail::SourceOfKernel>(kernel, schedule, target);
}

}  // namespace cuda
SINTER_NAMESPACE_END
