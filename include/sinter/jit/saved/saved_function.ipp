// Versions of compiled functions as data.
#pragma once

#include <sinter/jit/saved/saved_function.hpp>

#include <sinter/base/index.hpp>
#include <sinter/graph/builder.hpp>
#include <sinter/graph/hash.hpp>
#include <sinter/jit/call/function.hpp>
#include <sinter/jit/effects/named_functions.hpp>
#include <sinter/jit/saved/replay.hpp>
#include <sinter/jit/trace/trace_path.hpp>
#include <sinter/jit/trace/trace_tree.hpp>
#include <sinter/runtime/tuning_store.hpp>

#include <algorithm>
#include <set>
#include <utility>

SINTER_NAMESPACE_BEGIN
namespace jit::jit_detail {

// ---- structure

inline void add_layout_text(const tree::Layout& layout, std::vector<const tree::Layout*>& above, std::string& to) {
  using tree::Kind;
  for (std::size_t i = 0; i < above.size(); ++i)
    if (above[i] == &layout) {  // a type that contains itself
      to += "^" + std::to_string(above.size() - i);
      return;
    }
  above.push_back(&layout);
  switch (layout.kind) {
    case Kind::tensor: to += "Tensor"; break;
    case Kind::scalar: to += "Scalar"; break;
    case Kind::variable: to += "Variable"; break;
    case Kind::dim: to += "Dim"; break;
    case Kind::number: to += (layout.is_signed ? "i" : "u") + std::to_string(8 * layout.size); break;
    case Kind::text: to += "string"; break;
    case Kind::elements:
      to += "[";
      add_layout_text(*layout.parts[0], above, to);
      to += "]";
      break;
    case Kind::optional:
      add_layout_text(*layout.parts[0], above, to);
      to += "?";
      break;
    case Kind::map:
      to += "{";
      add_layout_text(*layout.parts[0], above, to);
      to += ": ";
      add_layout_text(*layout.parts[1], above, to);
      to += "}";
      break;
    case Kind::fields:
      to += "(";
      for (std::uint32_t i = 0; i < layout.count; ++i) {
        if (i > 0) to += ", ";
        add_layout_text(*layout.parts[i], above, to);
      }
      to += ")";
      break;
    case Kind::none: to += "?"; break;
  }
  above.pop_back();
}

SINTER_DECL std::string signature_text(std::span<const tree::Layout* const> arguments, const tree::Layout& result) {
  std::vector<const tree::Layout*> above;
  std::string text = "(";
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (i > 0) text += ", ";
    add_layout_text(*arguments[i], above, text);
  }
  text += ") -> ";
  add_layout_text(result, above, text);
  return text;
}

SINTER_DECL std::vector<SavedPart> parts_of(tree::View result) {
  struct Collect final : tree::Reader {
    std::vector<SavedPart> parts;
    void tensor(const Tensor&) override { parts.push_back({}); }
    void scalar(const Scalar&) override { parts.push_back({}); }
    void variable(const Variable&) override { parts.push_back({}); }
    void fixed(std::int64_t value) override { parts.push_back({SavedPart::Kind::fixed, value, {}}); }
    void dim(const Dim& extent) override { parts.push_back({SavedPart::Kind::extent, 0, extent}); }
  } collect;
  result.read(collect);
  return std::move(collect.parts);
}

inline bool holds_values_alone(const tree::Layout& layout, std::vector<const tree::Layout*>& above) {
  using tree::Kind;
  switch (layout.kind) {
    case Kind::tensor:
    case Kind::scalar:
    case Kind::variable: return true;
    case Kind::dim:
    case Kind::number:
    case Kind::text:
    case Kind::none: return false;
    case Kind::elements:
    case Kind::optional:
    case Kind::map:
    case Kind::fields: break;
  }
  if (std::ranges::find(above, &layout) != above.end()) return true;  // a type that contains itself
  above.push_back(&layout);
  const std::uint32_t count = layout.kind == Kind::fields ? layout.count : layout.kind == Kind::map ? 2 : 1;
  bool all = true;
  for (std::uint32_t i = layout.kind == Kind::map ? 1 : 0; i < count; ++i)
    all = all && holds_values_alone(*layout.parts[i], above);
  above.pop_back();
  return all;
}
SINTER_DECL bool holds_values_alone(const tree::Layout& layout) {
  std::vector<const tree::Layout*> above;
  return holds_values_alone(layout, above);
}

// ---- what can be saved

