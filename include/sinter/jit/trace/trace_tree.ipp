// Cutting paths into segments, what is carried between them, and the insertion of a path.
#pragma once

#include <sinter/jit/trace/trace_tree.hpp>

#include <sinter/base/index.hpp>
#include <sinter/expr/capture.hpp>
#include <sinter/graph/builder.hpp>
#include <sinter/graph/hash.hpp>
#include <sinter/jit/call/delivery.hpp>
#include <sinter/jit/call/execute.hpp>
#include <sinter/jit/call/making.hpp>
#include <sinter/jit/call/specialise.hpp>
#include <sinter/jit/trace/path_gradient.hpp>
#include <sinter/ops/registry.hpp>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

SINTER_NAMESPACE_BEGIN
namespace jit {

namespace jit_detail {

inline bool guards_hold(const TracedSegment& segment, std::span<const std::int64_t> symbols,
                        std::span<const ArgLeaf> args) {
  for (const DimGuard& guard : segment.dims) {
    std::int64_t a = guard.lhs.evaluate(symbols), b = guard.rhs.evaluate(symbols);
    if ((guard.relation == DimRelation::less ? a < b : a == b) != guard.outcome) return false;
  }
  for (const VariableUse& use : segment.variables) {
    const VariableSlot* own = use.slot->here();
    // Captured Variables are no arguments, as in the trace: one place is not two.
    if (std::any_of(args.begin(), args.end(), [&](const ArgLeaf& leaf) { return leaf.slot == own; })) return false;
    ReadSection reading;
    if (!identical(own->peek(reading)->type, use.type) || is_wanted_now(*own) != use.is_on_tape) return false;
  }
  return hooks_hold(segment.hooks);
}

/// Made again in each segment that needs it, instead of carried: numbers, constants, and views.
inline bool is_made_again(const Node& node) {
  if (node.op->kind == OpKind::effect) return false;
  return node.inputs.empty() || node.op->kind == OpKind::view;
}

}  // namespace jit_detail

/// One insertion: the nodes of the tree that the path shares, and the segments that are new.
class PathCompiler {
 public:
  PathCompiler(TraceTree& tree, const TracedPath& path, std::span<const std::int64_t> symbols,
               std::vector<std::shared_ptr<const TreeNode>> known, std::size_t total)
      : tree_(tree),
        path_(path),
        symbols_(symbols),
        known_(std::move(known)),
        total_(total),
        live_(total),
        is_grown_(total, 0) {}

  /// The new root.
  std::shared_ptr<const TreeNode> run(std::int32_t& places) {
    carry_values(places);
    std::shared_ptr<const TreeNode> below;
    for (std::size_t i = total_; i-- > 0;) {
      const bool is_new = i >= known_.size();
      std::shared_ptr<TreeNode> node = is_new ? std::make_shared<TreeNode>() : std::make_shared<TreeNode>(*known_[i]);
      node->live = live_[i];
      if (is_new)
        node->number = static_cast<std::int32_t>(tree_.segments() + 1) + static_cast<std::int32_t>(i - known_.size());
      if (is_new || is_grown_[i] != 0) {
        compile(*node, i);
        made_.push_back(node);
      }
      find_releases(*node, i);
      if (below != nullptr) attach(*node, i, std::move(below));
      below = std::move(node);
    }
    std::reverse(made_.begin(), made_.end());
    return below;
  }
  /// The nodes whose code was made for it, a segment before those after it.
  std::vector<std::shared_ptr<const TreeNode>>& made() { return made_; }

 private:
  const TracedSegment& segment(std::size_t i) const { return *path_.segments[i]; }
  std::size_t segment_of(Value v) const {
    std::size_t i = 0;
    while (i + 1 < path_.segments.size() && v.node >= path_.segments[i + 1]->first) ++i;
    return i;
  }

  /// Calls `use` with the values that segment `i` takes from earlier ones to have `v`.
  template <class F>
  void for_carried(Value v, std::size_t i, F&& use) const {
    const Node& node = path_.graph.node(v);
    if (node.op == &op_info<ops::Input> || v.node >= segment(i).first || jit_detail::is_token(path_.graph, v)) return;
    if (!jit_detail::is_made_again(node)) return use(v);
    for (Value operand : node.inputs) for_carried(operand, i, use);
  }

