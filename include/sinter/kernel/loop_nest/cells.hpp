// What the interpreter of loop nests computes in: cells, which hold the lanes of a value in the C++ type of its dtype
// or in a wider one, and folds over them. Knows dtypes and primitives; no nests.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/error.hpp>
#include <sinter/base/index.hpp>
#include <sinter/kernel/kernel.hpp>
#include <sinter/ops/scalar.hpp>
#include <sinter/ops/scalar_maps.hpp>
#include <sinter/tensor/dtype.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <span>
#include <type_traits>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace kernel_detail {

using scalar_meaning::Stored;

/// The cell of a value that was computed in the next wider type, if that is asked for.
template <class T, bool is_wide>
using CellOf = std::conditional_t<is_wide && std::is_same_v<T, float>, double,
                                  std::conditional_t<is_wide && std::is_same_v<T, double>, long double, Stored<T>>>;

/// The largest cell, and where one may lie.
struct alignas(16) CellRoom {
  std::byte bytes[16];
};
static_assert(sizeof(long double) <= sizeof(CellRoom));

/// Between memory and cells, for one dtype in memory. Strides are in elements.
struct CellMemory {
  std::size_t bytes = 0;  // of a cell
  void (*load)(void* cells, const std::byte* from, std::int64_t stride, std::int64_t count) = nullptr;
  void (*store)(const void* cells, std::byte* to, std::int64_t stride, std::int64_t count) = nullptr;
  void (*fill)(void* cells, const Inst& immediate, std::int64_t count) = nullptr;
  void (*spread)(void* cells, std::int64_t count) = nullptr;  // the first cell to all
};

template <class T, bool is_wide>
struct CellFunctions {
  using Element = Stored<T>;
  using Value = Stored<tensor_detail::Computed<T>>;
  using Cell = CellOf<tensor_detail::Computed<T>, is_wide>;

  static void load(void* cells, const std::byte* from, std::int64_t stride, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) {
      Element element;
      std::memcpy(&element, from + i * stride * std::int64_t{sizeof(Element)}, sizeof element);
      static_cast<Cell*>(cells)[i] = static_cast<Value>(element);
    }
  }
  static void store(const void* cells, std::byte* to, std::int64_t stride, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) {
      const auto element = static_cast<Element>(static_cast<Value>(static_cast<const Cell*>(cells)[i]));
      std::memcpy(to + i * stride * std::int64_t{sizeof(Element)}, &element, sizeof element);
    }
  }
  static void fill(void* cells, const Inst& immediate, std::int64_t count) {
    const Value value =
        is_floating(immediate.dtype) ? static_cast<Value>(immediate.number()) : static_cast<Value>(immediate.integer());
    std::fill_n(static_cast<Cell*>(cells), count, static_cast<Cell>(value));
  }
  static void spread(void* cells, std::int64_t count) {
    std::fill_n(static_cast<Cell*>(cells) + 1, count - 1, *static_cast<Cell*>(cells));
  }
};

template <bool is_wide>
CellMemory cell_memory(DType dtype) {
  return visit_dtype(dtype, [](auto tag) {
    using F = CellFunctions<decltype(tag), is_wide>;
    return CellMemory{sizeof(typename F::Cell), F::load, F::store, F::fill, F::spread};
  });
}

/// A primitive on cells; null where it is no map. `from`: the dtype of its arguments (of the choices of a select).
template <bool is_wide>
scalar_meaning::VectorFunction cell_map(const Inst& inst, DType from) {
  return visit_computed(from, [&](auto tag) -> scalar_meaning::VectorFunction {
    using From = CellOf<decltype(tag), is_wide>;
    if (inst.prim != Prim::convert && inst.prim != Prim::bitcast) return scalar_meaning::map_of<From>(inst.prim);
    if (inst.prim == Prim::bitcast)
      return visit_computed(inst.dtype, [](auto to) -> scalar_meaning::VectorFunction {
        using F = Stored<decltype(tag)>;
        using T = Stored<decltype(to)>;
        if constexpr (sizeof(F) == sizeof(T)) return scalar_meaning::map_bitcast<T, F, CellOf<T, is_wide>, From>;
        else return nullptr;
      });
    return visit_computed(inst.dtype, [](auto to) -> scalar_meaning::VectorFunction {
      return scalar_meaning::map_convert<CellOf<decltype(to), is_wide>, From>;
    });
  });
}

// Folds --------------------------------------------------------------------------------------------------------------

using Cells = std::span<const void* const>;

/// A reduction in progress: takes in the points of an axis in order, or states of its blocks.
class CellFold {
 public:
  virtual ~CellFold() = default;
  virtual void start() = 0;
  /// Along the vector axis: `count` points. Along another: a point, for `count` lanes. One array for each argument.
  virtual void take(Cells arguments, std::int64_t count) = 0;
  /// What folds along an inner axis left, in the place of a point.
  virtual void take_folded(Cells states, std::int64_t count) { take(states, count); }
  /// The state of a whole block.
  virtual void take_block(Cells states) = 0;
  /// Ends the fold: its state, in `count` cells for each number of it. It is the value where there is one number.
  virtual void finish(std::span<void* const> states, std::int64_t count) = 0;
};

/// Two values of a reduction as one, the older first.
template <class Cell>
Cell combined(Prim reduction, Cell older, Cell newer) {
  switch (reduction) {
    case Prim::reduce_add: return scalar_meaning::Add{}(older, newer);
    case Prim::reduce_mul: return scalar_meaning::Mul{}(older, newer);
    case Prim::reduce_min: return scalar_meaning::Min{}(older, newer);
    default: return scalar_meaning::Max{}(older, newer);
  }
}

