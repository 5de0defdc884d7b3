// Cholesky, LU, triangular and small systems. A row-major matrix is a column-major one transposed: what lies in the
// lower triangle here is the upper one for the library.
#pragma once

#include <sinter/backend/cuda/library/factorisation.hpp>

#include <sinter/backend/cuda/library/solver.ipp>
#include <sinter/graph/attrs.hpp>
#include <sinter/ops/linalg.hpp>
#include <sinter/ops/linalg_host.hpp>

#include <algorithm>
#include <limits>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace cuda {
namespace cuda_detail {

namespace solver_detail {
inline constexpr int lower = 0, upper = 1;
/// From so many matrices on, and to this size, one call for all of them is faster than one for each.
inline bool is_one_call(const MatrixBatch& of) { return of.count > 1 && of.rows <= 512; }
/// Most routines count in int, elements of a matrix too.
inline constexpr std::int64_t most_elements = std::numeric_limits<int>::max();
inline bool fits_in_parts(const MatrixBatch& of) {
  return of.rows <= most_elements / 8 && of.columns <= most_elements / 8 && of.count <= most_elements;
}
inline bool fits(const MatrixBatch& of) { return fits_in_parts(of) && of.size() <= most_elements; }
/// A call for each of so many small matrices takes longer than the host does for all.
inline bool is_many_small(const MatrixBatch& of) { return of.count > 32 && of.size() <= 64 * 64; }
}  // namespace solver_detail

class CholeskyLaunch final : public SolverLaunch {
 public:
  CholeskyLaunch(Gpu& gpu, const BoundOp& op, const StepContext& step)
      : SolverLaunch(gpu, op, step), of_(shape()), use_(op.attrs[ops::Cholesky::use]) {}

 private:
  void enqueue(void* const* operands) override {
    with_number([&](auto number) {
      using T = decltype(number);
      auto* const factors = static_cast<T*>(operands[1]);
      auto* const info = static_cast<int*>(operands[2]);
      if (solver_detail::is_one_call(of_)) factor_batch(operands[0], factors, info);
      else factor_each(operands[0], factors, info);
    });
    // The library leaves anything in the other triangle.
    launch_each(kernels(), entry(MatrixKernel::copy_lower), of_.size() * of_.count, operands[1], operands[1], of_.rows,
                of_.count);
    launch_each(kernels(), entry(MatrixKernel::check_factor), of_.count * 32, operands[1], of_.rows, of_.count,
                operands[2]);
    if (use_ == FactorUse::unchecked) return;
    const Failure failure = first_failed(operands[2], of_.count);
    if (failure.matrix >= 0)
      ops_detail::throw_not_positive_definite(use_, failure.matrix, static_cast<std::int32_t>(failure.number), shape(),
                                              where());
  }
  template <class T>
  void factor_batch(const void* in, T* factors, int* info) {
    copy(factors, in, as_index(of_.size() * of_.count) * sizeof(T));
    auto** places = reinterpret_cast<T**>(workspace(as_index(of_.count) * sizeof(void*)));
    write_addresses(places, factors, of_.size(), of_.count);
    const int n = static_cast<int>(of_.rows);
    with_solver([&](SolverHandles& handles) {
      require(solver<T>().potrf_batched(handles.solver, solver_detail::upper, n, places, n, info,
                                        static_cast<int>(of_.count)),
              "cuSOLVER: potrfBatched");
    });
  }
  /// Of one matrix the library's lower factor takes half the time of its upper one, and turning twice is quick.
  template <class T>
  void factor_each(const void* in, T* factors, int* info) {
    const std::int64_t n = of_.rows;
    constexpr int type = sizeof(T) == 8 ? 1 : 0;
    std::size_t work_bytes = 0, host_bytes = 0;
    with_solver([&](SolverHandles& handles) {
      require(solver_api()->potrf_size(handles.solver, handles.general, solver_detail::lower, n, type, factors, n, type,
                                       &work_bytes, &host_bytes),
              "cuSOLVER: potrf_bufferSize");
    });
    Parts parts;
    const std::size_t matrices = parts.add(as_index(of_.size() * of_.count) * sizeof(T)), work = parts.add(work_bytes);
    char* const room = workspace(parts.bytes());
    T* const a = reinterpret_cast<T*>(room + matrices);
    host_room_.resize(host_bytes);
    transpose(in, a, n, n, n, of_.size(), n, of_.size(), of_.count);
    for (std::int64_t i = 0; i < of_.count; ++i)
      with_solver([&](SolverHandles& handles) {
        require(solver_api()->potrf(handles.solver, handles.general, solver_detail::lower, n, type, a + i * of_.size(),
                                    n, type, room + work, work_bytes, host_room_.data(), host_bytes, info + i),
                "cuSOLVER: potrf");
      });
    transpose(a, factors, n, n, n, of_.size(), n, of_.size(), of_.count);
  }

