// Analysis of kernels for the loop generator.
#pragma once

#include <sinter/backend/x86/nest/plan.hpp>

#include <sinter/backend/x86/machine/lower.hpp>
#include <sinter/backend/x86/nest/loop.hpp>
#include <sinter/base/index.hpp>

#include <algorithm>
#include <bit>

SINTER_NAMESPACE_BEGIN
namespace x86 {

namespace x86_detail {

class LoopPlanner {
 public:
  LoopPlanner(const Kernel& kernel, const Schedule& schedule, Isa isa, IndexWidth width)
      : k_(kernel), schedule_(schedule), index_width_(width) {
    plan_.kernel = &kernel;
    plan_.isa = isa;
  }

  std::optional<LoopPlan> run(std::string& why) {
    why = decline();
    if (!why.empty()) return std::nullopt;
    choose_width();
    place_instructions();
    split_stores();
    make_passes();
    find_used_outside();
    choose_unroll();
    return std::move(plan_);
  }

 private:
  std::string decline() {
    if (k_.kind == KernelKind::contraction) return "contractions have their own generator";
    if (k_.accesses.size() > max_accesses) return "more than " + std::to_string(max_accesses) + " accesses";
    plan_.column_axis = k_.rank() - 1;
    plan_.is_row = k_.kind == KernelKind::row;
    plan_.is_column = k_.kind == KernelKind::column;
    std::vector<int> reduced;
    for (int a = 0; a + 1 < k_.rank(); ++a)
      if (k_.is_reduced(a)) reduced.push_back(a);
    if (reduced.size() > (plan_.is_row ? 1u : 2u)) return "more than two reduced axes";
    if (!reduced.empty()) plan_.near_axis = reduced.back();
    if (reduced.size() == 2) plan_.far_axis = reduced.front();
    for (const Inst& inst : k_.body) {
      DType from = arity(inst.prim) > 0 ? k_.body[inst.args[as_index(arity(inst.prim) - 1)]].dtype : inst.dtype;
      if (is_reduction(inst.prim) && inst.prim != Prim::contract) continue;
      if (inst.prim == Prim::gather || inst.prim == Prim::load || inst.prim == Prim::immediate ||
          inst.prim == Prim::index)
        continue;
      if (std::string reason = why_not_lowered(inst, from); !reason.empty()) return reason;
    }
    return {};
  }

  /// Whether i64 occurs only as indices and as numbers, the same along the vector axis, compared with indices.
  bool can_narrow_index() const {
    bool has_index = false;
    for (const Inst& inst : k_.body) {
      has_index |= inst.prim == Prim::index;
      if (inst.dtype == DType::f64) return false;
      const bool is_narrow = inst.prim == Prim::index || inst.prim == Prim::immediate ||
                             (inst.prim == Prim::load &&
                              k_.accesses[inst.access].stride[as_index(plan_.column_axis)] == StrideClass::zero);
      if (inst.dtype == DType::i64 && !is_narrow) return false;
      const int count = arity(inst.prim);
      int narrow = 0, indices = 0;
      for (int a = 0; a < count; ++a) {
        const Inst& arg = k_.body[inst.args[as_index(a)]];
        narrow += arg.dtype == DType::i64;
        indices += arg.prim == Prim::index;
      }
      const bool compares =
          inst.prim == Prim::eq || inst.prim == Prim::ne || inst.prim == Prim::lt || inst.prim == Prim::le;
      const bool converts = inst.prim == Prim::convert && (inst.dtype == DType::f32 || inst.dtype == DType::i32);
      if (narrow != 0 && !((compares || converts) && indices != 0)) return false;
    }
    for (const Store& store : k_.stores)
      if (k_.body[store.value].dtype == DType::i64) return false;
    return has_index;
  }

  void choose_width() {
    std::int64_t largest = 4;
    plan_.narrow_index = index_width_ == IndexWidth::narrow_if_possible && can_narrow_index();
    if (!plan_.narrow_index)
      for (const Inst& inst : k_.body) largest = std::max(largest, size_of(inst.dtype));
    for (const Access& access : k_.accesses) {
      plan_.needs_count |= k_.operands[access.operand].dtype == DType::bool_;
      plan_.needs_count |= access.stride[as_index(plan_.column_axis)] == StrideClass::any;
    }
    for (const Inst& inst : k_.body) plan_.needs_count |= inst.prim == Prim::gather;
    plan_.lanes = vector_bytes(plan_.isa) / static_cast<int>(largest);
  }

