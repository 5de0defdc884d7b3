// The graph of a path, cut at the reads, and the comparison of two.
#pragma once

#include <sinter/jit/trace/trace_path.hpp>

#include <sinter/base/index.hpp>
#include <sinter/expr/capture.hpp>
#include <sinter/expr/host.hpp>
#include <sinter/graph/builder.hpp>
#include <sinter/graph/hash.hpp>
#include <sinter/jit/call/delivery.hpp>
#include <sinter/jit/trace/live_values.hpp>
#include <sinter/ops/registry.hpp>

#include <algorithm>

SINTER_NAMESPACE_BEGIN
namespace jit {

SINTER_DECL FinishedCall FunctionTrace::finish(TracedResult result) {
  give_arguments();
  std::vector<Ref<TensorImpl>> wanted = result.values;
  for (const VariableRead& read : variables_)
    if (read.assigned) wanted.push_back(read.assigned);
  live_->compute(wanted, last_effect(), hints_);
  FinishedCall call;
  call.shape = std::move(result.shape);
  for (const auto& value : result.values) call.results.push_back(own_value(value));
  for (const VariableRead& read : variables_)
    if (read.assigned) call.assigned.emplace_back(read.slot, own_value(read.assigned));
  return call;
}

SINTER_DECL Ref<TensorImpl> FunctionTrace::own_value(const Ref<TensorImpl>& value) const {
  Ref<TensorImpl> concrete = live_->at(value);
  if (std::find(lent_.begin(), lent_.end(), concrete->storage.get()) == lent_.end()) return concrete;
  return expr_detail::copy_strided(concrete->type, concrete->data(), concrete->strides).impl();  // not ours to keep
}

namespace jit_detail {
/// The cut and the place among its results of an eager function's placeholder, as an input of a path.
inline bool find_eager_result(const std::vector<ReadPoint>& cuts, const Ref<TensorImpl>& value,
                              TracedPath::Input& input) {
  for (std::size_t i = 0; i < cuts.size(); ++i)
    for (std::size_t r = 0; r < cuts[i].placeholders.size(); ++r) {
      if (cuts[i].placeholders[r] != value) continue;
      input.cut = static_cast<std::int32_t>(i);
      input.result = static_cast<std::int32_t>(r);
      return true;
    }
  return false;
}
inline bool is_wanted_now(const VariableSlot& slot) { return is_tape_on() && is_on_tape(slot); }
/// What ends a segment.
inline void describe_cut(const ReadPoint& cut, TracedSegment& segment) {
  segment.op = cut.op;
  segment.where = cut.where;
  if (!cut.eager_call) segment.dtype = cut.value->type.dtype;
  segment.eager_call = cut.eager_call;
  segment.gives_tape = cut.given != nullptr && cut.given->is_on_tape;
  segment.eager_variables = cut.variables;
}
}  // namespace jit_detail

/// What the segments of a path compute, in order: what each cut needs, then results and what Variables become.
struct FunctionTrace::PathOutputs {
  struct Part {
    std::size_t begin = 0, end = 0;
  };
  std::vector<Ref<TensorImpl>> values;
  std::vector<Part> parts;  // of each cut, and of the result

  /// Opens a part. An effect is an output in front of it: of the segment before whose end it was recorded.
  void open(const Ref<TensorImpl>& last_effect) {
    if (last_effect && !(last_effect == effect_)) values.push_back(effect_ = last_effect);
    parts.push_back({values.size(), values.size()});
  }
  void add(std::span<const Ref<TensorImpl>> more) {
    values.insert(values.end(), more.begin(), more.end());
    parts.back().end = values.size();
  }

