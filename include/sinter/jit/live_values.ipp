// Slices of a trace, captured back to what is known and run by lazy plans.
#pragma once

#include <sinter/jit/live_values.hpp>

#include <sinter/expr/capture.hpp>
#include <sinter/jit/lazy.hpp>
#include <sinter/jit/specialise.hpp>

#include <unordered_set>

SINTER_NAMESPACE_BEGIN
namespace jit {

SINTER_DECL void LiveValues::set(const Ref<TensorImpl>& value, Ref<TensorImpl> concrete) { known_[value.get()] = {value, std::move(concrete)}; }

SINTER_DECL void LiveValues::set_done(const Ref<TensorImpl>& token) {
  Ref<Storage> storage = Storage::allocate(1);
  *static_cast<bool*>(storage->data()) = true;
  set(token, TensorImpl::make_ready(token->type, std::move(storage)));
}

SINTER_DECL Ref<TensorImpl> LiveValues::at(const Ref<TensorImpl>& value) const {
  auto found = known_.find(value.get());
  Ref<TensorImpl> concrete = found != known_.end() ? found->second.concrete : value;
  if (!concrete->is_ready()) {
    ensure(concrete->trace == 0, "a value of a trace was asked for before it was computed");
    TensorImpl* raw = concrete.get();
    evaluate({&raw, 1}, "compile", written_at(*raw));
  }
  return concrete;
}

SINTER_DECL void LiveValues::compute(std::span<const Ref<TensorImpl>> wanted, const Ref<TensorImpl>& last_effect, std::span<const std::int64_t> symbols) {
  std::vector<Ref<TensorImpl>> missing;
  std::unordered_set<const TensorImpl*> asked;
  for (const auto& value : wanted)
    if (!value->is_ready() && value->trace == trace_ && !known_.contains(value.get()) && asked.insert(value.get()).second) missing.push_back(value);
  const bool has_effects = last_effect && !knows(*last_effect);
  if (missing.empty() && !has_effects) return;
  Capture captured = capture(missing, {}, {.trace = trace_, .ready = ReadyLeaf::input, .finds_kept = true, .last_effect = has_effects ? last_effect : Ref<TensorImpl>(),
                                           .lists_walked = true, .is_leaf = [this](const TensorImpl& value) { return knows(value); }});
  for (std::size_t i = 0; i < captured.kept.size(); ++i) {
    missing.push_back(captured.kept[i]);
    captured.outputs.push_back(captured.kept_values[i]);
  }
  std::unordered_set<const Record*> records;
  for (const TensorImpl* value : captured.walked)
    if (records.insert(value->record).second)
      for (const Leaf& leaf : value->record->leaves())
        if (leaf.value) {
          Used& used = used_[leaf.value.get()];
          used.value = leaf.value;
          ++used.references;
        }
  std::vector<Ref<TensorImpl>> inputs = std::move(captured.inputs);
  std::vector<Dim> numbers;
  for (std::int64_t symbol : symbols) numbers.emplace_back(symbol);
  Graph graph = substitute_symbols(share_symbols(captured.finish()), numbers, {});
  TracePause pause;
  for (Ref<TensorImpl>& input : inputs) input = at(input);
  std::vector<Ref<TensorImpl>> results = run_lazily(std::move(graph), inputs, precision_, fallback_);
  for (std::size_t i = 0; i < missing.size(); ++i) set(missing[i], std::move(results[i]));
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
}

}  // namespace jit
SINTER_NAMESPACE_END
