// From graph nodes to fusion nodes: of which kind each is, which values must be copied, which scalars are recomputed.
#pragma once

#include <sinter/kernel/fusion_node.hpp>

#include <sinter/base/index.hpp>
#include <sinter/kernel/fusion_narrow.ipp>
#include <sinter/kernel/fusion_node_views.ipp>
#include <sinter/kernel/fusion_patches.ipp>
#include <sinter/ops/complex.hpp>
#include <sinter/ops/custom_derivative.hpp>

#include <algorithm>
#include <utility>

SINTER_NAMESPACE_BEGIN

namespace kernel_detail {
inline std::vector<bool> live_nodes(const Graph& graph) {
  std::vector<bool> live(graph.nodes().size());
  for (Value v : graph.outputs()) live[as_index(v.node)] = true;
  for (std::size_t i = graph.nodes().size(); i-- > 0;)
    if ((live[i] = live[i] || graph.nodes()[i].op->kind == OpKind::effect))
      for (Value v : graph.nodes()[i].inputs) live[as_index(v.node)] = true;
  return live;
}
}  // namespace kernel_detail

SINTER_DECL FusionGraph::FusionGraph(const Graph& graph, const FusionGraphOptions& options)
    : graph_(&graph), options_(options) {
  build(options);
}

SINTER_DECL void FusionGraph::build(const FusionGraphOptions& options) {
  const std::vector<bool> live = kernel_detail::live_nodes(*graph_);
  std::vector<std::int32_t> uses(graph_->nodes().size());
  for (std::size_t i = 0; i < uses.size(); ++i)
    if (live[i])
      for (Value v : graph_->nodes()[i].inputs) ++uses[as_index(v.node)];
  for (Value v : graph_->outputs()) ++uses[as_index(v.node)];
  fusion_node_of_.assign(uses.size(), -1);
  // Who computes what it reads where it reads it is a GPU.
  using Windows = kernel_detail::PatchChooser::Windows;
  const Windows windows = options.prologues ? Windows::guarded : Windows::stored;
  if (options.fuse) is_patch_ = kernel_detail::PatchChooser(*graph_, live, windows).run();
  if (!options.narrow_products.is_empty()) find_rounded(live, uses);
  nodes_.reserve(uses.size() + 8);
  for (std::size_t i = 0; i < uses.size(); ++i)
    if (live[i]) build_node(static_cast<std::int32_t>(i), options, uses);
  build_outputs(options);
  count_uses();
  if (has_unused_widenings_) drop_unused_widenings();
}

/// The fusion node of a value. Further results of a host node come right after it.
SINTER_DECL int FusionGraph::node_of(Value v) const { return fusion_node_of_[as_index(v.node)] + v.result; }

SINTER_DECL int FusionGraph::add(FusionNode node) {
  nodes_.push_back(std::move(node));
  copies_.push_back(-1);
  layouts_.emplace_back();
  layout_state_.push_back(0);
  return size() - 1;
}

SINTER_DECL int FusionGraph::add_copy(int of) {
  FusionNode copy;
  copy.kind = NodeKind::copy;
  copy.dtype = (*this)[of].dtype;
  copy.shape = (*this)[of].shape;
  copy.inputs.push_back(of);
  copy.is_in_memory = true;
  return add(std::move(copy));
}

SINTER_DECL int FusionGraph::copy_of(int node) {
  if (copies_[as_index(node)] < 0) {
    const int made = add_copy(node);
    copies_[as_index(node)] = made;
  }
  return copies_[as_index(node)];
}

SINTER_DECL int FusionGraph::clone_view(int view, int input) {
  FusionNode clone = (*this)[view];
  clone.inputs[0] = input;
  return add(std::move(clone));
}

