// Fusion: which fusion nodes share a kernel, decided by the memory traffic that sharing saves. A group's members are
// walked over one space of axes, each member once per point; cheap producers may also be recomputed inside several
// groups. Knows graphs and limits, no back ends.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/kernel/fusion_node.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

SINTER_NAMESPACE_BEGIN

/// A fusion node of a group and how the group's axes address it. For reductions the map is that of the operand, for
/// place that of the value, for all others that of the node.
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
  bool has_reduction = false;
  bool is_multipass = false;  // something varies over the reduced axes and depends on a reduction over them
  bool is_host = false;       // no kernel expresses it
};

struct FusionLimits {
  int max_operands = 24;
  int max_accesses = 48;
  int max_body = 256;
  int max_reduced_axes = 2;              // after neighbours have merged
  bool random = true;                    // false: random bits stay in kernels of their own
  std::int64_t max_row = 1 << 16;        // elements of a row that is walked several times
  std::int64_t prologue_operations = 0;  // of the largest product whose operands are computed in its kernel; 0: none is
};

struct FusionOptions {
  bool fuse = true;  // false: one kernel per node
  FusionLimits limits;
};

struct Fusion {
  std::vector<FusionGroup> groups;
  std::vector<std::int32_t> group_of;  // per node; -1: not computed by itself
  std::vector<bool> is_stored;         // per node: written to memory
  /// One line per group: its kind and its members' ops.
  std::string text(const FusionGraph& nodes) const;
};

/// Groups the nodes. Marks those that consumers recompute (FusionNode::is_inlined).
Fusion fuse(FusionGraph& nodes, const FusionOptions& options);

SINTER_NAMESPACE_END
