// The one table of back ends of this build, and how a name in Options is resolved.
#pragma once

#include <sinter/base/error.hpp>
#include <sinter/passes/pipeline.hpp>
#include <sinter/runtime/backend.hpp>

#include <string>
#include <string_view>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace jit {

/// Back ends for the host, best first; the last accepts every kernel. Made once, never destroyed.
const std::vector<Backend*>& host_backends();
/// The back ends to try for Options::backend: that one with the reference back end behind it, or all.
std::vector<Backend*> backends_for(std::string_view name);
/// Throws UserError with the list if there is no back end of that name.
std::vector<std::string> list_backends();
void check_backend(std::string_view name, Location where);

}  // namespace jit
SINTER_NAMESPACE_END

#ifndef SINTER_SEPARATE_COMPILATION
#include <sinter/jit/backends.ipp>
#endif
