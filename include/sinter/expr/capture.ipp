// The walk is iterative (recorded chains can be long) and visits each pending node once.
#pragma once

#include <sinter/expr/capture.hpp>

#include <sinter/base/index.hpp>
#include <sinter/base/pointer_map.hpp>
#include <sinter/ops/registry.hpp>
#include <sinter/ops/scalar_meaning.hpp>

#include <algorithm>
#include <utility>

SINTER_NAMESPACE_BEGIN

namespace expr_detail {

/// An operand while an expression is opened: a graph value, or a number whose dtype is not settled yet.
struct OpenOperand {
  Value value;
  const Leaf* number = nullptr;
  DType dtype = DType::f32;
  bool is_weak = false;
};

class Capturer {
 public:
  Capturer(Capture& out, const CaptureOptions& options, std::size_t known)
      : out_(out), options_(options), values_(4 * known) {
    out.builder.reserve(2 * known + 16);
  }

  void add_known(const Ref<TensorImpl>& value) { values_[value.get()] = add_input(value); }

  Value value_of(const Ref<TensorImpl>& root) {
    std::vector<TensorImpl*> stack{root.get()};
    while (!stack.empty()) {
      TensorImpl* top = stack.back();
      if (values_.contains(top)) {
        stack.pop_back();
        continue;
      }
      if (is_leaf(*top)) {
        add_leaf(Ref<TensorImpl>::share(top));
        stack.pop_back();
        continue;
      }
      if (const Value* known = top->pending_node->results > 1 ? pending_nodes_.find(top->pending_node)
                                                              : nullptr) {  // another result of it
        values_[top] = stopped(*top, {known->node, top->result});
        order_.push_back(top);
        stack.pop_back();
        continue;
      }
      std::size_t before = stack.size();
      for (const Leaf& leaf : top->pending_node->leaves())
        if (leaf.value && !values_.contains(leaf.value.get())) stack.push_back(leaf.value.get());
      if (stack.size() > before) continue;
      const Value opened = stopped(*top, open(*top));
      values_[top] = opened;
      order_.push_back(top);
      stack.pop_back();
    }
    return *values_.find(root.get());
  }

  void list_walked() {
    out_.walked = order_;
    for (TensorImpl* value : order_) out_.walked_values.push_back(*values_.find(value));
  }

  /// Walked values with handles beyond the walked pending nodes and `outputs`.
  void find_kept(std::span<const Ref<TensorImpl>> outputs) {
    PointerMap<std::uint32_t> references(order_.size());
    PointerMap<bool> is_counted(order_.size());  // a node with several results refers to its operands once
    for (TensorImpl* value : order_)
      if (!std::exchange(is_counted[value->pending_node], true))
        for (const Leaf& leaf : value->pending_node->leaves())
          if (leaf.value) ++references[leaf.value.get()];
    PointerMap<bool> is_output(outputs.size());
    for (const auto& output : outputs) is_output[output.get()] = true;
    for (TensorImpl* value : order_) {
      if (!options_.along_tape && (is_output.contains(value) || value->use_count() <= references[value])) continue;
      out_.kept.push_back(Ref<TensorImpl>::share(value));
      out_.kept_values.push_back(*values_.find(value));
    }
  }

  /// Each value refers to its node: one that is referred to more often than its values were met has others.
  void find_siblings() {
    struct Several {
      PendingNode* pending_node;
      Value made;
      SmallVector<bool, 8> is_met;
    };
    std::vector<Several> nodes;
    PointerMap<std::size_t> places(8);
    for (TensorImpl* value : order_) {
      PendingNode* const pending_node = value->pending_node;
      if (pending_node->results == 1) continue;
      if (!places.contains(pending_node)) {
        places[pending_node] = nodes.size();
        nodes.push_back({pending_node, *pending_nodes_.find(pending_node), {}});
        nodes.back().is_met.resize(pending_node->results, false);
      }
      nodes[*places.find(pending_node)].is_met[value->result] = true;
    }
    for (const Several& several : nodes) {
      const auto met = static_cast<std::uint32_t>(std::count(several.is_met.begin(), several.is_met.end(), true));
      if (several.pending_node->use_count() <= met) continue;
      for (std::size_t i = 0; i < several.is_met.size(); ++i)
        if (!several.is_met[i] && !several.pending_node->has_computed(i))
          out_.siblings.push_back({Ref<PendingNode>::share(several.pending_node),
                                   static_cast<std::uint16_t>(i),
                                   {several.made.node, static_cast<std::int32_t>(i)}});
    }
  }

