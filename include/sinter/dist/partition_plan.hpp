// How a graph is divided over a mesh: the shares of each operand and result, chosen by what it costs, and the
// collectives between them. Records nothing and needs no ranks, so that a plan for many can be read on one.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/dist/engine.hpp>
#include <sinter/dist/layout.hpp>
#include <sinter/dist/partition_report.hpp>
#include <sinter/graph/graph.hpp>

#include <utility>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace dist {

namespace partition_detail {
/// The shares of the operands and results of a node along all axes of the mesh.
struct NodeShares {
  std::vector<Shares> in, out;
};
struct PartitionPlan {
  Graph graph;  // of whole values
  Mesh mesh;
  std::vector<NodeShares> nodes;
  std::vector<Shares> outputs;  // as they must lie

  const Shares& of(Value value) const { return nodes[as_index(value.node)].out[as_index(value.result)]; }
};

/// A step from one way to lie to another.
struct Move {
  CollectiveKind kind = CollectiveKind::all_reduce;  // all_reduce, reduce_scatter, all_gather, all_to_all, shard
  std::vector<std::size_t> mesh_axes{};
  Reduce reduce = Reduce::sum;
  int axis = 0, split_axis = 0;
};
std::vector<Move> moves_between(const Shares& from, const Shares& to);
/// What a step leaves along its axes of the mesh.
Share share_after(const Move& move);
/// What a rank has of a value of this shape; rank 0 has as much as any.
Shape part_of_shape(const Shape& shape, const Shares& shares, const Mesh& mesh, int rank = 0);
/// This thread's rank, by which parts of unequal sizes are told.
int rank_in(const Mesh& mesh);
/// What this rank has of it. Where other ranks have other extents, what is traced serves this rank alone.
Shape own_part_of_shape(const Shape& shape, const Shares& shares, const Mesh& mesh);
Axis axis_of(const Move& move, const Mesh& mesh);

/// Small outputs that are sums of the ranks are added in one collective: lists of their numbers. Others go alone.
std::vector<std::vector<std::size_t>> joined_outputs(const PartitionPlan& plan);
/// `graph` with nothing in it that could be taken apart further before it is divided.
Graph prepare_partition(const Graph& graph);
PartitionReport report_of(const PartitionPlan& plan, const MachineCosts& costs);
/// Work and bytes over links, in seconds: what plans are compared by.
double seconds_of(const PartitionPlan& plan, const MachineCosts& costs);
/// One line of the log for each collective, which says what it is for.
void log_plan(const PartitionPlan& plan);
}  // namespace partition_detail

}  // namespace dist
SINTER_NAMESPACE_END
