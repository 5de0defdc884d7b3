// The axes of a kernel: which leaves of the group's space there are, in which order, which neighbours merge; and the
// Kernel and Geometry over them. The last axis is the one to vectorise, so it should have unit strides.
#pragma once

#include <sinter/base/index.hpp>
#include <sinter/kernel/lowering.hpp>

#include <sinter/base/sort_few.hpp>
#include <sinter/kernel/kernel_simplify.hpp>

#include <algorithm>

SINTER_NAMESPACE_BEGIN
namespace kernel_detail {

/// An access over the leaf axes of the space. `is_position`: no memory; the flat number itself is the value.
struct DraftAccess {
  OperandRef operand;
  AxisIndex flat;
  Dim gather_extent, gather_stride;
  DType dtype = DType::f32;
  bool is_position = false;
  bool is_written = false;

  Dim stride(int leaf) const {
    for (const IndexTerm& term : flat.terms)
      if (term.axis == leaf) return term.factor;
    return Dim(0);
  }
};

/// A kernel whose axes are not chosen yet. Prim::index holds the number of an access.
struct Draft {
  Space space;
  std::vector<DraftAccess> accesses;
  std::vector<Inst> body;
  std::vector<Store> stores;
  std::vector<ScalarFold> folds;
  AxisIndex row, column;  // of a contraction's result
};

/// An axis of the kernel: leaves of the space that merge into one, outermost first. No leaves: extent 1.
struct MergedAxis {
  SmallVector<std::int32_t, 4> leaves;
  bool is_reduced = false;
  Dim extent = 1;
};

struct AxisChoice {
  KernelKind kind = KernelKind::pointwise;
  std::vector<MergedAxis> axes;
  bool swaps_operands = false;  // contraction: rows and columns have changed places
  bool is_reversed = false;     // the reduced axis runs from its end
};

class AxisChooser {
 public:
  AxisChooser(const FusionGraph& nodes, const FusionGroup& group, const Draft& draft)
      : nodes_(nodes), group_(group), draft_(draft) {
    const std::vector<bool> live = live_instructions(draft.body, draft.stores);
    is_used_.assign(draft.accesses.size(), false);
    for (std::size_t i = 0; i < draft.body.size(); ++i) {
      const Inst& inst = draft.body[i];
      if (!live[i]) continue;
      if (reads_memory(inst.prim)) is_used_[inst.access] = true;
      if (inst.prim == Prim::index) is_used_[inst.bits] = true;
    }
    for (const Store& store : draft.stores) is_used_[store.access] = true;
    list_leaves();
  }

  AxisChoice run() {
    if (group_.contraction >= 0) return contraction();
    if (group_.has_reduction) return reduction();
    const bool is_scatter = !draft_.stores.empty() && draft_.stores[0].index != no_inst;
    return is_scatter ? scatter() : pointwise();
  }

 private:
  using Leaves = SmallVector<std::int32_t, 12>;

  void list_leaves();
  void append_leaf(int axis);
  AxisChoice pointwise();
  AxisChoice reduction();
  AxisChoice contraction();
  AxisChoice scatter();
  Leaves order_of_scatter() const;
  std::int64_t unit_votes(int leaf) const;
  int best_vector_leaf(const Leaves& leaves) const;
  void sort_by_stride(Leaves& leaves, const DraftAccess* guide) const;
  const DraftAccess* guide(bool want_store) const;
  /// Merges neighbours where every access allows it.
  std::vector<MergedAxis> merged(const Leaves& leaves) const;
  bool merges(int outer, int inner) const;
  std::uint64_t leaves_under(InstId value) const;
  std::uint64_t leaves_in(const AxisIndex& index) const {
    IndexMap map;
    map.push_back(index);
    return leaves_of(draft_.space, map);
  }

