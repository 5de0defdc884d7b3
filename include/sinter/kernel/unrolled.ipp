// One forward walk over the body.
#pragma once

#include <sinter/kernel/unrolled.hpp>

#include <sinter/base/index.hpp>
#include <sinter/kernel/facts.hpp>
#include <sinter/kernel/kernel_simplify.hpp>

#include <algorithm>
#include <array>
#include <bit>

SINTER_NAMESPACE_BEGIN

namespace kernel_detail {

class AxisUnroller {
 public:
  AxisUnroller(const Kernel& kernel, const BoundGeometry& geometry)
      : k_(kernel), g_(geometry), last_(kernel.rank() - 1), points_(geometry.extent[as_index(last_)]) {}

  std::optional<UnrolledKernel> run(std::size_t most_accesses) {
    if (points_ < 2 || points_ > most_unrolled_points || !is_unrollable() || !choose_axes()) return std::nullopt;
    find_varying();
    copies_.assign(k_.body.size() * as_index(points_), no_inst);
    made_.kernel.operands = k_.operands;
    for (InstId id = 0; id < k_.body.size(); ++id) write_out(id);
    for (const Store& store : k_.stores)
      if (!write_out(store)) return std::nullopt;
    remove_dead(body(), made_.kernel.stores);
    drop_unused_accesses();
    if (body().size() > most_unrolled_instructions || made_.kernel.accesses.size() > most_accesses) return std::nullopt;
    return std::move(made_);
  }

 private:
  std::vector<Inst>& body() { return made_.kernel.body; }

  bool is_unrollable() const {
    if (k_.kind != KernelKind::pointwise && k_.kind != KernelKind::row) return false;
    if (!k_.folds.empty() || !k_.orders.empty()) return false;
    for (int a = 0; a < last_; ++a)
      if (k_.is_reduced(a)) return false;
    return std::none_of(k_.body.begin(), k_.body.end(), [](const Inst& inst) {
      return is_scan(inst.prim) || inst.prim == Prim::fold || inst.prim == Prim::contract;
    });
  }

  /// The innermost axis of several points becomes the last one.
  bool choose_axes() {
    int vector_axis = -1;
    for (int a = 0; a < last_; ++a)
      if (g_.extent[as_index(a)] > 1) vector_axis = a;
    if (vector_axis < 0) return false;
    for (int a = 0; a < last_; ++a)
      if (a != vector_axis) from_.push_back(a);
    from_.push_back(vector_axis);
    for (std::size_t a = 0; a < from_.size(); ++a) {
      to_[as_index(from_[a])] = static_cast<int>(a);
      made_.kernel.axes.push_back(AxisRole::parallel);
      made_.geometry.extent[a] = g_.extent[as_index(from_[a])];
    }
    made_.kernel.kind = KernelKind::pointwise;
    return true;
  }

  std::int64_t step_of(std::size_t access) const { return stride_of(k_, g_, access, last_); }

  void find_varying() {
    varies_.resize(k_.body.size());
    for (std::size_t i = 0; i < k_.body.size(); ++i) {
      const Inst& inst = k_.body[i];
      bool varies = reads_memory(inst.prim) && step_of(inst.access) != 0;
      varies |= inst.prim == Prim::index && static_cast<int>(inst.bits) == last_;
      for (int a = 0; a < arity(inst.prim); ++a) varies |= varies_[inst.args[as_index(a)]] != 0;
      varies_[i] = varies && !is_reduction(inst.prim);
    }
  }
  InstId copy_of(InstId id, std::int64_t point) const {
    return copies_[id * as_index(points_) + as_index(varies_[id] != 0 ? point : 0)];
  }

