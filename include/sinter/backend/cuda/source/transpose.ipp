// The choice of the axes, the nest, and the kernel that is written from it.
#pragma once

#include <sinter/backend/cuda/source/transpose.hpp>

#include <sinter/base/context.hpp>
#include <sinter/base/index.hpp>
#include <sinter/kernel/loop_nest/verify.hpp>
#include <sinter/kernel/loop_nest/writer.hpp>

#include <algorithm>
#include <bit>
#include <utility>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace cuda_source_detail {

class TransposeNestBuilder : private kernel_detail::NestWriter {
 public:
  explicit TransposeNestBuilder(const BoundKernel& bound) : NestWriter(bound.kernel), b_(bound) {
    nest_.is_on_gpu = true;
    nest_.nodes.reserve(12);
  }

  std::optional<LoopNest> run() {
    if (!choose()) return std::nullopt;
    nest_.vector_axis = column_;
    for (std::size_t i = 0; i < b_.kernel.body.size(); ++i)
      nest_.places.push_back({NestLevel::outer, b_.varies(static_cast<InstId>(i), column_)});
    build();
    if (SINTER_UNLIKELY(Context::get().checks)) verify(nest_);
    return std::move(nest_);
  }

 private:
  static constexpr int threads = 256, side = 32;

  bool choose() {
    if (b_.parallel.size() < 2) return false;
    column_ = b_.parallel.back();
    for (std::size_t i = 0; i < b_.kernel.body.size(); ++i) {
      const Inst& inst = b_.kernel.body[i];
      if (!b_.is_live(i) || inst.prim != Prim::load || b_.stride_class(inst.access, column_) != StrideClass::any)
        continue;
      for (int a : b_.parallel) {
        if (a == column_ || b_.stride_class(inst.access, a) != StrideClass::unit || (row_ >= 0 && row_ != a)) continue;
        row_ = a;
        crossed_.push_back(static_cast<InstId>(i));
      }
    }
    return row_ >= 0 && crossed_.size() <= 4 && b_.extent(row_) >= 16 && b_.extent(column_) >= 16;
  }

  /// Neighbouring blocks take tiles one below the other.
  void build() {
    const std::size_t variant = open_variant(VariantKind::whole);
    open_stage(threads);
    AxisMask batch = 0;
    for (const int a : b_.parallel)
      if (a != row_ && a != column_) batch |= axis_bit(a);
    if (batch != 0) open_loop({.axes = batch, .mode = LoopMode::grid});
    for (const int axis : {column_, row_})
      open_loop({.axes = axis_bit(axis), .mode = LoopMode::grid, .range = LoopRange::tiles, .step = side});
    nest_.calls.push_back({.kind = CallKind::transpose, .m = axis_bit(row_), .n = axis_bit(column_)});
    open({.kind = NestNodeKind::call});
    for (const int axis : {row_, column_}) open_loop({.axes = axis_bit(axis), .range = LoopRange::tile});
    const auto is_crossed = [&](InstId id) {
      return std::find(crossed_.begin(), crossed_.end(), id) != crossed_.end();
    };
    add_body([&](InstId id) { return is_crossed(id); });
    nest_.nodes.back().axis = static_cast<std::uint16_t>(ComputeTime::ahead);
    add_body([&](InstId id) { return !is_crossed(id); });
    for (std::uint16_t s = 0; s < b_.kernel.stores.size(); ++s) add({.kind = NestNodeKind::store, .first = s});
    close_from(variant);
  }
  template <class Take>
  void add_body(Take&& take) {
    const std::size_t first = nest_.ids.size();
    for (std::size_t i = 0; i < b_.kernel.body.size(); ++i) {
      const auto id = static_cast<InstId>(i);
      if (b_.is_live(i) && b_.inst(id).prim != Prim::immediate && take(id)) nest_.ids.push_back(id);
    }
    add_ids_since(NestNodeKind::compute, first);
  }

  const BoundKernel& b_;
  int row_ = -1, column_ = -1;
  std::vector<InstId> crossed_;
};

SINTER_DECL std::optional<LoopNest> build_transpose_nest(const BoundKernel& bound) {
  return TransposeNestBuilder(bound).run();
}

