// Nests of products. On a processor two variants: `whole`, where the operands are read where they are, and `packed`,
// whose first stage computes the operand of columns for good. Which one runs, how long tiles are and whether sums wait
// in registers or in memory for their epilogue follows from numbers. On a GPU one, whose sums may come in pieces.
#pragma once

#include <sinter/kernel/loop_nest/product.hpp>

#include <sinter/base/context.hpp>
#include <sinter/base/index.hpp>
#include <sinter/kernel/facts.hpp>
#include <sinter/kernel/loop_nest/verify.hpp>
#include <sinter/kernel/loop_nest/writer.hpp>

#include <algorithm>
#include <bit>
#include <utility>

SINTER_NAMESPACE_BEGIN

namespace kernel_detail {

class ProductBuilder : private NestWriter {
 public:
  ProductBuilder(const Kernel& kernel, const NestChoices& choices)
      : NestWriter(kernel), k_(kernel), choices_(choices), facts_(facts_of(kernel)) {
    nest_.vector_axis = kernel.rank() - 2;
    nest_.near_axis = kernel.rank() - 1;
    std::int64_t largest = 4;
    for (const Inst& inst : kernel.body) largest = std::max(largest, size_of(inst.dtype));
    nest_.lanes = choices.vector_bytes / static_cast<int>(largest);
  }
  ProductBuilder(const Kernel& kernel, const GpuProduct& gpu)
      : NestWriter(kernel),
        k_(kernel),
        choices_{.tile_rows = gpu.tile_rows, .tile_columns = gpu.tile_columns},
        facts_(facts_of(kernel)),
        gpu_(&gpu) {
    nest_.is_on_gpu = true;
    nest_.calls.push_back(gpu.call);
    nest_.vector_axis = std::countr_zero(gpu.call.n);
    nest_.near_axis = std::countr_zero(gpu.call.k);
    nest_.lanes = gpu.width;
  }

  std::optional<LoopNest> run(std::string& why) {
    if (gpu_ == nullptr) why = find_operands();
    if (!why.empty()) return std::nullopt;
    mark_uses();
    why = place_values();
    if (!why.empty()) return std::nullopt;
    nest_.nodes.reserve(40);
    nest_.ids.reserve(k_.body.size() * 2 + 8);
    build(VariantKind::whole);
    if (has_packed_operand()) build(VariantKind::packed);
    if (SINTER_UNLIKELY(Context::get().checks)) verify(nest_);
    return std::move(nest_);
  }

 private:
  const Call& call() const { return nest_.calls[0]; }
  AxisMask m() const { return call().m; }
  AxisMask n() const { return call().n; }
  AxisMask k() const { return call().k; }
  AxisMask batch() const {
    const auto all = static_cast<AxisMask>((1u << k_.rank()) - 1);
    return static_cast<AxisMask>(all & ~(m() | n() | k()));
  }
  bool is_cut() const { return gpu_ != nullptr && gpu_->piece != 0; }
  LoopMode task_mode() const { return gpu_ != nullptr ? LoopMode::grid : LoopMode::task; }
  AxisMask axes_of(InstId id) const { return facts_.values[id].axes; }
  /// Does a store ask for the product at all?
  bool has_sums() const { return facts_.values[call().value].is_live; }

  // Decisions -------------------------------------------------------------------------------------------------------

  /// The operands change places where the first varies along columns, or the second along rows.
  std::string find_operands() {
    const auto found =
        std::find_if(k_.body.begin(), k_.body.end(), [](const Inst& inst) { return inst.prim == Prim::contract; });
    if (found == k_.body.end() || k_.rank() < 3) return "not a contraction";
    InstId a = found->args[0], b = found->args[1];
    const AxisMask rows = axis_bit(k_.rank() - 3), columns = axis_bit(k_.rank() - 2);
    if ((axes_of(a) & columns) != 0 || (axes_of(b) & rows) != 0) std::swap(a, b);
    if ((axes_of(a) & columns) != 0 || (axes_of(b) & rows) != 0) return "an operand varies over both m and n";
    nest_.calls.push_back({.value = static_cast<InstId>(found - k_.body.begin()),
                           .a = a,
                           .b = b,
                           .m = rows,
                           .n = columns,
                           .k = axis_bit(k_.rank() - 1)});
    return {};
  }