SINTER_DECL bool FusionGraph::can_read(int node) const {
  if (!is_view((*this)[node].kind)) return true;
  Space space;
  IndexMap map = fresh_map(space, (*this)[node].shape);
  while (is_view((*this)[node].kind)) {
    const FusionNode& base = (*this)[base_of(node)];
    if (!is_generator(base.kind) && !base.is_inlined && layout_of(node) != nullptr) return true;
    auto next = input_of_view(space, node, map);
    if (!next) return false;
    map = *next;
    node = (*this)[node].inputs[0];
  }
  return true;
}

/// The same value, such that a kernel over its shape can address it.
SINTER_DECL int FusionGraph::make_readable(int node) {
  if (can_read(node)) return node;
  const int input = make_readable((*this)[node].inputs[0]);
  if (input != (*this)[node].inputs[0]) {
    const int clone = clone_view(node, input);
    if (can_read(clone)) return clone;
  }
  return clone_view(node, copy_of(input));  // a view of a dense value is always readable
}

/// Is the value reached through a reshape that strides do not express? Then reading it splits axes of the reader.
SINTER_DECL bool FusionGraph::is_walked(int node) const {
  const NodeKind base = (*this)[base_of(node)].kind;
  if (layout_of(node) != nullptr && !is_generator(base) && base != NodeKind::patch) return false;
  for (; is_view((*this)[node].kind); node = (*this)[node].inputs[0]) {
    const Shape &shape = (*this)[node].shape, &from = (*this)[(*this)[node].inputs[0]].shape;
    if ((*this)[node].kind == NodeKind::reshape && !kernel_detail::differ_in_ones(shape, from)) return true;
  }
  return false;
}

/// Operands that a node reads together: two that are walked might want an axis split in different ways.
SINTER_DECL void FusionGraph::make_operands_readable(FusionNode& node) {
  int walked = -1;
  for (std::int32_t& input : node.inputs) {
    input = make_readable(input);
    if (!is_walked(input) || input == walked) continue;
    if (walked < 0) walked = input;
    else input = copy_of(input);
  }
}

/// What a barrier (or a view of one) is of. Whoever reads memory would need a copy of it otherwise; steps run in the
/// order of the graph where nothing else says when.
SINTER_DECL int FusionGraph::before_barrier(int node) {
  const FusionNode& it = (*this)[node];
  if (it.kind == NodeKind::map && graph_node(node)->op == &op_info<ops::Barrier>) return before_barrier(it.inputs[0]);
  if (!is_view(it.kind)) return node;
  const int from = it.inputs[0], input = before_barrier(from);
  return input == from ? node : clone_view(node, input);
}

/// The same value, in memory and addressed by strides.
SINTER_DECL int FusionGraph::make_memory(int node) {
  node = make_readable(before_barrier(node));
  const int base = base_of(node);
  if (is_generator((*this)[base].kind) || (*this)[base].is_inlined || layout_of(node) == nullptr) {
    if ((*this)[node].kind != NodeKind::expand) return copy_of(node);
    return clone_view(node, make_memory((*this)[node].inputs[0]));  // what is stretched is stored once
  }
  (*this)[base].is_in_memory = true;
  return node;
}

/// The same value, such that a product can read it from memory; the kernel of the product might compute it instead.
SINTER_DECL int FusionGraph::make_operand(int node) {
  const int read = make_readable(before_barrier(node)), base = base_of(read);
  const bool may_be_computed = options_.prologues && (*this)[base].kind == NodeKind::map && !(*this)[base].is_inlined &&
                               layout_of(read) != nullptr;
  return may_be_computed ? read : make_memory(node);
}

/// The same value, in memory and row-major without gaps.
SINTER_DECL int FusionGraph::make_dense(int node) {
  node = make_memory(node);
  const Layout& layout = *layout_of(node);
  // What is computed is stored row-major; so are inputs unless something else was said.
  const auto has_strides = [&](const Node& input) {
    const auto position = as_index(input.attrs[input_position]);
    return position < options_.input_strides.size() && !options_.input_strides[position].empty();
  };
  const bool is_plain =
      is_computed((*this)[node].kind) || ((*this)[node].kind == NodeKind::input && !has_strides(*graph_node(node)));
  if (layout.owner == node && is_plain) return node;
  const auto dense = dense_dim_strides((*this)[node].shape);
  for (std::size_t i = 0; i < layout.strides.size(); ++i)
    if (!identical(layout.strides[i], dense[i]) && !is_number((*this)[node].shape[static_cast<int>(i)], 1))
      return copy_of(node);
  return node;
}

