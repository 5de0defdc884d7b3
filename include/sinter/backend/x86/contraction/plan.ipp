// The decisions. None of them changes a result, only its time.
#pragma once

#include <sinter/backend/x86/contraction/plan.hpp>

#include <sinter/backend/x86/contraction/vector.hpp>
#include <sinter/backend/x86/nest/prepare.hpp>
#include <sinter/base/error.hpp>
#include <sinter/base/index.hpp>
#include <sinter/kernel/loop_nest/product.hpp>

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace x86 {
namespace x86_contraction_detail {

inline bool decline(std::string* why, std::string_view reason) {
  if (why != nullptr) *why = "x86 contraction: " + std::string(reason);
  return false;
}

/// Do the sums read the operand where it lies?
inline bool is_taken(const Kernel& kernel, const Inst& operand, ProductOperands operands) {
  if (operands == ProductOperands::computed) return is_plain_load(kernel, operand);
  return operand.prim == Prim::load && dtype_in_memory(kernel, operand.access) == DType::bf16;
}

/// What the micro-kernels have no code for.
inline std::string why_not_summed(const Kernel& kernel, ProductOperands operands) {
  if (kernel.kind != KernelKind::contraction) return "not a contraction";
  const auto contract =
      std::find_if(kernel.body.begin(), kernel.body.end(), [](const Inst& i) { return i.prim == Prim::contract; });
  if (contract == kernel.body.end()) return "not a contraction";
  if (contract->dtype != DType::f32 && contract->dtype != DType::f64)
    return "sums of " + std::string(name(contract->dtype));
  if (!kernel.orders.empty() && !(kernel.orders[0] == standard_order(kernel.kind, false)))
    return "sums in the order: " + kernel.orders[0].text();
  if (!is_taken(kernel, kernel.body[contract->args[0]], operands) ||
      !is_taken(kernel, kernel.body[contract->args[1]], operands))
    return operands == ProductOperands::computed ? "an operand is not a plain load"
                                                 : "an operand is not a load of bf16";
  return {};
}

inline void take_choices(const LoopNest& nest, ContractionParts& parts) {
  for (const Loop& loop : nest.loops)
    if (loop.range == sinter::LoopRange::tiles)
      (loop.axes == nest.calls[0].m ? parts.tile_rows : parts.tile_columns) = static_cast<int>(loop.step);
  for (const Buffer& buffer : nest.buffers) parts.keeps_packed |= buffer.lasts;
}

}  // namespace x86_contraction_detail

SINTER_DECL std::optional<ContractionParts> split_contraction(const Kernel& kernel, const Schedule& schedule, Isa isa,
                                                              std::string* why_declined, ProductOperands operands) {
  std::string why = x86_contraction_detail::why_not_summed(kernel, operands);
  std::optional<LoopNest> nest;
  if (why.empty()) nest = build_nest(kernel, schedule, machine_of(isa), IndexWidth::wide, why);
  if (!nest) {
    x86_contraction_detail::decline(why_declined, why);
    return std::nullopt;
  }
  const Call& call = nest->calls[0];
  ContractionParts parts;
  parts.dtype = kernel.body[call.value].dtype;
  parts.a = kernel.body[call.a].access;
  parts.b = kernel.body[call.b].access;
  x86_contraction_detail::take_choices(*nest, parts);
  parts.is_plain = operands == ProductOperands::computed && kernel.stores.size() == 1 &&
                   kernel.stores[0].value == call.value &&
                   dtype_in_memory(kernel, kernel.stores[0].access) == parts.dtype;
  if (parts.is_plain) {
    parts.store = kernel.stores[0].access;
    const auto& stride = kernel.accesses[parts.store].stride;
    const auto n = as_index(nest->vector_axis);
    parts.needs_epilogue = stride[n - 1] != StrideClass::unit && stride[n] != StrideClass::unit;
  }
  if (!parts.needs_epilogue) return parts;
  ProductEpilogue epilogue = epilogue_of(*nest);
  parts.epilogue = std::move(epilogue.kernel);
  parts.sum = static_cast<std::uint16_t>(parts.epilogue.accesses.size() - 1);
  parts.access_of = std::move(epilogue.access_of);
  const auto m = as_index(parts.epilogue.rank() - 2), n = m + 1;
  for (std::size_t i = 0; i < parts.sum; ++i) {
    const auto& stride = parts.epilogue.accesses[i].stride;
    parts.streams += stride[m] != StrideClass::zero && stride[n] == StrideClass::unit;
  }
  return parts;
}

SINTER_DECL MatrixView view_of(const Kernel& kernel, const BoundGeometry& geometry, std::uint16_t access, int row_axis,
                               int column_axis) {
  const auto& numbers = geometry.accesses[access];
  const std::int64_t element = size_of(kernel.operands[kernel.accesses[access].operand].dtype);
  MatrixView view;
  view.offset = numbers.offset * element;
  view.row_stride = numbers.stride[as_index(row_axis)] * element;
  view.column_stride = numbers.stride[as_index(column_axis)] * element;
  for (int axis = 0; axis < kernel.rank() - 3; ++axis)
    view.batch_stride[as_index(axis)] = numbers.stride[as_index(axis)] * element;
  return view;
}

namespace x86_contraction_detail {

/// C^T = B^T A^T: the operands change places, and rows and columns in each.
inline void swap_orientation(ContractionPlan& p) {
  std::swap(p.a, p.b);
  std::swap(p.m, p.n);
  for (MatrixView* view : {&p.a, &p.b, &p.c}) std::swap(view->row_stride, view->column_stride);
  p.is_swapped = true;
}

/// Size of a core's second-level cache.
inline std::int64_t l2_bytes() {
#ifdef _SC_LEVEL2_CACHE_SIZE
  static constinit std::atomic<long> known{0};
  long bytes = known.load(std::memory_order_relaxed);
  if (SINTER_UNLIKELY(bytes == 0))
    known = bytes = sysconf(_SC_LEVEL2_CACHE_SIZE);  // asks the processor, which is slow in a virtual machine
  if (bytes > 0) return bytes;
#endif
  return 1 << 20;
}

/// Most rows of a register tile of `vectors` vectors per row.
inline int most_rows(Isa isa, int vectors) {
  int rows = max_micro_rows;
  while (rows > 1 && !fits_registers(isa, rows, vectors)) --rows;
  return rows;
}

/// Whether rows of B lie apart, but not by pages, which would fall into the same few sets of the cache.
inline bool has_scattered_rows(const ContractionPlan& p) {
  constexpr std::int64_t far_apart = 1024, page = 4096;
  return p.b.row_stride > far_apart && p.b.row_stride % page != 0;
}

/// Whether the rows of A in a tile, side by side in k, fall into the same few sets of L1.
inline bool rows_share_sets(const ContractionPlan& p) {
  constexpr std::int64_t way = 4096;
  return p.walk == AWalk::unit_k && p.a.row_stride != 0 && p.a.row_stride % way == 0;
}

/// Vectors of a register tile of 7 to 511 rows, with AVX-512. Wide ones read and write longer parts of each row of B
/// and C, which pays where those are images (many columns), rather than weights, and come from memory.
inline int vectors_of_images(const ContractionPlan& p, bool b_is_made) {
  constexpr std::int64_t many_columns = 1024, short_sum = 32;
  if (p.walk == AWalk::unit_row) return 2;
  if (b_is_made) return p.n >= many_columns ? 4 : 2;
  if (p.packs_b || !has_scattered_rows(p) || (p.batches == 1 && 2 * p.n < 3 * p.k)) return 2;
  return p.k <= short_sum ? 8 : 4;
}

/// Few rows get wide tiles, so that there are always enough sums in flight to hide the latency of fma; but a packed
/// panel is kept narrow enough for L2.
inline int default_vectors(Isa isa, const ContractionPlan& p, bool b_is_made) {
  if (p.packs_b && p.m <= 3) return isa == Isa::avx512 ? 4 : p.m == 3 ? 3 : 4;
  if (isa == Isa::avx512) {
    if (p.m <= 6) return p.m == 1 ? 16 : p.m <= 3 ? 8 : 4;
    if (p.streams_results) return 4;  // longer parts of each row
    if (p.m >= 512 && p.walk != AWalk::unit_row) return 4;
    const int vectors = vectors_of_images(p, b_is_made);
    // Three of them have 9 rows, and a set has 12 lines.
    return vectors == 2 && !b_is_made && rows_share_sets(p) ? 3 : vectors;
  }
  return p.m == 1 ? 12 : p.m == 2 ? 6 : p.m == 3 ? 3 : 2;
}

/// As an optimiser's update of the weights whose gradients are summed, which reads and writes three arrays.
inline bool has_many_streams(const ContractionParts& parts) {
  constexpr int many = 4;
  return parts.streams >= many;
}

/// Cuts m into tiles of at most `rows`, as even as can be, and n into panels.
inline void set_tiles(ContractionPlan& p, std::int64_t rows, std::int64_t width) {
  p.width = width;
  p.panels = (p.n + p.width - 1) / p.width;
  p.tail_columns = p.n - (p.panels - 1) * p.width;
  p.tiles = (p.m + rows - 1) / rows;
  p.tile_rows = p.m / p.tiles;
  p.taller_tiles = p.m - p.tile_rows * p.tiles;
}

/// Products with a vector have methods of their own.
inline void choose_method(ContractionPlan& p, bool b_is_made) {
  if (b_is_made) return;
  constexpr std::int64_t in_cache_bytes = 1 << 19;
  const bool is_long_dot = p.k >= 2 * product_sum_block && p.b.row_stride == p.element;
  if (p.n == 1 && (p.m > 1 || is_long_dot) && p.a.column_stride == p.element) p.method = ProductMethod::dots_of_a;
  else if (p.m == 1 && p.n > 1 && p.b.row_stride == p.element && p.b.column_stride != p.element)
    p.method = ProductMethod::dots_of_b;
  else if (p.m == 1 && p.b.column_stride == p.element && p.n >= 64 && p.n * p.k * p.element > in_cache_bytes)
    p.method = ProductMethod::add_rows;
}

/// Columns of a part whose rows are scaled and added: as many as can be, but a part for each thread.
inline std::int64_t columns_at_once(const ContractionPlan& p, int threads) {
  constexpr std::int64_t least = 128, line = 16;
  const std::int64_t share = (p.n + threads - 1) / threads;
  return std::clamp((share + line - 1) / line * line, least, most_added_columns);
}

/// `rows_asked`, `columns_asked`: those of the nest's tiles.
inline void choose_tile(ContractionPlan& p, std::int64_t rows_asked, std::int64_t columns_asked, Isa isa, int threads,
                        bool b_is_made) {
  constexpr std::int64_t dots_at_once = 64;
  if (p.method == ProductMethod::dots_of_a) return set_tiles(p, dots_at_once, 1);
  if (p.method == ProductMethod::dots_of_b) return set_tiles(p, 1, dots_at_once);
  if (p.method == ProductMethod::add_rows) return set_tiles(p, 1, columns_at_once(p, threads));
  const std::int64_t lane_count = lanes(isa, p.dtype);
  int vectors = columns_asked != 0 ? static_cast<int>((columns_asked + lane_count - 1) / lane_count)
                                   : default_vectors(isa, p, b_is_made);
  vectors = std::clamp(vectors, 1, max_micro_vectors);
  vectors = static_cast<int>(std::min<std::int64_t>(vectors, (p.n + lane_count - 1) / lane_count));
  while (!fits_registers(isa, 1, vectors)) --vectors;
  std::int64_t rows = most_rows(isa, vectors);
  if (rows_asked != 0) rows = std::min(rows_asked, rows);
  set_tiles(p, rows, vectors * lane_count);
}

/// Whether A does not nearly stay in L2 while a panel of a made B takes all of it in. Then runs of k go outermost, each
/// over all panels of all batches.
inline bool streams_a(const ContractionPlan& p) { return p.m * p.k * p.element > 2 * l2_bytes(); }

/// Long sums go in runs, so that the part of A and of B in use stays in L2 and in reach of the address cache.
inline void choose_k_run(ContractionPlan& p, bool b_is_made) {
  constexpr std::int64_t longest_run = 2048, transposed_run = 512;
  const std::int64_t run = p.m < 512 && !b_is_made && rows_share_sets(p) ? 512 : 1024;
  const bool is_long = p.method == ProductMethod::tiles && p.m > 1 && p.k > (p.prefetches_a ? run : longest_run);
  const std::int64_t runs = is_long ? (p.k + run - 1) / (p.prefetches_a ? transposed_run : run) : 1;
  const std::int64_t in_blocks =
      ((p.k + runs - 1) / runs + product_sum_block - 1) / product_sum_block * product_sum_block;
  p.k_run = p.method != ProductMethod::tiles ? p.k : std::min({p.k, in_blocks, product_sum_group});
  if (b_is_made && p.k_run > product_sum_block && streams_a(p)) {
    const std::int64_t in_cache = l2_bytes() / 2 / (p.m * p.element) / product_sum_block * product_sum_block;
    p.k_run = std::clamp<std::int64_t>(in_cache, product_sum_block, p.k_run);
  }
  p.k_run = std::max<std::int64_t>(p.k_run, 1);
}

/// Blocks of rows whose part of A stays in L2 while the panels pass by, and enough of them for all threads. With B
/// packed, blocks are larger: they decide how often a panel is packed, or read back.
inline void choose_blocks(ContractionPlan& p, Isa isa, int threads) {
  const std::int64_t block_bytes = p.packs_b && !p.prefetches_a ? l2_bytes() : l2_bytes() / 4;
  const std::int64_t tile_bytes = std::max<std::int64_t>(1, (p.tile_rows + 1) * p.k_run * p.element);
  p.tiles_per_block = std::clamp<std::int64_t>(block_bytes / tile_bytes, 1, p.tiles);
  const std::int64_t wanted = threads > 1 ? std::int64_t{threads} * 4 : 1;  // each block reads B again
  while (p.tiles_per_block > 4 &&
         p.batches * p.panels * ((p.tiles + p.tiles_per_block - 1) / p.tiles_per_block) < wanted)
    p.tiles_per_block = (p.tiles_per_block + 1) / 2;
  p.blocks = (p.tiles + p.tiles_per_block - 1) / p.tiles_per_block;
  p.tiles_per_block = (p.tiles + p.blocks - 1) / p.blocks;
  p.blocks = (p.tiles + p.tiles_per_block - 1) / p.tiles_per_block;
  if (p.k_run < p.k) p.tiles_per_epilogue = p.tiles_per_block;
  else
    p.tiles_per_epilogue =
        std::clamp<std::int64_t>((16 << 10) / ((p.tile_rows + 1) * p.width * p.element), 1, p.tiles_per_block);
  // Products with a vector run at the speed of memory.
  const double flops_per_nanosecond = (p.method != ProductMethod::tiles ? 10.0
                                       : isa == Isa::avx512             ? 120.0
                                                                        : 60.0) *
                                      4 / static_cast<double>(p.element);
  // What goes before and after a task's sums counts: a product of 16x16x16 takes 120 ns.
  constexpr double each_nanoseconds = 60;
  const double flops = 2.0 * static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.k);
  p.nanoseconds_per_task = each_nanoseconds + flops / flops_per_nanosecond / static_cast<double>(p.panels * p.blocks);
}

/// B is packed where its columns are not adjacent, or where it is too large for L2 and read for more than a few rows;
/// rows that are no pages apart are read as they are for some more (AVX-512, whose panels are wide).
/// Narrow panels (AVX2) use one cache line of each row, so there rows that lie far apart are enough of a reason.
inline void choose_packing(ContractionPlan& p, bool b_is_made, Isa isa) {
  constexpr std::int64_t many_rows = 96, far_apart = 1024;
  const std::int64_t few_rows = isa == Isa::avx512 && p.walk == AWalk::unit_k && has_scattered_rows(p) ? 128 : 32;
  const bool has_unit_columns = p.b.column_stride == p.element || p.n == 1;
  const bool is_large = p.n * p.k * p.element > l2_bytes() / 4 * 5,
             is_scattered = isa == Isa::avx2 && p.b.row_stride > far_apart;
  p.packs_b = b_is_made || (p.method == ProductMethod::tiles &&
                            (!has_unit_columns || (is_large && p.m > few_rows) || (is_scattered && p.m >= many_rows)));
  p.prefetches_a = p.walk == AWalk::unit_row && p.a.column_stride > far_apart;
  p.prefetches_b = !p.packs_b && p.b.row_stride > far_apart && p.m > 1;
  p.b_is_shared = std::all_of(p.b.batch_stride.begin(), p.b.batch_stride.begin() + p.batch_axes,
                              [](std::int64_t s) { return s == 0; });
}

/// Where packed panels go, and for how many batches at once.
inline void choose_pack_memory(ContractionPlan& p, bool b_is_made) {
  constexpr std::int64_t elements_at_once = 8 << 20, many_rows = 512, many_blocks = 3;
  p.batches_per_pack = p.batches;
  if (!p.packs_b) return;
  const bool is_packed_once = p.blocks == 1 && (!p.b_is_shared || p.batches == 1);
  // A small B would be made by every block of rows.
  const bool is_made_once = b_is_made && p.blocks >= many_blocks && p.k <= product_sum_group &&
                            p.batches * p.panels * p.panel_bytes() <= 2 * l2_bytes();
  p.packs_per_task = (b_is_made && !is_made_once) || is_packed_once || (!b_is_made && p.m / p.blocks >= many_rows);
  p.keeps_runs_in_task = b_is_made && !streams_a(p);
  if (b_is_made && p.k > product_sum_group)  // the sums of groups wait beside those of all batches
    p.batches_per_pack =
        std::clamp<std::int64_t>(elements_at_once / std::max<std::int64_t>(p.m * p.panels * p.width, 1), 1, p.batches);
  if (p.packs_per_task) return;
  const std::int64_t one = p.panels * p.panel_bytes();
  if (!p.b_is_shared)
    p.batches_per_pack =
        std::clamp<std::int64_t>(elements_at_once * p.element / std::max<std::int64_t>(one, 1), 1, p.batches);
  p.pack_bytes = p.b_is_shared ? one : one * p.batches_per_pack;
}

/// Worth it where a part of B is more than the processor fetches ahead by itself, and is read only a few times. Fewer
/// tiles would not get through all rows.
inline void choose_preparation(ContractionPlan& p) {
  constexpr std::int64_t least_bytes = 16 << 10, most_tiles = 32;
  p.prepares_next = p.method == ProductMethod::tiles && !p.packs_b && p.tiles_per_block >= steps_per_row_ahead &&
                    p.tiles <= most_tiles && p.width * p.k_run * p.element >= least_bytes;
}

}  // namespace x86_contraction_detail

