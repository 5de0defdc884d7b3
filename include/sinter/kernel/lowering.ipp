// The body of a kernel: values are emitted on demand from the stores backwards, each at an index map. Accesses are kept
// over the group's leaf axes until lowering_axes.ipp has chosen the kernel's axes.
#pragma once

#include <sinter/kernel/lowering.hpp>

#include <sinter/base/index.hpp>
#include <sinter/kernel/lowering_axes.ipp>
#include <sinter/ops/binary.hpp>
#include <sinter/ops/join.hpp>

SINTER_NAMESPACE_BEGIN
namespace kernel_detail {

class BodyEmitter {
 public:
  BodyEmitter(const FusionGraph& nodes, const Fusion& fusion, const FusionGroup& group)
      : nodes_(nodes), fusion_(fusion), group_(group), space_(group.space) {}

  Draft run();

 private:
  struct Made {
    std::int32_t node;
    IndexMap map;
    ScalarValue value;
    bool is_member;  // at the member's own map; `map` is not set
  };

  ScalarValue emit(int node, const IndexMap& map);
  ScalarValue emit_member(const FusionMember& member);
  ScalarValue compute(int node, const IndexMap& map);
  ScalarValue load(int node, const IndexMap& map);
  ScalarValue take(int node, const IndexMap& map);
  ScalarValue contract(int node, const IndexMap& map);
  int product_operand(int node) const;
  ScalarValue multiply_add(int node, int product_operand, const IndexMap& map);
  ScalarValue position(const AxisIndex& flat);
  ScalarValue constant(const Node& graph_node);
  std::uint16_t access(DraftAccess wanted);
  void store(const FusionMember& member);
  IndexMap result_of(const FusionMember& member) const {
    return nodes_[member.node].kind == NodeKind::reduce ? nodes_.reduced_map(member.node, member.map()) : member.map();
  }

