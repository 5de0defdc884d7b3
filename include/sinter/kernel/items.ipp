// From nodes to items: which form a node has, which values must be copied, which scalars are recomputed.
#pragma once

#include <sinter/kernel/items.hpp>

#include <sinter/base/index.hpp>
#include <sinter/kernel/item_views.ipp>
#include <sinter/ops/custom_derivative.hpp>

#include <algorithm>
#include <utility>

SINTER_NAMESPACE_BEGIN

namespace kernel_detail {
struct FormRow {
  std::string_view name;
  Form form;
};
/// Views and structured ops: what the kernel layer knows by its own rules.
inline constexpr FormRow form_rows[] = {
    {"input", Form::input},     {"constant", Form::constant},  {"full", Form::full},
    {"iota", Form::iota},       {"empty", Form::empty},        {"reshape", Form::reshape},
    {"permute", Form::permute}, {"expand", Form::expand},      {"slice", Form::slice},
    {"windows", Form::windows}, {"take", Form::take},          {"random_bits", Form::random},
    {"matmul", Form::contract}, {"update_slice", Form::place}, {"scatter_add", Form::scatter_add},
};

inline Form form_of(const Node& node) {
  if (node.op->run_on_host != nullptr) return Form::host;
  if (node.op->kind == OpKind::elementwise) return Form::map;
  if (node.op->kind == OpKind::reduction) return Form::reduce;
  for (const FormRow& row : form_rows)
    if (row.name == node.op->name) return row.form;
  throw InternalError("kernels: no rule for the op '" + std::string(node.op->name) +
                          (node.op->kind == OpKind::composite ? "'; it must be decomposed before" : "'"),
                      node.where);
}

inline std::vector<bool> live_nodes(const Graph& graph) {
  std::vector<bool> live(graph.nodes().size());
  for (Value v : graph.outputs()) live[as_index(v.node)] = true;
  for (std::size_t i = graph.nodes().size(); i-- > 0;)
    if ((live[i] = live[i] || graph.nodes()[i].op->kind == OpKind::effect))
      for (Value v : graph.nodes()[i].inputs) live[as_index(v.node)] = true;
  return live;
}
}  // namespace kernel_detail

SINTER_DECL ItemGraph::ItemGraph(const Graph& graph, const ItemOptions& options) : graph_(&graph), options_(options) {
  build(options);
}

SINTER_DECL void ItemGraph::build(const ItemOptions& options) {
  const std::vector<bool> live = kernel_detail::live_nodes(*graph_);
  std::vector<std::int32_t> uses(graph_->nodes().size());
  for (std::size_t i = 0; i < uses.size(); ++i)
    if (live[i])
      for (Value v : graph_->nodes()[i].inputs) ++uses[as_index(v.node)];
  for (Value v : graph_->outputs()) ++uses[as_index(v.node)];
  item_of_node_.assign(uses.size(), -1);
  items_.reserve(uses.size() + 8);
  for (std::size_t i = 0; i < uses.size(); ++i)
    if (live[i]) build_node(static_cast<std::int32_t>(i), options, uses);
  build_outputs(options);
  count_uses();
}

/// The item of a value. Further results of a host item stand right behind it.
SINTER_DECL int ItemGraph::item_of(Value v) const { return item_of_node_[as_index(v.node)] + v.result; }

SINTER_DECL int ItemGraph::add(Item item) {
  items_.push_back(std::move(item));
  copies_.push_back(-1);
  layouts_.emplace_back();
  layout_state_.push_back(0);
  return size() - 1;
}

SINTER_DECL int ItemGraph::add_copy(int of) {
  Item copy;
  copy.form = Form::copy;
  copy.dtype = (*this)[of].dtype;
  copy.shape = (*this)[of].shape;
  copy.inputs.push_back(of);
  copy.is_in_memory = true;
  return add(std::move(copy));
}

SINTER_DECL int ItemGraph::copy_of(int item) {
  if (copies_[as_index(item)] < 0) {
    const int made = add_copy(item);
    copies_[as_index(item)] = made;
  }
  return copies_[as_index(item)];
}

SINTER_DECL int ItemGraph::clone_view(int view, int input) {
  Item clone = (*this)[view];
  clone.inputs[0] = input;
  return add(std::move(clone));
}

SINTER_DECL bool ItemGraph::can_read(int item) const {
  if (!is_view((*this)[item].form)) return true;
  Space space;
  IndexMap map = fresh_map(space, (*this)[item].shape);
  while (is_view((*this)[item].form)) {
    const Item& base = (*this)[base_of(item)];
    if (!is_generator(base.form) && !base.is_inlined && layout_of(item) != nullptr) return true;
    auto next = input_of_view(space, item, map);
    if (!next) return false;
    map = *next;
    item = (*this)[item].inputs[0];
  }
  return true;
}

