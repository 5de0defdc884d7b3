// Binding, the walk over blocks, and three ways to share work out over threads: by axes along which places differ, by
// ranges of the target (each thread walks all indices and applies those in its range), and by partial results where
// the combiner is exact.
#pragma once

#include <sinter/backend/x86/scatter/scatter.hpp>

#include <sinter/backend/x86/nest/driver.ipp>
#include <sinter/backend/x86/scatter/elements.hpp>
#include <sinter/backend/x86/scatter/parts.hpp>
#include <sinter/base/address.hpp>
#include <sinter/base/index.hpp>
#include <sinter/base/threads.hpp>
#include <sinter/kernel/gather_error.hpp>
#include <sinter/runtime/backend.hpp>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <limits>
#include <memory>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace x86 {
namespace x86_detail {

inline constexpr std::int64_t scatter_block = 2048;  // points whose indices and values are computed at once
inline constexpr std::int64_t tile_bytes = scatter_block * 8;

class ScatterLaunch final : public Launch {
 public:
  ScatterLaunch(std::shared_ptr<const ScatterShape> shape, const BoundGeometry& geometry)
      : shape_(std::move(shape)), geometry_(geometry) {
    list_axes();
    const auto& target = geometry_.accesses[shape_->store.access];
    places_ = {target.gather_extent, shape_->index.wrap};
    gather_stride_ = target.gather_stride * element_size();
    functions_ = x86::scatter_functions(dtype(), index_dtype(), shape_->store.combine);
    check_ = check_function(index_dtype());
    if (is_empty_) return;
    fill_args(shape_->index);
    fill_args(shape_->value);
    fill_args(shape_->update);
    is_narrow_ = shape_->is_by_rows && shape_->reads_value && columns() < widest_narrow_row &&
                 target.stride[as_index(column_)] == 1 &&
                 geometry_.accesses[shape_->value.access].stride[as_index(column_)] == 1;
    plan_threads();
    thread_scratch(2 * tile_bytes);  // run() is to allocate nothing
  }

  void run(void* const* operands) override {
    if (is_empty_) return;
    operands_ = operands;
    bad_index_.store(no_bad_index, std::memory_order_relaxed);
    if (sharing_ == Sharing::partials) run_partials();
    else if (!saved_.empty()) run_with_way_back();
    else {
      check_all();
      throw_if_bad();
      run_shared();
    }
    throw_if_bad();
  }
  void prepare() override {
    if (!is_empty_) thread_scratch(2 * tile_bytes);
  }

 private:
  struct Axis {
    int axis;
    std::int64_t extent;
  };
  enum class Sharing : std::uint8_t { none, axes, columns, ranges, partials };
  /// A part of the work: places of the target and columns outside of it are left out.
  struct Share {
    std::int64_t first_place = 0, end_place = 0;
    std::int64_t first_column = 0, end_column = 0;
    char* target = nullptr;  // partial results; null: the target itself
  };
  /// The point of the outer axes, and the arguments of the compiled loops there.
  struct Walker {
    std::array<std::int64_t, max_axes> at{};
    LoopArgs args;
    char* index_tile = nullptr;
    char* value_tile = nullptr;
  };

  const Kernel& kernel() const { return shape_->kernel; }
  DType dtype() const { return kernel().body[shape_->store.value].dtype; }
  DType index_dtype() const { return kernel().body[shape_->store.index].dtype; }
  std::int64_t element_size() const { return size_of(dtype()); }
  std::int64_t columns() const { return geometry_.extent[as_index(column_)]; }
  std::int64_t rows() const { return row_ < 0 ? 1 : geometry_.extent[as_index(row_)]; }

  // Binding ----------------------------------------------------------------------------------------------------------

  void list_axes() {
    column_ = kernel().rank() - 1;
    row_ = kernel().rank() - 2;
    points_ = 1;
    for (int a = 0; a < kernel().rank(); ++a) {
      const std::int64_t extent = geometry_.extent[as_index(a)];
      is_empty_ |= extent == 0;
      points_ *= extent;
      if (a >= kernel().rank() - 2 || extent == 1) continue;
      if (shape_->is_free(a)) {
        free_.push_back({a, extent});
        free_points_ *= extent;
      } else {
        colliding_.push_back({a, extent});
        colliding_points_ *= extent;
      }
    }
  }

