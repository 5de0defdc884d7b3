// What compiling parts of a model needs besides sinter.hpp: compile_regions() of any model, and functions whose scopes
// are boundaries.
#pragma once

#include <sinter/jit/config/scoped.hpp>
#include <sinter/jit/trace/model_regions.hpp>
#include <sinter/sinter.hpp>
