// The kernels, stage by stage.
#pragma once

#include <sinter/backend/cuda/source/scan.hpp>

#include <sinter/base/index.hpp>

#include <algorithm>

SINTER_NAMESPACE_BEGIN
namespace cuda_source_detail {

class ScanWriter {
 public:
  ScanWriter(Writer& writer, const LoopNest& the_nest) : w(writer), bound(writer.bound), nest(the_nest) {
    length_ = bound.points(bound.reduced);
    items_ = bound.points(bound.parallel);
  }

  void run() {
    nest.for_each_child(0, [&](std::size_t stage) { write_stage(stage); });
    if (!nest.buffers.empty()) w.add_workspace(place_of_buffer(nest.buffers.size()));
  }

 private:
  static std::string str(std::int64_t number) { return std::to_string(number); }
  std::string type(InstId id) const { return value_type(bound.inst(id).dtype); }
  std::string merged(InstId scan, const std::string& a, const std::string& b) const {
    return combined(reduction_of(bound.inst(scan).prim), bound.inst(scan).dtype, a, b);
  }

  // ---- stages

  void read_stage(std::size_t stage) {
    threads_ = nest.nodes[stage].count;
    pieces_ = launched_ = 1;
    part_ = FoldPart::scan;
    scans_ = {};
    for (std::size_t place = stage; place < nest.nodes[stage].end; ++place) {
      const NestNode& node = nest.nodes[place];
      if (node.kind == NestNodeKind::fold) {
        part_ = node.part;
        scans_ = nest.ids_of(node);
      }
      if (node.kind != NestNodeKind::loop) continue;
      const Loop& loop = nest.loop_of(node);
      if (loop.mode == LoopMode::lanes) elements_ = loop.copies;
      else if (!is_over_blocks(loop)) lanes_ = loop.lanes;
      else pieces_ = quotient_up(length_, chunk_ = loop.step);
      if (loop.range == LoopRange::blocks) launched_ = pieces_;
      if (loop.range == LoopRange::blocks_but_last) launched_ = pieces_ - 1;
    }
  }
  void write_stage(std::size_t stage) {
    read_stage(stage);
    has_carries_ = is_first_lane_ = false;
    const std::string entry = lanes_ == 1 ? begin_columns() : begin_rows();
    write_children(stage);
    if (is_first_lane_) w.close();
    if (lanes_ == 1) w.close();
    w.close();
    if (lanes_ == 1) w.add_step(entry, quotient_up(items_, threads_), 1, threads_);
    else if (pieces_ > 1) w.add_step(entry, launched_, items_, threads_);
    else w.add_step(entry, items_, 1, threads_);
  }
  std::string begin_columns() {
    const std::string entry = w.entry("scan_columns", threads_);
    w.line("const I item = (I)blockIdx.x * " + str(threads_) + " + (I)threadIdx.x;");
    w.open("if (item < " + w.number("items", items_) + ")");
    row_ = w.decode("item", bound.parallel);
    return entry;
  }
  /// Up to what is computed once for a row: `begin` and `end` are those of the piece.
  std::string begin_rows() {
    const bool is_total = part_ == FoldPart::blocks;
    const std::string entry = w.entry(is_total ? "scan_totals" : "scan_rows", threads_),
                      length = w.number("length", length_);
    w.line("const int lane = (int)threadIdx.x;");
    w.line(std::string("const I item = (I)blockIdx.") + (pieces_ == 1 ? "x;" : "y;"));
    if (pieces_ == 1) {
      w.line("const I begin = 0, end = " + length + ";");
    } else {
      // What was read last is in the cache still: the second kernel begins there.
      const std::string chunk = w.number("chunk", chunk_);
      w.line(std::string("const I piece = (I)") + (is_total ? "blockIdx.x;" : "(gridDim.x - 1 - blockIdx.x);"));
      w.line("const I begin = piece * " + chunk + ", end = begin + " + chunk + " < " + length + " ? begin + " + chunk +
             " : " + length + ";");
    }
    row_ = w.decode("item", bound.parallel);
    return entry;
  }

  void write_children(std::size_t place) {
    nest.for_each_child(place, [&](std::size_t child) { write_node(child); });
  }
  void write_node(std::size_t place) {
    const NestNode& node = nest.nodes[place];
    const bool is_walk = node.kind == NestNodeKind::fold ||
                         (node.kind == NestNodeKind::loop && nest.loop_of(node).mode == LoopMode::lanes);
    if (is_walk) return write_walk(place);
    if (node.kind == NestNodeKind::loop) return write_children(place);
    if (node.kind == NestNodeKind::compute) write_values(nest.ids_of(node), row_);
    if (node.kind == NestNodeKind::keep) {
      open_first_lane();
      const InstId id = nest.buffer_of(node).value;
      w.line(total_of(id, "piece") + " = carry" + str(id) + ";");
    }
    if (node.kind == NestNodeKind::barrier) {
      w.line("__syncthreads();");
      open_first_lane();
    }
    if (node.kind == NestNodeKind::store) store(node, row_);
  }
  /// Up to the end of the stage.
  void open_first_lane() {
    if (!is_first_lane_) w.open("if (lane == 0)");
    is_first_lane_ = true;
  }

