// The kernels.
#pragma once

#include <sinter/backend/cuda/source/scan.hpp>

#include <sinter/backend/cuda/source/scan_columns.hpp>
#include <sinter/base/index.hpp>

#include <algorithm>

SINTER_NAMESPACE_BEGIN
namespace cuda_source_detail {

class ScanWriter {
 public:
  explicit ScanWriter(Writer& writer) : w(writer), bound(writer.bound) {}

  void run() {
    length_ = bound.points(bound.reduced);
    items_ = std::max<std::int64_t>(1, bound.points(bound.parallel));
    const bool is_row = bound.kernel.kind == KernelKind::row && length_ >= 32;
    if (is_row || (items_ <= few_columns && length_ >= long_column)) write_rows();
    else if (!write_column_pieces(w)) write_columns();
  }

 private:
  /// Few long columns are scanned as rows are, by a block of threads each.
  static constexpr std::int64_t few_columns = 64, long_column = 1024;

  static std::string str(std::int64_t number) { return std::to_string(number); }
  std::string type(InstId id) const { return value_type(bound.inst(id).dtype); }
  std::string merged(InstId scan, const std::string& a, const std::string& b) const {
    return combined(reduction_of(bound.inst(scan).prim), bound.inst(scan).dtype, a, b);
  }
  std::vector<InstId> scans() const {
    std::vector<InstId> list;
    for (InstId id : inner_of(bound.kernel, bound.facts, 0))
      if (is_scan(bound.inst(id).prim)) list.push_back(id);
    return list;
  }

  /// What is computed once per row or column.
  void write_outer(const IndexNames& place) {
    for (std::size_t i = 0; i < bound.kernel.body.size(); ++i) {
      const auto id = static_cast<InstId>(i);
      if (!bound.is_live(i) || bound.is_inner(i) || bound.inst(id).prim == Prim::immediate) continue;
      w.line("const " + w.declaration(id) + " = " + w.value_of(id, place, "") + ";");
      w.name[i] = "v" + str(id);
    }
  }
  void write_outer_stores(const IndexNames& place) {
    for (const std::uint16_t s : bound.facts.outer_stores)
      w.store_one(bound.kernel.stores[s], w.name[bound.kernel.stores[s].value], place, "");
  }
  IndexNames point(const IndexNames& place, const std::string& at) {
    IndexNames index = place;
    const IndexNames inner = w.decode(at, bound.reduced);
    for (int a : bound.reduced) index[as_index(a)] = inner[as_index(a)];
    return index;
  }
  template <class Scan>
  void write_values(const IndexNames& index, Scan&& scan) {
    for (InstId id : inner_of(bound.kernel, bound.facts, 0)) {
      if (is_scan(bound.inst(id).prim)) scan(id);
      else w.line("const " + w.declaration(id) + " = " + w.value_of(id, index, "") + ";");
      w.name[id] = "v" + str(id);
    }
  }
  void write_stores(const IndexNames& index) {
    for (const std::uint16_t s : bound.facts.inner_stores)
      w.store_one(bound.kernel.stores[s], w.name[bound.kernel.stores[s].value], index, "");
  }
  void declare_carries() {
    for (InstId id : scans())
      w.line(type(id) + " carry" + str(id) + " = " + neutral(reduction_of(bound.inst(id).prim), bound.inst(id).dtype) +
             ";");
  }

  // ---- columns

  /// Sums of floats have what rounding lost beside them (Knuth's two-sum): they are as long as the column.
  bool is_compensated(InstId id) const {
    return bound.inst(id).prim == Prim::scan_add && is_floating(bound.inst(id).dtype);
  }

  void write_columns() {
    constexpr int threads = 128;
    const std::string entry = w.entry("scan_columns", threads);
    w.line("const I item = (I)blockIdx.x * " + str(threads) + " + (I)threadIdx.x;");
    w.open("if (item < " + w.number("items", items_) + ")");
    const IndexNames place = w.decode("item", bound.parallel);
    write_outer(place);
    declare_carries();
    for (InstId id : scans())
      if (is_compensated(id)) w.line(type(id) + " lost" + str(id) + " = 0;");
    w.open("for (I e = 0; e < " + w.number("length", length_) + "; ++e)");
    const IndexNames index = point(place, "e");
    write_values(index, [&](InstId id) { write_column_scan(id); });
    write_stores(index);
    w.close();
    write_outer_stores(place);
    w.close();
    w.close();
    w.add_step(entry, quotient_up(items_, threads), 1, threads);
  }

