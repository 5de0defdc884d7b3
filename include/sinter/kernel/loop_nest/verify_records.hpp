// The records of a loop nest, as the verifier sees them before it walks its variants. For verify.ipp.
#pragma once

#include <sinter/base/error.hpp>
#include <sinter/base/index.hpp>
#include <sinter/kernel/facts.hpp>
#include <sinter/kernel/loop_nest/loop_nest.hpp>

#include <algorithm>
#include <bit>
#include <string>
#include <vector>

SINTER_NAMESPACE_BEGIN

namespace kernel_detail {

[[noreturn]] SINTER_NOINLINE inline void throw_bad_nest(const std::string& where, const char* what) {
  throw InternalError("loop nest: " + where + ": " + what);
}

/// Over blocks or tiles, as against the points of one of them.
inline bool is_of_parts(const Loop& l) { return is_over_blocks(l) || l.range == LoopRange::tiles; }
inline bool is_of_one_part(const Loop& l) { return l.range == LoopRange::block || l.range == LoopRange::tile; }

inline NestLevel level_of(const LoopNest& nest, const KernelFacts& facts, const Loop& l) {
  if (l.mode == LoopMode::task || l.mode == LoopMode::grid) return NestLevel::outer;
  if (l.mode == LoopMode::serial && (l.axes & facts.reduced) == 0) return NestLevel::outer;  // rows of a call
  if (l.mode == LoopMode::vector) return NestLevel::column;
  return nest.far_axis >= 0 && l.axes == axis_bit(nest.far_axis) ? NestLevel::far : NestLevel::near;
}

/// In place means at the same point.
inline void check_operands(const Kernel& kernel, const KernelFacts& facts) {
  for (const Store& store : kernel.stores)
    for (std::size_t i = 0; i < kernel.body.size(); ++i) {
      const Inst& inst = kernel.body[i];
      if (!facts.values[i].is_live || !reads_memory(inst.prim)) continue;
      if (kernel.accesses[inst.access].operand != kernel.accesses[store.access].operand) continue;
      if (inst.prim == Prim::gather || !(kernel.accesses[inst.access] == kernel.accesses[store.access]))
        throw_bad_nest("%" + std::to_string(i), "reads an operand at other points than those that it is written at");
    }
}

/// What must hold before nodes can be walked: nothing here follows a number that was not checked.
class NestRecords {
 public:
  explicit NestRecords(const LoopNest& nest) : nest_(nest) {}

  void check() {
    header(nest_.kernel != nullptr && (nest_.kernel->kind != KernelKind::scatter || nest_.is_on_gpu),
           "no kernel that nests express");
    const Kernel& kernel = *nest_.kernel;
    header(nest_.places.size() == kernel.body.size(), "a place for each instruction is missing");
    header(nest_.lanes > 0 && std::has_single_bit(static_cast<unsigned>(nest_.lanes)), "lanes are no power of two");
    const bool is_product = kernel.kind == KernelKind::contraction && !nest_.is_on_gpu;
    header(nest_.is_on_gpu ? nest_.vector_axis == 0 || (nest_.vector_axis > 0 && nest_.vector_axis < kernel.rank())
                           : nest_.vector_axis == kernel.rank() - 1 - is_product,
           "the vector axis is not the last parallel one");
    header(nest_.is_on_gpu ? nest_.calls.size() <= 1 : nest_.calls.size() == is_product, "not one call for a product");
    const bool is_scatter = kernel.kind == KernelKind::scatter;
    for (const Call& call : nest_.calls)
      header(is_scatter                    ? is_by_index(call)
             : call.kind == CallKind::gemm ? is_gemm(call)
                                           : is_transpose(call),
             "a call of what is no product");
    for (const Buffer& buffer : nest_.buffers)
      header(buffer.value < kernel.body.size() && (buffer.axes >> kernel.rank()) == 0, "a buffer of no value, or axis");
    for (const Loop& loop : nest_.loops) {
      header((loop.axes >> kernel.rank()) == 0 && loop.copies > 0 && loop.lanes > 0 &&
                 (loop.step > 0 || (loop.step == 0 && loop.range == LoopRange::tiles)),
             "a loop without an axis or a step");
      const bool is_in_tile = loop.range == LoopRange::tile && loop.mode == LoopMode::serial;
      header(loop.mode == LoopMode::vector || is_in_tile || (loop.mode >= LoopMode::grid) == nest_.is_on_gpu,
             "a loop of another machine");
    }
    for (std::size_t place = 0; place < nest_.nodes.size(); ++place) node(place);
    header(parents_.empty() || nest_.nodes[parents_.front()].end == nest_.nodes.size(), "the last node has no end");
  }

