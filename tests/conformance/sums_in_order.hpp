// The order of reductions that kernel.hpp documents, literally: what back ends that keep to it are compared with bit
// for bit.
#pragma once

#include <sinter/kernel/kernel.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace sinter_test {

/// Blocks [0, count) combined pairwise by a binary counter.
template <class T, class Block, class F>
T blocks_in_pairs(std::int64_t count, Block block, F op) {
  std::vector<T> stack;
  for (std::int64_t b = 0; b < std::max<std::int64_t>(count, 1); ++b) {
    T value = block(b);
    for (std::int64_t bits = b; bits & 1; bits >>= 1) {
      value = op(stack.back(), value);
      stack.pop_back();
    }
    stack.push_back(value);
  }
  T value = stack.back();
  for (stack.pop_back(); !stack.empty(); stack.pop_back()) value = op(stack.back(), value);
  return value;
}

/// Along the vector axis.
template <class T, class F>
T row_in_order(const T* x, std::int64_t n, std::int64_t stride, T neutral, F op) {
  constexpr std::int64_t lanes = 256 / static_cast<std::int64_t>(sizeof(T)), length = sinter::row_sum_block;
  const auto block = [&](std::int64_t b) {
    std::vector<T> lane(lanes, neutral);
    for (std::int64_t j = b * length; j < std::min(n, (b + 1) * length); ++j) {
      const auto to = static_cast<std::size_t>(j % length % lanes);  // no reference: std::vector<bool> has none
      lane[to] = op(lane[to], x[j * stride]);
    }
    for (std::int64_t half = lanes / 2; half >= 1; half /= 2)
      for (std::int64_t i = 0; i < half; ++i)
        lane[static_cast<std::size_t>(i)] =
            op(lane[static_cast<std::size_t>(i)], lane[static_cast<std::size_t>(i + half)]);
    return static_cast<T>(lane[0]);
  };
  return blocks_in_pairs<T>((n + length - 1) / length, block, op);
}

/// A sum and what rounding lost of it.
template <class T>
struct Compensated {
  T total = 0, lost = 0;
  void add(T newer) {
    const T sum = total + newer, added = sum - total;
    lost += (total - (sum - added)) + (newer - added);
    total = sum;
  }
  T value() const { return lost == lost ? total + lost : total; }
};

/// Along any other axis: a sum if the neutral element is 0.
template <class T, class F>
T column_in_order(const T* x, std::int64_t n, std::int64_t stride, T neutral, F op) {
  constexpr std::int64_t length = sinter::column_sum_block;
  const auto block = [&](std::int64_t b) {
    T lane[2] = {neutral, neutral};
    for (std::int64_t j = b * length; j < std::min(n, (b + 1) * length); ++j)
      lane[j % 2] = op(lane[j % 2], x[j * stride]);
    return op(lane[0], lane[1]);
  };
  if (n <= length) return block(0);
  if (neutral != 0) {
    T total = neutral;
    for (std::int64_t b = 0; b * length < n; ++b) total = op(total, block(b));
    return total;
  }
  Compensated<T> total;
  for (std::int64_t b = 0; b * length < n; ++b) total.add(block(b));
  return total.value();
}

/// Of left(k) * right(k), k in [0, n), as contractions add them up.
template <class T, class Left, class Right>
T product_in_order(std::int64_t n, Left left, Right right) {
  Compensated<T> total;
  for (std::int64_t group = 0; group == 0 || group < n; group += sinter::product_sum_group) {
    const std::int64_t group_end = std::min(n, group + sinter::product_sum_group);
    T group_sum = 0;
    for (std::int64_t block = group; block == group || block < group_end; block += sinter::product_sum_block) {
      T sum = 0;
      for (std::int64_t k = block; k < std::min(group_end, block + sinter::product_sum_block); ++k)
        sum = std::fma(left(k), right(k), sum);
      group_sum = block == group ? sum : group_sum + sum;
    }
    if (group == 0) total.total = group_sum;
    else total.add(group_sum);
  }
  return n <= sinter::product_sum_group ? total.total : total.value();
}

}  // namespace sinter_test
