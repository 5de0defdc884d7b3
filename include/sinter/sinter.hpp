// Sinter: torch.compile for C++. The only header users include.
#pragma once

#include <sinter/autodiff/closure.hpp>
#include <sinter/autodiff/custom.hpp>
#include <sinter/autodiff/parameters.hpp>
#include <sinter/autodiff/tape.hpp>
#include <sinter/autodiff/transforms.hpp>
#include <sinter/autodiff/vmap.hpp>
#include <sinter/backend/cuda/cuda.hpp>
#include <sinter/base/code_stats.hpp>
#include <sinter/base/context.hpp>
#include <sinter/base/log.hpp>
#include <sinter/base/one_mode.hpp>
#include <sinter/base/threads.hpp>
#include <sinter/expr/complex.hpp>
#include <sinter/expr/equality.hpp>
#include <sinter/expr/expr.hpp>
#include <sinter/expr/fft.hpp>
#include <sinter/expr/fft_signal.hpp>
#include <sinter/expr/functions.hpp>
#include <sinter/expr/gather_scatter.hpp>
#include <sinter/expr/histogram.hpp>
#include <sinter/expr/host.hpp>
#include <sinter/expr/keys.hpp>
#include <sinter/expr/pooling.hpp>
#include <sinter/expr/quantization.hpp>
#include <sinter/expr/sampling.hpp>
#include <sinter/expr/tree_map.hpp>
#include <sinter/io/checkpoint.hpp>
#include <sinter/io/function_file.hpp>
#include <sinter/io/gguf.hpp>
#include <sinter/io/npy.hpp>
#include <sinter/io/pytorch.hpp>
#include <sinter/io/safetensors.hpp>
#include <sinter/io/state.hpp>
#include <sinter/jit/aot.hpp>
#include <sinter/jit/backends.hpp>
#include <sinter/jit/call/escape.hpp>
#include <sinter/jit/call/marks.hpp>
#include <sinter/jit/call/stance.hpp>
#include <sinter/jit/compile.hpp>
#include <sinter/jit/config/configure.hpp>
#include <sinter/jit/config/scope.hpp>
#include <sinter/jit/config/settings.hpp>
#include <sinter/jit/control/associative_scan.hpp>
#include <sinter/jit/control/control.hpp>
#include <sinter/jit/debug/hot_paths.hpp>
#include <sinter/jit/debug/nans.hpp>
#include <sinter/jit/effects/custom_op.hpp>
#include <sinter/jit/effects/effects.hpp>
#include <sinter/jit/gradient_function.hpp>
#include <sinter/jit/lazy/eval.hpp>
#include <sinter/jit/lazy/lazy.hpp>
#include <sinter/jit/observe/profile.hpp>
#include <sinter/jit/observe/timeline.hpp>
#include <sinter/jit/options.hpp>
#include <sinter/jit/partition.hpp>
#include <sinter/jit/trace/region.hpp>
#include <sinter/solvers/interpolate.hpp>
#include <sinter/solvers/linear.hpp>
#include <sinter/solvers/lobpcg.hpp>
#include <sinter/solvers/minimize.hpp>
#include <sinter/solvers/ode.hpp>
#include <sinter/solvers/quad.hpp>
#include <sinter/solvers/root.hpp>
#include <sinter/tensor/precision.hpp>
#include <sinter/tensor/storage.hpp>
#include <sinter/tensor/tensor.hpp>

// The definitions come after all declarations: base/config.hpp says which parts of them this file holds.
#ifdef SINTER_IMPLEMENTATION_CORE
#include <sinter/src_core.hpp>
#include <sinter/src_expr.hpp>
#include <sinter/src_fft.hpp>
#include <sinter/src_linalg.hpp>
#include <sinter/src_ops.hpp>
#include <sinter/src_passes.hpp>
#endif
#ifdef SINTER_IMPLEMENTATION_KERNEL
#include <sinter/src_kernel.hpp>
#include <sinter/src_runtime.hpp>
#endif
#ifdef SINTER_IMPLEMENTATION_BACKENDS
#include <sinter/src_cuda.hpp>
#include <sinter/src_cuda_source.hpp>
#include <sinter/src_reference.hpp>
#include <sinter/src_x86.hpp>
#endif
#ifdef SINTER_IMPLEMENTATION_JIT
#include <sinter/src_debug.hpp>
#include <sinter/src_io.hpp>
#include <sinter/src_jit.hpp>
#include <sinter/src_observe.hpp>
#include <sinter/src_solvers.hpp>
// Whose names have headers of their own: header-only, those bring the definitions, which other files do not compile.
#ifdef SINTER_SEPARATE_COMPILATION
#include <sinter/src_dist.hpp>
#include <sinter/src_onnx.hpp>
#endif
#endif
