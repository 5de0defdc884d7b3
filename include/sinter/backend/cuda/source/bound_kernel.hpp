// BoundKernel: a kernel with its numbers, simplified: axes of extent 1 dropped, neighbours merged where every access
// allows it, the class of each stride known. Two kernels that are run alike become equal. Knows nothing of CUDA.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/index.hpp>
#include <sinter/kernel/facts.hpp>
#include <sinter/kernel/kernel.hpp>

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace cuda_source_detail {

using AxisList = SmallVector<int, max_axes>;

inline AxisMask mask_of(const AxisList& axes) {
  AxisMask mask = 0;
  for (const int a : axes) mask |= axis_bit(a);
  return mask;
}

struct BoundKernel {
  Kernel kernel;
  BoundGeometry geometry;
  AxisList parallel, reduced;  // outermost first
  KernelFacts facts;

  std::int64_t extent(int axis) const { return geometry.extent[as_index(axis)]; }
  std::int64_t points(const AxisList& axes) const {
    std::int64_t product = 1;
    for (int a : axes) product *= extent(a);
    return product;
  }
  StrideClass stride_class(std::uint16_t access, int axis) const {
    return kernel.accesses[access].stride[as_index(axis)];
  }
  std::int64_t stride(std::uint16_t access, int axis) const { return geometry.accesses[access].stride[as_index(axis)]; }
  DType dtype_of(std::uint16_t access) const { return kernel.operands[kernel.accesses[access].operand].dtype; }
  const Inst& inst(InstId id) const { return kernel.body[id]; }
  bool varies(InstId id, int axis) const { return facts.varies(id, axis); }
  bool is_live(std::size_t id) const { return facts.values[id].is_live; }
  bool is_inner(std::size_t id) const { return facts.is_inner(static_cast<InstId>(id)); }
  int depth(std::size_t id) const { return facts.values[id].depth; }
  int depths() const { return facts.depth; }
  /// For example the weights of a norm: caches hold them.
  bool is_shared_by_rows(InstId id) const {
    return !parallel.empty() &&
           std::none_of(parallel.begin(), parallel.end(), [&](int axis) { return varies(id, axis); });
  }
  /// Which instructions some values are made of, themselves included.
  SmallVector<bool, 256> under(std::span<const InstId> values) const {
    SmallVector<bool, 256> all(kernel.body.size());
    for (const InstId value : values) {
      const std::vector<bool> own = instructions_under(kernel.body, value);
      for (std::size_t i = 0; i < own.size(); ++i) all[i] = all[i] || own[i];
    }
    return all;
  }
  /// Accesses that live loads, gathers and stores use.
  std::vector<std::uint16_t> used_accesses() const;
  /// Is this access a whole vector of `width` elements along the axis, in alignment if operands are aligned, at every
  /// multiple of `width`?
  bool packs(std::uint16_t access, int axis, int width) const;
};

BoundKernel bind_kernel(const Kernel& kernel, const BoundGeometry& geometry);

inline std::int64_t quotient_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
inline std::int64_t power_of_2_at_least(std::int64_t n) {
  std::int64_t power = 1;
  while (power < n) power *= 2;
  return power;
}

}  // namespace cuda_source_detail
SINTER_NAMESPACE_END
