// The kernels of the sort.
#pragma once

#include <sinter/backend/cuda/source/scatter_sorted.hpp>

#include <sinter/base/index.hpp>

#include <algorithm>

SINTER_NAMESPACE_BEGIN
namespace cuda_source_detail {

SINTER_DECL PositionSortShape::PositionSortShape(std::int64_t keys, std::int64_t positions, std::int64_t value_bytes)
    : keys_(keys), positions_(positions), value_bytes_(value_bytes) {
  int bits = 0;
  while (std::int64_t{1} << bits < keys) ++bits;
  passes_ = keys <= most_keys_of_pass ? 1 : 2;
  bits_ = std::max(5, static_cast<int>(quotient_up(bits, passes_)));
}

SINTER_DECL std::int64_t PositionSortShape::tiles() const { return quotient_up(positions_, tile); }

// Words of the workspace: counts of each tile, how many positions are in order, starts, ends, the sorted positions; of
// two passes also the keys that go with them, and both as the first pass leaves them. Or the sorted values.
SINTER_DECL std::string PositionSort::array(const char* name, std::int64_t word) const {
  return "unsigned* const " + std::string(name) + " = (unsigned*)a.workspace + " +
         w.number(std::string("at_") + name, word) + ";";
}
SINTER_DECL std::int64_t PositionSortShape::words_before_sorted() const {
  return quotient_up(tiles() * bins() + 32 + 2 * lists(), 4) * 4;
}
SINTER_DECL std::int64_t PositionSortShape::workspace_bytes() const {
  const std::int64_t sorted_bytes = value_bytes_ > 0 ? value_bytes_ : passes_ == 1 ? 4 : 16;
  return quotient_up(4 * words_before_sorted() + sorted_bytes * positions_, 256) * 256;
}
SINTER_DECL void PositionSort::declare_lists() {
  const std::int64_t counts = tiles() * bins();
  w.line(array("starts", counts + 32));
  w.line(array("ends", counts + 32 + lists()));
  if (value_.bytes == 0) return w.line(array("sorted", words_before_sorted()));
  w.line(value_.type + "* const sorted = (" + value_.type + "*)((unsigned*)a.workspace + " +
         w.number("at_sorted", words_before_sorted()) + ");");
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
  w.line("#pragma unroll 8");
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
  w.open("for (I t = begin; t < end; t += 8)");  // a store may not wait for the load of the next tile
  w.line("unsigned own[8];");
  w.line("#pragma unroll");
  w.line("for (int u = 0; u < 8; ++u) own[u] = t + u < end ? counts[(t + u) * " + bin_count + " + bin] : 0u;");
  w.unroll("for (int u = 0; u < 8; ++u)");
  w.line("if (t + u < end) counts[(t + u) * " + bin_count + " + bin] = at;");
  w.line("at += own[u];");
  w.close();
  w.close();
  w.close();
  w.add_step(entry, bins() / 32, 1, 1024);
}

/// A ballot for each bit finds the lanes that have the same one: __match_any_sync takes them one by one.
SINTER_DECL void write_ranks(Writer& w, int number, int bits, const std::string& counts, const std::string& digits) {
  const std::string digit = digits + "[j]", count = counts + "[warp][" + digit + "]",
                    each_item = "for (int j = 0; j < " + Writer::str(number) + "; ++j)";
  w.line("unsigned rank[" + Writer::str(number) + "];");
  w.unroll(each_item);
  w.line("rank[j] = 0xffffffffu;");
  w.unroll("for (int b = 0; b <= " + Writer::str(bits) + "; ++b)");  // the last one tells those that have none
  w.line("const bool is_set = (" + digit + " >> b & 1u) != 0u;");
  w.line("const unsigned lanes = __ballot_sync(0xffffffffu, is_set);");
  w.line("rank[j] &= is_set ? lanes : ~lanes;");
  w.close();
  w.close();
  w.unroll(each_item);
  w.line("const unsigned before = (unsigned)__popc(rank[j] & ((1u << lane) - 1u)), old = " + count + ";");
  w.line("__syncwarp();");
  w.line("if (before == 0u) " + count + " = (unsigned short)(old + (unsigned)__popc(rank[j]));");
  w.line("__syncwarp();");
  w.line("rank[j] = old + before;");
  w.close();
}

/// Nothing here branches, so that all loads are on their way at once.
SINTER_DECL void PositionSort::read_items(int pass, const std::function<void(bool)>& write_key) {
  const std::string number = str(items), positions = w.number("positions", positions_);
  w.line("unsigned key_of[" + number + "], position_of[" + number + "], digit_of[" + number + "];");
  if (value_.bytes > 0) w.line(value_.type + " value_of[" + number + "];");
  w.unroll("for (int j = 0; j < " + number + "; ++j)");
  w.line("const I wanted = (I)blockIdx.x * " + str(tile) + " + warp * " + str(32 * items) +
         " + j * 32 + lane, item = wanted < " + positions + " ? wanted : " + positions + " - 1;");
  read_key(pass, write_key, false);
  w.line("key_of[j] = key;");
  w.line("position_of[j] = position;");
  w.line("digit_of[j] = is_in && item == wanted ? " + digit(pass) + " : " + str(bins()) + "u;");
  if (value_.bytes > 0) {
    w.open("");
    value_.write();
    w.line("value_of[j] = value;");
    w.close();
  }
  w.close();
}

/// A warp's positions are neighbours, 32 at a time; those of one digit keep their order.
SINTER_DECL void PositionSort::write_order(int pass, const std::function<void(bool)>& write_key) {
  const std::string entry = w.entry("order" + str(pass), threads), bin_count = str(bins()), warps = str(threads / 32),
                    each_item = "for (int j = 0; j < " + str(items) + "; ++j)",
                    each_bin = "for (int i = (int)threadIdx.x; i < " + bin_count + "; i += " + str(threads) + ")";
  w.line("__shared__ unsigned short places[" + warps + "][" + str(bins() + 2) + "];");  // the last is for what has none
  declare_counts();
  if (pass > 0) w.line("const I left = (I)total[0];");
  w.line("const int lane = (int)(threadIdx.x % 32), warp = (int)(threadIdx.x / 32);");
  w.open(each_bin);
  w.line("for (int k = 0; k < " + warps + "; ++k) places[k][i] = 0;");
  w.close();
  w.line("if (lane < 2) places[warp][" + bin_count + " + lane] = 0;");
  read_items(pass, write_key);
  w.line("__syncthreads();");
  write_ranks(w, items, bits_, "places", "digit_of");
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
  write_moved(pass);
  w.close();
  w.close();
  w.add_step(entry, tiles(), 1, threads);
}

SINTER_DECL void PositionSort::write_moved(int pass) {
  const bool is_last = pass + 1 == passes_;
  if (value_.bytes > 0) return w.line("sorted[to] = value_of[j];");
  w.line(std::string(is_last ? "sorted" : "first_sorted") + "[to] = position_of[j];");
  if (passes_ == 2) w.line(std::string(is_last ? "sorted_keys" : "first_keys") + "[to] = key_of[j];");
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
