// Simplification of scalar bodies after lowering: dead instructions and folds go.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/kernel/kernel.hpp>

#include <vector>

SINTER_NAMESPACE_BEGIN

/// Removes what no store needs; renumbers.
void remove_dead(std::vector<Inst>& body, std::vector<Store>& stores);
/// Drops the folds that no instruction names; renumbers.
void remove_unused_folds(std::vector<Inst>& body, std::vector<ScalarFold>& folds);

SINTER_NAMESPACE_END