  void write_column_scan(InstId id) {
    const std::string n = str(id), carry = "carry" + n, lost = "lost" + n, x = w.name[bound.inst(id).args[0]];
    const std::string value =
        is_compensated(id) ? lost + " == " + lost + " ? " + carry + " + " + lost + " : " + carry : carry;
    if (bound.inst(id).is_exclusive()) w.line("const " + w.declaration(id) + " = " + value + ";");
    w.line("const " + type(id) + " older" + n + " = " + carry + ";");
    w.line(carry + " = " + merged(id, carry, x) + ";");
    if (is_compensated(id)) {
      const std::string added = "added" + n, older = "older" + n;
      w.line("const " + type(id) + " " + added + " = " + carry + " - " + older + ";");
      w.line(lost + " += (" + older + " - (" + carry + " - " + added + ")) + (" + x + " - " + added + ");");
    }
    if (!bound.inst(id).is_exclusive()) w.line("const " + w.declaration(id) + " = " + value + ";");
  }

  // ---- rows

  /// Does a scan depend on another one?
  bool is_chained() const {
    const std::vector<InstId> list = scans();
    return std::any_of(list.begin(), list.end(), [&](InstId id) {
      const std::vector<bool> under = instructions_under(bound.kernel.body, bound.inst(id).args[0]);
      for (std::size_t i = 0; i < under.size(); ++i)
        if (under[i] && is_scan(bound.kernel.body[i].prim)) return true;
      return false;
    });
  }
  /// Rows too few to occupy the device are cut: a first kernel leaves the total of each piece but the last in the
  /// workspace, and in the second one each block begins with those of the pieces before its own.
  std::int64_t pieces() const {
    constexpr std::int64_t least_piece = 4096, blocks_per_processor = 4;
    if (is_chained() || !bound.facts.outer_stores.empty() || items_ >= w.device.multiprocessors) return 1;
    return std::max<std::int64_t>(
        1, std::min(length_ / least_piece, blocks_per_processor * w.device.multiprocessors / items_));
  }
  /// Where the total of piece `piece` of this row is.
  std::string total_of(InstId id, const std::string& piece) {
    return "((" + type(id) + "*)((char*)a.workspace + " + w.number("totals" + str(id), place_of(id)) + "))[item * " +
           w.number("pieces", pieces_) + " + " + piece + "]";
  }
  /// In the workspace, in bytes: each scan has 8 for each piece.
  std::int64_t place_of(InstId id) const {
    const std::vector<InstId> list = scans();
    return (std::find(list.begin(), list.end(), id) - list.begin()) * items_ * pieces_ * 8;
  }
  /// Elements for each thread of a tile. They follow from the extents alone, not from what is computed beside: in which
  /// order a sum adds up must not depend on that. What is scanned twice has one.
  int elements_of_thread(std::int64_t length) const {
    const int most = is_chained() ? 1 : 8;
    int elements = 1;
    while (elements < most && 2 * elements * threads_ <= length) elements *= 2;
    return elements;
  }

  void write_rows() {
    pieces_ = pieces();
    threads_ = static_cast<int>(std::clamp<std::int64_t>(power_of_2_at_least(length_), 32, 1024));
    if (items_ * pieces_ >= w.device.multiprocessors) threads_ = std::min(threads_, 256);
    elements_ = elements_of_thread(quotient_up(length_, pieces_));
    chunk_ = quotient_up(quotient_up(length_, pieces_), threads_ * elements_) * threads_ * elements_;
    pieces_ = quotient_up(length_, chunk_);
    if (pieces_ > 1) write_totals();
    const std::string entry = begin_rows("scan_rows", pieces_ > 1 ? "(I)(gridDim.x - 1 - blockIdx.x)" : "");
    if (pieces_ > 1) {
      for (InstId id : scans()) {
        w.open("for (I p = lane; p < piece; p += " + str(threads_) + ")");
        w.line("carry" + str(id) + " = " + merged(id, "carry" + str(id), total_of(id, "p")) + ";");
        w.close();
        write_block_total(id);
      }
    }
    if (is_chained()) write_single_tiles();
    else write_tiles();
    if (!bound.facts.outer_stores.empty()) {
      w.line("__syncthreads();");
      w.open("if (lane == 0)");
      write_outer_stores(row_);
      w.close();
    }
    w.close();
    if (pieces_ > 1) w.add_step(entry, pieces_, items_, threads_);
    else w.add_step(entry, items_, 1, threads_);
  }

