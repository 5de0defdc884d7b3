// Measured schedules as a file: made ahead of time, and brought along.
#pragma once

#include <sinter/base/error.hpp>
#include <sinter/runtime/tuning_store.hpp>

#include <cstdint>
#include <string>

SINTER_NAMESPACE_BEGIN
namespace jit {

/// Writes the winners that this process has measured, found or imported (docs/tuning.md); how many they are. Throws
/// UserError where the file cannot be written.
std::int64_t export_tuning(const std::string& path, Location where = std::source_location::current());
/// Reads such a file: functions in Mode::max_autotune take these winners and measure nothing for their kernels. Entries
/// of other processors are kept and never found. How many there are. Throws UserError, having changed nothing, where
/// the file cannot be read or is damaged.
std::int64_t import_tuning(const std::string& path, Location where = std::source_location::current());

/// Waits until all code that was asked for in Mode::background is made.
void wait_for_background();

}  // namespace jit
SINTER_NAMESPACE_END