/// The same value, such that it can be read displaced by any number of elements along each axis.
SINTER_DECL int FusionGraph::make_shiftable(int node) {
  node = before_barrier(node);
  const FusionNode& base = (*this)[base_of(node)];
  if (!is_generator(base.kind) && !base.is_inlined && layout_of(node) != nullptr) return node;
  for (int at = node; is_view((*this)[at].kind); at = (*this)[at].inputs[0]) {
    const int from = (*this)[at].inputs[0];
    if ((*this)[at].kind == NodeKind::reshape && !kernel_detail::differ_in_ones((*this)[at].shape, (*this)[from].shape))
      return copy_of(make_readable(node));
  }
  return node;
}

/// A scalar made of a few operations on inputs costs less than the kernel that would make it.
SINTER_DECL bool FusionGraph::may_inline_scalar(const FusionNode& node) const {
  if (node.kind != NodeKind::map || !is_number(node.shape.numel(), 1)) return false;
  int operations = 1;
  SmallVector<std::int32_t, 16> pending(node.inputs.begin(), node.inputs.end());
  while (!pending.empty()) {
    const int at = pending.back();
    pending.pop_back();
    const FusionNode& operand = (*this)[base_of(at)];
    if (is_computed(operand.kind) && !operand.is_inlined) return false;
    if (is_computed(operand.kind) && ++operations > 8) return false;
    if (operand.kind == NodeKind::map)
      for (std::int32_t input : operand.inputs) pending.push_back(input);
  }
  return true;
}

/// The memory of pairs is that of complex numbers, as long as strides between pairs are whole.
SINTER_DECL int FusionGraph::pairs_of(const Node& graph_node) {
  const int pairs = node_of(graph_node.inputs[0]);
  if (graph_node.op == &op_info<ops::ViewAsReal> || !is_view((*this)[pairs].kind)) return pairs;
  const Layout* layout = layout_of(pairs);
  return layout != nullptr && kernel_detail::holds_pairs(*layout) ? pairs : copy_of(make_readable(pairs));
}

SINTER_DECL void FusionGraph::build_node(std::int32_t id, const FusionGraphOptions& options,
                                         std::span<const std::int32_t> uses) {
  const Node& graph_node = graph_->node(id);
  if (graph_node.op == &op_info<ops::ViewAsReal> || graph_node.op == &op_info<ops::ViewAsComplex>) {
    fusion_node_of_[as_index(id)] = pairs_of(graph_node);
    return;
  }
  FusionNode node;
  node.kind = kernel_detail::kind_of(graph_node);
  if (node.kind == NodeKind::place && options.fuse && is_patch_[as_index(id)]) return build_patch(id);
  if (node.kind == NodeKind::place) return build_place(id, uses);
  if (node.kind == NodeKind::scatter) return build_scatter(id, uses);
  if (node.kind == NodeKind::host) return build_host(id);
  node.graph_node = id;
  const Type type = pair_type(graph_node.types[0]);
  node.dtype = type.dtype;
  node.shape = type.shape;
  for (Value v : graph_node.inputs) node.inputs.push_back(node_of(v));
  switch (node.kind) {
    case NodeKind::map:
    case NodeKind::reduce:
    case NodeKind::random: make_operands_readable(node); break;
    case NodeKind::scan:  // its axis is one axis of the kernel
      node.inputs[0] = make_readable(node.inputs[0]);
      if (is_walked(node.inputs[0])) node.inputs[0] = copy_of(node.inputs[0]);
      break;
    case NodeKind::take:
      node.inputs[0] = make_memory(node.inputs[0]);
      node.inputs[1] = make_readable(node.inputs[1]);
      break;
    case NodeKind::contract:
      if (!rounded_to_.empty()) read_narrow_operands(node);
      for (std::int32_t& input : node.inputs) input = make_operand(input);
      break;
    default: break;
  }
  if (options.fuse) node.is_inlined = may_inline_scalar(node);
  if (node.kind == NodeKind::input || node.kind == NodeKind::constant) node.is_in_memory = true;
  fusion_node_of_[as_index(id)] = add(std::move(node));
}

