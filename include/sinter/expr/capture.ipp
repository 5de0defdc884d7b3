// The walk is iterative (recorded chains can be long) and visits each record once.
#pragma once

#include <sinter/expr/capture.hpp>

#include <sinter/ops/registry.hpp>

#include <unordered_map>
#include <unordered_set>

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
  Capturer(Capture& out, const CaptureOptions& options) : out_(out), options_(options) {}

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
      std::size_t before = stack.size();
      for (const Leaf& leaf : top->record->leaves())
        if (leaf.value && !values_.contains(leaf.value.get())) stack.push_back(leaf.value.get());
      if (stack.size() > before) continue;
      values_[top] = open(*top);
      order_.push_back(top);
      stack.pop_back();
    }
    return values_.at(root.get());
  }

  void list_walked() {
    out_.walked = order_;
    for (TensorImpl* value : order_) out_.walked_values.push_back(values_.at(value));
  }

  /// Walked values with handles beyond the walked records and `outputs`.
  void find_kept(std::span<const Ref<TensorImpl>> outputs) {
    std::unordered_map<const TensorImpl*, std::uint32_t> references;
    std::unordered_set<const Record*> records;   // a record with several results refers to its operands once
    for (TensorImpl* value : order_)
      if (records.insert(value->record).second)
        for (const Leaf& leaf : value->record->leaves())
          if (leaf.value) ++references[leaf.value.get()];
    std::unordered_map<const TensorImpl*, bool> is_output;
    for (const auto& output : outputs) is_output[output.get()] = true;
    for (TensorImpl* value : order_) {
      if (!options_.along_tape && (is_output.contains(value) || value->use_count() <= references[value])) continue;
      out_.kept.push_back(Ref<TensorImpl>::share(value));
      out_.kept_values.push_back(values_.at(value));
    }
  }

 private:
  bool is_leaf(const TensorImpl& value) const {
    if (options_.along_tape) return value.tape.load(std::memory_order_acquire) != TapeState::node;
    if (value.state.load(std::memory_order_acquire) != TensorState::pending || value.trace != options_.trace) return true;
    return options_.is_leaf && options_.is_leaf(value);
  }

  Value add_input(const Ref<TensorImpl>& value) {
    out_.inputs.push_back(value);
    return out_.builder.input(value->type);
  }

  void add_leaf(const Ref<TensorImpl>& value) {
    bool as_constant = value->is_ready() && options_.ready == ReadyLeaf::constant;
    values_[value.get()] = as_constant ? out_.builder.constant(value) : add_input(value);
  }

  Value open(const TensorImpl& value) {
    const Record& record = *value.record;
    static const Attrs no_attrs;
    const Attrs& attrs = record.attrs ? *record.attrs : no_attrs;
    auto operand_of = [&](const Leaf& leaf) -> OpenOperand {
      if (leaf.value) return {values_.at(leaf.value.get()), nullptr, leaf.value->type.dtype, leaf.value->is_weak};
      DType dtype = leaf.kind == DTypeClass::floating ? DType::f64 : leaf.kind == DTypeClass::integer ? DType::i64 : DType::bool_;
      return {{}, &leaf, dtype, true};
    };
    if (record.structure != nullptr) {
      std::vector<OpenOperand> stack;
      for (const ExprStep& step : record.structure->steps) {
        if (step.op == nullptr) {
          stack.push_back(operand_of(record.leaves()[step.leaf]));
          continue;
        }
        std::span<const OpenOperand> args(stack.data() + stack.size() - step.arity, step.arity);
        OpenOperand result = apply(*step.op, args, no_attrs, record.where);
        stack.resize(stack.size() - step.arity);
        stack.push_back(result);
      }
      return stack[0].value;
    }
    std::vector<OpenOperand> args;
    for (const Leaf& leaf : record.leaves()) args.push_back(operand_of(leaf));
    if (record.op->kind == OpKind::elementwise) return apply(*record.op, args, attrs, record.where).value;
    Values inputs;
    for (const OpenOperand& arg : args) inputs.push_back(arg.number != nullptr ? literal(*arg.number, default_dtype(arg.dtype), record.where) : arg.value);
    auto key = std::pair(&record, 0);
    auto found = records_.find(key.first);
    if (found == records_.end()) found = records_.emplace(key.first, out_.builder.add(*record.op, inputs, attrs, record.where)).first;
    return {found->second.node, value.result};
  }

  static DType default_dtype(DType dtype) { return dtype == DType::f64 ? DType::f32 : dtype; }

  OpenOperand apply(const OpInfo& op, std::span<const OpenOperand> args, const Attrs& attrs, Location where) {
    std::array<DType, 8> dtypes{};
    std::array<bool, 8> weak{};
    bool all_weak = true;
    for (std::size_t i = 0; i < args.size(); ++i) dtypes[i] = args[i].dtype, weak[i] = args[i].is_weak, all_weak &= args[i].is_weak;
    std::span<const DType> dtype_list(dtypes.data(), args.size());
    std::span<const bool> weak_list(weak.data(), args.size());
    DType result = elementwise_dtype(op, dtype_list, weak_list, attrs, where);
    Values inputs;
    bool keeps_operands = op.dtypes == DTypeRule::attribute || op.dtypes == DTypeRule::first;
    OpInfo computing = op;
    if (op.dtypes == DTypeRule::compare) computing.dtypes = DTypeRule::promote;
    DType common = keeps_operands ? DType::f32 : elementwise_dtype(computing, dtype_list, weak_list, attrs, where);
    for (std::size_t i = 0; i < args.size(); ++i) {
      bool is_condition = op.dtypes == DTypeRule::select && i == 0;
      DType target = keeps_operands ? (args[i].number != nullptr ? default_dtype(args[i].dtype) : args[i].dtype) : is_condition ? DType::bool_ : common;
      inputs.push_back(as(args[i], target, where));
    }
    return {out_.builder.add(op, inputs, attrs, where), nullptr, result, all_weak && op.dtypes != DTypeRule::attribute};
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
    if (is_floating(dtype)) attrs.value = floating;
    else attrs.integer = number.kind == DTypeClass::floating ? static_cast<std::int64_t>(number.number) : number.integer;
    return out_.builder.add(op_info<ops::Full>, {}, attrs, where);
  }

  Capture& out_;
  const CaptureOptions& options_;
  std::unordered_map<const TensorImpl*, Value> values_;
  std::unordered_map<const Record*, Value> records_;
  std::vector<TensorImpl*> order_;
};

}  // namespace expr_detail

