// Recording: type inference at the moment of writing, so that errors carry the user's line; a fast way for expressions
// whose leaves agree; iterative destruction.
#pragma once

#include <sinter/graph/pending_node.hpp>

#include <sinter/base/context.hpp>
#include <sinter/base/index.hpp>
#include <sinter/graph/pending_memory.hpp>
#include <sinter/tensor/device_memory.hpp>
#include <sinter/tensor/slot.hpp>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <string>
#include <utility>

SINTER_NAMESPACE_BEGIN

namespace graph_detail {

inline std::string dtype_list(std::span<const DType> dtypes) {
  std::string text;
  for (DType d : dtypes) text += (text.empty() ? "" : ", ") + std::string(name(d));
  return text;
}

/// Throws unless every leaf may be used here: ready values anywhere, traced ones only inside their trace.
inline void check_traces(std::span<const Leaf> leaves, std::string_view op, Location where) {
  for (const Leaf& leaf : leaves) {
    if (!leaf.value || leaf.value->trace == 0 || leaf.value->is_ready()) continue;
    if (Trace::find(leaf.value->trace) == nullptr)
      throw TraceError(op, "a traced tensor is used outside the trace it belongs to", where,
                       "return it from the compiled function instead of storing it in a captured variable");
  }
}

/// Result of a step of an expression while its type is worked out.
struct StepType {
  DType dtype;
  bool is_weak;
  Shape shape;
};

inline StepType leaf_type(const Leaf& leaf) {
  if (leaf.value) return {leaf.value->type.dtype, leaf.value->is_weak, leaf.value->type.shape};
  switch (leaf.kind) {
    case DTypeClass::boolean: return {DType::bool_, true, {}};
    case DTypeClass::integer: return {DType::i64, true, {}};
    case DTypeClass::floating: return {DType::f64, true, {}};
    case DTypeClass::complex: break;  // such a number is a value
  }
  __builtin_unreachable();
}

/// The device of an operation. Weak values and single elements on the CPU join operands on any device.
inline Device common_device(std::span<const Leaf> leaves, std::string_view op, Location where) {
  const TensorImpl* first = nullptr;
  for (const Leaf& leaf : leaves) {
    if (!leaf.value || leaf.value->is_weak) continue;
    const Type& type = leaf.value->type;
    if (first == nullptr || type.device == first->type.device) {
      if (first == nullptr) first = leaf.value.get();
      continue;
    }
    if (type.device == Device::cpu() && type.shape.rank() == 0) continue;
    if (first->type.device != Device::cpu() || first->type.shape.rank() != 0)
      throw DeviceError(
          op, "operands are on different devices: " + first->type.device.text() + " and " + type.device.text(), where,
          "move one of them with .to(device)");
    first = leaf.value.get();
  }
  return first != nullptr ? first->type.device : Device::cpu();
}

/// Numbers on the CPU that enter work on another device must be known when it is launched.
inline void settle_numbers(std::span<const Leaf> leaves, std::string_view op, Location where) {
  for (const Leaf& leaf : leaves) {
    if (!leaf.value || leaf.value->type.device != Device::cpu() || leaf.value->trace != 0 || leaf.value->is_ready())
      continue;
    TensorImpl* raw = leaf.value.get();
    evaluate({&raw, 1}, op, where);
  }
}

inline StepType apply_step(const OpInfo& op, std::span<const StepType> args, const Attrs& attrs, Location where) {
  std::array<DType, 8> dtypes{};
  std::array<PromotionRank, 8> ranks{};
  bool all_weak = true;
  Shape shape = args[0].shape;
  for (std::size_t i = 0; i < args.size(); ++i) {
    dtypes[i] = args[i].dtype;
    ranks[i] = promotion_rank(args[i].is_weak, args[i].shape.rank());
    all_weak &= args[i].is_weak;
    if (i > 0) shape = broadcast(shape, args[i].shape, op.name, where);
  }
  DType dtype = elementwise_dtype(op, {dtypes.data(), args.size()}, {ranks.data(), args.size()}, attrs, where);
  return {dtype, all_weak, shape};
}

/// True when every value leaf has this dtype and shape and numbers cannot change it; fills `out`.
inline bool agree(std::span<const Leaf> leaves, const Type*& out) {
  out = nullptr;
  for (const Leaf& leaf : leaves) {
    if (!leaf.value) continue;
    if (leaf.value->is_weak) return false;
    const Type& type = leaf.value->type;
    if (type.dtype != DType::f32 && type.dtype != DType::f64) return false;
    if (out == nullptr) out = &type;
    else if (!identical(*out, type)) return false;
  }
  return out != nullptr;
}

/// Does a gradient flow through a value of this type made of these leaves?
inline bool is_on_tape(const Type& type, std::span<const Leaf> leaves) {
  if (!is_differentiable(type.dtype)) return false;
  for (const Leaf& leaf : leaves)
    if (leaf.value && leaf.value->tape.load(std::memory_order_relaxed) != TapeState::none) return is_tape_on();
  return false;
}

inline Ref<TensorImpl> make_pending(const Type& type, Ref<PendingNode> pending_node, std::uint16_t result) {
  Ref<TensorImpl> impl = TensorImpl::make(type);
  if (is_on_tape(type, pending_node->leaves())) impl->tape.store(TapeState::node, std::memory_order_relaxed);
  impl->trace = pending_node->trace;
  impl->result = result;
  impl->state.store(TensorState::pending, std::memory_order_relaxed);
  impl->pending_node = pending_node.detach();
  return impl;
}

/// Tells the trace, if there is one, which statement asks about Dims.
struct StatementScope {
  StatementScope(std::string_view op, Location where) : trace(Trace::current()) {
    if (trace != nullptr) trace->statement = {op, where};
  }
  ~StatementScope() {
    if (trace != nullptr) trace->statement = {};
  }
  StatementScope(const StatementScope&) = delete;
  StatementScope& operator=(const StatementScope&) = delete;
  Trace* trace;
};

inline constexpr std::int64_t max_pending = 4096;

/// Under SINTER_EAGER, or when too much has accumulated.
inline bool must_run_now(const TensorImpl& value) {
  return value.trace == 0 && (Context::get().is_eager || pending_nodes() > max_pending);
}
SINTER_NOINLINE inline void run_now(const Ref<TensorImpl>& value, std::string_view op, Location where) {
  TensorImpl* raw = value.get();
  evaluate({&raw, 1}, op, where);
}
inline void after_recording(const Ref<TensorImpl>& value, std::string_view op, Location where) {
  if (SINTER_UNLIKELY(must_run_now(*value))) run_now(value, op, where);
}

}  // namespace graph_detail