SINTER_DECL bool pack_once(ContractionPlan& plan) {
  constexpr std::int64_t most_bytes = std::int64_t{1} << 30;
  if (!plan.packs_b) return false;
  const std::int64_t one = plan.panels * plan.panel_bytes(), copies = plan.b_is_shared ? 1 : plan.batches;
  if (copies * one > most_bytes) return false;
  plan.packs_per_task = false;
  plan.batches_per_pack = plan.batches;
  plan.pack_bytes = copies * one;
  return true;
}

SINTER_DECL std::int64_t ContractionPlan::end_of_run(std::int64_t from) const {
  if (method != ProductMethod::tiles) return k;
  return std::min({from + k_run, (from / product_sum_group + 1) * product_sum_group, k});
}

SINTER_DECL BatchIndex ContractionPlan::batch_index(std::int64_t batch) const {
  BatchIndex index{};
  for (int axis = batch_axes; axis-- > 0;) {
    const auto at = as_index(axis);
    index[at] = batch % batch_extent[at];
    batch /= batch_extent[at];
  }
  return index;
}

SINTER_DECL ContractionPlan sizes_of(const Kernel& kernel, const ContractionParts& parts,
                                     const BoundGeometry& geometry) {
  ContractionPlan p;
  const int m = kernel.rank() - 3, n = m + 1, k = m + 2;
  p.batch_axes = m;
  for (int axis = 0; axis < m; ++axis) {
    p.batch_extent[as_index(axis)] = geometry.extent[as_index(axis)];
    p.batches *= geometry.extent[as_index(axis)];
  }
  p.m = geometry.extent[as_index(m)];
  p.n = geometry.extent[as_index(n)];
  p.k = geometry.extent[as_index(k)];
  p.a = view_of(kernel, geometry, parts.a, m, k);
  p.b = view_of(kernel, geometry, parts.b, k, n);
  return p;
}

