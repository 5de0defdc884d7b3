// See the header.
#pragma once

#include <sinter/kernel/kernel_simplify.hpp>

#include <sinter/base/index.hpp>

SINTER_NAMESPACE_BEGIN

namespace kernel_detail {
inline std::vector<bool> live_instructions(const std::vector<Inst>& body, const std::vector<Store>& stores) {
  std::vector<bool> live(body.size());
  for (const Store& store : stores) live[store.value] = true;
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
  for (Store& store : stores) store.value = number[store.value];
}

SINTER_NAMESPACE_END
