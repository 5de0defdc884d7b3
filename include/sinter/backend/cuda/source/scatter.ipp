// Two methods, chosen by an estimate of their time. By places: a warp owns one place of the axis and 128 elements of
// what lies inside it, looks through all indices 32 at a time, and adds what is meant for it. In order: a thread owns
// one element outside and inside the axis and goes through all indices, adding in memory.
#pragma once

#include <sinter/backend/cuda/source/scatter.hpp>

#include <sinter/backend/cuda/source/writer.hpp>
#include <sinter/base/index.hpp>

#include <algorithm>

SINTER_NAMESPACE_BEGIN
namespace cuda_source_detail {

/// result[outer, place, inner] = sum over the index's axes of (index == place ? value : 0), as a kernel and its
/// numbers.
struct ScatterKernel {
  Kernel kernel;
  BoundGeometry geometry;
  int place = 0;  // axis

  ScatterKernel(const ScatterOp& op, std::span<const std::int64_t> symbols) {
    const int index_rank = op.index_shape.rank(), result_rank = op.result_shape.rank();
    kernel.kind = KernelKind::column;
    kernel.operands = {{op.index_dtype, false}, {op.dtype, false}, {op.dtype, true}};
    kernel.accesses.resize(3);
    geometry.accesses.resize(3);
    for (std::uint16_t i = 0; i < 3; ++i) kernel.accesses[i].operand = i;
    std::array<std::int64_t, max_rank> result_stride{};
    std::int64_t elements = 1;
    for (int i = result_rank - 1; i >= 0; --i) {
      result_stride[as_index(i)] = elements;
      elements *= op.result_shape[i].evaluate(symbols);
    }
    geometry.accesses[0].offset = op.index.offset.evaluate(symbols);
    geometry.accesses[1].offset = op.value.offset.evaluate(symbols);
    for (int i = 0; i < result_rank; ++i) {
      if (i == op.axis) {
        place = add_axis(AxisRole::parallel, op.result_shape[i].evaluate(symbols), 0, 0, result_stride[as_index(i)]);
        for (int k = 0; k < index_rank; ++k)
          add_axis(AxisRole::reduced, op.index_shape[k].evaluate(symbols),
                   op.index.strides[as_index(k)].evaluate(symbols),
                   op.value.strides[as_index(op.axis + k)].evaluate(symbols), 0);
        if (index_rank == 0) add_axis(AxisRole::reduced, 1, 0, 0, 0);
      } else {
        const int in_value = i < op.axis ? i : i + index_rank - 1;
        add_axis(AxisRole::parallel, op.result_shape[i].evaluate(symbols), 0,
                 op.value.strides[as_index(in_value)].evaluate(symbols), result_stride[as_index(i)]);
      }
    }
    kernel.body = {
        {.prim = Prim::load, .dtype = op.index_dtype, .access = 0},
        {.prim = Prim::load, .dtype = op.dtype, .access = 1},
        {.prim = Prim::index, .dtype = DType::i64, .bits = static_cast<std::uint64_t>(place)},
        {.prim = Prim::select, .dtype = op.dtype, .args = {0, 1, 2}},
        {.prim = Prim::reduce_add, .dtype = op.dtype, .args = {3, no_inst, no_inst}}};  // never evaluated as it stands
    kernel.stores = {{2, 4}};
  }

 private:
  int add_axis(AxisRole role, std::int64_t extent, std::int64_t index, std::int64_t value, std::int64_t result) {
    const auto axis = kernel.axes.size();
    kernel.axes.push_back(role);
    geometry.extent[axis] = extent;
    const std::int64_t strides[] = {index, value, result};
    for (std::size_t i = 0; i < 3; ++i) {
      geometry.accesses[i].stride[axis] = strides[i];
      kernel.accesses[i].stride[axis] = strides[i] == 0   ? StrideClass::zero
                                        : strides[i] == 1 ? StrideClass::unit
                                                          : StrideClass::any;
    }
    return static_cast<int>(axis);
  }
};

class ScatterWriter {
 public:
  ScatterWriter(Writer& writer) : w(writer), nest(writer.nest) {
    const Inst& place = nest.kernel.body[2];
    place_ = place.prim == Prim::index ? static_cast<int>(place.bits) : -1;  // one place only: the axis is gone
    for (int a : nest.parallel)
      if (a != place_) (a < place_ ? outer_ : inner_).push_back(a);
    dtype_ = nest.kernel.body[1].dtype;
    w.set_vector(-1, 1);
  }

  void run() {
    const double places = place_ < 0 ? 1 : static_cast<double>(nest.extent(place_)),
                 indices = static_cast<double>(nest.points(nest.reduced));
    const double by_places = static_cast<double>(nest.points(outer_)) * places *
                             static_cast<double>(quotient_up(nest.points(inner_), 128)) * (indices / 32 + 4) * 1.2e-11;
    const double in_order =
        indices * 0.6e-6 * static_cast<double>(quotient_up(nest.points(outer_) * nest.points(inner_), 200000));
    if (by_places <= in_order) write_by_places();
    else write_in_order();
  }

 private:
  static std::string str(std::int64_t number) { return std::to_string(number); }
  std::string type() const { return value_type(dtype_); }
  std::string zero() const { return "(" + type() + ")0"; }
  std::string place_extent() { return w.number("places", place_ < 0 ? 1 : nest.extent(place_)); }
  std::string index_at(const IndexNames& at) { return "(long long)" + w.element(0, w.offset(0, at), ""); }
  /// Declares the place that the position `at` of the index names.
  void read_index(const IndexNames& at) { w.line("const long long found = " + index_at(at) + ";"); }
  std::string sum(const std::string& a, const std::string& b) const { return combined(Prim::reduce_add, dtype_, a, b); }
  static IndexNames joined(IndexNames a, const IndexNames& b) {
    for (std::size_t i = 0; i < a.size(); ++i)
      if (a[i].empty()) a[i] = b[i];
    return a;
  }

