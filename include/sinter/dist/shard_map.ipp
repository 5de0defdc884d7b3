// Dividing and joining by layouts.
#pragma once

#include <sinter/dist/shard_map.hpp>

#include <sinter/dist/rank_state.hpp>
#include <sinter/graph/pending_node.hpp>
#include <sinter/graph/tracing.hpp>

#include <algorithm>

SINTER_NAMESPACE_BEGIN
namespace dist::dist_detail {

/// The axes of the mesh over which a tensor is not divided, where it matters: integers have no gradient.
inline Axis rest_of(const Tensor& x, const Layout& layout) {
  Axis rest;
  if (!is_differentiable(x.dtype())) return rest;
  for (const MeshAxis& axis : mesh().axes()) {
    const auto divides = [&](const Placement& placement) {
      const auto& names = placement.over.names;
      return names.empty() || std::find(names.begin(), names.end(), axis.name) != names.end();
    };
    if (axis.size > 1 && std::none_of(layout.placements.begin(), layout.placements.end(), divides))
      rest.names.push_back(axis.name);
  }
  return rest;
}

SINTER_DECL Tensor shard_by(const Tensor& x, const Layout& layout, Location where) {
  const Axis rest = rest_of(x, layout);
  Tensor part = rest.names.empty() ? x : copy_of_whole(In(x, where), rest);
  for (const Placement& placement : layout.placements) part = part_of_whole(In(part, where), placement);
  return part;
}
SINTER_DECL Tensor replicate_by(const Tensor& x, const Layout& layout, Location where) {
  const Axis rest = rest_of(x, layout);
  Tensor whole = rest.names.empty() ? x : whole_of_copies(In(x, where), rest);
  for (auto placement = layout.placements.rbegin(); placement != layout.placements.rend(); ++placement)
    whole = whole_of_parts(In(whole, where), *placement);
  return whole;
}

SINTER_DECL void check_layouts(std::size_t layouts, std::size_t tensors, const char* what, Location where) {
  if (layouts != tensors)
    throw UserError("shard_map", std::to_string(layouts) + " layouts for " + std::to_string(tensors) + " " + what,
                    where, "give one for each; {} is a tensor that every rank has");
}

SINTER_DECL bool is_rank_of(const Mesh& mesh, Location where) {
  const RankState& state = current_rank();
  if (state.size() == mesh.size()) return true;
  if (state.engine != nullptr && state.size() > 1)
    throw UserError("shard_map",
                    "the mesh " + mesh.text() + " has " + std::to_string(mesh.size()) + " ranks, the program " +
                        std::to_string(state.size()),
                    where, "the product of its axes must be the number of ranks");
  if (Trace::current() != nullptr)
    throw TraceError("shard_map", "it would start " + std::to_string(mesh.size()) + " ranks while a function is traced",
                     where, "call the traced function on each rank, inside of dist::run(mesh, ...)");
  return false;
}

SINTER_DECL void evaluate_all(std::span<const Ref<TensorImpl>> values, Location where) {
  std::vector<TensorImpl*> raw;
  for (const Ref<TensorImpl>& value : values) raw.push_back(value.get());
  evaluate({raw.data(), raw.size()}, "shard_map", where);
}

}  // namespace dist::dist_detail
SINTER_NAMESPACE_END
