// In four steps: candidate periods from the distances between equal nodes; the longest run in which every node equals
// the one a period later; the best place to cut; the calls. The first and last block of a run may differ in where their
// operands come from, as long as the types agree.
#pragma once

#include <sinter/passes/outline.hpp>

#include <sinter/base/index.hpp>
#include <sinter/graph/builder.hpp>
#include <sinter/graph/hash.hpp>
#include <sinter/ops/registry.hpp>

#include <algorithm>
#include <bit>
#include <optional>
#include <unordered_map>

SINTER_NAMESPACE_BEGIN
namespace passes_detail {

/// A run of blocks: nodes [begin + k * period, begin + (k + 1) * period) for k < repeats are equal.
struct BlockRun {
  std::int32_t begin = 0, period = 0, repeats = 0;
  std::int32_t block_of(std::int32_t node) const { return node < begin ? -1 : (node - begin) / period; }
  std::int32_t end() const { return begin + period * repeats; }
};

class Outliner {
 public:
  Outliner(const Graph& graph, const Outline& options)
      : graph_(graph), options_(options), count_(static_cast<std::int32_t>(graph.nodes().size())) {}
  Graph run();

 private:
  const Node& node(std::int32_t id) const { return graph_.node(id); }
  /// Effects keep their order, and a plan is cut at copies between devices.
  bool stays_outside(std::int32_t id) const { return node(id).op->kind == OpKind::effect || node(id).op->is_transfer; }
  /// What a call would have to be given: leaves stand outside of blocks.
  bool is_leaf(std::int32_t id) const { return node(id).op->kind == OpKind::leaf; }
  bool is_literal(std::int32_t id) const { return node(id).inputs.empty() && !is_leaf(id); }
  /// Products, reductions and composites of them: fusion begins a new kernel there.
  bool is_heavy(std::int32_t id) const {
    const OpKind kind = node(id).op->kind;
    return !is_literal(id) && !node(id).op->is_call && !node(id).op->is_transfer &&
           (kind == OpKind::composite || kind == OpKind::reduction || kind == OpKind::structured);
  }
  /// The operations of a block.
  std::int64_t work_of(const BlockRun& run) const {
    std::int64_t work = 0;
    for (std::int32_t id = run.begin; id < run.begin + run.period; ++id) work += !is_leaf(id) && !is_literal(id);
    return work;
  }
  /// Small branches that need nothing of each other: as kernels they become one launch (kernel/launch_groups.ipp), as
  /// calls they would run one after the other.
  bool is_side_by_side(const BlockRun& run) const {
    if (work_of(run) > most_branch_work) return false;
    for (std::int32_t id = run.begin + run.period; id < run.end(); ++id)
      for (Value v : node(id).inputs) {
        const bool is_inside = v.node >= run.begin && !is_leaf(v.node) && !is_literal(v.node);
        if (is_inside && run.block_of(v.node) != run.block_of(id)) return false;
      }
    return true;
  }
  void number_kinds();
  bool is_equal(std::int32_t a, std::int32_t b, std::int32_t block_begin) const;
  std::vector<std::int32_t> candidate_periods() const;
  BlockRun longest_run(std::int32_t period) const;
  std::optional<BlockRun> best_cut(BlockRun run) const;
  bool is_same_block(std::int32_t begin, std::int32_t later, std::int32_t period) const;
  BlockRun equal_blocks(const BlockRun& cut) const;
  void extend(BlockRun& run) const;
  int crossing_values(std::int32_t at, const BlockRun& run) const;
  /// No other period can explain much more.
  bool is_nearly_all(const BlockRun& run) const {
    const auto work = std::count_if(graph_.nodes().begin(), graph_.nodes().end(),
                                    [](const Node& n) { return n.op->kind != OpKind::leaf; });
    return std::int64_t{run.period} * run.repeats * 8 >= std::int64_t{work} * 7;
  }
  /// The block as the body of a call. An operand slot is what it is in each block; slots that agree in all blocks are
  /// one input.
  struct Block {
    std::vector<std::vector<Value>> inputs;  // of the body: the operand in each block
    std::vector<Value> results;              // nodes of the first block, by place, that a later node reads
    SharedAttrs attrs;                       // of the call, with the body
    TypeList types;
  };
  bool is_read_outside(const BlockRun& run, Value in_first) const;
  Block make_block(const BlockRun& run) const;
  Graph emit(const BlockRun& run) const;

