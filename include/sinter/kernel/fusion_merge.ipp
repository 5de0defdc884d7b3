// GroupMerger: adds nodes to a group if one walk over the group's axes can compute them. Structure only; whether it
// pays and whether it would close a cycle is decided in fusion.ipp.
#pragma once

#include <sinter/base/index.hpp>
#include <sinter/kernel/fusion.hpp>
#include <sinter/kernel/fusion_node_views.ipp>
#include <sinter/ops/cumulative.hpp>

#include <algorithm>

SINTER_NAMESPACE_BEGIN
namespace kernel_detail {

struct UseEdge {
  std::int32_t user = -1;
  std::int32_t operand = -1;  // -1: the buffer that a place takes over
};

/// A value in memory that both sides of a merge read: its index map in the group that grows.
struct SharedRead {
  std::int32_t node = -1;
  IndexMap map;
};

inline const FusionMember* find_member(const FusionGroup& group, int node) {
  for (const FusionMember& member : group.members)
    if (member.node == node) return &member;
  return nullptr;
}

inline std::uint64_t leaf_mask(const Space& space, bool is_reduced) {
  std::uint64_t mask = 0;
  for (int a = 0; a < space.size(); ++a)
    if (space[a].is_leaf() && space[a].is_reduced == is_reduced) mask |= std::uint64_t{1} << a;
  return mask;
}

class GroupMerger {
 public:
  explicit GroupMerger(const FusionGraph& nodes) : nodes_(nodes), users_(as_index(nodes.size())) {
    for (int w = 0; w < nodes.size(); ++w) {
      if (!is_computed(nodes[w].kind)) continue;
      for (std::size_t k = 0; k < nodes[w].inputs.size(); ++k)
        users_[as_index(nodes.base_of(nodes[w].inputs[k]))].push_back({w, static_cast<std::int32_t>(k)});
      if (nodes[w].base >= 0) users_[as_index(nodes.base_of(nodes[w].base))].push_back({w, -1});
    }
  }

  const SmallVector<UseEdge, 4>& users(int node) const { return users_[as_index(node)]; }

  FusionGroup alone(int node) const;
  /// Adds the nodes, or leaves the group in an unspecified state and returns false.
  bool extend(FusionGroup& group, std::span<const std::int32_t> added, const SharedRead* shared) const;
  /// Index map of what operand `edge` is a view of, from the user's; through views that keep every element.
  std::optional<IndexMap> walked_operand(Space& space, const FusionMember& user, int operand) const;
  /// Index map of an operand of a member; an operand of a contraction runs along the contracted axis.
  IndexMap operand_map(const FusionGroup& group, const FusionMember& member, int operand) const;
  /// Can the value be read at `map`, from memory or by computing it in place?
  bool can_read(Space& space, const FusionGroup& group, int node, const IndexMap& map) const;
  IndexMap result_of(const FusionMember& member) const {
    return nodes_[member.node].kind == NodeKind::reduce ? nodes_.reduced_map(member.node, member.map()) : member.map();
  }

 private:
  enum class Outcome { done, later, impossible };
  Outcome assign(FusionGroup& group, int node, const SharedRead* shared) const;
  bool collect_from_operands(FusionGroup& group, int node, const SharedRead* shared, IndexMap& partial,
                             bool& any) const;
  bool collect_from_users(FusionGroup& group, int node, IndexMap& partial, bool& any) const;
  bool unify(const Space& space, IndexMap& partial, const IndexMap& more, bool& any) const;
  bool fill_unknown(FusionGroup& group, int node, IndexMap& map) const;
  bool mark_reduced(FusionGroup& group, int node, const IndexMap& map) const;
  bool operands_are_readable(FusionGroup& group, const FusionMember& member, bool only_inlined) const;
  void mark_passes(FusionGroup& group) const;
  const Shape& walked_shape(int node) const {
    const NodeKind kind = nodes_[node].kind;
    if (kind == NodeKind::scatter) return nodes_[nodes_[node].inputs[1]].shape;
    return kind == NodeKind::reduce || kind == NodeKind::place ? nodes_[nodes_[node].inputs[0]].shape
                                                               : nodes_[node].shape;
  }

