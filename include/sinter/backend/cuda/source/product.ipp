// Contractions in tiles, in full precision of their dtype: a block computes a tile of rows by columns; both operands
// pass through shared memory, two buffers deep, while the next pieces are on their way to registers; whatever follows
// the product is computed from the accumulators in registers. For a short list of tiles the reduced axis is cut, and a
// second kernel adds the pieces in order.
#pragma once

#include <sinter/backend/cuda/source/product.hpp>

#include <sinter/backend/cuda/product/choice.hpp>
#include <sinter/backend/cuda/product/cublaslt_api.hpp>
#include <sinter/backend/cuda/source/library.hpp>
#include <sinter/backend/cuda/source/tensor.hpp>
#include <sinter/backend/cuda/source/wgmma.hpp>
#include <sinter/base/index.hpp>

#include <algorithm>
#include <bit>

SINTER_NAMESPACE_BEGIN
namespace cuda_source_detail {

// ---- the choice
// -------------------------------------------------------------------------------------------------------

SINTER_DECL bool ProductWriter::choose() {
  const std::optional<Call> call = find_gemm(bound.kernel, bound.facts);
  if (!call || bound.inst(call->value).dtype == DType::bool_) return false;
  shape.call = *call;
  shape.contract = call->value;
  shape.row_axis = std::countr_zero(call->m);
  shape.column_axis = std::countr_zero(call->n);
  shape.depth_axis = std::countr_zero(call->k);
  if (bound.extent(shape.row_axis) < 8 || bound.extent(shape.column_axis) < 8) return false;
  for (int a : bound.parallel)
    if (a != shape.row_axis && a != shape.column_axis) shape.batch.push_back(a);
  shape.left = {.value = call->a, .axis = shape.row_axis, .depth_axis = shape.depth_axis};
  shape.right = {.value = call->b, .axis = shape.column_axis, .depth_axis = shape.depth_axis};
  return choose_operand(w, shape.left, shape.column_axis) && choose_operand(w, shape.right, shape.row_axis);
}

/// The largest tile that keeps every processor busy; then pieces of the reduced axis.
SINTER_DECL void ProductWriter::choose_tile() {
  const std::int64_t batches = bound.points(shape.batch), rows = bound.extent(shape.row_axis),
                     columns = bound.extent(shape.column_axis);
  const bool is_wide = size_of(bound.inst(shape.contract).dtype) == 8;
  struct Tile {
    int rows, columns, depth, thread_rows, thread_columns;
  };
  constexpr Tile tiles[] = {{128, 128, 16, 8, 8}, {64, 64, 16, 4, 4}, {32, 32, 32, 4, 4}};
  const auto blocks = [&](const Tile& tile) {
    return batches * quotient_up(rows, tile.rows) * quotient_up(columns, tile.columns);
  };
  Tile best = tiles[2];
  for (const Tile& tile : tiles) {
    if (is_wide && tile.rows > 64) continue;
    if (blocks(tile) < w.device.multiprocessors && tile.rows > 32) continue;
    best = tile;
    break;
  }
  shape.rows = best.rows;
  shape.columns = best.columns;
  shape.depth = best.depth;
  shape.thread_rows = best.thread_rows;
  shape.thread_columns = best.thread_columns;
  if (best.rows == 32) choose_teams(blocks(best));
  const std::int64_t depth = bound.extent(shape.depth_axis), steps = quotient_up(depth, shape.depth);
  shape.chunk = std::max<std::int64_t>(steps, 1) * shape.depth;
  // A second kernel costs about as much as four steps of a block of teams.
  const std::int64_t most = shape.teams == 1 ? steps / 4 : steps < 8 ? 1 : steps / 3;
  const std::int64_t splits = std::min(most, std::int64_t{w.device.multiprocessors} * 2 / blocks(best));
  if (splits < 2) return;
  shape.chunk = quotient_up(steps, splits) * shape.depth;
  shape.splits = quotient_up(depth, shape.chunk);
}

/// Of few small tiles, what a block takes is a chain of waiting for memory: all threads that find room share its steps.
SINTER_DECL void ProductWriter::choose_teams(std::int64_t blocks) {
  const bool is_wide = size_of(bound.inst(shape.contract).dtype) == 8,
             is_deep = !is_wide && bound.extent(shape.depth_axis) > 32;
  const int teams = is_deep ? 8 : 4;
  if (blocks * teams * shape.team_threads() > std::int64_t{w.device.multiprocessors} * 2048) return;
  shape.teams = teams;
  shape.depth = is_deep ? 64 : 32;
}

// ---- the nest
// ---------------------------------------------------------------------------------------------------------

SINTER_DECL void ProductWriter::build_nest(GpuProduct product) {
  product.call = shape.call;
  product.width = result_width();
  // Of few pieces all are loaded at once, the last of them idle: a loop unrolled by the compiler is three loops.
  if (product.piece != 0)
    product.finish_copies =
        static_cast<int>(std::clamp<std::int64_t>(quotient_up(bound.extent(shape.depth_axis), product.piece), 1, 4));
  nest_ = build_gpu_product_nest(bound.kernel, product);
}

SINTER_DECL void ProductWriter::lay_out() {
  build_nest({.threads = shape.threads(),
              .tile_rows = shape.rows,
              .tile_columns = shape.columns,
              .teams = shape.teams,
              .team_depth = shape.teams == 1 ? 1 : shape.depth / shape.teams,
              .piece = shape.splits == 1 ? 0 : shape.chunk});
}

SINTER_DECL const Loop* ProductWriter::loop_over(AxisMask axes, LoopMode mode, LoopRange range) const {
  const auto found = std::find_if(nest_.loops.begin(), nest_.loops.end(), [&](const Loop& loop) {
    return loop.axes == axes && loop.mode == mode && loop.range == range;
  });
  return found == nest_.loops.end() ? nullptr : &*found;
}

SINTER_DECL std::int64_t ProductWriter::tiles_along(int axis) const {
  return quotient_up(bound.extent(axis), loop_over(axis_bit(axis), LoopMode::grid, LoopRange::tiles)->step);
}

SINTER_DECL std::span<const InstId> ProductWriter::epilogue() const {
  std::span<const InstId> ids;
  for (const NestNode& node : nest_.nodes) {
    if (node.kind == NestNodeKind::compute) ids = nest_.ids_of(node);
    if (node.kind == NestNodeKind::step) ids = {};  // those of operands
  }
  return ids;
}

SINTER_DECL const NestNode& ProductWriter::last_stage() const {
  return *std::find_if(nest_.nodes.rbegin(), nest_.nodes.rend(),
                       [](const NestNode& node) { return node.kind == NestNodeKind::stage; });
}

SINTER_DECL std::int64_t ProductWriter::pieces() const {
  const Loop* const loop = loop_over(shape.call.k, LoopMode::grid, LoopRange::blocks);
  return loop == nullptr ? 1 : quotient_up(bound.extent(shape.depth_axis), loop->step);
}

// ---- the kernel
// -------------------------------------------------------------------------------------------------------

SINTER_DECL void ProductWriter::write_threads() {
  // A warp is 8 threads across and 4 down, so that what it reads of shared memory at once has few different rows.
  const int warps_across = shape.columns / shape.thread_columns / 8, team_warps = shape.team_threads() / 32;
  w.line("const int lane = (int)(threadIdx.x % 32), warp = (int)(threadIdx.x / 32)" +
         (shape.teams > 1 ? " % " + str(team_warps) : "") + ";");
  if (shape.teams > 1) w.line("const int team = (int)(threadIdx.x / " + str(shape.team_threads()) + ");");
  w.line("const int tx = warp % " + str(warps_across) + " * 8 + lane % 8, ty = warp / " + str(warps_across) +
         " * 4 + lane / 8;");
}

SINTER_DECL void ProductWriter::write_place() {
  const std::int64_t row_tiles = tiles_along(shape.row_axis), column_tiles = tiles_along(shape.column_axis);
  w.line("const I block = (I)blockIdx.x;");
  w.line("const I tile_row = " + w.divided("block", "ct", column_tiles) + ";");
  w.line("const I tile_batch = " + w.divided("tile_row", "rt", row_tiles) + ";");
  w.line("const I first_column = (block - tile_row * " + w.number("ct", column_tiles) + ") * " + str(shape.columns) +
         ";");
  w.line("const I first_row = (tile_row - tile_batch * " + w.number("rt", row_tiles) + ") * " + str(shape.rows) + ";");
  batch_index_ = w.decode("tile_batch", shape.batch);
  const std::string depth = w.extent(shape.depth_axis);
  if (const Loop* const piece = loop_over(shape.call.k, LoopMode::grid, LoopRange::blocks)) {
    const std::string chunk = w.number("chunk", piece->step);
    w.line("const I begin = (I)blockIdx.y * " + chunk + ", end = begin + " + chunk + " < " + depth + " ? begin + " +
           chunk + " : " + depth + ";");
  } else {
    w.line("const I begin = 0, end = " + depth + ";");
  }
}

SINTER_DECL GemmOperandWriter ProductWriter::operand(const std::string& name) const {
  const bool is_left = name == "left";
  const GemmOperandTile tile{name, is_left ? shape.rows : shape.columns, shape.depth, shape.threads(),
                             is_left ? "first_row" : "first_column"};
  return GemmOperandWriter(w, is_left ? shape.left : shape.right, tile, batch_index_);
}

/// What has arrived of an operand goes to its tile, a row for each position along the reduced axis.
SINTER_DECL void ProductWriter::keep(GemmOperandWriter& operand, const std::string& name) {
  const GemmOperand& read = name == "left" ? shape.left : shape.right;
  operand.keep([&](const std::string& depth, const std::string& place, const std::string& values) {
    const std::string across = tile(name, depth) + " + " + place;
    if (read.along_depth) {
      w.line("#pragma unroll");
      w.line("for (int j = 0; j < " + str(read.width) + "; ++j) " + tile(name, depth + " + j") + "[" + place +
             "] = " + values + "[j];");
    } else if (read.width == 1) {
      w.line("*(" + across + ") = " + values + "[0];");
    } else {
      w.line("*(" + pack(read.width) + "*)(" + across + ") = *(const " + pack(read.width) + "*)" + values + ";");
    }
  });
}

/// A thread has groups of 4 rows and of 4 columns, spread over the tile so that shared memory is read without
/// conflicts, and whole groups at a time: the compiler does not see that they are aligned.
SINTER_DECL void ProductWriter::multiply() {
  const int depth = shape.depth / shape.teams;
  const std::string first = shape.teams > 1 ? "team * " + str(depth) : "0";
  w.line("const " + type() + "* const left_now = " + tile("left", first) + " + ty * 4;");
  w.line("const " + type() + "* const right_now = " + tile("right", first) + " + tx * 4;");
  // Enough independent work without text that compiles for long.
  w.line("#pragma unroll " + str(std::min(8, std::max(4, 256 / (shape.thread_rows * shape.thread_columns)))));
  w.open("for (int k = 0; k < " + str(depth) + "; ++k)");
  w.line("__align__(16) " + type() + " left[" + str(shape.thread_rows) + "], right[" + str(shape.thread_columns) +
         "];");
  const auto read = [&](const std::string& name, int count, int pitch, int gap) {
    w.line("#pragma unroll");
    w.line("for (int i = 0; i < " + str(count / 4) + "; ++i) *(" + pack(4) + "*)(" + name + " + 4 * i) = *(const " +
           pack(4) + "*)(" + name + "_now + k * " + str(pitch) + " + i * " + str(gap) + ");");
  };
  read("left", shape.thread_rows, shape.rows + pad(), row_gap());
  read("right", shape.thread_columns, shape.columns + pad(), column_gap());
  w.unroll("for (int i = 0; i < " + str(shape.thread_rows) + "; ++i)");
  w.line("#pragma unroll");
  const Inst step{.prim = Prim::fma, .dtype = bound.inst(shape.contract).dtype};
  w.line("for (int j = 0; j < " + str(shape.thread_columns) +
         "; ++j) sum[i][j] = " + expression(step, step.dtype, {"left[i]", "right[j]", "sum[i][j]"}) + ";");
  w.close();
  w.close();
}

SINTER_DECL void ProductWriter::run() {
  choose_tile();
  lay_out();
  // Two blocks at a time share a processor, unless more than the two operands is on its way in registers.
  const bool has_room = operand("left").words() + operand("right").words() <= 24;
  const std::string entry = w.entry("product", shape.threads(), shape.rows == 128 && has_room ? 2 : 1);
  write_threads();
  write_place();
  // Two buffers of both tiles; at the end the results pass through the same memory.
  w.line("__shared__ __align__(16) " + type() + " left_tile[" +
         str(2 * shape.depth * (shape.rows + pad() + shape.columns + pad())) + "];");
  w.line(type() + "* const right_tile = left_tile + " + str(2 * shape.depth * (shape.rows + pad())) + ";");
  GemmOperandWriter left = operand("left"), right = operand("right");
  left.declare();
  right.declare();
  w.line(type() + " sum[" + str(shape.thread_rows) + "][" + str(shape.thread_columns) + "] = {};");
  w.line("int buffer = 0;");
  w.line("I t = begin;");
  left.fetch();
  right.fetch();
  w.line("#pragma unroll 1");
  w.open("for (;;)");
  keep(left, "left");
  keep(right, "right");
  w.line("__syncthreads();");
  w.line("t += " + str(shape.depth) + ";");
  w.open("if (t < end)");
  left.fetch();
  right.fetch();
  w.close();
  multiply();
  w.line("if (t >= end) break;");
  w.line("buffer ^= 1;");
  w.close();
  write_epilogue();
  w.close();
  add_launches(entry);
}

/// A block for each tile, and the kernel that puts pieces together.
SINTER_DECL void ProductWriter::add_launches(const std::string& entry, std::size_t shared_bytes) {
  w.add_step(entry, tiles_along(shape.row_axis) * tiles_along(shape.column_axis) * bound.points(shape.batch), pieces(),
             nest_.nodes[1].count, static_cast<unsigned>(shared_bytes));
  if (nest_.buffers.empty()) return;
  w.add_workspace(pieces() * bound.points(bound.parallel) * size_of(bound.inst(shape.contract).dtype));
  write_finish();
}

// ---- what follows the product
// -----------------------------------------------------------------------------------------

/// Results go through shared memory, a group of rows at a time: what follows the product is written once, in a loop,
/// and reads and writes whole lines.
SINTER_DECL void ProductWriter::write_epilogue() {
  const int groups = shape.thread_rows / 4, stage_rows = shape.rows / groups;
  const std::string pitch = str(shape.columns + pad());
  w.line("#pragma unroll 1");
  w.open("for (int g = 0; g < " + str(groups) + "; ++g)");
  w.line("__syncthreads();");
  w.unroll("for (int i = 0; i < 4; ++i)");
  w.unroll("for (int j = 0; j < " + str(shape.thread_columns / 4) + "; ++j)");
  w.line(pack(4) + " p;");
  w.line("#pragma unroll");
  w.line(std::string("for (int c = 0; c < 4; ++c) p.v[c] = ") +
         (groups == 1 ? "sum[i][j * 4 + c]" : "g == 0 ? sum[i][j * 4 + c] : sum[i + 4][j * 4 + c]") + ";");
  const std::string own = shape.teams > 1 ? "left_tile + team * " + str(staged()) : "left_tile";
  w.line("*(" + pack(4) + "*)(" + own + " + (ty * 4 + i) * " + pitch + " + j * " + str(column_gap()) +
         " + tx * 4) = p;");
  w.close();
  w.close();
  w.line("__syncthreads();");
  write_staged(stage_rows, "first_row + g * " + str(row_gap()));
  w.close();
}

/// What follows the product, for `rows` rows of results that wait in shared memory.
SINTER_DECL void ProductWriter::write_staged(int rows, const std::string& first_row) {
  const int width = result_width();
  const std::string row = "x" + str(shape.row_axis), column = "x" + str(shape.column_axis),
                    pitch = str(shape.columns + pad());
  w.set_vector(shape.column_axis, width);
  const std::string in_row = str(shape.columns / width);
  w.line("#pragma unroll 1");
  w.open("for (int q = (int)threadIdx.x; q < " + str(rows * shape.columns / width) + "; q += " + str(shape.threads()) +
         ")");
  w.line("const I " + row + " = " + first_row + " + q / " + in_row + ", " + column + " = first_column + q % " + in_row +
         " * " + str(width) + ";");
  w.line(std::string(shape.teams > 1 ? "" : "const ") + pack(width) + " sums = *(const " + pack(width) +
         "*)(left_tile + q / " + in_row + " * " + pitch + " + q % " + in_row + " * " + str(width) + ");");
  if (shape.teams > 1)
    add_teams(width, "left_tile + q / " + in_row + " * " + pitch + " + q % " + in_row + " * " + str(width));
  w.open("if (" + row + " < " + w.extent(shape.row_axis) + " && " + column + " < " + w.extent(shape.column_axis) + ")");
  IndexNames index = batch_index_;
  index[as_index(shape.row_axis)] = row, index[as_index(shape.column_axis)] = column;
  w.name[shape.contract] = "sums.v[j]";
  if (!nest_.buffers.empty()) {
    const std::string all_columns = w.extent(shape.column_axis), all_rows = w.extent(shape.row_axis);
    w.line("const I at = ((((I)blockIdx.y * " + w.number("batches", bound.points(shape.batch)) + " + tile_batch) * " +
           all_rows + " + " + row + ") * " + all_columns + ") + " + column + ";");
    w.line("#pragma unroll");
    w.line("for (int j = 0; j < " + str(width) + "; ++j) ((" + type() + "*)a.workspace)[at + j] = sums.v[j];");
  } else {
    write_results(index, width);
  }
  w.close();
  w.close();
}

/// The other teams' results, in order.
SINTER_DECL void ProductWriter::add_teams(int width, const std::string& place) {
  w.unroll("for (int m = 1; m < " + str(shape.teams) + "; ++m)");
  w.line("const " + pack(width) + " more = *(const " + pack(width) + "*)(" + place + " + m * " + str(staged()) + ");");
  w.line("#pragma unroll");
  w.line("for (int j = 0; j < " + str(width) + "; ++j) sums.v[j] = " +
         combined(Prim::reduce_add, bound.inst(shape.contract).dtype, "sums.v[j]", "more.v[j]") + ";");
  w.close();
}

/// Everything but the product, for `width` neighbouring columns, and the stores.
SINTER_DECL void ProductWriter::write_results(const IndexNames& index, int width) {
  std::vector<InstId> elementwise;
  for (const InstId id : epilogue()) {
    const std::string v = "v" + str(id);
    w.name[id] = v;
    if (!w.is_along(id)) {
      w.line("const " + w.declaration(id) + " = " + w.value_of(id, index, "") + ";");
    } else if (bound.inst(id).prim == Prim::load) {
      w.line(w.declaration(id) + "[" + str(width) + "];");
      w.load_vector(id, v, "", index);
      w.name[id] = v + "[j]";
    } else {
      elementwise.push_back(id);
    }
  }
  w.compute_elements(elementwise, index);
  w.store_elements(index);
}

/// Adds the pieces in order: a thread for `width` neighbouring columns of a result.
SINTER_DECL void ProductWriter::write_finish() {
  const int width = nest_.lanes, threads = last_stage().count;
  AxisList axes = shape.batch;
  axes.push_back(shape.row_axis);
  axes.push_back(shape.column_axis);
  const std::int64_t results = bound.points(axes), items = results / width;
  const std::string entry = w.entry("finish", threads);
  w.line("const I item = (I)blockIdx.x * " + str(threads) + " + (I)threadIdx.x;");
  w.open("if (item < " + w.number("items", items) + ")");
  const IndexNames index = w.decode("item", axes, width);
  w.line(type() + " sum[" + str(width) + "] = {};");
  const std::string splits = w.number("splits", pieces()),
                    batch = str(loop_over(shape.call.k, LoopMode::lanes, LoopRange::blocks)->copies);
  const std::string at = "((const " + type() + "*)a.workspace + (s + i) * " + w.number("results", results) +
                         " + item * " + str(width) + ")";
  w.line("#pragma unroll 1");
  w.open("for (I s = 0; s < " + splits + "; s += " + batch + ")");
  w.line(pack(width) + " piece[" + batch + "] = {};");
  w.line("#pragma unroll");
  w.line("for (int i = 0; i < " + batch + "; ++i) if (s + i < " + splits + ") piece[i] = *(const " + pack(width) +
         "*)" + at + ";");
  w.line("#pragma unroll");
  w.line("for (int q = 0; q < " + batch + " * " + str(width) + "; ++q) sum[q % " + str(width) + "] = " +
         combined(Prim::reduce_add, bound.inst(shape.contract).dtype, "sum[q % " + str(width) + "]",
                  "piece[q / " + str(width) + "].v[q % " + str(width) + "]") +
         ";");
  w.close();
  w.name[shape.contract] = "sum[j]";
  write_results(index, width);
  w.close();
  w.close();
  w.add_step(entry, quotient_up(items, threads), 1, threads);
}

/// From here on the library's product is worth a second pass over the result, by a heuristic.
inline constexpr double library_operations = 2e9;

SINTER_DECL double ProductWriter::operations() const {
  return 2.0 * static_cast<double>(bound.points(bound.parallel)) * static_cast<double>(bound.extent(shape.depth_axis));
}

SINTER_DECL std::optional<cuda::LibraryProduct> ProductWriter::worthwhile_library_product() const {
  return operations() < least_library_operations ? std::nullopt : library_product();
}

SINTER_DECL std::vector<cuda::GemmAlgorithm> ProductWriter::algorithms(bool with_library) const {
  std::vector<cuda::GemmAlgorithm> open{cuda::GemmAlgorithm::fma};
  if (const TensorWriter tensor(*this); tensor.is_open())
    open.insert(tensor.is_preferred() ? open.begin() : open.end(), cuda::GemmAlgorithm::tensor_cores);
  const bool has_groups = WgmmaWriter(*this).is_open();
  if (has_groups)
    open.insert(operations() < cuda::least_measured_operations ? open.end() : open.begin(), cuda::GemmAlgorithm::wgmma);
  std::optional<cuda::LibraryProduct> product = with_library ? worthwhile_library_product() : std::nullopt;
  if (!product || !cuda::has_cublaslt()) return open;  // opened when first of use: it is large
  const bool does_all = library_does_all(*product);
  // A kernel that computes what follows in the same pass is better than the library and a pass of its own.
  const bool is_first = operations() >= library_operations && (does_all || !has_groups);
  open.insert(is_first ? open.begin() : open.end(), cuda::GemmAlgorithm::library);
  if (does_all && !product->epilogue.is_empty()) open.push_back(cuda::GemmAlgorithm::library_then_kernel);
  return open;
}

/// The ordinary units lose wherever tensor cores are preferred, and `mma` to `wgmma` where that has work for the
/// device. Where it has little, the library is better than both, and small products, without it, compare the two.
SINTER_DECL std::vector<cuda::GemmAlgorithm> ProductWriter::worth_measuring(
    const std::vector<cuda::GemmAlgorithm>& open) const {
  using enum cuda::GemmAlgorithm;
  const auto place = [&](cuda::GemmAlgorithm algorithm) { return std::find(open.begin(), open.end(), algorithm); };
  const auto has = [&](cuda::GemmAlgorithm algorithm) { return place(algorithm) != open.end(); };
  const bool has_groups = has(wgmma), leaves_fma = has_groups || place(tensor_cores) < place(fma),
             leaves_mma = has_groups && (has(library) || WgmmaWriter(*this).fills_device());
  std::vector<cuda::GemmAlgorithm> worth;
  for (const cuda::GemmAlgorithm algorithm : open)
    if ((algorithm != fma || !leaves_fma) && (algorithm != tensor_cores || !leaves_mma)) worth.push_back(algorithm);
  return worth;
}

/// What decides how fast each algorithm is: extents to two digits after the first (in binary), and what they and
/// strides are multiples of.
SINTER_DECL std::string ProductWriter::text() const {
  const auto rounded = [](std::int64_t number) {
    std::int64_t step = 1;
    while (number / step >= 8) step *= 2;
    return quotient_up(number, step) * step;
  };
  const auto multiple = [](std::int64_t number) {
    return number == 0 ? 16 : std::min<std::int64_t>(number & -number, 16);
  };
  std::string text = bound.kernel.text() + "\nextents";
  for (int a = 0; a < bound.kernel.rank(); ++a)
    text += " " + str(rounded(bound.extent(a))) + "/" + str(multiple(bound.extent(a)));
  for (std::size_t i = 0; i < bound.kernel.accesses.size(); ++i) {
    text += "\naccess " + str(multiple(bound.geometry.accesses[i].offset));
    for (int a = 0; a < bound.kernel.rank(); ++a)
      text += " " + str(multiple(bound.geometry.accesses[i].stride[as_index(a)]));
  }
  return text;
}

SINTER_DECL cuda::GemmProblem gemm_problem(Writer& writer, bool with_library) {
  ProductWriter product(writer);
  if (!product.choose()) return {};
  std::vector<cuda::GemmAlgorithm> open = product.algorithms(with_library);
  std::vector<cuda::GemmAlgorithm> worth = product.worth_measuring(open);
  return {std::move(open), std::move(worth), product.text(), product.operations(),
          product.worthwhile_library_product().has_value()};
}

SINTER_DECL bool write_product(Writer& writer, std::optional<cuda::GemmAlgorithm> wanted) {
  ProductWriter product(writer);
  if (!product.choose()) return false;
  const auto is_open = [&](bool with_library) {
    const std::vector<cuda::GemmAlgorithm> open = product.algorithms(with_library);
    return std::find(open.begin(), open.end(), *wanted) != open.end();
  };
  const cuda::GemmAlgorithm algorithm =
      wanted && is_open(cuda::is_of_library(*wanted)) ? *wanted : product.algorithms(true).front();
  writer.set_algorithm(algorithm);
  switch (algorithm) {
    case cuda::GemmAlgorithm::library: product.run_library(true); break;
    case cuda::GemmAlgorithm::library_then_kernel: product.run_library(false); break;
    case cuda::GemmAlgorithm::tensor_cores: TensorWriter(product).run(); break;
    case cuda::GemmAlgorithm::wgmma: WgmmaWriter(product).run(); break;
    case cuda::GemmAlgorithm::fma: product.run(); break;
  }
  return true;
}

}  // namespace cuda_source_detail
SINTER_NAMESPACE_END