 private:
  Ref<TensorImpl> effect_;
};

SINTER_DECL FunctionTrace::PathOutputs FunctionTrace::path_outputs(const TracedResult* result, TracedLeaf& leaf) const {
  PathOutputs outputs;
  for (const ReadPoint& read : reads_) {
    outputs.open(read.last_effect);
    outputs.add(read.eager_call ? std::span<const Ref<TensorImpl>>(read.operands) : std::span(&read.value, 1));
  }
  if (result == nullptr) return outputs;
  outputs.open(last_effect());
  outputs.add(result->values);
  leaf.results = result->values.size();
  leaf.result_shape = result->shape;
  for (const VariableRead& read : variables_) {
    if (!read.assigned) continue;
    outputs.add({&read.assigned, 1});
    leaf.assignments.push_back({read.leaf, read.leaf < 0 ? read.slot : nullptr, -1});
  }
  return outputs;
}

SINTER_DECL Capture FunctionTrace::capture_path(std::span<const Ref<TensorImpl>> outputs, TracedPath& path) const {
  std::vector<Ref<TensorImpl>> known;
  for (std::size_t i = 0; i < placeholders_.size(); ++i) {
    if (!placeholders_[i] || guards_.leaves[i].same_slot_as >= 0) continue;
    known.push_back(placeholders_[i]);
    path.inputs.push_back({static_cast<std::int32_t>(i), nullptr});
  }
  const CaptureOptions options{.trace = id(), .ready = ReadyLeaf::constant, .lists_walked = true};
  Capture captured = capture(outputs, known, options);
  bool evaluates = false;  // captured statements that have not run become constants as well
  for (const auto& input : captured.inputs) {
    if (input->is_ready() || input->trace != 0) continue;
    TensorImpl* raw = input.get();
    evaluate({&raw, 1}, "compile", written_at(*raw));
    evaluates = true;
  }
  if (evaluates) captured = capture(outputs, known, options);
  for (std::size_t i = known.size(); i < captured.inputs.size(); ++i) {
    TracedPath::Input input;
    for (const VariableRead& read : variables_)
      if (read.placeholder == captured.inputs[i]) input.slot = read.slot;
    if (input.slot || jit_detail::find_eager_result(reads_, captured.inputs[i], input))
      path.inputs.push_back(std::move(input));
  }
  ensure(path.inputs.size() == captured.inputs.size(), "a trace uses a value of another trace");
  return captured;
}

SINTER_DECL TracedPath FunctionTrace::path(const TracedResult* result) {
  TracedPath path;
  auto leaf = std::make_shared<TracedLeaf>();
  const PathOutputs outputs = path_outputs(result, *leaf);
  Capture captured = capture_path(outputs.values, path);
  path.leaf = std::move(leaf);
  path.walked = std::move(captured.walked);
  path.walked_values = std::move(captured.walked_values);
  const std::vector<Value> values = captured.outputs;
  const std::vector<std::int32_t> ends = captured.ends;
  path.graph = captured.finish();
  const auto arguments = static_cast<std::int32_t>(std::count_if(
      path.inputs.begin(), path.inputs.end(), [](const TracedPath::Input& input) { return input.leaf >= 0; }));
  std::int32_t first = 0;
  std::size_t first_dim = 0;
  for (std::size_t i = 0; i < outputs.parts.size(); ++i) {
    const ReadPoint* cut = i < reads_.size() ? &reads_[i] : nullptr;
    const auto [begin, end] = outputs.parts[i];
    auto segment = std::make_shared<TracedSegment>();
    const auto nodes = static_cast<std::int32_t>(path.graph.nodes().size());
    const std::int32_t last = cut == nullptr ? nodes
                              : end == 0     ? arguments
                                             : ends[end - 1];  // before anything is computed, the arguments
    segment->first = first;
    segment->nodes.assign(path.graph.nodes().begin() + first, path.graph.nodes().begin() + last);
    for (const Node& node : segment->nodes) {
      if (node.op != &op_info<ops::Input>) continue;
      const TracedPath::Input& input = path.inputs[as_index(node.attrs[input_position])];
      if (input.slot)
        segment->variables.push_back({input.slot, node.types[0], jit_detail::is_wanted_now(*input.slot->here())});
    }
    segment->hooks = hooks(i);
    const std::size_t last_dim = cut == nullptr ? guards_.dims.size() : cut->dims;
    segment->dims.assign(guards_.dims.begin() + static_cast<std::ptrdiff_t>(first_dim),
                         guards_.dims.begin() + static_cast<std::ptrdiff_t>(last_dim));
    segment->outputs.assign(values.begin() + static_cast<std::ptrdiff_t>(begin),
                            values.begin() + static_cast<std::ptrdiff_t>(end));
    if (i > 0) segment->arrival = reads_[i - 1].arrival;
    if (cut != nullptr) {
      jit_detail::describe_cut(*cut, *segment);
      path.outcomes.push_back(cut->outcome);
      path.eager_results.push_back(cut->given);
    }
    first = last;
    first_dim = last_dim;
    path.segments.push_back(std::move(segment));
  }
  return path;
}

namespace jit_detail {
SINTER_DECL bool is_token(const Graph& graph, Value v) {
  const Node& node = graph.node(v);
  return node.op->kind == OpKind::effect && as_index(v.result) + 1 == node.types.size();
}

inline bool same_constant_data(const Ref<TensorImpl>& a, const Ref<TensorImpl>& b) {
  if (a == b) return true;
  auto alone = [](const Ref<TensorImpl>& data) {
    GraphBuilder builder;
    Value value = builder.constant(data);
    return builder.finish({&value, 1});
  };
  return structurally_equal(alone(a), alone(b));
}

/// Nodes of two traces at the same place.
inline bool same_traced(const Node& a, const Node& b) {
  if (a.op != b.op || !(a.inputs == b.inputs) || a.types.size() != b.types.size()) return false;
  for (std::size_t i = 0; i < a.types.size(); ++i)
    if (!identical(a.types[i], b.types[i])) return false;
  if (a.op == &op_info<ops::Constant>) return same_constant_data(a.attrs.constant, b.attrs.constant);
  return may_be_retrace(a, b);
}
SINTER_DECL bool same_traced(const TracedSegment& a, const TracedSegment& b) {
  if ((a.eager_call == nullptr) != (b.eager_call == nullptr) || (a.eager_call && !a.eager_call->is_same(*b.eager_call)))
    return false;
  return a.first == b.first && a.outputs == b.outputs &&
         std::equal(a.nodes.begin(), a.nodes.end(), b.nodes.begin(), b.nodes.end(),
                    [](const Node& x, const Node& y) { return same_traced(x, y); });
}
}  // namespace jit_detail

SINTER_DECL void add_held(const TracedPath& path, HeldValues& held) {
  jit_detail::add_constants(path.graph, held.constants);
  for (const TracedPath::Input& input : path.inputs)
    if (input.slot && std::find(held.captured.begin(), held.captured.end(), input.slot) == held.captured.end())
      held.captured.push_back(input.slot);
}

SINTER_DECL std::string path_difference(std::span<const TracedSegment* const> before, const TracedPath& now,
                                        Location& where) {
  for (std::size_t i = 0; i < std::min(before.size(), now.segments.size()); ++i) {
    const TracedSegment &a = *before[i], &b = *now.segments[i];
    for (std::size_t n = 0; n < std::min(a.nodes.size(), b.nodes.size()); ++n) {
      if (jit_detail::same_traced(a.nodes[n], b.nodes[n])) continue;
      where = b.nodes[n].where;
      // A changed number is a node of its own; blame the operation that uses it.
      const std::int32_t id = b.first + static_cast<std::int32_t>(n);
      for (std::size_t user = n + 1; user < b.nodes.size() && b.nodes[n].inputs.empty(); ++user)
        for (Value v : b.nodes[user].inputs)
          if (v.node == id) return std::string(b.nodes[user].op->name);
      return std::string(b.nodes[n].op->name);
    }
    if (!jit_detail::same_traced(a, b)) {
      where = b.where;
      return b.op.empty() ? "the number of operations" : b.op;
    }
  }
  return before.size() == now.segments.size() ? "" : "the number of values read";
}

}  // namespace jit
SINTER_NAMESPACE_END
