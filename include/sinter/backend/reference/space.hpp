// Space: some of a kernel's axes as one flat range of points in row-major order, with each access's strides along them.
// The interpreter walks two: the lanes of its blocks and the loop around or inside them.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/index.hpp>
#include <sinter/kernel/facts.hpp>
#include <sinter/kernel/kernel.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace reference_detail {

using Position = std::array<std::int64_t, max_axes>;

enum class Simplify : std::uint8_t { yes, no };

struct Space {
  int rank = 0;  // at least 1 once built
  std::int64_t points = 1;
  std::array<int, max_axes> axis{};  // the kernel's axis, or -1
  Position extent{};
  std::vector<Position> stride;  // per access, in elements

  std::int64_t offset(std::size_t access, const Position& at) const {
    std::int64_t sum = 0;
    for (int d = 0; d < rank; ++d) sum += at[as_index(d)] * stride[access][as_index(d)];
    return sum;
  }
  std::int64_t inner_extent() const { return extent[as_index(rank - 1)]; }
  /// Points that follow `at` on the innermost axis, itself included.
  std::int64_t run_length(const Position& at) const { return inner_extent() - at[as_index(rank - 1)]; }
  /// Moves on by `count` points, at most run_length(at).
  void advance(Position& at, std::int64_t count) const {
    at[as_index(rank - 1)] += count;
    for (int d = rank - 1; d > 0 && at[as_index(d)] == extent[as_index(d)]; --d) {
      at[as_index(d)] = 0;
      ++at[as_index(d - 1)];
    }
  }
  int find(int kernel_axis) const {
    for (int d = 0; d < rank; ++d)
      if (axis[as_index(d)] == kernel_axis) return d;
    return -1;
  }
};

/// Axes of one role. Simplified: without axes of extent 1, and with neighbours merged where every access allows it
/// (`apart`: axes that stay as they are).
inline Space make_space(const Kernel& kernel, const BoundGeometry& geometry, AxisRole role, AxisMask apart,
                        Simplify simplify) {
  Space space;
  space.stride.resize(kernel.accesses.size());
  MergedAxes axes;
  if (simplify == Simplify::yes) axes = merge_axes(kernel, geometry, role, apart);
  for (int a = 0; a < kernel.rank(); ++a) {
    if (kernel.axes[as_index(a)] != role) continue;
    space.points *= geometry.extent[as_index(a)];
    if (simplify == Simplify::no) axes.push_back({a, geometry.extent[as_index(a)], a});
  }
  for (const MergedAxis& merged : axes) {
    const auto d = as_index(space.rank++);
    space.axis[d] = merged.axis;
    space.extent[d] = merged.extent;
    for (std::size_t i = 0; i < kernel.accesses.size(); ++i)
      space.stride[i][d] = stride_of(kernel, geometry, i, merged.axis);
  }
  if (space.rank == 0) {
    space.rank = 1;
    space.axis[0] = -1;
    space.extent[0] = 1;
  }
  return space;
}

}  // namespace reference_detail
SINTER_NAMESPACE_END
