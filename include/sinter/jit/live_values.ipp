// Slices of a trace, captured back to what is known and run by lazy plans.
#pragma once

#include <sinter/jit/live_values.hpp>

#include <sinter/expr/capture.hpp>
#include <sinter/jit/lazy.hpp>
#include <sinter/jit/specialise.hpp>

#include <cstddef>
#include <cstdint>
#include <unordered_set>
#include <utility>

SINTER_NAMESPACE_BEGIN
namespace jit {

SINTER_DECL void LiveValues::set(const Ref<TensorImpl>& value, Ref<TensorImpl> concrete) { known_[value.get()] = {value, std::move(concrete)}; }

SINTER_DECL void LiveValues::set_done(const Ref<TensorImpl>& token) {
  Ref<Storage> storage = Storage::allocate(1);
  *static_cast<bool*>(storage->data()) = true;
  set(token, TensorImpl::make_ready(token->type, std::move(storage)));
}

SINTER_DECL LiveValues::Used& LiveValues::hold(const Ref<TensorImpl>& value) {
  auto [place, is_new] = used_.try_emplace(value.get());
  if (!is_new) return place->second;
  place->second.value = value;
  if (value->trace != trace_) return place->second;
  if (const Ref<TensorImpl>* concrete = find(*value)) set(value, *concrete);   // no longer one that its record keeps
  if (auto ran = ran_.find(value->record); ran != ran_.end()) ++ran->second.held;
  return place->second;
}

SINTER_DECL void LiveValues::set_result(const Ref<TensorImpl>& value, std::size_t result, Ref<TensorImpl> concrete) {
  Ran& ran = ran_[value->record];
  hold(value);
  ran.results.resize(value->record->results);
  ran.results[result] = std::move(concrete);
}

/// The value in this call, or null if it is not known.
SINTER_DECL const Ref<TensorImpl>* LiveValues::find(const TensorImpl& value) const {
  if (auto known = known_.find(&value); known != known_.end()) return &known->second.concrete;
  if (value.trace != trace_ || value.record == nullptr || value.record->results == 1) return nullptr;
  auto ran = ran_.find(value.record);
  if (ran == ran_.end() || ran->second.results.empty() || !ran->second.results[value.result]) return nullptr;
  return &ran->second.results[value.result];
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

/// Counts what the captured records refer to, each record once: it may give several of the values. Gives those records of
/// which a result that is not captured lives: nothing leads to it from here, and it will be asked for later.
SINTER_DECL std::vector<const Record*> LiveValues::note_run(const Capture& captured) {
  std::vector<const Record*> several;
  for (const TensorImpl* value : captured.walked) {
    if (!ran_.try_emplace(value->record).second) continue;
    if (value->record->results > 1) several.push_back(value->record);
    for (const Leaf& leaf : value->record->leaves())
      if (leaf.value) ++hold(leaf.value).references;
  }
  for (TensorImpl* value : captured.walked) hold(Ref<TensorImpl>::share(value));
  std::erase_if(several, [this](const Record* record) { return record->use_count() <= ran_[record].held; });
  return several;
}

SINTER_DECL void LiveValues::compute(std::span<const Ref<TensorImpl>> wanted, const Ref<TensorImpl>& last_effect, std::span<const std::int64_t> symbols) {
  std::vector<Ref<TensorImpl>> missing;
  std::unordered_set<const TensorImpl*> asked;
  for (const auto& value : wanted)
    if (!value->is_ready() && value->trace == trace_ && !knows(*value) && asked.insert(value.get()).second) missing.push_back(value);
  const bool has_effects = last_effect && !knows(*last_effect);
  if (missing.empty() && !has_effects) return;
  Capture captured = capture(missing, {}, {.trace = trace_, .ready = ReadyLeaf::input, .finds_kept = true, .last_effect = has_effects ? last_effect : Ref<TensorImpl>(),
                                           .lists_walked = true, .is_leaf = [this](const TensorImpl& value) { return knows(value); }});
  for (std::size_t i = 0; i < captured.kept.size(); ++i) {
    missing.push_back(captured.kept[i]);
    captured.outputs.push_back(captured.kept_values[i]);
  }
  std::vector<std::pair<const Record*, std::size_t>> others;
  for (const Record* record : note_run(captured)) {
    std::int32_t node = -1;
    for (std::size_t i = 0; i < captured.walked.size() && node < 0; ++i)
      if (captured.walked[i]->record == record) node = captured.walked_values[i].node;
    const bool has_token = record->op->kind == OpKind::effect;
    for (std::size_t result = 0; result + has_token < record->results; ++result) {
      others.emplace_back(record, result);
      captured.outputs.push_back({node, static_cast<std::int32_t>(result)});
    }
  }
  std::vector<Ref<TensorImpl>> inputs = std::move(captured.inputs);
  std::vector<Dim> numbers;
  for (std::int64_t symbol : symbols) numbers.emplace_back(symbol);
  Graph graph = substitute_symbols(share_symbols(captured.finish()), numbers, {});
  TracePause pause;
  for (Ref<TensorImpl>& input : inputs) input = at(input);
  std::vector<Ref<TensorImpl>> results = run_lazily(std::move(graph), inputs, precision_, fallback_);
  for (std::size_t i = 0; i < missing.size(); ++i) set(missing[i], std::move(results[i]));
  for (std::size_t i = 0; i < others.size(); ++i) {
    const auto [record, result] = others[i];
    Ran& ran = ran_[record];
    ran.results.resize(record->results);
    ran.results[result] = std::move(results[missing.size() + i]);
  }
  if (has_effects) set_done(last_effect);
  forget_unused();
}

/// Lets go of what only statements that have run refer to: a long loop holds no more than it would untraced.
SINTER_DECL void LiveValues::forget_unused() {
  std::erase_if(known_, [this](const auto& item) {
    const Known& known = item.second;
    if (known.traced->state.load(std::memory_order_relaxed) == TensorState::placeholder) return false;
    auto used = used_.find(item.first);
    const std::uint32_t ours = used != used_.end() ? used->second.references + 2 : 1;
    return known.traced->use_count() <= ours;
  });
  for (auto& [record, ran] : ran_)
    if (record->use_count() <= ran.held) ran.results.clear();
}

}  // namespace jit
SINTER_NAMESPACE_END
