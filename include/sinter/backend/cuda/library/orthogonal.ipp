// QR, singular values and eigenvalues by cuSOLVER.
#pragma once

#include <sinter/backend/cuda/library/orthogonal.hpp>

#include <sinter/backend/cuda/library/factorisation.ipp>
#include <sinter/graph/attrs.hpp>
#include <sinter/graph/host_call.hpp>
#include <sinter/ops/linalg.hpp>
#include <sinter/ops/linalg_host.hpp>

#include <algorithm>
#include <array>
#include <span>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace cuda {
namespace cuda_detail {

class QrLaunch final : public SolverLaunch {
 public:
  QrLaunch(Gpu& gpu, const BoundOp& op, const StepContext& step)
      : SolverLaunch(gpu, op, step), of_(shape()), mode_(op.attrs[ops::Qr::mode]) {}

 private:
  void enqueue(void* const* operands) override {
    const bool has_q = mode_ != QrMode::r;
    with_number([&](auto number) {
      using T = decltype(number);
      run_all(static_cast<const T*>(operands[0]), has_q ? static_cast<T*>(operands[1]) : nullptr,
              static_cast<T*>(operands[has_q ? 2 : 1]));
    });
  }
  template <class T>
  void run_all(const T* in, T* q, T* r) {
    const std::int64_t rows = of_.rows, columns = of_.columns, steps = std::min(rows, columns);
    const std::int64_t inner = mode_ == QrMode::complete ? rows : steps, wide = std::max(columns, inner);
    const int m = static_cast<int>(rows), n = static_cast<int>(columns), k = static_cast<int>(steps),
              made = static_cast<int>(inner);
    int factor_size = 0, product_size = 0;
    with_solver([&](SolverHandles& handles) {
      require(solver<T>().geqrf_size(handles.solver, m, n, nullptr, m, &factor_size), "cuSOLVER: geqrf_bufferSize");
      if (q != nullptr)
        require(solver<T>().orgqr_size(handles.solver, m, made, k, nullptr, m, nullptr, &product_size),
                "cuSOLVER: orgqr_bufferSize");
    });
    Parts parts;
    const std::size_t matrices = parts.add(as_index(rows * wide * of_.count) * sizeof(T)),
                      tau = parts.add(as_index(steps) * sizeof(T)), info = parts.add(sizeof(int)),
                      work = parts.add(std::max(work_size(factor_size), work_size(product_size)) * sizeof(T));
    char* const room = workspace(parts.bytes());
    T* const a = reinterpret_cast<T*>(room + matrices);
    T* const factors = reinterpret_cast<T*>(room + tau);
    T* const scratch = reinterpret_cast<T*>(room + work);
    int* const status = reinterpret_cast<int*>(room + info);
    transpose(in, a, rows, columns, columns, of_.size(), rows, rows * wide, of_.count);
    for (std::int64_t i = 0; i < of_.count; ++i)
      with_solver([&](SolverHandles& handles) {
        T* const matrix = a + i * rows * wide;
        require(solver<T>().geqrf(handles.solver, m, n, matrix, m, factors, scratch, factor_size, status),
                "cuSOLVER: geqrf");
        launch_each(kernels(), entry(MatrixKernel::copy_upper), inner * columns, matrix, r + i * inner * columns, inner,
                    columns, rows, rows * wide, std::int64_t{1});
        if (q != nullptr)
          require(solver<T>().orgqr(handles.solver, m, made, k, matrix, m, factors, scratch, product_size, status),
                  "cuSOLVER: orgqr");
      });
    if (q != nullptr) transpose(a, q, inner, rows, rows, rows * wide, inner, rows * inner, of_.count);
  }

  MatrixBatch of_;
  QrMode mode_;
};

class EighLaunch final : public SolverLaunch {
 public:
  EighLaunch(Gpu& gpu, const BoundOp& op, const StepContext& step)
      : SolverLaunch(gpu, op, step), of_(shape()), values_only_(op.attrs[ops::Eigh::values_only]) {}
  /// Since CUDA 12.6.
  static bool has_batched_eigh() {
    return solver_api()->syev_batched != nullptr && solver_api()->syev_batched_size != nullptr;
  }

