// The sums of products in the interpreter of loop nests: blocks by fma, blocks in order inside a group, groups with
// what rounding loses beside them, as the Kernel's Order says. Knows cells; no nests.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/error.hpp>
#include <sinter/base/index.hpp>
#include <sinter/kernel/loop_nest/cells.hpp>

#include <algorithm>
#include <memory>
#include <span>
#include <type_traits>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace kernel_detail {

template <class Cell>
class ProductFold final : public CellFold {
 public:
  ProductFold(const Order& order, std::int64_t width)
      : order_(order),
        block_(as_index(width)),
        group_(as_index(width)),
        total_(as_index(width)),
        lost_(as_index(width)) {}

  void start() override {
    clear(block_);
    clear(total_);
    clear(lost_);
    in_block_ = in_group_ = groups_ = 0;
  }
  void take(Cells arguments, std::int64_t count) override {
    if (in_block_ == order_.block) end_block();
    ++in_block_;
    const auto *a = static_cast<const Cell*>(arguments[0]), *b = static_cast<const Cell*>(arguments[1]);
    for (std::size_t i = 0; i < as_index(count); ++i) block_[i] = scalar_meaning::Fma{}(a[i], b[i], block_[i]);
  }
  void take_block(Cells) override { throw InternalError("a sum of products takes in no values of blocks"); }
  void finish(std::span<void* const> states, std::int64_t count) override {
    if (in_block_ != 0) end_block();
    if (in_group_ != 0) end_group();
    for (std::size_t i = 0; i < as_index(count); ++i) {
      const bool adds_lost = groups_ > 1 && lost_[i] == lost_[i];
      static_cast<Cell*>(states[0])[i] = adds_lost ? static_cast<Cell>(total_[i] + lost_[i]) : total_[i];
    }
  }

 private:
  static void clear(std::vector<Cell>& cells) { std::fill(cells.begin(), cells.end(), Cell{}); }
  void end_block() {
    for (std::size_t i = 0; i < block_.size(); ++i)
      group_[i] = in_group_ == 0 ? block_[i] : scalar_meaning::Add{}(group_[i], block_[i]);
    in_group_ += order_.block;
    in_block_ = 0;
    clear(block_);
    if (in_group_ >= order_.group) end_group();
  }
  void end_group() {
    for (std::size_t i = 0; i < group_.size(); ++i) {
      const Cell older = total_[i], newer = group_[i];
      total_[i] = groups_ == 0 ? newer : scalar_meaning::Add{}(older, newer);
      if constexpr (std::is_floating_point_v<Cell>) {
        const Cell added = total_[i] - older;
        if (groups_ != 0) lost_[i] += (older - (total_[i] - added)) + (newer - added);
      }
    }
    ++groups_;
    in_group_ = 0;
  }

  const Order order_;
  std::vector<Cell> block_, group_, total_, lost_;
  std::int64_t in_block_ = 0, in_group_ = 0, groups_ = 0;
};

/// `width`: lanes of the vectors of columns.
template <bool is_wide>
std::unique_ptr<CellFold> make_product_fold(const Kernel& kernel, const Inst& contract, std::int64_t width) {
  const Order order = kernel.order(kernel.rank() - 1);
  ensure(order.lanes_of(contract.dtype) == 1 && order.above == BlockOrder::compensated,
         "interpret: sums of products have one lane, and groups in order");
  return visit_computed(contract.dtype, [&](auto tag) -> std::unique_ptr<CellFold> {
    return std::make_unique<ProductFold<CellOf<decltype(tag), is_wide>>>(order, width);
  });
}

}  // namespace kernel_detail
SINTER_NAMESPACE_END