SINTER_DECL void check_savable(const Graph& graph, Location where) {
  for (const Node& node : graph.nodes()) {
    for (const auto& body : node.attrs.bodies) check_savable(*body, where);
    if (node.attrs.payload == nullptr || !payload_name(*node.attrs.payload).empty()) continue;
    const std::string what = node.attrs.payload->text();
    throw UserError("save",
                    "the function calls " + what + (node.where.file != nullptr ? " at " + node.where.text() : "") +
                        ", a C++ function without a name that another process could find it by",
                    node.where.file != nullptr ? node.where : where,
                    "register it in the program that saves and in the one that loads: "
                    "jit::register_callback(\"name\", fn), where fn is a function or an object without members");
  }
}

// ---- Variables

SINTER_DECL std::int32_t Snapshot::variable(const std::shared_ptr<VariableSlot>& slot) {
  const auto next = static_cast<std::int32_t>(bundle_.variables.size());
  if (slot->role != VariableSlot::PerThreadRole::none) {
    for (std::size_t i = 0; i < bundle_.variables.size(); ++i)
      if (bundle_.variables[i].role == slot->role) return static_cast<std::int32_t>(i);
  } else if (const auto [at, is_new] = known_.emplace(slot.get(), next); !is_new) {
    return at->second;
  }
  SavedVariable saved;
  saved.name = slot->name;
  saved.role = slot->role;
  saved.requires_grad = slot->gradient() != nullptr;
  saved.slot = slot;
  bundle_.variables.push_back(std::move(saved));
  return next;
}

SINTER_DECL SavedBundle Snapshot::finish() {
  auto& variables = bundle_.variables;
  for (std::size_t i = 0; i < variables.size(); ++i)
    for (std::size_t j = 0; j < variables.size(); ++j)
      if (variables[i].slot->gradient_once_required() == variables[j].slot)
        variables[j].gradient_of = static_cast<std::int32_t>(i);
  std::set<std::string> taken;
  for (std::size_t i = 0; i < variables.size(); ++i) {
    std::string name = variables[i].name.empty() ? "variable." + std::to_string(i) : variables[i].name;
    const std::string stem = name;
    for (int k = 2; !taken.insert(name).second; ++k) name = stem + "." + std::to_string(k);
    variables[i].name = std::move(name);
  }
  return std::move(bundle_);
}

// ---- versions

/// Cuts the graph of a trace tree's paths into steps. A value is known by its node in the path; what later steps take
/// gets a place.
class TreeSaver {
 public:
  TreeSaver(Snapshot& snapshot, const Entry& entry, SavedVersion& version) : snapshot_(snapshot), version_(version) {
    const auto& leaves = entry.guards.leaves;
    for (std::size_t i = 0; i < leaves.size(); ++i)
      if (leaves[i].kind != LeafKind::fixed && leaves[i].same_slot_as < 0)
        arguments_.push_back(static_cast<std::int32_t>(i));
  }

  std::int32_t add(const TreeNode& node) {
    const TracedSegment& traced = *node.traced;
    if (traced.eager_call != nullptr)
      throw UserError(
          "save",
          "the function calls a disabled function at " + traced.eager_call->where.text() + ", which no file can hold",
          traced.eager_call->where, "compile it without jit::disable, or call it outside");
    const auto number = static_cast<std::int32_t>(version_.steps.size());
    version_.steps.emplace_back();
    path_.push_back(&traced);
    SavedStep step = step_of(node);
    for (const TreeNode::Child& child : node.children) step.children.push_back({child.outcome, add(*child.node)});
    path_.pop_back();
    version_.steps[as_index(number)] = std::move(step);
    return number;
  }

 private:
  const Node& node_of(Value v) const {
    for (const TracedSegment* segment : path_)
      if (v.node >= segment->first && as_index(v.node - segment->first) < segment->nodes.size())
        return segment->nodes[as_index(v.node - segment->first)];
    throw InternalError("a value of a path is in none of its segments");
  }
  bool is_token_of(Value v) const {
    const Node& node = node_of(v);
    return node.op->kind == OpKind::effect && as_index(v.result) + 1 == node.types.size();
  }
  /// Values before `end` that a node and those below it use.
  static void find_used(const TreeNode& node, std::int32_t end, std::set<Value>& used) {
    const auto note = [&](Value v) {
      if (v.node < end) used.insert(v);
    };
    for (const Node& inner : node.traced->nodes)
      for (Value v : inner.inputs) note(v);
    for (Value v : node.traced->outputs) note(v);
    for (const TreeNode::Child& child : node.children) find_used(*child.node, end, used);
  }
  /// An argument of a path is an input of every step that uses it.
  SavedStep::Input source_of(Value v) {
    const Node& node = node_of(v);
    if (node.op != &graph_detail::input_op()) return {SavedStep::Input::From::carried, place_of(v)};
    const auto position = as_index(node.attrs[input_position]);
    if (position < arguments_.size()) return {SavedStep::Input::From::leaf, arguments_[position]};
    for (const TracedSegment* segment : path_) {
      std::size_t next = 0;
      for (std::size_t i = 0; i < segment->nodes.size(); ++i) {
        const Node& input = segment->nodes[i];
        if (input.op != &graph_detail::input_op() || as_index(input.attrs[input_position]) < arguments_.size())
          continue;
        if (segment->first + static_cast<std::int32_t>(i) == v.node)
          return {SavedStep::Input::From::variable, snapshot_.variable(segment->variables[next].slot)};
        ++next;
      }
    }
    throw InternalError("an input of a path is neither an argument nor a Variable");
  }
  std::int32_t place_of(Value v) { return places_.emplace(v, static_cast<std::int32_t>(places_.size())).first->second; }

