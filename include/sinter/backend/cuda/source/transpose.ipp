// The choice of the axes, and the kernel.
#pragma once

#include <sinter/backend/cuda/source/transpose.hpp>

#include <sinter/base/index.hpp>

#include <algorithm>

SINTER_NAMESPACE_BEGIN
namespace cuda_source_detail {

class TransposeWriter {
 public:
  explicit TransposeWriter(Writer& writer) : w(writer), bound(writer.bound) {}

  bool choose() {
    if (bound.parallel.size() < 2) return false;
    column_ = bound.parallel.back();
    for (std::size_t i = 0; i < bound.kernel.body.size(); ++i) {
      const Inst& inst = bound.kernel.body[i];
      if (!bound.is_live(i) || inst.prim != Prim::load || bound.stride_class(inst.access, column_) != StrideClass::any)
        continue;
      for (int a : bound.parallel) {
        if (a == column_ || bound.stride_class(inst.access, a) != StrideClass::unit || (row_ >= 0 && row_ != a))
          continue;
        row_ = a;
        crossed_.push_back(static_cast<InstId>(i));
      }
    }
    if (row_ < 0 || crossed_.size() > 4) return false;
    for (int a : bound.parallel)
      if (a != row_ && a != column_) batch_.push_back(a);
    return bound.extent(row_) >= 16 && bound.extent(column_) >= 16;
  }

  void run() {
    w.set_vector(column_, 1);
    const std::string entry = w.entry("transpose", threads);
    const std::int64_t row_tiles = quotient_up(bound.extent(row_), side),
                       column_tiles = quotient_up(bound.extent(column_), side);
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
    w.add_step(entry, row_tiles * column_tiles * bound.points(batch_), 1, threads);
  }

 private:
  static constexpr int threads = 256, side = 32;
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
    for (std::size_t i = 0; i < bound.kernel.body.size(); ++i) {
      const auto id = static_cast<InstId>(i);
      if (!bound.is_live(i) || bound.inst(id).prim == Prim::immediate) continue;
      const bool is_crossed = std::find(crossed_.begin(), crossed_.end(), id) != crossed_.end();
      const std::string value = is_crossed ? w.loaded(bound.inst(id).access, "square" + str(id) + "[tx][ty + i * 8]")
                                           : w.value_of(id, index_, "");
      w.line("const " + w.declaration(id) + " = " + value + ";");
      w.name[i] = "v" + str(id);
    }
    for (const Store& store : bound.kernel.stores) w.store_one(store, w.name[store.value], index_, "");
  }

  Writer& w;
  const BoundKernel& bound;
  int row_ = -1, column_ = -1;
  AxisList batch_;
  std::vector<InstId> crossed_;
  IndexNames index_;
};

SINTER_DECL bool write_transpose(Writer& writer) {
  TransposeWriter transpose(writer);
  if (!transpose.choose()) return false;
  transpose.run();
  return true;
}

}  // namespace cuda_source_detail
SINTER_NAMESPACE_END
