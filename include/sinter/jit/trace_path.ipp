// The end of a trace that read values: this call's results, and the path's graph cut at the reads.
#pragma once

#include <sinter/jit/trace_tree.hpp>

#include <sinter/expr/capture.hpp>
#include <sinter/expr/host.hpp>
#include <sinter/jit/live_values.hpp>
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
  auto value_of = [&](const Ref<TensorImpl>& value) {
    Ref<TensorImpl> concrete = live_->at(value);
    if (std::find(lent_.begin(), lent_.end(), concrete->storage.get()) == lent_.end()) return concrete;
    return expr_detail::copy_strided(concrete->type, concrete->data(), concrete->strides).impl();   // not ours to keep
  };
  for (const auto& value : result.values) call.results.push_back(value_of(value));
  for (const VariableRead& read : variables_)
    if (read.assigned) call.assigned.emplace_back(read.slot, value_of(read.assigned));
  return call;
}

SINTER_DECL TracedPath FunctionTrace::path(const TracedResult* result) {
  TracedPath path;
  std::vector<Ref<TensorImpl>> outputs, known;
  std::vector<std::size_t> firsts;   // output that a read, or the result, begins with
  Ref<TensorImpl> last;
  auto add_effects = [&](const Ref<TensorImpl>& token) {   // in the segment before whose end they were recorded
    if (token && !(token == last)) outputs.push_back(last = token);
    firsts.push_back(outputs.size());
  };
  for (const ReadPoint& read : reads_) {
    add_effects(read.last_effect);
    outputs.push_back(read.value);
  }
  for (std::size_t i = 0; i < stand_ins_.size(); ++i) {
    if (!stand_ins_[i] || guards_.leaves[i].same_slot_as >= 0) continue;
    known.push_back(stand_ins_[i]);
    path.inputs.push_back({static_cast<std::int32_t>(i), nullptr});
  }
  auto leaf = std::make_shared<TracedLeaf>();
  if (result != nullptr) {
    add_effects(last_effect());
    leaf->results = result->values.size();
    leaf->result_shape = result->shape;
    outputs.insert(outputs.end(), result->values.begin(), result->values.end());
    for (const VariableRead& read : variables_) {
      if (!read.assigned) continue;
      outputs.push_back(read.assigned);
      leaf->assignments.push_back({read.leaf, read.leaf < 0 ? read.slot : nullptr});
    }
  }
  const CaptureOptions options{.trace = id(), .ready = ReadyLeaf::constant, .lists_walked = true};
  Capture captured = capture(outputs, known, options);
  bool evaluates = false;   // captured statements that have not run become constants as well
  for (const auto& input : captured.inputs) {
    if (input->is_ready() || input->trace != 0) continue;
    TensorImpl* raw = input.get();
    evaluate({&raw, 1}, "compile", written_at(*raw));
    evaluates = true;
  }
  if (evaluates) captured = capture(outputs, known, options);
  for (std::size_t i = known.size(); i < captured.inputs.size(); ++i)
    for (const VariableRead& read : variables_)
      if (read.stand_in == captured.inputs[i]) path.inputs.push_back({-1, read.slot});
  ensure(path.inputs.size() == captured.inputs.size(), "a trace uses a value of another trace");
  path.walked = std::move(captured.walked);
  path.walked_values = std::move(captured.walked_values);
  std::vector<Value> values = captured.outputs;
  std::vector<std::int32_t> ends = captured.ends;
  path.graph = captured.finish();
  path.leaf = std::move(leaf);
  std::int32_t first = 0;
  std::size_t first_dim = 0;
  for (std::size_t i = 0; i < reads_.size() + (result != nullptr); ++i) {
    const bool is_leaf = i == reads_.size();
    auto segment = std::make_shared<TracedSegment>();
    const std::int32_t end = is_leaf ? static_cast<std::int32_t>(path.graph.nodes().size()) : ends[firsts[i]];
    segment->first = first;
    segment->nodes.assign(path.graph.nodes().begin() + first, path.graph.nodes().begin() + end);
    for (const Node& node : segment->nodes) {
      if (node.op != &op_info<ops::Input>) continue;
      const TracedPath::Input& input = path.inputs[static_cast<std::size_t>(node.attrs.integer)];
      if (input.slot) segment->variables.push_back({input.slot, node.types[0]});
    }
    const std::size_t dims_end = is_leaf ? guards_.dims.size() : reads_[i].dims;
    segment->dims.assign(guards_.dims.begin() + static_cast<std::ptrdiff_t>(first_dim), guards_.dims.begin() + static_cast<std::ptrdiff_t>(dims_end));
    if (is_leaf) {
      segment->outputs.assign(values.begin() + static_cast<std::ptrdiff_t>(firsts[i]), values.end());
    } else {
      segment->outputs = {values[firsts[i]]};
      segment->op = reads_[i].op;
      segment->where = reads_[i].where;
      segment->dtype = reads_[i].value->type.dtype;
      path.outcomes.push_back(reads_[i].outcome);
    }
    first = end;
    first_dim = dims_end;
    path.segments.push_back(std::move(segment));
  }
  return path;
}

}  // namespace jit
SINTER_NAMESPACE_END