  static constexpr std::int64_t most_branch_work = 64;
  const Graph& graph_;
  const Outline& options_;
  std::int32_t count_;
  std::vector<std::int32_t> kind_;      // equal for nodes that differ in operands alone
  std::vector<std::int32_t> last_use_;  // the last node that reads a node; count_ for outputs
};

/// Nodes of one kind have one fingerprint.
inline std::uint64_t fingerprint(const Node& node) {
  std::uint64_t bits = reinterpret_cast<std::uintptr_t>(node.op) + node.inputs.size();
  const auto add = [&](std::uint64_t word) { bits = (bits ^ word) * 0x9E3779B97F4A7C15ull, bits ^= bits >> 32; };
  for (const Type& type : node.types) {
    add(static_cast<std::uint64_t>(type.dtype) << 8 | static_cast<std::uint64_t>(type.shape.rank()));
    for (Dim dim : type.shape.dims()) add(std::bit_cast<std::uint64_t>(dim));  // symbolic ones are interned
  }
  if (node.op->kind == OpKind::leaf) return bits;
  for (std::int64_t axis : node.attrs.axes) add(static_cast<std::uint64_t>(axis));
  for_each_shape(node.attrs, [&](const Shape& shape) {
    for (Dim dim : shape) add(std::bit_cast<std::uint64_t>(dim));
  });
  for (std::int64_t number : node.attrs.own.numbers) add(static_cast<std::uint64_t>(number));
  add(static_cast<std::uint64_t>(node.attrs.integer));
  add(std::bit_cast<std::uint64_t>(node.attrs.value));
  return bits;
}

SINTER_DECL void Outliner::number_kinds() {
  const auto count = as_index(count_);
  std::vector<std::int32_t> first(std::bit_ceil(2 * count), -1), next(count, -1);  // kinds by fingerprint, chained
  std::vector<std::uint64_t> fingerprints(count);
  kind_.resize(count);
  last_use_.assign(count, -1);
  for (std::int32_t id = 0; id < count_; ++id) {
    const Node& n = node(id);
    for (Value v : n.inputs) last_use_[as_index(v.node)] = id;
    const std::uint64_t bits = fingerprints[as_index(id)] = fingerprint(n);
    std::int32_t& head = first[bits & (first.size() - 1)];
    std::int32_t same = head;
    for (; same >= 0; same = next[as_index(same)]) {
      if (fingerprints[as_index(same)] != bits) continue;
      const Node& o = node(same);
      if (o.op == n.op && (is_leaf(id) ? identical(o.types[0], n.types[0])
                                       : o.inputs.size() == n.inputs.size() && structurally_equal(o, n)))
        break;
    }
    kind_[as_index(id)] = same >= 0 ? same : id;
    if (same >= 0) continue;
    next[as_index(id)] = head;
    head = id;
  }
  for (Value v : graph_.outputs()) last_use_[as_index(v.node)] = count_;
}

/// Do nodes a < b do the same in blocks that begin at `block_begin` and (b - a) after it? Operands agree when they are
/// made at the same place of the two blocks, or come from outside of them with the same type.
SINTER_DECL bool Outliner::is_equal(std::int32_t a, std::int32_t b, std::int32_t block_begin) const {
  if (kind_[as_index(a)] != kind_[as_index(b)] || stays_outside(a)) return false;
  const Values &left = node(a).inputs, &right = node(b).inputs;
  for (std::size_t i = 0; i < left.size(); ++i) {
    const bool is_inside = left[i].node >= block_begin && !is_leaf(left[i].node);
    const bool is_inside_later = right[i].node >= block_begin + (b - a) && !is_leaf(right[i].node);
    if (is_inside != is_inside_later) return false;
    if (is_inside && (left[i].result != right[i].result || right[i].node - left[i].node != b - a)) return false;
    if (!is_inside && !identical(graph_.type(left[i]), graph_.type(right[i]))) return false;
  }
  return true;
}

/// Distances between heavy nodes of one kind, those that explain most nodes first.
SINTER_DECL std::vector<std::int32_t> Outliner::candidate_periods() const {
  constexpr std::size_t looks_ahead = 6;
  std::unordered_map<std::int32_t, std::vector<std::int32_t>> by_kind;
  for (std::int32_t id = 0; id < count_; ++id)
    if (is_heavy(id)) by_kind[kind_[as_index(id)]].push_back(id);
  std::unordered_map<std::int32_t, std::int32_t> found;
  for (const auto& [kind, ids] : by_kind)
    for (std::size_t i = 0; i < ids.size(); ++i)
      for (std::size_t j = i + 1; j < ids.size() && j <= i + looks_ahead; ++j) ++found[ids[j] - ids[i]];
  std::vector<std::pair<std::int64_t, std::int32_t>> scored;
  for (const auto& [distance, count] : found)
    if (count + 1 >= options_.least_repeats) scored.emplace_back(-std::int64_t{count}, distance);
  std::sort(scored.begin(), scored.end());  // equal counts: the shorter period
  std::vector<std::int32_t> periods;
  for (std::size_t i = 0; i < scored.size() && i < 8; ++i) periods.push_back(scored[i].second);
  return periods;
}

/// The longest run in which operands agree as in an endless sequence of blocks. An operand from before the run may have
/// another type than the one a period later though results agree, as those of sums and products do; and one that all
/// blocks share may be made in the first of them: whether blocks are equal is known once they are cut.
SINTER_DECL BlockRun Outliner::longest_run(std::int32_t period) const {
  BlockRun best;
  std::int32_t best_work = 0, work = 0,
               begin = 0;  // operations that continue the run: inputs repeat, too, and are no blocks
  const auto continues = [&](std::int32_t a) {
    const std::int32_t b = a + period;
    if (kind_[as_index(a)] != kind_[as_index(b)] || stays_outside(a)) return false;
    const Values &left = node(a).inputs, &right = node(b).inputs;
    for (std::size_t i = 0; i < left.size(); ++i) {
      const bool both_leaves = is_leaf(left[i].node) && is_leaf(right[i].node);
      const bool moves_along = left[i].result == right[i].result && right[i].node - left[i].node == period;
      if (!both_leaves && !moves_along && left[i] != right[i]) return false;
      if (!identical(graph_.type(left[i]), graph_.type(right[i]))) return false;
    }
    return true;
  };
  for (std::int32_t a = 0; a + period < count_; ++a) {
    if (!continues(a)) {
      begin = a + 1;
      work = 0;
    } else if (work += !is_leaf(a); work > best_work || (work == best_work && begin == best.begin)) {
      best_work = work;
      best = {begin, period, (a + 1 - begin + period) / period};
    }
  }
  return best;
}

/// Values made before node `at` that it or a later node of its block reads. Leaves and literals do not count.
SINTER_DECL int Outliner::crossing_values(std::int32_t at, const BlockRun& run) const {
  int crossing = 0;
  for (std::int32_t id = std::max(run.begin, at - run.period); id < at; ++id)
    crossing += !is_leaf(id) && !is_literal(id) && last_use_[as_index(id)] >= at;
  return crossing;
}

/// The run rotated to where the fewest values cross and a kernel begins anyway.
SINTER_DECL std::optional<BlockRun> Outliner::best_cut(BlockRun run) const {
  std::optional<BlockRun> best;
  int fewest = 3;  // more than two values from block to block: not a chain of layers
  const std::int32_t length = run.period * run.repeats;
  for (std::int32_t shift = 0; shift < run.period; ++shift) {
    // Judged at the second block: where the first begins, the values come from elsewhere.
    std::int32_t at = run.begin + run.period + shift;
    if (at >= run.end() || is_leaf(at) || is_literal(at)) continue;
    const int crossing = crossing_values(at, run);
    std::int32_t first = at;  // after views: what reads the crossing values
    while (first + 1 < run.end() && (node(first).op->kind == OpKind::view || is_leaf(first) || is_literal(first)))
      ++first;
    if (!is_heavy(first) || crossing >= 3 || crossing > fewest) continue;
    BlockRun cut = equal_blocks({run.begin + shift, run.period, (length - shift) / run.period});
    extend(cut);
    // Of equally narrow cuts the one that leaves least outside.
    if (best && crossing == fewest && cut.repeats <= best->repeats) continue;
    fewest = crossing;
    best = cut;
  }
  return best;
}

SINTER_DECL bool Outliner::is_same_block(std::int32_t begin, std::int32_t later, std::int32_t period) const {
  for (std::int32_t i = 0; i < period; ++i)
    if (!is_equal(begin + i, later + i, begin)) return false;
  return true;
}

/// The longest part of a cut in which each block equals the next one.
SINTER_DECL BlockRun Outliner::equal_blocks(const BlockRun& cut) const {
  BlockRun now{cut.begin, cut.period, 1}, best = now;
  for (std::int32_t begin = cut.begin + cut.period; begin < cut.end(); begin += cut.period) {
    if (is_same_block(begin - cut.period, begin, cut.period)) ++now.repeats;
    else now = {begin, cut.period, 1};
    if (now.repeats > best.repeats) best = now;
  }
  return best;
}

/// Takes in blocks at the ends whose operands come from elsewhere.
SINTER_DECL void Outliner::extend(BlockRun& run) const {
  while (run.begin >= run.period && is_same_block(run.begin - run.period, run.begin, run.period))
    run.begin -= run.period, ++run.repeats;
  while (run.end() + run.period <= count_ && is_same_block(run.begin, run.end(), run.period)) ++run.repeats;
}

/// Whether a later block, what follows or the results read a node of the first block, or its counterpart in another.
SINTER_DECL bool Outliner::is_read_outside(const BlockRun& run, Value in_first) const {
  for (std::int32_t k = 0; k < run.repeats; ++k) {
    const std::int32_t id = in_first.node + k * run.period, end = run.begin + (k + 1) * run.period;
    const Value value{id, in_first.result};
    if (last_use_[as_index(id)] < end) continue;
    for (Value v : graph_.outputs())
      if (v == value) return true;
    for (std::int32_t user = end; user <= std::min(last_use_[as_index(id)], count_ - 1); ++user)
      for (Value v : node(user).inputs)
        if (v == value) return true;
  }
  return false;
}

SINTER_DECL Outliner::Block Outliner::make_block(const BlockRun& run) const {
  Block block;
  GraphBuilder body(graph_);
  std::vector<Value> in_body(as_index(run.period)), body_inputs;
  const auto operand = [&](std::int32_t id, std::size_t slot) -> Value {
    const Value v = node(id).inputs[slot];
    if (v.node >= run.begin && !is_leaf(v.node)) return {in_body[as_index(v.node - run.begin)].node, v.result};
    std::vector<Value> in_blocks;
    for (std::int32_t k = 0; k < run.repeats; ++k) in_blocks.push_back(node(id + k * run.period).inputs[slot]);
    for (std::size_t i = 0; i < block.inputs.size(); ++i)
      if (block.inputs[i] == in_blocks) return body_inputs[i];
    block.inputs.push_back(std::move(in_blocks));
    return body_inputs.emplace_back(body.input(graph_.type(v)));
  };
  std::vector<Value> outputs;
  for (std::int32_t place = 0; place < run.period; ++place) {
    const std::int32_t id = run.begin + place;
    if (is_leaf(id)) continue;
    Values operands;
    for (std::size_t slot = 0; slot < node(id).inputs.size(); ++slot) operands.push_back(operand(id, slot));
    in_body[as_index(place)] = body.copy(node(id), operands);
    for (std::size_t r = 0; r < node(id).types.size(); ++r) {
      const auto result = static_cast<std::int32_t>(r);
      if (!is_read_outside(run, {id, result})) continue;
      block.results.push_back({place, result});
      outputs.push_back({in_body[as_index(place)].node, result});
    }
  }
  const auto shared_body = std::make_shared<const Graph>(body.finish(outputs));
  Attrs attrs;
  attrs.bodies.push_back(shared_body);
  block.attrs = SharedAttrs(std::move(attrs));
  for (Value v : outputs) block.types.push_back(shared_body->type(v));
  return block;
}

SINTER_DECL Graph Outliner::emit(const BlockRun& run) const {
  const Block block = make_block(run);
  GraphBuilder builder(graph_);
  std::vector<std::vector<Value>> moved(as_index(count_));
  const auto copy = [&](std::int32_t id) {
    Values operands;
    for (Value v : node(id).inputs) operands.push_back(moved[as_index(v.node)][as_index(v.result)]);
    const Value made = builder.copy(node(id), operands);
    for (std::size_t r = 0; r < node(id).types.size(); ++r)
      moved[as_index(id)].push_back({made.node, static_cast<std::int32_t>(r)});
  };
  for (std::int32_t id = 0; id < run.begin; ++id) copy(id);
  for (std::int32_t k = 0; k < run.repeats; ++k) {
    const std::int32_t begin = run.begin + k * run.period;
    for (std::int32_t id = begin; id < begin + run.period; ++id)
      if (is_leaf(id)) copy(id);
    Values operands;
    for (const auto& in_blocks : block.inputs) {
      const Value v = in_blocks[as_index(k)];
      operands.push_back(moved[as_index(v.node)][as_index(v.result)]);
    }
    const Value made = builder.add_typed(op_info<ops::Region>, operands, block.attrs, block.types, node(begin).where);
    for (std::size_t r = 0; r < block.results.size(); ++r) {
      auto& to = moved[as_index(begin + block.results[r].node)];
      if (to.size() <= as_index(block.results[r].result)) to.resize(as_index(block.results[r].result) + 1);
      to[as_index(block.results[r].result)] = {made.node, static_cast<std::int32_t>(r)};
    }
  }
  for (std::int32_t id = run.end(); id < count_; ++id) copy(id);
  std::vector<Value> graph_outputs;
  for (Value v : graph_.outputs()) graph_outputs.push_back(moved[as_index(v.node)][as_index(v.result)]);
  return builder.finish(graph_outputs);
}

SINTER_DECL Graph Outliner::run() {
  if (count_ < options_.least_repeats * options_.least_nodes) return graph_;
  number_kinds();
  BlockRun best;
  std::vector<BlockRun> too_small;
  for (std::int32_t period : candidate_periods()) {
    const BlockRun run = longest_run(period);
    if (run.repeats < std::max(2, options_.least_repeats - 1) || run.period * run.repeats <= best.period * best.repeats)
      continue;
    if (work_of(run) < options_.least_nodes) {
      too_small.push_back(run);
      continue;
    }
    // Several rounds of a block that is too small are none either.
    const auto is_within = [&](const BlockRun& small) {
      return run.period % small.period == 0 && small.begin <= run.begin && run.end() <= small.end();
    };
    if (std::any_of(too_small.begin(), too_small.end(), is_within)) continue;
    if (const std::optional<BlockRun> cut = best_cut(run)) {
      if (is_side_by_side(*cut)) continue;
      if (cut->repeats >= options_.least_repeats && cut->period * cut->repeats > best.period * best.repeats)
        best = *cut;
      if (best.repeats > 0 && is_nearly_all(best)) break;
    }
  }
  return best.repeats > 0 ? emit(best) : graph_;
}

}  // namespace passes_detail

