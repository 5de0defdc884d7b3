// Scans over cells, as the interpreter of loop nests runs them: in the order that kernel.hpp states for them, point by
// point. Knows dtypes and primitives; no nests.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/index.hpp>
#include <sinter/kernel/kernel.hpp>
#include <sinter/kernel/loop_nest/cells.hpp>

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
  virtual void start() = 0;
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
  Cell value(Cell of_block) const {
    if (!has_blocks_) return of_block;
    Cell before = total_;
    if constexpr (std::is_floating_point_v<Cell>)
      if (is_compensated() && lost_ == lost_) before = total_ + lost_;
    return combined(reduction_, before, of_block);
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

  void start() override {
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

  void start() override {
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

/// `width`: lanes of the vectors that are scanned along an axis that is not theirs.
template <bool is_wide>
std::unique_ptr<CellScan> make_scan(const Inst& scan, bool is_vector_axis, std::int64_t width) {
  return visit_computed(scan.dtype, [&](auto tag) -> std::unique_ptr<CellScan> {
    using Cell = CellOf<decltype(tag), is_wide>;
    if (is_vector_axis) return std::make_unique<VectorAxisScan<Cell>>(scan);
    return std::make_unique<OtherAxisScan<Cell>>(scan, width);
  });
}

}  // namespace kernel_detail
SINTER_NAMESPACE_END