 private:
  bool is_leaf(const TensorImpl& value) const {
    if (options_.along_tape)
      return value.tape.load(std::memory_order_acquire) != TapeState::node || value.pending_node->is_spent;
    if (value.state.load(std::memory_order_acquire) != TensorState::pending || value.trace != options_.trace)
      return true;
    if (SINTER_UNLIKELY(value.trace == 0 && value.pending_node->has_computed(value.result))) return true;
    return options_.is_leaf && options_.is_leaf(value);
  }

  /// `opened`, or where no gradient may flow through the value that it is, a node that says so.
  Value stopped(const TensorImpl& value, Value opened) {
    if (!options_.stops_gradients || !value.pending_node->is_off_tape || !is_differentiable(value.type.dtype))
      return opened;
    return out_.builder.add_typed(op_info<ops::StopGradient>, {&opened, 1}, {}, TypeList(1, out_.builder.type(opened)),
                                  value.pending_node->where);
  }

  Value add_input(const Ref<TensorImpl>& value) {
    out_.inputs.push_back(value);
    return out_.builder.input(value->type);
  }

  void add_leaf(const Ref<TensorImpl>& value) {
    bool as_constant = value->is_ready() && options_.ready == ReadyLeaf::constant;
    values_[value.get()] = as_constant ? out_.builder.constant(value) : add_input(value);
  }

  OpenOperand operand_of(const Leaf& leaf) {
    if (leaf.value) return {*values_.find(leaf.value.get()), nullptr, leaf.value->type.dtype, leaf.value->is_weak};
    const DType dtype = leaf.kind == DTypeClass::floating  ? DType::f64
                        : leaf.kind == DTypeClass::integer ? DType::i64
                                                           : DType::bool_;
    return {{}, &leaf, dtype, true};
  }

  Value open(const TensorImpl& value) {
    const PendingNode& pending_node = *value.pending_node;
    if (pending_node.structure != nullptr) return open_expression(value, pending_node);
    SmallVector<OpenOperand, 8> args;
    for (const Leaf& leaf : pending_node.leaves()) args.push_back(operand_of(leaf));
    if (pending_node.op->kind == OpKind::elementwise) {
      if (needs_no_casts(*pending_node.op, args))
        return typed(*pending_node.op, args, pending_node.attrs, value.type, pending_node.where);
      return apply(*pending_node.op, args, pending_node.attrs, pending_node.where).value;
    }
    const bool has_numbers =
        std::any_of(args.begin(), args.end(), [](const OpenOperand& arg) { return arg.number != nullptr; });
    if (pending_node.results == 1 && !has_numbers && value.type.device == Device::cpu())
      return typed(*pending_node.op, args, pending_node.attrs, value.type, pending_node.where);
    if (const Value* known = pending_nodes_.find(&pending_node)) return {known->node, value.result};
    Values inputs;
    for (const OpenOperand& arg : args)
      inputs.push_back(arg.number != nullptr ? literal(*arg.number, default_dtype(arg.dtype), pending_node.where)
                                             : arg.value);
    const Value made = out_.builder.add_shared(*pending_node.op, inputs, pending_node.attrs, pending_node.where);
    pending_nodes_[&pending_node] = made;
    return {made.node, value.result};
  }

