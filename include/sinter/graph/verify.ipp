// The checks, node by node.
#pragma once

#include <sinter/graph/verify.hpp>

#include <sinter/base/index.hpp>
#include <sinter/graph/builder.hpp>

SINTER_NAMESPACE_BEGIN

namespace graph_detail {

[[noreturn]] inline void throw_broken(std::size_t id, const Node& node, const std::string& what) {
  throw InternalError("%" + std::to_string(id) + (node.op ? " = " + std::string(node.op->name) : "") + ": " + what,
                      node.where);
}

inline void verify_leaf(const Graph& graph, std::size_t id, const Node& node) {
  if (node.types.size() != 1) throw_broken(id, node, "a leaf has one result");
  if (node.op == &input_op()) {
    const auto position = as_index(node.attrs[input_position]);
    if (position >= graph.inputs().size() || graph.inputs()[position].node != static_cast<std::int32_t>(id))
      throw_broken(id, node, "is not in the graph's inputs at position " + std::to_string(node.attrs[input_position]));
  } else if (node.op == &constant_op()) {
    if (!node.attrs.constant || !node.attrs.constant->is_ready()) throw_broken(id, node, "has no data");
    if (!identical(node.attrs.constant->type, node.types[0]))
      throw_broken(id, node, "its type is not that of its data");
  }
}

inline void verify_types(const Graph& graph, std::size_t id, const Node& node) {
  SmallVector<Type, 4> in;
  for (Value v : node.inputs) in.push_back(graph.type(v));
  TypeList types;
  try {
    types = infer_types(*node.op, in, node.attrs, node.where);
  } catch (const TraceError&) {
    return;  // the rule asks for the order of symbolic extents, which only a running trace can answer
  } catch (const Error& error) { throw_broken(id, node, error.what()); }
  if (types.size() != node.types.size())
    throw_broken(
        id, node,
        "has " + std::to_string(node.types.size()) + " results, its rule gives " + std::to_string(types.size()));
  for (std::size_t r = 0; r < types.size(); ++r)
    if (!same_but_device(types[r],
                         node.types[r]))  // a rewrite may have put something made from nothing in an operand's place
      throw_broken(
          id, node,
          "result " + std::to_string(r) + " is " + node.types[r].text() + ", its rule gives " + types[r].text());
  if (node.op->is_transfer && node.types[0].device != node.attrs.device)
    throw_broken(id, node, "moves to " + node.attrs.device.text() + ", its type is " + node.types[0].text());
}

/// Clears what the op declares: what is left would be lost in a text.
inline void clear_attribute(Attrs& attrs, const AttrInfo& info) {
  switch (info.kind) {
    case AttrKind::axes: attrs.axes.clear(); break;
    case AttrKind::shape: attrs.shape = Shape(); break;
    case AttrKind::value: attrs.value = 0; break;
    case AttrKind::integer: attrs.integer = 0; break;
    case AttrKind::dtype: attrs.has_dtype = false; break;
    case AttrKind::device: attrs.device = Device(); break;
    case AttrKind::keep_dims: attrs.keepdim = false; break;
    case AttrKind::data: break;
    case AttrKind::number:
    case AttrKind::real:
    case AttrKind::flag:
    case AttrKind::choice: attrs.own.numbers[info.place] = 0; break;
    case AttrKind::list: attrs.own.lists[info.place].clear(); break;
    case AttrKind::extents:
    case AttrKind::extent: attrs.own.shapes[info.place] = Shape(); break;
    case AttrKind::text: attrs.own.text.clear(); break;
  }
}

inline void verify_attributes(std::size_t id, const Node& node) {
  static_assert(own_texts == 1);
  const SharedAttrs none;
  if (&node.attrs == &*none) return;
  Attrs rest = node.attrs;
  rest.types.clear();
  for (const AttrInfo& info : node.op->attributes) {
    if (info.kind == AttrKind::choice && info.choice_name(node.attrs.own.numbers[info.place]).empty())
      throw_broken(id, node, "'" + std::string(info.name) + "' has a value that has no name");
    clear_attribute(rest, info);
  }
  if (!rest.bodies.empty() && node.op->bodies.empty())
    throw_broken(id, node, "has sub-graphs, which the op does not take");
  if (!same_plain_fields(rest, *none)) throw_broken(id, node, "has an attribute that the op does not declare");
}

inline void verify_node(const Graph& graph, std::size_t id, const Node& node) {
  if (node.op == nullptr) throw_broken(id, node, "has no op");
  for (Value v : node.inputs) {
    if (v.node < 0 || as_index(v.node) >= id)
      throw_broken(id, node, "uses %" + std::to_string(v.node) + ", which does not come before it");
    if (v.result < 0 || as_index(v.result) >= graph.node(v).types.size())
      throw_broken(
          id, node,
          "uses result " + std::to_string(v.result) + " of %" + std::to_string(v.node) + ", which has no such result");
  }
  if (node.op->kind == OpKind::leaf) {
    if (!node.inputs.empty()) throw_broken(id, node, "a leaf has no operands");
    verify_leaf(graph, id, node);
  } else {
    verify_attributes(id, node);
    verify_types(graph, id, node);
  }
  for (const auto& body : node.attrs.bodies) {
    if (!body) throw_broken(id, node, "a sub-graph is missing");
    verify(*body);
  }
}

}  // namespace graph_detail

SINTER_DECL void verify(const Graph& graph) {
  const auto& nodes = graph.nodes();
  for (std::size_t id = 0; id < nodes.size(); ++id) graph_detail::verify_node(graph, id, nodes[id]);
  for (std::size_t i = 0; i < graph.inputs().size(); ++i) {
    const Value v = graph.inputs()[i];
    ensure(v.node >= 0 && as_index(v.node) < nodes.size() && graph.node(v).op == &graph_detail::input_op() &&
               graph.node(v).attrs[input_position] == static_cast<std::int64_t>(i),
           "the graph's list of inputs names a node that is no input");
  }
  for (Value v : graph.outputs())
    ensure(v.node >= 0 && as_index(v.node) < nodes.size() && v.result >= 0 &&
               as_index(v.result) < graph.node(v).types.size(),
           "an output of the graph is not one of its values");
}

SINTER_NAMESPACE_END
