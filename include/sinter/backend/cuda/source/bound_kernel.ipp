// Dropping and merging of axes; facts of the body.
#pragma once

#include <sinter/backend/cuda/source/bound_kernel.hpp>

#include <sinter/base/index.hpp>

#include <algorithm>

SINTER_NAMESPACE_BEGIN
namespace cuda_source_detail {

/// The kernel's axes that stay, merged, each where the outermost of its axes was: an axis of one point has index 0
/// wherever it is read. One reduced axis always stays where there is a reduction, as the last.
inline MergedAxes kept_axes(const Kernel& kernel, const BoundGeometry& geometry) {
  AxisMask apart = indexed_axes(kernel);
  for (int a = 0; a < kernel.rank(); ++a)
    if (geometry.extent[as_index(a)] == 1) apart &= static_cast<AxisMask>(~axis_bit(a));
  MergedAxes kept = merge_axes(kernel, geometry, AxisRole::parallel, apart);
  const MergedAxes reduced = merge_axes(kernel, geometry, AxisRole::reduced, apart);
  for (const MergedAxis& axis : reduced) kept.push_back(axis);
  std::sort(kept.begin(), kept.end(),
            [](const MergedAxis& a, const MergedAxis& b) { return a.outermost < b.outermost; });
  if (!reduced.empty()) return kept;
  for (int a = kernel.rank(); a-- > 0;)
    if (kernel.is_reduced(a)) {
      kept.push_back({a, 1, a});
      break;
    }
  return kept;
}

SINTER_DECL BoundKernel bind_kernel(const Kernel& kernel, const BoundGeometry& geometry) {
  BoundKernel bound;
  bound.kernel = kernel;
  bound.kernel.axes.clear();
  bound.geometry = geometry;
  std::array<int, max_axes> new_axis;  // of those that an index is read of: they are never merged
  new_axis.fill(-1);
  for (const MergedAxis& old : kept_axes(kernel, geometry)) {
    const auto axis = static_cast<int>(bound.kernel.axes.size());
    const auto at = as_index(axis);
    bound.kernel.axes.push_back(kernel.axes[as_index(old.axis)]);
    (kernel.is_reduced(old.axis) ? bound.reduced : bound.parallel).push_back(axis);
    bound.geometry.extent[at] = old.extent;
    for (std::size_t i = 0; i < kernel.accesses.size(); ++i) {
      const std::int64_t stride = stride_of(kernel, geometry, i, old.axis);
      bound.geometry.accesses[i].stride[at] = stride;
      bound.kernel.accesses[i].stride[at] = stride == 0   ? StrideClass::zero
                                            : stride == 1 ? StrideClass::unit
                                                          : StrideClass::any;
    }
    new_axis[as_index(old.axis)] = axis;
  }
  for (Access& access : bound.kernel.accesses)
    for (std::size_t a = bound.kernel.axes.size(); a < max_axes; ++a) access.stride[a] = StrideClass::zero;
  for (Inst& inst : bound.kernel.body) {
    if (inst.prim != Prim::index) continue;
    const int axis = new_axis[inst.bits];
    if (axis < 0) inst = {.prim = Prim::immediate, .dtype = DType::i64};
    else inst.bits = static_cast<std::uint64_t>(axis);
  }
  bound.facts = facts_of(bound.kernel);
  return bound;
}

SINTER_DECL bool BoundKernel::packs(std::uint16_t access, int axis, int width) const {
  if (width == 1 || axis < 0 || stride_class(access, axis) != StrideClass::unit) return false;
  const std::int64_t size = size_of(dtype_of(access)), unit = std::min<std::int64_t>(16, width * size);
  const auto& numbers = geometry.accesses[access];
  bool packs = numbers.offset * size % unit == 0 && numbers.gather_stride * size % unit == 0;
  for (int a = 0; a < kernel.rank(); ++a) packs = packs && (a == axis || stride(access, a) * size % unit == 0);
  return packs;
}

SINTER_DECL std::vector<std::uint16_t> BoundKernel::used_accesses() const {
  std::vector<std::uint16_t> used;
  for (std::size_t i = 0; i < kernel.body.size(); ++i)
    if (is_live(i) && reads_memory(kernel.body[i].prim)) used.push_back(kernel.body[i].access);
  for (const Store& store : kernel.stores) used.push_back(store.access);
  std::sort(used.begin(), used.end());
  used.erase(std::unique(used.begin(), used.end()), used.end());
  return used;
}

}  // namespace cuda_source_detail
SINTER_NAMESPACE_END
