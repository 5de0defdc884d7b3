// In four steps: on which device each node runs; in which round, as late as its readers allow, so that it is fused with
// them; what crosses from part to part; the parts' graphs.
#pragma once

#include <sinter/runtime/stages.hpp>

#include <sinter/base/error.hpp>
#include <sinter/base/index.hpp>
#include <sinter/graph/builder.hpp>
#include <sinter/ops/leaf.hpp>
#include <sinter/passes/outline.hpp>
#include <sinter/runtime/device_split.hpp>

#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <tuple>
#include <utility>

SINTER_NAMESPACE_BEGIN

namespace runtime_detail {

inline bool has_transfers(const Graph& graph) {
  return std::any_of(graph.nodes().begin(), graph.nodes().end(), [](const Node& node) { return node.op->is_transfer; });
}
/// In the body of a call, or of a call in it.
inline bool has_transfers_in_calls(const Graph& graph) {
  return std::any_of(graph.nodes().begin(), graph.nodes().end(), [](const Node& node) {
    return node.op->is_call && (has_transfers(*node.attrs.bodies[0]) || has_transfers_in_calls(*node.attrs.bodies[0]));
  });
}

class StageCutter {
 public:
  StageCutter(const Graph& graph, const StageOptions& options)
      : graph_(graph),
        options_(options),
        count_(graph.nodes().size()),
        is_live_(count_),
        is_output_(count_),
        place_(count_, anywhere),
        pin_(count_, anywhere),
        earliest_(count_),
        round_(count_, none),
        stands_for_(count_) {}

  /// False: a call has operands on several devices.
  bool find_places();
  Stages cut();

 private:
  static constexpr int anywhere = -1, host = 0;  // places; others are numbers of devices
  static constexpr std::int32_t none = std::numeric_limits<std::int32_t>::max();
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
  [[noreturn]] void throw_mixed(const Node& n) const;
  void find_rounds();
  void read_no_later(Value operand, int reader_place, std::int32_t reader_round);

  PartKey key_of(std::int32_t id) const { return {round_[at(id)], place_[at(id)] == host, place_[at(id)]}; }
  std::int32_t part_of(std::int32_t id) const { return parts_.at(key_of(id)); }
  std::int32_t any_part_on(int place) const;
  void find_parts();
  void find_crossings();
  std::int32_t value_at(Value v, int place);
  std::int32_t new_value(const StageValue& value, Value of, int place);
  std::int32_t export_from(std::int32_t part, Value v, int place);
  std::int32_t copy_of(std::int32_t from, Device to, Location where);
  std::int32_t output_value(std::size_t j);
  void build_part(std::int32_t number);

  const Graph& graph_;
  const StageOptions& options_;
  std::size_t count_;
  std::vector<Device> devices_{Device::cpu()};
  std::vector<std::uint8_t> is_live_, is_output_;
  std::vector<int> place_, pin_;
  std::vector<std::int32_t> earliest_, round_;
  std::vector<Value> stands_for_;
  std::map<PartKey, std::int32_t> parts_;
  std::map<std::tuple<std::int32_t, std::int32_t, int>, std::int32_t> value_number_;
  std::vector<std::vector<Value>> exports_;  // by part, beside the numbers in its outputs
  Stages stages_;
};

SINTER_DECL int StageCutter::place_of(Device device) {
  const auto found = std::find(devices_.begin(), devices_.end(), device);
  if (found == devices_.end()) devices_.push_back(device);
  return static_cast<int>(std::find(devices_.begin(), devices_.end(), device) - devices_.begin());
}

SINTER_DECL void StageCutter::find_live() {
  for (Value v : graph_.outputs()) is_live_[at(v.node)] = 1;
  for (std::size_t id = count_; id-- > 0;)
    if ((is_live_[id] |= graph_.nodes()[id].op->kind == OpKind::effect))
      for (Value v : graph_.nodes()[id].inputs) is_live_[at(v.node)] = 1;
}

// ---- places

SINTER_DECL bool StageCutter::find_places() {
  find_live();
  for (bool is_again = true; is_again;) {
    is_again = false;
    if (!place_all(is_again)) return false;
  }
  for (Value v : graph_.outputs()) is_output_[at(resolve(v).node)] = 1;
  return true;
}

SINTER_DECL bool StageCutter::place_all(bool& is_again) {
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
    // An effect happens in one place.
    if (place == anywhere && n.op->kind == OpKind::effect)
      place = n.types.size() == 1 ? host : place_of(n.types[0].device);
    place_[i] = place;
    earliest_[i] = 0;
    for (Value operand : n.inputs)
      if (const Value v = resolve(operand); place_of(v) != anywhere)
        earliest_[i] = std::max(earliest_[i], earliest_[at(v.node)] + (place_of(v) != place));
  }
  return true;
}

