// Prologues: an elementwise group whose values only products read (or others that recompute them) goes away, and each
// reader computes what it needs on the way in. The rule weighs bytes:
//   saved    the group's kernel (launching one takes as long as moving `bytes_of_a_launch`), its reads, its writes, and
//            the readers' reads of what it wrote;
//   added    what the readers read instead, and their arithmetic. An operand's element is loaded, and computed, once
//            for each tile of the product along the other operand's axis.
// An expensive function (exp, tanh, ...) stays outside unless no tile computes an element twice. A large product stays
// as it is: it may be a library's, which takes no prologue (Limits::prologue_operations).
#pragma once

#include <sinter/kernel/fusion.ipp>

SINTER_NAMESPACE_BEGIN
namespace kernel_detail {

inline constexpr std::int64_t bytes_of_a_launch = 4 << 20;  // about 2 us of a GPU
inline constexpr std::int64_t tile_of_a_product = 128, least_tile = 32;
inline constexpr std::int64_t operations_of_a_byte = 8;  // of elementwise arithmetic, in the time that a byte takes

/// What computing `node` inside its readers takes: values of group `home`, which goes away, and memory of others.
SINTER_DECL bool Fuser::collect_prologue(int node, int home, Prologue& prologue) const {
  if (std::find(prologue.inner.begin(), prologue.inner.end(), node) != prologue.inner.end()) return true;
  if (nodes_[node].kind != NodeKind::map || prologue.inner.size() >= 12) return false;
  prologue.inner.push_back(node);
  for (std::int32_t input : nodes_[node].inputs) {
    const int base = nodes_.base_of(input);
    const NodeKind kind = nodes_[base].kind;
    if (is_generator(kind)) continue;
    if (is_computed(kind) && (nodes_[base].is_inlined || group_of(base) == home)) {
      if (!collect_prologue(base, home, prologue)) return false;
    } else if (std::find(prologue.reads.begin(), prologue.reads.end(), base) == prologue.reads.end()) {
      prologue.reads.push_back(base);
    }
  }
  return true;
}

/// How often a product loads elements of an operand, all in all.
SINTER_DECL std::int64_t Fuser::visits(const FusionGroup& product, int operand) const {
  const Shape &result = nodes_[product.contraction].shape, &left = nodes_[nodes_[product.contraction].inputs[0]].shape;
  const std::int64_t rows = nodes_.estimate(result[result.rank() - 2]),
                     columns = nodes_.estimate(result[result.rank() - 1]);
  const std::int64_t own = operand == 0 ? rows : columns, other = operand == 0 ? columns : rows;
  const std::int64_t batches =
      nodes_.estimate_elements(product.contraction) / std::max<std::int64_t>(rows * columns, 1);
  return batches * own * nodes_.estimate(left[left.rank() - 1]) * ((other + tile_of_a_product - 1) / tile_of_a_product);
}

SINTER_DECL bool Fuser::weigh_prologue(const Prologue& prologue, int home) const {
  bool is_cheap = true;
  std::int64_t operations = 0, saved = bytes_of_a_launch, added = 0;
  for (std::int32_t node : prologue.inner)
    is_cheap &= nodes_.graph_node(node)->op->is_cheap, operations += instructions(node);
  for (std::int32_t node : prologue.values) saved += nodes_.estimate_bytes(node);
  for (std::int32_t read : reads_of(group(home))) saved += nodes_.estimate_bytes(read);
  for (std::int32_t value : prologue.values) {
    for (const UseEdge& edge : merger_.users(value)) {
      const FusionGroup& reader = group(group_of(edge.user));
      std::int64_t times = nodes_.estimate_elements(value);
      bool is_once = true;
      if (nodes_[edge.user].kind == NodeKind::contract) {
        const Shape& result = nodes_[edge.user].shape;
        const std::int64_t other = nodes_.estimate(result[result.rank() - (edge.operand == 0 ? 1 : 2)]);
        times = visits(reader, edge.operand);
        is_once = other <= least_tile;
        const Shape& left = nodes_[nodes_[edge.user].inputs[0]].shape;
        const double work = 2.0 * static_cast<double>(nodes_.estimate_elements(edge.user)) *
                            static_cast<double>(nodes_.estimate(left[left.rank() - 1]));
        if (work > static_cast<double>(limits_of(reader).prologue_operations)) return false;
      } else if (group_of(edge.user) == home) {
        continue;
      } else {
        std::int64_t points = 1;
        for (const SpaceAxis& axis : reader.space.axes)
          if (axis.is_leaf() && !(reader.contraction >= 0 && axis.is_reduced)) points *= nodes_.estimate(axis.extent);
        if (points > 4 * times) return false;  // repeated along rows or columns
        is_once = points <= times;
      }
      if (!is_cheap && !is_once) return false;
      saved += times * size_of(nodes_[value].dtype);
      added += times * operations / operations_of_a_byte;
      const auto own = reads_of(reader);
      for (std::int32_t read : prologue.reads) {
        if (std::find(own.begin(), own.end(), read) != own.end() && nodes_[edge.user].kind != NodeKind::contract)
          continue;
        // What is much smaller than the operand (a bias, a scale) stays in the first cache.
        if (nodes_.estimate_elements(read) * 8 > nodes_.estimate_elements(value))
          added += times * size_of(nodes_[read].dtype);
      }
    }
  }
  return added < saved;
}

/// Every memory element that a value is read from, as flat numbers over the group's axes. False: not told by strides
/// alone.
SINTER_DECL bool Fuser::add_flat_reads(FusionGroup& group, int node, IndexMap map,
                                       std::vector<AxisIndex>& flats) const {
  const int base = nodes_.base_of(node);
  const FusionNode& it = nodes_[base];
  if (find_member(group, base) != nullptr) return true;
  if (!is_generator(it.kind) && !it.is_inlined) {
    const auto at = nodes_.locate(group.space, node, map);
    if (at) flats.push_back(at->flat);
    return at.has_value();
  }
  while (node != base) {
    const auto next = nodes_.input_of_view(group.space, node, map);
    if (!next) return false;
    map = *next;
    node = nodes_[node].inputs[0];
  }
  if (it.kind == NodeKind::iota) flats.push_back(map[static_cast<int>(nodes_.graph_node(base)->attrs.axes[0])]);
  for (std::size_t k = 0; k < it.inputs.size(); ++k)
    if (!add_flat_reads(group, it.inputs[k], nodes_.operand_map(base, static_cast<int>(k), map), flats)) return false;
  return true;
}

/// Do all reads walk each axis that was whole before any prologue as one axis still? Else a sum would run along two
/// axes, which no product does, or its tiles would become slivers.
SINTER_DECL bool Fuser::reads_merge(const Space& before, FusionGroup& group) const {
  std::vector<AxisIndex> flats;
  bool is_told = true;
  for (const FusionMember& member : group.members) {
    const FusionNode& it = nodes_[member.node];
    is_told = is_told && (it.kind == NodeKind::contract || it.kind == NodeKind::map);
    for (std::size_t k = 0; k < it.inputs.size() && is_told; ++k)
      is_told = add_flat_reads(group, it.inputs[k], merger_.operand_map(group, member, static_cast<int>(k)), flats);
  }
  const auto stride = [](const AxisIndex& flat, std::int32_t leaf) {
    for (const IndexTerm& term : flat.terms)
      if (term.axis == leaf) return term.factor;
    return Dim(0);
  };
  for (int a = 0; a < before.size(); ++a) {
    if (!before[a].is_leaf() || group.space[a].is_leaf()) continue;
    if (!is_told) return false;
    const AxisIndex whole =
        expand_leaves(group.space, AxisIndex::of(a));  // the terms' factors are the leaves' places in it
    for (const AxisIndex& flat : flats) {
      const AxisIndex leaves = expand_leaves(group.space, flat);
      Dim unit;
      for (const IndexTerm& term : whole.terms)
        if (is_number(term.factor, 1)) unit = stride(leaves, term.axis);
      for (const IndexTerm& term : whole.terms)
        if (!identical(stride(leaves, term.axis), term.factor * unit)) return false;
    }
  }
  return group.space.leaf_count() <= max_rank;
}

/// Takes group `home` into all its readers.
SINTER_DECL bool Fuser::absorb(int home) {
  const FusionGroup& producer = group(home);
  if (producer.members.empty() || producer.is_host || producer.contraction >= 0 || producer.has_reduction) return false;
  Prologue prologue;
  bool has_product = false;
  for (const FusionMember& member : producer.members) {
    if (!is_stored(member.node)) continue;
    if (nodes_[member.node].is_in_memory || is_kept(member.node) || !collect_prologue(member.node, home, prologue))
      return false;
    prologue.values.push_back(member.node);
    for (const UseEdge& edge : merger_.users(member.node)) {
      const int id = group_of(edge.user);
      if (id < 0 || group(id).is_host || group(id).taker != producer.taker) return false;
      has_product |= nodes_[edge.user].kind == NodeKind::contract;
      if (id != home && std::find(prologue.readers.begin(), prologue.readers.end(), id) == prologue.readers.end())
        prologue.readers.push_back(id);
    }
  }
  if (!has_product || !weigh_prologue(prologue, home)) return false;
  SmallVector<std::int32_t, 16> marked;
  for (std::int32_t node : prologue.inner)
    if (!nodes_[node].is_inlined) nodes_[node].is_inlined = true, marked.push_back(node);
  std::vector<Space> spaces;  // looking may split axes, also those that another prologue split before: it merged them
  bool fits_all = true;
  for (std::int32_t id : prologue.readers) {
    spaces.push_back(group(id).space);
    fits_all = fits_all && fits(group(id));
    for (std::int32_t value : prologue.values) fits_all = fits_all && recompute_is_readable(value, group(id));
    fits_all = fits_all && (group(id).contraction < 0 || reads_merge(whole_[as_index(id)], group(id)));
  }
  if (fits_all) {
    drop_unused(prologue.inner);
    return true;
  }
  for (std::size_t i = 0; i < spaces.size(); ++i) group(prologue.readers[i]).space = spaces[i];
  for (std::int32_t node : marked) nodes_[node].is_inlined = false;
  return false;
}

SINTER_DECL void Fuser::absorb_prologues() {
  if (options_.limits.front().prologue_operations == 0) return;
  for (const FusionGroup& it : result_.groups) whole_.push_back(it.contraction < 0 ? Space() : it.space);
  for (std::size_t id = 0; id < result_.groups.size(); ++id) absorb(static_cast<int>(id));
}

}  // namespace kernel_detail
SINTER_NAMESPACE_END
