// Following a tree, and what happens where it ends.
#pragma once

#include <sinter/jit/trace/tree_call.hpp>

#include <sinter/base/context.hpp>
#include <sinter/base/index.hpp>
#include <sinter/base/json_text.hpp>
#include <sinter/base/timeline.hpp>
#include <sinter/expr/host.hpp>
#include <sinter/jit/call/background.hpp>
#include <sinter/jit/call/delivery.ipp>  // run_end
#include <sinter/jit/call/execute.hpp>
#include <sinter/jit/call/making.hpp>
#include <sinter/jit/call/marks.hpp>
#include <sinter/jit/call/purity.hpp>
#include <sinter/jit/call/specialise.hpp>
#include <sinter/jit/call/traced_tape.hpp>
#include <sinter/jit/trace/live_values.hpp>
#include <sinter/jit/trace/path_gradient.hpp>
#include <sinter/jit/trace/trace.hpp>
#include <sinter/jit/trace/tree_text.hpp>

#include <limits>
#include <set>

SINTER_NAMESPACE_BEGIN
namespace jit {

SINTER_DECL TensorImpl* TreeCall::seen(const VariableSlot* slot) const {
  for (const SeenVariable& variable : variables_)
    if (variable.slot == slot) return variable.value;
  return nullptr;
}

SINTER_DECL TensorImpl* TreeCall::variable(const std::shared_ptr<VariableSlot>& slot) {
  VariableSlot* own = slot->here();
  if (TensorImpl* known = seen(own)) return known;
  TensorImpl* value = own->peek(args_.reading());
  if (!value->is_ready() || !value->is_dense()) {
    laid_out_.push_back(dense_value(In(Tensor(Ref<TensorImpl>::share(value)), Location()), "compiled call"));
    value = laid_out_.back().get();
  }
  variables_.push_back({own, value});
  return value;
}

SINTER_DECL TensorImpl* TreeCall::value_of(const PlanInput& input) {
  const auto index = as_index(input.index);
  switch (input.source) {
    case PlanInput::Source::leaf: return args_.leaves()[index].impl;
    case PlanInput::Source::captured: return variable(input.slot);
    case PlanInput::Source::carried: return table_[index].get();
    case PlanInput::Source::eager: return eager_results_[index]->values[as_index(input.result)].get();
  }
  __builtin_unreachable();
}

SINTER_DECL void TreeCall::place_inputs(CallPlaces& places) {
  std::span<const PlanInput> inputs = node_->end.inputs;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const PlanInput& input = inputs[i];
    if (input.source == PlanInput::Source::leaf) {
      jit_detail::place_argument(args_.leaves()[as_index(input.index)], input, i, places);
      continue;
    }
    TensorImpl* value = value_of(input);
    places.values[i] = value;
    places.inputs[i] = value->data();
  }
}

SINTER_DECL std::uint64_t TreeCall::run_segment() {
  const FrameLease frame = node_->end.plan->acquire_frame(symbols_);
  CallPlaces& places = frame->places();
  place_inputs(places);
  std::span<const FrameOutput> outputs = frame->outputs();
  const EagerCall* eager = node_->traced->eager_call.get();
  const bool is_on_host =
      eager == nullptr && outputs[0].type.device == Device::cpu();  // then the outcome needs no memory of its own
  std::uint64_t outcome = 0;
  jit_detail::ValueTable<16> made(outputs.size());
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (i > 0 || !is_on_host) made[i] = jit_detail::fresh_result(outputs[i]);
    places.outputs[i] = made[i] ? made[i]->storage->data() : &outcome;
  }
  frame->run(places.inputs, places.outputs);
  if (!is_on_host && eager == nullptr) outcome = element_bits(*made[0]);
  for (std::int32_t place : node_->releases) table_[as_index(place)] = {};
  for (TreeNode::Store store : node_->stores) table_[as_index(store.place)] = made[as_index(store.output)];
  if (eager != nullptr) run_eager_call({made.data(), node_->traced->outputs.size()});
  return outcome;
}

SINTER_DECL void TreeCall::run_eager_call(std::span<const Ref<TensorImpl>> made) {
  std::vector<EagerSection::Use> uses;
  for (const EagerVariable& used : node_->traced->eager_variables)
    uses.push_back({used.leaf >= 0 ? args_.leaves()[as_index(used.leaf)].slot : used.slot->here(), used.is_assigned});
  const EagerCall& eager = *node_->traced->eager_call;
  EagerSection section(uses, eager);
  auto results = std::make_shared<const EagerResults>(eager.run(made, symbols_));
  leaves_tree_ = is_tape_on() && !args_.has_places && results->is_on_tape && !node_->traced->gives_tape;
  eager_results_.resize(nodes_.size());
  eager_results_.back() = std::move(results);
}

