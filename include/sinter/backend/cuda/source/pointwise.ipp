// The kernel.
#pragma once

#include <sinter/backend/cuda/source/pointwise.hpp>

#include <sinter/base/index.hpp>

#include <algorithm>

SINTER_NAMESPACE_BEGIN
namespace cuda_source_detail {

class PointwiseWriter {
 public:
  PointwiseWriter(Writer& writer, const LoopNest& the_nest) : w(writer), bound(writer.bound), nest(the_nest) {
    const std::size_t stage = 1;
    threads_ = nest.nodes[stage].count;
    read_nodes(stage);
    std::sort(ids_.begin(), ids_.end());
  }

  void run() {
    w.set_vector(axis_, width_);
    const std::int64_t points = bound.points(bound.parallel),
                       items = axis_ < 0 ? 1 : points / bound.extent(axis_) * quotient_up(bound.extent(axis_), width_);
    const std::string entry = w.entry("pointwise", threads_);
    w.line("const I first = (I)blockIdx.x * " + Writer::str(threads_ * steps_) + " + (I)threadIdx.x;");
    load_all(items);
    compute_all(items);
    w.close();
    w.add_step(entry, quotient_up(items, std::int64_t{threads_} * steps_), 1, threads_);
  }

 private:
  void read_nodes(std::size_t place) {
    nest.for_each_child(place, [&](std::size_t child) {
      const NestNode& node = nest.nodes[child];
      if (node.kind == NestNodeKind::compute) {
        const auto list = nest.ids_of(node);
        ids_.insert(ids_.end(), list.begin(), list.end());
      }
      if (node.kind != NestNodeKind::loop) return;
      const Loop& loop = nest.loop_of(node);
      if (loop.mode == LoopMode::grid) steps_ = loop.copies;
      if (loop.axes != 0) axis_ = nest.vector_axis;
      if (loop.mode == LoopMode::vector) has_tail_ = loop.tail == LoopTail::mask;
      width_ = nest.lanes;
      read_nodes(child);
    });
  }
  void open_item(std::int64_t items) {
    w.unroll("for (int u = 0; u < " + Writer::str(steps_) + "; ++u)");
    w.line("const I item = first + u * " + Writer::str(threads_) + ";");
    w.open("if (item < " + w.number("items", items) + ")");
    index_ = w.decode("item", bound.parallel, width_);
  }
  void close_item() { w.close(), w.close(); }
  std::string in_range(const std::string& j) const { return index_[as_index(axis_)] + " + " + j + " < "; }

  bool is_plain_load(InstId id) const { return bound.inst(id).prim == Prim::load; }

  void load_all(std::int64_t items) {
    bool has_loads = false;
    for (const InstId id : ids_) {
      if (!is_plain_load(id)) continue;
      has_loads = true;
      w.line(w.declaration(id) + "[" + Writer::str(w.is_along(id) ? width_ * steps_ : steps_) + "];");
    }
    if (!has_loads) return;
    open_item(items);
    for (const InstId id : ids_) {
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
    for (const InstId id : ids_) {
      const Inst& inst = bound.inst(id);
      const std::string v = "v" + Writer::str(id);
      if (inst.prim == Prim::load) {
        w.name[id] = w.is_along(id) ? v + "[u * " + Writer::str(width_) + " + j]" : v + "[u]";
      } else if (!w.is_along(id)) {
        w.line("const " + w.declaration(id) + " = " + w.value_of(id, index_, "") + ";");
        w.name[id] = v;
      } else if (is_vector_under_one_condition(inst)) {
        w.line(w.declaration(id) + "[" + Writer::str(width_) + "];");
        w.load_vector(id, v, "", index_);
        w.name[id] = v + "[j]";
      } else {
        elementwise.push_back(id);
        w.name[id] = v;
      }
    }
    w.compute_elements(elementwise, index_, has_tail_ ? in_range("j") + w.extent(axis_) : std::string());
    write_stores();
    close_item();
  }

  void write_stores() {
    if (!has_tail_) return w.store_elements(index_);
    for (std::size_t s = 0; s < bound.kernel.stores.size(); ++s) {
      const Store& store = bound.kernel.stores[s];
      const std::string source = "s" + Writer::str(static_cast<int>(s));
      if (w.along(store.access) == Along::constant) {
        w.store_one(store, source + "[0]", index_, "");
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
  const BoundKernel& bound;
  const LoopNest& nest;
  IndexNames index_;
  std::vector<InstId> ids_;  // what is computed, arguments first
  int axis_ = -1, width_ = 1, steps_ = 1, threads_ = 256;
  bool has_tail_ = false;
};

SINTER_DECL void write_pointwise(Writer& writer, const LoopNest& nest) { PointwiseWriter(writer, nest).run(); }

}  // namespace cuda_source_detail
SINTER_NAMESPACE_END