  MatrixBatch of_;
  FactorUse use_;
  std::vector<char> host_room_;
};

class LuLaunch final : public SolverLaunch {
 public:
  LuLaunch(Gpu& gpu, const BoundOp& op, const StepContext& step)
      : SolverLaunch(gpu, op, step), of_(shape()), use_(op.attrs[ops::LuFactor::use]) {}

 private:
  void enqueue(void* const* operands) override {
    with_number([&](auto number) {
      using T = decltype(number);
      factor<T>(operands[0], operands[1], static_cast<int*>(operands[2]), static_cast<int*>(operands[3]));
    });
    if (use_ == FactorUse::unchecked) return;
    const Failure failure = first_failed(operands[3], of_.count);
    if (failure.matrix >= 0)
      ops_detail::throw_singular(use_, failure.matrix, static_cast<std::int32_t>(failure.number), shape(), where());
  }
  template <class T>
  void factor(const void* in, void* out, int* pivots, int* info) {
    const std::int64_t rows = of_.rows, columns = of_.columns, steps = std::min(rows, columns);
    const int m = static_cast<int>(rows), n = static_cast<int>(columns);
    const bool is_one_call = solver_detail::is_one_call(of_) && rows == columns;
    int size = 0;
    if (!is_one_call)
      with_solver([&](SolverHandles& handles) {
        require(solver<T>().getrf_size(handles.solver, m, n, nullptr, m, &size), "cuSOLVER: getrf_bufferSize");
      });
    Parts parts;
    const std::size_t matrices = parts.add(as_index(of_.size() * of_.count) * sizeof(T));
    const std::size_t rest = parts.add(is_one_call ? as_index(of_.count) * sizeof(void*) : work_size(size) * sizeof(T));
    char* const room = workspace(parts.bytes());
    T* const a = reinterpret_cast<T*>(room + matrices);
    transpose(in, a, rows, columns, columns, of_.size(), rows, of_.size(), of_.count);
    if (is_one_call) {
      auto** places = reinterpret_cast<T**>(room + rest);
      write_addresses(places, a, of_.size(), of_.count);
      with_blas([&](void* handle) {
        require(blas<T>().getrf_batched(handle, n, places, n, pivots, info, static_cast<int>(of_.count)),
                "cuBLAS: getrfBatched");
      });
    } else {
      for (std::int64_t i = 0; i < of_.count; ++i)
        with_solver([&](SolverHandles& handles) {
          require(solver<T>().getrf(handles.solver, m, n, a + i * of_.size(), m, reinterpret_cast<T*>(room + rest),
                                    pivots + i * steps, info + i),
                  "cuSOLVER: getrf");
        });
    }
    launch_each(kernels(), entry(MatrixKernel::name_rows), steps * of_.count, pivots, rows, steps, of_.count);
    transpose(a, out, columns, rows, rows, of_.size(), columns, of_.size(), of_.count);
  }

  MatrixBatch of_;
  FactorUse use_;
};

class PermutationLaunch final : public SolverLaunch {
 public:
  PermutationLaunch(Gpu& gpu, const BoundOp& op, const StepContext& step)
      : SolverLaunch(gpu, op, step), steps_(shape()[-1].value()), length_(op.types[1].shape[-1].value()) {
    for (int i = 0; i + 1 < shape().rank(); ++i) count_ *= shape()[i].value();
  }

 private:
  void enqueue(void* const* operands) override {
    launch(kernels(), entry(MatrixKernel::permutation), count_, 128, operands[0], operands[1], steps_, length_, count_,
           fault_record(), label().tag);
  }
  std::int64_t steps_, length_, count_ = 1;
};

class TriangularLaunch final : public SolverLaunch {
 public:
  TriangularLaunch(Gpu& gpu, const BoundOp& op, const StepContext& step)
      : SolverLaunch(gpu, op, step),
        of_(shape()),
        right_(op.types[1].shape),
        uplo_(op.attrs[ops::TriangularSolve::upper] ? solver_detail::lower : solver_detail::upper),
        op_(op.attrs[ops::TriangularSolve::transposed] ? 1 : 0),
        diagonal_(op.attrs[ops::TriangularSolve::unit] ? 1 : 0) {}

