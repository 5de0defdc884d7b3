// Splits a kernel's body into passes and picks the function of each instruction.
#pragma once

#include <sinter/backend/reference/program.hpp>

#include <sinter/base/error.hpp>
#include <sinter/base/index.hpp>

SINTER_NAMESPACE_BEGIN
namespace reference_detail {

inline Step step_of(const Kernel& kernel, const Inst& inst) {
  if (inst.prim == Prim::immediate || inst.prim == Prim::index || inst.prim == Prim::fold || reads_memory(inst.prim))
    return {};
  const DType from = kernel.body[inst.args[0]].dtype;
  Step step;
  visit_computed(inst.prim == Prim::select ? inst.dtype : from, [&](auto tag) {
    using T = Stored<decltype(tag)>;
    if (is_reduction(inst.prim)) {
      step.reduce_lanes = reduce_of<T, true>(inst.prim);
      step.reduce_all = reduce_of<T, false>(inst.prim);
    } else if (is_scan(inst.prim)) {
      step.scan_lanes = scan_of<T, true>(inst);
      step.scan_all = scan_of<T, false>(inst);
    } else if (inst.prim == Prim::convert) {
      visit_computed(inst.dtype, [&](auto to) { step.map = map_convert<Stored<decltype(to)>, T>; });
    } else if (inst.prim == Prim::bitcast) {
      visit_computed(inst.dtype, [&](auto to) {
        if constexpr (sizeof(Stored<decltype(to)>) == sizeof(T)) step.map = map_bitcast<Stored<decltype(to)>, T>;
      });
    } else {
      step.map = map_of<T>(inst.prim);
    }
  });
  if (step.map == nullptr && step.reduce_all == nullptr && step.scan_all == nullptr)
    throw InternalError("kernel: " + std::string(name(inst.prim)) + " of " + std::string(name(from)));
  return step;
}

SINTER_DECL Program make_program(const Kernel& kernel) {
  verify(kernel);
  Program program;
  program.kernel = kernel;
  for (const Inst& inst : kernel.body) program.steps.push_back(step_of(kernel, inst));
  program.facts = facts_of(kernel);
  const KernelFacts& facts = program.facts;
  program.passes.resize(as_index(facts.depth) + 1);
  for (std::size_t i = 0; i < kernel.body.size(); ++i) {
    const auto id = static_cast<InstId>(i);
    if (facts.values[i].is_live && !facts.is_inner(id) && kernel.body[i].prim != Prim::immediate)
      program.passes[facts.values[i].depth].outer.push_back(id);
  }
  for (const std::uint16_t s : facts.inner_stores) program.inner_stores.push_back(kernel.stores[s]);
  for (const std::uint16_t s : facts.outer_stores) program.outer_stores.push_back(kernel.stores[s]);
  for (int pass = 0; pass <= facts.depth; ++pass) {
    Pass& p = program.passes[as_index(pass)];
    p.reductions = reductions_of(kernel, facts, pass);
    p.inner = inner_of(kernel, facts, pass);
  }
  return program;
}

SINTER_DECL std::string Program::text() const {
  std::string text = kernel.text();
  const auto list = [&](const char* title, const auto& ids) {
    if (ids.empty()) return;
    text += std::string(title);
    for (InstId id : ids) text += " %" + std::to_string(id);
  };
  for (std::size_t p = 0; p < passes.size(); ++p) {
    text += "pass " + std::to_string(p) + ":";
    list(" outer", passes[p].outer);
    list(" inner", passes[p].inner);
    list(" reduce", passes[p].reductions);
    text += "\n";
  }
  return text;
}

}  // namespace reference_detail
SINTER_NAMESPACE_END
