// Descriptors and the choice of an algorithm are made at the first run, when device and addresses are known.
#pragma once

#include <sinter/backend/cuda/library_product.hpp>

#include <sinter/backend/cuda/cublaslt_api.ipp>

#include <algorithm>
#include <mutex>
#include <unordered_map>

SINTER_NAMESPACE_BEGIN
namespace cuda {
namespace cublaslt_detail {

struct Library {
  CublasLtApi api;
  std::string detail;   // why it is not there
};

inline Library* open() {
  auto* found = new Library;
  void* library = open_library({"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"}, found->detail);
  if (library == nullptr) return found;
#define SINTER_CUDA_FIND(name)                                                                             \
  found->api.call_##name = reinterpret_cast<decltype(found->api.call_##name)>(find_symbol(library, #name)); \
  if (found->api.call_##name == nullptr) found->detail = "libcublasLt has no function " #name;
  SINTER_CUDA_CUBLASLT_FUNCTIONS(SINTER_CUDA_FIND)
#undef SINTER_CUDA_FIND
  return found;
}

// Never closed: plans of static storage outlive everything.
inline const Library& library() {
  static const Library* instance = open();
  return *instance;
}
inline const CublasLtApi& api() { return library().api; }

inline void require(cublasStatus_t status, const char* what) {
  if (status != CUBLAS_STATUS_SUCCESS) throw DeviceError("matmul", std::string("cuBLASLt: ") + what + " failed with status " + std::to_string(static_cast<int>(status)));
}

/// One handle for each context; kept.
inline cublasLtHandle_t handle() {
  static std::mutex mutex;
  static auto* handles = new std::unordered_map<CUcontext, cublasLtHandle_t>;
  CUcontext context = nullptr;
  driver_api("matmul").call_cuCtxGetCurrent(&context);
  std::lock_guard lock(mutex);
  cublasLtHandle_t& found = (*handles)[context];
  if (found == nullptr) require(api().call_cublasLtCreate(&found), "cublasLtCreate");
  return found;
}

/// 256, or less for an address that is a multiple of less.
inline std::uint32_t alignment_of(const void* address) {
  const auto bits = reinterpret_cast<std::uintptr_t>(address) | 256;
  return static_cast<std::uint32_t>(bits & (~bits + 1));
}

class ProductCall final : public LibraryCall {
 public:
  explicit ProductCall(const LibraryProduct& product) : product_(product) {}
  ~ProductCall() override { release(); }

  /// The library counts by columns: it computes the transposed result, columns times rows, from right and left.
  void run(void* const* operands, void* workspace, void* stream) override {
    const auto at = [&](const LibraryProduct::Factor& factor) { return static_cast<const char*>(operands[factor.operand]) + factor.byte_offset; };
    const char *left = at(product_.left), *right = at(product_.right);
    char* result = product_.result_operand < 0 ? static_cast<char*>(workspace) : static_cast<char*>(operands[product_.result_operand]) + product_.result_byte_offset;
    const std::uint32_t alignment = std::min({alignment_of(left), alignment_of(right), alignment_of(result)});
    if (operation_ == nullptr || alignment < alignment_) prepare(alignment);
    const float one_f = 1, zero_f = 0;
    const double one_d = 1, zero_d = 0;
    const bool is_double = product_.dtype == DType::f64;
    const void *one = is_double ? static_cast<const void*>(&one_d) : &one_f, *zero = is_double ? static_cast<const void*>(&zero_d) : &zero_f;
    require(api().call_cublasLtMatmul(handle(), operation_, one, right, right_layout_, left, left_layout_, zero, result, result_layout_, result, result_layout_,
                                      &algorithm_, static_cast<char*>(workspace) + product_.scratch_place, product_.scratch_bytes, static_cast<cudaStream_t>(stream)),
            "cublasLtMatmul");
  }

 private:
  /// tf32x3 in full: CUBLAS_COMPUTE_32F_EMULATED_16BFX9, which comes near it, is not documented for sm_90.
  cublasComputeType_t compute_type() const {
    if (product_.dtype == DType::f64) return CUBLAS_COMPUTE_64F;
    return product_.precision == MatmulPrecision::tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
  }
  cudaDataType_t type() const { return product_.dtype == DType::f64 ? CUDA_R_64F : CUDA_R_32F; }

  /// Rows of the library's matrix are the direction of unit stride.
  cublasLtMatrixLayout_t layout(std::int64_t rows, std::int64_t columns, std::int64_t stride, std::int64_t batch_stride) const {
    cublasLtMatrixLayout_t made = nullptr;
    require(api().call_cublasLtMatrixLayoutCreate(&made, type(), static_cast<std::uint64_t>(rows), static_cast<std::uint64_t>(columns), stride), "layout");
    const auto batches = static_cast<std::int32_t>(product_.batches);
    require(api().call_cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batches, sizeof batches), "layout");
    require(api().call_cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &batch_stride, sizeof batch_stride), "layout");
    return made;
  }
  cublasLtMatrixLayout_t layout(const LibraryProduct::Factor& factor, std::int64_t extent) const {
    return factor.depth_stride == 1 ? layout(product_.depth, extent, std::max(factor.stride, product_.depth), factor.batch_stride)
                                    : layout(extent, product_.depth, std::max(factor.depth_stride, extent), factor.batch_stride);
  }

