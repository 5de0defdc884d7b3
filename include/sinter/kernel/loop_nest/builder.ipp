// One forward walk: values get their places, passes what they need, and the nodes follow.
#pragma once

#include <sinter/kernel/loop_nest/builder.hpp>

#include <sinter/base/context.hpp>
#include <sinter/kernel/loop_nest/choices.hpp>
#include <sinter/kernel/loop_nest/product.hpp>
#include <sinter/kernel/loop_nest/verify.hpp>
#include <sinter/kernel/loop_nest/writer.hpp>

#include <algorithm>
#include <bit>

SINTER_NAMESPACE_BEGIN

namespace kernel_detail {

class NestBuilder : private NestWriter {
 public:
  NestBuilder(const Kernel& kernel, const NestChoices& choices, const Machine& machine, IndexWidth width)
      : NestWriter(kernel), k_(kernel), choices_(choices), machine_(machine), facts_(facts_of(kernel)) {
    nest_.vector_axis = kernel.rank() - 1;
    nest_.narrow_index = width == IndexWidth::narrow_if_possible && can_narrow_index(kernel, nest_.vector_axis);
  }

  std::optional<LoopNest> run(std::string& why) {
    why = find_axes();
    if (!why.empty()) return std::nullopt;
    choose_lanes();
    place_values();
    plan_passes();
    mark_outside();
    choose_copies();
    nest_.nodes.reserve(48);
    nest_.ids.reserve(k_.body.size() * 3 + 16);
    build_whole();
    if (has_short_rows()) build_short_rows();
    if (splits()) build_split();
    if (SINTER_UNLIKELY(Context::get().checks)) verify(nest_);
    return std::move(nest_);
  }

 private:
  // Decisions -------------------------------------------------------------------------------------------------------

  bool is_row() const { return k_.kind == KernelKind::row; }
  bool is_column() const { return k_.kind == KernelKind::column; }

  std::string find_axes() {
    if (k_.kind == KernelKind::scatter) return "scatters have their own driver";
    SmallVector<int, max_axes> reduced;
    for (int a = 0; a < nest_.vector_axis; ++a)
      if (k_.is_reduced(a)) reduced.push_back(a);
    if (reduced.size() > (is_row() ? 1u : 2u)) return "more than two reduced axes";
    if (!reduced.empty()) nest_.near_axis = reduced.back();
    if (reduced.size() == 2) nest_.far_axis = reduced.front();
    return {};
  }

  void choose_lanes() {
    std::int64_t largest = 4;
    if (!nest_.narrow_index)
      for (const Inst& inst : k_.body) largest = std::max(largest, size_of(inst.dtype));
    nest_.lanes = choices_.vector_bytes / static_cast<int>(largest);
  }

  NestLevel level_of(AxisMask axes) const {
    const auto has = [&](int axis) { return axis >= 0 && (axes >> axis & 1) != 0; };
    if (is_column() && has(nest_.near_axis)) return NestLevel::near;
    if (is_column() && has(nest_.far_axis)) return NestLevel::far;
    if (has(nest_.vector_axis)) return NestLevel::column;
    if (has(nest_.near_axis)) return NestLevel::near;
    return axes != 0 ? NestLevel::outer : NestLevel::kernel;
  }

  /// A reduction's result stands where its fold does, however few axes it varies along; so does what follows from it.
  void place_values() {
    const AxisMask folds = static_cast<AxisMask>(outer_axes() | (is_column() ? axis_bit(nest_.vector_axis) : 0));
    costs_.resize(k_.body.size());
    axes_.resize(k_.body.size());
    nest_.places.resize(k_.body.size());
    for (std::size_t i = 0; i < k_.body.size(); ++i) {
      const Inst& inst = k_.body[i];
      int cost = machine_.cost(inst.prim);
      AxisMask axes = facts_.values[i].axes;
      for (int a = 0; a < arity(inst.prim); ++a) {
        const InstId argument = inst.args[as_index(a)];
        axes |= axes_[argument];
        if (nest_.places[argument].is_vector) cost += costs_[argument];
      }
      if (is_reduction(inst.prim)) axes = folds | always_outer;
      if (is_reduction(inst.prim)) cost = 0;
      axes_[i] = axes;
      costs_[i] = static_cast<std::uint16_t>(std::min(cost, 10000));
      nest_.places[i] = {level_of(axes), (axes >> nest_.vector_axis & 1) != 0};
    }
  }
  /// The parallel axes but for the vector axis.
  AxisMask outer_axes() const {
    AxisMask axes = 0;
    for (int a = 0; a < nest_.vector_axis; ++a)
      if (!k_.is_reduced(a)) axes |= axis_bit(a);
    return axes;
  }