  IndexNames point(const std::string& at) { return w.decode_reduced(row_, at); }
  void write_value(InstId id, const IndexNames& index) {
    w.line("const " + w.declaration(id) + " = " + w.value_of(id, index, "") + ";");
    w.name[id] = "v" + str(id);
  }
  void write_values(std::span<const InstId> ids, const IndexNames& index) {
    for (const InstId id : ids) write_value(id, index);
  }
  void store(const NestNode& node, const IndexNames& index) {
    const Store& store = bound.kernel.stores[node.first];
    w.store_one(store, w.name[store.value], index, "");
  }
  void declare_carries() {
    if (has_carries_) return;
    has_carries_ = true;
    for (InstId id : scans_)
      w.line(type(id) + " carry" + str(id) + " = " + neutral(reduction_of(bound.inst(id).prim), bound.inst(id).dtype) +
             ";");
    for (InstId id : scans_) {
      if (lanes_ > 1) w.line("__shared__ " + type(id) + " totals" + str(id) + "[" + str(threads_ / 32 * 2) + "];");
      else if (is_compensated(id)) w.line(type(id) + " lost" + str(id) + " = 0;");
    }
  }

  // ---- walks

  void write_walk(std::size_t place) {
    declare_carries();
    const NestNode& fold = nest.nodes[place];
    if (fold.kind == NestNodeKind::fold) ++place;
    if (lanes_ == 1) return write_columns(place);
    if (fold.kind == NestNodeKind::fold && fold.part == FoldPart::blocks) return write_totals(place);
    if (fold.kind == NestNodeKind::fold && fold.part == FoldPart::before) return write_before();
    int steps = 0;
    nest.for_each_child(place, [&](std::size_t child) { steps += nest.nodes[child].kind == NestNodeKind::step; });
    if (steps <= 1) write_tiles(place);
    else write_single_tiles(place);
  }
  /// What stands in a loop, value by value; stores when all is there.
  template <class Scan, class Open>
  void write_points(std::size_t loop, const IndexNames& index, Scan&& scan, Open&& open_stores) {
    bool has_stores = false;
    nest.for_each_child(loop, [&](std::size_t child) {
      const NestNode& node = nest.nodes[child];
      if (node.kind == NestNodeKind::compute) write_values(nest.ids_of(node), index);
      if (node.kind == NestNodeKind::step)
        for (const InstId id : nest.ids_of(node)) {
          scan(id);
          w.name[id] = "v" + str(id);
        }
      if (node.kind != NestNodeKind::store) return;
      if (!has_stores) open_stores();
      has_stores = true;
      store(node, index);
    });
  }

  // ---- columns

