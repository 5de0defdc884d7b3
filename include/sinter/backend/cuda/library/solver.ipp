// Handles are made on the current device and kept.
#pragma once

#include <sinter/backend/cuda/library/solver.hpp>

#include <sinter/backend/cuda/library/library_launch.ipp>
#include <sinter/base/context.hpp>
#include <sinter/base/index.hpp>

#include <array>
#include <string>

SINTER_NAMESPACE_BEGIN
namespace cuda {
namespace cuda_detail {

SINTER_DECL SolverHandles& SolverHandles::of(const Gpu& gpu) {
  auto* all = &process_object<std::array<SolverHandles, max_devices>>();
  return (*all)[as_index(gpu.index())];
}

SINTER_DECL int SolverHandles::make_solver() {
  const SolverApi& api = *solver_api();
  if (solver == nullptr)
    if (const int status = api.create(&solver); status != 0) return status;
  if (gesvdj == nullptr)
    if (const int status = api.create_gesvdj_parameters(&gesvdj); status != 0) return status;
  return general == nullptr ? api.create_parameters(&general) : 0;
}
SINTER_DECL int SolverHandles::make_blas() { return blas == nullptr ? blas_api()->create(&blas) : 0; }

namespace solver_detail {
/// Libraries take memory of the device beside the pool, so that a second try finds what the pool kept.
inline bool makes_handles(Gpu& gpu, int (SolverHandles::*make)(), std::string_view name) {
  gpu.enter();
  SolverHandles& handles = SolverHandles::of(gpu);
  std::scoped_lock lock(handles.mutex);
  int status = (handles.*make)();
  if (SINTER_LIKELY(status == 0)) return true;
  gpu.pool().trim();
  status = (handles.*make)();
  if (status != 0 && is_logged("cuda"))
    note("cuda", std::string(name) + " is not used on cuda:" + std::to_string(gpu.index()) +
                     ": making a handle failed with status " + std::to_string(status));
  return status == 0;
}
}  // namespace solver_detail

SINTER_DECL bool has_solver(Gpu& gpu) {
  return solver_api() != nullptr && solver_detail::makes_handles(gpu, &SolverHandles::make_solver, "cuSOLVER");
}
SINTER_DECL bool has_blas(Gpu& gpu) {
  return blas_api() != nullptr && solver_detail::makes_handles(gpu, &SolverHandles::make_blas, "cuBLAS");
}

SINTER_DECL MatrixBatch::MatrixBatch(const Shape& shape) : rows(shape[-2].value()), columns(shape[-1].value()) {
  for (int i = 0; i + 2 < shape.rank(); ++i) count *= shape[i].value();
}

SINTER_DECL SolverLaunch::SolverLaunch(Gpu& gpu, const BoundOp& op, const StepContext& step)
    : LibraryLaunch(gpu, op, step),
      kernels_(module_of(gpu, matrix_kernels())),
      shape_(op.types[0].shape),
      is_double_(op.types[0].dtype == DType::f64) {}

SINTER_DECL void SolverLaunch::transpose(const void* in, void* out, std::int64_t rows, std::int64_t columns,
                                         std::int64_t in_stride, std::int64_t in_batch, std::int64_t out_stride,
                                         std::int64_t out_batch, std::int64_t count) {
  launch(kernels(), entry(MatrixKernel::transpose), (rows + 31) / 32 * ((columns + 31) / 32) * count, 256, in, out,
         rows, columns, in_stride, in_batch, out_stride, out_batch, count);
}
SINTER_DECL void SolverLaunch::write_addresses(void* places, const void* first, std::int64_t stride,
                                               std::int64_t count) {
  launch_each(kernels(), entry(MatrixKernel::addresses), count, places, first, stride, count);
}
SINTER_DECL LibraryLaunch::Failure SolverLaunch::first_failed(const void* info, std::int64_t count) {
  std::uint64_t* const place = failure_place();
  launch_each(kernels(), entry(MatrixKernel::first_failed), count, info, count, place);
  const Failure found = read_failure();
  if (found.matrix >= 0) require_info(found.number);
  return found;
}
SINTER_DECL void SolverLaunch::require_info(std::int64_t number) const {
  if (SINTER_UNLIKELY(number < 0))
    throw DeviceError(label().text(),
                      "the library refused its argument " + std::to_string(-number) + " on " + device().text(),
                      where());
}
SINTER_DECL std::size_t SolverLaunch::work_size(int size) const {
  if (SINTER_UNLIKELY(size < 0))
    throw DeviceError(label().text(),
                      "the library counts its workspace in int, which matrices of " + shape().text() + " exceed",
                      where(), "compute it on the CPU: .to(Device::cpu())");
  return as_index(size);
}

}  // namespace cuda_detail
}  // namespace cuda
SINTER_NAMESPACE_END
