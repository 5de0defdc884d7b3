// A product by `wgmma`, which reads both operands from shared memory by itself, fed by the bulk copy engine: where this
// algorithm is open, and the class that writes its kernel. See wgmma.ipp.
#pragma once

#include <sinter/backend/cuda/source/product.hpp>
#include <sinter/backend/cuda/source/wgmma_texts.hpp>

#include <optional>

SINTER_NAMESPACE_BEGIN
namespace cuda_source_detail {

class WgmmaWriter : public ProductWriter {
 public:
  explicit WgmmaWriter(const ProductWriter& chosen) : ProductWriter(chosen) {}
  /// f16 and bf16 as they lie in memory, in either order, and f32 in TF32 along the reduced axis, on sm_90, where the
  /// bulk copy engine can read them; nothing may be computed before the product.
  bool is_open() const;
  /// Tiles for half of the processors at least.
  bool fills_device() const;
  void run();

 private:
  /// How an operand is copied: a box of it, and the axes of the product that its axes are, innermost first.
  struct Copy {
    std::uint16_t access = 0;
    WgmmaOrder order = WgmmaOrder::along_depth;
    cuda::TensorMap map;
    AxisList axes;
  };
  DType memory_dtype() const { return narrow_operands(bound, shape.contract); }
  int step() const { return 128 / static_cast<int>(size_of(memory_dtype())); }  // positions of the reduced axis
  int tile_of(const GemmOperand& operand) const { return operand.axis == shape.row_axis ? shape.rows : shape.columns; }
  std::int64_t row_tiles() const { return quotient_up(bound.extent(shape.row_axis), shape.rows); }
  std::int64_t column_tiles() const { return quotient_up(bound.extent(shape.column_axis), shape.columns); }
  std::optional<Copy> copy_of(const GemmOperand& operand) const;
  void choose_tile();
  void write_texts(const Copy& left, const Copy& right);
  void write_fetch(const std::string& name, const Copy& copy);
  void write_copies(const Copy& left, const Copy& right);
  void write_epilogue();
  void write_piece(const IndexNames& index, const std::vector<InstId>& loaded);
  std::vector<InstId> loads_after_contract() const;
  int width() const;
  void write_row(const std::string& number);
  void write_columns();
  static int rows_at_once(std::size_t matrices);

  int cluster_ = 1, stages_ = 6;
};

}  // namespace cuda_source_detail
SINTER_NAMESPACE_END