  /// Where a value is computed: inside the loops over batches, rows and columns; beside the sums; at each k. On a GPU
  /// an operand's threads and those of the epilogue have nothing in common, so what both need is computed twice.
  enum class Where : std::uint8_t { kernel, batch, row, column, epilogue, sums, both, nowhere };

  static unsigned place_bit(Where where) { return 1u << as_index(where); }

  /// What a value is for: an instruction may be part of both operands and of the epilogue.
  enum : std::uint8_t { for_a = 1, for_b = 2, for_store = 4, for_all = 7 };
  void mark_uses() {
    uses_.resize(k_.body.size());
    for (const Store& store : k_.stores) uses_[store.value] |= for_store;
    if (has_sums()) {
      uses_[call().a] |= for_a;
      uses_[call().b] |= for_b;
    }
    for (std::size_t i = k_.body.size(); i-- > 0;) {
      if (i == call().value) continue;
      for (int arg = 0; arg < arity(k_.body[i].prim); ++arg) uses_[k_.body[i].args[as_index(arg)]] |= uses_[i];
    }
  }

  /// Operands are computed at each point, as whoever makes the sums reads them; what stores need, as far outside as it
  /// can be. The sums are one for each lane, however few axes they vary along.
  std::string place_values() {
    SmallVector<bool, 256> has_sum(k_.body.size());
    nest_.places.resize(k_.body.size());
    where_.resize(k_.body.size(), Where::nowhere);
    for (std::size_t i = 0; i < k_.body.size(); ++i) {
      const Inst& inst = k_.body[i];
      has_sum[i] = i == call().value;
      for (int arg = 0; arg < arity(inst.prim) && !has_sum[i]; ++arg) has_sum[i] = has_sum[inst.args[as_index(arg)]];
      const AxisMask axes = axes_of(static_cast<InstId>(i));
      const bool is_vector = has_sum[i] || (axes & n()) != 0;
      const bool is_operand = (uses_[i] & for_store) == 0 && i != call().value;
      const Where where = is_operand ? Where::sums : where_of(i, axes, is_vector);
      if (where != Where::sums && (axes & k()) != 0) return "the epilogue varies along k";
      nest_.places[i] = {level_of(where), is_vector};
      if (inst.prim == Prim::immediate || i == call().value) continue;
      where_[i] = where;
      taken_ |= place_bit(where);
    }
    return {};
  }
  /// Values along columns that an operand stands on come before the sums, others with the rest of the epilogue.
  Where where_of(std::size_t id, AxisMask axes, bool is_vector) const {
    const bool is_in_operand = (uses_[id] & (for_a | for_b)) != 0;
    if (gpu_ != nullptr) return is_in_operand ? Where::both : Where::epilogue;
    if (is_vector) return is_in_operand ? Where::column : Where::epilogue;
    return axes == 0 ? Where::kernel : (axes & m()) == 0 ? Where::batch : Where::row;
  }
  static NestLevel level_of(Where where) {
    switch (where) {
      case Where::kernel: return NestLevel::kernel;
      case Where::batch:
      case Where::row: return NestLevel::outer;
      case Where::column:
      case Where::both:
      case Where::epilogue: return NestLevel::column;
      case Where::sums:
      case Where::nowhere: return NestLevel::near;
    }
    __builtin_unreachable();
  }

  // Nodes -----------------------------------------------------------------------------------------------------------