 private:
  void enqueue(void* const* operands) override {
    std::uint64_t* const failure = failure_place();
    launch_each(kernels(), entry(MatrixKernel::check_lower), of_.size() * of_.count, operands[0], of_.rows, of_.count,
                failure);
    if (const Failure found = read_failure(); found.matrix >= 0)
      ops_detail::throw_no_result("eigh", found.matrix, ops_detail::NoResult::not_finite, shape(), where());
    with_number([&](auto number) {
      using T = decltype(number);
      run_all(static_cast<const T*>(operands[0]), static_cast<T*>(operands[1]),
              values_only_ ? nullptr : static_cast<T*>(operands[2]));
    });
  }
  /// Matrices of one call: it fails on more, of some sizes.
  std::int64_t part_of(std::size_t number_size) const {
    constexpr std::int64_t most = 16384;
    const std::int64_t bytes = of_.size() * static_cast<std::int64_t>(number_size);
    return std::clamp<std::int64_t>(solver_detail::most_elements / bytes, 1, most);
  }
  /// The lower triangle here is the library's upper one.
  template <class T>
  void run_all(const T* in, T* values, T* vectors) {
    const int n = static_cast<int>(of_.rows), wants = vectors != nullptr ? 1 : 0;
    const bool is_batched = of_.count > 1 && has_batched_eigh();
    const std::int64_t part = part_of(sizeof(T));
    std::size_t work_bytes = 0, host_bytes = 0;
    int size = 0;
    constexpr int type = sizeof(T) == 8 ? 1 : 0;
    with_solver([&](SolverHandles& handles) {
      if (is_batched) {
        for (const std::int64_t count : {std::min(part, of_.count), of_.count % part}) {
          std::size_t on_device = 0, on_host = 0;
          if (count > 0)
            require(solver_api()->syev_batched_size(handles.solver, handles.general, wants, solver_detail::upper, n,
                                                    type, in, n, type, values, type, &on_device, &on_host, count),
                    "cuSOLVER: syevBatched_bufferSize");
          work_bytes = std::max(work_bytes, on_device);
          host_bytes = std::max(host_bytes, on_host);
        }
      } else {
        require(solver<T>().syevd_size(handles.solver, wants, solver_detail::upper, n, in, n, values, &size),
                "cuSOLVER: syevd_bufferSize");
        work_bytes = work_size(size) * sizeof(T);
      }
    });
    Parts parts;
    const std::size_t matrices = parts.add(as_index(of_.size() * of_.count) * sizeof(T)),
                      info = parts.add(as_index(of_.count) * sizeof(int)), work = parts.add(work_bytes);
    char* const room = workspace(parts.bytes());
    T* const a = reinterpret_cast<T*>(room + matrices);
    int* const status = reinterpret_cast<int*>(room + info);
    copy(a, in, as_index(of_.size() * of_.count) * sizeof(T));
    host_room_.resize(host_bytes);
    const std::int64_t step = is_batched ? part : 1;
    for (std::int64_t i = 0; i < of_.count; i += step)
      with_solver([&](SolverHandles& handles) {
        T *const matrix = a + i * of_.size(), *const values_of = values + i * n;
        if (is_batched)
          require(solver_api()->syev_batched(handles.solver, handles.general, wants, solver_detail::upper, n, type,
                                             matrix, n, type, values_of, type, room + work, work_bytes,
                                             host_room_.data(), host_bytes, status + i, std::min(part, of_.count - i)),
                  "cuSOLVER: syevBatched");
        else
          require(solver<T>().syevd(handles.solver, wants, solver_detail::upper, n, matrix, n, values_of,
                                    reinterpret_cast<T*>(room + work), size, status + i),
                  "cuSOLVER: syevd");
      });
    if (vectors != nullptr) transpose(a, vectors, n, n, n, of_.size(), n, of_.size(), of_.count);
    if (const Failure found = first_failed(status, of_.count); found.matrix >= 0)
      ops_detail::throw_no_result("eigh", found.matrix, ops_detail::NoResult::not_converged, shape(), where());
  }

  MatrixBatch of_;
  bool values_only_;
  std::vector<char> host_room_;
};

/// What the host decomposes of a batch.
class HostDecomposition final : public HostCall {
 public:
  HostDecomposition(const Attrs& attributes, Location at, std::span<const HostView> views) : HostCall(attributes, at) {
    in = views.first(1);
    out = views.subspan(1);
  }

