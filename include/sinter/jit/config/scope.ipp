// Scopes of a thread.
#pragma once

#include <sinter/jit/config/scope.hpp>

#include <sinter/base/error.hpp>
#include <sinter/base/thread_limit.hpp>
#include <sinter/jit/call/stance.hpp>
#include <sinter/jit/config/configuration.hpp>

#include <algorithm>
#include <utility>

SINTER_NAMESPACE_BEGIN
namespace jit {

namespace jit_detail {
inline const Scope*& innermost_scope() noexcept {
  static thread_local constinit const Scope* scope = nullptr;
  return scope;
}

SINTER_DECL const ScopeSettings* settings_of_thread() noexcept {
  const Scope* scope = innermost_scope();
  return scope == nullptr ? nullptr : &scope->settings();
}

SINTER_DECL void check_settings(const ScopeSettings& settings, std::string_view op, Location where) {
  if (settings.threads && *settings.threads < 1)
    throw UserError(op, "threads is " + std::to_string(*settings.threads), where,
                    "the calling thread is one: 1 at least");
  if (settings.recompile_limit && *settings.recompile_limit < 0)
    throw UserError(op, "recompile_limit is " + std::to_string(*settings.recompile_limit), where,
                    "0 allows the first compilation only");
  if (settings.memory_budget && *settings.memory_budget < 0)
    throw UserError(op, "memory_budget is " + std::to_string(*settings.memory_budget), where,
                    "give bytes; 0 stands for no budget");
  if (settings.matmul_precision) tensor_detail::check_precision(*settings.matmul_precision, op, where);
  if (settings.backend) check_backend(*settings.backend, where);
}
}  // namespace jit_detail

SINTER_DECL Scope::Scope(std::string_view name, const ScopeSettings& settings, Location where)
    : outer_(jit_detail::innermost_scope()),
      stance_before_(current_stance()),
      threads_before_(base_detail::thread_limit()),
      was_scoped_(jit_detail::mode_of_thread().is_scoped()) {
  if (name.empty() || name.find('/') != std::string_view::npos)
    throw UserError("scope", "'" + std::string(name) + "' is no name of a scope", where,
                    "give a name without '/', which joins the names of nested scopes");
  if (outer_ != nullptr) path_ = outer_->path_ + "/";
  path_ += name;
  jit_detail::check_settings(settings, "scope", where);
  const ScopeSettings own = settings.with(jit_detail::settings_for_scope(path_));
  settings_ = current_settings().with(own);
  jit_detail::ThreadMode& mode = jit_detail::mode_of_thread();
  if (own.compile.has_value() && !*own.compile) mode.set(Stance::force_eager);
  else if (own.compile.has_value() && stance_before_ == Stance::force_eager) {
    // Compiled again is what scopes turned off, not what a guard around them did.
    Stance stance = stance_before_;
    for (const Scope* scope = outer_; scope != nullptr && scope->settings_.compile == false; scope = scope->outer_)
      stance = scope->stance_before_;
    mode.set(stance);
  }
  if (own.threads) base_detail::thread_limit() = *own.threads;
  mode.set_scoped(!settings_.key().empty());
  jit_detail::innermost_scope() = this;
}

SINTER_DECL Scope::~Scope() {
  jit_detail::innermost_scope() = outer_;
  base_detail::thread_limit() = threads_before_;
  jit_detail::mode_of_thread().set(stance_before_);
  jit_detail::mode_of_thread().set_scoped(was_scoped_);
}

SINTER_DECL std::string_view current_scope() {
  const Scope* scope = jit_detail::innermost_scope();
  return scope == nullptr ? std::string_view() : std::string_view(scope->path());
}
SINTER_DECL ScopeSettings current_settings() {
  const ScopeSettings* settings = jit_detail::settings_of_thread();
  return settings == nullptr ? ScopeSettings() : *settings;
}

}  // namespace jit
SINTER_NAMESPACE_END
