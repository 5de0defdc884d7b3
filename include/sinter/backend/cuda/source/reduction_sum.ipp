// The lines.
#pragma once

#include <sinter/backend/cuda/source/reduction_sum.hpp>

#include <sinter/backend/cuda/source/scalar.hpp>
#include <sinter/base/index.hpp>

#include <algorithm>

SINTER_NAMESPACE_BEGIN
namespace cuda_source_detail {

SINTER_DECL SumText::SumText(Writer& writer, const ThreadShape& the_shape, InstId id)
    : w(writer), shape(the_shape), id_(id), inst_(writer.bound.inst(id)), sum_("sum" + str(id)) {}

SINTER_DECL void SumText::declare(bool is_array) {
  const std::string start = neutral(inst_.prim, inst_.dtype);
  if (!is_array) {
    w.line(type() + " " + sum_ + " = " + start + ";");
    return;
  }
  w.line(type() + " " + sum_ + "[" + str(shape.width) + "];");
  w.line("#pragma unroll");
  w.line("for (int j = 0; j < " + str(shape.width) + "; ++j) " + sum_ + "[j] = " + start + ";");
}

SINTER_DECL void SumText::feed(const std::string& place) {
  const std::string sum = sum_ + place;
  if (inst_.prim == Prim::contract) {
    const Inst step{.prim = Prim::fma, .dtype = inst_.dtype};
    w.line(sum + " = " + expression(step, inst_.dtype, {w.name[inst_.args[0]], w.name[inst_.args[1]], sum}) + ";");
  } else {
    w.line(sum + " = " + combined(inst_.prim, inst_.dtype, sum, w.name[inst_.args[0]]) + ";");
  }
}

SINTER_DECL void SumText::shuffle(const std::string& value, int lanes, bool is_rolled) {
  const bool is_bool = inst_.dtype == DType::bool_;
  if (is_rolled) {
    w.line("#pragma unroll 1");
    w.open("for (int m = " + str(lanes / 2) + "; m > 0; m /= 2)");
  } else w.unroll("for (int m = " + str(lanes / 2) + "; m > 0; m /= 2)");
  w.line("const " + type() + " other = " +
         (is_bool ? "0 != __shfl_xor_sync(0xffffffffu, (int)" : "__shfl_xor_sync(0xffffffffu, ") + value + ", m);");
  w.line(value + " = " + combined(inst_.prim, inst_.dtype, value, "other") + ";");
  w.close();
}

SINTER_DECL void SumText::put_row_together() {
  const int lanes = shape.lanes / shape.cluster;  // of a block
  const std::string v = "v" + str(id_), shared = "shared" + str(id_), warps = str(lanes / 32);
  if (lanes > 1) shuffle(sum_, std::min(lanes, 32), false);
  if (lanes <= 32) {
    w.line("const " + type() + " " + v + " = " + sum_ + ";");
    return;
  }
  w.line("__shared__ " + type() + " " + shared + "[" + str(shape.threads() / 32) + "];");
  w.line("if (threadIdx.x % 32 == 0) " + shared + "[threadIdx.x / 32] = " + sum_ + ";");
  w.line("__syncthreads();");
  w.line(type() + " " + v + " = " + shared + "[group * " + warps + " + (int)(threadIdx.x % " + warps + ")];");
  shuffle(v, lanes / 32, false);
  if (shape.cluster > 1) put_cluster_together();
}

/// Each block has what all blocks have, in their order.
SINTER_DECL void SumText::put_cluster_together() {
  const std::string v = "v" + str(id_), met = "met" + str(id_), blocks = str(shape.cluster);
  w.line("__shared__ " + type() + " " + met + "[" + blocks + "];");
  w.line("if (threadIdx.x < " + blocks + ") put_in_block((int)threadIdx.x, " + met + " + rank, " + v + ");");
  w.line("cluster_arrive();");
  w.line("cluster_wait();");
  w.line(v + " = " + met + "[threadIdx.x % " + blocks + "];");
  shuffle(v, shape.cluster, false);
}

SINTER_DECL void SumText::put_columns_together(ColumnScratch scratch) {
  const std::string v = "v" + str(id_), width = str(shape.width), groups = str(shape.groups);
  w.line(type() + " " + v + "[" + width + "];");
  const std::string each = "for (int j = 0; j < " + width + "; ++j) ";
  if (shape.lanes == 1) {
    w.line("#pragma unroll");
    w.line(each + v + "[j] = " + sum_ + "[j];");
    return;
  }
  if (scratch == ColumnScratch::is_new)
    w.line("__shared__ __align__(16) unsigned char scratch[" + str(shape.threads() * shape.width * 8) + "];");
  w.open("");
  w.line(type() + "* const mine = (" + type() +
         "*)scratch + threadIdx.x;");  // element j of a thread: mine[j * threads]
  const std::string threads = str(shape.threads());
  w.line("__syncthreads();");
  w.line("#pragma unroll");
  w.line(each + "mine[j * " + threads + "] = " + sum_ + "[j];");
  w.line("#pragma unroll 1");
  w.open("for (int half = " + str(shape.lanes / 2) + "; half > 0; half /= 2)");
  w.line("__syncthreads();");
  w.open("if (lane < half)");
  w.line("#pragma unroll");
  w.line(each + "mine[j * " + threads + "] = " +
         combined(inst_.prim, inst_.dtype, "mine[j * " + threads + "]",
                  "mine[j * " + threads + " + half * " + groups + "]") +
         ";");
  w.close();
  w.close();
  w.line("__syncthreads();");
  w.line("#pragma unroll");
  w.line(each + v + "[j] = ((" + type() + "*)scratch + group)[j * " + threads + "];");
  w.close();
}

SINTER_DECL std::string SumText::partials(std::int64_t place) {
  return "((" + type() + "*)(a.workspace + " + w.number("w" + str(id_), place) + "))";
}
SINTER_DECL void SumText::write_partial(std::int64_t place, std::int64_t outputs) {
  w.open("if (lane == 0 && is_live)");
  const std::string outputs_text = w.number("outputs", outputs);
  if (shape.is_column) {
    w.line("#pragma unroll");
    w.line("for (int j = 0; j < " + str(shape.width) + "; ++j) " + partials(place) + "[(I)blockIdx.y * " +
           outputs_text + " + item * " + str(shape.width) + " + j] = v" + str(id_) + "[j];");
  } else {
    w.line(partials(place) + "[(I)blockIdx.y * " + outputs_text + " + item] = v" + str(id_) + ";");
  }
  w.close();
}

/// Several loads at once, the last of them idle: a loop unrolled by the compiler is three loops.
SINTER_DECL void SumText::read_partials(std::int64_t place, std::int64_t outputs, const Loop& loop) {
  const std::string splits = w.number("splits", shape.splits), batch = str(loop.copies),
                    outputs_text = w.number("outputs", outputs), start = neutral(inst_.prim, inst_.dtype),
                    each = "for (int i = 0; i < " + batch + "; ++i) ", at = "s + i * " + str(loop.lanes);
  w.line(type() + " " + sum_ + " = " + start + ";");
  w.line("#pragma unroll 1");
  w.open("for (I s = lane; s < " + splits + "; s += " + str(loop.lanes * loop.copies) + ")");
  w.line(type() + " piece[" + batch + "];");
  w.line("#pragma unroll");
  w.line(each + "piece[i] = " + at + " < " + splits + " ? " + partials(place) + "[(" + at + ") * " + outputs_text +
         " + item] : " + start + ";");
  w.line("#pragma unroll");
  w.line(each + sum_ + " = " + combined(inst_.prim, inst_.dtype, sum_, "piece[i]") + ";");
  w.close();
  if (loop.lanes > 1) shuffle(sum_, loop.lanes, true);
}

}  // namespace cuda_source_detail
SINTER_NAMESPACE_END
