// Descriptors are made when first needed, on the current device; an algorithm for operands that are less aligned than
// was said is chosen when such a one comes.
#pragma once

#include <sinter/backend/cuda/product/library_product.hpp>

#include <sinter/backend/cuda/device/ahead.hpp>
#include <sinter/backend/cuda/product/cublaslt_api.ipp>
#include <sinter/base/fork.hpp>
#include <sinter/base/index.hpp>
#include <sinter/base/timeline.hpp>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <sstream>
#include <string>
#include <unordered_map>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace cuda {
namespace cublaslt_detail {

inline const CublasLtApi& api() { return cublaslt_api(); }

inline void require(cublasStatus_t status, const char* what) {
  if (status != CUBLAS_STATUS_SUCCESS)
    throw DeviceError(
        "matmul", std::string("cuBLASLt: ") + what + " failed with status " + std::to_string(static_cast<int>(status)));
}

/// One handle for each context; kept.
inline cublasLtHandle_t handle() {
  struct Table {
    ForkSafeMutex mutex;
    std::unordered_map<CUcontext, cublasLtHandle_t> handles;
  };
  Table& table = process_object<Table>();
  CUcontext context = nullptr;
  driver_api("matmul").call_cuCtxGetCurrent(&context);
  std::lock_guard lock(table.mutex);
  cublasLtHandle_t& found = table.handles[context];
  if (found != nullptr) return found;
  const TimelineSpan span("load", "start cuBLASLt");
  require(api().call_cublasLtCreate(&found), "cublasLtCreate");
  return found;
}

/// 256, or less for an address that is a multiple of less.
inline std::uint32_t alignment_of(const void* address) {
  const auto bits = reinterpret_cast<std::uintptr_t>(address) | 256;
  return static_cast<std::uint32_t>(bits & (~bits + 1));
}

/// What NVIDIA recommends for Hopper; what an algorithm does not need is not allocated.
inline constexpr std::size_t most_scratch = std::size_t{32} << 20;

/// What the library's tables for a product depend on: dtypes and precision, as numbers.
inline std::string kind_of(const LibraryProduct& product) {
  std::string text =
      std::to_string(static_cast<int>(product.dtype)) + " " + std::to_string(static_cast<int>(product.precision));
  if (!product.narrow) return text;
  const auto& [operands, result, right] = *product.narrow;
  for (const DType dtype : {operands, result, right.value_or(operands)})
    text += " " + std::to_string(static_cast<int>(dtype));
  return text;
}
inline LibraryProduct product_of_kind(const std::string& kind) {
  std::istringstream text(kind);
  int dtype = 0, precision = 0, operands = 0, result = 0, right = 0;
  LibraryProduct product;
  if (!(text >> dtype >> precision)) return product;
  product.dtype = static_cast<DType>(dtype);
  product.precision = static_cast<MatmulPrecision>(precision);
  if (text >> operands >> result >> right)
    product.narrow =
        LibraryProduct::Narrow{static_cast<DType>(operands), static_cast<DType>(result), static_cast<DType>(right)};
  return product;
}

class ProductCall final : public LibraryCall {
 public:
  explicit ProductCall(const LibraryProduct& product) : product_(product) {}
  ~ProductCall() override { release(); }

