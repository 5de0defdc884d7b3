// Writing a graph.
#pragma once

#include <sinter/graph/print.hpp>

#include <sinter/base/number_kind.hpp>
#include <sinter/graph/attrs.ipp>
#include <sinter/graph/builder.hpp>

#include <bit>
#include <charconv>
#include <cmath>

SINTER_NAMESPACE_BEGIN

namespace graph_detail {

/// Shortest text that reads back as the same number; of a NaN only the sign is kept.
template <class T>
std::string number_text(T value) {
  if constexpr (std::is_floating_point_v<T>)
    if (is_nan_number(value)) return has_sign_bit(value) ? "-nan" : "nan";
  char buffer[40];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
  return std::string(buffer, end);
}

inline std::string quoted_text(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (c == '\n') out += "\\n";
    else out += c;
  }
  return out + '"';
}

template <class Items, class F>
std::string list_text(const Items& items, F&& item_text) {
  std::string out = "[";
  for (const auto& item : items) out += (out.size() > 1 ? ", " : "") + item_text(item);
  return out + "]";
}

inline std::string data_text(const TensorImpl& value) {
  std::string out = "[";
  for_each_element(value, [&](const char* p) {
    if (out.size() > 1) out += ", ";
    visit_dtype(real_part_of(value.type.dtype), [&](auto zero) {
      using T = decltype(zero);
      T element;
      std::memcpy(&element, p, sizeof element);
      if constexpr (std::is_same_v<T, bool>) out += element ? "true" : "false";
      else if constexpr (std::is_same_v<T, std::uint64_t>) out += number_text(static_cast<std::int64_t>(element));
      else out += number_text(element);
    });
  });
  return out + "]";
}

/// "axes=[1]", or "" where the attribute has its default.
inline std::string attribute_text(const Attrs& attrs, const AttrInfo& info) {
  auto dim_text = [](Dim dim) { return dim.text(); };
  auto integer_text = [](std::int64_t i) { return std::to_string(i); };
  const std::string head = std::string(info.name) + "=";
  const std::int64_t bits = info.place < own_numbers ? attrs.own.numbers[info.place] ^ info.fallback : 0;
  const bool is_default = bits == info.fallback;
  const Shape& own_shape = attrs.own.shapes[info.place < own_shapes ? info.place : 0];
  switch (info.kind) {
    case AttrKind::axes: return attrs.axes.empty() ? "" : head + list_text(attrs.axes, integer_text);
    case AttrKind::shape: return attrs.shape.rank() == 0 ? "" : head + list_text(attrs.shape.dims(), dim_text);
    case AttrKind::value: return std::bit_cast<std::uint64_t>(attrs.value) == 0 ? "" : head + number_text(attrs.value);
    case AttrKind::integer: return attrs.integer == 0 ? "" : head + std::to_string(attrs.integer);
    case AttrKind::dtype: return attrs.has_dtype ? head + std::string(name(attrs.dtype)) : "";
    case AttrKind::device: return attrs.device == Device::cpu() ? "" : head + attrs.device.text();
    case AttrKind::keep_dims: return attrs.keepdim ? std::string(info.name) : "";
    case AttrKind::data:
      return attrs.constant && is_content_compared(attrs.constant->type) ? head + data_text(*attrs.constant) : "";
    case AttrKind::number: return is_default ? "" : head + std::to_string(bits);
    case AttrKind::real: return is_default ? "" : head + number_text(std::bit_cast<double>(bits));
    case AttrKind::flag: return bits == 0 ? "" : std::string(info.name);
    case AttrKind::choice:
      return is_default ? "" : head + std::string(info.choice_name(bits));  // "": refused by verify
    case AttrKind::list: {
      const IntVector& list = attrs.own.lists[info.place];
      return list.empty() ? "" : head + list_text(list, integer_text);
    }
    case AttrKind::extents: return own_shape.rank() == 0 ? "" : head + list_text(own_shape.dims(), dim_text);
    case AttrKind::extent: return own_shape.rank() != 1 ? "" : head + own_shape[0].text();
    case AttrKind::text: return attrs.own.text.empty() ? "" : head + quoted_text(attrs.own.text);
  }
  return "";
}

/// " {axes=[1], keepdim}" in the order in which the op declares them, or "" when all have their defaults.
inline std::string attrs_text(const OpInfo& op, const Attrs& attrs) {
  std::string out;
  auto field = [&](const std::string& text) { out += text.empty() || out.empty() ? text : ", " + text; };
  for (const AttrInfo& info : op.attributes) field(attribute_text(attrs, info));
  if (!attrs.types.empty()) field("types=" + list_text(attrs.types, [](const Type& type) { return type.text(); }));
  if (attrs.payload) field("payload=" + quoted_text(attrs.payload->text()));
  return out.empty() ? out : " {" + out + "}";
}

