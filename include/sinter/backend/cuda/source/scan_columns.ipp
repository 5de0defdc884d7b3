// The kernels.
#pragma once

#include <sinter/backend/cuda/source/scan_columns.hpp>

#include <sinter/backend/cuda/source/gpu_shape.hpp>
#include <sinter/base/index.hpp>

#include <algorithm>

SINTER_NAMESPACE_BEGIN
namespace cuda_source_detail {

class ColumnPieces {
 public:
  explicit ColumnPieces(Writer& writer) : w(writer), bound(writer.bound) {
    scans_ = scans_of(bound);
    length_ = bound.points(bound.reduced);
    items_ = std::max<std::int64_t>(1, bound.points(bound.parallel));
    const bool is_small = scans_.size() == 1 && size_of(bound.inst(scans_[0]).dtype) <= 4;
    strip_ = is_small ? 32 : 8;
    const std::int64_t groups = quotient_up(items_, lanes), processors = w.device.multiprocessors,
                       tiles = quotient_up(length_, tile()), wanted = processors * 16 / groups;
    if (groups < processors * 2) pieces_ = std::clamp<std::int64_t>(std::min(wanted, tiles), 1, most_pieces);
    if (length_ == 0) return;
    chunk_ = quotient_up(tiles, pieces_) * tile();
    pieces_ = quotient_up(length_, chunk_);
  }

  bool is_worth_it() const {
    constexpr std::int64_t least_length = 256, threads_of_processor = 2048;
    return bound.facts.outer_stores.empty() && length_ >= least_length && items_ >= lanes / 2 &&
           items_ <= threads_of_processor * w.device.multiprocessors && scans_.size() <= 2 && !is_chained();
  }
  void run() {
    w.set_vector(-1, 1);
    if (pieces_ > 1) write_totals();
    write_values();
  }

 private:
  static constexpr int lanes = 32, warps = 8;
  static constexpr std::int64_t most_pieces = 256;

  static std::string str(std::int64_t number) { return std::to_string(number); }
  std::int64_t tile() const { return std::int64_t{warps} * strip_; }
  std::string type(InstId id) const { return value_type(bound.inst(id).dtype); }
  std::string merged(InstId scan, const std::string& a, const std::string& b) const {
    return combined(reduction_of(bound.inst(scan).prim), bound.inst(scan).dtype, a, b);
  }
  std::string start(InstId id) const { return neutral(reduction_of(bound.inst(id).prim), bound.inst(id).dtype); }
  bool is_compensated(InstId id) const {
    return bound.inst(id).prim == Prim::scan_add && is_floating(bound.inst(id).dtype);
  }
  bool is_chained() const {
    return std::any_of(scans_.begin(), scans_.end(), [&](InstId id) { return depends_on_scan(bound, id); });
  }
  SmallVector<bool, 256> scanned() const {
    InstList made;
    for (const InstId id : scans_) made.push_back(bound.inst(id).args[0]);
    return bound.under({made.data(), made.size()});
  }
  SmallVector<bool, 256> stored() const {
    InstList made;
    for (const std::uint16_t s : bound.facts.inner_stores) {
      made.push_back(bound.kernel.stores[s].value);
      if (bound.kernel.stores[s].index != no_inst) made.push_back(bound.kernel.stores[s].index);
    }
    return bound.under({made.data(), made.size()});
  }

  // ---- numbers of a scan: what there is so far, and what rounding lost of it

  void declare(InstId id, const std::string& name) {
    w.line(type(id) + " " + name + str(id) + " = " + start(id) + ";");
    if (is_compensated(id)) w.line(type(id) + " " + name + "_lost" + str(id) + " = 0;");
  }
  /// `name` takes in `x`, and what it lost where that is no single element.
  void take_in(InstId id, const std::string& name, const std::string& x, const std::string& lost = "") {
    const std::string n = name + str(id), own_lost = name + "_lost" + str(id);
    if (!is_compensated(id)) {
      w.line(n + " = " + merged(id, n, x) + ";");
      return;
    }
    w.open("");  // Knuth's two-sum
    w.line("const " + type(id) + " older = " + n + ", newer = " + x + ";");
    w.line(n + " = " + merged(id, "older", "newer") + ";");
    w.line("const " + type(id) + " added = " + n + " - older;");
    w.line(own_lost + " += " + (lost.empty() ? "" : lost + " + (") + "(older - (" + n + " - added)) + (newer - added)" +
           (lost.empty() ? "" : ")") + ";");
    w.close();
  }
  std::string value(InstId id, const std::string& name) const {
    const std::string n = name + str(id), lost = name + "_lost" + str(id);
    return is_compensated(id) ? lost + " == " + lost + " ? " + n + " + " + lost + " : " + n : n;
  }