  const FusionGraph& nodes_;
  const FusionGroup& group_;
  const Draft& draft_;
  std::vector<bool> is_used_;
  Leaves parallel_, reduced_;
};

SINTER_DECL void AxisChooser::append_leaf(int axis) {
  const SpaceAxis& node = draft_.space[axis];
  if (!node.is_leaf()) {
    append_leaf(node.outer);
    append_leaf(node.inner);
  } else if (!is_number(node.extent, 1)) {
    (node.is_reduced ? reduced_ : parallel_).push_back(axis);
  }
}

SINTER_DECL void AxisChooser::list_leaves() {
  std::uint64_t children = 0;
  for (const SpaceAxis& axis : draft_.space.axes)
    if (!axis.is_leaf()) children |= std::uint64_t{1} << axis.outer | std::uint64_t{1} << axis.inner;
  for (int a = 0; a < draft_.space.size(); ++a)
    if ((children >> a & 1) == 0) append_leaf(a);
}

/// Elements that accesses with unit stride along this leaf touch; stores count half as much again.
SINTER_DECL std::int64_t AxisChooser::unit_votes(int leaf) const {
  std::int64_t votes = 0;
  for (std::size_t i = 0; i < draft_.accesses.size(); ++i) {
    const DraftAccess& access = draft_.accesses[i];
    if (!is_used_[i] || access.is_position || !is_number(access.stride(leaf), 1)) continue;
    std::int64_t elements = 1;
    for (const IndexTerm& term : access.flat.terms) elements *= nodes_.estimate(draft_.space[term.axis].extent);
    votes += elements * (access.is_written ? 3 : 2);
  }
  return votes;
}

SINTER_DECL int AxisChooser::best_vector_leaf(const Leaves& leaves) const {
  int best = -1;
  std::int64_t most = -1;
  for (std::int32_t leaf : leaves) {
    const std::int64_t votes = unit_votes(leaf);
    if (votes >= most) {
      most = votes;
      best = leaf;
    }
  }
  return best;
}

/// The largest access that reads (or writes) memory: its strides order the axes.
SINTER_DECL const DraftAccess* AxisChooser::guide(bool want_store) const {
  const DraftAccess* best = nullptr;
  for (std::size_t i = 0; i < draft_.accesses.size(); ++i) {
    const DraftAccess& access = draft_.accesses[i];
    if (!is_used_[i] || access.is_position || access.is_written != want_store) continue;
    if (best == nullptr || access.flat.terms.size() > best->flat.terms.size()) best = &access;
  }
  return best;
}

SINTER_DECL void AxisChooser::sort_by_stride(Leaves& leaves, const DraftAccess* guide) const {
  if (guide == nullptr) return;
  const auto step = [&](int leaf) {
    const std::int64_t stride = nodes_.estimate(guide->stride(leaf));
    return stride == 0 ? std::int64_t{1} << 62 : stride;
  };
  sort_few(leaves.begin(), leaves.end(), [&](std::int32_t a, std::int32_t b) { return step(a) > step(b); });
}

SINTER_DECL bool AxisChooser::merges(int outer, int inner) const {
  const Dim extent = draft_.space[inner].extent;
  for (std::size_t i = 0; i < draft_.accesses.size(); ++i) {
    if (!is_used_[i]) continue;
    if (!identical(draft_.accesses[i].stride(outer), extent * draft_.accesses[i].stride(inner))) return false;
  }
  return true;
}

SINTER_DECL std::vector<MergedAxis> AxisChooser::merged(const Leaves& leaves) const {
  std::vector<MergedAxis> axes;
  for (std::int32_t leaf : leaves) {
    const SpaceAxis& axis = draft_.space[leaf];
    if (!axes.empty() && axes.back().is_reduced == axis.is_reduced && merges(axes.back().leaves.back(), leaf)) {
      axes.back().leaves.push_back(leaf);
      axes.back().extent *= axis.extent;
      continue;
    }
    MergedAxis made;
    made.leaves.push_back(leaf);
    made.is_reduced = axis.is_reduced;
    made.extent = axis.extent;
    axes.push_back(std::move(made));
  }
  return axes;
}

SINTER_DECL AxisChoice AxisChooser::pointwise() {
  AxisChoice choice;
  Leaves order = parallel_;
  sort_by_stride(order, guide(true));
  const int best = best_vector_leaf(order);
  Leaves leaves;
  for (std::int32_t leaf : order)
    if (leaf != best) leaves.push_back(leaf);
  if (best >= 0) leaves.push_back(best);
  choice.axes = merged(leaves);
  if (choice.axes.empty()) choice.axes.emplace_back();
  return choice;
}

/// The leaves in the order of the scattered value's elements. The space's own is that of whichever member came first.
SINTER_DECL AxisChooser::Leaves AxisChooser::order_of_scatter() const {
  Leaves ordered;
  for (const FusionMember& member : group_.members) {
    if (nodes_[member.node].kind != NodeKind::scatter) continue;
    const Shape& walked = nodes_[nodes_[member.node].inputs[1]].shape;
    for (int i = 0; i < walked.rank(); ++i) {
      if (is_number(walked[i], 1)) continue;
      const auto digits = digits_of(draft_.space, member.map()[i], walked[i]);
      ensure(digits.has_value(), "lowering: a scatter that does not walk its value");
      for (std::int32_t leaf : *digits)
        if (std::find(parallel_.begin(), parallel_.end(), leaf) != parallel_.end()) ordered.push_back(leaf);
    }
  }
  ensure(ordered.size() == parallel_.size(), "lowering: a scatter has axes that its value has not");
  return ordered;
}

/// Iterations collide only where the store stands still: along axes of the index alone. These keep their order, in
/// which the last of equal places wins; the others stand outside of them, but for the vector axis.
SINTER_DECL AxisChoice AxisChooser::scatter() {
  AxisChoice choice;
  choice.kind = KernelKind::scatter;
  const DraftAccess& target = draft_.accesses[draft_.stores[0].access];
  Leaves free, colliding, leaves;
  for (std::int32_t leaf : order_of_scatter()) (is_number(target.stride(leaf), 0) ? colliding : free).push_back(leaf);
  sort_by_stride(free, &target);
  Leaves all = free;
  for (std::int32_t leaf : colliding) all.push_back(leaf);
  const int best = best_vector_leaf(all);
  bool is_free = false;
  for (std::int32_t leaf : free) {
    is_free |= leaf == best;
    if (leaf != best) leaves.push_back(leaf);
  }
  for (std::int32_t leaf : colliding) leaves.push_back(leaf);
  if (is_free) leaves.push_back(best);
  choice.axes = merged(leaves);
  if (choice.axes.empty()) choice.axes.emplace_back();
  return choice;
}

SINTER_DECL AxisChoice AxisChooser::reduction() {
  AxisChoice choice;
  sort_by_stride(parallel_, guide(true));
  sort_by_stride(reduced_, guide(false));
  Leaves all = parallel_;
  for (std::int32_t leaf : reduced_) all.push_back(leaf);
  const int best = best_vector_leaf(all);
  Leaves leaves;
  const auto append = [&](const Leaves& from) {
    for (std::int32_t leaf : from)
      if (leaf != best) leaves.push_back(leaf);
  };
  append(parallel_);
  append(reduced_);
  if (best >= 0) leaves.push_back(best);
  choice.axes = merged(leaves);
  const bool has_reduced =
      std::any_of(choice.axes.begin(), choice.axes.end(), [](const MergedAxis& axis) { return axis.is_reduced; });
  if (!has_reduced) {  // every reduced extent is 1
    choice.axes.emplace_back();
    choice.axes.back().is_reduced = true;
  }
  choice.kind = choice.axes.back().is_reduced ? KernelKind::row : KernelKind::column;
  choice.is_reversed = group_.is_reversed;
  return choice;
}

/// The leaves that a value of the body varies over.
SINTER_DECL std::uint64_t AxisChooser::leaves_under(InstId value) const {
  const std::vector<bool> under = instructions_under(draft_.body, value);
  std::uint64_t leaves = 0;
  for (std::size_t i = 0; i < under.size(); ++i) {
    const Inst& inst = draft_.body[i];
    if (!under[i] || (inst.prim != Prim::load && inst.prim != Prim::index)) continue;
    for (const IndexTerm& term : draft_.accesses[inst.prim == Prim::load ? inst.access : inst.bits].flat.terms)
      if (!is_number(term.factor, 0)) leaves |= std::uint64_t{1} << term.axis;
  }
  return leaves;
}

/// [batch..., m, n, k]. Axes along which only one operand varies are rows or columns too, as far as they merge.
SINTER_DECL AxisChoice AxisChooser::contraction() {
  AxisChoice choice;
  choice.kind = KernelKind::contraction;
  const Inst* product = nullptr;
  for (const Inst& inst : draft_.body)
    if (inst.prim == Prim::contract) product = &inst;
  ensure(product != nullptr, "lowering: a contraction without a product");
  const std::uint64_t left = leaves_under(product->args[0]), right = leaves_under(product->args[1]);
  const std::uint64_t row_mask = leaves_in(draft_.row), column_mask = leaves_in(draft_.column);
  Leaves batch, rows, columns;
  for (std::int32_t leaf : parallel_) {
    const bool in_left = (left >> leaf & 1) != 0, in_right = (right >> leaf & 1) != 0;
    if ((row_mask >> leaf & 1) != 0 || (in_left && !in_right)) rows.push_back(leaf);
    else if ((column_mask >> leaf & 1) != 0 || (in_right && !in_left)) columns.push_back(leaf);
    else batch.push_back(leaf);
  }
  const DraftAccess* store = guide(true);
  sort_by_stride(rows, store);
  sort_by_stride(columns, store);
  // The result's unit stride should run along the columns.
  const auto has_unit = [&](const Leaves& leaves) {
    return std::any_of(leaves.begin(), leaves.end(),
                       [&](std::int32_t leaf) { return is_number(store->stride(leaf), 1); });
  };
  choice.swaps_operands = has_unit(rows) && !has_unit(columns);
  if (choice.swaps_operands) std::swap(rows, columns);
  choice.axes = merged(batch);
  // Of several runs of rows the longest is m; the others become batch axes.
  const auto keep_one = [&](const Leaves& leaves) {
    std::vector<MergedAxis> runs = merged(leaves);
    if (runs.empty()) runs.emplace_back();
    std::size_t longest = 0;
    for (std::size_t i = 1; i < runs.size(); ++i)
      if (nodes_.estimate(runs[i].extent) >= nodes_.estimate(runs[longest].extent)) longest = i;
    MergedAxis kept = std::move(runs[longest]);
    runs.erase(runs.begin() + static_cast<std::ptrdiff_t>(longest));
    for (MergedAxis& run : runs) choice.axes.push_back(std::move(run));
    return kept;
  };
  MergedAxis m = keep_one(rows), n = keep_one(columns);
  std::vector<MergedAxis> inner = merged(reduced_);
  ensure(inner.size() <= 1, "lowering: a contraction over more than one axis");
  if (inner.empty()) inner.emplace_back();
  inner[0].is_reduced = true;
  choice.axes.push_back(std::move(m));
  choice.axes.push_back(std::move(n));
  choice.axes.push_back(std::move(inner[0]));
  return choice;
}

SINTER_DECL AxisChoice choose_axes(const FusionGraph& nodes, const FusionGroup& group, const Draft& draft) {
  AxisChoice choice = AxisChooser(nodes, group, draft).run();
  ensure(choice.axes.size() <= max_axes, "lowering: too many axes");
  return choice;
}

/// Writes the Kernel over the chosen axes: numbers accesses and operands, turns positions into arithmetic on indices.
class KernelWriter {
 public:
  KernelWriter(const Draft& draft, const AxisChoice& choice, std::vector<PlanNumber>& numbers)
      : draft_(draft), choice_(choice), numbers_(numbers) {}