SINTER_DECL void TreeCall::replay(ReadPolicy& policy) const {
  policy.replay_log = outcomes_;
  policy.eager_results = eager_results_;
  for (std::size_t i = 1; i < nodes_.size(); ++i) policy.arrivals.push_back(nodes_[i]->traced->arrival);
}

SINTER_DECL bool TreeCall::run() {
  while (node_->leaf == nullptr) {
    nodes_.push_back(node_);
    outcomes_.push_back(run_segment());
    if (leaves_tree_) return false;
    const EagerResults* given = node_->traced->eager_call ? eager_results_.back().get() : nullptr;
    const auto* next = TraceTree::child(*node_, outcomes_.back(), given, symbols_, args_.leaves());
    if (next == nullptr) return false;
    node_ = next->get();
  }
  nodes_.push_back(node_);
  return true;
}

SINTER_DECL void TreeCall::run_leaf(EntryThread* thread, Mode mode, Location where, Ref<TensorImpl>* results,
                                    Targets targets) {
  const FrameLease frame = node_->end.plan->acquire_frame(symbols_);
  place_inputs(frame->places());
  const std::span<Ref<TensorImpl>> carried{table_.data(), as_index(version_.places)};
  const jit_detail::EndingCall call{node_->end, version_.held, args_, *frame, symbols_, thread, mode, where, carried};
  if (node_->leaf->tape == nullptr) return jit_detail::run_end(call, results, targets);
  if (targets.empty()) return run_leaf_on_tape(call, results);
  std::vector<Ref<TensorImpl>> values(
      node_->end.results);  // another thread has made this path since the entry was found
  jit_detail::run_end(call, values.data(), targets);
}

SINTER_DECL void TreeCall::run_leaf_on_tape(const jit_detail::EndingCall& call, Ref<TensorImpl>* results) {
  const PathTape& tape = *node_->leaf->tape;
  std::vector<TensorImpl*> inputs;
  for (const PlanInput& input : tape.inputs) inputs.push_back(value_of(input));
  jit_detail::TapedCall taped(*tape.gradient, tape.attrs.of(tape.gradient, symbols_),
                              jit_detail::inputs_on_tape(*tape.gradient, tape.inputs, inputs, args_), call.where);
  std::vector<Ref<TensorImpl>> values(node_->end.results);
  jit_detail::run_end(call, values.data(), {});
  taped.deliver(values, results);
}

SINTER_DECL void TreeCall::prepare(EntryThread* thread, Mode mode) const {
  for (const TreeNode* node : nodes_) node->end.plan->acquire_frame(symbols_)->prepare();
  const FrameLease frame = node_->end.plan->acquire_frame(symbols_);
  jit_detail::prepare_end(node_->end, *frame, thread, mode);
  node_->leaf->calls.prepare();
}

namespace jit_detail {

inline void log_breaks(const FunctionTrace& trace, std::size_t seen, Location where) {
  if (!is_logged("graph_breaks") && !has_timeline()) return;
  for (std::size_t i = seen; i < trace.reads().size(); ++i) {
    const ReadPoint& read = trace.reads()[i];
    const std::string cut = cut_text(read.op, !read.eager_call && read.value->type.dtype == DType::bool_,
                                     read.eager_call.get(), read.where);
    note("graph_breaks", where.text() + ": the trace is cut where " + cut);
    timeline::instant("break", "graph break", JsonFields().add("why", cut).add("line", read.where.text()));
  }
}

}  // namespace jit_detail

namespace jit_detail {
/// The results of a call that was traced, as they stand on the tape.
inline void put_on_tape(FinishedCall& call, const ArgList& args, std::span<const std::int64_t> symbols,
                        Location where) {
  const PathTape& tape = *call.tape;
  std::vector<TensorImpl*> inputs;
  for (const auto& input : call.tape_inputs) inputs.push_back(input.get());
  TapedCall taped(*tape.gradient, tape.attrs.of(tape.gradient, symbols),
                  inputs_on_tape(*tape.gradient, tape.inputs, inputs, args), where);
  std::vector<Ref<TensorImpl>> values = call.results;
  values.insert(values.end(), call.saved.begin(), call.saved.end());
  taped.deliver(values, call.results.data());
}
}  // namespace jit_detail