/// True: the operand could be computed anywhere, and must be where it was asked for, or the copy would differ from it.
SINTER_DECL bool StageCutter::place_transfer(std::int32_t id) {
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
SINTER_DECL int StageCutter::place_by_operands(const Node& n, bool& is_mixed) const {
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

SINTER_DECL void StageCutter::throw_mixed(const Node& n) const {
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

/// What the host makes for the caller comes early, so that it need not wait for a device; what a device makes comes
/// late.
SINTER_DECL void StageCutter::find_rounds() {
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

SINTER_DECL void StageCutter::read_no_later(Value operand, int reader_place, std::int32_t reader_round) {
  if (is_given(node(operand.node)) || place_of(operand) == anywhere) return;
  std::int32_t& round = round_[at(operand.node)];
  round = std::min(round, reader_round - (place_of(operand) != reader_place));
}

// ---- parts and what crosses between them

SINTER_DECL void StageCutter::find_parts() {
  std::vector<PartKey> keys;
  for (std::size_t id = 0; id < count_; ++id)
    if (is_live_[id] && is_computed({static_cast<std::int32_t>(id), 0}))
      keys.push_back(key_of(static_cast<std::int32_t>(id)));
  const auto need_one_on = [&](int place) {  // for what is not computed on it, but made there
    if (std::none_of(keys.begin(), keys.end(), [&](const PartKey& key) { return std::get<2>(key) == place; }))
      keys.emplace_back(0, place == host, place);
  };
  for (std::size_t j = 0; j < graph_.outputs().size(); ++j) {
    const Value v = resolve(graph_.outputs()[j]);
    if (place_of(v) == anywhere)
      need_one_on(place_of(options_.wanted.empty() ? graph_.type(graph_.outputs()[j]).device : options_.wanted[j]));
  }
  for (std::size_t id = 0; id < count_;
       ++id)  // where what is strided is made dense before it is copied; else they stay empty
    if (is_live_[id] && is_given(graph_.nodes()[id]) && place_[id] != anywhere)
      keys.emplace_back(-1, place_[id] == host, place_[id]);
  std::sort(keys.begin(), keys.end());
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  for (const PartKey& key : keys) {
    parts_.emplace(key, static_cast<std::int32_t>(stages_.parts.size()));
    stages_.parts.emplace_back().device = device(std::get<2>(key));
  }
  exports_.resize(stages_.parts.size());
}

/// The first one that has work of its own anyway.
SINTER_DECL std::int32_t StageCutter::any_part_on(int place) const {
  for (const auto& [key, part] : parts_)
    if (std::get<2>(key) == place && std::get<0>(key) >= 0) return part;
  throw InternalError("stages: no part on " + device(place).text());
}

SINTER_DECL std::int32_t StageCutter::new_value(const StageValue& value, Value of, int place) {
  const auto number = static_cast<std::int32_t>(stages_.values.size());
  stages_.values.push_back(value);
  value_number_[{of.node, of.result, place}] = number;
  return number;
}

SINTER_DECL std::int32_t StageCutter::export_from(std::int32_t part, Value v, int place) {
  Type type = graph_.type(v);
  type.device = device(place);
  const std::int32_t number = new_value({StageValue::Source::part, part, type, node(v.node).where}, v, place);
  stages_.parts[at(part)].outputs.push_back(number);
  exports_[at(part)].push_back(v);
  return number;
}

SINTER_DECL std::int32_t StageCutter::copy_of(std::int32_t from, Device to, Location where) {
  Type type = stages_.values[at(from)].type;
  type.device = to;
  stages_.values.push_back({StageValue::Source::copy, from, type, where});
  return static_cast<std::int32_t>(stages_.values.size()) - 1;
}

/// The number of a value (resolved) in memory of `place`, where it is known to lie or may be made.
SINTER_DECL std::int32_t StageCutter::value_at(Value v, int place) {
  if (const auto known = value_number_.find({v.node, v.result, place}); known != value_number_.end())
    return known->second;
  const Node& n = node(v.node);
  Type type = graph_.type(v);
  type.device = device(place);
  const auto constant = [&](const Node& held) {
    return new_value({StageValue::Source::constant, -1, type, n.where, -1, held.attrs.constant}, v, place);
  };
  if (n.op->is_transfer) {
    const Value operand = resolve(n.inputs[0]);
    if (is_dense_constant(node(operand.node))) return constant(node(operand.node));
    const std::int32_t from = value_at(operand, place_of(operand));
    return new_value({StageValue::Source::copy, from, type, n.where}, v, place);
  }
  if (is_computed(v)) return export_from(part_of(v.node), v, place);
  if (place_of(v) == anywhere) return export_from(any_part_on(place), v, place);
  if (is_dense_constant(n)) return constant(n);
  const auto input = static_cast<std::int32_t>(n.attrs.integer);
  if (n.op->name == "input" && (!options_.is_dense || options_.is_dense(input)))
    return new_value({StageValue::Source::input, input, type, n.where}, v, place);
  return export_from(parts_.at(PartKey{-1, place == host, place}), v, place);
}

SINTER_DECL void StageCutter::find_crossings() {
  for (std::size_t i = 0; i < count_; ++i) {
    const auto id = static_cast<std::int32_t>(i);
    if (!is_live_[i] || !is_computed({id, 0})) continue;
    for (std::size_t k = 0; k < operands_that_place(node(id)); ++k) {
      const Value v = resolve(node(id).inputs[k]);
      if (node(v.node).op->is_transfer || (is_computed(v) && part_of(v.node) != part_of(id))) value_at(v, place_of(v));
    }
  }
  for (std::size_t j = 0; j < graph_.outputs().size(); ++j) stages_.outputs.push_back(output_value(j));
}

SINTER_DECL std::int32_t StageCutter::output_value(std::size_t j) {
  const Value asked = graph_.outputs()[j], v = resolve(asked);
  const Device wanted = options_.wanted.empty() ? graph_.type(asked).device : options_.wanted[j];
  const int place = place_of(v) == anywhere ? place_of(wanted) : place_of(v);
  if (const Node& n = node(v.node); n.op->name == "input" && !options_.own_outputs &&
                                    device(place) == n.types[0].device &&
                                    device(place) == wanted) {  // strided ones, too
    stages_.values.push_back(
        {StageValue::Source::input, static_cast<std::int32_t>(n.attrs.integer), n.types[0], n.where});
    return static_cast<std::int32_t>(stages_.values.size()) - 1;
  }
  std::int32_t number = value_at(v, place);
  const bool is_elsewhere = !options_.wanted.empty() && device(place) != wanted;
  const StageValue& value = stages_.values[at(number)];
  const bool is_shared =
      value.output >= 0 || value.source == StageValue::Source::input || value.source == StageValue::Source::constant;
  if (is_elsewhere || (options_.own_outputs && is_shared))
    number = copy_of(number, is_elsewhere ? wanted : device(place), node(asked.node).where);
  StageValue& given = stages_.values[at(number)];
  const bool has_memory = given.source == StageValue::Source::part || given.source == StageValue::Source::copy;
  if (has_memory && given.output < 0) given.output = static_cast<std::int32_t>(j);
  return number;
}

// ---- graphs

/// Copies into one part what is computed there.
class StagePartBuilder {
 public:
  StagePartBuilder(const Graph& graph, std::function<Value(Value)> resolve, std::function<std::int32_t(Value)> imported,
                   StagePart& part)
      : graph_(graph),
        resolve_(std::move(resolve)),
        imported_(std::move(imported)),
        part_(part),
        builder_(graph),
        made_(graph.nodes().size()) {}

  /// `stages`: its values may grow while parts are built, so it is looked at anew.
  Value copy(Value asked, const Stages& stages) {
    const Value wanted = resolve_(asked);
    if (const Value known = find(wanted, stages)) return known;
    std::vector<std::int32_t> waiting{wanted.node};
    while (!waiting.empty()) {  // a long chain must not overflow the stack
      const std::int32_t id = waiting.back();
      const Node& node = graph_.node(id);
      Values inputs;
      bool is_complete = true;
      for (std::size_t i = 0; i < node.inputs.size(); ++i) {
        const Value operand = resolve_(node.inputs[i]);
        Value made = find(operand, stages);
        if (!made && node.op->kind == OpKind::effect && i + 1 == node.inputs.size() && imported_(operand) == elsewhere)
          made = token();
        if (!made) {
          waiting.push_back(operand.node);
          is_complete = false;
        }
        inputs.push_back(made);
      }
      if (!is_complete) continue;
      waiting.pop_back();
      if (!made_[as_index(id)]) made_[as_index(id)] = builder_.copy(node, inputs);
    }
    return find(wanted, stages);
  }
  Graph finish(std::span<const Value> outputs, const Stages& stages) {
    const Graph graph = builder_.finish(outputs);
    std::vector<SymbolInfo> symbols = graph_.symbols();
    for (SymbolInfo& symbol : symbols) {  // where the part finds them, if it does
      std::int32_t place = -1;
      for (std::size_t i = 0; i < part_.inputs.size() && symbol.input >= 0; ++i) {
        const StageValue* value = part_.inputs[i] < 0 ? nullptr : &stages.values[as_index(part_.inputs[i])];
        if (value == nullptr ? ~part_.inputs[i] == symbol.input
                             : value->source == StageValue::Source::input && value->from == symbol.input)
          place = static_cast<std::int32_t>(i);
      }
      symbol.input = place;
      if (place < 0) symbol.axis = -1;
    }
    return graph.with_symbols(std::move(symbols));
  }

  static constexpr std::int32_t here = -1, elsewhere = -2;

 private:
  /// The value in this part's graph, if it is there or comes from outside.
  Value find(Value v, const Stages& stages) {
    if (const auto known = imports_.find(v); known != imports_.end()) return known->second;
    const Node& node = graph_.node(v);
    if (node.op->name == "input") {  // a negative number: the graph's own, as it is
      part_.inputs.push_back(~static_cast<std::int32_t>(node.attrs.integer));
      return imports_[v] = builder_.input(node.types[0], node.attrs.text, node.where);
    }
    if (const std::int32_t number = imported_(v); number >= 0) {
      part_.inputs.push_back(number);
      return imports_[v] = builder_.input(stages.values[as_index(number)].type, {}, node.where);
    }
    const Value made = made_[as_index(v.node)];
    return made ? Value{made.node, made.result + v.result} : Value{};
  }
  /// What stands for an effect of an earlier part: it has happened.
  Value token() {
    if (!token_)
      token_ = builder_.add(op_info<ops::Full>, {}, Attrs{.integer = 1, .dtype = DType::bool_, .has_dtype = true});
    return token_;
  }

  const Graph& graph_;
  std::function<Value(Value)> resolve_;
  std::function<std::int32_t(Value)> imported_;  // number of the stage value, or `here`, or `elsewhere`: in no memory
  StagePart& part_;
  GraphBuilder builder_;
  std::vector<Value> made_;
  std::map<Value, Value> imports_;
  Value token_;
};

SINTER_DECL void StageCutter::build_part(std::int32_t number) {
  StagePart& part = stages_.parts[at(number)];
  const auto imported = [&](Value v) {
    const bool is_here = !node(v.node).op->is_transfer && (!is_computed(v) || part_of(v.node) == number);
    if (is_here) return StagePartBuilder::here;
    const auto known = value_number_.find({v.node, v.result, place_of(v)});
    return known != value_number_.end() ? known->second : StagePartBuilder::elsewhere;
  };
  StagePartBuilder builder(graph_, [this](Value v) { return resolve(v); }, imported, part);
  for (std::size_t id = 0; id < count_; ++id) {
    const Value v{static_cast<std::int32_t>(id), 0};
    if (graph_.nodes()[id].op->kind == OpKind::effect && is_computed(v) && part_of(v.node) == number)
      builder.copy(v, stages_);
  }
  std::vector<Value> outputs;
  for (Value v : exports_[at(number)]) outputs.push_back(builder.copy(v, stages_));
  part.graph = builder.finish(outputs, stages_);
}

SINTER_DECL Stages StageCutter::cut() {
  find_rounds();
  find_parts();
  find_crossings();
  for (std::size_t part = 0; part < stages_.parts.size(); ++part) build_part(static_cast<std::int32_t>(part));
  return std::move(stages_);
}

}  // namespace runtime_detail

namespace runtime_detail {
template <class F>
void for_each_device(const Graph& graph, std::span<const Device> wanted, F&& visit) {
  for (const Node& node : graph.nodes()) {
    if (is_given(node)) visit(node.types[0].device);
    if (node.op->is_transfer) visit(node.attrs.device);
  }
  for (std::size_t j = 0; j < graph.outputs().size(); ++j)
    visit(wanted.empty() ? graph.type(graph.outputs()[j]).device : wanted[j]);
}
}  // namespace runtime_detail

SINTER_DECL Device first_device_of(const Graph& graph, std::span<const Device> wanted) {
  Device found;
  runtime_detail::for_each_device(graph, wanted, [&](Device device) {
    if (found == Device::cpu()) found = device;
  });
  return found;
}

SINTER_DECL bool needs_stages(const Graph& graph, std::span<const Device> wanted) {
  if (runtime_detail::has_transfers(graph) || runtime_detail::has_transfers_in_calls(graph)) return true;
  const Device first = first_device_of(graph, wanted);
  bool is_several = false;
  runtime_detail::for_each_device(graph, wanted,
                                  [&](Device device) { is_several |= device != Device::cpu() && device != first; });
  return is_several;
}

SINTER_DECL Stages cut_into_stages(const Graph& graph, const StageOptions& options) {
  using namespace runtime_detail;
  if (!has_transfers_in_calls(graph)) {
    StageCutter cutter(graph, options);
    if (cutter.find_places()) return cutter.cut();
  }
  const Graph inlined = inline_calls(graph);
  StageCutter cutter(inlined, options);
  ensure(cutter.find_places(), "stages: a call of several devices");
  return cutter.cut();
}

SINTER_NAMESPACE_END