SINTER_DECL void FusionGraph::build_host(std::int32_t id) {
  const Node& graph_node = graph_->node(id);
  FusionNode node;
  node.kind = NodeKind::host;
  node.graph_node = id;
  node.is_in_memory = true;
  for (Value v : graph_node.inputs) node.inputs.push_back(make_dense(node_of(v)));
  for (std::size_t r = 0; r < graph_node.types.size(); ++r) {
    const Type type = pair_type(graph_node.types[r]);
    node.result = static_cast<std::int32_t>(r);
    node.dtype = type.dtype;
    node.shape = type.shape;
    const int made = add(node);
    if (r > 0) continue;
    fusion_node_of_[as_index(id)] = made;
    node.kind = NodeKind::host_result;
    node.inputs.clear();
    node.inputs.push_back(made);
  }
}

/// The node whose buffer takes changes to `base`: its own where nobody else will see the old contents, else a copy's;
/// -1 where nothing is in it.
SINTER_DECL int FusionGraph::buffer_to_change(Value value, std::span<const std::int32_t> uses) {
  const int base = node_of(value);
  const NodeKind kind = (*this)[base].kind;
  if (kind == NodeKind::empty) return -1;
  if (!is_computed(kind) || (*this)[base].is_inlined || uses[as_index(value.node)] != 1)
    return add_copy(make_readable(base));
  (*this)[base].is_in_memory = true;
  return base;
}

namespace kernel_detail {
/// Of a graph's node with one result.
inline FusionNode fusion_node(const Node& graph_node, std::int32_t id, NodeKind kind) {
  FusionNode node;
  node.kind = kind;
  node.graph_node = id;
  node.dtype = graph_node.types[0].dtype;
  node.shape = graph_node.types[0].shape;
  return node;
}
}  // namespace kernel_detail

SINTER_DECL void FusionGraph::build_place(std::int32_t id, std::span<const std::int32_t> uses) {
  const Node& graph_node = graph_->node(id);
  FusionNode node = kernel_detail::fusion_node(graph_node, id, NodeKind::place);
  node.is_in_memory = true;
  node.base = buffer_to_change(graph_node.inputs[0], uses);
  node.inputs.push_back(make_readable(node_of(graph_node.inputs[1])));
  fusion_node_of_[as_index(id)] = add(std::move(node));
}

SINTER_DECL void FusionGraph::build_patch(std::int32_t id) {
  const Node& graph_node = graph_->node(id);
  FusionNode node = kernel_detail::fusion_node(graph_node, id, NodeKind::patch);
  node.is_inlined = true;
  node.inputs.push_back(make_shiftable(node_of(graph_node.inputs[1])));
  const int base = node_of(graph_node.inputs[0]);
  if ((*this)[base].kind != NodeKind::empty) node.inputs.push_back(make_shiftable(base));
  fusion_node_of_[as_index(id)] = add(std::move(node));
}

/// Of scatter: base, index, value; of scatter_add: index and value, into zeros.
SINTER_DECL void FusionGraph::build_scatter(std::int32_t id, std::span<const std::int32_t> uses) {
  const Node& graph_node = graph_->node(id);
  FusionNode node = kernel_detail::fusion_node(graph_node, id, NodeKind::scatter);
  node.is_in_memory = true;
  const bool has_base = graph_node.inputs.size() == 3;
  if (has_base) {
    node.base = buffer_to_change(graph_node.inputs[0], uses);
  } else {
    FusionNode zeros;
    zeros.kind = NodeKind::full;
    zeros.graph_node = id;  // whose attributes have no number: 0
    zeros.dtype = node.dtype;
    zeros.shape = node.shape;
    node.base = add_copy(add(std::move(zeros)));
  }
  for (std::size_t i = has_base ? 1 : 0; i < graph_node.inputs.size(); ++i)
    node.inputs.push_back(node_of(graph_node.inputs[i]));
  make_operands_readable(node);
  fusion_node_of_[as_index(id)] = add(std::move(node));
}