  /// The values for `use` that stand at a place.
  void add_values(Where where, unsigned use) {
    unsigned places = place_bit(where);
    if (where == Where::epilogue || where == Where::sums) places |= place_bit(Where::both);
    if ((taken_ & places) == 0) return;
    const std::size_t first = nest_.ids.size();
    for (std::size_t i = 0; i < where_.size(); ++i)
      if ((place_bit(where_[i]) & places) != 0 && (uses_[i] & use) != 0) nest_.ids.push_back(static_cast<InstId>(i));
    add_ids_since(NestNodeKind::compute, first);
  }

  Loop tiles(AxisMask axis, int length) const {
    return {.axes = axis, .mode = task_mode(), .range = LoopRange::tiles, .step = length};
  }
  void open_batches(AxisMask axes) {
    if (axes != 0) open_loop({.axes = axes, .mode = task_mode()});
  }

  void build(VariantKind kind) {
    const std::size_t variant = open_variant(kind);
    if (kind == VariantKind::packed) build_packing();
    const std::size_t stage = open_stage(gpu_ != nullptr ? gpu_->threads : 0);
    add_values(Where::kernel, for_all);
    open_batches(batch());
    add_values(Where::batch, for_all);
    open_loop(tiles(m(), choices_.tile_rows));
    open_loop(tiles(n(), choices_.tile_columns));
    if (is_cut()) open_loop({.axes = k(), .mode = LoopMode::grid, .range = LoopRange::blocks, .step = gpu_->piece});
    build_call(kind);
    close_from(stage);
    if (is_cut()) build_finish();
    close(variant);
  }

  void build_call(VariantKind kind) {
    open({.kind = NestNodeKind::call});
    open_loop({.axes = m(), .range = LoopRange::tile});
    add_values(Where::row, for_all);
    open_vector(1, LoopRange::tile);
    add_values(Where::column, for_all);
    if (has_sums()) build_sums(kind);
    if (is_cut()) {
      nest_.buffers.push_back({.value = call().value,
                               .axes = static_cast<AxisMask>(batch() | m() | n() | k()),
                               .space = BufferSpace::workspace});
      add({.kind = NestNodeKind::keep, .first = 0});
    } else {
      // Threads may still read tiles of the operands where results are about to pass.
      if (gpu_ != nullptr) add({.kind = NestNodeKind::barrier, .count = 1});
      build_epilogue();
    }
  }
  void build_epilogue() {
    add_values(Where::epilogue, for_store);
    for (std::uint16_t s = 0; s < k_.stores.size(); ++s) add({.kind = NestNodeKind::store, .first = s});
  }

  /// The second launch adds the pieces: a thread for neighbouring columns of a result.
  void build_finish() {
    const std::size_t stage = open_stage(gpu_->finish_threads);
    open_batches(static_cast<AxisMask>(batch() | m()));
    open_loop({.axes = n(), .mode = LoopMode::grid, .range = LoopRange::blocks, .step = nest_.lanes});
    open_loop({.axes = n(), .mode = LoopMode::vector, .range = LoopRange::block, .step = nest_.lanes});
    const std::size_t first = nest_.ids.size(), fold = open_fold(FoldPart::finish);
    open_loop({.axes = k(),
               .mode = LoopMode::lanes,
               .tail = LoopTail::mask,
               .range = LoopRange::blocks,
               .copies = static_cast<std::uint8_t>(gpu_->finish_copies),
               .step = gpu_->piece});
    add({.kind = NestNodeKind::fetch, .first = 0});
    add({.kind = NestNodeKind::step, .first = static_cast<std::uint16_t>(first), .count = 1});
    close_from(fold);
    build_epilogue();
    close_from(stage);
  }
  std::size_t open_fold(FoldPart part) {
    nest_.ids.push_back(call().value);
    return open({.kind = NestNodeKind::fold,
                 .part = part,
                 .first = static_cast<std::uint16_t>(nest_.ids.size() - 1),
                 .count = 1,
                 .axis = static_cast<std::uint16_t>(nest_.near_axis)});
  }
  Loop loop_over_k() const {
    if (gpu_ == nullptr) return {.axes = k()};
    return {.axes = k(),
            .mode = LoopMode::lanes,
            .tail = LoopTail::mask,
            .range = is_cut() ? LoopRange::block : LoopRange::whole,
            .lanes = static_cast<std::uint16_t>(gpu_->teams),
            .step = gpu_->team_depth};
  }