SINTER_DECL Capture capture(std::span<const Ref<TensorImpl>> outputs, std::span<const Ref<TensorImpl>> known, const CaptureOptions& options) {
  Capture out;
  expr_detail::Capturer capturer(out, options);
  for (const auto& value : known) capturer.add_known(value);
  if (options.last_effect) static_cast<void>(capturer.value_of(options.last_effect));
  for (const auto& value : outputs) {
    out.outputs.push_back(capturer.value_of(value));
    out.ends.push_back(static_cast<std::int32_t>(out.builder.graph().nodes().size()));
  }
  if (options.lists_walked) capturer.list_walked();
  if (options.finds_kept || options.along_tape) capturer.find_kept(outputs);
  return out;
}

SINTER_DECL std::vector<Ref<TensorImpl>> replay(const Graph& graph, std::span<const Ref<TensorImpl>> inputs) {
  std::vector<std::vector<Ref<TensorImpl>>> values(graph.nodes().size());   // by node and result
  auto value_of = [&](Value v) -> const Ref<TensorImpl>& { return values[static_cast<std::size_t>(v.node)][static_cast<std::size_t>(v.result)]; };
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
    const Node& node = graph.nodes()[i];
    if (node.op == &op_info<ops::Input>) {
      values[i].push_back(inputs[static_cast<std::size_t>(node.attrs.integer)]);
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
    else if (node.types.size() > 1) values[i] = record_results(*node.op, leaves, node.attrs, node.where);
    else values[i].push_back(record_op(*node.op, leaves, node.attrs, node.where));
  }
  std::vector<Ref<TensorImpl>> outputs;
  for (Value output : graph.outputs()) outputs.push_back(value_of(output));
  return outputs;
}

SINTER_NAMESPACE_END
