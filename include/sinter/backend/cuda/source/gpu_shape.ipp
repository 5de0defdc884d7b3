// The choices.
#pragma once

#include <sinter/backend/cuda/source/gpu_shape.hpp>

#include <sinter/backend/cuda/source/row_stream.hpp>
#include <sinter/base/index.hpp>
#include <sinter/kernel/loop_nest/loop_nest.hpp>

#include <algorithm>
#include <string>

SINTER_NAMESPACE_BEGIN
namespace cuda_source_detail {

/// Elements per access: 16 bytes of the dtype that most operands have.
inline int widest(const BoundKernel& bound) {
  std::int64_t largest = 1, smallest = 8;
  for (std::uint16_t access : bound.used_accesses()) {
    largest = std::max(largest, size_of(bound.dtype_of(access)));
    smallest = std::min(smallest, size_of(bound.dtype_of(access)));
  }
  return largest == 1 ? 16 : largest == 2 ? 8 : smallest == 8 ? 2 : 4;
}

SINTER_DECL int best_width(const BoundKernel& bound, const GpuNestOptions& options, int axis, bool may_have_tail) {
  int best = 1, most = 0;
  if (axis < 0) return 1;
  const int bytes = options.is_grouped ? 16 : options.schedule.find(ScheduleAction::vectorize).value_or(16);
  for (int width = widest(bound) * bytes / 16; width > 1; width /= 2) {
    if (!may_have_tail && bound.extent(axis) % width != 0) continue;
    const std::vector<std::uint16_t> used = bound.used_accesses();
    const auto packed = static_cast<int>(std::count_if(used.begin(), used.end(), [&](std::uint16_t access) {
      return options.is_aligned && bound.packs(access, axis, width);
    }));
    if (packed > most) {
      most = packed;
      best = width;
    }
  }
  return best;
}

SINTER_DECL KeptWalks kept_walks(const BoundKernel& bound) {
  KeptWalks walks;
  const std::size_t count = bound.kernel.body.size();
  std::vector<int>&first = walks.first, &last = walks.last;
  first.assign(count, -1), last.assign(count, -1);
  for (int pass = 0; pass <= bound.depths(); ++pass) {
    std::vector<InstId>& fresh = walks.fresh.emplace_back();
    if (!bound.facts.walks(pass)) continue;
    std::vector<bool> needed(count);
    for (const InstId reduction : reductions_of(bound.kernel, bound.facts, pass))
      for (int k = 0; k < arity(bound.inst(reduction).prim); ++k)
        needed[bound.inst(reduction).args[as_index(k)]] = true;
    if (pass == bound.depths())
      for (const std::uint16_t s : bound.facts.inner_stores) needed[bound.kernel.stores[s].value] = true;
    for (std::size_t i = count; i-- > 0;) {
      if (!needed[i] || !bound.is_inner(i)) continue;
      last[i] = pass;
      if (first[i] >= 0) continue;  // made by an earlier walk
      first[i] = pass;
      fresh.push_back(static_cast<InstId>(i));
      for (int k = 0; k < arity(bound.kernel.body[i].prim); ++k) needed[bound.kernel.body[i].args[as_index(k)]] = true;
    }
    std::reverse(fresh.begin(), fresh.end());
  }
  for (int pass = 0; pass <= bound.depths(); ++pass) {
    int words = 0, shared_words = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const bool is_held = first[i] >= 0 && first[i] < pass && last[i] >= pass,
                 is_loaded = first[i] == pass && bound.kernel.body[i].prim == Prim::load;
      const int own = size_of(bound.kernel.body[i].dtype) == 8 ? 2 : 1;
      if (is_held || is_loaded) words += own;
      if (!is_held && is_loaded && bound.is_shared_by_rows(static_cast<InstId>(i))) shared_words += own;
    }
    walks.words = std::max(walks.words, words);
    walks.own_words = std::max(walks.own_words, words - shared_words);
  }
  return walks;
}

