// Folds over the threads of a group on a GPU, as the interpreter of loop nests runs them: which thread takes in which
// point, and how threads put theirs together. Knows what a nest says of them; runs none.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/index.hpp>
#include <sinter/kernel/facts.hpp>
#include <sinter/kernel/fold_lanes.hpp>
#include <sinter/kernel/kernel.hpp>
#include <sinter/kernel/loop_nest/cells.hpp>
#include <sinter/kernel/loop_nest/loop_nest.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <type_traits>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace kernel_detail {

/// The reduced axes of a kernel as one, row-major, and the pieces that a grid walks it in.
struct JoinedAxes {
  JoinedAxes(const Kernel& kernel, const BoundGeometry& geometry) : extent(geometry.extent) {
    for (int a = 0; a < kernel.rank(); ++a) {
      if (!kernel.is_reduced(a)) continue;
      mask |= axis_bit(a);
      length *= extent[as_index(a)];
    }
  }
  std::int64_t pieces() const { return piece == 0 ? 1 : (length + piece - 1) / piece; }
  /// Puts the indices of a point in their places.
  void decode(std::int64_t point, std::array<std::int64_t, max_axes>& at) const {
    if (length == 0) return;
    for (int a = max_axes - 1; a >= 0; --a) {
      if ((mask >> a & 1) == 0) continue;
      at[as_index(a)] = point % extent[as_index(a)];
      point /= extent[as_index(a)];
    }
  }

  std::array<std::int64_t, max_axes> extent;
  AxisMask mask = 0;
  std::int64_t length = 1, piece = 0;  // piece 0: they are not cut
};

/// Points are dealt out to `lanes` threads, `width` neighbours at a time, or (`is_row` false) point by point, each of
/// them in `columns` columns. Each lane takes in its own in order. Lanes of a row are put together in halves in each
/// warp, then the warps of each block in halves, then blocks in halves; lanes of columns in halves; teams of a product
/// in order. A lane may have `parts`, to which its points of a tile go one each, and which are put together in order.
struct LaneShape {
  std::int64_t lanes = 1, width = 1, columns = 1;
  std::int64_t tile = 1;  // points that all lanes take before a lane takes its next ones
  std::int64_t parts = 1;
  std::int64_t block = most_block_lanes;  // threads of a block, where the lanes are several
  bool is_team = false;                   // the lanes of a row are blocks that meet in memory
  bool is_row = true, is_in_order = false, has_warps_in_order = false;
};

/// Calls merge(first, count, distance): each of lanes [first, first + count) takes in the one at that distance.
template <class Merge>
void merge_lanes(const LaneShape& shape, Merge&& merge) {
  constexpr std::int64_t warp = 32;
  for (std::int64_t lane = 1; shape.is_in_order && lane < shape.lanes; ++lane) merge(0, 1, lane, 1);
  if (shape.is_in_order) return;
  std::int64_t apart = 1;
  const auto in_halves = [&](std::int64_t lanes) {
    for (std::int64_t first = 0; first < shape.lanes; first += lanes)
      for (std::int64_t half = lanes / apart / 2; half >= 1; half /= 2) merge(first, half, half, apart);
    apart = lanes;
  };
  if (shape.is_row) in_halves(std::min(shape.lanes, warp));
  if (shape.is_row && shape.has_warps_in_order) {
    for (std::int64_t warps = 1; warps < shape.lanes / apart; ++warps)
      merge(std::int64_t{0}, std::int64_t{1}, warps, apart);
    return;
  }
  if (shape.is_row) in_halves(std::min(shape.lanes, shape.block));
  if (!shape.is_team) return in_halves(shape.lanes);
  // A warp puts the blocks of a team together: each lane has every 32nd, in order, then lanes in halves.
  const std::int64_t blocks = shape.lanes / shape.block;
  for (std::int64_t b = warp; b < blocks; ++b) merge(b % warp * apart, std::int64_t{1}, b / warp * warp, apart);
  for (std::int64_t half = warp / 2; half >= 1; half /= 2)
    if (half < blocks) merge(std::int64_t{0}, std::min(half, blocks - half), half, apart);
}

template <class Cell>
class LaneFold final : public CellFold {
 public:
  LaneFold(const Inst& reduction, const LaneShape& shape)
      : prim_(reduction.prim), shape_(shape), lanes_(as_index(shape.lanes * shape.columns * shape.parts)) {}