/// The same value, such that a kernel over its shape can address it.
SINTER_DECL int ItemGraph::make_readable(int item) {
  if (can_read(item)) return item;
  const int input = make_readable((*this)[item].inputs[0]);
  if (input != (*this)[item].inputs[0]) {
    const int clone = clone_view(item, input);
    if (can_read(clone)) return clone;
  }
  return clone_view(item, copy_of(input));  // a view of a dense value is always readable
}

/// Is the value reached through a reshape that strides do not express? Then reading it splits axes of the reader.
SINTER_DECL bool ItemGraph::is_walked(int item) const {
  if (layout_of(item) != nullptr && !is_generator((*this)[base_of(item)].form)) return false;
  for (; is_view((*this)[item].form); item = (*this)[item].inputs[0])
    if ((*this)[item].form == Form::reshape) return true;
  return false;
}

/// Operands that an item reads together: two that are walked might want an axis split in different ways.
SINTER_DECL void ItemGraph::make_operands_readable(Item& item) {
  int walked = -1;
  for (std::int32_t& input : item.inputs) {
    input = make_readable(input);
    if (!is_walked(input) || input == walked) continue;
    if (walked < 0) walked = input;
    else input = copy_of(input);
  }
}

/// What a barrier (or a view of one) is of. Whoever reads memory would need a copy of it otherwise; steps run in the
/// order of the graph where nothing else says when.
SINTER_DECL int ItemGraph::before_barrier(int item) {
  const Item& it = (*this)[item];
  if (it.form == Form::map && node(item)->op == &op_info<ops::Barrier>) return before_barrier(it.inputs[0]);
  if (!is_view(it.form)) return item;
  const int from = it.inputs[0], input = before_barrier(from);
  return input == from ? item : clone_view(item, input);
}

/// The same value, in memory and addressed by strides.
SINTER_DECL int ItemGraph::make_memory(int item) {
  item = make_readable(before_barrier(item));
  const int base = base_of(item);
  if (is_generator((*this)[base].form) || (*this)[base].is_inlined || layout_of(item) == nullptr) {
    if ((*this)[item].form != Form::expand) return copy_of(item);
    return clone_view(item, make_memory((*this)[item].inputs[0]));  // what is stretched is stored once
  }
  (*this)[base].is_in_memory = true;
  return item;
}

/// The same value, such that a product can read it from memory; the kernel of the product might compute it instead.
SINTER_DECL int ItemGraph::make_factor(int item) {
  const int read = make_readable(before_barrier(item)), base = base_of(read);
  const bool may_be_computed =
      options_.prologues && (*this)[base].form == Form::map && !(*this)[base].is_inlined && layout_of(read) != nullptr;
  return may_be_computed ? read : make_memory(item);
}

/// The same value, in memory and row-major without gaps.
SINTER_DECL int ItemGraph::make_dense(int item) {
  item = make_memory(item);
  const Layout& layout = *layout_of(item);
  // What is computed is stored row-major; so are inputs unless something else was said.
  const auto has_strides = [&](const Node& input) {
    const auto position = as_index(input.attrs.integer);
    return position < options_.input_strides.size() && !options_.input_strides[position].empty();
  };
  const bool is_plain =
      is_computed((*this)[item].form) || ((*this)[item].form == Form::input && !has_strides(*node(item)));
  if (layout.owner == item && is_plain) return item;
  const auto dense = dense_dim_strides((*this)[item].shape);
  for (std::size_t i = 0; i < layout.strides.size(); ++i)
    if (!identical(layout.strides[i], dense[i]) && !is_number((*this)[item].shape[static_cast<int>(i)], 1))
      return copy_of(item);
  return item;
}

/// A scalar made of a few operations on inputs costs less than the kernel that would make it.
SINTER_DECL bool ItemGraph::may_inline_scalar(const Item& item) const {
  if (item.form != Form::map || !is_number(item.shape.numel(), 1)) return false;
  int operations = 1;
  SmallVector<std::int32_t, 16> pending(item.inputs.begin(), item.inputs.end());
  while (!pending.empty()) {
    const int at = pending.back();
    pending.pop_back();
    const Item& operand = (*this)[base_of(at)];
    if (is_computed(operand.form) && !operand.is_inlined) return false;
    if (is_computed(operand.form) && ++operations > 8) return false;
    if (operand.form == Form::map)
      for (std::int32_t input : operand.inputs) pending.push_back(input);
  }
  return true;
}

SINTER_DECL void ItemGraph::build_node(std::int32_t id, const ItemOptions& options,
                                       std::span<const std::int32_t> uses) {
  const Node& node = graph_->node(id);
  Item item;
  item.form = kernel_detail::form_of(node);
  if (item.form == Form::place) return build_place(id, uses);
  if (item.form == Form::host) return build_host(id);
  item.node = id;
  item.dtype = node.types[0].dtype;
  item.shape = node.types[0].shape;
  for (Value v : node.inputs) item.inputs.push_back(item_of(v));
  switch (item.form) {
    case Form::map:
    case Form::reduce:
    case Form::random: make_operands_readable(item); break;
    case Form::take:
      item.inputs[0] = make_memory(item.inputs[0]);
      item.inputs[1] = make_readable(item.inputs[1]);
      break;
    case Form::contract:
      for (std::int32_t& input : item.inputs) input = make_factor(input);
      break;
    case Form::scatter_add:
      for (std::int32_t& input : item.inputs) input = make_memory(input);
      break;
    default: break;
  }
  if (options.fuse) item.is_inlined = may_inline_scalar(item);
  if (item.form == Form::scatter_add || item.form == Form::input || item.form == Form::constant)
    item.is_in_memory = true;
  item_of_node_[as_index(id)] = add(std::move(item));
}