/// Along rows, unless neighbouring columns lie side by side and neighbours along the row do not.
inline bool goes_by_columns(const BoundKernel& bound) {
  if (bound.parallel.empty()) return false;
  const int column = bound.parallel.back(), row = bound.reduced.back();
  std::int64_t votes = 0;
  for (std::uint16_t access : bound.used_accesses()) {
    std::int64_t elements = 1;
    for (int a = 0; a < bound.kernel.rank(); ++a)
      if (bound.stride_class(access, a) != StrideClass::zero)
        elements *= std::min<std::int64_t>(bound.extent(a), 1 << 12);
    votes += bound.stride_class(access, column) == StrideClass::unit ? elements : 0;
    votes -= bound.stride_class(access, row) == StrideClass::unit ? elements : 0;
  }
  return votes != 0 ? votes > 0 : !bound.kernel.is_reduced(bound.kernel.rank() - 1);
}

inline int full_walks(const BoundKernel& bound) {
  int walks = 0;
  for (int pass = 0; pass <= bound.depths(); ++pass) walks += bound.facts.walks(pass);
  return walks;
}

SINTER_DECL int ThreadShape::clusters_of_processor() const {
  return cluster > 1 ? std::max(1, most_block_lanes / threads()) : 1;
}
SINTER_DECL std::int64_t tiles_in_shared(const ThreadShape& shape, const cuda::Target& device,
                                         std::int64_t tile_bytes) {
  constexpr std::int64_t for_lanes = 4096;  // what reductions put together
  const std::int64_t bytes = static_cast<std::int64_t>(device.shared_bytes) / shape.clusters_of_processor() - for_lanes;
  return std::max<std::int64_t>(bytes, 0) / tile_bytes;
}
SINTER_DECL std::int64_t most_tiles_in_registers(const ThreadShape& shape, std::int64_t tile_bytes) {
  constexpr std::int64_t most_bytes = 128;  // of the 256 that a thread has
  return shape.cluster > 1 ? most_bytes * shape.threads() / tile_bytes : 0;
}

/// Blocks of 1024 threads share a row that one of them can hold neither in registers nor, where it is read once, in
/// shared memory, or that leaves processors idle since there are few. As few blocks as hold it in registers, or the
/// most there are, whose shared memory keeps the start of it. Numbers of elements of a thread as measured on an H200:
/// more blocks meet later, with more elements a block has fewer loads under way; what all rows share comes late.
inline void choose_cluster(const BoundKernel& bound, const GpuNestOptions& options, const KeptWalks& walks,
                           ThreadShape& shape) {
  constexpr int first_capability = 90, most_blocks = 8, block = most_block_lanes;
  constexpr std::int64_t least_elements = 8, many_elements = 32;
  if (options.device.capability < first_capability || shape.lanes != block || options.is_grouped) return;
  const auto held = [&](int blocks) {
    return quotient_up(quotient_up(shape.length, shape.width), std::int64_t{blocks} * block) * shape.width;
  };
  const bool is_heavy = bound.kernel.body.size() > 48, has_shared_loads = walks.words > walks.own_words;
  const std::int64_t usual = is_heavy           ? 8
                             : has_shared_loads ? many_elements
                                                : 20,
                     most = std::max(usual, is_heavy ? 8 : many_elements / walks.own_words),
                     shared = static_cast<std::int64_t>(options.device.shared_bytes);
  const bool fits_alone = shape.is_resident || (walks.own_words == 1 &&
                                                4 * shape.length <= (has_shared_loads ? shared : shared + shared / 5));
  int blocks = 1;
  while (!fits_alone && blocks < most_blocks && (blocks == 1 || held(blocks) > usual)) blocks *= 2;
  while (blocks < most_blocks && held(blocks) >= 2 * least_elements &&
         shape.items * blocks * 2 <= options.device.multiprocessors)
    blocks *= 2;
  if (blocks == 1) return;
  // Of many rows that half as many threads hold too, for the most part, two clusters run on the same processors: one
  // reads while another merges and writes.
  const bool are_many = shape.items * most_blocks > options.device.multiprocessors;
  constexpr std::int64_t most_of_two = 100;  // elements, of which 80 are kept in registers and shared memory
  const bool are_two =
      blocks == most_blocks && are_many && !is_heavy && walks.words == 1 && held(most_blocks / 2) <= most_of_two;
  const int threads = are_two ? block / 2 : block;
  const std::int64_t elements = are_two ? held(most_blocks / 2) : held(blocks);
  shape.cluster = blocks;
  shape.lanes = threads * blocks;
  shape.is_resident = elements <= (are_two ? many_elements : most);
  shape.loads_late = !are_two && shape.is_resident && elements < many_elements;
  // Of the rest small tiles are kept: more of them find room.
  shape.steps = shape.is_resident ? static_cast<int>(elements / shape.width) : std::min(shape.steps, 2);
}

