// Devices without a device: what is refused and how, the default device, and how graphs carry devices.
#include "catch.hpp"

#include <sinter/graph/graph.hpp>
#include <sinter/graph/parse.hpp>
#include <sinter/sinter.hpp>

using namespace sinter;
using Catch::Contains;

namespace {
/// A device that no machine of this test has.
const Device far_away = Device::cuda(200);
}  // namespace

TEST_CASE("a device that is not there is refused where it is named, with the user's line") {
  const Tensor x = ones({2, 3});
  CHECK_THROWS_AS(x.to(far_away), DeviceError);
  CHECK_THROWS_WITH(x.to(far_away), Contains("cuda:200") && Contains("device_test.cpp"));
  CHECK_THROWS_AS(zeros({4}, {.device = far_away}), DeviceError);
  CHECK_THROWS_AS(arange(4, {.device = far_away}), DeviceError);
  CHECK_THROWS_AS(randn({4}, {.device = far_away}), DeviceError);
  CHECK_THROWS_AS(memory_stats(far_away), DeviceError);
  CHECK_THROWS_AS(set_default_device(far_away), DeviceError);
  CHECK(default_device() == Device::cpu());
  float data[2] = {1, 2};
  CHECK_THROWS_AS(from_blob(nullptr, data, {2}, DType::f32, far_away), DeviceError);
}

TEST_CASE("moving to the CPU what is there already gives the same value") {
  const Tensor x = tensor({1.f, 2.f});
  CHECK(is_same(x.to(Device::cpu()), x));
  CHECK(to_vector<float>(from_blob(nullptr, x.data<float>().data(), {2}, DType::f32, Device::cpu())) ==
        std::vector<float>{1, 2});
  set_default_device(Device::cpu());
  CHECK(ones({2}).device() == Device::cpu());
}

TEST_CASE("graphs print, parse and compare the device of what is made from nothing") {
  const std::string text =
      "graph(%0: f32[4]@cuda:1) {\n  %1: f32[4]@cuda:1 = full() {shape=[4], value=2, dtype=f32, device=cuda:1}\n"
      "  %2: f32[4]@cuda:1 = add(%0, %1)\n  return %2\n}\n";
  const Graph graph = parse_graph(text);
  CHECK(parse_graph(graph.text()).text() == graph.text());
  CHECK_THAT(graph.text(), Contains("device=cuda:1"));
  CHECK_THROWS_WITH(
      parse_graph("graph() {\n  %1: f32[4] = full() {shape=[4], value=2, dtype=f32, device=tpu}\n  return %1\n}\n"),
      Contains("no device"));
}

TEST_CASE("numbers on the CPU join operands on another device in shape rules") {
  const Graph graph =
      parse_graph("graph(%0: f32[4]@cuda:0, %1: f32[]) {\n  %2: f32[4]@cuda:0 = mul(%0, %1)\n  return %2\n}\n");
  CHECK(graph.type(graph.outputs()[0]).device == Device::cuda(0));
}
