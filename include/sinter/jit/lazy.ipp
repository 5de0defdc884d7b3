// The evaluator. Graphs are captured from shared records, and values become ready, under one lock; plans run outside it.
#pragma once

#include <sinter/jit/lazy.hpp>
#include <sinter/jit/lazy_run.hpp>

#include <sinter/base/context.hpp>
#include <sinter/base/fork.hpp>
#include <sinter/expr/capture.hpp>
#include <sinter/jit/backends.hpp>
#include <sinter/jit/execute.hpp>
#include <sinter/passes/pipeline.hpp>
#include <sinter/runtime/executor.hpp>
#include <sinter/tensor/call_journal.hpp>
#include <sinter/tensor/device_memory.hpp>

#include <algorithm>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace jit {

namespace jit_detail {

/// Evaluates values of several devices, one device after the other; false if there is only one.
inline bool evaluated_by_device(std::span<TensorImpl* const> values, std::string_view what, Location where) {
  std::vector<TensorImpl*> first, others;
  for (TensorImpl* value : values) (value->type.device == values[0]->type.device ? first : others).push_back(value);
  if (others.empty()) return false;
  evaluate(first, what, where);
  evaluate(others, what, where);
  return true;
}

struct LazyPlan {
  Graph graph;
  std::vector<InputLayout> layouts;
  std::shared_ptr<const Plan> plan;
  std::int64_t runs = 0;
  bool is_fused = false;
  std::uint8_t precisions = 0;   // a bit for each MatmulPrecision that the plan serves: all, where it has no product of f32
  std::int64_t bytes = 0;
  std::uint64_t last_run = 0;    // by the clock of the cache
};

struct LazyCache {
  ForkSafeMutex mutex;
  std::unordered_multimap<std::uint64_t, LazyPlan> plans;
  LazyStats stats;
  std::uint64_t clock = 0;
  static LazyCache& instance() { return process_object<LazyCache>(); }
};

/// Plans are kept up to this size; then the half that has not run for longest goes.
inline constexpr std::int64_t most_lazy_bytes = std::int64_t{128} << 20;
/// A plan is taken to hold its arena, and this for each node: two graphs, steps, code.
inline constexpr std::int64_t bytes_of_lazy_node = 4096;

inline void limit_lazy_plans(LazyCache& cache) {
  while (cache.stats.bytes > most_lazy_bytes && !cache.plans.empty()) {
    std::vector<std::uint64_t> runs;
    for (const auto& [hash, plan] : cache.plans) runs.push_back(plan.last_run);
    const auto middle = runs.begin() + static_cast<std::ptrdiff_t>((runs.size() - 1) / 2);
    std::nth_element(runs.begin(), middle, runs.end());
    std::erase_if(cache.plans, [&](const auto& kept) {
      const bool goes = kept.second.last_run <= *middle;
      if (goes) cache.stats.bytes -= kept.second.bytes;
      return goes;
    });
  }
}

/// Work beyond which interpreting op by op costs more than compiling, in elements written.
inline constexpr std::int64_t worth_compiling = 1 << 20;

inline bool is_large(const Graph& graph) {
  std::int64_t elements = 0;
  for (const Node& node : graph.nodes())
    if (node.op->kind != OpKind::leaf && node.op->kind != OpKind::view && !node.inputs.empty())
      for (const Type& type : node.types) elements += type.shape.numel().value();
  return elements >= worth_compiling;
}

inline LazyPlan& lazy_plan(LazyCache& cache, Graph graph, std::vector<InputLayout> layouts, MatmulPrecision precision, Fallback fallback) {
  const std::uint8_t wanted = precision_bit(precision);
  Hash128 hash = graph.hash();
  auto [first, last] = cache.plans.equal_range(hash.low);
  LazyPlan* found = nullptr;
  for (auto it = first; it != last && found == nullptr; ++it)
    if ((it->second.precisions & wanted) != 0 && it->second.layouts == layouts && structurally_equal(it->second.graph, graph)) found = &it->second;
  if (found == nullptr) {
    limit_lazy_plans(cache);
    found = &cache.plans.emplace(hash.low, LazyPlan{.graph = std::move(graph), .layouts = std::move(layouts), .plan = nullptr, .precisions = wanted})->second;
    found->bytes = bytes_of_lazy_node * static_cast<std::int64_t>(found->graph.nodes().size());
    cache.stats.bytes += found->bytes;
    ++cache.stats.graphs;
  }
  const Context& context = Context::get();
  bool wants_fused = !context.is_eager && (context.compiles_at_once || found->runs >= context.hot || (found->plan == nullptr && is_large(found->graph)));
  if (found->plan == nullptr || (wants_fused && !found->is_fused)) {
    const Graph optimised = run_pipeline(found->graph);
    PlanOptions how = plan_options(optimised, {}, found->layouts, wants_fused, found->graph, precision);
    how.allow_fallback |= fallback == Fallback::allowed;
    found->plan = build_plan(optimised, how);
    if (!found->plan->depends_on_precision()) found->precisions = all_precisions;
    found->is_fused = wants_fused;
    cache.stats.fused += wants_fused;
    const std::int64_t bytes = found->plan->held_bytes() + bytes_of_lazy_node * static_cast<std::int64_t>(found->graph.nodes().size());
    cache.stats.bytes += bytes - std::exchange(found->bytes, bytes);
  }
  ++found->runs;
  found->last_run = ++cache.clock;
  return *found;
}

/// What depends on numbers alone is computed where its graph says, which may be elsewhere than where it was recorded.
inline void move_to(Device device, TensorImpl& computed) {
  const Device from = computed.type.device;
  if (SINTER_LIKELY(from == device)) return;
  ensure(computed.is_dense(), "lazy: a view on another device");
  const auto bytes = static_cast<std::size_t>(computed.type.shape.numel().value() * size_of(computed.type.dtype));
  Ref<Storage> storage = Storage::allocate(bytes, device);
  if (bytes > 0) device_memory(device == Device::cpu() ? from : device, "eval").copy(storage->data(), device, computed.data(), from, bytes);
  computed.storage = std::move(storage);
  computed.offset = 0;
}

/// Equal graphs share a plan, which knows the lines of the first. For an error that names one they run once more, by a plan of
/// their own.
SINTER_NOINLINE inline void run_with_own_lines(std::span<const Ref<TensorImpl>> outputs) {
  std::unique_lock lock(LazyCache::instance().mutex);
  Capture captured = capture(outputs, {}, {.trace = 0, .ready = ReadyLeaf::input});
  const std::vector<Ref<TensorImpl>> inputs = std::move(captured.inputs);
  std::vector<InputLayout> layouts;
  for (const auto& input : inputs) layouts.push_back(layout_of(*input));
  const Graph graph = captured.finish(), optimised = run_pipeline(graph);
  lock.unlock();
  execute(*build_plan(optimised, plan_options(optimised, {}, std::move(layouts), false, graph, matmul_precision())), inputs);
}

inline void become_ready(TensorImpl& value, TensorImpl& computed) {
  move_to(value.type.device, computed);
  value.storage = computed.storage;
  value.offset = computed.offset;
  value.strides = computed.strides;
  Record* record = value.tape.load(std::memory_order_relaxed) == TapeState::node ? nullptr : std::exchange(value.record, nullptr);
  value.state.store(TensorState::ready, std::memory_order_release);
  if (record != nullptr) release_record(record);
}

}  // namespace jit_detail

