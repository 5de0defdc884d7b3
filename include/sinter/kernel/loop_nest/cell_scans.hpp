// Scans over cells, as the interpreter of loop nests runs them: in the order that kernel.hpp states for them, point by
// point. Knows what a nest says of them; runs none.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/index.hpp>
#include <sinter/kernel/kernel.hpp>
#include <sinter/kernel/loop_nest/cells.hpp>
#include <sinter/kernel/loop_nest/loop_nest.hpp>

#include <array>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace kernel_detail {

/// A scan in progress.
class CellScan {
 public:
  virtual ~CellScan() = default;
  /// `carry`: what came before the first point, where that is not nothing.
  virtual void start(const void* carry) = 0;
  /// Along the vector axis: the next `count` points. Along another: the next point, in `count` lanes.
  virtual void take(const void* cells, void* values, std::int64_t count) = 0;
};

/// What the blocks before the current one gave.
template <class Cell>
class BlocksBefore {
 public:
  BlocksBefore(Prim reduction, bool has_blocks) : reduction_(reduction), has_blocks_(has_blocks) { start(); }
  void start() {
    total_ = neutral_cell<Cell>(reduction_);
    lost_ = 0;
  }
  Cell value(Cell of_block) const { return has_blocks_ ? combined(reduction_, so_far(), of_block) : of_block; }
  Cell so_far() const {
    if constexpr (std::is_floating_point_v<Cell>)
      if (is_compensated() && lost_ == lost_) return total_ + lost_;
    return total_;
  }
  void add(Cell block) {
    const Cell older = total_;
    total_ = combined(reduction_, older, block);
    if constexpr (std::is_floating_point_v<Cell>) {
      if (!is_compensated()) return;
      const Cell added = total_ - older;
      lost_ += (older - (total_ - added)) + (block - added);
    }
  }

 private:
  bool is_compensated() const { return reduction_ == Prim::reduce_add; }
  Prim reduction_;
  bool has_blocks_;
  Cell total_, lost_;
};

/// Along the vector axis: trees over groups, groups in order in blocks.
template <class Cell>
class VectorAxisScan final : public CellScan {
 public:
  explicit VectorAxisScan(const Inst& scan)
      : reduction_(reduction_of(scan.prim)),
        is_exclusive_(scan.is_exclusive()),
        has_blocks_(scan_has_blocks(scan.prim, scan.dtype)),
        group_(scan_group_bytes / size_of(scan.dtype)),
        before_(reduction_, has_blocks_) {}

  void start(const void*) override {
    before_.start();
    start_block();
  }
  void take(const void* cells, void* values, std::int64_t count) override {
    for (std::int64_t i = 0; i < count; ++i) static_cast<Cell*>(values)[i] = next(static_cast<const Cell*>(cells)[i]);
  }

 private:
  void start_block() {
    carry_ = neutral_cell<Cell>(reduction_);
    in_block_ = 0;
  }
  Cell next(Cell element) {
    if (has_blocks_ && in_block_ == row_sum_block) {
      before_.add(carry_);
      start_block();
    }
    const std::int64_t number = in_block_++ % group_;
    const Cell left_out = number == 0 ? neutral_cell<Cell>(reduction_) : last_, carry = carry_;
    last_ = in_tree(number, element);
    if (number == group_ - 1) carry_ = combined(reduction_, carry, last_);
    return before_.value(combined(reduction_, carry, is_exclusive_ ? left_out : last_));
  }
  /// What the elements of the group up to `number` give. runs_[k] is the last whole run of 2^k elements whose successor
  /// is combined with it.
  Cell in_tree(std::int64_t number, Cell value) {
    for (std::size_t k = 0; (std::int64_t{1} << k) < group_; ++k) {
      const std::int64_t run = std::int64_t{1} << k;
      if ((number & run) != 0) value = combined(reduction_, runs_[k], value);
      else if ((number & (run - 1)) == run - 1) runs_[k] = value;
    }
    return value;
  }

  Prim reduction_;
  bool is_exclusive_, has_blocks_;
  std::int64_t group_, in_block_ = 0;
  Cell carry_{}, last_{};
  std::array<Cell, 4> runs_{};
  BlocksBefore<Cell> before_;
};

/// Along another axis: element by element in blocks.
template <class Cell>
class OtherAxisScan final : public CellScan {
 public:
  OtherAxisScan(const Inst& scan, std::int64_t width)
      : reduction_(reduction_of(scan.prim)),
        is_exclusive_(scan.is_exclusive()),
        has_blocks_(scan_has_blocks(scan.prim, scan.dtype)),
        carry_(as_index(width)),
        before_(as_index(width), BlocksBefore<Cell>(reduction_, has_blocks_)) {}

  void start(const void*) override {
    for (BlocksBefore<Cell>& before : before_) before.start();
    start_block();
  }
  void take(const void* cells, void* values, std::int64_t count) override {
    if (has_blocks_ && in_block_ == column_sum_block) end_block();
    ++in_block_;
    for (std::int64_t i = 0; i < count; ++i) {
      Cell& carry = carry_[as_index(i)];
      const Cell older = carry;
      carry = combined(reduction_, older, static_cast<const Cell*>(cells)[i]);
      static_cast<Cell*>(values)[i] = before_[as_index(i)].value(is_exclusive_ ? older : carry);
    }
  }

