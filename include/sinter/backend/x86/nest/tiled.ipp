// The plan of tiles, and the launch that packs and runs them.
#pragma once

#include <sinter/backend/x86/nest/tiled.hpp>

#include <sinter/backend/x86/nest/scratch.hpp>
#include <sinter/base/address.hpp>
#include <sinter/base/index.hpp>
#include <sinter/base/pack_tile.hpp>
#include <sinter/base/threads.hpp>
#include <sinter/kernel/facts.hpp>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>

SINTER_NAMESPACE_BEGIN
namespace x86 {

namespace x86_detail {

/// Squares of fewer elements a side are no gain.
inline constexpr std::int64_t least_extent = 4;
/// Columns of a transposed tile are few: each is on a page of its own. Others go on in memory.
inline constexpr std::int64_t packed_bytes = 8192, least_tile_columns = 32, most_tile_columns = 512, line_bytes = 64;
/// Tiles of whole rows or whole reduced axes: wanted, and what a thread may hold.
inline constexpr std::int64_t wanted_whole_bytes = 131072, most_whole_bytes = 4 << 20, most_whole_columns = 128;

/// Accesses that only plain loads use: those may be read at any point, in any order.
inline std::uint64_t packable(const Kernel& kernel) {
  std::uint64_t plain = 0, other = 0;
  for (const Inst& inst : kernel.body)
    if (reads_memory(inst.prim)) (inst.prim == Prim::load ? plain : other) |= std::uint64_t{1} << inst.access;
  for (const Store& store : kernel.stores) other |= std::uint64_t{1} << store.access;
  for (std::size_t i = 0; i < kernel.accesses.size(); ++i)
    if (kernel.accesses[i].stride[as_index(kernel.rank() - 1)] != StrideClass::any) other |= std::uint64_t{1} << i;
  return plain & ~other;
}

inline std::int64_t bytes_of(const Kernel& kernel, std::size_t access) {
  return size_of(kernel.operands[kernel.accesses[access].operand].dtype);
}

/// Every second element of 4 or 8 bytes is taken from memory as it is: LoopBody::load_apart.
inline bool is_loaded_apart(const Kernel& kernel, std::size_t access, std::int64_t stride) {
  const DType dtype = kernel.operands[kernel.accesses[access].operand].dtype;
  return stride == 2 && !is_narrow(dtype) && dtype != DType::bool_;
}

/// Those that read across their rows, or leave elements out along them.
inline std::uint64_t strided_accesses(const Kernel& kernel, const BoundGeometry& geometry) {
  std::uint64_t strided = packable(kernel);
  for (std::size_t i = 0; i < kernel.accesses.size(); ++i)
    if (const std::int64_t stride = geometry.accesses[i].stride[as_index(kernel.rank() - 1)];
        stride == 0 || stride == 1 || is_loaded_apart(kernel, i, stride))
      strided &= ~(std::uint64_t{1} << i);
  return strided;
}

/// The axis along which most bytes of packed accesses are neighbours becomes the rows, else the innermost; it is taken
/// out of `axes`.
inline void choose_rows(TilePlan& plan, const SmallVector<NestBinding::Axis, max_axes>& axes, const Kernel& kernel,
                        const BoundGeometry& geometry) {
  std::int64_t most = 0;
  if (!axes.empty()) plan.rows = axes.back();
  for (const NestBinding::Axis& axis : axes) {
    std::int64_t bytes = 0;
    for (std::size_t i = 0; i < kernel.accesses.size(); ++i)
      if ((plan.packed >> i & 1) != 0 && geometry.accesses[i].stride[as_index(axis.axis)] == 1)
        bytes += bytes_of(kernel, i);
    if (bytes <= most) continue;
    most = bytes;
    plan.rows = axis;
  }
  for (const NestBinding::Axis& axis : axes)
    if (axis.axis != plan.rows.axis) plan.rest.push_back(axis);
  plan.is_transposed = most > 0;
}

/// Axes join the rows where every access runs on through them.
inline void merge_into_rows(TilePlan& plan, AxisMask indexed, const BoundGeometry& geometry) {
  const auto joins = [&](const NestBinding::Axis& axis) {
    return ((indexed >> axis.axis | indexed >> plan.rows.axis) & 1) == 0 &&
           std::all_of(geometry.accesses.begin(), geometry.accesses.end(), [&](const auto& access) {
             return access.stride[as_index(axis.axis)] == access.stride[as_index(plan.rows.axis)] * plan.rows.extent;
           });
  };
  for (std::size_t i = plan.rest.size(); i-- > 0;) {
    if (!joins(plan.rest[i])) continue;
    plan.rows.extent *= plan.rest[i].extent;
    plan.rest.erase(i);
    i = plan.rest.size();
  }
}

/// The packed part of a tile fills a quarter of a small first cache, and no row less than a line of what it reads.
inline void choose_extents(TilePlan& plan, const Kernel& kernel) {
  std::int64_t widest = 1, narrowest = 8, bytes = 0;
  for (std::size_t i = 0; i < kernel.accesses.size(); ++i) {
    if ((plan.packed >> i & 1) == 0) continue;
    widest = std::max(widest, bytes_of(kernel, i));
    bytes += bytes_of(kernel, i);
  }
  for (const Store& store : kernel.stores) narrowest = std::min(narrowest, bytes_of(kernel, store.access));
  const std::int64_t wanted = plan.is_transposed ? least_tile_columns : most_tile_columns;
  plan.tile_columns = std::min(plan.columns, std::max(wanted, line_bytes / narrowest));
  plan.tile_rows = std::max(packed_bytes / (bytes * plan.tile_columns), plan.is_transposed ? line_bytes / widest : 1);
  plan.tile_rows = std::min(plan.tile_rows, plan.rows.extent);
}

/// From row to row of what is packed: whole lines, and an odd number of them where rows are long, so that the columns
/// of a tile do not meet in one set of the caches.
inline std::int64_t pitch_of(std::int64_t bytes) {
  const std::int64_t lines = (bytes + line_bytes - 1) / line_bytes;
  return (lines >= 16 ? lines | 1 : lines) * line_bytes;
}

/// Bytes of a point of all packed accesses.
inline std::int64_t packed_point_bytes(const TilePlan& plan, const Kernel& kernel) {
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < kernel.accesses.size(); ++i)
    if ((plan.packed >> i & 1) != 0) bytes += bytes_of(kernel, i);
  return bytes;
}

/// The outer reduced axis that is not of one point, -1: none. Nothing where there are several.
inline std::optional<int> outer_reduced_axis(const Kernel& kernel, const BoundGeometry& geometry) {
  const int vector_axis = kernel.rank() - 1;
  int found = -1, near = -1;
  for (int a = 0; a < vector_axis; ++a) {
    if (!kernel.is_reduced(a)) continue;
    near = a;
    if (geometry.extent[as_index(a)] == 1) continue;
    if (found >= 0) return std::nullopt;
    found = a;
  }
  if (found >= 0 && found != near) return std::nullopt;  // the loop walks it from outside
  return found;
}

/// Does a kernel that reduces fit tiles? Its outer reduced axis, if it has one, is the rows, and the parallel ones are
/// the rest.
inline bool choose_reduced_rows(TilePlan& plan, const SmallVector<NestBinding::Axis, max_axes>& axes,
                                const Kernel& kernel, const BoundGeometry& geometry) {
  const std::optional<int> reduced = outer_reduced_axis(kernel, geometry);
  if (!reduced) return false;
  if (*reduced < 0) return kernel.kind == KernelKind::row;
  plan.rows = {*reduced, geometry.extent[as_index(*reduced)]};
  plan.rows_are_reduced = plan.is_transposed = true;
  plan.rest = axes;
  return true;
}

/// A kernel that reduces reads rows to their end: a tile has all of the vector axis where that is reduced, and all of
/// `rows` where those are. Only accesses with their neighbours along `rows` are packed. Is that possible, and small?
inline bool choose_whole_extents(TilePlan& plan, const Kernel& kernel, const BoundGeometry& geometry) {
  for (std::size_t i = 0; i < kernel.accesses.size(); ++i)
    if (geometry.accesses[i].stride[as_index(plan.rows.axis)] != 1) plan.packed &= ~(std::uint64_t{1} << i);
  if (plan.packed == 0) return false;
  const bool has_whole_columns = kernel.is_reduced(kernel.rank() - 1);
  const std::int64_t bytes = packed_point_bytes(plan, kernel);
  plan.tile_columns = plan.columns;
  plan.tile_rows = plan.rows.extent;
  if (!plan.rows_are_reduced) {
    plan.tile_rows = std::min(plan.tile_rows, std::max(packed_bytes / (bytes * plan.columns), line_bytes / 4));
    const auto tiles = [&] {
      std::int64_t count = (plan.rows.extent + plan.tile_rows - 1) / plan.tile_rows;
      for (const NestBinding::Axis& axis : plan.rest) count *= axis.extent;
      return count;
    };
    while (plan.tile_rows > least_extent && tiles() < thread_count()) plan.tile_rows = (plan.tile_rows + 1) / 2;
  } else if (!has_whole_columns) {
    const std::int64_t fitting = wanted_whole_bytes / (bytes * plan.tile_rows) / 16 * 16;
    plan.tile_columns = std::min(plan.columns, std::clamp<std::int64_t>(fitting, 16, most_whole_columns));
  }
  return bytes * plan.tile_rows * plan.tile_columns <= most_whole_bytes;
}

class TiledLaunch final : public Launch {
 public:
  TiledLaunch(std::shared_ptr<const LoopCode> code, const Kernel& kernel, const TilePlan& plan,
              const BoundGeometry& geometry, Streaming streaming)
      : code_(std::move(code)), plan_(plan), vector_axis_(kernel.rank() - 1), count_(kernel.accesses.size()) {
    fill_loop_args(args_, kernel, geometry, plan.rows_are_reduced ? -1 : plan.rows.axis);
    args_.status = &status_;
    args_.scratch_stride = code_->scratch_stride(plan.tile_columns);
    if (kernel.kind == KernelKind::row && plan.columns <= code_->short_columns()) short_rows_ = code_->short_rows();
    auto at = static_cast<std::int64_t>(code_->scratch_bytes(plan.tile_columns));
    for (std::size_t i = 0; i < count_; ++i) {
      Source& source = sources_.emplace_back();
      source.operand = kernel.accesses[i].operand;
      source.offset = offset_bytes(kernel, geometry, i);
      source.size = bytes_of(kernel, i);
      source.row_stride = geometry.accesses[i].stride[as_index(plan.rows.axis)] * source.size;
      for (const NestBinding::Axis& axis : plan.rest)
        source.stride.push_back(geometry.accesses[i].stride[as_index(axis.axis)] * source.size);
      if (!is_packed(i)) continue;
      source.row_bytes = pitch_of(plan.tile_columns * source.size);
      source.scratch = at;
      at += source.row_bytes * plan.tile_rows;
    }
    scratch_bytes_ = as_index(at);
    row_tiles_ = (plan.rows.extent + plan.tile_rows - 1) / plan.tile_rows;
    column_tiles_ = (plan.columns + plan.tile_columns - 1) / plan.tile_columns;
    tiles_ = row_tiles_ * column_tiles_;
    for (const NestBinding::Axis& axis : plan.rest) tiles_ *= axis.extent;
    if (streaming != Streaming::never) plan_streaming(kernel, streaming == Streaming::always ? 0 : streamed_bytes);
    prepare();
  }

