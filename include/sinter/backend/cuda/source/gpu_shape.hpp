// How a kernel is laid over the threads of a device: which lanes share a row or a column, what one thread keeps in
// registers, whether the reduced axes are cut into pieces. Decided from the kernel, its schedule and the device alone,
// so that results are the same in every run. Knows no nests and no CUDA C.
#pragma once

#include <sinter/backend/cuda/device/launch.hpp>
#include <sinter/backend/cuda/source/bound_kernel.hpp>
#include <sinter/base/config.hpp>
#include <sinter/kernel/schedule.hpp>

#include <cstdint>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace cuda_source_detail {

/// What decides beside the kernel.
struct GpuNestOptions {
  const Schedule& schedule;
  const cuda::Target& device;
  bool is_aligned = true;   // the operands' memory begins at multiples of 16 bytes
  bool is_grouped = false;  // see GeneratedKernel::bind
};

/// The width at which most accesses go by whole vectors; 1 where none does.
int best_width(const BoundKernel& bound, const GpuNestOptions& options, int axis, bool may_have_tail);

/// Of rows whose values stay in registers: what each pass computes or loads that no pass before it did.
struct KeptWalks {
  std::vector<std::vector<InstId>> fresh;  // per pass, in order
  std::vector<int> first, last;            // per instruction: the pass that computes it, and the last that uses it
  int words = 1;                           // most 4-byte values per point that are kept or loaded at once ...
  int own_words = 1;                       // ... but for those that all rows share
  bool is_kept(InstId id) const { return last[id] > first[id]; }
};
KeptWalks kept_walks(const BoundKernel& bound);

/// Of a stage with reductions.
struct ThreadShape {
  bool is_column = false;  // neighbouring threads take neighbouring columns; else neighbours along the row
  int vector_axis = -1;
  int width = 1;             // elements per access along the vector axis
  int steps = 1;             // accesses per thread and tile
  int lanes = 1;             // threads that share a row or a column; a power of two
  int cluster = 1;           // blocks that these are in, where they are more than one has
  int team = 1;              // blocks that share rows one after the other, and meet in memory: see row_stream.hpp
  int groups = 1;            // rows, or vectors of columns, per block
  bool is_resident = false;  // one tile holds the row: values are loaded and computed once
  bool loads_late = false;   // resident only because what all rows share is loaded step by step, when it is used
  bool is_exact = false;     // tiles fill the range: no checks
  std::int64_t items = 1;    // rows, or vectors of columns
  std::int64_t length = 1;   // points of the reduced axes
  std::int64_t splits = 1, chunk = 1;  // pieces of the reduced range, and their length

  int threads() const { return lanes * groups / cluster; }  // of a block
  /// So many share a processor, where there are clusters.
  int clusters_of_processor() const;
  std::int64_t tile() const { return std::int64_t{lanes} * team * steps * (is_column ? 1 : width); }
};
/// Of rows that are read again: how many tiles find room in a block's shared memory, and how many more of those that a
/// cluster shares in registers. `tile_bytes`: of what a block keeps of a tile.
std::int64_t tiles_in_shared(const ThreadShape& shape, const cuda::Target& device, std::int64_t tile_bytes);
std::int64_t most_tiles_in_registers(const ThreadShape& shape, std::int64_t tile_bytes);
ThreadShape choose_reduction(const BoundKernel& bound, const GpuNestOptions& options, const KeptWalks& walks);

/// The live scans of a kernel.
InstList scans_of(const BoundKernel& bound);
bool depends_on_scan(const BoundKernel& bound, InstId scan);
/// Of a scan: a thread for each column, or a block of them for each row, or for each piece of one.
struct ScanShape {
  int lanes = 1;             // threads of a row
  int steps = 1;             // elements of a thread and tile
  bool is_together = false;  // all scans take in a tile together; else one needs another
  std::int64_t pieces = 1, chunk = 0;
};
ScanShape choose_scan(const BoundKernel& bound, const cuda::Target& device);

}  // namespace cuda_source_detail
SINTER_NAMESPACE_END