inline std::string value_text(const Graph& graph, Value v) {
  std::string out = "%" + std::to_string(v.node);
  return graph.node(v).types.size() == 1 ? out : out + "." + std::to_string(v.result);
}

inline std::string node_text(const Graph& graph, std::size_t id, const std::string& indent);

/// Writes what the parser could not find by itself: it takes the first axis that is exactly the symbol, and default
/// bounds.
inline std::string symbol_text(const Graph& graph, std::size_t id, const std::string& indent) {
  const SymbolInfo& symbol = graph.symbols()[id];
  SymbolInfo found;
  for (std::size_t i = 0; i < graph.inputs().size() && found.input < 0; ++i) {
    const Shape& shape = graph.type(graph.inputs()[i]).shape;
    for (int axis = 0; axis < shape.rank() && found.input < 0; ++axis)
      if (shape[axis].as_symbol() == static_cast<std::int64_t>(id))
        found.input = static_cast<std::int32_t>(i), found.axis = axis;
  }
  std::string out;
  auto field = [&](const char* name, std::int64_t value, std::int64_t otherwise) {
    if (value != otherwise) out += (out.empty() ? "" : ", ") + std::string(name) + "=" + std::to_string(value);
  };
  field("input", symbol.input, found.input);
  field("axis", symbol.axis, found.axis);
  field("hint", symbol.hint, found.hint);
  field("min", symbol.min, found.min);
  field("max", symbol.max, found.max);
  if (out.empty() && found.input >= 0) return out;
  return indent + "  symbol s" + std::to_string(id) + (out.empty() ? "" : " {" + out + "}") + "\n";
}

inline std::string graph_text(const Graph& graph, const std::string& indent) {
  std::string out = "graph(";
  for (std::size_t i = 0; i < graph.inputs().size(); ++i) {
    const Value v = graph.inputs()[i];
    out += (i ? ", " : "") + value_text(graph, v) + ": " + graph.type(v).text() +
           attrs_text(input_op(), graph.node(v).attrs);
  }
  out += ") {\n";
  for (std::size_t id = 0; id < graph.symbols().size(); ++id) out += symbol_text(graph, id, indent);
  for (std::size_t id = 0; id < graph.nodes().size(); ++id)
    if (graph.nodes()[id].op != &input_op()) out += node_text(graph, id, indent + "  ");
  out += indent + "  return";
  for (std::size_t i = 0; i < graph.outputs().size(); ++i)
    out += (i ? ", " : " ") + value_text(graph, graph.outputs()[i]);
  return out + "\n" + indent + "}";
}

/// The first earlier node that has the very same sub-graphs, or -1: they are written once.
inline std::int64_t same_bodies_as(const Graph& graph, std::size_t id) {
  const auto& bodies = graph.nodes()[id].attrs.bodies;
  for (std::size_t i = 0; i < id && !bodies.empty(); ++i)
    if (graph.nodes()[i].attrs.bodies == bodies) return static_cast<std::int64_t>(i);
  return -1;
}

inline std::string node_text(const Graph& graph, std::size_t id, const std::string& indent) {
  const Node& node = graph.nodes()[id];
  std::string out = indent + "%" + std::to_string(id) + ": ";
  for (std::size_t r = 0; r < node.types.size(); ++r) out += (r ? ", " : "") + node.types[r].text();
  out += " = " + std::string(node.op->name);
  if (!node.inputs.empty()) {
    out += "(";
    for (std::size_t i = 0; i < node.inputs.size(); ++i) out += (i ? ", " : "") + value_text(graph, node.inputs[i]);
    out += ")";
  }
  out += attrs_text(*node.op, node.attrs);
  if (const auto same = same_bodies_as(graph, id); same >= 0) return out + " like %" + std::to_string(same) + "\n";
  for (std::size_t i = 0; i < node.attrs.bodies.size(); ++i) {
    const std::string_view name = node.op->body_name(i);
    out += " " + (name.empty() ? std::string() : std::string(name) + "=") + graph_text(*node.attrs.bodies[i], indent);
  }
  return out + "\n";
}

}  // namespace graph_detail

SINTER_DECL std::string Graph::text() const { return graph_detail::graph_text(*this, "") + "\n"; }

SINTER_NAMESPACE_END