  /// Each thread combines elements that lie apart, and the block what its threads have. The last piece is left out: all
  /// others are whole tiles.
  void write_totals() {
    const std::string entry = begin_rows("scan_totals", "(I)blockIdx.x"), elements = str(elements_);
    for (InstId id : scans()) w.line(type(id) + " part" + str(id) + "[" + elements + "];");
    w.unroll("for (int j = 0; j < " + elements + "; ++j)");
    for (InstId id : scans()) w.line("part" + str(id) + "[j] = carry" + str(id) + ";");
    w.close();
    w.open("for (I t = begin; t < end; t += " + str(threads_ * elements_) + ")");
    w.unroll("for (int j = 0; j < " + elements + "; ++j)");
    w.line("const I e = t + j * " + str(threads_) + " + lane;");
    write_needed(point(row_, "e"), scanned_values(), [&](InstId id) {
      const std::string part = "part" + str(id) + "[j]";
      w.line(part + " = " + merged(id, part, w.name[bound.inst(id).args[0]]) + ";");
    });
    w.close();
    w.close();
    for (InstId id : scans()) {
      const std::string carry = "carry" + str(id);
      w.unroll("for (int j = 0; j < " + elements + "; ++j)");
      w.line(carry + " = " + merged(id, carry, "part" + str(id) + "[j]") + ";");
      w.close();
      write_block_total(id);
    }
    w.open("if (lane == 0)");
    for (InstId id : scans()) w.line(total_of(id, "piece") + " = carry" + str(id) + ";");
    w.close();
    w.close();
    w.add_step(entry, pieces_ - 1, items_, threads_);
    w.add_workspace(static_cast<std::int64_t>(scans().size()) * items_ * pieces_ * 8);
  }
  /// What the carries of all threads make together, in each of them.
  void write_block_total(InstId id) {
    const std::string n = str(id), carry = "carry" + n, totals = "totals" + n;
    w.unroll("for (int d = 16; d > 0; d /= 2)");
    w.line("const " + type(id) + " other = __shfl_xor_sync(0xffffffffu, " + carry + ", d);");
    w.line(carry + " = " + merged(id, carry, "other") + ";");
    w.close();
    w.line("if (lane % 32 == 0) " + totals + "[lane / 32] = " + carry + ";");
    w.line("__syncthreads();");
    w.line(carry + " = " + totals + "[0];");
    w.line("for (int k = 1; k < " + str(threads_ / 32) + "; ++k) " + carry + " = " + merged(id, carry, totals + "[k]") +
           ";");
    w.line("__syncthreads();");
  }

  /// Up to the loop over tiles: from `begin` to `end`. `piece` is empty where rows are not cut.
  std::string begin_rows(const std::string& suffix, const std::string& piece) {
    const std::string entry = w.entry(suffix, threads_), length = w.number("length", length_);
    w.line("const int lane = (int)threadIdx.x;");
    w.line(std::string("const I item = (I)blockIdx.") + (piece.empty() ? "x;" : "y;"));
    if (piece.empty()) {
      w.line("const I begin = 0, end = " + length + ";");
    } else {
      // What was read last is in the cache still: the second kernel begins there.
      const std::string chunk = w.number("chunk", chunk_);
      w.line("const I piece = " + piece + ";");
      w.line("const I begin = piece * " + chunk + ", end = begin + " + chunk + " < " + length + " ? begin + " + chunk +
             " : " + length + ";");
    }
    row_ = w.decode("item", bound.parallel);
    write_outer(row_);
    declare_carries();
    for (InstId id : scans())
      w.line("__shared__ " + type(id) + " totals" + str(id) + "[" + str(threads_ / 32 * 2) + "];");
    return entry;
  }

