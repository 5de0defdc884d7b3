// Collectives as operations of the graph: effects, ordered with all others, so that every rank makes them in the order
// in which they are written, however the function is compiled. They have shape rules, derivatives and batching rules,
// and are over the ranks of a mesh axis. What carries them out is found when they run: one compiled function serves all
// ranks.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/dist/engine.hpp>
#include <sinter/dist/mesh.hpp>
#include <sinter/tensor/tensor.hpp>

#include <cstdint>
#include <source_location>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace dist {

/// The sum (or mean, ...) over the ranks, on all of them. The order of the additions is that of the ranks.
/// mean is for floats; bool takes maximum (any) and minimum (all). The derivative of sum and mean is the same
/// all_reduce of the gradients; that of maximum and minimum goes to the ranks that have the value, in equal parts.
Tensor all_reduce(const In& x, Reduce reduce = Reduce::sum, const Axis& over = {});
inline Tensor all_reduce(const In& x, const Axis& over) { return all_reduce(x, Reduce::sum, over); }
/// Each rank gets its part, along `axis`, of the sum over the ranks.
Tensor reduce_scatter(const In& x, int axis = 0, Reduce reduce = Reduce::sum, const Axis& over = {});
/// The tensors of all ranks, joined along `axis` in the order of the ranks. They have one shape; where they are unequal
/// parts of an axis, as shard() makes them, `extent` is that of the whole axis.
Tensor all_gather(const In& x, int axis = 0, const Axis& over = {}, std::int64_t extent = 0);
/// Divides x along `split_axis`, sends part r to rank r, and joins what comes along `axis`.
Tensor all_to_all(const In& x, int split_axis, int axis, const Axis& over = {});
/// Rank `root`'s x, on all ranks.
Tensor broadcast(const In& x, int root = 0, const Axis& over = {});
/// The sum on rank `root`, and zeros on the others.
Tensor reduce(const In& x, int root = 0, Reduce reduce = Reduce::sum, const Axis& over = {});
/// Sends x from rank a to rank b for each pair {a, b}; a rank that nothing is sent to gets zeros. No rank sends or
/// receives twice.
Tensor permute(const In& x, const RankPairs& pairs, const Axis& over = {});
/// x of the rank `shift` places before, in a ring.
Tensor ring_shift(const In& x, int shift = 1, const Axis& over = {});
/// Returns when all ranks have come.
void barrier(const Axis& over = {}, Location where = std::source_location::current());
/// This rank's place along the axis, as a value (i64) that is looked up when it is needed, and so is no constant of a
/// compiled function, as dist::rank() is.
Tensor axis_index(const Axis& over = {}, Location where = std::source_location::current());

/// An axis of a tensor, and the ranks over which it is divided. Parts differ by one position at most: of 10 over 4
/// ranks they have 3, 3, 2 and 2. Then the extent of the whole axis has to be known where only parts are.
struct Placement {
  int axis = 0;
  Axis over{};
  std::int64_t extent = 0;  // of the whole axis; 0: all ranks have as much as this one
};
/// This rank's device: GPU `rank` where NCCL carries the collectives, and the default device elsewhere.
Device device();

/// This rank's part of a tensor that all ranks have. No communication; the gradient is zero elsewhere. Inside of a
/// function that partition() divides: x, which lies so from here on (see lay_out()).
Tensor shard(const In& x, const Placement& placement);
/// The whole tensor, of the parts that the ranks have: all_gather.
Tensor replicate(const In& x, const Placement& placement);

}  // namespace dist
SINTER_NAMESPACE_END
