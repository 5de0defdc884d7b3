// Expression slots on top of the machinery of compiled functions.
#pragma once

#include <sinter/jit/eval.hpp>

SINTER_NAMESPACE_BEGIN
namespace jit::jit_detail {

SINTER_DECL Tensor run_expression(FunctionState& slot, const ExprStructure& structure, std::span<Leaf> leaves, Location where) {
  ArgList list;
  for (Leaf& leaf : leaves) {
    if (!leaf.value) list.number(leaf);
    else if (leaf.value->trace == 0 || leaf.value->is_ready()) list.value(leaf.value.get());
    else throw TraceError(structure.steps.back().op->name, "a traced tensor is used outside the trace it belongs to", where,
                          "return it from the compiled function instead of storing it in a captured variable");
  }
  auto trace = [&](FunctionTrace& recorder) {
    std::vector<Leaf> stand_ins;
    for (std::size_t i = 0; i < leaves.size(); ++i) stand_ins.emplace_back(recorder.next_leaf());
    TracedResult result;
    result.values.push_back(sinter::record_expression(structure, stand_ins, where));
    return result;
  };
  SmallVector<std::int64_t, 8> symbols;
  const Entry* entry = slot.entry_for(list, TraceFunction::of(trace), symbols);
  Ref<TensorImpl> value;
  if (entry == nullptr) {
    value = sinter::record_expression(structure, leaves, where);
    TensorImpl* raw = value.get();
    evaluate({&raw, 1}, structure.steps.back().op->name, where);
  } else {
    slot.run(*entry, list, symbols, TraceFunction::of(trace), &value);
  }
  return Tensor(std::move(value));
}

}  // namespace jit::jit_detail
SINTER_NAMESPACE_END
