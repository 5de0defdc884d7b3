// cuFFT, cuSOLVER, cuBLAS and cuDNN, each opened when it is first asked for. Their functions are declared here, as the
// libraries' documentation has them (enumerations are int, handles are pointers), so that building needs no header of
// theirs. Knows no operations.
#pragma once

#include <sinter/base/config.hpp>

#include <cstddef>
#include <cstdint>
#include <string>

SINTER_NAMESPACE_BEGIN
namespace cuda {

/// Of cuFFT. A plan is an int; a result is 0 where all went well.
struct FourierApi {
  using Lengths = long long*;
  int (*create)(int* plan) = nullptr;
  int (*destroy)(int plan) = nullptr;
  int (*set_stream)(int plan, void* stream) = nullptr;
  int (*set_auto_allocation)(int plan, int is_automatic) = nullptr;
  int (*set_work_area)(int plan, void* area) = nullptr;
  int (*make_plan)(int plan, int rank, Lengths n, Lengths in_embed, long long in_stride, long long in_distance,
                   Lengths out_embed, long long out_stride, long long out_distance, int type, long long batch,
                   std::size_t* work_bytes) = nullptr;
  int (*complex_f32)(int plan, void* in, void* out, int direction) = nullptr;
  int (*complex_f64)(int plan, void* in, void* out, int direction) = nullptr;
  int (*from_real_f32)(int plan, void* in, void* out) = nullptr;
  int (*from_real_f64)(int plan, void* in, void* out) = nullptr;
  int (*to_real_f32)(int plan, void* in, void* out) = nullptr;
  int (*to_real_f64)(int plan, void* in, void* out) = nullptr;
  std::string detail;  // why it is not there
};

/// Of cuSOLVER, for f32 or f64. Matrices are column-major; `uplo` 0 is the lower triangle, 1 the upper one; `jobz` 1
/// asks for vectors. Sizes of workspaces are in elements.
template <class T>
struct SolverFunctions {
  int (*potrf_batched)(void*, int uplo, int n, T** a, int lda, int* info, int batch) = nullptr;
  int (*getrf_size)(void*, int m, int n, T* a, int lda, int* size) = nullptr;
  int (*getrf)(void*, int m, int n, T* a, int lda, T* work, int* pivots, int* info) = nullptr;
  int (*geqrf_size)(void*, int m, int n, T* a, int lda, int* size) = nullptr;
  int (*geqrf)(void*, int m, int n, T* a, int lda, T* tau, T* work, int size, int* info) = nullptr;
  int (*orgqr_size)(void*, int m, int n, int k, const T* a, int lda, const T* tau, int* size) = nullptr;
  int (*orgqr)(void*, int m, int n, int k, T* a, int lda, const T* tau, T* work, int size, int* info) = nullptr;
  int (*syevd_size)(void*, int jobz, int uplo, int n, const T* a, int lda, const T* w, int* size) = nullptr;
  int (*syevd)(void*, int jobz, int uplo, int n, T* a, int lda, T* w, T* work, int size, int* info) = nullptr;
  int (*gesvdj_size)(void*, int jobz, int econ, int m, int n, const T* a, int lda, const T* s, const T* u, int ldu,
                     const T* v, int ldv, int* size, void* parameters) = nullptr;
  int (*gesvdj)(void*, int jobz, int econ, int m, int n, T* a, int lda, T* s, T* u, int ldu, T* v, int ldv, T* work,
                int size, int* info, void* parameters) = nullptr;
  int (*gesvdj_batched_size)(void*, int jobz, int m, int n, const T* a, int lda, const T* s, const T* u, int ldu,
                             const T* v, int ldv, int* size, void* parameters, int batch) = nullptr;
  int (*gesvdj_batched)(void*, int jobz, int m, int n, T* a, int lda, T* s, T* u, int ldu, T* v, int ldv, T* work,
                        int size, int* info, void* parameters, int batch) = nullptr;
};
struct SolverApi {
  int (*create)(void** handle) = nullptr;
  int (*set_stream)(void* handle, void* stream) = nullptr;
  int (*create_gesvdj_parameters)(void** parameters) = nullptr;
  SolverFunctions<float> f32;
  SolverFunctions<double> f64;
  // For all dtypes: types are 0 for f32, 1 for f64; sizes are in bytes.
  int (*create_parameters)(void** parameters) = nullptr;
  int (*potrf_size)(void*, void* parameters, int uplo, std::int64_t n, int type, const void* a, std::int64_t lda,
                    int compute, std::size_t* on_device, std::size_t* on_host) = nullptr;
  int (*potrf)(void*, void* parameters, int uplo, std::int64_t n, int type, void* a, std::int64_t lda, int compute,
               void* on_device, std::size_t device_bytes, void* on_host, std::size_t host_bytes, int* info) = nullptr;
  // Since CUDA 12.6; null before.
  int (*syev_batched_size)(void*, void* parameters, int jobz, int uplo, std::int64_t n, int type, const void* a,
                           std::int64_t lda, int w_type, const void* w, int compute, std::size_t* on_device,
                           std::size_t* on_host, std::int64_t batch) = nullptr;
  int (*syev_batched)(void*, void* parameters, int jobz, int uplo, std::int64_t n, int type, void* a, std::int64_t lda,
                      int w_type, void* w, int compute, void* on_device, std::size_t device_bytes, void* on_host,
                      std::size_t host_bytes, int* info, std::int64_t batch) = nullptr;
  std::string detail;
};

/// Of cuBLAS: `side` 1 is the right one, `op` 1 the transposed matrix, `diagonal` 1 one of ones.
template <class T>
struct BlasFunctions {
  int (*trsm)(void*, int side, int uplo, int op, int diagonal, int m, int n, const T* alpha, const T* a, int lda, T* b,
              int ldb) = nullptr;
  int (*trsm_batched)(void*, int side, int uplo, int op, int diagonal, int m, int n, const T* alpha, const T* const* a,
                      int lda, T* const* b, int ldb, int batch) = nullptr;
  int (*getrf_batched)(void*, int n, T* const* a, int lda, int* pivots, int* info, int batch) = nullptr;
};
struct BlasApi {
  int (*create)(void** handle) = nullptr;
  int (*set_stream)(void* handle, void* stream) = nullptr;
  BlasFunctions<float> f32;
  BlasFunctions<double> f64;
  std::string detail;
};

/// Of cuDNN. Handles and descriptors are pointers. Types are 0 for f32, 1 for f64, 2 for f16, 9 for bf16; layout 0 has
/// the channels second, layout 1 last.
struct DnnApi {
  /// How one algorithm does for a convolution; all three kinds of convolution have the same form.
  struct Found {
    int algorithm, status;
    float milliseconds;
    std::size_t workspace_bytes;
    int is_deterministic, math, reserved[3];
  };
  enum Math : int { any_math = 0, tensor_cores = 1, full_precision = 3 };
  using In = const void*;

