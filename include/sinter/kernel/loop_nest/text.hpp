// The readable form of a loop nest, for listings, logs and tests.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/kernel/loop_nest/loop_nest.hpp>

#include <cstddef>
#include <string>

SINTER_NAMESPACE_BEGIN

/// A line for each node, and for each instruction of a `compute`, indented by its depth.
std::string text(const LoopNest& nest);

namespace kernel_detail {
/// The line of one node, whose numbers are in range.
std::string node_title(const LoopNest& nest, std::size_t place);
}  // namespace kernel_detail

SINTER_NAMESPACE_END