  SavedStep step_of(const TreeNode& node) {
    const TracedSegment& traced = *node.traced;
    SavedStep step;
    GraphBuilder builder;
    std::map<Value, Value> made;
    const auto now = [&](Value v) {
      if (const auto known = made.find(v); known != made.end()) return known->second;
      const Node& from = node_of(v);
      if (is_token_of(v)) return made[v] = builder.constant(token());
      step.inputs.push_back(source_of(v));
      return made[v] = builder.input(from.types[as_index(v.result)], {}, from.where);
    };
    for (std::size_t i = 0; i < traced.nodes.size(); ++i) {
      const Node& from = traced.nodes[i];
      if (from.op == &graph_detail::input_op()) continue;
      std::vector<Value> operands;
      for (Value v : from.inputs) operands.push_back(now(v));
      const Value copy = builder.copy(from, operands);
      for (std::size_t r = 0; r < from.types.size(); ++r)
        made[{traced.first + static_cast<std::int32_t>(i), static_cast<std::int32_t>(r)}] = {
            copy.node, static_cast<std::int32_t>(r)};
    }
    std::vector<Value> outputs;
    for (Value v : traced.outputs) outputs.push_back(now(v));
    step.dims = traced.dims;
    step.is_end = node.leaf != nullptr;
    if (step.is_end) {
      step.results = node.leaf->results;
      step.shape = parts_of({node.leaf->result_shape.get(), snapshot_layout});
      for (const Assignment& a : node.leaf->assignments)
        step.assignments.push_back({a.leaf, a.leaf < 0 ? snapshot_.variable(a.slot) : -1});
    } else {
      step.op = traced.op;
      step.where = traced.where;
      std::set<Value> used;
      const auto end = traced.first + static_cast<std::int32_t>(traced.nodes.size());
      for (const TreeNode::Child& child : node.children) find_used(*child.node, end, used);
      for (Value v : used) {
        if (v.node < traced.first || is_token_of(v) || node_of(v).op == &graph_detail::input_op()) continue;
        outputs.push_back(now(v));
        step.places.push_back(place_of(v));
      }
    }
    step.graph = builder.finish(outputs);
    return step;
  }

  static Ref<TensorImpl> token() {
    Ref<Storage> storage = Storage::allocate(1);
    *static_cast<bool*>(storage->data()) = true;
    return TensorImpl::make_ready(token_type(), std::move(storage));
  }

  Snapshot& snapshot_;
  SavedVersion& version_;
  std::vector<std::int32_t> arguments_;
  std::vector<const TracedSegment*> path_;
  std::map<Value, std::int32_t> places_;

 public:
  const tree::Layout* snapshot_layout = nullptr;  // of the result
};

/// The graph stands for any Variables as arguments only where the function was seen to do the same with others: it may
/// have captured the one that it got.
SINTER_DECL void Snapshot::check_slots(const Entry& entry) const {
  bool takes_all = entry.serves.load(std::memory_order_acquire) == Entry::Serves::all_variables;
  if (!takes_all)
    takes_all = std::all_of(entry.takes_any_slot.begin(), entry.takes_any_slot.end(),
                            [](const std::atomic<bool>& takes) { return takes.load(std::memory_order_acquire); });
  if (takes_all) return;
  if (entry.tree != nullptr)
    throw UserError("save",
                    "the function reads values and takes a Variable as an argument, so that nobody knows whether it "
                    "captured that Variable, too",
                    where_, "pass its value as a Tensor, or capture the Variable");
  throw UserError("save",
                  "the function takes a Variable as an argument and was called with one alone, so that nobody knows "
                  "whether it captured that one, too",
                  where_, "call it once more with another Variable there, before jit::save");
}

SINTER_DECL void Snapshot::add_tree(const Entry& entry, SavedVersion& version) {
  TreeSaver saver(*this, entry, version);
  saver.snapshot_layout = entry.call_types->result;
  saver.add(*entry.tree->current()->root);
  for (const SavedStep& step : version.steps) check_savable(step.graph, where_);
}

