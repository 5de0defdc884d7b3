// Convolutions whole: one matrix product for each image and group, of the weight with the image's windows as columns,
// which are laid out a panel at a time where the product needs them. Small images are joined, some thousand positions
// in a product, whose results are put in their places. Nothing else is stored.
#pragma once

#include <sinter/backend/x86/machine/isa.hpp>
#include <sinter/base/config.hpp>
#include <sinter/graph/graph.hpp>
#include <sinter/runtime/backend.hpp>

SINTER_NAMESPACE_BEGIN
namespace x86 {

/// For conv2d, convolution and its gradient by the weight, of f32 and f64, with the sums of their decompositions, bit
/// by bit (but where groups have one channel). Null for other nodes, for convolutions whose groups have several
/// channels and one output, and for those of single elements, which are products as they are.
Intrinsic convolution_intrinsic(const Graph& graph, const Node& node, Isa isa);

}  // namespace x86
SINTER_NAMESPACE_END
