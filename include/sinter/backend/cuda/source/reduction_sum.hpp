// Reductions whose state is their value, in CUDA C: the variable, and the lines that feed it and put lanes and pieces
// together. Where threads meet and what is cut into pieces is the business of reduction.ipp. Knows one reduction at a
// time; no walks.
#pragma once

#include <sinter/backend/cuda/source/gpu_shape.hpp>
#include <sinter/backend/cuda/source/writer.hpp>
#include <sinter/base/config.hpp>
#include <sinter/kernel/loop_nest/loop_nest.hpp>

#include <cstdint>
#include <string>

SINTER_NAMESPACE_BEGIN
namespace cuda_source_detail {

/// Shared memory in which columns are put together: one array for all reductions.
enum class ColumnScratch : std::uint8_t { is_new, is_there };

class SumText {
 public:
  SumText(Writer& writer, const ThreadShape& shape, InstId id);

  /// Declares sum<id>, in columns one for each of the vector, and starts it.
  void declare(bool is_array);
  /// Takes in the point at hand. `place` is "[j]" in columns, or nothing.
  void feed(const std::string& place);
  /// Declare v<id>, the same in all lanes.
  void put_row_together();
  void put_columns_together(ColumnScratch scratch);

  // Pieces of a cut range lie one after the other in the workspace.
  std::int64_t partial_bytes(std::int64_t pieces) const {
    return quotient_up(pieces * size_of(inst_.dtype), 256) * 256;
  }
  void write_partial(std::int64_t place, std::int64_t outputs);
  /// Takes in every piece that belongs to this lane of the loop's, some at once, and puts lanes together.
  void read_partials(std::int64_t place, std::int64_t outputs, const Loop& loop);

 private:
  static std::string str(std::int64_t number) { return std::to_string(number); }
  std::string type() const { return value_type(inst_.dtype); }
  /// Neighbours among `lanes` threads exchange values until all have that of all. A rolled loop is shorter to compile.
  void shuffle(const std::string& value, int lanes, bool is_rolled);
  std::string partials(std::int64_t place);
  void put_cluster_together();

  Writer& w;
  const ThreadShape& shape;
  InstId id_;
  const Inst& inst_;
  std::string sum_;
};

}  // namespace cuda_source_detail
SINTER_NAMESPACE_END
