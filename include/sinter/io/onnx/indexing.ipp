// Operators of ONNX that read and write at indices, order, and find.
#pragma once

#include <sinter/io/onnx/indexing.hpp>

#include <sinter/base/index.hpp>
#include <sinter/expr/creation.hpp>
#include <sinter/expr/cumulative.hpp>
#include <sinter/expr/expr.hpp>
#include <sinter/expr/found.hpp>
#include <sinter/expr/functions.hpp>
#include <sinter/expr/gather_scatter.hpp>
#include <sinter/expr/layers.hpp>
#include <sinter/expr/order.hpp>
#include <sinter/expr/shapes.hpp>

#include <algorithm>

SINTER_NAMESPACE_BEGIN
namespace io::onnx_detail {

/// Indices count from the end where they are negative.
inline Tensor counted_from_start(const NodeCall& call, const Operand& indices, Dim extent) {
  const Tensor index = indices.tensor(call.where()).to(DType::i64, call.where());
  if (const std::vector<Dim>* known = indices.integers()) {
    bool is_negative = false;
    for (const Dim dim : *known) is_negative |= dim.is_static() && dim.value() < 0;
    if (!is_negative) return index;
  }
  const Tensor moved = call.make("add", {call.in(index), In(extent, call.where())});
  return call.make("where",
                   {call.in(call.make("lt", {call.in(index), In(0, call.where())})), call.in(moved), call.in(index)});
}

inline Operands run_gather(const NodeCall& call) {
  const Operand &from = call.operand(0), &indices = call.operand(1);
  if (from.integers() != nullptr && from.rank() == 1 && indices.integers() != nullptr) {
    std::vector<Dim> part;
    for (const Dim at : *indices.integers()) {
      const auto n = static_cast<std::int64_t>(from.integers()->size());
      const std::int64_t place = static_cast<std::int64_t>(at);
      part.push_back((*from.integers())[as_index(call.axis(place, static_cast<int>(n)))]);
    }
    return {Operand::of_integers(std::move(part), indices.rank() == 0, from.dtype())};
  }
  const Tensor x = call.x(0);
  const int axis = call.axis(call.integer("axis", 0), x.rank());
  return {take(call.in(x), call.in(counted_from_start(call, indices, x.shape()[axis])), axis)};
}
/// The index may be smaller than x along other axes, too.
inline Operands run_gather_elements(const NodeCall& call) {
  Tensor x = call.x(0);
  const int axis = call.axis(call.integer("axis", 0), x.rank());
  const Tensor index = counted_from_start(call, call.operand(1), x.shape()[axis]);
  if (index.rank() != x.rank()) call.fail("indices " + index.shape().text() + " of " + x.shape().text());
  for (int i = 0; i < x.rank(); ++i)
    if (i != axis && !(x.shape()[i] == index.shape()[i])) x = narrow(call.in(x), i, 0, index.shape()[i]);
  return {take_along_axis(call.in(x), call.in(index), axis)};
}

/// Indices (..., k) as one list of places in the first k axes of x after `batch`, which are counted through as one.
struct Places {
  Tensor index;  // i64, (batch..., rest...)
  Shape outer, inner;
  Dim extent = 1;
  int count = 0;
};
inline Places places_of(const NodeCall& call, const Tensor& x, const Operand& indices, int batch) {
  const Tensor index = indices.tensor(call.where()).to(DType::i64, call.where());
  Places out;
  if (index.rank() < 1) call.fail("indices of rank 0");
  const auto count = static_cast<std::int64_t>(index.shape()[-1]);
  if (batch < 0 || batch > index.rank() - 1 || count < 1 || batch + count > x.rank())
    call.fail("indices of " + std::to_string(count) + " axes after " + std::to_string(batch) + " of " +
              x.shape().text());
  out.count = static_cast<int>(count);
  for (int i = 0; i < batch; ++i) out.outer.push_back(x.shape()[i]);
  for (int i = batch + out.count; i < x.rank(); ++i) out.inner.push_back(x.shape()[i]);
  for (int i = 0; i < out.count; ++i) {
    const Dim extent = x.shape()[batch + i];
    const Tensor at = counted_from_start(call, Operand(select(call.in(index), -1, i)), extent);
    out.index =
        i == 0 ? at
               : Tensor(call.make(
                     "add", {call.in(call.make("mul", {call.in(out.index), In(extent, call.where())})), call.in(at)}));
    out.extent *= extent;
  }
  return out;
}
inline Shape joined(const Shape& a, Dim middle, const Shape& b) {
  Shape out = a;
  out.push_back(middle);
  for (const Dim extent : b) out.push_back(extent);
  return out;
}
inline Operands run_gather_nd(const NodeCall& call) {
  const Tensor x = call.x(0);
  const int batch = static_cast<int>(std::clamp<std::int64_t>(call.integer("batch_dims", 0), -1, max_rank));
  const Places at = places_of(call, x, call.operand(1), batch);
  const Tensor rows = reshape(call.in(x), joined(at.outer, at.extent, at.inner));
  if (batch == 0) return {take(call.in(rows), call.in(at.index), 0)};
  // Batch axes are counted through together with the places.
  const Dim examples = at.outer.numel();
  const Tensor flat = reshape(call.in(x), joined(Shape(), examples * at.extent, at.inner));
  Shape starts = at.outer;
  while (starts.rank() < at.index.rank()) starts.push_back(1);
  const Tensor first =
      call.make("mul", {call.in(arange(examples, {.dtype = DType::i64}, call.where())), In(at.extent, call.where())});
  const Tensor index = call.make("add", {call.in(at.index), call.in(reshape(call.in(first), starts))});
  return {take(call.in(flat), call.in(index), 0)};
}

inline std::optional<ScatterReduction> reduction_of(const NodeCall& call) {
  const std::string name = call.text("reduction", "none");
  if (name == "add") return ScatterReduction::sum;
  if (name == "mul") return ScatterReduction::prod;
  if (name == "max") return ScatterReduction::amax;
  if (name == "min") return ScatterReduction::amin;
  if (name != "none") call.fail("the reduction is '" + name + "'");
  return {};
}
inline Operands run_scatter_elements(const NodeCall& call) {
  const Tensor x = call.x(0), updates = call.x(2);
  const int axis = call.axis(call.integer("axis", 0), x.rank());
  const Tensor index = counted_from_start(call, call.operand(1), x.shape()[axis]);
  const auto reduction = reduction_of(call);
  return {reduction ? scatter_reduce(call.in(x), axis, call.in(index), call.in(updates), *reduction)
                    : scatter(call.in(x), axis, call.in(index), call.in(updates))};
}
inline Operands run_scatter_nd(const NodeCall& call) {
  const Tensor x = call.x(0), updates = call.x(2);
  const Places at = places_of(call, x, call.operand(1), 0);
  const Tensor rows = reshape(call.in(x), joined(Shape(), at.extent, at.inner));
  const Dim count = at.index.numel();
  const Tensor index = reshape(call.in(at.index), Shape{count});
  const Tensor source = reshape(call.in(updates), joined(Shape(), count, at.inner));
  const auto reduction = reduction_of(call);
  const Tensor out = reduction ? index_reduce(call.in(rows), 0, call.in(index), call.in(source), *reduction)
                               : index_copy(call.in(rows), 0, call.in(index), call.in(source));
  return {reshape(call.in(out), x.shape())};
}

inline Operands run_one_hot(const NodeCall& call) {
  const Tensor values = call.x(2);
  const Dim depth = call.dim(1);
  const int rank = call.operand(0).rank() + 1;
  const int axis = call.axis(call.integer("axis", -1), rank);
  const Tensor index = unsqueeze(call.in(counted_from_start(call, call.operand(0), depth)), axis);
  Shape classes;
  for (int i = 0; i < rank; ++i) classes.push_back(i == axis ? depth : Dim(1));
  const Tensor numbers = reshape(call.in(arange(depth, {.dtype = DType::i64}, call.where())), classes);
  const Tensor is_class = call.make("eq", {call.in(index), call.in(numbers)});
  return {call.make(
      "where", {call.in(is_class), call.in(select(call.in(values), 0, 1)), call.in(select(call.in(values), 0, 0))})};
}
inline Operands run_compress(const NodeCall& call) {
  Tensor x = call.x(0);
  const Tensor condition = call.x(1);
  int axis = 0;
  if (call.has_attribute("axis")) axis = call.axis(call.integer("axis", 0), x.rank());
  else x = ravel(call.in(x));
  return {take(call.in(x), call.in(flatnonzero(call.in(condition))), axis)};
}
inline Operands run_topk(const NodeCall& call) {
  const Tensor x = call.x(0);
  const Dim count = call.has(1) ? call.dim(1) : Dim(call.integer("k", 1));
  const auto [values, indices] = topk(call.in(x), count, call.axis(call.integer("axis", -1), x.rank()),
                                      {.largest = call.flag("largest", true), .sorted = true});
  return {values, indices};
}
inline Operands run_cumulative(const NodeCall& call) {
  const Tensor x = call.x(0);
  const int axis = call.axis(call.integer(1), x.rank());
  const CumulativeOptions options{.exclusive = call.flag("exclusive"), .reverse = call.flag("reverse")};
  const Tensor out = call.op() == "CumSum" ? cumsum(call.in(x), axis, options) : cumprod(call.in(x), axis, options);
  return {out.to(x.dtype(), call.where())};
}
inline Operands run_unique(const NodeCall& call) {
  UniqueOptions options{.sorted = call.flag("sorted", true)};
  Tensor x = call.x(0);
  if (call.has_attribute("axis")) options.axis = call.axis(call.integer("axis", 0), x.rank());
  const auto [values, inverse, counts] = unique(call.in(x), options);
  Operands out{values};
  if (call.wants(1)) {  // where each is for the first time
    const Tensor list = ravel(call.in(inverse));
    const Dim n = list.numel();
    const Tensor none = full(counts.shape(), Scalar(n), {.dtype = DType::i64}, call.where());
    out.push_back(scatter_reduce(call.in(none), 0, call.in(list),
                                 call.in(arange(n, {.dtype = DType::i64}, call.where())), ScatterReduction::amin));
  } else {
    out.push_back({});
  }
  out.push_back(ravel(call.in(inverse)));
  out.push_back(counts);
  return out;
}
inline Operands run_reverse_sequence(const NodeCall& call) {
  const Tensor x = call.x(0), lengths = call.x(1);
  const int batch = call.axis(call.integer("batch_axis", 1), x.rank());
  const int time = call.axis(call.integer("time_axis", 0), x.rank());
  Shape of_time, of_batch;
  for (int i = 0; i < x.rank(); ++i) {
    of_time.push_back(i == time ? x.shape()[i] : Dim(1));
    of_batch.push_back(i == batch ? x.shape()[i] : Dim(1));
  }
  const Tensor at = reshape(call.in(arange(x.shape()[time], {.dtype = DType::i64}, call.where())), of_time);
  const Tensor end = reshape(call.in(lengths), of_batch);
  const Tensor mirrored =
      call.make("sub", {call.in(call.make("sub", {call.in(end), In(1, call.where())})), call.in(at)});
  const Tensor index =
      call.make("where", {call.in(call.make("lt", {call.in(at), call.in(end)})), call.in(mirrored), call.in(at)});
  return {take_along_axis(call.in(x), call.in(expand(call.in(index), x.shape())), time)};
}

SINTER_DECL std::span<const Operator> indexing_operators() {
  static constexpr Operator table[] = {
      {"Gather", run_gather},
      {"GatherElements", run_gather_elements},
      {"GatherND", run_gather_nd},
      {"Scatter", run_scatter_elements},
      {"ScatterElements", run_scatter_elements},
      {"ScatterND", run_scatter_nd},
      {"OneHot", run_one_hot},
      {"Compress", run_compress},
      {"TopK", run_topk},
      {"CumSum", run_cumulative},
      {"CumProd", run_cumulative},
      {"NonZero",
       [](const NodeCall& call) -> Operands { return {transpose(call.in(nonzero(call.in(call.x(0)))), 0, 1)}; }},
      {"Unique", run_unique},
      {"ReverseSequence", run_reverse_sequence},
  };
  return table;
}

}  // namespace io::onnx_detail
SINTER_NAMESPACE_END
