// Counting.
#pragma once

#include <sinter/jit/plan_cost.hpp>

#include <sinter/base/index.hpp>
#include <sinter/runtime/plan.hpp>

#include <algorithm>
#include <cstdio>

SINTER_NAMESPACE_BEGIN
namespace jit {

SINTER_DECL double Cost::seconds(const MachineRates& rates) const {
  return std::max(flops / rates.flops + special / rates.special, bytes() / rates.bytes);
}

SINTER_DECL Cost& Cost::operator+=(const Cost& other) {
  flops += other.flops;
  special += other.special;
  bytes_read += other.bytes_read;
  bytes_written += other.bytes_written;
  is_incomplete |= other.is_incomplete;
  return *this;
}

SINTER_DECL std::string Cost::text() const {
  char text[200];
  std::snprintf(text, sizeof text, "%.0f flops, %.0f special, %.0f bytes read, %.0f written, %.2f operations per byte",
                flops, special, bytes_read, bytes_written, intensity());
  return text + std::string(is_incomplete ? ", some of it not counted" : "");
}

namespace jit_detail {

/// What one instruction does at each point.
struct PrimCost {
  int flops = 0, special = 0;
};
inline PrimCost cost_of_prim(Prim prim) {
  switch (prim) {
    case Prim::immediate:
    case Prim::load:
    case Prim::gather:
    case Prim::guarded_load:
    case Prim::index:
    case Prim::argument:
    case Prim::and_:
    case Prim::or_:
    case Prim::xor_:
    case Prim::not_:
    case Prim::shift_left:
    case Prim::shift_right:
    case Prim::select:
    case Prim::convert:
    case Prim::bitcast:
    case Prim::fold: return {};
    case Prim::neg:
    case Prim::abs:
    case Prim::add:
    case Prim::sub:
    case Prim::mul:
    case Prim::div:
    case Prim::rem:
    case Prim::min:
    case Prim::max:
    case Prim::eq:
    case Prim::ne:
    case Prim::lt:
    case Prim::le:
    case Prim::floor:
    case Prim::ceil:
    case Prim::round:
    case Prim::trunc:
    case Prim::reduce_add:
    case Prim::reduce_mul:
    case Prim::reduce_min:
    case Prim::reduce_max:
    case Prim::scan_add:
    case Prim::scan_mul:
    case Prim::scan_min:
    case Prim::scan_max: return {.flops = 1};
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
    case Prim::pow:
    case Prim::random_bits: return {.special = 1};
  }
  return {};
}

inline double points_of(std::uint32_t axes, const Kernel& kernel, const BoundGeometry& geometry) {
  double points = 1;
  for (int a = 0; a < kernel.rank(); ++a)
    if ((axes >> a & 1) != 0) points *= static_cast<double>(geometry.extent[as_index(a)]);
  return points;
}

inline void add_instructions(Cost& cost, const Kernel& kernel, const BoundGeometry& geometry) {
  const std::vector<std::uint32_t> varying = varying_axes(kernel);
  for (std::size_t i = 0; i < kernel.body.size(); ++i) {
    const Inst& inst = kernel.body[i];
    std::uint32_t axes = varying[i];  // of a reduction: those of what it takes in
    for (int k = 0; k < argument_count(kernel, inst); ++k) axes |= varying[inst.args[as_index(k)]];
    const double points = points_of(axes, kernel, geometry);
    const auto add = [&](Prim prim) {
      cost.flops += points * cost_of_prim(prim).flops;
      cost.special += points * cost_of_prim(prim).special;
    };
    add(inst.prim);
    if (inst.prim == Prim::fold && inst.bits == 0)  // its results are of one fold
      for (const Inst& step : kernel.folds[inst.access].step.body) add(step.prim);
  }
}

/// Elements that an access touches, not more than once each.
inline double elements_of(std::size_t access, std::uint32_t index_axes, const Kernel& kernel,
                          const BoundGeometry& geometry) {
  std::uint32_t axes = index_axes;
  for (int a = 0; a < kernel.rank(); ++a)
    if (geometry.accesses[access].stride[as_index(a)] != 0) axes |= 1u << a;
  return points_of(axes, kernel, geometry);
}

inline void add_memory(Cost& cost, const Kernel& kernel, const BoundGeometry& geometry) {
  const std::vector<std::uint32_t> varying = varying_axes(kernel);
  std::vector<double> reads(kernel.operands.size()), writes(kernel.operands.size());
  for (const Inst& inst : kernel.body) {
    if (!reads_memory(inst.prim)) continue;
    double& most = reads[kernel.accesses[inst.access].operand];
    const std::uint32_t index = inst.prim == Prim::gather ? varying[inst.args[0]] : 0;
    most = std::max(most, elements_of(inst.access, index, kernel, geometry));
  }
  for (const Store& store : kernel.stores) {
    double& most = writes[kernel.accesses[store.access].operand];
    const std::uint32_t index = store.index != no_inst ? varying[store.index] : 0;
    most = std::max(most, elements_of(store.access, index, kernel, geometry));
  }
  for (std::size_t i = 0; i < kernel.operands.size(); ++i) {
    const auto size = static_cast<double>(size_of(kernel.operands[i].dtype));
    cost.bytes_read += reads[i] * size;
    cost.bytes_written += writes[i] * size;
  }
}

inline Cost cost_of_host(const HostOp& host, std::span<const std::int64_t> symbols) {
  Cost cost;
  for (const auto& body : host.bodies)
    for (const Cost& step : costs_of(*body, symbols)) cost += step;
  if (host.is_call) return cost;
  cost.is_incomplete = true;
  for (std::size_t i = 0; i < host.types.size() && host.bodies.empty(); ++i) {
    double bytes = static_cast<double>(size_of(host.types[i].dtype));
    for (const Dim& extent : host.types[i].shape) bytes *= static_cast<double>(extent.evaluate(symbols));
    (i < host.inputs ? cost.bytes_read : cost.bytes_written) += bytes;
  }
  return cost;
}

}  // namespace jit_detail

SINTER_DECL Cost cost_of(const Kernel& kernel, const BoundGeometry& geometry) {
  Cost cost;
  jit_detail::add_instructions(cost, kernel, geometry);
  jit_detail::add_memory(cost, kernel, geometry);
  return cost;
}

SINTER_DECL std::vector<Cost> costs_of(const Plan& plan, std::span<const std::int64_t> symbols) {
  std::vector<Cost> costs;
  for (const PlanStep& step : plan.steps())
    costs.push_back(step.host ? jit_detail::cost_of_host(*step.host, symbols)
                              : cost_of(step.kernel, bind(step.geometry, symbols)));
  return costs;
}

}  // namespace jit
SINTER_NAMESPACE_END
