// Every definition of base, tensor and graph. Included by sinter.hpp when header-only, else by one translation unit:
// see src.hpp.
#pragma once
// base
#include <sinter/base/context.ipp>
#include <sinter/base/error.ipp>
#include <sinter/base/fork.ipp>
#include <sinter/base/per_thread.ipp>
// tensor
#include <sinter/tensor/call_journal.ipp>
#include <sinter/tensor/device.ipp>
#include <sinter/tensor/device_memory.ipp>
#include <sinter/tensor/dim.ipp>
#include <sinter/tensor/impl.ipp>
#include <sinter/tensor/memory_map.ipp>
#include <sinter/tensor/precision.ipp>
#include <sinter/tensor/shape.ipp>
#include <sinter/tensor/slot.ipp>
#include <sinter/tensor/storage.ipp>
// graph
#include <sinter/graph/attrs.ipp>
#include <sinter/graph/eager_call.ipp>
#include <sinter/graph/graph.ipp>
#include <sinter/graph/pending_node.ipp>