SINTER_DECL void Snapshot::add_end(const Entry& entry, SavedVersion& version) {
  check_savable(entry.traced, where_);
  SavedStep step;
  step.graph = entry.traced;
  for (const PlanInput& input : entry.end.inputs) {
    const bool is_leaf = input.source == PlanInput::Source::leaf;
    step.inputs.push_back({is_leaf ? SavedStep::Input::From::leaf : SavedStep::Input::From::variable,
                           is_leaf ? input.index : variable(input.slot)});
  }
  step.results = entry.end.results - entry.end.saved;
  for (const Assignment& a : entry.end.assignments)
    step.assignments.push_back({a.leaf, a.leaf < 0 ? variable(a.slot) : -1});
  step.shape = parts_of({entry.result_shape.get(), entry.call_types->result});
  version.steps.push_back(std::move(step));
}

SINTER_DECL SavedVersion Snapshot::version_of(const Entry& entry) {
  SavedVersion version;
  std::vector<const tree::Layout*> arguments;
  for (std::uint32_t i = 0; i < entry.call_types->count; ++i)
    arguments.push_back(entry.call_types->arguments[i].traced);
  version.signature = signature_text(arguments, *entry.call_types->result);
  version.guards = entry.guards;
  check_slots(entry);
  if (entry.tree != nullptr) add_tree(entry, version);
  else add_end(entry, version);
  return version;
}

/// Entries with and without gradients have one graph before their derivatives are taken.
inline bool is_same_version(const SavedVersion& a, const SavedVersion& b) {
  return a.steps.size() == 1 && b.steps.size() == 1 && a.signature == b.signature &&
         a.guards.text() == b.guards.text() && structurally_equal(a.steps[0].graph, b.steps[0].graph);
}

/// What came from a file goes into the next one as it is; versions that were compiled since follow from it.
SINTER_DECL void Snapshot::add_loaded(const SavedProgram& program, SavedFunction saved) {
  saved.versions = program.function.versions;
  const auto renumber = [&](std::int32_t& index) {
    if (index >= 0) index = variable(slot_now((*program.variables)[as_index(index)]));
  };
  for (SavedVersion& version : saved.versions)
    for (SavedStep& step : version.steps) {
      for (SavedStep::Input& input : step.inputs)
        if (input.from == SavedStep::Input::From::variable) renumber(input.index);
      for (SavedStep::Assignment& assignment : step.assignments) renumber(assignment.variable);
    }
  bundle_.functions.push_back(std::move(saved));
}

SINTER_DECL void Snapshot::add(std::string name, const FunctionState& function) {
  SavedFunction saved;
  saved.name = std::move(name);
  saved.options = function.options_;
  saved.where = function.where_;
  const bool has_tuning = std::any_of(bundle_.functions.begin(), bundle_.functions.end(),
                                      [](const SavedFunction& other) { return !other.tuning.empty(); });
  if (is_tuned(saved.options.mode) && !has_tuning) saved.tuning = runtime_detail::tuning_text();  // once in a file
  if (function.given_.forward || function.given_.backward)
    throw UserError("save", "'" + saved.name + "' is compiled by functions of aot_function(), which no file can hold",
                    where_, "compile it with jit::compile");
  if (saved.options.backend.function() != nullptr)
    throw UserError("save",
                    "'" + saved.name + "' is compiled by a function that Options::backend holds, which no file can",
                    where_, "give it a name with jit::register_backend, and that name as the back end");
  if (function.saved_ != nullptr) return add_loaded(*function.saved_, std::move(saved));
  std::scoped_lock lock(function.mutex_);
  for (const Entry* entry = function.newest(); entry != nullptr; entry = entry->next) {
    if (entry->call_types == nullptr) continue;
    if (entry->is_plain.load() && entry->end.results == 0 && entry->tree == nullptr)
      throw UserError("save",
                      "a gradient is wanted of '" + saved.name +
                          "' and flows through a disabled function: it runs uncompiled, and no graph of it is there",
                      where_, "call it where no gradient is wanted (jit::NoGradGuard), or without jit::disable");
    SavedVersion version = version_of(*entry);
    if (std::none_of(saved.versions.begin(), saved.versions.end(),
                     [&](const SavedVersion& other) { return is_same_version(version, other); }))
      saved.versions.push_back(std::move(version));
  }
  if (saved.versions.empty())
    throw UserError("save", "nothing is compiled of '" + saved.name + "' yet", where_,
                    "call it, or call warm_up(args...), for each kind of arguments first");
  bundle_.functions.push_back(std::move(saved));
}

}  // namespace jit::jit_detail
SINTER_NAMESPACE_END
