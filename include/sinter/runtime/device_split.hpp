// A graph whose values live on one device and the host, cut in two: what the device computes, and what the host
// computes before it. Numbers (single elements on the host) cross over by value; nothing comes back within a graph.
// Knows graphs, no kernels and no back ends.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/graph/graph.hpp>

#include <cstdint>
#include <span>
#include <vector>

SINTER_NAMESPACE_BEGIN

/// Where the graph's outputs are wanted; `wanted` may be empty: where their types say. Values that depend on nothing
/// but numbers can be made anywhere, and passes do not keep their types' devices.
/// The one device other than the CPU that the graph needs, or the CPU. Throws DeviceError when there are two.
Device device_of(const Graph& graph, std::span<const Device> wanted);

struct DeviceSplit {
  Graph device;                              // inputs: all of the graph's, then one for each number
  Graph host;                                // inputs: all of the graph's; outputs: host_outputs, then the numbers
  std::vector<std::int32_t> device_outputs;  // of the graph, in the order of device.outputs()
  std::vector<std::int32_t> host_outputs;    // likewise
  std::int32_t numbers = 0;
  bool copies_outputs = false;  // an output on the device may view a number, which lies on the host
};

/// Throws DeviceError where the device would need a tensor from the host.
DeviceSplit split_by_device(const Graph& graph, std::span<const Device> wanted, Device device);

/// The body of control flow that runs on a device, where all that it is given lies: numbers, too.
Graph with_inputs_on(const Graph& body, Device device);

SINTER_NAMESPACE_END