  LoweredKernel run();

 private:
  std::uint16_t operand(const OperandRef& ref, DType dtype, bool is_written);
  std::uint16_t access(std::uint16_t draft_access);
  ScalarValue number(Dim value, DType dtype = DType::i64);
  /// The draft's instructions that are one number of the plan, used only as a float.
  std::vector<std::uint8_t> find_float_numbers(const std::vector<Inst>& body, const std::vector<Store>& stores) const;
  ScalarValue position(const DraftAccess& flat);
  void drop_unread_product();
  /// An axis that runs from its end has strides of the other sign, and begins where it ended.
  bool runs_backwards(std::size_t axis) const { return choice_.is_reversed && choice_.axes[axis].is_reduced; }
  Dim stride_along(const DraftAccess& from, std::size_t axis) const {
    if (choice_.axes[axis].leaves.empty()) return 0;
    const Dim stride = from.stride(choice_.axes[axis].leaves.back());
    return runs_backwards(axis) ? stride * Dim(-1) : stride;
  }
  Dim offset_of(const DraftAccess& from) const {
    Dim offset = from.flat.offset;
    for (std::size_t a = 0; a < choice_.axes.size(); ++a)
      if (runs_backwards(a)) offset -= stride_along(from, a) * (choice_.axes[a].extent - 1);
    return offset;
  }