SINTER_DECL bool& is_tape_on() noexcept {
  static thread_local constinit bool is_on = true;
  return is_on;
}

SINTER_DECL int& no_grad_depth() noexcept {
  static thread_local constinit int depth = 0;
  return depth;
}

SINTER_DECL void retain_pending_node(const PendingNode* pending_node) noexcept { pending_node->retain(); }
SINTER_DECL void release_pending_node(const PendingNode* pending_node) noexcept { pending_node->release(); }

SINTER_DECL Ref<PendingNode> PendingNode::make(std::span<Leaf> leaves) {
  auto* pending_node = new (graph_detail::allocate_pending_node(leaves.size())) PendingNode;
  pending_node->leaf_count = static_cast<std::uint16_t>(leaves.size());
  Leaf* out = reinterpret_cast<Leaf*>(pending_node + 1);
  for (Leaf& leaf : leaves) new (out++) Leaf(std::move(leaf));
  ++graph_detail::pending_nodes();
  return Ref<PendingNode>::adopt(pending_node);
}

SINTER_DECL void PendingNode::keep_computed(std::size_t result, Ref<TensorImpl> value) {
  if (computed == nullptr) computed = std::make_unique<std::vector<Ref<TensorImpl>>>(results);
  (*computed)[result] = std::move(value);
}