/// What a reduction over nothing gives.
template <class Cell>
Cell neutral_cell(Prim reduction) {
  using Limits = std::numeric_limits<std::conditional_t<std::is_same_v<Cell, std::uint8_t>, bool, Cell>>;
  if (reduction == Prim::reduce_mul) return 1;
  if (reduction == Prim::reduce_add) return 0;
  const bool is_min = reduction == Prim::reduce_min;
  if constexpr (std::is_floating_point_v<Cell>) return is_min ? Limits::infinity() : -Limits::infinity();
  else return static_cast<Cell>(is_min ? Limits::max() : Limits::lowest());
}

/// Along the vector axis: lanes in blocks, blocks in pairs by a binary counter.
template <class Cell>
class VectorAxisFold final : public CellFold {
 public:
  VectorAxisFold(Prim reduction, DType dtype) : reduction_(reduction), lanes_(as_index(256 / size_of(dtype))) {}

  void start() override {
    start_block();
    stack_.clear();
    blocks_ = 0;
  }
  void take(Cells arguments, std::int64_t count) override {
    for (std::int64_t i = 0; i < count; ++i) {
      if (in_block_ == row_sum_block) end_block();
      Cell& lane = lanes_[as_index(in_block_++) % lanes_.size()];
      lane = combined(reduction_, lane, static_cast<const Cell*>(arguments[0])[i]);
    }
  }
  void take_block(Cells states) override { push(*static_cast<const Cell*>(states[0])); }
  void finish(std::span<void* const> states, std::int64_t count) override {
    if (in_block_ != 0 || blocks_ == 0) end_block();
    Cell value = stack_.back();
    for (stack_.pop_back(); !stack_.empty(); stack_.pop_back()) value = combined(reduction_, stack_.back(), value);
    std::fill_n(static_cast<Cell*>(states[0]), count, value);
  }

 private:
  void start_block() {
    std::fill(lanes_.begin(), lanes_.end(), neutral_cell<Cell>(reduction_));
    in_block_ = 0;
  }
  void end_block() {
    for (std::size_t half = lanes_.size() / 2; half >= 1; half /= 2)
      for (std::size_t i = 0; i < half; ++i) lanes_[i] = combined(reduction_, lanes_[i], lanes_[i + half]);
    push(lanes_[0]);
    start_block();
  }
  void push(Cell value) {
    for (std::int64_t bits = blocks_++; (bits & 1) != 0; bits >>= 1) {
      value = combined(reduction_, stack_.back(), value);
      stack_.pop_back();
    }
    stack_.push_back(value);
  }

  Prim reduction_;
  std::vector<Cell> lanes_, stack_;
  std::int64_t in_block_ = 0, blocks_ = 0;
};

/// Along another axis: two lanes in blocks, blocks in order, sums of floats with what rounding loses beside them.
template <class Cell>
class OtherAxisFold final : public CellFold {
 public:
  OtherAxisFold(Prim reduction, std::int64_t width)
      : reduction_(reduction), lanes_(as_index(2 * width)), total_(as_index(width)), lost_(as_index(width)) {}

  void start() override {
    start_block();
    blocks_ = 0;
  }
  void take(Cells arguments, std::int64_t count) override {
    if (in_block_ == column_sum_block) end_block();
    Cell* lane = lanes_.data() + (in_block_++ % 2 == 0 ? 0 : total_.size());
    for (std::int64_t i = 0; i < count; ++i)
      lane[i] = combined(reduction_, lane[i], static_cast<const Cell*>(arguments[0])[i]);
  }
  void take_block(Cells) override { throw InternalError("a fold that has no values of blocks takes one in"); }
  void finish(std::span<void* const> states, std::int64_t count) override {
    end_block();
    const bool adds_lost = is_compensated() && blocks_ > 1;
    for (std::int64_t i = 0; i < count; ++i) {
      const Cell total = total_[as_index(i)], lost = lost_[as_index(i)];
      static_cast<Cell*>(states[0])[i] = adds_lost && lost == lost ? static_cast<Cell>(total + lost) : total;
    }
  }

 private:
  bool is_compensated() const { return std::is_floating_point_v<Cell> && reduction_ == Prim::reduce_add; }
  void start_block() {
    std::fill(lanes_.begin(), lanes_.end(), neutral_cell<Cell>(reduction_));
    in_block_ = 0;
  }
  void end_block() {
    for (std::size_t i = 0; i < total_.size(); ++i)
      add_block(total_[i], lost_[i], combined(reduction_, lanes_[i], lanes_[i + total_.size()]));
    ++blocks_;
    start_block();
  }
  void add_block(Cell& total, Cell& lost, Cell newer) const {
    if (blocks_ == 0) {
      total = newer;
      lost = 0;
      return;
    }
    const Cell older = total;
    total = combined(reduction_, older, newer);
    if constexpr (std::is_floating_point_v<Cell>) {
      if (!is_compensated()) return;
      const Cell added = total - older;
      lost += (older - (total - added)) + (newer - added);
    }
  }

  Prim reduction_;
  std::vector<Cell> lanes_, total_, lost_;  // the odd lane of all columns lies behind the even one
  std::int64_t in_block_ = 0, blocks_ = 0;
};

/// `width`: lanes of the vectors that are folded along an axis that is not theirs.
template <bool is_wide>
std::unique_ptr<CellFold> make_fold(const Inst& reduction, bool is_vector_axis, std::int64_t width) {
  return visit_computed(reduction.dtype, [&](auto tag) -> std::unique_ptr<CellFold> {
    using Cell = CellOf<decltype(tag), is_wide>;
    if (is_vector_axis) return std::make_unique<VectorAxisFold<Cell>>(reduction.prim, reduction.dtype);
    return std::make_unique<OtherAxisFold<Cell>>(reduction.prim, width);
  });
}

}  // namespace kernel_detail
SINTER_NAMESPACE_END
