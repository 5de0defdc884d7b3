// The choice of a width, and the kernel.
#pragma once

#include <sinter/backend/cuda/source/pointwise.hpp>

#include <sinter/base/index.hpp>

#include <algorithm>

SINTER_NAMESPACE_BEGIN
namespace cuda_source_detail {

/// Elements per access: 16 bytes of the dtype that most operands have.
inline int widest(const Nest& nest) {
  std::int64_t largest = 1, smallest = 8;
  for (std::uint16_t access : nest.used_accesses()) {
    largest = std::max(largest, size_of(nest.dtype_of(access)));
    smallest = std::min(smallest, size_of(nest.dtype_of(access)));
  }
  return largest == 1 ? 16 : largest == 2 ? 8 : smallest == 8 ? 2 : 4;
}

SINTER_DECL int best_width(Writer& writer, int axis, bool may_have_tail) {
  int best = 1, most = 0;
  if (axis < 0) return 1;
  const int bytes = writer.is_grouped ? 16 : writer.schedule.find(ScheduleAction::vectorize).value_or(16);
  for (int width = widest(writer.nest) * bytes / 16; width > 1; width /= 2) {
    if (!may_have_tail && writer.nest.extent(axis) % width != 0) continue;
    const int packed = writer.packed_accesses(axis, width);
    if (packed > most) {
      most = packed;
      best = width;
    }
  }
  return best;
}

class PointwiseWriter {
 public:
  explicit PointwiseWriter(Writer& writer) : w(writer), nest(writer.nest) {}

  void run() {
    const AxisList& axes = nest.parallel;
    axis_ = axes.empty() ? -1 : axes.back();
    const std::int64_t points = nest.points(axes);
    width_ = best_width(w, axis_, axes.size() == 1);
    has_tail_ = axis_ >= 0 && nest.extent(axis_) % width_ != 0;
    w.set_vector(axis_, width_);
    const std::int64_t items = axis_ < 0 ? 1 : points / nest.extent(axis_) * quotient_up(nest.extent(axis_), width_);
    // Enough bytes in flight for one processor, without leaving others idle.
    int loads = 0;
    for (std::size_t i = 0; i < nest.kernel.body.size(); ++i)
      loads += nest.is_live(i) && nest.kernel.body[i].prim == Prim::load && w.is_along(static_cast<InstId>(i));
    const std::int64_t enough = std::int64_t{w.device.multiprocessors} * 2048 * 4;
    steps_ = !w.is_grouped && loads <= 2 && items >= enough * 4 ? (loads <= 1 ? 4 : 2) : 1;
    threads_ = !w.is_grouped && items < std::int64_t{w.device.multiprocessors} * 1024 ? 128 : 256;
    if (!w.is_grouped) {  // else what was measured for one size would keep it from being merged with others
      steps_ = w.schedule.find(ScheduleAction::unroll).value_or(static_cast<std::uint16_t>(steps_));
      threads_ = w.schedule.find(ScheduleAction::block).value_or(static_cast<std::uint16_t>(threads_));
    }
    const std::string entry = w.entry("pointwise", threads_);
    w.line("const I first = (I)blockIdx.x * " + Writer::str(threads_ * steps_) + " + (I)threadIdx.x;");
    load_all(items);
    compute_all(items);
    w.close();
    w.add_step(entry, quotient_up(items, std::int64_t{threads_} * steps_), 1, threads_);
  }

 private:
  void open_item(std::int64_t items) {
    w.unroll("for (int u = 0; u < " + Writer::str(steps_) + "; ++u)");
    w.line("const I item = first + u * " + Writer::str(threads_) + ";");
    w.open("if (item < " + w.number("items", items) + ")");
    index_ = w.decode("item", nest.parallel, width_);
  }
  void close_item() { w.close(), w.close(); }
  std::string in_range(const std::string& j) const { return index_[as_index(axis_)] + " + " + j + " < "; }

  bool is_plain_load(InstId id) const { return nest.is_live(id) && nest.inst(id).prim == Prim::load; }

  void load_all(std::int64_t items) {
    bool has_loads = false;
    for (std::size_t i = 0; i < nest.kernel.body.size(); ++i) {
      const auto id = static_cast<InstId>(i);
      if (!is_plain_load(id)) continue;
      has_loads = true;
      w.line(w.declaration(id) + "[" + Writer::str(w.is_along(id) ? width_ * steps_ : steps_) + "];");
    }
    if (!has_loads) return;
    open_item(items);
    for (std::size_t i = 0; i < nest.kernel.body.size(); ++i) {
      const auto id = static_cast<InstId>(i);
      if (!is_plain_load(id)) continue;
      const std::string target = "v" + Writer::str(id);
      if (!w.is_along(id)) w.line(target + "[u] = " + w.value_of(id, index_, "") + ";");
      else if (!has_tail_) w.load_vector(id, target, "u * " + Writer::str(width_), index_);
      else load_with_tail(id, target);
    }
    close_item();
  }

