// Which side computes what.
#pragma once

#include <sinter/runtime/device_split.hpp>

#include <sinter/base/error.hpp>
#include <sinter/base/index.hpp>
#include <sinter/graph/builder.hpp>

#include <string>

SINTER_NAMESPACE_BEGIN

namespace runtime_detail {

/// `anywhere`: depends on numbers and constants of the program alone, so either side can compute it for itself.
enum class Side : std::uint8_t { anywhere, host, device };

inline bool is_given(const Node& node) { return node.op->name == "input" || node.op->name == "constant"; }

inline std::vector<Side> sides_of(const Graph& graph) {
  std::vector<Side> sides;
  for (const Node& node : graph.nodes()) {
    Side side = Side::anywhere;
    if (is_given(node)) {
      if (node.types[0].device != Device::cpu()) side = Side::device;
      else if (node.types[0].shape.rank() > 0) side = Side::host;
    }
    for (Value v : node.inputs) side = std::max(side, sides[as_index(v.node)]);
    // An effect happens on one side; of several results none could cross over.
    if (node.op->kind == OpKind::effect && side == Side::anywhere)
      side = node.types.size() == 1 ? Side::host : Side::device;
    sides.push_back(side);
  }
  return sides;
}

inline Side side_of_output(const Graph& graph, std::span<const Side> sides, std::span<const Device> wanted,
                           std::size_t j) {
  const Value value = graph.outputs()[j];
  const Side side = sides[as_index(value.node)];
  if (side != Side::anywhere) return side;
  return (wanted.empty() ? graph.type(value).device : wanted[j]) == Device::cpu() ? Side::host : Side::device;
}

/// Numbers that choose a branch: computed on the host, nobody waits for them.
inline std::vector<bool> choosing_numbers(const Graph& graph, std::span<const Side> sides) {
  std::vector<bool> chooses(sides.size());
  for (const Node& node : graph.nodes()) {
    if (node.op->name != "switch" && node.op->name != "switch_with_effects") continue;
    const auto index = as_index(node.inputs[0].node);
    chooses[index] =
        sides[index] == Side::anywhere && graph.nodes()[index].types.size() == 1 && !is_given(graph.nodes()[index]);
  }
  return chooses;
}

/// Copies what one side needs.
class SideBuilder {
 public:
  SideBuilder(const Graph& graph, std::span<const Side> sides)
      : graph_(graph), sides_(sides), builder_(graph), made_(graph.nodes().size()) {
    for (Value v : graph.inputs()) made_[as_index(v.node)] = builder_.copy(graph.node(v), {});
  }
  /// `on_number`: gives the value that stands for a number of the other side, or nothing to compute it here.
  template <class F>
  Value copy(Value wanted, F&& on_number) {
    std::vector<std::int32_t> waiting{wanted.node};
    while (!waiting.empty()) {  // a long chain must not overflow the stack
      const auto id = as_index(waiting.back());
      const Node& node = graph_.nodes()[id];
      if (made_[id]) {
        waiting.pop_back();
        continue;
      }
      if (Value stand_in = on_number(static_cast<std::int32_t>(id))) {
        made_[id] = stand_in;
        continue;
      }
      bool is_complete = true;
      Values inputs;
      for (Value v : node.inputs) {
        const Value made = made_[as_index(v.node)];
        if (!made) {
          waiting.push_back(v.node);
          is_complete = false;
        }
        inputs.push_back({made.node, made.result + v.result});
      }
      if (is_complete) made_[id] = builder_.copy(node, inputs);
    }
    const Value made = made_[as_index(wanted.node)];
    return {made.node, made.result + wanted.result};
  }
  GraphBuilder& builder() { return builder_; }

 private:
  const Graph& graph_;
  std::span<const Side> sides_;
  GraphBuilder builder_;
  std::vector<Value> made_;
};

[[noreturn]] inline void throw_mixed(const Graph& graph, const Node& user, Device device) {
  std::string what = "it runs on " + device.text() + ", but an operand is made of tensors on the cpu:";
  for (Value v : user.inputs) what += " " + graph.type(v).text();
  throw DeviceError(user.op->name, what, user.where,
                    "move the tensors that the function takes to one device: x.to(device)");
}

}  // namespace runtime_detail

