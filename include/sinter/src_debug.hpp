// Every definition of configuration and of what finds faults. Included by sinter.hpp when header-only, else by one
// translation unit: see src.hpp.
#pragma once
// jit
#include <sinter/jit/config/configure.ipp>
#include <sinter/jit/config/scope.ipp>
#include <sinter/jit/config/settings.ipp>
#include <sinter/jit/config/yaml.ipp>
#include <sinter/jit/debug/bisect.ipp>
#include <sinter/jit/debug/failures.ipp>
#include <sinter/jit/debug/minify.ipp>
#include <sinter/jit/debug/nans.ipp>
#include <sinter/jit/trace/model_regions.ipp>
