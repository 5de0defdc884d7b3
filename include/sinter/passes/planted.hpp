// A pass that tests plant to see that its fault is found. Nothing else knows of it.
#pragma once

#include <sinter/passes/pipeline.hpp>

#include <atomic>

SINTER_NAMESPACE_BEGIN
namespace passes_detail {

/// Runs after the others; null: there is none.
inline constinit std::atomic<const PipelinePass*> planted_pass{nullptr};

}  // namespace passes_detail
SINTER_NAMESPACE_END