SINTER_DECL void ItemGraph::build_host(std::int32_t id) {
  const Node& node = graph_->node(id);
  Item item;
  item.form = Form::host;
  item.node = id;
  item.is_in_memory = true;
  for (Value v : node.inputs) item.inputs.push_back(make_dense(item_of(v)));
  for (std::size_t r = 0; r < node.types.size(); ++r) {
    item.result = static_cast<std::int32_t>(r);
    item.dtype = node.types[r].dtype;
    item.shape = node.types[r].shape;
    const int made = add(item);
    if (r > 0) continue;
    item_of_node_[as_index(id)] = made;
    item.form = Form::host_result;
    item.inputs.clear();
    item.inputs.push_back(made);
  }
}

SINTER_DECL void ItemGraph::build_place(std::int32_t id, std::span<const std::int32_t> uses) {
  const Node& node = graph_->node(id);
  Item item;
  item.form = Form::place;
  item.node = id;
  item.dtype = node.types[0].dtype;
  item.shape = node.types[0].shape;
  item.is_in_memory = true;
  const int base = item_of(node.inputs[0]);
  const Form form = (*this)[base].form;
  if (form == Form::empty) {
    item.base = -1;
  } else if (is_computed(form) && !(*this)[base].is_inlined && uses[as_index(node.inputs[0].node)] == 1) {
    item.base = base;  // nobody else will see the old contents
    (*this)[base].is_in_memory = true;
  } else {
    item.base = add_copy(make_readable(base));
  }
  item.inputs.push_back(make_readable(item_of(node.inputs[1])));
  item_of_node_[as_index(id)] = add(std::move(item));
}

SINTER_DECL void ItemGraph::build_outputs(const ItemOptions& options) {
  std::span<const Value> values = graph_->outputs();
  std::vector<std::int32_t> last(graph_->nodes().size(), -1), previous(values.size());  // outputs of one node, chained
  for (std::size_t j = 0; j < values.size(); ++j) {
    OutputSource source;
    std::int32_t& of_node = last[as_index(values[j].node)];
    for (std::int32_t i = of_node; i >= 0; i = previous[as_index(i)])
      if (values[as_index(i)] == values[j]) source.same_as = i;
    previous[j] = std::exchange(of_node, static_cast<std::int32_t>(j));
    int item = item_of(values[j]);
    const Form base = (*this)[base_of(item)].form;
    const bool is_outside = base == Form::input || base == Form::constant;
    if (options.own_outputs) {
      if (is_outside || source.same_as >= 0 || is_view((*this)[item].form) || is_generator(base))
        item = add_copy(make_readable(item));
      source.same_as = -1;
    } else if (source.same_as >= 0) {
      item = outputs_[as_index(source.same_as)].item;
    } else if (is_outside && layout_of(item) != nullptr) {
      source.is_alias = true;
    } else if (is_outside || is_view((*this)[item].form) || is_generator(base)) {
      item = copy_of(make_readable(item));
    }
    (*this)[item].is_in_memory = true;
    // What is stored for the caller is also read from there; a scalar keeps being recomputed.
    source.item = item;
    outputs_.push_back(source);
  }
}

SINTER_DECL void ItemGraph::count_uses() {
  for (Item& item : items_) {
    for (std::int32_t input : item.inputs) ++(*this)[input].uses;
    if (item.base >= 0) ++(*this)[item.base].uses;
  }
  for (const OutputSource& output : outputs_) ++(*this)[output.item].uses;
}

SINTER_DECL std::string_view ItemGraph::name(int item) const {
  if (const Node* from = node(item)) return from->op->name;
  const int base = base_of((*this)[item].inputs[0]);
  return is_generator((*this)[base].form) ? node(base)->op->name : std::string_view("copy");
}

SINTER_DECL std::int64_t ItemGraph::estimate(Dim dim) const { return graph_->estimate(dim); }

SINTER_DECL std::int64_t ItemGraph::estimate_elements(int item) const {
  std::int64_t count = 1;
  for (Dim extent : (*this)[item].shape) count *= estimate(extent);
  return count;
}

SINTER_DECL std::int64_t ItemGraph::estimate_bytes(int item) const {
  return estimate_elements(item) * std::max<std::int64_t>(size_of((*this)[item].dtype), 4);
}

SINTER_NAMESPACE_END
