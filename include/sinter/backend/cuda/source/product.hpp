// The class that writes a product of matrices: its choices, and what the algorithms to compute it share (how operands
// are fetched, what follows the product, the pieces of a cut axis). Choices become a loop nest, whose tiles are calls:
// what stands around a tile is written from that. product.ipp has the kernel on the ordinary units, tensor.ipp the one
// on tensor cores.
#pragma once

#include <sinter/backend/cuda/product/library_product.hpp>
#include <sinter/backend/cuda/source/gemm_operand.hpp>
#include <sinter/backend/cuda/source/library.hpp>
#include <sinter/backend/cuda/source/writer.hpp>
#include <sinter/kernel/loop_nest/product.hpp>

#include <optional>
#include <span>

SINTER_NAMESPACE_BEGIN
namespace cuda_source_detail {

struct ProductShape {
  Call call;
  InstId contract = no_inst;
  int row_axis = -1, column_axis = -1, depth_axis = -1;
  AxisList batch;
  GemmOperand left, right;
  int rows = 128, columns = 128, depth = 16;  // of a tile
  int thread_rows = 8, thread_columns = 8;
  int launch_threads = 0;              // of a block; 0: those that compute
  int teams = 1;                       // of threads: each takes its part of a tile's depth, and their sums are added
  std::int64_t splits = 1, chunk = 0;  // of the reduced axis
  int team_threads() const { return rows / thread_rows * (columns / thread_columns); }
  int threads() const { return launch_threads != 0 ? launch_threads : team_threads() * teams; }
};

/// Below, a product is never offered to the library: opening it takes a process some tenths of a second, and a
/// generated kernel takes some 30 microseconds.
inline constexpr double least_library_operations = 1e9;

class ProductWriter {
 public:
  explicit ProductWriter(Writer& writer) : w(writer), bound(writer.bound) {}

  bool choose();
  /// From the tile that was chosen to the nest; before anything is written.
  void lay_out();
  const LoopNest& nest() const { return nest_; }
  /// The GEMM algorithms that are open, the one preferred by the heuristic first.
  std::vector<cuda::GemmAlgorithm> algorithms(bool with_library) const;
  /// Those of them that a comparison is compiled for.
  std::vector<cuda::GemmAlgorithm> worth_measuring(const std::vector<cuda::GemmAlgorithm>& open) const;
  /// Names a product in a table of measurements.
  std::string text() const;
  double operations() const;
  /// As the library would compute it; none where it cannot, or for few operations.
  std::optional<cuda::LibraryProduct> worthwhile_library_product() const;
  void run();
  /// The product by the library; what follows it in the library's epilogue where that is wanted and fits, else in a
  /// kernel.
  void run_library(bool with_epilogue);

 protected:
  static std::string str(std::int64_t number) { return std::to_string(number); }
  void choose_tile();
  void build_nest(GpuProduct product);
  const Loop* loop_over(AxisMask axes, LoopMode mode, LoopRange range) const;
  std::int64_t tiles_along(int axis) const;
  /// What follows the sums, arguments first.
  std::span<const InstId> epilogue() const;
  const NestNode& last_stage() const;
  /// Of the reduced axis; 1: it is not cut.
  std::int64_t pieces() const;
  ProductAxes axes() const;
  void choose_teams(std::int64_t blocks);
  std::optional<cuda::LibraryProduct> library_product() const;
  bool library_does_all(cuda::LibraryProduct& product) const;
  /// Are both operands numbers of one 16-bit dtype as they lie in memory? Their products are exact in f32 and in TF32.
  bool has_narrow_operands() const {
    return narrow_operands(bound, shape.contract) != bound.inst(shape.contract).dtype;
  }
  std::string type() const { return value_type(bound.inst(shape.contract).dtype); }
  std::string pack(int width) const { return "Pack<" + type() + ", " + str(width) + ">"; }

  void write_threads();
  void write_place();
  GemmOperandWriter operand(const std::string& name) const;
  void keep(GemmOperandWriter& operand, const std::string& name);
  void multiply();
  void write_epilogue();
  void write_staged(int rows, const std::string& first_row);
  void add_teams(int width, const std::string& place);
  /// Neighbouring results that a thread takes at once.
  int result_width() const { return bound.extent(shape.column_axis) % 4 == 0 ? 4 : 1; }
  void write_results(const IndexNames& index, int width);
  void add_launches(const std::string& entry, std::size_t shared_bytes = 0);
  void write_finish();
  /// A row of an operand's tile in shared memory.
  std::string tile(const std::string& name, const std::string& depth) const {
    return "(" + name + "_tile + (buffer * " + str(shape.depth) + " + " + depth + ") * " +
           str((name == "left" ? shape.rows : shape.columns) + pad()) + ")";
  }
  int pad() const { return static_cast<int>(16 / size_of(bound.inst(shape.contract).dtype)); }  // keeps rows aligned
  /// Elements of shared memory that a team's results take: those of all fit where the two buffers were.
  int staged() const { return shape.rows * (shape.columns + pad()); }
  int row_gap() const { return shape.rows * 4 / shape.thread_rows; }
  int column_gap() const { return shape.columns * 4 / shape.thread_columns; }

  Writer& w;
  const BoundKernel& bound;
  ProductShape shape;
  IndexNames batch_index_;

 private:
  LoopNest nest_;
};

/// False: not a product of two loads over rows and columns; write_reduction takes it.
bool write_product(Writer& writer, std::optional<cuda::GemmAlgorithm> wanted);
/// No algorithms where write_product would decline.
cuda::GemmProblem gemm_problem(Writer& writer, bool with_library);

}  // namespace cuda_source_detail
SINTER_NAMESPACE_END
