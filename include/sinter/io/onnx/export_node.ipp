// Who writes which operation.
#pragma once

#include <sinter/io/onnx/export_node.hpp>

#include <sinter/base/index.hpp>
#include <sinter/io/onnx/export_elementwise.hpp>
#include <sinter/io/onnx/export_structure.hpp>
#include <sinter/ops/registry.hpp>

SINTER_NAMESPACE_BEGIN
namespace io::onnx_detail {

SINTER_DECL std::vector<std::int64_t> NodeExport::static_extents(const Shape& shape) const {
  std::vector<std::int64_t> out;
  for (const Dim extent : shape) {
    if (!extent.is_static()) fail("with the extent " + extent.text() + " that is not known");
    out.push_back(extent.value());
  }
  return out;
}
SINTER_DECL void NodeExport::fail(std::string_view why) const {
  throw UserError(
      "export_onnx",
      "'" + std::string(op()) + "'" + (why.empty() ? "" : " ") + std::string(why) + " has no counterpart in ONNX",
      node_.where, "leave it out of the function that is exported, or write it with other operations");
}

SINTER_DECL ExportFunction find_exporter(const Node& node) {
  const std::string_view name = node.op->name;
  if (name == "softmax" && node.attrs[ops::Softmax::empty_rows] != ops::Softmax::EmptyRows::nan) return nullptr;
  if (name == "layer_norm" && node.attrs.axes.empty()) return nullptr;
  if (is_same_operator(name)) return write_same;
  for (const auto table : {elementwise_exporters(), structure_exporters()})
    for (const Exporter& known : table)
      if (known.op == name) return known.write;
  return nullptr;
}

}  // namespace io::onnx_detail
SINTER_NAMESPACE_END
