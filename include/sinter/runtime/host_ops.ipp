// scatter_add.
#pragma once

#include <sinter/runtime/host_ops.hpp>

#include <sinter/base/error.hpp>

#include <algorithm>
#include <string>
#include <type_traits>

SINTER_NAMESPACE_BEGIN

namespace runtime_detail {
/// Adds value[outer..., index..., inner...] to result[outer..., at, inner...], walking the value in row-major order.
class ScatterAdd final : public Launch {
 public:
  ScatterAdd(const HostOp& op, std::span<const std::int64_t> symbols) : dtype_(op.dtype), index_dtype_(op.index_dtype) {
    IntVector result_stride(static_cast<std::size_t>(op.result_shape.rank()));
    for (int i = op.result_shape.rank() - 1; i >= 0; --i) {
      result_stride[static_cast<std::size_t>(i)] = result_elements_;
      result_elements_ *= op.result_shape[i].evaluate(symbols);
    }
    limit_ = op.result_shape[op.axis].evaluate(symbols);
    axis_stride_ = result_stride[static_cast<std::size_t>(op.axis)];
    index_offset_ = op.index.offset.evaluate(symbols);
    value_offset_ = op.value.offset.evaluate(symbols);
    const int index_rank = op.index_shape.rank(), rank = op.result_shape.rank() - 1 + index_rank;
    for (int i = 0; i < rank; ++i) {
      const int in_index = i - op.axis;
      const bool is_index = in_index >= 0 && in_index < index_rank;
      const int in_result = i < op.axis ? i : i - index_rank + 1;
      extent_.push_back((is_index ? op.index_shape[in_index] : op.result_shape[in_result]).evaluate(symbols));
      value_stride_.push_back(op.value.strides[static_cast<std::size_t>(i)].evaluate(symbols));
      index_stride_.push_back(is_index ? op.index.strides[static_cast<std::size_t>(in_index)].evaluate(symbols) : 0);
      result_stride_.push_back(is_index ? 0 : result_stride[static_cast<std::size_t>(in_result)]);
    }
    if (extent_.empty()) {   // a scalar index into one axis
      extent_.push_back(1);
      value_stride_.push_back(0), index_stride_.push_back(0), result_stride_.push_back(0);
    }
  }

  void run(void* const* operands) override {
    visit_dtype(dtype_, [&](auto tag) {
      using T = decltype(tag);
      if (index_dtype_ == DType::i32) add(static_cast<const std::int32_t*>(operands[0]), static_cast<const T*>(operands[1]), static_cast<T*>(operands[2]));
      else add(static_cast<const std::int64_t*>(operands[0]), static_cast<const T*>(operands[1]), static_cast<T*>(operands[2]));
    });
  }

 private:
  template <class Index, class T>
  void add(const Index* index, const T* value, T* result) const {
    std::fill_n(result, result_elements_, T{});
    for (std::int64_t extent : extent_)
      if (extent == 0) return;
    const std::size_t last = extent_.size() - 1;
    IntVector at(extent_.size(), 0);
    std::int64_t value_at = value_offset_, index_at = index_offset_, result_at = 0;
    for (;;) {
      for (std::int64_t i = 0; i < extent_[last]; ++i) {
        const std::int64_t place = index[index_at + i * index_stride_[last]];
        if (place < 0 || place >= limit_)
          throw IndexError("scatter_add", "index " + std::to_string(place) + " is out of range for an axis of extent " + std::to_string(limit_));
        T& to = result[result_at + i * result_stride_[last] + place * axis_stride_];
        to = sum(to, value[value_at + i * value_stride_[last]]);
      }
      std::size_t axis = last;
      while (axis-- > 0) {
        value_at += value_stride_[axis], index_at += index_stride_[axis], result_at += result_stride_[axis];
        if (++at[axis] < extent_[axis]) break;
        value_at -= extent_[axis] * value_stride_[axis];
        index_at -= extent_[axis] * index_stride_[axis];
        result_at -= extent_[axis] * result_stride_[axis];
        at[axis] = 0;
      }
      if (axis == static_cast<std::size_t>(-1)) return;
    }
  }

  template <class T>
  static T sum(T a, T b) {
    if constexpr (std::is_same_v<T, bool>) return a || b;
    else if constexpr (std::is_integral_v<T>) return static_cast<T>(static_cast<std::make_unsigned_t<T>>(a) + static_cast<std::make_unsigned_t<T>>(b));
    else return a + b;
  }

  DType dtype_, index_dtype_;
  std::int64_t result_elements_ = 1, limit_ = 0, axis_stride_ = 0, index_offset_ = 0, value_offset_ = 0;
  IntVector extent_, value_stride_, index_stride_, result_stride_;
};
}  // namespace runtime_detail

SINTER_DECL HostOp make_host_op(const ItemGraph& items, int item) {
  const Item& it = items[item];
  ensure(it.form == Form::scatter_add, "host op: not one");
  HostOp op;
  op.dtype = it.dtype;
  op.index_dtype = items[it.inputs[0]].dtype;
  op.axis = static_cast<int>(items.node(item)->attrs.axes[0]);
  op.index_shape = items[it.inputs[0]].shape;
  op.result_shape = it.shape;
  const Layout *index = items.layout_of(it.inputs[0]), *value = items.layout_of(it.inputs[1]);
  ensure(index != nullptr && value != nullptr, "host op: an operand is not in memory");
  op.index = *index;
  op.value = *value;
  return op;
}

SINTER_DECL std::unique_ptr<Launch> bind_host_op(const HostOp& op, std::span<const std::int64_t> symbols) {
  return std::make_unique<runtime_detail::ScatterAdd>(op, symbols);
}

SINTER_NAMESPACE_END
