// The choice of shares, and what it weighs: the work of a node and the bytes of a collective.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/dist/partition_plan.hpp>
#include <sinter/dist/partition_rules.hpp>

#include <vector>

SINTER_NAMESPACE_BEGIN
namespace dist::partition_detail {

/// Memory moved and operations done by a node on values of these shapes.
struct NodeWork {
  double bytes = 0, operations = 0;
  double seconds(const MachineCosts& costs) const {
    return bytes / costs.memory_bytes_per_second + operations / costs.operations_per_second;
  }
};
NodeWork work_of(const Graph& graph, const NodeOnAxis& node);
/// Bytes that a rank sends where a value of `bytes` bytes goes from one share to another among `size` ranks.
double sent_bytes(double bytes, Share from, Share to, int size);

/// `inputs`: how those of the graph lie. `outputs`: how its outputs must.
PartitionPlan plan_partition(const Graph& graph, const Mesh& mesh, const std::vector<Shares>& inputs,
                             const std::vector<Shares>& outputs, const MachineCosts& costs);

}  // namespace dist::partition_detail
SINTER_NAMESPACE_END
