// The verifier of loop nests. Knows what every renderer relies on; nothing of a machine.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/kernel/loop_nest/loop_nest.hpp>

SINTER_NAMESPACE_BEGIN

/// Throws InternalError, which names the node, unless in every variant
///   records are well-formed: pre-order, numbers in range, loops over axes that are not walked yet, task loops
///   outermost
///   a value is computed, folded or fetched before it is used, inside the same iterations, and at the place it is said
///   to have
///   a fetch follows a keep over the same axes: in an earlier stage (workspace), or at the same point of the task loops
///   each live reduction is folded once over each reduced axis, inner axes first, one step at each point
///   the loops of a call walk a tile of its rows and columns; on a GPU the grid is outermost, the lanes of an item
///   share out its reduced axes, and a barrier stands before what overwrites what other lanes may still read
///   each store is done once at each of its points, and no operand is read after it was written, or at other points
void verify(const LoopNest& nest);

SINTER_NAMESPACE_END
