// Values of single elements sorted into bins of neighbouring places, for scatters to many places whose combiners show
// the order: each tile of positions is sorted by itself, and a block for each bin collects its runs of all tiles. Knows
// keys below a bound, one for each position; not what is scattered.
#pragma once

#include <sinter/backend/cuda/source/scatter_sorted.hpp>
#include <sinter/base/config.hpp>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>

SINTER_NAMESPACE_BEGIN
namespace cuda_source_detail {

/// How keys are divided, and the memory that this needs.
class BinShape {
 public:
  /// `value_bytes`: of a value.
  BinShape(std::int64_t keys, std::int64_t positions, std::int64_t value_bytes);
  std::int64_t workspace_bytes() const;

 protected:
  static constexpr int threads = 256, items = 8, tile = threads * items, warps = threads / 32;
  static constexpr int bits = 9;  // of the number of a bin: a tile's runs have 4 values on average
  static constexpr int bins = 1 << bits;
  std::int64_t tiles() const { return quotient_up(positions_, tile); }
  std::int64_t keys_of_bin() const { return std::int64_t{1} << low_bits_; }
  std::int64_t bins_with_keys() const { return quotient_up(keys_, keys_of_bin()); }
  std::int64_t run_words() const { return tiles() * bins; }

  std::int64_t keys_, positions_, value_bytes_;
  int low_bits_ = 0;  // of a key, by which a bin is sorted
};

/// What sorted values are combined with: elements of the target, one for each key.
struct SortedPlaces {
  std::string type, target;                                                     // of a value; a pointer
  std::function<void()> write_offset;                                           // declares `to` of key `item`
  std::function<std::string(const std::string&)> loaded;                        // of the target, at an offset
  std::function<std::string(const std::string&, const std::string&)> combined;  // an older value and a newer one
};

/// Two kernels: one that sorts tiles, one that takes bins in.
class BinSort : public BinShape {
 public:
  BinSort(Writer& writer, std::int64_t keys, std::int64_t positions, SortedValue value)
      : BinShape(keys, positions, value.bytes), w(writer), value_(std::move(value)) {}

  /// `write_key` is that of PositionSort. Where an index is out of range the second kernel does nothing.
  void write_tiles(const std::function<void(bool)>& write_key);
  void write_combined(const SortedPlaces& places);

 private:
  static std::string str(std::int64_t number) { return std::to_string(number); }
  int items_of_bin() const;  // of a thread, at a time
  std::int64_t chunk() const { return std::int64_t{threads} * items_of_bin(); }
  void declare();
  static std::int64_t row_of_ranks(std::int64_t lists) { return std::max<std::int64_t>(lists, 8) + 8; }
  void declare_ranks(std::int64_t lists);
  void clear_ranks(std::int64_t lists);
  void read_tile(const std::function<void(bool)>& write_key);
  void store_tile();
  void load_places(const SortedPlaces& places);
  void find_runs();
  void read_chunk();
  void scan_block(const std::string& sum);
  void begin_lists(std::int64_t lists);

  Writer& w;
  const SortedValue value_;
};

}  // namespace cuda_source_detail
SINTER_NAMESPACE_END
