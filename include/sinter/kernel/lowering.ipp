// The body of a kernel: values are emitted on demand from the stores backwards, each at an index map. Accesses are kept
// over the group's leaf axes until lowering_axes.ipp has chosen the kernel's axes.
#pragma once

#include <sinter/kernel/lowering.hpp>

#include <sinter/base/index.hpp>
#include <sinter/kernel/lowering_axes.ipp>
#include <sinter/kernel/patch_side.hpp>
#include <sinter/ops/binary.hpp>
#include <sinter/ops/comparison.hpp>
#include <sinter/ops/cumulative.hpp>
#include <sinter/ops/join.hpp>
#include <sinter/ops/scalar_op.hpp>

#include <optional>
#include <utility>

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
    InstId guard;    // under which it was made
    bool is_member;  // at the member's own map; `map` is not set
  };

  ScalarValue emit(int node, const IndexMap& map);
  ScalarValue emit_member(const FusionMember& member);
  ScalarValue compute(int node, const IndexMap& map);
  ScalarValue load(int node, const IndexMap& map, std::optional<ScalarValue> fill = {});
  bool is_made_here(int base) const {
    return find_member(group_, base) != nullptr || is_generator(nodes_[base].kind) || nodes_[base].is_inlined;
  }
  ScalarValue take(int node, const IndexMap& map);
  ScalarValue patch(int node, const IndexMap& map);
  enum class Side : std::uint8_t { at_least, below };
  ScalarValue on_side(const AxisIndex& index, Dim bound, Side side);
  std::optional<ScalarValue> inside(int node, const IndexMap& map);
  Usually usually() const {
    return share_ >= 0.75 ? Usually::holds : share_ <= 0.25 ? Usually::fails : Usually::unknown;
  }
  ScalarValue both(std::optional<ScalarValue> a, ScalarValue b) { return a ? builder_.and_(*a, b) : b; }
  ScalarValue contract(int node, const IndexMap& map);
  ScalarValue fold(int node, const IndexMap& map);
  void order_positions();
  int product_operand(int node) const;
  ScalarValue multiply_add(int node, int product_operand, const IndexMap& map);
  ScalarValue position(const AxisIndex& flat);
  ScalarValue constant(const Node& graph_node);
  std::uint16_t access(DraftAccess wanted);
  ScalarValue scan(Prim prim, ScalarValue x, bool is_exclusive, DType dtype);
  ScalarValue operand(const Node& of, int node, const IndexMap& map);
  void store(const FusionMember& member);
  void scatter(const FusionMember& member);
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
  double share_ = 1;                  // of the points, at which the guard holds
  std::optional<ScalarValue> guard_;  // what is emitted is used only where it holds, and may be anything elsewhere
  struct Position {
    std::size_t fold;
    const OpInfo* op;
    DType dtype;
    AxisIndex flat;
  };
  std::vector<Position> positions_;  // that folds take in
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

/// Where the guard does not hold: `fill`, or 0.
SINTER_DECL ScalarValue BodyEmitter::load(int node, const IndexMap& map, std::optional<ScalarValue> fill) {
  auto at = nodes_.locate(space_, node, map);
  ensure(at.has_value(), "lowering: a value cannot be addressed");
  DraftAccess wanted;
  wanted.operand.node = at->owner;
  wanted.dtype = nodes_[node].dtype;
  wanted.flat = at->flat;
  const std::uint16_t from = access(std::move(wanted));
  const DType dtype = nodes_[node].dtype;
  if (!guard_) return builder_.load(from, dtype);
  return builder_.guarded_load(from, dtype, *guard_, fill.value_or(builder_.imm_int(0, dtype)), usually());
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
  if (!is_made_here(base)) return load(node, given);
  IndexMap map = given;
  while (node != base) {
    auto next = nodes_.input_of_view(space_, node, map);
    ensure(next.has_value(), "lowering: a view cannot be addressed");
    map = *next;
    node = nodes_[node].inputs[0];
  }
  ensure(member == nullptr || !writes_part(it.kind), "lowering: a tensor is read in the walk that writes a part of it");
  if (member != nullptr && equal_map(space_, result_of(*member), map)) return emit_member(*member);
  ensure(is_generator(it.kind) || it.is_inlined,
         "lowering: a value of the group is used at another place than it is made");
  const InstId guard = guard_ ? guard_->id : no_inst;
  for (const Made& made : made_)
    if (made.node == base && !made.is_member && made.guard == guard && equal_map(space_, made.map, map))
      return made.value;
  const ScalarValue value = compute(base, map);
  made_.push_back({base, map, value, guard, false});
  return value;
}

