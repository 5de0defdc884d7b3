// Products on tensor cores: f64 exactly, f16 and bf16 in TF32, which holds them, f32 in TF32 or, with every number
// split in two, in nearly full precision (3xTF32). Tiles of both operands stand in a ring in shared memory, filled some
// tiles ahead by asynchronous copies; what follows the product is ProductWriter's.
//
// An operand keeps the order that it has in memory, so that it is copied in whole vectors of 16 bytes (E elements):
// "deep", rows of 128 bytes along the reduced axis, or "flat", rows along its own axis. Lane 4 g + t of a warp needs,
// for each instruction, elements g (and g + 8) along the operand's own axis by t and t + 4 along the reduced one: deep
// f32 by `ldmatrix`, which takes rows of 16 bytes, all else one by one.
//
// Swizzle: vector c of row x of a deep tile stands at c ^ x % 8 (f32) or c ^ x % 4 * 2 (f64), vector c of row k of a
// flat tile at c ^ k % 4 * 2. Then what is read at once lies in different banks: the same vector of 8 rows (deep,
// `ldmatrix`); 2 vectors of 4 rows (deep f64, 16 lanes at once; flat f64; flat f32, 32 lanes). Stores go along rows.
#pragma once

#include <sinter/backend/cuda/source/tensor.hpp>

#include <sinter/base/index.hpp>

#include <algorithm>

