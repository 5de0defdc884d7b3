// Why two groups that a value joins are two: fusion's own conditions, asked once more of the groups that it ended with.
// For explain() only; decides nothing.
#pragma once

#include <sinter/kernel/fusion.ipp>

#include <limits>
#include <string>

SINTER_NAMESPACE_BEGIN
namespace kernel_detail {

/// The first condition of is_acceptable() that does not hold.
SINTER_DECL std::string Fuser::why_refused(FusionGroup& group) const {
  const Limits& limits = limits_of(group);
  if (!fits(group))
    return "together they would have more than " + std::to_string(limits.max_operands) + " operands, " +
           std::to_string(limits.max_accesses) + " accesses or " + std::to_string(limits.max_body) +
           " instructions, which is the most of a kernel";
  if (!stores_once(group)) return "a value that is stored varies along some of the reduced axes, not along all or none";
  if (!scatters_alone(group)) return "a scatter stores nothing beside its elements, and takes nothing in that may fail";
  if (!patches_fit(group))
    return "products, reductions and scatters have no conditional reads, which slices written into need";
  if (!scans_one_axis(group)) return "a scan runs along one axis, which the other kernel splits";
  if (reads_cut(group)) return "a schedule cuts them here, for that was faster when it was measured";
  if (group.has_reduction && reduced_axes(group) > limits.max_reduced_axes)
    return "together they would reduce over more than " + std::to_string(limits.max_reduced_axes) + " axes";
  if (group.is_multipass && !row_pays(group))
    return "the rows would be walked several times, and are too long to stay in cache, or too few";
  return {};
}

/// What join() says no to; empty: it would join them now.
SINTER_DECL std::string Fuser::why_apart(int a, int b) {
  const FusionGroup &left = group(a), &right = group(b);
  if (!options_.fuse) return "fusion is off (Options::fuse, or a lazy graph that is not hot yet)";
  if (left.is_host || right.is_host) return "one of them runs on the host: no kernel expresses it";
  if (!options_.epilogues && (left.contraction >= 0 || right.contraction >= 0))
    return "fusion into products is off (Options::epilogue_fusion)";
  if (left.contraction >= 0 && right.contraction >= 0) return "each is a product of matrices: a kernel has one";
  if ((left.contraction >= 0 && right.has_reduction) || (right.contraction >= 0 && left.has_reduction))
    return "a product of matrices takes in what is elementwise over its result, no reduction";
  if (left.has_reduction && right.has_reduction && left.has_scan != right.has_scan)
    return "one is a scan and the other a reduction";
  if (left.has_reduction && right.has_reduction && left.is_reversed != right.is_reversed)
    return "their scans run in opposite directions";
  const bool a_grows = left.contraction >= 0 || (right.contraction < 0 && left.members.size() >= right.members.size());
  FusionGroup merged = a_grows ? left : right;
  merged.has_scan = left.has_scan || right.has_scan;
  merged.is_reversed = left.is_reversed || right.is_reversed;
  SmallVector<std::int32_t, 16> added;
  for (const FusionMember& member : (a_grows ? right : left).members) added.push_back(member.node);
  if (!choose_taker(merged, left, right)) return "different back ends compute them";
  if (right.contraction >= 0) return "a product reads its operands many times: they are computed once, into memory";
  if (!merger_.extend(merged, added, nullptr))
    return "no one walk over the axes of one computes the other: they differ in their axes, or a view lies between";
  if (std::string why = why_refused(merged); !why.empty()) return why;
  if (depends_on(merged, a, b)) return "what a third kernel computes lies between: joined they would need each other";
  return {};
}

SINTER_DECL std::vector<FusionBorder> Fuser::borders(const Fusion& fusion) {
  result_ = fusion;
  horizon_.assign(result_.groups.size(), std::numeric_limits<std::int32_t>::max());
  std::vector<FusionBorder> found;
  for (int to = 0; to < static_cast<int>(result_.groups.size()); ++to)
    for (const std::int32_t read : reads_of(group(to))) {
      const int from = group_of(read);
      if (from < 0 || from == to) continue;
      std::string why = why_apart(from, to);
      if (why.empty()) why = "several kernels read the value, and joining it to this one would save no memory traffic";
      found.push_back({from, to, read, std::move(why)});
    }
  return found;
}

}  // namespace kernel_detail

SINTER_DECL std::vector<FusionBorder> borders_of(FusionGraph& nodes, const Fusion& fusion,
                                                 const FusionOptions& options) {
  return kernel_detail::Fuser(nodes, options).borders(fusion);
}

SINTER_NAMESPACE_END
