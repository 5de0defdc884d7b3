// Counting broken guards, and what to say about them.
#pragma once

#include <sinter/jit/call/recompile.hpp>

#include <algorithm>

SINTER_NAMESPACE_BEGIN
namespace jit {

SINTER_DECL std::string remedy(GuardKind broken) {
  switch (broken) {
    case GuardKind::structure:
      return "sizes and keys of containers, and which optionals are set, are part of compiled code: keep them the "
             "same, or stack the tensors into one";
    case GuardKind::dtype: return "convert the argument before the call: x.to(dtype)";
    case GuardKind::device: return "move the argument before the call: x.to(device)";
    case GuardKind::rank: return "give arguments of one rank: reshape before the call";
    case GuardKind::layout: return "pass tensors of one layout: x * 1 makes a row-major copy";
    case GuardKind::extent:
      return "let the axis vary: jit::mark_dynamic(x, axis) before the first call, or Options::dynamic = "
             "Dynamic::automatic or always";
    case GuardKind::range:
      return "extents of 0 and 1 are versions of their own: call with others, or pad the axis; a range given to "
             "jit::mark_dynamic can be widened, or left out";
    case GuardKind::divisibility: return "pad the axis to a multiple";
    case GuardKind::predicate: return "keep the choice in the graph: where(condition, a, b)";
    case GuardKind::relation:
      return "the function asks about sizes: keep Dims as they are (x.size(0) * 2) in place of int(x.size(0)) and of "
             "branches on sizes";
    case GuardKind::fixed_value:
      return "declare the parameter Scalar (or Tensor) in place of int, bool or enum: run-time inputs never compile "
             "again";
    case GuardKind::number_kind: return "pass one kind of number: 2.0 in place of 2";
    case GuardKind::alias: return "pass the same Variables in the same places, or different ones, in every call";
    case GuardKind::precision:
      return "say the function's own precision, Options::matmul_precision: then the default of the process does not "
             "concern it";
    case GuardKind::gradient:
      return "call it with and without gradients: both are compiled once each. Evaluate under jit::NoGradGuard, call "
             "requires_grad() before the first call, and detach arguments whose gradient nobody wants";
    case GuardKind::ranks:
      return "a version is made for each number of ranks, for each mesh whose axes the function names, and, where it "
             "asks "
             "for dist::rank() or dist::device() of a GPU, for each rank: dist::axis_index() has one for all ranks";
  }
  __builtin_unreachable();
}

SINTER_DECL std::string failure_text(const Guard& broken) {
  return "guard '" + std::string(name(broken.kind)) + "' failed: " + broken.reason;
}

SINTER_DECL void MissHistory::add(const Guard& broken) {
  if (broken_.size() < max_kept) broken_.push_back(broken);
  std::string text = failure_text(broken);
  const auto known = std::find_if(reasons_.begin(), reasons_.end(),
                                  [&](const RecompileReason& reason) { return reason.text == text; });
  if (known != reasons_.end()) ++known->count;
  else if (reasons_.size() < max_kept)
    reasons_.push_back(
        {broken.kind, broken.argument, broken.axis, broken.expected, broken.got, std::move(text), remedy(broken.kind)});
}

SINTER_DECL std::string MissHistory::text(std::int64_t limit) const {
  auto same = [](const Guard& a, const Guard& b) { return a.kind == b.kind && a.leaf == b.leaf && a.axis == b.axis; };
  auto times = [&](const Guard& guard) {
    return std::count_if(broken_.begin(), broken_.end(), [&](const Guard& other) { return same(guard, other); });
  };
  const Guard* worst = &broken_.back();
  for (const Guard& guard : broken_)
    if (times(guard) > times(*worst)) worst = &guard;
  const Guard* last = worst;
  for (const Guard& guard : broken_)
    if (same(guard, *worst)) last = &guard;
  return "the recompile limit of " + std::to_string(limit) + " is reached: guard '" + std::string(name(worst->kind)) +
         "' failed " + std::to_string(times(*worst)) + " of " + std::to_string(broken_.size()) +
         " times, last: " + last->reason + "; from here on calls that no compiled version fits run uncompiled\n  " +
         remedy(worst->kind) + "; or raise Options::recompile_limit";
}

SINTER_DECL void MissHistory::remember(std::span<const ArgLeaf> args) {
  seen_ = specs_of(args, {}).leaves;
  has_seen_ = true;
}

SINTER_DECL void MissHistory::mark_changed(std::span<const ArgLeaf> args, std::span<std::uint32_t> symbolic) const {
  if (has_seen_) jit::mark_changed(seen_, args, symbolic);
}

}  // namespace jit
SINTER_NAMESPACE_END
