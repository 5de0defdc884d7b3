// What of a kernel cuBLASLt can compute: the product, and whether all that follows it is one of the library's
// epilogues. A pure function of the kernel and its numbers.
#pragma once

#include <sinter/backend/cuda/product/library_product.hpp>
#include <sinter/backend/cuda/source/bound_kernel.hpp>
#include <sinter/base/config.hpp>

#include <optional>

SINTER_NAMESPACE_BEGIN
namespace cuda_source_detail {

/// The axes of a product whose one reduction is `contract`.
struct ProductAxes {
  InstId contract = no_inst;
  int row = -1, column = -1;
  int batch = -1;  // -1: none
};

/// f16 or bf16 where both operands of a product of f32 lie in memory as such; else the product's own dtype.
DType narrow_operands(const BoundKernel& bound, InstId contract);

/// The library's form of everything from the product to the one store, with the same rounding at each step and the same
/// treatment of NaN and infinities; nothing where there is none.
std::optional<cuda::LibraryProduct::Epilogue> library_epilogue(const BoundKernel& bound, const ProductAxes& axes);

/// How a matrix of the result's shape lies in the memory of an access; nothing where its columns have no unit stride or
/// rows overlap.
std::optional<cuda::LibraryProduct::Matrix> library_matrix(const BoundKernel& bound, std::uint16_t access,
                                                           const ProductAxes& axes);

}  // namespace cuda_source_detail
SINTER_NAMESPACE_END
