// Facts of kernels.
#pragma once

#include <sinter/kernel/facts.hpp>

#include <algorithm>
#include <limits>

SINTER_NAMESPACE_BEGIN

namespace kernel_detail {

inline ValueFacts value_facts(const Kernel& kernel, const KernelFacts& facts, const Inst& inst) {
  ValueFacts value;
  for (int k = 0; k < arity(inst.prim); ++k) {
    const ValueFacts& argument = facts.values[inst.args[as_index(k)]];
    value.axes |= argument.axes;
    value.depth = std::max(value.depth, argument.depth);
  }
  if (inst.prim == Prim::index) value.axes |= axis_bit(static_cast<int>(inst.bits));
  if (reads_memory(inst.prim)) {
    const Access& access = kernel.accesses[inst.access];
    for (int a = 0; a < kernel.rank(); ++a)
      if (access.stride[as_index(a)] != StrideClass::zero) value.axes |= axis_bit(a);
  }
  if (is_reduction(inst.prim)) {
    value.axes &= static_cast<AxisMask>(~facts.reduced);
    ++value.depth;
  }
  if (is_scan(inst.prim)) value.axes |= facts.reduced;
  return value;
}

inline bool walks_reduced_axes(const Kernel& kernel, const KernelFacts& facts, const Store& store) {
  if (facts.is_inner(store.value)) return true;
  for (int a = 0; a < kernel.rank(); ++a)
    if (kernel.is_reduced(a) && kernel.accesses[store.access].stride[as_index(a)] != StrideClass::zero) return true;
  return false;
}

}  // namespace kernel_detail

SINTER_DECL AxisMask indexed_axes(const Kernel& kernel) {
  AxisMask axes = 0;
  for (const Inst& inst : kernel.body)
    if (inst.prim == Prim::index) axes |= axis_bit(static_cast<int>(inst.bits));
  return axes;
}

SINTER_DECL KernelFacts facts_of(const Kernel& kernel) {
  KernelFacts facts;
  facts.indexed = indexed_axes(kernel);
  for (int a = 0; a < kernel.rank(); ++a)
    if (kernel.is_reduced(a)) facts.reduced |= axis_bit(a);
  for (const Inst& inst : kernel.body) {
    facts.has_gather |= inst.prim == Prim::gather;
    facts.has_guard |= inst.prim == Prim::guarded_load;
    facts.values.push_back(kernel_detail::value_facts(kernel, facts, inst));
  }
  for (std::size_t s = 0; s < kernel.stores.size(); ++s) {
    const Store& store = kernel.stores[s];
    facts.values[store.value].is_live = true;
    if (store.index != no_inst) facts.values[store.index].is_live = true;
    (kernel_detail::walks_reduced_axes(kernel, facts, store) ? facts.inner_stores : facts.outer_stores)
        .push_back(static_cast<std::uint16_t>(s));
  }
  for (std::size_t i = kernel.body.size(); i-- > 0;) {
    if (!facts.values[i].is_live) continue;
    facts.depth = std::max<int>(facts.depth, facts.values[i].depth);
    for (int k = 0; k < arity(kernel.body[i].prim); ++k) facts.values[kernel.body[i].args[as_index(k)]].is_live = true;
  }
  return facts;
}

SINTER_DECL std::vector<std::uint32_t> varying_axes(const Kernel& kernel) {
  std::vector<std::uint32_t> masks;
  for (const ValueFacts& value : facts_of(kernel).values) masks.push_back(value.axes);
  return masks;
}

SINTER_DECL InstList reductions_of(const Kernel& kernel, const KernelFacts& facts, int pass) {
  InstList list;
  for (std::size_t i = 0; i < kernel.body.size(); ++i)
    if (is_reduction(kernel.body[i].prim) && facts.values[i].is_live && facts.values[i].depth == pass + 1)
      list.push_back(static_cast<InstId>(i));
  return list;
}

SINTER_DECL InstList inner_of(const Kernel& kernel, const KernelFacts& facts, int pass) {
  SmallVector<bool, 256> needed(kernel.body.size());
  const auto need = [&](InstId id) {
    for (int k = 0; k < arity(kernel.body[id].prim); ++k) needed[kernel.body[id].args[as_index(k)]] = true;
  };
  for (const InstId reduction : reductions_of(kernel, facts, pass)) need(reduction);
  if (pass == facts.depth)
    for (const std::uint16_t s : facts.inner_stores) needed[kernel.stores[s].value] = true;
  InstList list;
  for (std::size_t i = kernel.body.size(); i-- > 0;) {
    if (!needed[i] || !facts.is_inner(static_cast<InstId>(i))) continue;
    list.push_back(static_cast<InstId>(i));
    need(static_cast<InstId>(i));
  }
  std::reverse(list.begin(), list.end());
  return list;
}

