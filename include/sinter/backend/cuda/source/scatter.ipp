// Three methods. Atomics: a thread for each value, where the combiner is exact (sums and extrema of integers). By
// places: a warp owns one place of the gathered axis and 128 elements of what lies inside it, looks through all indices
// 32 at a time, and takes in what is meant for it. In order: a thread owns one point of the axes along which places
// differ and goes through all others, changing memory. The last two are chosen by an estimate of their time.
#pragma once

#include <sinter/backend/cuda/source/scatter.hpp>

#include <sinter/base/index.hpp>

#include <algorithm>

SINTER_NAMESPACE_BEGIN
namespace cuda_source_detail {

class ScatterWriter {
 public:
  explicit ScatterWriter(Writer& writer)
      : w(writer), nest(writer.nest), store_(nest.kernel.stores[0]), dtype_(nest.inst(store_.value).dtype) {
    for (int a : nest.parallel) {
      const bool is_free = nest.stride_class(store_.access, a) != StrideClass::zero;
      (!is_free ? colliding_ : nest.varies(store_.index, a) ? free_indexed_ : free_).push_back(a);
      if (is_free) all_free_.push_back(a);
      if (nest.varies(store_.index, a)) indexed_.push_back(a);
    }
    w.set_vector(-1, 1);
  }

  void run() {
    write_check();
    if (is_atomic()) return write_atomic();
    const double places = static_cast<double>(extent()), indices = static_cast<double>(nest.points(colliding_));
    const double by_places = static_cast<double>(nest.points(free_indexed_)) * places *
                             static_cast<double>(quotient_up(nest.points(free_), 128)) * (indices / 32 + 4) * 1.2e-11;
    const double in_order = indices * 0.6e-6 * static_cast<double>(quotient_up(nest.points(all_free_), 200000));
    if (by_places <= in_order) write_by_places();
    else write_in_order();
  }

 private:
  bool is_atomic() const {
    const bool has_atomic =
        store_.combine == Combine::add || store_.combine == Combine::min || store_.combine == Combine::max;
    const bool is_whole = nest.dtype_of(store_.access) == dtype_ && (dtype_ == DType::i32 || dtype_ == DType::i64);
    return has_atomic && (is_whole || is_unsigned());
  }
  /// u64 is computed on the bits of i64; extrema are those of the unsigned numbers.
  bool is_unsigned() const { return nest.dtype_of(store_.access) == DType::u64; }
  std::int64_t extent() const { return nest.geometry.accesses[store_.access].gather_extent; }
  std::string extent_name() { return w.number("g" + Writer::str(store_.access), extent()); }
  std::string place_stride() {
    return w.number("t" + Writer::str(store_.access), nest.geometry.accesses[store_.access].gather_stride);
  }
  static IndexNames joined(IndexNames a, const IndexNames& b) {
    for (std::size_t i = 0; i < a.size(); ++i)
      if (a[i].empty()) a[i] = b[i];
    return a;
  }
  std::string combined_with(const std::string& old, const std::string& value) const {
    switch (store_.combine) {
      case Combine::none: return value;
      case Combine::add: return combined(Prim::reduce_add, dtype_, old, value);
      case Combine::mul: return combined(Prim::reduce_mul, dtype_, old, value);
      case Combine::min: return combined(Prim::reduce_min, dtype_, old, value);
      case Combine::max: return combined(Prim::reduce_max, dtype_, old, value);
    }
    __builtin_unreachable();
  }

  /// Declares what value `id` is made of, at these indices; its name.
  std::string value_at(InstId id, const IndexNames& at) {
    const std::vector<bool> under = instructions_under(nest.kernel.body, id);
    for (std::size_t i = 0; i < under.size(); ++i) {
      const auto inst = static_cast<InstId>(i);
      if (!under[i] || nest.inst(inst).prim == Prim::immediate) continue;
      const std::string value = w.value_of(inst, at, "");
      w.name[i] = "v" + Writer::str(inst);
      w.line("const " + w.declaration(inst) + " = " + value + ";");
    }
    return w.name[id];
  }
  void read_index(const IndexNames& at) {
    w.line("const long long found = (long long)" + value_at(store_.index, at) + ";");
  }
  std::string target() const { return w.pointer(store_.access); }
  std::string old_value(const std::string& place) const { return w.loaded(store_.access, place); }
  /// A kernel over `items`, one for each thread, that does nothing where an index was out of range.
  std::string open_items(const char* suffix, std::int64_t items, int threads) {
    const std::string entry = w.entry(suffix, threads);
    w.line("const I item = (I)blockIdx.x * " + Writer::str(threads) + " + (I)threadIdx.x;");
    w.line("if (item >= " + w.number("n" + std::string(suffix), items) + ") return;");
    return entry;
  }
  void skip_after_fault() { w.line("if (a.fault[0] != 0) return;"); }

  void write_check() {
    const std::int64_t items = nest.points(indexed_);
    const std::string entry = open_items("check", items, 256);
    IndexNames at;
    if (!indexed_.empty()) at = w.decode("item", indexed_);
    read_index(at);
    w.line("gather_ok(found, " + extent_name() + ", a.fault, a.tag);");
    w.close();
    w.add_step(entry, quotient_up(items, 256), 1, 256);
  }

