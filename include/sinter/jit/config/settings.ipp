// The table of settings, and what is done by it.
#pragma once

#include <sinter/jit/config/settings.hpp>

#include <sinter/base/error.hpp>
#include <sinter/base/fork.hpp>
#include <sinter/base/log.hpp>

#include <algorithm>
#include <charconv>
#include <limits>
#include <map>
#include <mutex>
#include <system_error>
#include <utility>

SINTER_NAMESPACE_BEGIN
namespace jit {

namespace settings_detail {

inline constexpr std::pair<std::string_view, Mode> modes[] = {
    {"default", Mode::default_},
    {"reduce-overhead", Mode::reduce_overhead},
    {"background", Mode::background},
    {"max-autotune", Mode::max_autotune},
    {"max-autotune-no-cudagraphs", Mode::max_autotune_no_cudagraphs}};
inline constexpr std::pair<std::string_view, Dynamic> dynamics[] = {
    {"automatic", Dynamic::automatic}, {"always", Dynamic::always}, {"never", Dynamic::never}};
inline constexpr std::pair<std::string_view, MatmulPrecision> precisions[] = {
    {"f32", MatmulPrecision::f32}, {"tf32x3", MatmulPrecision::tf32x3}, {"tf32", MatmulPrecision::tf32}};

template <class Rows>
std::vector<std::string_view> names_of(const Rows& rows) {
  std::vector<std::string_view> names;
  for (const auto& row : rows) names.push_back(row.first);
  return names;
}
template <class Rows>
auto value_of(const Rows& rows, std::string_view name) -> std::optional<decltype(rows[0].second)> {
  for (const auto& [text, value] : rows)
    if (text == name) return value;
  return {};
}
template <class Rows, class T>
std::string_view name_of(const Rows& rows, T value) {
  for (const auto& [text, each] : rows)
    if (each == value) return text;
  return "?";
}

inline std::string joined(const std::vector<std::string_view>& names) {
  std::string text;
  for (std::string_view each : names) text.append(text.empty() ? "" : ", ").append(each);
  return text;
}

/// Names of back ends as numbers, so that settings can be compared as numbers.
inline std::int64_t number_of(const std::string& name) {
  struct Names {
    ForkSafeMutex mutex;
    std::map<std::string, std::int64_t> numbers;
  };
  Names& names = process_object<Names>();
  std::scoped_lock lock(names.mutex);
  return names.numbers.emplace(name, static_cast<std::int64_t>(names.numbers.size())).first->second;
}

template <class T>
void take(Optional<T>& to, const Optional<T>& from) {
  if (from.has_value()) to = from;
}
template <class T>
void put(T& to, const Optional<T>& from) {
  if (from.has_value()) to = *from;
}

/// The field of that name, if it is a bool.
inline Optional<bool>* boolean_in(ScopeSettings& settings, std::string_view name) {
  const std::pair<std::string_view, Optional<bool>*> fields[] = {{"compile", &settings.compile},
                                                                 {"boundary", &settings.boundary},
                                                                 {"fullgraph", &settings.fullgraph},
                                                                 {"fuse", &settings.fuse},
                                                                 {"allow_fallback", &settings.allow_fallback},
                                                                 {"suppress_errors", &settings.suppress_errors},
                                                                 {"horizontal_fusion", &settings.horizontal_fusion},
                                                                 {"epilogue_fusion", &settings.epilogue_fusion}};
  return value_of(fields, name).value_or(nullptr);
}

inline std::string set_number(ScopeSettings& settings, const jit_detail::Setting& setting, std::string_view value) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  const std::int64_t most =
      setting.name == "threads" ? std::numeric_limits<int>::max() : std::numeric_limits<std::int64_t>::max();
  if (error != std::errc() || end != value.data() + value.size() || number < setting.least || number > most)
    return "is no whole number from " + std::to_string(setting.least) + " on";
  if (setting.name == "threads") settings.threads = static_cast<int>(number);
  else if (setting.name == "recompile_limit") settings.recompile_limit = number;
  else if (setting.name == "tune_seconds") settings.tune_seconds = number;
  else settings.memory_budget = number;
  return {};
}

inline std::string default_of(std::string_view name, const Options& options) {
  const auto text = [](bool value) { return std::string(value ? "true" : "false"); };
  if (name == "compile") return "true";
  if (name == "mode") return std::string(sinter::jit::name(options.mode));
  if (name == "backend") return "\"" + options.backend.name() + "\"";
  if (name == "matmul_precision") return "that of the process";
  if (name == "threads") return "those of the process";
  if (name == "dynamic") return std::string(sinter::jit::name(options.dynamic));
  if (name == "fullgraph") return text(options.fullgraph);
  if (name == "horizontal_fusion") return text(options.fuse && options.memory_budget == 0);
  if (name == "fuse" || name == "epilogue_fusion") return text(options.fuse);
  if (name == "recompile_limit") return std::to_string(options.recompile_limit);
  if (name == "memory_budget") return std::to_string(options.memory_budget);
  if (name == "allow_fallback") return text(options.allow_fallback);
  if (name == "suppress_errors") return text(options.suppress_errors);
  if (name == "tune_seconds") return is_tuned(options.mode) ? "2" : "0";
  return "false";
}

}  // namespace settings_detail