SINTER_DECL TracedPath FunctionState::finished_path(const Entry& entry, const ArgList& args, FunctionTrace& recorder,
                                                    TracedResult result, FinishedCall& finished) const {
  TracedPath path = recorder.path(&result);
  const std::vector<Ref<TensorImpl>> walked = result.values;  // the path has no references of its own to what it walked
  const std::span<const Value> results(path.segments.back()->outputs.data(), path.leaf->results);
  jit_detail::refuse_captured_on_tape(path.graph, result, results, {path.walked, path.walked_values}, where_);
  if (jit_detail::wants_tape(path, result, args.leaves()) || recorder.calls_on_tape()) {
    if (!args.has_places) jit_detail::add_tape(path, recorder, result, args.leaves(), gradient_choices(entry));
    path.leaf->drops_tape = args.has_places;
    if (path.leaf->drops_tape) entry.drops_tape = true;
    if (path.leaf->tape != nullptr) entry.has_taped_path = true;
  }
  finished = recorder.finish(std::move(result));
  if (path.leaf->tape != nullptr) recorder.finish_tape(path, finished);
  add_held(path, finished.held);
  return path;
}

SINTER_DECL void FunctionState::grow_tree(Entry& entry, const ArgList& args, FunctionTrace& recorder,
                                          TracedResult result) {
  entry.result_shape = result.shape;
  args.finished = std::make_shared<FinishedCall>();
  TracedPath path = finished_path(entry, args, recorder, std::move(result), *args.finished);
  entry.guards = std::move(recorder.guards());
  check_marks(entry.guards, args.leaves(), solve_symbols(entry.guards, args.leaves(), Divide::no));
  entry.guards.dims = path.segments.front()->dims;
  for (const VariableUse& use : path.segments.front()->variables) {
    entry.held.captured.push_back(use.slot);
    entry.captured_types.push_back(use.type);
  }
  entry.tape = jit_detail::tape_guard_of(args.leaves(), entry.held.captured);
  entry.tape.hooks = path.segments.front()->hooks;
  entry.tape.serves_off = !is_tape_on() && jit_detail::captures_tape(path.graph);
  entry.tree = std::make_shared<TraceTree>(entry.guards, jit_detail::CodeChoices::of(options_, entry.precision, where_),
                                           TraceTree::Limits{options_.max_breaks, options_.max_values});
  if (options_.mode == Mode::background) entry.background = std::make_shared<jit_detail::BackgroundState>();
  SmallVector<std::int64_t, 8> symbols(recorder.hints());
  args.finished->taken = entry.tree->insert(path, symbols, args.leaves()).taken;
  jit_detail::log_breaks(recorder, 0, where_);
}

