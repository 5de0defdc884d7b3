// Operators of ONNX that read and write at indices, order, and find. Included by .ipp files alone.
#pragma once

#include <sinter/io/onnx/node_call.hpp>

#include <span>

SINTER_NAMESPACE_BEGIN
namespace io::onnx_detail {

std::span<const Operator> indexing_operators();

}  // namespace io::onnx_detail
SINTER_NAMESPACE_END
