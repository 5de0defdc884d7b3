// Orders one row: by insertion where it is short, else by its digits from the least on (LSD radix sort; Knuth 1998, 5.2.5),
// which is stable and looks at each element as often as keys have digits. Wide keys are ordered by their upper half, and
// what is equal there by the lower one. A long row is cut into blocks that threads share; the result is the same.
// Only .ipp files include it.
#pragma once

#include <sinter/base/index.hpp>
#include <sinter/base/threads.hpp>
#include <sinter/ops/order_keys.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace ops_detail {

inline constexpr std::int64_t insertion_length = 28, comparison_length = 80;  // up to these, measured
inline constexpr std::int64_t shared_row_length = 1 << 15;                    // from here on threads share a row
inline constexpr int digits = 4, digit_values = 256;                          // of the upper half of Packed
using DigitCounts = std::array<std::uint32_t, digit_values>;

inline std::uint32_t digit_of(Packed entry, int digit) {
  return static_cast<std::uint32_t>(entry >> (32 + 8 * digit)) & (digit_values - 1);
}

inline void insertion_sort(std::span<Packed> row) {
  for (std::size_t i = 1; i < row.size(); ++i) {
    const Packed entry = row[i];
    std::size_t at = i;
    for (; at > 0 && row[at - 1] > entry; --at) row[at] = row[at - 1];
    row[at] = entry;
  }
}

/// Blocks of a row that threads share; one where they do not.
struct RowBlocks {
  std::int64_t length, count;
  std::int64_t begin(std::int64_t block) const { return length * block / count; }
  template <class F>
  void for_each(F&& run) const {
    if (count == 1) return run(std::int64_t{0}, std::int64_t{0}, length);
    const double nanoseconds = 2.0 * static_cast<double>(length) / static_cast<double>(count);
    parallel_for(count, nanoseconds, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t block = first; block < last; ++block) run(block, begin(block), begin(block + 1));
    });
  }
};
enum class RowThreads : bool { one, all };
inline RowBlocks blocks_of(std::int64_t length, RowThreads threads) {
  return {length, threads == RowThreads::all && length >= shared_row_length ? thread_count() : 1};
}

/// How often each value of each digit occurs in a block of the row.
inline void count_digits(std::span<const Packed> row, std::array<DigitCounts, digits>& counts) {
  for (DigitCounts& each : counts) each.fill(0);
  for (const Packed entry : row)
    for (int digit = 0; digit < digits; ++digit) ++counts[as_index(digit)][digit_of(entry, digit)];
}
inline void count_digit(std::span<const Packed> row, int digit, DigitCounts& counts) {
  counts.fill(0);
  for (const Packed entry : row) ++counts[digit_of(entry, digit)];
}

/// From counts to the places where each block writes its entries of each value. False: all entries have one value.
inline bool place_digits(std::span<DigitCounts> of_blocks, std::int64_t length) {
  std::uint32_t place = 0;
  for (std::size_t value = 0; value < digit_values; ++value) {
    const std::uint32_t before = place;
    for (DigitCounts& counts : of_blocks) place += std::exchange(counts[value], place);
    if (place - before == static_cast<std::uint64_t>(length)) return false;
  }
  return true;
}

inline void move_by_digit(std::span<const Packed> from, Packed* to, int digit, DigitCounts& places) {
  for (const Packed entry : from) to[places[digit_of(entry, digit)]++] = entry;
}

/// On one thread all digits are counted in one walk.
inline Packed* radix_sort_alone(Packed* row, Packed* other, std::int64_t length) {
  std::array<DigitCounts, digits> counts;
  count_digits({row, as_index(length)}, counts);
  for (int digit = 0; digit < digits; ++digit) {
    DigitCounts& places = counts[as_index(digit)];
    if (!place_digits({&places, 1}, length)) continue;
    move_by_digit({row, as_index(length)}, other, digit, places);
    std::swap(row, other);
  }
  return row;
}
inline Packed* radix_sort_shared(Packed* row, Packed* other, const RowBlocks& blocks) {
  std::vector<DigitCounts> counts(as_index(blocks.count));
  for (int digit = 0; digit < digits; ++digit) {
    blocks.for_each([&](std::int64_t block, std::int64_t begin, std::int64_t end) {
      count_digit({row + begin, as_index(end - begin)}, digit, counts[as_index(block)]);
    });
    if (!place_digits(counts, blocks.length)) continue;
    blocks.for_each([&](std::int64_t block, std::int64_t begin, std::int64_t end) {
      move_by_digit({row + begin, as_index(end - begin)}, other, digit, counts[as_index(block)]);
    });
    std::swap(row, other);
  }
  return row;
}

/// Orders entries whose positions ascend where their keys are equal. The result is in `row` or in `other`, which is as
/// long: where it is, is returned.
inline Packed* sort_entries(Packed* row, Packed* other, const RowBlocks& blocks) {
  const std::int64_t length = blocks.length;
  if (length <= insertion_length) insertion_sort({row, as_index(length)});
  else if (length <= comparison_length) std::sort(row, row + length);
  else if (blocks.count == 1) return radix_sort_alone(row, other, length);
  else return radix_sort_shared(row, other, blocks);
  return row;
}

