// Splits a kernel's body into passes and picks the function of each instruction.
#pragma once

#include <sinter/backend/reference/program.hpp>

#include <sinter/base/error.hpp>
#include <sinter/base/index.hpp>

#include <algorithm>

SINTER_NAMESPACE_BEGIN
namespace reference_detail {

/// What decides the place of each instruction.
struct BodyFacts {
  std::vector<bool> is_inner;  // varies over a reduced axis
  std::vector<bool> is_live;   // some store needs it
  std::vector<int> depth;      // reductions on the way to it, itself included: computable from pass `depth` on
};

inline BodyFacts body_facts(const Kernel& kernel) {
  const std::size_t count = kernel.body.size();
  BodyFacts facts{std::vector<bool>(count), std::vector<bool>(count), std::vector<int>(count)};
  const std::vector<std::uint32_t> varying = varying_axes(kernel);
  std::uint32_t reduced = 0;
  for (int a = 0; a < kernel.rank(); ++a)
    if (kernel.is_reduced(a)) reduced |= 1u << a;
  for (std::size_t i = 0; i < count; ++i) {
    const Inst& inst = kernel.body[i];
    facts.is_inner[i] = (varying[i] & reduced) != 0;
    for (int k = 0; k < arity(inst.prim); ++k)
      facts.depth[i] = std::max(facts.depth[i], facts.depth[inst.args[as_index(k)]]);
    facts.depth[i] += is_reduction(inst.prim);
  }
  for (const Store& store : kernel.stores) facts.is_live[store.value] = true;
  for (std::size_t i = count; i-- > 0;)
    if (facts.is_live[i])
      for (int k = 0; k < arity(kernel.body[i].prim); ++k) facts.is_live[kernel.body[i].args[as_index(k)]] = true;
  return facts;
}

inline Step step_of(const Kernel& kernel, const Inst& inst) {
  if (inst.prim == Prim::immediate || inst.prim == Prim::load || inst.prim == Prim::gather || inst.prim == Prim::index)
    return {};
  const DType from = kernel.body[inst.args[0]].dtype;
  Step step;
  visit_dtype(inst.prim == Prim::select ? inst.dtype : from, [&](auto tag) {
    using T = Stored<decltype(tag)>;
    if (is_reduction(inst.prim)) {
      step.reduce_lanes = reduce_of<T, true>(inst.prim);
      step.reduce_all = reduce_of<T, false>(inst.prim);
    } else if (inst.prim == Prim::convert) {
      visit_dtype(inst.dtype, [&](auto to) { step.map = map_convert<Stored<decltype(to)>, T>; });
    } else {
      step.map = map_of<T>(inst.prim);
    }
  });
  if (step.map == nullptr && step.reduce_all == nullptr)
    throw InternalError("kernel: " + std::string(name(inst.prim)) + " of " + std::string(name(from)));
  return step;
}

/// Does a store happen at each point of the reduced axes? It does if its value or its address varies over them.
inline bool is_inner_store(const Kernel& kernel, const BodyFacts& facts, const Store& store) {
  if (facts.is_inner[store.value]) return true;
  for (int a = 0; a < kernel.rank(); ++a)
    if (kernel.is_reduced(a) && kernel.accesses[store.access].stride[as_index(a)] != StrideClass::zero) return true;
  return false;
}

/// What pass `number` computes at each point: the inner instructions that its reductions (and stores) stand on.
inline std::vector<InstId> inner_instructions(const Program& program, const BodyFacts& facts, std::size_t number) {
  const Kernel& kernel = program.kernel;
  std::vector<bool> needed(kernel.body.size());
  for (InstId reduction : program.passes[number].reductions)
    for (int k = 0; k < arity(kernel.body[reduction].prim); ++k)
      needed[kernel.body[reduction].args[as_index(k)]] = true;
  if (number + 1 == program.passes.size())
    for (const Store& store : program.inner_stores) needed[store.value] = true;
  std::vector<InstId> list;
  for (std::size_t i = kernel.body.size(); i-- > 0;) {
    if (!needed[i] || !facts.is_inner[i]) continue;
    list.push_back(static_cast<InstId>(i));
    for (int k = 0; k < arity(kernel.body[i].prim); ++k) needed[kernel.body[i].args[as_index(k)]] = true;
  }
  std::reverse(list.begin(), list.end());
  return list;
}

SINTER_DECL Program make_program(const Kernel& kernel) {
  verify(kernel);
  Program program;
  program.kernel = kernel;
  for (const Inst& inst : kernel.body) program.steps.push_back(step_of(kernel, inst));
  const BodyFacts facts = body_facts(kernel);
  int deepest = 0;
  for (std::size_t i = 0; i < kernel.body.size(); ++i)
    if (facts.is_live[i]) deepest = std::max(deepest, facts.depth[i]);
  program.passes.resize(as_index(deepest) + 1);
  for (std::size_t i = 0; i < kernel.body.size(); ++i) {
    if (!facts.is_live[i]) continue;
    const auto depth = as_index(facts.depth[i]);
    if (is_reduction(kernel.body[i].prim)) program.passes[depth - 1].reductions.push_back(static_cast<InstId>(i));
    if (!facts.is_inner[i] && kernel.body[i].prim != Prim::immediate)
      program.passes[depth].outer.push_back(static_cast<InstId>(i));
  }
  for (const Store& store : kernel.stores)
    (is_inner_store(kernel, facts, store) ? program.inner_stores : program.outer_stores).push_back(store);
  for (std::size_t p = 0; p < program.passes.size(); ++p)
    program.passes[p].inner = inner_instructions(program, facts, p);
  return program;
}

SINTER_DECL std::string Program::text() const {
  std::string text = kernel.text();
  const auto list = [&](const char* title, const std::vector<InstId>& ids) {
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
