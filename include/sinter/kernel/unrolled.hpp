// A kernel whose last axis has a few points (coordinates, colours, parts of complex numbers), with that axis written
// out: each instruction stands once for each point, and another axis takes its place as the one to vectorise. Decided
// when a kernel meets its numbers; changes no value and no order of sums. Knows kernels; no machine.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/kernel/kernel.hpp>

#include <cstdint>
#include <optional>
#include <vector>

SINTER_NAMESPACE_BEGIN

/// Points of an axis that is written out, of two such axes together, and instructions of what comes of it, at most.
inline constexpr std::int64_t most_unrolled_points = 8, most_unrolled_together = 16;
inline constexpr std::size_t most_unrolled_instructions = 320;

struct UnrolledKernel {
  Kernel kernel;
  BoundGeometry geometry;
};

/// Nothing where the axis is too long, where no other can be vectorised, or where the body has what depends on the
/// order along the axis: scans, and folds with a state of their own. The classes of strides along the new vector axis
/// are those of its numbers. A reduction along the axis becomes the additions that its order has, in that order.
std::optional<UnrolledKernel> unroll_last_axis(const Kernel& kernel, const BoundGeometry& geometry,
                                               std::size_t most_accesses);

SINTER_NAMESPACE_END