SINTER_DECL Graph Outline::operator()(const Graph& graph) const { return passes_detail::Outliner(graph, *this).run(); }

SINTER_DECL Graph inline_calls(const Graph& graph) {
  const auto is_call = [](const Node& node) { return node.op->is_call; };
  if (std::none_of(graph.nodes().begin(), graph.nodes().end(), is_call)) return graph;
  GraphBuilder builder(graph);
  std::vector<std::vector<Value>> moved(graph.nodes().size());
  const auto move = [&](Value v) { return moved[as_index(v.node)][as_index(v.result)]; };
  for (std::size_t id = 0; id < graph.nodes().size(); ++id) {
    const Node& node = graph.nodes()[id];
    Values inputs;
    for (Value v : node.inputs) inputs.push_back(move(v));
    if (is_call(node)) {
      moved[id] = builder.inline_graph(inline_calls(*node.attrs.bodies[0]), inputs);
      continue;
    }
    const Value made = builder.copy(node, inputs);
    for (std::size_t r = 0; r < node.types.size(); ++r) moved[id].push_back({made.node, static_cast<std::int32_t>(r)});
  }
  std::vector<Value> outputs;
  for (Value v : graph.outputs()) outputs.push_back(move(v));
  return builder.finish(outputs);
}

SINTER_NAMESPACE_END
