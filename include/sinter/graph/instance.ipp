// Comparison of graphs apart from their extents.
#pragma once

#include <sinter/graph/instance.hpp>

#include <sinter/graph/attrs.ipp>
#include <sinter/graph/builder.hpp>

#include <algorithm>
#include <bit>
#include <string_view>

SINTER_NAMESPACE_BEGIN

namespace graph_detail {

inline void hash_kind(Hasher& hasher, const Type& type) {
  hasher.add(static_cast<std::uint64_t>(type.dtype) | static_cast<std::uint64_t>(type.device.kind) << 8 |
             static_cast<std::uint64_t>(type.device.index) << 16 | static_cast<std::uint64_t>(type.shape.rank()) << 24);
}

/// `same(a, b)` compares shapes.
template <class Same>
bool same_types_by(std::span<const Type> a, std::span<const Type> b, Same&& same) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [&](const Type& x, const Type& y) {
    return x.dtype == y.dtype && x.device == y.device && same(x.shape, y.shape);
  });
}

template <class Same>
bool same_node_by(const Node& a, const Node& b, Same&& same) {
  if (a.op != b.op || a.inputs != b.inputs) return false;
  if (!same_types_by({a.types.data(), a.types.size()}, {b.types.data(), b.types.size()}, same)) return false;
  if (a.op == &input_op()) return a.attrs[input_position] == b.attrs[input_position];  // not its name
  const Attrs &x = a.attrs, &y = b.attrs;
  if (&x == &y) return x.bodies.empty();
  for (std::size_t i = 0; i < own_shapes; ++i)
    if (!same(x.own.shapes[i], y.own.shapes[i])) return false;
  return x.bodies.empty() && y.bodies.empty() && x.axes == y.axes && same_own_but_shapes(x.own, y.own) &&
         std::bit_cast<std::uint64_t>(x.value) == std::bit_cast<std::uint64_t>(y.value) && x.integer == y.integer &&
         x.has_dtype == y.has_dtype && (!x.has_dtype || x.dtype == y.dtype) && x.keepdim == y.keepdim &&
         x.device == y.device && same_payload(x, y) && !x.constant == !y.constant &&
         (!x.constant || same_constant(*x.constant, *y.constant)) && same(x.shape, y.shape) &&
         same_types_by(x.types, y.types, same);
}

template <class Same>
bool same_graph_by(const Graph& a, const Graph& b, Same&& same) {
  return std::equal(a.outputs().begin(), a.outputs().end(), b.outputs().begin(), b.outputs().end()) &&
         std::equal(a.nodes().begin(), a.nodes().end(), b.nodes().begin(), b.nodes().end(),
                    [&](const Node& x, const Node& y) { return same_node_by(x, y, same); });
}

}  // namespace graph_detail

SINTER_DECL Hash128 hash_without_extents(const Graph& graph) {
  Hasher hasher;
  const auto add = [&](Value v) {
    hasher.add(static_cast<std::uint64_t>(v.node) << 32 | static_cast<std::uint32_t>(v.result));
  };
  for (const Node& node : graph.nodes()) {
    hasher.add(node.op->name).add(std::uint64_t{node.inputs.size()} << 32 | std::uint64_t{node.types.size()});
    for (Value v : node.inputs) add(v);
    for (const Type& type : node.types) graph_detail::hash_kind(hasher, type);
    if (node.op == &graph_detail::input_op())
      for (Dim extent : node.types[0].shape)
        hasher.add(extent.is_static() && extent.value() < 2 ? static_cast<std::uint64_t>(extent.value() + 1)
                                                            : std::uint64_t{0});
    for (std::int64_t axis : node.attrs.axes) hasher.add(static_cast<std::uint64_t>(axis));
    hasher.add(std::bit_cast<std::uint64_t>(node.attrs.value)).add(static_cast<std::uint64_t>(node.attrs.integer));
    for (std::int64_t number : node.attrs.own.numbers) hasher.add(static_cast<std::uint64_t>(number));
  }
  for (Value v : graph.outputs()) add(v);
  return hasher.finish();
}

SINTER_DECL bool differ_in_extents_only(const Graph& a, const Graph& b) {
  return graph_detail::same_graph_by(a, b, [](const Shape& x, const Shape& y) { return x.rank() == y.rank(); });
}

SINTER_DECL bool is_instance(const Graph& general, const Graph& graph, std::span<const std::int64_t> symbols) {
  return graph_detail::same_graph_by(general, graph, [&](const Shape& x, const Shape& y) {
    return std::equal(x.begin(), x.end(), y.begin(), y.end(),
                      [&](Dim expected, Dim extent) { return expected.evaluate(symbols) == extent.value(); });
  });
}

SINTER_NAMESPACE_END