  const Draft& draft_;
  const AxisChoice& choice_;
  std::vector<PlanNumber>& numbers_;
  LoweredKernel out_;
  ScalarBuilder builder_;
  std::vector<std::int32_t> access_number_;
};

SINTER_DECL std::uint16_t KernelWriter::operand(const OperandRef& ref, DType dtype, bool is_written) {
  for (std::size_t i = 0; i < out_.operands.size(); ++i)
    if (out_.operands[i] == ref && out_.kernel.operands[i].written == is_written) return static_cast<std::uint16_t>(i);
  out_.operands.push_back(ref);
  out_.kernel.operands.push_back({dtype, is_written});
  return static_cast<std::uint16_t>(out_.operands.size() - 1);
}

SINTER_DECL std::uint16_t KernelWriter::access(std::uint16_t draft_access) {
  if (access_number_[draft_access] >= 0) return static_cast<std::uint16_t>(access_number_[draft_access]);
  const DraftAccess& from = draft_.accesses[draft_access];
  Access access;
  auto& numbers = out_.geometry.accesses.emplace_back();
  access.operand = operand(from.operand, from.dtype, from.is_written);
  for (std::size_t a = 0; a < choice_.axes.size(); ++a) {
    const Dim stride = stride_along(from, a);
    const bool is_backward = runs_backwards(a) && is_number(stride, -1);
    numbers.stride[a] = stride;
    access.stride[a] = is_number(stride, 0)   ? StrideClass::zero
                       : is_number(stride, 1) ? StrideClass::unit
                       : is_backward          ? StrideClass::backward
                                              : StrideClass::any;
  }
  numbers.offset = offset_of(from);
  numbers.gather_extent = from.gather_extent;
  numbers.gather_stride = from.gather_stride;
  out_.kernel.accesses.push_back(access);
  access_number_[draft_access] = static_cast<std::int32_t>(out_.kernel.accesses.size() - 1);
  return static_cast<std::uint16_t>(out_.kernel.accesses.size() - 1);
}

SINTER_DECL ScalarValue KernelWriter::number(Dim value, DType dtype) {
  if (value.is_static()) return builder_.imm_int(value.value(), DType::i64);
  const auto found = std::find_if(numbers_.begin(), numbers_.end(), [&](const PlanNumber& have) {
    return identical(have.value, value) && have.dtype == dtype;
  });
  OperandRef ref;
  ref.number = static_cast<std::int32_t>(found - numbers_.begin());
  if (found == numbers_.end()) numbers_.push_back({value, dtype});
  Access scalar;
  scalar.operand = operand(ref, dtype, false);
  for (std::size_t i = 0; i < out_.kernel.accesses.size(); ++i)
    if (out_.kernel.accesses[i] == scalar) return builder_.load(static_cast<std::uint16_t>(i), dtype);
  out_.kernel.accesses.push_back(scalar);
  out_.geometry.accesses.emplace_back();
  return builder_.load(static_cast<std::uint16_t>(out_.kernel.accesses.size() - 1), dtype);
}

SINTER_DECL std::vector<std::uint8_t> KernelWriter::find_float_numbers(const std::vector<Inst>& body,
                                                                       const std::vector<Store>& stores) const {
  const auto is_number_alone = [&](const Inst& inst) {
    if (inst.prim != Prim::index || draft_.accesses[inst.bits].flat.offset.is_static()) return false;
    for (const MergedAxis& axis : choice_.axes)
      if (!axis.leaves.empty() && !is_number(draft_.accesses[inst.bits].stride(axis.leaves.back()), 0)) return false;
    return true;
  };
  std::vector<std::uint8_t> found(body.size());
  for (std::size_t i = 0; i < body.size(); ++i) {
    found[i] = is_number_alone(body[i]);
    const bool makes_float =
        body[i].prim == Prim::convert && (body[i].dtype == DType::f32 || body[i].dtype == DType::f64);
    for (int k = 0; k < arity(body[i].prim) && !makes_float; ++k) found[body[i].args[as_index(k)]] = 0;
  }
  for (const Store& store : stores) {
    found[store.value] = 0;
    if (store.index != no_inst) found[store.index] = 0;
  }
  return found;
}

SINTER_DECL ScalarValue KernelWriter::position(const DraftAccess& from) {
  ScalarValue sum;
  const auto add = [&](ScalarValue more) { sum = sum.id == no_inst ? more : builder_.add(sum, more); };
  for (std::size_t a = 0; a < choice_.axes.size(); ++a) {
    if (choice_.axes[a].leaves.empty()) continue;
    const Dim stride = stride_along(from, a);
    if (is_number(stride, 0)) continue;
    const ScalarValue index = builder_.index(static_cast<int>(a));
    add(is_number(stride, 1) ? index : builder_.mul(index, number(stride)));
  }
  const Dim offset = offset_of(from);
  if (!is_number(offset, 0) || sum.id == no_inst) add(number(offset));
  return sum;
}

/// A product that the scalar rules found unneeded (isfinite of integers is true) leaves a pointwise kernel.
SINTER_DECL void KernelWriter::drop_unread_product() {
  Kernel& kernel = out_.kernel;
  const auto is_product = [](const Inst& inst) { return inst.prim == Prim::contract; };
  if (kernel.kind != KernelKind::contraction || std::any_of(kernel.body.begin(), kernel.body.end(), is_product)) return;
  kernel.kind = KernelKind::pointwise;
  out_.geometry.extent[kernel.axes.size() - 1] = Dim(1);  // the contracted axis, along which nothing is read any more
  kernel.axes.pop_back();
}

SINTER_DECL LoweredKernel KernelWriter::run() {
  Kernel& kernel = out_.kernel;
  kernel.kind = choice_.kind;
  for (std::size_t a = 0; a < max_axes; ++a)
    out_.geometry.extent[a] = Dim(a < choice_.axes.size() ? choice_.axes[a].extent : Dim(1));
  for (const MergedAxis& axis : choice_.axes)
    kernel.axes.push_back(axis.is_reduced ? AxisRole::reduced : AxisRole::parallel);
  access_number_.assign(draft_.accesses.size(), -1);
  std::vector<Inst> body = draft_.body;
  std::vector<Store> stores = draft_.stores;
  remove_dead(body, stores);
  std::vector<InstId> number(body.size(), no_inst);
  const std::vector<std::uint8_t> is_float_number = find_float_numbers(body, stores);
  for (std::size_t i = 0; i < body.size(); ++i) {
    Inst inst = body[i];
    if (is_float_number[i]) continue;
    if (inst.prim == Prim::convert && is_float_number[inst.args[0]]) {
      number[i] = this->number(draft_.accesses[body[inst.args[0]].bits].flat.offset, inst.dtype).id;
      continue;
    }
    for (int k = 0; k < arity(inst.prim); ++k) inst.args[as_index(k)] = number[inst.args[as_index(k)]];
    if (inst.prim == Prim::contract && choice_.swaps_operands) std::swap(inst.args[0], inst.args[1]);
    if (reads_memory(inst.prim)) inst.access = access(inst.access);
    number[i] = inst.prim == Prim::index ? position(draft_.accesses[inst.bits]).id : builder_.push(inst).id;
  }
  for (const Store& store : stores)
    kernel.stores.push_back({access(store.access), number[store.value],
                             store.index == no_inst ? no_inst : number[store.index], store.combine});
  kernel.body = builder_.take();
  remove_dead(kernel.body, kernel.stores);
  kernel.folds = draft_.folds;
  remove_unused_folds(kernel.body, kernel.folds);
  drop_unread_product();
  verify(kernel);
  return std::move(out_);
}

}  // namespace kernel_detail
SINTER_NAMESPACE_END