SINTER_DECL std::optional<FinishedCall> FunctionState::resume(const Entry& entry, const ArgList& args,
                                                              const TraceFunction& trace, TreeCall& call) {
  const Stance stance = current_stance();
  const bool is_fixed = is_frozen();
  const Location at = call.node().traced->where;
  if (is_fixed) frozen_misses_.fetch_add(1, std::memory_order_relaxed);
  if (stance == Stance::fail_on_recompile || (is_fixed && on_miss_.load() == OnMiss::throws))
    throw RecompileError(
        "compile",
        (call.node().traced->eager_call ? "what the function called at " + at.text() + " gave"
                                        : "the outcome of the read at " + at.text()) +
            " was not seen before, and " + (is_fixed ? "the function is frozen" : "the stance is fail_on_recompile"),
        where_,
        is_fixed ? "call unfreeze(), warm_up(args...) with arguments that take this path, and freeze()"
                 : "call warm_up(args...) with arguments that take this path before the stance is set");
  const bool may_grow = !is_fixed && stance != Stance::eager_on_recompile && entry.tree->may_grow_at(call.node());
  ReadPolicy policy;
  policy.precision = entry.precision;
  policy.fallback = fallback();
  call.replay(policy);
  policy.after_replay = [&](FunctionTrace& recorder) {
    std::vector<const TracedSegment*> before;
    for (const TreeNode* node : call.nodes()) before.push_back(node->traced.get());
    TracedPath prefix = recorder.path(nullptr);
    Location where = where_;
    if (std::string op = path_difference(before, prefix, where); !op.empty())
      throw TraceError("compile", "captured value changed at " + op, where, jit_detail::purity_fix);
    for (std::size_t i = 0; i < prefix.walked.size(); ++i)
      if (jit_detail::is_token(prefix.graph, prefix.walked_values[i]))
        recorder.live().set_done(Ref<TensorImpl>::share(prefix.walked[i]));
    const std::set<Value> walked(prefix.walked_values.begin(), prefix.walked_values.end());
    for (std::size_t i = 0; i < prefix.walked.size(); ++i) {
      const auto value = Ref<TensorImpl>::share(prefix.walked[i]);
      const Value place = prefix.walked_values[i];
      for (const TreeNode::Carried& carried : call.node().live) {
        if (carried.value == place) recorder.live().set(value, call.carried(carried.place));
        // Another result of its pending node, which no read needed, may be used from here on.
        else if (carried.value.node == place.node && value->pending_node->results > 1 &&
                 !walked.contains(carried.value))
          recorder.live().set_result(value, as_index(carried.value.result), call.carried(carried.place));
      }
    }
    for (const FunctionTrace::VariableRead& read : recorder.variables())
      if (TensorImpl* seen = read.leaf < 0 ? call.seen(read.slot->here()) : nullptr)
        recorder.live().set(read.placeholder, Ref<TensorImpl>::share(seen));
  };
  FunctionTrace recorder("compile", args.leaves(), entry.guards.specs(), std::move(policy));
  const ContextUse context_use;
  TracedResult result = trace(recorder);
  if (may_grow)  // before anybody can find the path
    entry.context_used.fetch_or(call_context().used, std::memory_order_acq_rel);
  if (recorder.reads().size() < call.outcomes().size())
    throw TraceError("compile", "captured value changed at the number of values read", where_, jit_detail::purity_fix);
  if (!args.has_places && recorder.calls_on_tape() && jit_detail::is_on_tape(result)) {
    entry.is_plain = true;
    return {};
  }
  FinishedCall finished;
  const TracedPath path = finished_path(entry, args, recorder, std::move(result), finished);
  if (may_grow && !entry.serves_context()) {  // the path is for a version of its own, which the next call makes
    entry.tree->unbounded_calls.fetch_add(1, std::memory_order_relaxed);
  } else if (may_grow) {
    SmallVector<std::int64_t, 8> symbols(recorder.hints());
    TraceTree::Inserted inserted;
    {
      const ForkSection whole;  // a child must not find a path that nobody is going to make code for
      {
        std::scoped_lock lock(mutex_);
        jit_detail::Stopwatch watch;
        const runtime_detail::CodeCounting counting;
        inserted = entry.tree->insert(path, symbols, args.leaves());
        if (entry.background != nullptr) entry.background->announce();
        count_code(counting);
        compile_ms_ += watch.lap_ms();
      }
      submit(entry);
    }
    finished.taken = std::move(inserted.taken);
    jit_detail::log_breaks(recorder, call.outcomes().size(), where_);
    jit_detail::log_segments(inserted.made, entry.guards, where_);
  } else {
    finished.taken = {call.node().traced, &call.node().traced->lazy_calls};
    entry.tree->unbounded_calls.fetch_add(1, std::memory_order_relaxed);
    if (is_logged("graph_breaks") && stance != Stance::eager_on_recompile)
      note("graph_breaks", where_.text() + ": " +
                               (call.node().reads_outcome()
                                    ? std::to_string(entry.tree->segments()) + " segments (Options::max_breaks)"
                                    : std::to_string(call.node().children.size()) + " values (Options::max_values)") +
                               " are compiled: this call goes on lazily after the " +
                               (call.node().traced->eager_call ? "call" : "read") + " at " + at.text());
  }
  return finished;
}

SINTER_DECL std::optional<FinishedCall> FunctionState::run_untreed(const Entry& entry, const ArgList& args,
                                                                   const TraceFunction& trace) {
  ReadPolicy policy;
  policy.precision = entry.precision;
  policy.fallback = fallback();
  FunctionTrace recorder("compile", args.leaves(), entry.guards.specs(), std::move(policy));
  TracedResult result = trace(recorder);
  if (!args.has_places && recorder.calls_on_tape() && jit_detail::is_on_tape(result)) {
    entry.is_plain = true;
    return {};
  }
  FinishedCall finished;
  finished_path(entry, args, recorder, std::move(result), finished);
  entry.tree->unbounded_calls.fetch_add(1, std::memory_order_relaxed);
  return finished;
}