  /// The instructions that what is scanned is made of; and those that what is stored is made of.
  std::vector<bool> scanned_values() const {
    std::vector<InstId> made;
    for (InstId id : scans()) made.push_back(bound.inst(id).args[0]);
    return under(made);
  }
  std::vector<bool> stored_values() const {
    std::vector<InstId> made;
    for (const std::uint16_t s : bound.facts.inner_stores) {
      const Store& store = bound.kernel.stores[s];
      made.push_back(store.value);
      if (store.index != no_inst) made.push_back(store.index);
    }
    return under(made);
  }
  std::vector<bool> under(const std::vector<InstId>& made) const {
    std::vector<bool> all(bound.kernel.body.size(), false);
    for (InstId id : made) {
      const std::vector<bool> own = instructions_under(bound.kernel.body, id);
      for (std::size_t i = 0; i < own.size(); ++i) all[i] = all[i] || own[i];
    }
    return all;
  }
  /// Declares the values among `needed`; `scan` is called for each scan, when what it takes is there.
  template <class Scan>
  void write_needed(const IndexNames& index, const std::vector<bool>& needed, Scan&& scan) {
    for (InstId id : inner_of(bound.kernel, bound.facts, 0)) {
      if (is_scan(bound.inst(id).prim)) {
        scan(id);
        continue;
      }
      if (!needed[id]) continue;
      w.line("const " + w.declaration(id) + " = " + w.value_of(id, index, "") + ";");
      w.name[id] = "v" + str(id);
    }
  }

  /// A tile has some elements for each thread, those of a warp side by side: what is scanned is computed, the tile
  /// scanned, and then all that is stored computed from it.
  void write_tiles() {
    const std::string elements = str(elements_);
    w.line("int half = 0;");  // of the totals: warps that are ahead write the other one
    w.open("for (I t = begin; t < end; t += " + str(threads_ * elements_) + ")");
    for (InstId id : scans()) w.line(type(id) + " tree" + str(id) + "[" + elements + "];");
    write_needed(open_element(), scanned_values(),
                 [&](InstId id) { w.line("tree" + str(id) + "[j] = " + w.name[bound.inst(id).args[0]] + ";"); });
    w.close();
    for (InstId id : scans()) write_tile_scan(id);
    w.line("half ^= " + str(threads_ / 32) + ";");
    const IndexNames index = open_element();
    write_needed(index, stored_values(), [&](InstId id) { w.name[id] = "tree" + str(id) + "[j]"; });
    w.open("if (at < end)");
    write_stores(index);
    w.close();
    w.close();
    w.close();
  }
  /// Threads beyond the end come after all others.
  IndexNames open_element() {
    w.unroll("for (int j = 0; j < " + str(elements_) + "; ++j)");
    w.line("const I at = t + lane / 32 * " + str(32 * elements_) + " + j * 32 + lane % 32;");
    w.line("const I e = at < end ? at : end - 1;");
    return point(row_, "e");
  }
  /// Lines of a warp by doubling distances, lines in order, warps in order, tiles in order.
  void write_tile_scan(InstId id) {
    const std::string n = str(id), t = type(id), tree = "tree" + n + "[j]", totals = "totals" + n + "[half + ",
                      before = "before" + n, carry = "carry" + n, sum = "sum" + n;
    const std::string each = "for (int j = 0; j < " + str(elements_) + "; ++j)";
    w.unroll("for (int d = 1; d < 32; d *= 2)");
    w.unroll(each);
    w.line("const " + t + " other = __shfl_up_sync(0xffffffffu, " + tree + ", d);");
    w.line("if (lane % 32 >= d) " + tree + " = " + merged(id, "other", tree) + ";");
    w.close();
    w.close();
    w.line(t + " " + sum + " = __shfl_sync(0xffffffffu, tree" + n + "[0], 31);");
    w.unroll("for (int j = 1; j < " + str(elements_) + "; ++j)");
    w.line("const " + t + " own = __shfl_sync(0xffffffffu, " + tree + ", 31);");
    w.line(tree + " = " + merged(id, sum, tree) + ";");
    w.line(sum + " = " + merged(id, sum, "own") + ";");
    w.close();
    w.line("if (lane % 32 == 0) " + totals + "lane / 32] = " + sum + ";");
    w.line("__syncthreads();");
    w.line(t + " " + before + " = " + carry + ";");
    w.open("for (int k = 0; k < " + str(threads_ / 32) + "; ++k)");
    w.line("if (k < lane / 32) " + before + " = " + merged(id, before, totals + "k]") + ";");
    w.line(carry + " = " + merged(id, carry, totals + "k]") + ";");
    w.close();
    if (bound.inst(id).is_exclusive()) {
      w.line(t + " last" + n + " = " + before + ";");
      w.unroll(each);
      w.line("const " + t + " whole = " + merged(id, before, tree) + ";");
      w.line("const " + t + " shifted = __shfl_up_sync(0xffffffffu, whole, 1);");
      w.line(tree + " = lane % 32 == 0 ? last" + n + " : shifted;");
      w.line("last" + n + " = __shfl_sync(0xffffffffu, whole, 31);");
      w.close();
    } else {
      w.unroll(each);
      w.line(tree + " = " + merged(id, before, tree) + ";");
      w.close();
    }
  }

