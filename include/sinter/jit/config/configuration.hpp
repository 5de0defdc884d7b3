// What configuration files say, for whoever compiles. Internal; users know configure.hpp.
#pragma once

#include <sinter/jit/config/settings.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace jit {

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