inline void choose_row(const BoundKernel& bound, const GpuNestOptions& options, const KeptWalks& walks,
                       ThreadShape& shape) {
  const std::int64_t vectors = quotient_up(shape.length, shape.width);
  const auto accesses = options.schedule.find(ScheduleAction::unroll);  // of a thread
  if (accesses && full_walks(bound) > 1) {
    shape.lanes =
        static_cast<int>(std::clamp<std::int64_t>(power_of_2_at_least(quotient_up(vectors, *accesses)), 1, 1024));
    shape.steps = static_cast<int>(std::max<std::int64_t>(1, quotient_up(vectors, shape.lanes)));
    shape.is_resident = shape.steps * shape.width <= 64;
    shape.groups = std::max(1, 128 / shape.lanes);
    if (shape.is_resident) return;
  }
  const std::int64_t wanted_threads = std::int64_t{options.device.multiprocessors} * 1024;
  const int usual_steps = shape.width >= 4 ? 4 : shape.width == 2 ? 4 : 8;
  const bool is_heavy = bound.kernel.body.size() > 48;
  int most_elements = is_heavy ? 8 : std::max(4, 32 / walks.words);
  std::int64_t lanes = power_of_2_at_least(quotient_up(vectors, usual_steps));
  while (lanes < power_of_2_at_least(vectors) && lanes < 1024 && shape.items * lanes < wanted_threads) lanes *= 2;
  if (lanes > 32 && lanes <= 64 && vectors <= 32 * usual_steps) lanes = 32;
  lanes = std::clamp<std::int64_t>(lanes, 1, 1024);
  const bool rereads = full_walks(bound) > 1;
  if (rereads && !is_heavy && shape.length > most_elements * 1024 && 32 / walks.own_words > most_elements)
    most_elements = 32 / walks.own_words, shape.loads_late = true;
  while (rereads && lanes < 1024 && quotient_up(vectors, lanes) * shape.width > most_elements) lanes *= 2;
  const std::int64_t steps = quotient_up(vectors, lanes);
  shape.is_resident = rereads && steps * shape.width <= most_elements;
  shape.loads_late &= shape.is_resident;
  if (shape.is_resident) {
    shape.lanes = static_cast<int>(lanes);
    shape.steps = static_cast<int>(std::max<std::int64_t>(steps, 1));
  } else {
    shape.lanes = static_cast<int>(std::min<std::int64_t>(lanes, rereads ? 1024 : 256));
    shape.steps =
        static_cast<int>(std::clamp<std::int64_t>(quotient_up(vectors, shape.lanes), 1, is_heavy ? 2 : usual_steps));
  }
  if (rereads && !accesses && choose_stream(bound, options, walks, shape)) return;
  if (rereads && !accesses) choose_cluster(bound, options, walks, shape);
  shape.groups = std::max(1, 128 / shape.lanes);
}

inline void choose_column(const BoundKernel& bound, const cuda::Target& device, ThreadShape& shape) {
  const bool is_heavy = bound.kernel.body.size() > 48;
  std::int64_t lanes = std::clamp<std::int64_t>(power_of_2_at_least(quotient_up(shape.length, 8)), 1, 8);
  while (lanes < 32 && shape.items * lanes < std::int64_t{device.multiprocessors} * 256 && lanes * 8 < shape.length)
    lanes *= 2;
  std::int64_t groups = std::max<std::int64_t>(32, 256 / lanes);
  while (groups > 1 && groups / 2 >= shape.items) groups /= 2;
  while (groups * lanes < 256 && lanes * 8 < shape.length) lanes *= 2;
  while (groups * lanes < 32) groups *= 2;
  while (groups * lanes > 512) lanes /= 2;
  shape.lanes = static_cast<int>(lanes);
  shape.groups = static_cast<int>(groups);
  shape.steps = static_cast<int>(std::clamp<std::int64_t>(quotient_up(shape.length, lanes), 1,
                                                          is_heavy           ? 2
                                                          : shape.width >= 4 ? 4
                                                                             : 8));
}