  /// Elements from an operand's start at the point of a walker, index 0.
  std::int64_t offset(const Walker& walker, const Kernel& of, std::size_t access) const {
    const auto& numbers = geometry_.accesses[access];
    std::int64_t elements = numbers.offset;
    for (const Axis& axis : free_) elements += walker.at[as_index(axis.axis)] * numbers.stride[as_index(axis.axis)];
    for (const Axis& axis : colliding_)
      elements += walker.at[as_index(axis.axis)] * numbers.stride[as_index(axis.axis)];
    return elements * size_of(of.operands[of.accesses[access].operand].dtype);
  }

  /// What of the arguments does not depend on the place.
  void fill_args(const ScatterPart& part) {
    if (part.code == nullptr) return;
    BoundGeometry geometry = geometry_;
    geometry.accesses.resize(part.kernel.accesses.size());
    if (&part != &shape_->update) geometry.accesses[part.access] = {};
    LoopArgs& args = args_.emplace_back(&part, LoopArgs{}).second;
    fill_loop_args(args, part.kernel, geometry, row_);
    args.status = &status_;
    if (&part == &shape_->update) return;
    LoopArgs::Pointer& tile = args.pointer[part.access];
    tile.column_stride = size_of(part.dtype);
  }
  const LoopArgs& args_of(const ScatterPart& part) const {
    for (const auto& [of, args] : args_)
      if (of == &part) return args;
    __builtin_unreachable();
  }

  void plan_threads() {
    nanoseconds_ = static_cast<double>(points_) * (shape_->is_by_rows ? 0.15 : 1.5);
    if (shape_->is_by_rows) nanoseconds_ += static_cast<double>(points_ / columns()) * 15;
    const bool one_line = free_points_ == 1 && !shape_->is_free(column_) && (row_ < 0 || !shape_->is_free(row_));
    const std::int64_t threads = thread_count(), bytes = places_.extent * element_size();
    if (threads == 1 || nanoseconds_ < serial_nanoseconds) {
      // A copy moves what it copies twice, a check reads all indices.
      constexpr std::int64_t most_saved_bytes = 1 << 20;
      const bool is_short = 2 * bytes <= points_ * size_of(index_dtype()) && bytes <= most_saved_bytes &&
                            gather_stride_ == element_size();
      if (!shape_->is_by_rows && one_line && is_short) saved_.resize(as_index(bytes));
      return;
    }
    const bool is_exact =
        shape_->store.combine != Combine::none &&
        (!is_floating(dtype()) || shape_->store.combine == Combine::min || shape_->store.combine == Combine::max);
    if (free_points_ >= 2 * threads) sharing_ = Sharing::axes;
    else if (shape_->is_by_rows && places_.extent >= 8 * threads) sharing_ = Sharing::ranges;
    else if (shape_->is_free(column_) && columns() >= 32 * threads) sharing_ = Sharing::columns;
    else if (is_exact && one_line && places_.extent <= points_ / (2 * threads)) sharing_ = Sharing::partials;
    shares_ = threads;
    if (sharing_ == Sharing::partials) partials_.resize(as_index(shares_ * places_.extent * element_size() + 64));
  }

  // Blocks -----------------------------------------------------------------------------------------------------------

  void start(Walker& walker) const {
    auto* scratch = static_cast<char*>(thread_scratch(2 * tile_bytes));
    walker.index_tile = scratch;
    walker.value_tile = scratch + tile_bytes;
  }
  static void move_to(Walker& walker, const SmallVector<Axis, max_axes>& axes, std::int64_t point) {
    for (std::size_t i = axes.size(); i-- > 0;) {
      walker.at[as_index(axes[i].axis)] = point % axes[i].extent;
      point /= axes[i].extent;
    }
  }

