// Fusion and the limits of back ends: which of them takes a group, and how much it may hold. A group goes to the first
// back end that takes it; groups of different ones stay apart, unless a reduction or a product can take in what a later
// back end would compute.
#pragma once

#include <sinter/kernel/fusion.ipp>
#include <sinter/kernel/fusion_accesses.ipp>
#include <sinter/ops/scalar_op.hpp>

SINTER_NAMESPACE_BEGIN
namespace kernel_detail {

/// Is the value written once, whoever could compute it again?
SINTER_DECL bool Fuser::is_kept(int node) const {
  const auto names = [&](std::span<const std::int32_t> list) {
    return std::find(list.begin(), list.end(), nodes_[node].graph_node) != list.end();
  };
  return !options_.recompute || names(options_.kept) || names(options_.cut);
}

/// Does a member read another one that nobody is to join?
SINTER_DECL bool Fuser::reads_cut(const FusionGroup& group) const {
  if (options_.cut.empty()) return false;
  const auto is_cut_member = [&](std::int32_t input) {
    const int base = nodes_.base_of(input);
    return std::find(options_.cut.begin(), options_.cut.end(), nodes_[base].graph_node) != options_.cut.end() &&
           find_member(group, base) != nullptr;
  };
  return std::any_of(group.members.begin(), group.members.end(), [&](const FusionMember& member) {
    const auto& inputs = nodes_[member.node].inputs;
    return std::any_of(inputs.begin(), inputs.end(), is_cut_member);
  });
}

SINTER_DECL std::vector<Inst> Fuser::body_of(int node) const {
  ScalarBuilder builder;
  SmallVector<ScalarValue, 4> operands;
  for (std::int32_t input : nodes_[node].inputs)
    operands.push_back(builder.load(static_cast<std::uint16_t>(operands.size()), nodes_[input].dtype));
  const Node* graph_node = nodes_.graph_node(node);
  lower_elementwise(builder, *graph_node->op, operands, graph_node->attrs, nodes_[node].dtype);
  return builder.take();
}

SINTER_DECL int Fuser::instructions(int node) const {
  const FusionNode& it = nodes_[node];
  if (it.kind == NodeKind::patch) return 3;
  if (it.kind != NodeKind::map) return it.kind == NodeKind::random ? 4 : 2;
  const OpInfo* const wanted = nodes_.graph_node(node)->op;
  for (const auto& [op, size] : sizes_)
    if (op == wanted) return size;
  const int size = std::max(1, static_cast<int>(body_of(node).size()) - static_cast<int>(it.inputs.size()));
  sizes_.emplace_back(wanted, size);
  return size;
}

SINTER_DECL const Limits& Fuser::limits_of(const FusionGroup& group) const {
  return options_.limits[std::min(as_index(group.taker), options_.limits.size() - 1)];
}

/// Has a back end what the programs of a reduction with state are made of?
SINTER_DECL bool Fuser::folds(const Limits& limits, int node) const {
  const DType dtype = computed_in(nodes_[nodes_.base_of(nodes_[node].inputs[0])].dtype);
  const ScalarFold fold =
      nodes_.graph_node(node)->op->fold(dtype == DType::bool_ ? DType::i32 : dtype, PositionOrder::any);
  const bool has_position = fold.arguments.size() > 1;
  return limits.primitives.has(Prim::fold) && (!has_position || limits.primitives.has(Prim::index)) &&
         why_not_taken(limits, fold).empty();
}

/// Has a back end all that the node is made of?
SINTER_DECL bool Fuser::computes(const Limits& limits, int node) const {
  const FusionNode& it = nodes_[node];
  const auto has = [&](Prim prim) { return limits.primitives.has(prim); };
  if (it.kind == NodeKind::contract && !limits.product_dtypes.has(it.dtype)) return false;
  if (limits.primitives == EnumSet<Prim>::all() && limits.dtypes == EnumSet<DType>::all()) return true;
  if (!limits.dtypes.has(it.dtype)) return false;
  for (std::int32_t input : it.inputs) {
    const FusionNode& base = nodes_[nodes_.base_of(input)];
    if (!limits.dtypes.has(base.dtype)) return false;
    if (base.kind == NodeKind::iota && (!has(Prim::index) || !limits.dtypes.has(DType::i64))) return false;
    if (base.kind == NodeKind::iota && base.dtype != DType::i64 && !has(Prim::convert)) return false;
  }
  if (it.kind == NodeKind::contract) return has(Prim::contract);
  if (it.kind == NodeKind::reduce) {
    const OpInfo& op = *nodes_.graph_node(node)->op;
    return op.fold != nullptr ? folds(limits, node) : has(static_cast<Prim>(op.reduction));
  }
  if (it.kind == NodeKind::scan) return has(static_cast<Prim>(nodes_.graph_node(node)->op->reduction));
  if (it.kind == NodeKind::take) return has(Prim::gather);
  if (it.kind == NodeKind::patch)
    return has(Prim::guarded_load) && has(Prim::index) && has(Prim::lt) && has(Prim::not_) && has(Prim::and_) &&
           has(Prim::select) && limits.dtypes.has(DType::i64) && limits.dtypes.has(DType::bool_);
  if (it.kind == NodeKind::random) return has(Prim::random_bits) && has(Prim::index);
  if (it.kind != NodeKind::map) return true;
  const std::vector<Inst> body = body_of(node);
  return std::all_of(body.begin(), body.end(), [&](const Inst& inst) {
    return limits.dtypes.has(inst.dtype) && (inst.prim == Prim::load || inst.prim == Prim::immediate || has(inst.prim));
  });
}

SINTER_DECL std::int32_t Fuser::first_taker(int node) const {
  const NodeKind form = nodes_[node].kind;
  std::int32_t number = 0;
  for (const Limits& limits : options_.limits) {
    const bool has_kind = form == NodeKind::contract  ? limits.kinds.has(KernelKind::contraction)
                          : form == NodeKind::scatter ? limits.kinds.has(KernelKind::scatter)
                          : form == NodeKind::reduce || form == NodeKind::scan
                              ? limits.kinds.has(KernelKind::row) || limits.kinds.has(KernelKind::column)
                              : limits.kinds.has(KernelKind::pointwise);
    if (has_kind && computes(limits, node)) return number;
    ++number;
  }
  return number;
}

/// A scalar that some back end cannot compute is not recomputed by its readers.
SINTER_DECL void Fuser::store_what_not_all_compute() {
  for (int node = 0; node < nodes_.size(); ++node)
    if (nodes_[node].is_inlined)
      for (const Limits& limits : options_.limits) nodes_[node].is_inlined &= computes(limits, node);
}

/// False: the groups stay apart.
SINTER_DECL bool Fuser::choose_taker(FusionGroup& merged, const FusionGroup& left, const FusionGroup& right) const {
  merged.taker = std::min(left.taker, right.taker);
  if (left.taker == right.taker) return as_index(left.taker) < options_.limits.size();
  const FusionGroup &first = left.taker < right.taker ? left : right, &second = left.taker < right.taker ? right : left;
  if (!first.has_reduction && first.contraction < 0) return false;
  const bool is_plain = !second.has_reduction && second.contraction < 0;
  return is_plain && std::all_of(second.members.begin(), second.members.end(),
                                 [&](const FusionMember& member) { return computes(limits_of(first), member.node); });
}

SINTER_DECL bool Fuser::fits(const FusionGroup& group) const {
  int operands = static_cast<int>(reads_of(group).size());
  for (const FusionMember& member : group.members) {
    const FusionNode& it = nodes_[member.node];
    bool is_written = it.is_in_memory;
    for (const UseEdge& edge : merger_.users(member.node))
      is_written |= !it.is_inlined && find_member(group, edge.user) == nullptr;
    operands += is_written;
  }
  const int body = body_size(group);
  const Limits& limits = limits_of(group);
  if (operands > limits.max_operands) return false;
  if (body > limits.max_body) return patches_shrink_to(group, operands, limits.max_body);
  // The body has an instruction for each load, and symbolic numbers for no more than it has instructions; but patches
  // compare each of their axes, and where positions count, views shift them by numbers of their own.
  const auto is_static = [&] {
    return std::all_of(group.space.axes.begin(), group.space.axes.end(),
                       [](const SpaceAxis& axis) { return axis.extent.is_static(); });
  };
  const auto has_position = [&] {
    return std::any_of(group.members.begin(), group.members.end(),
                       [&](const FusionMember& member) { return reads_position(member.node); });
  };
  const auto has_symbols = [&] {
    const auto is_symbolic = [](const Type& type) {
      const auto dims = type.shape.dims();
      return std::any_of(dims.begin(), dims.end(), [](Dim dim) { return !dim.is_static(); });
    };
    const auto& all = nodes_.graph().nodes();
    return !nodes_.graph().symbols().empty() || std::any_of(all.begin(), all.end(), [&](const Node& node) {
      return std::any_of(node.types.begin(), node.types.end(), is_symbolic);
    });
  };
  const bool is_surely_few =
      operands + (is_static() ? body : 3 * body) < limits.max_accesses && !(has_position() && has_symbols());
  return is_surely_few || accesses_fit(group, operands);
}

/// Views of one operand are one pointer, but an access each; what is written is one.
inline bool counted_accesses_fit(AccessCount& count, int operands, std::size_t read, int most_accesses) {
  const std::size_t writes = std::max<std::size_t>(as_index(operands) - read, 1), most = as_index(most_accesses);
  return writes <= most && count.reads(most - writes) <= most - writes;
}

SINTER_DECL bool Fuser::accesses_fit(const FusionGroup& group, int operands) const {
  AccessCount count(nodes_, group);
  return counted_accesses_fit(count, operands, reads_of(group).size(), limits_of(group).max_accesses);
}

/// Much of a patch may not be seen where it is read: then a body, whose size counts all of it, is smaller.
SINTER_DECL bool Fuser::patches_shrink_to(const FusionGroup& group, int operands, int most) const {
  constexpr int guard_instructions = 2;  // a comparison serves several
  int body = 0;
  bool has_patch = false;
  for (const FusionMember& member : group.members) {
    body += instructions(member.node);
    const auto& inputs = nodes_[member.node].inputs;
    has_patch =
        has_patch || std::any_of(inputs.begin(), inputs.end(), [&](std::int32_t input) { return reads_patch(input); });
  }
  if (!has_patch || body > most) return false;
  AccessCount count(nodes_, group);
  if (!counted_accesses_fit(count, operands, reads_of(group).size(), limits_of(group).max_accesses)) return false;
  return body + count.inlined() + guard_instructions * count.guards() <= most;
}

SINTER_DECL bool Fuser::reads_patch(int input) const {
  const FusionNode& it = nodes_[nodes_.base_of(input)];
  if (!it.is_inlined) return false;
  return it.kind == NodeKind::patch ||
         std::any_of(it.inputs.begin(), it.inputs.end(), [&](std::int32_t operand) { return reads_patch(operand); });
}

/// Is the position of an element among what the node is computed from here?
SINTER_DECL bool Fuser::reads_position(int input) const {
  const FusionNode& it = nodes_[nodes_.base_of(input)];
  return it.kind == NodeKind::patch || it.kind == NodeKind::iota || it.kind == NodeKind::random ||
         std::any_of(it.inputs.begin(), it.inputs.end(), [&](std::int32_t operand) {
           const FusionNode& base = nodes_[nodes_.base_of(operand)];
           return (is_generator(base.kind) || base.is_inlined) && reads_position(operand);
         });
}

/// Products and scatters have no guards. A reduction takes in nothing that is computed from a patch: its order follows
/// from which axes its operands let merge, and conditions let none.
/// Whoever reads a value may split the axes of those who compute it; a scan's stays one.
SINTER_DECL bool Fuser::scans_one_axis(const FusionGroup& group) {
  return !group.has_scan || std::popcount(leaf_mask(group.space, true)) <= 1;
}

SINTER_DECL bool Fuser::patches_fit(const FusionGroup& group) const {
  const bool has_scatter = std::any_of(group.members.begin(), group.members.end(), [&](const FusionMember& member) {
    return nodes_[member.node].kind == NodeKind::scatter;
  });
  if (group.contraction < 0 && !group.has_reduction && !group.has_scan && !has_scatter) return true;
  return std::none_of(group.members.begin(), group.members.end(), [&](const FusionMember& member) {
    const auto& inputs = nodes_[member.node].inputs;
    return std::any_of(inputs.begin(), inputs.end(), [&](std::int32_t input) { return reads_patch(input); });
  });
}

}  // namespace kernel_detail
SINTER_NAMESPACE_END
