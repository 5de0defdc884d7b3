// Following a tree, and what happens where it ends.
#pragma once

#include <sinter/jit/tree_call.hpp>

#include <sinter/base/context.hpp>
#include <sinter/expr/host.hpp>
#include <sinter/jit/execute.hpp>
#include <sinter/jit/live_values.hpp>
#include <sinter/jit/marks.hpp>
#include <sinter/jit/specialise.hpp>

#include <limits>

SINTER_NAMESPACE_BEGIN
namespace jit {

SINTER_DECL const Ref<TensorImpl>* TreeCall::seen(const VariableSlot* slot) const {
  for (const auto& [known, value] : variables_)
    if (known == slot) return &value;
  return nullptr;
}

SINTER_DECL TensorImpl* TreeCall::variable(const std::shared_ptr<VariableSlot>& slot) {
  VariableSlot* own = slot->here();
  if (const Ref<TensorImpl>* known = seen(own)) return known->get();
  Ref<TensorImpl> value = own->value();
  if (!value->is_ready() || !value->is_dense()) value = dense_value(In(Tensor(value), Location()), "compiled call");
  variables_.emplace_back(own, std::move(value));
  return variables_.back().second.get();
}

SINTER_DECL void TreeCall::bind(Inputs& inputs) {
  inputs.floats.reserve(node_->inputs.size());   // addresses stay
  for (const TreeNode::Input& input : node_->inputs) {
    TensorImpl* value = nullptr;
    void* pointer = nullptr;
    switch (input.source) {
      case TreeNode::Input::Source::leaf: {
        const ArgLeaf& leaf = args_[static_cast<std::size_t>(input.index)];
        value = leaf.impl;
        if (input.as_float) {
          inputs.floats.push_back(static_cast<float>(leaf.number));
          pointer = &inputs.floats.back();
        } else {
          pointer = leaf.kind == LeafKind::scalar ? const_cast<std::int64_t*>(&leaf.integer) : leaf.data;
        }
        break;
      }
      case TreeNode::Input::Source::captured: value = variable(input.slot); break;
      case TreeNode::Input::Source::carried: value = table_[static_cast<std::size_t>(input.index)].get(); break;
      case TreeNode::Input::Source::eager: value = eager_results_[static_cast<std::size_t>(input.index)]->values[static_cast<std::size_t>(input.result)].get(); break;
    }
    inputs.values.push_back(value);
    inputs.pointers.push_back(pointer != nullptr || value == nullptr ? pointer : value->data());
  }
}

SINTER_DECL std::uint64_t TreeCall::run_segment() {
  Inputs inputs;
  bind(inputs);
  const Plan& plan = *node_->code->plan;
  const FrameLease frame = plan.acquire_frame(symbols_);
  std::span<const FrameOutput> outputs = frame->outputs();
  const EagerCall* eager = node_->traced->eager_call.get();
  const bool is_on_host = eager == nullptr && outputs[0].type.device == Device::cpu();   // then the outcome needs no memory of its own
  std::uint64_t outcome = 0;
  SmallVector<void*, 8> pointers;
  jit_detail::ValueTable made(outputs.size());
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (i > 0 || !is_on_host) made[i] = jit_detail::fresh_result(outputs[i]);
    pointers.push_back(made[i] ? made[i]->storage->data() : &outcome);
  }
  frame->run(inputs.pointers, pointers);
  if (!is_on_host && eager == nullptr) outcome = element_bits(*made[0]);
  for (std::int32_t place : node_->releases) table_[static_cast<std::size_t>(place)] = {};
  for (TreeNode::Store store : node_->stores) table_[static_cast<std::size_t>(store.place)] = made[static_cast<std::size_t>(store.output)];
  if (eager != nullptr) run_eager_call({made.data(), node_->traced->outputs.size()});
  return outcome;
}

SINTER_DECL void TreeCall::run_eager_call(std::span<const Ref<TensorImpl>> made) {
  std::vector<EagerSection::Use> uses;
  for (const EagerVariable& used : node_->traced->eager_variables)
    uses.push_back({used.leaf >= 0 ? args_[static_cast<std::size_t>(used.leaf)].slot : used.slot->here(), used.is_assigned});
  const EagerCall& eager = *node_->traced->eager_call;
  EagerSection section(uses, eager);
  auto results = std::make_shared<const EagerResults>(eager.run(made, symbols_));
  eager_results_.resize(nodes_.size());
  eager_results_.back() = std::move(results);
}

