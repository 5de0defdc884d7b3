// The kernels.
#pragma once

#include <sinter/backend/cuda/source/scan.hpp>

#include <sinter/base/index.hpp>

#include <algorithm>

SINTER_NAMESPACE_BEGIN
namespace cuda_source_detail {

class ScanWriter {
 public:
  explicit ScanWriter(Writer& writer) : w(writer), nest(writer.nest) {}

  void run() {
    length_ = nest.points(nest.reduced);
    items_ = std::max<std::int64_t>(1, nest.points(nest.parallel));
    const bool is_row = nest.kernel.kind == KernelKind::row && length_ >= 32;
    if (is_row || (items_ <= few_columns && length_ >= long_column)) write_rows();
    else write_columns();
  }

 private:
  /// Few long columns are scanned as rows are, by a block of threads each.
  static constexpr std::int64_t few_columns = 64, long_column = 1024;

  static std::string str(std::int64_t number) { return std::to_string(number); }
  std::string type(InstId id) const { return value_type(nest.inst(id).dtype); }
  std::string merged(InstId scan, const std::string& a, const std::string& b) const {
    return combined(reduction_of(nest.inst(scan).prim), nest.inst(scan).dtype, a, b);
  }
  std::vector<InstId> scans() const {
    std::vector<InstId> list;
    for (InstId id : nest.inner_of(0))
      if (is_scan(nest.inst(id).prim)) list.push_back(id);
    return list;
  }

  /// What is computed once per row or column.
  void write_outer(const IndexNames& place) {
    for (std::size_t i = 0; i < nest.kernel.body.size(); ++i) {
      const auto id = static_cast<InstId>(i);
      if (!nest.is_live(i) || nest.is_inner(i) || nest.inst(id).prim == Prim::immediate) continue;
      w.line("const " + w.declaration(id) + " = " + w.value_of(id, place, "") + ";");
      w.name[i] = "v" + str(id);
    }
  }
  void write_outer_stores(const IndexNames& place) {
    for (const Store& store : nest.outer_stores) w.store_one(store, w.name[store.value], place, "");
  }
  IndexNames point(const IndexNames& place, const std::string& at) {
    IndexNames index = place;
    const IndexNames inner = w.decode(at, nest.reduced);
    for (int a : nest.reduced) index[as_index(a)] = inner[as_index(a)];
    return index;
  }
  template <class Scan>
  void write_values(const IndexNames& index, Scan&& scan) {
    for (InstId id : nest.inner_of(0)) {
      if (is_scan(nest.inst(id).prim)) scan(id);
      else w.line("const " + w.declaration(id) + " = " + w.value_of(id, index, "") + ";");
      w.name[id] = "v" + str(id);
    }
  }
  void write_stores(const IndexNames& index) {
    for (const Store& store : nest.inner_stores) w.store_one(store, w.name[store.value], index, "");
  }
  void declare_carries() {
    for (InstId id : scans())
      w.line(type(id) + " carry" + str(id) + " = " + neutral(reduction_of(nest.inst(id).prim), nest.inst(id).dtype) +
             ";");
  }

  // ---- columns

  /// Sums of floats have what rounding lost beside them (Knuth's two-sum): they are as long as the column.
  bool is_compensated(InstId id) const {
    return nest.inst(id).prim == Prim::scan_add && is_floating(nest.inst(id).dtype);
  }

  void write_columns() {
    constexpr int threads = 128;
    const std::string entry = w.entry("scan_columns", threads);
    w.line("const I item = (I)blockIdx.x * " + str(threads) + " + (I)threadIdx.x;");
    w.open("if (item < " + w.number("items", items_) + ")");
    const IndexNames place = w.decode("item", nest.parallel);
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
    const std::string n = str(id), carry = "carry" + n, lost = "lost" + n, x = w.name[nest.inst(id).args[0]];
    const std::string value =
        is_compensated(id) ? lost + " == " + lost + " ? " + carry + " + " + lost + " : " + carry : carry;
    if (nest.inst(id).is_exclusive()) w.line("const " + w.declaration(id) + " = " + value + ";");
    w.line("const " + type(id) + " older" + n + " = " + carry + ";");
    w.line(carry + " = " + merged(id, carry, x) + ";");
    if (is_compensated(id)) {
      const std::string added = "added" + n, older = "older" + n;
      w.line("const " + type(id) + " " + added + " = " + carry + " - " + older + ";");
      w.line(lost + " += (" + older + " - (" + carry + " - " + added + ")) + (" + x + " - " + added + ");");
    }
    if (!nest.inst(id).is_exclusive()) w.line("const " + w.declaration(id) + " = " + value + ";");
  }

  // ---- rows