SINTER_DECL ScopeSettings ScopeSettings::with(const ScopeSettings& inner) const {
  using settings_detail::take;
  ScopeSettings both = *this;
  take(both.compile, inner.compile);
  take(both.mode, inner.mode);
  take(both.backend, inner.backend);
  take(both.matmul_precision, inner.matmul_precision);
  take(both.threads, inner.threads);
  take(both.boundary, inner.boundary);
  take(both.dynamic, inner.dynamic);
  take(both.fullgraph, inner.fullgraph);
  take(both.fuse, inner.fuse);
  take(both.allow_fallback, inner.allow_fallback);
  take(both.suppress_errors, inner.suppress_errors);
  take(both.horizontal_fusion, inner.horizontal_fusion);
  take(both.epilogue_fusion, inner.epilogue_fusion);
  take(both.recompile_limit, inner.recompile_limit);
  take(both.memory_budget, inner.memory_budget);
  take(both.tune_seconds, inner.tune_seconds);
  return both;
}

SINTER_DECL Options ScopeSettings::applied_to(Options options) const {
  using settings_detail::put;
  using settings_detail::take;
  put(options.mode, mode);
  if (backend) options.backend = *backend;
  if (matmul_precision) options.matmul_precision = matmul_precision;
  put(options.dynamic, dynamic);
  put(options.fullgraph, fullgraph);
  put(options.fuse, fuse);
  put(options.allow_fallback, allow_fallback);
  put(options.suppress_errors, suppress_errors);
  take(options.horizontal_fusion, horizontal_fusion);
  take(options.epilogue_fusion, epilogue_fusion);
  put(options.recompile_limit, recompile_limit);
  put(options.memory_budget, memory_budget);
  if (tune_seconds) options.tune_seconds = static_cast<double>(*tune_seconds);
  return options;
}

SINTER_DECL std::vector<std::int64_t> ScopeSettings::key() const {
  std::vector<std::int64_t> numbers;
  std::int64_t place = 0;
  const auto add = [&](const auto& field) {
    ++place;
    if (!field.has_value()) return;
    numbers.push_back(place);
    numbers.push_back(static_cast<std::int64_t>(*field));
  };
  add(mode);
  add(backend ? std::optional(settings_detail::number_of(*backend)) : std::nullopt);
  add(matmul_precision);
  add(dynamic);
  add(fullgraph);
  add(fuse);
  add(allow_fallback);
  add(suppress_errors);
  add(recompile_limit);
  add(memory_budget);
  add(tune_seconds);
  add(horizontal_fusion);
  add(epilogue_fusion);
  return numbers;
}

SINTER_DECL std::string_view name(Mode mode) { return settings_detail::name_of(settings_detail::modes, mode); }
SINTER_DECL std::string_view name(Dynamic dynamic) {
  return settings_detail::name_of(settings_detail::dynamics, dynamic);
}

SINTER_DECL std::vector<std::string> list_modes() {
  std::vector<std::string> names;
  for (std::string_view each : settings_detail::names_of(settings_detail::modes)) names.emplace_back(each);
  return names;
}

