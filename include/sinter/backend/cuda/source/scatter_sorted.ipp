// The kernels of the sort.
#pragma once

#include <sinter/backend/cuda/source/scatter_sorted.hpp>

#include <sinter/base/index.hpp>

#include <algorithm>

SINTER_NAMESPACE_BEGIN
namespace cuda_source_detail {

SINTER_DECL PositionSortShape::PositionSortShape(std::int64_t keys, std::int64_t positions)
    : keys_(keys), positions_(positions) {
  constexpr int most_bits = 10;  // counts of a tile's eight warps lie in shared memory
  int bits = 0;
  while (std::int64_t{1} << bits < keys) ++bits;
  passes_ = bits <= most_bits ? 1 : 2;
  bits_ = std::max(5, static_cast<int>(quotient_up(bits, passes_)));
}

SINTER_DECL std::int64_t PositionSortShape::tiles() const { return quotient_up(positions_, tile); }

// Words of the workspace: counts of each tile, how many positions are in order, starts, ends, the sorted positions; of
// two passes also the keys that go with them, and both as the first pass leaves them.
SINTER_DECL std::string PositionSort::array(const char* name, std::int64_t word) const {
  return "unsigned* const " + std::string(name) + " = (unsigned*)a.workspace + " +
         w.number(std::string("at_") + name, word) + ";";
}
SINTER_DECL std::int64_t PositionSortShape::workspace_bytes() const {
  const std::int64_t counts = tiles() * bins(), lists = 2 * std::max(keys_, bins());
  return quotient_up(4 * (counts + lists + 32 + (passes_ == 1 ? 1 : 4) * positions_), 256) * 256;
}
SINTER_DECL void PositionSort::declare_lists() {
  const std::int64_t lists = std::max(keys_, bins()), counts = tiles() * bins();
  w.line(array("starts", counts + 32));
  w.line(array("ends", counts + 32 + lists));
  w.line(array("sorted", counts + 32 + 2 * lists));
}
SINTER_DECL void PositionSort::declare_counts() {
  declare_lists();
  w.line(array("counts", 0));
  w.line("unsigned* const total = starts - 32;");
  if (passes_ == 1) return;
  w.line("unsigned* const sorted_keys = sorted + " + w.number("positions", positions_) + ";");
  w.line("unsigned* const first_sorted = sorted_keys + " + w.number("positions", positions_) + ";");
  w.line("unsigned* const first_keys = first_sorted + " + w.number("positions", positions_) + ";");
}

SINTER_DECL std::string PositionSort::digit(int pass) const {
  if (passes_ == 1) return "key";
  return "key >> " + str(pass * bits_) + " & " + str(bins() - 1) + "u";
}
/// The second pass reads what the first one left, in its order.
SINTER_DECL void PositionSort::read_key(int pass, const std::function<void(bool)>& write_key, bool is_first) {
  if (pass == 0) return write_key(is_first);
  w.line("const bool is_in = item < left;");
  w.line("const unsigned key = first_keys[is_in ? item : 0], position = first_sorted[is_in ? item : 0];");
}

SINTER_DECL void PositionSort::write(const std::function<void(bool)>& write_key) {
  for (int pass = 0; pass < passes_; ++pass) {
    write_count(pass, write_key);
    write_starts(pass);
    write_order(pass, write_key);
  }
  if (passes_ == 2) write_bounds();
}

SINTER_DECL void PositionSort::write_count(int pass, const std::function<void(bool)>& write_key) {
  const std::string entry = w.entry("count" + str(pass), threads), bin_count = str(bins()),
                    each_bin = "for (int i = (int)threadIdx.x; i < " + bin_count + "; i += " + str(threads) + ") ";
  w.line("__shared__ unsigned bins[" + bin_count + "];");
  declare_counts();
  if (pass > 0) w.line("const I left = (I)total[0];");
  w.line(each_bin + "bins[i] = 0u;");
  w.line("if (blockIdx.x == 0 && threadIdx.x == 0) total[" + str(pass) + "] = 0u;");
  if (pass == 0 && passes_ == 2) {
    w.open("for (I i = (I)blockIdx.x * " + str(threads) + " + (I)threadIdx.x; i < " + w.number("keys", keys_) +
           "; i += " + w.number("stride", tiles() * threads) + ")");
    w.line("starts[i] = 0u;");
    w.line("ends[i] = 0u;");
    w.close();
  }
  w.line("__syncthreads();");
  const std::string item =
                        "const I item = (I)blockIdx.x * " + str(tile) + " + j * " + str(threads) + " + (I)threadIdx.x;",
                    each_item = "for (int j = 0; j < " + str(items) + "; ++j)",
                    is_there = "if (item < " + w.number("positions", positions_) + ")";
  w.line("unsigned digit_of[" + str(items) + "];");
  w.line("bool is_bad = false;");
  w.unroll(each_item);  // all loads before the first count
  w.line(item);
  w.line("digit_of[j] = " + bin_count + "u;");
  w.open(is_there);
  read_key(pass, write_key, false);
  w.line("if (is_in) digit_of[j] = " + digit(pass) + ";");
  w.line("is_bad |= !is_in;");
  w.close();
  w.close();
  w.unroll(each_item);
  w.line("if (digit_of[j] < " + bin_count + "u) atomicAdd(bins + digit_of[j], 1u);");
  w.close();
  if (pass == 0) {
    w.open("if (is_bad)");
    w.open(each_item);
    w.line(item);
    w.open(is_there);
    read_key(pass, write_key, true);
    w.close();
    w.close();
    w.close();
  }
  w.line("__syncthreads();");
  w.line(each_bin + "counts[(I)blockIdx.x * " + bin_count + " + i] = bins[i];");
  w.close();
  w.add_step(entry, tiles(), 1, threads);
}

/// A block for 32 digits: each of its warps takes a part of the tiles, a lane one digit. Where the lists of a block
/// begin depends on which block comes first; that does not show.
SINTER_DECL void PositionSort::write_starts(int pass) {
  const std::string entry = w.entry("starts" + str(pass), 1024), bin_count = str(bins());
  w.line("__shared__ unsigned sums[32][33], first;");
  declare_counts();
  w.line("const int lane = (int)(threadIdx.x % 32), group = (int)(threadIdx.x / 32);");
  w.line("const I bin = (I)blockIdx.x * 32 + lane, tiles = " + w.number("tiles", tiles()) +
         ", each = (tiles + 31) / 32;");
  w.line("const I begin = group * each, end = begin + each < tiles ? begin + each : tiles;");
  w.line("unsigned sum = 0u;");
  w.line("#pragma unroll 4");
  w.line("for (I t = begin; t < end; ++t) sum += counts[t * " + bin_count + " + bin];");
  w.line("sums[group][lane] = sum;");
  w.line("__syncthreads();");
  w.line("unsigned before = 0u, all = 0u;");
  w.open("for (int g = 0; g < 32; ++g)");
  w.line("if (g < group) before += sums[g][lane];");
  w.line("all += sums[g][lane];");
  w.close();
  w.line("unsigned run = all;");
  w.unroll("for (int d = 1; d < 32; d *= 2)");
  w.line("const unsigned other = __shfl_up_sync(0xffffffffu, run, d);");
  w.line("if (lane >= d) run += other;");
  w.close();
  w.line("if (threadIdx.x == 31) first = atomicAdd(total + " + str(pass) + ", run);");
  w.line("__syncthreads();");
  w.line("unsigned at = first + run - all;");
  if (passes_ == 1) {
    w.open("if (group == 0)");
    w.line("starts[bin] = at;");
    w.line("ends[bin] = at + all;");
    w.close();
  }
  w.line("at += before;");
  w.open("for (I t = begin; t < end; ++t)");
  w.line("const unsigned own = counts[t * " + bin_count + " + bin];");
  w.line("counts[t * " + bin_count + " + bin] = at;");
  w.line("at += own;");
  w.close();
  w.close();
  w.add_step(entry, bins() / 32, 1, 1024);
}

/// A warp's positions are neighbours, 32 at a time; those of one digit keep their order.
SINTER_DECL void PositionSort::write_order(int pass, const std::function<void(bool)>& write_key) {
  const std::string entry = w.entry("order" + str(pass), threads), bin_count = str(bins()), warps = str(threads / 32),
                    each_item = "for (int j = 0; j < " + str(items) + "; ++j)",
                    each_bin = "for (int i = (int)threadIdx.x; i < " + bin_count + "; i += " + str(threads) + ")";
  const bool is_last = pass + 1 == passes_;
  w.line("__shared__ unsigned short places[" + warps + "][" + str(bins() + 2) + "];");  // the last is for what has none
  declare_counts();
  if (pass > 0) w.line("const I left = (I)total[0];");
  w.line("const int lane = (int)(threadIdx.x % 32), warp = (int)(threadIdx.x / 32);");
  w.open(each_bin);
  w.line("for (int k = 0; k < " + warps + "; ++k) places[k][i] = 0;");
  w.close();
  w.line("if (lane < 2) places[warp][" + bin_count + " + lane] = 0;");
  w.line("unsigned key_of[" + str(items) + "], position_of[" + str(items) + "], digit_of[" + str(items) + "], rank[" +
         str(items) + "];");
  w.unroll(each_item);
  w.line("const I item = (I)blockIdx.x * " + str(tile) + " + warp * " + str(32 * items) + " + j * 32 + lane;");
  w.line("key_of[j] = position_of[j] = 0u;");
  w.line("digit_of[j] = " + bin_count + "u;");
  w.open("if (item < " + w.number("positions", positions_) + ")");
  read_key(pass, write_key, false);
  w.open("if (is_in)");
  w.line("key_of[j] = key;");
  w.line("position_of[j] = position;");
  w.line("digit_of[j] = " + digit(pass) + ";");
  w.close();
  w.close();
  w.close();
  w.line("__syncthreads();");
  w.unroll(each_item);
  w.line("rank[j] = __match_any_sync(0xffffffffu, digit_of[j]);");
  w.close();
  w.unroll(each_item);
  w.line("const unsigned before = (unsigned)__popc(rank[j] & ((1u << lane) - 1u)), old = places[warp][digit_of[j]];");
  w.line("__syncwarp();");
  w.line("if (before == 0u) places[warp][digit_of[j]] = (unsigned short)(old + (unsigned)__popc(rank[j]));");
  w.line("__syncwarp();");
  w.line("rank[j] = old + before;");
  w.close();
  w.line("__syncthreads();");
  w.open(each_bin);
  w.line("unsigned sum = 0u;");
  w.open("for (int k = 0; k < " + warps + "; ++k)");
  w.line("const unsigned own = places[k][i];");
  w.line("places[k][i] = (unsigned short)sum;");
  w.line("sum += own;");
  w.close();
  w.close();
  w.line("__syncthreads();");
  w.unroll(each_item);
  w.line("if (digit_of[j] >= " + bin_count + "u) continue;");
  w.line("const unsigned to = counts[(I)blockIdx.x * " + bin_count +
         " + (I)digit_of[j]] + places[warp][digit_of[j]] + rank[j];");
  w.line(std::string(is_last ? "sorted" : "first_sorted") + "[to] = position_of[j];");
  if (passes_ == 2) w.line(std::string(is_last ? "sorted_keys" : "first_keys") + "[to] = key_of[j];");
  w.close();
  w.close();
  w.add_step(entry, tiles(), 1, threads);
}

SINTER_DECL void PositionSort::write_bounds() {
  const std::string entry = w.entry("bounds", threads);
  declare_counts();
  w.line("const I item = (I)blockIdx.x * " + str(threads) + " + (I)threadIdx.x, left = (I)total[1];");
  w.line("if (item >= left) return;");
  w.line("const unsigned key = sorted_keys[item];");
  w.line("if (item == 0 || sorted_keys[item - 1] != key) starts[key] = (unsigned)item;");
  w.line("if (item + 1 == left || sorted_keys[item + 1] != key) ends[key] = (unsigned)item + 1u;");
  w.close();
  w.add_step(entry, quotient_up(positions_, threads), 1, threads);
}

}  // namespace cuda_source_detail
SINTER_NAMESPACE_END