  /// Computed inside the loops of a pass, as against hoisted out of them.
  bool is_inner(InstId id) const {
    const NestLevel level = nest_.places[id].level;
    if (is_column()) return level == NestLevel::near || level == NestLevel::far;
    return level == NestLevel::column || level == NestLevel::near;
  }

  /// Places in lists_.
  struct Range {
    std::size_t first = 0, count = 0;
  };
  struct Pass {
    Range reductions, needs;  // what it finishes; what it computes or fetches inside its loops
    Range scans;              // of those
    bool stores = false;
  };
  std::span<const InstId> in(const Range& range) const { return {lists_.data() + range.first, range.count}; }
  int pass_count() const { return static_cast<int>(passes_.size()); }

  void plan_passes() {
    for (std::uint16_t s = 0; s < k_.stores.size(); ++s) {
      const bool inner = k_.kind == KernelKind::pointwise || is_inner(k_.stores[s].value) || is_inner_store(s);
      (inner ? inner_stores_ : outer_stores_).push_back(s);
    }
    int last = std::max(facts_.depth - 1, 0);
    for (const std::uint16_t s : inner_stores_) last = std::max<int>(last, facts_.values[k_.stores[s].value].depth);
    first_pass_.resize(k_.body.size(), 0xFF);
    tile_.resize(k_.body.size(), -1);
    for (int pass = 0; pass <= last; ++pass) plan_pass(pass, pass == last && !inner_stores_.empty());
  }
  bool is_inner_store(std::uint16_t store) const {
    return std::find(facts_.inner_stores.begin(), facts_.inner_stores.end(), store) != facts_.inner_stores.end();
  }
  void plan_pass(int number, bool stores) {
    Pass pass;
    pass.stores = stores;
    SmallVector<bool, 256> needed(k_.body.size());
    pass.reductions.first = lists_.size();
    for (const InstId r : reductions_of(k_, facts_, number)) {
      lists_.push_back(r);
      for (int a = 0; a < arity(k_.body[r].prim); ++a) need(k_.body[r].args[as_index(a)], number, needed);
    }
    pass.needs.first = lists_.size();
    pass.reductions.count = pass.needs.first - pass.reductions.first;
    if (stores)
      for (const std::uint16_t s : inner_stores_) need(k_.stores[s].value, number, needed);
    for (std::size_t i = 0; i < needed.size(); ++i)
      if (needed[i]) lists_.push_back(static_cast<InstId>(i));
    pass.needs.count = lists_.size() - pass.needs.first;
    pass.scans.first = lists_.size();
    for (std::size_t i = 0; i < needed.size(); ++i)
      if (needed[i] && is_scan(k_.body[i].prim)) lists_.push_back(static_cast<InstId>(i));
    pass.scans.count = lists_.size() - pass.scans.first;
    passes_.push_back(pass);
  }