  std::uint16_t access_at(std::uint16_t access, std::int64_t point) {
    const std::int64_t moved = step_of(access) == 0 ? 0 : point;
    for (std::size_t i = 0; i < sources_.size(); ++i)
      if (sources_[i].access == access && sources_[i].point == moved) return static_cast<std::uint16_t>(i);
    sources_.push_back({access, moved});
    Access& made = made_.kernel.accesses.emplace_back(Access{k_.accesses[access].operand, {}});
    auto& numbers = made_.geometry.accesses.emplace_back(g_.accesses[access]);
    numbers.stride = {};
    numbers.offset = g_.accesses[access].offset + moved * step_of(access);
    for (std::size_t a = 0; a < from_.size(); ++a) {
      const std::int64_t stride = stride_of(k_, g_, access, from_[a]);
      numbers.stride[a] = stride;
      made.stride[a] = a + 1 < from_.size() ? k_.accesses[access].stride[as_index(from_[a])]
                       : stride == 0        ? StrideClass::zero
                       : stride == 1        ? StrideClass::unit
                                            : StrideClass::any;
      if (made.stride[a] == StrideClass::unit && a + 1 < from_.size()) made.stride[a] = StrideClass::any;
    }
    return static_cast<std::uint16_t>(sources_.size() - 1);
  }

  InstId push(const Inst& inst) {
    if (inst.prim == Prim::immediate)
      for (std::size_t i = 0; i < body().size(); ++i)
        if (body()[i] == inst) return static_cast<InstId>(i);
    body().push_back(inst);
    return static_cast<InstId>(body().size() - 1);
  }
  InstId number(std::int64_t value, DType dtype) {
    return push({.prim = Prim::immediate, .dtype = dtype, .bits = static_cast<std::uint64_t>(value)});
  }
  bool is_number(InstId id) { return body()[id].prim == Prim::immediate; }

  void write_out(InstId id) {
    const Inst& inst = k_.body[id];
    if (is_reduction(inst.prim)) {
      copies_[id * as_index(points_)] = reduced(inst);
      return;
    }
    for (std::int64_t point = 0; point < (varies_[id] != 0 ? points_ : 1); ++point)
      copies_[id * as_index(points_) + as_index(point)] = at_point(inst, point);
  }

  InstId at_point(Inst inst, std::int64_t point) {
    if (inst.prim == Prim::index) {
      if (static_cast<int>(inst.bits) == last_) return number(point, DType::i64);
      inst.bits = static_cast<std::uint64_t>(to_[as_index(inst.bits)]);
    }
    for (int a = 0; a < arity(inst.prim); ++a) inst.args[as_index(a)] = copy_of(inst.args[as_index(a)], point);
    if (inst.prim == Prim::guarded_load && is_number(inst.args[0])) {
      if (body()[inst.args[0]].bits == 0) return inst.args[1];
      inst = {.prim = Prim::load, .dtype = inst.dtype, .access = inst.access};
    }
    if (reads_memory(inst.prim)) inst.access = access_at(inst.access, point);
    if (const std::optional<InstId> known = folded(inst)) return *known;
    return push(inst);
  }

  /// What follows from the number of a point: conditions on it, and what these choose.
  std::optional<InstId> folded(const Inst& inst) {
    if (inst.prim == Prim::select && is_number(inst.args[0])) return inst.args[body()[inst.args[0]].bits != 0 ? 1 : 2];
    if (inst.prim == Prim::not_ && inst.dtype == DType::bool_ && is_number(inst.args[0]))
      return number(body()[inst.args[0]].bits == 0, DType::bool_);
    if (arity(inst.prim) != 2 || reads_memory(inst.prim)) return std::nullopt;
    const InstId first = inst.args[0], second = inst.args[1];
    if (inst.dtype == DType::bool_ && body()[first].dtype == DType::bool_) return folded_logic(inst, first, second);
    if (!is_number(first) || !is_number(second) || body()[first].dtype != DType::i64) return std::nullopt;
    const std::int64_t a = body()[first].integer(), b = body()[second].integer();
    switch (inst.prim) {
      case Prim::eq: return number(a == b, DType::bool_);
      case Prim::ne: return number(a != b, DType::bool_);
      case Prim::lt: return number(a < b, DType::bool_);
      case Prim::le: return number(a <= b, DType::bool_);
      default: return std::nullopt;
    }
  }
  std::optional<InstId> folded_logic(const Inst& inst, InstId first, InstId second) {
    if (inst.prim != Prim::and_ && inst.prim != Prim::or_) return std::nullopt;
    if (!is_number(first)) std::swap(first, second);
    if (!is_number(first)) return std::nullopt;
    const bool decides = (body()[first].bits != 0) == (inst.prim == Prim::or_);
    return decides ? first : second;
  }

