// Orders one row: by insertion where it is short, else by its digits from the least on (LSD radix sort; Knuth 1998,
// 5.2.5), which is stable and looks at each element as often as keys have digits. Wide keys are ordered by their upper
// part, and what is equal there by the lower one. A long row is cut into blocks that threads share; the result is the
// same. Only .ipp files include it.
#pragma once

#include <sinter/base/index.hpp>
#include <sinter/base/small_vector.hpp>
#include <sinter/base/threads.hpp>
#include <sinter/ops/order_keys.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <limits>
#include <span>
#include <type_traits>
#include <utility>

SINTER_NAMESPACE_BEGIN
namespace ops_detail {

inline constexpr std::int64_t insertion_length = 28, comparison_length = 80;  // up to these, measured
inline constexpr std::int64_t shared_row_length = 1 << 15;                    // from here on threads share a row
inline constexpr int max_digits = 4, digit_values = 256;                      // of the upper half of Packed
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

inline void count_digit(std::span<const Packed> row, int digit, DigitCounts& counts) {
  counts.fill(0);
  for (const Packed entry : row) ++counts[digit_of(entry, digit)];
}
/// All digits in one walk.
template <int used_digits>
void count_digits(std::span<const Packed> row, std::span<DigitCounts> counts) {
  for (DigitCounts& each : counts) each.fill(0);
  for (const Packed entry : row)
    for (int digit = 0; digit < used_digits; ++digit) ++counts[as_index(digit)][digit_of(entry, digit)];
}
inline void count_digits(std::span<const Packed> row, std::span<DigitCounts> counts) {
  switch (counts.size()) {
    case 1: return count_digits<1>(row, counts);
    case 2: return count_digits<2>(row, counts);
    case 3: return count_digits<3>(row, counts);
    default: return count_digits<4>(row, counts);
  }
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

inline Packed* radix_sort_alone(Packed* row, Packed* other, std::int64_t length, int used_digits) {
  std::array<DigitCounts, max_digits> counts;
  count_digits({row, as_index(length)}, std::span(counts).first(as_index(used_digits)));
  for (int digit = 0; digit < used_digits; ++digit) {
    DigitCounts& places = counts[as_index(digit)];
    if (!place_digits({&places, 1}, length)) continue;
    move_by_digit({row, as_index(length)}, other, digit, places);
    std::swap(row, other);
  }
  return row;
}
inline Packed* radix_sort_shared(Packed* row, Packed* other, const RowBlocks& blocks, int used_digits) {
  SmallVector<DigitCounts, 1> counts(as_index(blocks.count));
  for (int digit = 0; digit < used_digits; ++digit) {
    blocks.for_each([&](std::int64_t block, std::int64_t begin, std::int64_t end) {
      count_digit({row + begin, as_index(end - begin)}, digit, counts[as_index(block)]);
    });
    if (!place_digits({counts.data(), counts.size()}, blocks.length)) continue;
    blocks.for_each([&](std::int64_t block, std::int64_t begin, std::int64_t end) {
      move_by_digit({row + begin, as_index(end - begin)}, other, digit, counts[as_index(block)]);
    });
    std::swap(row, other);
  }
  return row;
}

/// Orders entries, of whose keys the last `bits` bits differ and whose positions ascend where keys are equal. The
/// result is in `row` or in `other`, which is as long: where it is, is returned.
inline Packed* sort_entries(Packed* row, Packed* other, const RowBlocks& blocks, int bits) {
  const std::int64_t length = blocks.length;
  const int used_digits = (bits + 7) / 8;
  if (length <= insertion_length) insertion_sort({row, as_index(length)});
  else if (length <= comparison_length) std::sort(row, row + length);
  else if (used_digits == 0) return row;
  else if (blocks.count == 1) return radix_sort_alone(row, other, length, used_digits);
  else return radix_sort_shared(row, other, blocks, used_digits);
  return row;
}

template <class T>
KeyWindow<T> key_window(const RowView<T>& view, const RowBlocks& blocks) {
  SmallVector<KeyWindow<T>, 16> parts(as_index(blocks.count));
  blocks.for_each([&](std::int64_t block, std::int64_t begin, std::int64_t end) {
    KeyOf<T> least = view.key(begin), greatest = least;
    for (std::int64_t i = begin + 1; i < end; ++i) {
      const KeyOf<T> key = view.key(i);
      least = std::min(least, key);
      greatest = std::max(greatest, key);
    }
    parts[as_index(block)] = {least, greatest, 0};
  });
  KeyOf<T> least = parts[0].least, greatest = parts[0].range;
  for (const KeyWindow<T>& part : parts) {
    least = std::min(least, part.least);
    greatest = std::max(greatest, part.range);
  }
  const KeyOf<T> range = greatest - least;
  return {least, range, std::max(0, static_cast<int>(std::bit_width(range)) - 32)};
}

/// Orders what is equal in the upper parts of keys by the lower ones.
template <class T>
void sort_runs(const RowView<T>& view, const KeyWindow<T>& window, Packed* row, Packed* other, std::int64_t length) {
  for (std::int64_t begin = 0, end = 1; begin < length; begin = end++) {
    while (end < length && row[end] >> 32 == row[begin] >> 32) ++end;
    if (end - begin == 1) continue;
    for (Packed& entry : std::span(row + begin, row + end))
      entry = packed(window.lower(view.key(position_of(entry))), position_of(entry));
    const Packed* sorted = sort_entries(row + begin, other + begin, RowBlocks{end - begin, 1}, window.shift);
    if (sorted != row + begin) std::copy_n(sorted, end - begin, row + begin);
  }
}
/// The same where threads share the row.
template <class T>
void sort_runs_shared(const RowView<T>& view, const KeyWindow<T>& window, Packed* row, Packed* other,
                      const RowBlocks& blocks) {
  SmallVector<std::int64_t, 32> starts;  // runs reach beyond their block: where the first one of each begins
  for (std::int64_t block = 0; block < blocks.count; ++block) {
    std::int64_t start = std::max(blocks.begin(block), starts.empty() ? 0 : starts.back());
    while (start > 0 && start < view.length && row[start] >> 32 == row[start - 1] >> 32) ++start;
    starts.push_back(start);
  }
  starts.push_back(view.length);
  blocks.for_each([&](std::int64_t block, std::int64_t, std::int64_t) {
    const std::int64_t begin = starts[as_index(block)], end = starts[as_index(block) + 1];
    sort_runs(view, window, row + begin, other + begin, end - begin);
  });
}

/// The positions of a row's elements in their order, equal ones in that of their positions. `row` and `other` are as
/// long as the row, which is not empty; the result is in one of them.
template <class T>
const Packed* sort_row(const RowView<T>& view, Packed* row, Packed* other, RowThreads threads) {
  const RowBlocks blocks = blocks_of(view.length, threads);
  const bool is_plain = std::is_same_v<T, float> || (sizeof(T) == 4 && view.length <= comparison_length);
  KeyWindow<T> window{0, std::numeric_limits<KeyOf<T>>::max(), 0};
  if (!is_plain) window = key_window(view, blocks);
  blocks.for_each([&](std::int64_t, std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) row[i] = packed(window.upper(view.key(i)), i);
  });
  Packed* sorted = sort_entries(row, other, blocks, window.upper_bits());
  if (window.shift == 0) return sorted;
  Packed* free = sorted == row ? other : row;
  if (blocks.count == 1) sort_runs(view, window, sorted, free, view.length);
  else sort_runs_shared(view, window, sorted, free, blocks);
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

/// The first of a row's order among elements that passed. `entries` has room for `room` of them, more than `count`:
/// when it is full, what does not come before the last of the best so far is left out, from then on too.
template <class T>
struct Selection {
  const RowView<T>& view;
  std::int64_t count, room;
  RowEntry<T>* entries;
  std::int64_t held = 0;
  bool has_last = false;
  RowEntry<T> last{};

  void consider(std::int64_t at) {
    const RowEntry<T> entry = entry_of(view.key(at), at);
    if (has_last && !(entry < last)) return;
    entries[held++] = entry;
    if (held == room) cut();
  }
  void cut() {
    std::nth_element(entries, entries + (count - 1), entries + held);
    held = count;
    last = entries[count - 1];
    has_last = true;
  }
  /// The rest of the row, of which blocks are passed over that have nothing before the last. After a cut.
  void take_rest(std::int64_t i) {
    for (; i + filter_block <= view.length; i += filter_block) {
      if (!may_precede(view.first + i, view.at(position_of(last)), view.direction)) continue;
      for (std::int64_t at = i; at < i + filter_block; ++at) consider(at);
    }
    for (; i < view.length; ++i) consider(i);
  }
  void finish() {
    if (held > count) cut();
    std::sort(entries, entries + count);
  }
};

/// For rows of which a small part is selected: elements are looked at once, the first of them all.
template <class T>
void select_first_of_many(const RowView<T>& view, std::int64_t count, RowEntry<T>* entries, std::int64_t room) {
  Selection<T> selection{view, count, room, entries};
  std::int64_t i = 0;
  while (!selection.has_last) selection.consider(i++);
  selection.take_rest(i);
  selection.finish();
}

template <class T>
inline constexpr bool has_group_bounds = std::is_same_v<T, float> || std::is_same_v<T, double> ||
                                         std::is_same_v<T, std::int32_t> || std::is_same_v<T, std::int64_t>;
inline constexpr std::int64_t least_bound_groups = 64, most_bound_groups = 1024;
inline constexpr std::int64_t bound_rounds = 32;  // elements of a group; of the rest few pass, and soon fewer
/// Into how many groups a row is divided for a bound: four for each element that is wanted. 0: it is not.
inline std::int64_t bound_groups(std::int64_t length, std::int64_t count) {
  std::int64_t groups = least_bound_groups;
  while (groups < 4 * count) groups *= 2;
  return groups <= most_bound_groups && 4 * groups <= length ? groups : 0;
}

/// Vectors of 16 bytes, which every processor has; a block of a filter is some of them.
template <class T>
struct BlockVectors {
  typedef T Vector __attribute__((vector_size(16)));
  static constexpr int lanes = 16 / static_cast<int>(sizeof(T)), count = static_cast<int>(filter_block) / lanes;
  using Mask = decltype(Vector{} < Vector{});

  static Vector load(const T* from) {
    Vector v;
    __builtin_memcpy(&v, from, sizeof v);
    return v;
  }
  /// Takes the elements of a block into the best so far; what is not a number never is.
  static void take_best(T* best, const T* block, Direction direction) {
    for (int i = 0; i < filter_block; i += lanes) {
      const Vector x = load(block + i), old = load(best + i);
      const Mask is_better = direction == Direction::descending ? x > old : x < old;
      const Vector now = is_better ? x : old;
      __builtin_memcpy(best + i, &now, sizeof now);
    }
  }
  /// Whether an element is not after `bound`.
  static bool reaches(const T* block, T bound, Direction direction) {
    const Vector all_bound = Vector{} + bound;
    Mask found{};
    for (int i = 0; i < filter_block; i += lanes)
      found |= direction == Direction::descending ? ~(load(block + i) < all_bound) : load(block + i) <= all_bound;
    std::uint64_t halves[2];
    __builtin_memcpy(halves, &found, sizeof halves);
    return (halves[0] | halves[1]) != 0;
  }
};

/// The same by a bound that is known before: of groups of elements that lie `groups` apart, at the beginning of the
/// row, the best of each, and of these the one with `count` - 1 before it. At least `count` elements do not come after
/// it, mostly few more. False: these are fewer, since NaN come last, and nothing is done.
template <class T>
bool select_first_by_bound(const RowView<T>& view, std::int64_t count, RowEntry<T>* entries, std::int64_t room,
                           std::int64_t groups) {
  using Limits = std::numeric_limits<T>;
  using Blocks = BlockVectors<T>;
  const bool is_descending = view.direction == Direction::descending;
  T best[most_bound_groups];
  const T worst = is_descending ? (Limits::has_infinity ? -Limits::infinity() : Limits::lowest())
                                : (Limits::has_infinity ? Limits::infinity() : Limits::max());
  std::fill(best, best + groups, worst);
  const std::int64_t looked_at = std::min(view.length, bound_rounds * groups);
  for (std::int64_t i = 0; i + groups <= looked_at; i += groups)
    for (std::int64_t at = 0; at < groups; at += filter_block)
      Blocks::take_best(best + at, view.first + i + at, view.direction);
  if (is_descending) std::nth_element(best, best + (count - 1), best + groups, [](T a, T b) { return a > b; });
  else std::nth_element(best, best + (count - 1), best + groups);
  const T bound = best[count - 1];
  const auto reaches = [&](T x) { return is_descending ? !(x < bound) : x <= bound; };

  Selection<T> selection{view, count, room, entries};
  std::int64_t i = 0;
  for (; i + filter_block <= view.length && !selection.has_last; i += filter_block) {
    if (!Blocks::reaches(view.first + i, bound, view.direction)) continue;
    for (std::int64_t at = i; at < i + filter_block; ++at)
      if (reaches(view.at(at))) selection.consider(at);
  }
  if (selection.has_last) {
    selection.take_rest(i);
  } else {
    for (; i < view.length; ++i)
      if (reaches(view.at(i))) selection.consider(i);
  }
  if (selection.held < count) return false;
  selection.finish();
  return true;
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
  if constexpr (has_group_bounds<T>)
    if (const std::int64_t groups = bound_groups(view.length, count); room < view.length && groups != 0)
      if (select_first_by_bound(view, count, entries, room, groups)) return;
  if (room < view.length) select_first_of_many(view, count, entries, room);
  else select_first_of_all(view, count, entries);
}

}  // namespace ops_detail
SINTER_NAMESPACE_END