  /// The library counts by columns: it computes the transposed result, columns times rows, from right and left.
  void run(void* const* operands, void* workspace, void* stream) override {
    const auto at = [&](std::uint16_t operand, std::int64_t offset) {
      return static_cast<const char*>(operands[operand]) + offset;
    };
    const auto place = [&](const LibraryProduct::Matrix& matrix) {
      return at(static_cast<std::uint16_t>(matrix.operand), matrix.byte_offset);
    };
    const auto& [scale, sign, residual, bias] = product_.epilogue;
    const char *left = at(product_.left.operand, product_.left.byte_offset),
               *right = at(product_.right.operand, product_.right.byte_offset);
    char* result =
        product_.result.operand < 0 ? static_cast<char*>(workspace) : const_cast<char*>(place(product_.result));
    const char* added = residual.operand < 0 ? result : place(residual);
    std::uint32_t alignment =
        std::min({alignment_of(left), alignment_of(right), alignment_of(result), alignment_of(added)});
    if (bias.operand >= 0) alignment = std::min(alignment, alignment_of(place(bias)));
    choose(alignment);
    if (bias.operand >= 0) set_bias(place(bias));
    // The library's first matrix is the right one.
    if (product_.left_scale >= 0) set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, at_start(operands, product_.left_scale));
    if (product_.right_scale >= 0) set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, at_start(operands, product_.right_scale));
    const double plus = residual.operand < 0 ? 0 : sign;
    const float scale_f = static_cast<float>(scale), plus_f = static_cast<float>(plus);
    const std::int32_t scale_i = static_cast<std::int32_t>(scale), plus_i = static_cast<std::int32_t>(plus);
    const bool is_double = product_.dtype == DType::f64, is_integer = product_.dtype == DType::i32;
    const void *alpha = is_double ? static_cast<const void*>(&scale) : &scale_f,
               *beta = is_double ? static_cast<const void*>(&plus) : &plus_f;
    if (is_integer) alpha = &scale_i;
    if (is_integer) beta = &plus_i;
    require(api().call_cublasLtMatmul(handle(), operation_, alpha, right, right_layout_, left, left_layout_, beta,
                                      added, added_layout(), result, result_layout_, &algorithm_,
                                      static_cast<char*>(workspace) + product_.scratch_place, scratch_,
                                      static_cast<cudaStream_t>(stream)),
            "cublasLtMatmul");
  }

  std::vector<std::string> algorithms(int most) override {
    std::vector<std::string> list;
    for (const cublasLtMatmulHeuristicResult_t& found : candidates(expected_alignment(), most, most_scratch))
      list.push_back(cublaslt_algorithm_mark() +
                     std::string(reinterpret_cast<const char*>(&found.algo), sizeof found.algo));
    return list;
  }

  bool use(const std::string& algorithm) override {
    cublasLtMatmulHeuristicResult_t found{};
    const std::string mine = cublaslt_algorithm_mark();
    if (algorithm.size() != mine.size() + sizeof found.algo || !algorithm.starts_with(mine)) return false;
    const TimelineSpan span("load", "check an algorithm of cuBLASLt");
    prepare();
    set_fake_bias(expected_alignment());
    cublasLtMatmulAlgo_t wanted{};
    std::memcpy(&wanted, algorithm.data() + mine.size(), sizeof wanted);
    const cublasStatus_t status = api().call_cublasLtMatmulAlgoCheck(handle(), operation_, right_layout_, left_layout_,
                                                                     added_layout(), result_layout_, &wanted, &found);
    if (status != CUBLAS_STATUS_SUCCESS || found.workspaceSize > most_scratch) return false;
    algorithm_ = wanted;
    scratch_ = found.workspaceSize;
    alignment_ = expected_alignment();
    is_chosen_ = true;
    return true;
  }

  std::size_t scratch_bytes() override {
    if (!is_chosen_) choose(expected_alignment());
    return scratch_;
  }

  void note_use() const override { cuda_detail::note_cublaslt_use(kind_of(product_)); }

  std::string text() const override {
    const auto& [scale, sign, residual, bias] = product_.epilogue;
    std::string text = scale == 1 ? "product" : scale == -1 ? "-product" : "scale * product";
    if (compute_type() == CUBLAS_COMPUTE_32F_FAST_TF32) text = "TF32, " + text;
    if (residual.operand >= 0) text += sign < 0 ? " - residual" : " + residual";
    return text + (bias.operand >= 0 ? " + bias" : "");
  }

 private:
  static const void* at_start(void* const* operands, int operand) { return operands[as_index(operand)]; }
  static cudaDataType_t type_of(DType dtype) {
    switch (dtype) {
      case DType::f64: return CUDA_R_64F;
      case DType::f16: return CUDA_R_16F;
      case DType::bf16: return CUDA_R_16BF;
      case DType::f8e4m3: return CUDA_R_8F_E4M3;
      case DType::f8e5m2: return CUDA_R_8F_E5M2;
      case DType::i8: return CUDA_R_8I;
      case DType::i32: return CUDA_R_32I;
      default: return CUDA_R_32F;
    }
  }
  cudaDataType_t type() const { return type_of(product_.dtype); }
  cudaDataType_t left_type() const { return product_.narrow ? type_of(product_.narrow->operands) : type(); }
  cudaDataType_t right_type() const {
    return product_.narrow && product_.narrow->right ? type_of(*product_.narrow->right) : left_type();
  }
  cudaDataType_t result_type() const { return product_.narrow ? type_of(product_.narrow->result) : type(); }
  /// tf32x3 in full: CUBLAS_COMPUTE_32F_EMULATED_16BFX9, which comes near it, is not documented for sm_90.
  cublasComputeType_t compute_type() const {
    if (product_.dtype == DType::f64) return CUBLAS_COMPUTE_64F;
    if (product_.dtype == DType::i32) return CUBLAS_COMPUTE_32I;
    if (product_.narrow) return CUBLAS_COMPUTE_32F;
    return product_.precision == MatmulPrecision::tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
  }
  cublasLtMatrixLayout_t added_layout() const {
    return residual_layout_ != nullptr ? residual_layout_ : result_layout_;
  }

  /// Of all matrices, if operands are aligned as was said.
  std::uint32_t expected_alignment() const {
    const auto& [scale, sign, residual, bias] = product_.epilogue;
    const auto offsets = product_.left.byte_offset | product_.right.byte_offset | product_.result.byte_offset |
                         residual.byte_offset | bias.byte_offset;
    const auto bits = static_cast<std::uint64_t>(offsets) | product_.alignment;
    return static_cast<std::uint32_t>(bits & (~bits + 1));
  }

  /// Rows of the library's matrix are the direction of unit stride.
  cublasLtMatrixLayout_t layout(cudaDataType_t type, std::int64_t rows, std::int64_t columns, std::int64_t stride,
                                std::int64_t batch_stride) const {
    cublasLtMatrixLayout_t made = nullptr;
    require(api().call_cublasLtMatrixLayoutCreate(&made, type, static_cast<std::uint64_t>(rows),
                                                  static_cast<std::uint64_t>(columns), stride),
            "layout");
    const auto batches = static_cast<std::int32_t>(product_.batches);
    require(
        api().call_cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batches, sizeof batches),
        "layout");
    require(api().call_cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                                        &batch_stride, sizeof batch_stride),
            "layout");
    return made;
  }
  cublasLtMatrixLayout_t layout(cudaDataType_t type, const LibraryProduct::Operand& operand,
                                std::int64_t extent) const {
    return operand.depth_stride == 1
               ? layout(type, product_.depth, extent, std::max(operand.stride, product_.depth), operand.batch_stride)
               : layout(type, extent, product_.depth, std::max(operand.depth_stride, extent), operand.batch_stride);
  }
  cublasLtMatrixLayout_t layout(const LibraryProduct::Matrix& matrix) const {
    return layout(result_type(), product_.columns, product_.rows, matrix.stride, matrix.batch_stride);
  }

  template <class T>
  void set(cublasLtMatmulDescAttributes_t which, const T& value) {
    require(api().call_cublasLtMatmulDescSetAttribute(operation_, which, &value, sizeof value), "description");
  }
  void set_bias(const void* address) { set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, address); }
  /// Whoever chooses an algorithm looks at the alignment of the bias's address alone.
  void set_fake_bias(std::uint32_t alignment) {
    if (product_.epilogue.bias.operand >= 0) set_bias(reinterpret_cast<const void*>(std::uintptr_t{alignment}));
  }

  /// Scales of rows and columns. Their addresses are known when it runs; whoever chooses an algorithm wants some.
  void set_scale_modes() {
#if CUBLAS_VERSION >= 120900
    const auto mode = static_cast<std::int32_t>(CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F);
    const auto* const somewhere = reinterpret_cast<const void*>(std::uintptr_t{256});
    for (auto which : {CUBLASLT_MATMUL_DESC_A_SCALE_MODE, CUBLASLT_MATMUL_DESC_B_SCALE_MODE}) set(which, mode);
    for (auto which : {CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER})
      set(which, somewhere);
#else
    throw DeviceError("scaled_matmul",
                      "scales of rows and columns are of cuBLASLt 12.9 on; this is built with an older one");
#endif
  }

  void prepare() {
    if (result_layout_ != nullptr) return;  // made last
    release();
    require(api().call_cublasLtMatmulDescCreate(&operation_, compute_type(), type()), "description");
    set(CUBLASLT_MATMUL_DESC_TRANSA, product_.right.depth_stride == 1 ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(CUBLASLT_MATMUL_DESC_TRANSB, product_.left.depth_stride == 1 ? CUBLAS_OP_N : CUBLAS_OP_T);
    const auto& [scale, sign, residual, bias] = product_.epilogue;
    if (bias.operand >= 0) {
      set(CUBLASLT_MATMUL_DESC_EPILOGUE, static_cast<std::uint32_t>(CUBLASLT_EPILOGUE_BIAS));
      set(CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE, bias.batch_stride);
    }
    if (product_.are_scales_vectors) set_scale_modes();
    right_layout_ = layout(right_type(), product_.right, product_.columns);
    left_layout_ = layout(left_type(), product_.left, product_.rows);
    if (residual.operand >= 0) residual_layout_ = layout(residual);
    result_layout_ = layout(product_.result);
  }

  /// Empty: the library cannot do it.
  std::vector<cublasLtMatmulHeuristicResult_t> candidates(std::uint32_t alignment, int most, std::uint64_t scratch) {
    const TimelineSpan span("load", "ask cuBLASLt for algorithms");
    prepare();
    set_fake_bias(alignment);
    cublasLtMatmulPreference_t preference = nullptr;
    require(api().call_cublasLtMatmulPreferenceCreate(&preference), "preference");
    api().call_cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &scratch,
                                                    sizeof scratch);
    for (auto which : {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                       CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
      api().call_cublasLtMatmulPreferenceSetAttribute(preference, which, &alignment, sizeof alignment);
    // Parts of a sum are added up in f32, never in the result's dtype.
    if (const std::uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE; product_.narrow)
      api().call_cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &schemes,
                                                      sizeof schemes);
    std::vector<cublasLtMatmulHeuristicResult_t> found(as_index(most));
    int count = 0;
    const cublasStatus_t status =
        api().call_cublasLtMatmulAlgoGetHeuristic(handle(), operation_, right_layout_, left_layout_, added_layout(),
                                                  result_layout_, preference, most, found.data(), &count);
    api().call_cublasLtMatmulPreferenceDestroy(preference);
    found.resize(status == CUBLAS_STATUS_SUCCESS ? as_index(count) : 0);
    std::erase_if(found, [](const cublasLtMatmulHeuristicResult_t& one) { return one.state != CUBLAS_STATUS_SUCCESS; });
    return found;
  }

  /// An algorithm for this alignment, in the memory that it was given if there was one before.
  void choose(std::uint32_t alignment) {
    if (is_chosen_ && alignment >= alignment_) return;
    const auto found = candidates(alignment, 1, is_chosen_ ? scratch_ : most_scratch);
    if (found.empty()) throw DeviceError("matmul", "cuBLASLt has no algorithm for this product (" + text() + ")");
    algorithm_ = found[0].algo;
    alignment_ = alignment;
    if (!is_chosen_) scratch_ = found[0].workspaceSize;
    is_chosen_ = true;
  }

  void release() {
    if (operation_ != nullptr) api().call_cublasLtMatmulDescDestroy(operation_);
    for (cublasLtMatrixLayout_t* made : {&left_layout_, &right_layout_, &residual_layout_, &result_layout_}) {
      if (*made != nullptr) api().call_cublasLtMatrixLayoutDestroy(*made);
      *made = nullptr;
    }
    operation_ = nullptr;
  }

  LibraryProduct product_;
  cublasLtMatmulDesc_t operation_ = nullptr;
  cublasLtMatrixLayout_t left_layout_ = nullptr, right_layout_ = nullptr, residual_layout_ = nullptr,
                         result_layout_ = nullptr;
  cublasLtMatmulAlgo_t algorithm_{};
  std::size_t scratch_ = 0;
  std::uint32_t alignment_ = 256;
  bool is_chosen_ = false;
};

}  // namespace cublaslt_detail

SINTER_DECL std::unique_ptr<LibraryCall> make_library_product(const LibraryProduct& product) {
  return std::make_unique<cublaslt_detail::ProductCall>(product);
}
SINTER_DECL void start_cublaslt(const std::string& kind) {
  constexpr std::int64_t extent = 256;
  LibraryProduct product = cublaslt_detail::product_of_kind(kind);
  product.rows = product.columns = product.depth = extent;
  product.left = {0, 0, extent, 1, 0};
  product.right = {1, 0, extent, 1, 0};
  product.result = {2, 0, extent, 0};
  make_library_product(product)->algorithms(1);
}

}  // namespace cuda
SINTER_NAMESPACE_END
