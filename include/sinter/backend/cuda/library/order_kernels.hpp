// Kernels that order rows, and which of them an ordering is made of: rows that fit a block are sorted there, longer
// ones by their digits; of those a few first elements come from a tournament of blocks. Knows no driver.
#pragma once

#include <sinter/backend/cuda/library/library_kernels.hpp>
#include <sinter/base/config.hpp>
#include <sinter/tensor/dtype.hpp>

#include <cstddef>
#include <cstdint>

SINTER_NAMESPACE_BEGIN
namespace cuda {

/// What is made of the order of a row: its first `count` elements, these as they stand in the row, or one element. The
/// kernels' texts know the numbers.
enum class OrderedPick : std::int32_t {
  first = 0,
  first_by_position = 1,
  rank = 2,
  median = 3,
  nanmedian = 4,
  mode = 5
};

/// `rows` rows of `length` elements, which stand `stride` apart.
struct OrderProblem {
  DType dtype = DType::f32;
  std::int64_t rows = 1, length = 1, stride = 1, count = 1;
  std::int64_t rank = 0;
  bool is_descending = false;
  OrderedPick pick = OrderedPick::first;
};

/// The parameter of all kernels; their texts declare the same.
struct OrderArguments {
  const void* in = nullptr;    // the tensor
  const void* from = nullptr;  // entries that are read; null: the tensor's elements are
  void* to = nullptr;          // entries that are written; null: results are
  void* values = nullptr;
  std::int64_t* indices = nullptr;
  std::uint32_t *counts = nullptr, *totals = nullptr;  // of digits: in each tile of each row, and in each row
  std::int64_t rows = 1, in_length = 1, stride = 1;    // of the tensor
  std::int64_t length = 1, tiles = 1;                  // of the rows that are read
  std::int64_t count = 1, rank = 0;                    // of results
  std::int32_t pick = 0, is_descending = 0, shift = 0, is_or_equal = 0;
};

/// Rows of up to `width` elements, a power of two from 8 on, each sorted by one block or a part of one: order_rows. An
/// entry has 32 bits where `is_narrow`: dtypes of up to 16 bits, and positions below 2^16.
struct RowSort {
  DType dtype = DType::f32;
  int width = 8;
  bool is_narrow = false;
  static int longest(DType dtype);
  int threads() const;
  int rows_of_block() const;
};
LibrarySource row_sort_kernel(const RowSort& sort);

/// Of rows of any length: the four of OrderStep::Kernel, and searchsorted.
LibrarySource digit_sort_kernels(DType dtype);
enum class DigitKernel : std::uint8_t {
  count_digits = 0,
  sum_counts = 1,
  move_by_digit = 2,
  pick = 3,
  searchsorted = 4
};

/// Complex numbers have no order.
bool has_order_kernels(DType dtype);

/// How a problem is solved, and its launches.
class OrderPlan {
 public:
  enum class Way : std::uint8_t { rows, tournament, digits, none };

  explicit OrderPlan(const OrderProblem& problem);
  Way way() const { return way_; }
  /// Of rows and tournament.
  const RowSort& row_sort() const { return row_sort_; }
  std::size_t workspace_bytes() const;

  /// Calls run(entry, blocks, threads, arguments) for each launch; the entry is one of the way's source.
  template <class Run>
  void for_each_launch(const void* in, void* values, std::int64_t* indices, char* workspace, Run&& run) const {
    OrderArguments a = arguments(in, values, indices);
    if (way_ == Way::rows) run_rows(a, run);
    else if (way_ == Way::tournament) run_tournament(a, workspace, run);
    else run_digits(a, workspace, run);
  }

 private:
  static constexpr std::int64_t digit_values = 256;
  static std::size_t aligned(std::size_t bytes) { return (bytes + 255) / 256 * 256; }
  int key_bits() const { return 8 * row(problem_.dtype).size; }
  std::size_t entry_bytes() const { return key_bits() == 64 ? 16 : 8; }
  std::int64_t tile() const { return key_bits() == 64 ? 2048 : 4096; }  // of digit_sort_kernels
  std::int64_t tiles() const { return (problem_.length + tile() - 1) / tile(); }
  bool picks_one() const { return problem_.pick >= OrderedPick::rank; }
  /// Of the two buffers that entries move between.
  std::size_t buffer_bytes() const;
  OrderArguments arguments(const void* in, void* values, std::int64_t* indices) const;

  template <class Run>
  void run_rows(const OrderArguments& a, Run& run) const {
    const std::int64_t each = row_sort_.rows_of_block();
    run(std::size_t{0}, (a.rows * a.tiles + each - 1) / each, row_sort_.threads(), a);
  }
  /// Each tile's first elements are a row's tile of the next round.
  template <class Run>
  void run_tournament(OrderArguments a, char* workspace, Run& run) const {
    for (int round = 0;; ++round) {
      a.tiles = (a.length + row_sort_.width - 1) / row_sort_.width;
      const bool is_last = a.tiles == 1;
      a.to = is_last ? nullptr : workspace + static_cast<std::size_t>(round % 2) * buffer_bytes();
      a.pick = static_cast<std::int32_t>(is_last ? problem_.pick : OrderedPick::first);
      run_rows(a, run);
      if (is_last) return;
      a.from = a.to;
      a.length = a.tiles * a.count;
    }
  }
  template <class Run>
  void run_digits(OrderArguments a, char* workspace, Run& run) const {
    constexpr int threads = 256;
    const auto entry = [](DigitKernel kernel) { return static_cast<std::size_t>(kernel); };
    const auto counts = static_cast<std::size_t>(a.rows * digit_values * a.tiles);
    a.counts = reinterpret_cast<std::uint32_t*>(workspace + 2 * buffer_bytes());
    a.totals = a.counts + counts;
    for (int shift = 0; shift < key_bits(); shift += 8) {
      const bool is_last = shift + 8 == key_bits();
      a.shift = shift;
      a.to = is_last && !picks_one() ? nullptr : workspace + static_cast<std::size_t>(shift / 8 % 2) * buffer_bytes();
      run(entry(DigitKernel::count_digits), a.rows * a.tiles, threads, a);
      run(entry(DigitKernel::sum_counts), a.rows * digit_values, threads, a);
      run(entry(DigitKernel::move_by_digit), a.rows * a.tiles, threads, a);
      a.from = a.to;
    }
    if (picks_one()) run(entry(DigitKernel::pick), a.rows, threads, a);
  }

  OrderProblem problem_;
  Way way_ = Way::none;
  RowSort row_sort_;
};

}  // namespace cuda
SINTER_NAMESPACE_END
