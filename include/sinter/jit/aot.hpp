// aot_function(): a function whose forward and backward graphs are compiled by functions of the user.
#pragma once

#include <sinter/jit/backends.hpp>
#include <sinter/jit/compile.hpp>
#include <sinter/jit/options.hpp>

#include <source_location>
#include <type_traits>
#include <utility>

SINTER_NAMESPACE_BEGIN
namespace jit {

/// Who compiles which graph; empty: the back end that `options` names. See BackendFunction.
struct AotOptions {
  /// The forward graph: where a gradient is wanted, with the values that are saved for it after the results.
  BackendFunction forward = {};
  /// The backward graph. It is called at the first backward(), with the inputs of that as examples.
  BackendFunction backward = {};
  Options options = {};
};

/// As compile(); the graphs of forward and backward part go to functions of the user. partition(args...) of the result
/// shows how they were cut.
template <class F>
Compiled<std::decay_t<F>> aot_function(F&& f, AotOptions options = {},
                                       Location where = std::source_location::current()) {
  return Compiled<std::decay_t<F>>(std::forward<F>(f),
                                   jit_detail::make_function(std::move(options.options), std::move(options.forward),
                                                             std::move(options.backward), where));
}

}  // namespace jit
SINTER_NAMESPACE_END