  // ---- what both kernels have

  std::string begin(const char* suffix) {
    const std::string entry = w.entry(suffix, lanes * warps), length = w.number("length", length_);
    w.line("const int lane = (int)(threadIdx.x % 32), warp = (int)(threadIdx.x / 32);");
    w.line("const I wanted = (I)blockIdx.x * 32 + lane, items = " + w.number("items", items_) + ";");
    w.line("const bool is_live = wanted < items;");
    w.line("const I item = is_live ? wanted : items - 1;");
    if (pieces_ > 1) {
      const std::string chunk = w.number("chunk", chunk_);
      w.line("const I piece = (I)blockIdx.y, begin = piece * " + chunk + ";");
      w.line("const I end = begin + " + chunk + " < " + length + " ? begin + " + chunk + " : " + length + ";");
    } else {
      w.line("const I begin = 0, end = " + length + ";");
    }
    column_ = w.decode("item", bound.parallel);
    for (std::size_t i = 0; i < bound.kernel.body.size(); ++i) {
      const auto id = static_cast<InstId>(i);
      if (!bound.is_live(i) || bound.is_inner(i) || bound.inst(id).prim == Prim::immediate) continue;
      w.line("const " + w.declaration(id) + " = " + w.value_of(id, column_, "") + ";");
      w.name[i] = "v" + str(id);
    }
    for (const InstId id : scans_) {
      w.line("__shared__ " + type(id) + " strips" + str(id) + "[8][32];");
      if (is_compensated(id)) w.line("__shared__ " + type(id) + " strips_lost" + str(id) + "[8][32];");
    }
    return entry;
  }
  /// Opens the loop over a thread's strip of the tile from `t`. What is beyond the end comes after all others.
  IndexNames open_strip() {
    w.unroll("for (int j = 0; j < " + str(strip_) + "; ++j)");
    w.line("const I at = t + warp * " + str(strip_) + " + j, e = at < end ? at : end - 1;");
    IndexNames index = column_;
    const IndexNames inner = w.decode("e", bound.reduced);
    for (const int a : bound.reduced) index[as_index(a)] = inner[as_index(a)];
    return index;
  }
  template <class Scan>
  void write_needed(const IndexNames& index, const SmallVector<bool, 256>& needed, Scan&& scan) {
    for (const InstId id : inner_of(bound.kernel, bound.facts, 0)) {
      if (is_scan(bound.inst(id).prim)) {
        scan(id);
      } else if (needed[id]) {
        w.line("const " + w.declaration(id) + " = " + w.value_of(id, index, "") + ";");
        w.name[id] = "v" + str(id);
      }
    }
  }
  void share_strips() {
    for (const InstId id : scans_) {
      w.line("strips" + str(id) + "[warp][lane] = part" + str(id) + ";");
      if (is_compensated(id)) w.line("strips_lost" + str(id) + "[warp][lane] = part_lost" + str(id) + ";");
    }
    w.line("__syncthreads();");
  }
  void take_in_strip(InstId id, const std::string& name) {
    take_in(id, name, "strips" + str(id) + "[k][lane]", "strips_lost" + str(id) + "[k][lane]");
  }

  // ---- the total of each piece but the last

