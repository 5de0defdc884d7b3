// The table of cuBLASLt's functions, with the types of the toolkit's headers, and how it is filled. Only .ipp files of
// this back end include it.
#pragma once

#include <sinter/backend/cuda/product/cublaslt_api.hpp>

#include <sinter/backend/cuda/device/driver.hpp>
#include <sinter/base/fork.hpp>

#include <atomic>

#include <cublasLt.h>

SINTER_NAMESPACE_BEGIN
namespace cuda {

#define SINTER_CUDA_CUBLASLT_FUNCTIONS(X)                                                                  \
  X(cublasLtCreate)                                                                                        \
  X(cublasLtGetVersion)                                                                                    \
  X(cublasLtMatmul)                                                                                        \
  X(cublasLtMatmulAlgoCheck)                                                                               \
  X(cublasLtMatmulAlgoGetHeuristic)                                                                        \
  X(cublasLtMatmulDescCreate)                                                                              \
  X(cublasLtMatmulDescDestroy) X(cublasLtMatmulDescSetAttribute) X(cublasLtMatrixLayoutCreate)             \
      X(cublasLtMatrixLayoutDestroy) X(cublasLtMatrixLayoutSetAttribute) X(cublasLtMatmulPreferenceCreate) \
          X(cublasLtMatmulPreferenceDestroy) X(cublasLtMatmulPreferenceSetAttribute)

struct CublasLtApi {
#define SINTER_CUDA_MEMBER(name) decltype(&::name) call_##name = nullptr;
  SINTER_CUDA_CUBLASLT_FUNCTIONS(SINTER_CUDA_MEMBER)
#undef SINTER_CUDA_MEMBER
};

namespace cublaslt_detail {

struct Library {
  CublasLtApi api;
  std::string detail;  // why it is not there
};

inline constinit std::atomic<bool> is_open{false};

inline Library* open() {
  struct Done {
    ~Done() { is_open.store(true, std::memory_order_release); }
  } done;
  auto* found = new Library;
  void* library = open_library({"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"}, found->detail);
  if (library == nullptr) return found;
#define SINTER_CUDA_FIND(name)                                                                              \
  found->api.call_##name = reinterpret_cast<decltype(found->api.call_##name)>(find_symbol(library, #name)); \
  if (found->api.call_##name == nullptr) found->detail = "libcublasLt has no function " #name;
  SINTER_CUDA_CUBLASLT_FUNCTIONS(SINTER_CUDA_FIND)
#undef SINTER_CUDA_FIND
  return found;
}

// Never closed: plans of static storage outlive everything.
inline const Library& library() {
  return process_object([] { return open(); });
}

}  // namespace cublaslt_detail

SINTER_DECL bool has_cublaslt(std::string* why) {
  if (why != nullptr) *why = cublaslt_detail::library().detail;
  return cublaslt_detail::library().detail.empty();
}

SINTER_DECL bool is_cublaslt_open() noexcept { return cublaslt_detail::is_open.load(std::memory_order_acquire); }

SINTER_DECL std::size_t cublaslt_version() {
  return has_cublaslt() ? cublaslt_detail::library().api.call_cublasLtGetVersion() : 0;
}

SINTER_DECL std::string cublaslt_algorithm_mark() { return std::to_string(cublaslt_version()) + " "; }

SINTER_DECL const CublasLtApi& cublaslt_api() { return cublaslt_detail::library().api; }

}  // namespace cuda
SINTER_NAMESPACE_END
