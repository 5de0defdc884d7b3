// A graph whose values live on several devices, cut into parts that each run on one. The cuts are its copies between
// devices (OpInfo::is_transfer), and numbers that the host computes for a device. Parts run one after the other; what
// one hands to another, or to the caller, is listed. Knows graphs, no kernels and no back ends.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/graph/graph.hpp>

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

SINTER_NAMESPACE_BEGIN

/// A value that lies in memory between parts.
struct StageValue {
  /// An input of the graph; a constant of it, which may have to be moved; a result of a part; a copy of another value.
  enum class Source : std::uint8_t { input, constant, part, copy };
  Source source = Source::part;
  std::int32_t from = -1;    // number of the input, part or value
  Type type;                 // with the device where it lies
  Location where{};          // the user's line that asks for it
  std::int32_t output = -1;  // the graph's output in whose memory it lies, or -1
  Ref<TensorImpl> constant{};
};

struct StagePart {
  Device device;
  Graph graph;
  std::vector<std::int32_t> inputs;   // numbers of values; ~i stands for input i of the whole graph, as it is
  std::vector<std::int32_t> outputs;  // numbers of values
  bool is_empty() const { return graph.outputs().empty() && graph.nodes().empty(); }
};

struct Stages {
  std::vector<StageValue> values;
  std::vector<StagePart> parts;       // in the order in which they run
  std::vector<std::int32_t> outputs;  // numbers of values
};

struct StageOptions {
  std::span<const Device> wanted;                        // where outputs are wanted; empty: where their types say
  bool own_outputs = false;                              // none shares memory with an input, a constant or another one
  std::function<bool(std::int32_t)> is_dense = nullptr;  // of an input; null: all are
};

/// A device other than the host that the graph needs, or the host.
Device first_device_of(const Graph& graph, std::span<const Device> wanted);
/// Does the graph copy between devices, or need more than one beside the host?
bool needs_stages(const Graph& graph, std::span<const Device> wanted);
/// Throws DeviceError where an operation has operands on different devices.
Stages cut_into_stages(const Graph& graph, const StageOptions& options);

SINTER_NAMESPACE_END