 private:
  void run_body(std::size_t, std::span<void* const>, std::span<void* const>) override {}
  std::int64_t value_of(Dim extent) const override { return extent.value(); }
  void* scratch(std::size_t, std::size_t) override { throw InternalError("svd: it needs no memory of its own"); }
};

/// A matrix as it lies is, column-major, the transposed one of p = columns by q = rows: its left vectors are those of
/// the right side here, and lie as they are wanted; the others are turned.
class SvdLaunch final : public SolverLaunch {
 public:
  SvdLaunch(Gpu& gpu, const BoundOp& op, const StepContext& step)
      : SolverLaunch(gpu, op, step),
        of_(shape()),
        attrs_(op.attrs),
        made_(op.attrs[ops::Svd::vectors]),
        run_on_host_(op.run_on_host) {}
  static bool is_one_call(const MatrixBatch& of) { return of.count > 1 && of.rows <= 32 && of.columns <= 32; }

 private:
  void enqueue(void* const* operands) override {
    std::uint64_t* const failure = failure_place();
    launch_each(kernels(), entry(MatrixKernel::check_all), of_.size() * of_.count, operands[0], of_.size(), of_.count,
                failure);
    if (const Failure found = read_failure(); found.matrix >= 0)
      ops_detail::throw_no_result("svd", found.matrix, ops_detail::NoResult::not_finite, shape(), where());
    const bool has_vectors = made_ != SvdVectors::none;
    with_number([&](auto number) {
      using T = decltype(number);
      run_all(static_cast<const T*>(operands[0]), has_vectors ? static_cast<T*>(operands[1]) : nullptr,
              static_cast<T*>(operands[has_vectors ? 2 : 1]), has_vectors ? static_cast<T*>(operands[3]) : nullptr);
    });
  }
  template <class T>
  void run_all(const T* in, T* u, T* s, T* vh) {
    const std::int64_t rows = of_.rows, columns = of_.columns, steps = std::min(rows, columns), count = of_.count;
    const bool is_batched = is_one_call(of_), has_vectors = u != nullptr;
    const bool is_full = is_batched || made_ == SvdVectors::full;  // many at once give all vectors
    const std::int64_t right = is_full ? columns : steps, left = is_full ? rows : steps;
    const std::int64_t wanted_right = made_ == SvdVectors::full ? columns : steps,
                       wanted_left = made_ == SvdVectors::full ? rows : steps;
    const int p = static_cast<int>(columns), q = static_cast<int>(rows), jobz = has_vectors ? 1 : 0,
              econ = is_full ? 0 : 1;
    int size = 0;
    with_solver([&](SolverHandles& handles) {
      const T* none = nullptr;
      require(is_batched ? solver<T>().gesvdj_batched_size(handles.solver, jobz, p, q, none, p, none, none, p, none, q,
                                                           &size, handles.gesvdj, static_cast<int>(count))
                         : solver<T>().gesvdj_size(handles.solver, jobz, econ, p, q, none, p, none, none, p, none, q,
                                                   &size, handles.gesvdj),
              "cuSOLVER: gesvdj_bufferSize");
    });
    Parts parts;
    const std::size_t matrices = parts.add(as_index(of_.size() * count) * sizeof(T)),
                      rights = parts.add(as_index(columns * right * count) * sizeof(T)),
                      lefts = parts.add(as_index(rows * left * count) * sizeof(T)),
                      info = parts.add(as_index(count) * sizeof(int)), work = parts.add(work_size(size) * sizeof(T));
    char* const room = workspace(parts.bytes());
    T* const a = reinterpret_cast<T*>(room + matrices);
    T* const from_right = reinterpret_cast<T*>(room + rights);
    T* const from_left = reinterpret_cast<T*>(room + lefts);
    T* const scratch = reinterpret_cast<T*>(room + work);
    int* const status = reinterpret_cast<int*>(room + info);
    copy(a, in, as_index(of_.size() * count) * sizeof(T));
    for (std::int64_t i = 0; i < (is_batched ? 1 : count); ++i)
      with_solver([&](SolverHandles& handles) {
        if (is_batched)
          require(solver<T>().gesvdj_batched(handles.solver, jobz, p, q, a, p, s, from_right, p, from_left, q, scratch,
                                             size, status, handles.gesvdj, static_cast<int>(count)),
                  "cuSOLVER: gesvdjBatched");
        else
          require(solver<T>().gesvdj(handles.solver, jobz, econ, p, q, a + i * of_.size(), p, s + i * steps,
                                     from_right + i * columns * right, p, from_left + i * rows * left, q, scratch, size,
                                     status + i, handles.gesvdj),
                  "cuSOLVER: gesvdj");
      });
    if (has_vectors) {
      launch_each(kernels(), entry(MatrixKernel::copy_rows), wanted_right * columns * count, from_right, vh,
                  wanted_right * columns, columns * right, wanted_right * columns, count);
      transpose(from_left, u, wanted_left, rows, rows, rows * left, wanted_left, rows * wanted_left, count);
    }
    std::vector<int> given(as_index(count));
    memory().copy(given.data(), Device::cpu(), status, device(), given.size() * sizeof(int));
    for (std::int64_t i = 0; i < count; ++i) {
      require_info(given[as_index(i)]);
      if (given[as_index(i)] == 0) continue;
      const std::array<Side<T>, 3> sides{{{u, rows, wanted_left}, {s, 1, steps}, {vh, wanted_right, columns}}};
      decompose_on_host<T>(i, in, sides);
    }
  }

