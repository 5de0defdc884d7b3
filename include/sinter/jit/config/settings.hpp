// What may be set for a stretch of code, a function or a region, in code and in configuration files, and the lists of
// modes and options that programs can print. Must not know files or scopes.
#pragma once

#include <sinter/base/optional.hpp>
#include <sinter/jit/options.hpp>
#include <sinter/tensor/precision.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace jit {

/// What a scope, or a configuration file, says instead of a function's Options; unset fields leave them as they are.
struct ScopeSettings {
  Optional<bool> compile{};  // false: functions run uncompiled
  Optional<Mode> mode{};
  Optional<std::string> backend{};
  Optional<MatmulPrecision> matmul_precision{};
  Optional<int> threads{};    // that calls of this thread may use, itself included
  Optional<bool> boundary{};  // of jit::scoped(): nothing fuses across its ends
  Optional<Dynamic> dynamic{};
  Optional<bool> fullgraph{}, fuse{}, allow_fallback{}, suppress_errors{}, horizontal_fusion{}, epilogue_fusion{};
  Optional<std::int64_t> recompile_limit{}, memory_budget{};
  Optional<std::int64_t> tune_seconds{};

  /// These, and those of `inner` that it sets.
  ScopeSettings with(const ScopeSettings& inner) const;
  /// The options with these put in.
  Options applied_to(Options options) const;
  /// Those that change what a compiled function is, as numbers; empty: none does.
  std::vector<std::int64_t> key() const;
};

/// Names of modes, as torch.compile spells them: "default", "reduce-overhead", ...
std::vector<std::string> list_modes();
/// The mode of that name; UserError with the nearest where there is none.
Mode mode_named(std::string_view name, Location where = std::source_location::current());
std::string_view name(Mode mode);
std::string_view name(Dynamic dynamic);

/// One field of Options, or one setting that scopes have besides.
struct OptionInfo {
  std::string_view name;
  std::string values;         // what may be written: "true, false", "a number from 0 on"
  std::string default_value;  // under the mode that was asked for
  std::string_view says;
};
/// The options that compile() and configuration files take, with what they are in this mode.
std::vector<OptionInfo> list_options(Mode mode = Mode::default_);

namespace jit_detail {
enum class SettingType : std::uint8_t { boolean, number, text, choice };
/// One row of the table of settings.
struct Setting {
  std::string_view name;
  SettingType type;
  std::string_view says;
  std::vector<std::string_view> choices{};  // of a choice
  std::int64_t least = 0;                   // of a number
};
const std::vector<Setting>& settings_table();
/// Throws UserError for options that contradict each other, or that no enumerator stands for.
void check_options(const Options& options, Location where);
/// Takes torch.compile's names for what is called otherwise here. Throws UserError where there is no such back end.
void resolve_backend(Options& options, Location where);
/// Sets the field of that name from what a file says; the reason why not, or "".
std::string set_setting(ScopeSettings& settings, const Setting& setting, std::string_view value);
}  // namespace jit_detail

}  // namespace jit
SINTER_NAMESPACE_END