  std::size_t (*version)() = nullptr;
  const char* (*error_text)(int status) = nullptr;
  int (*create)(void** handle) = nullptr;
  int (*set_stream)(void* handle, void* stream) = nullptr;
  int (*create_tensor)(void** tensor) = nullptr;
  int (*destroy_tensor)(void* tensor) = nullptr;
  int (*set_tensor)(void* tensor, int type, int rank, const int* extents, const int* strides) = nullptr;
  int (*create_filter)(void** filter) = nullptr;
  int (*destroy_filter)(void* filter) = nullptr;
  int (*set_filter)(void* filter, int type, int layout, int rank, const int* extents) = nullptr;
  int (*create_convolution)(void** convolution) = nullptr;
  int (*destroy_convolution)(void* convolution) = nullptr;
  /// `mode` 1 does not mirror the filter.
  int (*set_convolution)(void* convolution, int axes, const int* padding, const int* stride, const int* dilation,
                         int mode, int sum_type) = nullptr;
  int (*set_groups)(void* convolution, int groups) = nullptr;
  int (*set_math)(void* convolution, int math) = nullptr;

  /// What is done with two operands and gives a third: y of x and w, the gradient by w of x and that by y, the gradient
  /// by x of w and that by y.
  struct Functions {
    int (*by_rule)(void*, In first, In second, In convolution, In out, int most, int* count, Found* found) = nullptr;
    int (*measured)(void*, In first, In first_data, In second, In second_data, In convolution, In out, void* out_data,
                    int most, int* count, Found* found, void* area, std::size_t area_bytes) = nullptr;
    int (*bytes)(void*, In first, In second, In convolution, In out, int algorithm, std::size_t* bytes) = nullptr;
    int (*run)(void*, In alpha, In first, In first_data, In second, In second_data, In convolution, int algorithm,
               void* area, std::size_t area_bytes, In beta, In out, void* out_data) = nullptr;
  };
  Functions forward, filter, data;
  std::string detail;
};

/// Null: it cannot be opened here.
const FourierApi* fourier_api();
const SolverApi* solver_api();
const BlasApi* blas_api();
const DnnApi* dnn_api();

}  // namespace cuda
SINTER_NAMESPACE_END