SINTER_DECL void FunctionState::check_path(const Entry& entry, const ArgList& args, const TraceFunction& trace,
                                           const TreeCall& call) {
  const TracedLeaf& leaf = *call.node().leaf;
  std::int64_t due = leaf.next_check.load(std::memory_order_relaxed);
  if (SINTER_LIKELY(due == std::numeric_limits<std::int64_t>::max()) || is_frozen()) return;
  const std::int64_t runs =
      leaf.runs.fetch_add(1, std::memory_order_relaxed) + 1;  // the first call of a path is its trace
  if (runs < due || !leaf.next_check.compare_exchange_strong(due, std::numeric_limits<std::int64_t>::max())) return;
  struct Next {  // a check that fails or throws is due again at once
    const TracedLeaf& leaf;
    std::int64_t runs;
    ~Next() { leaf.next_check.store(runs, std::memory_order_relaxed); }
  } next{leaf, due};
  ReadPolicy policy;
  policy.beyond = ReadPolicy::Beyond::differs;
  call.replay(policy);
  FunctionTrace recorder("compile", args.leaves(), entry.guards.specs(), std::move(policy));
  TracedResult result = trace(recorder);
  std::vector<const TracedSegment*> before;
  for (const TreeNode* node : call.nodes()) before.push_back(node->traced.get());
  Location where = where_;
  if (std::string op = path_difference(before, recorder.path(&result), where); !op.empty())
    throw TraceError("compile", "captured value changed at " + op, where, jit_detail::purity_fix);
  next.runs = jit_detail::next_purity_check(due);
}

SINTER_DECL void FunctionState::warm_up_tree(const Entry& entry, const ArgList& args, const TraceFunction& trace,
                                             std::span<const std::int64_t> symbols) {
  args.finished.reset();
  for (bool has_grown = false;; has_grown = true) {
    const TraceTree::Version* version = entry.tree->current();
    if (version == nullptr || !entry.serves_context()) return;
    TreeCall call(*version, args, symbols);
    if (!call.run()) {
      if (has_grown || call.leaves_tree()) return;  // past the bounds of the tree
      static_cast<void>(resume(entry, args, trace, call));
      continue;
    }
    check_path(entry, args, trace, call);
    call.node().leaf->next_check.store(std::numeric_limits<std::int64_t>::max(), std::memory_order_relaxed);
    return call.prepare(entry.threads.get(), options_.mode);
  }
}

SINTER_DECL TreeResult FunctionState::run_tree(const Entry& entry, const ArgList& args,
                                               std::span<const std::int64_t> symbols, const TraceFunction& trace,
                                               ResultPlace results, Targets targets) {
  EntryThread* thread = entry.threads.get();
  if (entry.background != nullptr) {
    entry.background->check();
    entry.background->count_call();
  }
  if (thread != nullptr)
    thread->runs.store(thread->runs.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  else entry.other_runs.fetch_add(1, std::memory_order_relaxed);
  const TraceTree::Version* version = entry.tree->current();
  const auto delivered = [&](std::optional<FinishedCall> finished) -> TreeResult {
    if (!finished) return {.runs_plain = true};
    FinishedCall& call = *finished;
    if (call.tape != nullptr && targets.empty()) jit_detail::put_on_tape(call, args, symbols, where_);
    if (version != nullptr && !targets.empty()) {  // other paths hold values, too
      call.held.constants.insert(call.held.constants.end(), version->held.constants.begin(),
                                 version->held.constants.end());
      call.held.captured.insert(call.held.captured.end(), version->held.captured.begin(), version->held.captured.end());
    }
    jit_detail::deliver(call, results, targets, args, call.held, where_);
    if (call.taken) call.taken->add();
    return {call.shape.get(), call.shape};
  };
  // This call was the first of its kind: tracing has computed it.
  if (args.finished != nullptr) return delivered(std::move(*std::exchange(args.finished, nullptr)));
  // Another rank may have added a path that depends on the rank since the entry was found.
  if (version == nullptr || !entry.serves_context()) return delivered(run_untreed(entry, args, trace));
  TreeCall call(*version, args, symbols);
  if (!call.run()) {
    if (!call.leaves_tree()) return delivered(resume(entry, args, trace, call));
    entry.is_plain = true;
    return {.runs_plain = true};
  }
  const TracedLeaf& leaf = *call.node().leaf;
  if (SINTER_UNLIKELY(leaf.drops_tape) && targets.empty() && is_tape_on()) {  // made since the entry was found
    check_uncompiled();
    return {.runs_plain = true};
  }
  check_path(entry, args, trace, call);
  call.run_leaf(thread, options_.mode, where_, results.make(leaf.results), targets);
  leaf.calls.add();
  return {leaf.result_shape.get(), nullptr};
}

}  // namespace jit
SINTER_NAMESPACE_END
