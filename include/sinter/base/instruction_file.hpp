// The file of the instruction log: whether one is written, and lines into it. A line is handed to the system at once,
// so that a program which crashes loses none that was complete. Must not know what a line says.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/error.hpp>

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

SINTER_NAMESPACE_BEGIN

namespace base_detail {
inline constinit std::atomic<bool> logs_instructions{false};
/// How many logs were begun, and when the last one was, by timeline_now().
inline constinit std::atomic<std::uint64_t> instruction_logs{0};
inline constinit std::atomic<std::int64_t> instruction_log_start{0};
}  // namespace base_detail

inline bool has_instruction_log() noexcept { return base_detail::logs_instructions.load(std::memory_order_relaxed); }
/// Begins a new file. Throws UserError where it cannot be written (`origin` is what named it:
/// "SINTER_INSTRUCTION_LOG", "instruction_log"), or where another one is being written.
void start_instruction_log(const std::string& path, std::string_view origin, Location where = {});
void stop_instruction_log();
/// Appends a line, from any thread. Where the system takes no more the log ends, with a warning.
void write_instruction(std::string_view line);

SINTER_NAMESPACE_END