  void run(void* const* operands) override {
    begin_tasks(operands);
    if (tiles_ == 1) return run_range(chosen_, 0, 1);
    parallel_for(tiles_, plan_.nanoseconds / static_cast<double>(tiles_),
                 [&](std::int64_t begin, std::int64_t end) { run_range(chosen_, begin, end); });
  }
  LaunchWork work() override { return {tiles_, plan_.nanoseconds}; }
  void begin_tasks(void* const* operands) override {
    for (std::size_t i = 0; i < count_; ++i)
      args_.pointer[i].base = displaced(static_cast<char*>(operands[sources_[i].operand]), sources_[i].offset);
    chosen_ = choose_function();
  }
  void run_tasks(std::int64_t begin, std::int64_t end) override { run_range(chosen_, begin, end); }
  /// A thread may have taken over frames that another one bound.
  void prepare() override { thread_scratch(scratch_bytes_); }

 private:
  struct Source {
    std::uint16_t operand = 0;
    std::int64_t offset = 0, size = 4, row_stride = 0;
    SmallVector<std::int64_t, max_axes> stride;  // bytes, per axis of the rest
    std::int64_t scratch = 0, row_bytes = 0;     // packed: its place in the scratch memory, and from row to row
  };
  bool is_packed(std::size_t access) const { return (plan_.packed >> access & 1) != 0; }