 private:
  /// a x = b is x^T a^T = b^T: from the right, and both are column-major as they lie.
  void enqueue(void* const* operands) override {
    copy(operands[2], operands[1], as_index(right_.size() * right_.count) * number_bytes());
    with_number([&](auto number) {
      using T = decltype(number);
      solve(static_cast<const T*>(operands[0]), static_cast<T*>(operands[2]));
    });
  }
  template <class T>
  void solve(const T* a, T* x) {
    constexpr int from_right = 1;
    const T one = 1;
    const int n = static_cast<int>(of_.rows), columns = static_cast<int>(right_.columns);
    if (solver_detail::is_one_call(of_)) {
      const std::size_t bytes = as_index(of_.count) * sizeof(void*);
      char* const room = workspace(2 * bytes);
      write_addresses(room, a, of_.size(), of_.count);
      write_addresses(room + bytes, x, right_.size(), of_.count);
      return with_blas([&](void* handle) {
        require(blas<T>().trsm_batched(handle, from_right, uplo_, op_, diagonal_, columns, n, &one,
                                       reinterpret_cast<const T* const*>(room), n,
                                       reinterpret_cast<T* const*>(room + bytes), columns, static_cast<int>(of_.count)),
                "cuBLAS: trsmBatched");
      });
    }
    for (std::int64_t i = 0; i < of_.count; ++i)
      with_blas([&](void* handle) {
        require(blas<T>().trsm(handle, from_right, uplo_, op_, diagonal_, columns, n, &one, a + i * of_.size(), n,
                               x + i * right_.size(), columns),
                "cuBLAS: trsm");
      });
  }

  MatrixBatch of_, right_;
  int uplo_, op_, diagonal_;
};

class SmallSolveLaunch final : public LibraryLaunch {
 public:
  SmallSolveLaunch(Gpu& gpu, const BoundOp& op, const StepContext& step, const SmallSystem& system)
      : LibraryLaunch(gpu, op, step),
        module_(module_of(gpu, small_solve_kernel(system))),
        threads_(system.threads()),
        shape_(op.types[0].shape),
        count_(MatrixBatch(shape_).count),
        has_right_side_(system.made == SmallSystem::Made::solution),
        use_(op.attrs[ops::SmallSolve::use]) {}

 private:
  void enqueue(void* const* operands) override {
    const bool is_checked = use_ != FactorUse::unchecked;
    std::uint64_t* const failure = is_checked ? failure_place() : nullptr;
    const void* const right = has_right_side_ ? operands[1] : nullptr;
    launch(*module_, 0, (count_ + threads_ - 1) / threads_, threads_, static_cast<const void*>(operands[0]), right,
           operands[has_right_side_ ? 2 : 1], count_, failure);
    if (!is_checked) return;
    const Failure found = read_failure();
    if (found.matrix >= 0)
      ops_detail::throw_singular(use_, found.matrix, static_cast<std::int32_t>(found.number), shape_, where());
  }

  std::shared_ptr<const Module> module_;
  int threads_;
  Shape shape_;
  std::int64_t count_;
  bool has_right_side_;
  FactorUse use_;
};

namespace solver_detail {
inline std::unique_ptr<Launch> bind_small_solve(Gpu& gpu, const BoundOp& op, const StepContext& step) {
  const ops::SmallResult made = op.attrs[ops::SmallSolve::made];
  SmallSystem system;
  system.made = made == ops::SmallResult::solution  ? SmallSystem::Made::solution
                : made == ops::SmallResult::inverse ? SmallSystem::Made::inverse
                                                    : SmallSystem::Made::determinant;
  system.is_double = op.types[0].dtype == DType::f64;
  system.transposed = op.attrs[ops::SmallSolve::transposed];
  system.n = static_cast<int>(op.types[0].shape[-1].value());
  if (system.made == SmallSystem::Made::solution) system.columns = static_cast<int>(op.types[1].shape[-1].value());
  if (system.n > 8 || system.columns > 16) return nullptr;
  return std::make_unique<SmallSolveLaunch>(gpu, op, step, system);
}
}  // namespace solver_detail

SINTER_DECL std::unique_ptr<Launch> bind_factorisation(Gpu& gpu, const BoundOp& op, const StepContext& step) {
  using namespace solver_detail;
  if (op.is<ops::SmallSolve>()) return bind_small_solve(gpu, op, step);
  if (op.is<ops::LuPermutation>()) {
    const bool has_rows = op.types[0].shape[-1].value() <= op.types[1].shape[-1].value();  // else the host throws
    return has_rows ? std::make_unique<PermutationLaunch>(gpu, op, step) : nullptr;
  }
  const bool is_cholesky = op.is<ops::Cholesky>(), is_lu = op.is<ops::LuFactor>();
  if (!is_cholesky && !is_lu && !op.is<ops::TriangularSolve>()) return nullptr;
  const MatrixBatch of(op.types[0].shape);
  if (is_cholesky)
    return fits_in_parts(of) && has_solver(gpu) ? std::make_unique<CholeskyLaunch>(gpu, op, step) : nullptr;
  if (!fits(of)) return nullptr;
  if (is_lu) {
    if (of.rows != of.columns && is_many_small(of)) return nullptr;
    return has_blas(gpu) && has_solver(gpu) ? std::make_unique<LuLaunch>(gpu, op, step) : nullptr;
  }
  return fits(MatrixBatch(op.types[1].shape)) && has_blas(gpu) ? std::make_unique<TriangularLaunch>(gpu, op, step)
                                                               : nullptr;
}

}  // namespace cuda_detail
}  // namespace cuda
SINTER_NAMESPACE_END
