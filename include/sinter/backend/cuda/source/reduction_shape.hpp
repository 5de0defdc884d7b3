// How a kernel with reductions is laid over threads: which lanes share a row or a column, what one thread keeps in
// registers, whether the reduced axes are cut into pieces. Decided from the nest and the device alone, so that results
// are the same in every run.
#pragma once

#include <sinter/backend/cuda/source/writer.hpp>
#include <sinter/base/config.hpp>

#include <cstdint>

SINTER_NAMESPACE_BEGIN
namespace cuda_source_detail {

struct ReductionShape {
  bool is_column = false;  // neighbouring threads take neighbouring columns; else neighbours along the row
  int vector_axis = -1;
  int width = 1;             // elements per access along the vector axis
  int steps = 1;             // accesses per thread and tile
  int lanes = 1;             // threads that share a row or a column; a power of two
  int groups = 1;            // rows, or vectors of columns, per block
  bool is_resident = false;  // one tile holds the row: values are loaded and computed once
  bool loads_late = false;   // resident only because what all rows share is loaded step by step, when it is used
  bool is_exact = false;     // tiles fill the range: no checks
  std::int64_t items = 1;    // rows, or vectors of columns
  std::int64_t length = 1;   // points of the reduced axes
  std::int64_t splits = 1, chunk = 1;  // pieces of the reduced range, and their length

  int threads() const { return lanes * groups; }
  std::int64_t tile() const { return std::int64_t{lanes} * steps * (is_column ? 1 : width); }
};

ReductionShape choose_reduction(Writer& writer);
/// Declares the thread's place among items and along the reduced axes; the indices of its item.
IndexNames write_place(Writer& writer, const ReductionShape& shape);

}  // namespace cuda_source_detail
SINTER_NAMESPACE_END