SINTER_DECL void TreeCall::script(ReadPolicy& policy) const {
  policy.script = outcomes_;
  policy.eager_results = eager_results_;
  for (std::size_t i = 1; i < nodes_.size(); ++i) policy.arrivals.push_back(nodes_[i]->traced->arrival);
}

SINTER_DECL bool TreeCall::run() {
  while (node_->leaf == nullptr) {
    nodes_.push_back(node_);
    outcomes_.push_back(run_segment());
    const EagerResults* given = node_->traced->eager_call ? eager_results_.back().get() : nullptr;
    const auto* next = TraceTree::child(*node_, outcomes_.back(), given, symbols_);
    if (next == nullptr) return false;
    node_ = next->get();
  }
  nodes_.push_back(node_);
  return true;
}

SINTER_DECL void TreeCall::run_leaf(Ref<TensorImpl>* values) {
  Inputs inputs;
  bind(inputs);
  const Plan& plan = *node_->code->plan;
  const FrameLease frame = plan.acquire_frame(symbols_);
  std::span<const PlanOutput> outputs = plan.outputs();
  SmallVector<void*, 8> pointers;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    pointers.push_back(nullptr);
    if (outputs[i].source != BufferKind::output || outputs[i].index != static_cast<std::int32_t>(i)) continue;
    values[i] = jit_detail::fresh_result(frame->outputs()[i]);
    pointers[i] = values[i]->storage->data();
  }
  frame->run(inputs.pointers, pointers);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const PlanOutput& output = outputs[i];
    auto index = static_cast<std::size_t>(output.index);
    if (output.source == BufferKind::output) {
      if (index != i) values[i] = values[index];
    } else if (output.source == BufferKind::input) {
      values[i] = jit_detail::view_of(output, frame->outputs()[i].type, symbols_, inputs.values[index], inputs.pointers[index]);
    } else {
      const Ref<TensorImpl>& constant = plan.constants()[index];
      values[i] = jit_detail::view_of(output, frame->outputs()[i].type, symbols_, constant.get(), constant->data());
    }
  }
}