  /// Output larger than the caches goes past them.
  void plan_streaming(const Kernel& kernel, double cache_bytes) {
    double written = 0;
    for (const Store& store : kernel.stores) {
      const LoopArgs::Pointer& p = args_.pointer[store.access];
      const Source& source = sources_[store.access];
      bool is_aligned = p.column_stride == source.size && p.outer_stride % line_bytes == 0 &&
                        plan_.tile_columns * source.size % line_bytes == 0;
      for (const std::int64_t stride : source.stride) is_aligned = is_aligned && stride % line_bytes == 0;
      if (!is_aligned) return;
      written += static_cast<double>(tiles_ * plan_.tile_rows * plan_.tile_columns * source.size);
      stored_.push_back(store.access);
    }
    if (kernel.kind == KernelKind::pointwise && written > cache_bytes) streaming_ = code_->streaming();
  }
  LoopFunction choose_function() const {
    if (short_rows_ != nullptr) return short_rows_;
    if (streaming_ == nullptr) return code_->function();
    for (const std::uint16_t access : stored_)
      if (reinterpret_cast<std::uintptr_t>(args_.pointer[access].base) % line_bytes != 0) return code_->function();
    return streaming_;
  }

  void run_range(LoopFunction function, std::int64_t begin, std::int64_t end) const {
    LoopArgs local;
    std::memcpy(static_cast<void*>(&local), &args_, offsetof(LoopArgs, pointer) + count_ * sizeof(LoopArgs::Pointer));
    char* const scratch = static_cast<char*>(thread_scratch(scratch_bytes_));
    local.scratch = scratch;
    for (std::size_t i = 0; i < count_; ++i) {
      if (!is_packed(i)) continue;
      LoopArgs::Pointer& pointer = local.pointer[i];
      pointer.column_stride = sources_[i].size;
      (plan_.rows_are_reduced ? pointer.reduced_stride : pointer.outer_stride) = sources_[i].row_bytes;
    }
    for (std::int64_t tile = begin; tile < end; ++tile) run_tile(function, local, scratch, tile);
  }