SINTER_DECL void PendingNode::destroy(PendingNode* pending_node) noexcept {
  // Freeing leaves can free further nodes; they queue here instead of nesting, each with the next one in `trace`.
  struct Queue {
    PendingNode* first = nullptr;
    bool is_running = false;
  };
  static thread_local constinit Queue queue;
  pending_node->trace = reinterpret_cast<std::uintptr_t>(std::exchange(queue.first, pending_node));
  if (std::exchange(queue.is_running, true)) return;
  while (queue.first != nullptr) {
    pending_node = queue.first;
    queue.first = reinterpret_cast<PendingNode*>(static_cast<std::uintptr_t>(pending_node->trace));
    std::size_t leaves = pending_node->leaf_count;
    for (Leaf& leaf : pending_node->leaves()) leaf.~Leaf();
    pending_node->~PendingNode();
    graph_detail::free_pending_node(pending_node, leaves);
    --graph_detail::pending_nodes();
  }
  queue.is_running = false;
}

namespace graph_detail {
/// The common dtype of operands. Those of one rank are promoted among themselves; a lower rank counts where its class
/// is higher.
inline DType promoted_dtype(std::span<const DType> dtypes, std::span<const PromotionRank> ranks, std::string_view op,
                            Location where) {
  std::array<DType, 3> by_rank{DType::bool_, DType::bool_, DType::bool_};
  std::array<bool, 3> is_there{};
  for (std::size_t i = 0; i < dtypes.size(); ++i) {
    const auto rank = as_index(ranks[i]);
    by_rank[rank] = promote(by_rank[rank], dtypes[i], op, where);
    is_there[rank] = true;
  }
  const auto numbers = as_index(PromotionRank::number), singles = as_index(PromotionRank::single),
             tensors = as_index(PromotionRank::tensor);
  if (!is_there[tensors] && !is_there[singles]) return by_rank[numbers];
  DType result = is_there[tensors] ? by_rank[tensors] : by_rank[singles];
  if (is_there[singles] && row(by_rank[singles]).kind > row(result).kind) {
    const bool keeps_width = is_complex(by_rank[singles]) && is_floating(result);  // f32 with axes, c128 without: c64
    result = keeps_width ? complex_of(result) : by_rank[singles];
  }
  return is_there[numbers] ? promote_weak(result, row(by_rank[numbers]).kind) : result;
}
}  // namespace graph_detail

SINTER_DECL void check_takes_bool(const OpInfo& op, DType result, Location where) {
  if (SINTER_LIKELY(op.takes_bool || result != DType::bool_)) return;
  throw DTypeError(op.name, op.arity == 1 ? "the operand is bool" : "both operands are bool", where,
                   op.arity == 1 ? "!x negates a condition; cast it to count: cast(x, DType::i64)"
                                 : "a ^ b tells where conditions differ; cast them to count: cast(x, DType::i64)");
}

SINTER_DECL void check_takes_f8(const OpInfo& op, DType operand, const Attrs& attrs, Location where) {
  if (SINTER_LIKELY(!is_f8(operand) || op.may_take_f8(attrs))) return;
  throw DTypeError(op.name, "an operand is " + std::string(name(operand)) + ", which is for memory alone", where,
                   "cast it to compute: cast(x, DType::f32), and cast the result back");
}

SINTER_DECL DType elementwise_dtype(const OpInfo& op, std::span<const DType> dtypes,
                                    std::span<const PromotionRank> ranks, const Attrs& attrs, Location where) {
  const std::size_t first = op.dtypes == DTypeRule::select ? 1 : 0;
  if (first == 1 && dtypes[0] != DType::bool_)
    throw DTypeError(op.name, "the condition has dtype " + std::string(name(dtypes[0])) + ", it must be bool", where,
                     "compare it: where(x != 0, a, b)");
  for (const DType dtype : dtypes) check_takes_f8(op, dtype, attrs, where);
  DType result = graph_detail::promoted_dtype(dtypes.subspan(first), ranks.subspan(first), op.name, where);
  check_takes_bool(op, result, where);
  switch (op.dtypes) {
    case DTypeRule::promote: return result;
    case DTypeRule::select: {
      // A choice between two numbers is no number where the condition is a tensor: it has the default dtype of its
      // class.
      const bool all_numbers =
          std::all_of(ranks.begin() + 1, ranks.end(), [](PromotionRank rank) { return rank == PromotionRank::number; });
      return all_numbers && ranks[0] != PromotionRank::number && is_floating(result) ? DType::f32 : result;
    }
    case DTypeRule::compare: return DType::bool_;
    case DTypeRule::floating:
      if (!is_differentiable(result)) return DType::f32;
      if (SINTER_UNLIKELY(is_half(result))) {  // computed in f32, which an op's own rule may refuse
        const SmallVector<Type, 4> in(dtypes.size(), Type{result, {}, {}});
        TypeList out;
        op.infer(InferArgs{in, attrs, op.name, where}, out);
      }
      return result;
    case DTypeRule::logical:
      if (is_differentiable(result))
        throw DTypeError(op.name,
                         "operands have dtype " + graph_detail::dtype_list(dtypes) + "; integers or bool are required",
                         where);
      return result;
    case DTypeRule::attribute: return attrs.dtype;
    case DTypeRule::first: return dtypes[0];
  }
  __builtin_unreachable();
}

