// Of a graph that runs in two parts (forward and backward, before and after a point of a schedule): which values of
// the early part are kept for the late one, and which it computes again. A minimum cut decides between the bytes that
// are kept and the work that is repeated (as AOTAutograd's min-cut partitioner; Chen et al. 2016, arXiv 1604.06174, for
// the idea of trading work for memory). Knows what operations cost, no schedules and no kernels.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/graph/graph.hpp>

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

SINTER_NAMESPACE_BEGIN

/// Costs are in sixteenths of the time that a byte takes to memory and back into a register.
inline constexpr std::int64_t cost_of_byte = 16;
/// The cost of what must not be done.
inline constexpr std::int64_t cost_unlimited = std::int64_t{1} << 60;

/// May products and calls of sub-graphs be computed again?
enum class Products : bool { kept, recomputed };

/// What computing the node's results once more costs; symbols count as their hints. Nothing for views and literals,
/// unlimited for what has effects, runs on the host or writes into memory.
std::int64_t recompute_cost(const Graph& graph, const Node& node, Products products);
std::int64_t bytes_of(const Graph& graph, Value v);

namespace passes_detail {
/// What the node must read when it is computed at a later time: a barrier then waits for something else.
std::span<const Value> again_operands(const Node& node);
}  // namespace passes_detail

struct KeepOrRecompute {
  const Graph& graph;
  std::span<const std::uint8_t> is_early;                    // per node; leaves are there in both parts at no cost
  std::span<const std::uint8_t> is_late;                     // nodes of the late part, which ask for their operands
  std::function<std::int64_t(Value)> keep_cost;              // of a value of the early part
  std::function<std::int64_t(std::int32_t)> recompute_cost;  // of a node of the early part
};
/// What happens to a node of the early part: the late part needs nothing of it, its results are kept, or it is run
/// again.
enum class Choice : std::uint8_t { unneeded, kept, recomputed };
/// Per node. All that can be kept is kept where no choice has a finite cost.
std::vector<Choice> choose_kept(const KeepOrRecompute& question);

SINTER_NAMESPACE_END