  void build_sums(VariantKind kind) {
    const std::size_t first = nest_.ids.size(), fold = open_fold(is_cut() ? FoldPart::blocks : FoldPart::whole);
    open_loop(loop_over_k());
    const bool is_packed = kind == VariantKind::packed;
    if (is_packed) add({.kind = NestNodeKind::fetch, .first = 0});
    add_values(Where::sums, is_packed ? for_a : for_a | for_b);
    add({.kind = NestNodeKind::step, .first = static_cast<std::uint16_t>(first), .count = 1});
    close_from(fold);
  }

  /// What the epilogue or the other operand has as well is no panel of its own.
  bool has_packed_operand() const {
    return gpu_ == nullptr && uses_[call().b] == for_b && (axes_of(call().b) & n()) != 0;
  }
  /// A panel at a time, one k after the other.
  void build_packing() {
    const auto axes = static_cast<AxisMask>(axes_of(call().b) & batch());
    nest_.buffers.push_back({.value = call().b,
                             .axes = static_cast<AxisMask>(axes | n() | k()),
                             .space = BufferSpace::workspace,
                             .lasts = choices_.keeps_packed});
    const std::size_t stage = open_stage();
    add_values(Where::kernel, for_b);
    open_batches(axes);
    add_values(Where::batch, for_b);
    open_loop(tiles(n(), choices_.tile_columns));
    open_vector(1, LoopRange::tile);
    add_values(Where::column, for_b);
    open_loop({.axes = k()});
    add_values(Where::sums, for_b);
    add({.kind = NestNodeKind::keep, .first = 0});
    close_from(stage);
  }

  const Kernel& k_;
  const NestChoices choices_;
  const KernelFacts facts_;
  const GpuProduct* const gpu_ = nullptr;  // null: for a processor
  SmallVector<std::uint8_t, 64> uses_;
  SmallVector<Where, 64> where_;
  unsigned taken_ = 0;  // places that have values
};

}  // namespace kernel_detail

SINTER_DECL std::optional<LoopNest> build_product_nest(const Kernel& kernel, const NestChoices& choices,
                                                       std::string& why) {
  return kernel_detail::ProductBuilder(kernel, choices).run(why);
}

SINTER_DECL LoopNest build_gpu_product_nest(const Kernel& kernel, const GpuProduct& product) {
  std::string why;
  std::optional<LoopNest> nest = kernel_detail::ProductBuilder(kernel, product).run(why);
  ensure(nest.has_value(), why.c_str());
  return std::move(*nest);
}

SINTER_DECL std::optional<Call> find_gemm(const Kernel& kernel, const KernelFacts& facts) {
  const InstList sums = reductions_of(kernel, facts, 0);
  if (facts.depth != 1 || sums.size() != 1 || !std::has_single_bit(facts.reduced) || !facts.inner_stores.empty())
    return std::nullopt;
  const Inst& contract = kernel.body[sums[0]];
  if (contract.prim != Prim::contract) return std::nullopt;
  InstId a = contract.args[0], b = contract.args[1];
  const auto axes = [&](InstId id) { return facts.values[id].axes; };
  const auto last_own = [&](InstId id, InstId other) {
    return std::bit_floor(static_cast<AxisMask>(axes(id) & ~axes(other)));
  };
  if ((axes(a) & axes(b) & facts.reduced) == 0 || last_own(a, b) == 0 || last_own(b, a) == 0) return std::nullopt;
  if (last_own(a, b) > last_own(b, a)) std::swap(a, b);
  return Call{.value = sums[0], .a = a, .b = b, .m = last_own(a, b), .n = last_own(b, a), .k = facts.reduced};
}