  /// The part's values over a block: where they lie, with the strides of rows and columns in bytes.
  struct BlockValues {
    const char* data;
    std::int64_t row_stride, column_stride;
  };
  BlockValues values(const ScatterPart& part, Walker& walker, char* tile, std::int64_t row, std::int64_t row_count,
                     std::int64_t column, std::int64_t column_count) const {
    const std::int64_t size = size_of(part.dtype);
    const auto stride = [&](int axis) {
      return axis < 0 ? 0 : geometry_.accesses[part.access].stride[as_index(axis)] * size;
    };
    if (part.code == nullptr) {
      const auto* base = static_cast<const char*>(operands_[kernel().accesses[part.access].operand]);
      return {base + offset(walker, kernel(), part.access) + row * stride(row_) + column * stride(column_),
              stride(row_), stride(column_)};
    }
    const bool is_along = (part.axes >> column_ & 1) != 0;
    if (!is_along) column_count = 1;
    prepare(part, walker, column);
    walker.args.columns = column_count;
    LoopArgs::Pointer& to = walker.args.pointer[part.access];
    to.outer_stride = column_count * size;
    to.base = displaced(tile, -row * to.outer_stride);
    part.code->function()(&walker.args, row, row + row_count);
    return {tile, to.outer_stride, is_along ? size : 0};
  }
  /// Sets the walker's arguments to the part's at its point, from column `column` on.
  void prepare(const ScatterPart& part, Walker& walker, std::int64_t column) const {
    LoopArgs& args = walker.args;
    const LoopArgs& from = args_of(part);
    const std::size_t accesses = part.kernel.accesses.size();
    std::memcpy(static_cast<void*>(&args), &from, offsetof(LoopArgs, pointer) + accesses * sizeof(LoopArgs::Pointer));
    for (const Axis& axis : free_) args.index_origin[axis.axis] = walker.at[as_index(axis.axis)];
    for (const Axis& axis : colliding_) args.index_origin[axis.axis] = walker.at[as_index(axis.axis)];
    args.index_origin[column_] = column;
    for (std::size_t i = 0; i < geometry_.accesses.size(); ++i) {
      if (&part != &shape_->update && i == part.access) continue;  // the tile, see values()
      const std::uint16_t operand = part.kernel.accesses[i].operand;
      args.pointer[i].base = displaced(static_cast<char*>(operands_[operand]),
                                       offset(walker, part.kernel, i) + column * args.pointer[i].column_stride);
    }
  }

  /// Calls visit(first row, rows, first column, columns) for the blocks of one outer point.
  template <class Visit>
  void for_each_block(std::int64_t first_column, std::int64_t end_column, bool has_columns, Visit&& visit) const {
    const std::int64_t columns = has_columns ? end_column - first_column : 1;
    const std::int64_t width = std::min(columns, scatter_block),
                       height = std::max<std::int64_t>(scatter_block / width, 1);
    for (std::int64_t row = 0; row < rows(); row += height)
      for (std::int64_t column = 0; column < columns; column += width)
        visit(row, std::min(height, rows() - row), first_column + column, std::min(width, columns - column));
  }

  // Indices ----------------------------------------------------------------------------------------------------------

  void note(std::int64_t index) { bad_index_.store(index, std::memory_order_relaxed); }
  bool has_bad_index() const { return bad_index_.load(std::memory_order_relaxed) != no_bad_index; }
  void throw_if_bad() const {
    if (SINTER_UNLIKELY(has_bad_index())) throw GatherError(bad_index_.load(std::memory_order_relaxed), places_.extent);
  }
  /// Where an index that is read leads; one without a place, as it was given.
  std::int64_t index_at(const char* place) const {
    const std::int64_t index = given_index(place), at = places_.of(index);
    return at < 0 ? index : at;
  }
  std::int64_t given_index(const char* place) const {
    return index_dtype() == DType::i32 ? *reinterpret_cast<const std::int32_t*>(place)
                                       : *reinterpret_cast<const std::int64_t*>(place);
  }