SINTER_DECL Device device_of(const Graph& graph, std::span<const Device> wanted) {
  Device found;
  auto meet = [&](Device device, Location where) {
    if (device == Device::cpu() || device == found) return;
    if (found != Device::cpu())
      throw DeviceError("compile", "the function uses " + found.text() + " and " + device.text(), where,
                        "a function runs on one device: move its tensors there with .to(device)");
    found = device;
  };
  for (const Node& node : graph.nodes())
    if (runtime_detail::is_given(node)) meet(node.types[0].device, node.where);
  for (std::size_t j = 0; j < graph.outputs().size(); ++j) {
    const Value v = graph.outputs()[j];
    meet(wanted.empty() ? graph.type(v).device : wanted[j], graph.node(v).where);
  }
  return found;
}

SINTER_DECL Graph with_inputs_on(const Graph& body, Device device) {
  GraphBuilder builder(body);
  std::vector<Value> made(body.nodes().size());
  const auto moved = [&](Value v) {
    return Value{made[as_index(v.node)].node, made[as_index(v.node)].result + v.result};
  };
  for (Value v : body.inputs()) {
    const Node& node = body.node(v);
    Type type = node.types[0];
    type.device = device;
    made[as_index(v.node)] = builder.input(type, node.attrs.text, node.where);
  }
  for (std::size_t i = 0; i < body.nodes().size(); ++i) {
    if (made[i]) continue;
    Values inputs;
    for (Value v : body.nodes()[i].inputs) inputs.push_back(moved(v));
    made[i] = builder.copy(body.nodes()[i], inputs);
  }
  std::vector<Value> outputs;
  for (Value v : body.outputs()) outputs.push_back(moved(v));
  return builder.finish(outputs);
}

SINTER_DECL DeviceSplit split_by_device(const Graph& graph, std::span<const Device> wanted, Device device) {
  using namespace runtime_detail;
  const std::vector<Side> sides = sides_of(graph);
  for (const Node& node : graph.nodes()) {  // what crosses over is a number
    bool is_on_device = false;
    for (Value v : node.inputs) is_on_device |= sides[as_index(v.node)] == Side::device;
    for (Value v : node.inputs)
      if (is_on_device && sides[as_index(v.node)] == Side::host && graph.type(v).shape.rank() > 0)
        throw_mixed(graph, node, device);
  }
  const std::vector<bool> chooses = choosing_numbers(graph, sides);
  DeviceSplit split;
  SideBuilder on_device(graph, sides), on_host(graph, sides);
  std::vector<Value> device_outputs, host_outputs, numbers;
  auto number = [&](std::int32_t id) -> Value {
    const Node& node = graph.node(id);
    if (sides[as_index(id)] != Side::host && !chooses[as_index(id)]) return {};
    if (node.types.size() != 1) throw_mixed(graph, node, device);
    numbers.push_back(Value{id, 0});
    return on_device.builder().input(node.types[0], {}, node.where);
  };
  auto nothing = [](std::int32_t) { return Value{}; };
  for (std::size_t j = 0; j < graph.outputs().size(); ++j) {
    const Value value = graph.outputs()[j];
    const bool is_host = side_of_output(graph, sides, wanted, j) == Side::host;
    (is_host ? split.host_outputs : split.device_outputs).push_back(static_cast<std::int32_t>(j));
    if (is_host) {
      host_outputs.push_back(on_host.copy(value, nothing));
    } else {
      device_outputs.push_back(on_device.copy(value, number));
      split.copies_outputs |= sides[as_index(value.node)] != Side::device;
    }
  }
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) {  // those that no output needs
    if (graph.nodes()[i].op->kind != OpKind::effect) continue;
    const Value value{static_cast<std::int32_t>(i), 0};
    if (sides[i] == Side::host) on_host.copy(value, nothing);
    else on_device.copy(value, number);
  }
  for (Value value : numbers) host_outputs.push_back(on_host.copy(value, nothing));
  split.numbers = static_cast<std::int32_t>(numbers.size());
  split.device = on_device.builder().finish(device_outputs);
  split.host = on_host.builder().finish(host_outputs);
  return split;
}

SINTER_NAMESPACE_END
