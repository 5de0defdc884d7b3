// See the header.
#pragma once

#include <sinter/kernel/kernel_simplify.hpp>

#include <sinter/base/index.hpp>

#include <utility>

SINTER_NAMESPACE_BEGIN

namespace kernel_detail {
inline std::vector<bool> live_instructions(const std::vector<Inst>& body, const std::vector<Store>& stores) {
  std::vector<bool> live(body.size());
  for (const Store& store : stores) {
    live[store.value] = true;
    if (store.index != no_inst) live[store.index] = true;
  }
  for (std::size_t i = body.size(); i-- > 0;)
    if (live[i])
      for (int k = 0; k < arity(body[i].prim); ++k) live[body[i].args[as_index(k)]] = true;
  return live;
}
}  // namespace kernel_detail

SINTER_DECL void remove_dead(std::vector<Inst>& body, std::vector<Store>& stores) {
  const std::vector<bool> live = kernel_detail::live_instructions(body, stores);
  std::vector<InstId> number(body.size(), no_inst);
  std::size_t kept = 0;
  for (std::size_t i = 0; i < body.size(); ++i) {
    if (!live[i]) continue;
    Inst inst = body[i];
    for (int k = 0; k < arity(inst.prim); ++k) inst.args[as_index(k)] = number[inst.args[as_index(k)]];
    number[i] = static_cast<InstId>(kept);
    body[kept++] = inst;
  }
  body.resize(kept);
  for (Store& store : stores) {
    store.value = number[store.value];
    if (store.index != no_inst) store.index = number[store.index];
  }
}

SINTER_DECL void remove_unused_folds(std::vector<Inst>& body, std::vector<ScalarFold>& folds) {
  std::vector<ScalarFold> used;
  std::vector<int> number(folds.size(), -1);
  for (Inst& inst : body) {
    if (inst.prim != Prim::fold) continue;
    int& n = number[inst.access];
    if (n < 0) {
      n = static_cast<int>(used.size());
      used.push_back(std::move(folds[inst.access]));
    }
    inst.access = static_cast<std::uint16_t>(n);
  }
  folds = std::move(used);
}

SINTER_NAMESPACE_END
