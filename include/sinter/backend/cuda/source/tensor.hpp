// A product on tensor cores: where this algorithm is open, and the class that writes its kernel. See tensor.ipp.
#pragma once

#include <sinter/backend/cuda/source/product.hpp>

SINTER_NAMESPACE_BEGIN
namespace cuda_source_detail {

/// What a block and each of its warps compute, and how many tiles of the operands are in shared memory at once.
struct TensorTile {
  int rows = 0, columns = 0, warp_rows = 0, warp_columns = 0, stages = 0;
  double cost = 1;  // of a result, against the best tile
  int threads() const { return rows / warp_rows * (columns / warp_columns) * 32; }
};

class TensorWriter : public ProductWriter {
 public:
  explicit TensorWriter(const ProductWriter& chosen) : ProductWriter(chosen) {}
  /// f64 anywhere, f32 in the precisions of tensor cores, f16 and bf16, which TF32 holds exactly; from sm_80 on.
  bool is_open() const;
  /// Is it better than the kernel on the ordinary units, by a heuristic?
  bool is_preferred() const;
  void run();

 private:
  bool is_f32() const { return bound.inst(shape.contract).dtype == DType::f32; }
  bool is_split() const {  // every number into two
    return bound.kernel.precision == MatmulPrecision::tf32x3 && !has_narrow_operands();
  }
  int pack_width() const { return is_f32() ? 4 : 2; }  // elements of 16 bytes
  int row_blocks() const { return tile_.warp_rows / 16; }
  int column_blocks() const { return tile_.warp_columns / 8; }
  /// Places that a lane reads from, but for constants.
  int variants(const std::string& name) const { return operand_of(name).along_depth ? 1 : pack_width(); }
  int stage_elements() const { return (shape.rows + shape.columns) * shape.depth; }
  std::size_t shared_bytes(const TensorTile& tile) const;
  std::vector<TensorTile> tiles() const;
  void choose_tile();

  void write_lanes();
  GemmOperandWriter operand(const std::string& name) const;
  const GemmOperand& operand_of(const std::string& name) const { return name == "left" ? shape.left : shape.right; }
  int extent_of(const std::string& name) const { return name == "left" ? shape.rows : shape.columns; }
  bool is_copied(const std::string& name) const { return is_plain(bound, operand_of(name)); }
  void declare_fragments(const std::string& name);
  std::string place(const std::string& name, const std::string& k, const std::string& x) const;
  void fetch(GemmOperandWriter& operand, const std::string& name);
  void keep(GemmOperandWriter& operand, const std::string& name);
  void multiply();
  void read(const std::string& name);
  void convert(const std::string& name);
  void multiply_step(const std::string& sum, const std::string& left, const std::string& right);
  void stage_results();
  std::string loop(const std::string& variable, int count) const {
    return "for (int " + variable + " = 0; " + variable + " < " + str(count) + "; ++" + variable + ")";
  }

  TensorTile tile_;
};

}  // namespace cuda_source_detail
SINTER_NAMESPACE_END