namespace graph_detail {
/// Types of the results, by the op's rule; checks what can be checked now.
inline TypeList result_types(const OpInfo& op, std::span<const Leaf> leaves, const Attrs& attrs, Location where,
                             bool& is_weak) {
  check_traces(leaves, op.name, where);
  StatementScope statement(op.name, where);
  Device device = op.is_transfer ? attrs.device : common_device(leaves, op.name, where);
  TypeList types;
  is_weak = false;
  if (const Type* common = nullptr; op.kind == OpKind::elementwise &&
                                    (op.dtypes == DTypeRule::promote || op.dtypes == DTypeRule::floating) &&
                                    agree(leaves, common)) {
    types.push_back(*common);
    return types;
  }
  if (op.kind == OpKind::elementwise) {
    std::array<StepType, 8> args;
    for (std::size_t i = 0; i < leaves.size(); ++i) args[i] = leaf_type(leaves[i]);
    auto result = apply_step(op, {args.data(), leaves.size()}, attrs, where);
    is_weak = result.is_weak && op.dtypes != DTypeRule::attribute;
    types.push_back({result.dtype, device, result.shape});
  } else {
    SmallVector<Type, 4> in;
    for (const Leaf& leaf : leaves) {
      Type& type = in.emplace_back();
      if (leaf.value) type = leaf.value->type;
      else type.dtype = leaf_type(leaf).dtype;
      type.device = device;
      check_takes_f8(op, type.dtype, attrs, where);
    }
    op.infer(InferArgs{in, attrs, op.name, where}, types);
    if (device == Device::cpu()) device = attrs.device;
    for (Type& type : types) type.device = device;
  }
  if (SINTER_UNLIKELY(device != Device::cpu()) && !op.is_transfer) graph_detail::settle_numbers(leaves, op.name, where);
  for (const Type& type : types) static_cast<void>(type.shape.numel(where));
  return types;
}

/// Is there a complex value that the operation does not take as it is?
inline bool needs_parts(const OpInfo& op, std::span<const Leaf> leaves, const Attrs& attrs) {
  if (SINTER_UNLIKELY(attrs.has_dtype && is_complex(attrs.dtype)) && !op.may_take_complex(attrs)) return true;
  for (const Leaf& leaf : leaves)
    if (leaf.value && SINTER_UNLIKELY(is_complex(leaf.value->type.dtype))) return !op.may_take_complex(attrs);
  return false;
}

/// An expression with a complex leaf, step by step.
inline Ref<TensorImpl> record_steps(const ExprStructure& structure, std::span<const Leaf> leaves, Location where) {
  std::vector<Leaf> stack;
  for (const ExprStep& step : structure.steps) {
    if (step.op == nullptr) {
      stack.push_back(leaves[step.leaf]);
      continue;
    }
    const std::size_t first = stack.size() - step.arity;
    Leaf result(record_shared(*step.op, std::span<Leaf>(stack).subspan(first), {}, where));
    stack.resize(first);
    stack.push_back(std::move(result));
  }
  return std::move(stack[0].value);
}

/// What a new statement knows of the trace that records it.
inline void belong_to_trace(PendingNode& pending_node) {
  const Trace* trace = Trace::current();
  if (trace == nullptr) return;
  pending_node.trace = trace->id();
  pending_node.is_off_tape = trace->stops_gradients();
}

inline Ref<PendingNode> make_pending_node(const OpInfo& op, std::span<Leaf> leaves, SharedAttrs attrs, Location where) {
  Ref<PendingNode> pending_node = PendingNode::make(leaves);
  pending_node->op = &op;
  pending_node->where = where;
  pending_node->attrs = std::move(attrs);
  belong_to_trace(*pending_node);
  return pending_node;
}

inline std::vector<Ref<TensorImpl>> record_all(const OpInfo& op, std::span<Leaf> leaves, SharedAttrs attrs,
                                               Location where) {
  bool is_weak = false;
  TypeList types = result_types(op, leaves, *attrs, where, is_weak);
  Ref<PendingNode> pending_node = make_pending_node(op, leaves, std::move(attrs), where);
  pending_node->results = static_cast<std::uint16_t>(types.size());
  std::vector<Ref<TensorImpl>> values;
  for (std::size_t i = 0; i < types.size(); ++i)
    values.push_back(make_pending(types[i], pending_node, static_cast<std::uint16_t>(i)));
  return values;
}
}  // namespace graph_detail