/// Entries whose upper halves are equal, with the lower halves of their keys instead.
template <class T>
void take_low_keys(const RowView<T>& view, std::span<Packed> run) {
  for (Packed& entry : run) entry = packed(view.low_key(position_of(entry)), position_of(entry));
}
/// Orders what is equal in the upper half of wide keys by the lower one.
template <class T>
void sort_runs(const RowView<T>& view, Packed* row, Packed* other, std::int64_t length) {
  for (std::int64_t begin = 0, end = 1; begin < length; begin = end++) {
    while (end < length && row[end] >> 32 == row[begin] >> 32) ++end;
    if (end - begin == 1) continue;
    take_low_keys(view, {row + begin, as_index(end - begin)});
    const Packed* sorted = sort_entries(row + begin, other + begin, RowBlocks{end - begin, 1});
    if (sorted != row + begin) std::copy_n(sorted, end - begin, row + begin);
  }
}
/// The same where threads share the row.
template <class T>
void sort_runs_shared(const RowView<T>& view, Packed* row, Packed* other, const RowBlocks& blocks) {
  std::vector<std::int64_t> starts;  // runs reach beyond their block: where the first one of each begins
  for (std::int64_t block = 0; block < blocks.count; ++block) {
    std::int64_t start = std::max(blocks.begin(block), starts.empty() ? 0 : starts.back());
    while (start > 0 && start < view.length && row[start] >> 32 == row[start - 1] >> 32) ++start;
    starts.push_back(start);
  }
  starts.push_back(view.length);
  blocks.for_each([&](std::int64_t block, std::int64_t, std::int64_t) {
    const std::int64_t begin = starts[as_index(block)], end = starts[as_index(block) + 1];
    sort_runs(view, row + begin, other + begin, end - begin);
  });
}

/// The positions of a row's elements in their order, equal ones in that of their positions. `row` and `other` are as
/// long as the row; the result is in one of them.
template <class T>
const Packed* sort_row(const RowView<T>& view, Packed* row, Packed* other, RowThreads threads) {
  const RowBlocks blocks = blocks_of(view.length, threads);
  blocks.for_each([&](std::int64_t, std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) row[i] = packed(view.high_key(i), i);
  });
  Packed* sorted = sort_entries(row, other, blocks);
  if constexpr (RowView<T>::has_wide_keys) {
    Packed* free = sorted == row ? other : row;
    if (view.length > 1 && sorted[0] >> 32 == sorted[view.length - 1] >> 32) {
      // One run, as small integers are: their positions ascend, as nothing was moved.
      blocks.for_each([&](std::int64_t, std::int64_t begin, std::int64_t end) {
        take_low_keys(view, {sorted + begin, as_index(end - begin)});
      });
      return sort_entries(sorted, free, blocks);
    }
    if (blocks.count == 1) sort_runs(view, sorted, free, view.length);
    else sort_runs_shared(view, sorted, free, blocks);
  }
  return sorted;
}

// ---- selection ------------------------------------------------------------------------------------------------------

template <class T>
using RowEntry = decltype(entry_of(order_key(T{}), 0));

/// The first `count` of the row's order, in that order. `entries` has room for the whole row.
template <class T>
void select_first_of_all(const RowView<T>& view, std::int64_t count, RowEntry<T>* entries) {
  for (std::int64_t i = 0; i < view.length; ++i) entries[i] = entry_of(view.key(i), i);
  if (count < view.length) std::nth_element(entries, entries + count, entries + view.length);
  std::sort(entries, entries + count);
}

/// Whether one of a block of elements may come before `bound`: never a wrong no.
inline constexpr std::int64_t filter_block = 16;
template <class T>
bool may_precede(const T* block, T bound, Direction direction) {
  if (is_not_a_number(bound)) return direction == Direction::ascending;
  unsigned found = 0;
  if (direction == Direction::ascending)
    for (std::int64_t i = 0; i < filter_block; ++i) found |= static_cast<unsigned>(block[i] < bound);
  else
    for (std::int64_t i = 0; i < filter_block; ++i) found |= static_cast<unsigned>(!(block[i] <= bound));
  return found != 0;
}

/// The same where `count` is a small part of a dense row: elements are looked at once, and what does not come before
/// the last of the best so far is left out. `entries` has room for `room` of them, more than `count`.
template <class T>
void select_first_of_many(const RowView<T>& view, std::int64_t count, RowEntry<T>* entries, std::int64_t room) {
  std::int64_t held = 0, i = 0;
  for (; held < room; ++held, ++i) entries[held] = entry_of(view.key(i), i);
  const auto cut = [&] {
    std::nth_element(entries, entries + (count - 1), entries + held);
    held = count;
    return entries[count - 1];
  };
  RowEntry<T> last = cut();
  const auto consider = [&](std::int64_t at) {
    const RowEntry<T> entry = entry_of(view.key(at), at);
    if (!(entry < last)) return;
    entries[held++] = entry;
    if (held == room) last = cut();
  };
  for (; i + filter_block <= view.length; i += filter_block) {
    if (!may_precede(view.first + i, view.at(position_of(last)), view.direction)) continue;
    for (std::int64_t at = i; at < i + filter_block; ++at) consider(at);
  }
  for (; i < view.length; ++i) consider(i);
  cut();
  std::sort(entries, entries + count);
}

/// How many entries select_first() needs, and the first `count` of the row's order in them.
inline std::int64_t selection_room(std::int64_t length, std::int64_t count, std::int64_t stride) {
  const std::int64_t room = 2 * count + 64;
  return stride == 1 && 4 * room <= length ? room : length;
}
template <class T>
void select_first(const RowView<T>& view, std::int64_t count, RowEntry<T>* entries) {
  if (count == 0) return;
  const std::int64_t room = selection_room(view.length, count, view.stride);
  if (room < view.length) select_first_of_many(view, count, entries, room);
  else select_first_of_all(view, count, entries);
}

}  // namespace ops_detail
SINTER_NAMESPACE_END