  void carry_values(std::int32_t& places) {
    for (std::size_t i = 0; i < known_.size(); ++i) live_[i] = known_[i]->live;
    for (std::size_t j = known_.size(); j < total_; ++j) {
      auto need = [&](Value v) { carry(v, segment_of(v), j); };
      for (const Node& node : segment(j).nodes)
        for (Value v : node.inputs) for_carried(v, j, need);
      for (Value v : segment(j).outputs) for_carried(v, j, need);
      if (j + 1 < path_.segments.size()) continue;
      for (Value v : saved()) for_carried(v, j, need);
      for (std::int32_t id : added_nodes())
        for (Value v : path_.graph.node(id).inputs) for_carried(v, j, need);
    }
    // What effects gave cannot be made again when an unseen branch asks for it.
    for (std::size_t i = known_.size(); i < total_; ++i)
      for (std::size_t n = 0; n < segment(i).nodes.size(); ++n)
        for (std::size_t r = 0;
             segment(i).nodes[n].op->kind == OpKind::effect && r + 1 < segment(i).nodes[n].types.size(); ++r)
          carry({segment(i).first + static_cast<std::int32_t>(n), static_cast<std::int32_t>(r)}, i, total_);
    for (const auto& live : live_)
      for (const TreeNode::Carried& carried : live) places = std::max(places, carried.place + 1);
  }

  /// What the last segment gives for backward(), and the nodes that only that needs.
  std::span<const Value> saved() const {
    return path_.leaf->tape != nullptr ? std::span<const Value>(path_.leaf->tape->saved) : std::span<const Value>();
  }
  std::vector<std::int32_t> added_nodes() const {
    const TracedSegment& last = *path_.segments.back();
    std::vector<std::int32_t> ids;
    const auto count = static_cast<std::int32_t>(path_.graph.nodes().size());
    for (std::int32_t id = last.first + static_cast<std::int32_t>(last.nodes.size()); id < count; ++id)
      ids.push_back(id);
    return ids;
  }

  /// Keeps `v`, of segment `from`, until segment `to` has it.
  void carry(Value v, std::size_t from, std::size_t to) {
    std::int32_t place = -1, highest = -1;
    for (const auto& live : live_)
      for (const TreeNode::Carried& carried : live) highest = std::max(highest, carried.place);
    for (const TreeNode::Carried& carried : live_[from])
      if (carried.value == v && place < 0 && is_free(carried.place, v, from, to)) place = carried.place;
    if (place < 0) place = highest + 1;
    for (std::size_t i = from; i < std::min(to, total_); ++i) {
      bool is_there = std::any_of(live_[i].begin(), live_[i].end(),
                                  [&](const auto& carried) { return carried.value == v && carried.place == place; });
      if (is_there) continue;
      live_[i].push_back({v, place, i == from});
      if (i == from) is_grown_[i] = 1;
    }
  }
  bool is_free(std::int32_t place, Value v, std::size_t from, std::size_t to) const {
    for (std::size_t i = from; i < std::min(to, total_); ++i)
      for (const TreeNode::Carried& carried : live_[i])
        if (carried.place == place && !(carried.value == v)) return false;
    return true;
  }
  std::int32_t place_of(Value v, std::size_t i) const {
    // The latest entry: an older one may have lost its place to another value further down.
    for (auto it = live_[i - 1].rbegin(); it != live_[i - 1].rend(); ++it)
      if (it->value == v) return it->place;
    throw InternalError("a value that a segment needs is not carried to it");
  }

  /// The graph of one segment.
  struct Builder {
    const PathCompiler& compiler;
    std::size_t i;
    TreeNode& node;
    GraphBuilder builder;
    std::map<Value, Value> made;
    std::vector<InputLayout> layouts;
    std::vector<std::uint8_t> is_number;