  void load_with_tail(InstId id, const std::string& target) {
    const std::string extent = w.extent(axis_), first = "u * " + Writer::str(width_);
    w.open("if (" + in_range(Writer::str(width_ - 1)) + extent + ")");
    w.load_vector(id, target, first, index_);
    w.close();
    w.open("else");
    w.unroll("for (int j = 0; j < " + Writer::str(width_) + "; ++j)");
    w.line(target + "[" + first + " + j] = " + in_range("j") + extent + " ? " + w.value_of(id, index_, "j") + " : 0;");
    w.close();
    w.close();
  }

  /// A gather or a guarded load whose index, or condition and fill, are the same for a whole vector.
  bool is_vector_under_one_condition(const Inst& inst) const {
    if (has_tail_ || (inst.prim != Prim::gather && inst.prim != Prim::guarded_load) || w.is_along(inst.args[0]))
      return false;
    return inst.prim == Prim::gather || !w.is_along(inst.args[1]);
  }

  void compute_all(std::int64_t items) {
    open_item(items);
    std::vector<InstId> elementwise;
    for (std::size_t i = 0; i < nest.kernel.body.size(); ++i) {
      const auto id = static_cast<InstId>(i);
      const Inst& inst = nest.inst(id);
      if (!nest.is_live(i) || inst.prim == Prim::immediate) continue;
      const std::string v = "v" + Writer::str(id);
      if (inst.prim == Prim::load) {
        w.name[i] = w.is_along(id) ? v + "[u * " + Writer::str(width_) + " + j]" : v + "[u]";
      } else if (!w.is_along(id)) {
        w.line("const " + w.declaration(id) + " = " + w.value_of(id, index_, "") + ";");
        w.name[i] = v;
      } else if (is_vector_under_one_condition(inst)) {
        w.line(w.declaration(id) + "[" + Writer::str(width_) + "];");
        w.load_vector(id, v, "", index_);
        w.name[i] = v + "[j]";
      } else {
        elementwise.push_back(id);
        w.name[i] = v;
      }
    }
    write_elements(elementwise);
    write_stores();
    close_item();
  }

  void write_elements(const std::vector<InstId>& elementwise) {
    for (std::size_t s = 0; s < nest.kernel.stores.size(); ++s)
      w.line(memory_type(nest.inst(nest.kernel.stores[s].value).dtype) + " s" + Writer::str(static_cast<int>(s)) + "[" +
             Writer::str(width_) + "];");
    w.unroll("for (int j = 0; j < " + Writer::str(width_) + "; ++j)");
    if (has_tail_) w.open("if (" + in_range("j") + w.extent(axis_) + ")");
    for (InstId id : elementwise) w.line("const " + w.declaration(id) + " = " + w.value_of(id, index_, "j") + ";");
    for (std::size_t s = 0; s < nest.kernel.stores.size(); ++s)
      w.line("s" + Writer::str(static_cast<int>(s)) + "[j] = " + w.name[nest.kernel.stores[s].value] + ";");
    if (has_tail_) w.close();
    w.close();
  }

  void write_stores() {
    for (std::size_t s = 0; s < nest.kernel.stores.size(); ++s) {
      const Store& store = nest.kernel.stores[s];
      const std::string source = "s" + Writer::str(static_cast<int>(s));
      if (w.along(store.access) == Along::constant) {
        w.store_one(store, source + "[0]", index_, "");
      } else if (!has_tail_) {
        w.store_vector(store, source, index_);
      } else {
        w.open("if (" + in_range(Writer::str(width_ - 1)) + w.extent(axis_) + ")");
        w.store_vector(store, source, index_);
        w.close();
        w.open("else");
        w.unroll("for (int j = 0; j < " + Writer::str(width_) + "; ++j)");
        w.open("if (" + in_range("j") + w.extent(axis_) + ")");
        w.store_one(store, source + "[j]", index_, "j");
        w.close();
        w.close();
        w.close();
      }
    }
  }

  Writer& w;
  const Nest& nest;
  IndexNames index_;
  int axis_ = -1, width_ = 1, steps_ = 1, threads_ = 256;
  bool has_tail_ = false;
};

SINTER_DECL void write_pointwise(Writer& writer) { PointwiseWriter(writer).run(); }

}  // namespace cuda_source_detail
SINTER_NAMESPACE_END