class TransposeWriter {
 public:
  TransposeWriter(Writer& writer, const LoopNest& nest)
      : w(writer),
        bound(writer.bound),
        row_(std::countr_zero(nest.calls[0].m)),
        column_(std::countr_zero(nest.calls[0].n)) {
    for (const Loop& loop : nest.loops)
      if (loop.range == LoopRange::tiles) side_ = loop.step;
    for (const NestNode& node : nest.nodes) {
      if (node.kind == NestNodeKind::stage) threads_ = node.count;
      if (node.kind != NestNodeKind::compute) continue;
      const auto ids = nest.ids_of(node);
      values_.insert(values_.end(), ids.begin(), ids.end());
      if (node.axis != 0) crossed_ = values_;
    }
    std::sort(values_.begin(), values_.end());
    for (int a : bound.parallel)
      if (a != row_ && a != column_) batch_.push_back(a);
  }

  void run() {
    w.set_vector(column_, 1);
    const std::string entry = w.entry("transpose", threads_);
    const std::int64_t row_tiles = quotient_up(bound.extent(row_), side_),
                       column_tiles = quotient_up(bound.extent(column_), side_);
    w.line("const int tx = (int)threadIdx.x % 32, ty = (int)threadIdx.x / 32;");
    w.line("const I block = (I)blockIdx.x;");
    w.line("const I rest = " + w.divided("block", "rt", row_tiles) + ";");
    w.line("const I batch = " + w.divided("rest", "ct", column_tiles) + ";");
    w.line("const I first_row = (block - rest * " + w.number("rt", row_tiles) + ") * 32;");
    w.line("const I first_column = (rest - batch * " + w.number("ct", column_tiles) + ") * 32;");
    index_ = w.decode("batch", batch_);
    for (InstId id : crossed_)
      w.line("__shared__ " + memory_type(bound.dtype_of(bound.inst(id).access)) + " square" + str(id) + "[32][33];");
    open_point("first_row + tx", "first_column + ty + i * 8");
    for (InstId id : crossed_)
      w.line("square" + str(id) + "[ty + i * 8][tx] = " +
             w.element(bound.inst(id).access, w.offset(bound.inst(id).access, index_), "") + ";");
    close_point();
    w.line("__syncthreads();");
    open_point("first_row + ty + i * 8", "first_column + tx");
    compute();
    close_point();
    w.close();
    w.add_step(entry, row_tiles * column_tiles * bound.points(batch_), 1, threads_);
  }

 private:
  static std::string str(std::int64_t number) { return std::to_string(number); }

  void open_point(const std::string& row, const std::string& column) {
    const std::string x = "x" + str(row_), y = "x" + str(column_);
    w.unroll("for (int i = 0; i < 4; ++i)");
    w.line("const I " + x + " = " + row + ", " + y + " = " + column + ";");
    const std::string columns = w.extent(column_), rows = w.extent(row_);  // in this order, whatever the compiler
    w.open("if (" + x + " < " + rows + " && " + y + " < " + columns + ")");
    index_[as_index(row_)] = x, index_[as_index(column_)] = y;
  }
  void close_point() { w.close(), w.close(); }

  void compute() {
    for (const InstId id : values_) {
      const bool is_crossed = std::binary_search(crossed_.begin(), crossed_.end(), id);
      const std::string value = is_crossed ? w.loaded(bound.inst(id).access, "square" + str(id) + "[tx][ty + i * 8]")
                                           : w.value_of(id, index_, "");
      w.line("const " + w.declaration(id) + " = " + value + ";");
      w.name[id] = "v" + str(id);
    }
    for (const Store& store : bound.kernel.stores) w.store_one(store, w.name[store.value], index_, "");
  }

  Writer& w;
  const BoundKernel& bound;
  int row_ = -1, column_ = -1, threads_ = 0;
  std::int64_t side_ = 0;
  AxisList batch_;
  std::vector<InstId> crossed_, values_;
  IndexNames index_;
};

SINTER_DECL void write_transpose(Writer& writer, const LoopNest& nest) { TransposeWriter(writer, nest).run(); }

}  // namespace cuda_source_detail
SINTER_NAMESPACE_END
