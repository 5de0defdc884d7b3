// Nodes are early (at or before the peak) or late. The cut chooses; the rewrite puts what is computed again right
// before its first late use.
#pragma once

#include <sinter/passes/rematerialise.hpp>

#include <sinter/base/index.hpp>
#include <sinter/graph/builder.hpp>
#include <sinter/ops/registry.hpp>
#include <sinter/passes/dce.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

SINTER_NAMESPACE_BEGIN
namespace passes_detail {

/// Views, literals and barriers: they have no memory of their own, whoever reads them reads what they are of.
inline bool is_transparent(const Node& node) {
  return node.op->kind == OpKind::view || node.op == &op_info<ops::Barrier> ||
         (node.inputs.empty() && node.op->kind == OpKind::structured && node.op != &op_info<ops::Empty>);
}

/// Which nodes run before the peak, which values are held over it, and what the alternatives cost.
class RematerialiseQuestion {
 public:
  RematerialiseQuestion(const Graph& graph, const Rematerialise& pass, const MemoryTimeline& timeline)
      : graph_(graph), pass_(pass), timeline_(timeline), count_(graph.nodes().size()) {
    for (const Node& node : graph.nodes()) {
      first_result_.push_back(results_);
      results_ += node.types.size();
    }
    split();
    find_next_uses();
    protect_contracted_products();
    if (pass.parts > 1) protect_ends_of_parts();
  }
  std::vector<Choice> choose() const;

  bool is_early(std::size_t id) const { return is_early_[id] != 0; }
  bool is_late(std::size_t id) const { return is_late_[id] != 0; }
  bool has_step(std::size_t id) const { return timeline_.step[id] >= 0; }

 private:
  void split();
  void find_next_uses();
  void protect_contracted_products();
  void protect_ends_of_parts();
  std::vector<Choice> choose_at(double price) const;
  std::int64_t kept_bytes(const std::vector<Choice>& choices) const;
  std::size_t slot(Value v) const { return first_result_[as_index(v.node)] + as_index(v.result); }
  /// Held over the peak whatever is chosen, or not held then.
  bool is_free(Value v) const {
    const auto id = as_index(v.node);
    return is_output_[id] || is_read_at_once_[slot(v)] || timeline_.step[id] > timeline_.peak;
  }
  std::int64_t keep_cost(Value v, double price) const;
  std::int64_t again_cost(std::int32_t id) const;
  const Node& node(std::size_t id) const { return graph_.nodes()[id]; }

