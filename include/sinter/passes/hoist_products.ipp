// Finding the products, and the loop that takes their results as slices.
#pragma once

#include <sinter/passes/hoist_products.hpp>

#include <sinter/base/index.hpp>
#include <sinter/graph/builder.hpp>
#include <sinter/ops/control.hpp>
#include <sinter/ops/control_bodies.hpp>
#include <sinter/ops/matmul.hpp>
#include <sinter/ops/registry.hpp>
#include <sinter/ops/view.hpp>

#include <algorithm>
#include <memory>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace passes_detail {

/// A product of a scan's body, by its node, and the operands of the scan that it multiplies.
struct SliceProduct {
  std::int32_t node = -1;
  std::size_t slices = 0, matrix = 0;
};

inline std::size_t input_number(const Graph& body, Value value) {
  const auto inputs = body.inputs();
  return as_index(std::find(inputs.begin(), inputs.end(), value) - inputs.begin());
}

/// Known extents, and a product in front of the loop that is not too large.
inline bool may_hoist(const HoistProducts& pass, const Type& slices, const Type& slice, const Type& matrix) {
  if (slice.shape.rank() != 2 || matrix.shape.rank() != 2 || slices.shape.rank() != 3) return false;
  for (const Type* type : {&slices, &matrix})
    for (Dim extent : type->shape)
      if (!extent.is_static()) return false;
  const std::int64_t length = slices.shape[0].value(), rows = slice.shape[0].value(), depth = slice.shape[1].value(),
                     columns = matrix.shape[1].value();
  if (length < 2 || rows < 1 || depth < 1 || columns < 1 || columns > depth * pass.most_growth) return false;
  return length * rows <= pass.most_bytes / size_of(slice.dtype) / columns;
}

inline std::vector<SliceProduct> slice_products(const HoistProducts& pass, const Graph& graph, const Node& scan) {
  std::vector<SliceProduct> found;
  const Graph& body = *scan.attrs.bodies[0];
  const ops_detail::ScanLayout at(scan.attrs, scan.inputs.size());
  for (std::size_t id = 0; id < body.nodes().size(); ++id) {
    const Node& node = body.nodes()[id];
    if (node.op != &op_info<ops::Matmul>) continue;
    const std::size_t a = input_number(body, node.inputs[0]), b = input_number(body, node.inputs[1]);
    const bool is_slice = a >= at.carries && a < at.carries + at.xs;
    if (!is_slice || b < at.carries + at.xs || b >= at.operands) continue;
    if (may_hoist(pass, graph.type(scan.inputs[a]), body.type(node.inputs[0]), body.type(node.inputs[1])))
      found.push_back({static_cast<std::int32_t>(id), a, b});
  }
  return found;
}

/// The body with the products as further slices.
inline Graph body_without(const Graph& body, const ops_detail::ScanLayout& at, std::span<const SliceProduct> products) {
  GraphBuilder builder(body);
  std::vector<std::vector<Value>> moved(body.nodes().size());
  const auto add_input = [&](std::size_t i) {
    const Value input = body.inputs()[i];
    moved[as_index(input.node)] = {builder.input(body.type(input), {}, body.node(input).where)};
  };
  for (std::size_t i = 0; i < at.carries + at.xs; ++i) add_input(i);
  for (const SliceProduct& product : products) {
    const Node& node = body.node(product.node);
    moved[as_index(product.node)] = {builder.input(node.types[0], {}, node.where)};
  }
  for (std::size_t i = at.carries + at.xs; i < at.operands; ++i) add_input(i);
  for (std::size_t id = 0; id < body.nodes().size(); ++id) {
    if (!moved[id].empty()) continue;
    const Node& node = body.nodes()[id];
    Values inputs;
    for (Value v : node.inputs) inputs.push_back(moved[as_index(v.node)][as_index(v.result)]);
    const Value made = builder.copy(node, inputs);
    for (std::size_t r = 0; r < node.types.size(); ++r) moved[id].push_back({made.node, static_cast<std::int32_t>(r)});
  }
  std::vector<Value> outputs;
  for (Value v : body.outputs()) outputs.push_back(moved[as_index(v.node)][as_index(v.result)]);
  return builder.finish(outputs);
}

/// All slices times the matrix, as slices again.
inline Value product_of_all(GraphBuilder& builder, const Node& product, Value slices, Value matrix) {
  const Shape shape = builder.type(slices).shape;
  const Dim rows = shape[0] * shape[1];
  const Value flat = builder.add(op_info<ops::Reshape>, {slices}, Attrs{.shape = Shape{rows, shape[2]}}, product.where);
  const Value whole =
      builder.add_shared(op_info<ops::Matmul>, Values{flat, matrix}, product.shared_attrs(), product.where);
  const Dim columns = builder.type(whole).shape[1];
  return builder.add(op_info<ops::Reshape>, {whole}, Attrs{.shape = Shape{shape[0], shape[1], columns}}, product.where);
}

}  // namespace passes_detail

SINTER_DECL Graph HoistProducts::operator()(const Graph& graph) const {
  using namespace passes_detail;
  const auto is_scan = [](const Node& node) { return node.op == &op_info<ops::Scan>; };
  if (std::none_of(graph.nodes().begin(), graph.nodes().end(), is_scan)) return graph;
  GraphBuilder builder(graph);
  std::vector<std::vector<Value>> moved(graph.nodes().size());
  for (std::size_t id = 0; id < graph.nodes().size(); ++id) {
    const Node& node = graph.nodes()[id];
    Values inputs;
    for (Value v : node.inputs) inputs.push_back(moved[as_index(v.node)][as_index(v.result)]);
    const std::vector<SliceProduct> products =
        is_scan(node) ? slice_products(*this, graph, node) : std::vector<SliceProduct>();
    Value made;
    if (products.empty()) {
      made = builder.copy(node, inputs);
    } else {
      const ops_detail::ScanLayout at(node.attrs, node.inputs.size());
      const Graph& body = *node.attrs.bodies[0];
      Values operands;
      for (std::size_t i = 0; i < at.carries + at.xs; ++i) operands.push_back(inputs[i]);
      for (const SliceProduct& product : products)
        operands.push_back(
            product_of_all(builder, body.node(product.node), inputs[product.slices], inputs[product.matrix]));
      for (std::size_t i = at.carries + at.xs; i < at.operands; ++i) operands.push_back(inputs[i]);
      Attrs attrs = node.attrs;
      attrs.bodies[0] = std::make_shared<const Graph>(body_without(body, at, products));
      attrs.set(ops::Scan::scanned, static_cast<std::int64_t>(at.xs + products.size()));
      made = builder.add_typed(op_info<ops::Scan>, operands, SharedAttrs(std::move(attrs)), node.types, node.where);
    }
    for (std::size_t r = 0; r < node.types.size(); ++r) moved[id].push_back({made.node, static_cast<std::int32_t>(r)});
  }
  std::vector<Value> outputs;
  for (Value v : graph.outputs()) outputs.push_back(moved[as_index(v.node)][as_index(v.result)]);
  return builder.finish(outputs);
}

SINTER_NAMESPACE_END
