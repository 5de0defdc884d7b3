// Counting.
#pragma once

#include <sinter/jit/plan_cost.hpp>

#include <sinter/kernel/cost.hpp>
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

inline Cost cost_of_kernel(const PlanStep& step, std::span<const std::int64_t> symbols) {
  const KernelCost counted = cost_of(step.kernel, bind(step.geometry, symbols));
  return {counted.flops, counted.special, counted.bytes_read, counted.bytes_written, false};
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

SINTER_DECL std::vector<Cost> costs_of(const Plan& plan, std::span<const std::int64_t> symbols) {
  std::vector<Cost> costs;
  for (const PlanStep& step : plan.steps())
    costs.push_back(step.host ? jit_detail::cost_of_host(*step.host, symbols)
                              : jit_detail::cost_of_kernel(step, symbols));
  return costs;
}

}  // namespace jit
SINTER_NAMESPACE_END
