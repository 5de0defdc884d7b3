// Separate compilation: include this in exactly one translation unit, with SINTER_SEPARATE_COMPILATION defined
// everywhere. CMake's sinter::compiled does it for you.
#pragma once
#ifndef SINTER_SEPARATE_COMPILATION
#error "define SINTER_SEPARATE_COMPILATION for all files that include Sinter, or leave this header out"
#endif
// base
#include <sinter/base/error.ipp>
// tensor
#include <sinter/tensor/dim.ipp>
// graph
#include <sinter/graph/attrs.ipp>
#include <sinter/graph/graph.ipp>
// ops
#include <sinter/ops/attention.ipp>
#include <sinter/ops/conv.ipp>
#include <sinter/ops/infer.ipp>
#include <sinter/ops/join.ipp>
#include <sinter/ops/layer_norm.ipp>
#include <sinter/ops/leaf.ipp>
#include <sinter/ops/loss.ipp>
#include <sinter/ops/matmul.ipp>
#include <sinter/ops/random.ipp>
#include <sinter/ops/reduction.ipp>
#include <sinter/ops/registry.ipp>
#include <sinter/ops/scalar.ipp>
#include <sinter/ops/softmax.ipp>
#include <sinter/ops/statistics.ipp>
#include <sinter/ops/take.ipp>
#include <sinter/ops/val_ops.ipp>
#include <sinter/ops/view.ipp>
// kernel
#include <sinter/kernel/kernel.ipp>
// runtime
#include <sinter/runtime/threads.ipp>
// backend
#include <sinter/backend/reference/interpreter.ipp>
#include <sinter/backend/reference/product.ipp>
#include <sinter/backend/reference/program.ipp>
#include <sinter/backend/reference/reference.ipp>
#ifndef SINTER_NO_X86
#include <sinter/backend/x86/backend.ipp>
#include <sinter/backend/x86/code_memory.ipp>
#include <sinter/backend/x86/contraction.ipp>
#include <sinter/backend/x86/contraction_micro.ipp>
#include <sinter/backend/x86/contraction_pack.ipp>
#include <sinter/backend/x86/contraction_plan.ipp>
#include <sinter/backend/x86/contraction_vector.ipp>
#include <sinter/backend/x86/math.ipp>
#endif