  /// All indices, each once; tasks are outer points along which they vary.
  void check_all() {
    const auto varies = [&](const Axis& axis) { return (shape_->index.axes >> axis.axis & 1) != 0; };
    SmallVector<Axis, max_axes> outer;
    std::int64_t tasks = 1;
    for (const auto* axes : {&free_, &colliding_})
      for (const Axis& axis : *axes)
        if (varies(axis)) outer.push_back(axis), tasks *= axis.extent;
    const bool has_columns = (shape_->index.axes >> column_ & 1) != 0;
    const std::int64_t inner = rows() * (has_columns ? columns() : 1);
    if (tasks == 1 && inner > 2 * scatter_block) return check_in_columns(has_columns);
    parallel_for(tasks, static_cast<double>(inner) * 0.5, [&](std::int64_t begin, std::int64_t end) {
      Walker walker;
      start(walker);
      for (std::int64_t point = begin; point < end; ++point) {
        move_to(walker, outer, point);
        check_point(walker, 0, rows(), 0, has_columns ? columns() : 1);
      }
    });
  }
  /// One long line of indices, or a block of them: cut along its longer axis.
  void check_in_columns(bool has_columns) {
    const std::int64_t width = has_columns ? columns() : 1, longer = std::max(rows(), width);
    const std::int64_t shorter = std::min(rows(), width);
    const std::int64_t chunk = std::max<std::int64_t>(8 * scatter_block / shorter, 1);
    const std::int64_t tasks = (longer + chunk - 1) / chunk;
    parallel_for(tasks, static_cast<double>(chunk * shorter) * 0.5, [&](std::int64_t begin, std::int64_t end) {
      Walker walker;
      start(walker);
      const std::int64_t first = begin * chunk, last = std::min(end * chunk, longer);
      if (rows() >= width) check_point(walker, first, last, 0, width);
      else check_point(walker, 0, rows(), first, last);
    });
  }
  void check_point(Walker& walker, std::int64_t first_row, std::int64_t end_row, std::int64_t first_column,
                   std::int64_t end_column) {
    const std::int64_t all = end_column - first_column, width = std::min(all, scatter_block);
    const std::int64_t height = std::max<std::int64_t>(scatter_block / width, 1);
    for (std::int64_t row = first_row; row < end_row; row += height)
      for (std::int64_t column = first_column; column < end_column; column += width)
        check_block(walker, row, std::min(height, end_row - row), column, std::min(width, end_column - column));
  }
  void check_block(Walker& walker, std::int64_t row, std::int64_t rows, std::int64_t column, std::int64_t columns) {
    const BlockValues index = values(shape_->index, walker, walker.index_tile, row, rows, column, columns);
    const auto check_run = [&](const char* data, std::int64_t stride, std::int64_t count) {
      const std::int64_t bad = check_({data, stride}, places_, count);
      if (SINTER_UNLIKELY(bad < count)) note(index_at(data + bad * stride));
    };
    if (columns == 1) return check_run(index.data, index.row_stride, rows);
    for (std::int64_t r = 0; r < rows; ++r) check_run(index.data + r * index.row_stride, index.column_stride, columns);
  }

  // Updates ----------------------------------------------------------------------------------------------------------

  Share whole_share() const { return {0, places_.extent, 0, columns(), nullptr}; }

  /// A short line is copied first, so that indices are read once: what a bad one leaves is taken back.
  void run_with_way_back() {
    Walker walker;
    start(walker);
    char* const line = static_cast<char*>(operands_[kernel().accesses[shape_->store.access].operand]) +
                       offset(walker, kernel(), shape_->store.access);
    std::memcpy(saved_.data(), line, saved_.size());
    update_points(walker, 0, free_points_, whole_share());
    if (SINTER_UNLIKELY(has_bad_index())) std::memcpy(line, saved_.data(), saved_.size());
  }
  void run_shared() {
    if (sharing_ == Sharing::none) {
      Walker walker;
      start(walker);
      return update_points(walker, 0, free_points_, whole_share());
    }
    if (sharing_ == Sharing::axes)
      return parallel_for(free_points_, nanoseconds_ / static_cast<double>(free_points_),
                          [&](std::int64_t begin, std::int64_t end) {
                            Walker walker;
                            start(walker);
                            update_points(walker, begin, end, whole_share());
                          });
    parallel_for(shares_, nanoseconds_ / static_cast<double>(shares_), [&](std::int64_t begin, std::int64_t end) {
      Walker walker;
      start(walker);
      Share share = whole_share();
      if (sharing_ == Sharing::ranges) {
        share.first_place = places_.extent * begin / shares_;
        share.end_place = places_.extent * end / shares_;
      } else {  // columns, in multiples of a cache line
        share.first_column = cut_column(begin);
        share.end_column = cut_column(end);
      }
      update_points(walker, 0, free_points_, share);
    });
  }
  std::int64_t cut_column(std::int64_t share) const {
    return share == shares_ ? columns() : columns() * share / shares_ / 16 * 16;
  }

