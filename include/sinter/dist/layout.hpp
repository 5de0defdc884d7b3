// Layouts: how a tensor lies on a mesh, and, inside of partitioned functions, statements that it lies so.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/dist/collectives.hpp>
#include <sinter/dist/mesh.hpp>

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace dist {

/// How a tensor lies on a mesh: the axes that are divided; none: every rank has all of it.
///   Layout{{0, "data"}, {1, "model"}}
struct Layout {
  Layout() = default;
  Layout(std::initializer_list<Placement> list) : placements(list) {}
  std::vector<Placement> placements{};
};

/// Inside of a partitioned function: x, which lies so from here on. Elsewhere, and on a mesh of one, x.
///   h = dist::lay_out(gelu(matmul(x, w)), {{0, "data"}, {1, "model"}});
Tensor lay_out(const In& x, const Layout& layout);
/// lay_out(x, {}): every rank has all of it.
inline Tensor replicate(const In& x) { return lay_out(x, {}); }

namespace partition_detail {
/// What a rank has of a value along one axis of the mesh: the part along an axis of the tensor (0 and above), all of
/// it, or something that gives it when the ranks' are put together.
using Share = std::int8_t;
inline constexpr Share whole = -1, summand = -2, largest = -3, smallest = -4;
/// Of a statement: along this axis of the mesh anything is right.
inline constexpr Share unstated = -5;
constexpr bool is_part(Share share) { return share >= 0; }
constexpr bool is_summand(Share share) { return share <= summand && share >= smallest; }
/// Along each axis of a mesh, those of one rank included.
using Shares = std::vector<Share>;

/// The shares of a tensor of so many axes; along what the layout does not name `otherwise`. Throws IndexError and
/// UserError for layouts that mean nothing on the mesh.
Shares shares_of(const Layout& layout, const Mesh& mesh, int rank, Share otherwise, std::string_view op,
                 Location where);
/// "{0: data, 1: model}", "whole", "{sum over data}".
std::string text_of(const Shares& shares, const Mesh& mesh);

/// The mesh of the partitioned function that this thread traces, or null.
const Mesh*& partitioned_mesh() noexcept;
class PartitionScope {
 public:
  explicit PartitionScope(const Mesh& mesh) noexcept;
  ~PartitionScope();
  PartitionScope(const PartitionScope&) = delete;
  PartitionScope& operator=(const PartitionScope&) = delete;

 private:
  const Mesh* before_;
};

/// Throws ShapeError unless the parts of a tensor are of one size.
void check_parts(const Type& type, const Shares& shares, const Mesh& mesh, std::string_view op, Location where);
}  // namespace partition_detail

}  // namespace dist
SINTER_NAMESPACE_END