    Value resolve(Value v) {
      if (auto found = made.find(v); found != made.end()) return found->second;
      const Graph& path = compiler.path_.graph;
      const Node& source = path.node(v);
      Value result;
      if (source.op == &op_info<ops::Input>)
        result = input(path.type(v), source);  // eager results too: they are kept as they are
      else if (jit_detail::is_token(path, v))
        result = builder.add(op_info<ops::Full>, {}, {.integer = 1, .dtype = DType::bool_, .has_dtype = true});
      else if (jit_detail::is_made_again(source)) {
        copy(v.node);
        return made.at(v);
      } else {
        node.end.inputs.push_back({.source = PlanInput::Source::carried, .index = compiler.place_of(v, i)});
        layouts.emplace_back();
        is_number.push_back(0);
        result = builder.input(path.type(v));
      }
      return made[v] = result;
    }
    Value input(const Type& type, const Node& source) {
      const TracedPath::Input& place = compiler.path_.inputs[as_index(source.attrs[input_position])];
      InputLayout layout;
      bool is_a_number = false;
      if (place.leaf >= 0) {
        const LeafSpec& spec = compiler.tree_.guards_.leaves[as_index(place.leaf)];
        is_a_number = spec.kind == LeafKind::scalar;
        if (!is_a_number && !spec.is_dense)
          for (std::size_t axis = 0; axis < spec.rank; ++axis) layout.push_back(spec.stride_dims[axis]);
        node.end.inputs.push_back({.source = PlanInput::Source::leaf, .index = place.leaf});
      } else if (place.slot) {
        node.end.inputs.push_back({.source = PlanInput::Source::captured, .slot = place.slot});
      } else {
        node.end.inputs.push_back({.source = PlanInput::Source::eager, .index = place.cut, .result = place.result});
      }
      layouts.push_back(std::move(layout));
      is_number.push_back(is_a_number);
      return builder.input(type);
    }
    void copy(std::int32_t id) {
      const Node& source = compiler.path_.graph.node(id);
      if (source.op == &op_info<ops::Input>) return;
      Values inputs;
      for (Value v : source.inputs) inputs.push_back(resolve(v));
      Value value = builder.copy(source, inputs);
      for (std::size_t r = 0; r < source.types.size(); ++r)
        made[{id, static_cast<std::int32_t>(r)}] = {value.node, static_cast<std::int32_t>(r)};
    }
  };

  /// After the results, before what Variables become.
  void add_saved(Builder& segment_builder, std::vector<Value>& outputs) const {
    for (std::int32_t id : added_nodes()) segment_builder.copy(id);
    std::vector<Value> kept;
    for (Value v : saved()) kept.push_back(segment_builder.resolve(v));
    outputs.insert(outputs.begin() + static_cast<std::ptrdiff_t>(path_.leaf->results), kept.begin(), kept.end());
  }