  const Graph& graph_;
  const Rematerialise& pass_;
  const MemoryTimeline& timeline_;
  std::size_t count_, results_ = 0;
  std::int32_t last_step_ = 0,
               last_early_ = 0;            // what the step after the peak reads is there anyway: that step is early too
  std::vector<std::size_t> first_result_;  // per node
  std::vector<std::uint8_t> is_early_, is_late_, is_output_, must_not_repeat_, must_not_keep_;  // per node
  std::vector<std::uint8_t> is_read_at_once_;  // per value: by the step after the peak
  std::vector<std::int32_t> next_use_,
      next_late_use_;  // per value: the first late step that reads it or something made of it; that reads it
};

SINTER_DECL void RematerialiseQuestion::split() {
  is_early_.assign(count_, 0);
  is_late_.assign(count_, 0);
  is_output_.assign(count_, 0);
  last_step_ = *std::max_element(timeline_.step.begin(), timeline_.step.end());
  last_early_ = last_step_;
  for (std::int32_t step : timeline_.step)
    if (step > timeline_.peak) last_early_ = std::min(last_early_, step);
  for (Value v : graph_.outputs()) is_output_[as_index(v.node)] = 1;
  for (std::size_t id = count_; id-- > 0;) {
    const bool is_leaf = node(id).op->kind == OpKind::leaf;
    if (has_step(id)) is_early_[id] = timeline_.step[id] <= last_early_;
    else if (is_leaf) is_early_[id] = 1;  // others without a step: early if anything early reads them
    is_late_[id] = !is_early_[id];
    if (is_early_[id])
      for (Value v : node(id).inputs) is_early_[as_index(v.node)] = 1;
  }
}

SINTER_DECL void RematerialiseQuestion::find_next_uses() {
  constexpr auto never = std::numeric_limits<std::int32_t>::max();
  next_use_.assign(results_, never);
  next_late_use_.assign(results_, never);
  is_read_at_once_.assign(results_, 0);
  for (std::size_t id = count_; id-- > 0;) {
    const std::size_t first = first_result_[id];
    std::int32_t of_results = never;
    for (std::size_t r = 0; r < node(id).types.size(); ++r) of_results = std::min(of_results, next_use_[first + r]);
    for (Value v : node(id).inputs) {
      const std::size_t from = slot(v);
      if (is_late_[id] && has_step(id)) {
        next_late_use_[from] = std::min(next_late_use_[from], timeline_.step[id]);
      } else if (!has_step(id)) {
        next_late_use_[from] = std::min(next_late_use_[from], next_late_use_[first]);
        is_read_at_once_[from] |= is_read_at_once_[first];
      } else {
        next_use_[from] = std::min(next_use_[from], of_results);
        is_read_at_once_[from] |= timeline_.step[id] > timeline_.peak;
      }
      next_use_[from] = std::min(next_use_[from], next_late_use_[from]);
    }
  }
}

/// A product contracts with the sum that alone reads it to one operation, rounded once. Both stay as they are: such a
/// pair is computed again as a whole, and a product with several readers, which does not contract, keeps them.
SINTER_DECL void RematerialiseQuestion::protect_contracted_products() {
  must_not_repeat_.assign(count_, 0);
  must_not_keep_.assign(count_, 0);
  const std::vector<std::int32_t> uses = use_counts(graph_);
  for (std::size_t id = 0; id < count_; ++id) {
    if (node(id).op != &op_info<ops::Add> || !is_floating(node(id).types[0].dtype)) continue;
    for (Value v : node(id).inputs) {
      const auto product = as_index(v.node);
      if (node(product).op != &op_info<ops::Mul>) continue;
      if (uses[product] > 1) must_not_repeat_[product] = must_not_repeat_[id] = 1;
      else if (timeline_.is_stored[product]) must_not_repeat_[id] = 1;
      else must_not_keep_[product] = 1;
    }
  }
}

SINTER_DECL void RematerialiseQuestion::protect_ends_of_parts() {
  std::vector<std::int32_t> last_read(count_, -1);  // by an early step
  for (std::size_t id = count_; id-- > 0;) {
    const std::int32_t at = has_step(id) ? (is_early_[id] ? timeline_.step[id] : -1) : last_read[id];
    for (Value v : node(id).inputs) last_read[as_index(v.node)] = std::max(last_read[as_index(v.node)], at);
    if (!timeline_.is_stored[id] || !is_early_[id]) continue;
    for (int part = 1; part < pass_.parts; ++part) {
      const std::int32_t end = static_cast<std::int32_t>(std::int64_t{timeline_.peak} * part / pass_.parts);
      if (timeline_.step[id] <= end && last_read[id] > end) must_not_repeat_[id] = 1;
    }
  }
}

SINTER_DECL std::int64_t RematerialiseQuestion::keep_cost(Value v, double price) const {
  const auto id = as_index(v.node);
  if (is_transparent(node(id)) || must_not_keep_[id]) return cost_unlimited;
  if (is_free(v)) return 0;
  double cost = static_cast<double>(bytes_of(graph_, v)) * price;
  if (pass_.excess > 0) {  // what is used soon would be there again soon
    const double held = std::clamp(next_use_[slot(v)], timeline_.peak, last_step_) - timeline_.peak;
    cost *= 1.0 / 16 + held / std::max(1, last_step_ - timeline_.peak);
  }
  return static_cast<std::int64_t>(std::min(cost, 0x1p50));
}

SINTER_DECL std::int64_t RematerialiseQuestion::again_cost(std::int32_t at) const {
  const auto id = as_index(at);
  if (is_transparent(node(id)) || !has_step(id)) return 0;  // whoever reads it computes it anyway
  if (must_not_repeat_[id]) return cost_unlimited;
  return recompute_cost(graph_, node(id), pass_.products);
}

SINTER_DECL std::vector<Choice> RematerialiseQuestion::choose_at(double price) const {
  return choose_kept({graph_, is_early_, is_late_, [&](Value v) { return keep_cost(v, price); },
                      [&](std::int32_t id) { return again_cost(id); }});
}

SINTER_DECL std::int64_t RematerialiseQuestion::kept_bytes(const std::vector<Choice>& choices) const {
  std::int64_t total = 0;
  for (std::size_t id = 0; id < count_; ++id) {
    if (choices[id] != Choice::kept || node(id).op->kind == OpKind::leaf) continue;
    for (std::size_t r = 0; r < node(id).types.size(); ++r) {
      const Value v{static_cast<std::int32_t>(id), static_cast<std::int32_t>(r)};
      if (!is_free(v) && next_use_[slot(v)] != std::numeric_limits<std::int32_t>::max()) total += bytes_of(graph_, v);
    }
  }
  return total;
}

SINTER_DECL std::vector<Choice> RematerialiseQuestion::choose() const {
  if (pass_.excess <= 0) return choose_at(static_cast<double>(pass_.price));
  const std::int64_t wanted = kept_bytes(choose_at(0x1p-20)) - pass_.excess;
  double low = 0x1p-8, high = low;
  constexpr double highest = 0x1p32;
  std::vector<Choice> best = choose_at(high);
  while (high < highest && kept_bytes(best) > wanted) {
    low = high;
    high *= 8;
    best = choose_at(high);
  }
  for (int round = 0; round < 8 && low < high; ++round) {
    const double middle = std::sqrt(low * high);
    std::vector<Choice> choices = choose_at(middle);
    if (kept_bytes(choices) > kept_bytes(best) && kept_bytes(choices) > wanted) {
      low = middle;
    } else {
      high = middle;
      best = std::move(choices);
    }
  }
  return best;
}

/// The graph with the chosen nodes computed again.
class RematerialiseRewrite {
 public:
  RematerialiseRewrite(const Graph& graph, const RematerialiseQuestion& question, const MemoryTimeline& timeline,
                       const std::vector<Choice>& choices)
      : graph_(graph),
        question_(question),
        timeline_(timeline),
        builder_(graph),
        moved_(graph.nodes().size(), -1),
        again_(moved_),
        is_again_(graph.nodes().size()),
        is_kept_(graph.nodes().size()) {
    for (std::size_t id = 0; id < is_again_.size(); ++id) {
      is_kept_[id] = choices[id] == Choice::kept;
      if (choices[id] != Choice::recomputed) continue;
      const Node& node = graph.nodes()[id];
      is_again_[id] = question.has_step(id) && !is_transparent(node);
      for (Value v : again_operands(node)) is_again_[id] |= is_again_[as_index(v.node)];
    }
  }
  bool changes() const {
    return std::any_of(is_again_.begin(), is_again_.end(), [](std::uint8_t is_again) { return is_again != 0; });
  }
  Graph run();

