// Functions that run in a scope of their own. Such a scope can be a boundary: then its function is a region, and
// nothing fuses across its ends.
#pragma once

#include <sinter/jit/config/scope.hpp>
#include <sinter/jit/trace/region.hpp>

#include <source_location>
#include <string>
#include <type_traits>
#include <utility>

SINTER_NAMESPACE_BEGIN
namespace jit {

/// What scoped() gives: called like the function.
template <class F>
class Scoped {
 public:
  Scoped(std::string name, F f, const ScopeSettings& settings, Location where)
      : region_(std::move(f), name, where), name_(std::move(name)), settings_(settings), where_(where) {}

  template <class... A>
  auto operator()(const A&... args) const {
    using R = decltype(region_(args...));
    const Scope open(name_, settings_, where_);
    if constexpr (std::is_void_v<R>) {
      region_.function()(args...);
    } else {
      if (open.settings().boundary.value_or(false)) return region_(args...);
      return R(region_.function()(args...));
    }
  }

 private:
  Region<F> region_;
  std::string name_;
  ScopeSettings settings_;
  Location where_;
};

/// The function, each call of which is a scope of this name. With `boundary`, here or in a configuration file, it is
/// compiled as a block (region()): nothing fuses across its ends.
template <class F>
Scoped<std::decay_t<F>> scoped(std::string name, F&& f, const ScopeSettings& settings = {},
                               Location where = std::source_location::current()) {
  return Scoped<std::decay_t<F>>(std::move(name), std::forward<F>(f), settings, where);
}

}  // namespace jit
SINTER_NAMESPACE_END
