// Products on tensor cores: f64 exactly, f32 in TF32 or, with every number split in two, in nearly full precision (3xTF32).
// Tiles of both factors stand in a ring in shared memory, filled some tiles ahead by asynchronous copies; what follows the
// product is ProductWriter's.
//
// A factor keeps the order that it has in memory, so that it is copied in whole vectors: "deep", rows of 128 bytes along the
// reduced axis, or "flat", rows along its own axis. Lane 4 g + t of a warp takes the fragments of several `mma` at once as
// vectors of 16 bytes (E elements): positions E g ... E g + E - 1 of each span of 8 E along the factor's own axis, and E t ...
// E t + E - 1 of each half (4 E) of the tile along the reduced axis. Which position goes to which slot of an instruction
// is free as long as both factors agree (along the reduced axis) or the result is read accordingly: below, a lane ends
// with E rows by 2 E columns that are neighbours.
//
// Swizzle: vector c of row x of a deep tile stands at c ^ 4 (x / E & 1), vector c of row k of a flat tile at
// c ^ 2 (k / E & 3). Eight lanes read at once: g of two neighbours, all four t. Deep, they want vectors 4 h + t of two rows
// whose x / E are neighbours; flat, vectors g of four rows whose k / E are neighbours: in both the eight go to eight different
// sixteenths of 128 bytes. Stores go along rows, all of 128 bytes.
#pragma once

#include <sinter/backend/cuda/source_tensor.hpp>

#include <algorithm>