  Value open_expression(const TensorImpl& value, const PendingNode& pending_node) {
    // Where all tensors and the result have one floating type, so has every step that reads a tensor.
    bool is_uniform = keeps_float_type(*pending_node.structure) && is_floating(value.type.dtype) &&
                      value.type.device == Device::cpu() && !value.is_weak;
    for (const Leaf& leaf : pending_node.leaves())
      is_uniform = is_uniform && (!leaf.value || (!leaf.value->is_weak && identical(leaf.value->type, value.type)));
    stack_.clear();
    for (const ExprStep& step : pending_node.structure->steps) {
      if (step.op == nullptr) {
        stack_.push_back(operand_of(pending_node.leaves()[step.leaf]));
        continue;
      }
      const std::span<OpenOperand> args(stack_.data() + stack_.size() - step.arity, step.arity);
      OpenOperand result;
      const bool reads_tensor = std::any_of(
          args.begin(), args.end(), [](const OpenOperand& arg) { return arg.number == nullptr && !arg.is_weak; });
      if (is_uniform && reads_tensor) {
        for (OpenOperand& arg : args)
          if (arg.number != nullptr || arg.dtype != value.type.dtype)
            arg = {as(arg, value.type.dtype, pending_node.where), nullptr, value.type.dtype, false};
        result = {typed(*step.op, args, {}, value.type, pending_node.where), nullptr, value.type.dtype, false};
      } else {
        result = apply(*step.op, args, {}, pending_node.where);
      }
      stack_.resize(stack_.size() - step.arity);
      stack_.push_back(result);
    }
    return stack_[0].value;
  }

  /// All tensors of one dtype that the op takes as it is, on the CPU: the value's own type is the node's.
  bool needs_no_casts(const OpInfo& op, std::span<const OpenOperand> args) {
    if (op.dtypes != DTypeRule::promote && op.dtypes != DTypeRule::floating && op.dtypes != DTypeRule::compare)
      return false;
    for (const OpenOperand& arg : args) {
      if (arg.number != nullptr || arg.is_weak || arg.dtype != args[0].dtype || !is_floating(arg.dtype)) return false;
      if (out_.builder.type(arg.value).device != Device::cpu()) return false;
    }
    return true;
  }

  Value typed(const OpInfo& op, std::span<const OpenOperand> args, const SharedAttrs& attrs, const Type& type,
              Location where) {
    Values inputs;
    for (const OpenOperand& arg : args) inputs.push_back(arg.value);
    return out_.builder.add_typed(op, inputs, attrs, TypeList(1, type), where);
  }

  static DType default_dtype(DType dtype) { return dtype == DType::f64 ? DType::f32 : dtype; }

  OpenOperand apply(const OpInfo& op, std::span<const OpenOperand> args, const SharedAttrs& attrs, Location where) {
    std::array<DType, 8> dtypes{};
    std::array<PromotionRank, 8> ranks{};
    bool all_weak = true;
    for (std::size_t i = 0; i < args.size(); ++i) {
      dtypes[i] = args[i].dtype;
      ranks[i] = promotion_rank(args[i].is_weak,
                                args[i].number != nullptr ? 0 : out_.builder.type(args[i].value).shape.rank());
      all_weak &= args[i].is_weak;
    }
    std::span<const DType> dtype_list(dtypes.data(), args.size());
    std::span<const PromotionRank> rank_list(ranks.data(), args.size());
    DType result = elementwise_dtype(op, dtype_list, rank_list, *attrs, where);
    Values inputs;
    bool keeps_operands = op.dtypes == DTypeRule::attribute || op.dtypes == DTypeRule::first;
    OpInfo computing = op;
    if (op.dtypes == DTypeRule::compare) computing.dtypes = DTypeRule::promote;
    DType common = keeps_operands ? DType::f32 : elementwise_dtype(computing, dtype_list, rank_list, *attrs, where);
    for (std::size_t i = 0; i < args.size(); ++i) {
      bool is_condition = op.dtypes == DTypeRule::select && i == 0;
      DType target = keeps_operands ? (args[i].number != nullptr ? default_dtype(args[i].dtype) : args[i].dtype)
                     : is_condition ? DType::bool_
                                    : common;
      inputs.push_back(as(args[i], target, where));
    }
    return {out_.builder.add_shared(op, inputs, attrs, where), nullptr, result,
            all_weak && op.dtypes != DTypeRule::attribute};
  }

