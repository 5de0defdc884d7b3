// How many rows make a block, what is packed, and when B is read as it lies.
#pragma once

#include <sinter/backend/x86/contraction/narrow_plan.hpp>

#include <sinter/backend/x86/contraction/narrow_rows.hpp>
#include <sinter/backend/x86/contraction/plan.ipp>
#include <sinter/base/index.hpp>

#include <algorithm>

SINTER_NAMESPACE_BEGIN
namespace x86 {
namespace x86_narrow_detail {

inline bool is_shared(const ContractionPlan& p, const MatrixView& view) {
  return std::all_of(view.batch_stride.begin(), view.batch_stride.begin() + p.batch_axes,
                     [](std::int64_t s) { return s == 0; });
}

/// Rows whose part of A stays in L2 beside a panel, and enough blocks for all threads.
inline void choose_rows(NarrowPlan& p, int threads) {
  constexpr std::int64_t most_rows = 256, unit_rows = 32;
  const std::int64_t row_bytes = std::max<std::int64_t>(p.steps * narrow_step * element_bytes, 1);
  const std::int64_t in_cache = x86_contraction_detail::l2_bytes() / 2 / row_bytes / unit_rows * unit_rows;
  p.block_rows = std::clamp(in_cache, unit_rows, most_rows);
  const std::int64_t wanted = threads > 1 ? std::int64_t{threads} * 4 : 1;
  while (p.block_rows > 2 * unit_rows &&
         p.shape.batches * p.shape.panels * ((p.shape.m + p.block_rows - 1) / p.block_rows) < wanted)
    p.block_rows = (p.block_rows / 2 + unit_rows - 1) / unit_rows * unit_rows;
  p.blocks = (p.shape.m + p.block_rows - 1) / p.block_rows;
  const std::int64_t even = (p.shape.m + p.blocks - 1) / p.blocks;
  p.block_rows = (even + unit_rows - 1) / unit_rows * unit_rows;
  p.blocks = (p.shape.m + p.block_rows - 1) / p.block_rows;
}

/// Whether B is read once, as it lies: laying it out takes longer.
inline void choose_direct(NarrowPlan& p, ProductUnit unit) {
  using x86_narrow_rows_detail::most_direct_columns_rows;
  using x86_narrow_rows_detail::most_direct_rows;
  const ContractionPlan& s = p.shape;
  if (unit != ProductUnit::amx || (s.b_is_shared && s.batches > 1) || s.k == 0) return;
  const bool has_rows = s.b.column_stride == element_bytes && s.m <= most_direct_rows;
  p.is_direct_by_columns = !has_rows && s.b.row_stride == element_bytes && s.m <= most_direct_columns_rows;
  p.is_direct = has_rows || p.is_direct_by_columns;
}

inline void choose_packs(NarrowPlan& p) {
  constexpr std::int64_t bytes_at_once = 16 << 20, page = 4096, line = 64;
  const ContractionPlan& s = p.shape;
  p.packs_a = !p.is_direct && s.a.column_stride != element_bytes && s.k > 1;
  p.a_is_shared = is_shared(s, s.a);
  p.a_stride = s.a.row_stride;
  if (p.packs_a) {
    p.a_stride = p.steps * narrow_step * element_bytes;
    if (p.a_stride % page == 0) p.a_stride += line;  // else all rows fall into the same few sets of the cache
  }
  p.packs_b_per_task = p.blocks == 1 && !(s.b_is_shared && s.batches > 1);
  std::int64_t bytes = p.packs_a && !p.a_is_shared ? p.batch_bytes_of_a() : 0;
  if (!p.packs_b_per_task && !s.b_is_shared) bytes += p.batch_bytes_of_b();
  p.batches_per_pass =
      bytes == 0 ? s.batches : std::clamp<std::int64_t>(bytes_at_once / bytes, 1, std::max<std::int64_t>(s.batches, 1));
}

SINTER_DECL NarrowPlan plan_narrow(const Kernel& kernel, const ContractionParts& parts, const BoundGeometry& geometry,
                                   ProductUnit unit, int threads) {
  NarrowPlan p;
  ContractionPlan& s = p.shape;
  s = sizes_of(kernel, parts, geometry);
  s.b_is_shared = is_shared(s, s.b);
  s.width = narrow_width;
  s.panels = (s.n + s.width - 1) / s.width;
  s.tail_columns = s.n - (s.panels - 1) * s.width;
  p.steps = (s.k + narrow_step - 1) / narrow_step;
  if (s.batches == 0 || s.m == 0 || s.n == 0) {
    s.batches = 0;
    return p;
  }
  choose_rows(p, threads);
  choose_direct(p, unit);
  choose_packs(p);
  const double products = static_cast<double>(std::min(p.block_rows, s.m)) * static_cast<double>(s.width * s.k);
  p.nanoseconds_per_task = 50 + products / (unit == ProductUnit::amx ? 1000 : 60);
  if (p.packs_b_per_task) p.nanoseconds_per_task += (p.is_direct ? 0.1 : 0.15) * static_cast<double>(s.width * s.k);
  return p;
}

}  // namespace x86_narrow_detail
}  // namespace x86
SINTER_NAMESPACE_END
