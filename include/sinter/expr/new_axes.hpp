// Positions of x(...) that are no axis of x: new axes, and the ellipsis. They are taken out before the others are looked
// at; what remains knows nothing of them.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/tensor/tensor.hpp>

#include <span>
#include <string_view>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace expr_detail {

/// Are there new axes or an ellipsis among the positions of an index?
bool has_other_axes(std::span<const Index> positions);

/// Positions of axes that a value of `rank` axes has, the ellipsis written out, and where axes of extent 1 stand in
/// what they give. Throws IndexError for a second ellipsis, and for a new axis between index tensors.
struct OwnAxes {
  std::vector<Index> positions;
  std::vector<int> new_axes;
};
OwnAxes own_axes(int rank, std::span<const Index> positions, std::string_view op);

/// The same for places that are assigned to, which have no new axes: IndexError.
std::vector<Index> places_of(int rank, std::vector<Index> positions);

}  // namespace expr_detail
SINTER_NAMESPACE_END
