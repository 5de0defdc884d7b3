// Configuration of a program from a file: what scopes, functions and regions are compiled with, and what is logged. The
// file is YAML (yaml.ipp reads it); docs/configuring.md describes it, docs/config.schema.json is its schema.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/error.hpp>

#include <cstdint>
#include <source_location>
#include <string>
#include <string_view>

SINTER_NAMESPACE_BEGIN
namespace jit {

enum class Watch : std::uint8_t { no, yes };

struct ConfigureOptions {
  /// yes: a file that changes is read again when the next scope opens or function is made, at most once in a second.
  /// One that has a fault then changes nothing, and the log says what it is. Of such a file `logs` and `hot` are not
  /// taken: other threads may be reading them.
  Watch watch = Watch::no;
};

/// Takes the settings of the file, in place of those of an earlier one, and of logs, log_format, log_limit and hot
/// those that it names: the others stay as they are. SINTER_CONFIG names a file that is read at first use. Set `logs`
/// and `hot` before threads start. Throws UserError with line and column, and the nearest name that there is, and then
/// changes nothing.
void configure(const std::string& path, ConfigureOptions options = {},
               Location where = std::source_location::current());
/// The same from text that is in memory.
void configure_from(std::string_view yaml, Location where = std::source_location::current());
/// Whether this build has what reads such files.
bool reads_configuration_files() noexcept;
/// Forgets what files said about options.
void reset_configuration();
/// The schema of the files, as JSON Schema.
std::string configuration_schema();

}  // namespace jit
SINTER_NAMESPACE_END
