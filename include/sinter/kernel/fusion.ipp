// The policy of fusion, in four steps, greedy in each:
//   1. nodes in topological order join the groups of their producers, those with most traffic first;
//   2. elementwise groups that products read go into these, where that pays (fusion_prologue.ipp);
//   3. cheap values that another group reads are recomputed there when that moves fewer bytes;
//   4. groups that walk the same domain and read the same value merge (horizontal fusion).
// Every merge is checked for cycles and the back end's limits.
#pragma once

#include <sinter/kernel/fusion.hpp>

#include <sinter/base/sort_few.hpp>
#include <sinter/kernel/fusion_merge.ipp>
#include <sinter/ops/scalar.hpp>

#include <algorithm>
#include <bit>

SINTER_NAMESPACE_BEGIN
namespace kernel_detail {

/// Elementwise values that only products read, and what computing them in place takes.
struct Prologue {
  SmallVector<std::int32_t, 16> values, inner, reads;  // stored so far; to be inlined; memory
  SmallVector<std::int32_t, 8> readers;                // groups
};

inline constexpr int most_guarded_operations = 24;  // of what is computed again in place of patches

class Fuser {
 public:
  Fuser(FusionGraph& nodes, const FusionOptions& options) : nodes_(nodes), options_(options), merger_(nodes) {
    result_.group_of.assign(as_index(nodes.size()), -1);
  }
  Fusion run();
  std::vector<FusionBorder> borders(const Fusion& fusion);  // this and two more: fusion_borders.ipp

 private:
  std::string why_refused(FusionGroup& group) const;
  std::string why_apart(int a, int b);
  void join_producers(int node);
  bool join(int a, int b, const SharedRead* shared);
  bool is_acceptable(FusionGroup& group) const;
  bool is_kept(int node) const;
  bool reads_cut(const FusionGroup& group) const;
  template <class Visit>
  void for_each_read(FusionGroup& group, Visit&& visit) const;
  int reduced_axes(FusionGroup& group) const;
  bool row_pays(FusionGroup& group) const;
  bool fits(const FusionGroup& group) const;
  bool accesses_fit(const FusionGroup& group, int operands) const;
  bool reads_patch(int input) const;
  bool reads_position(int input) const;
  bool patches_fit(const FusionGroup& group) const;
  const Limits& limits_of(const FusionGroup& group) const;
  bool computes(const Limits& limits, int node) const;
  bool folds(const Limits& limits, int node) const;
  std::int32_t first_taker(int node) const;
  bool choose_taker(FusionGroup& merged, const FusionGroup& left, const FusionGroup& right) const;
  void store_what_not_all_compute();
  bool depends_on(const FusionGroup& group, int a, int b);
  void raise_horizon(int id, std::int32_t reach);
  void absorb_prologues();
  bool absorb(int home);
  bool collect_prologue(int node, int home, Prologue& prologue) const;
  bool weigh_prologue(const Prologue& prologue, int home) const;
  std::int64_t visits(const FusionGroup& product, int operand) const;
  bool reads_merge(const Space& before, FusionGroup& group) const;
  bool add_flat_reads(FusionGroup& group, int node, IndexMap map, std::vector<AxisIndex>& flats) const;
  void recompute_cheap_values();
  bool try_recompute(int node);
  bool collect_readers(int node, int home, SmallVector<std::int32_t, 8>& readers, int& patches) const;
  bool collect_cone(int node, SmallVector<std::int32_t, 16>& inner, SmallVector<std::int32_t, 16>& reads) const;
  bool recompute_is_readable(int node, FusionGroup& group) const;
  static bool scans_one_axis(const FusionGroup& group);
  void merge_siblings();
  bool reads_whole(FusionGroup& group, int node, IndexMap& map) const;
  bool is_stored(int node) const;
  bool is_read_outside(int node, int home) const;
  bool is_read_outside(int node, const FusionGroup& merged) const;
  bool stores_once(const FusionGroup& merged) const;
  bool scatters_alone(const FusionGroup& merged) const;
  void drop_unused(SmallVector<std::int32_t, 16> items);
  std::vector<Inst> body_of(int node) const;
  int instructions(int node) const;
  /// Memory that the group reads, by owner; inlined values count as what they are made of.
  void add_reads(const FusionGroup& group, int input, SmallVector<std::int32_t, 16>& reads) const;
  SmallVector<std::int32_t, 16> reads_of(const FusionGroup& group) const;
  int body_size(const FusionGroup& group) const;
  bool patches_shrink_to(const FusionGroup& group, int operands, int most) const;
  int inlined_size(const FusionGroup& group, int input) const;
  int group_of(int node) const { return result_.group_of[as_index(node)]; }
  FusionGroup& group(int id) { return result_.groups[as_index(id)]; }
  const FusionGroup& group(int id) const { return result_.groups[as_index(id)]; }

