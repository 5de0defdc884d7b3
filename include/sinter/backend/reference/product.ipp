// Tiles of products, by Eigen.
#pragma once

#include <sinter/backend/reference/product.hpp>

#include <sinter/backend/reference/space.hpp>
#include <sinter/base/eigen.hpp>
#include <sinter/base/index.hpp>

#include <algorithm>
#include <utility>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace reference_detail {

namespace eigen = base_detail::eigen;

template <class T>
class TypedProduct final : public Product {
 public:
  TypedProduct()
      : tile_(product_rows * product_columns),
        left_tile_(product_rows * product_depth),
        right_tile_(product_depth * product_columns) {}

  void compute(const char* left, const char* right, std::int64_t rows, std::int64_t columns) override {
    const T *left_base = reinterpret_cast<const T*>(left), *right_base = reinterpret_cast<const T*>(right);
    auto tile = matrix(tile_, rows, columns);
    tile.setZero();
    for (std::int64_t k = 0; k < depth_; k += product_depth) {
      const std::int64_t depth = std::min(product_depth, depth_ - k);
      widen_tile(left_tile_, left_base + k * left_.depth_stride, left_.stride, left_.depth_stride, rows, depth);
      widen_tile(right_tile_, right_base + k * right_.depth_stride, right_.depth_stride, right_.stride, depth, columns);
      tile.noalias() += matrix(left_tile_, rows, depth) * matrix(right_tile_, depth, columns);
    }
    columns_ = columns;
  }

  void copy_row(std::int64_t row, std::int64_t columns, void* sums) const override {
    std::copy_n(tile_.data() + row * columns_, columns, static_cast<Accumulator<T>*>(sums));
  }

 private:
  // Unsigned, so that integer sums wrap.
  using Wide = std::conditional_t<Floating<T>, double, std::uint64_t>;
  using Matrix = eigen::Map<eigen::Matrix<Wide, eigen::Dynamic, eigen::Dynamic, eigen::RowMajor>>;

  static Matrix matrix(std::vector<Wide>& values, std::int64_t rows, std::int64_t columns) {
    return {values.data(), rows, columns};
  }

  static void widen_tile(std::vector<Wide>& tile, const T* base, std::int64_t row_stride, std::int64_t column_stride,
                         std::int64_t rows, std::int64_t columns) {
    for (std::int64_t i = 0; i < rows; ++i) {
      Wide* to = tile.data() + i * columns;
      const T* from = base + i * row_stride;
      for (std::int64_t j = 0; j < columns; ++j) to[j] = static_cast<Wide>(from[j * column_stride]);
    }
  }

  std::vector<Wide> tile_, left_tile_, right_tile_;
  std::int64_t columns_ = 0;
};

SINTER_DECL std::unique_ptr<Product> make_product(const Program& program, const BoundGeometry& geometry) {
  const Kernel& kernel = program.kernel;
  if (kernel.kind != KernelKind::contraction || !program.inner_stores.empty()) return nullptr;
  if (program.passes.size() != 2 || program.passes[0].reductions.size() != 1) return nullptr;
  for (int a = 0; a + 1 < kernel.rank(); ++a)
    if (kernel.is_reduced(a)) return nullptr;
  const Inst& contract = kernel.body[program.passes[0].reductions[0]];
  const Inst &a = kernel.body[contract.args[0]], &b = kernel.body[contract.args[1]];
  if (!is_plain_load(kernel, a) || !is_plain_load(kernel, b)) return nullptr;

  const auto k = as_index(kernel.rank() - 1);
  const auto stride = [&](const Inst& load, std::size_t axis) {
    return known_stride(kernel.accesses[load.access].stride[axis], geometry.accesses[load.access].stride[axis]);
  };
  const auto is_pair = [&](const Inst& left, const Inst& right) {
    return stride(left, k - 1) == 0 && stride(right, k - 2) == 0;
  };
  const bool is_swapped = !is_pair(a, b) && is_pair(b, a);
  if (!is_pair(a, b) && !is_swapped) return nullptr;
  const Inst &left = is_swapped ? b : a, &right = is_swapped ? a : b;

  std::unique_ptr<Product> product;
  visit_computed(contract.dtype, [&](auto tag) { product = std::make_unique<TypedProduct<Stored<decltype(tag)>>>(); });
  product->left_ = {left.access, stride(left, k - 2), stride(left, k)};
  product->right_ = {right.access, stride(right, k - 1), stride(right, k)};
  product->depth_ = geometry.extent[k];
  return product;
}

}  // namespace reference_detail
SINTER_NAMESPACE_END
