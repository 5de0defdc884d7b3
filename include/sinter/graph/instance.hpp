// A graph with symbols and the graphs that it stands for: equal but for extents, which are what its expressions give.
// For caches that keep one plan for many sizes. Extents are those of types and of the attributes that hold shapes.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/hash.hpp>
#include <sinter/graph/graph.hpp>

#include <cstdint>
#include <span>

SINTER_NAMESPACE_BEGIN

/// Equal for graphs that differ in extents only, where extents of inputs that are 0 or 1 are the same ones: those are
/// distinguished by many operations. Nodes are compared in their order.
Hash128 hash_without_extents(const Graph& graph);
/// Are the two equal, node by node, but for extents? Never where there are sub-graphs.
bool differ_in_extents_only(const Graph& a, const Graph& b);
/// Is `graph`, which has no symbols, the same as `general` where its symbols have these values, node by node?
bool is_instance(const Graph& general, const Graph& graph, std::span<const std::int64_t> symbols);

SINTER_NAMESPACE_END