  /// Rows too few to occupy the device are cut: a first kernel leaves the total of each piece in the workspace, and in
  /// the second one each block begins with those of the pieces before its own, in order.
  std::int64_t pieces() const {
    constexpr std::int64_t least_piece = 4096, blocks_per_processor = 4;
    const std::vector<InstId> list = scans();
    const bool is_chained = std::any_of(list.begin(), list.end(), [&](InstId id) {
      const std::vector<bool> under = instructions_under(nest.kernel.body, nest.inst(id).args[0]);
      for (std::size_t i = 0; i < under.size(); ++i)
        if (under[i] && is_scan(nest.kernel.body[i].prim)) return true;
      return false;
    });
    if (is_chained || !nest.outer_stores.empty() || items_ >= w.device.multiprocessors) return 1;
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

  void write_rows() {
    pieces_ = pieces();
    threads_ = static_cast<int>(std::clamp<std::int64_t>(power_of_2_at_least(length_), 32, 1024));
    if (items_ * pieces_ >= w.device.multiprocessors) threads_ = std::min(threads_, 256);
    chunk_ = quotient_up(quotient_up(length_, pieces_), threads_) * threads_;
    pieces_ = quotient_up(length_, chunk_);
    if (pieces_ > 1) {
      const std::string entry = begin_rows("scan_totals");
      write_tiles([](const IndexNames&) {});
      w.open("if (lane == 0)");
      for (InstId id : scans()) w.line(total_of(id, "(I)blockIdx.x") + " = carry" + str(id) + ";");
      w.close();
      w.close();
      w.add_step(entry, pieces_, items_, threads_);
      w.add_workspace(static_cast<std::int64_t>(scans().size()) * items_ * pieces_ * 8);
    }
    const std::string entry = begin_rows("scan_rows");
    if (pieces_ > 1) {
      w.open("for (I p = 0; p < (I)blockIdx.x; ++p)");
      for (InstId id : scans())
        w.line("carry" + str(id) + " = " + merged(id, "carry" + str(id), total_of(id, "p")) + ";");
      w.close();
    }
    write_tiles([&](const IndexNames& index) {
      w.open("if (is_in)");
      write_stores(index);
      w.close();
    });
    if (!nest.outer_stores.empty()) {
      w.line("__syncthreads();");
      w.open("if (lane == 0)");
      write_outer_stores(row_);
      w.close();
    }
    w.close();
    if (pieces_ > 1) w.add_step(entry, pieces_, items_, threads_);
    else w.add_step(entry, items_, 1, threads_);
  }

  /// Up to the loop over tiles: from `begin` to `end`.
  std::string begin_rows(const std::string& suffix) {
    const std::string entry = w.entry(suffix, threads_), length = w.number("length", length_);
    w.line("const int lane = (int)threadIdx.x;");
    w.line(std::string("const I item = (I)blockIdx.") + (pieces_ > 1 ? "y;" : "x;"));
    if (pieces_ > 1) {
      const std::string chunk = w.number("chunk", chunk_);
      w.line("const I begin = (I)blockIdx.x * " + chunk + ", end = begin + " + chunk + " < " + length + " ? begin + " +
             chunk + " : " + length + ";");
    } else {
      w.line("const I begin = 0, end = " + length + ";");
    }
    row_ = w.decode("item", nest.parallel);
    write_outer(row_);
    declare_carries();
    for (InstId id : scans()) w.line("__shared__ " + type(id) + " totals" + str(id) + "[" + str(threads_ / 32) + "];");
    return entry;
  }
  /// A tile has an element for each thread; `store` writes what becomes of it.
  template <class Store>
  void write_tiles(Store&& store) {
    w.open("for (I t = begin; t < end; t += " + str(threads_) + ")");
    w.line("const bool is_in = t + lane < end;");
    w.line("const I e = is_in ? t + lane : end - 1;");  // threads beyond the end come after all others
    const IndexNames index = point(row_, "e");
    write_values(index, [&](InstId id) { write_row_scan(id); });
    store(index);
    w.close();
  }

  /// In a warp by doubling distances, warps in order, tiles in order.
  void write_row_scan(InstId id) {
    const std::string n = str(id), t = type(id), tree = "tree" + n, totals = "totals" + n, before = "before" + n;
    const std::string from = "other" + n, warps = str(threads_ / 32);
    w.line(t + " " + tree + " = " + w.name[nest.inst(id).args[0]] + ";");
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
    if (nest.inst(id).is_exclusive()) {
      w.line("const " + t + " shifted" + n + " = __shfl_up_sync(0xffffffffu, " + tree + ", 1);");
      w.line("const " + w.declaration(id) + " = lane % 32 == 0 ? " + before + " : " +
             merged(id, before, "shifted" + n) + ";");
    } else {
      w.line("const " + w.declaration(id) + " = " + merged(id, before, tree) + ";");
    }
    w.line("__syncthreads();");
  }

  Writer& w;
  const Nest& nest;
  std::int64_t length_ = 0, items_ = 1, pieces_ = 1, chunk_ = 0;
  int threads_ = 32;
  IndexNames row_;  // indices of the row that a block scans
};

SINTER_DECL void write_scan(Writer& writer) { ScanWriter(writer).run(); }

}  // namespace cuda_source_detail
SINTER_NAMESPACE_END
