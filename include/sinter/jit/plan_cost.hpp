// What the steps of a plan cost, counted from their kernels and the extents of a call: operations and bytes that have
// to move. Knows kernels and geometries; no machines and no back ends.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/jit/cost.hpp>

#include <cstdint>
#include <span>
#include <vector>

SINTER_NAMESPACE_BEGIN
class Plan;

namespace jit {

/// Of each step of a plan, with the bodies that it runs.
std::vector<Cost> costs_of(const Plan& plan, std::span<const std::int64_t> symbols);

}  // namespace jit
SINTER_NAMESPACE_END
