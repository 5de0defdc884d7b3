// What the operations of kernels take, as tools/fit_costs fitted it to measured kernels (docs/tuning.md). Knows counts;
// no machine: the figures are of one, and say how far off they are.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/kernel/cost.hpp>

SINTER_NAMESPACE_BEGIN

struct CostConstants {
  double launch = 0;  // seconds
  double bytes_per_second = 0, flops_per_second = 0, special_per_second = 0;
};
/// Fitted on 2026-11-26 to 31 kernels of 20 KB to 6 MB on 8 threads of an Intel Xeon (Sapphire Rapids, AVX-512):
/// relative error 34 % in the median, 135 % at the 90th percentile (small kernels in the caches are faster).
inline constexpr CostConstants cpu_costs{
    .launch = 0, .bytes_per_second = 1.06e11, .flops_per_second = 9.75e11, .special_per_second = 9.47e9};

/// Seconds that a kernel is expected to take.
constexpr double expected_seconds(const KernelCost& cost, const CostConstants& constants) {
  return constants.launch + (cost.bytes_read + cost.bytes_written) / constants.bytes_per_second +
         cost.flops / constants.flops_per_second + cost.special / constants.special_per_second;
}

SINTER_NAMESPACE_END
