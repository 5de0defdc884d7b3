// The kernels that a scatter is made of: its index and its value by themselves, and the update of one row. Knows
// kernels and the loop generator.
#pragma once

#include <sinter/backend/x86/nest/loop.hpp>
#include <sinter/base/config.hpp>
#include <sinter/kernel/facts.hpp>
#include <sinter/kernel/kernel.hpp>
#include <sinter/kernel/kernel_simplify.hpp>

#include <algorithm>
#include <memory>
#include <string>

SINTER_NAMESPACE_BEGIN
namespace x86 {

/// A value of the kernel that is read where it lies (no code), or computed by a kernel of its own into a tile: rows of
/// the row axis, columns of the vector axis.
struct ScatterPart {
  DType dtype = DType::f32;
  AxisMask axes = 0;         // along which it varies
  std::uint16_t access = 0;  // where it lies; of `kernel`: the tile
  Kernel kernel;
  std::shared_ptr<const LoopCode> code;
  std::int64_t wrap = 0;  // of an index that is read: what negative ones count from, see wrapped_load()
};

/// What is the same for all sizes.
struct ScatterShape {
  Kernel kernel;
  Store store;
  bool is_by_rows = false;  // the index is one for all of the vector axis, along which places differ
  ScatterPart index;
  ScatterPart value;         // by elements; by rows, too, where it is read as it lies
  ScatterPart update;        // by rows: the loop that combines a row; `access` is the target's
  bool reads_value = false;  // of the rows
  bool is_free(int axis) const { return kernel.accesses[store.access].stride[as_index(axis)] != StrideClass::zero; }
};

namespace x86_detail {

/// A pointwise kernel that stores value `id` into a tile, which becomes its last access.
inline Kernel tile_kernel(const Kernel& scatter, InstId id) {
  Kernel kernel = scatter;
  kernel.kind = KernelKind::pointwise;
  for (sinter::Operand& operand : kernel.operands) operand.written = false;
  Access tile;
  tile.operand = static_cast<std::uint16_t>(kernel.operands.size());
  kernel.operands.push_back({scatter.body[id].dtype, true});
  tile.stride[as_index(scatter.rank() - 1)] = StrideClass::unit;
  if (scatter.rank() > 1) tile.stride[as_index(scatter.rank() - 2)] = StrideClass::any;
  kernel.stores = {{.access = scatter.stores[0].access, .value = id}};
  remove_dead(kernel.body, kernel.stores);
  // The access of what is changed is free, unless it is read: a kernel that has as many as may be needs no further one.
  const bool is_read = std::any_of(kernel.body.begin(), kernel.body.end(), [&](const Inst& inst) {
    return reads_memory(inst.prim) && inst.access == kernel.stores[0].access;
  });
  if (is_read) {
    kernel.stores[0].access = static_cast<std::uint16_t>(kernel.accesses.size());
    kernel.accesses.push_back(tile);
  } else {
    kernel.accesses[kernel.stores[0].access] = tile;
  }
  return kernel;
}

/// The primitive that combines; for bool_, sums are `or` and products `and`.
inline Prim prim_of(Combine combine, DType dtype) {
  const bool is_bool = dtype == DType::bool_;
  switch (combine) {
    case Combine::none: break;
    case Combine::add: return is_bool ? Prim::or_ : Prim::add;
    case Combine::mul: return is_bool ? Prim::and_ : Prim::mul;
    case Combine::min: return is_bool ? Prim::and_ : Prim::min;
    case Combine::max: return is_bool ? Prim::or_ : Prim::max;
  }
  return Prim::or_;
}

/// An index as Python writes it, i + n where i < 0 and i + n >= 0, else i, of an i that is read.
struct WrappedLoad {
  InstId load = no_inst;  // no_inst: it is something else
  std::int64_t extent = 0;
};
inline WrappedLoad wrapped_load(const std::vector<Inst>& body, InstId id) {
  const auto is = [&](InstId at, Prim prim) { return at != no_inst && body[at].prim == prim; };
  const auto is_number = [&](InstId at) { return is(at, Prim::immediate); };
  const auto is_zero = [&](InstId at) { return is_number(at) && body[at].integer() == 0; };
  if (!is(id, Prim::select) || !is(body[id].args[0], Prim::and_)) return {};
  const auto [condition, sum, load] = body[id].args;
  if (!is(load, Prim::load) || !is(sum, Prim::add)) return {};
  const auto [below, from_zero, none] = body[condition].args;
  if (!is(below, Prim::lt) || body[below].args[0] != load || !is_zero(body[below].args[1])) return {};
  if (!is(from_zero, Prim::le) || !is_zero(body[from_zero].args[0]) || body[from_zero].args[1] != sum) return {};
  const InstId extent = body[sum].args[1];
  if (body[sum].args[0] != load || !is_number(extent) || body[extent].integer() < 0) return {};
  return {load, body[extent].integer()};
}

/// A pointwise kernel that does what the scatter does, at the target's place for index 0.
inline Kernel update_kernel(const Kernel& scatter) {
  Kernel kernel = scatter;
  kernel.kind = KernelKind::pointwise;
  Store& store = kernel.stores[0];
  const DType dtype = kernel.body[store.value].dtype;
  if (store.combine != Combine::none) {
    const auto old = static_cast<InstId>(kernel.body.size());
    kernel.body.push_back({.prim = Prim::load, .dtype = dtype, .access = store.access});
    kernel.body.push_back({.prim = prim_of(store.combine, dtype), .dtype = dtype, .args = {old, store.value, no_inst}});
    store.value = static_cast<InstId>(old + 1);
  }
  store.index = no_inst;
  store.combine = Combine::none;
  remove_dead(kernel.body, kernel.stores);
  return kernel;
}

}  // namespace x86_detail
}  // namespace x86
SINTER_NAMESPACE_END