SINTER_DECL Mode mode_named(std::string_view wanted, Location where) {
  if (const auto mode = settings_detail::value_of(settings_detail::modes, wanted)) return *mode;
  const auto names = settings_detail::names_of(settings_detail::modes);
  const std::string_view nearest = nearest_name(wanted, names);
  throw UserError("mode_named", "there is no mode '" + std::string(wanted) + "'", where,
                  (nearest.empty() ? "" : "did you mean '" + std::string(nearest) + "'? ") +
                      ("modes: " + settings_detail::joined(names)));
}

SINTER_DECL std::vector<OptionInfo> list_options(Mode mode) {
  std::vector<OptionInfo> options;
  Options in_mode;
  in_mode.mode = mode;
  for (const jit_detail::Setting& setting : jit_detail::settings_table()) {
    std::string values = "a name";
    switch (setting.type) {
      case jit_detail::SettingType::boolean: values = "true, false"; break;
      case jit_detail::SettingType::number: values = "a number from " + std::to_string(setting.least) + " on"; break;
      case jit_detail::SettingType::text: values = "a name of jit::list_backends()"; break;
      case jit_detail::SettingType::choice: values = settings_detail::joined(setting.choices); break;
    }
    options.push_back(
        {setting.name, std::move(values), settings_detail::default_of(setting.name, in_mode), setting.says});
  }
  return options;
}

