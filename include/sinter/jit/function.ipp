// Entries of a compiled function: lookup, compilation, the run of a call.
#pragma once

#include <sinter/jit/function.hpp>

#include <sinter/expr/capture.hpp>
#include <sinter/jit/backends.hpp>
#include <sinter/jit/custom_run.hpp>
#include <sinter/jit/execute.hpp>
#include <sinter/jit/lazy.hpp>
#include <sinter/jit/marks.hpp>
#include <sinter/jit/memory_budget.hpp>
#include <sinter/jit/specialise.hpp>
#include <sinter/passes/pipeline.hpp>
#include <sinter/runtime/kernel_cache.hpp>
#include <sinter/runtime/staged.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <limits>
#include <ostream>

SINTER_NAMESPACE_BEGIN
namespace jit {

namespace jit_detail {
class Stopwatch {
 public:
  double lap_ms() {
    auto now = std::chrono::steady_clock::now();
    double ms = std::chrono::duration<double, std::milli>(now - last_).count();
    last_ = now;
    return ms;
  }

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

/// Every living FunctionState, so that jit::reset() reaches them.
struct Functions {
  std::mutex mutex;
  std::vector<FunctionState*> list;
  static Functions& instance() {
    static Functions* functions = new Functions;
    return *functions;
  }
};

/// The graph of a finished trace, and where its inputs and outputs come from.
struct TracedGraph {
  Graph graph;
  std::vector<Entry::Input> inputs;
  std::vector<std::shared_ptr<VariableSlot>> captured;
  std::vector<Type> captured_types;
  std::vector<Entry::Assignment> assignments;
  std::size_t results = 0;
  std::shared_ptr<const void> result_shape;
  GuardSet guards;
};

/// The graph of a trace that read no value.
inline TracedGraph traced_graph(FunctionTrace& trace, TracedResult result, Location where) {
  TracedGraph out;
  out.results = result.values.size();
  out.result_shape = std::move(result.shape);
  std::vector<Ref<TensorImpl>> outputs = std::move(result.values), known;
  for (std::size_t i = 0; i < trace.stand_ins().size(); ++i) {
    const auto& stand_in = trace.stand_ins()[i];
    if (!stand_in || trace.guards().leaves[i].same_slot_as >= 0) continue;
    known.push_back(stand_in);
    out.inputs.push_back({Entry::Input::Source::leaf, static_cast<std::int32_t>(i)});
  }
  for (const auto& read : trace.variables()) {
    if (read.leaf < 0) {
      known.push_back(read.stand_in);
      out.inputs.push_back({Entry::Input::Source::captured, static_cast<std::int32_t>(out.captured.size())});
      out.captured.push_back(read.slot);
      out.captured_types.push_back(read.seen->type);
    }
    if (!read.assigned) continue;
    outputs.push_back(read.assigned);
    out.assignments.push_back(read.leaf >= 0 ? Entry::Assignment{read.leaf, -1, -1}
                                             : Entry::Assignment{-1, static_cast<std::int32_t>(out.captured.size()) - 1, -1});
  }
  const CaptureOptions options{.trace = trace.id(), .ready = ReadyLeaf::constant, .last_effect = trace.last_effect()};
  Capture captured = capture(outputs, known, options);
  if (captured.inputs.size() > known.size()) {   // captured statements that have not run: then they are constants as well
    for (std::size_t i = known.size(); i < captured.inputs.size(); ++i) {
      TensorImpl* raw = captured.inputs[i].get();
      evaluate({&raw, 1}, "compile", where);
    }
    captured = capture(outputs, known, options);
  }
  for (SymbolId id = 0; id < trace.guards().symbols.size(); ++id) {
    SymbolInfo info;
    info.hint = trace.hints()[id];
    const SymbolSource& source = trace.guards().symbols[id];
    info.min = source.min;
    info.max = source.max;
    info.axis = source.is_stride ? -1 : source.axis;   // no shape has a stride
    for (std::size_t i = 0; i < out.inputs.size(); ++i)
      if (out.inputs[i].source == Entry::Input::Source::leaf && out.inputs[i].index == source.leaf && !source.is_stride) info.input = static_cast<std::int32_t>(i);
    captured.builder.symbols().push_back(info);
  }
  out.graph = share_symbols(captured.finish());
  out.guards = std::move(trace.guards());
  return out;
}

/// The first node in which two traces of one function differ, in words.
inline std::string first_difference(const Graph& before, const Graph& now, Location& where) {
  std::size_t n = std::min(before.nodes().size(), now.nodes().size());
  for (std::size_t i = 0; i < n; ++i) {
    const Node &a = before.nodes()[i], &b = now.nodes()[i];
    if (a.inputs == b.inputs && may_be_retrace(a, b)) continue;
    where = b.where;
    // A changed number is a node of its own; blame the operation that uses it.
    for (std::size_t user = i + 1; user < now.nodes().size() && b.inputs.empty(); ++user) {
      const Node& candidate = now.nodes()[user];
      for (Value v : candidate.inputs)
        if (v.node == static_cast<std::int32_t>(i)) return std::string(candidate.op->name);
    }
    return std::string(b.op->name);
  }
  return "the number of operations";
}
}  // namespace jit_detail

namespace jit_detail {
/// Which inputs an output may take over: Variables that the call gives a new value anyway, before arguments given up.
/// Notes which inputs are the assigned Variables.
inline std::vector<std::uint8_t> find_donors(Entry& entry) {
  std::vector<std::uint8_t> may_donate;
  for (std::size_t i = 0; i < entry.inputs.size(); ++i) {
    const Entry::Input& input = entry.inputs[i];
    const bool is_captured = input.source == Entry::Input::Source::captured;
    bool is_assigned = false;
    for (Entry::Assignment& a : entry.assignments) {
      if ((is_captured ? a.captured : a.leaf) != input.index) continue;
      a.input = static_cast<std::int32_t>(i);
      is_assigned = true;
    }
    const bool is_tensor = !is_captured && entry.guards.leaves[static_cast<std::size_t>(input.index)].kind == LeafKind::tensor;
    may_donate.push_back(is_assigned ? 2 : is_tensor ? 1 : 0);
  }
  return may_donate;
}
inline std::string listings(const Plan& plan) {
  std::string text;
  if (plan.staged() != nullptr)
    for (const StagedPlan::Part& part : plan.staged()->parts) text += part.plan ? listings(*part.plan) : "";
  for (const PlanStep& step : plan.steps())
    if (step.executable) text += "code of " + step.name + " [" + step.backend + "]:\n" + step.executable->listing() + "\n";
  return text;
}
/// What SINTER_LOGS asks for about a new entry.
inline void log_entry(const Entry& entry, Location where) {
  std::string place = where.text() + ":\n";
  if (is_logged("guards")) sinter::note("guards", place + entry.guards.text());
  if (is_logged("graphs")) sinter::note("graphs", place + entry.traced.text() + "\n" + entry.optimised.text());
  if (entry.plan == nullptr) return;
  if (is_logged("kernels")) sinter::note("kernels", place + entry.plan->text());
  if (is_logged("asm")) sinter::note("asm", place + listings(*entry.plan));
}
}  // namespace jit_detail

namespace jit_detail {
/// Options that contradict each other, or that no enumerator stands for.
inline void check_options(const Options& options, Location where) {
  if (options.mode != Mode::default_ && options.mode != Mode::reduce_overhead)
    throw UserError("compile", "Options::mode has the value " + std::to_string(static_cast<int>(options.mode)) + ", which is no Mode", where, "use Mode::default_ or Mode::reduce_overhead");
  if (options.dynamic != Dynamic::automatic && options.dynamic != Dynamic::always && options.dynamic != Dynamic::never)
    throw UserError("compile", "Options::dynamic has the value " + std::to_string(static_cast<int>(options.dynamic)) + ", which is no Dynamic", where,
                    "use Dynamic::automatic, always or never");
  if (options.mode == Mode::reduce_overhead && (options.backend == "noop" || registered_backend(options.backend) != nullptr))
    throw UserError("compile", "Mode::reduce_overhead contradicts the back end '" + options.backend + "', which makes its own results", where,
                    "leave the mode out, or use a back end of this build");
  if (options.memory_budget < 0) throw UserError("compile", "memory_budget is " + std::to_string(options.memory_budget), where, "give bytes; 0 stands for no budget");
  if (options.memory_budget > 0 && (options.backend == "noop" || registered_backend(options.backend) != nullptr))
    throw UserError("compile", "memory_budget contradicts the back end '" + options.backend + "', which holds memory of its own", where,
                    "leave the budget out, or use a back end of this build");
  if (!options.matmul_precision) return;
  tensor_detail::check_precision(*options.matmul_precision, "compile", where);
  if (options.backend == "noop" || registered_backend(options.backend) != nullptr)
    throw UserError("compile", "matmul_precision contradicts the back end '" + options.backend + "', which computes products in its own way", where,
                    "leave the precision out, use a back end of this build, or set the default of the process with set_matmul_precision");
}
}  // namespace jit_detail

SINTER_DECL FunctionState::FunctionState(Options options, Location where, Serves serves)
    : options_(std::move(options)), where_(where), serves_(serves) {
  check_backend(options_.backend, where);
  jit_detail::check_options(options_, where);
  if (options_.recompile_limit < 0)
    throw UserError("compile", "recompile_limit is " + std::to_string(options_.recompile_limit), where, "0 allows the first compilation only");
  is_noop_ = options_.backend == "noop";
  auto& functions = jit_detail::Functions::instance();
  std::scoped_lock lock(functions.mutex);
  functions.list.push_back(this);
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
SINTER_DECL void remember_sizes(const Entry& entry, EntryThread& thread, std::span<const ArgLeaf> args, const SmallVector<std::int64_t, 8>& symbols) {
  if (thread.sizes == nullptr) {
    thread.sizes = std::make_unique<SizeMemo>();
    thread.sizes->guards.leaves = entry.guards.leaves;
    thread.sizes->guards.has_variables = entry.guards.has_variables;
  }
  thread.sizes->symbols = symbols;
  for (std::size_t i = 0; i < args.size(); ++i) {
    LeafSpec& spec = thread.sizes->guards.leaves[i];
    if (args[i].type == nullptr) continue;
    spec.is_sized = true;
    for (std::size_t axis = 0; axis < spec.rank; ++axis) {
      spec.extents[axis] = args[i].type->shape.begin()[axis];
      spec.strides[axis] = (*args[i].strides)[axis];
      spec.stride_dims[axis] = Dim(spec.strides[axis]);
    }
  }
}
/// As entry.guards.holds(), quicker where this thread's last calls had the same sizes.
inline bool guards_hold(const Entry& entry, std::span<const ArgLeaf> args, SmallVector<std::int64_t, 8>& symbols) {
  if (entry.guards.symbols.empty()) return entry.guards.holds(args, symbols);
  EntryThread* thread = entry.threads.get();
  if (thread != nullptr && SINTER_LIKELY(thread->sizes != nullptr) && SINTER_LIKELY(thread->sizes->guards.holds(args, symbols))) {
    symbols = thread->sizes->symbols;
    return true;
  }
  if (!entry.guards.holds(args, symbols)) return false;
  if (thread == nullptr) return true;
  if (thread->last_symbols == symbols) remember_sizes(entry, *thread, args, symbols);
  else thread->last_symbols = symbols;
  return true;
}
}  // namespace jit_detail

SINTER_DECL const Entry* FunctionState::find(const ArgList& args, SmallVector<std::int64_t, 8>& symbols) const {
  const std::uint8_t precision = tensor_detail::matmul_precision_bit.load(std::memory_order_relaxed);
  for (const Entry* entry = newest_.load(std::memory_order_acquire); entry != nullptr; entry = entry->next) {
    if (SINTER_UNLIKELY((entry->precisions & precision) == 0)) continue;
    if (!jit_detail::guards_hold(*entry, args.leaves(), symbols)) continue;
    bool fits = true;
    for (std::size_t i = 0; i < entry->captured.size(); ++i)
      fits &= identical(entry->captured[i]->here()->peek(args.reading())->type, entry->captured_types[i]);
    if (fits) return entry;
  }
  return nullptr;
}

SINTER_DECL const Entry* FunctionState::entry_for(const ArgList& args, const TraceFunction& trace, SmallVector<std::int64_t, 8>& symbols) {
  const Entry* entry = find(args, symbols);
  if (SINTER_LIKELY(entry != nullptr)) {
    if (entry->tree != nullptr) return entry;   // checks the path that the call takes
    std::int64_t due = entry->next_check.load(std::memory_order_relaxed);
    if (SINTER_UNLIKELY(due != std::numeric_limits<std::int64_t>::max() && entry->runs() >= due)) {
      // One of several threads checks; the others need not wait for it.
      if (entry->next_check.compare_exchange_strong(due, std::numeric_limits<std::int64_t>::max())) check_purity(*entry, args, trace, due);
    }
    return entry;
  }
  std::scoped_lock lock(compiling_);
  entry = find(args, symbols);
  if (entry != nullptr) return entry;
  if (!may_compile(args.leaves())) return nullptr;
  std::unique_ptr<Entry> made = compile(args, trace);
  made->guards.prepare();
  made->next = newest_.load(std::memory_order_acquire);
  entry = made.get();
  entries_.push_back(std::move(made));
  newest_.store(entry, std::memory_order_release);
  ensure(entry->guards.holds(args.leaves(), symbols), "a new entry does not fit the arguments it was made for");
  return entry;
}

SINTER_DECL std::optional<Guard> FunctionState::newest_broken(std::span<const ArgLeaf> args) const {
  const Entry* newest = newest_.load(std::memory_order_acquire);
  if (newest == nullptr) return {};
  if (auto broken = newest->guards.first_broken(args)) return broken;
  if (const MatmulPrecision now = matmul_precision(); (newest->precisions & precision_bit(now)) == 0)
    return broken_precision(newest->precision, now);
  return Guard{GuardKind::dtype, -1, -1, "a captured Variable has another dtype or shape now"};
}

SINTER_DECL bool FunctionState::is_first_of_its_sizes(std::span<const ArgLeaf> args) const {
  const auto fits = [&](const LeafSpec& spec, const ArgLeaf& arg) {
    for (std::size_t axis = 0; axis < spec.rank; ++axis) {
      const std::int64_t extent = arg.type->shape.begin()[axis].value();
      if (extent < 2 ? !identical(spec.extents[axis], Dim(extent)) : spec.extents[axis].is_static()) return false;
    }
    return true;
  };
  for (const Entry* entry = newest_.load(std::memory_order_acquire); entry != nullptr; entry = entry->next) {
    bool has_sizes = entry->guards.leaves.size() == args.size();
    for (std::size_t i = 0; has_sizes && i < args.size(); ++i) has_sizes = args[i].type == nullptr || fits(entry->guards.leaves[i], args[i]);
    if (has_sizes) return false;
  }
  return true;
}

SINTER_DECL bool FunctionState::may_compile(std::span<const ArgLeaf> args) {
  std::optional<Guard> broken = newest_broken(args);
  if (serves_ == Serves::expression) return compiles_ - 1 < options_.recompile_limit;
  // A first version is no recompile; nor is that for extents of 0 or 1 where all others are symbols from the start.
  const bool is_first = !broken || (options_.dynamic == Dynamic::always && (broken->kind == GuardKind::extent || broken->kind == GuardKind::range) && is_first_of_its_sizes(args));
  const std::string reason = !broken ? "nothing is compiled for it yet" : "guard '" + std::string(name(broken->kind)) + "' failed: " + broken->reason;
  switch (current_stance()) {
    case Stance::fail_on_recompile:
      if (is_first) break;
      throw RecompileError("compile", "no compiled version fits this call, and the stance is fail_on_recompile: " + reason, where_, remedy(*broken));
    case Stance::force_eager:
    case Stance::eager_on_recompile: return false;
    case Stance::eager_then_compile:
      if (!broken && !misses_.has_seen()) {
        misses_.remember(args);
        return false;
      }
      break;
    case Stance::default_: break;
  }
  if (!broken) return true;
  if (is_logged("recompiles")) sinter::note("recompiles", where_.text() + ": " + reason);
  misses_.add(*broken);
  if (compiles_ - 1 < options_.recompile_limit) return true;
  if (misses_.report_once()) warn("recompiles", where_.text() + ": " + misses_.text(options_.recompile_limit));
  return false;
}

SINTER_DECL GuardSet FunctionState::choose_specs(std::span<const ArgLeaf> args) const {
  std::vector<std::uint32_t> symbolic(args.size(), options_.dynamic == Dynamic::always ? 0xFFFFu : 0u);
  if (options_.dynamic == Dynamic::automatic) {
    misses_.mark_changed(args, symbolic);
    for (const Entry* entry = newest_.load(std::memory_order_acquire); entry != nullptr; entry = entry->next)
      mark_changed(entry->guards.leaves, args, symbolic);
  }
  return specs_of(args, symbolic);
}

SINTER_DECL std::unique_ptr<Entry> FunctionState::compile(const ArgList& args, const TraceFunction& trace) {
  jit_detail::Stopwatch watch;
  ReadPolicy policy;
  if (options_.fullgraph) policy.beyond = ReadPolicy::Beyond::refuse;
  auto entry = std::make_unique<Entry>();
  entry->precision = policy.precision = precision_now();
  policy.fallback = fallback();
  FunctionTrace recorder("compile", args.leaves(), choose_specs(args.leaves()), std::move(policy));
  TracedResult result = trace(recorder);
  if (!recorder.reads().empty()) {
    if (jit_detail::registered_backend(options_.backend) != nullptr)
      throw TraceError(recorder.reads()[0].op, "a value is read, which would cut the graph, and back end '" + options_.backend + "' takes whole graphs", recorder.reads()[0].where,
                       "choose with where(condition, a, b), use jit::cond or jit::while_loop, or return the value and read it outside");
    grow_tree(*entry, args, recorder, std::move(result));
    guard_precision(*entry);
    ++compiles_;
    compile_ms_ += watch.lap_ms();
    return entry;
  }
  jit_detail::TracedGraph traced = jit_detail::traced_graph(recorder, std::move(result), where_);
  entry->guards = std::move(traced.guards);
  entry->inputs = std::move(traced.inputs);
  entry->captured = std::move(traced.captured);
  entry->captured_types = std::move(traced.captured_types);
  entry->assignments = std::move(traced.assignments);
  entry->results = traced.results;
  entry->result_shape = std::move(traced.result_shape);
  entry->trace_ms = watch.lap_ms();
  const bool is_custom = jit_detail::registered_backend(options_.backend) != nullptr;
  const std::vector<Dim> solution = solve_symbols(entry->guards, args.leaves(), is_custom ? Divide::no : Divide::yes);
  check_marks(entry->guards, args.leaves(), solution);
  Graph specialised = substitute_symbols(traced.graph, solution, entry->guards.symbols);
  entry->traced = std::move(traced.graph);
  if (const BackendFunction* custom = jit_detail::registered_backend(options_.backend)) {
    jit_detail::compile_custom(*entry, *custom, options_.backend, std::move(specialised), args.leaves(), where_);
    guard_precision(*entry);
    entry->codegen_ms = watch.lap_ms();
    finish_compile(*entry);
    return entry;
  }
  entry->optimised = jit_detail::run_passes_for(options_.backend, specialised);
  if (options_.backend != "eager") {
    std::vector<std::uint8_t> is_number, is_narrowed;
    for (const Entry::Input& input : entry->inputs)
      is_number.push_back(input.source == Entry::Input::Source::leaf && args.leaves()[static_cast<std::size_t>(input.index)].kind == LeafKind::scalar);
    entry->optimised = narrow_numbers(entry->optimised, is_number, is_narrowed);
    for (std::size_t i = 0; i < entry->inputs.size(); ++i) entry->inputs[i].as_float = is_narrowed[i] != 0;
  }
  entry->passes_ms = watch.lap_ms();
  std::vector<InputLayout> layouts;
  for (const Entry::Input& input : entry->inputs) {
    InputLayout layout;
    auto index = static_cast<std::size_t>(input.index);
    if (input.source == Entry::Input::Source::leaf && !entry->guards.leaves[index].is_dense)
      for (std::size_t axis = 0; axis < entry->guards.leaves[index].rank; ++axis) layout.push_back(entry->guards.leaves[index].stride_dims[axis].substitute(solution));
    layouts.push_back(std::move(layout));
  }
  PlanOptions wanted = plan_options(entry->optimised, options_.backend, std::move(layouts), options_.fuse && !jit_detail::is_unfused_backend(options_.backend),
                                          entry->traced, entry->precision, jit_detail::find_donors(*entry));
  wanted.as_one = options_.mode == Mode::reduce_overhead;
  wanted.allow_fallback |= options_.allow_fallback;
  entry->optimised = fit_memory(entry->optimised, options_.memory_budget, wanted, where_);
  entry->plan = build_plan(entry->optimised, wanted);
  guard_precision(*entry);
  entry->codegen_ms = watch.lap_ms();
  finish_compile(*entry);
  return entry;
}

SINTER_DECL void FunctionState::guard_precision(Entry& entry) const {
  const bool matters = entry.plan == nullptr || entry.plan->depends_on_precision();   // trees grow, and others' plans are their own
  entry.precisions = options_.matmul_precision || !matters ? all_precisions : precision_bit(entry.precision);
}

SINTER_DECL void FunctionState::finish_compile(const Entry& entry) {
  ++compiles_;
  compile_ms_ += entry.trace_ms + entry.passes_ms + entry.codegen_ms;
  jit_detail::log_entry(entry, where_);
}

SINTER_DECL void FunctionState::check_purity(const Entry& entry, const ArgList& args, const TraceFunction& trace, std::int64_t due) {
  struct Next {   // a check that fails or throws is due again at once: wrong values must not come in silence
    const Entry& entry;
    std::int64_t runs;
    ~Next() { entry.next_check.store(runs, std::memory_order_relaxed); }
  } next{entry, due};
  ReadPolicy policy;
  policy.beyond = ReadPolicy::Beyond::differs;
  FunctionTrace recorder("compile", args.leaves(), entry.guards.specs(), std::move(policy));
  jit_detail::TracedGraph again = jit_detail::traced_graph(recorder, trace(recorder), where_);
  if (may_be_retrace(entry.traced, again.graph)) {
    const auto is_same = [](const auto& a, const auto& b) { return is_same_role(*a, *b); };
    if (!std::equal(again.captured.begin(), again.captured.end(), entry.captured.begin(), entry.captured.end(), is_same))
      throw TraceError("compile", "the function uses another Variable than when it was traced", where_,
                       "a captured Variable is known by its identity: pass it as an argument, or give the same one a new value with set");
    next.runs = Context::get().checks ? std::max<std::int64_t>(4, 2 * due) : std::numeric_limits<std::int64_t>::max();
    return;
  }
  Location where = where_;
  std::string op = jit_detail::first_difference(entry.traced, again.graph, where);
  throw TraceError("compile", "captured value changed at " + op, where,
                   jit_detail::purity_fix);
}

namespace jit_detail {
/// Calls in the graph and, once for each body, in the bodies.
inline void count_regions(const Graph& graph, std::vector<const Graph*>& bodies, std::int64_t& calls) {
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
  std::scoped_lock lock(compiling_);
  Stats stats;
  for (const auto& entry : entries_) {
    stats.calls += entry->runs();
    if (entry->tree != nullptr) jit_detail::add_figures(*entry->tree, stats);
  }
  stats.compiles = compiles_;
  stats.recompiles = compiles_ > 0 ? compiles_ - 1 : 0;
  stats.compile_ms = compile_ms_;
  stats.eager_calls = plain_calls_.load(std::memory_order_relaxed);
  const Entry* newest = newest_.load(std::memory_order_acquire);
  if (newest != nullptr && newest->plan) {
    stats.kernels = static_cast<std::int64_t>(newest->plan->kernel_count());
    stats.peak_bytes = newest->plan->held_bytes();
  }
  if (newest != nullptr) {
    std::vector<const Graph*> bodies;
    jit_detail::count_regions(newest->optimised, bodies, stats.region_calls);
    stats.regions = static_cast<std::int64_t>(bodies.size());
  }
  return stats;
}

SINTER_DECL void FunctionState::reset() {
  std::scoped_lock lock(compiling_);
  newest_.store(nullptr, std::memory_order_release);
  compiles_ = 0;
  compile_ms_ = 0;
  misses_ = {};
  plain_calls_.store(0, std::memory_order_relaxed);
}

SINTER_DECL bool is_compiling() { return Trace::current() != nullptr; }

SINTER_DECL std::ostream& operator<<(std::ostream& out, const Explanation& e) { return out << e.text(); }

SINTER_DECL Explanation explain(const Entry* compiled, std::span<const std::int64_t> symbols) {
  if (compiled == nullptr) return Explanation("this call runs the function uncompiled: by SINTER_DISABLE, its back end noop, the stance, or past its recompile limit\n");
  const Entry& entry = *compiled;
  std::string text = "guards:\n" + entry.guards.text();
  if (entry.precision != MatmulPrecision::f32 && (entry.plan == nullptr || entry.plan->depends_on_precision()))
    text += "  products of f32 matrices in " + std::string(sinter::name(entry.precision)) +
            (entry.precisions == all_precisions ? ", by Options::matmul_precision\n" : ", the default of the process\n");
  if (entry.tree != nullptr) return Explanation(text + "trace tree:\n" + jit_detail::text_of(*entry.tree));
  text += "traced graph:\n" + entry.traced.text() + "\noptimised graph:\n" + entry.optimised.text() + "\n";
  if (entry.plan) text += "plan:\n" + entry.plan->text() + "\n" + jit_detail::listings(*entry.plan);
  else text += "plan: a registered back end runs the graph\n";
  char times[160];
  std::snprintf(times, sizeof times, "compile time: trace %.3f ms, passes %.3f ms, fusion and code %.3f ms\n", entry.trace_ms, entry.passes_ms, entry.codegen_ms);
  for (std::size_t i = 0; i < symbols.size(); ++i) {
    const std::int64_t divisor = entry.guards.symbols[i].divisor;
    text += "s" + std::to_string(i) + " = " + std::to_string(symbols[i] * divisor) + " in this call";
    text += divisor == 1 ? "\n" : "; " + std::to_string(symbols[i]) + " times " + std::to_string(divisor) + ", which the optimised graph calls s" + std::to_string(i) + "\n";
  }
  return Explanation(text + times);
}

SINTER_DECL void reset() {
  auto& functions = jit_detail::Functions::instance();
  {
    std::scoped_lock lock(functions.mutex);
    for (FunctionState* function : functions.list) function->reset();
  }
  clear_lazy_cache();
  clear_kernel_cache();
}

}  // namespace jit
SINTER_NAMESPACE_END
