// The bodies that a trace has of its regions, and how a call of one is recorded.
#pragma once

#include <sinter/jit/trace/region.hpp>

#include <sinter/autodiff/transform_trace.hpp>
#include <sinter/base/index.hpp>
#include <sinter/graph/hash.hpp>
#include <sinter/graph/pending_node.hpp>
#include <sinter/ops/registry.hpp>
#include <sinter/passes/dce.hpp>

#include <algorithm>
#include <bit>

SINTER_NAMESPACE_BEGIN
namespace jit::jit_detail {

/// A Variable that a body reads without being given it, and its value then.
struct CapturedVariable {
  std::shared_ptr<VariableSlot> slot;
  Ref<TensorImpl> value;
};

/// A trace of a region's body: every argument is a placeholder; Variables that the body captures become operands.
class RegionTrace : public autodiff_detail::TransformTrace {
 public:
  explicit RegionTrace(std::string_view name) : TransformTrace(name) {}
  Ref<TensorImpl> read_variable(const std::shared_ptr<VariableSlot>& slot) override;
  std::uint64_t read_value(const Ref<TensorImpl>& value, std::string_view op, Location where) override;
  EagerResults call_eagerly(const std::shared_ptr<const EagerCall>& call,
                            std::span<const Ref<TensorImpl>> operands) override;
  void note_outer_read() override { has_cut = true; }
  std::vector<CapturedVariable> captured;
  bool has_cut = false;  // what the body is may follow from this call's values: other calls cannot share it
};
/// One call of a region, traced.
struct TracedRegion {
  autodiff_detail::TracedCall call;
  std::vector<CapturedVariable> captured;
  std::vector<std::uint8_t> is_weak_result;
  std::shared_ptr<const void> result;  // the typed result, for its static parts
  bool has_cut = false;
};

/// One body of a region, and the call that it was made for.
struct RegionBody {
  Graph traced;             // calls whose trace gives an equal graph share the body
  SharedAttrs attrs;        // of every call
  std::vector<Type> types;  // of the arguments
  std::vector<std::uint8_t> is_weak;
  std::vector<std::int64_t> fixed;
  std::vector<std::shared_ptr<VariableSlot>> slots;        // of the arguments; null where they are no Variables
  std::vector<std::uint8_t> takes_any_slot;                // per argument: another Variable there gave the same body
  std::vector<Ref<TensorImpl>> extra;                      // operands after the arguments
  std::vector<std::shared_ptr<VariableSlot>> extra_slots;  // read again at each call where not null
  std::vector<std::shared_ptr<VariableSlot>> assigned;
  std::vector<std::uint8_t> is_weak_result;
  std::shared_ptr<const void> result;
  std::size_t results = 0;
  std::uint64_t calls = 1;
  bool was_trusted = false;  // some call did not run the function
};

SINTER_DECL const void* result_of(const RegionBody& body) { return body.result.get(); }

SINTER_DECL RegionArguments take_apart(tree::View arguments) {
  struct Collect final : tree::Reader {
    RegionArguments out;
    void tensor(const Tensor& x) override { add(x.impl(), nullptr); }
    void scalar(const Scalar& x) override { add(autodiff_detail::as_value(x.leaf()), nullptr); }
    void variable(const Variable& x) override { add(x.value().impl(), x.slot()); }
    void fixed(std::int64_t value) override { out.fixed.push_back(value); }
    void add(Ref<TensorImpl> value, std::shared_ptr<VariableSlot> slot) {
      out.values.push_back(std::move(value));
      out.slots.push_back(std::move(slot));
    }
  } collect;
  arguments.read(collect);
  return std::move(collect.out);
}

SINTER_DECL autodiff_detail::OpenTrace open_region() { return autodiff_detail::OpenTrace(new RegionTrace("region")); }

SINTER_DECL void insert_region_placeholders(autodiff_detail::TransformTrace& trace, tree::Part arguments) {
  struct PlaceholderInserter final : tree::Editor {
    explicit PlaceholderInserter(autodiff_detail::TransformTrace& open) : trace(open) {}
    autodiff_detail::TransformTrace& trace;
    using Editor::scalar, Editor::tensor;
    void tensor(Tensor& x) override { x = Tensor(trace.parameter(x.impl())); }
    void scalar(Scalar& x) override { x = Scalar(trace.parameter(autodiff_detail::as_value(x.leaf()))); }
    void variable(const Variable& x) override {
      const Ref<TensorImpl> value = trace.read_outside(x.slot());
      trace.variable_parameter(x.slot(), value, value->type);
    }
  } replace(trace);
  arguments.edit(replace);
}

SINTER_DECL Ref<TensorImpl> RegionTrace::read_variable(const std::shared_ptr<VariableSlot>& slot) {
  const Ref<TensorImpl> value = TransformTrace::read_variable(slot);
  const auto is_known = [&](const CapturedVariable& c) { return c.slot == slot; };
  const bool is_from_outside = value->is_ready() || value->trace != id();
  if (is_from_outside && std::none_of(captured.begin(), captured.end(), is_known)) captured.push_back({slot, value});
  return value;
}

SINTER_DECL std::uint64_t RegionTrace::read_value(const Ref<TensorImpl>& value, std::string_view op, Location where) {
  has_cut = true;
  return TransformTrace::read_value(value, op, where);
}

SINTER_DECL EagerResults RegionTrace::call_eagerly(const std::shared_ptr<const EagerCall>& call,
                                                   std::span<const Ref<TensorImpl>> operands) {
  has_cut = true;
  return TransformTrace::call_eagerly(call, operands);
}

namespace region_detail {
using Slots = std::vector<std::shared_ptr<VariableSlot>>;

struct Bodies {
  std::shared_ptr<const void> region;  // kept alive: its address is the key
  std::vector<std::unique_ptr<RegionBody>> bodies;
  bool varies = false;  // equal calls gave different bodies: what the function reads changes
};
inline Bodies& bodies_of(const RegionKey& key) {
  std::shared_ptr<void>& place = Trace::current()->attachment({key.region.get(), key.types});
  if (!place) place = std::make_shared<Bodies>(Bodies{key.region, {}});
  return *static_cast<Bodies*>(place.get());
}
inline bool holds(const Slots& slots, const std::shared_ptr<VariableSlot>& slot) {
  return std::find(slots.begin(), slots.end(), slot) != slots.end();
}

/// Arguments that are one Variable are so in both calls, and none is a Variable that the body captures.
inline bool aliases_alike(const RegionBody& body, const Slots& slots) {
  for (std::size_t i = 0; i < slots.size(); ++i) {
    if (!slots[i] != !body.slots[i]) return false;
    if (!slots[i]) continue;
    for (std::size_t j = 0; j < i; ++j)
      if ((slots[j] == slots[i]) != (body.slots[j] == body.slots[i])) return false;
    const bool was_assigned = holds(body.assigned, slots[i]) && !holds(body.slots, slots[i]);
    if (holds(body.extra_slots, slots[i]) || was_assigned) return false;
  }
  return true;
}
inline bool fits(const RegionBody& body, const RegionArguments& arguments) {
  if (body.fixed != arguments.fixed || body.types.size() != arguments.values.size()) return false;
  for (std::size_t i = 0; i < body.types.size(); ++i)
    if (!identical(body.types[i], arguments.values[i]->type) || body.is_weak[i] != arguments.values[i]->is_weak)
      return false;
  return aliases_alike(body, arguments.slots);
}
/// No argument is a Variable that the function was not seen with: it may hold one of those it was seen with.
inline bool knows_slots(const RegionBody& body, const RegionArguments& arguments) {
  for (std::size_t i = 0; i < arguments.slots.size(); ++i)
    if (arguments.slots[i] != body.slots[i] && !body.takes_any_slot[i]) return false;
  return true;
}
/// Calls 2, 16, 128, ... run the function, and are compared.
inline bool is_due(std::uint64_t call) { return std::has_single_bit(call) && std::countr_zero(call) % 3 == 1; }
inline std::shared_ptr<VariableSlot> captured_slot(const TracedRegion& traced, const Ref<TensorImpl>& operand) {
  for (const CapturedVariable& captured : traced.captured)
    if (captured.value == operand) return captured.slot;
  return nullptr;
}
/// The Variable of this call that stands where `slot` stood in the body's.
inline const std::shared_ptr<VariableSlot>& slot_now(const RegionBody& body, const RegionArguments& arguments,
                                                     const std::shared_ptr<VariableSlot>& slot) {
  const auto at = std::find(body.slots.begin(), body.slots.end(), slot);
  return at == body.slots.end() ? slot : arguments.slots[as_index(at - body.slots.begin())];
}
/// Besides an equal graph: the same tensors and Variables from elsewhere.
inline bool reaches_the_same(const RegionBody& body, const RegionArguments& arguments, const TracedRegion& traced) {
  const std::size_t first = traced.call.parameters;
  for (std::size_t i = 0; i < body.extra.size(); ++i) {
    const Ref<TensorImpl>& operand = traced.call.operands[first + i];
    if (captured_slot(traced, operand) != body.extra_slots[i] || (!body.extra_slots[i] && operand != body.extra[i]))
      return false;
  }
  for (std::size_t i = 0; i < body.assigned.size(); ++i)
    if (slot_now(body, arguments, body.assigned[i]) != traced.call.assigned[i]) return false;
  return true;
}

inline RegionBody* body_with(const Bodies& bodies, const Graph& graph) {
  for (const auto& body : bodies.bodies)
    if (structurally_equal(body->traced, graph)) return body.get();
  return nullptr;
}
inline RegionBody* add_body(Bodies& bodies, const std::string& name, const RegionArguments& arguments,
                            const TracedRegion& traced) {
  auto body = std::make_unique<RegionBody>();
  for (const auto& value : arguments.values) {
    body->types.push_back(value->type);
    body->is_weak.push_back(value->is_weak);
  }
  body->fixed = arguments.fixed;
  body->slots = arguments.slots;
  body->takes_any_slot.assign(arguments.slots.size(), 0);
  body->traced = traced.call.graph;
  Attrs attrs;
  attrs.set(ops::Region::name, name);
  attrs.bodies.push_back(std::make_shared<const Graph>(Dce{}(traced.call.graph)));
  body->attrs = std::move(attrs);
  body->results = traced.call.results;
  body->is_weak_result = traced.is_weak_result;
  body->result = traced.result;
  body->assigned = traced.call.assigned;
  for (std::size_t i = traced.call.parameters; i < traced.call.operands.size(); ++i) {
    body->extra.push_back(traced.call.operands[i]);
    body->extra_slots.push_back(captured_slot(traced, traced.call.operands[i]));
  }
  return bodies.bodies.emplace_back(std::move(body)).get();
}

/// Compares a call that ran with the one that would have been trusted for it.
inline void compare_with_trusted(Bodies& bodies, const RegionArguments& arguments, const TracedRegion& traced,
                                 const RegionBody* found, Location where) {
  for (const auto& body : bodies.bodies) {
    if (!fits(*body, arguments)) continue;
    const bool is_known = knows_slots(*body, arguments);
    if (body.get() == found && reaches_the_same(*body, arguments, traced)) {
      for (std::size_t i = 0; i < arguments.slots.size(); ++i)
        body->takes_any_slot[i] |= arguments.slots[i] != body->slots[i];
      return;
    }
    if (!is_known) continue;
    if (body->was_trusted)
      throw TraceError(
          "region",
          "what the function reads from elsewhere (a global, a static) changed between two calls in one trace", where,
          "pass it as an argument, or capture it by reference: a function with captures runs at each call");
    bodies.varies = true;
  }
}

/// Records a call and hands out what Variables were assigned.
inline std::vector<Ref<TensorImpl>> record_call(const RegionBody& body, std::span<Leaf> leaves,
                                                std::span<const std::uint8_t> is_weak, const Slots& assigned,
                                                Location where) {
  std::vector<Ref<TensorImpl>> values = record_shared_results(op_info<ops::Region>, leaves, body.attrs, where);
  for (std::size_t i = 0; i < assigned.size(); ++i)
    autodiff_detail::assign_outside(assigned[i], values[body.results + i]);
  values.resize(body.results);
  for (std::size_t i = 0; i < values.size(); ++i) values[i]->is_weak = is_weak[i] != 0;
  return values;
}

/// Records what the trace recorded, without a region.
inline std::vector<Ref<TensorImpl>> write_out(const autodiff_detail::TracedCall& call) {
  std::vector<Ref<TensorImpl>> values = autodiff_detail::replay_call(call, call.graph);
  values.resize(call.results);
  return values;
}
}  // namespace region_detail

SINTER_DECL const RegionBody* find_region(const RegionKey& key, const RegionArguments& arguments) {
  using namespace region_detail;
  const Bodies& known = bodies_of(key);
  if (known.varies) return nullptr;
  for (const auto& body : known.bodies) {
    if (!fits(*body, arguments) || !knows_slots(*body, arguments)) continue;
    if (is_due(++body->calls)) return nullptr;
    body->was_trusted = true;
    return body.get();
  }
  return nullptr;
}

SINTER_DECL std::vector<Ref<TensorImpl>> call_region(const RegionBody& body, const RegionArguments& arguments,
                                                     Location where) {
  std::vector<Leaf> leaves;
  leaves.reserve(arguments.values.size() + body.extra.size());
  for (const auto& value : arguments.values) leaves.emplace_back(value);
  for (std::size_t i = 0; i < body.extra.size(); ++i) {
    const auto& slot = body.extra_slots[i];
    Ref<TensorImpl> value = slot ? Trace::current()->read_variable(slot) : body.extra[i];
    leaves.emplace_back(slot && slot->gradient() != nullptr ? tape_leaf(value, slot) : value);
  }
  region_detail::Slots assigned;
  for (const auto& slot : body.assigned) assigned.push_back(region_detail::slot_now(body, arguments, slot));
  return region_detail::record_call(body, leaves, body.is_weak_result, assigned, where);
}

SINTER_DECL std::vector<Ref<TensorImpl>> record_region(const RegionKey& key, const std::string& name,
                                                       const RegionArguments& arguments,
                                                       autodiff_detail::OpenTrace trace, tree::View result,
                                                       std::shared_ptr<const void> owner, Location where) {
  using namespace region_detail;
  const std::vector<Ref<TensorImpl>> values = autodiff_detail::values_in(result);
  auto& open = static_cast<RegionTrace&>(*trace);
  TracedRegion traced;
  for (const auto& value : values) traced.is_weak_result.push_back(value->is_weak);
  traced.captured = std::move(open.captured);
  traced.has_cut = open.has_cut;
  traced.result = std::move(owner);
  traced.call = autodiff_detail::TransformTrace::end(std::move(trace), values);
  const auto has_effect = [](const Node& node) { return node.op->kind == OpKind::effect; };
  const auto& nodes = traced.call.graph.nodes();
  if (traced.has_cut || std::any_of(nodes.begin(), nodes.end(), has_effect)) return write_out(traced.call);
  Bodies& bodies = bodies_of(key);
  RegionBody* body = body_with(bodies, traced.call.graph);
  compare_with_trusted(bodies, arguments, traced, body, where);
  if (body == nullptr) body = add_body(bodies, name, arguments, traced);
  std::vector<Leaf> leaves;
  leaves.reserve(traced.call.operands.size());
  for (const auto& operand : traced.call.operands) leaves.emplace_back(operand);
  return record_call(*body, leaves, traced.is_weak_result, traced.call.assigned, where);
}

}  // namespace jit::jit_detail
SINTER_NAMESPACE_END