  Value as(const OpenOperand& operand, DType dtype, Location where) {
    if (operand.number != nullptr) return literal(*operand.number, dtype, where);
    if (operand.dtype == dtype) return operand.value;
    Attrs attrs;
    attrs.dtype = dtype;
    attrs.has_dtype = true;
    return out_.builder.add(op_info<ops::Cast>, {operand.value}, attrs, where);
  }

  Value literal(const Leaf& number, DType dtype, Location where) {
    Attrs attrs;
    attrs.dtype = dtype;
    attrs.has_dtype = true;
    double floating = number.kind == DTypeClass::floating ? number.number : static_cast<double>(number.integer);
    if (is_floating(dtype)) attrs.value = is_f8(dtype) ? tensor_detail::rounded(floating, dtype) : floating;
    else
      attrs.integer =
          number.kind == DTypeClass::floating ? scalar_meaning::integer_of(number.number, dtype) : number.integer;
    return out_.builder.add(op_info<ops::Full>, {}, attrs, where);
  }

  Capture& out_;
  const CaptureOptions& options_;
  PointerMap<Value> values_;
  PointerMap<Value> pending_nodes_;  // of several results, or with numbers among the operands
  std::vector<TensorImpl*> order_;
  std::vector<OpenOperand> stack_;
};

}  // namespace expr_detail

SINTER_DECL Capture capture(std::span<const Ref<TensorImpl>> outputs, std::span<const Ref<TensorImpl>> known,
                            const CaptureOptions& options) {
  Capture out;
  expr_detail::Capturer capturer(out, options, known.size());
  for (const auto& value : known) capturer.add_known(value);
  if (options.last_effect) static_cast<void>(capturer.value_of(options.last_effect));
  for (const auto& value : outputs) {
    out.outputs.push_back(capturer.value_of(value));
    out.ends.push_back(static_cast<std::int32_t>(out.builder.graph().nodes().size()));
  }
  if (options.lists_walked) capturer.list_walked();
  if (options.finds_kept || options.along_tape) capturer.find_kept(outputs);
  if (options.finds_kept) capturer.find_siblings();
  return out;
}

SINTER_DECL std::vector<Ref<TensorImpl>> replay(const Graph& graph, std::span<const Ref<TensorImpl>> inputs) {
  std::vector<std::vector<Ref<TensorImpl>>> values(graph.nodes().size());  // by node and result
  auto value_of = [&](Value v) -> const Ref<TensorImpl>& { return values[as_index(v.node)][as_index(v.result)]; };
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
    const Node& node = graph.nodes()[i];
    if (node.op == &op_info<ops::Input>) {
      values[i].push_back(inputs[as_index(node.attrs[input_position])]);
      continue;
    }
    if (node.op == &op_info<ops::Constant>) {
      values[i].push_back(node.attrs.constant);
      continue;
    }
    const bool is_effect = node.op->kind == OpKind::effect;
    std::vector<Leaf> leaves;
    for (std::size_t k = 0; k + is_effect < node.inputs.size(); ++k) leaves.emplace_back(value_of(node.inputs[k]));
    if (is_effect) values[i] = record_effect(*node.op, leaves, node.attrs, node.where);
    else if (node.types.size() > 1)
      values[i] = record_shared_results(*node.op, leaves, node.shared_attrs(), node.where);
    else values[i].push_back(record_shared(*node.op, leaves, node.shared_attrs(), node.where));
    ensure(values[i].size() + is_effect >= node.types.size(), "a node gives fewer results than its graph says");
  }
  std::vector<Ref<TensorImpl>> outputs;
  for (Value output : graph.outputs()) outputs.push_back(value_of(output));
  return outputs;
}

SINTER_NAMESPACE_END