/// Rows too few to keep the device busy are cut, if one walk is all.
inline void choose_splits(const BoundKernel& bound, const cuda::Target& device, ThreadShape& shape) {
  shape.chunk = std::max<std::int64_t>(shape.length, 1);
  const std::int64_t blocks = quotient_up(shape.items, shape.groups),
                     wanted = std::int64_t{device.multiprocessors} * 2048 / shape.threads();
  if (bound.depths() != 1 || !bound.facts.inner_stores.empty() || shape.is_resident || shape.team > 1 ||
      blocks * 2 > wanted)
    return;
  const std::int64_t tiles = quotient_up(shape.length, shape.tile());
  const std::int64_t splits = std::min({tiles / 2, wanted / blocks, std::int64_t{2048}});
  if (splits < 2) return;
  shape.chunk = quotient_up(tiles, splits) * shape.tile();
  shape.splits = quotient_up(shape.length, shape.chunk);
}

SINTER_DECL ThreadShape choose_reduction(const BoundKernel& bound, const GpuNestOptions& options,
                                         const KeptWalks& walks) {
  ThreadShape shape;
  shape.is_column = goes_by_columns(bound);
  shape.vector_axis = shape.is_column ? bound.parallel.back() : bound.reduced.back();
  shape.width = std::min(best_width(bound, options, shape.vector_axis, false), 4);
  shape.length = bound.points(bound.reduced);
  shape.items = bound.points(bound.parallel) / (shape.is_column ? shape.width : 1);
  if (shape.is_column) choose_column(bound, options.device, shape);
  else choose_row(bound, options, walks, shape);
  choose_splits(bound, options.device, shape);
  shape.is_exact = shape.length > 0 && shape.team == 1 &&
                   (shape.is_resident ? shape.tile() == shape.length
                                      : shape.chunk % shape.tile() == 0 && shape.length % shape.tile() == 0);
  return shape;
}

SINTER_DECL InstList scans_of(const BoundKernel& bound) {
  InstList list;
  for (const InstId id : inner_of(bound.kernel, bound.facts, 0))
    if (is_scan(bound.inst(id).prim)) list.push_back(id);
  return list;
}

SINTER_DECL bool depends_on_scan(const BoundKernel& bound, InstId scan) {
  const std::vector<bool> under = instructions_under(bound.kernel.body, bound.inst(scan).args[0]);
  for (std::size_t i = 0; i < under.size(); ++i)
    if (under[i] && is_scan(bound.kernel.body[i].prim)) return true;
  return false;
}

/// Few long columns are scanned as rows are, by a block of threads each. Rows too few to occupy the device are cut. How
/// many elements a thread has follows from the extents alone, not from what is computed beside: in which order a sum
/// adds up must not depend on that. What is scanned twice has one.
SINTER_DECL ScanShape choose_scan(const BoundKernel& bound, const cuda::Target& device) {
  constexpr std::int64_t few_columns = 64, long_column = 1024, least_piece = 4096, blocks_per_processor = 4;
  ScanShape shape;
  const std::int64_t length = bound.points(bound.reduced), items = bound.points(bound.parallel);
  const bool is_row = bound.kernel.kind == KernelKind::row && length >= 32;
  if (!is_row && (items > few_columns || length < long_column)) return shape;
  const InstList scans = scans_of(bound);
  shape.is_together = std::none_of(scans.begin(), scans.end(), [&](InstId id) { return depends_on_scan(bound, id); });
  std::int64_t pieces = 1;
  if (shape.is_together && !scans.empty() && bound.facts.outer_stores.empty() && items < device.multiprocessors)
    pieces = std::max<std::int64_t>(
        1, std::min(length / least_piece, blocks_per_processor * device.multiprocessors / items));
  shape.lanes = static_cast<int>(std::clamp<std::int64_t>(power_of_2_at_least(length), 32, 1024));
  if (items * pieces >= device.multiprocessors) shape.lanes = std::min(shape.lanes, 256);
  const std::int64_t piece = quotient_up(length, pieces);
  while (shape.steps < (shape.is_together ? 8 : 1) && 2 * shape.steps * shape.lanes <= piece) shape.steps *= 2;
  const std::int64_t tile = std::int64_t{shape.lanes} * shape.steps;
  shape.chunk = quotient_up(piece, tile) * tile;
  shape.pieces = quotient_up(length, shape.chunk);
  return shape;
}

}  // namespace cuda_source_detail
SINTER_NAMESPACE_END