  void compile(TreeNode& node, std::size_t i) {
    if (node.traced == nullptr) node.traced = path_.segments[i];
    const bool is_leaf = i + 1 == path_.segments.size();
    if (is_leaf) node.leaf = path_.leaf;
    node.end = {};
    node.stores.clear();
    Builder segment_builder{*this, i, node, {}, {}, {}, {}};
    for (std::size_t n = 0; n < segment(i).nodes.size(); ++n)
      segment_builder.copy(segment(i).first + static_cast<std::int32_t>(n));
    std::vector<Value> outputs;
    for (Value v : segment(i).outputs) outputs.push_back(segment_builder.resolve(v));
    if (is_leaf) add_saved(segment_builder, outputs);
    if (node.traced->eager_call && outputs.empty())  // a plan has an output
      outputs.push_back(segment_builder.builder.add(op_info<ops::Full>, {},
                                                    {.integer = 1, .dtype = DType::bool_, .has_dtype = true}));
    std::map<Value, std::int32_t> output_of;
    for (const TreeNode::Carried& carried : node.live) {
      if (!carried.is_made_here) continue;
      auto [found, is_new] = output_of.emplace(carried.value, static_cast<std::int32_t>(outputs.size()));
      if (is_new) outputs.push_back(segment_builder.resolve(carried.value));
      node.stores.push_back({found->second, carried.place});
    }
    for (SymbolId id = 0; id < symbols_.size(); ++id) {
      const SymbolSource& source = tree_.guards_.symbols[id];
      SymbolInfo info;
      info.hint = symbols_[id];
      info.min = source.min;
      info.max = source.max;
      info.axis = source.is_stride ? -1 : source.axis;  // no shape has a stride
      for (std::size_t k = 0; k < node.end.inputs.size(); ++k)
        if (!source.is_stride && node.end.inputs[k].source == PlanInput::Source::leaf &&
            node.end.inputs[k].index == source.leaf)
          info.input = static_cast<std::int32_t>(k);
      segment_builder.builder.symbols().push_back(info);
    }
    const std::vector<Dim> solution = solve(i);
    SegmentCode wanted;
    wanted.key =
        substitute_symbols(share_symbols(segment_builder.builder.finish(outputs)), solution, tree_.guards_.symbols);
    for (InputLayout& layout : segment_builder.layouts)
      for (Dim& stride : layout) stride = stride.substitute(solution);
    wanted.layouts = std::move(segment_builder.layouts);
    wanted.is_number = std::move(segment_builder.is_number);
    wanted.is_leaf = is_leaf;
    if (is_leaf) {
      node.end.saved = saved().size();
      node.end.results = node.leaf->results + node.end.saved;
      node.end.assignments = node.leaf->assignments;
      wanted.may_donate = jit_detail::find_donors(node.end, tree_.guards_.leaves);
      if (node.leaf->tape != nullptr) wanted.may_donate.clear();  // the tape holds what the code reads
    }
    node.code = tree_.code_for(std::move(wanted));
    node.end.plan = node.code->plan;
    for (std::size_t k = 0; k < node.end.inputs.size(); ++k)
      node.end.inputs[k].as_float = node.code->is_narrowed[k] != 0;
  }

  /// What the questions asked up to segment `i` say about the symbols.
  std::vector<Dim> solve(std::size_t i) const {
    GuardSet guards;
    guards.symbols = tree_.guards_.symbols;
    for (std::size_t k = 0; k <= i; ++k) {
      const auto& asked = k < known_.size() ? known_[k]->traced->dims : segment(k).dims;
      guards.dims.insert(guards.dims.end(), asked.begin(), asked.end());
    }
    return solve_symbols(guards, {}, Divide::no);
  }

  void find_releases(TreeNode& node, std::size_t i) const {
    node.releases.clear();
    if (i == 0) return;
    std::set<std::int32_t> kept;
    for (const TreeNode::Carried& carried : node.live) kept.insert(carried.place);
    for (const TreeNode::Carried& carried : live_[i - 1])
      if (kept.insert(carried.place).second) node.releases.push_back(carried.place);
  }

  void attach(TreeNode& node, std::size_t i, std::shared_ptr<const TreeNode> below) const {
    if (i + 1 < known_.size()) {
      for (TreeNode::Child& child : node.children)
        if (child.node == known_[i + 1]) child.node = below;
      return;
    }
    node.children.push_back({path_.outcomes[i], std::move(below)});
  }