SINTER_DECL LazyStats lazy_stats() {
  auto& cache = jit_detail::LazyCache::instance();
  std::scoped_lock lock(cache.mutex);
  return cache.stats;
}
SINTER_DECL void clear_lazy_cache() {
  auto& cache = jit_detail::LazyCache::instance();
  std::scoped_lock lock(cache.mutex);
  cache.plans.clear();
  cache.stats = {};
}

SINTER_DECL std::vector<Ref<TensorImpl>> run_lazily(Graph graph, std::span<const Ref<TensorImpl>> inputs, MatmulPrecision precision, Fallback fallback) {
  std::vector<InputLayout> layouts;
  for (const auto& input : inputs) layouts.push_back(layout_of(*input));
  std::shared_ptr<const Plan> plan;
  {
    auto& cache = jit_detail::LazyCache::instance();
    std::scoped_lock lock(cache.mutex);
    plan = jit_detail::lazy_plan(cache, std::move(graph), std::move(layouts), precision, fallback).plan;
    ++cache.stats.evaluations;
  }
  return execute(*plan, inputs);
}

}  // namespace jit

SINTER_DECL ForkSafeMutex& evaluation_mutex() { return jit::jit_detail::LazyCache::instance().mutex; }

SINTER_DECL void evaluate(std::span<TensorImpl* const> values, std::string_view what, Location where) {
  for (TensorImpl* value : values) {
    if (value->is_ready() || value->trace == 0) continue;
    bool is_active = Trace::find(value->trace) != nullptr;
    throw TraceError(what, is_active ? "a value is read while its function is traced" : "a traced tensor is used outside the trace it belongs to", where,
                     is_active ? "values are known only after the call: return the tensor and read it there, or choose with where(condition, a, b)"
                               : "return it from the compiled function instead of storing it in a captured variable");
  }
  if (std::all_of(values.begin(), values.end(), [](const TensorImpl* value) { return value->is_ready(); })) return;
  if (jit::jit_detail::evaluated_by_device(values, what, where)) return;
  // The trace of the caller, if any, must not see what happens here.
  SymbolScope* scope = std::exchange(SymbolScope::current(), nullptr);
  struct Restore {
    SymbolScope* scope;
    ~Restore() { SymbolScope::current() = scope; }
  } restore{scope};
  auto& cache = jit::jit_detail::LazyCache::instance();
  std::unique_lock lock(cache.mutex);
  std::vector<Ref<TensorImpl>> outputs;
  for (TensorImpl* value : values)
    if (!value->is_ready()) outputs.push_back(Ref<TensorImpl>::share(value));
  if (outputs.empty()) return;
  std::vector<Ref<TensorImpl>> inputs;
  {
    Capture captured = capture(outputs, {}, {.trace = 0, .ready = ReadyLeaf::input, .finds_kept = true});
    for (std::size_t i = 0; i < captured.kept.size(); ++i) {
      outputs.push_back(captured.kept[i]);
      captured.outputs.push_back(captured.kept_values[i]);
    }
    inputs = std::move(captured.inputs);
    if (CallJournal* journal = CallJournal::current())
      for (const auto& input : inputs) journal->note_read(input);
    std::vector<jit::InputLayout> layouts;
    for (const auto& input : inputs) layouts.push_back(jit::layout_of(*input));
    const std::shared_ptr<const Plan> plan = jit::jit_detail::lazy_plan(cache, captured.finish(), std::move(layouts), matmul_precision(), jit::Fallback::refused).plan;
    ++cache.stats.evaluations;
    lock.unlock();   // functions of the user may run now, and evaluate
    std::vector<Ref<TensorImpl>> results;
    try {
      results = execute(*plan, inputs);
    } catch (const IndexError&) {
      jit::jit_detail::run_with_own_lines(outputs);
      throw;
    }
    lock.lock();
    for (std::size_t i = 0; i < outputs.size(); ++i)
      if (!outputs[i]->is_ready()) jit::jit_detail::become_ready(*outputs[i], *results[i]);   // else somebody was faster
  }
}

SINTER_NAMESPACE_END