  void write_atomic() {
    const std::int64_t items = nest.points(nest.parallel);
    const std::string entry = open_items("scatter", items, 256);
    skip_after_fault();
    IndexNames at;
    if (!nest.parallel.empty()) at = w.decode("item", nest.parallel);
    read_index(at);
    w.open("");
    const std::string value = value_at(store_.value, at);
    const char* const function = store_.combine == Combine::add   ? "atomicAdd"
                                 : store_.combine == Combine::min ? "atomicMin"
                                                                  : "atomicMax";
    const bool is_wide_sum = dtype_ == DType::i64 && store_.combine == Combine::add;
    const std::string type = is_wide_sum || is_unsigned() ? "unsigned long long" : value_type(dtype_);
    w.line(std::string(function) + "((" + type + "*)(" + target() + " + " + w.offset(store_.access, at) +
           " + (I)found * " + place_stride() + "), (" + type + ")" + value + ");");
    w.close();
    w.close();
    w.add_step(entry, quotient_up(items, 256), 1, 256);
  }

  void write_by_places() {
    const std::string entry = w.entry("scatter", 256);
    const std::int64_t inside = nest.points(free_), positions = nest.points(colliding_);
    const std::int64_t items = nest.points(free_indexed_) * extent();
    const std::string inner = w.number("inner", inside), indices = w.number("indices", positions);
    w.line("const int lane = (int)threadIdx.x % 32;");
    w.line("const I item = (I)blockIdx.x * 8 + (int)threadIdx.x / 32;");
    w.line("if (item >= " + w.number("items", items) + ") return;");
    skip_after_fault();
    w.line("const I outside = item / " + w.number("places", extent()) + ";");
    w.line("const I place = item - outside * " + w.number("places", extent()) + ";");
    IndexNames at;
    if (!free_indexed_.empty()) at = w.decode("outside", free_indexed_);
    w.line("I to[4];");
    w.line(value_type(dtype_) + " sum[4];");
    w.unroll("for (int c = 0; c < 4; ++c)");
    const IndexNames inside_at = open_inside(at, inner);
    w.line("to[c] = " + w.offset(store_.access, inside_at) + " + place * " + place_stride() + ";");
    w.line("sum[c] = " + old_value("(" + target() + ")[to[c]]") + ";");
    w.close();
    w.open("for (I base = 0; base < " + indices + "; base += 32)");
    w.line("const I position = base + lane;");
    w.line("bool is_hit = false;");
    w.open("if (position < " + indices + ")");
    IndexNames here = at;
    if (!colliding_.empty()) here = joined(at, w.decode("position", colliding_));
    read_index(here);
    w.line("is_hit = found == place;");
    w.close();
    w.open("for (unsigned hits = __ballot_sync(0xffffffffu, is_hit); hits != 0; hits &= hits - 1)");
    w.line("const I hit = base + __ffs((int)hits) - 1;");
    IndexNames there = at;
    if (!colliding_.empty()) there = joined(at, w.decode("hit", colliding_));
    w.unroll("for (int c = 0; c < 4; ++c)");
    const IndexNames point = open_inside(there, inner);
    const std::string value = value_at(store_.value, point);
    w.line("sum[c] = " + combined_with("sum[c]", value) + ";");
    w.close();
    w.close();
    w.close();
    w.line("#pragma unroll");
    w.line("for (int c = 0; c < 4; ++c) if ((I)blockIdx.y * 128 + lane + c * 32 < " + inner + ") (" + target() +
           ")[to[c]] = sum[c];");
    w.close();
    w.add_step(entry, quotient_up(items, 8), quotient_up(inside, 128), 256);
  }
  /// The indices of element `c` of the lane, the first one where there is none.
  IndexNames open_inside(const IndexNames& at, const std::string& inner) {
    w.line("const I wanted = (I)blockIdx.y * 128 + lane + c * 32, i = wanted < " + inner + " ? wanted : 0;");
    return free_.empty() ? at : joined(at, w.decode("i", free_));
  }

  void write_in_order() {
    const std::int64_t items = nest.points(all_free_);
    const std::string entry = open_items("scatter", items, 128);
    skip_after_fault();
    IndexNames at;
    if (!all_free_.empty()) at = w.decode("item", all_free_);
    w.line("const I to = " + w.offset(store_.access, at) + ";");
    w.open("for (I position = 0; position < " + w.number("indices", nest.points(colliding_)) + "; ++position)");
    IndexNames here = at;
    if (!colliding_.empty()) here = joined(at, w.decode("position", colliding_));
    read_index(here);
    w.line(memory_type(nest.dtype_of(store_.access)) + "* const target = " + target() + " + to + (I)found * " +
           place_stride() + ";");
    w.open("");
    const std::string value = value_at(store_.value, here);
    w.line("*target = " + combined_with(old_value("*target"), value) + ";");
    w.close();
    w.close();
    w.close();
    w.add_step(entry, quotient_up(items, 128), 1, 128);
  }

  Writer& w;
  const Nest& nest;
  const Store store_;
  const DType dtype_;
  AxisList colliding_, free_, free_indexed_, all_free_, indexed_;
};

SINTER_DECL void write_scatter(Writer& writer) { ScatterWriter(writer).run(); }

}  // namespace cuda_source_detail
SINTER_NAMESPACE_END
