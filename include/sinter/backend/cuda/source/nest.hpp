// Nest: a kernel with its numbers, brought to its essence: axes of extent 1 dropped, neighbours merged where every
// access allows it, the class of each stride known. Two kernels that are run alike become equal. Knows nothing of CUDA.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/index.hpp>
#include <sinter/kernel/facts.hpp>
#include <sinter/kernel/kernel.hpp>

#include <algorithm>
#include <cstdint>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace cuda_source_detail {

using AxisList = SmallVector<int, max_axes>;

struct Nest {
  Kernel kernel;
  BoundGeometry geometry;
  AxisList parallel, reduced;  // outermost first
  KernelFacts facts;
  std::vector<Store> inner_stores, outer_stores;  // see KernelFacts

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
  /// Weights of a norm, say: caches hold them.
  bool is_shared_by_rows(InstId id) const {
    return !parallel.empty() &&
           std::none_of(parallel.begin(), parallel.end(), [&](int axis) { return varies(id, axis); });
  }
  /// Accesses that live loads, gathers and stores use.
  std::vector<std::uint16_t> used_accesses() const;
  /// The live reductions that need `depth` walks over the reduced axes before them.
  std::vector<InstId> reductions_of(int depth) const {
    const InstList list = sinter::reductions_of(kernel, facts, depth);
    return {list.begin(), list.end()};
  }
  /// Instructions inside the walk `pass`, in order: what its reductions and (in the last) inner stores stand on.
  std::vector<InstId> inner_of(int pass) const {
    const InstList list = sinter::inner_of(kernel, facts, pass);
    return {list.begin(), list.end()};
  }
  /// Where values of a walk are kept: for each walk, what it computes (or loads) that no walk before it did.
  struct KeptWalks {
    std::vector<std::vector<InstId>> fresh;  // per walk, in order
    std::vector<bool> is_kept;               // per instruction: a later walk uses it
    int words = 1;                           // most 4-byte values per point that are kept or loaded at once ...
    int own_words = 1;                       // ... but for those that all rows share
  };
  KeptWalks kept_walks() const;
  bool is_full_walk(int pass) const { return facts.walks(pass); }
};

Nest make_nest(const Kernel& kernel, const BoundGeometry& geometry);

}  // namespace cuda_source_detail
SINTER_NAMESPACE_END