namespace jit_detail {

SINTER_DECL const std::vector<Setting>& settings_table() {
  using enum SettingType;
  return process_object([] {
    return new std::vector<Setting>{
        {"compile", boolean, "false: functions run uncompiled"},
        {"mode", choice, "what to optimise for", settings_detail::names_of(settings_detail::modes)},
        {"backend", text, "who makes the code"},
        {"matmul_precision", choice, "what products of f32 may be computed in",
         settings_detail::names_of(settings_detail::precisions)},
        {"threads", number, "threads that a call may use, its own included", {}, 1},
        {"boundary", boolean, "nothing fuses across the ends of jit::scoped()"},
        {"dynamic", choice, "when an extent becomes symbolic", settings_detail::names_of(settings_detail::dynamics)},
        {"fullgraph", boolean, "reading a value while tracing is an error"},
        {"fuse", boolean, "false: one kernel for each operation"},
        {"recompile_limit", number, "compiled versions beyond the first"},
        {"memory_budget", number, "bytes that a plan may hold between its kernels; 0: any"},
        {"allow_fallback", boolean, "what a device declines runs on the CPU"},
        {"suppress_errors", boolean, "where compiling fails, run operation by operation"},
        {"tune_seconds", number, "that a mode of max-autotune may measure for each version; 0: 2 seconds"},
        {"horizontal_fusion", boolean, "independent kernels run as one launch"},
        {"epilogue_fusion", boolean, "products take in what is computed from their results"},
    };
  });
}

SINTER_DECL std::string set_setting(ScopeSettings& settings, const Setting& setting, std::string_view value) {
  using namespace settings_detail;
  switch (setting.type) {
    case SettingType::boolean:
      if (value != "true" && value != "false") return "is neither true nor false";
      *boolean_in(settings, setting.name) = value == "true";
      return {};
    case SettingType::number: return set_number(settings, setting, value);
    case SettingType::text: settings.backend = std::string(value); return {};
    case SettingType::choice: break;
  }
  if (std::find(setting.choices.begin(), setting.choices.end(), value) == setting.choices.end()) {
    const std::string_view nearest = nearest_name(value, setting.choices);
    return "is none of " + joined(setting.choices) +
           (nearest.empty() ? "" : "; did you mean '" + std::string(nearest) + "'?");
  }
  if (setting.name == "mode") settings.mode = value_of(modes, value);
  else if (setting.name == "dynamic") settings.dynamic = value_of(dynamics, value);
  else settings.matmul_precision = value_of(precisions, value);
  return {};
}

/// The modes that say how calls run, which whoever makes results of its own does not do; and how long to measure.
inline void check_mode(const Options& options, bool is_foreign, Location where) {
  const std::string& backend = options.backend.name();
  const auto own_name = [&] {
    switch (options.mode) {
      case Mode::default_: return "Mode::default_";
      case Mode::reduce_overhead: return "Mode::reduce_overhead";
      case Mode::background: return "Mode::background";
      case Mode::max_autotune: return "Mode::max_autotune";
      case Mode::max_autotune_no_cudagraphs: return "Mode::max_autotune_no_cudagraphs";
    }
    throw UserError(
        "compile",
        "Options::mode has the value " + std::to_string(static_cast<int>(options.mode)) + ", which is no Mode", where,
        "use Mode::default_, reduce_overhead, background, max_autotune or max_autotune_no_cudagraphs");
  };
  const std::string mode = own_name();
  if (options.mode != Mode::default_ && is_foreign)
    throw UserError("compile", mode + " contradicts the back end '" + backend + "', which makes its own results", where,
                    "leave the mode out, or use a back end of this build");
  if (options.mode == Mode::background && is_unfused_backend(backend))
    throw UserError("compile", mode + " contradicts the back end '" + backend + "', which runs operation by operation",
                    where, "leave the mode out: there is no other code to be made meanwhile");
  if (is_tuned(options.mode) && is_unfused_backend(backend))
    throw UserError("compile", mode + " contradicts the back end '" + backend + "', whose kernels have one schedule",
                    where, "leave the mode out, or use a back end of this build");
  if (!(options.tune_seconds >= 0) || options.tune_seconds > 1e6)
    throw UserError("compile", "tune_seconds is " + std::to_string(options.tune_seconds), where,
                    "give seconds; 0 stands for 2 seconds");
  if (options.tune_seconds > 0 && !is_tuned(options.mode) && options.mode != Mode::background)
    throw UserError("compile", "tune_seconds contradicts " + mode + ", which measures nothing", where,
                    "leave it out, or use Mode::max_autotune");
}

SINTER_DECL void check_options(const Options& options, Location where) {
  if (options.dynamic != Dynamic::automatic && options.dynamic != Dynamic::always && options.dynamic != Dynamic::never)
    throw UserError(
        "compile",
        "Options::dynamic has the value " + std::to_string(static_cast<int>(options.dynamic)) + ", which is no Dynamic",
        where, "use Dynamic::automatic, always or never");
  const std::string& backend = options.backend.name();
  const bool is_foreign =
      backend == "noop" || options.backend.function() != nullptr || registered_backend(backend) != nullptr;
  check_mode(options, is_foreign, where);
  if (options.memory_budget < 0)
    throw UserError("compile", "memory_budget is " + std::to_string(options.memory_budget), where,
                    "give bytes; 0 stands for no budget");
  if (options.memory_budget > 0 && is_foreign)
    throw UserError("compile",
                    "memory_budget contradicts the back end '" + backend + "', which holds memory of its own", where,
                    "leave the budget out, or use a back end of this build");
  if (!options.fuse)
    for (const auto& [field, name] : {std::pair{options.horizontal_fusion, "horizontal_fusion"},
                                      std::pair{options.epilogue_fusion, "epilogue_fusion"}})
      if (field.value_or(false))
        throw UserError("compile", std::string(name) + " = true contradicts fuse = false, which fuses nothing", where,
                        "leave " + std::string(name) + " out, or set fuse to true");
  if (!options.matmul_precision) return;
  tensor_detail::check_precision(*options.matmul_precision, "compile", where);
  if (is_foreign)
    throw UserError(
        "compile",
        "matmul_precision contradicts the back end '" + backend + "', which computes products in its own way", where,
        "leave the precision out, use a back end of this build, or set the default of the process with "
        "set_matmul_precision");
}

SINTER_DECL void resolve_backend(Options& options, Location where) {
  if (options.backend.function() != nullptr) return;
  const std::string& name = options.backend.name();
  if (registered_backend(name) == nullptr) {
    if (name == "inductor") {
      options.backend = "";
    } else if (name == "cudagraphs") {
      options.backend = "";
      options.mode = Mode::reduce_overhead;
    } else if (name == "aot_eager_decomp_partition") {
      options.backend = "aot_eager";
    }
  }
  check_backend(options.backend.name(), where);
}

}  // namespace jit_detail
}  // namespace jit
SINTER_NAMESPACE_END