SINTER_DECL bool FusionGraph::is_given(int node) const {
  return std::any_of(outputs_.begin(), outputs_.end(),
                     [&](const OutputSource& output) { return !output.is_alias && output.node == node; });
}

SINTER_DECL void FusionGraph::build_outputs(const FusionGraphOptions& options) {
  std::span<const Value> values = graph_->outputs();
  std::vector<std::int32_t> last(graph_->nodes().size(), -1),
      previous(values.size());  // outputs of one graph node, chained
  for (std::size_t j = 0; j < values.size(); ++j) {
    OutputSource source;
    std::int32_t& of_node = last[as_index(values[j].node)];
    for (std::int32_t i = of_node; i >= 0; i = previous[as_index(i)])
      if (values[as_index(i)] == values[j]) source.same_as = i;
    previous[j] = std::exchange(of_node, static_cast<std::int32_t>(j));
    int node = node_of(values[j]);
    const NodeKind base = (*this)[base_of(node)].kind;
    const bool is_outside = base == NodeKind::input || base == NodeKind::constant;
    // Of complex numbers and of their parts: offsets of views count elements of the value that they are views of.
    const bool is_other_element = is_outside && is_complex(graph_->type(values[j]).dtype) !=
                                                    is_complex(graph_node(base_of(node))->types[0].dtype);
    if (options.own_outputs) {
      if (is_outside || source.same_as >= 0 || is_view((*this)[node].kind) || is_generator(base))
        node = add_copy(make_readable(node));
      source.same_as = -1;
    } else if (source.same_as >= 0) {
      node = outputs_[as_index(source.same_as)].node;
    } else if (is_outside && !is_other_element && layout_of(node) != nullptr) {
      source.is_alias = true;
    } else if (is_outside || is_view((*this)[node].kind) || is_generator(base)) {
      node = copy_of(make_readable(node));
    }
    // A complex value and its pairs are one node, of which each output wants memory of its own.
    if (source.same_as < 0 && !source.is_alias && is_given(node)) node = add_copy(node);
    (*this)[node].is_in_memory = true;
    // What is stored for the caller is also read from there; a scalar keeps being recomputed.
    source.node = node;
    outputs_.push_back(source);
  }
}

SINTER_DECL void FusionGraph::count_uses() {
  for (FusionNode& node : nodes_) {
    for (std::int32_t input : node.inputs) ++(*this)[input].uses;
    if (node.base >= 0) ++(*this)[node.base].uses;
  }
  for (const OutputSource& output : outputs_) ++(*this)[output.node].uses;
}

SINTER_DECL std::string_view FusionGraph::name(int node) const {
  if (const Node* from = graph_node(node)) return from->op->name;
  const int base = base_of((*this)[node].inputs[0]);
  return is_generator((*this)[base].kind) ? graph_node(base)->op->name : std::string_view("copy");
}

SINTER_DECL std::int64_t FusionGraph::estimate(Dim dim) const { return graph_->estimate(dim); }

SINTER_DECL std::int64_t FusionGraph::estimate_elements(int node) const {
  std::int64_t count = 1;
  for (Dim extent : (*this)[node].shape) count *= estimate(extent);
  return count;
}

SINTER_DECL std::int64_t FusionGraph::estimate_bytes(int node) const {
  return estimate_elements(node) * std::max<std::int64_t>(size_of((*this)[node].dtype), 4);
}

SINTER_NAMESPACE_END
