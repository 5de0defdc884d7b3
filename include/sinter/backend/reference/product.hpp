// Product: the matrix product inside a contraction, tile by tile: tiles of both operands are widened (f32 and f64 to
// double, integers to 64 bits) and multiplied through Eigen. Knows nothing of the epilogue.
#pragma once

#include <sinter/backend/reference/program.hpp>
#include <sinter/base/config.hpp>

#include <cstdint>
#include <memory>

SINTER_NAMESPACE_BEGIN
namespace reference_detail {

inline constexpr std::int64_t product_rows = 64, product_columns = 128, product_depth = 64;

class Product {
 public:
  virtual ~Product() = default;
  /// Accesses of the operands that vary over rows and over columns.
  std::uint16_t left_access() const { return left_.access; }
  std::uint16_t right_access() const { return right_.access; }
  /// One tile, from the addresses of its first row of the left and first column of the right operand.
  virtual void compute(const char* left, const char* right, std::int64_t rows, std::int64_t columns) = 0;
  /// Copies a row of the tile, as accumulators.
  virtual void copy_row(std::int64_t row, std::int64_t columns, void* sums) const = 0;

 protected:
  friend std::unique_ptr<Product> make_product(const Program& program, const BoundGeometry& geometry);
  struct Operand {
    std::uint16_t access = 0;
    std::int64_t stride = 0;        // along rows (left) or columns (right), in elements
    std::int64_t depth_stride = 0;  // along the reduced axis
  };
  Operand left_, right_;
  std::int64_t depth_ = 0;
};

/// Null if the program is no contraction of two loads, one varying over rows and not columns and one the other way.
std::unique_ptr<Product> make_product(const Program& program, const BoundGeometry& geometry);

}  // namespace reference_detail
SINTER_NAMESPACE_END