  /// What was computed in an earlier pass and is expensive comes back from a tile.
  void need(InstId id, int pass, SmallVector<bool, 256>& needed) {
    if (needed[id] || !is_inner(id) || k_.body[id].prim == Prim::immediate) return;
    needed[id] = true;
    if (first_pass_[id] == 0xFF) first_pass_[id] = static_cast<std::uint8_t>(pass);
    if (first_pass_[id] < pass && tile_[id] < 0 && is_worth_keeping(id)) {
      tile_[id] = static_cast<std::int8_t>(nest_.buffers.size());
      nest_.buffers.push_back({id, axis_bit(nest_.vector_axis), BufferSpace::tile});
    }
    if (first_pass_[id] < pass && tile_[id] >= 0) return;
    const Inst& inst = k_.body[id];
    for (int a = 0; a < arity(inst.prim); ++a) need(inst.args[as_index(a)], pass, needed);
  }
  bool is_worth_keeping(InstId id) const {
    return is_row() && nest_.near_axis < 0 && nest_.places[id].is_vector && k_.body[id].dtype != DType::bool_ &&
           static_cast<int>(nest_.buffers.size()) < choices_.most_tiles && costs_[id] >= machine_.least_cost_to_keep;
  }
  bool is_fetched(InstId id, int pass) const { return tile_[id] >= 0 && first_pass_[id] < pass; }

  /// Which values above the innermost loops something asks for.
  void mark_outside() {
    used_outside_.resize(k_.body.size());
    for (const std::uint16_t s : outer_stores_) use_outside(k_.stores[s].value);
    for (int number = 0; number < pass_count(); ++number) {
      const Pass& pass = passes_[as_index(number)];
      for (const InstId id : in(pass.needs)) {
        if (is_fetched(id, number)) continue;
        for (int a = 0; a < arity(k_.body[id].prim); ++a) use_argument(k_.body[id].args[as_index(a)]);
      }
      for (const InstId r : in(pass.reductions))
        for (int a = 0; a < arity(k_.body[r].prim); ++a) use_argument(k_.body[r].args[as_index(a)]);
      if (pass.stores)
        for (const std::uint16_t s : inner_stores_) use_argument(k_.stores[s].value);
    }
  }
  void use_argument(InstId id) {
    if (!is_inner(id)) use_outside(id);
  }
  void use_outside(InstId id) {
    if (used_outside_[id]) return;
    used_outside_[id] = true;
    if (is_reduction(k_.body[id].prim)) return;
    for (int a = 0; a < arity(k_.body[id].prim); ++a) use_outside(k_.body[id].args[as_index(a)]);
  }

  void choose_copies() {
    std::size_t longest = 0;
    for (int p = 0; p < pass_count(); ++p) longest = std::max(longest, length_of(passes_[as_index(p)]));
    if (choices_.copies) copies_ = *choices_.copies;
    else if (is_column()) copies_ = longest <= 4 && machine_.has_masks ? 8 : 4;  // wide blocks visit fewer pages
    else copies_ = longest > (facts_.has_guard ? 40 : 100) ? 1 : 2;              // fewer vectors see a border
    fold_copies_ = copies_;
    for (const Inst& inst : k_.body)
      if (is_scan(inst.prim) && is_row())  // whole groups
        copies_ = std::max(copies_, static_cast<int>(scan_group_bytes / size_of(inst.dtype)) / nest_.lanes);
    for (const Inst& inst : k_.body)
      if (is_reduction(inst.prim)) fold_copies_ = std::max(fold_copies_, accumulators_of(inst));
  }
  /// Instructions of one vector of a pass, roughly: elements that lie apart are picked up one by one.
  std::size_t length_of(const Pass& pass) const {
    std::size_t length = pass.needs.count;
    if (is_column()) return length;
    for (const InstId id : in(pass.needs)) {
      const Inst& inst = k_.body[id];
      if ((inst.prim == Prim::load || inst.prim == Prim::guarded_load) && lies_apart(inst.access))
        length += as_index(nest_.lanes);
    }
    return length;
  }
  bool lies_apart(std::uint16_t access) const {
    return k_.accesses[access].stride[as_index(nest_.vector_axis)] == StrideClass::any;
  }
  /// Vectors that make up the lanes of a reduction along the vector axis; of integers any number will do.
  int accumulators_of(const Inst& inst) const {
    if (inst.prim == Prim::fold) return fold_lanes / nest_.lanes;
    return is_floating(inst.dtype) ? 256 / static_cast<int>(size_of(inst.dtype)) / nest_.lanes : 4;
  }

