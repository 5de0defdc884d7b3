// What can be made of a function's reverse-mode derivative: the derivative along a direction (forward mode), and
// matrices of first derivatives. All of it on graphs. Forward mode needs no rules of its own: the reverse derivative is
// linear in the gradients that it is given, so its own reverse derivative is the forward one; dead code elimination
// removes what they share.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/graph/builder.hpp>
#include <sinter/graph/graph.hpp>

#include <cstdint>
#include <span>
#include <vector>

SINTER_NAMESPACE_BEGIN

/// Appends the derivatives of `outputs` along `tangents` of the values `wrt` to the builder that holds the forward
/// nodes (Townsend 2017, "A new trick for calculating Jacobian vector products"). No Value where an output does not
/// depend on one.
std::vector<Value> push_forward(GraphBuilder& builder, std::span<const Value> outputs, std::span<const Value> wrt,
                                std::span<const Value> tangents);

/// `forward` with the derivatives of its first `results` outputs along tangents of its first `parameters` inputs added
/// to its outputs. Inputs: those of `forward`, then the tangents. Zeros where an output does not depend on the
/// parameters.
Graph jvp_graph(const Graph& forward, std::size_t parameters, std::size_t results);

/// A function in two halves. `forward`: the function's inputs and outputs; after the outputs what the backward half
/// wants of it. `backward`: those values, then a gradient for each of the first `results` outputs; gives the gradients
/// of the first `parameters` inputs.
struct ForwardBackward {
  Graph forward, backward;
};
ForwardBackward split_vjp(const Graph& forward, std::size_t parameters, std::size_t results);

/// `forward` with the matrix of derivatives of its output 0 by each of its first `parameters` inputs added to its
/// outputs: shape of the output, then shape of the input. Row by row in reverse mode where the output has no more
/// elements than the input, else column by column in forward mode.
Graph jacobian_graph(const Graph& forward, std::size_t parameters, Location where);

SINTER_NAMESPACE_END
