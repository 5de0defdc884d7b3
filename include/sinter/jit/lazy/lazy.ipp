// The evaluator. Graphs are captured from shared pending nodes, plans are found, and values become ready, under one
// lock; plans are made and run outside it.
#pragma once

#include <sinter/base/index.hpp>
#include <sinter/jit/lazy/lazy.hpp>
#include <sinter/jit/lazy/lazy_run.hpp>

#include <sinter/base/context.hpp>
#include <sinter/base/fork.hpp>
#include <sinter/base/timeline.hpp>
#include <sinter/expr/capture.hpp>
#include <sinter/graph/hash.hpp>
#include <sinter/graph/instance.hpp>
#include <sinter/jit/backends.hpp>
#include <sinter/jit/call/execute.hpp>
#include <sinter/jit/debug/nans.hpp>
#include <sinter/jit/lazy/hot_plans.hpp>
#include <sinter/jit/lazy/lazy_extents.hpp>
#include <sinter/passes/pipeline.hpp>
#include <sinter/runtime/executor.hpp>
#include <sinter/tensor/call_journal.hpp>
#include <sinter/tensor/device_memory.hpp>

#include <algorithm>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
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
  LazyGraph key;  // never changed
  std::shared_ptr<const Plan> plan;
  std::int64_t runs = 0;
  bool is_fused = false;
  std::uint8_t precisions =
      0;  // a bit for each MatmulPrecision that the plan serves: all, where it has no product of f32
  std::int64_t bytes = 0;
  std::uint64_t last_run = 0;  // by the clock of the cache
  PlanTimes times{};
  HotChoice choice = HotChoice::by_count;
};

/// The plans for graphs that differ in extents only.
struct LazyFamily {
  static constexpr std::size_t most_general = 8;
  static constexpr int most_failures = 4;
  std::weak_ptr<LazyPlan> latest;                // for one size
  std::vector<std::weak_ptr<LazyPlan>> general;  // for many
  int failures = 0;                              // to make one for many
  bool is_gone() const {
    return latest.expired() &&
           std::all_of(general.begin(), general.end(), [](const auto& plan) { return plan.expired(); });
  }
};

struct LazyCache {
  ForkSafeMutex mutex;
  std::unordered_multimap<std::uint64_t, std::shared_ptr<LazyPlan>> plans;  // by the hash of their graphs
  std::unordered_map<std::uint64_t, LazyFamily> families;                   // by the hash without extents
  LazyStats stats;
  HotChoices choices;
  std::uint64_t clock = 0;
  static LazyCache& instance() { return process_object<LazyCache>(); }
};

/// Plans are kept up to this size; then the half that has not run for longest is dropped.
inline constexpr std::int64_t most_lazy_bytes = std::int64_t{128} << 20;
/// A plan is taken to hold its arena, and this for each node: two graphs, steps, code.
inline constexpr std::int64_t bytes_of_lazy_node = 4096;