  const FusionGraph& nodes_;
  const Fusion& fusion_;
  const FusionGroup& group_;
  Space space_;  // reading may split axes further
  Draft draft_;
  ScalarBuilder builder_;
  std::vector<Made> made_;
};

SINTER_DECL std::uint16_t BodyEmitter::access(DraftAccess wanted) {
  for (std::size_t i = 0; i < draft_.accesses.size(); ++i) {
    const DraftAccess& have = draft_.accesses[i];
    if (have.operand == wanted.operand && have.is_position == wanted.is_position &&
        have.is_written == wanted.is_written && identical(have.gather_stride, wanted.gather_stride) &&
        identical(have.gather_extent, wanted.gather_extent) && equal_index(space_, have.flat, wanted.flat))
      return static_cast<std::uint16_t>(i);
  }
  draft_.accesses.push_back(std::move(wanted));
  return static_cast<std::uint16_t>(draft_.accesses.size() - 1);
}

SINTER_DECL ScalarValue BodyEmitter::position(const AxisIndex& flat) {
  if (flat.terms.empty() && flat.offset.is_static()) return builder_.imm_int(flat.offset.value(), DType::i64);
  DraftAccess wanted;
  wanted.is_position = true;
  wanted.dtype = DType::i64;
  wanted.flat = flat;
  return builder_.push({.prim = Prim::index, .dtype = DType::i64, .bits = access(std::move(wanted))});
}

SINTER_DECL ScalarValue BodyEmitter::load(int node, const IndexMap& map) {
  auto at = nodes_.locate(space_, node, map);
  ensure(at.has_value(), "lowering: a value cannot be addressed");
  DraftAccess wanted;
  wanted.operand.node = at->owner;
  wanted.dtype = nodes_[node].dtype;
  wanted.flat = at->flat;
  return builder_.load(access(std::move(wanted)), nodes_[node].dtype);
}

SINTER_DECL ScalarValue BodyEmitter::constant(const Node& graph_node) {
  const DType dtype = graph_node.types[0].dtype;
  return is_floating(dtype) ? builder_.imm(graph_node.attrs.value, dtype)
                            : builder_.imm_int(graph_node.attrs.integer, dtype);
}

SINTER_DECL ScalarValue BodyEmitter::emit(int node, const IndexMap& given) {
  const int base = nodes_.base_of(node);
  const FusionNode& it = nodes_[base];
  const FusionMember* member = find_member(group_, base);
  const bool is_made_here = member != nullptr || is_generator(it.kind) || it.is_inlined;
  if (!is_made_here) return load(node, given);
  IndexMap map = given;
  while (node != base) {
    auto next = nodes_.input_of_view(space_, node, map);
    ensure(next.has_value(), "lowering: a view cannot be addressed");
    map = *next;
    node = nodes_[node].inputs[0];
  }
  ensure(member == nullptr || it.kind != NodeKind::place,
         "lowering: a tensor is read in the walk that writes a part of it");
  if (member != nullptr && equal_map(space_, result_of(*member), map)) return emit_member(*member);
  ensure(is_generator(it.kind) || it.is_inlined,
         "lowering: a value of the group is used at another place than it is made");
  for (const Made& made : made_)
    if (made.node == base && !made.is_member && equal_map(space_, made.map, map)) return made.value;
  const ScalarValue value = compute(base, map);
  made_.push_back({base, map, value, false});
  return value;
}

SINTER_DECL ScalarValue BodyEmitter::emit_member(const FusionMember& member) {
  for (const Made& made : made_)
    if (made.node == member.node && made.is_member) return made.value;
  const ScalarValue value = compute(member.node, member.map());
  made_.push_back({member.node, {}, value, true});
  return value;
}

SINTER_DECL ScalarValue BodyEmitter::take(int node, const IndexMap& map) {
  const FusionNode& it = nodes_[node];
  const Layout* table = nodes_.layout_of(it.inputs[0]);
  ensure(table != nullptr, "lowering: the table of a take is not in memory");
  const int axis = take_axis(nodes_, node), index_axes = nodes_[it.inputs[1]].shape.rank() - shared_axes(nodes_, node);
  DraftAccess wanted;
  wanted.operand.node = table->owner;
  wanted.dtype = it.dtype;
  wanted.flat.offset = table->offset;
  const Shape& shape = nodes_[it.inputs[0]].shape;
  for (int i = 0; i < shape.rank(); ++i) {
    const Dim stride = table->strides[as_index(i)];
    if (i == axis) {
      wanted.gather_stride = stride;
      wanted.gather_extent = shape[i];
    } else add_scaled(wanted.flat, map[i < axis ? i : i - 1 + index_axes], stride);
  }
  const ScalarValue index = emit(it.inputs[1], nodes_.operand_map(node, 1, map));
  return builder_.gather(access(std::move(wanted)), it.dtype, index);
}

SINTER_DECL ScalarValue BodyEmitter::contract(int node, const IndexMap& map) {
  const FusionNode& it = nodes_[node];
  IndexMap left = map, right = map;
  const AxisIndex inner = AxisIndex::of(group_.contracted_axis);
  left[map.rank - 1] = inner;
  right[map.rank - 2] = inner;
  const ScalarValue a = emit(it.inputs[0], left), b = emit(it.inputs[1], right);
  draft_.row = map[map.rank - 2];
  draft_.column = map[map.rank - 1];
  return builder_.contract(a, b);
}

/// The operand of an addition that becomes the product of an fma, or -1. This depends on the graph and the fusion of
/// all of it, never on what else one kernel computes: a sum that several kernels compute has the same bits in each, or
/// comparing it with its own maximum would find no element.
SINTER_DECL int BodyEmitter::product_operand(int node) const {
  const Node* graph_node = nodes_.graph_node(node);
  if (graph_node->op != &op_info<ops::Add> || !is_floating(nodes_[node].dtype)) return -1;
  for (int k = 0; k < 2; ++k) {
    const int operand = nodes_[node].inputs[as_index(k)];
    const FusionNode& product = nodes_[operand];
    if (product.kind == NodeKind::map && nodes_.graph_node(operand)->op == &op_info<ops::Mul> && product.uses == 1 &&
        !fusion_.is_stored[as_index(operand)])
      return k;
  }
  return -1;
}

SINTER_DECL ScalarValue BodyEmitter::multiply_add(int node, int product_operand, const IndexMap& map) {
  const auto& operands = nodes_[node].inputs;
  const int product = operands[as_index(product_operand)], other = 1 - product_operand;
  const IndexMap inner = nodes_.operand_map(node, product_operand, map);
  const ScalarValue a = emit(nodes_[product].inputs[0], nodes_.operand_map(product, 0, inner));
  const ScalarValue b = emit(nodes_[product].inputs[1], nodes_.operand_map(product, 1, inner));
  return builder_.fma(a, b, emit(operands[as_index(other)], nodes_.operand_map(node, other, map)));
}

SINTER_DECL ScalarValue BodyEmitter::compute(int node, const IndexMap& map) {
  const FusionNode& it = nodes_[node];
  const Node* graph_node = nodes_.graph_node(node);
  switch (it.kind) {
    case NodeKind::full: return constant(*graph_node);
    case NodeKind::iota: return builder_.convert(position(map[static_cast<int>(graph_node->attrs.axes[0])]), it.dtype);
    case NodeKind::copy:
    case NodeKind::place: return emit(it.inputs[0], map);
    case NodeKind::reduce:
      return builder_.reduce(static_cast<Prim>(graph_node->op->reduction), emit(it.inputs[0], map));
    case NodeKind::take: return take(node, map);
    case NodeKind::contract: return contract(node, map);
    case NodeKind::random: {
      const ScalarValue key = emit(it.inputs[0], {}), counter = emit(it.inputs[1], {});
      AxisIndex flat;
      const auto strides = dense_dim_strides(it.shape);
      for (int i = 0; i < map.rank; ++i) add_scaled(flat, map[i], strides[as_index(i)]);
      return builder_.random_bits(key, counter, position(flat));
    }
    default: break;
  }
  if (const int product = product_operand(node); product >= 0) return multiply_add(node, product, map);
  SmallVector<ScalarValue, 4> operands;
  for (std::size_t k = 0; k < it.inputs.size(); ++k)
    operands.push_back(emit(it.inputs[k], nodes_.operand_map(node, static_cast<int>(k), map)));
  return graph_node->op->lower(builder_, operands, graph_node->attrs);
}

SINTER_DECL void BodyEmitter::store(const FusionMember& member) {
  const FusionNode& it = nodes_[member.node];
  DraftAccess wanted;
  wanted.operand.node = member.node;
  wanted.dtype = it.dtype;
  wanted.is_written = true;
  IndexMap map = result_of(member);
  const auto strides = dense_dim_strides(it.shape);
  for (int i = 0; i < map.rank; ++i) {
    AxisIndex index = map[i];
    if (it.kind == NodeKind::place) {
      const Attrs& attrs = nodes_.graph_node(member.node)->attrs;
      index = AxisIndex{};
      index.offset = attrs[ops::UpdateSlice::starts][i];
      add_scaled(index, map[i], Dim(attrs[ops::UpdateSlice::steps][as_index(i)]));
    }
    add_scaled(wanted.flat, index, strides[as_index(i)]);
  }
  const ScalarValue value = emit_member(member);
  draft_.stores.push_back({access(std::move(wanted)), value.id});
}

SINTER_DECL Draft BodyEmitter::run() {
  for (const FusionMember& member : group_.members)
    if (fusion_.is_stored[as_index(member.node)]) store(member);
  draft_.body = builder_.take();
  draft_.space = space_;
  for (DraftAccess& access : draft_.accesses) access.flat = expand_leaves(space_, access.flat);
  return std::move(draft_);
}

}  // namespace kernel_detail

