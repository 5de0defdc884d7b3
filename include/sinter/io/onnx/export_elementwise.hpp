// Operations on elements as operators of ONNX. Included by .ipp files alone.
#pragma once

#include <sinter/io/onnx/export_node.hpp>

#include <span>

SINTER_NAMESPACE_BEGIN
namespace io::onnx_detail {

std::span<const Exporter> elementwise_exporters();

/// Operations that are one operator, whose operands have the dtype of the result.
std::vector<std::string> write_same(const NodeExport& node);
bool is_same_operator(std::string_view op);

}  // namespace io::onnx_detail
SINTER_NAMESPACE_END
