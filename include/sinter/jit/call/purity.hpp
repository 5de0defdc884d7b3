// The purity check: a function is traced again now and then, and must do what it did, or a captured value has changed.
// purity.ipp defines FunctionState::check_purity(); a trace tree, which checks its paths, shares when that is done and
// what the error says.
#pragma once

#include <sinter/base/config.hpp>

#include <cstdint>
#include <string_view>

SINTER_NAMESPACE_BEGIN
namespace jit::jit_detail {

inline constexpr std::string_view purity_fix =
    "the function is traced once and does not see later changes: pass the value as an argument (Scalar or Tensor), or "
    "hold it in a Variable";

/// Calls before the check that follows the one made after `due` calls: checks come with calls 2, 4, 8, ..., 1024, with
/// checks on for ever.
std::int64_t next_purity_check(std::int64_t due);

}  // namespace jit::jit_detail
SINTER_NAMESPACE_END
