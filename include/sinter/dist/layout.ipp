// Layouts as shares of a rank, and statements of them.
#pragma once

#include <sinter/dist/layout.hpp>

#include <sinter/base/index.hpp>
#include <sinter/dist/laid_out.hpp>

#include <algorithm>
#include <utility>

SINTER_NAMESPACE_BEGIN
namespace dist {
namespace partition_detail {

SINTER_DECL const Mesh*& partitioned_mesh() noexcept {
  static thread_local constinit const Mesh* mesh = nullptr;
  return mesh;
}
SINTER_DECL PartitionScope::PartitionScope(const Mesh& mesh) noexcept
    : before_(std::exchange(partitioned_mesh(), &mesh)) {}
SINTER_DECL PartitionScope::~PartitionScope() { partitioned_mesh() = before_; }

inline void set_share(Shares& shares, std::size_t axis, Share to, const Mesh& mesh, std::string_view op,
                      Location where) {
  const std::string& name = mesh.axes()[axis].name;
  if (is_part(shares[axis]))
    throw UserError(op, "the axis '" + name + "' of the mesh divides two axes of one tensor", where,
                    "name it once in a layout");
  for (std::size_t inner = axis + 1; inner < shares.size(); ++inner)
    if (shares[inner] == to && mesh.axes()[inner].size > 1)
      throw UserError(
          op, "axis " + std::to_string(to) + " is divided over '" + mesh.axes()[inner].name + "' before '" + name + "'",
          where, "name them in the order of the mesh " + mesh.text());
  shares[axis] = to;
}

SINTER_DECL Shares shares_of(const Layout& layout, const Mesh& mesh, int rank, Share otherwise, std::string_view op,
                             Location where) {
  Shares shares(mesh.axes().size(), otherwise);
  for (const Placement& placement : layout.placements) {
    const auto axis = static_cast<Share>(normalise_axis(placement.axis, rank, op, where));
    if (placement.extent < 0)
      throw ShapeError(
          op, "the extent of axis " + std::to_string(placement.axis) + " is " + std::to_string(placement.extent), where,
          "it is 0, for equal parts, or above");
    static_cast<void>(mesh.size(placement.over, where));  // throws for a name that there is not
    const auto& names = placement.over.names;
    for (std::size_t i = 0; i < shares.size(); ++i)
      if (names.empty() || std::find(names.begin(), names.end(), mesh.axes()[i].name) != names.end())
        set_share(shares, i, axis, mesh, op, where);
  }
  for (std::size_t i = 0; i < shares.size(); ++i)  // an axis of one rank divides nothing
    if (mesh.axes()[i].size == 1) shares[i] = whole;
  return shares;
}

SINTER_DECL std::string text_of(const Shares& shares, const Mesh& mesh) {
  std::string text;
  for (std::size_t i = 0; i < shares.size(); ++i) {
    if (shares[i] == whole || shares[i] == unstated) continue;
    text += text.empty() ? "{" : ", ";
    if (is_part(shares[i])) text += std::to_string(shares[i]) + ": ";
    else text += shares[i] == summand ? "sum over " : shares[i] == largest ? "maximum over " : "minimum over ";
    text += mesh.axes()[i].name;
  }
  return text.empty() ? "whole" : text + "}";
}

SINTER_DECL void check_parts(const Type& type, const Shares& shares, const Mesh& mesh, std::string_view op,
                             Location where) {
  for (int axis = 0; axis < type.shape.rank(); ++axis) {
    int parts = 1;
    for (std::size_t i = 0; i < shares.size(); ++i)
      if (shares[i] == axis) parts *= mesh.axes()[i].size;
    // Parts may be unequal where it is known how large they are.
    if (parts > 1 && !type.shape[axis].is_static() && !(type.shape[axis] % Dim(parts) == 0))
      throw ShapeError(op,
                       "axis " + std::to_string(axis) + " of " + type.text() + " is divided into " +
                           std::to_string(parts) + " parts over the mesh " + mesh.text(),
                       where,
                       "give the extent in the layout, {axis, over, extent}, or make it a multiple of their number");
  }
}
}  // namespace partition_detail

SINTER_DECL Tensor lay_out(const In& x, const Layout& layout) {
  const Ref<TensorImpl> value = x.tensor();
  const Mesh* mesh = partition_detail::partitioned_mesh();
  if (mesh == nullptr) return Tensor(value);
  partition_detail::Shares shares =
      partition_detail::shares_of(layout, *mesh, value->type.shape.rank(), partition_detail::whole, "lay_out", x.where);
  return mesh->size() == 1 ? Tensor(value) : partition_detail::annotate(x, std::move(shares), "lay_out");
}

}  // namespace dist

SINTER_NAMESPACE_END