  FusionGraph& nodes_;
  const FusionOptions& options_;
  GroupMerger merger_;
  Fusion result_;
  std::vector<std::int32_t> visited_;  // per group: the search that saw it last
  std::int32_t search_ = 0;
  std::vector<Space> whole_;           // per group, of products: before any prologue
  std::vector<std::int32_t> horizon_;  // per group: the last node of it and of all that it depends on
  mutable std::vector<std::pair<const OpInfo*, int>> sizes_;
};

/// Is the value needed in a group other than `home`, there or inside something that is computed there?
SINTER_DECL bool Fuser::is_read_outside(int node, int home) const {
  for (const UseEdge& edge : merger_.users(node)) {
    const int id = group_of(edge.user);
    if (nodes_[edge.user].is_inlined) {
      if ((id >= 0 && id != home) || is_read_outside(edge.user, home)) return true;
    } else if (id != home) {
      return true;
    }
  }
  return false;
}

SINTER_DECL bool Fuser::is_stored(int node) const {
  const FusionNode& it = nodes_[node];
  return it.is_in_memory || (!it.is_inlined && is_read_outside(node, group_of(node)));
}

SINTER_DECL void Fuser::add_reads(const FusionGroup& group, int input, SmallVector<std::int32_t, 16>& reads) const {
  const int base = nodes_.base_of(input);
  const FusionNode& it = nodes_[base];
  if (is_generator(it.kind) || it.kind == NodeKind::empty || find_member(group, base) != nullptr) return;
  if (it.is_inlined) {
    for (std::int32_t operand : it.inputs) add_reads(group, operand, reads);
    return;
  }
  if (std::find(reads.begin(), reads.end(), base) == reads.end()) reads.push_back(base);
}

SINTER_DECL SmallVector<std::int32_t, 16> Fuser::reads_of(const FusionGroup& group) const {
  SmallVector<std::int32_t, 16> reads;
  for (const FusionMember& member : group.members)
    for (std::int32_t input : nodes_[member.node].inputs) add_reads(group, input, reads);
  return reads;
}

SINTER_DECL int Fuser::inlined_size(const FusionGroup& group, int input) const {
  const int base = nodes_.base_of(input);
  if (find_member(group, base) != nullptr || !nodes_[base].is_inlined) return 1;  // a load or an immediate
  int size = instructions(base);
  for (std::int32_t operand : nodes_[base].inputs) size += inlined_size(group, operand);
  return size;
}

SINTER_DECL int Fuser::body_size(const FusionGroup& group) const {
  int size = 0;
  for (const FusionMember& member : group.members) {
    size += instructions(member.node);
    for (std::int32_t input : nodes_[member.node].inputs) size += inlined_size(group, input);
  }
  return size;
}

/// Calls visit(node, flat index over the leaves) for each value that members read from memory.
template <class Visit>
void Fuser::for_each_read(FusionGroup& group, Visit&& visit) const {
  for (const FusionMember& member : group.members) {
    const FusionNode& it = nodes_[member.node];
    for (std::size_t k = 0; k < it.inputs.size(); ++k) {
      const int base = nodes_.base_of(it.inputs[k]);
      if ((it.kind == NodeKind::take && k == 0) || it.kind == NodeKind::contract) continue;
      if (is_generator(nodes_[base].kind) || nodes_[base].is_inlined || find_member(group, base) != nullptr) continue;
      const auto at =
          nodes_.locate(group.space, it.inputs[k], nodes_.operand_map(member.node, static_cast<int>(k), member.map()));
      if (at) visit(it.inputs[k], expand_leaves(group.space, at->flat));
    }
  }
}

/// Reduced axes that are left once neighbours have merged which every read walks as one.
SINTER_DECL int Fuser::reduced_axes(FusionGroup& group) const {
  SmallVector<std::int32_t, 8> leaves;
  for (int a = 0; a < group.space.size(); ++a)
    if (group.space[a].is_leaf() && group.space[a].is_reduced && !is_number(group.space[a].extent, 1))
      leaves.push_back(a);
  if (static_cast<int>(leaves.size()) <= limits_of(group).max_reduced_axes) return static_cast<int>(leaves.size());
  std::vector<AxisIndex> reads;
  for_each_read(group, [&](int, const AxisIndex& flat) { reads.push_back(flat); });
  const auto stride = [](const AxisIndex& flat, std::int32_t leaf) {
    for (const IndexTerm& term : flat.terms)
      if (term.axis == leaf) return term.factor;
    return Dim(0);
  };
  if (!reads.empty())
    sort_few(leaves.begin(), leaves.end(), [&](std::int32_t a, std::int32_t b) {
      return nodes_.estimate(stride(reads[0], a)) > nodes_.estimate(stride(reads[0], b));
    });
  int count = 1;
  for (std::size_t i = 1; i < leaves.size(); ++i) {
    const std::int32_t outer = leaves[i - 1], inner = leaves[i];
    bool merges = true;
    for (const AxisIndex& flat : reads)
      merges &= identical(stride(flat, outer), stride(flat, inner) * group.space[inner].extent);
    count += !merges;
  }
  return count;
}

/// Is a row that is walked several times short enough to stay in cache, contiguous, and are there rows to share among
/// threads?
SINTER_DECL bool Fuser::row_pays(FusionGroup& group) const {
  std::int64_t row = 1, rows = 1, along_row = 0, across = 0;
  for (const SpaceAxis& axis : group.space.axes)
    if (axis.is_leaf()) (axis.is_reduced ? row : rows) *= nodes_.estimate(axis.extent);
  if (row > limits_of(group).max_row || (rows < 2 && row > 8192)) return false;
  for_each_read(group, [&](int node, const AxisIndex& flat) {
    for (const IndexTerm& term : flat.terms)
      if (is_number(term.factor, 1))
        (group.space[term.axis].is_reduced ? along_row : across) += nodes_.estimate_elements(node);
  });
  return along_row >= across;
}

SINTER_DECL bool Fuser::is_read_outside(int node, const FusionGroup& merged) const {
  for (const UseEdge& edge : merger_.users(node)) {
    if (find_member(merged, edge.user) != nullptr) continue;
    if (!nodes_[edge.user].is_inlined || is_read_outside(edge.user, merged)) return true;
  }
  return false;
}

/// What is stored varies along all of the reduced axes or along none: along some, a walk over all of them would store
/// each element many times, or never where one of the others is empty.
SINTER_DECL bool Fuser::stores_once(const FusionGroup& merged) const {
  if (merged.contraction >= 0 || !merged.has_reduction) return true;
  std::uint64_t reduced = 0;
  for (int a = 0; a < merged.space.size(); ++a)
    if (merged.space[a].is_leaf() && merged.space[a].is_reduced && !is_number(merged.space[a].extent, 1))
      reduced |= std::uint64_t{1} << a;
  for (const FusionMember& member : merged.members) {
    const std::uint64_t own = leaves_of(merged.space, merger_.result_of(member)) & reduced;
    if (own == 0 || own == reduced) continue;
    if (nodes_[member.node].is_in_memory || is_read_outside(member.node, merged)) return false;
  }
  return true;
}

/// A scatter's walk may be repeated, and everything that can fail in it is its own index: it stores nothing else, and
/// holds no take.
SINTER_DECL bool Fuser::scatters_alone(const FusionGroup& merged) const {
  const auto is_scatter = [&](const FusionMember& member) { return nodes_[member.node].kind == NodeKind::scatter; };
  if (std::none_of(merged.members.begin(), merged.members.end(), is_scatter)) return true;
  if (merged.has_reduction || merged.contraction >= 0) return false;
  int scatters = 0;
  for (const FusionMember& member : merged.members) {
    const FusionNode& it = nodes_[member.node];
    scatters += is_scatter(member);
    if (is_scatter(member)) continue;
    if (it.kind == NodeKind::take || it.is_in_memory || is_read_outside(member.node, merged)) return false;
  }
  return scatters == 1;
}

SINTER_DECL bool Fuser::is_acceptable(FusionGroup& group) const {
  if (!fits(group) || !stores_once(group) || !scatters_alone(group) || !patches_fit(group)) return false;
  if (!scans_one_axis(group) || reads_cut(group)) return false;
  if (group.has_reduction && reduced_axes(group) > limits_of(group).max_reduced_axes) return false;
  return !group.is_multipass || row_pays(group);
}

/// Does anything outside that `merged` (made of groups a and b) reads depend on a member of it?
SINTER_DECL bool Fuser::depends_on(const FusionGroup& merged, int a, int b) {
  visited_.resize(result_.groups.size());
  ++search_;
  // Whoever reads a member comes after it, so nothing that ends before the first member depends on one.
  const std::int32_t first = merged.members.front().node;
  SmallVector<std::int32_t, 32> pending;
  const auto visit_inputs = [&](const FusionGroup& from, bool is_start) {
    const auto visit = [&](const auto& self, int input) -> bool {
      const int base = nodes_.base_of(input);
      if (nodes_[base].is_inlined)
        for (std::int32_t operand : nodes_[base].inputs)
          if (!self(self, operand)) return false;
      const int id = group_of(base);
      if (id < 0) return true;
      if (id == a || id == b) return is_start;
      if (visited_[as_index(id)] == search_) return true;
      visited_[as_index(id)] = search_;
      if (horizon_[as_index(id)] > first) pending.push_back(id);
      return true;
    };
    for (const FusionMember& member : from.members) {
      for (std::int32_t input : nodes_[member.node].inputs)
        if (!visit(visit, input)) return false;
      if (nodes_[member.node].base >= 0 && !visit(visit, nodes_[member.node].base)) return false;
    }
    return true;
  };
  if (!visit_inputs(merged, true)) return true;
  while (!pending.empty()) {
    const int id = pending.back();
    pending.pop_back();
    if (!visit_inputs(group(id), false)) return true;
  }
  return false;
}

/// The group, and all that depend on it, now reach as far as node `reach`.
SINTER_DECL void Fuser::raise_horizon(int id, std::int32_t reach) {
  if (horizon_[as_index(id)] >= reach) return;
  horizon_[as_index(id)] = reach;
  const auto visit = [&](const auto& self, int node) -> void {
    for (const UseEdge& edge : merger_.users(node)) {
      if (nodes_[edge.user].is_inlined) self(self, edge.user);
      if (group_of(edge.user) >= 0) raise_horizon(group_of(edge.user), reach);
    }
  };
  for (const FusionMember& member : group(id).members) visit(visit, member.node);
}

// ---- joining --------------------------------------------------------------------------------------------------------

SINTER_DECL bool Fuser::join(int a, int b, const SharedRead* shared) {
  const FusionGroup &left = group(a), &right = group(b);
  if (left.is_host || right.is_host) return false;
  if (!options_.epilogues && (left.contraction >= 0 || right.contraction >= 0)) return false;
  if ((left.contraction >= 0 && (right.contraction >= 0 || right.has_reduction)) ||
      (right.contraction >= 0 && left.has_reduction))
    return false;
  if (left.has_reduction && right.has_reduction &&
      (left.has_scan != right.has_scan || left.is_reversed != right.is_reversed))
    return false;
  // The group that grows is the one with structure, then the larger one; a shared read is mapped in `a`.
  const bool a_grows = shared != nullptr || left.contraction >= 0 ||
                       (right.contraction < 0 && left.members.size() >= right.members.size());
  FusionGroup merged = a_grows ? left : right;
  merged.has_scan = left.has_scan || right.has_scan;
  merged.is_reversed = left.is_reversed || right.is_reversed;
  SmallVector<std::int32_t, 16> added;
  for (const FusionMember& member : (a_grows ? right : left).members) added.push_back(member.node);
  if (!choose_taker(merged, left, right) || !merger_.extend(merged, added, shared) || !is_acceptable(merged) ||
      depends_on(merged, a, b))
    return false;
  const std::int32_t reach = std::max(horizon_[as_index(a)], horizon_[as_index(b)]);
  for (std::int32_t node : added) result_.group_of[as_index(node)] = a_grows ? a : b;
  group(a_grows ? a : b) = std::move(merged);
  group(a_grows ? b : a).members.clear();
  horizon_[as_index(a_grows ? a : b)] = -1;  // whoever depends on either hears of it
  raise_horizon(a_grows ? a : b, reach);
  return true;
}

SINTER_DECL void Fuser::join_producers(int node) {
  struct Candidate {
    std::int64_t bytes;
    std::int32_t producer;
  };
  SmallVector<Candidate, 8> candidates;
  for (std::int32_t input : nodes_[node].inputs) {
    const int base = nodes_.base_of(input);
    if (group_of(base) >= 0 && !nodes_[base].is_inlined) candidates.push_back({nodes_.estimate_bytes(base), base});
  }
  sort_few(candidates.begin(), candidates.end(),
           [](const Candidate& a, const Candidate& b) { return a.bytes > b.bytes; });
  for (const Candidate& candidate : candidates) {
    if (group_of(candidate.producer) != group_of(node)) join(group_of(candidate.producer), group_of(node), nullptr);
  }
}

// ---- recomputation --------------------------------------------------------------------------------------------------

/// What computing `node` in place takes: unstored nodes (`inner`) and memory (`reads`). False if it is not cheap.
SINTER_DECL bool Fuser::collect_cone(int node, SmallVector<std::int32_t, 16>& inner,
                                     SmallVector<std::int32_t, 16>& reads) const {
  if (std::find(inner.begin(), inner.end(), node) != inner.end()) return true;
  const FusionNode& it = nodes_[node];
  if (it.kind != NodeKind::map || !nodes_.graph_node(node)->op->is_cheap || inner.size() >= 12) return false;
  inner.push_back(node);
  for (std::int32_t input : it.inputs) {
    const int base = nodes_.base_of(input);
    const NodeKind kind = nodes_[base].kind;
    if (is_generator(kind)) continue;
    if (kind == NodeKind::input || kind == NodeKind::constant || kind == NodeKind::empty || is_stored(base)) {
      if (std::find(reads.begin(), reads.end(), base) == reads.end()) reads.push_back(base);
    } else if (!collect_cone(base, inner, reads)) {
      return false;
    }
  }
  return true;
}

/// Can every use of `node` in the group be computed from the node's operands? (The node is marked inlined.)
SINTER_DECL bool Fuser::recompute_is_readable(int node, FusionGroup& group) const {
  for (const FusionMember& member : group.members) {
    const FusionNode& it = nodes_[member.node];
    for (std::size_t k = 0; k < it.inputs.size(); ++k) {
      if (nodes_.base_of(it.inputs[k]) != node && !reads_patch(it.inputs[k])) continue;
      if (!merger_.can_read(group.space, group, it.inputs[k], merger_.operand_map(group, member, static_cast<int>(k))))
        return false;
    }
  }
  return scans_one_axis(group);
}

/// The groups other than `home` that read a value, themselves or through patches (which are counted). False: something
/// reads it that recomputes nothing.
SINTER_DECL bool Fuser::collect_readers(int node, int home, SmallVector<std::int32_t, 8>& readers, int& patches) const {
  for (const UseEdge& edge : merger_.users(node)) {
    const int id = group_of(edge.user);
    if (id < 0 && nodes_[edge.user].kind == NodeKind::patch && nodes_[edge.user].is_inlined) {
      ++patches;
      if (!collect_readers(edge.user, home, readers, patches)) return false;
      continue;
    }
    if (id < 0 || nodes_[edge.user].kind == NodeKind::contract) return false;
    if (id != home && std::find(readers.begin(), readers.end(), id) == readers.end()) readers.push_back(id);
  }
  return true;
}

SINTER_DECL bool Fuser::try_recompute(int node) {
  FusionNode& it = nodes_[node];
  if (it.kind != NodeKind::map || it.is_inlined || it.is_in_memory || is_kept(node)) return false;
  SmallVector<std::int32_t, 8> readers;
  int patches = 0;
  if (!collect_readers(node, group_of(node), readers, patches)) return false;
  SmallVector<std::int32_t, 16> inner, reads;
  if (readers.empty() || !collect_cone(node, inner, reads)) return false;
  if (patches * static_cast<int>(inner.size()) > most_guarded_operations) return false;
  const std::int64_t bytes = nodes_.estimate_bytes(node);
  std::int64_t saved = bytes, added = 0;
  for (std::int32_t id : readers) {
    if (group(id).is_host || group(id).taker != group(group_of(node)).taker) return false;
    saved += bytes;
    std::int64_t points = 1;
    for (const SpaceAxis& axis : group(id).space.axes)
      if (axis.is_leaf()) points *= nodes_.estimate(axis.extent);
    if (points > 4 * nodes_.estimate_elements(node) && inner.size() > 2) return false;
    const auto own = reads_of(group(id));
    for (std::int32_t read : reads)
      if (std::find(own.begin(), own.end(), read) == own.end())
        added += std::min(nodes_.estimate_bytes(read), bytes * 2);
  }
  // A group that stores nothing else goes away, and its reads with it.
  bool is_last = true;
  for (const FusionMember& member : group(group_of(node)).members)
    is_last &= member.node == node || !is_stored(member.node);
  if (is_last)
    for (std::int32_t read : reads_of(group(group_of(node)))) saved += nodes_.estimate_bytes(read);
  if (added >= saved) return false;
  SmallVector<std::int32_t, 16> marked;
  for (std::int32_t at : inner)
    if (!nodes_[at].is_inlined) nodes_[at].is_inlined = true, marked.push_back(at);
  // The search may split axes; a merge that fails must leave no split.
  std::vector<Space> spaces;
  bool fits_all = true;
  for (std::int32_t id : readers) {
    spaces.push_back(group(id).space);
    fits_all = fits_all && fits(group(id)) && recompute_is_readable(node, group(id));
  }
  if (fits_all) {
    drop_unused(inner);
    return true;
  }
  for (std::size_t i = 0; i < spaces.size(); ++i) group(readers[i]).space = spaces[i];
  for (std::int32_t at : marked) nodes_[at].is_inlined = false;
  return false;
}

/// Inlined nodes leave the group in which nothing uses them any more.
SINTER_DECL void Fuser::drop_unused(SmallVector<std::int32_t, 16> dropped) {
  std::sort(dropped.begin(), dropped.end(), [](std::int32_t a, std::int32_t b) { return a > b; });
  for (std::int32_t node : dropped) {
    const int home = group_of(node);
    if (home < 0 || nodes_[node].is_in_memory) continue;
    bool is_used = false;
    for (const UseEdge& edge : merger_.users(node)) is_used |= group_of(edge.user) == home;
    if (is_used) continue;
    std::erase_if(group(home).members, [&](const FusionMember& member) { return member.node == node; });
    result_.group_of[as_index(node)] = -1;
  }
}

SINTER_DECL void Fuser::recompute_cheap_values() {
  for (int node = 0; node < nodes_.size(); ++node)
    if (group_of(node) >= 0) try_recompute(node);
}

// ---- siblings -------------------------------------------------------------------------------------------------------

/// Does the group read each element of the value exactly once per point of its domain? Gives the map.
SINTER_DECL bool Fuser::reads_whole(FusionGroup& group, int node, IndexMap& map) const {
  for (const FusionMember& member : group.members) {
    const FusionNode& it = nodes_[member.node];
    for (std::size_t k = 0; k < it.inputs.size(); ++k) {
      if (nodes_.base_of(it.inputs[k]) != node) continue;
      auto found = merger_.walked_operand(group.space, member, static_cast<int>(k));
      if (!found || leaves_of(group.space, *found) != (leaf_mask(group.space, false) | leaf_mask(group.space, true)))
        continue;
      map = *found;
      return true;
    }
  }
  return false;
}

SINTER_DECL void Fuser::merge_siblings() {
  for (int node = 0; node < nodes_.size(); ++node) {
    const NodeKind kind = nodes_[node].kind;
    if (!(kind == NodeKind::input || kind == NodeKind::constant || (is_computed(kind) && is_stored(node)))) continue;
    SmallVector<std::int32_t, 8> readers;
    for (const UseEdge& edge : merger_.users(node)) {
      const int id = group_of(edge.user);
      if (id < 0 || id == group_of(node) || group(id).members.empty() || group(id).contraction >= 0 ||
          group(id).is_host)
        continue;
      if (std::find(readers.begin(), readers.end(), id) == readers.end()) readers.push_back(id);
    }
    for (std::size_t i = 0; i < readers.size(); ++i) {
      for (std::size_t j = i + 1; j < readers.size(); ++j) {
        SharedRead shared;
        shared.node = node;
        IndexMap other;
        if (group(readers[i]).members.empty() || group(readers[j]).members.empty()) continue;
        const bool j_has_more = group(readers[j]).has_reduction && !group(readers[i]).has_reduction;
        const int into = j_has_more ? readers[j] : readers[i], from = j_has_more ? readers[i] : readers[j];
        const Space into_space = group(into).space, from_space = group(from).space;
        if (reads_whole(group(into), node, shared.map) && reads_whole(group(from), node, other) &&
            join(into, from, &shared))
          continue;
        group(into).space = into_space;
        group(from).space = from_space;
      }
    }
  }
}

SINTER_DECL Fusion Fuser::run() {
  store_what_not_all_compute();
  for (int node = 0; node < nodes_.size(); ++node) {
    const FusionNode& it = nodes_[node];
    if (!is_computed(it.kind) || (it.is_inlined && !it.is_in_memory)) continue;
    if (it.kind == NodeKind::host_result) {  // a member beside the host node
      const int home = group_of(it.inputs[0]);
      result_.group_of[as_index(node)] = home;
      group(home).members.push_back({node, group(home).members[0].shared_map});
      horizon_[as_index(home)] = node;  // nobody who depends on it has a group yet
      continue;
    }
    result_.group_of[as_index(node)] = static_cast<std::int32_t>(result_.groups.size());
    result_.groups.push_back(merger_.alone(node));
    if (!is_host(it.kind)) result_.groups.back().taker = first_taker(node);
    horizon_.push_back(node);  // the last so far
    if (options_.fuse && it.kind != NodeKind::contract && !is_host(it.kind)) join_producers(node);
  }
  if (options_.fuse) {
    absorb_prologues();
    recompute_cheap_values();
    merge_siblings();
  }
  result_.is_stored.resize(as_index(nodes_.size()));
  for (int node = 0; node < nodes_.size(); ++node)
    result_.is_stored[as_index(node)] = group_of(node) >= 0 && is_stored(node);
  return std::move(result_);
}

}  // namespace kernel_detail

