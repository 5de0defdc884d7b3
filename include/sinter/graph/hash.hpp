// Equality of graphs, and of two traces of one program. The hash that agrees with it is Graph::hash(), which hash.ipp
// defines. Nodes are numbered in the order in which a depth-first walk from the effects and outputs leaves them, so
// that neither the order of unrelated nodes nor dead nodes matter; sharing does. Names of inputs, locations, addresses
// and the hints of symbols take no part. Constants: by type and content up to 1024 elements; larger ones by type in the
// hash, and by identity of the viewed memory in the equality.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/graph/graph.hpp>

SINTER_NAMESPACE_BEGIN

/// Either graph may stand for the other.
bool structurally_equal(const Graph& a, const Graph& b);
/// Either node may stand for the other, given equal operands.
bool structurally_equal(const Node& a, const Node& b);
/// As structurally_equal, but functions of the user (payloads) need only be of one kind: the traced function may make
/// them each time it runs. The second is the later trace. Nodes are compared without their operands.
bool may_be_retrace(const Graph& a, const Graph& b);
bool may_be_retrace(const Node& a, const Node& b);

SINTER_NAMESPACE_END
