// Scopes: named stretches of code with settings of their own. A scope belongs to its thread; scopes nest, and what the
// inner one does not set is as outside. Where none is open, calls of compiled functions do not look for one.
#pragma once

#include <sinter/jit/call/stance.hpp>
#include <sinter/jit/config/settings.hpp>

#include <source_location>
#include <string>
#include <string_view>

SINTER_NAMESPACE_BEGIN
namespace jit {

/// While it lives, compiled functions that this thread calls have these settings in place of their Options: a version
/// of the function for each combination is compiled at its first call. A configuration file (configure.hpp) that names
/// the scope has the last word.
class [[nodiscard]] Scope {
 public:
  explicit Scope(std::string_view name, const ScopeSettings& settings = {},
                 Location where = std::source_location::current());
  ~Scope();
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

  /// The names of the scopes around it and its own: "train/forward".
  const std::string& path() const { return path_; }
  /// What is in force in it.
  const ScopeSettings& settings() const { return settings_; }

 private:
  std::string path_;
  ScopeSettings settings_;
  const Scope* outer_;
  Stance stance_before_;
  int threads_before_;
  bool was_scoped_;
};

/// Opens a scope: `auto scope = jit::scope("forward", {.dynamic = jit::Dynamic::always});`.
inline Scope scope(std::string_view name, const ScopeSettings& settings = {},
                   Location where = std::source_location::current()) {
  return Scope(name, settings, where);
}

/// The path of the innermost scope of this thread; "" outside of all.
std::string_view current_scope();
/// What is in force here.
ScopeSettings current_settings();

namespace jit_detail {
/// What calls of compiled functions follow: the settings of the innermost scope.
const ScopeSettings* settings_of_thread() noexcept;
/// Throws UserError for values that no enumerator stands for, unknown back ends, and numbers out of range.
void check_settings(const ScopeSettings& settings, std::string_view op, Location where);
}  // namespace jit_detail

}  // namespace jit
SINTER_NAMESPACE_END