SINTER_NAMESPACE_BEGIN
namespace cuda_source_detail {

// ---- the choice
// -------------------------------------------------------------------------------------------------------

/// From large to small. `cost`: a large tile reads less shared memory and less memory for each result.
SINTER_DECL std::vector<TensorTile> TensorWriter::tiles() const {
  if (!is_f32()) return {{128, 128, 64, 32, 4, 1}, {64, 64, 32, 32, 3, 1.25}};
  if (is_split()) return {{128, 128, 64, 32, 4, 1}, {64, 64, 32, 32, 3, 1.25}};
  return {{128, 256, 64, 64, 3, 1}, {128, 128, 64, 32, 4, 1.15}, {64, 64, 32, 32, 3, 1.5}};
}

/// The ring, or the results on their way to memory.
SINTER_DECL std::size_t TensorWriter::shared_bytes(const TensorTile& tile) const {
  const int ring = tile.stages * (tile.rows + tile.columns) * 128,
            results = tile.rows * (tile.columns * 16 / pack_width() + 16);
  return as_index(std::max(ring, results));
}

SINTER_DECL bool TensorWriter::is_open() const {
  const DType dtype = bound.inst(shape.contract).dtype;
  const bool is_exact = dtype == DType::f64 || has_narrow_operands();
  if (w.device.capability < 80 ||
      (!is_exact && (dtype != DType::f32 || bound.kernel.precision == MatmulPrecision::f32)))
    return false;
  return shared_bytes(tiles().back()) <= w.device.shared_bytes;
}

SINTER_DECL bool TensorWriter::is_preferred() const {
  const std::int64_t least = is_f32() ? 16 : 32;
  if (is_f32() && !has_narrow_operands()) return true;
  return bound.extent(shape.row_axis) >= least && bound.extent(shape.column_axis) >= least;
}

/// The tile, and the pieces of the reduced axis, that let the busiest processor be ready first.
SINTER_DECL void TensorWriter::choose_tile() {
  const std::int64_t batches = bound.points(shape.batch), rows = bound.extent(shape.row_axis),
                     columns = bound.extent(shape.column_axis);
  const std::int64_t processors = w.device.multiprocessors, depth = bound.extent(shape.depth_axis);
  shape.depth = 8 * pack_width();  // 128 bytes
  const std::int64_t steps = std::max<std::int64_t>(1, quotient_up(depth, shape.depth));
  double least = 0;
  for (const TensorTile& tile : tiles()) {
    if (shared_bytes(tile) > w.device.shared_bytes) continue;
    const std::int64_t blocks = batches * quotient_up(rows, tile.rows) * quotient_up(columns, tile.columns);
    const std::int64_t pieces = std::max<std::int64_t>(1, std::min(steps / 4, processors / blocks)),
                       chunk = quotient_up(steps, pieces);
    const std::int64_t in_sequence = quotient_up(blocks * quotient_up(steps, chunk), processors);
    // A block takes some steps to start and to end; pieces pass through memory.
    const double cost =
        static_cast<double>(in_sequence * tile.rows * tile.columns * (chunk + (pieces > 1 ? 8 : 4))) * tile.cost;
    if (tile_.rows != 0 && cost >= least) continue;
    least = cost;
    tile_ = tile;
    shape.chunk = chunk * shape.depth;
    shape.splits = std::max<std::int64_t>(1, quotient_up(depth, shape.chunk));
  }
  shape.rows = tile_.rows;
  shape.columns = tile_.columns;
  shape.thread_rows = tile_.warp_rows / 8;
  shape.thread_columns = tile_.warp_columns / 4;
  shape.call.order = CallOrder::own;
}

// ---- the kernel
// -------------------------------------------------------------------------------------------------------

SINTER_DECL void TensorWriter::write_lanes() {
  const std::string across = str(tile_.columns / tile_.warp_columns);
  w.line(
      "const int lane = (int)(threadIdx.x % 32), lane_row = lane / 4, lane_depth = lane % 4, warp = (int)(threadIdx.x "
      "/ 32);");
  w.line("const int warp_row = warp / " + across + " * " + str(tile_.warp_rows) + ", warp_column = warp % " + across +
         " * " + str(tile_.warp_columns) + ";");
}

SINTER_DECL GemmOperandWriter TensorWriter::operand(const std::string& name) const {
  const GemmOperandTile tile{
      name,           extent_of(name), shape.depth, shape.threads(), name == "left" ? "first_row" : "first_column",
      is_copied(name)};
  return GemmOperandWriter(w, operand_of(name), tile, batch_index_);
}

/// An element's place in the stage `filled`; k and x are positions in the tile.
SINTER_DECL std::string TensorWriter::place(const std::string& name, const std::string& k, const std::string& x) const {
  const std::string e = str(pack_width()),
                    start = name == "left" ? "filled + " : "filled + " + str(shape.rows * shape.depth) + " + ",
                    a = "(" + k + ")", b = "(" + x + ")";
  if (operand_of(name).along_depth)
    return start + b + " * " + str(shape.depth) + " + (" + a + " / " + e + " ^ " + b +
           (is_f32() ? " % 8" : " % 4 * 2") + ") * " + e + " + " + a + " % " + e;
  return start + a + " * " + str(extent_of(name)) + " + (" + b + " / " + e + " ^ " + a + " % 4 * 2) * " + e + " + " +
         b + " % " + e;
}

/// Where a lane reads in a stage. Flat, the swizzle separates blocks of 8 elements along the own axis; deep, steps
/// along the reduced one change bits of the vector's number alone. The rest is added as a constant.
SINTER_DECL void TensorWriter::declare_fragments(const std::string& name) {
  const bool is_left = name == "left";
  const std::string base = is_left ? "warp_row" : "warp_column",
                    start = is_left ? "" : str(shape.rows * shape.depth) + " + ", depth = str(shape.depth),
                    e = str(pack_width());
  std::string text;
  if (!operand_of(name).along_depth) {
    text = "lane_depth * " + str(extent_of(name)) + " + " + base + " + ((v * " + str(8 / pack_width()) +
           " + lane_row / " + e + ") ^ lane_depth * 2) * " + e + " + lane_row % " + e;
  } else if (
      // the rows whose addresses this lane gives: of matrices 0 to 3, in the order of the fragments' registers
      is_f32()) {
    const std::string across = is_left ? "lane / 8 % 2" : "lane / 16", along = is_left ? "lane / 16" : "lane / 8 % 2";
    text = "(" + base + " + lane % 8 + " + across + " * 8) * " + depth + " + (" + along + " ^ lane % 8) * 4";
  } else {
    text = "(" + base + " + lane_row) * " + depth + " + (lane_depth / 2 ^ lane_row % 4 * 2) * 2 + lane_depth % 2";
  }
  w.line("int " + name + "_lane[" + str(variants(name)) + "];");
  w.line("#pragma unroll");
  w.line(loop("v", variants(name)) + " " + name + "_lane[v] = " + start + text + ";");
}

/// Starts to copy a thread's share of the tile at `t` to the stage `filled`.
SINTER_DECL void TensorWriter::fetch(GemmOperandWriter& operand, const std::string& name) {
  if (is_copied(name)) operand.copy([&](const std::string& k, const std::string& x) { return place(name, k, x); });
  else operand.fetch();
}

/// What passes through registers arrives there.
SINTER_DECL void TensorWriter::keep(GemmOperandWriter& operand, const std::string& name) {
  if (is_copied(name)) return;
  const int width = operand_of(name).width;
  operand.keep([&](const std::string& k, const std::string& x, const std::string& values) {
    w.line(pack(width) + " kept;");
    w.line("#pragma unroll");
    w.line(loop("j", width) +
           " kept.v[j] = " + (is_f32() && !is_split() ? "to_tf32(" + values + "[j])" : values + "[j]") + ";");
    w.line("*(" + pack(width) + "*)(" + place(name, k, x) + ") = kept;");
  });
}

/// A lane's fragments of step `d` (8 positions along the reduced axis) of the tile in stage `now`: left[blocks of 16
/// rows][4], right[blocks of 8 columns][2], a register of the instruction each.
SINTER_DECL void TensorWriter::read(const std::string& name) {
  const bool is_left = name == "left";
  const std::string from = "now + " + name + "_lane";
  const int blocks = is_left ? row_blocks() : column_blocks(), registers = is_left ? 4 : 2;
  if (operand_of(name).along_depth && is_f32()) {
    const int at_once = is_left ? 1 : 2;
    w.line("#pragma unroll");
    w.line(loop("b", blocks / at_once) + " read_matrices(" + name + (is_left ? "[b]" : "[b * 2], right[b * 2 + 1]") +
           ", now + (" + name + "_lane[0] ^ d * 8) + b * " + str(16 * shape.depth) + ");");
    return;
  }
  // Register r: block of 8 elements along the own axis, and which half of the step.
  const std::string block = is_left ? "(b * 2 + r % 2)" : "b", half = is_left ? "r / 2" : "r";
  w.unroll(loop("b", blocks));
  w.line("#pragma unroll");
  if (operand_of(name).along_depth)
    w.line(loop("r", registers) + " " + name + "[b][r] = *(now + (" + name + "_lane[0] ^ (d * 2 + " + half +
           ") * 4) + " + block + " * " + str(8 * shape.depth) + ");");
  else
    w.line(loop("r", registers) + " " + name + "[b][r] = *(" + from + "[" + block + " % " + str(pack_width()) + "] + " +
           block + " / " + str(pack_width()) + " * " + str(8 * pack_width()) + " + (d * 8 + " + half + " * 4) * " +
           str(extent_of(name)) + ");");
  w.close();
}

/// f32 to the numbers that tensor cores take.
SINTER_DECL void TensorWriter::convert(const std::string& name) {
  if (!is_f32() || (!is_split() && !is_copied(name))) return;  // done by keep
  const bool is_left = name == "left";
  w.unroll(loop("b", is_left ? row_blocks() : column_blocks()));
  w.line("#pragma unroll");
  const std::string element = name + "[b][r]", each = loop("r", is_left ? 4 : 2) + " ";
  if (is_split()) w.line(each + "split_tf32(" + element + ", " + element + ", " + name + "_rest[b][r]);");
  else w.line(each + element + " = to_tf32(" + element + ");");
  w.close();
}

/// All instructions of a step.
SINTER_DECL void TensorWriter::multiply_step(const std::string& sum, const std::string& left,
                                             const std::string& right) {
  w.unroll(loop("b", row_blocks()));
  w.line("#pragma unroll");
  w.line(loop("c", column_blocks()) + " mma_" + (is_f32() ? "tf32" : "f64") + "(" + sum + "[b][c], " + left + "[b], " +
         right + "[c]);");
  w.close();
}

/// Adds the product of the tiles in stage `now`. In 3xTF32 a tile has sums of its own: tensor cores round towards zero
/// when they add, which would be visible in long sums.
SINTER_DECL void TensorWriter::multiply() {
  const std::string rows = "[" + str(row_blocks()) + "][4]", columns = "[" + str(column_blocks()) + "][2]";
  if (is_split()) w.line("float part[" + str(row_blocks()) + "][" + str(column_blocks()) + "][4] = {};");
  // Where instructions take long enough for another warp to hide what a step waits for, shorter text compiles in half
  // the time.
  w.line(is_f32() && !is_split() ? "#pragma unroll" : "#pragma unroll 1");
  w.open(loop("d", shape.depth / 8));
  w.line(type() + " left" + rows + ", right" + columns + ";");
  if (is_split()) w.line("float left_rest" + rows + ", right_rest" + columns + ";");
  read("left");
  convert("left");
  read("right");
  convert("right");
  if (is_split())
    multiply_step("part", "left_rest", "right"), multiply_step("part", "left", "right_rest"),
        multiply_step("part", "left", "right");
  else multiply_step("sum", "left", "right");
  w.close();
  if (!is_split()) return;
  w.unroll(loop("b", row_blocks()));
  w.unroll(loop("c", column_blocks()));
  w.line("#pragma unroll");
  w.line(loop("i", 4) + " sum[b][c][i] += part[b][c][i];");
  w.close();
  w.close();
}

SINTER_DECL void TensorWriter::run() {
  choose_tile();
  lay_out();
  const std::string entry = w.entry("product", shape.threads()), depth = str(shape.depth),
                    ahead = str((tile_.stages - 1) * shape.depth);
  write_place();
  write_lanes();
  w.line(type() + "* const left_tile = (" + type() + "*)dynamic_shared();");
  GemmOperandWriter left = operand("left"), right = operand("right");
  left.declare();
  right.declare();
  declare_fragments("left");
  declare_fragments("right");
  w.line(type() + " sum[" + str(row_blocks()) + "][" + str(column_blocks()) + "][4] = {};");
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
  fetch(left, "left");
  fetch(right, "right");
  w.close();
  w.line("copy_async_commit();");
  w.line("stage = stage + 1 == " + str(tile_.stages) + " ? 0 : stage + 1;");
  w.line("const " + type() + "* const now = left_tile + stage * " + str(stage_elements()) + ";");
  w.open("if (has_tile)");
  multiply();
  w.close();
  if (!is_copied("left") || !is_copied("right")) {
    w.open("if (t < end)");
    keep(left, "left");
    keep(right, "right");
    w.close();
  }
  w.close();
  w.line("__syncthreads();");
  stage_results();
  w.line("__syncthreads();");
  write_staged(shape.rows, "first_row");
  w.close();
  add_launches(entry, shared_bytes(tile_));
}

/// The sums to shared memory, a row of results in a row. Of the four of an instruction, two are of row g, two of row g
/// + 8, of columns 2 t and 2 t + 1.
SINTER_DECL void TensorWriter::stage_results() {
  w.unroll(loop("b", row_blocks()));
  w.unroll(loop("c", column_blocks()));
  w.unroll(loop("i", 2));
  w.line("const " + pack(2) + " p = {{sum[b][c][i * 2], sum[b][c][i * 2 + 1]}};");
  w.line("*(" + pack(2) + "*)(left_tile + (warp_row + b * 16 + i * 8 + lane_row) * " + str(shape.columns + pad()) +
         " + warp_column + c * 8 + lane_depth * 2) = p;");
  w.close();
  w.close();
  w.close();
}

}  // namespace cuda_source_detail
SINTER_NAMESPACE_END
