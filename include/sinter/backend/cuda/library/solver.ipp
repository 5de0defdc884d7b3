// Handles are made on the current device and kept.
#pragma once

#include <sinter/backend/cuda/library/solver.hpp>

#include <sinter/backend/cuda/library/library_launch.ipp>
#include <sinter/base/index.hpp>

#include <array>

SINTER_NAMESPACE_BEGIN
namespace cuda {
namespace cuda_detail {

SINTER_DECL SolverHandles& SolverHandles::of(const Gpu& gpu) {
  auto* all = &process_object<std::array<SolverHandles, max_devices>>();
  return (*all)[as_index(gpu.index())];
}

SINTER_DECL MatrixBatch::MatrixBatch(const Shape& shape) : rows(shape[-2].value()), columns(shape[-1].value()) {
  for (int i = 0; i + 2 < shape.rank(); ++i) count *= shape[i].value();
}

SINTER_DECL SolverLaunch::SolverLaunch(Gpu& gpu, const BoundOp& op, const StepContext& step)
    : LibraryLaunch(gpu, op, step),
      kernels_(module_of(gpu, matrix_kernels())),
      shape_(op.types[0].shape),
      is_double_(op.types[0].dtype == DType::f64) {}

SINTER_DECL int SolverLaunch::prepare_solver(SolverHandles& handles) const {
  const SolverApi& api = *solver_api();
  if (handles.solver == nullptr)
    if (const int status = api.create(&handles.solver); status != 0) return status;
  if (handles.gesvdj == nullptr)
    if (const int status = api.create_gesvdj_parameters(&handles.gesvdj); status != 0) return status;
  if (handles.general == nullptr)
    if (const int status = api.create_parameters(&handles.general); status != 0) return status;
  return api.set_stream(handles.solver, stream());
}
SINTER_DECL int SolverLaunch::prepare_blas(SolverHandles& handles) const {
  const BlasApi& api = *blas_api();
  if (handles.blas == nullptr)
    if (const int status = api.create(&handles.blas); status != 0) return status;
  return api.set_stream(handles.blas, stream());
}

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
  return read_failure();
}

}  // namespace cuda_detail
}  // namespace cuda
SINTER_NAMESPACE_END
