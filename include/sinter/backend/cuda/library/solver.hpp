// Handles of cuSOLVER and cuBLAS, and what launches of both have in common. A handle serves one caller at a time: what
// is enqueued under its lock goes to that caller's stream.
#pragma once

#include <sinter/backend/cuda/library/library_api.hpp>
#include <sinter/backend/cuda/library/library_launch.hpp>
#include <sinter/base/config.hpp>
#include <sinter/base/fork.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <type_traits>

SINTER_NAMESPACE_BEGIN
namespace cuda {
namespace cuda_detail {

/// The handles of one device.
struct SolverHandles {
  ForkSafeMutex mutex;
  void* solver = nullptr;
  void* blas = nullptr;
  void* gesvdj = nullptr;  // parameters: the library's own tolerance
  void* general = nullptr;
  static SolverHandles& of(const Gpu& gpu);
  /// Make what is not there yet, under the lock; the library's status.
  int make_solver();
  int make_blas();
};
/// Has the device handles of cuSOLVER, or of cuBLAS? They are made where there are none; what fails is logged.
bool has_solver(Gpu& gpu);
bool has_blas(Gpu& gpu);

/// Matrices of a batch, one after the other.
struct MatrixBatch {
  explicit MatrixBatch(const Shape& shape);
  std::int64_t rows = 1, columns = 1, count = 1;
  std::int64_t size() const { return rows * columns; }
};

/// Handles are there when it is bound.
class SolverLaunch : public LibraryLaunch {
 public:
  SolverLaunch(Gpu& gpu, const BoundOp& op, const StepContext& step);

 protected:
  /// Calls f(handle) with cuSOLVER's handle, or cuBLAS's, on the stream of this run.
  template <class F>
  void with_solver(F&& f) {
    SolverHandles& handles = SolverHandles::of(gpu());
    std::scoped_lock lock(handles.mutex);
    require(solver_api()->set_stream(handles.solver, stream()), "cuSOLVER: a stream");
    f(handles);
  }
  template <class F>
  void with_blas(F&& f) {
    SolverHandles& handles = SolverHandles::of(gpu());
    std::scoped_lock lock(handles.mutex);
    require(blas_api()->set_stream(handles.blas, stream()), "cuBLAS: a stream");
    f(handles.blas);
  }
  /// Calls f(T{}) with the type of the matrices.
  template <class F>
  void with_number(F&& f) {
    if (is_double_) f(double{});
    else f(float{});
  }
  template <class T>
  static const SolverFunctions<T>& solver() {
    if constexpr (std::is_same_v<T, double>) return solver_api()->f64;
    else return solver_api()->f32;
  }
  template <class T>
  static const BlasFunctions<T>& blas() {
    if constexpr (std::is_same_v<T, double>) return blas_api()->f64;
    else return blas_api()->f32;
  }
  const Module& kernels() const { return *kernels_; }
  std::size_t entry(MatrixKernel kernel) const {
    const bool is_alone = kernel >= MatrixKernel::first_failed;
    return static_cast<std::size_t>(kernel) + (is_double_ && !is_alone ? 1 : 0);
  }
  bool is_double() const { return is_double_; }
  std::size_t number_bytes() const { return is_double_ ? 8 : 4; }
  const Shape& shape() const { return shape_; }  // of the first operand

  /// out[b, j, i] = in[b, i, j]; strides from row to row and from matrix to matrix.
  void transpose(const void* in, void* out, std::int64_t rows, std::int64_t columns, std::int64_t in_stride,
                 std::int64_t in_batch, std::int64_t out_stride, std::int64_t out_batch, std::int64_t count);
  /// places[i] = first + i * stride, in elements.
  void write_addresses(void* places, const void* first, std::int64_t stride, std::int64_t count);
  /// The first entry of a batch's `info` that is not 0. Waits. Throws DeviceError where it is below.
  Failure first_failed(const void* info, std::int64_t count);
  /// Throws DeviceError where a number in `info` says that the library refused an argument.
  void require_info(std::int64_t number) const;
  /// Elements of a workspace. Throws DeviceError where the library's int was too small for them.
  std::size_t work_size(int size) const;

  /// A workspace in parts: sizes first, then places.
  class Parts {
   public:
    std::size_t add(std::size_t bytes) {
      const std::size_t at = bytes_;
      bytes_ += (bytes + 255) / 256 * 256;
      return at;
    }
    std::size_t bytes() const { return bytes_; }

   private:
    std::size_t bytes_ = 0;
  };

 private:
  std::shared_ptr<const Module> kernels_;
  Shape shape_;
  bool is_double_;
};

}  // namespace cuda_detail
}  // namespace cuda
SINTER_NAMESPACE_END
