// Slices of a trace, captured back to what is known and run by lazy plans.
#pragma once

#include <sinter/jit/trace/live_values.hpp>

#include <sinter/expr/capture.hpp>
#include <sinter/jit/call/specialise.hpp>
#include <sinter/jit/lazy/lazy.hpp>
#include <sinter/jit/lazy/lazy_run.hpp>
#include <sinter/ops/registry.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <unordered_set>
#include <utility>

SINTER_NAMESPACE_BEGIN
namespace jit {

SINTER_DECL void LiveValues::set(const Ref<TensorImpl>& value, Ref<TensorImpl> concrete) {
  known_[value.get()] = {value, std::move(concrete)};
}

SINTER_DECL void LiveValues::set_done(const Ref<TensorImpl>& token) {
  Ref<Storage> storage = Storage::allocate(1);
  *static_cast<bool*>(storage->data()) = true;
  set(token, TensorImpl::make_ready(token->type, std::move(storage)));
}

SINTER_DECL LiveValues::Used& LiveValues::hold(const Ref<TensorImpl>& value) {
  auto [place, is_new] = used_.try_emplace(value.get());
  if (!is_new) return place->second;
  place->second.value = value;
  if (value->trace != trace_ || value->pending_node == nullptr) return place->second;
  if (auto other = others_.find(value->pending_node); other != others_.end() && other->second[value->result])
    set(value, std::exchange(other->second[value->result], {}));
  if (auto ran = ran_.find(value->pending_node); ran != ran_.end()) ++ran->second;
  return place->second;
}

SINTER_DECL void LiveValues::keep(const PendingNode* pending_node, std::size_t result, Ref<TensorImpl> concrete) {
  std::vector<Ref<TensorImpl>>& others = others_[pending_node];
  others.resize(pending_node->results);
  others[result] = std::move(concrete);
}

SINTER_DECL void LiveValues::set_result(const Ref<TensorImpl>& value, std::size_t result, Ref<TensorImpl> concrete) {
  ran_.try_emplace(value->pending_node);
  hold(value);
  keep(value->pending_node, result, std::move(concrete));
}

/// The value in this call, or null if it is not known.
SINTER_DECL const Ref<TensorImpl>* LiveValues::find(const TensorImpl& value) const {
  if (auto known = known_.find(&value); known != known_.end()) return &known->second.concrete;
  if (value.trace != trace_ || value.pending_node == nullptr || value.pending_node->results == 1) return nullptr;
  auto other = others_.find(value.pending_node);
  return other != others_.end() && other->second[value.result] ? &other->second[value.result] : nullptr;
}

SINTER_DECL Ref<TensorImpl> LiveValues::at(const Ref<TensorImpl>& value) const {
  const Ref<TensorImpl>* known = find(*value);
  Ref<TensorImpl> concrete = known != nullptr ? *known : value;
  if (!concrete->is_ready()) {
    ensure(concrete->trace == 0, "a value of a trace was asked for before it was computed");
    TensorImpl* raw = concrete.get();
    evaluate({&raw, 1}, "compile", written_at(*raw));
  }
  return concrete;
}

/// Counts what the captured pending nodes refer to, each node once: it may give several of the values. Gives the
/// results that were not captured and may live: nothing leads to them from here, and who holds them will ask for them.
SINTER_DECL std::vector<LiveValues::PendingResult> LiveValues::note_run(const Capture& captured) {
  std::vector<PendingResult> several;
  for (std::size_t i = 0; i < captured.walked.size(); ++i) {
    const PendingNode* pending_node = captured.walked[i]->pending_node;
    if (!ran_.try_emplace(pending_node).second) continue;
    if (pending_node->results > 1) several.push_back({pending_node, 0, captured.walked_values[i]});
    for (const Leaf& leaf : pending_node->leaves())
      if (leaf.value) ++hold(leaf.value).references;
  }
  for (TensorImpl* value : captured.walked) hold(Ref<TensorImpl>::share(value));
  std::erase_if(several, [this](const PendingResult& first) {
    return first.pending_node->use_count() <= ran_[first.pending_node];
  });
  if (several.empty()) return several;
  std::vector<PendingResult> others;
  const std::set<Value> walked(captured.walked_values.begin(), captured.walked_values.end());
  for (const auto& [pending_node, first, value] : several) {
    const bool has_token = pending_node->op->kind == OpKind::effect;
    for (std::size_t result = 0; result + has_token < pending_node->results; ++result) {
      const Value other{value.node, static_cast<std::int32_t>(result)};
      if (!walked.contains(other)) others.push_back({pending_node, result, other});
    }
  }
  return others;
}

namespace live_values {
/// A statement without an operation is a block of elementwise ones.
inline bool is_effect(const PendingNode* node) {
  return node != nullptr && node->op != nullptr && node->op->kind == OpKind::effect;
}
}  // namespace live_values

SINTER_DECL void LiveValues::compute(std::span<const Ref<TensorImpl>> wanted, const Ref<TensorImpl>& last_effect,
                                     std::span<const std::int64_t> symbols) {
  std::vector<Ref<TensorImpl>> missing;
  std::unordered_set<const TensorImpl*> asked;
  for (const auto& value : wanted)
    if (!value->is_ready() && value->trace == trace_ && !knows(*value) && asked.insert(value.get()).second)
      missing.push_back(value);
  const bool has_effects = last_effect && !knows(*last_effect);
  if (missing.empty() && !has_effects) return;
  Capture captured = capture(missing, {},
                             {.trace = trace_,
                              .ready = ReadyLeaf::input,
                              .finds_kept = true,
                              .last_effect = has_effects ? last_effect : Ref<TensorImpl>(),
                              .lists_walked = true,
                              .is_leaf = [this](const TensorImpl& value) { return knows(value); }});
  for (std::size_t i = 0; i < captured.kept.size(); ++i) {
    missing.push_back(captured.kept[i]);
    captured.outputs.push_back(captured.kept_values[i]);
  }
  for (std::size_t i = 0; keeps_effects_ && i < captured.walked.size(); ++i) {
    TensorImpl& value = *captured.walked[i];
    const bool is_token = value.pending_node != nullptr && value.result + 1 == value.pending_node->results;
    if (!live_values::is_effect(value.pending_node) || is_token) continue;
    auto gives = Ref<TensorImpl>::share(&value);
    if (std::find(missing.begin(), missing.end(), gives) != missing.end()) continue;
    missing.push_back(std::move(gives));
    captured.outputs.push_back(captured.walked_values[i]);
  }
  const std::vector<PendingResult> others = note_run(captured);
  for (const PendingResult& other : others) captured.outputs.push_back(other.value);
  std::vector<Ref<TensorImpl>> inputs = std::move(captured.inputs);
  std::vector<Dim> numbers;
  for (std::int64_t symbol : symbols) numbers.emplace_back(symbol);
  Graph graph = substitute_symbols(share_symbols(captured.finish()), numbers, {});
  TracePause pause;
  for (Ref<TensorImpl>& input : inputs) input = at(input);
  std::vector<Ref<TensorImpl>> results = run_lazily(std::move(graph), inputs, precision_, fallback_);
  for (std::size_t i = 0; i < missing.size(); ++i) set(missing[i], std::move(results[i]));
  for (std::size_t i = 0; i < others.size(); ++i)
    keep(others[i].pending_node, others[i].result, std::move(results[missing.size() + i]));
  if (has_effects) set_done(last_effect);
  forget_unused();
}

/// Releases what only statements that have run refer to: a long loop holds no more than it would untraced.
SINTER_DECL void LiveValues::forget_unused() {
  std::erase_if(known_, [this](const auto& item) {
    const Known& known = item.second;
    if (known.traced->state.load(std::memory_order_relaxed) == TensorState::placeholder) return false;
    if (keeps_effects_ && live_values::is_effect(known.traced->pending_node)) return false;
    auto used = used_.find(item.first);
    const std::uint32_t ours = used != used_.end() ? used->second.references + 2 : 1;
    return known.traced->use_count() <= ours;
  });
  std::erase_if(others_, [this](const auto& item) {
    if (keeps_effects_ && live_values::is_effect(item.first)) return false;
    return item.first->use_count() <= ran_[item.first];
  });
}

}  // namespace jit
SINTER_NAMESPACE_END
