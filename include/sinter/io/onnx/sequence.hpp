// Recurrent operators of ONNX, and If. Included by .ipp files alone.
#pragma once

#include <sinter/io/onnx/node_call.hpp>

#include <span>

SINTER_NAMESPACE_BEGIN
namespace io::onnx_detail {

std::span<const Operator> sequence_operators();

}  // namespace io::onnx_detail
SINTER_NAMESPACE_END
