// Separate compilation: include this in exactly one translation unit, with SINTER_SEPARATE_COMPILATION defined
// everywhere, as sinter.hpp with SINTER_IMPLEMENTATION. CMake's sinter::compiled does it for you, in translation units
// side by side, one for each line below.
#pragma once
#ifndef SINTER_SEPARATE_COMPILATION
#error "define SINTER_SEPARATE_COMPILATION for all files that include Sinter, or leave this header out"
#endif

#include <sinter/src_core.hpp>
#include <sinter/src_cuda.hpp>
#include <sinter/src_cuda_source.hpp>
#include <sinter/src_debug.hpp>
#include <sinter/src_dist.hpp>
#include <sinter/src_expr.hpp>
#include <sinter/src_fft.hpp>
#include <sinter/src_io.hpp>
#include <sinter/src_jit.hpp>
#include <sinter/src_kernel.hpp>
#include <sinter/src_linalg.hpp>
#include <sinter/src_observe.hpp>
#include <sinter/src_onnx.hpp>
#include <sinter/src_ops.hpp>
#include <sinter/src_passes.hpp>
#include <sinter/src_reference.hpp>
#include <sinter/src_runtime.hpp>
#include <sinter/src_solvers.hpp>
#include <sinter/src_x86.hpp>