SINTER_NAMESPACE_BEGIN
namespace cuda_source_detail {

// ---- the choice -------------------------------------------------------------------------------------------------------

/// From large to small. `cost`: a large tile reads less shared memory and less memory for each result.
SINTER_DECL std::vector<TensorTile> TensorWriter::tiles() const {
  if (!is_f32()) return {{128, 128, 64, 32, 4, 1}, {64, 64, 32, 32, 3, 1.25}};
  if (is_split()) return {{128, 128, 64, 32, 4, 1}, {64, 64, 32, 32, 3, 1.25}};
  return {{128, 256, 64, 64, 3, 1}, {128, 128, 64, 32, 4, 1.15}, {64, 64, 32, 32, 3, 1.5}};
}

/// The ring, or the results on their way to memory.
SINTER_DECL std::size_t TensorWriter::shared_bytes(const TensorTile& tile) const {
  const int ring = tile.stages * (tile.rows + tile.columns) * 128, results = tile.rows * (tile.columns * 16 / pack_width() + 16);
  return static_cast<std::size_t>(std::max(ring, results));
}

SINTER_DECL bool TensorWriter::is_open() const {
  const DType dtype = nest.inst(shape.contract).dtype;
  if (w.device.capability < 80 || (dtype != DType::f64 && (dtype != DType::f32 || nest.kernel.precision == MatmulPrecision::f32))) return false;
  return shared_bytes(tiles().back()) <= w.device.shared_bytes;
}

SINTER_DECL bool TensorWriter::is_preferred() const {
  return is_f32() || (nest.extent(shape.row_axis) >= 32 && nest.extent(shape.column_axis) >= 32);
}

/// The tile, and the pieces of the reduced axis, that let the busiest processor be ready first.
SINTER_DECL void TensorWriter::choose_tile() {
  const std::int64_t batches = nest.points(shape.batch), rows = nest.extent(shape.row_axis), columns = nest.extent(shape.column_axis);
  const std::int64_t processors = w.device.multiprocessors, depth = nest.extent(shape.depth_axis);
  shape.depth = span();
  const std::int64_t steps = std::max<std::int64_t>(1, quotient_up(depth, shape.depth));
  double least = 0;
  for (const TensorTile& tile : tiles()) {
    if (shared_bytes(tile) > w.device.shared_bytes) continue;
    const std::int64_t blocks = batches * quotient_up(rows, tile.rows) * quotient_up(columns, tile.columns);
    const std::int64_t pieces = std::max<std::int64_t>(1, std::min(steps / 4, processors / blocks)), chunk = quotient_up(steps, pieces);
    const std::int64_t in_turn = quotient_up(blocks * quotient_up(steps, chunk), processors);
    // A block takes some steps to start and to end; pieces pass through memory.
    const double cost = static_cast<double>(in_turn * tile.rows * tile.columns * (chunk + (pieces > 1 ? 8 : 4))) * tile.cost;
    if (tile_.rows != 0 && cost >= least) continue;
    least = cost, tile_ = tile;
    shape.chunk = chunk * shape.depth, shape.splits = std::max<std::int64_t>(1, quotient_up(depth, shape.chunk));
  }
  shape.rows = tile_.rows, shape.columns = tile_.columns;
  shape.thread_rows = tile_.warp_rows / 8, shape.thread_columns = tile_.warp_columns / 4;
}

// ---- the kernel -------------------------------------------------------------------------------------------------------

SINTER_DECL void TensorWriter::write_lanes() {
  const std::string across = str(tile_.columns / tile_.warp_columns);
  w.line("const int lane_row = (int)(threadIdx.x % 32 / 4), lane_depth = (int)(threadIdx.x % 4), warp = (int)(threadIdx.x / 32);");
  w.line("const int warp_row = warp / " + across + " * " + str(tile_.warp_rows) + ", warp_column = warp % " + across + " * " + str(tile_.warp_columns) + ";");
}

SINTER_DECL FactorWriter TensorWriter::factor(const std::string& name) const {
  const FactorTile tile{name, extent_of(name), shape.depth, shape.threads(), name == "left" ? "first_row" : "first_column", is_copied(name)};
  return FactorWriter(w, factor_of(name), tile, batch_index_);
}

/// An element's place in the stage `filled`; k and x are positions in the tile.
SINTER_DECL std::string TensorWriter::place(const std::string& name, const std::string& k, const std::string& x) const {
  const std::string e = str(pack_width()), start = name == "left" ? "filled + " : "filled + " + str(shape.rows * shape.depth) + " + ", a = "(" + k + ")", b = "(" + x + ")";
  if (factor_of(name).along_depth) return start + b + " * " + str(shape.depth) + " + (" + a + " / " + e + " ^ " + b + " / " + e + " % 2 * 4) * " + e + " + " + a + " % " + e;
  return start + a + " * " + str(extent_of(name)) + " + (" + b + " / " + e + " ^ " + a + " / " + e + " % 4 * 2) * " + e + " + " + b + " % " + e;
}

/// Where a lane's fragments begin in a stage.
SINTER_DECL void TensorWriter::declare_fragments(const std::string& name) {
  const bool is_left = name == "left";
  const std::string base = is_left ? "warp_row" : "warp_column", e = str(pack_width()), start = is_left ? "" : str(shape.rows * shape.depth) + " + ";
  if (factor_of(name).along_depth) w.line("const int " + name + "_lane = " + start + "(" + base + " + lane_row * " + e + ") * " + str(shape.depth) + " + lane_depth * " + e + ";");
  else w.line("const int " + name + "_lane = " + start + "lane_depth * " + str(pack_width() * extent_of(name)) + " + " + base + " + (lane_row ^ lane_depth * 2) * " + e + ";");
}

/// A thread's share of the tile at `t` sets out to the stage `filled`.
SINTER_DECL void TensorWriter::fetch(FactorWriter& factor, const std::string& name) {
  if (is_copied(name)) factor.copy([&](const std::string& k, const std::string& x) { return place(name, k, x); });
  else factor.fetch();
}

/// What passes through registers arrives there.
SINTER_DECL void TensorWriter::keep(FactorWriter& factor, const std::string& name) {
  if (is_copied(name)) return;
  const int width = factor_of(name).width;
  factor.keep([&](const std::string& k, const std::string& x, const std::string& values) {
    w.line(pack(width) + " kept;");
    w.line("#pragma unroll");
    w.line(loop("j", width) + " kept.v[j] = " + (is_f32() && !is_split() ? "to_tf32(" + values + "[j])" : values + "[j]") + ";");
    w.line("*(" + pack(width) + "*)(" + place(name, k, x) + ") = kept;");
  });
}

/// A lane's fragments of half `h` of a tile in the stage `now`: name[span][position on its own axis][position on the reduced one].
SINTER_DECL void TensorWriter::read(const std::string& name, const std::string& s) {
  const int e = pack_width();
  const std::string vector = pack(e), count = str(e), from = "now + " + name + "_lane + ";
  if (factor_of(name).along_depth) {
    w.line("#pragma unroll");
    w.line(loop("r", e) + " *(" + vector + "*)" + name + "[" + s + "][r] = *(const " + vector + "*)(" + from + "(" + s + " * " + str(span()) + " + r) * " + str(shape.depth) + " + (h ^ lane_row % 2) * " + str(4 * e) + ");");
    return;
  }
  w.unroll(loop("j", e));
  w.line("const " + vector + " p = *(const " + vector + "*)(" + from + "(h * " + str(4 * e) + " + j) * " + str(extent_of(name)) + " + " + s + " * " + str(span()) + ");");
  w.line("#pragma unroll");
  w.line(loop("r", e) + " " + name + "[" + s + "][r][j] = p.v[r];");
  w.close();
}

/// f32 to the numbers that tensor cores take.
SINTER_DECL void TensorWriter::convert(const std::string& name, const std::string& s) {
  if (!is_f32() || (!is_split() && !is_copied(name))) return;   // done by keep
  w.line("#pragma unroll");
  const std::string element = name + "[" + s + "][q / 4][q % 4]";
  if (is_split()) w.line(loop("q", 16) + " split_tf32(" + element + ", " + element + ", " + name + "_rest[" + s + "][q / 4][q % 4]);");
  else w.line(loop("q", 16) + " " + element + " = to_tf32(" + element + ");");
}

/// All instructions of one span of rows and 8 positions (of 8 E / 2) along the reduced axis.
SINTER_DECL void TensorWriter::multiply_step(const std::string& sum, const std::string& left, const std::string& right, const std::string& s) {
  const int e = pack_width();
  w.unroll(loop("p", e / 2));
  w.unroll(loop("c", column_spans()));
  w.line("#pragma unroll");
  const std::string a = left + "[" + s + "]", b = right + "[c][i]";
  w.line(loop("i", e) + " mma_" + (is_f32() ? "tf32" : "f64") + "(" + sum + "[" + s + "][p][c][i], " + a + "[2 * p][2 * d], " + a + "[2 * p + 1][2 * d], " + a + "[2 * p][2 * d + 1], " + a +
         "[2 * p + 1][2 * d + 1], " + b + "[2 * d], " + b + "[2 * d + 1]);");
  w.close(), w.close();
}

/// Adds the product of the tiles in stage `now`. In 3xTF32 a tile has sums of its own: tensor cores round towards zero when
/// they add, which would tell in long sums.
SINTER_DECL void TensorWriter::multiply() {
  const int e = pack_width();
  const std::string dims = "[" + str(e) + "][" + str(e) + "]", sums = "[" + str(e / 2) + "][" + str(column_spans()) + "][" + str(e) + "][4]";
  if (is_split()) w.line("float part[" + str(row_spans()) + "]" + sums + " = {};");
  w.unroll(loop("h", 2));
  w.line("__align__(16) " + type() + " left[" + str(row_spans()) + "]" + dims + ", right[" + str(column_spans()) + "]" + dims + ";");
  if (is_split()) w.line("float left_rest[" + str(row_spans()) + "]" + dims + ", right_rest[" + str(column_spans()) + "]" + dims + ";");
  w.unroll(loop("c", column_spans()));
  read("right", "c"), convert("right", "c");
  w.close();
  w.unroll(loop("s", row_spans()));
  read("left", "s"), convert("left", "s");
  w.unroll(loop("d", e / 2));
  if (is_split()) multiply_step("part", "left_rest", "right", "s"), multiply_step("part", "left", "right_rest", "s"), multiply_step("part", "left", "right", "s");
  else multiply_step("sum", "left", "right", "s");
  w.close(), w.close(), w.close();
  if (!is_split()) return;
  w.line("#pragma unroll");
  w.line(loop("i", row_spans() * column_spans() * e * e * 2) + " ((float*)sum)[i] += ((const float*)part)[i];");
}

SINTER_DECL void TensorWriter::run() {
  choose_tile();
  const std::string entry = w.entry("product", shape.threads()), depth = str(shape.depth), ahead = str((tile_.stages - 1) * shape.depth);
  write_place();
  write_lanes();
  w.line(type() + "* const left_tile = (" + type() + "*)dynamic_shared();");
  FactorWriter left = factor("left"), right = factor("right");
  left.declare(), right.declare();
  declare_fragments("left"), declare_fragments("right");
  w.line(type() + " sum[" + str(row_spans()) + "][" + str(pack_width() / 2) + "][" + str(column_spans()) + "][" + str(pack_width()) + "][4] = {};");
  w.line("int stage = 0;");
  w.line("#pragma unroll 1");
  w.open("for (I done = begin - " + ahead + "; done < end; done += " + depth + ")");
  w.line("const bool has_tile = done >= begin;");
  w.open("if (has_tile)");
  w.line("copy_async_wait<" + str(tile_.stages - 2) + ">();");
  w.line("__syncthreads();");
  w.close();
  // The stage that was read in the step before is filled.
  w.line("const I t = done + " + ahead + ";");
  w.line(type() + "* const filled = left_tile + stage * " + str(stage_elements()) + ";");
  w.open("if (t < end)");
  fetch(left, "left"), fetch(right, "right");
  w.close();
  w.line("copy_async_commit();");
  w.line("stage = stage + 1 == " + str(tile_.stages) + " ? 0 : stage + 1;");
  w.line("const " + type() + "* const now = left_tile + stage * " + str(stage_elements()) + ";");
  w.open("if (has_tile)");
  multiply();
  w.close();
  if (!is_copied("left") || !is_copied("right")) {
    w.open("if (t < end)");
    keep(left, "left"), keep(right, "right");
    w.close();
  }
  w.close();
  w.line("__syncthreads();");
  stage_results();
  w.line("__syncthreads();");
  write_staged(shape.rows, "first_row");
  w.close();
  const std::int64_t tiles = quotient_up(nest.extent(shape.row_axis), shape.rows) * quotient_up(nest.extent(shape.column_axis), shape.columns);
  w.add_step(entry, tiles * nest.points(shape.batch), shape.splits, shape.threads(), static_cast<unsigned>(shared_bytes(tile_)));
  if (shape.splits == 1) return;
  w.add_workspace(shape.splits * nest.points(nest.parallel) * size_of(nest.inst(shape.contract).dtype));
  write_finish();
}

/// The sums to shared memory, a row of results in a row. Of the four sums of an instruction, two are of row 2 p, two of 2 p + 1, of
/// columns i and E + i.
SINTER_DECL void TensorWriter::stage_results() {
  const int e = pack_width();
  w.unroll(loop("s", row_spans()));
  w.unroll(loop("c", column_spans()));
  w.unroll(loop("q", 2 * e));
  w.line(pack(e) + " p;");
  w.line("#pragma unroll");
  w.line(loop("i", e) + " p.v[i] = sum[s][q / 4][c][i][q % 4];");
  w.line("*(" + pack(e) + "*)(left_tile + (warp_row + s * " + str(span()) + " + lane_row * " + str(e) + " + q / 2) * " + str(shape.columns + pad()) + " + warp_column + c * " + str(span()) + " + lane_depth * " +
         str(2 * e) + " + q % 2 * " + str(e) + ") = p;");
  w.close(), w.close(), w.close();
}

}  // namespace cuda_source_detail
SINTER_NAMESPACE_END