  void write_by_places() {
    const std::string entry = w.entry("scatter", 256), inner = w.number("inner", nest.points(inner_)),
                      indices = w.number("indices", nest.points(nest.reduced));
    AxisList axes = outer_;
    if (place_ >= 0) axes.push_back(place_);
    const std::int64_t items = nest.points(axes);
    w.line("const int lane = (int)threadIdx.x % 32;");
    w.line("const I item = (I)blockIdx.x * 8 + (int)threadIdx.x / 32;");
    w.line("if (item >= " + w.number("items", items) + ") return;");
    const IndexNames at = w.decode("item", axes);
    w.line("const long long place = " + (place_ < 0 ? std::string("0") : at[as_index(place_)]) + ";");
    w.line("I from[4], to[4];");
    w.line(type() + " sum[4] = {};");
    w.unroll("for (int c = 0; c < 4; ++c)");
    w.line("const I wanted = (I)blockIdx.y * 128 + lane + c * 32, i = wanted < " + inner + " ? wanted : 0;");
    const IndexNames inside = joined(at, w.decode("i", inner_));
    w.line("from[c] = " + w.offset(1, inside) + ", to[c] = " + w.offset(2, inside) + ";");
    w.close();
    w.open("for (I base = 0; base < " + indices + "; base += 32)");
    w.line("const I position = base + lane;");
    w.line("long long found = -1;");
    w.open("if (position < " + indices + ")");
    const IndexNames here = w.decode("position", nest.reduced);
    w.line("found = " + index_at(here) + ";");
    w.line("if (item == 0 && blockIdx.y == 0 && !gather_ok(found, " + place_extent() +
           ", a.fault, a.tag)) found = -1;");
    w.close();
    w.open("for (unsigned hits = __ballot_sync(0xffffffffu, found == place); hits != 0; hits &= hits - 1)");
    w.line("const I hit = base + __ffs((int)hits) - 1;");
    const IndexNames there = w.decode("hit", nest.reduced);
    w.line("#pragma unroll");
    w.line("for (int c = 0; c < 4; ++c) sum[c] = " +
           sum("sum[c]", w.loaded(1, "(" + w.pointer(1) + " + from[c])[" + w.offset(1, there) + "]")) + ";");
    w.close();
    w.close();
    w.line("#pragma unroll");
    w.line("for (int c = 0; c < 4; ++c) if ((I)blockIdx.y * 128 + lane + c * 32 < " + inner + ") " + w.pointer(2) +
           "[to[c]] = sum[c];");
    w.close();
    w.add_step(entry, quotient_up(items, 8), quotient_up(nest.points(inner_), 128), 256);
  }

  void write_in_order() {
    const std::int64_t elements = nest.points(nest.parallel);
    const std::string clear = w.entry("clear", 256);
    w.line("const I item = (I)blockIdx.x * 256 + (I)threadIdx.x;");
    w.line("if (item < " + w.number("elements", elements) + ") " + w.pointer(2) + "[item] = 0;");
    w.close();
    w.add_step(clear, quotient_up(elements, 256), 1, 256);
    AxisList axes = outer_;
    for (int a : inner_) axes.push_back(a);
    const std::int64_t items = nest.points(axes);
    const std::string entry = w.entry("scatter", 128);
    w.line("const I item = (I)blockIdx.x * 128 + (I)threadIdx.x;");
    w.line("if (item >= " + w.number("items", items) + ") return;");
    const IndexNames at = w.decode("item", axes);
    w.line("const I from = " + w.offset(1, at) + ", to = " + w.offset(2, at) + ";");
    w.open("for (I position = 0; position < " + w.number("indices", nest.points(nest.reduced)) + "; ++position)");
    const IndexNames here = w.decode("position", nest.reduced);
    read_index(here);
    w.line("if (!gather_ok(found, " + place_extent() + ", a.fault, a.tag)) continue;");
    const std::string stride = place_ < 0 ? "0" : w.number("s2_place", nest.stride(2, place_));
    w.line(memory_type(dtype_) + "* const target = " + w.pointer(2) + " + to + (I)found * " + stride + ";");
    w.line("*target = " +
           sum(w.loaded(2, "*target"), w.loaded(1, "(" + w.pointer(1) + " + from)[" + w.offset(1, here) + "]")) + ";");
    w.close();
    w.close();
    w.add_step(entry, quotient_up(items, 128), 1, 128);
  }

  Writer& w;
  const Nest& nest;
  AxisList outer_, inner_;
  int place_ = -1;
  DType dtype_ = DType::f32;
};

}  // namespace cuda_source_detail

namespace cuda {

SINTER_DECL LaunchList generate_scatter_add(const ScatterOp& op, std::span<const std::int64_t> symbols,
                                            const Target& target) {
  const cuda_source_detail::ScatterKernel scatter(op, symbols);
  for (int a = 0; a < scatter.kernel.rank(); ++a)
    if (!scatter.kernel.is_reduced(a) && scatter.geometry.extent[as_index(a)] == 0) return {};
  const cuda_source_detail::Nest nest = cuda_source_detail::make_nest(scatter.kernel, scatter.geometry);
  const Schedule schedule;
  cuda_source_detail::Writer writer(nest, schedule, target, 0, true);
  cuda_source_detail::ScatterWriter(writer).run();
  return writer.finish();
}

}  // namespace cuda
SINTER_NAMESPACE_END
