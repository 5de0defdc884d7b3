// Simplification of scalar bodies after lowering: dead instructions go.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/kernel/kernel.hpp>

#include <vector>

SINTER_NAMESPACE_BEGIN

/// Removes what no store needs; renumbers.
void remove_dead(std::vector<Inst>& body, std::vector<Store>& stores);

SINTER_NAMESPACE_END