  bool splits() const {
    return choices_.splits && is_row() && nest_.near_axis < 0 && pass_count() == 1 && !passes_[0].stores &&
           passes_[0].reductions.count != 0;
  }
  bool has_short_rows() const {
    if (!is_row() || nest_.near_axis >= 0 || facts_.has_gather || facts_.has_guard || choices_.short_rows == 0)
      return false;
    if (passes_[0].scans.count != 0) return false;
    return std::none_of(k_.accesses.begin(), k_.accesses.end(), [&](const Access& access) {
      return access.stride[as_index(nest_.vector_axis)] >= StrideClass::any;
    });
  }
  int short_rows_at_once() const {
    if (choices_.short_rows) return *choices_.short_rows;
    int cost = 0;
    for (const Inst& inst : k_.body) cost += machine_.cost(inst.prim);
    return machine_.has_masks && cost <= 120 ? 4 : 2;
  }

  // Nodes -----------------------------------------------------------------------------------------------------------

  std::size_t open_outer(int copies = 1) {
    return open_loop({.axes = outer_axes(),
                      .mode = LoopMode::task,
                      .tail = copies > 1 ? LoopTail::stepwise : LoopTail::none,
                      .copies = static_cast<std::uint8_t>(copies)});
  }
  void add_steps(const Pass& pass) {
    add_ids(NestNodeKind::step, in(pass.reductions), [](InstId) { return true; });
  }
  std::size_t open_fold(const Pass& pass, int axis, FoldPart part = FoldPart::whole) {
    const std::size_t first = nest_.ids.size();
    const Range& ids = part == FoldPart::scan ? pass.scans : pass.reductions;
    for (const InstId id : in(ids)) nest_.ids.push_back(id);
    return open({.kind = NestNodeKind::fold,
                 .part = part,
                 .first = static_cast<std::uint16_t>(first),
                 .count = static_cast<std::uint16_t>(ids.count),
                 .axis = static_cast<std::uint16_t>(axis)});
  }
  /// What a pass folds or scans along its innermost axis, if anything.
  std::optional<std::size_t> open_fold_or_scan(const Pass& pass, int axis) {
    if (pass.scans.count != 0) return open_fold(pass, axis, FoldPart::scan);
    if (pass.reductions.count != 0) return open_fold(pass, axis);
    return std::nullopt;
  }
  /// A gather whose index is the same in all lanes, and is known at another place than the gather's.
  bool has_check(InstId gather) const {
    if (k_.body[gather].prim != Prim::gather) return false;
    const InstId index = k_.body[gather].args[0];
    return !nest_.places[index].is_vector && (nest_.places[index].level != nest_.places[gather].level ||
                                              facts_.values[index].depth != facts_.values[gather].depth);
  }

  /// What stands at `level` above the innermost loops and is known after `depth` reductions.
  void add_outside(NestLevel level, int depth) {
    const std::size_t first = nest_.ids.size();
    const auto stands_here = [&](std::size_t i) {
      return nest_.places[i].level == level && facts_.values[i].depth == depth;
    };
    for (std::size_t i = 0; i < k_.body.size(); ++i)
      if (used_outside_[i] && stands_here(i) && !is_reduction(k_.body[i].prim) && k_.body[i].prim != Prim::immediate)
        nest_.ids.push_back(static_cast<InstId>(i));
    add_ids_since(NestNodeKind::compute, first);
    if (!facts_.has_gather) return;
    for (std::size_t i = 0; i < k_.body.size(); ++i)
      if (has_check(static_cast<InstId>(i)) && stands_here(k_.body[i].args[0])) add_check(static_cast<InstId>(i));
  }

  /// What a pass computes at a level inside its loops that is the same in all lanes, with the checks that it allows.
  void add_uniform(const Pass& pass, NestLevel level) {
    std::size_t first = nest_.ids.size();
    for (const InstId id : in(pass.needs)) {
      if (nest_.places[id].level != level || nest_.places[id].is_vector) continue;
      if (is_scan(k_.body[id].prim)) {
        add_ids_since(NestNodeKind::compute, first);
        first = add_step_of(id);
      } else {
        nest_.ids.push_back(id);
      }
      for (std::size_t g = id; facts_.has_gather && g < k_.body.size(); ++g)
        if (has_check(static_cast<InstId>(g)) && k_.body[g].args[0] == id && nest_.places[g].level != level) {
          add_ids_since(NestNodeKind::compute, first);
          first = nest_.ids.size();
          add_check(static_cast<InstId>(g));
        }
    }
    add_ids_since(NestNodeKind::compute, first);
  }

