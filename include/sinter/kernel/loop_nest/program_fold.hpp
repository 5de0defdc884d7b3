// A fold with state in the interpreter of loop nests, in the order that kernel.hpp states. Knows lanes and blocks; no
// nests.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/error.hpp>
#include <sinter/base/index.hpp>
#include <sinter/kernel/fold_lanes.hpp>
#include <sinter/kernel/kernel.hpp>
#include <sinter/kernel/loop_nest/cells.hpp>
#include <sinter/kernel/loop_nest/product_fold.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <utility>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace kernel_detail {

/// Along the vector axis: lanes in blocks, blocks in pairs by a binary counter.
template <bool is_wide>
class VectorAxisProgramFold final : public CellFold {
 public:
  explicit VectorAxisProgramFold(const ScalarFold& fold) : lanes_(fold, fold_lanes), pair_(fold, 1) {}

  void start() override {
    lanes_.start();
    stack_.clear();
    in_block_ = blocks_ = 0;
  }
  void take(Cells arguments, std::int64_t count) override {
    for (std::int64_t i = 0; i < count;) {
      if (in_block_ == row_sum_block) end_block();
      const std::int64_t lane = in_block_ % fold_lanes, next = std::min<std::int64_t>(count - i, fold_lanes - lane);
      lanes_.step(lane, next, arguments, i);
      in_block_ += next;
      i += next;
    }
  }
  void take_folded(Cells, std::int64_t) override { throw InternalError("a fold along the vector axis is innermost"); }
  void take_block(Cells states) override { push(saved(states)); }
  void finish(std::span<void* const> states, std::int64_t count) override {
    if (in_block_ != 0 || blocks_ == 0) end_block();
    State value = stack_.back();
    for (stack_.pop_back(); !stack_.empty(); stack_.pop_back()) value = merged(stack_.back(), value);
    for (std::size_t s = 0; s < states.size(); ++s)
      for (std::int64_t i = 0; i < count; ++i)
        std::memcpy(static_cast<std::byte*>(states[s]) + as_index(i) * lanes_.bytes(s), &value[s], lanes_.bytes(s));
  }

 private:
  using State = std::vector<CellRoom>;

  State saved(Cells states) const {
    State state(lanes_.states());
    for (std::size_t s = 0; s < state.size(); ++s) std::memcpy(&state[s], states[s], lanes_.bytes(s));
    return state;
  }
  static typename FoldLanes<is_wide>::Pointers pointers_to(const State& state) {
    typename FoldLanes<is_wide>::Pointers pointers{};
    for (std::size_t s = 0; s < state.size(); ++s) pointers[s] = &state[s];
    return pointers;
  }
  State merged(const State& older, const State& newer) {
    pair_.set(1, pointers_to(older));
    pair_.merge(0, 1, pointers_to(newer));
    return saved(pair_.at(0));
  }
  void end_block() {
    lanes_.merge_halves();
    push(saved(lanes_.at(0)));
    lanes_.start();
    in_block_ = 0;
  }
  void push(State value) {
    for (std::int64_t bits = blocks_++; (bits & 1) != 0; bits >>= 1) {
      value = merged(stack_.back(), value);
      stack_.pop_back();
    }
    stack_.push_back(std::move(value));
  }

  FoldLanes<is_wide> lanes_, pair_;
  std::vector<State> stack_;
  std::int64_t in_block_ = 0, blocks_ = 0;
};

/// Along another axis: point after point in blocks, blocks in order.
template <bool is_wide>
class OtherAxisProgramFold final : public CellFold {
 public:
  OtherAxisProgramFold(const ScalarFold& fold, std::int64_t width) : block_(fold, width), total_(fold, width) {}

  void start() override {
    block_.start();
    total_.start();
    in_block_ = blocks_ = 0;
  }
  void take(Cells arguments, std::int64_t count) override {
    begin_point();
    block_.step(0, count, arguments);
  }
  void take_folded(Cells states, std::int64_t count) override {
    begin_point();
    block_.merge(0, count, states);
  }
  void take_block(Cells) override { throw InternalError("a fold that has no values of blocks takes one in"); }
  void finish(std::span<void* const> states, std::int64_t count) override {
    end_block();
    for (std::size_t s = 0; s < states.size(); ++s)
      std::memcpy(states[s], total_.state(s), as_index(count) * total_.bytes(s));
  }

 private:
  void begin_point() {
    if (in_block_ == column_sum_block) end_block();
    ++in_block_;
  }
  void end_block() {
    if (blocks_++ == 0) total_.set(block_.lanes(), block_.at(0));
    else total_.merge(0, block_.lanes(), block_.at(0));
    block_.start();
    in_block_ = 0;
  }

  FoldLanes<is_wide> block_, total_;
  std::int64_t in_block_ = 0, blocks_ = 0;
};

/// Any reduction of a nest. `width`: lanes of the vectors that are folded along an axis that is not theirs.
template <bool is_wide>
std::unique_ptr<CellFold> make_cell_fold(const Kernel& kernel, const Inst& reduction, bool is_vector_axis,
                                         std::int64_t width) {
  if (reduction.prim == Prim::contract) return make_product_fold<is_wide>(kernel, reduction, width);
  if (reduction.prim != Prim::fold) return make_fold<is_wide>(reduction, is_vector_axis, width);
  const ScalarFold& fold = kernel.folds[reduction.access];
  if (is_vector_axis) return std::make_unique<VectorAxisProgramFold<is_wide>>(fold);
  return std::make_unique<OtherAxisProgramFold<is_wide>>(fold, width);
}

}  // namespace kernel_detail
SINTER_NAMESPACE_END
