// Appending nodes, and the rules that operands and result types follow.
#pragma once

#include <sinter/graph/builder.hpp>

#include <sinter/base/index.hpp>
#include <sinter/graph/pending_node.hpp>

#include <utility>

SINTER_NAMESPACE_BEGIN

SINTER_DECL GraphBuilder::GraphBuilder(const Graph& like) { graph_.symbols_ = like.symbols_; }
SINTER_DECL Value GraphBuilder::add(const OpInfo& op, std::span<const Value> inputs, Attrs attrs, Location where) {
  return add_shared(op, inputs, std::move(attrs), where);
}
SINTER_DECL Value GraphBuilder::add(const OpInfo& op, std::initializer_list<Value> inputs, Attrs attrs,
                                    Location where) {
  return add_shared(op, std::span<const Value>(inputs.begin(), inputs.size()), std::move(attrs), where);
}
SINTER_DECL void GraphBuilder::reserve(std::size_t nodes) { graph_.nodes_->reserve(nodes); }

namespace graph_detail {

/// In a graph all operands of an elementwise op have one dtype (casts are nodes); a select's condition is bool.
inline void check_operand_dtypes(const OpInfo& op, std::span<const Type> in, Location where) {
  if (op.kind != OpKind::elementwise) return;
  std::size_t first = 0;
  if (op.dtypes == DTypeRule::select) {
    if (!in.empty() && in[0].dtype != DType::bool_)
      throw DTypeError(op.name, "the condition is " + in[0].text() + ", it must be bool", where);
    first = 1;
  }
  for (std::size_t i = first + 1; i < in.size(); ++i)
    if (in[i].dtype != in[first].dtype)
      throw DTypeError(
          op.name, "operands of a node have one dtype, but got " + in[first].text() + " and " + in[i].text(), where);
  if (first >= in.size()) return;
  const DType dtype = in[first].dtype;
  if (op.dtypes == DTypeRule::floating && !is_floating(dtype))
    throw DTypeError(op.name, "the operand is " + in[first].text() + ", it must be floating", where);
  if (op.dtypes == DTypeRule::logical && is_floating(dtype))
    throw DTypeError(op.name, "the operand is " + in[first].text() + ", it must be bool or integer", where);
}

SINTER_DECL TypeList infer_types(const OpInfo& op, std::span<const Type> in, const Attrs& attrs, Location where) {
  if (op.arity >= 0 && in.size() != as_index(op.arity))
    throw InternalError(std::string(op.name) + " takes " + std::to_string(op.arity) + " operands, not " +
                        std::to_string(in.size()));
  if (op.kind == OpKind::leaf || op.infer == nullptr)
    throw InternalError(std::string(op.name) + " has no rule for its type");
  check_operand_dtypes(op, in, where);
  if (!op.may_take_complex(attrs))
    for (const Type& type : in)
      if (is_complex(type.dtype))
        throw DTypeError(op.name, "an operand is " + type.text() + ": in a graph operations work on real parts", where,
                         "use real(z) and imag(z), which are nodes of their own");
  for (const Type& type : in) check_takes_f8(op, type.dtype, attrs, where);
  TypeList types;
  op.infer(InferArgs{in, attrs, op.name, where}, types);
  return types;
}

}  // namespace graph_detail

SINTER_DECL Value GraphBuilder::input(const Type& type, std::string name, Location where) {
  Attrs attrs;
  attrs.set(input_position, static_cast<std::int64_t>(graph_.inputs_.size()));
  attrs.set(input_name, name);
  const Value value = add_typed(graph_detail::input_op(), {}, std::move(attrs), TypeList(1, type), where);
  graph_.inputs_.push_back(value);
  return value;
}

SINTER_DECL Value GraphBuilder::constant(Ref<TensorImpl> data, Location where) {
  ensure(data.get() != nullptr && data->is_ready(), "a constant needs data");
  TypeList types(1, data->type);
  Attrs attrs;
  attrs.constant = std::move(data);
  return add_typed(graph_detail::constant_op(), {}, std::move(attrs), std::move(types), where);
}

SINTER_DECL Value GraphBuilder::add_shared(const OpInfo& op, std::span<const Value> inputs, SharedAttrs attrs,
                                           Location where) {
  SmallVector<Type, 4> in;
  for (Value value : inputs) {
    ensure(value.node >= 0 && as_index(value.node) < graph_.nodes_->size(), "an operand is not a value of this graph");
    ensure(as_index(value.result) < graph_.node(value).types.size(), "an operand names a result that does not exist");
    in.push_back(graph_.type(value));
  }
  TypeList types = graph_detail::infer_types(op, in, *attrs, where);
  return add_typed(op, inputs, std::move(attrs), std::move(types), where);
}

SINTER_DECL Value GraphBuilder::add_typed(const OpInfo& op, std::span<const Value> inputs, SharedAttrs attrs,
                                          TypeList types, Location where) {
  graph_.nodes_->emplace_back(op, inputs, std::move(attrs), std::move(types), where);
  return {static_cast<std::int32_t>(graph_.nodes_->size()) - 1, 0};
}