  void build_whole() {
    const std::size_t variant = open_variant(VariantKind::whole), stage = open_stage();
    add_outside(NestLevel::kernel, 0);
    const std::size_t outer = open_outer();
    if (is_column()) build_columns();
    else build_rows();
    close(outer);
    close(stage);
    close(variant);
  }

  int rounds() const { return std::max(pass_count(), facts_.depth + 1); }

  void build_rows() {
    for (int number = 0; number < rounds(); ++number) {
      add_outside(NestLevel::outer, number);
      if (number < pass_count()) build_row_pass(number);
    }
    add_stores(outer_stores_);
  }

  void build_row_pass(int number) {
    const Pass& pass = passes_[as_index(number)];
    if (nest_.near_axis < 0) return build_row_walk(number, LoopRange::whole);
    const bool folds = pass.reductions.count != 0;
    const std::size_t fold = folds ? open_fold(pass, nest_.near_axis) : 0;
    const std::size_t loop = open_loop({.axes = axis_bit(nest_.near_axis)});
    add_uniform(pass, NestLevel::near);
    build_row_walk(number, LoopRange::whole);
    close(loop);
    if (folds) close(fold);
  }

  void build_row_walk(int number, LoopRange range) {
    const Pass& pass = passes_[as_index(number)];
    const std::optional<std::size_t> fold = open_fold_or_scan(pass, nest_.vector_axis);
    const std::size_t loop = open_vector(pass.reductions.count != 0 ? fold_copies_ : copies_, range);
    std::size_t first = nest_.ids.size();
    for (const InstId id : in(pass.needs)) {
      if (nest_.places[id].level != NestLevel::column) continue;
      if (is_scan(k_.body[id].prim)) {
        add_ids_since(NestNodeKind::compute, first);
        first = add_step_of(id);
        continue;
      }
      const bool fetches = is_fetched(id, number);
      if (!fetches) nest_.ids.push_back(id);
      if (tile_[id] < 0) continue;
      add_ids_since(NestNodeKind::compute, first);
      first = nest_.ids.size();
      add({.kind = fetches ? NestNodeKind::fetch : NestNodeKind::keep, .first = static_cast<std::uint16_t>(tile_[id])});
    }
    add_ids_since(NestNodeKind::compute, first);
    add_steps(pass);
    if (pass.stores) add_stores(inner_stores_);
    close(loop);
    if (fold) close(*fold);
  }

  void build_columns() {
    add_outside(NestLevel::outer, 0);
    const std::size_t columns = open_vector(copies_);
    for (int number = 0; number < rounds(); ++number) {
      add_outside(NestLevel::column, number);
      if (number < pass_count()) build_column_pass(passes_[as_index(number)]);
    }
    add_stores(outer_stores_);
    close(columns);
  }

  void add_both(const Pass& pass, NestLevel level) {
    add_uniform(pass, level);
    add_computes(in(pass.needs),
                 [&](InstId id) { return nest_.places[id].level == level && nest_.places[id].is_vector; });
  }

  void build_column_pass(const Pass& pass) {
    if (nest_.far_axis < 0) return build_near(pass);
    const bool folds = pass.reductions.count != 0;
    const std::size_t fold = folds ? open_fold(pass, nest_.far_axis) : 0;
    const std::size_t loop = open_loop({.axes = axis_bit(nest_.far_axis)});
    add_both(pass, NestLevel::far);
    build_near(pass);
    close(loop);
    if (folds) close(fold);
  }

