// Fusion: which fusion nodes share a kernel, decided by the memory traffic that sharing saves. A group's members are
// walked over one space of axes, each member once per point; cheap producers may also be recomputed inside several
// groups. Knows graphs and limits, no back ends.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/kernel/fusion_node.hpp>
#include <sinter/kernel/limits.hpp>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

SINTER_NAMESPACE_BEGIN

/// A fusion node of a group and how the group's axes address it. For reductions the map is that of the operand, for
/// place and scatter that of the value, for all others that of the node.
struct FusionMember {
  std::int32_t node = -1;
  std::shared_ptr<const IndexMap> shared_map;  // groups are copied to try merges
  const IndexMap& map() const { return *shared_map; }
  bool is_after_reduction = false;  // depends on a reduction of this group
};

struct FusionGroup {
  Space space;
  std::vector<FusionMember> members;  // in topological order
  std::int32_t contraction = -1;      // the node, if there is one
  std::int32_t contracted_axis = -1;
  bool has_reduction = false;  // or a scan: it has reduced axes
  bool has_scan = false;       // and then no reduction
  bool is_reversed = false;    // its scans begin at the end of their axis
  bool is_multipass = false;   // something varies over the reduced axes and depends on a reduction over them
  bool is_host = false;        // no kernel expresses it
  std::int32_t taker = 0;      // number of the first back end that takes it; behind the last: none does
};

struct FusionOptions {
  bool fuse = true;                // false: one kernel per node
  bool epilogues = true;           // false: a product takes in nothing that reads its result
  std::span<const Limits> limits;  // of the back ends, in the order in which they are asked; at least one
  bool recompute = true;           // false: no value is computed again by its readers
  std::span<const std::int32_t> kept = {}, cut = {};  // graph nodes: not computed again; joined by no reader of theirs
};

struct Fusion {
  std::vector<FusionGroup> groups;
  std::vector<std::int32_t> group_of;  // per node; -1: not computed by itself
  std::vector<bool> is_stored;         // per node: written to memory
  /// One line per group: its kind and its members' ops.
  std::string text(const FusionGraph& nodes) const;
};

/// A value that one group stores and another one reads, and why the two are not one.
struct FusionBorder {
  std::int32_t from = -1, to = -1;  // groups
  std::int32_t node = -1;           // the value
  std::string why;
};
/// The borders of what fuse() gave for these nodes.
std::vector<FusionBorder> borders_of(FusionGraph& nodes, const Fusion& fusion, const FusionOptions& options);

/// Groups the nodes. Marks those that consumers recompute (FusionNode::is_inlined).
Fusion fuse(FusionGraph& nodes, const FusionOptions& options);

SINTER_NAMESPACE_END