SINTER_DECL ScalarValue BodyEmitter::emit_member(const FusionMember& member) {
  for (const Made& made : made_)
    if (made.node == member.node && made.is_member) return made.value;
  const auto guard = std::exchange(guard_, std::nullopt);
  const double share = std::exchange(share_, 1);
  const ScalarValue value = compute(member.node, member.map());
  guard_ = guard;
  share_ = share;
  made_.push_back({member.node, {}, value, no_inst, true});
  return value;
}

/// Which side of `bound` an index is on: at least it, or below it. True or false where that is the same everywhere.
SINTER_DECL ScalarValue BodyEmitter::on_side(const AxisIndex& index, Dim bound, Side side) {
  const BoundedIndex bounded = bounded_index(index, bound);
  const bool is_upper = side == Side::at_least;
  if (const std::optional<bool> known = known_at_least(space_, bounded))
    return builder_.imm_int(*known == is_upper, DType::bool_);
  AxisIndex number;
  number.offset = bounded.bound;
  const ScalarValue limit = position(number), at = position(bounded.walked);
  // Both sides of one bound are one comparison.
  const ScalarValue is_below = builder_.lt(at, limit);
  return is_upper ? builder_.not_(is_below) : is_below;
}

/// Is the element of a patch at `map` one of its operand 0? Nothing: always.
SINTER_DECL std::optional<ScalarValue> BodyEmitter::inside(int node, const IndexMap& map) {
  const Shape& starts = nodes_.graph_node(node)->attrs[ops::UpdateSlice::starts];
  const Shape& part = nodes_[nodes_[node].inputs[0]].shape;
  std::optional<ScalarValue> all;
  for (int i = 0; i < map.rank; ++i) {
    if (is_number(starts[i], 0) && identical(part[i], nodes_[node].shape[i])) continue;
    for (const ScalarValue condition :
         {on_side(map[i], starts[i], Side::at_least), on_side(map[i], starts[i] + part[i], Side::below)}) {
      const Inst& known = builder_.body()[condition.id];
      if (known.prim != Prim::immediate) all = both(all, condition);
      else if (known.bits == 0) return condition;
    }
  }
  return all;
}

/// What lies in memory is loaded under the guard with the base's value for a fill; what is computed is chosen.
SINTER_DECL ScalarValue BodyEmitter::patch(int node, const IndexMap& map) {
  const FusionNode& it = nodes_[node];
  const std::optional<ScalarValue> holds = inside(node, map);
  const IndexMap own = nodes_.operand_map(node, 0, map);
  if (!holds) return emit(it.inputs[0], own);
  const ScalarValue base = it.inputs.size() > 1 ? emit(it.inputs[1], map) : builder_.imm_int(0, it.dtype);
  const Inst& known = builder_.body()[holds->id];
  if (known.prim == Prim::immediate) return base;  // nowhere inside
  const auto outer = std::exchange(guard_, both(guard_, *holds));
  const double outer_share = share_;
  share_ *= static_cast<double>(nodes_.estimate_elements(it.inputs[0])) /
            static_cast<double>(std::max<std::int64_t>(nodes_.estimate_elements(node), 1));
  const bool is_load = !is_made_here(nodes_.base_of(it.inputs[0]));
  const ScalarValue value = is_load ? load(it.inputs[0], own, base) : emit(it.inputs[0], own);
  const Usually hint = usually();
  guard_ = outer;
  share_ = outer_share;
  return is_load ? value : builder_.select(*holds, value, base, hint);
}