  void prepare(std::uint32_t alignment) {
    release();
    require(api().call_cublasLtMatmulDescCreate(&operation_, compute_type(), type()), "description");
    const cublasOperation_t right = product_.right.depth_stride == 1 ? CUBLAS_OP_T : CUBLAS_OP_N, left = product_.left.depth_stride == 1 ? CUBLAS_OP_N : CUBLAS_OP_T;
    require(api().call_cublasLtMatmulDescSetAttribute(operation_, CUBLASLT_MATMUL_DESC_TRANSA, &right, sizeof right), "description");
    require(api().call_cublasLtMatmulDescSetAttribute(operation_, CUBLASLT_MATMUL_DESC_TRANSB, &left, sizeof left), "description");
    right_layout_ = layout(product_.right, product_.columns);
    left_layout_ = layout(product_.left, product_.rows);
    result_layout_ = layout(product_.columns, product_.rows, product_.result_stride, product_.result_batch_stride);
    choose(alignment);
  }

  void choose(std::uint32_t alignment) {
    cublasLtMatmulPreference_t preference = nullptr;
    require(api().call_cublasLtMatmulPreferenceCreate(&preference), "preference");
    const std::uint64_t scratch = product_.scratch_bytes;
    api().call_cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &scratch, sizeof scratch);
    for (auto which : {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
                       CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
      api().call_cublasLtMatmulPreferenceSetAttribute(preference, which, &alignment, sizeof alignment);
    cublasLtMatmulHeuristicResult_t best{};
    int count = 0;
    const cublasStatus_t status = api().call_cublasLtMatmulAlgoGetHeuristic(handle(), operation_, right_layout_, left_layout_, result_layout_, result_layout_, preference, 1, &best, &count);
    api().call_cublasLtMatmulPreferenceDestroy(preference);
    require(status, "cublasLtMatmulAlgoGetHeuristic");
    if (count == 0) throw DeviceError("matmul", "cuBLASLt has no algorithm for this product");
    algorithm_ = best.algo, alignment_ = alignment;
  }

  void release() {
    if (operation_ != nullptr) api().call_cublasLtMatmulDescDestroy(operation_);
    for (cublasLtMatrixLayout_t* made : {&left_layout_, &right_layout_, &result_layout_}) {
      if (*made != nullptr) api().call_cublasLtMatrixLayoutDestroy(*made);
      *made = nullptr;
    }
    operation_ = nullptr;
  }

  LibraryProduct product_;
  cublasLtMatmulDesc_t operation_ = nullptr;
  cublasLtMatrixLayout_t left_layout_ = nullptr, right_layout_ = nullptr, result_layout_ = nullptr;
  cublasLtMatmulAlgo_t algorithm_{};
  std::uint32_t alignment_ = 256;
};

}  // namespace cublaslt_detail

SINTER_DECL bool has_cublaslt(std::string* why) {
  if (why != nullptr) *why = cublaslt_detail::library().detail;
  return cublaslt_detail::library().detail.empty();
}

SINTER_DECL std::unique_ptr<LibraryCall> make_library_product(const LibraryProduct& product) {
  return std::make_unique<cublaslt_detail::ProductCall>(product);
}

}  // namespace cuda
SINTER_NAMESPACE_END