  void update_points(Walker& walker, std::int64_t begin, std::int64_t end, const Share& share) {
    if (share.first_column >= share.end_column) return;
    for (std::int64_t free = begin; free < end; ++free) {
      move_to(walker, free_, free);
      for (std::int64_t point = 0; point < colliding_points_; ++point) {
        move_to(walker, colliding_, point);
        if (shape_->is_by_rows) update_rows(walker, share);
        else update_elements(walker, share);
      }
    }
  }

  void update_rows(Walker& walker, const Share& share) {
    for (std::int64_t row = 0; row < rows(); row += scatter_block) {
      const std::int64_t count = std::min(scatter_block, rows() - row);
      const BlockValues index = values(shape_->index, walker, walker.index_tile, row, count, 0, 1);
      if (is_narrow_) {
        update_narrow_rows(walker, share, index, row, count);
        continue;
      }
      prepare(shape_->update, walker, share.first_column);
      walker.args.columns = share.end_column - share.first_column;
      LoopArgs::Pointer& target = walker.args.pointer[shape_->store.access];
      char* const base = target.base;
      const LoopFunction function = shape_->update.code->function();
      for (std::int64_t r = 0; r < count; ++r) {
        const std::int64_t at = index_at(index.data + r * index.row_stride);
        if (at < share.first_place || at >= share.end_place) continue;
        target.base = base + at * gather_stride_;
        function(&walker.args, row + r, row + r + 1);
      }
    }
  }

  void update_narrow_rows(Walker& walker, const Share& share, const BlockValues& index, std::int64_t row,
                          std::int64_t count) {
    const std::int64_t column = share.first_column, size = element_size();
    const BlockValues value = values(shape_->value, walker, walker.value_tile, row, count, column, 1);
    const auto& numbers = geometry_.accesses[shape_->store.access];
    const std::int64_t row_stride = row_ < 0 ? 0 : numbers.stride[as_index(row_)] * size;
    char* const target = static_cast<char*>(operands_[kernel().accesses[shape_->store.access].operand]) +
                         offset(walker, kernel(), shape_->store.access) + row * row_stride + column * size;
    functions_.rows({target, row_stride, gather_stride_, share.end_column - column, share.first_place, share.end_place},
                    places_, {index.data, index.row_stride}, {value.data, value.row_stride}, count);
  }

  void update_elements(Walker& walker, const Share& share) {
    const auto& numbers = geometry_.accesses[shape_->store.access];
    char* const target = static_cast<char*>(operands_[kernel().accesses[shape_->store.access].operand]) +
                         offset(walker, kernel(), shape_->store.access);
    const std::int64_t row_stride = row_ < 0 ? 0 : numbers.stride[as_index(row_)] * element_size(),
                       column_stride = numbers.stride[as_index(column_)] * element_size();
    for_each_block(share.first_column, share.end_column, true,
                   [&](std::int64_t row, std::int64_t row_count, std::int64_t column, std::int64_t column_count) {
                     update_block(walker, share, target + row * row_stride + column * column_stride, row_stride,
                                  column_stride, row, row_count, column, column_count);
                   });
  }
  void update_block(Walker& walker, const Share& share, char* target, std::int64_t row_stride,
                    std::int64_t column_stride, std::int64_t row, std::int64_t row_count, std::int64_t column,
                    std::int64_t column_count) {
    const BlockValues index = values(shape_->index, walker, walker.index_tile, row, row_count, column, column_count);
    const BlockValues value = values(shape_->value, walker, walker.value_tile, row, row_count, column, column_count);
    const bool is_partial = share.target != nullptr;
    for (std::int64_t r = 0; r < row_count; ++r) {
      const ElementRun at{index.data + r * index.row_stride, index.column_stride},
          from{value.data + r * value.row_stride, value.column_stride};
      const std::int64_t done =
          functions_.elements(is_partial ? share.target : target + r * row_stride, column_stride,
                              is_partial ? element_size() : gather_stride_, places_, at, from, column_count);
      if (SINTER_UNLIKELY(done < column_count)) return note(index_at(at.data + done * at.stride));
    }
  }