 private:
  static std::size_t slot(Value v) { return as_index(v.node); }
  Value first(Value v) { return {moved_[slot(v)], v.result}; }
  /// The value as the late part knows it.
  Value late(Value v) { return is_again_[slot(v)] ? Value{again_[slot(v)], v.result} : first(v); }
  void prepare(Value v);
  void copy(std::size_t id);
  void repeat(std::size_t id);
  Value behind_barrier(Value in_new, Location where);
  Value behind(Value in_new, Value token, Location where);
  std::int32_t node_of(Value in_new, Location where);
  void note_token(std::int32_t made, std::size_t id);

  const Graph& graph_;
  const RematerialiseQuestion& question_;
  const MemoryTimeline& timeline_;
  GraphBuilder builder_;
  std::vector<std::int32_t> moved_, again_;
  std::vector<std::uint8_t> is_again_, is_kept_;
  Value token_;  // something in memory that is known last so far
};

SINTER_DECL void RematerialiseRewrite::note_token(std::int32_t made, std::size_t id) {
  if (!timeline_.is_stored[id] || graph_.nodes()[id].op->kind == OpKind::effect) return;
  if (question_.is_early(id) && !is_kept_[id]) return;  // it would be kept for that
  const Type& type = graph_.nodes()[id].types[0];
  for (Dim extent : type.shape.dims())
    if (extent.is_static() && extent.value() == 0) return;
  token_ = {made, 0};
}

SINTER_DECL Value RematerialiseRewrite::behind_barrier(Value value, Location where) {
  return token_ ? behind(value, token_, where) : value;
}
/// A node whose only result is `value`.
SINTER_DECL std::int32_t RematerialiseRewrite::node_of(Value value, Location where) {
  if (value.result == 0) return value.node;
  const Val whole{&builder_, value, where};
  const Shape shape = whole.shape();
  for (const Dim extent : shape.dims())
    if (extent.is_static() && extent.value() == 0) return full_like(whole, 0).value.node;  // there are no elements
  return behind(value, value, where).node;
}
SINTER_DECL Value RematerialiseRewrite::behind(Value value, Value token_value, Location where) {
  const DType dtype = builder_.type(value).dtype;
  Val token{&builder_, token_value, where};
  const Shape shape = token.shape();
  Shape starts, ends;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    starts.push_back(0);
    ends.push_back(1);
  }
  token = cast(reshape(slice(token, starts, ends, IntVector(as_index(shape.rank()), 1)), {}), dtype);
  return apply(op_info<ops::Barrier>, {Val{&builder_, value, where}, token}).value;
}