  void start() override {
    std::fill(lanes_.begin(), lanes_.end(), neutral_cell<Cell>(prim_ == Prim::contract ? Prim::reduce_add : prim_));
    taken_ = 0;
  }
  void take(Cells arguments, std::int64_t count) override {
    if (!shape_.is_row) {
      const std::int64_t lane = taken_++ / shape_.width % shape_.lanes;
      for (std::int64_t c = 0; c < count; ++c) take_one(lane * shape_.columns + c, arguments, c);
      return;
    }
    for (std::int64_t i = 0; i < count; ++i, ++taken_)
      take_one(taken_ / shape_.width % (shape_.lanes * shape_.parts), arguments, i);
  }
  void take_block(Cells states) override {
    Cell* const lane = &lanes_[as_index(taken_++ % shape_.lanes * shape_.columns)];
    for (std::int64_t c = 0; c < shape_.columns; ++c) lane[c] = joined(lane[c], static_cast<const Cell*>(states[0])[c]);
  }
  void finish(std::span<void* const> states, std::int64_t count) override {
    const std::int64_t columns = shape_.columns;
    for (std::size_t i = as_index(shape_.lanes * columns); i < lanes_.size(); ++i) {
      Cell& older = lanes_[i % as_index(shape_.lanes * columns)];
      older = joined(older, lanes_[i]);
    }
    merge_lanes(shape_, [&](std::int64_t first, std::int64_t lanes, std::int64_t half, std::int64_t apart) {
      for (std::int64_t i = 0; i < lanes; ++i)
        for (std::int64_t c = 0; c < columns; ++c) {
          Cell& older = lanes_[as_index((first + i * apart) * columns + c)];
          older = joined(older, lanes_[as_index((first + (i + half) * apart) * columns + c)]);
        }
    });
    auto* const found = static_cast<Cell*>(states[0]);
    for (std::int64_t i = 0; i < count; ++i) found[i] = lanes_[as_index(columns == 1 ? 0 : i)];
  }

 private:
  void take_one(std::int64_t lane, Cells arguments, std::int64_t i) {
    Cell& sum = lanes_[as_index(lane)];
    const Cell x = static_cast<const Cell*>(arguments[0])[i];
    sum = prim_ == Prim::contract ? scalar_meaning::Fma{}(x, static_cast<const Cell*>(arguments[1])[i], sum)
                                  : joined(sum, x);
  }
  Cell joined(Cell older, Cell newer) const {
    return combined(prim_ == Prim::contract ? Prim::reduce_add : prim_, older, newer);
  }

  Prim prim_;
  LaneShape shape_;
  std::vector<Cell> lanes_;
  std::int64_t taken_ = 0;
};

template <bool is_wide>
class LaneProgramFold final : public CellFold {
 public:
  LaneProgramFold(const ScalarFold& fold, const LaneShape& shape)
      : shape_(shape), lanes_(fold, shape.lanes * shape.columns) {}

  void start() override {
    lanes_.start();
    taken_ = 0;
  }
  void take(Cells arguments, std::int64_t count) override {
    if (!shape_.is_row) return lanes_.step(taken_++ % shape_.lanes * shape_.columns, count, arguments);
    for (std::int64_t i = 0; i < count; ++i, ++taken_)
      lanes_.step(taken_ / shape_.width % shape_.lanes, 1, arguments, i);
  }
  void take_block(Cells states) override { lanes_.merge(taken_++ % shape_.lanes, 1, states); }
  void finish(std::span<void* const> states, std::int64_t count) override {
    const std::int64_t columns = shape_.columns;
    merge_lanes(shape_, [&](std::int64_t first, std::int64_t lanes, std::int64_t half, std::int64_t apart) {
      for (std::int64_t i = 0; i < lanes; ++i)
        lanes_.merge((first + i * apart) * columns, columns, lanes_.at((first + (i + half) * apart) * columns));
    });
    for (std::size_t s = 0; s < states.size(); ++s)
      for (std::int64_t i = 0; i < count; ++i)
        std::memcpy(static_cast<std::byte*>(states[s]) + as_index(i) * lanes_.bytes(s),
                    lanes_.state(s, columns == 1 ? 0 : i), lanes_.bytes(s));
  }

 private:
  LaneShape shape_;
  FoldLanes<is_wide> lanes_;
  std::int64_t taken_ = 0;
};

/// The sum of an online fold: takes in the values whose exponentials are added up.
class CellOnlineSum : public CellFold {
 public:
  /// The greatest value and the shift are known now.
  virtual void rescale(const void* greatest, const void* shift, void* sum, std::int64_t count) = 0;
};

/// Each lane knows the greatest value that it has met, by which it shifts; at the end of a tile its sum follows.
template <class Cell>
class OnlineSumFold final : public CellOnlineSum {
 public:
  explicit OnlineSumFold(const LaneShape& shape)
      : shape_(shape), greatest_(as_index(shape.lanes)), sum_(greatest_.size()), values_(greatest_.size()) {}

