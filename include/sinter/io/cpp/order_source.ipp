// Keys are unsigned numbers of 64 bits whatever the dtype: the bits of an element as they are ordered. NaN is greater
// than every number, all NaN are equal, and so are both zeros; equals keep their order.
#pragma once

#include <sinter/io/cpp/order_source.hpp>

#include <sinter/base/index.hpp>
#include <sinter/ops/order.hpp>

#include <utility>

SINTER_NAMESPACE_BEGIN
namespace io::cpp_detail {

enum class OrderWork : std::uint8_t { sort, topk, topk_in_place, rank, median, nanmedian, mode, search, search_right };
enum class OrderKind : std::uint8_t { from_zero, with_sign, floating };
/// Places of the numbers that the source reads.
enum OrderNumber : std::uint8_t {
  order_work,
  order_kind,
  order_size,      // bytes of an element
  order_infinity,  // the bits of the greatest magnitude that is a number
  order_rows,
  order_length,   // elements of a row
  order_stride,   // from one element of a row to the next
  order_results,  // of a row; of a search, elements of x for a row
  order_descends,
  order_rank,
  order_values,   // operand, or -1
  order_indices,  // operand, or -1
  order_numbers,
};
static_assert(order_numbers == 12 && static_cast<int>(OrderWork::search) == 7);

inline std::int64_t greatest_magnitude(DType dtype) {
  switch (dtype) {
    case DType::f32: return 0x7F80'0000;
    case DType::f64: return 0x7FF0'0000'0000'0000;
    case DType::f16: return 0x7C00;
    case DType::bf16: return 0x7F80;
    default: return 0;
  }
}
inline OrderKind order_kind_of(DType dtype) {
  if (is_floating(dtype)) return OrderKind::floating;
  const bool has_sign = dtype == DType::i8 || dtype == DType::i16 || dtype == DType::i32 || dtype == DType::i64;
  return has_sign ? OrderKind::with_sign : OrderKind::from_zero;
}

inline std::int64_t elements_of(const Type& type, std::span<const std::int64_t> symbols, int begin, int end) {
  std::int64_t count = 1;
  for (int axis = begin; axis < end; ++axis) count *= type.shape[axis].evaluate(symbols);
  return count;
}

inline Optional<OrderStep> search_step(const HostOp& op, std::span<const std::int64_t> symbols,
                                       std::vector<std::int64_t> numbers) {
  const Type &sorted = op.types[0], &x = op.types[1];
  const int rank = sorted.shape.rank();
  const std::int64_t all = elements_of(x, symbols, 0, x.shape.rank());
  const bool is_one_row = rank == 1 || all == 0;
  numbers[order_work] =
      static_cast<std::int64_t>((*op.attrs)[ops::Searchsorted::right] ? OrderWork::search_right : OrderWork::search);
  numbers[order_length] = sorted.shape[-1].evaluate(symbols);
  numbers[order_results] = is_one_row ? all : x.shape[-1].evaluate(symbols);
  numbers[order_rows] = is_one_row ? 1 : all / numbers[order_results];
  numbers[order_indices] = 2;
  return OrderStep{std::move(numbers), 0};
}

SINTER_DECL Optional<OrderStep> order_step(const HostOp& op, std::span<const std::int64_t> symbols) {
  if (op.types.empty() || is_complex(op.types[0].dtype)) return {};
  const DType dtype = op.types[0].dtype;
  const Attrs& attrs = *op.attrs;
  std::vector<std::int64_t> numbers(order_numbers);
  numbers[order_kind] = static_cast<std::int64_t>(order_kind_of(dtype));
  numbers[order_size] = size_of(dtype);
  numbers[order_infinity] = greatest_magnitude(dtype);
  numbers[order_stride] = 1;
  numbers[order_values] = numbers[order_indices] = -1;
  if (op.run == &ops::Searchsorted::run_on_host) return search_step(op, symbols, std::move(numbers));

  OrderWork work{};
  ops::OrderedPart part{};
  bool descends = false;
  Dim results = 1;
  if (op.run == &ops::Sort::run_on_host) {
    part = attrs[ops::Sort::part];
    descends = attrs[ops::Sort::descending];
    results = -1;
  } else if (op.run == &ops::Topk::run_on_host) {
    part = attrs[ops::Topk::part];
    work = attrs[ops::Topk::in_place] ? OrderWork::topk_in_place : OrderWork::topk;
    descends = !attrs[ops::Topk::smallest];
    results = attrs[ops::Topk::count];
  } else if (op.run == &ops::OrderStatistic::run_on_host) {
    part = attrs[ops::OrderStatistic::part];
    work =
        static_cast<OrderWork>(static_cast<int>(OrderWork::rank) + static_cast<int>(attrs[ops::OrderStatistic::kind]));
    if (work == OrderWork::rank) numbers[order_rank] = attrs[ops::OrderStatistic::rank].evaluate(symbols);
  } else return {};
  const Type& x = op.types[0];
  const int rank = x.shape.rank(), given = static_cast<int>(attrs.axes[0]), axis = given < 0 ? given + rank : given;
  const std::int64_t length = x.shape[axis].evaluate(symbols);
  numbers[order_work] = static_cast<std::int64_t>(work);
  numbers[order_length] = length;
  numbers[order_stride] = elements_of(x, symbols, axis + 1, rank);
  numbers[order_rows] = elements_of(x, symbols, 0, axis) * numbers[order_stride];
  numbers[order_results] = work == OrderWork::sort ? length : results.evaluate(symbols);
  numbers[order_descends] = descends;
  if (part != ops::OrderedPart::indices) numbers[order_values] = 1;
  if (part != ops::OrderedPart::values) numbers[order_indices] = part == ops::OrderedPart::both ? 2 : 1;
  return OrderStep{std::move(numbers), as_index(length) * 16};
}

SINTER_DECL std::string_view order_source() {
  return R"cpp(
    template <class Bits>
    std::uint64_t bits_at(const char* at) {
      Bits bits;
      std::memcpy(&bits, at, sizeof bits);
      return bits;
    }
    // What an element is ordered by. NaN is greater than every number; both zeros are equal.
    inline std::uint64_t order_key(const char* at, const Number* n) {
      const std::uint64_t bits = n[2] == 1   ? bits_at<std::uint8_t>(at)
                                 : n[2] == 2 ? bits_at<std::uint16_t>(at)
                                 : n[2] == 4 ? bits_at<std::uint32_t>(at)
                                             : bits_at<std::uint64_t>(at);
      const std::uint64_t sign = std::uint64_t(1) << (8 * n[2] - 1), magnitude = bits & (sign - 1);
      if (n[1] == 0) return bits;
      if (n[1] == 1) return bits ^ sign;
      if (magnitude > static_cast<std::uint64_t>(n[3])) return ~std::uint64_t(0);
      return (bits & sign) != 0 ? sign - magnitude : sign + magnitude;
    }

    struct Entry {
      std::uint64_t key;
      Number position;
    };
    inline bool operator<(const Entry& a, const Entry& b) {
      return a.key < b.key || (a.key == b.key && a.position < b.position);
    }
    inline bool stands_before(const Entry& a, const Entry& b) { return a.position < b.position; }

    // Which of the entries of a row, which are sorted, a statistic is.
    inline Number place_of_statistic(const Entry* entries, const Number* n) {
      const Number length = n[5];
      if (n[0] == 3) return n[9];
      if (n[0] == 6) {  // of the longest runs of equals the first, of it the last
        Number longest = 0, place = 0;
        for (Number begin = 0, end = 1; begin < length; begin = end++) {
          while (end < length && entries[end].key == entries[begin].key) ++end;
          if (end - begin <= longest) continue;
          longest = end - begin;
          place = end - 1;
        }
        return place;
      }
      Number numbers = length;
      while (n[1] == 2 && numbers > 0 && entries[numbers - 1].key == ~std::uint64_t(0)) --numbers;
      return numbers == 0 || (n[0] == 4 && numbers < length) ? numbers : (numbers - 1) / 2;
    }

    inline void search_rows(const Number* n, char* const* operands) {
      Number* out = reinterpret_cast<Number*>(operands[2]);
      const char* x = operands[1];
      for (Number row = 0; row < n[4]; ++row) {
        const char* const sorted = operands[0] + row * n[5] * n[2];
        for (Number i = 0; i < n[7]; ++i, x += n[2]) {
          const std::uint64_t key = order_key(x, n);
          Number first = 0, length = n[5];
          while (length > 0) {
            const Number half = length / 2;
            const std::uint64_t middle = order_key(sorted + (first + half) * n[2], n);
            const bool is_before = n[0] == 8 ? middle <= key : middle < key;
            first = is_before ? first + half + 1 : first;
            length = is_before ? length - half - 1 : half;
          }
          *out++ = first;
        }
      }
    }

    inline void run_order(const Number* n, char* const* operands, char* scratch) {
      if (n[0] >= 7) return search_rows(n, operands);
      Entry* const entries = reinterpret_cast<Entry*>(scratch);
      const Number size = n[2], length = n[5], stride = n[6], results = n[7];
      for (Number row = 0; row < n[4]; ++row) {
        const char* const from = operands[0] + (row / stride * stride * length + row % stride) * size;
        for (Number i = 0; i < length; ++i) {
          const std::uint64_t key = order_key(from + i * stride * size, n);
          entries[i].key = n[8] != 0 ? ~key : key;
          entries[i].position = i;
        }
        const Number sorted = n[0] == 1 || n[0] == 2 ? results : length;
        if (sorted == length) std::sort(entries, entries + length);
        else std::partial_sort(entries, entries + sorted, entries + length);
        if (n[0] == 2) std::sort(entries, entries + sorted, stands_before);
        const Entry* const first = n[0] >= 3 ? entries + place_of_statistic(entries, n) : entries;
        const Number to = row / stride * stride * results + row % stride;
        for (Number i = 0; i < results; ++i) {
          const Number at = to + i * stride;
          if (n[10] >= 0)
            std::memcpy(operands[n[10]] + at * size, from + first[i].position * stride * size,
                        static_cast<std::size_t>(size));
          if (n[11] >= 0) reinterpret_cast<Number*>(operands[n[11]])[at] = first[i].position;
        }
      }
    }
  )cpp";
}

}  // namespace io::cpp_detail
SINTER_NAMESPACE_END
