// Simplification of scalar bodies after lowering: dead instructions go, and mul + add become fma. This is the only place
// where they do, so that every back end rounds alike. Divisions stay divisions.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/kernel/kernel.hpp>

#include <vector>

SINTER_NAMESPACE_BEGIN

/// add(mul(a, b), c) to fma(a, b, c) where the product has no other use (f32, f64).
void contract_to_fma(std::vector<Inst>& body, const std::vector<Store>& stores);
/// Removes what no store needs; renumbers.
void remove_dead(std::vector<Inst>& body, std::vector<Store>& stores);

SINTER_NAMESPACE_END