namespace kernel_detail {

/// The instructions that stand outside of the sums, with the constants that they and the stores take.
inline SmallVector<bool, 256> epilogue_insts(const LoopNest& product) {
  const Kernel& kernel = *product.kernel;
  SmallVector<bool, 256> needed(kernel.body.size());
  const auto need_constant = [&](InstId id) { needed[id] |= kernel.body[id].prim == Prim::immediate; };
  const std::size_t variant = product.find(VariantKind::whole);
  for (std::size_t place = variant; place < product.nodes[variant].end; ++place) {
    const NestNode& node = product.nodes[place];
    if (node.kind == NestNodeKind::fold) {
      needed[product.calls[0].value] = true;
      place = node.end - 1;
    }
    if (node.kind == NestNodeKind::store) need_constant(kernel.stores[node.first].value);
    if (node.kind != NestNodeKind::compute) continue;
    for (const InstId id : product.ids_of(node)) {
      needed[id] = true;
      for (int arg = 0; arg < arity(kernel.body[id].prim); ++arg) need_constant(kernel.body[id].args[as_index(arg)]);
    }
  }
  return needed;
}

/// Copies a product's epilogue with numbers of its own.
class EpilogueWriter {
 public:
  explicit EpilogueWriter(const LoopNest& product) : product_(product), k_(*product.kernel) {}

  ProductEpilogue run() {
    const std::size_t k = as_index(product_.near_axis);
    const DType dtype = k_.body[product_.calls[0].value].dtype;
    Kernel& e = epilogue_.kernel;
    e.axes = k_.axes;
    e.axes.pop_back();
    e.operands = k_.operands;
    e.operands.push_back({dtype, false});
    insts_.resize(k_.body.size(), no_inst);
    accesses_.resize(k_.accesses.size(), -1);
    std::optional<std::size_t> sum;
    const SmallVector<bool, 256> needed = epilogue_insts(product_);
    for (std::size_t i = 0; i < k_.body.size(); ++i) {
      if (!needed[i]) continue;
      if (i == product_.calls[0].value) sum = e.body.size();
      insts_[i] = static_cast<InstId>(e.body.size());
      e.body.push_back(sum == e.body.size() ? Inst{.prim = Prim::load, .dtype = dtype} : copied(k_.body[i]));
    }
    for (const Store& store : k_.stores) e.stores.push_back({access_of(store.access), insts_[store.value]});
    Access access{.operand = static_cast<std::uint16_t>(k_.operands.size()), .stride = {}};
    access.stride[k - 2] = StrideClass::any;
    access.stride[k - 1] = StrideClass::unit;
    if (sum) e.body[*sum].access = static_cast<std::uint16_t>(e.accesses.size());
    e.accesses.push_back(access);
    return std::move(epilogue_);
  }

 private:
  Inst copied(Inst inst) {
    for (int arg = 0; arg < arity(inst.prim); ++arg) {
      InstId& id = inst.args[as_index(arg)];
      id = insts_[id];
    }
    if (reads_memory(inst.prim)) inst.access = access_of(inst.access);
    return inst;
  }
  std::uint16_t access_of(std::uint16_t access) {
    if (accesses_[access] < 0) {
      accesses_[access] = static_cast<int>(epilogue_.access_of.size());
      epilogue_.access_of.push_back(access);
      epilogue_.kernel.accesses.push_back(k_.accesses[access]);
      epilogue_.kernel.accesses.back().stride[as_index(product_.near_axis)] = StrideClass::zero;
    }
    return static_cast<std::uint16_t>(accesses_[access]);
  }

  const LoopNest& product_;
  const Kernel& k_;
  ProductEpilogue epilogue_;
  SmallVector<InstId, 64> insts_;
  SmallVector<int, 64> accesses_;
};

}  // namespace kernel_detail

SINTER_DECL ProductEpilogue epilogue_of(const LoopNest& product) {
  return kernel_detail::EpilogueWriter(product).run();
}

SINTER_NAMESPACE_END