SINTER_DECL ContractionPlan plan_contraction(const Kernel& kernel, const ContractionParts& parts,
                                             const BoundGeometry& geometry, Packing packing, Isa isa, int threads) {
  using namespace x86_contraction_detail;
  ContractionPlan p = sizes_of(kernel, parts, geometry);
  p.dtype = parts.dtype;
  p.element = size_of(p.dtype);
  if (p.batches == 0 || p.m == 0 || p.n == 0) return p;
  if (parts.is_plain) {
    p.c = view_of(kernel, geometry, parts.store, p.batch_axes, p.batch_axes + 1);
    p.is_direct = p.c.column_stride == p.element || p.n == 1;
    if (!p.is_direct && (p.c.row_stride == p.element || p.m == 1)) {
      swap_orientation(p);
      p.is_direct = true;
    }
  }
  ensure(p.is_direct || parts.needs_epilogue, "contraction: strides contradict their classes");
  p.walk = p.a.column_stride == p.element ? AWalk::unit_k
           : p.a.row_stride == p.element  ? AWalk::unit_row
                                          : AWalk::strided;
  p.streams_results = has_many_streams(parts);
  choose_method(p, parts.b_is_made);
  choose_packing(p, parts.b_is_made, isa);
  if (packing == Packing::always && p.method == ProductMethod::tiles) {
    p.packs_b = true;
    p.prefetches_b = false;
  }
  choose_tile(p, parts.tile_rows, parts.tile_columns, isa, threads, parts.b_is_made);
  choose_k_run(p, parts.b_is_made);
  choose_blocks(p, isa, threads);
  choose_pack_memory(p, parts.b_is_made);
  choose_preparation(p);
  return p;
}

}  // namespace x86
SINTER_NAMESPACE_END