SINTER_DECL Ref<TensorImpl> record_shared(const OpInfo& op, std::span<Leaf> leaves, SharedAttrs attrs, Location where) {
  if (SINTER_UNLIKELY(graph_detail::needs_parts(op, leaves, *attrs))) return record_complex(op, leaves, attrs, where);
  bool is_weak = false;
  TypeList types = graph_detail::result_types(op, leaves, *attrs, where, is_weak);
  Ref<TensorImpl> value =
      graph_detail::make_pending(types[0], graph_detail::make_pending_node(op, leaves, std::move(attrs), where), 0);
  value->is_weak = is_weak;
  graph_detail::after_recording(value, op.name, where);
  return value;
}

SINTER_DECL std::vector<Ref<TensorImpl>> record_shared_results(const OpInfo& op, std::span<Leaf> leaves,
                                                               SharedAttrs attrs, Location where) {
  if (SINTER_UNLIKELY(graph_detail::needs_parts(op, leaves, *attrs)))  // no op with several results has a rule
    return {record_complex(op, leaves, attrs, where)};
  std::vector<Ref<TensorImpl>> values = graph_detail::record_all(op, leaves, std::move(attrs), where);
  graph_detail::after_recording(values[0], op.name, where);
  return values;
}

SINTER_DECL std::vector<Ref<TensorImpl>> record_effect(const OpInfo& op, std::span<Leaf> leaves, Attrs attrs,
                                                       Location where) {
  Trace* trace = Trace::current();
  std::vector<Leaf> operands(std::make_move_iterator(leaves.begin()), std::make_move_iterator(leaves.end()));
  operands.push_back(trace != nullptr && trace->last_effect() ? Leaf(trace->last_effect()) : Leaf::of_number(true));
  if (trace == nullptr && attrs.bodies.empty()) {
    bool is_weak = false;
    const TypeList types = graph_detail::result_types(op, operands, attrs, where, is_weak);
    if (types.size() == 1 || !is_tape_on()) {  // results on the tape need a pending node
      std::vector<Ref<TensorImpl>> results = run_host_op(op, operands, types, attrs, where);
      results.pop_back();
      return results;
    }
  }
  std::vector<Ref<TensorImpl>> values = graph_detail::record_all(op, operands, std::move(attrs), where);
  values.back()->is_weak = true;  // a token is on no device
  if (trace == nullptr) {
    SmallVector<TensorImpl*, 4> raw;
    for (const auto& value : values) raw.push_back(value.get());
    evaluate({raw.data(), raw.size()}, op.name, where);
    values.pop_back();
  } else {
    trace->set_last_effect(std::move(values.back()));
    values.pop_back();
  }
  return values;
}

SINTER_DECL bool keeps_float_type(const ExprStructure& structure) noexcept {
  for (const ExprStep& step : structure.steps)
    if (step.op != nullptr && step.op->dtypes != DTypeRule::promote && step.op->dtypes != DTypeRule::floating)
      return false;
  return true;
}

