// In four steps: on which device each node runs; in which round, as late as its readers allow, so that it is fused with
// them; what crosses from part to part; the parts' graphs. Numbers that choose a branch on a device are computed by the
// host in a round before all others, so that nobody waits for them.
#pragma once

#include <sinter/runtime/partition.hpp>

#include <sinter/base/error.hpp>
#include <sinter/base/index.hpp>
#include <sinter/graph/builder.hpp>
#include <sinter/ops/leaf.hpp>
#include <sinter/passes/outline.hpp>
#include <sinter/runtime/graph_devices.hpp>
#include <sinter/runtime/part_builder.hpp>

#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <tuple>
#include <utility>

SINTER_NAMESPACE_BEGIN

namespace runtime_detail {

class Partitioner {
 public:
  Partitioner(const Graph& graph, const PartitionOptions& options)
      : graph_(graph),
        options_(options),
        count_(graph.nodes().size()),
        is_live_(count_),
        is_output_(count_),
        chooses_(count_),
        place_(count_, anywhere),
        pin_(count_, anywhere),
        earliest_(count_),
        round_(count_, none),
        stands_for_(count_) {
    for_each_device(graph, options.wanted, [this](Device device) { place_of(device); });
  }

  /// False: a call has operands on several devices.
  bool find_places();
  Partition cut();

 private:
  static constexpr int anywhere = -1, host = 0;  // places; others are numbers of devices
  static constexpr std::int32_t none = std::numeric_limits<std::int32_t>::max(), before_all = -1;  // rounds
  using PartKey = std::tuple<std::int32_t, bool, int>;  // round, the host last (devices work meanwhile), place

  const Node& node(std::int32_t id) const { return graph_.node(id); }
  static std::size_t at(std::int32_t id) { return as_index(id); }
  Device device(int place) const { return devices_[as_index(place)]; }
  int place_of(Device device);
  int place_of(Value v) const { return place_[at(v.node)]; }
  /// The value in whose place this one stands: copies to where it is already are none.
  Value resolve(Value v) const {
    const Value other = stands_for_[at(v.node)];
    return other ? other : v;
  }
  static bool is_dense_constant(const Node& n) { return n.op->name == "constant" && n.attrs.constant->is_dense(); }
  bool is_computed(Value v) const {
    return !is_given(node(v.node)) && !node(v.node).op->is_transfer && place_of(v) != anywhere;
  }
  std::size_t operands_that_place(const Node& n) const { return n.inputs.size() - (n.op->kind == OpKind::effect); }

  void find_live();
  bool place_all(bool& is_again);
  bool place_transfer(std::int32_t id);
  int place_by_operands(const Node& n, bool& is_mixed) const;
  int place_of_effect(const Node& n);
  [[noreturn]] void throw_mixed(const Node& n) const;
  void find_choosing_numbers();
  void find_rounds();
  void read_no_later(Value operand, int reader_place, std::int32_t reader_round);

  PartKey key_of(std::int32_t id) const {
    const bool joins_choosing = has_choosing_ && place_[at(id)] == host && round_[at(id)] == 0;
    return {joins_choosing ? before_all : round_[at(id)], place_[at(id)] == host, place_[at(id)]};
  }
  std::int32_t part_of(std::int32_t id) const { return parts_.at(key_of(id)); }
  std::int32_t any_part_on(int place) const;
  bool is_one_device(std::span<const PartKey> keys) const;
  Device wanted_device(std::size_t j) const {
    return options_.wanted.empty() ? graph_.type(graph_.outputs()[j]).device : options_.wanted[j];
  }
  void find_parts();
  void find_crossings();
  std::int32_t value_at(Value v, int place);
  std::int32_t new_value(const PartitionValue& value, Value of, int place);
  std::int32_t export_from(std::int32_t part, Value v, int place);
  std::int32_t copy_of(std::int32_t from, Device to, Location where);
  std::int32_t output_of_one_device(std::size_t j);
  std::int32_t output_value(std::size_t j);
  void build_part(std::int32_t number);

