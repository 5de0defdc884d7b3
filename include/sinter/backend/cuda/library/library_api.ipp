// Opening the libraries and finding their functions.
#pragma once

#include <sinter/backend/cuda/library/library_api.hpp>

#include <sinter/backend/cuda/device/driver.hpp>
#include <sinter/base/fork.hpp>
#include <sinter/base/log.hpp>

#include <vector>

SINTER_NAMESPACE_BEGIN
namespace cuda {
namespace library_detail {

/// Functions of one library; the first that is missing makes it unusable.
class Symbols {
 public:
  Symbols(const std::vector<std::string>& names, std::string& detail)
      : library_(open_library(names, detail)), detail_(detail) {}
  bool is_open() const { return library_ != nullptr; }
  template <class F>
  void find(F& function, const char* name) {
    if (library_ == nullptr) return;
    function = reinterpret_cast<F>(find_symbol(library_, name));
    if (function == nullptr && detail_.empty()) detail_ = std::string("the library has no function ") + name;
  }
  template <class F>
  void find_if_there(F& function, const char* name) {
    if (library_ != nullptr) function = reinterpret_cast<F>(find_symbol(library_, name));
  }

 private:
  void* library_;
  std::string& detail_;
};

/// Where it has no use, once.
template <class Api>
Api* noted(Api* api, std::string_view name) {
  if (!api->detail.empty() && is_logged("cuda")) note("cuda", std::string(name) + " is not used: " + api->detail);
  return api;
}

inline FourierApi* open_fourier() {
  auto* api = new FourierApi;
  Symbols symbols({"libcufft.so.12", "libcufft.so.11", "libcufft.so"}, api->detail);
  symbols.find(api->create, "cufftCreate");
  symbols.find(api->destroy, "cufftDestroy");
  symbols.find(api->set_stream, "cufftSetStream");
  symbols.find(api->set_auto_allocation, "cufftSetAutoAllocation");
  symbols.find(api->set_work_area, "cufftSetWorkArea");
  symbols.find(api->make_plan, "cufftMakePlanMany64");
  symbols.find(api->complex_f32, "cufftExecC2C");
  symbols.find(api->complex_f64, "cufftExecZ2Z");
  symbols.find(api->from_real_f32, "cufftExecR2C");
  symbols.find(api->from_real_f64, "cufftExecD2Z");
  symbols.find(api->to_real_f32, "cufftExecC2R");
  symbols.find(api->to_real_f64, "cufftExecZ2D");
  return noted(api, "cuFFT");
}

template <class T>
void find_all(Symbols& symbols, SolverFunctions<T>& f, const std::string& letter) {
  const auto find = [&](auto& function, const char* name) {
    symbols.find(function, ("cusolverDn" + letter + name).c_str());
  };
  find(f.potrf_batched, "potrfBatched");
  find(f.getrf_size, "getrf_bufferSize");
  find(f.getrf, "getrf");
  find(f.geqrf_size, "geqrf_bufferSize");
  find(f.geqrf, "geqrf");
  find(f.orgqr_size, "orgqr_bufferSize");
  find(f.orgqr, "orgqr");
  find(f.syevd_size, "syevd_bufferSize");
  find(f.syevd, "syevd");
  find(f.gesvdj_size, "gesvdj_bufferSize");
  find(f.gesvdj, "gesvdj");
  find(f.gesvdj_batched_size, "gesvdjBatched_bufferSize");
  find(f.gesvdj_batched, "gesvdjBatched");
}
inline SolverApi* open_solver() {
  auto* api = new SolverApi;
  Symbols symbols({"libcusolver.so.12", "libcusolver.so.11", "libcusolver.so"}, api->detail);
  symbols.find(api->create, "cusolverDnCreate");
  symbols.find(api->set_stream, "cusolverDnSetStream");
  symbols.find(api->create_gesvdj_parameters, "cusolverDnCreateGesvdjInfo");
  find_all(symbols, api->f32, "S");
  find_all(symbols, api->f64, "D");
  symbols.find(api->create_parameters, "cusolverDnCreateParams");
  symbols.find(api->potrf_size, "cusolverDnXpotrf_bufferSize");
  symbols.find(api->potrf, "cusolverDnXpotrf");
  symbols.find_if_there(api->syev_batched_size, "cusolverDnXsyevBatched_bufferSize");
  symbols.find_if_there(api->syev_batched, "cusolverDnXsyevBatched");
  return noted(api, "cuSOLVER");
}

template <class T>
void find_all(Symbols& symbols, BlasFunctions<T>& f, const std::string& letter) {
  symbols.find(f.trsm, ("cublas" + letter + "trsm_v2").c_str());
  symbols.find(f.trsm_batched, ("cublas" + letter + "trsmBatched").c_str());
  symbols.find(f.getrf_batched, ("cublas" + letter + "getrfBatched").c_str());
}
inline BlasApi* open_blas() {
  auto* api = new BlasApi;
  Symbols symbols({"libcublas.so.13", "libcublas.so.12", "libcublas.so"}, api->detail);
  symbols.find(api->create, "cublasCreate_v2");
  symbols.find(api->set_stream, "cublasSetStream_v2");
  find_all(symbols, api->f32, "S");
  find_all(symbols, api->f64, "D");
  return noted(api, "cuBLAS");
}

inline DnnApi* open_dnn() {
  auto* api = new DnnApi;
  Symbols symbols({"libcudnn.so.9", "libcudnn.so.8", "libcudnn.so"}, api->detail);
  symbols.find(api->version, "cudnnGetVersion");
  symbols.find(api->error_text, "cudnnGetErrorString");
  symbols.find(api->create, "cudnnCreate");
  symbols.find(api->set_stream, "cudnnSetStream");
  symbols.find(api->create_tensor, "cudnnCreateTensorDescriptor");
  symbols.find(api->destroy_tensor, "cudnnDestroyTensorDescriptor");
  symbols.find(api->set_tensor, "cudnnSetTensorNdDescriptor");
  symbols.find(api->create_filter, "cudnnCreateFilterDescriptor");
  symbols.find(api->destroy_filter, "cudnnDestroyFilterDescriptor");
  symbols.find(api->set_filter, "cudnnSetFilterNdDescriptor");
  symbols.find(api->create_convolution, "cudnnCreateConvolutionDescriptor");
  symbols.find(api->destroy_convolution, "cudnnDestroyConvolutionDescriptor");
  symbols.find(api->set_convolution, "cudnnSetConvolutionNdDescriptor");
  symbols.find(api->set_groups, "cudnnSetConvolutionGroupCount");
  symbols.find(api->set_math, "cudnnSetConvolutionMathType");
  const auto find = [&](DnnApi::Functions& functions, const std::string& what) {
    symbols.find(functions.by_rule, ("cudnnGetConvolution" + what + "Algorithm_v7").c_str());
    symbols.find(functions.measured, ("cudnnFindConvolution" + what + "AlgorithmEx").c_str());
    symbols.find(functions.bytes, ("cudnnGetConvolution" + what + "WorkspaceSize").c_str());
    symbols.find(functions.run, ("cudnnConvolution" + what).c_str());
  };
  find(api->forward, "Forward");
  find(api->filter, "BackwardFilter");
  find(api->data, "BackwardData");
  return noted(api, "cuDNN");
}

/// Libraries are never closed: plans of static storage outlive everything.
template <class Api>
const Api* usable(const Api& api) {
  return api.detail.empty() ? &api : nullptr;
}

}  // namespace library_detail

SINTER_DECL const FourierApi* fourier_api() {
  return library_detail::usable(process_object([] { return library_detail::open_fourier(); }));
}
SINTER_DECL const SolverApi* solver_api() {
  return library_detail::usable(process_object([] { return library_detail::open_solver(); }));
}
SINTER_DECL const BlasApi* blas_api() {
  return library_detail::usable(process_object([] { return library_detail::open_blas(); }));
}
SINTER_DECL const DnnApi* dnn_api() {
  return library_detail::usable(process_object([] { return library_detail::open_dnn(); }));
}

}  // namespace cuda
SINTER_NAMESPACE_END
