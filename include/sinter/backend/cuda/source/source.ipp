// Which form takes a kernel, and what is declined.
#pragma once

#include <sinter/backend/cuda/source/source.hpp>

#include <sinter/backend/cuda/source/gpu_nest.hpp>
#include <sinter/backend/cuda/source/gpu_shape.hpp>
#include <sinter/backend/cuda/source/pointwise.hpp>
#include <sinter/backend/cuda/source/product.hpp>
#include <sinter/backend/cuda/source/reduction.hpp>
#include <sinter/backend/cuda/source/reduction_stream.hpp>
#include <sinter/backend/cuda/source/scan.hpp>
#include <sinter/backend/cuda/source/scan_columns.hpp>
#include <sinter/backend/cuda/source/scatter.hpp>
#include <sinter/backend/cuda/source/transpose.hpp>
#include <sinter/backend/cuda/source/writer.hpp>
#include <sinter/base/index.hpp>

#include <algorithm>
#include <initializer_list>

SINTER_NAMESPACE_BEGIN
namespace cuda_source_detail {

// A parameter holds at most 4 KB: a pointer for each access, a number for each of its strides.
inline constexpr std::size_t most_accesses = 64;

class SourceOfKernel final : public cuda::GeneratedKernel {
 public:
  SourceOfKernel(const Kernel& kernel, const Schedule& schedule, const cuda::Target& target)
      : kernel_(kernel), schedule_(schedule), target_(target) {}

  cuda::LaunchList bind(const BoundGeometry& geometry, std::uint64_t by_value, bool is_aligned,
                        std::optional<cuda::GemmAlgorithm> algorithm, bool is_grouped) const override {
    if (is_empty(geometry)) return {};
    const BoundKernel bound = bind_kernel(kernel_, geometry);
    Writer writer(bound, target_, by_value, is_aligned);
    if (kernel_.kind == KernelKind::contraction && write_product(writer, algorithm)) return writer.finish();
    const bool is_scatter = kernel_.kind == KernelKind::scatter;
    if (const auto across = bound.reduced.empty() && !is_scatter ? build_transpose_nest(bound) : std::nullopt) {
      write_transpose(writer, *across);
      return writer.finish();
    }
    const bool scans_columns = kernel_.has_scan() && choose_scan(bound, target_).lanes == 1;
    if (scans_columns && write_column_pieces(writer)) return writer.finish();
    const LoopNest nest = build_gpu_nest(bound, {schedule_, target_, is_aligned, is_grouped});
    if (is_scatter) write_scatter(writer, nest);
    else if (kernel_.has_scan()) write_scan(writer, nest);
    else if (bound.reduced.empty()) write_pointwise(writer, nest);
    else if (is_stream(nest)) write_row_stream(writer, nest);
    else write_reduction(writer, nest);
    return writer.finish();
  }
  cuda::GemmProblem product(const BoundGeometry& geometry, std::uint64_t by_value, bool is_aligned,
                            bool with_library) const override {
    if (kernel_.kind != KernelKind::contraction || is_empty(geometry)) return {};
    const BoundKernel bound = bind_kernel(kernel_, geometry);
    Writer writer(bound, target_, by_value, is_aligned);
    return gemm_problem(writer, with_library);
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

namespace source_detail {
inline bool is_elementwise(const Kernel& kernel) { return kernel.kind == KernelKind::pointwise && !kernel.has_scan(); }

/// Why a step is none of this kernel's; empty: it is one.
inline std::string wrong_step(const Kernel& kernel, const ScheduleStep& step) {
  const auto is_one_of = [&](std::initializer_list<int> numbers) {
    return std::find(numbers.begin(), numbers.end(), static_cast<int>(step.number)) != numbers.end();
  };
  if (step.axis >= 0) return "no axis is named";
  if (kernel.kind == KernelKind::row) {
    if (step.action != ScheduleAction::unroll) return "rows are only unrolled";
    return step.number == 0 ? "1 or more" : "";
  }
  if (!is_elementwise(kernel)) return "only rows and elementwise kernels have schedules";
  if (step.action == ScheduleAction::vectorize) return is_one_of({4, 8, 16}) ? "" : "4, 8 or 16 bytes";
  if (step.action == ScheduleAction::unroll) return is_one_of({1, 2, 4, 8}) ? "" : "1, 2, 4 or 8";
  if (step.action == ScheduleAction::block) return is_one_of({64, 128, 256, 512, 1024}) ? "" : "64 to 1024 threads";
  return "elementwise kernels have vectorize, unroll and block";
}
}  // namespace source_detail

SINTER_DECL Limits generator_limits(int capability) {
  constexpr int first_with_clusters = 90;  // which hold longer rows
  return {.narrow_products = {DType::f16, DType::bf16},
          .max_operands = 24,
          .max_accesses = static_cast<int>(cuda_source_detail::most_accesses),
          .max_body = 256,
          .max_reduced_axes = 2,
          .max_row = std::int64_t{1} << (capability >= first_with_clusters ? 20 : 16),
          .prologue_operations = 500'000'000};
}

SINTER_DECL std::vector<Schedule> generator_schedules(const Kernel& kernel) {
  std::vector<Schedule> schedules{Schedule{}};
  // Elementwise kernels: bytes of an access, items of a thread, threads of a block.
  if (source_detail::is_elementwise(kernel))
    for (const std::uint16_t threads : std::initializer_list<std::uint16_t>{128, 256, 512})
      for (const std::uint16_t items : std::initializer_list<std::uint16_t>{1, 2, 4})
        for (const std::uint16_t bytes : std::initializer_list<std::uint16_t>{16, 8})
          if (bytes == 16 || (threads == 256 && items < 4))
            schedules.push_back({{.action = ScheduleAction::vectorize, .number = bytes},
                                 {.action = ScheduleAction::unroll, .number = items},
                                 {.action = ScheduleAction::block, .number = threads}});
  if (kernel.kind == KernelKind::row)
    for (const std::uint16_t accesses : std::initializer_list<std::uint16_t>{1, 2, 4, 8})
      schedules.push_back({{.action = ScheduleAction::unroll, .number = accesses}});
  return schedules;
}

SINTER_DECL std::size_t most_parameter_bytes(const Kernel& kernel) {
  constexpr std::size_t of_access = 3,
                        others = 64,  // address, extent and stride of a gather; extents and their inverses
      of_maps = (2 * 128 + 64) / 8;   // of both operands of a product, and what aligns them
  std::size_t numbers = others + of_access * kernel.accesses.size();
  if (kernel.kind == KernelKind::contraction) numbers += of_maps;
  for (const Access& access : kernel.accesses)
    for (int axis = 0; axis < kernel.rank(); ++axis)
      numbers +=
          access.stride[as_index(axis)] == StrideClass::any || access.stride[as_index(axis)] == StrideClass::backward;
  return 8 * numbers;
}

SINTER_DECL std::shared_ptr<const GeneratedKernel> generate(const Kernel& kernel, const Schedule& schedule,
                                                            const Target& target, std::string* why_declined) {
  verify(kernel);
  for (const ScheduleStep& step : schedule.steps()) {
    const std::string wrong = source_detail::wrong_step(kernel, step);
    if (wrong.empty()) continue;
    if (why_declined != nullptr) *why_declined = "cuda: step " + step.text() + ": " + wrong;
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