  // Partial results --------------------------------------------------------------------------------------------------

  /// Each share of the points goes to places of its own, which are combined with the target's once all indices are
  /// known to be good.
  void run_partials() {
    const std::int64_t bytes = places_.extent * element_size(), size = element_size();
    const std::int64_t cut = std::max(rows(), columns());
    parallel_for(shares_, nanoseconds_ / static_cast<double>(shares_), [&](std::int64_t begin, std::int64_t end) {
      Walker walker;
      start(walker);
      Share share = whole_share();
      share.target = partials_.data() + begin * bytes;
      fill_neutral(share.target, (end - begin) * places_.extent);
      const std::int64_t first = cut * begin / shares_, last = cut * end / shares_;
      for (std::int64_t point = 0; point < colliding_points_; ++point) {
        move_to(walker, colliding_, point);
        if (columns() >= rows()) {
          share.first_column = first;
          share.end_column = last;
          if (first < last) update_elements(walker, share);
        } else {
          update_row_range(walker, share, first, last);
        }
      }
    });
    if (has_bad_index()) return;
    const auto& numbers = geometry_.accesses[shape_->store.access];
    char* const target =
        static_cast<char*>(operands_[kernel().accesses[shape_->store.access].operand]) + numbers.offset * size;
    visit_computed(dtype(), [&](auto tag) {
      using T = scalar_meaning::Stored<decltype(tag)>;
      for (std::int64_t s = 0; s < shares_; ++s) {
        const T* from = reinterpret_cast<const T*>(partials_.data() + s * bytes);
        for (std::int64_t i = 0; i < places_.extent; ++i) {
          T& to = *reinterpret_cast<T*>(target + i * gather_stride_);
          to = scalar_meaning::combined(shape_->store.combine, to, from[i]);
        }
      }
    });
  }
  void update_row_range(Walker& walker, const Share& share, std::int64_t first, std::int64_t last) {
    const std::int64_t width = std::min(columns(), scatter_block),
                       height = std::max<std::int64_t>(scatter_block / width, 1);
    for (std::int64_t row = first; row < last; row += height)
      for (std::int64_t column = 0; column < columns(); column += width)
        update_block(walker, share, nullptr, 0, 0, row, std::min(height, last - row), column,
                     std::min(width, columns() - column));
  }
  void fill_neutral(char* to, std::int64_t count) const {
    visit_computed(dtype(), [&](auto tag) {
      using T = scalar_meaning::Stored<decltype(tag)>;
      std::fill_n(reinterpret_cast<T*>(to), count, neutral<T>(shape_->store.combine));
    });
  }
  template <class T>
  static T neutral(Combine combine) {
    using Limits = std::numeric_limits<std::conditional_t<std::is_same_v<T, std::uint8_t>, bool, T>>;
    if (combine == Combine::mul) return T(1);
    if (combine == Combine::min)
      return std::is_floating_point_v<T> ? static_cast<T>(Limits::infinity()) : Limits::max();
    if (combine == Combine::max)
      return std::is_floating_point_v<T> ? static_cast<T>(-Limits::infinity()) : Limits::lowest();
    return T(0);
  }

  static constexpr std::int64_t no_bad_index = std::numeric_limits<std::int64_t>::max();

