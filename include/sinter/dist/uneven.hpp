// Axes that the ranks of a group cannot divide equally: how many positions each has, and collectives of such parts.
// Parts differ by one at most, the first ones are larger, and some are empty where there are fewer positions than
// ranks. They are padded to one size on their way, so that engines know nothing of it.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/dist/collectives.hpp>
#include <sinter/dist/mesh.hpp>

#include <cstdint>
#include <functional>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace dist::dist_detail {

/// The part with this number, of so many, of an axis.
constexpr std::int64_t part_extent(std::int64_t extent, int parts, int index) {
  return extent / parts + (index < extent % parts ? 1 : 0);
}
/// Positions of each rank of the group over `over`, in its order. Along several axes of the mesh the parts of the first
/// are divided by the next.
std::vector<std::int64_t> part_extents(std::int64_t extent, const Axis& over, Location where);
bool are_equal(const std::vector<std::int64_t>& extents);
/// Those of an axis of x where they differ; else none.
std::vector<std::int64_t> uneven_extents(const Tensor& x, int axis, const Axis& over, Location where);

/// A whole axis as one block for each rank, each as long as the longest part; and back.
Tensor to_blocks(const In& whole, int axis, const std::vector<std::int64_t>& extents);
Tensor from_blocks(const In& blocks, int axis, const std::vector<std::int64_t>& extents);
/// This rank's part as a block; and back. Throws ShapeError where the part has another extent than it should.
Tensor to_block(const In& part, int axis, const Axis& over, const std::vector<std::int64_t>& extents,
                std::string_view op);
Tensor from_block(const In& block, int axis, const Axis& over, const std::vector<std::int64_t>& extents);

/// all_to_all where the parts of `axis` differ, those of `split_axis`, or both; `extent` is the whole one of `axis`.
Tensor exchange_uneven(const In& x, int split_axis, int axis, const Axis& over, std::int64_t extent);

}  // namespace dist::dist_detail
SINTER_NAMESPACE_END
