// The choice of a shape.
#pragma once

#include <sinter/backend/cuda/source/reduction_shape.hpp>

#include <sinter/backend/cuda/source/pointwise.hpp>

#include <algorithm>
#include <string>

SINTER_NAMESPACE_BEGIN
namespace cuda_source_detail {

/// Along rows, unless neighbouring columns lie side by side and neighbours along the row do not.
inline bool goes_by_columns(const Nest& nest) {
  if (nest.parallel.empty()) return false;
  const int column = nest.parallel.back(), row = nest.reduced.back();
  std::int64_t votes = 0;
  for (std::uint16_t access : nest.used_accesses()) {
    std::int64_t elements = 1;
    for (int a = 0; a < nest.kernel.rank(); ++a)
      if (nest.stride_class(access, a) != StrideClass::zero)
        elements *= std::min<std::int64_t>(nest.extent(a), 1 << 12);
    votes += nest.stride_class(access, column) == StrideClass::unit ? elements : 0;
    votes -= nest.stride_class(access, row) == StrideClass::unit ? elements : 0;
  }
  return votes != 0 ? votes > 0 : !nest.kernel.is_reduced(nest.kernel.rank() - 1);
}

inline int full_walks(const Nest& nest) {
  int walks = 0;
  for (int pass = 0; pass <= nest.depths(); ++pass) walks += nest.is_full_walk(pass);
  return walks;
}

inline void choose_row(const Nest& nest, const Target& device, const Schedule& schedule, ReductionShape& shape) {
  const std::int64_t vectors = quotient_up(shape.length, shape.width);
  const auto accesses = schedule.find(ScheduleAction::unroll);  // of a thread
  if (accesses && full_walks(nest) > 1) {
    shape.lanes =
        static_cast<int>(std::clamp<std::int64_t>(power_of_2_at_least(quotient_up(vectors, *accesses)), 1, 1024));
    shape.steps = static_cast<int>(quotient_up(vectors, shape.lanes));
    shape.is_resident = shape.steps * shape.width <= 64;
    shape.groups = std::max(1, 128 / shape.lanes);
    if (shape.is_resident) return;
  }
  const std::int64_t wanted_threads = std::int64_t{device.multiprocessors} * 1024;
  const int usual_steps = shape.width >= 4 ? 4 : shape.width == 2 ? 4 : 8;
  const bool is_heavy = nest.kernel.body.size() > 48;
  const Nest::KeptWalks walks = nest.kept_walks();
  int most_elements = is_heavy ? 8 : std::max(4, 32 / walks.words);
  std::int64_t lanes = power_of_2_at_least(quotient_up(vectors, usual_steps));
  while (lanes < power_of_2_at_least(vectors) && lanes < 1024 && shape.items * lanes < wanted_threads) lanes *= 2;
  if (lanes > 32 && lanes <= 64 && vectors <= 32 * usual_steps) lanes = 32;
  lanes = std::clamp<std::int64_t>(lanes, 1, 1024);
  const bool rereads = full_walks(nest) > 1;
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
  shape.groups = std::max(1, 128 / shape.lanes);
}

inline void choose_column(const Nest& nest, const Target& device, ReductionShape& shape) {
  const bool is_heavy = nest.kernel.body.size() > 48;
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
inline void choose_splits(const Nest& nest, const Target& device, ReductionShape& shape) {
  shape.chunk = std::max<std::int64_t>(shape.length, 1);
  const std::int64_t blocks = quotient_up(shape.items, shape.groups),
                     wanted = std::int64_t{device.multiprocessors} * 2048 / shape.threads();
  if (nest.depths() != 1 || !nest.inner_stores.empty() || shape.is_resident || blocks * 2 > wanted) return;
  const std::int64_t tiles = quotient_up(shape.length, shape.tile());
  const std::int64_t splits = std::min({tiles / 2, wanted / blocks, std::int64_t{2048}});
  if (splits < 2) return;
  shape.chunk = quotient_up(tiles, splits) * shape.tile();
  shape.splits = quotient_up(shape.length, shape.chunk);
}

SINTER_DECL ReductionShape choose_reduction(Writer& w) {
  const Nest& nest = w.nest;
  ReductionShape shape;
  shape.is_column = goes_by_columns(nest);
  shape.vector_axis = shape.is_column ? nest.parallel.back() : nest.reduced.back();
  shape.width = std::min(best_width(w, shape.vector_axis, false), 4);
  shape.length = nest.points(nest.reduced);
  shape.items = nest.points(nest.parallel) / (shape.is_column ? shape.width : 1);
  if (shape.is_column) choose_column(nest, w.device, shape);
  else choose_row(nest, w.device, w.schedule, shape);
  choose_splits(nest, w.device, shape);
  shape.is_exact =
      shape.length > 0 && (shape.is_resident ? shape.tile() == shape.length
                                             : shape.chunk % shape.tile() == 0 && shape.length % shape.tile() == 0);
  return shape;
}

/// The thread's row or columns. Threads past the end repeat the last one, and store nothing.
SINTER_DECL IndexNames write_place(Writer& w, const ReductionShape& shape) {
  const Nest& nest = w.nest;
  const auto str = [](std::int64_t number) { return std::to_string(number); };
  const std::string lanes = str(shape.lanes), groups = str(shape.groups);
  if (shape.is_column) {
    w.line("const int group = (int)(threadIdx.x % " + groups + "), lane = (int)(threadIdx.x / " + groups + ");");
  } else {
    w.line("const int lane = (int)(threadIdx.x % " + lanes + "), group = (int)(threadIdx.x / " + lanes + ");");
  }
  const std::string items = w.number("items", shape.items);
  w.line("const I wanted = (I)blockIdx.x * " + groups + " + group;");
  w.line("const bool is_live = wanted < " + items + ";");
  w.line("const I item = is_live ? wanted : " + items + " - 1;");
  IndexNames place = w.decode("item", nest.parallel, shape.is_column ? shape.width : 1);
  const std::string length = w.number("length", shape.length);
  if (shape.splits > 1) {
    const std::string chunk = w.number("chunk", shape.chunk);
    w.line("const I begin = (I)blockIdx.y * " + chunk + ";");
    w.line("const I end = begin + " + chunk + " < " + length + " ? begin + " + chunk + " : " + length + ";");
  } else {
    w.line("const I begin = 0, end = " + length + ";");
  }
  return place;
}

}  // namespace cuda_source_detail
SINTER_NAMESPACE_END
