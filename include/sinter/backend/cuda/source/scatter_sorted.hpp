// Positions sorted by the places that they go to, for scatters whose combiners show the order: the positions of a place
// stand side by side, the least one first. Knows keys below a bound, one for each position; not what is scattered.
#pragma once

#include <sinter/backend/cuda/source/writer.hpp>
#include <sinter/base/config.hpp>

#include <cstdint>
#include <functional>
#include <string>

SINTER_NAMESPACE_BEGIN
namespace cuda_source_detail {

/// How many passes over how many bits a sort takes, and the memory it needs.
class PositionSortShape {
 public:
  static constexpr std::int64_t most_keys = std::int64_t{1} << 20;

  PositionSortShape(std::int64_t keys, std::int64_t positions);
  std::int64_t workspace_bytes() const;

 protected:
  static constexpr int threads = 256, items = 8, tile = threads * items;
  std::int64_t tiles() const;
  std::int64_t bins() const { return std::int64_t{1} << bits_; }

  std::int64_t keys_, positions_;
  int passes_ = 1, bits_ = 5;  // of a digit
};

/// Kernels that sort by counting, stable, in one or two passes over digits of the key: each tile of positions counts
/// its digits, a scan over tiles gives each digit of each tile its start, and a tile moves its positions there. Which
/// key comes before which other one is not said: lists are found by their starts.
class PositionSort : public PositionSortShape {
 public:
  PositionSort(Writer& writer, std::int64_t keys, std::int64_t positions)
      : PositionSortShape(keys, positions), w(writer) {}

  /// `write_key(is_first)` emits lines that declare, for `item`, `bool is_in`, `unsigned key` and `unsigned position`;
  /// the first time an index out of range is to be reported.
  void write(const std::function<void(bool)>& write_key);
  /// Declares `starts`, `ends` and `sorted`, the positions of key k being sorted[starts[k] ... ends[k]).
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
  void write_bounds();

  Writer& w;
};

}  // namespace cuda_source_detail
SINTER_NAMESPACE_END