  const Graph& graph_;
  const PartitionOptions& options_;
  std::size_t count_;
  std::vector<Device> devices_{Device::cpu()};
  std::vector<std::uint8_t> is_live_, is_output_, chooses_;
  bool has_choosing_ = false;
  std::vector<int> place_, pin_;
  std::vector<std::int32_t> earliest_, round_;
  std::vector<Value> stands_for_;
  std::map<PartKey, std::int32_t> parts_;
  std::map<std::tuple<std::int32_t, std::int32_t, int>, std::int32_t> value_number_;
  std::vector<std::vector<Value>> exports_;  // by part, beside the numbers in its outputs
  Partition result_;
};

SINTER_DECL int Partitioner::place_of(Device device) {
  const auto found = std::find(devices_.begin(), devices_.end(), device);
  if (found == devices_.end()) devices_.push_back(device);
  return static_cast<int>(std::find(devices_.begin(), devices_.end(), device) - devices_.begin());
}

SINTER_DECL void Partitioner::find_live() {
  for (Value v : graph_.outputs()) is_live_[at(v.node)] = 1;
  for (std::size_t id = count_; id-- > 0;)
    if ((is_live_[id] |= graph_.nodes()[id].op->kind == OpKind::effect))
      for (Value v : graph_.nodes()[id].inputs) is_live_[at(v.node)] = 1;
}

// ---- places

SINTER_DECL bool Partitioner::find_places() {
  find_live();
  for (bool is_again = true; is_again;) {
    is_again = false;
    if (!place_all(is_again)) return false;
  }
  for (Value v : graph_.outputs()) is_output_[at(resolve(v).node)] = 1;
  return true;
}

SINTER_DECL bool Partitioner::place_all(bool& is_again) {
  for (std::size_t i = 0; i < count_; ++i) {
    const auto id = static_cast<std::int32_t>(i);
    const Node& n = node(id);
    if (!is_live_[i]) continue;
    stands_for_[i] = {};
    if (is_given(n)) {
      const bool is_number = n.types[0].device == Device::cpu() && n.types[0].shape.rank() == 0;
      place_[i] = is_number ? anywhere : place_of(n.types[0].device);
      continue;
    }
    if (n.op->is_transfer) {
      is_again |= place_transfer(id);
      continue;
    }
    bool is_mixed = false;
    int place = place_by_operands(n, is_mixed);
    if (is_mixed && n.op->is_call) return false;
    if (is_mixed) throw_mixed(n);
    if (place == anywhere) place = pin_[i];
    if (place == anywhere && n.op->kind == OpKind::effect) place = place_of_effect(n);
    place_[i] = place;
    earliest_[i] = 0;
    for (Value operand : n.inputs)
      if (const Value v = resolve(operand); place_of(v) != anywhere)
        earliest_[i] = std::max(earliest_[i], earliest_[at(v.node)] + (place_of(v) != place));
  }
  return true;
}

/// True: the operand could be computed anywhere, and must be where it was asked for, or the copy would differ from it.
SINTER_DECL bool Partitioner::place_transfer(std::int32_t id) {
  const int target = place_of(node(id).attrs.device);
  const Value operand = resolve(node(id).inputs[0]);
  place_[at(id)] = target;
  if (place_of(operand) == anywhere) {
    const Type& type = graph_.type(operand);
    stands_for_[at(id)] = operand;
    if (type.shape.rank() == 0 || node(operand.node).inputs.empty() || place_of(type.device) == target) return false;
    pin_[at(operand.node)] = place_of(type.device);
    return true;
  }
  for (Value v = operand;; v = resolve(node(v.node).inputs[0])) {  // there and back
    if (place_of(v) == target) stands_for_[at(id)] = v;
    if (place_of(v) == target || !node(v.node).op->is_transfer) break;
  }
  earliest_[at(id)] = earliest_[at(operand.node)] + 1;
  return false;
}

/// A device, if an operand lies on one; then those of the host must be numbers.
SINTER_DECL int Partitioner::place_by_operands(const Node& n, bool& is_mixed) const {
  int found = anywhere;
  bool has_host_tensor = false;
  for (std::size_t i = 0; i < operands_that_place(n); ++i) {
    const Value v = resolve(n.inputs[i]);
    const int place = place_of(v);
    has_host_tensor |= place == host && graph_.type(v).shape.rank() > 0;
    if (place > host && found > host && place != found) is_mixed = true;
    found = std::max(found, place);
  }
  is_mixed |= found > host && has_host_tensor;
  return found;
}

/// An effect of nothing but numbers happens in one place: where the one before it did; else on the host if nobody needs
/// more of it than its order.
SINTER_DECL int Partitioner::place_of_effect(const Node& n) {
  if (const int before = n.inputs.empty() ? anywhere : place_of(resolve(n.inputs.back())); before != anywhere)
    return before;
  if (n.types.size() == 1) return host;
  const Device device = n.types[0].device;
  return device == Device::cpu() && devices_.size() == 2 ? 1 : place_of(device);
}

SINTER_DECL void Partitioner::throw_mixed(const Node& n) const {
  std::string what = "its operands are on different devices:";
  for (std::size_t i = 0; i < operands_that_place(n); ++i) {
    const Value v = resolve(n.inputs[i]);
    Type type = graph_.type(v);
    if (place_of(v) != anywhere) type.device = device(place_of(v));
    what += (i == 0 ? " " : ", ") + type.text() + (type.device == Device::cpu() ? " on the cpu" : "");
  }
  throw DeviceError(n.op->name, what, n.where, "move them to one device: x.to(device)");
}

// ---- rounds

SINTER_DECL void Partitioner::find_choosing_numbers() {
  for (std::size_t id = 0; id < count_; ++id) {
    const Node& n = graph_.nodes()[id];
    if (!is_live_[id] || place_[id] <= host) continue;
    if (n.op->name != "switch" && n.op->name != "switch_with_effects") continue;
    const Value index = resolve(n.inputs[0]);
    if (place_of(index) != anywhere || is_given(node(index.node)) || node(index.node).types.size() != 1) continue;
    chooses_[at(index.node)] = has_choosing_ = true;
  }
}

/// What the host makes for the caller comes early, so that it need not wait for a device; what a device makes comes
/// late.
SINTER_DECL void Partitioner::find_rounds() {
  std::vector<std::int32_t> last(devices_.size());
  for (std::size_t id = 0; id < count_; ++id)
    if (is_live_[id] && is_computed({static_cast<std::int32_t>(id), 0}))
      last[as_index(place_[id])] = std::max(last[as_index(place_[id])], earliest_[id]);
  for (std::size_t id = count_; id-- > 0;) {
    const Node& n = graph_.nodes()[id];
    if (!is_live_[id] || is_given(n) || place_[id] == anywhere || stands_for_[id]) continue;
    const std::int32_t latest = place_[id] == host || n.op->is_transfer ? earliest_[id] : last[as_index(place_[id])];
    if (round_[id] == none || (is_output_[id] && !n.op->is_transfer)) round_[id] = std::min(round_[id], latest);
    for (Value operand : n.inputs) read_no_later(resolve(operand), place_[id], round_[id]);
  }
}

SINTER_DECL void Partitioner::read_no_later(Value operand, int reader_place, std::int32_t reader_round) {
  if (is_given(node(operand.node)) || place_of(operand) == anywhere) return;
  std::int32_t& round = round_[at(operand.node)];
  round = std::min(round, reader_round - (place_of(operand) != reader_place));
}

// ---- parts and what crosses between them

/// See Partition. `keys` are sorted.
SINTER_DECL bool Partitioner::is_one_device(std::span<const PartKey> keys) const {
  if (devices_.size() != 2) return false;
  for (std::size_t id = 0; id < count_; ++id)
    if (is_live_[id] && graph_.nodes()[id].op->is_transfer && !stands_for_[id]) return false;
  for (std::size_t j = 0; j < graph_.outputs().size(); ++j) {
    const int place = place_of(resolve(graph_.outputs()[j]));
    if (place != anywhere && device(place) != wanted_device(j)) return false;
  }
  const auto on_host = std::count_if(keys.begin(), keys.end(), [](const PartKey& key) { return std::get<1>(key); });
  return on_host <= 1 && keys.size() - as_index(on_host) <= 1;
}

SINTER_DECL void Partitioner::find_parts() {
  std::vector<PartKey> keys;
  if (has_choosing_) keys.emplace_back(before_all, true, host);
  for (std::size_t id = 0; id < count_; ++id)
    if (is_live_[id] && is_computed({static_cast<std::int32_t>(id), 0}))
      keys.push_back(key_of(static_cast<std::int32_t>(id)));
  std::sort(keys.begin(), keys.end());
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  const auto need_one_on = [&](int place) {  // for what is not computed on it, but made there
    if (std::none_of(keys.begin(), keys.end(), [&](const PartKey& key) { return std::get<2>(key) == place; }))
      keys.emplace_back(0, place == host, place);
  };
  result_.is_one_device = is_one_device(keys);
  if (result_.is_one_device) need_one_on(1);
  for (std::size_t j = 0; j < graph_.outputs().size(); ++j) {
    const int place = place_of(resolve(graph_.outputs()[j]));
    if (place == anywhere) need_one_on(place_of(wanted_device(j)));
    else if (result_.is_one_device) need_one_on(place);
  }
  for (std::size_t id = 0; id < count_ && !result_.is_one_device; ++id)
    if (is_live_[id] && is_given(graph_.nodes()[id]) && place_[id] != anywhere)  // what is strided becomes dense there
      keys.emplace_back(before_all, place_[id] == host, place_[id]);
  std::sort(keys.begin(), keys.end());
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  for (const PartKey& key : keys) {
    parts_.emplace(key, static_cast<std::int32_t>(result_.parts.size()));
    PartitionPart& part = result_.parts.emplace_back();
    part.device = device(std::get<2>(key));
    part.owns_outputs = !result_.is_one_device || part.device == Device::cpu() || options_.own_outputs;
  }
  exports_.resize(result_.parts.size());
}

/// The first one that has work of its own anyway.
SINTER_DECL std::int32_t Partitioner::any_part_on(int place) const {
  for (const auto& [key, part] : parts_)
    if (std::get<2>(key) == place && (std::get<0>(key) > before_all || (has_choosing_ && place == host))) return part;
  throw InternalError("partition: no part on " + device(place).text());
}

SINTER_DECL std::int32_t Partitioner::new_value(const PartitionValue& value, Value of, int place) {
  const auto number = static_cast<std::int32_t>(result_.values.size());
  result_.values.push_back(value);
  value_number_[{of.node, of.result, place}] = number;
  return number;
}

SINTER_DECL std::int32_t Partitioner::export_from(std::int32_t part, Value v, int place) {
  Type type = graph_.type(v);
  type.device = device(place);
  const std::int32_t number = new_value({PartitionValue::Source::part, part, type, node(v.node).where}, v, place);
  result_.parts[at(part)].outputs.push_back(number);
  exports_[at(part)].push_back(v);
  return number;
}

SINTER_DECL std::int32_t Partitioner::copy_of(std::int32_t from, Device to, Location where) {
  Type type = result_.values[at(from)].type;
  type.device = to;
  result_.values.push_back({PartitionValue::Source::copy, from, type, where});
  return static_cast<std::int32_t>(result_.values.size()) - 1;
}

/// The number of a value (resolved) in memory of `place`, where it is known to lie or may be made.
SINTER_DECL std::int32_t Partitioner::value_at(Value v, int place) {
  if (const auto known = value_number_.find({v.node, v.result, place}); known != value_number_.end())
    return known->second;
  const Node& n = node(v.node);
  Type type = graph_.type(v);
  type.device = device(place);
  const auto constant = [&](const Node& held) {
    return new_value({PartitionValue::Source::constant, -1, type, n.where, -1, held.attrs.constant}, v, place);
  };
  if (n.op->is_transfer) {
    const Value operand = resolve(n.inputs[0]);
    if (is_dense_constant(node(operand.node))) return constant(node(operand.node));
    const std::int32_t from = value_at(operand, place_of(operand));
    return new_value({PartitionValue::Source::copy, from, type, n.where}, v, place);
  }
  if (is_computed(v)) return export_from(part_of(v.node), v, place);
  if (place_of(v) == anywhere) return export_from(any_part_on(place), v, place);
  if (is_dense_constant(n)) return constant(n);
  const auto input = static_cast<std::int32_t>(n.attrs[input_position]);
  if (n.op->name == "input" && (!options_.is_dense || options_.is_dense(input)))
    return new_value({PartitionValue::Source::input, input, type, n.where}, v, place);
  return export_from(parts_.at(PartKey{before_all, place == host, place}), v, place);
}

SINTER_DECL void Partitioner::find_crossings() {
  for (std::size_t i = 0; i < count_; ++i) {
    const auto id = static_cast<std::int32_t>(i);
    if (chooses_[i]) export_from(parts_.at(PartKey{before_all, true, host}), {id, 0}, host);
    if (!is_live_[i] || !is_computed({id, 0})) continue;
    for (std::size_t k = 0; k < operands_that_place(node(id)); ++k) {
      const Value v = resolve(node(id).inputs[k]);
      if (node(v.node).op->is_transfer || (is_computed(v) && part_of(v.node) != part_of(id))) value_at(v, place_of(v));
    }
  }
  for (std::size_t j = 0; j < graph_.outputs().size(); ++j)
    result_.outputs.push_back(result_.is_one_device ? output_of_one_device(j) : output_value(j));
}

/// The part's plan knows what shares memory; numbers lie on the host, where a device's output may not.
SINTER_DECL std::int32_t Partitioner::output_of_one_device(std::size_t j) {
  const Value v = resolve(graph_.outputs()[j]);
  const bool is_anywhere = place_of(v) == anywhere;
  const int place = is_anywhere ? place_of(wanted_device(j)) : place_of(v);
  const std::int32_t part = is_computed(v) ? part_of(v.node) : any_part_on(place);
  PartitionPart& made = result_.parts[at(part)];
  Type type = graph_.type(v);
  type.device = device(place);
  made.outputs.push_back(static_cast<std::int32_t>(result_.values.size()));
  exports_[at(part)].push_back(v);
  result_.values.push_back(
      {PartitionValue::Source::part, part, type, node(v.node).where, static_cast<std::int32_t>(j)});
  made.owns_outputs |= is_anywhere;
  return made.outputs.back();
}

SINTER_DECL std::int32_t Partitioner::output_value(std::size_t j) {
  const Value asked = graph_.outputs()[j], v = resolve(asked);
  const Device wanted = wanted_device(j);
  const int place = place_of(v) == anywhere ? place_of(wanted) : place_of(v);
  if (const Node& n = node(v.node); n.op->name == "input" && !options_.own_outputs &&
                                    device(place) == n.types[0].device &&
                                    device(place) == wanted) {  // strided ones, too
    result_.values.push_back(
        {PartitionValue::Source::input, static_cast<std::int32_t>(n.attrs[input_position]), n.types[0], n.where});
    return static_cast<std::int32_t>(result_.values.size()) - 1;
  }
  std::int32_t number = value_at(v, place);
  const bool is_elsewhere = !options_.wanted.empty() && device(place) != wanted;
  const PartitionValue& value = result_.values[at(number)];
  const bool is_shared = value.output >= 0 || value.source == PartitionValue::Source::input ||
                         value.source == PartitionValue::Source::constant;
  if (is_elsewhere || (options_.own_outputs && is_shared))
    number = copy_of(number, is_elsewhere ? wanted : device(place), node(asked.node).where);
  PartitionValue& given = result_.values[at(number)];
  const bool has_memory = given.source == PartitionValue::Source::part || given.source == PartitionValue::Source::copy;
  if (has_memory && given.output < 0) given.output = static_cast<std::int32_t>(j);
  return number;
}

// ---- graphs

SINTER_DECL void Partitioner::build_part(std::int32_t number) {
  PartitionPart& part = result_.parts[at(number)];
  const bool is_host = part.device == Device::cpu();
  const auto imported = [&](Value v) {
    const bool crosses =
        chooses_[at(v.node)] ? !is_host : node(v.node).op->is_transfer || (is_computed(v) && part_of(v.node) != number);
    if (!crosses) return PartBuilder::here;
    const auto known = value_number_.find({v.node, v.result, chooses_[at(v.node)] ? host : place_of(v)});
    return known != value_number_.end() ? known->second : PartBuilder::elsewhere;
  };
  PartBuilder builder(graph_, result_, part, [this](Value v) { return resolve(v); }, imported);
  for (std::size_t id = 0; id < count_; ++id) {
    const Value v{static_cast<std::int32_t>(id), 0};
    if (graph_.nodes()[id].op->kind == OpKind::effect && is_computed(v) && part_of(v.node) == number) builder.copy(v);
  }
  std::vector<Value> outputs;
  for (Value v : exports_[at(number)]) outputs.push_back(builder.copy(v));
  part.graph = builder.finish(outputs);
}

SINTER_DECL Partition Partitioner::cut() {
  find_choosing_numbers();
  find_rounds();
  find_parts();
  find_crossings();
  for (std::size_t part = 0; part < result_.parts.size(); ++part) build_part(static_cast<std::int32_t>(part));
  return std::move(result_);
}

}  // namespace runtime_detail

SINTER_DECL Partition partition(const Graph& graph, const PartitionOptions& options) {
  using namespace runtime_detail;
  if (!has_transfers_in_calls(graph)) {
    Partitioner partitioner(graph, options);
    if (partitioner.find_places()) return partitioner.cut();
  }
  const Graph inlined = inline_calls(graph);
  Partitioner partitioner(inlined, options);
  ensure(partitioner.find_places(), "partition: a call of several devices");
  return partitioner.cut();
}

SINTER_NAMESPACE_END