  /// Tiles that follow each other go on along the rows' axis, where what is packed has its neighbours.
  void run_tile(LoopFunction function, LoopArgs& local, char* scratch, std::int64_t tile) const {
    const std::int64_t row = tile % row_tiles_ * plan_.tile_rows;
    tile /= row_tiles_;
    const std::int64_t column = tile % column_tiles_ * plan_.tile_columns;
    tile /= column_tiles_;
    const std::int64_t rows = std::min(plan_.tile_rows, plan_.rows.extent - row);
    local.columns = std::min(plan_.tile_columns, plan_.columns - column);
    local.index_origin[vector_axis_] = column;
    for (std::size_t i = 0; i < count_; ++i)
      local.pointer[i].base = displaced(args_.pointer[i].base, column * args_.pointer[i].column_stride);
    for (std::size_t r = plan_.rest.size(); r-- > 0;) {
      const std::int64_t at = tile % plan_.rest[r].extent;
      tile /= plan_.rest[r].extent;
      local.index_origin[plan_.rest[r].axis] = at;
      for (std::size_t i = 0; i < count_; ++i)
        local.pointer[i].base = displaced(local.pointer[i].base, at * sources_[i].stride[r]);
    }
    for (std::size_t i = 0; i < count_; ++i) {
      if (!is_packed(i)) continue;
      const Source& source = sources_[i];
      char* const to = scratch + source.scratch;
      pack_tile(to, source.row_bytes,
                {.from = displaced(local.pointer[i].base, row * source.row_stride),
                 .row_stride = source.row_stride,
                 .column_stride = args_.pointer[i].column_stride,
                 .rows = rows,
                 .columns = local.columns,
                 .size = static_cast<int>(source.size)});
      local.pointer[i].base = displaced(to, -row * source.row_bytes);
    }
    if (plan_.rows_are_reduced) function(&local, 0, 1);
    else function(&local, row, row + rows);
  }