  TraceTree& tree_;
  const TracedPath& path_;
  std::span<const std::int64_t> symbols_;
  std::vector<std::shared_ptr<const TreeNode>> known_;
  std::size_t total_;
  std::vector<std::vector<TreeNode::Carried>> live_;
  std::vector<std::uint8_t> is_grown_;
  std::vector<std::shared_ptr<const TreeNode>> made_;
};

SINTER_DECL const std::shared_ptr<const TreeNode>* TraceTree::child(const TreeNode& node, std::uint64_t outcome,
                                                                    const EagerResults* given,
                                                                    std::span<const std::int64_t> symbols,
                                                                    std::span<const ArgLeaf> args) {
  for (const TreeNode::Child& child : node.children)
    if (child.outcome == outcome &&
        (given == nullptr || child.node->traced->arrival->fits(*node.traced->eager_call, *given, symbols)) &&
        jit_detail::guards_hold(*child.node->traced, symbols, args))
      return &child.node;
  return nullptr;
}

SINTER_DECL bool TraceTree::may_grow_at(const TreeNode& node) const {
  return segments() < limits_.segments &&
         (node.reads_outcome() || static_cast<std::int64_t>(node.children.size()) < limits_.children);
}

namespace jit_detail {
/// What counts the calls that end here: at a leaf, or going on lazily.
inline std::shared_ptr<const CallCount> count_at(const TreeNode& node) {
  if (node.leaf) return {node.leaf, &node.leaf->calls};
  return {node.traced, &node.traced->lazy_calls};
}
}  // namespace jit_detail

SINTER_DECL TraceTree::Inserted TraceTree::insert(const TracedPath& path, std::span<const std::int64_t> symbols,
                                                  std::span<const ArgLeaf> args) {
  std::vector<std::shared_ptr<const TreeNode>> known;
  std::int32_t places = 0;
  if (const Version* version = current()) {
    places = version->places;
    known.push_back(version->root);
    while (known.size() < path.segments.size()) {
      const auto* next = child(*known.back(), path.outcomes[known.size() - 1],
                               path.eager_results[known.size() - 1].get(), symbols, args);
      if (next == nullptr) break;
      known.push_back(*next);
    }
    if (known.size() == path.segments.size() || !may_grow_at(*known.back()))
      return {{}, jit_detail::count_at(*known.back())};
    for (std::size_t i = 0; i < known.size(); ++i)
      if (!jit_detail::same_traced(*known[i]->traced, *path.segments[i])) return {};  // the purity check will say so
  }
  const auto room = as_index(std::max<std::int64_t>(0, limits_.segments - segments()));
  const std::size_t total = std::min(path.segments.size(), known.size() + room);
  if (total == known.size()) return {};
  const std::size_t added = total - known.size();
  auto version = std::make_unique<Version>();
  PathCompiler compiler(*this, path, symbols, std::move(known), total);
  version->root = compiler.run(places);
  version->places = places;
  if (const Version* before = current()) version->held = before->held;
  add_held(path, version->held);
  segments_.fetch_add(static_cast<std::int64_t>(added), std::memory_order_relaxed);
  breaks_.fetch_add(static_cast<std::int64_t>(added) - (total == path.segments.size()), std::memory_order_relaxed);
  paths_.fetch_add(1, std::memory_order_relaxed);
  current_.store(version.get(), std::memory_order_release);
  versions_.push_back(std::move(version));
  Inserted inserted{std::move(compiler.made()), {}};
  inserted.taken = jit_detail::count_at(*inserted.made.back());
  return inserted;
}

SINTER_DECL std::shared_ptr<const SegmentCode> TraceTree::code_for(SegmentCode wanted) {
  Hash128 hash = wanted.key.hash();
  auto [first, last] = codes_.equal_range(hash.low);
  for (auto it = first; it != last; ++it) {
    const SegmentCode& code = *it->second;
    if (code.is_leaf == wanted.is_leaf && code.layouts == wanted.layouts && code.is_number == wanted.is_number &&
        code.may_donate == wanted.may_donate && structurally_equal(code.key, wanted.key))
      return it->second;
  }
  std::shared_ptr<const SegmentCode> code = compiled_segment(wanted, choices_);
  if (is_background_) uncompiled_.push_back(code);
  kernels_.fetch_add(static_cast<std::int64_t>(code->plan->kernel_count()), std::memory_order_relaxed);
  launches_.fetch_add(static_cast<std::int64_t>(code->plan->launch_count()), std::memory_order_relaxed);
  peak_bytes_.store(std::max(peak_bytes(), code->plan->held_bytes()), std::memory_order_relaxed);
  codes_.emplace(hash.low, code);
  return code;
}

SINTER_DECL std::shared_ptr<const SegmentCode> compiled_segment(const SegmentCode& segment,
                                                                const jit_detail::CodeChoices& choices) {
  jit_detail::CodeChoices own = choices;
  own.where = segment.key.nodes().empty() ? Location() : segment.key.nodes().back().where;
  auto code = std::make_shared<SegmentCode>(segment);
  // Carried values have memory of their own, row-major: what later segments take has one layout on every path.
  jit_detail::VersionCode made = jit_detail::make_code(
      {segment.key, segment.layouts, segment.is_number, segment.may_donate, !segment.is_leaf}, own);
  code->optimised = std::move(made.optimised);
  code->is_narrowed = std::move(made.is_narrowed);
  code->plan = std::move(made.plan);
  return code;
}

SINTER_DECL std::vector<std::shared_ptr<const SegmentCode>> TraceTree::take_uncompiled() {
  return std::exchange(uncompiled_, {});
}

namespace jit_detail {
/// The tree below a node, with other code in the place of some.
inline std::shared_ptr<const TreeNode> with_code(const TreeNode& node, const SegmentSwaps& swaps) {
  auto made = std::make_shared<TreeNode>(node);
  if (const auto found = swaps.find(node.code.get()); found != swaps.end()) {
    made->code = found->second;
    made->end.plan = made->code->plan;
    for (std::size_t k = 0; k < made->end.inputs.size(); ++k)
      made->end.inputs[k].as_float = made->code->is_narrowed[k] != 0;
  }
  for (TreeNode::Child& child : made->children) child.node = with_code(*child.node, swaps);
  return made;
}
}  // namespace jit_detail

SINTER_DECL void TraceTree::swap(const SegmentSwaps& swaps) {
  auto version = std::make_unique<Version>(*current());
  version->root = jit_detail::with_code(*version->root, swaps);
  std::int64_t kernels = 0, launches = 0, peak = 0;
  for (auto& [hash, code] : codes_) {
    if (const auto found = swaps.find(code.get()); found != swaps.end()) code = found->second;
    kernels += static_cast<std::int64_t>(code->plan->kernel_count());
    launches += static_cast<std::int64_t>(code->plan->launch_count());
    peak = std::max(peak, code->plan->held_bytes());
  }
  kernels_.store(kernels, std::memory_order_relaxed);
  launches_.store(launches, std::memory_order_relaxed);
  peak_bytes_.store(peak, std::memory_order_relaxed);
  current_.store(version.get(), std::memory_order_release);
  versions_.push_back(std::move(version));
}

SINTER_DECL std::int64_t TreeNode::calls() const {
  std::int64_t total = traced->lazy_calls.total() + (leaf ? leaf->calls.total() : 0);
  for (const Child& child : children) total += child.node->calls();
  return total;
}

SINTER_DECL void TraceTree::count_regions(Stats& stats) const {
  std::vector<const Graph*> bodies;
  for (const auto& [hash, code] : codes_) jit_detail::count_regions(code->optimised, bodies, stats.region_calls);
  stats.regions += static_cast<std::int64_t>(bodies.size());
}

namespace jit_detail {
/// The bytes of the path that keeps most for its gradient.
inline void add_gradient_bytes(const TreeNode& node, Stats& stats) {
  if (node.leaf && node.leaf->tape != nullptr) {
    stats.saved_bytes = std::max(stats.saved_bytes, node.leaf->tape->gradient->saved_bytes());
    stats.backward_bytes = std::max(stats.backward_bytes, node.leaf->tape->gradient->backward_bytes());
  }
  for (const TreeNode::Child& child : node.children) add_gradient_bytes(*child.node, stats);
}
}  // namespace jit_detail

SINTER_DECL void jit_detail::add_figures(const TraceTree& tree, Stats& stats) {
  stats.graph_breaks += tree.breaks();
  stats.segments += tree.segments();
  stats.retraces += std::max<std::int64_t>(0, tree.paths() - 1);
  stats.lazy_calls += tree.unbounded_calls.load(std::memory_order_relaxed);
  stats.kernels = tree.kernels();
  stats.launches = tree.launches();
  stats.peak_bytes = tree.peak_bytes();
  tree.count_regions(stats);
  if (const TraceTree::Version* version = tree.current()) add_gradient_bytes(*version->root, stats);
}
}  // namespace jit
SINTER_NAMESPACE_END
