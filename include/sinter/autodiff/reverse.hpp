// Reverse-mode differentiation of graphs. Walks the nodes backwards and asks each op for its derivative; the rules sit
// with the ops, none is here. Derivatives are ordinary nodes, so what comes out can be differentiated again.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/graph/builder.hpp>
#include <sinter/graph/graph.hpp>

#include <cstdint>
#include <span>
#include <vector>

SINTER_NAMESPACE_BEGIN

/// Appends the gradients of sum(outputs * douts) by each of `wrt` to the builder that holds the forward nodes. The
/// values of `wrt` are independent variables: what they were computed from is not followed. No Value where nothing
/// depends on one (or it is no floating value); otherwise the gradient has the type of its value.
std::vector<Value> backward(GraphBuilder& builder, std::span<const Value> outputs, std::span<const Value> douts,
                            std::span<const Value> wrt);

/// As that; the forward nodes stay as they are. What the derivatives of calls of sub-graphs need is computed by calls
/// of their own. Values that are `blocked` depend on nothing.
std::vector<Value> backward_beside(GraphBuilder& builder, std::span<const Value> outputs, std::span<const Value> douts,
                                   std::span<const Value> wrt, std::span<const Value> blocked = {});

/// The forward graph with the gradients of output `loss_output` by the inputs `wrt_inputs` (positions) added to its
/// outputs, in order; zeros where the loss does not depend on one. Throws ShapeError unless the loss is a scalar (shape
/// ()), DTypeError unless loss and inputs are floating.
Graph differentiate(const Graph& forward, std::span<const std::int32_t> wrt_inputs, int loss_output = 0);

/// Throws where an op is left that has a derivative in forward mode alone.
void refuse_unfinished(const Graph& gradient);

SINTER_NAMESPACE_END
