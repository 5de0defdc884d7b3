// Configuration of a program from a file: what scopes, functions and regions are compiled with, and what is logged. The
// file is YAML (yaml.ipp reads it); docs/configuring.md describes it, docs/config.schema.json is its schema.
#pragma once

#include <sinter/jit/config/settings.hpp>

#include <cstdint>
#include <optional>
#include <source_location>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace jit {

enum class Watch : std::uint8_t { no, yes };

struct ConfigureOptions {
  /// yes: a file that changes is read again when the next scope opens or function is made, at most once in a second.
  /// One that has a fault then changes nothing, and the log says what it is.
  Watch watch = Watch::no;
};

/// Takes the settings of the file, in place of those of an earlier one; SINTER_CONFIG names one that is read at first
/// use. Throws UserError with line and column, and the nearest name that there is, and then changes nothing.
void configure(const std::string& path, ConfigureOptions options = {},
               Location where = std::source_location::current());
/// The same from text that is in memory.
void configure_from(std::string_view yaml, Location where = std::source_location::current());
/// Whether this build has what reads such files.
bool reads_configuration_files() noexcept;
/// Forgets what files said.
void reset_configuration();
/// The schema of the files, as JSON Schema.
std::string configuration_schema();

namespace jit_detail {
/// Settings for what a pattern fits: `*` stands for any letters, `?` for one.
struct SettingsFor {
  std::string pattern;
  ScopeSettings settings;
};
struct Configuration {
  std::optional<std::string> logs{}, log_format{};
  std::optional<std::int64_t> log_limit{}, hot{};
  ScopeSettings options{};  // of functions that leave an option as it is by itself
  std::vector<SettingsFor> scopes{}, functions{}, regions{};
};
/// What the text says. `file` is for messages. Throws UserError.
Configuration read_configuration(std::string_view yaml, std::string_view file, Location where);

bool fits_pattern(std::string_view text, std::string_view pattern) noexcept;
/// What files say of the scope with this path, of a region, and of a function whose Options these are.
ScopeSettings settings_for_scope(std::string_view path);
ScopeSettings settings_for_region(std::string_view path);
Options configured(Options options, Location where);
}  // namespace jit_detail

}  // namespace jit
SINTER_NAMESPACE_END
