// Expression slots on top of the machinery of compiled functions.
#pragma once

#include <sinter/jit/lazy/eval.hpp>

#include <sinter/base/fork.hpp>
#include <sinter/jit/call/function.hpp>
#include <sinter/jit/debug/nans.hpp>
#include <sinter/jit/trace/trace.hpp>

#include <memory>
#include <mutex>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace jit::jit_detail {

/// The slots of all types of expressions: made once each, and never destroyed.
struct ExpressionSlots {
  ForkSafeMutex mutex;
  std::vector<std::shared_ptr<FunctionState>> list;
};

SINTER_NOINLINE inline FunctionState& make_slot(std::atomic<FunctionState*>& place) {
  auto& slots = process_object<ExpressionSlots>();
  std::scoped_lock lock(slots.mutex);
  FunctionState* known = place.load(std::memory_order_relaxed);
  if (known != nullptr) return *known;
  slots.list.push_back(
      std::make_shared<FunctionState>(Options{.recompile_limit = 64}, Location{}, FunctionState::Serves::expression));
  place.store(slots.list.back().get(), std::memory_order_release);
  return *slots.list.back();
}

SINTER_DECL Tensor run_expression(std::atomic<FunctionState*>& place, const ExprStructure& structure,
                                  std::span<Leaf> leaves, Location where) {
  FunctionState* known = place.load(std::memory_order_acquire);
  FunctionState& slot = SINTER_LIKELY(known != nullptr) ? *known : make_slot(place);
  ArgList list;
  for (Leaf& leaf : leaves) {
    if (!leaf.value) list.number(leaf);
    else if (leaf.value->trace == 0 || leaf.value->is_ready()) list.value(leaf.value.get());
    else
      throw TraceError(structure.steps.back().op->name, "a traced tensor is used outside the trace it belongs to",
                       where, "return it from the compiled function instead of storing it in a captured variable");
  }
  auto trace = [&](FunctionTrace& recorder) {
    std::vector<Leaf> placeholders;
    for (std::size_t i = 0; i < leaves.size(); ++i) placeholders.emplace_back(recorder.next_leaf());
    TracedResult result;
    result.values.push_back(sinter::record_expression(structure, placeholders, where));
    return result;
  };
  SmallVector<std::int64_t, 8> symbols;
  // NaNs are looked for in what is evaluated from recorded operations.
  const Entry* entry =
      SINTER_UNLIKELY(looks_for_nans()) ? nullptr : slot.entry_for(list, TraceFunction::of(trace), symbols);
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
