// Counting.
#pragma once

#include <sinter/kernel/cost.hpp>

#include <sinter/base/index.hpp>
#include <sinter/kernel/facts.hpp>

#include <algorithm>
#include <cstdlib>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace kernel_detail {

/// What one instruction does at each point.
struct PrimCost {
  int flops = 0, special = 0;
};
inline PrimCost cost_of_inst(const Inst& inst) {
  if (!is_floating(inst.dtype) || reads_memory(inst.prim) || is_comparison(inst.prim)) return {};
  switch (inst.prim) {
    case Prim::immediate:
    case Prim::index:
    case Prim::argument:
    case Prim::select:
    case Prim::convert:
    case Prim::bitcast:
    case Prim::random_bits:
    case Prim::fold: return {};
    case Prim::fma:
    case Prim::contract: return {.flops = 2};
    case Prim::sqrt:
    case Prim::rsqrt:
    case Prim::exp:
    case Prim::log:
    case Prim::sin:
    case Prim::cos:
    case Prim::tanh:
    case Prim::erf:
    case Prim::gelu:
    case Prim::gelu_slope:
    case Prim::gauss:
    case Prim::pow: return {.special = 1};
    default: return {.flops = 1};
  }
}

inline double points_of(const Kernel& kernel, const BoundGeometry& geometry, AxisMask axes) {
  double points = 1;
  for (int a = 0; a < kernel.rank(); ++a)
    if ((axes >> a & 1) != 0) points *= static_cast<double>(geometry.extent[as_index(a)]);
  return points;
}

/// Elements that an access touches as `index_axes` are walked: the places of windows overlap, and elements count once.
inline double elements_of(const Kernel& kernel, const BoundGeometry& geometry, std::size_t access,
                          AxisMask index_axes) {
  double points = 1, span = 1;
  for (int a = 0; a < kernel.rank(); ++a) {
    const std::int64_t extent = geometry.extent[as_index(a)], stride = stride_of(kernel, geometry, access, a);
    if (stride == 0 && (index_axes >> a & 1) == 0) continue;
    points *= static_cast<double>(extent);
    span += static_cast<double>(extent - 1) * static_cast<double>(std::abs(stride));
  }
  return index_axes != 0 ? points : std::min(points, span);
}

inline void add_memory(KernelCost& cost, const Kernel& kernel, const KernelFacts& facts,
                       const BoundGeometry& geometry) {
  std::vector<double> read(kernel.operands.size(), 0), written(kernel.operands.size(), 0);
  const auto note = [&](std::vector<double>& of, std::size_t access, AxisMask index_axes) {
    double& elements = of[kernel.accesses[access].operand];
    elements = std::max(elements, elements_of(kernel, geometry, access, index_axes));
  };
  for (InstId id = 0; id < kernel.body.size(); ++id) {
    const Inst& inst = kernel.body[id];
    if (!reads_memory(inst.prim) || !facts.values[id].is_live) continue;
    note(read, inst.access, inst.prim == Prim::gather ? facts.values[inst.args[0]].axes : AxisMask{0});
  }
  for (const Store& store : kernel.stores) {
    const AxisMask index_axes = store.index == no_inst ? AxisMask{0} : facts.values[store.index].axes;
    note(written, store.access, index_axes);
    if (store.combine != Combine::none) note(read, store.access, index_axes);
  }
  for (std::size_t i = 0; i < kernel.operands.size(); ++i) {
    const auto size = static_cast<double>(size_of(kernel.operands[i].dtype));
    cost.bytes_read += read[i] * size;
    cost.bytes_written += written[i] * size;
  }
}

/// The axes along which an instruction is done: of a reduction those of what it takes in.
inline AxisMask walked_axes(const Kernel& kernel, const KernelFacts& facts, InstId id) {
  const Inst& inst = kernel.body[id];
  AxisMask axes = facts.values[id].axes;
  if (!is_reduction(inst.prim)) return axes;
  axes = static_cast<AxisMask>(axes | facts.reduced);
  for (int k = 0; k < argument_count(kernel, inst); ++k)
    axes = static_cast<AxisMask>(axes | facts.values[inst.args[as_index(k)]].axes);
  return axes;
}

}  // namespace kernel_detail

SINTER_DECL KernelCost cost_of(const Kernel& kernel, const BoundGeometry& geometry) {
  using namespace kernel_detail;
  KernelCost cost;
  for (int a = 0; a < kernel.rank(); ++a)
    if (!kernel.is_reduced(a) && geometry.extent[as_index(a)] == 0) return cost;
  const KernelFacts facts = facts_of(kernel);
  add_memory(cost, kernel, facts, geometry);
  for (InstId id = 0; id < kernel.body.size(); ++id) {
    const Inst& inst = kernel.body[id];
    if (!facts.values[id].is_live) continue;
    const double points = points_of(kernel, geometry, walked_axes(kernel, facts, id));
    const auto add = [&](const PrimCost& each) {
      cost.flops += points * each.flops;
      cost.special += points * each.special;
    };
    add(cost_of_inst(inst));
    if (inst.prim == Prim::fold && inst.bits == 0)  // the results of one fold are computed together
      for (const Inst& step : kernel.folds[inst.access].step.body) add(cost_of_inst(step));
  }
  return cost;
}

SINTER_NAMESPACE_END
