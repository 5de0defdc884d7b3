// What finding faults needs besides sinter.hpp: the bisection, the minifier, and scopes that are boundaries.
#pragma once

#include <sinter/jit/debug/bisect.hpp>
#include <sinter/jit/debug/minify.hpp>
#include <sinter/sinter.hpp>