  std::shared_ptr<const LoopCode> code_;
  TilePlan plan_;
  int vector_axis_;
  std::size_t count_;
  std::vector<Source> sources_;
  std::vector<std::uint16_t> stored_;
  LoopFunction streaming_ = nullptr, short_rows_ = nullptr, chosen_ = nullptr;
  std::size_t scratch_bytes_ = 0;
  std::int64_t row_tiles_ = 1, column_tiles_ = 1, tiles_ = 1;
  LoopArgs::Status status_;
  LoopArgs args_;
};

}  // namespace x86_detail

SINTER_DECL std::optional<TilePlan> plan_tiles(const NestBinder& binder, const BoundGeometry& geometry,
                                               double nanoseconds_per_element) {
  const Kernel& kernel = *binder.kernel;
  constexpr std::int64_t least_points = 256;
  const bool is_reduced = kernel.kind == KernelKind::row || kernel.kind == KernelKind::column;
  if (kernel.kind != KernelKind::pointwise && !is_reduced) return std::nullopt;
  TilePlan plan;
  plan.packed = x86_detail::strided_accesses(kernel, geometry);
  if (plan.packed == 0) return std::nullopt;
  for (const Inst& inst : kernel.body)
    if (inst.prim == Prim::gather) return std::nullopt;
  const NestBinding binding = binder.bind(geometry, {.nanoseconds_per_element = nanoseconds_per_element});
  if (binding.is_empty) return std::nullopt;
  SmallVector<NestBinding::Axis, max_axes> axes = binding.rest;
  if (binding.outer.axis >= 0) axes.push_back(binding.outer);
  std::sort(axes.begin(), axes.end(), [](const auto& a, const auto& b) { return a.axis < b.axis; });
  plan.columns = binding.columns;
  plan.nanoseconds = 2 * binding.nanoseconds;
  if (is_reduced && !x86_detail::choose_reduced_rows(plan, axes, kernel, geometry)) return std::nullopt;
  if (!plan.rows_are_reduced) {
    x86_detail::choose_rows(plan, axes, kernel, geometry);
    x86_detail::merge_into_rows(plan, binder.indexed, geometry);
  }
  plan.is_transposed &= plan.rows.extent >= x86_detail::least_extent;
  if (plan.columns < x86_detail::least_extent || plan.rows.extent * plan.columns < least_points) return std::nullopt;
  if (!is_reduced) x86_detail::choose_extents(plan, kernel);
  else if (!plan.is_transposed || !x86_detail::choose_whole_extents(plan, kernel, geometry)) return std::nullopt;
  return plan;
}

SINTER_DECL Kernel kernel_of_tile(const Kernel& kernel, const TilePlan& plan) {
  Kernel tile = kernel;
  for (std::size_t i = 0; i < tile.accesses.size(); ++i)
    if ((plan.packed >> i & 1) != 0) tile.accesses[i].stride[as_index(tile.rank() - 1)] = StrideClass::unit;
  return tile;
}

SINTER_DECL std::unique_ptr<Launch> make_tiled_launch(std::shared_ptr<const LoopCode> code, const Kernel& kernel,
                                                      const TilePlan& plan, const BoundGeometry& geometry,
                                                      Streaming streaming) {
  return std::make_unique<x86_detail::TiledLaunch>(std::move(code), kernel, plan, geometry, streaming);
}

}  // namespace x86
SINTER_NAMESPACE_END
