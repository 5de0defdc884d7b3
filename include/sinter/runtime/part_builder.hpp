// The graph of one part of a partition: what is computed there, with inputs for what comes from outside.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/graph/builder.hpp>
#include <sinter/runtime/partition.hpp>

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <utility>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace runtime_detail {

class PartBuilder {
 public:
  /// `resolve` gives the value in whose place another one stands; `imported` the number of the value that crosses into
  /// the part, or `here`, or `elsewhere`: in no memory. Numbers are added to the inputs of `part`.
  PartBuilder(const Graph& graph, const Partition& partition, PartitionPart& part, std::function<Value(Value)> resolve,
              std::function<std::int32_t(Value)> imported);

  Value copy(Value wanted);
  Graph finish(std::span<const Value> outputs) { return builder_.finish(outputs); }

  static constexpr std::int32_t here = -1, elsewhere = -2;

 private:
  Value find(Value v);
  Value token();

  const Graph& graph_;
  const Partition& partition_;
  PartitionPart& part_;
  std::function<Value(Value)> resolve_;
  std::function<std::int32_t(Value)> imported_;
  GraphBuilder builder_;
  std::vector<Value> made_;
  std::map<Value, Value> imports_;
  Value token_;
};

}  // namespace runtime_detail
SINTER_NAMESPACE_END
