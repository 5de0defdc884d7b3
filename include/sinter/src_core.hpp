// Every definition of base, tensor and graph. Included by sinter.hpp when header-only, else by one translation unit:
// see src.hpp.
#pragma once
#include <sinter/base/config.hpp>
// From version 17 of Clang on, what may be passed and returned is decided for the file as a whole: see config.hpp.
#if defined(__clang__) && __FINITE_MATH_ONLY__
#if __clang_major__ >= 17
#error "Sinter needs NaN and infinities: add -fno-finite-math-only after -ffast-math, or link with sinter::compiled"
#include <Sinter_needs_infinities>
#endif
#endif
// base
#include <sinter/base/background.ipp>
#include <sinter/base/context.ipp>
#include <sinter/base/error.ipp>
#include <sinter/base/fork.ipp>
#include <sinter/base/instruction_file.ipp>
#include <sinter/base/log.ipp>
#include <sinter/base/pack_tile.ipp>
#include <sinter/base/per_thread.ipp>
#include <sinter/base/threads.ipp>
#include <sinter/base/timeline.ipp>
// tensor
#include <sinter/tensor/call_journal.ipp>
#include <sinter/tensor/device.ipp>
#include <sinter/tensor/device_memory.ipp>
#include <sinter/tensor/dim.ipp>
#include <sinter/tensor/dtype.ipp>
#include <sinter/tensor/guarded_memory.ipp>
#include <sinter/tensor/impl.ipp>
#include <sinter/tensor/memory_map.ipp>
#include <sinter/tensor/precision.ipp>
#include <sinter/tensor/shape.ipp>
#include <sinter/tensor/slot.ipp>
#include <sinter/tensor/storage.ipp>
// graph
#include <sinter/graph/attrs.ipp>
#include <sinter/graph/builder.ipp>
#include <sinter/graph/eager_call.ipp>
#include <sinter/graph/graph.ipp>
#include <sinter/graph/hash.ipp>
#include <sinter/graph/instance.ipp>
#include <sinter/graph/lexer.ipp>
#include <sinter/graph/op_info.ipp>
#include <sinter/graph/parse.ipp>
#include <sinter/graph/pending_node.ipp>
#include <sinter/graph/print.ipp>
#include <sinter/graph/trace.ipp>
#include <sinter/graph/verify.ipp>
