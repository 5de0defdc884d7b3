// Positions, or values, sorted by the places that they go to, for scatters whose combiners show the order: those of a
// place, or of some neighbouring places, stand side by side, the least position first. Knows keys below a bound, one
// for each position; not what is scattered.
#pragma once

#include <sinter/backend/cuda/source/bound_kernel.hpp>
#include <sinter/backend/cuda/source/writer.hpp>
#include <sinter/base/config.hpp>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>

SINTER_NAMESPACE_BEGIN
namespace cuda_source_detail {

/// How many passes over how many bits a sort takes, and the memory it needs. Values of single elements are sorted
/// themselves, in one pass over the high bits of the key: those of a bin lie together, in order.
class PositionSortShape {
 public:
  static constexpr std::int64_t most_keys = std::int64_t{1} << 20;

  /// `value_bytes`: of a value that is sorted; 0: positions are.
  PositionSortShape(std::int64_t keys, std::int64_t positions, std::int64_t value_bytes);
  std::int64_t workspace_bytes() const;
  /// A bin has this many keys; 1: what is sorted is a list for each key.
  std::int64_t keys_of_bin() const { return std::int64_t{1} << low_bits_; }
  std::int64_t bins_with_keys() const { return quotient_up(keys_, keys_of_bin()); }

 protected:
  static constexpr int threads = 256, items = 8, tile = threads * items;
  std::int64_t tiles() const;
  std::int64_t bins() const { return std::int64_t{1} << bits_; }
  std::int64_t lists() const { return low_bits_ > 0 ? bins() : std::max(keys_, bins()); }
  std::int64_t words_before_sorted() const;

  std::int64_t keys_, positions_, value_bytes_;
  int passes_ = 1, bits_ = 5;  // of a digit
  int low_bits_ = 0;           // of a key, which do not count
};

/// What is sorted where that is values: lines that declare `value`, of `type`, for `item`.
struct SortedValue {
  std::string type;
  std::int64_t bytes = 0;  // 0: positions are sorted
  std::function<void()> write;
};

/// What sorted values are combined with: elements of the target, one for each key.
struct SortedPlaces {
  std::string type, target;                                                     // of a value; a pointer
  std::function<void()> write_offset;                                           // declares `to` of key `item`
  std::function<std::string(const std::string&)> loaded;                        // of the target, at an offset
  std::function<std::string(const std::string&, const std::string&)> combined;  // an older value and a newer one
};

/// Kernels that sort by counting, stable, in one or two passes over digits of the key: each tile of positions counts
/// its digits, a scan over tiles gives each digit of each tile its start, and a tile moves its positions there. Which
/// key comes before which other one is not said: lists are found by their starts.
class PositionSort : public PositionSortShape {
 public:
  PositionSort(Writer& writer, std::int64_t keys, std::int64_t positions, SortedValue value)
      : PositionSortShape(keys, positions, value.bytes), w(writer), value_(std::move(value)) {}

  /// `write_key(is_first)` emits lines that declare, for `item`, `bool is_in`, `unsigned key` and `unsigned position`;
  /// the first time an index out of range is to be reported.
  void write(const std::function<void(bool)>& write_key);
  /// Declares `starts`, `ends` and `sorted`, the positions (or values) of key k being sorted[starts[k] ... ends[k]); of
  /// bins of several keys the same, of records of a `value` and its `key`.
  void declare_lists();
  /// After values were sorted into bins of several keys: a block for each bin takes its values in, in order.
  void write_combined(const SortedPlaces& places);

 private:
  static std::string str(std::int64_t number) { return std::to_string(number); }
  std::string array(const char* name, std::int64_t word) const;
  void declare_counts();
  void read_key(int pass, const std::function<void(bool)>& write_key, bool is_first);
  std::string digit(int pass) const;

  void write_count(int pass, const std::function<void(bool)>& write_key);
  void write_starts(int pass);
  void write_order(int pass, const std::function<void(bool)>& write_key);
  void write_bounds();
  void write_moved(int pass);
  void write_ranks(int number, int bits, const std::string& counts, const std::string& digits);
  int items_of_bin() const;  // of a thread, at a time
  void load_places(const SortedPlaces& places);
  void rank_in_bin();
  void begin_lists();

  Writer& w;
  const SortedValue value_;
};

}  // namespace cuda_source_detail
SINTER_NAMESPACE_END