/// Makes `v` known to the late part, and what it is computed from, in order.
SINTER_DECL void RematerialiseRewrite::prepare(Value wanted) {
  std::vector<std::size_t> pending{slot(wanted)}, needed;
  std::vector<std::uint8_t> seen(graph_.nodes().size());
  while (!pending.empty()) {
    const std::size_t id = pending.back();
    pending.pop_back();
    if (seen[id] || (is_again_[id] ? again_[id] : moved_[id]) >= 0) continue;
    seen[id] = 1;
    needed.push_back(id);
    for (Value v : again_operands(graph_.nodes()[id])) pending.push_back(slot(v));
  }
  std::sort(needed.begin(), needed.end());
  for (std::size_t id : needed) is_again_[id] ? repeat(id) : copy(id);
}

SINTER_DECL void RematerialiseRewrite::copy(std::size_t id) {
  const Node& node = graph_.nodes()[id];
  const bool is_late = question_.is_late(id);
  Values operands;
  for (Value v : node.inputs) operands.push_back(is_late ? late(v) : first(v));
  if (node.op == &op_info<ops::Barrier> && is_late && operands[1].node < 0)
    moved_[id] = node_of(behind_barrier(operands[0], node.where), node.where);
  else moved_[id] = builder_.copy(node, operands).node;
  note_token(moved_[id], id);
}