  /// Of scans of scans: an element for each thread.
  void write_single_tiles() {
    w.open("for (I t = begin; t < end; t += " + str(threads_) + ")");
    w.line("const bool is_in = t + lane < end;");
    w.line("const I e = is_in ? t + lane : end - 1;");  // threads beyond the end come after all others
    const IndexNames index = point(row_, "e");
    write_values(index, [&](InstId id) { write_row_scan(id); });
    w.open("if (is_in)");
    write_stores(index);
    w.close();
    w.close();
  }

  /// In a warp by doubling distances, warps in order, tiles in order.
  void write_row_scan(InstId id) {
    const std::string n = str(id), t = type(id), tree = "tree" + n, totals = "totals" + n, before = "before" + n;
    const std::string from = "other" + n, warps = str(threads_ / 32);
    w.line(t + " " + tree + " = " + w.name[bound.inst(id).args[0]] + ";");
    w.unroll("for (int d = 1; d < 32; d *= 2)");
    w.line("const " + t + " " + from + " = __shfl_up_sync(0xffffffffu, " + tree + ", d);");
    w.line("if (lane % 32 >= d) " + tree + " = " + merged(id, from, tree) + ";");
    w.close();
    w.line("if (lane % 32 == 31) " + totals + "[lane / 32] = " + tree + ";");
    w.line("__syncthreads();");
    w.line(t + " " + before + " = carry" + n + ";");
    w.open("for (int k = 0; k < " + warps + "; ++k)");
    w.line("if (k < lane / 32) " + before + " = " + merged(id, before, totals + "[k]") + ";");
    w.line("carry" + n + " = " + merged(id, "carry" + n, totals + "[k]") + ";");
    w.close();
    if (bound.inst(id).is_exclusive()) {
      w.line("const " + t + " shifted" + n + " = __shfl_up_sync(0xffffffffu, " + tree + ", 1);");
      w.line("const " + w.declaration(id) + " = lane % 32 == 0 ? " + before + " : " +
             merged(id, before, "shifted" + n) + ";");
    } else {
      w.line("const " + w.declaration(id) + " = " + merged(id, before, tree) + ";");
    }
    w.line("__syncthreads();");
  }

  Writer& w;
  const BoundKernel& bound;
  std::int64_t length_ = 0, items_ = 1, pieces_ = 1, chunk_ = 0;
  int threads_ = 32, elements_ = 1;  // of a block; of a thread in a tile
  IndexNames row_;                   // indices of the row that a block scans
};

SINTER_DECL void write_scan(Writer& writer) { ScanWriter(writer).run(); }

}  // namespace cuda_source_detail
SINTER_NAMESPACE_END