namespace jit_detail {

inline void log_breaks(const FunctionTrace& trace, std::size_t seen, Location where) {
  if (!is_logged("graph_breaks")) return;
  for (std::size_t i = seen; i < trace.reads().size(); ++i) {
    const ReadPoint& read = trace.reads()[i];
    std::string place = read.where.text();
    if (read.eager_call) {
      note("graph_breaks", where.text() + ": the trace is cut where the function disabled at " + read.eager_call->disabled_at.text() + " is called" + (place.empty() ? "" : " at " + place));
      continue;
    }
    note("graph_breaks", where.text() + ": the trace is cut where " + read.op + " reads " +
                             (read.value->type.dtype == DType::bool_ ? "an outcome" : "an exact value") + (place.empty() ? "" : " at " + place));
  }
}

/// Puts results into their places and then, as the last thing, gives Variables what they become.
inline void deliver(FinishedCall& call, const ResultPlace& place, Targets targets, ReadSection& reading, Location where) {
  if (!targets.empty() && targets.size() != call.results.size())
    throw UserError("into", std::to_string(targets.size()) + " places for " + std::to_string(call.results.size()) + " results", where);
  for (std::size_t i = 0; i < targets.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      if (overlaps(targets[i].data, extent_bytes(targets[i].type, targets[i].strides), targets[j].data, extent_bytes(targets[j].type, targets[j].strides)))
        throw UserError("into", "the places of results " + std::to_string(j) + " and " + std::to_string(i) + " overlap", where);
  for (std::size_t i = 0; i < targets.size(); ++i) copy_to(targets[i], In(Tensor(call.results[i]), where));
  std::move(call.results.begin(), call.results.end(), place.make(call.results.size()));
  reading.end();
  std::vector<VariableSlot*> slots;
  std::vector<TensorImpl*> values;
  slots.reserve(call.assigned.size()), values.reserve(call.assigned.size());
  for (auto& [slot, value] : call.assigned) slots.push_back(slot.get()), values.push_back(value.detach());
  set_slots(slots, values);
}

}  // namespace jit_detail

SINTER_DECL void FunctionState::grow_tree(Entry& entry, const ArgList& args, FunctionTrace& recorder, TracedResult result) {
  args.finished = std::make_shared<FinishedCall>(recorder.finish(result));
  TracedPath path = recorder.path(&result);
  entry.guards = std::move(recorder.guards());
  check_marks(entry.guards, args.leaves(), solve_symbols(entry.guards, args.leaves(), Divide::no));
  entry.guards.dims = path.segments.front()->dims;
  for (const VariableUse& use : path.segments.front()->variables) {
    entry.captured.push_back(use.slot);
    entry.captured_types.push_back(use.type);
  }
  entry.tree = std::make_shared<TraceTree>(entry.guards, options_.backend, options_.mode, options_.fuse, entry.precision, TraceTree::Limits{options_.max_breaks, options_.max_values, options_.memory_budget, options_.allow_fallback});
  SmallVector<std::int64_t, 8> symbols(recorder.hints());
  entry.tree->insert(path, symbols);
  jit_detail::log_breaks(recorder, 0, where_);
}

SINTER_DECL FinishedCall FunctionState::resume(const Entry& entry, const ArgList& args, const TraceFunction& trace, TreeCall& call) {
  const Stance stance = current_stance();
  const Location at = call.node().traced->where;
  if (stance == Stance::fail_on_recompile)
    throw RecompileError("compile", (call.node().traced->eager_call ? "what the function called at " + at.text() + " gave" : "the outcome of the read at " + at.text()) + " was not seen before, and the stance is fail_on_recompile", where_,
                         "call warm_up(args...) with arguments that take this path before the stance is set");
  const bool may_grow = stance != Stance::eager_on_recompile && entry.tree->may_grow_at(call.node());
  std::unique_lock lock(compiling_, std::defer_lock);
  if (may_grow) lock.lock();
  ReadPolicy policy;
  policy.precision = entry.precision;
  policy.fallback = fallback();
  call.script(policy);
  policy.after_script = [&](FunctionTrace& recorder) {
    std::vector<const TracedSegment*> before;
    for (const TreeNode* node : call.nodes()) before.push_back(node->traced.get());
    TracedPath prefix = recorder.path(nullptr);
    Location where = where_;
    if (std::string op = path_difference(before, prefix, where); !op.empty())
      throw TraceError("compile", "captured value changed at " + op, where, jit_detail::purity_fix);
    for (std::size_t i = 0; i < prefix.walked.size(); ++i)
      if (jit_detail::is_token(prefix.graph, prefix.walked_values[i])) recorder.live().set_done(Ref<TensorImpl>::share(prefix.walked[i]));
    for (std::size_t i = 0; i < prefix.walked.size(); ++i)
      for (const TreeNode::Carried& carried : call.node().live)
        if (carried.value == prefix.walked_values[i]) recorder.live().set(Ref<TensorImpl>::share(prefix.walked[i]), call.carried(carried.place));
    for (const FunctionTrace::VariableRead& read : recorder.variables())
      if (const Ref<TensorImpl>* seen = read.leaf < 0 ? call.seen(read.slot.get()) : nullptr) recorder.live().set(read.stand_in, *seen);
  };
  FunctionTrace recorder("compile", args.leaves(), entry.guards.specs(), std::move(policy));
  TracedResult result = trace(recorder);
  if (recorder.reads().size() < call.outcomes().size())
    throw TraceError("compile", "captured value changed at the number of values read", where_, jit_detail::purity_fix);
  FinishedCall finished = recorder.finish(result);
  if (may_grow) {
    SmallVector<std::int64_t, 8> symbols(recorder.hints());
    entry.tree->insert(recorder.path(&result), symbols);
    jit_detail::log_breaks(recorder, call.outcomes().size(), where_);
  } else {
    entry.tree->unbounded_calls.fetch_add(1, std::memory_order_relaxed);
    if (is_logged("graph_breaks") && stance != Stance::eager_on_recompile)
      note("graph_breaks", where_.text() + ": " + (call.node().reads_outcome() ? std::to_string(entry.tree->segments()) + " segments (Options::max_breaks)"
                                                                          : std::to_string(call.node().children.size()) + " values (Options::max_values)") +
                               " are compiled: this call goes on lazily behind the " + (call.node().traced->eager_call ? "call" : "read") + " at " + at.text());
  }
  return finished;
}

SINTER_DECL void FunctionState::check_path(const Entry& entry, const ArgList& args, const TraceFunction& trace, const TreeCall& call) {
  const TracedLeaf& leaf = *call.node().leaf;
  std::int64_t due = leaf.next_check.load(std::memory_order_relaxed);
  if (SINTER_LIKELY(due == std::numeric_limits<std::int64_t>::max())) return;
  const std::int64_t runs = leaf.runs.fetch_add(1, std::memory_order_relaxed);
  if (runs < due || !leaf.next_check.compare_exchange_strong(due, std::numeric_limits<std::int64_t>::max())) return;
  struct Next {   // a check that fails or throws is due again at once
    const TracedLeaf& leaf;
    std::int64_t runs;
    ~Next() { leaf.next_check.store(runs, std::memory_order_relaxed); }
  } next{leaf, due};
  ReadPolicy policy;
  policy.beyond = ReadPolicy::Beyond::differs;
  call.script(policy);
  FunctionTrace recorder("compile", args.leaves(), entry.guards.specs(), std::move(policy));
  TracedResult result = trace(recorder);
  std::vector<const TracedSegment*> before;
  for (const TreeNode* node : call.nodes()) before.push_back(node->traced.get());
  Location where = where_;
  if (std::string op = path_difference(before, recorder.path(&result), where); !op.empty())
    throw TraceError("compile", "captured value changed at " + op, where, jit_detail::purity_fix);
  next.runs = Context::get().checks ? std::max<std::int64_t>(3, 2 * due) : std::numeric_limits<std::int64_t>::max();
}

SINTER_DECL void FunctionState::warm_up_tree(const Entry& entry, const ArgList& args, const TraceFunction& trace, std::span<const std::int64_t> symbols) {
  args.finished.reset();
  TreeCall call(*entry.tree->current(), args.leaves(), symbols);
  if (!call.run()) return static_cast<void>(resume(entry, args, trace, call));
  check_path(entry, args, trace, call);
  const TracedLeaf& leaf = *call.node().leaf;
  jit_detail::ValueTable values(leaf.results + leaf.assignments.size());
  call.run_leaf(values.data());
}

SINTER_DECL TreeResult FunctionState::run_tree(const Entry& entry, const ArgList& args, std::span<const std::int64_t> symbols, const TraceFunction& trace, ResultPlace results, Targets targets) {
  jit_detail::count_run(entry, entry.threads.get());
  if (args.finished != nullptr) {   // this call was the first of its kind: tracing has computed it
    std::shared_ptr<FinishedCall> finished = std::move(args.finished);
    jit_detail::deliver(*finished, results, targets, args.reading(), where_);
    return {finished->shape.get(), finished->shape};
  }
  TreeCall call(*entry.tree->current(), args.leaves(), symbols);
  if (!call.run()) {
    FinishedCall finished = resume(entry, args, trace, call);
    jit_detail::deliver(finished, results, targets, args.reading(), where_);
    return {finished.shape.get(), finished.shape};
  }
  const TracedLeaf& leaf = *call.node().leaf;
  check_path(entry, args, trace, call);
  if (targets.empty() && leaf.assignments.empty()) {
    call.run_leaf(results.make(leaf.results));
  } else {
    jit_detail::ValueTable values(leaf.results + leaf.assignments.size());
    call.run_leaf(values.data());
    FinishedCall finished;
    for (std::size_t i = 0; i < leaf.results; ++i) finished.results.push_back(std::move(values[i]));
    for (std::size_t i = 0; i < leaf.assignments.size(); ++i) {
      const TracedLeaf::Assignment& assignment = leaf.assignments[i];
      // The caller's handle keeps the Variable of an argument.
      std::shared_ptr<VariableSlot> slot = assignment.leaf < 0 ? assignment.captured->here()->shared_from_this() : std::shared_ptr<VariableSlot>(std::shared_ptr<void>(), args.leaves()[static_cast<std::size_t>(assignment.leaf)].slot);
      finished.assigned.emplace_back(std::move(slot), std::move(values[leaf.results + i]));
    }
    jit_detail::deliver(finished, results, targets, args.reading(), where_);
  }
  return {leaf.result_shape.get(), nullptr};
}

}  // namespace jit
SINTER_NAMESPACE_END
