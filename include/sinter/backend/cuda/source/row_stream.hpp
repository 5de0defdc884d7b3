// Rows that pass through the whole device: teams of blocks that stay until the last row share a row each, keep it in
// shared memory, and meet in device memory. While a team waits for what its blocks found out about one row, it works on
// the next ones, and later ones are on their way. Which kernels, how many blocks a team has, and what its memory holds;
// writes nothing.
#pragma once

#include <sinter/backend/cuda/source/gpu_shape.hpp>
#include <sinter/base/config.hpp>

#include <cstdint>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace cuda_source_detail {

/// Every block has a ring for each value that it keeps: places for a thread's elements of a row, which no other thread
/// reads. Walk w takes row n in iteration n + w * lag, so that what all blocks found in walk w - 1 has arrived; the row
/// `ahead` of the first walk is being copied meanwhile.
struct RowStream {
  static constexpr int threads = 512, blocks_of_processor = 2;
  static constexpr int lag = 2, ahead = 1;  // rows
  static constexpr int rows_met = 8;        // of which numbers are in memory; more than 2 * lag
  static constexpr int most_walks = 3, most_numbers = 4;

  std::vector<InstId> late;    // loads that a later walk needs
  std::vector<InstId> early;   // of the first walk alone
  std::vector<InstId> values;  // of the first walk, for later ones
  int walks = 1;
  bool keeps(InstId id) const;
  int places(InstId id) const;  // of its ring
};
/// What the rings hold, as few bytes as may be.
RowStream row_stream(const BoundKernel& bound, const KeptWalks& walks);
/// Of a place, and of all rings.
std::int64_t place_bytes(const BoundKernel& bound, const ThreadShape& shape, InstId id);
std::int64_t ring_bytes(const BoundKernel& bound, const ThreadShape& shape, const RowStream& stream);
/// What walk `pass` computes or loads at a point, in order; kept values are there.
std::vector<InstId> needed_in_walk(const BoundKernel& bound, const RowStream& stream, int pass);
/// Teams that run at once.
inline int teams_of(const ThreadShape& shape, const cuda::Target& device) {
  return device.multiprocessors * RowStream::blocks_of_processor / shape.team;
}
/// False: the kernel does not go this way, and nothing changes.
bool choose_stream(const BoundKernel& bound, const GpuNestOptions& options, const KeptWalks& walks, ThreadShape& shape);

}  // namespace cuda_source_detail
SINTER_NAMESPACE_END