  void build_near(const Pass& pass) {
    const bool folds = pass.reductions.count != 0;
    const std::optional<std::size_t> fold = open_fold_or_scan(pass, nest_.near_axis);
    const std::size_t loop = open_loop({.axes = axis_bit(nest_.near_axis),
                                        .tail = LoopTail::stepwise,
                                        .copies = static_cast<std::uint8_t>(folds ? near_copies(pass) : 1)});
    add_both(pass, NestLevel::near);
    add_steps(pass);
    if (pass.stores) add_stores(inner_stores_);
    close(loop);
    if (fold) close(*fold);
  }
  int near_copies(const Pass& pass) const {
    if (choices_.near_copies) return *choices_.near_copies;
    return is_light(pass) ? 8 : 1;
  }
  /// Little enough work at a point that several of them in a row are worth their code.
  bool is_light(const Pass& pass) const {
    constexpr int few = 6;
    int cost = pass.stores ? few : 0;
    for (const InstId id : in(pass.needs))
      if (nest_.places[id].level == NestLevel::near) cost += machine_.cost(k_.body[id].prim);
    return cost < few;
  }

  /// A row is one vector: what a pass computes stays in registers for the later ones.
  void build_short_rows() {
    plan_registers();
    const std::size_t variant = open_variant(VariantKind::short_rows), stage = open_stage();
    add_outside(NestLevel::kernel, 0);
    const std::size_t outer = open_outer(short_rows_at_once());
    for (int number = 0; number < rounds(); ++number) {
      add_outside(NestLevel::outer, number);
      if (number < pass_count()) build_short_pass(number);
    }
    add_stores(outer_stores_);
    close(outer);
    close(stage);
    close(variant);
  }

  /// Each value is computed in the first pass that needs it.
  bool is_from_register(InstId id, int pass) const {
    return k_.body[id].prim != Prim::immediate && nest_.places[id].level == NestLevel::column && first_pass_[id] < pass;
  }
  /// Calls visit(value) for what a pass over short rows takes from elsewhere or from itself, some values several times.
  template <class Visit>
  void for_each_use(int number, Visit&& visit) const {
    const Pass& pass = passes_[as_index(number)];
    for (const InstId id : in(pass.needs))
      for (int a = 0; first_pass_[id] == number && a < arity(k_.body[id].prim); ++a)
        visit(k_.body[id].args[as_index(a)]);
    for (const InstId r : in(pass.reductions))
      for (int a = 0; a < arity(k_.body[r].prim); ++a) visit(k_.body[r].args[as_index(a)]);
    if (!pass.stores) return;
    for (const std::uint16_t s : inner_stores_) visit(k_.stores[s].value);
  }
  void plan_registers() {
    register_.resize(k_.body.size(), -1);
    for (int number = 1; number < pass_count(); ++number)
      for_each_use(number, [&](InstId id) {
        if (register_[id] >= 0 || !is_from_register(id, number)) return;
        register_[id] = static_cast<std::int16_t>(nest_.buffers.size());
        nest_.buffers.push_back({id, axis_bit(nest_.vector_axis), BufferSpace::reg});
      });
  }

  void build_short_pass(int number) {
    const Pass& pass = passes_[as_index(number)];
    const bool folds = pass.reductions.count != 0;
    const std::size_t fold = folds ? open_fold(pass, nest_.vector_axis) : 0;
    const std::size_t loop = open_vector(1, LoopRange::single);
    SmallVector<bool, 256> is_fetched(k_.body.size());
    for_each_use(number, [&](InstId id) {
      if (is_fetched[id] || !is_from_register(id, number)) return;
      is_fetched[id] = true;
      add({.kind = NestNodeKind::fetch, .first = static_cast<std::uint16_t>(register_[id])});
    });
    const auto is_new = [&](InstId id) {
      return first_pass_[id] == number && nest_.places[id].level == NestLevel::column;
    };
    add_ids(NestNodeKind::compute, in(pass.needs), is_new);
    for (const InstId id : in(pass.needs))
      if (is_new(id) && register_[id] >= 0)
        add({.kind = NestNodeKind::keep, .first = static_cast<std::uint16_t>(register_[id])});
    add_steps(pass);
    if (pass.stores) add_stores(inner_stores_);
    close(loop);
    if (folds) close(fold);
  }

