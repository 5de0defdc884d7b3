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
  for (const auto& value : result.values) call.results.push_back(own_value(value));
  for (const VariableRead& read : variables_)
    if (read.assigned) call.assigned.emplace_back(read.slot, own_value(read.assigned));
  return call;
}

SINTER_DECL Ref<TensorImpl> FunctionTrace::own_value(const Ref<TensorImpl>& value) const {
  Ref<TensorImpl> concrete = live_->at(value);
  if (std::find(lent_.begin(), lent_.end(), concrete->storage.get()) == lent_.end()) return concrete;
  return expr_detail::copy_strided(concrete->type, concrete->data(), concrete->strides).impl();   // not ours to keep
}

namespace jit_detail {
/// The cut and the place among its results of an eager function's stand-in, as an input of a path.
inline bool find_eager_result(const std::vector<ReadPoint>& cuts, const Ref<TensorImpl>& value, TracedPath::Input& input) {
  for (std::size_t i = 0; i < cuts.size(); ++i)
    for (std::size_t r = 0; r < cuts[i].stand_ins.size(); ++r) {
      if (cuts[i].stand_ins[r] != value) continue;
      input.cut = static_cast<std::int32_t>(i), input.result = static_cast<std::int32_t>(r);
      return true;
    }
  return false;
}
}  // namespace jit_detail

SINTER_DECL TracedPath FunctionTrace::path(const TracedResult* result) {
  TracedPath path;
  std::vector<Ref<TensorImpl>> outputs, known;
  std::vector<std::size_t> firsts;   // output that a cut, or the result, begins with
  std::vector<std::size_t> counts;   // outputs that a cut needs
  Ref<TensorImpl> last;
  auto add_effects = [&](const Ref<TensorImpl>& token) {   // in the segment before whose end they were recorded
    if (token && !(token == last)) outputs.push_back(last = token);
    firsts.push_back(outputs.size());
  };
  for (const ReadPoint& read : reads_) {
    add_effects(read.last_effect);
    if (read.eager_call) outputs.insert(outputs.end(), read.operands.begin(), read.operands.end());
    else outputs.push_back(read.value);
    counts.push_back(outputs.size() - firsts.back());
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
  for (std::size_t i = known.size(); i < captured.inputs.size(); ++i) {
    TracedPath::Input input;
    for (const VariableRead& read : variables_)
      if (read.stand_in == captured.inputs[i]) input.slot = read.slot;
    if (input.slot || jit_detail::find_eager_result(reads_, captured.inputs[i], input)) path.inputs.push_back(std::move(input));
  }
  ensure(path.inputs.size() == captured.inputs.size(), "a trace uses a value of another trace");
  path.walked = std::move(captured.walked);
  path.walked_values = std::move(captured.walked_values);
  std::vector<Value> values = captured.outputs;
  std::vector<std::int32_t> ends = captured.ends;
  path.graph = captured.finish();
  path.leaf = std::move(leaf);
  const auto path_arguments = static_cast<std::int32_t>(known.size());   // nodes before anything is computed
  std::int32_t first = 0;
  std::size_t first_dim = 0;
  for (std::size_t i = 0; i < reads_.size() + (result != nullptr); ++i) {
    const bool is_leaf = i == reads_.size();
    auto segment = std::make_shared<TracedSegment>();
    const std::size_t last_output = is_leaf ? 0 : firsts[i] + counts[i];   // one past it
    const std::int32_t end = is_leaf ? static_cast<std::int32_t>(path.graph.nodes().size()) : last_output == 0 ? path_arguments : ends[last_output - 1];
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
      segment->outputs.assign(values.begin() + static_cast<std::ptrdiff_t>(firsts[i]), values.begin() + static_cast<std::ptrdiff_t>(last_output));
      segment->op = reads_[i].op;
      segment->where = reads_[i].where;
      if (!reads_[i].eager_call) segment->dtype = reads_[i].value->type.dtype;
      segment->eager_call = reads_[i].eager_call;
      segment->eager_variables = reads_[i].variables;
      path.outcomes.push_back(reads_[i].outcome);
      path.eager_results.push_back(reads_[i].given);
    }
    if (i > 0) segment->arrival = reads_[i - 1].arrival;
    first = end;
    first_dim = dims_end;
    path.segments.push_back(std::move(segment));
  }
  return path;
}

}  // namespace jit
SINTER_NAMESPACE_END