 private:
  void start_block() {
    std::fill(carry_.begin(), carry_.end(), neutral_cell<Cell>(reduction_));
    in_block_ = 0;
  }
  void end_block() {
    for (std::size_t i = 0; i < carry_.size(); ++i) before_[i].add(carry_[i]);
    start_block();
  }

  Prim reduction_;
  bool is_exclusive_, has_blocks_;
  std::vector<Cell> carry_;
  std::vector<BlocksBefore<Cell>> before_;
  std::int64_t in_block_ = 0;
};

/// By one thread of a GPU: element after element, with what rounding loses beside sums of floats.
template <class Cell>
class ThreadScan final : public CellScan {
 public:
  explicit ThreadScan(const Inst& scan) : is_exclusive_(scan.is_exclusive()), sum_(reduction_of(scan.prim), true) {}

  void start(const void*) override { sum_.start(); }
  void take(const void* cells, void* values, std::int64_t) override {
    const Cell older = sum_.so_far();
    sum_.add(*static_cast<const Cell*>(cells));
    *static_cast<Cell*>(values) = is_exclusive_ ? older : sum_.so_far();
  }

 private:
  bool is_exclusive_;
  BlocksBefore<Cell> sum_;
};

/// By the lanes of a group on a GPU: 32 neighbours in a tree by doubling distances, `parts` such trees of a warp in
/// order, and warps in order.
template <class Cell>
class LaneScan final : public CellScan {
 public:
  LaneScan(const Inst& scan, std::int64_t parts)
      : reduction_(reduction_of(scan.prim)), is_exclusive_(scan.is_exclusive()), of_warp_(warp * parts) {}

  void start(const void* carry) override {
    before_ = carry == nullptr ? neutral_cell<Cell>(reduction_) : *static_cast<const Cell*>(carry);
    value_ = before_;
    taken_ = 0;
  }
  void take(const void* cells, void* values, std::int64_t count) override {
    for (std::int64_t i = 0; i < count; ++i) {
      const Cell older = value_;
      add(static_cast<const Cell*>(cells)[i]);
      static_cast<Cell*>(values)[i] = is_exclusive_ ? older : value_;
    }
  }

 private:
  static constexpr std::int64_t warp = 32;
  void add(Cell element) {
    const std::int64_t lane = taken_ % warp, in_warp = taken_ % of_warp_;
    for (std::size_t level = 0; level < levels_.size(); ++level) {
      levels_[level][as_index(lane)] = element;
      const std::int64_t distance = std::int64_t{1} << level;
      if (lane >= distance) element = combined(reduction_, levels_[level][as_index(lane - distance)], element);
    }
    if (in_warp >= warp) element = combined(reduction_, trees_, element);
    value_ = combined(reduction_, before_, element);
    if (lane == warp - 1) trees_ = element;
    if (++taken_ % of_warp_ == 0) before_ = value_;
  }

  Prim reduction_;
  bool is_exclusive_;
  std::int64_t of_warp_, taken_ = 0;
  Cell before_{}, trees_{}, value_{};  // of earlier warps; of the warp's earlier trees; up to the last element
  std::array<std::array<Cell, warp>, 5> levels_;  // of the tree
};

/// Over the lanes of a group; `parts`: elements of a lane side by side.
template <bool is_wide>
std::unique_ptr<CellScan> make_lane_scan(const Inst& scan, std::int64_t lanes, std::int64_t parts) {
  return visit_computed(scan.dtype, [&](auto tag) -> std::unique_ptr<CellScan> {
    using Cell = CellOf<decltype(tag), is_wide>;
    if (lanes == 1) return std::make_unique<ThreadScan<Cell>>(scan);
    return std::make_unique<LaneScan<Cell>>(scan, parts);
  });
}

/// `width`: lanes of the vectors that are scanned along an axis that is not theirs.
template <bool is_wide>
std::unique_ptr<CellScan> make_scan(const Inst& scan, bool is_vector_axis, std::int64_t width) {
  return visit_computed(scan.dtype, [&](auto tag) -> std::unique_ptr<CellScan> {
    using Cell = CellOf<decltype(tag), is_wide>;
    if (is_vector_axis) return std::make_unique<VectorAxisScan<Cell>>(scan);
    return std::make_unique<OtherAxisScan<Cell>>(scan, width);
  });
}

/// Of the scan at `place` of a nest.
template <bool is_wide>
std::unique_ptr<CellScan> make_scan_at(const LoopNest& nest, std::size_t place, const Inst& scan) {
  const Loop& l = nest.loop_of(nest.nodes[place + 1]);
  if (nest.is_on_gpu) return make_lane_scan<is_wide>(scan, l.lanes, l.copies);
  return make_scan<is_wide>(scan, nest.nodes[place].axis == nest.vector_axis, nest.lanes);
}

}  // namespace kernel_detail
SINTER_NAMESPACE_END