  /// A few long rows: their blocks are tasks, whose values the second stage takes in, in order.
  void build_split() {
    const Pass& pass = passes_[0];
    const std::size_t variant = open_variant(VariantKind::split), blocks = open_stage();
    add_outside(NestLevel::kernel, 0);
    const std::size_t outer = open_outer();
    add_outside(NestLevel::outer, 0);
    const std::size_t tasks = open_loop(block_loop(LoopMode::task));
    const std::size_t part = open_fold(pass, nest_.vector_axis, FoldPart::blocks);
    build_block_walk(pass);
    close(part);
    const std::size_t first = nest_.buffers.size();
    for (std::size_t i = 0; i < pass.reductions.count; ++i) {
      const InstId r = in(pass.reductions)[i];
      if (nest_.holder(in(pass.reductions), i) != r) continue;
      nest_.buffers.push_back(
          {r, static_cast<AxisMask>(outer_axes() | axis_bit(nest_.vector_axis)), BufferSpace::workspace});
      add({.kind = NestNodeKind::keep, .first = static_cast<std::uint16_t>(nest_.buffers.size() - 1)});
    }
    close(tasks);
    close(outer);
    close(blocks);
    build_finish(pass, first);
    close(variant);
  }
  Loop block_loop(LoopMode mode) const {
    return {.axes = axis_bit(nest_.vector_axis), .mode = mode, .range = LoopRange::blocks, .step = row_sum_block};
  }
  void build_block_walk(const Pass& pass) {
    const std::size_t loop = open_vector(fold_copies_, LoopRange::block);
    add_ids(NestNodeKind::compute, in(pass.needs),
            [&](InstId id) { return nest_.places[id].level == NestLevel::column; });
    add_steps(pass);
    close(loop);
  }
  void build_finish(const Pass& pass, std::size_t first_buffer) {
    const std::size_t stage = open_stage();
    add_outside(NestLevel::kernel, 0);
    const std::size_t outer = open_outer();
    add_outside(NestLevel::outer, 0);
    const std::size_t fold = open_fold(pass, nest_.vector_axis, FoldPart::finish);
    const std::size_t loop = open_loop(block_loop(LoopMode::serial));
    for (std::size_t b = first_buffer; b < nest_.buffers.size(); ++b)
      add({.kind = NestNodeKind::fetch, .first = static_cast<std::uint16_t>(b)});
    add_steps(pass);
    close(loop);
    close(fold);
    add_outside(NestLevel::outer, 1);
    add_stores(outer_stores_);
    close(outer);
    close(stage);
  }

  static constexpr AxisMask always_outer = 1u << 15;  // no axis: a value that belongs to a fold's place
  const Kernel& k_;
  const NestChoices choices_;
  const Machine& machine_;
  const KernelFacts facts_;
  SmallVector<std::uint16_t, 64> costs_;  // of computing a value from what is loaded
  SmallVector<AxisMask, 64> axes_;
  SmallVector<Pass, 8> passes_;
  SmallVector<InstId, 128> lists_;
  SmallVector<std::uint8_t, 64> first_pass_;
  SmallVector<std::int8_t, 64> tile_;
  SmallVector<std::int16_t, 64> register_;  // short rows: the Buffer of a value that later passes take
  SmallVector<bool, 256> used_outside_;
  StoreList inner_stores_, outer_stores_;
  int copies_ = 2, fold_copies_ = 2;
};

}  // namespace kernel_detail

SINTER_DECL std::optional<LoopNest> build_nest(const Kernel& kernel, const Schedule& schedule, const Machine& machine,
                                               IndexWidth width, std::string& why) {
  const std::optional<NestChoices> choices = read_choices(kernel, schedule, machine, why);
  if (!choices) return std::nullopt;
  if (kernel.kind == KernelKind::contraction) return build_product_nest(kernel, *choices, why);
  return kernel_detail::NestBuilder(kernel, *choices, machine, width).run(why);
}

SINTER_NAMESPACE_END