  /// In the workspace, a column after the other: each number has 8 bytes for each piece.
  std::string total_of(InstId id, const std::string& piece, bool is_lost) {
    const auto number = std::find(scans_.begin(), scans_.end(), id) - scans_.begin();
    const std::int64_t place = (2 * number + is_lost) * items_ * pieces_ * 8;
    return "((" + type(id) + "*)(a.workspace + " + w.number("totals" + str(2 * number + is_lost), place) + "))[" +
           piece + " * items + item]";
  }
  void write_totals() {
    const std::string entry = begin("scan_totals");
    for (const InstId id : scans_) declare(id, "part");
    w.open("for (I t = begin; t < end; t += " + str(tile()) + ")");
    const IndexNames index = open_strip();
    write_needed(index, scanned(), [&](InstId id) { take_in(id, "part", w.name[bound.inst(id).args[0]]); });
    w.close();
    w.close();
    share_strips();
    w.open("if (warp == 0 && is_live)");
    for (const InstId id : scans_) {
      declare(id, "total");
      w.open("for (int k = 0; k < 8; ++k)");
      take_in_strip(id, "total");
      w.close();
      w.line(total_of(id, "piece", false) + " = total" + str(id) + ";");
      if (is_compensated(id)) w.line(total_of(id, "piece", true) + " = total_lost" + str(id) + ";");
    }
    w.close();
    w.close();
    w.add_step(entry, quotient_up(items_, lanes), pieces_ - 1, lanes * warps);
    w.add_workspace(static_cast<std::int64_t>(scans_.size()) * 2 * items_ * pieces_ * 8);
  }

  // ---- the values

  void write_values() {
    const std::string entry = begin("scan_columns");
    for (const InstId id : scans_) declare(id, "carry");
    if (pieces_ > 1) {
      w.line("#pragma unroll 4");
      w.open("for (I p = 0; p < piece; ++p)");
      for (const InstId id : scans_) take_in(id, "carry", total_of(id, "p", false), total_of(id, "p", true));
      w.close();
    }
    w.open("for (I t = begin; t < end; t += " + str(tile()) + ")");
    for (const InstId id : scans_) w.line(type(id) + " tree" + str(id) + "[" + str(strip_) + "];");
    write_needed(open_strip(), scanned(),
                 [&](InstId id) { w.line("tree" + str(id) + "[j] = " + w.name[bound.inst(id).args[0]] + ";"); });
    w.close();
    write_strips();
    const IndexNames index = open_strip();
    write_needed(index, stored(), [&](InstId id) { w.name[id] = "tree" + str(id) + "[j]"; });
    w.open("if (is_live && at < end)");
    for (const std::uint16_t s : bound.facts.inner_stores)
      w.store_one(bound.kernel.stores[s], w.name[bound.kernel.stores[s].value], index, "");
    w.close();
    w.close();
    w.close();
    w.close();
    w.add_step(entry, quotient_up(items_, lanes), pieces_, lanes * warps);
  }
  /// The total of each strip, then what comes before it, then its values.
  void write_strips() {
    const std::string each = "for (int j = 0; j < " + str(strip_) + "; ++j)";
    for (const InstId id : scans_) {
      declare(id, "part");
      w.unroll(each);
      take_in(id, "part", "tree" + str(id) + "[j]");
      w.close();
    }
    share_strips();
    for (const InstId id : scans_) {
      const std::string n = str(id), tree = "tree" + n + "[j]";
      declare(id, "sum");
      w.open("for (int k = 0; k < 8; ++k)");
      w.open("if (k == warp)");
      w.line("sum" + n + " = carry" + n + ";");
      if (is_compensated(id)) w.line("sum_lost" + n + " = carry_lost" + n + ";");
      w.close();
      take_in_strip(id, "carry");
      w.close();
      w.unroll(each);
      if (bound.inst(id).is_exclusive()) w.line("const " + type(id) + " before = " + value(id, "sum") + ";");
      take_in(id, "sum", tree);
      w.line(tree + " = " + (bound.inst(id).is_exclusive() ? "before" : value(id, "sum")) + ";");
      w.close();
    }
    w.line("__syncthreads();");
  }

  Writer& w;
  const BoundKernel& bound;
  InstList scans_;
  std::int64_t length_ = 0, items_ = 1, pieces_ = 1, chunk_ = 0;
  int strip_ = 8;      // elements of a thread in a tile
  IndexNames column_;  // indices of the thread's column
};

SINTER_DECL bool write_column_pieces(Writer& writer) {
  ColumnPieces columns(writer);
  if (!columns.is_worth_it()) return false;
  columns.run();
  return true;
}

}  // namespace cuda_source_detail
SINTER_NAMESPACE_END