  enum : unsigned { varies_outer = 1, varies_column = 2, varies_near = 4, varies_far = 8 };
  unsigned axis_bit(int axis) const {
    if (axis == plan_.column_axis) return varies_column;
    if (axis == plan_.near_axis) return varies_near;
    return axis == plan_.far_axis ? varies_far : varies_outer;
  }
  Level level_of(unsigned vary) const {
    if (plan_.is_column) {
      if (vary & varies_near) return Level::near;
      if (vary & varies_far) return Level::far;
    }
    if (vary & varies_column) return Level::column;
    if (vary & varies_near) return Level::near;
    return vary & varies_outer ? Level::outer : Level::kernel;
  }

  void place_instructions() {
    std::vector<unsigned> vary(k_.body.size());
    plan_.insts.resize(k_.body.size());
    for (std::size_t i = 0; i < k_.body.size(); ++i) {
      const Inst& inst = k_.body[i];
      InstPlan& p = plan_.insts[i];
      unsigned cost = static_cast<unsigned>(cost_of(inst.prim));
      for (int a = 0; a < arity(inst.prim); ++a) {
        const std::size_t arg = inst.args[as_index(a)];
        vary[i] |= vary[arg];
        p.depth = std::max(p.depth, plan_.insts[arg].depth);
        if (plan_.insts[arg].is_vector) cost += plan_.insts[arg].cost;
      }
      if (inst.prim == Prim::index) vary[i] |= axis_bit(static_cast<int>(inst.bits));
      if (inst.prim == Prim::load || inst.prim == Prim::gather) {
        const Access& access = k_.accesses[inst.access];
        for (int a = 0; a < k_.rank(); ++a)
          if (access.stride[as_index(a)] != StrideClass::zero) vary[i] |= axis_bit(a);
      }
      if (is_reduction(inst.prim)) {
        vary[i] = plan_.is_row ? varies_outer : varies_outer | varies_column;
        ++p.depth;
        plan_.depths = std::max(plan_.depths, static_cast<int>(p.depth));
        cost = 0;
      }
      p.cost = static_cast<std::uint16_t>(std::min(cost, 10000u));
      p.is_vector = (vary[i] & varies_column) != 0;
      p.level = level_of(vary[i]);
    }
  }

  bool access_varies_reduced(std::size_t access) const {
    for (int a = 0; a < k_.rank(); ++a)
      if (k_.is_reduced(a) && k_.accesses[access].stride[as_index(a)] != StrideClass::zero) return true;
    return false;
  }
  void split_stores() {
    for (std::size_t s = 0; s < k_.stores.size(); ++s) {
      // What varies along a reduced axis can only be stored at each of its points, whatever the addresses are.
      const bool inner = k_.kind == KernelKind::pointwise || access_varies_reduced(k_.stores[s].access) ||
                         is_inner(plan_.insts[k_.stores[s].value]);
      (inner ? plan_.inner_stores : plan_.outer_stores).push_back(static_cast<std::uint16_t>(s));
    }
  }

  /// Instructions computed inside the loops of a pass, as against hoisted out of them.
  bool is_inner(const InstPlan& p) const {
    if (plan_.is_column) return p.level == Level::near || p.level == Level::far;
    return p.level == Level::column || p.level == Level::near;
  }

  void make_passes() {
    int last = std::max(plan_.depths - 1, 0);
    for (std::uint16_t s : plan_.inner_stores)
      last = std::max(last, static_cast<int>(plan_.insts[k_.stores[s].value].depth));
    plan_.passes.resize(as_index(last) + 1);
    for (int pass = 0; pass <= last; ++pass) {
      PassPlan& p = plan_.passes[as_index(pass)];
      std::vector<char> needed(k_.body.size());
      for (std::size_t i = 0; i < k_.body.size(); ++i)
        if (is_reduction(k_.body[i].prim) && plan_.insts[i].depth == pass + 1) {
          p.reductions.push_back(static_cast<InstId>(i));
          need(k_.body[i].args[0], pass, needed);
        }
      if (pass == last && !plan_.inner_stores.empty()) {
        p.stores = true;
        for (std::uint16_t s : plan_.inner_stores) need(k_.stores[s].value, pass, needed);
      }
      for (std::size_t i = 0; i < k_.body.size(); ++i)
        if (needed[i]) p.needed.push_back(static_cast<InstId>(i));
    }
  }