  const FusionGraph& nodes_;
  std::vector<SmallVector<UseEdge, 4>> users_;
};

SINTER_DECL FusionGroup GroupMerger::alone(int node) const {
  FusionGroup group;
  const FusionNode& it = nodes_[node];
  FusionMember member;
  member.node = node;
  member.shared_map = std::make_shared<const IndexMap>(fresh_map(group.space, walked_shape(node)));
  if (it.kind == NodeKind::contract) {
    const Shape& left = nodes_[it.inputs[0]].shape;
    group.contraction = node;
    group.contracted_axis = group.space.add(left[left.rank() - 1], true);
  } else if (it.kind == NodeKind::reduce || it.kind == NodeKind::scan) {
    mark_reduced(group, node, member.map());
    group.has_reduction = true;
    group.has_scan = it.kind == NodeKind::scan;
    group.is_reversed = group.has_scan && nodes_.graph_node(node)->attrs[ops_detail::is_reversed];
  }
  group.is_host = is_host(it.kind);
  if (!group.is_host)
    operands_are_readable(group, member, false);  // they are; this splits the axes that they need split
  group.members.push_back(std::move(member));
  return group;
}

SINTER_DECL IndexMap GroupMerger::operand_map(const FusionGroup& group, const FusionMember& member, int operand) const {
  if (nodes_[member.node].kind != NodeKind::contract) return nodes_.operand_map(member.node, operand, member.map());
  IndexMap map = member.map();
  map[map.rank - (operand == 0 ? 1 : 2)] = AxisIndex::of(group.contracted_axis);
  return map;
}

SINTER_DECL std::optional<IndexMap> GroupMerger::walked_operand(Space& space, const FusionMember& user,
                                                                int operand) const {
  const FusionNode& node = nodes_[user.node];
  if (operand < 0 || node.kind == NodeKind::contract || is_host(node.kind) ||
      (node.kind == NodeKind::take && operand == 0))
    return std::nullopt;
  IndexMap map = nodes_.operand_map(user.node, operand, user.map());
  int at = node.inputs[as_index(operand)];
  while (is_view(nodes_[at].kind)) {
    if (nodes_[at].kind == NodeKind::slice || nodes_[at].kind == NodeKind::windows) return std::nullopt;
    auto next = nodes_.input_of_view(space, at, map);
    if (!next) return std::nullopt;
    map = *next;
    at = nodes_[at].inputs[0];
  }
  return map;
}

SINTER_DECL bool GroupMerger::unify(const Space& space, IndexMap& partial, const IndexMap& more, bool& any) const {
  if (!any) {
    partial = more;
    any = true;
    return true;
  }
  for (int i = 0; i < partial.rank; ++i) {
    if (!more[i].is_known) continue;
    if (!partial[i].is_known) partial[i] = more[i];
    else if (!equal_index(space, partial[i], more[i])) return false;
  }
  return true;
}

SINTER_DECL bool GroupMerger::collect_from_operands(FusionGroup& group, int node, const SharedRead* shared,
                                                    IndexMap& partial, bool& any) const {
  const FusionNode& it = nodes_[node];
  if (it.base >= 0 && find_member(group, nodes_.base_of(it.base)) != nullptr) return false;
  for (std::size_t k = 0; k < it.inputs.size(); ++k) {
    SmallVector<std::int32_t, 8> views;
    int base = it.inputs[k];
    for (; is_view(nodes_[base].kind); base = nodes_[base].inputs[0]) views.push_back(base);
    const FusionMember* member = find_member(group, base);
    const bool is_shared = shared != nullptr && shared->node == base;
    if (member == nullptr && !is_shared) continue;
    if (member != nullptr && writes_part(nodes_[base].kind)) return false;
    std::optional<IndexMap> map = member != nullptr ? result_of(*member) : shared->map;
    while (map && !views.empty()) {
      map = nodes_.view_of_input(group.space, views.back(), *map);
      views.pop_back();
    }
    if (map) map = nodes_.result_map(node, static_cast<int>(k), *map);
    if (!map) {
      if (member == nullptr) continue;  // reads the shared value in some other way as well
      return false;
    }
    if (!unify(group.space, partial, *map, any) && member != nullptr) return false;
  }
  return true;
}

SINTER_DECL bool GroupMerger::collect_from_users(FusionGroup& group, int node, IndexMap& partial, bool& any) const {
  for (const UseEdge& edge : users(node)) {
    const FusionMember* user = find_member(group, edge.user);
    if (user == nullptr) continue;
    if (writes_part(nodes_[node].kind)) return false;
    auto map = walked_operand(group.space, *user, edge.operand);
    if (!map) return false;
    if (nodes_[node].kind == NodeKind::reduce) {
      const Attrs& attrs = nodes_.graph_node(node)->attrs;
      IndexMap operand;
      operand.rank = walked_shape(node).rank();
      for (int i = 0, j = 0; i < operand.rank; ++i) {
        const bool is_reduced = is_reduced_axis(attrs, i);
        operand[i] = is_reduced ? AxisIndex::unknown() : (*map)[j];
        j += !is_reduced || attrs.keepdim;
      }
      map = operand;
    }
    if (!unify(group.space, partial, *map, any)) return false;
  }
  return true;
}

/// Axes that a broadcast left open run along the group's reduced axes of that extent; a reduction may bring new ones.
SINTER_DECL bool GroupMerger::fill_unknown(FusionGroup& group, int node, IndexMap& map) const {
  const Shape& shape = walked_shape(node);
  const bool is_reduction = nodes_[node].kind == NodeKind::reduce;
  std::uint64_t used = leaves_of(group.space, map);
  for (int i = 0; i < map.rank; ++i) {
    if (map[i].is_known) continue;
    if (is_number(shape[i], 1)) {
      map[i] = AxisIndex{};
      continue;
    }
    int found = -1;
    const bool is_kept = is_reduction && !is_reduced_axis(nodes_.graph_node(node)->attrs, i);
    if (group.contraction < 0 && !is_kept) {
      for (int a = 0; a < group.space.size() && found < 0; ++a) {
        if (!group.space[a].is_reduced || !identical(group.space[a].extent, shape[i])) continue;
        IndexMap one;
        one.push_back(AxisIndex::of(a));
        if ((leaves_of(group.space, one) & used) == 0) found = a;
      }
      if (found < 0 && is_reduction && !group.has_reduction) found = group.space.add(shape[i], true);
    }
    if (found < 0) return false;
    map[i] = AxisIndex::of(found);
    used |= leaves_of(group.space, map);
  }
  return true;
}

SINTER_DECL bool GroupMerger::mark_reduced(FusionGroup& group, int node, const IndexMap& map) const {
  const Attrs& attrs = nodes_.graph_node(node)->attrs;
  const Shape& shape = walked_shape(node);
  std::uint64_t reduced = 0, kept = 0;
  for (int i = 0; i < map.rank; ++i) {
    IndexMap one;
    one.push_back(map[i]);
    const bool is_reduced = is_reduced_axis(attrs, i);
    (is_reduced ? reduced : kept) |= leaves_of(group.space, one);
    if (is_reduced && !is_number(shape[i], 1) && !digits_of(group.space, map[i], shape[i])) return false;
  }
  if ((reduced & kept) != 0) return false;
  if (group.has_reduction) return reduced == leaf_mask(group.space, true);
  for (int a = 0; a < group.space.size(); ++a)
    if (reduced >> a & 1) group.space[a].is_reduced = true;
  // An axis above split leaves counts as reduced when all of them are.
  for (int a = group.space.size() - 1; a >= 0; --a) {
    SpaceAxis& axis = group.space[a];
    if (!axis.is_leaf()) axis.is_reduced = group.space[axis.outer].is_reduced && group.space[axis.inner].is_reduced;
  }
  group.has_reduction = true;
  return true;
}

SINTER_DECL GroupMerger::Outcome GroupMerger::assign(FusionGroup& group, int node, const SharedRead* shared) const {
  if (nodes_[node].kind == NodeKind::contract || is_host(nodes_[node].kind)) return Outcome::impossible;
  IndexMap map;
  bool any = false;
  if (!collect_from_operands(group, node, shared, map, any) || !collect_from_users(group, node, map, any))
    return Outcome::impossible;
  if (!any) return Outcome::later;
  if (!fill_unknown(group, node, map) || !enumerates(group.space, map, walked_shape(node))) return Outcome::impossible;
  const bool has_axes = nodes_[node].kind == NodeKind::reduce || nodes_[node].kind == NodeKind::scan;
  if (has_axes && (group.contraction >= 0 || !mark_reduced(group, node, map))) return Outcome::impossible;
  FusionMember member;
  member.node = node;
  member.shared_map = std::make_shared<const IndexMap>(map);
  if (!operands_are_readable(group, member, false)) return Outcome::impossible;
  group.members.push_back(std::move(member));
  return Outcome::done;
}

SINTER_DECL bool GroupMerger::can_read(Space& space, const FusionGroup& group, int node, const IndexMap& given) const {
  IndexMap map = given;
  const int base = nodes_.base_of(node);
  const FusionMember* member = find_member(group, base);
  const bool is_made_here = is_generator(nodes_[base].kind) || nodes_[base].is_inlined;
  if (!is_made_here && member == nullptr) return nodes_.locate(space, node, map).has_value();
  if (member != nullptr && writes_part(nodes_[base].kind))
    return false;  // it walks the part that it writes, not the whole
  while (node != base) {
    auto next = nodes_.input_of_view(space, node, map);
    if (!next) return false;
    map = *next;
    node = nodes_[node].inputs[0];
  }
  if (is_generator(nodes_[base].kind) || (member != nullptr && equal_map(space, result_of(*member), map))) return true;
  if (!is_made_here) return false;  // a member, but not made at this place
  for (std::size_t k = 0; k < nodes_[base].inputs.size(); ++k)
    if (!can_read(space, group, nodes_[base].inputs[k], nodes_.operand_map(base, static_cast<int>(k), map)))
      return false;
  return true;
}

SINTER_DECL bool GroupMerger::operands_are_readable(FusionGroup& group, const FusionMember& member,
                                                    bool only_inlined) const {
  const FusionNode& node = nodes_[member.node];
  for (std::size_t k = 0; k < node.inputs.size(); ++k) {
    if (node.kind == NodeKind::take && k == 0) continue;
    const bool is_inlined = nodes_[nodes_.base_of(node.inputs[k])].is_inlined;
    if ((node.kind == NodeKind::contract || only_inlined) && !is_inlined) continue;
    if (!can_read(group.space, group, node.inputs[k], operand_map(group, member, static_cast<int>(k)))) return false;
  }
  return true;
}

SINTER_DECL void GroupMerger::mark_passes(FusionGroup& group) const {
  const std::uint64_t reduced = leaf_mask(group.space, true);
  group.is_multipass = false;
  for (FusionMember& member : group.members) {
    member.is_after_reduction = false;
    for (std::int32_t input : nodes_[member.node].inputs) {
      const FusionMember* from = find_member(group, nodes_.base_of(input));
      if (from != nullptr && (from->is_after_reduction || nodes_[from->node].kind == NodeKind::reduce))
        member.is_after_reduction = true;
    }
    if (member.is_after_reduction && (leaves_of(group.space, member.map()) & reduced) != 0) group.is_multipass = true;
  }
}

SINTER_DECL bool GroupMerger::extend(FusionGroup& group, std::span<const std::int32_t> added,
                                     const SharedRead* shared) const {
  SmallVector<std::int32_t, 16> left(added);
  while (!left.empty()) {
    SmallVector<std::int32_t, 16> later;
    for (std::int32_t node : left) {
      switch (assign(group, node, shared)) {
        case Outcome::done: break;
        case Outcome::later: later.push_back(node); break;
        case Outcome::impossible: return false;
      }
    }
    if (later.size() == left.size()) return false;
    left = later;
  }
  if (group.space.leaf_count() > max_rank) return false;
  // A member is computed once per point of the parallel axes, so it must vary over all of them.
  const std::uint64_t parallel = leaf_mask(group.space, false);
  for (const FusionMember& member : group.members)
    if ((parallel & ~leaves_of(group.space, result_of(member))) != 0) return false;
  // What is recomputed inside the group may read members that came in later.
  for (const FusionMember& member : group.members)
    if (!operands_are_readable(group, member, true)) return false;
  std::sort(group.members.begin(), group.members.end(),
            [](const FusionMember& a, const FusionMember& b) { return a.node < b.node; });
  if (group.contraction < 0 && group.has_reduction) mark_passes(group);
  return true;
}

}  // namespace kernel_detail
SINTER_NAMESPACE_END