SINTER_DECL LoweredKernel lower(const FusionGraph& nodes, const Fusion& fusion, const FusionGroup& group,
                                std::vector<PlanNumber>& numbers, MatmulPrecision precision) {
  using namespace kernel_detail;
  const Draft draft = BodyEmitter(nodes, fusion, group).run();
  const AxisChoice choice = choose_axes(nodes, group, draft);
  LoweredKernel lowered = KernelWriter(draft, choice, numbers).run();
  if (is_product_of_f32(lowered.kernel)) lowered.kernel.precision = precision;
  return lowered;
}

SINTER_DECL SmallVector<std::int32_t, 16> prologue_of(const FusionGraph& nodes, const FusionGroup& group) {
  SmallVector<std::int32_t, 16> before;
  const auto add_producers = [&](const auto& self, int input) -> void {
    const int base = nodes.base_of(input);
    if (nodes[base].kind != NodeKind::map || !nodes[base].is_inlined ||
        std::find(before.begin(), before.end(), base) != before.end())
      return;
    for (std::int32_t operand : nodes[base].inputs) self(self, operand);
    before.push_back(base);
  };
  if (group.contraction >= 0)
    for (std::int32_t operand : nodes[group.contraction].inputs) add_producers(add_producers, operand);
  return before;
}

SINTER_DECL std::string kernel_name(const FusionGraph& nodes, const FusionGroup& group) {
  const auto before = prologue_of(nodes, group);
  std::string name = group.is_host ? "host" : group.members.size() + before.size() > 1 ? "fused" : "";
  std::size_t shown = 0;
  for (std::int32_t node : before)
    if (++shown <= 3) name += "_" + std::string(nodes.name(node));
  shown = 0;
  for (const FusionMember& member : group.members) {
    if (nodes[member.node].kind == NodeKind::host_result) continue;
    if (++shown > 6) {
      name += "_and_" + std::to_string(group.members.size() - 6) + "_more";
      break;
    }
    name += (name.empty() ? "" : "_") + std::string(nodes.name(member.node));
  }
  return name;
}

SINTER_NAMESPACE_END
