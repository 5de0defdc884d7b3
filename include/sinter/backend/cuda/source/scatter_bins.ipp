// The kernels of the bins. In both, values of a tile (or of a part of a bin) are ranked among those of the same list by
// warps, lists are put one after the other, and shared memory takes the values in that order.
#pragma once

#include <sinter/backend/cuda/source/scatter_bins.hpp>

#include <sinter/base/index.hpp>

#include <algorithm>

SINTER_NAMESPACE_BEGIN
namespace cuda_source_detail {

SINTER_DECL BinShape::BinShape(std::int64_t keys, std::int64_t positions, std::int64_t value_bytes)
    : keys_(keys), positions_(positions), value_bytes_(value_bytes) {
  while (std::int64_t{bins} << low_bits_ < keys) ++low_bits_;
}

// The workspace: where each run begins within its tile and how many values it has, 16 bits each, eight neighbouring
// bins of a tile side by side; then the tiles, sorted.
SINTER_DECL std::int64_t BinShape::workspace_bytes() const {
  const std::int64_t record_bytes = value_bytes_ > 4 ? 16 : 8;
  return quotient_up(4 * run_words() + record_bytes * tiles() * tile, 256) * 256;
}
SINTER_DECL void BinSort::declare() {
  w.line("struct Record { " + value_.type + " value; unsigned key; };");
  w.line("unsigned* const runs = (unsigned*)a.workspace;");
  w.line("Record* const sorted = (Record*)(runs + " + w.number("at_sorted", run_words()) + ");");
  w.line("const I tiles = " + w.number("tiles", tiles()) + ";");
  w.line("const int lane = (int)(threadIdx.x % 32), warp = (int)(threadIdx.x / 32);");
}
/// Of each warp, how many values it has for each list; the last ones are for what has none. Rows are whole vectors.
SINTER_DECL void BinSort::declare_ranks(std::int64_t lists) {
  w.line("__shared__ __align__(16) unsigned short ranks[" + str(warps) + "][" + str(row_of_ranks(lists)) + "];");
}
SINTER_DECL void BinSort::clear_ranks(std::int64_t lists) {
  w.open("for (int i = (int)threadIdx.x; i < " + str(warps * row_of_ranks(lists) / 8) + "; i += " + str(threads) + ")");
  w.line("((Pack<unsigned, 4>*)ranks)[i] = {{0u, 0u, 0u, 0u}};");
  w.close();
}

/// Declares `before`, the sum of `sum` over the threads before, and `all`, that over the block.
SINTER_DECL void BinSort::scan_block(const std::string& sum) {
  w.line("unsigned before = " + sum + ", all = 0u;");
  w.unroll("for (int d = 1; d < 32; d *= 2)");
  w.line("const unsigned other = __shfl_up_sync(0xffffffffu, before, d);");
  w.line("if (lane >= d) before += other;");
  w.close();
  w.line("if (lane == 31) parts[warp] = before;");
  w.line("__syncthreads();");
  w.line("before -= " + sum + ";");
  w.unroll("for (int k = 0; k < " + str(warps) + "; ++k)");
  w.line("before += k < warp ? parts[k] : 0u;");
  w.line("all += parts[k];");
  w.close();
}

/// Lists follow each other by their numbers, of which a thread has neighbours; `ranks` become where a warp's part of
/// each list begins: in row 0 the list itself, and behind the last one where all end. Declares `all`.
SINTER_DECL void BinSort::begin_lists(std::int64_t lists) {
  const std::string own = str(quotient_up(lists, threads)), each_list = "for (int p = 0; p < " + own + "; ++p) ",
                    each_warp = "for (int k = 0; k < " + str(warps) + "; ++k)",
                    pack = "Pack<unsigned short, " + own + ">", place = "(" + pack + "*)(ranks[k] + low)",
                    is_list = lists < threads ? "if (low < " + str(lists) + ")" : std::string();
  w.line("const int low = (int)threadIdx.x * " + own + ";");
  w.line("unsigned size[" + own + "], own_size = 0u;");
  w.line("#pragma unroll");
  w.line(each_list + "size[p] = 0u;");
  w.open(is_list);
  w.unroll(each_warp);
  w.line("const " + pack + " count = *" + place + ";");
  w.line("#pragma unroll");
  w.line(each_list + "size[p] += count.v[p];");
  w.close();
  w.close();
  w.line("#pragma unroll");
  w.line(each_list + "own_size += size[p];");
  scan_block("own_size");
  w.line("unsigned part[" + own + "];");
  w.unroll(each_list);
  w.line("part[p] = before;");
  w.line("before += size[p];");
  w.close();
  w.open(is_list);
  w.unroll(each_warp);
  w.line(pack + " count = *" + place + ";");
  w.unroll(each_list);
  w.line("const unsigned next = part[p] + count.v[p];");
  w.line("count.v[p] = (unsigned short)part[p];");
  w.line("part[p] = next;");
  w.close();
  w.line("*" + place + " = count;");
  w.close();
  w.close();
  w.line("if (threadIdx.x == 0) ranks[0][" + str(lists) + "] = (unsigned short)all;");
  w.line("__syncthreads();");
}

// ---- tiles

SINTER_DECL void BinSort::write_tiles(const std::function<void(bool)>& write_key) {
  const std::string entry = w.entry("tiles", threads, value_bytes_ > 4 ? 2 : 4),
                    each_item = "for (int j = 0; j < " + str(items) + "; ++j)";
  declare_ranks(bins);
  w.line("__shared__ unsigned parts[" + str(warps) + "];");
  declare();
  w.line("__shared__ Record staged[" + str(tile) + "];");
  clear_ranks(bins);
  read_tile(write_key);
  w.line("__syncthreads();");
  write_ranks(w, items, bits, "ranks", "digit_of");
  w.line("__syncthreads();");
  begin_lists(bins);
  w.unroll(each_item);
  w.line("if (digit_of[j] < " + str(bins) +
         "u) staged[ranks[warp][digit_of[j]] + rank[j]] = {value_of[j], key_of[j]};");
  w.close();
  w.line("__syncthreads();");
  store_tile();
  w.close();
  w.add_step(entry, tiles(), 1, threads);
}

/// A warp's positions are neighbours, 32 at a time. Nothing here branches, so that all loads are on their way at once.
SINTER_DECL void BinSort::read_tile(const std::function<void(bool)>& write_key) {
  const std::string number = str(items), each_item = "for (int j = 0; j < " + number + "; ++j)",
                    positions = w.number("positions", positions_),
                    wanted = "const I wanted = (I)blockIdx.x * " + str(tile) + " + warp * " + str(32 * items) +
                             " + j * 32 + lane, item = wanted < " + positions + " ? wanted : " + positions + " - 1;";
  w.line("unsigned key_of[" + number + "], digit_of[" + number + "];");
  w.line(value_.type + " value_of[" + number + "];");
  w.line("bool is_bad = false;");
  w.unroll(each_item);
  w.line(wanted);
  write_key(false);
  w.line("key_of[j] = key;");
  w.line("digit_of[j] = is_in && item == wanted ? key >> " + str(low_bits_) + " : " + str(bins) + "u;");
  w.line("is_bad |= !is_in;");
  w.open("");
  value_.write();
  w.line("value_of[j] = value;");
  w.close();
  w.close();
  w.open("if (is_bad)");
  w.open(each_item);
  w.line(wanted);
  write_key(true);
  w.close();
  w.close();
}

SINTER_DECL void BinSort::store_tile() {
  w.unroll("for (int j = 0; j < " + str(items) + "; ++j)");
  w.line("const unsigned k = (unsigned)j * " + str(threads) + "u + threadIdx.x;");
  w.line("if (k < all) sorted[(I)blockIdx.x * " + str(tile) + " + (I)k] = staged[k];");
  w.close();
  w.unroll("for (int bin = (int)threadIdx.x; bin < " + str(bins) + "; bin += " + str(threads) + ")");
  w.line("const unsigned first = ranks[0][bin], size = ranks[0][bin + 1] - first;");
  w.line("runs[((I)(bin / 8) * tiles + (I)blockIdx.x) * 8 + bin % 8] = first | size << 16;");
  w.close();
}

// ---- bins

/// Shared memory without asking for more has 48 KB: ranks of 2048 keys and 2048 values of 4 bytes, or 1536 of 8.
SINTER_DECL int BinSort::items_of_bin() const {
  const std::int64_t mean = quotient_up(positions_, bins_with_keys()), most = value_bytes_ > 4 ? 6 : items;
  return static_cast<int>(std::clamp<std::int64_t>(quotient_up(mean + mean / 8, threads), 1, most));
}

/// Values of a bin come in order, by chunks: within one they are moved to lists of their keys in shared memory; then
/// each thread takes in the lists of its own keys. Neighbouring threads have neighbouring keys.
SINTER_DECL void BinSort::write_combined(const SortedPlaces& places) {
  const std::int64_t keys = keys_of_bin();
  const std::string entry = w.entry("scatter", threads),
                    each_key = "for (int p = 0; p < " + str(quotient_up(keys, threads)) + "; ++p)";
  declare_ranks(keys);
  w.line("__shared__ unsigned parts[" + str(warps) + "], run_begin[" + str(threads) + "], run_from[" + str(threads) +
         "];");
  w.line("__shared__ " + places.type + " staged[" + str(chunk()) + "];");
  w.line("if (a.fault[0] != 0) return;");
  declare();
  load_places(places);
  w.open("for (I group = 0; group < tiles; group += " + str(threads) + ")");
  find_runs();
  w.open("for (unsigned base = 0u; base < left; base += " + str(chunk()) + "u)");
  read_chunk();
  write_ranks(w, items_of_bin(), low_bits_, "ranks", "key_of");
  w.line("__syncthreads();");
  begin_lists(keys);
  w.unroll("for (int j = 0; j < " + str(items_of_bin()) + "; ++j)");
  w.line("if (key_of[j] < " + str(keys) + "u) staged[ranks[warp][key_of[j]] + rank[j]] = value_of[j];");
  w.close();
  w.line("__syncthreads();");
  w.unroll(each_key);
  w.line("const int low = p * " + str(threads) + " + (int)threadIdx.x;");
  if (keys < threads) w.line("if (low >= " + str(keys) + ") break;");
  w.line("const unsigned first = ranks[0][low], last = ranks[0][low + 1];");
  w.line("is_hit[p] = is_hit[p] || last > first;");
  w.line("#pragma unroll 4");
  w.open("for (unsigned k = first; k < last; ++k)");
  w.line("sum[p] = " + places.combined("sum[p]", "staged[k]") + ";");
  w.close();
  w.close();
  w.line("__syncthreads();");  // lists are read where the next chunk is ranked
  w.close();
  w.close();
  w.line("#pragma unroll");
  w.line(each_key + " if (is_hit[p]) (" + places.target + ")[offset[p]] = sum[p];");
  w.close();
  w.add_step(entry, bins_with_keys(), 1, threads);
}

/// What lies at the keys of the thread.
SINTER_DECL void BinSort::load_places(const SortedPlaces& places) {
  const std::int64_t keys = keys_of_bin();
  const std::string own = str(quotient_up(keys, threads));
  w.line(places.type + " sum[" + own + "];");
  w.line("I offset[" + own + "];");
  w.line("bool is_hit[" + own + "];");
  w.unroll("for (int p = 0; p < " + own + "; ++p)");
  w.line("const int low = p * " + str(threads) + " + (int)threadIdx.x;");
  w.line("const I item = (I)blockIdx.x * " + str(keys) + " + low;");
  w.line("is_hit[p] = false;");
  w.line("offset[p] = 0;");
  w.line("sum[p] = 0;");
  w.open("if (low < " + str(keys) + " && item < " + w.number("keys", keys_) + ")");
  places.write_offset();
  w.line("offset[p] = to;");
  w.line("sum[p] = " + places.loaded("to") + ";");
  w.close();
  w.close();
}

/// The runs of the bin in as many tiles as there are threads. Of the tile of thread t, value `run_begin[t] + k` of
/// these lies at `run_from[t] + run_begin[t] + k` of all. Declares `left`, how many values they have.
SINTER_DECL void BinSort::find_runs() {
  w.line("const I bin = (I)blockIdx.x, of = group + (I)threadIdx.x;");
  w.line("const unsigned run = of < tiles ? runs[(bin / 8 * tiles + of) * 8 + bin % 8] : 0u, run_size = run >> 16;");
  w.line("unsigned left = 0u;");
  w.open("");
  scan_block("run_size");
  w.line("left = all;");
  w.line("run_begin[threadIdx.x] = before;");
  w.line("run_from[threadIdx.x] = (unsigned)of * " + str(tile) + "u + (run & 0xffffu) - before;");
  w.close();
  w.line("__syncthreads();");  // sums of warps are written again for the next tiles, though these may have no values
}

/// Values of the chunk, and their keys within the bin. A value's run is the last one that begins before it or with it.
SINTER_DECL void BinSort::read_chunk() {
  const std::string number = str(items_of_bin()), keys = str(keys_of_bin());
  clear_ranks(keys_of_bin());
  w.line("__syncthreads();");
  w.line("unsigned key_of[" + number + "];");
  w.line(value_.type + " value_of[" + number + "];");
  w.unroll("for (int j = 0; j < " + number + "; ++j)");
  w.line("const unsigned wanted = base + (unsigned)(warp * " + str(32 * items_of_bin()) +
         " + j * 32 + lane), item = wanted < left ? wanted : left - 1u;");
  w.line("int t = 0;");
  w.line("#pragma unroll");
  w.line("for (int step = " + str(threads / 2) + "; step > 0; step /= 2) t += run_begin[t + step] <= item ? step : 0;");
  w.line("const Record record = sorted[(I)(run_from[t] + item)];");
  w.line("key_of[j] = wanted < left ? record.key & " + str(keys_of_bin() - 1) + "u : " + keys + "u;");
  w.line("value_of[j] = record.value;");
  w.close();
}

}  // namespace cuda_source_detail
SINTER_NAMESPACE_END