  void start() override {
    std::fill(greatest_.begin(), greatest_.end(), neutral_cell<Cell>(Prim::reduce_max));
    std::fill(sum_.begin(), sum_.end(), Cell{0});
    taken_ = 0;
  }
  void take(Cells arguments, std::int64_t count) override {
    for (std::int64_t i = 0; i < count; ++i) {
      values_[as_index(taken_ / shape_.width % shape_.lanes)].push_back(static_cast<const Cell*>(arguments[0])[i]);
      if (++taken_ % shape_.tile == 0) end_tile();
    }
  }
  void take_block(Cells) override { throw InternalError("an online fold takes in no blocks"); }
  void finish(std::span<void* const>, std::int64_t) override {
    if (taken_ % shape_.tile != 0) end_tile();
  }
  void rescale(const void* greatest, const void* shift, void* sum, std::int64_t count) override {
    const Cell own_shift = finite_or_zero(*static_cast<const Cell*>(greatest));
    LaneFold<Cell> lanes({.prim = Prim::reduce_add}, {.lanes = shape_.lanes});
    lanes.start();
    for (std::size_t l = 0; l < sum_.size(); ++l) {
      const Cell scaled =
          sum_[l] * std::exp(greatest_[l] - own_shift) * std::exp(own_shift - *static_cast<const Cell*>(shift));
      const std::array<const void*, 2> cells{&scaled, &scaled};
      lanes.take({cells.data(), 1}, 1);
    }
    lanes.finish({&sum, 1}, count);
  }

 private:
  static Cell finite_or_zero(Cell x) { return x - x == 0 ? x : Cell{0}; }
  void end_tile() {
    for (std::size_t l = 0; l < sum_.size(); ++l) {
      const Cell before = greatest_[l];
      for (const Cell x : values_[l]) greatest_[l] = combined(Prim::reduce_max, greatest_[l], x);
      const Cell shift = finite_or_zero(greatest_[l]);
      sum_[l] = sum_[l] * std::exp(before - shift);
      for (const Cell x : values_[l]) sum_[l] = sum_[l] + std::exp(x - shift);
      values_[l].clear();
    }
  }

  LaneShape shape_;
  std::vector<Cell> greatest_, sum_;
  std::vector<std::vector<Cell>> values_;  // of the tile
  std::int64_t taken_ = 0;
};

template <bool is_wide>
std::unique_ptr<CellFold> make_lane_fold(const Kernel& kernel, const Inst& reduction, const LaneShape& shape) {
  if (reduction.prim == Prim::fold)
    return std::make_unique<LaneProgramFold<is_wide>>(kernel.folds[reduction.access], shape);
  return visit_computed(reduction.dtype, [&](auto tag) -> std::unique_ptr<CellFold> {
    return std::make_unique<LaneFold<CellOf<decltype(tag), is_wide>>>(reduction, shape);
  });
}
template <bool is_wide>
std::unique_ptr<CellFold> make_online_sum(DType dtype, const LaneShape& shape) {
  if (dtype == DType::f32) return std::make_unique<OnlineSumFold<CellOf<float, is_wide>>>(shape);
  return std::make_unique<OnlineSumFold<CellOf<double, is_wide>>>(shape);
}

/// Of the fold at `place` of a GPU's nest.
inline LaneShape lane_shape(const LoopNest& nest, std::size_t place) {
  const Loop& l = nest.loop_of(nest.nodes[place + 1]);
  const bool is_along = (l.axes >> nest.vector_axis & 1) != 0, has_scan = nest.kernel->has_scan();
  const bool is_row = is_along || (is_over_blocks(l) && !nest.has_gemm());
  const std::int64_t width = is_over_blocks(l) ? 1 : l.step;
  std::size_t stage = place;
  while (stage > 0 && nest.nodes[stage].kind != NestNodeKind::stage) --stage;
  const std::int64_t team = std::max<std::int64_t>(1, nest.nodes[stage].axis);
  return {.lanes = l.lanes * team,
          .width = width,
          .columns = is_row ? 1 : nest.lanes,
          .tile = l.lanes * team * l.copies * width,
          .parts = has_scan ? l.copies : 1,
          .block = team > 1 || l.lanes > most_block_lanes ? std::int64_t{nest.nodes[stage].count} : most_block_lanes,
          .is_team = team > 1,
          .is_row = is_row,
          .is_in_order = nest.has_gemm(),
          .has_warps_in_order = has_scan};
}
template <bool is_wide>
std::unique_ptr<CellFold> make_fold_over_lanes(const LoopNest& nest, std::size_t place, Inst inst, bool is_online_sum) {
  const LaneShape shape = lane_shape(nest, place);
  if (is_scan(inst.prim)) inst.prim = reduction_of(inst.prim);
  return is_online_sum ? make_online_sum<is_wide>(inst.dtype, shape)
                       : make_lane_fold<is_wide>(*nest.kernel, inst, shape);
}

}  // namespace kernel_detail
SINTER_NAMESPACE_END