  template <class T>
  struct Side {
    T* results;  // of all matrices; null: unwanted
    std::int64_t rows, columns;
    std::int64_t size() const { return rows * columns; }
  };
  /// The library gave up on this matrix, after so many sweeps.
  template <class T>
  void decompose_on_host(std::int64_t matrix, const T* in, std::span<const Side<T>> sides) {
    constexpr DType dtype = sizeof(T) == 8 ? DType::f64 : DType::f32;
    std::vector<T> given(as_index(of_.size()));
    memory().copy(given.data(), Device::cpu(), in + matrix * of_.size(), device(), given.size() * sizeof(T));
    std::vector<std::vector<T>> made;
    made.reserve(sides.size());
    std::vector<HostView> views{{dtype, Shape({of_.rows, of_.columns}), of_.size(), given.data()}};
    for (const Side<T>& side : sides) {
      if (side.results == nullptr) continue;
      made.emplace_back(as_index(side.size()));
      views.push_back({dtype, Shape({side.rows, side.columns}), side.size(), made.back().data()});
    }
    HostDecomposition call(attrs_, where(), views);
    try {
      run_on_host_(call);
    } catch (const LinalgError&) {
      ops_detail::throw_no_result("svd", matrix, ops_detail::NoResult::not_converged, shape(), where());
    }
    const std::vector<T>* result = made.data();
    for (const Side<T>& side : sides) {
      if (side.results == nullptr) continue;
      memory().copy(side.results + matrix * side.size(), device(), result->data(), Device::cpu(),
                    result->size() * sizeof(T));
      ++result;
    }
  }

  MatrixBatch of_;
  Attrs attrs_;
  SvdVectors made_;
  void (*run_on_host_)(HostCall&);
};

namespace solver_detail {
inline bool takes_qr(const MatrixBatch& of, QrMode mode) {
  const std::int64_t inner = mode == QrMode::complete ? of.rows : std::min(of.rows, of.columns);
  return of.rows * std::max(of.columns, inner) <= most_elements && !is_many_small(of);
}
inline bool takes_eigh(const MatrixBatch& of) {
  constexpr std::int64_t most_rows = 32766;  // of cuSOLVER
  return of.rows < most_rows && (EighLaunch::has_batched_eigh() || !is_many_small(of));
}
inline bool takes_svd(const MatrixBatch& of, SvdVectors made) {
  const std::int64_t longest = std::max(of.rows, of.columns);
  if (made == SvdVectors::full && longest * longest > most_elements) return false;
  return SvdLaunch::is_one_call(of) || !is_many_small(of);
}
}  // namespace solver_detail

SINTER_DECL std::unique_ptr<Launch> bind_orthogonal(Gpu& gpu, const BoundOp& op, const StepContext& step) {
  using namespace solver_detail;
  const bool is_qr = op.is<ops::Qr>(), is_svd = op.is<ops::Svd>();
  if (!is_qr && !is_svd && !op.is<ops::Eigh>()) return nullptr;
  const MatrixBatch of(op.types[0].shape);
  if (!fits(of) || solver_api() == nullptr) return nullptr;
  const bool takes = is_qr    ? takes_qr(of, op.attrs[ops::Qr::mode])
                     : is_svd ? takes_svd(of, op.attrs[ops::Svd::vectors])
                              : takes_eigh(of);
  if (!takes || !has_solver(gpu)) return nullptr;
  if (is_qr) return std::make_unique<QrLaunch>(gpu, op, step);
  if (is_svd) return std::make_unique<SvdLaunch>(gpu, op, step);
  return std::make_unique<EighLaunch>(gpu, op, step);
}

}  // namespace cuda_detail
}  // namespace cuda
SINTER_NAMESPACE_END
