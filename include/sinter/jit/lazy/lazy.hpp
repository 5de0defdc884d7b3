// Lazy evaluation: what happens when a recorded value is needed. The pending nodes that give it become a graph; a graph
// seen for the first time runs op by op (its kernels are mostly known already), a hot one is fused. At a second size it
// becomes one graph for all sizes.
#pragma once

#include <sinter/base/config.hpp>

#include <cstdint>

SINTER_NAMESPACE_BEGIN
namespace jit {

/// Figures of the lazy cache of this process.
struct LazyStats {
  std::int64_t evaluations = 0;
  std::int64_t graphs = 0;   // different graphs that plans were made for
  std::int64_t dynamic = 0;  // of them, for many sizes: extents of inputs are symbols
  std::int64_t fused = 0;    // of them, compiled with fusion
  std::int64_t dropped = 0;  // plans that went because all together held too much
  std::int64_t bytes = 0;    // that the plans kept are taken to hold now
};
LazyStats lazy_stats();
void clear_lazy_cache();

}  // namespace jit
SINTER_NAMESPACE_END