/// Of what was kept, the largest operand goes behind a barrier, unless another operand is computed again as well.
/// Products and calls read memory, and are merged with nothing.
SINTER_DECL void RematerialiseRewrite::repeat(std::size_t id) {
  const Node& node = graph_.nodes()[id];
  if (node.op == &op_info<ops::Barrier>) {
    again_[id] = node_of(late(node.inputs[0]), node.where);  // what it is of is computed again already
    return;
  }
  Values operands;
  bool waits = false;
  for (Value v : node.inputs) {
    operands.push_back(late(v));
    waits |= is_again_[slot(v)] != 0;
  }
  const bool is_map = node.op->kind == OpKind::elementwise || node.op->kind == OpKind::reduction;
  if (is_map && !waits) {
    std::size_t largest = 0;
    for (std::size_t i = 1; i < operands.size(); ++i)
      if (bytes_of(graph_, node.inputs[i]) > bytes_of(graph_, node.inputs[largest])) largest = i;
    operands[largest] = behind_barrier(operands[largest], node.where);
  }
  again_[id] = builder_.copy(node, operands).node;
}

SINTER_DECL Graph RematerialiseRewrite::run() {
  const auto& nodes = graph_.nodes();
  for (Value v : graph_.inputs()) copy(slot(v));
  for (std::size_t id = 0; id < nodes.size(); ++id) {
    if (moved_[id] >= 0) continue;
    if (question_.is_early(id)) {
      copy(id);
    } else if (question_.has_step(id) || nodes[id].op->kind == OpKind::effect) {  // others when somebody asks for them
      for (Value v : nodes[id].inputs) prepare(v);
      copy(id);
    }
  }
  std::vector<Value> outputs;
  for (Value v : graph_.outputs()) {
    if (moved_[slot(v)] < 0) prepare(v);
    outputs.push_back(first(v));
  }
  return Dce{}(builder_.finish(outputs));
}

}  // namespace passes_detail

SINTER_DECL MemoryTimeline timeline_of(const Graph& graph) {
  const auto& nodes = graph.nodes();
  MemoryTimeline timeline;
  timeline.step.assign(nodes.size(), -1);
  timeline.is_stored.assign(nodes.size(), 0);
  std::vector<std::size_t> last_use(nodes.size());
  for (std::size_t id = nodes.size(); id-- > 0;) {
    const Node& node = nodes[id];
    const bool has_memory = node.op->kind != OpKind::leaf && !passes_detail::is_transparent(node);
    if (has_memory) {
      timeline.step[id] = static_cast<std::int32_t>(id);
      timeline.is_stored[id] = 1;
    }
    for (Value v : node.inputs)
      last_use[as_index(v.node)] = std::max(last_use[as_index(v.node)], has_memory ? id : last_use[id]);
  }
  for (Value v : graph.outputs()) last_use[as_index(v.node)] = 0;
  std::vector<std::int64_t> change(nodes.size() + 1);
  for (std::size_t id = 0; id < nodes.size(); ++id) {
    if (!timeline.is_stored[id] || last_use[id] <= id) continue;
    for (std::size_t r = 0; r < nodes[id].types.size(); ++r) {
      const std::int64_t bytes = bytes_of(graph, {static_cast<std::int32_t>(id), static_cast<std::int32_t>(r)});
      change[id] += bytes;
      change[last_use[id] + 1] -= bytes;
    }
  }
  std::int64_t held = 0;
  for (std::size_t id = 0; id < nodes.size(); ++id) {
    held += change[id];
    if (held > timeline.bytes) {
      timeline.bytes = held;
      timeline.peak = static_cast<std::int32_t>(id);
    }
  }
  return timeline;
}

SINTER_DECL Graph Rematerialise::operator()(const Graph& graph) const {
  const MemoryTimeline own = timeline == nullptr ? timeline_of(graph) : MemoryTimeline{};
  const MemoryTimeline& times = timeline == nullptr ? own : *timeline;
  if (times.peak < 0) return graph;
  const passes_detail::RematerialiseQuestion question(graph, *this, times);
  passes_detail::RematerialiseRewrite rewrite(graph, question, times, question.choose());
  return rewrite.changes() ? rewrite.run() : graph;
}

SINTER_NAMESPACE_END