namespace kernel_detail {
/// An index, or a number of the whole row, which comparisons with an index take as i32 too.
inline bool is_narrow_i64(const Kernel& kernel, const Inst& inst, int vector_axis) {
  if (inst.prim == Prim::load && !is_plain_load(kernel, inst)) return false;
  if (inst.prim == Prim::load) return kernel.accesses[inst.access].stride[as_index(vector_axis)] == StrideClass::zero;
  return inst.prim == Prim::index || inst.prim == Prim::immediate || inst.prim == Prim::fold;
}

/// Are numbers of i64 in a fold's programs only chosen and compared? Then they are all among those that enter it, and
/// what it starts from.
inline bool keeps_narrow_i64(const ScalarFold& fold) {
  for (const ScalarProgram* program : {&fold.step, &fold.merge, &fold.finish})
    for (const Inst& inst : program->body) {
      const bool chooses = inst.prim == Prim::argument || inst.prim == Prim::select || is_comparison(inst.prim);
      bool is_wide = inst.dtype == DType::i64;
      for (int k = 0; k < arity(inst.prim); ++k) is_wide |= program->body[inst.args[as_index(k)]].dtype == DType::i64;
      if (inst.dtype == DType::f64 || (is_wide && !chooses)) return false;
    }
  for (const FoldState& state : fold.states)
    if (state.dtype == DType::i64 && state.bits > std::uint64_t{std::numeric_limits<std::int32_t>::max()}) return false;
  return true;
}

/// Does an instruction leave its arguments of i64, if it has any, as exact when they are i32?
inline bool takes_narrow_i64(const Kernel& kernel, const Inst& inst) {
  int wide = 0, indices = 0;
  for (int k = 0; k < arity(inst.prim); ++k) {
    const Inst& argument = kernel.body[inst.args[as_index(k)]];
    wide += argument.dtype == DType::i64;
    indices += argument.dtype == DType::i64 && (argument.prim == Prim::index || argument.prim == Prim::fold);
  }
  if (inst.prim == Prim::fold) return wide == indices && keeps_narrow_i64(kernel.folds[inst.access]);
  if (wide == 0) return true;
  const bool converts = inst.prim == Prim::convert && (inst.dtype == DType::f32 || inst.dtype == DType::i32);
  return (is_comparison(inst.prim) || converts) && indices != 0;
}
}  // namespace kernel_detail

SINTER_DECL bool can_narrow_index(const Kernel& kernel, int vector_axis) {
  bool has_index = false;
  for (const Inst& inst : kernel.body) {
    has_index |= inst.prim == Prim::index;
    if (inst.dtype == DType::f64 || !kernel_detail::takes_narrow_i64(kernel, inst)) return false;
    if (inst.dtype == DType::i64 && !kernel_detail::is_narrow_i64(kernel, inst, vector_axis)) return false;
  }
  for (const Store& store : kernel.stores)
    if (kernel.body[store.value].dtype == DType::i64 && kernel.body[store.value].prim != Prim::fold) return false;
  return has_index;
}

SINTER_DECL bool runs_on(const Kernel& kernel, const BoundGeometry& geometry, int outer, int inner,
                         std::int64_t inner_extent) {
  for (std::size_t i = 0; i < kernel.accesses.size(); ++i)
    if (stride_of(kernel, geometry, i, outer) != inner_extent * stride_of(kernel, geometry, i, inner)) return false;
  return true;
}

SINTER_DECL MergedAxes merge_axes(const Kernel& kernel, const BoundGeometry& geometry, AxisRole role, AxisMask apart) {
  MergedAxes merged;
  for (int a = 0; a < kernel.rank(); ++a) {
    if (kernel.axes[as_index(a)] != role) continue;
    const std::int64_t extent = geometry.extent[as_index(a)];
    const bool stays = (apart >> a & 1) != 0;
    if (extent == 1 && !stays) continue;
    const bool joins = !merged.empty() && !stays && (apart >> merged.back().axis & 1) == 0 &&
                       runs_on(kernel, geometry, merged.back().axis, a, extent);
    if (joins) merged.back() = {a, merged.back().extent * extent, merged.back().outermost};
    else merged.push_back({a, extent, a});
  }
  return merged;
}

SINTER_NAMESPACE_END