  /// What was computed in an earlier pass and is expensive comes back from a scratch row.
  void need(InstId i, int pass, std::vector<char>& needed) {
    InstPlan& p = plan_.insts[i];
    if (needed[i] || !is_inner(p) || k_.body[i].prim == Prim::immediate) return;
    needed[i] = 1;
    if (p.first_pass == 0xFF) p.first_pass = static_cast<std::uint8_t>(pass);
    const bool can_stash =
        plan_.is_row && plan_.near_axis < 0 && p.is_vector && k_.body[i].dtype != DType::bool_ && plan_.stashes < 8;
    if (p.first_pass < pass && (p.stash >= 0 || (can_stash && p.cost >= 8))) {
      if (p.stash < 0) p.stash = static_cast<std::int8_t>(plan_.stashes++);
      return;
    }
    const Inst& inst = k_.body[i];
    for (int a = 0; a < arity(inst.prim); ++a) need(inst.args[as_index(a)], pass, needed);
  }

  void mark_outside(InstId i) {
    if (plan_.used_outside[i]) return;
    plan_.used_outside[i] = 1;
    const Inst& inst = k_.body[i];
    if (is_reduction(inst.prim)) return;
    for (int a = 0; a < arity(inst.prim); ++a) mark_outside(inst.args[as_index(a)]);
  }
  void find_used_outside() {
    plan_.used_outside.resize(k_.body.size());
    for (std::uint16_t s : plan_.outer_stores) mark_outside(k_.stores[s].value);
    for (std::size_t pass = 0; pass < plan_.passes.size(); ++pass) {
      const PassPlan& p = plan_.passes[pass];
      for (InstId i : p.needed) {
        const InstPlan& inst = plan_.insts[i];
        if (inst.stash >= 0 && inst.first_pass < pass) continue;
        for (int a = 0; a < arity(k_.body[i].prim); ++a) outside_argument(k_.body[i].args[as_index(a)]);
      }
      for (InstId i : p.reductions) outside_argument(k_.body[i].args[0]);
      if (p.stores)
        for (std::uint16_t s : plan_.inner_stores) outside_argument(k_.stores[s].value);
    }
  }
  void outside_argument(InstId i) {
    if (!is_inner(plan_.insts[i])) mark_outside(i);
  }

  void choose_unroll() {
    std::size_t longest = 0;
    for (const PassPlan& p : plan_.passes) longest = std::max(longest, p.needed.size());
    if (schedule_.unroll != 0)
      plan_.unroll = static_cast<int>(std::bit_floor(std::min<unsigned>(schedule_.unroll, 8u)));
    else if (plan_.is_column)
      plan_.unroll = longest <= 4 && plan_.isa == Isa::avx512 ? 8 : 4;  // wide blocks visit fewer pages at a time
    else plan_.unroll = longest > 100 ? 1 : 2;
  }

  const Kernel& k_;
  const Schedule& schedule_;
  IndexWidth index_width_;
  LoopPlan plan_;
};

}  // namespace x86_detail

SINTER_DECL bool LoopPlan::has_short_rows() const {
  if (!is_row || near_axis >= 0) return false;
  for (const Inst& inst : kernel->body)
    if (inst.prim == Prim::gather) return false;
  for (const Access& access : kernel->accesses)
    if (access.stride[as_index(column_axis)] == StrideClass::any) return false;
  return true;
}

SINTER_DECL std::optional<LoopPlan> plan_loop(const Kernel& kernel, const Schedule& schedule, Isa isa, IndexWidth width,
                                              std::string& why) {
  return x86_detail::LoopPlanner(kernel, schedule, isa, width).run(why);
}

}  // namespace x86
SINTER_NAMESPACE_END
