// A graph cut into parts that each run on one device or on the host. It is cut at its copies between devices
// (OpInfo::is_transfer), and at numbers (single elements) that the host computes for a device, which cross by value.
// What depends on nothing but numbers is computed wherever it is needed. Parts run one after the other; what one hands
// to another, or to the caller, is listed. Knows graphs, no kernels and no back ends.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/graph/graph.hpp>

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

SINTER_NAMESPACE_BEGIN

/// A value that lies in memory between parts.
struct PartitionValue {
  /// An input of the graph; a constant of it, which may have to be moved; a result of a part; a copy of another value.
  enum class Source : std::uint8_t { input, constant, part, copy };
  Source source = Source::part;
  std::int32_t from = -1;    // number of the input, part or value
  Type type;                 // with the device where it lies
  Location where{};          // the user's line that asks for it
  std::int32_t output = -1;  // the graph's output in whose memory it lies, or -1
  Ref<TensorImpl> constant{};
};

struct PartitionPart {
  Device device;
  Graph graph;                        // inputs: all of the whole graph's, then `inputs`
  std::vector<std::int32_t> inputs;   // numbers of values
  std::vector<std::int32_t> outputs;  // numbers of values
  bool owns_outputs = true;           // none may share memory with an input, a constant or another one
  bool is_empty() const { return graph.outputs().empty() && graph.nodes().size() == graph.inputs().size(); }
};

struct Partition {
  std::vector<PartitionValue> values;
  std::vector<PartitionPart> parts;   // in the order in which they run
  std::vector<std::int32_t> outputs;  // numbers of values
  /// One part on a device, and at most one on the host, which hands it numbers only. Then each output is a value of its
  /// own, whatever it shares memory with, and no value is a copy.
  bool is_one_device = false;
};

struct PartitionOptions {
  /// Where outputs are wanted; empty: where their types say. Passes do not keep the devices of values that depend on
  /// nothing but numbers.
  std::span<const Device> wanted;
  bool own_outputs = false;                              // none shares memory with an input, a constant or another one
  std::function<bool(std::int32_t)> is_dense = nullptr;  // of an input; null: all are
};

/// Throws DeviceError where an operation has operands on different devices.
Partition partition(const Graph& graph, const PartitionOptions& options);

SINTER_NAMESPACE_END
