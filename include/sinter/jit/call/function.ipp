// Entries of a compiled function: lookup, compilation, the run of a call.
#pragma once

#include <sinter/jit/call/function.hpp>

#include <sinter/base/index.hpp>
#include <sinter/base/log.hpp>
#include <sinter/base/timeline.hpp>
#include <sinter/expr/capture.hpp>
#include <sinter/jit/backends.hpp>
#include <sinter/jit/call/background.hpp>
#include <sinter/jit/call/delivery.hpp>
#include <sinter/jit/call/entry_code.hpp>
#include <sinter/jit/call/execute.hpp>
#include <sinter/jit/call/guard_text.hpp>
#include <sinter/jit/call/making.hpp>
#include <sinter/jit/call/marks.hpp>
#include <sinter/jit/call/specialise.hpp>
#include <sinter/jit/call/traced_tape.hpp>
#include <sinter/jit/config/settings.hpp>
#include <sinter/jit/debug/failures.hpp>
#include <sinter/jit/effects/custom_run.ipp>  // input_values
#include <sinter/jit/lazy/lazy.hpp>
#include <sinter/jit/lazy/lazy_run.hpp>
#include <sinter/jit/observe/explained.hpp>
#include <sinter/jit/trace/trace.hpp>
#include <sinter/jit/trace/trace_tree.hpp>
#include <sinter/jit/trace/tree_text.hpp>
#include <sinter/passes/pipeline.hpp>
#include <sinter/runtime/kernel_cache.hpp>
#include <sinter/runtime/partition_plan.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <limits>
#include <ostream>

