// The code cache of this program: one per process, in the user's cache folder, written in the background and at exit.
// What makes code of another build unfit is its version, the identity of the program or library that Sinter is in. Must
// not know what makes code, or what for.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/runtime/code_cache.hpp>
#include <sinter/base/code_stats.hpp>

#include <optional>
#include <string>
#include <string_view>

SINTER_NAMESPACE_BEGIN

namespace runtime_detail {

/// The value of a key. Nothing is found where graphs and loop nests are to be checked (SINTER_CHECK).
std::optional<FoundCode> find_program_code(std::string_view key);
/// Counts a piece that was generated, and keeps it.
void keep_program_code(std::string_view key, std::string_view value);
/// What code of this build is marked with; empty where the system does not tell builds apart.
std::string program_version();
/// For tests: writes what is kept, and reads environment and folder again.
void reopen_program_code();

}  // namespace runtime_detail
SINTER_NAMESPACE_END
