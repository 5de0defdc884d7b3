// Separate compilation: include this in exactly one translation unit, with SINTER_SEPARATE_COMPILATION defined
// everywhere. CMake's sinter::compiled does it for you. A build that wants to compile it in parallel includes it in four
// translation units instead, with SINTER_SOURCE_PART defined as 1, 2, 3 and 4.
#pragma once
#ifndef SINTER_SEPARATE_COMPILATION
#error "define SINTER_SEPARATE_COMPILATION for all files that include Sinter, or leave this header out"
#endif
#ifndef SINTER_SOURCE_PART
#define SINTER_SOURCE_PART 0
#endif
#if SINTER_SOURCE_PART == 0 || SINTER_SOURCE_PART == 1
// base
#include <sinter/base/context.ipp>
#include <sinter/base/error.ipp>
#include <sinter/base/per_thread.ipp>
// tensor
#include <sinter/tensor/device.ipp>
#include <sinter/tensor/device_memory.ipp>
#include <sinter/tensor/dim.ipp>
#include <sinter/tensor/impl.ipp>
#include <sinter/tensor/shape.ipp>
#include <sinter/tensor/slot.ipp>
#include <sinter/tensor/storage.ipp>
// graph
#include <sinter/graph/attrs.ipp>
#include <sinter/graph/graph.ipp>
#include <sinter/graph/record.ipp>
// ops
#include <sinter/ops/attention.ipp>
#include <sinter/ops/batch.ipp>
#include <sinter/ops/control.ipp>
#include <sinter/ops/conv.ipp>
#include <sinter/ops/custom_derivative.ipp>
#include <sinter/ops/host_function.ipp>
#include <sinter/ops/infer.ipp>
#include <sinter/ops/join.ipp>
#include <sinter/ops/layer_norm.ipp>
#include <sinter/ops/leaf.ipp>
#include <sinter/ops/loss.ipp>
#include <sinter/ops/matmul.ipp>
#include <sinter/ops/random.ipp>
#include <sinter/ops/reduction.ipp>
#include <sinter/ops/region.ipp>
#include <sinter/ops/registry.ipp>
#include <sinter/ops/scalar.ipp>
#include <sinter/ops/softmax.ipp>
#include <sinter/ops/statistics.ipp>
#include <sinter/ops/take.ipp>
#include <sinter/ops/val_ops.ipp>
#include <sinter/ops/view.ipp>
// expr
#include <sinter/expr/capture.ipp>
#include <sinter/expr/functions.ipp>
#include <sinter/expr/host.ipp>
#include <sinter/expr/host_run.ipp>
// autodiff
#include <sinter/autodiff/custom.ipp>
#include <sinter/autodiff/cut.ipp>
#include <sinter/autodiff/forward.ipp>
#include <sinter/autodiff/call.ipp>
#include <sinter/autodiff/reverse.ipp>
#include <sinter/autodiff/tape.ipp>
#include <sinter/autodiff/trace.ipp>
#include <sinter/autodiff/transforms.ipp>
#include <sinter/autodiff/vectorise.ipp>
#include <sinter/autodiff/vmap.ipp>
// passes
#include <sinter/passes/canonicalise.ipp>
#include <sinter/passes/cse.ipp>
#include <sinter/passes/dce.ipp>
#include <sinter/passes/decompose.ipp>
#include <sinter/passes/drop_derivatives.ipp>
#include <sinter/passes/evaluate.ipp>
#include <sinter/passes/fold.ipp>
#include <sinter/passes/outline.ipp>
#include <sinter/passes/pipeline.ipp>
#include <sinter/passes/prune.ipp>
#include <sinter/passes/rewrite.ipp>
#include <sinter/passes/simplify.ipp>
#endif
#if SINTER_SOURCE_PART == 0 || SINTER_SOURCE_PART == 2
// kernel
#include <sinter/kernel/fusion.ipp>
#include <sinter/kernel/fusion_merge.ipp>
#include <sinter/kernel/index_map.ipp>
#include <sinter/kernel/item_views.ipp>
#include <sinter/kernel/items.ipp>
#include <sinter/kernel/kernel.ipp>
#include <sinter/kernel/kernel_simplify.ipp>
#include <sinter/kernel/lowering.ipp>
#include <sinter/kernel/lowering_axes.ipp>
#include <sinter/kernel/memory_plan.ipp>
// runtime
#include <sinter/runtime/device_split.ipp>
#include <sinter/runtime/disk_cache.ipp>
#include <sinter/runtime/executor.ipp>
#include <sinter/runtime/frame.ipp>
#include <sinter/runtime/host_ops.ipp>
#include <sinter/runtime/kernel_cache.ipp>
#include <sinter/runtime/plan.ipp>
#include <sinter/runtime/threads.ipp>
#endif
#if SINTER_SOURCE_PART == 0 || SINTER_SOURCE_PART == 3
// backend
#include <sinter/backend/reference/interpreter.ipp>
#include <sinter/backend/reference/product.ipp>
#include <sinter/backend/reference/program.ipp>
#include <sinter/backend/reference/reference.ipp>
#ifndef SINTER_NO_X86
#include <sinter/backend/x86/backend.ipp>
#include <sinter/backend/x86/code_memory.ipp>
#include <sinter/backend/x86/contraction.ipp>
#include <sinter/backend/x86/contraction_epilogue.ipp>
#include <sinter/backend/x86/contraction_micro.ipp>
#include <sinter/backend/x86/contraction_pack.ipp>
#include <sinter/backend/x86/contraction_plan.ipp>
#include <sinter/backend/x86/contraction_vector.ipp>
#include <sinter/backend/x86/emitter.ipp>
#include <sinter/backend/x86/loop.ipp>
#include <sinter/backend/x86/loop_body.ipp>
#include <sinter/backend/x86/loop_chain.ipp>
#include <sinter/backend/x86/loop_columns.ipp>
#include <sinter/backend/x86/loop_driver.ipp>
#include <sinter/backend/x86/loop_generator.ipp>
#include <sinter/backend/x86/loop_plan.ipp>
#include <sinter/backend/x86/loop_short_rows.ipp>
#include <sinter/backend/x86/lower.ipp>
#include <sinter/backend/x86/math.ipp>
#include <sinter/backend/x86/register_allocator.ipp>
#include <sinter/backend/x86/vector_builder.ipp>
#include <sinter/backend/x86/vector_memory.ipp>
#endif
#include <sinter/backend/cuda/cuda.ipp>
#ifdef SINTER_CUDA
#include <sinter/backend/cuda/api.ipp>
#include <sinter/backend/cuda/cublaslt_api.ipp>
#include <sinter/backend/cuda/backend.ipp>
#include <sinter/backend/cuda/device.ipp>
#include <sinter/backend/cuda/driver.ipp>
#include <sinter/backend/cuda/library_product.ipp>
#include <sinter/backend/cuda/source.ipp>
#include <sinter/backend/cuda/source_nest.ipp>
#include <sinter/backend/cuda/source_pointwise.ipp>
#include <sinter/backend/cuda/source_product.ipp>
#include <sinter/backend/cuda/source_reduction.ipp>
#include <sinter/backend/cuda/source_scalar.ipp>
#include <sinter/backend/cuda/source_scatter.ipp>
#include <sinter/backend/cuda/source_transpose.ipp>
#include <sinter/backend/cuda/source_writer.ipp>
#include <sinter/backend/cuda/pool.ipp>
#endif
#endif
#if SINTER_SOURCE_PART == 0 || SINTER_SOURCE_PART == 4
// jit
#include <sinter/jit/backends.ipp>
#include <sinter/jit/control.ipp>
#include <sinter/jit/control_trace.ipp>
#include <sinter/jit/custom_op.ipp>
#include <sinter/jit/effects.ipp>
#include <sinter/jit/custom_run.ipp>
#include <sinter/jit/escape.ipp>
#include <sinter/jit/eval.ipp>
#include <sinter/jit/execute.ipp>
#include <sinter/jit/function.ipp>
#include <sinter/jit/guard_text.ipp>
#include <sinter/jit/guards.ipp>
#include <sinter/jit/lazy.ipp>
#include <sinter/jit/marks.ipp>
#include <sinter/jit/recompile.ipp>
#include <sinter/jit/live_values.ipp>
#include <sinter/jit/region.ipp>
#include <sinter/jit/specialise.ipp>
#include <sinter/jit/stance.ipp>
#include <sinter/jit/trace.ipp>
#include <sinter/jit/trace_path.ipp>
#include <sinter/jit/trace_tree.ipp>
#include <sinter/jit/tree_call.ipp>
#endif