SINTER_NAMESPACE_BEGIN
namespace jit {

namespace jit_detail {
/// Every living FunctionState, so that jit::reset() reaches them.
struct Functions {
  ForkSafeMutex mutex;
  std::vector<FunctionState*> list;
  static Functions& instance() { return process_object<Functions>(); }
};

/// Leaves out captured Variables that were read for nothing (in a region, by what it does not return): which ones these
/// are may differ from trace to trace.
inline bool drop_unread(TracedGraph& traced, std::vector<Ref<TensorImpl>>& known, const Capture& captured) {
  std::vector<std::uint8_t> is_read(known.size(), 0);
  const auto note = [&](Value v) {
    if (const auto i = as_index(v.node); i < known.size()) is_read[i] = 1;  // inputs come first
  };
  for (const Node& node : captured.builder.graph().nodes())
    for (Value v : node.inputs) note(v);
  for (Value v : captured.outputs) note(v);
  std::size_t kept = 0, kept_captured = 0, at_captured = 0;
  const auto& assigned = traced.end.assignments;
  for (std::size_t i = 0; i < known.size(); ++i) {
    const PlanInput& input = traced.end.inputs[i];
    const bool is_captured = input.source == PlanInput::Source::captured;
    const bool is_assigned = is_captured && std::any_of(assigned.begin(), assigned.end(),
                                                        [&](const Assignment& a) { return a.slot == input.slot; });
    const bool stays = !is_captured || is_assigned || is_read[i] != 0;
    if (is_captured) {
      if (stays) {
        std::swap(traced.captured[kept_captured], traced.captured[at_captured]);
        std::swap(traced.captured_types[kept_captured++], traced.captured_types[at_captured]);
      }
      ++at_captured;
    }
    if (!stays) continue;
    std::swap(known[kept], known[i]);
    std::swap(traced.end.inputs[kept++], traced.end.inputs[i]);
  }
  if (kept == known.size()) return false;
  known.resize(kept);
  traced.end.inputs.resize(kept);
  traced.captured.resize(kept_captured);
  traced.captured_types.resize(kept_captured);
  return true;
}

/// The graph of a trace that read no value.
SINTER_DECL TracedGraph traced_graph(FunctionTrace& trace, const TracedResult& result, Location where) {
  TracedGraph out;
  out.end.results = result.values.size();
  for (const auto& value : result.values) out.on_tape.push_back(is_value_on_tape(*value));
  out.result_shape = result.shape;
  std::vector<Ref<TensorImpl>> outputs = result.values, known;
  for (std::size_t i = 0; i < trace.placeholders().size(); ++i) {
    const auto& placeholder = trace.placeholders()[i];
    if (!placeholder || trace.guards().leaves[i].same_slot_as >= 0) continue;
    known.push_back(placeholder);
    out.end.inputs.push_back({.source = PlanInput::Source::leaf, .index = static_cast<std::int32_t>(i)});
  }
  for (const auto& read : trace.variables()) {
    if (read.leaf < 0) {
      known.push_back(read.placeholder);
      out.end.inputs.push_back({.source = PlanInput::Source::captured, .slot = read.slot});
      out.captured.push_back(read.slot);
      out.captured_types.push_back(read.seen->type);
    }
    if (!read.assigned) continue;
    outputs.push_back(read.assigned);
    out.end.assignments.push_back({read.leaf, read.leaf >= 0 ? nullptr : read.slot});
  }
  const bool has_tape = std::any_of(out.on_tape.begin(), out.on_tape.end(), [](auto flag) { return flag != 0; });
  const CaptureOptions options{
      .trace = trace.id(), .ready = ReadyLeaf::constant, .last_effect = trace.last_effect(), .lists_walked = has_tape};
  Capture captured = capture(outputs, known, options);
  if (captured.inputs.size() >
      known.size()) {  // captured statements that have not run: then they are constants as well
    for (std::size_t i = known.size(); i < captured.inputs.size(); ++i) {
      TensorImpl* raw = captured.inputs[i].get();
      evaluate({&raw, 1}, "compile", where);
    }
    captured = capture(outputs, known, options);
  }
  if (!out.captured.empty() && drop_unread(out, known, captured)) captured = capture(outputs, known, options);
  const std::vector<Value> stops = stopped_values(captured.walked, captured.walked_values, trace);
  refuse_captured_on_tape(captured.builder.graph(), result, std::span(captured.outputs).first(out.end.results),
                          {captured.walked, captured.walked_values}, where);
  for (SymbolId id = 0; id < trace.guards().symbols.size(); ++id) {
    SymbolInfo info;
    info.hint = trace.hints()[id];
    const SymbolSource& source = trace.guards().symbols[id];
    info.min = source.min;
    info.max = source.max;
    info.axis = source.is_stride ? -1 : source.axis;  // no shape has a stride
    for (std::size_t i = 0; i < out.end.inputs.size(); ++i) {
      const PlanInput& input = out.end.inputs[i];
      if (input.source == PlanInput::Source::leaf && input.index == source.leaf && !source.is_stride)
        info.input = static_cast<std::int32_t>(i);
    }
    captured.builder.symbols().push_back(info);
  }
  const Graph graph = captured.finish();
  out.graph = share_symbols(with_stops(graph, stops));
  out.guards = std::move(trace.guards());
  return out;
}

}  // namespace jit_detail

namespace jit_detail {
/// Which inputs an output may take over: Variables that the call gives a new value anyway (2), before
/// donated arguments and what an earlier segment made (1). Notes which inputs are the assigned Variables.
SINTER_DECL std::vector<std::uint8_t> find_donors(CallEnd& end, std::span<const LeafSpec> leaves) {
  std::vector<std::uint8_t> may_donate;
  for (std::size_t i = 0; i < end.inputs.size(); ++i) {
    const PlanInput& input = end.inputs[i];
    const bool is_leaf = input.source == PlanInput::Source::leaf,
               is_captured = input.source == PlanInput::Source::captured;
    bool is_assigned = false;
    for (Assignment& a : end.assignments) {
      if (!(is_leaf && a.leaf == input.index) && !(is_captured && a.slot == input.slot)) continue;
      a.input = static_cast<std::int32_t>(i);
      is_assigned = true;
    }
    const bool is_tensor = is_leaf && leaves[as_index(input.index)].kind == LeafKind::tensor;
    may_donate.push_back(is_assigned ? 2 : is_tensor || input.source == PlanInput::Source::carried ? 1 : 0);
  }
  return may_donate;
}
SINTER_DECL std::string listings(const Plan& plan) {
  std::string text;
  if (plan.parts() != nullptr)
    for (const PartitionPlan::Part& part : plan.parts()->parts) text += part.plan ? listings(*part.plan) : "";
  for (const PlanStep& step : plan.steps())
    if (step.executable)
      text += "code of " + step.name + " [" + step.backend + "]:\n" + step.executable->listing() + "\n";
  return text;
}
/// What SINTER_LOGS asks for about a new entry.
SINTER_DECL void log_entry(const Entry& entry, Location where) {
  std::string place = where.text() + ":\n";
  if (is_logged("guards")) sinter::note("guards", place + entry.guards.text());
  if (entry.tree != nullptr) return log_segments(nodes_of(*entry.tree), entry.guards, where);
  if (is_logged("graphs")) sinter::note("graphs", place + entry.traced.text() + "\n" + entry.optimised.text());
  if (entry.end.plan == nullptr) return;
  if (is_logged("kernels")) sinter::note("kernels", place + entry.end.plan->text());
  if (is_logged("asm")) sinter::note("asm", place + listings(*entry.end.plan));
}
}  // namespace jit_detail

SINTER_DECL FunctionState::FunctionState(Options options, Location where, Serves serves, Compilers compilers)
    : options_(std::move(options)),
      where_(where),
      serves_(serves),
      given_(std::move(compilers)),
      compilers_{given_.forward, given_.backward, "AotOptions::forward"} {
  jit_detail::resolve_backend(options_, where);
  jit_detail::check_options(options_, where);
  const std::string& backend = options_.backend.name();
  const BackendFunction* registered =
      options_.backend.function() != nullptr ? options_.backend.function() : jit_detail::registered_backend(backend);
  if (registered != nullptr) {
    if (!given_.forward) compilers_ = {*registered, given_.backward, "back end '" + backend + "'"};
    if (!given_.backward) compilers_.backward = *registered;
  }
  if (options_.recompile_limit < 0)
    throw UserError("compile", "recompile_limit is " + std::to_string(options_.recompile_limit), where,
                    "0 allows the first compilation only");
  is_noop_ = options_.backend == "noop";
  auto& functions = jit_detail::Functions::instance();
  std::scoped_lock lock(functions.mutex);
  functions.list.push_back(this);
}
SINTER_DECL std::shared_ptr<FunctionState> FunctionState::another() const {
  return std::make_shared<FunctionState>(options_, where_, serves_, given_);
}
namespace jit_detail {
inline char scope_key = 0;  // its address stands for versions made for scopes
}  // namespace jit_detail
SINTER_DECL std::shared_ptr<FunctionState> FunctionState::in_scope(const ScopeSettings& settings) {
  const std::shared_ptr<const void> made = derived(&jit_detail::scope_key, settings.key(), [&] {
    return std::make_shared<FunctionState>(settings.applied_to(options_), where_, serves_, given_);
  });
  return std::const_pointer_cast<FunctionState>(std::static_pointer_cast<const FunctionState>(made));
}
SINTER_DECL FunctionState::~FunctionState() {
  auto& functions = jit_detail::Functions::instance();
  std::scoped_lock lock(functions.mutex);
  std::erase(functions.list, this);
}

SINTER_DECL std::int64_t Entry::runs() const {
  std::int64_t total = other_runs.load(std::memory_order_relaxed);
  threads.for_each([&](const EntryThread& thread) { total += thread.runs.load(std::memory_order_relaxed); });
  return total;
}

namespace jit_detail {
/// Is an argument, or a Variable that the trace read, on the tape?
inline bool wants_gradient(FunctionTrace& trace, const ArgList& args) {
  std::vector<std::shared_ptr<VariableSlot>> captured;
  for (const auto& read : trace.variables())
    if (read.leaf < 0) captured.push_back(read.slot);
  return tape_guard_of(args.leaves(), captured).is_needed;
}
}  // namespace jit_detail

SINTER_DECL void FunctionState::leave_plain(Entry& entry, const ArgList& args, FunctionTrace& recorder) const {
  for (const auto& read : recorder.variables()) {
    if (read.leaf >= 0) continue;
    entry.held.captured.push_back(read.slot);
    entry.captured_types.push_back(read.seen->type);
  }
  entry.tape = jit_detail::tape_guard_of(args.leaves(), entry.held.captured);
  entry.guards = std::move(recorder.guards());
  entry.guards.dims.clear();
  entry.is_plain = true;
  if (is_logged("recompiles"))
    sinter::note("recompiles", where_.text() +
                                   ": a gradient is wanted, and flows through a disabled function: the function runs "
                                   "uncompiled");
}

SINTER_DECL std::unique_ptr<Entry> FunctionState::compile(const ArgList& args, const TraceFunction& trace,
                                                          GuardSet specs) {
  jit_detail::Stopwatch watch;
  ReadPolicy policy;
  if (options_.fullgraph) policy.beyond = ReadPolicy::Beyond::refuse;
  auto entry = std::make_unique<Entry>();
  entry->types = args.types;
  entry->call_types = args.call_types;
  for (const ArgLeaf& leaf : args.leaves())
    if (leaf.slot != nullptr) entry->traced_slots.push_back(leaf.slot);
  entry->takes_any_slot = std::vector<std::atomic<bool>>(entry->traced_slots.size());
  entry->precision = policy.precision = precision_now();
  policy.fallback = fallback();
  TimelineSpan whole("compile", "compile");
  if (whole.is_on()) whole.add_line(where_);
  FunctionTrace recorder("compile", args.leaves(), std::move(specs), std::move(policy));
  const ContextUse context_use;
  TracedResult result = trace(recorder);
  entry->context = call_context();
  entry->context_used.store(entry->context.used, std::memory_order_relaxed);
  entry->trace_ms = watch.lap_ms();
  const bool is_plain = !args.has_places && recorder.calls_on_tape() && jit_detail::is_on_tape(result);
  if (is_plain && jit_detail::wants_gradient(recorder, args)) {
    leave_plain(*entry, args, recorder);
    return entry;
  }
  entry->is_plain = is_plain;  // what reaches the tape there is not seen here: where that is off, the tree serves
  if (recorder.reads().empty()) {
    trace_plain(*entry, args, recorder, std::move(result));
  } else {
    if (compilers_.forward)
      throw TraceError(
          recorder.reads()[0].op,
          "a value is read, which would cut the graph, and " + compilers_.name + " takes whole graphs",
          recorder.reads()[0].where,
          "choose with where(condition, a, b), use jit::cond or jit::while_loop, or return the value and read it "
          "outside");
    grow_tree(*entry, args, recorder, std::move(result));
    entry->codegen_ms = watch.lap_ms();
  }
  guard_precision(*entry);
  return entry;
}

SINTER_DECL void FunctionState::trace_plain(Entry& entry, const ArgList& args, FunctionTrace& recorder,
                                            TracedResult result) {
  jit_detail::Stopwatch watch;
  jit_detail::TracedGraph traced = jit_detail::traced_graph(recorder, result, where_);
  entry.guards = std::move(traced.guards);
  entry.end = std::move(traced.end);
  entry.held.captured = std::move(traced.captured);
  entry.captured_types = std::move(traced.captured_types);
  entry.result_shape = std::move(traced.result_shape);
  jit_detail::add_constants(traced.graph, entry.held.constants);
  entry.tape = jit_detail::tape_guard_of(args.leaves(), entry.held.captured);
  entry.tape.hooks = recorder.hooks();
  entry.tape.serves_off = !is_tape_on() && jit_detail::captures_tape(traced.graph);
  entry.trace_ms += watch.lap_ms();
  generate(entry, args, std::move(traced.graph), std::move(traced.on_tape));
}

namespace jit_detail {
SINTER_DECL void count_regions(const Graph& graph, std::vector<const Graph*>& bodies, std::int64_t& calls) {
  for (const Node& node : graph.nodes()) {
    calls += node.op->is_call;
    for (const auto& body : node.attrs.bodies) {
      if (std::find(bodies.begin(), bodies.end(), body.get()) != bodies.end()) continue;
      if (node.op->is_call) bodies.push_back(body.get());
      count_regions(*body, bodies, calls);
    }
  }
}
}  // namespace jit_detail

SINTER_DECL Stats FunctionState::stats() const {
  std::scoped_lock lock(mutex_);
  Stats stats;
  stats.calls = past_calls_;
  for (const auto& entry : entries_) {
    stats.calls += entry->runs();
    if (entry->tree != nullptr) jit_detail::add_figures(*entry->tree, stats);
  }
  stats.compiles = compiles_;
  stats.background_swaps = swaps_;
  for (const auto& entry : entries_) {
    if (entry->runs_ahead) stats.background_calls += entry->runs();
    if (entry->background == nullptr) continue;
    stats.background_calls += entry->background->uncompiled_calls();
    stats.background_pending += (entry->runs_ahead || entry->tree != nullptr) && !entry->background->is_done();
  }
  stats.recompiles = recompiles_;
  stats.compile_ms = compile_ms_;
  stats.code_generated = code_.generated;
  stats.code_loaded = code_.loaded;
  stats.eager_calls = plain_calls_.load(std::memory_order_relaxed);
  stats.frozen_misses = frozen_misses_.load(std::memory_order_relaxed);
  stats.recompile_reasons = misses_.reasons();
  const Entry* newest = newest_.load(std::memory_order_acquire);
  if (newest != nullptr && newest->end.plan) {
    stats.kernels = static_cast<std::int64_t>(newest->end.plan->kernel_count());
    stats.launches = static_cast<std::int64_t>(newest->end.plan->launch_count());
    stats.peak_bytes = newest->end.plan->held_bytes();
  }
  if (newest != nullptr && newest->gradient != nullptr) {
    stats.saved_bytes = newest->gradient->saved_bytes();
    stats.backward_bytes = newest->gradient->backward_bytes();
  }
  if (newest != nullptr) {
    std::vector<const Graph*> bodies;
    jit_detail::count_regions(newest->optimised, bodies, stats.region_calls);
    stats.regions = static_cast<std::int64_t>(bodies.size());
  }
  return stats;
}

SINTER_DECL std::shared_ptr<const void> FunctionState::derived(
    const void* key, const std::vector<std::int64_t>& numbers,
    const std::function<std::shared_ptr<const void>()>& make) {
  const auto find_derived = [&]() -> std::shared_ptr<const void> {
    for (const Derived& known : derived_)
      if (known.key == key && known.numbers == numbers) return known.object;
    return nullptr;
  };
  {
    std::scoped_lock lock(mutex_);
    if (auto known = find_derived()) return known;
  }
  std::shared_ptr<const void> made = make();
  std::scoped_lock lock(mutex_);
  if (auto known = find_derived()) return known;
  derived_.push_back({key, numbers, made});
  return made;
}

SINTER_DECL void FunctionState::freeze(OnMiss miss) {
  if (is_noop_ || context_.is_disabled)
    throw UserError("freeze", "the function runs uncompiled: by SINTER_DISABLE or its back end noop", where_,
                    "compile it with a back end of this build");
  if (newest_.load(std::memory_order_acquire) == nullptr)
    throw UserError("freeze", "nothing is compiled yet", where_,
                    "call warm_up(args...) for each kind of arguments first");
  wait_for_code();
  on_miss_ = miss;
  is_frozen_ = true;
}
SINTER_DECL void FunctionState::unfreeze() { is_frozen_ = false; }

SINTER_DECL void FunctionState::reset() {
  unfreeze();  // no version is left that a call could use
  auto retired = std::make_shared<std::vector<std::unique_ptr<Entry>>>();
  std::vector<Derived> derived;
  {
    std::scoped_lock lock(mutex_);
    newest_.store(nullptr, std::memory_order_release);
    for (const auto& entry : entries_) past_calls_ += entry->runs();
    retired->swap(entries_);
    compiles_ = recompiles_ = swaps_ = 0;
    compile_ms_ = 0;
    code_ = {};
    misses_ = {};
    derived.swap(derived_);
    plain_calls_.store(0, std::memory_order_relaxed);
    frozen_misses_.store(0, std::memory_order_relaxed);
  }
  destroy_after_calls(std::move(retired));  // with what earlier resets had to leave to calls that have ended since
}

SINTER_DECL bool is_compiling() { return Trace::current() != nullptr; }

SINTER_DECL std::ostream& operator<<(std::ostream& out, const Explanation& e) { return out << e.text(); }

namespace jit_detail {
/// How long the entry took to compile, and what its symbols are in this call.
inline std::string ending_text(const Entry& entry, std::span<const std::int64_t> symbols) {
  char times[160];
  if (entry.tree != nullptr)
    std::snprintf(times, sizeof times,
                  "compile time of the first path: trace %.3f ms, passes, fusion and code %.3f ms\n", entry.trace_ms,
                  entry.codegen_ms);
  else
    std::snprintf(times, sizeof times, "compile time: trace %.3f ms, passes %.3f ms, fusion and code %.3f ms\n",
                  entry.trace_ms, entry.passes_ms, entry.codegen_ms);
  std::string text;
  for (std::size_t i = 0; i < symbols.size(); ++i) {
    const std::int64_t divisor = entry.guards.symbols[i].divisor;
    text += "s" + std::to_string(i) + " = " + std::to_string(symbols[i] * divisor) + " in this call";
    text += divisor == 1 ? "\n"
                         : "; " + std::to_string(symbols[i]) + " times " + std::to_string(divisor) +
                               ", which the optimised graph calls s" + std::to_string(i) + "\n";
  }
  return text + times;
}

inline void add_backward(std::vector<ExplainedPart>& parts, std::string title, const CallGradient& gradient) {
  if (gradient.backward() != nullptr)
    parts.push_back({std::move(title), *gradient.backward(), *gradient.backward(), gradient.compiled_plan()});
}
inline std::shared_ptr<const Explained> explained(const Entry& entry, std::span<const std::int64_t> symbols,
                                                  Location where) {
  auto made = std::make_shared<Explained>();
  made->line = where.text();
  made->guards = entry.guards.text();
  made->symbols.assign(symbols.begin(), symbols.end());
  made->times = ending_text(entry, symbols);
  if (entry.tree != nullptr) {
    add_segments(*made, *entry.tree);
  } else {
    made->parts.push_back(
        {entry.gradient != nullptr ? "forward" : "function", entry.traced, entry.optimised, entry.end.plan});
    if (entry.gradient != nullptr) add_backward(made->parts, "backward", *entry.gradient);
  }
  return made;
}

SINTER_DECL Explanation explanation_of(const Entry* used, std::span<const std::int64_t> symbols, Location where) {
  if (used == nullptr)
    return Explanation(
        "this call runs the function uncompiled: by SINTER_DISABLE, its back end noop, the stance, past its "
        "recompile limit, or because a gradient is wanted and flows through a disabled function\n");
  const Entry& entry = *used;
  std::string text = entry.background != nullptr ? entry.background->text(entry.runs()) : std::string();
  text += "guards:\n" + entry.guards.text();
  if (entry.precision != MatmulPrecision::f32 && (entry.end.plan == nullptr || entry.end.plan->depends_on_precision()))
    text +=
        "  products of f32 matrices in " + std::string(sinter::name(entry.precision)) +
        (entry.precisions == all_precisions ? ", by Options::matmul_precision\n" : ", the default of the process\n");
  if (entry.tree != nullptr)
    return Explanation(text + entry.tree->text() + ending_text(entry, symbols), explained(entry, symbols, where));
  text += "traced graph:\n" + entry.traced.text() + "\noptimised graph:\n" + entry.optimised.text() + "\n";
  if (entry.gradient != nullptr) text += entry.gradient->text();
  if (entry.end.plan) text += "plan:\n" + entry.end.plan->text() + "\n" + listings(*entry.end.plan);
  else text += "plan: a registered back end runs the graph\n";
  return Explanation(text + ending_text(entry, symbols), explained(entry, symbols, where));
}
}  // namespace jit_detail

SINTER_DECL void reset() {
  std::vector<std::shared_ptr<FunctionState>> living;  // their own locks are taken when this one is free again
  {
    auto& functions = jit_detail::Functions::instance();
    std::scoped_lock lock(functions.mutex);
    for (FunctionState* function : functions.list)
      if (auto alive = function->weak_from_this().lock()) living.push_back(std::move(alive));
  }
  for (const auto& function : living) function->reset();
  clear_lazy_cache();
  clear_kernel_cache();
}

}  // namespace jit
SINTER_NAMESPACE_END
