// The bodies that a trace has of its regions, and how a call of one is recorded.
#pragma once

#include <sinter/jit/region.hpp>

#include <sinter/ops/registry.hpp>
#include <sinter/passes/dce.hpp>

#include <algorithm>

SINTER_NAMESPACE_BEGIN
namespace jit::jit_detail {

SINTER_DECL Ref<TensorImpl> RegionTrace::read_variable(const std::shared_ptr<VariableSlot>& slot) {
  const Ref<TensorImpl> value = TransformTrace::read_variable(slot);
  const auto is_known = [&](const CapturedVariable& c) { return c.slot == slot; };
  const bool is_from_outside = value->is_ready() || value->trace != id();
  if (is_from_outside && std::none_of(captured.begin(), captured.end(), is_known)) captured.push_back({slot, value});
  return value;
}

namespace region_detail {
struct Bodies {
  std::shared_ptr<const void> region;                  // kept alive: its address is the key
  std::vector<std::unique_ptr<RegionBody>> bodies;
};
inline Bodies& bodies_of(const RegionKey& key) {
  std::shared_ptr<void>& place = Trace::current()->attachment({key.region.get(), key.types});
  if (!place) place = std::make_shared<Bodies>(Bodies{key.region, {}});
  return *static_cast<Bodies*>(place.get());
}
inline std::vector<std::int32_t> equal_slots(const RegionArguments& arguments) {
  std::vector<std::int32_t> first(arguments.slots.size());
  for (std::size_t i = 0; i < first.size(); ++i) {
    first[i] = static_cast<std::int32_t>(i);
    for (std::size_t j = 0; j < i && arguments.slots[i]; ++j)
      if (arguments.slots[j] == arguments.slots[i]) {
        first[i] = static_cast<std::int32_t>(j);
        break;
      }
  }
  return first;
}
inline bool fits(const RegionBody& body, const RegionArguments& arguments) {
  if (body.fixed != arguments.fixed || body.types.size() != arguments.values.size()) return false;
  for (std::size_t i = 0; i < body.types.size(); ++i)
    if (!identical(body.types[i], arguments.values[i]->type) || body.is_weak[i] != arguments.values[i]->is_weak) return false;
  return body.same_slot == equal_slots(arguments);
}
}  // namespace region_detail

SINTER_DECL const RegionBody* find_region(const RegionKey& key, const RegionArguments& arguments) {
  for (const auto& body : region_detail::bodies_of(key).bodies)
    if (region_detail::fits(*body, arguments)) return body.get();
  return nullptr;
}

SINTER_DECL const RegionBody* add_region(const RegionKey& key, const std::string& name, const RegionArguments& arguments, const autodiff_detail::TracedCall& call,
                                         std::span<const CapturedVariable> captured, std::span<const std::uint8_t> is_weak_result, std::shared_ptr<const void> result) {
  const auto has_effect = [](const Node& node) { return node.op->kind == OpKind::effect; };
  if (std::any_of(call.graph.nodes().begin(), call.graph.nodes().end(), has_effect)) return nullptr;
  auto body = std::make_unique<RegionBody>();
  for (const auto& value : arguments.values) {
    body->types.push_back(value->type);
    body->is_weak.push_back(value->is_weak);
  }
  body->fixed = arguments.fixed;
  body->same_slot = region_detail::equal_slots(arguments);
  body->graph = std::make_shared<const Graph>(Dce{}(call.graph));
  Attrs attrs;
  attrs.text = name;
  attrs.bodies.push_back(body->graph);
  body->attrs = std::move(attrs);
  body->results = call.results;
  body->is_weak_result.assign(is_weak_result.begin(), is_weak_result.end());
  body->result = std::move(result);
  for (std::size_t i = call.parameters; i < call.operands.size(); ++i) {
    const auto found = std::find_if(captured.begin(), captured.end(), [&](const CapturedVariable& c) { return c.value == call.operands[i]; });
    body->extra.push_back(call.operands[i]);
    body->extra_slots.push_back(found == captured.end() ? nullptr : found->slot);
  }
  for (const auto& slot : call.assigned) {
    const auto at = std::find(arguments.slots.begin(), arguments.slots.end(), slot);
    RegionBody::Assignment assignment;
    if (at != arguments.slots.end()) assignment.argument = static_cast<std::int32_t>(at - arguments.slots.begin());
    else assignment.slot = slot;
    body->assignments.push_back(std::move(assignment));
  }
  return region_detail::bodies_of(key).bodies.emplace_back(std::move(body)).get();
}

SINTER_DECL std::vector<Ref<TensorImpl>> call_region(const RegionBody& body, const RegionArguments& arguments, Location where) {
  std::vector<Leaf> leaves;
  leaves.reserve(arguments.values.size() + body.extra.size());
  for (const auto& value : arguments.values) leaves.emplace_back(value);
  for (std::size_t i = 0; i < body.extra.size(); ++i)
    leaves.emplace_back(body.extra_slots[i] ? Trace::current()->read_variable(body.extra_slots[i]) : body.extra[i]);
  std::vector<Ref<TensorImpl>> values = record_shared_results(op_info<ops::Region>, leaves, body.attrs, where);
  for (std::size_t i = 0; i < body.assignments.size(); ++i) {
    const RegionBody::Assignment& assignment = body.assignments[i];
    const auto& slot = assignment.slot ? assignment.slot : arguments.slots[static_cast<std::size_t>(assignment.argument)];
    autodiff_detail::assign_outside(slot, values[body.results + i]);
  }
  values.resize(body.results);
  for (std::size_t i = 0; i < values.size(); ++i) values[i]->is_weak = body.is_weak_result[i] != 0;
  return values;
}

SINTER_DECL std::vector<Ref<TensorImpl>> inline_region(const autodiff_detail::TracedCall& call) {
  std::vector<Ref<TensorImpl>> values = replay(call.graph, call.operands);
  for (std::size_t i = 0; i < call.assigned.size(); ++i) autodiff_detail::assign_outside(call.assigned[i], values[call.results + i]);
  values.resize(call.results);
  return values;
}

}  // namespace jit::jit_detail
SINTER_NAMESPACE_END