  /// Sums of floats have what rounding lost beside them (Knuth's two-sum): they are as long as the column.
  bool is_compensated(InstId id) const {
    return bound.inst(id).prim == Prim::scan_add && is_floating(bound.inst(id).dtype);
  }
  void write_columns(std::size_t loop) {
    w.open("for (I e = 0; e < " + w.number("length", length_) + "; ++e)");
    write_points(loop, point("e"), [&](InstId id) { write_column_scan(id); }, [] {});
    w.close();
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

  /// Where the total of piece `piece` of this row is.
  std::string total_of(InstId id, const std::string& piece) {
    std::size_t buffer = 0;
    while (nest.buffers[buffer].value != id) ++buffer;
    return "((" + type(id) + "*)((char*)a.workspace + " + w.number("totals" + str(id), place_of_buffer(buffer)) +
           "))[item * " + w.number("pieces", pieces_) + " + " + piece + "]";
  }
  /// In the workspace, in bytes: each scan has 8 for each piece.
  std::int64_t place_of_buffer(std::size_t buffer) const {
    return static_cast<std::int64_t>(buffer) * items_ * pieces_ * 8;
  }

  void write_before() {
    for (InstId id : scans_) {
      w.open("for (I p = lane; p < piece; p += " + str(threads_) + ")");
      w.line("carry" + str(id) + " = " + merged(id, "carry" + str(id), total_of(id, "p")) + ";");
      w.close();
      write_block_total(id);
    }
  }
  /// Each thread combines elements that lie apart, and the block what its threads have.
  void write_totals(std::size_t loop) {
    const std::string elements = str(elements_);
    for (InstId id : scans_) w.line(type(id) + " part" + str(id) + "[" + elements + "];");
    w.unroll("for (int j = 0; j < " + elements + "; ++j)");
    for (InstId id : scans_) w.line("part" + str(id) + "[j] = carry" + str(id) + ";");
    w.close();
    w.open("for (I t = begin; t < end; t += " + str(threads_ * elements_) + ")");
    w.unroll("for (int j = 0; j < " + elements + "; ++j)");
    w.line("const I e = t + j * " + str(threads_) + " + lane;");
    write_scanned(loop, point("e"), [&](InstId id) {
      const std::string part = "part" + str(id) + "[j]";
      w.line(part + " = " + merged(id, part, w.name[bound.inst(id).args[0]]) + ";");
    });
    w.close();
    w.close();
    for (InstId id : scans_) {
      const std::string carry = "carry" + str(id);
      w.unroll("for (int j = 0; j < " + elements + "; ++j)");
      w.line(carry + " = " + merged(id, carry, "part" + str(id) + "[j]") + ";");
      w.close();
      write_block_total(id);
    }
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

  /// Declares what the first step of a loop takes in; `scan` is called for each scan, when that is there.
  template <class Scan>
  void write_scanned(std::size_t loop, const IndexNames& index, Scan&& scan) {
    std::vector<InstId> ids(scans_.begin(), scans_.end());
    bool has_step = false;
    nest.for_each_child(loop, [&](std::size_t child) {
      const NestNode& node = nest.nodes[child];
      has_step |= node.kind == NestNodeKind::step;
      if (node.kind != NestNodeKind::compute || has_step) return;
      const auto list = nest.ids_of(node);
      ids.insert(ids.end(), list.begin(), list.end());
    });
    std::sort(ids.begin(), ids.end());
    for (const InstId id : ids) {
      if (is_scan(bound.inst(id).prim)) scan(id);
      else write_value(id, index);
    }
  }

  /// A tile has some elements for each thread, those of a warp side by side: what is scanned is computed, the tile
  /// scanned, and then all that is stored computed from it.
  void write_tiles(std::size_t loop) {
    const std::string elements = str(elements_);
    w.line("int half = 0;");  // of the totals: warps that are ahead write the other one
    w.open("for (I t = begin; t < end; t += " + str(threads_ * elements_) + ")");
    for (InstId id : scans_) w.line(type(id) + " tree" + str(id) + "[" + elements + "];");
    write_scanned(loop, open_element(),
                  [&](InstId id) { w.line("tree" + str(id) + "[j] = " + w.name[bound.inst(id).args[0]] + ";"); });
    w.close();
    for (InstId id : scans_) write_tile_scan(id);
    w.line("half ^= " + str(threads_ / 32) + ";");
    write_scanned_tile(loop);
    w.close();
    w.close();
  }
  void write_scanned_tile(std::size_t loop) {
    const IndexNames index = open_element();
    for (InstId id : scans_) w.name[id] = "tree" + str(id) + "[j]";
    bool has_step = scans_.empty(), has_stores = false;
    nest.for_each_child(loop, [&](std::size_t child) {
      const NestNode& node = nest.nodes[child];
      has_step |= node.kind == NestNodeKind::step;
      if (node.kind == NestNodeKind::compute && has_step) write_values(nest.ids_of(node), index);
      if (node.kind != NestNodeKind::store) return;
      if (!has_stores) w.open("if (at < end)");
      has_stores = true;
      store(node, index);
    });
    if (has_stores) w.close();
  }
  /// Threads beyond the end come after all others.
  IndexNames open_element() {
    w.unroll("for (int j = 0; j < " + str(elements_) + "; ++j)");
    w.line("const I at = t + lane / 32 * " + str(32 * elements_) + " + j * 32 + lane % 32;");
    w.line("const I e = at < end ? at : end - 1;");
    return point("e");
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
  void write_single_tiles(std::size_t loop) {
    w.open("for (I t = begin; t < end; t += " + str(threads_) + ")");
    w.line("const bool is_in = t + lane < end;");
    w.line("const I e = is_in ? t + lane : end - 1;");  // threads beyond the end come after all others
    write_points(loop, point("e"), [&](InstId id) { write_row_scan(id); }, [&] { w.open("if (is_in)"); });
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
  const LoopNest& nest;
  std::int64_t length_ = 0, items_ = 1;
  // Of the stage: pieces of a row and how many are launched, their length; threads of a block and of a row; elements of
  // a thread in a tile.
  std::int64_t pieces_ = 1, launched_ = 1, chunk_ = 0;
  int threads_ = 32, lanes_ = 1, elements_ = 1;
  FoldPart part_ = FoldPart::scan;
  std::span<const InstId> scans_;
  IndexNames row_;  // indices of the row that a block scans
  bool has_carries_ = false, is_first_lane_ = false;
};

SINTER_DECL void write_scan(Writer& writer, const LoopNest& nest) { ScanWriter(writer, nest).run(); }

}  // namespace cuda_source_detail
SINTER_NAMESPACE_END