SINTER_DECL Fusion fuse(FusionGraph& nodes, const FusionOptions& options) {
  Fusion fusion = kernel_detail::Fuser(nodes, options).run();
  // Groups that were merged away, or whose values everybody recomputes, are dropped.
  std::vector<std::int32_t> number(fusion.groups.size(), -1);
  std::size_t kept = 0;
  for (std::size_t g = 0; g < fusion.groups.size(); ++g) {
    bool is_needed = false;
    for (const FusionMember& member : fusion.groups[g].members) is_needed |= fusion.is_stored[as_index(member.node)];
    if (!is_needed) continue;
    number[g] = static_cast<std::int32_t>(kept);
    if (kept != g) fusion.groups[kept] = std::move(fusion.groups[g]);
    ++kept;
  }
  fusion.groups.resize(kept);
  for (std::int32_t& id : fusion.group_of)
    if (id >= 0) id = number[as_index(id)];
  return fusion;
}

SINTER_DECL std::string Fusion::text(const FusionGraph& nodes) const {
  std::string text;
  for (const FusionGroup& group : groups) {
    text += group.is_host            ? "host:"
            : group.contraction >= 0 ? "contraction:"
            : group.has_scan         ? "scan:"
            : group.has_reduction    ? "reduction:"
                                     : "pointwise:";
    for (const FusionMember& member : group.members) {
      text += " " + std::string(nodes.name(member.node));
      if (is_stored[as_index(member.node)]) text += "*";
    }
    text += "\n";
  }
  return text;
}

SINTER_NAMESPACE_END
