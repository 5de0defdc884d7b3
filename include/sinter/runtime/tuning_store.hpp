// Schedules that measurements chose, by what they were measured for: known to the process, kept in the folder of the
// code cache for every process of this user, and written to and read from files. Keys are lines of text; must not know
// what they say.
#pragma once

#include <sinter/base/error.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

SINTER_NAMESPACE_BEGIN

/// Figures of this process.
struct TuningStats {
  std::int64_t measured = 0;    // kernels whose schedules this process measured
  std::int64_t found = 0;       // kernels whose winner was known, from another process, a file, or this one
  std::int64_t gained = 0;      // of those measured: where a schedule beat the default
  std::int64_t rejected = 0;    // schedules that gave other bits than the default, and were not measured
  std::int64_t unfinished = 0;  // kernels that the time did not suffice for: they run by the default
  // Plans: how graphs are cut into kernels.
  std::int64_t plans_measured = 0, plans_found = 0, plans_gained = 0;
};
TuningStats tuning_stats();

namespace runtime_detail {

std::optional<std::string> find_tuning(const std::string& key);
/// The schedule of a value, which may be followed by what was measured: "unroll(2); 1.5e-06 s, ...".
inline std::string_view schedule_in(std::string_view value) { return value.substr(0, value.find(';')); }
/// Keeps it for this process and, after write_tuning(), for others.
void keep_tuning(const std::string& key, const std::string& value);
void write_tuning() noexcept;
/// All that this process has found, measured or read, as the lines of a file; and back. `number` of entries.
std::string tuning_text();
enum class KnownWinners : std::uint8_t { replace, keep };
std::int64_t add_tuning_text(std::string_view text, std::string_view path, Location where,
                             KnownWinners known = KnownWinners::replace);
/// Forgets what the process knows, and reads the environment again. For tests.
void reopen_tuning();

/// Adds to the figures.
void count_tuning(const TuningStats& more);
/// Kind of processor: its maker, family, model, stepping and name.
std::string processor_text();

}  // namespace runtime_detail
SINTER_NAMESPACE_END
