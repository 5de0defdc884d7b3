// Separate compilation: include this in exactly one translation unit, with SINTER_SEPARATE_COMPILATION defined
// everywhere. CMake's sinter::compiled does it for you, in four translation units side by side, one for each line below.
#pragma once
#ifndef SINTER_SEPARATE_COMPILATION
#error "define SINTER_SEPARATE_COMPILATION for all files that include Sinter, or leave this header out"
#endif

#include <sinter/src_core.hpp>
#include <sinter/src_kernel.hpp>
#include <sinter/src_backends.hpp>
#include <sinter/src_jit.hpp>