 private:
  static void header(bool holds, const char* what) {
    if (!holds) throw_bad_nest("the nest", what);
  }
  bool is_by_index(const Call& call) const {
    const Kernel& kernel = *nest_.kernel;
    return (call.kind == CallKind::lists || call.kind == CallKind::sort) && call.value == kernel.stores[0].index &&
           (call.k >> kernel.rank()) == 0;
  }
  bool is_gemm(const Call& call) const {
    const Kernel& kernel = *nest_.kernel;
    if (call.value >= kernel.body.size() || kernel.body[call.value].prim != Prim::contract) return false;
    const Inst& contract = kernel.body[call.value];
    const bool takes = (call.a == contract.args[0] && call.b == contract.args[1]) ||
                       (call.b == contract.args[0] && call.a == contract.args[1]);
    return takes && (nest_.is_on_gpu ? has_axes_of_gemm(call) : has_last_axes(call));
  }
  bool has_last_axes(const Call& call) const {
    const int k = nest_.kernel->rank() - 1;
    return k >= 2 && call.m == axis_bit(k - 2) && call.n == axis_bit(k - 1) && call.k == axis_bit(k);
  }
  bool has_axes_of_gemm(const Call& call) const {
    AxisMask reduced = 0;
    for (int a = 0; a < nest_.kernel->rank(); ++a) reduced |= nest_.kernel->is_reduced(a) ? axis_bit(a) : AxisMask{0};
    return has_parallel_axes(call, reduced) && call.k == reduced && std::has_single_bit(call.k);
  }
  /// Rows and columns are an axis each.
  bool has_parallel_axes(const Call& call, AxisMask reduced) const {
    const auto both = static_cast<AxisMask>(call.m | call.n);
    return std::has_single_bit(call.m) && std::has_single_bit(call.n) && call.m != call.n && (both & reduced) == 0 &&
           (both >> nest_.kernel->rank()) == 0 && call.n == axis_bit(nest_.vector_axis);
  }
  bool is_transpose(const Call& call) const {
    return call.kind == CallKind::transpose && nest_.is_on_gpu && has_parallel_axes(call, 0);
  }
  void node(std::size_t place) {
    const NestNode& n = nest_.nodes[place];
    const auto require = [&](bool holds, const char* what) {
      constexpr const char* kinds[] = {"variant", "stage",   "loop",    "fold",   "call",
                                       "step",    "compute", "check",   "keep",   "fetch",
                                       "store",   "barrier", "rescale", "update", "check_index"};
      if (!holds) throw_bad_nest("node " + std::to_string(place) + " (" + kinds[as_index(n.kind)] + ")", what);
    };
    while (!parents_.empty() && nest_.nodes[parents_.back()].end <= place) parents_.pop_back();
    require(n.end > place && n.end <= nest_.nodes.size(), "its end is no place after it");
    require(parents_.empty() || n.end <= nest_.nodes[parents_.back()].end, "it ends after what it stands in");
    require(has_fitting_parent(n), "it stands in a node of the wrong kind");
    require(has_numbers_in_range(n), "a number is out of range");
    if (n.kind > NestNodeKind::call) require(n.end == place + 1, "it has children");
    if (n.kind == NestNodeKind::fold || n.kind == NestNodeKind::call)
      require(
          place + 1 < n.end && nest_.nodes[place + 1].kind == NestNodeKind::loop && nest_.nodes[place + 1].end == n.end,
          n.kind == NestNodeKind::fold ? "a fold has one loop and nothing else"
                                       : "a call has one loop and nothing else");
    parents_.push_back(place);
  }
  bool has_fitting_parent(const NestNode& n) const {
    if (n.kind == NestNodeKind::variant) return parents_.empty();
    if (parents_.empty()) return false;
    const NestNodeKind parent = nest_.nodes[parents_.back()].kind;
    if (n.kind == NestNodeKind::stage) return parent == NestNodeKind::variant;
    return parent == NestNodeKind::stage || parent == NestNodeKind::loop ||
           ((parent == NestNodeKind::fold || parent == NestNodeKind::call) && n.kind == NestNodeKind::loop);
  }
  bool has_numbers_in_range(const NestNode& n) const {
    const Kernel& kernel = *nest_.kernel;
    switch (n.kind) {
      case NestNodeKind::variant: return n.first < nest_.variants.size();
      case NestNodeKind::stage: return true;
      case NestNodeKind::loop: return n.first < nest_.loops.size();
      case NestNodeKind::fold: return n.axis < kernel.rank() && has_ids(n);
      case NestNodeKind::call: return n.first < nest_.calls.size();
      case NestNodeKind::step: return has_ids(n);
      case NestNodeKind::compute: return has_ids(n) && LoopNest::time_of(n) <= ComputeTime::for_step;
      case NestNodeKind::check: return n.first < kernel.body.size() && kernel.body[n.first].prim == Prim::gather;
      case NestNodeKind::keep:
      case NestNodeKind::fetch: return n.first < nest_.buffers.size();
      case NestNodeKind::store: return n.first < kernel.stores.size();
      case NestNodeKind::barrier: return nest_.is_on_gpu;
      case NestNodeKind::rescale: return n.first < kernel.body.size();
      case NestNodeKind::update:
      case NestNodeKind::check_index:
        return n.first < kernel.stores.size() && kernel.stores[n.first].index != no_inst &&
               (n.kind == NestNodeKind::check_index || n.axis <= static_cast<std::uint16_t>(UpdateOrder::atomic));
    }
    __builtin_unreachable();
  }
  bool has_ids(const NestNode& n) const {
    if (n.count == 0 || std::size_t{n.first} + n.count > nest_.ids.size()) return false;
    const auto list = nest_.ids_of(n);
    return std::all_of(list.begin(), list.end(), [&](InstId id) { return id < nest_.kernel->body.size(); });
  }

  const LoopNest& nest_;
  std::vector<std::size_t> parents_;
};

}  // namespace kernel_detail

SINTER_NAMESPACE_END