  /// Each point is a lane of its own, and lanes are combined in halves. Each lane begins with the neutral element, as
  /// do those that have no point; of sums of floats that shows where all terms are -0, which one addition at the end
  /// sees to as well.
  InstId reduced(const Inst& inst) {
    std::vector<InstId> lanes;
    for (std::int64_t point = 0; point < points_; ++point) lanes.push_back(copy_of(inst.args[0], point));
    for (std::size_t half = std::bit_ceil(lanes.size()) / 2; half > 0; half /= 2) {
      for (std::size_t i = 0; i + half < lanes.size(); ++i) lanes[i] = combined(inst, lanes[i], lanes[i + half]);
      lanes.resize(half);
    }
    if (inst.prim != Prim::reduce_add || !is_floating(inst.dtype)) return lanes[0];
    return combined(inst, lanes[0], number(0, inst.dtype));
  }
  InstId combined(const Inst& inst, InstId older, InstId newer) {
    const bool is_all = inst.prim == Prim::reduce_mul || inst.prim == Prim::reduce_min;
    Prim prim = Prim::add;
    if (inst.dtype == DType::bool_) prim = is_all ? Prim::and_ : Prim::or_;
    else if (inst.prim == Prim::reduce_mul) prim = Prim::mul;
    else if (inst.prim == Prim::reduce_min) prim = Prim::min;
    else if (inst.prim == Prim::reduce_max) prim = Prim::max;
    return push({.prim = prim, .dtype = inst.dtype, .args = {older, newer, no_inst}});
  }

  /// False where several points would be stored at one place.
  bool write_out(const Store& store) {
    if (store.index != no_inst) return false;
    const bool moves = step_of(store.access) != 0;
    if (!moves && (k_.kind == KernelKind::pointwise || varies_[store.value] != 0)) return false;
    for (std::int64_t point = 0; point < (moves ? points_ : 1); ++point) {
      Store made = store;
      made.access = access_at(store.access, point);
      made.value = copy_of(store.value, point);
      made_.kernel.stores.push_back(made);
    }
    return true;
  }

  void drop_unused_accesses() {
    std::vector<int> kept(sources_.size(), -1);
    std::vector<Access> accesses;
    auto numbers = std::move(made_.geometry.accesses);
    made_.geometry.accesses.clear();
    const auto use = [&](std::uint16_t& access) {
      int& place = kept[access];
      if (place < 0) {
        place = static_cast<int>(accesses.size());
        accesses.push_back(made_.kernel.accesses[access]);
        made_.geometry.accesses.push_back(numbers[access]);
      }
      access = static_cast<std::uint16_t>(place);
    };
    for (Inst& inst : body())
      if (reads_memory(inst.prim)) use(inst.access);
    for (Store& store : made_.kernel.stores) use(store.access);
    made_.kernel.accesses = std::move(accesses);
  }

  struct Source {
    std::uint16_t access = 0;
    std::int64_t point = 0;
  };
  const Kernel& k_;
  const BoundGeometry& g_;
  int last_;
  std::int64_t points_;
  UnrolledKernel made_;
  SmallVector<int, max_axes> from_;  // of each axis of the new kernel
  std::array<int, max_axes> to_{};   // of each axis of the old one
  std::vector<char> varies_;         // along the last axis
  std::vector<InstId> copies_;       // of each instruction, for each point
  std::vector<Source> sources_;      // of each access
};

}  // namespace kernel_detail

SINTER_DECL std::optional<UnrolledKernel> unroll_last_axis(const Kernel& kernel, const BoundGeometry& geometry,
                                                           std::size_t most_accesses) {
  return kernel_detail::AxisUnroller(kernel, geometry).run(most_accesses);
}

SINTER_NAMESPACE_END