inline void limit_lazy_plans(LazyCache& cache) {
  while (cache.stats.bytes > most_lazy_bytes && !cache.plans.empty()) {
    std::vector<std::uint64_t> runs;
    for (const auto& [hash, plan] : cache.plans) runs.push_back(plan->last_run);
    const auto middle = runs.begin() + static_cast<std::ptrdiff_t>((runs.size() - 1) / 2);
    std::nth_element(runs.begin(), middle, runs.end());
    std::erase_if(cache.plans, [&](const auto& kept) {
      const bool goes = kept.second->last_run <= *middle;
      if (goes) cache.stats.bytes -= kept.second->bytes;
      cache.stats.dropped += goes;
      return goes;
    });
    std::erase_if(cache.families, [](const auto& family) { return family.second.is_gone(); });
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

struct RunnablePlan {
  std::shared_ptr<const Plan> plan;
  SmallVector<std::int64_t, 8> symbols;  // their values
  std::shared_ptr<LazyPlan> timed{};     // null: this run need not be timed
};

/// One look for the plan of a graph. The cache is locked but while a plan is made.
class LazyLookup {
 public:
  LazyLookup(LazyCache& cache, std::unique_lock<ForkSafeMutex>& lock, LazyGraph wanted, MatmulPrecision precision,
             Fallback fallback)
      : cache_(cache),
        lock_(lock),
        wanted_(std::move(wanted)),
        precision_(precision),
        fallback_(fallback),
        hash_(wanted_.graph.hash().low) {}

  RunnablePlan run() {
    std::shared_ptr<LazyPlan> plan = find();
    if (plan == nullptr || (!plan->is_fused && wants_fusion(plan.get()))) plan = make(plan);
    ++plan->runs;
    plan->last_run = ++cache_.clock;
    return {plan->plan, symbols_, plan->times.wants(plan->is_fused) ? plan : nullptr};
  }

 private:
  bool wants_fusion(const LazyPlan* plan) const {
    const Context& context = Context::get();
    if (context.is_eager) return false;
    const HotChoice choice = plan != nullptr ? plan->choice : cache_.choices.of(wanted_.graph);
    if (choice != HotChoice::by_count) return choice == HotChoice::forced;
    if (context.compiles_at_once || (plan != nullptr && plan->runs >= context.hot)) return true;
    const bool has_own_size = plan != nullptr && plan->key.symbols.empty();  // which was small when the plan was made
    return !has_own_size && is_large(wanted_.graph);
  }
  bool serves(const LazyPlan& plan) const { return (plan.precisions & precision_bit(precision_)) != 0; }

  /// The plan for this graph, or for all of its sizes; null if there is none.
  std::shared_ptr<LazyPlan> find() {
    symbols_.clear();
    auto [first, last] = cache_.plans.equal_range(hash_);
    for (auto it = first; it != last; ++it) {
      const LazyPlan& plan = *it->second;
      if (plan.key.symbols.empty() && serves(plan) && plan.key.layouts == wanted_.layouts &&
          structurally_equal(plan.key.graph, wanted_.graph))
        return it->second;
    }
    if (!family_) family_ = hash_without_extents(wanted_.graph).low;
    const auto family = cache_.families.find(*family_);
    if (family == cache_.families.end()) return nullptr;
    for (const auto& general : family->second.general)
      if (const auto plan = general.lock(); plan != nullptr && serves(*plan) && plan->key.takes(wanted_, symbols_))
        return plan;
    symbols_.clear();
    return nullptr;
  }

  /// A plan for this graph at other sizes, from which one for all sizes may be made; or null.
  std::shared_ptr<LazyPlan> relative() const {
    const auto family = cache_.families.find(*family_);
    if (family == cache_.families.end() || family->second.failures >= LazyFamily::most_failures) return nullptr;
    if (family->second.general.size() >= LazyFamily::most_general) return nullptr;
    const auto fits = [&](const std::shared_ptr<LazyPlan>& plan) {
      return plan != nullptr && differ_in_extents_only(plan->key.graph, wanted_.graph) &&
             plan->key.layouts.size() == wanted_.layouts.size();
    };
    for (auto it = family->second.general.rbegin(); it != family->second.general.rend(); ++it)
      if (auto plan = it->lock(); fits(plan)) return plan;
    auto plan = family->second.latest.lock();
    return fits(plan) ? plan : nullptr;
  }

  bool has_other_inputs(const LazyPlan& plan) const {
    const Graph &a = plan.key.graph, &b = wanted_.graph;
    return !std::equal(a.inputs().begin(), a.inputs().end(), b.inputs().begin(), b.inputs().end(),
                       [&](Value x, Value y) { return identical(a.type(x), b.type(y)); });
  }

  /// Makes the plan, or one with fusion in place of `plan`, and publishes it. Other threads evaluate meanwhile; of
  /// those that make the same, one publishes.
  std::shared_ptr<LazyPlan> make(const std::shared_ptr<LazyPlan>& plan) {
    const std::shared_ptr<LazyPlan> known = plan == nullptr ? relative() : nullptr;
    const bool fuses = wants_fusion(plan.get());
    lock_.unlock();
    auto made = std::make_shared<LazyPlan>();
    if (plan != nullptr) made->choice = plan->choice;
    std::optional<LazyGraph> general = known != nullptr ? generalised(known->key, wanted_) : std::nullopt;
    const bool has_failed = known != nullptr && !general && has_other_inputs(*known);
    if (plan != nullptr) made->key = plan->key;
    else made->key = general ? *std::move(general) : wanted_;
    const bool is_too_general = !compile_or_fail(*made, fuses, general.has_value());
    if (is_too_general) {
      made = std::make_shared<LazyPlan>();
      made->key = wanted_;
      compile(*made, fuses);
    }
    lock_.lock();
    if (has_failed || is_too_general) ++cache_.families[*family_].failures;
    std::shared_ptr<LazyPlan> place = find();
    if (place == nullptr) return insert(std::move(made));
    if (!place->is_fused && made->is_fused && place->key.symbols.size() == made->key.symbols.size()) {
      place->plan = std::move(made->plan);
      place->precisions = made->precisions;
      place->is_fused = true;
      place->times.compile_ms = made->times.compile_ms;
      ++cache_.stats.fused;
      cache_.stats.bytes += made->bytes - std::exchange(place->bytes, made->bytes);
    }
    return place;
  }

  /// False: the graph is one for several sizes, and some pass cannot tell that what was guessed of them fits.
  bool compile_or_fail(LazyPlan& made, bool fuses, bool is_general) const {
    if (!is_general) {
      compile(made, fuses);
      return true;
    }
    try {
      compile(made, fuses);
      return true;
    } catch (const Error&) {
      return false;  // what is wrong at this size, too, is thrown again
    }
  }

  void compile(LazyPlan& made, bool fuses) const {
    const auto start = std::chrono::steady_clock::now();
    const Graph optimised = run_passes_for("", made.key.graph, precision_);
    PlanOptions how = plan_options(optimised, {}, made.key.layouts, fuses, made.key.graph, precision_);
    how.allow_fallback |= fallback_ == Fallback::allowed;
    made.plan = build_plan(optimised, how);
    made.precisions = made.plan->depends_on_precision() ? precision_bit(precision_) : all_precisions;
    made.is_fused = fuses;
    made.bytes =
        made.plan->held_bytes() + bytes_of_lazy_node * static_cast<std::int64_t>(made.key.graph.nodes().size());
    made.times.compile_ms = milliseconds_since(start);
  }

  std::shared_ptr<LazyPlan> insert(std::shared_ptr<LazyPlan> made) {
    limit_lazy_plans(cache_);
    made->choice = cache_.choices.of(made->key.graph);
    const bool is_general = !made->key.symbols.empty();
    cache_.plans.emplace(is_general ? *family_ : hash_, made);
    LazyFamily& family = cache_.families[*family_];
    if (is_general) {
      std::erase_if(family.general, [](const auto& plan) { return plan.expired(); });
      family.general.push_back(made);
      made->key.takes(wanted_, symbols_);
    } else {
      family.latest = made;
    }
    ++cache_.stats.graphs;
    cache_.stats.dynamic += is_general;
    cache_.stats.fused += made->is_fused;
    cache_.stats.bytes += made->bytes;
    return made;
  }

  LazyCache& cache_;
  std::unique_lock<ForkSafeMutex>& lock_;
  LazyGraph wanted_;
  MatmulPrecision precision_;
  Fallback fallback_;
  std::uint64_t hash_;
  std::optional<std::uint64_t> family_;  // known once there is no plan for this size alone
  SmallVector<std::int64_t, 8> symbols_;
};

/// Notes how long a run took, and says what fusing gained once that is known. Under the lock of the cache.
inline std::string note_time(LazyPlan& plan, bool was_fused, double ms) {
  if (!plan.times.add(was_fused, ms) || !is_logged("hot_paths")) return {};
  return hot_path_line(path_of(plan.key.graph, plan.times, plan.runs, true, !plan.key.symbols.empty()));
}

inline LazyGraph lazy_graph(Graph graph, std::span<const Ref<TensorImpl>> inputs) {
  LazyGraph made{std::move(graph), {}, {}, {}};
  for (const auto& input : inputs) made.layouts.push_back(layout_of(*input));
  return made;
}

/// What depends on numbers alone is computed where its graph says, which may be elsewhere than where it was recorded.
inline void move_to(Device device, TensorImpl& computed) {
  const Device from = computed.type.device;
  if (SINTER_LIKELY(from == device)) return;
  ensure(computed.is_dense(), "lazy: a view on another device");
  const auto bytes = as_index(computed.type.shape.numel().value() * size_of(computed.type.dtype));
  Ref<Storage> storage = Storage::allocate(bytes, device);
  if (bytes > 0)
    device_memory(device == Device::cpu() ? from : device, "eval")
        .copy(storage->data(), device, computed.data(), from, bytes);
  computed.storage = std::move(storage);
  computed.offset = 0;
}

inline void become_ready(TensorImpl& value, TensorImpl& computed) {
  move_to(value.type.device, computed);
  value.storage = computed.storage;
  value.offset = computed.offset;
  value.strides = computed.strides;
  PendingNode* pending_node = value.tape.load(std::memory_order_relaxed) == TapeState::node
                                  ? nullptr
                                  : std::exchange(value.pending_node, nullptr);
  value.state.store(TensorState::ready, std::memory_order_release);
  if (pending_node != nullptr) release_pending_node(pending_node);
}

/// A pending value that was computed together with another result of its node becomes ready.
inline bool take_computed(TensorImpl& value) {
  if (!value.pending_node->has_computed(value.result)) return false;
  const Ref<TensorImpl> computed = std::exchange((*value.pending_node->computed)[value.result], nullptr);
  become_ready(value, *computed);
  return true;
}

/// The graph of what `outputs` still need, whose inputs are ready. Under the lock.
inline Capture capture_pending(std::span<const Ref<TensorImpl>> outputs, bool finds_kept) {
  Capture captured = capture(outputs, {}, {.trace = 0, .ready = ReadyLeaf::input, .finds_kept = finds_kept});
  for (const Ref<TensorImpl>& input : captured.inputs)
    if (!input->is_ready()) take_computed(*input);
  return captured;
}

/// Equal graphs share a plan, which knows the lines of the first. For an error that names one they run once more, by a
/// plan of their own.
SINTER_NOINLINE inline void run_with_own_lines(std::span<const Ref<TensorImpl>> outputs) {
  std::unique_lock lock(LazyCache::instance().mutex);
  Capture captured = capture_pending(outputs, false);
  const std::vector<Ref<TensorImpl>> inputs = std::move(captured.inputs);
  const LazyGraph own = lazy_graph(captured.finish(), inputs);
  lock.unlock();
  const Graph optimised = run_passes_for("", own.graph, matmul_precision());
  execute(*build_plan(optimised, plan_options(optimised, {}, own.layouts, false, own.graph, matmul_precision())),
          inputs);
}

/// With DebugNans: throws where one of the results has what is looked for, and an operation gave it.
SINTER_NOINLINE inline void check_nans(std::span<const Ref<TensorImpl>> outputs,
                                       std::span<const Ref<TensorImpl>> results) {
  if (!has_nan(results)) return;
  std::unique_lock lock(LazyCache::instance().mutex);
  Capture captured = capture_pending(outputs, false);
  const std::vector<Ref<TensorImpl>> inputs = std::move(captured.inputs);
  const Graph own = captured.finish();
  lock.unlock();
  throw_first_nan(own, inputs);
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
  cache.families.clear();
  cache.stats = {};
}

SINTER_DECL std::vector<HotPath> hot_paths() {
  auto& cache = jit_detail::LazyCache::instance();
  std::vector<HotPath> paths;
  {
    std::scoped_lock lock(cache.mutex);
    for (const auto& [hash, plan] : cache.plans)
      paths.push_back(
          jit_detail::path_of(plan->key.graph, plan->times, plan->runs, plan->is_fused, !plan->key.symbols.empty()));
  }
  std::sort(paths.begin(), paths.end(), [](const HotPath& a, const HotPath& b) {
    return a.executions != b.executions ? a.executions > b.executions : a.hash < b.hash;
  });
  return paths;
}

namespace jit_detail {
/// Throws for text that hot_paths() never gives. A name that no graph has yet may still come.
inline void require_hot_path(std::string_view name, std::string_view op, Location where) {
  const bool has_space = name.find_first_of(" \t\n") != std::string_view::npos;
  if (!name.empty() && !has_space) return;
  throw UserError(op, "'" + std::string(name) + "' is no hash and no name of a lazy graph", where,
                  "give a hash or a name that jit::hot_paths() shows: 16 hexadecimal digits, or mul_add_tanh");
}
inline void choose_hot_path(std::string_view name, HotChoice choice) {
  auto& cache = LazyCache::instance();
  std::scoped_lock lock(cache.mutex);
  cache.choices.set(name, choice);
  for (const auto& [hash, plan] : cache.plans) plan->choice = cache.choices.of(plan->key.graph);
}
}  // namespace jit_detail
SINTER_DECL void force_hot_path(std::string_view path, Location where) {
  jit_detail::require_hot_path(path, "force_hot_path", where);
  jit_detail::choose_hot_path(path, jit_detail::HotChoice::forced);
}
SINTER_DECL void forbid_hot_path(std::string_view path, Location where) {
  jit_detail::require_hot_path(path, "forbid_hot_path", where);
  jit_detail::choose_hot_path(path, jit_detail::HotChoice::forbidden);
}
SINTER_DECL void release_hot_path(std::string_view path, Location where) {
  jit_detail::require_hot_path(path, "release_hot_path", where);
  jit_detail::choose_hot_path(path, jit_detail::HotChoice::by_count);
}

SINTER_DECL std::vector<Ref<TensorImpl>> run_lazily(Graph graph, std::span<const Ref<TensorImpl>> inputs,
                                                    MatmulPrecision precision, Fallback fallback) {
  jit_detail::RunnablePlan found;
  {
    auto& cache = jit_detail::LazyCache::instance();
    std::unique_lock lock(cache.mutex);
    found = jit_detail::LazyLookup(cache, lock, jit_detail::lazy_graph(std::move(graph), inputs), precision, fallback)
                .run();
    ++cache.stats.evaluations;
  }
  return execute(*found.plan, found.symbols, inputs);
}

}  // namespace jit

SINTER_DECL ForkSafeMutex& evaluation_mutex() { return jit::jit_detail::LazyCache::instance().mutex; }

namespace jit::jit_detail {

/// Throws a TraceError where one of `values` belongs to a trace.
inline void refuse_traced(std::span<TensorImpl* const> values, std::string_view what, Location where) {
  for (const TensorImpl* value : values) {
    if (value->is_ready() || value->trace == 0) continue;
    const bool is_active = Trace::find(value->trace) != nullptr;
    if (where.line == 0) where = written_at(*value);
    throw TraceError(what,
                     is_active ? "a value is read while its function is traced"
                               : "a traced tensor is used outside the trace it belongs to",
                     where,
                     is_active ? "values are known only after the call: return the tensor and read it there, or choose "
                                 "with where(condition, a, b)"
                               : "return it from the compiled function instead of storing it in a captured variable");
  }
}

/// What `outputs` need in order to be computed, which is whatever is kept beside them, too.
inline Capture capture_with_kept(std::vector<Ref<TensorImpl>>& outputs) {
  // Where NaNs are looked for, values that nobody reads now are not computed: theirs would be no fault.
  const bool finds_kept = !looks_for_nans();
  Capture captured = capture_pending(outputs, finds_kept);
  for (std::size_t i = 0; i < captured.kept.size(); ++i) {
    outputs.push_back(captured.kept[i]);
    captured.outputs.push_back(captured.kept_values[i]);
  }
  for (const Capture::Sibling& sibling : captured.siblings) captured.outputs.push_back(sibling.value);
  if (CallJournal* journal = CallJournal::current())
    for (const auto& input : captured.inputs) journal->note_read(input);
  return captured;
}

/// Computes `outputs`, which are pending. `lock` holds the cache's mutex; when this returns it does not.
inline void compute_pending(LazyCache& cache, std::unique_lock<ForkSafeMutex>& lock,
                            std::vector<Ref<TensorImpl>> outputs) {
  Capture captured = capture_with_kept(outputs);
  const std::vector<Capture::Sibling> siblings = std::move(captured.siblings);
  const std::vector<Ref<TensorImpl>> inputs = std::move(captured.inputs);
  const RunnablePlan found =
      LazyLookup(cache, lock, lazy_graph(captured.finish(), inputs), matmul_precision(), Fallback::refused).run();
  ++cache.stats.evaluations;
  const bool is_timed = found.timed != nullptr, was_fused = is_timed && found.timed->is_fused;
  lock.unlock();  // functions of the user may run now, and evaluate
  std::vector<Ref<TensorImpl>> results;
  std::string line;  // for the log, which is a function of the user
  const auto start = is_timed ? std::chrono::steady_clock::now() : std::chrono::steady_clock::time_point();
  try {
    results = execute(*found.plan, found.symbols, inputs);
  } catch (const IndexError&) {
    run_with_own_lines(outputs);
    throw;
  }
  const double ms = is_timed ? milliseconds_since(start) : 0;
  if (SINTER_UNLIKELY(looks_for_nans())) check_nans(outputs, results);
  lock.lock();
  if (is_timed) line = note_time(*found.timed, was_fused, ms);
  for (std::size_t i = 0; i < outputs.size(); ++i)
    if (!outputs[i]->is_ready()) become_ready(*outputs[i], *results[i]);  // else another thread was first
  for (std::size_t i = 0; i < siblings.size(); ++i)
    siblings[i].pending_node->keep_computed(siblings[i].result, std::move(results[outputs.size() + i]));
  lock.unlock();
  if (!line.empty()) note("hot_paths", line);
}

}  // namespace jit::jit_detail

SINTER_DECL void evaluate(std::span<TensorImpl* const> values, std::string_view what, Location where) {
  using namespace jit::jit_detail;
  refuse_traced(values, what, where);
  if (std::all_of(values.begin(), values.end(), [](const TensorImpl* value) { return value->is_ready(); })) return;
  if (evaluated_by_device(values, what, where)) return;
  TimelineSpan span("lazy", what);
  if (span.is_on()) span.add_line(where);
  // The trace of the caller, if any, must not see what happens here.
  SymbolScope* scope = std::exchange(SymbolScope::current(), nullptr);
  struct Restore {
    SymbolScope* scope;
    ~Restore() { SymbolScope::current() = scope; }
  } restore{scope};
  auto& cache = LazyCache::instance();
  std::unique_lock lock(cache.mutex);
  std::vector<Ref<TensorImpl>> outputs;
  for (TensorImpl* value : values)
    if (!value->is_ready() && !take_computed(*value)) outputs.push_back(Ref<TensorImpl>::share(value));
  if (!outputs.empty()) compute_pending(cache, lock, std::move(outputs));
}

SINTER_NAMESPACE_END