namespace graph_detail {
/// What most statements have: values that are floats of one type, and so is the result. Nothing is promoted, stretched
/// or refused, and the type has been checked when the operand was made.
struct UniformLeaves {
  const TensorImpl* first = nullptr;  // null: they are not uniform, or no leaf is a value
  bool reach_tape = false;
};
inline UniformLeaves uniform_leaves(std::span<const Leaf> leaves, const Trace* trace) {
  UniformLeaves found;
  for (const Leaf& leaf : leaves) {
    const TensorImpl* value = leaf.value.get();
    if (value == nullptr) continue;
    if (value->is_weak || (value->type.dtype != DType::f32 && value->type.dtype != DType::f64)) return {};
    if (SINTER_UNLIKELY(value->trace != 0) && (trace == nullptr || value->trace != trace->id()) && !value->is_ready() &&
        Trace::find(value->trace) == nullptr)
      return {};
    if (found.first == nullptr) found.first = value;
    else if (value != found.first && !identical(value->type, found.first->type)) return {};
    found.reach_tape |= value->tape.load(std::memory_order_relaxed) != TapeState::none;
  }
  return found;
}

/// The type of an expression's result, step by step.
inline StepType expression_type(const ExprStructure& structure, std::span<const Leaf> leaves, Location where) {
  std::vector<StepType> stack;
  for (const ExprStep& step : structure.steps) {
    if (step.op == nullptr) {
      stack.push_back(leaf_type(leaves[step.leaf]));
      continue;
    }
    std::span<const StepType> args(stack.data() + stack.size() - step.arity, step.arity);
    auto result = apply_step(*step.op, args, Attrs{}, where);
    stack.resize(stack.size() - step.arity);
    stack.push_back(result);
  }
  return stack[0];
}

/// The statement that gives `value`, a new one.
inline void attach_statement(TensorImpl& value, const ExprStructure& structure, std::span<Leaf> leaves, Location where,
                             const Trace* trace) {
  PendingNode* pending_node = PendingNode::make(leaves).detach();
  pending_node->structure = &structure;
  pending_node->where = where;
  if (SINTER_UNLIKELY(trace != nullptr)) {
    pending_node->trace = value.trace = trace->id();
    pending_node->is_off_tape = trace->stops_gradients();
  }
  value.pending_node = pending_node;
  value.state.store(TensorState::pending, std::memory_order_relaxed);
}

SINTER_NOINLINE inline Ref<TensorImpl> record_mixed(const ExprStructure& structure, std::span<Leaf> leaves,
                                                    Location where) {
  for (const Leaf& leaf : leaves)
    if (leaf.value && is_complex(leaf.value->type.dtype)) return record_steps(structure, leaves, where);
  const std::string_view op = structure.steps.back().op->name;
  check_traces(leaves, op, where);
  StatementScope statement(op, where);
  const StepType result = expression_type(structure, leaves, where);
  const Type type{result.dtype, common_device(leaves, op, where), result.shape};
  if (SINTER_UNLIKELY(type.device != Device::cpu())) settle_numbers(leaves, op, where);
  static_cast<void>(type.shape.numel(where));
  Ref<TensorImpl> value = TensorImpl::make(type);
  if (is_on_tape(type, leaves)) value->tape.store(TapeState::node, std::memory_order_relaxed);
  attach_statement(*value, structure, leaves, where, statement.trace);
  value->is_weak = result.is_weak;
  after_recording(value, op, where);
  return value;
}
}  // namespace graph_detail

SINTER_DECL Ref<TensorImpl> record_expression(const ExprStructure& structure, std::span<Leaf> leaves, Location where) {
  const Trace* trace = graph_detail::innermost_trace();
  const graph_detail::UniformLeaves uniform = graph_detail::uniform_leaves(leaves, trace);
  if (SINTER_UNLIKELY(uniform.first == nullptr || !keeps_float_type(structure)))
    return graph_detail::record_mixed(structure, leaves, where);
  Ref<TensorImpl> value = TensorImpl::make(uniform.first->type);
  if (uniform.reach_tape && is_tape_on()) value->tape.store(TapeState::node, std::memory_order_relaxed);
  graph_detail::attach_statement(*value, structure, leaves, where, trace);
  if (SINTER_UNLIKELY(graph_detail::must_run_now(*value)))
    graph_detail::run_now(value, structure.steps.back().op->name, where);
  return value;
}