SINTER_DECL Value GraphBuilder::copy(const Node& source, std::span<const Value> inputs) {
  ensure(inputs.size() == source.inputs.size(), "a copied node needs as many operands as its original");
  const Value value{static_cast<std::int32_t>(graph_.nodes_->size()), 0};
  for (Value input : inputs)
    ensure(input.node >= 0 && input.node < value.node, "an operand is not a value of this graph");
  const Node& node = graph_.nodes_->emplace_back(source, inputs);
  if (node.op == &graph_detail::input_op()) {  // keeps its position
    const auto position = as_index(node.attrs[input_position]);
    if (graph_.inputs_.size() <= position) graph_.inputs_.resize(position + 1);
    ensure(!graph_.inputs_[position], "an input was copied twice");
    graph_.inputs_[position] = value;
  }
  return value;
}

SINTER_DECL void GraphBuilder::extend_call(std::int32_t id, std::shared_ptr<const Graph> body) {
  Node& node = (*graph_.nodes_)[as_index(id)];
  ensure(node.op->is_call && body->outputs().size() >= node.types.size(),
         "only a call can be extended, and only by more results");
  for (std::size_t i = node.types.size(); i < body->outputs().size(); ++i)
    node.types.push_back(body->type(body->outputs()[i]));
  node.edit_attrs([&](Attrs& attrs) { attrs.bodies[0] = std::move(body); });
}

SINTER_DECL std::vector<Value> GraphBuilder::inline_graph(const Graph& graph, std::span<const Value> inputs) {
  ensure(inputs.size() == graph.inputs().size(), "an inlined graph needs all its inputs");
  bool same_types = true;  // else inference runs again: the graph may be inlined at other extents
  for (std::size_t i = 0; i < inputs.size(); ++i)
    same_types = same_types && identical(type(inputs[i]), graph.type(graph.inputs()[i]));
  std::vector<std::int32_t> made(graph.nodes().size(), -1);
  std::vector<std::int32_t> made_result(graph.nodes().size(), 0);  // an input stands for one result of its node
  for (std::size_t id = 0; id < graph.nodes().size(); ++id) {
    const Node& node = graph.nodes()[id];
    if (node.op == &graph_detail::input_op()) {
      const Value replacement = inputs[as_index(node.attrs[input_position])];
      made[id] = replacement.node;
      made_result[id] = replacement.result;
      continue;
    }
    Values operands;
    for (Value v : node.inputs) {
      const auto from = as_index(v.node);
      operands.push_back({made[from], made_result[from] + v.result});
    }
    const bool copies = same_types || node.op->kind == OpKind::leaf || !node.attrs.bodies.empty();
    made[id] = (copies ? copy(node, operands) : add_shared(*node.op, operands, node.shared_attrs(), node.where)).node;
  }
  std::vector<Value> outputs;
  for (Value v : graph.outputs()) outputs.push_back({made[as_index(v.node)], made_result[as_index(v.node)] + v.result});
  return outputs;
}

SINTER_DECL Graph GraphBuilder::finish(std::span<const Value> outputs) {
  for (Value value : graph_.inputs_) ensure(static_cast<bool>(value), "an input of the graph is missing");
  for (Value value : outputs)
    ensure(value.node >= 0 && as_index(value.node) < graph_.nodes_->size() &&
               as_index(value.result) < graph_.node(value).types.size(),
           "an output is not a value of this graph");
  graph_.outputs_.assign(outputs.begin(), outputs.end());
  Graph done = std::move(graph_);
  graph_ = Graph();
  return done;
}

namespace graph_detail {
/// What map_bodies has made of sub-graphs, and of the attributes that hold them.
struct BodyChanges {
  std::vector<std::pair<std::shared_ptr<const Graph>, std::shared_ptr<const Graph>>> bodies;
  std::vector<std::pair<SharedAttrs, SharedAttrs>> attrs;
};
}  // namespace graph_detail

SINTER_DECL Graph
map_bodies(const Graph& graph,
           const std::function<std::shared_ptr<const Graph>(const std::shared_ptr<const Graph>&)>& change) {
  graph_detail::BodyChanges done;
  const auto body_for = [&](const std::shared_ptr<const Graph>& body) {
    for (const auto& [before, after] : done.bodies)
      if (before == body) return after;
    return done.bodies.emplace_back(body, change(body)).second;
  };
  const auto attrs_for = [&](const SharedAttrs& attrs) {
    for (const auto& [before, after] : done.attrs)
      if (&*before == &*attrs) return after;
    SharedAttrs changed = attrs;
    std::vector<std::shared_ptr<const Graph>> bodies;
    for (const auto& body : attrs->bodies) bodies.push_back(body_for(body));
    if (bodies != attrs->bodies) changed.edit().bodies = std::move(bodies);
    return done.attrs.emplace_back(attrs, std::move(changed)).second;
  };
  const auto& nodes = graph.nodes();
  std::size_t first = 0;  // the first node that changes
  while (first < nodes.size() &&
         (nodes[first].attrs.bodies.empty() || &*attrs_for(nodes[first].shared_attrs()) == &nodes[first].attrs))
    ++first;
  if (first == nodes.size()) return graph;
  GraphBuilder builder(graph);
  builder.reserve(nodes.size());
  for (const Node& node : nodes) {  // ids stay
    if (node.attrs.bodies.empty()) builder.copy(node, node.inputs);
    else builder.add_typed(*node.op, node.inputs, attrs_for(node.shared_attrs()), node.types, node.where);
  }
  return builder.finish(graph.outputs());
}

SINTER_NAMESPACE_END