SINTER_DECL ScalarValue BodyEmitter::take(int node, const IndexMap& map) {
  const FusionNode& it = nodes_[node];
  const Layout* table = nodes_.layout_of(it.inputs[0]);
  ensure(table != nullptr, "lowering: the table of a take is not in memory");
  const TakenAxes taken = taken_axes(nodes_, node);
  DraftAccess wanted;
  wanted.operand.node = table->owner;
  wanted.dtype = it.dtype;
  wanted.flat.offset = table->offset;
  const Shape& shape = nodes_[it.inputs[0]].shape;
  for (int i = 0; i < shape.rank(); ++i) {
    const Dim stride = table->strides[as_index(i)];
    if (i == taken.axis) {
      wanted.gather_stride = stride;
      wanted.gather_extent = shape[i];
    } else add_scaled(wanted.flat, map[taken.of_table(i)], stride);
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
  return builder_.held(builder_.contract(a, b), it.dtype);
}

SINTER_DECL ScalarValue BodyEmitter::fold(int node, const IndexMap& map) {
  const FusionNode& it = nodes_[node];
  const Node* graph_node = nodes_.graph_node(node);
  ScalarValue x = emit(it.inputs[0], map);
  if (x.dtype == DType::bool_) x = builder_.convert(x, DType::i32);
  if (x.dtype == DType::u64) x = builder_.ordered(x);  // what a fold gives is a position
  const ScalarFold fold = graph_node->op->fold(x.dtype, PositionOrder::any);
  SmallVector<ScalarValue, max_fold_arguments> arguments{x};
  if (fold.arguments.size() > 1) {
    AxisIndex flat;
    Dim stride = 1;
    const Shape& shape = nodes_[it.inputs[0]].shape;
    for (int i = shape.rank(); i-- > 0;) {
      if (!is_reduced_axis(graph_node->attrs, i)) continue;
      add_scaled(flat, map[i], stride);
      stride *= shape[i];
    }
    arguments.push_back(position(flat));
    positions_.push_back({draft_.folds.size(), graph_node->op, x.dtype, flat});
  }
  draft_.folds.push_back(fold);
  return builder_.fold(static_cast<int>(draft_.folds.size()) - 1, 0, fold.result(0),
                       std::span<const ScalarValue>(arguments.begin(), arguments.size()));
}

/// Positions along one axis come in ascending order, whatever the axes become.
SINTER_DECL void BodyEmitter::order_positions() {
  for (const Position& p : positions_)
    if (expand_leaves(space_, p.flat).terms.size() <= 1)
      draft_.folds[p.fold] = p.op->fold(p.dtype, PositionOrder::ascending);
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

/// Whether f16 and bf16 are equal is asked of rounded numbers: what is computed again in a kernel is to equal what was
/// stored of it, as the extreme of a row.
SINTER_DECL ScalarValue BodyEmitter::operand(const Node& of, int node, const IndexMap& map) {
  const ScalarValue value = emit(node, map);
  const DType dtype = nodes_[node].dtype;
  const bool asks = of.op == &op_info<ops::Eq> || of.op == &op_info<ops::Ne>;
  return asks && is_half(dtype) && is_made_here(nodes_.base_of(node)) ? builder_.convert(value, dtype) : value;
}

/// Of a narrow integer, what stands before the first element is the extreme of the wider one: it is cut, not wrapped.
SINTER_DECL ScalarValue BodyEmitter::scan(Prim prim, ScalarValue x, bool is_exclusive, DType dtype) {
  const ScalarValue found = builder_.scan(prim, x, is_exclusive);
  const bool is_cut = is_exclusive && is_narrow(dtype) && !is_floating(dtype);
  if (is_cut && prim == Prim::scan_min)
    return builder_.min(found, builder_.imm_int(tensor_detail::greatest(dtype), dtype));
  if (is_cut && prim == Prim::scan_max)
    return builder_.max(found, builder_.imm_int(tensor_detail::lowest(dtype), dtype));
  return builder_.held(found, dtype);
}

SINTER_DECL ScalarValue BodyEmitter::compute(int node, const IndexMap& map) {
  const FusionNode& it = nodes_[node];
  const Node* graph_node = nodes_.graph_node(node);
  switch (it.kind) {
    case NodeKind::full: return constant(*graph_node);
    case NodeKind::iota: return builder_.convert(position(map[static_cast<int>(graph_node->attrs.axes[0])]), it.dtype);
    case NodeKind::copy:
    case NodeKind::place: return emit(it.inputs[0], map);
    case NodeKind::scatter: return emit(it.inputs[1], map);
    case NodeKind::reduce:
      if (graph_node->op->fold != nullptr) return fold(node, map);
      return builder_.held(builder_.reduce(static_cast<Prim>(graph_node->op->reduction), emit(it.inputs[0], map)),
                           it.dtype);
    case NodeKind::scan:
      return scan(static_cast<Prim>(graph_node->op->reduction), emit(it.inputs[0], map),
                  graph_node->attrs[ops_detail::is_exclusive], it.dtype);
    case NodeKind::take: return take(node, map);
    case NodeKind::patch: return patch(node, map);
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
    operands.push_back(operand(*graph_node, it.inputs[k], nodes_.operand_map(node, static_cast<int>(k), map)));
  return lower_elementwise(builder_, *graph_node->op, operands, graph_node->attrs, it.dtype);
}

SINTER_DECL void BodyEmitter::scatter(const FusionMember& member) {
  const FusionNode& it = nodes_[member.node];
  const Node* graph_node = nodes_.graph_node(member.node);
  const TakenAxes taken = taken_axes(nodes_, member.node);
  const IndexMap& map = member.map();
  DraftAccess wanted;
  wanted.operand.node = member.node;
  wanted.dtype = it.dtype;
  wanted.is_written = true;
  const auto strides = dense_dim_strides(it.shape);
  for (int i = 0; i < it.shape.rank(); ++i) {
    if (i == taken.axis) {
      wanted.gather_stride = strides[as_index(i)];
      wanted.gather_extent = it.shape[i];
    } else add_scaled(wanted.flat, map[taken.of_table(i)], strides[as_index(i)]);
  }
  const bool has_base = graph_node->op == &op_info<ops::Scatter>;
  const ScalarValue index = emit(it.inputs[0], nodes_.operand_map(member.node, 0, map)), value = emit_member(member);
  draft_.stores.push_back({access(std::move(wanted)), value.id, index.id,
                           has_base ? graph_node->attrs[ops::Scatter::combine] : Combine::add});
}

SINTER_DECL void BodyEmitter::store(const FusionMember& member) {
  const FusionNode& it = nodes_[member.node];
  if (it.kind == NodeKind::scatter) return scatter(member);
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
  const ScalarValue value = builder_.unrounded(emit_member(member), it.dtype);
  draft_.stores.push_back({access(std::move(wanted)), value.id});
}

SINTER_DECL Draft BodyEmitter::run() {
  for (const FusionMember& member : group_.members)
    if (fusion_.is_stored[as_index(member.node)]) store(member);
  order_positions();
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

SINTER_DECL bool is_plain_copy(const LoweredKernel& lowered) {
  const Kernel& kernel = lowered.kernel;
  if (kernel.body.size() != 1 || kernel.body[0].prim != Prim::load || kernel.stores.size() != 1 ||
      kernel.stores[0].index != no_inst || kernel.operands.size() != 2 ||
      kernel.operands[0].dtype != kernel.operands[1].dtype)
    return false;
  const auto &read = lowered.geometry.accesses[kernel.body[0].access],
             &write = lowered.geometry.accesses[kernel.stores[0].access];
  for (std::size_t a = 0; a < kernel.axes.size(); ++a)
    if (!identical(read.stride[a], write.stride[a])) return false;
  return identical(read.offset, write.offset);
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
