// Products by `wgmma`: f16, bf16 and TF32 with sums in f32. A block's first two groups of four warps take tiles of 128
// rows in turns, each as in `product`, so that one computes what follows its product while the tensor cores work on the
// other's. The third group only fetches: one thread asks the bulk copy engine for the tiles of a ring of stages. Two
// blocks, a cluster, work on tiles below each other; each fetches half of the right operand's tile for both. Blocks
// stay and take tile after tile.
//
// Sums are added along the reduced axis in one order, whatever the tile: the size of tiles and clusters enters no bit.
// Outside a tensor the engine writes zeros, which is what a product may have there.
#pragma once

#include <sinter/backend/cuda/source/wgmma.hpp>

#include <sinter/base/index.hpp>

#include <algorithm>

SINTER_NAMESPACE_BEGIN
namespace cuda_source_detail {

inline constexpr int wgmma_threads = 384;

// ---- the choice
// -------------------------------------------------------------------------------------------------------

/// Nothing where the bulk copy engine cannot read it: it wants addresses and strides in multiples of 16 bytes.
SINTER_DECL std::optional<WgmmaWriter::Copy> WgmmaWriter::copy_of(const GemmOperand& operand) const {
  const Inst& inst = bound.inst(operand.value);
  const DType dtype = memory_dtype();
  if (inst.prim != Prim::load || bound.dtype_of(inst.access) != dtype) return {};
  const std::int64_t size = size_of(dtype);
  Copy copy;
  copy.access = inst.access;
  const std::int64_t own = bound.stride(inst.access, operand.axis), deep = bound.stride(inst.access, shape.depth_axis);
  copy.order = deep == 1 ? WgmmaOrder::along_depth : WgmmaOrder::across;
  const bool is_across = copy.order == WgmmaOrder::across;
  if (is_across && (own != 1 || dtype == DType::f32)) return {};
  copy.axes = {is_across ? operand.axis : shape.depth_axis, is_across ? shape.depth_axis : operand.axis};
  if ((is_across ? deep : own) < bound.extent(copy.axes[0])) return {};
  for (int axis : shape.batch)
    if (bound.varies(operand.value, axis)) copy.axes.push_back(axis);
  copy.map.dtype = dtype;
  copy.map.rank = static_cast<int>(copy.axes.size());
  if (copy.axes.size() > copy.map.extent.size()) return {};
  bool fits = bound.geometry.accesses[inst.access].offset * size % 16 == 0;
  for (std::size_t i = 0; i < copy.axes.size(); ++i) {
    const std::int64_t bytes = bound.stride(inst.access, copy.axes[i]) * size;
    copy.map.extent[i] = static_cast<std::uint64_t>(bound.extent(copy.axes[i]));
    copy.map.byte_stride[i] = static_cast<std::uint64_t>(bytes);
    copy.map.box[i] = 1;
    if (i > 0) fits = fits && bytes > 0 && bytes % 16 == 0;
  }
  if (!fits) return {};
  const auto tile = static_cast<std::uint32_t>(tile_of(operand)), depth = static_cast<std::uint32_t>(step()),
             shared = operand.axis == shape.column_axis ? static_cast<std::uint32_t>(cluster_) : 1;
  copy.map.box[0] = is_across ? 64 : depth;
  copy.map.box[1] = is_across ? depth / shared : tile / shared;
  return copy;
}

SINTER_DECL bool WgmmaWriter::is_open() const {
  const Inst& contract = bound.inst(shape.contract);
  if (!w.device.has_bulk_copies || !w.is_aligned() || w.is_wide() || contract.dtype != DType::f32) return false;
  if (!has_narrow_operands() && bound.kernel.precision != MatmulPrecision::tf32) return false;
  // Tiles have 128 rows: of few, the other kernels waste less, and need not be compiled for a comparison.
  constexpr std::int64_t least = 64;
  if (bound.extent(shape.row_axis) < least || bound.extent(shape.column_axis) < least ||
      bound.extent(shape.depth_axis) == 0)
    return false;
  return copy_of(shape.left) && copy_of(shape.right);
}

SINTER_DECL bool WgmmaWriter::fills_device() const {
  const std::int64_t tiles = quotient_up(bound.extent(shape.row_axis), 128) *
                             quotient_up(bound.extent(shape.column_axis), 64) * bound.points(shape.batch);
  return 2 * tiles >= w.device.multiprocessors;
}

/// Narrower tiles where there are fewer wide ones than processors. Two row tiles share the right operand's where they
/// come in pairs, or are so many that one more does not count.
SINTER_DECL void WgmmaWriter::choose_tile() {
  shape.rows = 128;
  shape.columns = 128;
  const std::int64_t blocks = row_tiles() * column_tiles() * bound.points(shape.batch);
  if (blocks < w.device.multiprocessors) shape.columns = 64;
  shape.depth = step();
  stages_ = shape.columns == 128 ? 6 : 8;
  cluster_ = row_tiles() % 2 == 0 || row_tiles() > 16 ? 2 : 1;
  shape.launch_threads = wgmma_threads;
  shape.call.order = CallOrder::own;
}

// ---- the kernel
// -------------------------------------------------------------------------------------------------------

SINTER_DECL void WgmmaWriter::write_texts(const Copy& left, const Copy& right) {
  const auto define = [&](const std::string& name, std::int64_t value) {
    w.line("#define " + name + " " + str(value));
  };
  const auto step_of = [](const Copy& copy) { return copy.order == WgmmaOrder::across ? 128 : 2; };
  define("TILE_ROWS", shape.rows);
  define("TILE_COLUMNS", shape.columns);
  define("STEP", shape.depth);
  define("STAGES", stages_);
  define("CLUSTER", cluster_);
  define("BAND", 2048 / shape.columns);
  define("LEFT_STEP", step_of(left));
  define("RIGHT_STEP", step_of(right));
  define("RIGHT_APART", right.order == WgmmaOrder::across ? 512 : 1);
  w.line(std::string(wgmma_machine_text));
  w.line(wgmma_fetch_text(left.map.rank, 1));
  if (cluster_ > 1 || right.map.rank != left.map.rank) w.line(wgmma_fetch_text(right.map.rank, cluster_));
  w.line(wgmma_multiply_text(shape.columns, memory_dtype(), left.order, right.order));
  w.line(std::string(wgmma_common_text));
}

/// Copies of an operand's tile of the step at `k` to `to`.
SINTER_DECL void WgmmaWriter::write_fetch(const std::string& name, const Copy& copy) {
  const bool is_right = name == "right", is_across = copy.order == WgmmaOrder::across;
  const std::string part = is_right && cluster_ > 1 ? " + rank * " : "", first = is_right ? "tile.column" : "tile.row";
  const auto shared = [&](const std::string& all) { return part.empty() ? "" : part + "(" + all + " / CLUSTER)"; };
  const std::string to = is_right ? "to + LEFT_BYTES" : "to";
  std::string batch;
  for (std::size_t i = 2; i < copy.axes.size(); ++i) batch += ", " + batch_index_[as_index(copy.axes[i])];
  const std::string call = std::string(is_right && cluster_ > 1 ? "fetch_for_cluster(" : "fetch(") + to,
                    source = ", " + w.tensor_map(copy.access, copy.map) + ", barrier, ";
  if (!is_across) {
    w.line(call + shared("RIGHT_BYTES") + source + "k, " + first + shared("TILE_COLUMNS") + batch + ");");
    return;
  }
  w.line("#pragma unroll");
  w.line("for (int i = 0; i < " + str(is_right ? shape.columns / 64 : shape.rows / 64) + "; ++i) " + call +
         " + i * (64 * 128)" + shared("STEP * 128") + source + first + " + i * 64, k" + shared("STEP") + batch + ");");
}

/// The group that fetches: its first thread.
SINTER_DECL void WgmmaWriter::write_copies(const Copy& left, const Copy& right) {
  w.line("give_registers();");
  w.open("if (threadIdx.x == 256)");
  w.line("int stage = 0, turn = 1;");
  w.line("#pragma unroll 1");
  w.open("for (int item = (int)blockIdx.x / CLUSTER; item < items; item += ahead)");
  w.line("const Tile tile = tile_of(item, row_tiles, column_tiles, rank);");
  batch_index_ = w.decode("tile.batch", shape.batch);
  w.line("#pragma unroll 1");
  w.open("for (int k = 0; k < depth; k += STEP)");
  w.line("const unsigned to = stages + stage * STAGE_BYTES, barrier = filled + stage * 8;");
  w.line("barrier_wait(read + stage * 8, turn);");
  w.line("barrier_expect(barrier, STAGE_BYTES);");
  write_fetch("left", left);
  write_fetch("right", right);
  w.line("if (++stage == STAGES) stage = 0, turn ^= 1;");
  w.close();
  w.close();
  w.close();
}

SINTER_DECL void WgmmaWriter::run() {
  choose_tile();
  lay_out();
  const Copy left = *copy_of(shape.left), right = *copy_of(shape.right);
  w.require_alignment();
  write_texts(left, right);
  const std::string entry = w.entry("product", wgmma_threads, 1, cluster_);
  const std::int64_t pairs = quotient_up(row_tiles(), cluster_),
                     items = pairs * column_tiles() * bound.points(shape.batch);
  w.line("const int depth = " + w.extent(shape.depth_axis) + ", row_tiles = " + w.number("rt", pairs) + ";");
  w.line("const int column_tiles = " + w.number("ct", column_tiles()) + ", items = " + w.number("items", items) + ";");
  w.line(std::string(wgmma_begin_text));
  w.open("if (group == 2)");
  write_copies(left, right);
  w.close();
  w.open("else");
  w.line(std::string(wgmma_group_text));
  write_epilogue();
  w.line("}");  // of the loop over tiles, which the text begins
  w.close();
  w.line("if (CLUSTER > 1) cluster_meets();");  // shared memory stays until no other block writes it
  w.close();
  const std::int64_t blocks = std::min<std::int64_t>(items, w.device.multiprocessors / cluster_) * cluster_;
  const int stage_bytes = (shape.rows + shape.columns) * 128;
  w.add_step(entry, blocks, 1, wgmma_threads, static_cast<unsigned>(stages_ * (stage_bytes + 16) + 1024));
}

// ---- what follows the product
// -----------------------------------------------------------------------------------------

/// Columns that a thread loads and stores at once, of the eight neighbours that it has.
SINTER_DECL int WgmmaWriter::width() const {
  for (int width : {8, 4, 2})
    if (bound.extent(shape.column_axis) % width == 0) return width;
  return 1;
}

/// Loads of the epilogue that vary over results; their addresses depend on nothing else that is loaded.
SINTER_DECL std::vector<InstId> WgmmaWriter::loads_after_contract() const {
  std::vector<InstId> loads;
  for (const InstId id : epilogue())
    if (bound.inst(id).prim == Prim::load && (bound.varies(id, shape.row_axis) || bound.varies(id, shape.column_axis)))
      loads.push_back(id);
  return loads;
}

/// Rows whose operands are in registers at once, of four: with more, registers would not do.
SINTER_DECL int WgmmaWriter::rows_at_once(std::size_t matrices) { return matrices <= 2 ? 4 : matrices <= 4 ? 2 : 1; }

/// 32 columns at a time: all that has to be loaded is asked for before anything is computed, since a warp has little
/// else to do while it waits. Outside the product the last row or columns are read again, without a branch. Names: b is
/// one of the thread's four rows, q one of its pieces of eight columns.
SINTER_DECL void WgmmaWriter::write_epilogue() {
  const std::string count = str(8 / width()), pieces = "[" + count + "][" + str(width()) + "]";
  const std::vector<InstId> loads = loads_after_contract();
  const auto of = [&](bool by_row, bool by_column) {
    std::vector<InstId> some;
    for (InstId id : loads)
      if (bound.varies(id, shape.row_axis) == by_row && bound.varies(id, shape.column_axis) == by_column)
        some.push_back(id);
    return some;
  };
  const std::vector<InstId> of_rows = of(true, false), of_columns = of(false, true), of_both = of(true, true);
  const std::string at_once = str(rows_at_once(of_both.size()));
  w.set_vector(shape.column_axis, width());
  IndexNames index = w.decode("tile.batch", shape.batch);
  index[as_index(shape.row_axis)] = "x" + str(shape.row_axis);
  index[as_index(shape.column_axis)] = "x" + str(shape.column_axis);
  const auto name_all = [&](const std::vector<InstId>& some, const std::string& extents, const std::string& element) {
    for (InstId id : some) {
      w.line(w.declaration(id) + extents + ";");
      w.name[id] = "v" + str(id) + element;
    }
  };
  name_all(of_rows, "[4]", "[f + b]");
  if (!of_rows.empty()) {
    w.unroll("for (int b = 0; b < 4; ++b)");
    write_row("b");
    for (InstId id : of_rows) w.line("v" + str(id) + "[b] = " + w.value_of(id, index, "") + ";");
    w.close();
  }
  w.line("#pragma unroll 1");
  w.open("for (int c = 0; c < BLOCKS; c += 4)");
  name_all(of_columns, pieces, "[q][j]");
  if (!of_columns.empty()) {
    w.unroll("for (int q = 0; q < " + count + "; ++q)");
    write_columns();
    for (InstId id : of_columns) w.load_vector(id, "v" + str(id) + "[q]", "", index);
    w.close();
  }
  w.line("float taken[4][8];");
  w.unroll("for (int f = 0; f < 4; f += " + at_once + ")");
  name_all(of_both, "[" + at_once + "]" + pieces, "[b][q][j]");
  const auto write_pieces = [&](const std::function<void()>& body) {
    w.unroll("for (int b = 0; b < " + at_once + "; ++b)");
    w.unroll("for (int q = 0; q < " + count + "; ++q)");
    write_row("(f + b)");
    write_columns();
    body();
    w.close();
    w.close();
  };
  if (!of_both.empty())
    write_pieces([&] {
      for (InstId id : of_both) w.load_vector(id, "v" + str(id) + "[b][q]", "", index);
    });
  w.line("if (f == 0) take_columns(taken, sum, lane);");
  w.name[shape.contract] = "taken[f + b][q * " + str(width()) + " + j]";
  write_pieces([&] { write_piece(index, loads); });
  w.close();
  w.close();
}

/// A row of the thread's four, and whether it is one of the product's.
SINTER_DECL void WgmmaWriter::write_row(const std::string& number) {
  const std::string rows = w.extent(shape.row_axis);
  w.line("const I row = first_row + " + number + " / 2 * 64 + " + number + " % 2 * 8;");
  w.line("const I x" + str(shape.row_axis) + " = row < " + rows + " ? row : " + rows + " - 1;");
}
SINTER_DECL void WgmmaWriter::write_columns() {
  const std::string columns = w.extent(shape.column_axis);
  w.line("const I column = first_column + c * 8 + q * " + str(width()) + ";");
  w.line("const I x" + str(shape.column_axis) + " = column < " + columns + " ? column : " + columns + " - " +
         str(width()) + ";");
}

/// Everything but the product and what is loaded, for neighbouring columns of one row, and the stores.
SINTER_DECL void WgmmaWriter::write_piece(const IndexNames& index, const std::vector<InstId>& loaded) {
  std::vector<InstId> constant, elementwise;
  bool has_gather = false;
  for (const InstId id : epilogue()) {
    const Prim prim = bound.inst(id).prim;
    if (std::find(loaded.begin(), loaded.end(), id) != loaded.end()) continue;
    w.name[id] = "v" + str(id);
    has_gather |= reads_memory(prim) && prim != Prim::load;
    (w.is_along(id) ? elementwise : constant).push_back(id);
  }
  // An index that is computed from a product outside may be wrong.
  const std::string inside = "row < " + w.extent(shape.row_axis) + " && column < " + w.extent(shape.column_axis);
  if (has_gather) w.open("if (" + inside + ")");
  const auto& stores = bound.kernel.stores;
  for (InstId id : constant) w.line("const " + w.declaration(id) + " = " + w.value_of(id, index, "") + ";");
  const auto source = [&](std::size_t s) { return "s" + str(static_cast<std::int64_t>(s)); };
  for (std::size_t s = 0; s < stores.size(); ++s)
    w.line(memory_type(bound.inst(stores[s].value).dtype) + " " + source(s) + "[" + str(width()) + "];");
  w.unroll("for (int j = 0; j < " + str(width()) + "; ++j)");
  for (InstId id : elementwise) w.line("const " + w.declaration(id) + " = " + w.value_of(id, index, "j") + ";");
  for (std::size_t s = 0; s < stores.size(); ++s) w.line(source(s) + "[j] = " + w.name[stores[s].value] + ";");
  w.close();
  if (!has_gather) w.open("if (" + inside + ")");
  for (std::size_t s = 0; s < stores.size(); ++s) {
    if (w.along(stores[s].access) == Along::constant) w.store_one(stores[s], source(s) + "[0]", index, "");
    else w.store_vector(stores[s], source(s), index);
  }
  w.close();
}

}  // namespace cuda_source_detail
SINTER_NAMESPACE_END