SINTER_DECL Ref<TensorImpl> record_alias(const Ref<TensorImpl>& value) {
  if (value->is_ready()) {
    Ref<TensorImpl> alias = TensorImpl::make_ready(value->type, value->storage, value->offset, &value->strides);
    if (const AxisMarks* marks = value->marks()) alias->set_marks(*marks);
    return alias;
  }
  Leaf leaf(value);
  Ref<PendingNode> pending_node = PendingNode::make({&leaf, 1});
  pending_node->op = &graph_detail::reshape_op();
  pending_node->attrs = Attrs{.shape = value->type.shape};
  pending_node->trace = value->trace;
  Ref<TensorImpl> alias = graph_detail::make_pending(value->type, std::move(pending_node), 0);
  alias->is_weak = value->is_weak;
  return alias;
}

SINTER_DECL Ref<TensorImpl> value_to_store(const VariableSlot& slot, Ref<TensorImpl> value) {
  if (slot.gradient() == nullptr || value->tape.load(std::memory_order_acquire) == TapeState::none) return value;
  const bool was_on = std::exchange(is_tape_on(), false);
  try {
    value = record_alias(value);
  } catch (...) {
    is_tape_on() = was_on;
    throw;
  }
  is_tape_on() = was_on;
  return value;
}

SINTER_DECL Location line_of(const TensorImpl& value, Location otherwise) {
  std::scoped_lock lock(evaluation_mutex());  // another thread may be evaluating it, and then frees the node
  const bool is_pending = value.state.load(std::memory_order_acquire) == TensorState::pending;
  return is_pending && value.pending_node->where.file != nullptr ? value.pending_node->where : otherwise;
}

SINTER_DECL Location written_at(const TensorImpl& value) {
  std::scoped_lock lock(evaluation_mutex());
  const TensorImpl* at = &value;
  while (at != nullptr && at->state.load(std::memory_order_acquire) == TensorState::pending) {
    if (at->pending_node->where.line != 0) return at->pending_node->where;
    const TensorImpl* operand = nullptr;
    for (const Leaf& leaf : at->pending_node->leaves())
      if (operand == nullptr) operand = leaf.value.get();
    at = operand;
  }
  return {};
}

SINTER_DECL std::uint64_t read_bits(const Ref<TensorImpl>& value, std::string_view op, Location where) {
  if (is_complex(value->type.dtype))
    throw DTypeError(op, "the value is " + value->type.text() + ", and a real number is read", where,
                     "read real(z) and imag(z), or item<std::complex<float>>(z)");
  if (!value->is_ready()) {
    if (where.line == 0) where = written_at(*value);
    Trace* trace = value->trace != 0 ? Trace::find(value->trace) : nullptr;
    if (trace != nullptr && WholeGraph::is_required())
      throw TraceError(op, "a value is read while its function is traced", where,
                       "the code belongs into the graph whole (allow_in_graph): choose with where(condition, a, b), or "
                       "return the value and read it outside");
    if (trace != nullptr) {
      for (Trace* inner = Trace::current(); inner != trace && inner != nullptr; inner = inner->outer())
        inner->note_outer_read();
      return trace->read_value(value, op, where);
    }
    TensorImpl* raw = value.get();
    evaluate({&raw, 1}, op, where);
  }
  return element_bits(*value);
}

SINTER_DECL std::uint64_t element_bits(const TensorImpl& value) {
  std::uint64_t bits = 0;
  const auto bytes = as_index(size_of(value.type.dtype));
  const Device device = value.type.device;
  if (device == Device::cpu()) std::memcpy(&bits, value.data(), bytes);
  else device_memory(device, "item").copy(&bits, Device::cpu(), value.data(), device, bytes);
  return bits;
}

SINTER_NAMESPACE_END
