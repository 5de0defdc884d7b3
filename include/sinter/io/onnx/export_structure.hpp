// Everything but operations on elements as operators of ONNX. Included by .ipp files alone.
#pragma once

#include <sinter/io/onnx/export_node.hpp>

#include <span>

SINTER_NAMESPACE_BEGIN
namespace io::onnx_detail {

std::span<const Exporter> structure_exporters();

}  // namespace io::onnx_detail
SINTER_NAMESPACE_END
