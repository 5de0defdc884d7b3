// What finding faults needs besides sinter.hpp: the bisection and the minifier.
#pragma once

#include <sinter/jit/debug/bisect.hpp>
#include <sinter/jit/debug/minify.hpp>
#include <sinter/jit/observe/instructions.hpp>
#include <sinter/sinter.hpp>
