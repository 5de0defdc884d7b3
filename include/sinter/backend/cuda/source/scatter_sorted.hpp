// Positions, or values, sorted by the places that they go to, for scatters whose combiners show the order: those of a
// place stand side by side, the least position first. Knows keys below a bound, one for each position; not what is
// scattered.
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

/// How many passes over how many bits a sort takes, and the memory it needs.
class PositionSortShape {
 public:
  static constexpr std::int64_t most_keys = std::int64_t{1} << 20;
  static constexpr std::int64_t most_keys_of_pass = 1024;  // counts of a tile's eight warps lie in shared memory

  /// `value_bytes`: of a value that is sorted; 0: positions are.
  PositionSortShape(std::int64_t keys, std::int64_t positions, std::int64_t value_bytes);
  std::int64_t workspace_bytes() const;

 protected:
  static constexpr int threads = 256, items = 8, tile = threads * items;
  std::int64_t tiles() const;
  std::int64_t bins() const { return std::int64_t{1} << bits_; }
  std::int64_t lists() const { return std::max(keys_, bins()); }
  std::int64_t words_before_sorted() const;

  std::int64_t keys_, positions_, value_bytes_;
  int passes_ = 1, bits_ = 5;  // of a digit
};

/// What is sorted where that is values: lines that declare `value`, of `type`, for `item`.
struct SortedValue {
  std::string type;
  std::int64_t bytes = 0;  // 0: positions are sorted
  std::function<void()> write;
};

/// Declares `rank`: how many values of the warp have the same digit and come before value j. `counts` have all that do
/// at the end.
void write_ranks(Writer& w, int number, int bits, const std::string& counts, const std::string& digits);

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
  /// Declares `starts`, `ends` and `sorted`, the positions (or values) of key k being sorted[starts[k] ... ends[k]).
  void declare_lists();

 private:
  static std::string str(std::int64_t number) { return std::to_string(number); }
  std::string array(const char* name, std::int64_t word) const;
  void declare_counts();
  void read_key(int pass, const std::function<void(bool)>& write_key, bool is_first);
  std::string digit(int pass) const;

  void write_count(int pass, const std::function<void(bool)>& write_key);
  void write_starts(int pass);
  void write_order(int pass, const std::function<void(bool)>& write_key);
  void read_items(int pass, const std::function<void(bool)>& write_key);
  void write_bounds();
  void write_moved(int pass);

  Writer& w;
  const SortedValue value_;
};

}  // namespace cuda_source_detail
SINTER_NAMESPACE_END
