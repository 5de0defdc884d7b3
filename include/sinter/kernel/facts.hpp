// What follows from a kernel's structure, computed once and used by every back end: which values are live, along which
// axes each one varies, how many reductions stand before it, what a pass over the reduced axes computes, which axes
// merge for given strides. Knows kernels; no machine.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/index.hpp>
#include <sinter/base/small_vector.hpp>
#include <sinter/kernel/kernel.hpp>

#include <cstdint>

SINTER_NAMESPACE_BEGIN

/// Some axes of a kernel: bit a is axis a.
using AxisMask = std::uint16_t;
constexpr AxisMask axis_bit(int axis) { return static_cast<AxisMask>(1u << axis); }

struct ValueFacts {
  AxisMask axes = 0;       // along which it varies: a reduction's result not along reduced axes, a scan's along its own
  std::uint8_t depth = 0;  // reductions on the longest way to it, itself included: known after pass `depth` - 1
  bool is_live = false;    // some store needs it
};

using InstList = SmallVector<InstId, 64>;
/// Numbers of stores, as in Kernel::stores.
using StoreList = SmallVector<std::uint16_t, 8>;

struct KernelFacts {
  SmallVector<ValueFacts, 64> values;  // one per instruction
  AxisMask reduced = 0;
  AxisMask indexed = 0;  // axes whose index the body reads
  int depth = 0;         // of the deepest live value
  bool has_gather = false;
  bool has_guard = false;  // a guarded load
  StoreList inner_stores;  // at each point of the last pass: what is stored, or where, varies along reduced axes
  StoreList outer_stores;  // once for each point of the parallel axes

  bool varies(InstId id, int axis) const { return (values[id].axes >> axis & 1) != 0; }
  /// Inside the passes over the reduced axes, as against before or after them.
  bool is_inner(InstId id) const { return (values[id].axes & reduced) != 0; }
  /// Does pass `pass`, which is `depth` or less, walk the reduced axes at all?
  bool walks(int pass) const { return pass < depth || !inner_stores.empty(); }
};

KernelFacts facts_of(const Kernel& kernel);
/// The axes whose index the body reads.
AxisMask indexed_axes(const Kernel& kernel);
/// The live reductions that pass `pass` finishes.
InstList reductions_of(const Kernel& kernel, const KernelFacts& facts, int pass);
/// What pass `pass` computes at each point, arguments first: what its reductions, and in the last one the inner stores,
/// stand on.
InstList inner_of(const Kernel& kernel, const KernelFacts& facts, int pass);

/// i64 occurs only as indices, as what folds choose among them, and as numbers that do not vary along `vector_axis` and
/// are compared with indices: i32 does for all of them where axes are shorter than 2^31.
bool can_narrow_index(const Kernel& kernel, int vector_axis);

/// The number that a stride's class fixes, else the one given.
constexpr std::int64_t known_stride(StrideClass known, std::int64_t given) {
  switch (known) {
    case StrideClass::zero: return 0;
    case StrideClass::unit: return 1;
    case StrideClass::any: return given;
    case StrideClass::backward: return -1;
  }
  return given;
}
/// The stride of an access along an axis, in elements.
inline std::int64_t stride_of(const Kernel& kernel, const BoundGeometry& geometry, std::size_t access, int axis) {
  return known_stride(kernel.accesses[access].stride[as_index(axis)], geometry.accesses[access].stride[as_index(axis)]);
}
/// Do all accesses run on from the end of `inner`, which has `inner_extent` points, into the next point of `outer`?
bool runs_on(const Kernel& kernel, const BoundGeometry& geometry, int outer, int inner, std::int64_t inner_extent);

/// Neighbouring axes as one.
struct MergedAxis {
  int axis = 0;  // the innermost of them, whose strides are those of the whole
  std::int64_t extent = 1;
  int outermost = 0;
};
using MergedAxes = SmallVector<MergedAxis, max_axes>;
/// The axes of one role, outermost first: without those of one point, and with neighbours merged where all accesses
/// allow it and no index of them is read. `apart` (axes) stay as they are.
MergedAxes merge_axes(const Kernel& kernel, const BoundGeometry& geometry, AxisRole role, AxisMask apart);

SINTER_NAMESPACE_END
