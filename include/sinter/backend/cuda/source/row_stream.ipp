// The choices.
#pragma once

#include <sinter/backend/cuda/source/row_stream.hpp>

#include <sinter/base/index.hpp>

#include <algorithm>

SINTER_NAMESPACE_BEGIN
namespace cuda_source_detail {

namespace row_stream_detail {
inline bool has(const std::vector<InstId>& list, InstId id) {
  return std::find(list.begin(), list.end(), id) != list.end();
}
inline bool is_own_load(const BoundKernel& bound, std::size_t id) {
  return bound.kernel.body[id].prim == Prim::load && bound.is_live(id) && bound.is_inner(id) &&
         !bound.is_shared_by_rows(static_cast<InstId>(id));
}
inline std::int64_t element_bytes(const BoundKernel& bound, InstId id) {
  const Inst& inst = bound.inst(id);
  return inst.prim == Prim::load ? size_of(bound.dtype_of(inst.access)) : size_of(computed_in(inst.dtype));
}
/// Bytes per point of a row.
inline std::int64_t point_bytes(const BoundKernel& bound, const RowStream& stream) {
  std::int64_t bytes = 0;
  for (const auto* list : {&stream.late, &stream.early, &stream.values})
    for (const InstId id : *list) bytes += stream.places(id) * element_bytes(bound, id);
  return bytes;
}
inline std::int64_t bytes_read(const BoundKernel& bound, const RowStream& stream) {
  std::int64_t bytes = 0;
  for (const auto* list : {&stream.late, &stream.early})
    for (const InstId id : *list) bytes += element_bytes(bound, id);
  return bytes;
}
/// Later walks load what they need, or (`keeps_values`) have what the first one computed.
inline RowStream stream_of(const BoundKernel& bound, const KeptWalks& walks, bool keeps_values) {
  RowStream stream;
  stream.walks = 0;
  for (int pass = 0; pass <= bound.depths(); ++pass) stream.walks += bound.facts.walks(pass);
  std::vector<bool> is_late(bound.kernel.body.size());
  for (int pass = 1; !keeps_values && pass <= bound.depths(); ++pass)
    if (bound.facts.walks(pass))
      for (const InstId id : needed_in_walk(bound, stream, pass)) is_late[id] = true;
  for (std::size_t i = 0; i < is_late.size(); ++i) {
    const auto id = static_cast<InstId>(i);
    const bool is_kept = walks.first[i] == 0 && walks.last[i] > 0;
    if (is_own_load(bound, i))
      (keeps_values ? walks.last[i] > 0 : bool{is_late[i]}) ? stream.late.push_back(id) : stream.early.push_back(id);
    else if (keeps_values && is_kept && bound.kernel.body[i].prim != Prim::load) stream.values.push_back(id);
  }
  return stream;
}
}  // namespace row_stream_detail

SINTER_DECL bool RowStream::keeps(InstId id) const {
  return row_stream_detail::has(late, id) || row_stream_detail::has(values, id);
}
SINTER_DECL int RowStream::places(InstId id) const {
  if (row_stream_detail::has(early, id)) return ahead;
  return (walks - 1) * lag + (row_stream_detail::has(late, id) ? ahead : 0);
}

SINTER_DECL std::vector<InstId> needed_in_walk(const BoundKernel& bound, const RowStream& stream, int pass) {
  std::vector<bool> is_needed(bound.kernel.body.size());
  const auto need_arguments = [&](const Inst& inst) {
    for (int k = 0; k < arity(inst.prim); ++k) is_needed[inst.args[as_index(k)]] = true;
  };
  for (const InstId id : reductions_of(bound.kernel, bound.facts, pass)) need_arguments(bound.inst(id));
  if (pass == bound.depths())
    for (const std::uint16_t s : bound.facts.inner_stores) is_needed[bound.kernel.stores[s].value] = true;
  // All that is copied is there with the first walk.
  for (std::size_t k = 0; pass == 0 && k < stream.late.size(); ++k) is_needed[stream.late[k]] = true;
  std::vector<InstId> needed;
  for (std::size_t i = is_needed.size(); i-- > 0;) {
    const auto id = static_cast<InstId>(i);
    if (!is_needed[i] || !bound.is_inner(i)) continue;
    needed.push_back(id);
    if (pass == 0 || !stream.keeps(id)) need_arguments(bound.inst(id));
  }
  std::reverse(needed.begin(), needed.end());
  return needed;
}

SINTER_DECL RowStream row_stream(const BoundKernel& bound, const KeptWalks& walks) {
  const RowStream values = row_stream_detail::stream_of(bound, walks, true),
                  loads = row_stream_detail::stream_of(bound, walks, false);
  return row_stream_detail::point_bytes(bound, values) < row_stream_detail::point_bytes(bound, loads) ? values : loads;
}

SINTER_DECL std::int64_t place_bytes(const BoundKernel& bound, const ThreadShape& shape, InstId id) {
  return std::int64_t{shape.threads()} * shape.steps * shape.width * row_stream_detail::element_bytes(bound, id);
}
SINTER_DECL std::int64_t ring_bytes(const BoundKernel& bound, const ThreadShape& shape, const RowStream& stream) {
  return std::int64_t{shape.threads()} * shape.steps * shape.width * row_stream_detail::point_bytes(bound, stream);
}

namespace row_stream_detail {
/// A multiprocessor has a kilobyte more than a block may have, and each block leaves one to the system; another is for
/// what reductions put together.
inline std::int64_t room(const cuda::Target& device) {
  constexpr std::int64_t of_system = 1024, for_lanes = 1024;
  return (static_cast<std::int64_t>(device.shared_bytes) + of_system) / RowStream::blocks_of_processor - of_system -
         for_lanes;
}

/// Sums and extrema of four bytes, which a word of eight takes along with the number of its row; operands that a thread
/// copies by vectors.
inline bool is_streamable(const BoundKernel& bound, const GpuNestOptions& options, const ThreadShape& shape) {
  const int axis = shape.vector_axis;
  int numbers = 0;
  bool loads_of_rows = false;
  for (std::size_t i = 0; i < bound.kernel.body.size(); ++i) {
    const Inst& inst = bound.kernel.body[i];
    if (!bound.is_live(i)) continue;
    if (inst.prim == Prim::gather || inst.prim == Prim::guarded_load || inst.prim == Prim::fold) return false;
    if (is_reduction(inst.prim)) {
      const DType dtype = computed_in(inst.dtype);
      if ((dtype != DType::f32 && dtype != DType::i32) || ++numbers > RowStream::most_numbers) return false;
    }
    if (inst.prim != Prim::load) continue;
    loads_of_rows |= !bound.is_inner(i);
    if (!is_own_load(bound, i)) continue;
    const std::int64_t bytes = element_bytes(bound, static_cast<InstId>(i)) * shape.width;
    const bool is_vector = bound.varies(static_cast<InstId>(i), axis) && options.is_aligned &&
                           (shape.width == 1 || bound.packs(inst.access, axis, shape.width));
    if (!is_vector || (bytes != 4 && bytes != 8 && bytes != 16)) return false;
  }
  // A block may still read numbers of a row when another one has written its results.
  return bound.facts.outer_stores.empty() || !loads_of_rows;
}
}  // namespace row_stream_detail

/// As many teams as have room for a row each: blocks that meet are few then, and each has much to do in between.
SINTER_DECL bool choose_stream(const BoundKernel& bound, const GpuNestOptions& options, const KeptWalks& walks,
                               ThreadShape& shape) {
  constexpr int first_capability = 90, most_steps = 8, heavy = 48;
  // Of a row and of all, for each multiprocessor. As measured on an H100: what clusters hold, they compute sooner.
  constexpr std::int64_t of_row = 992, of_short_walks = 1985, of_all = 1 << 17, least_rows = 16;
  const std::int64_t processors = options.device.multiprocessors;
  if (options.device.capability < first_capability || !options.device.runs_blocks_at_once || options.is_grouped ||
      bound.kernel.body.size() > heavy || shape.items < least_rows ||
      shape.items * shape.length < of_all * processors || !row_stream_detail::is_streamable(bound, options, shape))
    return false;
  const RowStream stream = row_stream(bound, walks);
  if (stream.walks > RowStream::most_walks || row_stream_detail::bytes_read(bound, stream) < 8 ||
      shape.length < processors * (stream.walks > 2 ? of_row : of_short_walks))
    return false;
  ThreadShape streamed = shape;
  streamed.lanes = RowStream::threads;
  streamed.groups = 1;
  streamed.is_resident = streamed.loads_late = false;
  const std::int64_t blocks = processors * RowStream::blocks_of_processor,
                     vectors = quotient_up(shape.length, shape.width);
  for (std::int64_t teams = std::min(blocks / 2, shape.items); teams > 0; --teams) {
    streamed.team = static_cast<int>(blocks / teams);
    const std::int64_t steps = quotient_up(vectors, std::int64_t{streamed.team} * RowStream::threads);
    streamed.steps = static_cast<int>(std::min<std::int64_t>(steps, most_steps + 1));
    if (steps > most_steps || ring_bytes(bound, streamed, stream) > row_stream_detail::room(options.device)) continue;
    shape = streamed;
    return true;
  }
  return false;
}

}  // namespace cuda_source_detail
SINTER_NAMESPACE_END
