// Operators of ONNX that arrange elements, join and cut, and make tensors from nothing. Included by .ipp files alone.
#pragma once

#include <sinter/io/onnx/node_call.hpp>

#include <span>

SINTER_NAMESPACE_BEGIN
namespace io::onnx_detail {

std::span<const Operator> shape_operators();

}  // namespace io::onnx_detail
SINTER_NAMESPACE_END
