// Graphs cut by device: what runs where, in which order, and what crosses.
#include "../catch.hpp"
#include "../checks.hpp"

#include <sinter/graphs.hpp>
#include <sinter/runtime/graph_devices.hpp>
#include <sinter/runtime/partition.hpp>

#include <string>
#include <vector>

using namespace sinter;

namespace {

std::string text_of(const Partition& partition) {
  const auto value_text = [&](std::int32_t number) {
    const PartitionValue& value = partition.values[as_index(number)];
    return value.output >= 0 ? "out" + std::to_string(value.output) : "v" + std::to_string(number);
  };
  std::string text = partition.is_one_device ? "one device" : "parts";
  for (const PartitionPart& part : partition.parts) {
    if (part.is_empty()) continue;
    text += " | " + part.device.text() + ":";
    for (const std::int32_t input : part.inputs) text += " " + value_text(input);
    text += part.inputs.empty() ? "" : " ->";
    for (const Node& node : part.graph.nodes())
      if (node.op->name != "input") text += " " + std::string(node.op->name);
    text += part.outputs.empty() ? "" : " ->";
    for (const std::int32_t output : part.outputs) text += " " + value_text(output);
  }
  for (std::size_t i = 0; i < partition.values.size(); ++i)
    if (const PartitionValue& value = partition.values[i]; value.source == PartitionValue::Source::copy)
      text += " | copy v" + std::to_string(value.from) + " to " + value.type.device.text();
  return text;
}

Partition cut(std::string_view text, std::vector<Device> wanted = {}, bool own_outputs = false) {
  return partition(parse_graph(text), {wanted, own_outputs, nullptr});
}

}  // namespace

TEST_CASE("partition: what runs where", "[partition]") {
  const Device cpu = Device::cpu(), gpu = Device::cuda(0);
  struct Row {
    const char* name;
    const char* text;
    std::vector<Device> wanted;
    const char* parts;
  };
  const Row rows[] = {
      {"a device alone",
       "graph(%x: f32[4]@cuda:0) { return exp(neg(%x)) }",
       {gpu},
       "one device | cuda:0: neg exp -> out0"},
      {"a number of the caller goes by value",
       "graph(%x: f32[4]@cuda:0, %s: f32[]) { return mul(%x, exp(%s)) }",
       {gpu},
       "one device | cuda:0: exp mul -> out0"},
      {"a number made of a tensor of the host crosses",
       "graph(%x: f32[4]@cuda:0, %h: f32[4]) { return mul(%x, sum(%h) {axes=[0]}) }",
       {gpu},
       "one device | cpu: sum -> v0 | cuda:0: v0 -> mul -> out0"},
      {"a number is made where it is wanted",
       "graph(%x: f32[4]@cuda:0, %s: f32[]) { return neg(%x), exp(%s), neg(%s) }",
       {gpu, cpu, gpu},
       "one device | cuda:0: neg neg -> out0 out2 | cpu: exp -> out1"},
      {"outputs share memory as the part's plan decides",
       "graph(%x: f32[4]@cuda:0) { %y = neg(%x); return %x, %y, %y }",
       {gpu, gpu, gpu},
       "one device | cuda:0: neg -> out0 out1 out2"},
      {"a number that chooses a branch on a device is the host's",
       "graph(%x: f32[4]@cuda:0, %s: i64[]) { return switch(add(%s, 1), %x) graph(%x: f32[4]) { return neg(%x) } "
       "graph(%x: f32[4]) { return exp(%x) } }",
       {gpu},
       "one device | cpu: full add -> v0 | cuda:0: v0 -> switch -> out0"},
      {"near miss: an argument of the caller is there already",
       "graph(%x: f32[4]@cuda:0, %s: i64[]) { return switch(%s, %x) graph(%x: f32[4]) { return neg(%x) } "
       "graph(%x: f32[4]) { return exp(%x) } }",
       {gpu},
       "one device | cuda:0: switch -> out0"},
      {"copies cut",
       "graph(%x: f32[4]) { return to(exp(to(neg(%x)) {device=cuda:0})) {device=cpu} }",
       {cpu},
       "parts | cpu: neg -> v0 | cuda:0: v1 -> exp -> v2 | copy v0 to cuda:0 | copy v2 to cpu"},
      {"near miss: a copy to where it is already cuts nothing",
       "graph(%x: f32[4]@cuda:0) { return exp(to(neg(%x)) {device=cuda:0}) }",
       {gpu},
       "one device | cuda:0: neg exp -> out0"},
      {"an output that is wanted elsewhere is copied",
       "graph(%x: f32[4]@cuda:0) { return neg(%x) }",
       {cpu},
       "parts | cuda:0: neg -> v0 | copy v0 to cpu"},
  };
  for (const Row& row : rows) {
    INFO(row.name);
    CHECK(text_of(cut(row.text, row.wanted)) == row.parts);
  }
}

TEST_CASE("partition: what needs none, and what is refused", "[partition]") {
  CHECK(is_on_host(parse_graph("graph(%x: f32[4]) { return exp(%x) }"), {}));
  CHECK_FALSE(is_on_host(parse_graph("graph(%x: f32[4]@cuda:0) { return exp(%x) }"), {}));
  CHECK_FALSE(is_on_host(parse_graph("graph(%x: f32[4]) { return to(%x) {device=cuda:0} }"), {}));
  const std::vector<Device> wanted{Device::cuda(0)};
  CHECK_FALSE(is_on_host(parse_graph("graph(%s: f32[]) { return exp(%s) }"), wanted));
  CHECK(has(message_of<DeviceError>([] { cut("graph(%x: f32[4]@cuda:0, %h: f32[4]) { return mul(%x, %h) }"); }),
            "its operands are on different devices:"));
  CHECK(has(message_of<DeviceError>([] { cut("graph(%x: f32[4]@cuda:0, %y: f32[4]@cuda:1) { return mul(%x, %y) }"); }),
            "its operands are on different devices:"));
}

TEST_CASE("partition: outputs are copies where a device's may view a number of the host", "[partition]") {
  const Device gpu = Device::cuda(0);
  const auto owns = [&](std::string_view text, std::size_t outputs) {
    const Partition cut_graph = cut(text, std::vector<Device>(outputs, gpu));
    for (const PartitionPart& part : cut_graph.parts)
      if (part.device == gpu) return part.owns_outputs;
    return false;
  };
  CHECK(owns("graph(%x: f32[4]@cuda:0, %s: f32[]) { return neg(%x), %s }", 2));
  CHECK_FALSE(owns("graph(%x: f32[4]@cuda:0, %s: f32[]) { return mul(%x, %s), %x }", 2));
}