  std::shared_ptr<const ScatterShape> shape_;
  BoundGeometry geometry_;
  SmallVector<Axis, max_axes> free_, colliding_;  // outside of row and column; extents above 1
  std::int64_t free_points_ = 1, colliding_points_ = 1, points_ = 1;
  int column_ = 0, row_ = -1;
  Places places_;
  std::int64_t gather_stride_ = 0;
  bool is_narrow_ = false;  // by rows of few columns, one by one
  ScatterFunctions functions_;
  CheckIndices check_ = nullptr;
  std::vector<std::pair<const ScatterPart*, LoopArgs>> args_;
  LoopArgs::Status status_;
  Sharing sharing_ = Sharing::none;
  std::int64_t shares_ = 1;
  double nanoseconds_ = 0;
  std::vector<char> partials_, saved_;
  bool is_empty_ = false;
  // Of the run in progress.
  void* const* operands_ = nullptr;
  std::atomic<std::int64_t> bad_index_{no_bad_index};
};

class ScatterExecutable final : public Executable {
 public:
  explicit ScatterExecutable(std::shared_ptr<const ScatterShape> shape) : shape_(std::move(shape)) {}
  std::unique_ptr<Launch> bind(const BoundGeometry& geometry) const override {
    return std::make_unique<ScatterLaunch>(shape_, geometry);
  }
  std::size_t code_bytes() const override {
    std::size_t bytes = 0;
    for (const ScatterPart* part : parts())
      if (part->code != nullptr) bytes += part->code->code_bytes();
    return bytes;
  }
  std::string listing() const override {
    std::string text = as_comment(shape_->kernel.text());
    constexpr const char* titles[] = {"; index\n", "; value\n", "; update of a row\n"};
    for (std::size_t i = 0; i < parts().size(); ++i)
      if (parts()[i]->code != nullptr) text += titles[i] + parts()[i]->code->listing();
    return text;
  }

 private:
  std::array<const ScatterPart*, 3> parts() const { return {&shape_->index, &shape_->value, &shape_->update}; }
  std::shared_ptr<const ScatterShape> shape_;
};

/// False: declined.
inline bool make_part(ScatterPart& part, const ScatterShape& shape, InstId id, const KernelFacts& facts,
                      const Schedule& schedule, Isa isa, std::string* why) {
  const Inst& inst = shape.kernel.body[id];
  part.dtype = inst.dtype;
  part.axes = facts.values[id].axes;
  part.access = inst.access;
  if (inst.prim == Prim::load) return true;
  part.kernel = tile_kernel(shape.kernel, id);
  part.access = part.kernel.stores[0].access;
  part.code = compile_loop(part.kernel, schedule, isa, why);
  return part.code != nullptr;
}

}  // namespace x86_detail

SINTER_DECL std::shared_ptr<const Executable> make_scatter_executable(const Kernel& kernel, const Schedule& schedule,
                                                                      Isa isa, std::string* why_declined) {
  if (kernel.accesses.size() > as_index(max_accesses)) {
    if (why_declined != nullptr) *why_declined = "x86: too many accesses";
    return nullptr;
  }
  const Store& store = kernel.stores[0];
  const bool is_extremum = store.combine == Combine::min || store.combine == Combine::max;
  for (const auto& operand : kernel.operands)  // what combines elements computes in their own type, u64 as i64
    if (is_narrow(operand.dtype) || (operand.dtype == DType::u64 && is_extremum)) {
      if (why_declined != nullptr) *why_declined = "x86: a scatter of " + std::string(name(operand.dtype));
      return nullptr;
    }
  auto shape = std::make_shared<ScatterShape>();
  shape->kernel = kernel;
  shape->store = kernel.stores[0];
  const KernelFacts facts = facts_of(kernel);
  const int column = kernel.rank() - 1;
  shape->is_by_rows = !facts.varies(shape->store.index, column) && shape->is_free(column);
  using x86_detail::make_part;
  const auto [given, wrap] = x86_detail::wrapped_load(kernel.body, shape->store.index);
  shape->index.wrap = wrap;
  if (!make_part(shape->index, *shape, given == no_inst ? shape->store.index : given, facts, schedule, isa,
                 why_declined))
    return nullptr;
  if (shape->is_by_rows) {
    shape->update.kernel = x86_detail::update_kernel(kernel);
    shape->update.access = shape->store.access;
    shape->update.dtype = kernel.body[shape->store.value].dtype;
    shape->update.code = compile_loop(shape->update.kernel, schedule, isa, why_declined);
    if (shape->update.code == nullptr) return nullptr;
    const Inst& value = kernel.body[shape->store.value];
    shape->reads_value = value.prim == Prim::load;
    if (shape->reads_value && !make_part(shape->value, *shape, shape->store.value, facts, schedule, isa, why_declined))
      return nullptr;
  } else if (!make_part(shape->value, *shape, shape->store.value, facts, schedule, isa, why_declined)) {
    return nullptr;
  }
  return std::make_shared<x86_detail::ScatterExecutable>(std::move(shape));
}

}  // namespace x86
SINTER_NAMESPACE_END
