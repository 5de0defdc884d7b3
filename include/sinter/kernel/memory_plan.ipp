// Order of steps, donation, buffers and liveness.
#pragma once

#include <sinter/kernel/memory_plan.hpp>

#include <sinter/base/index.hpp>
#include <sinter/kernel/communication.ipp>
#include <sinter/kernel/launch_groups.ipp>
#include <sinter/kernel/overwriting.ipp>
#include <sinter/kernel/step_queue.ipp>
#include <sinter/ops/take.hpp>

#include <algorithm>
#include <functional>
#include <limits>
#include <optional>
#include <utility>

SINTER_NAMESPACE_BEGIN
SINTER_DECL bool may_fail(const FusionGraph& nodes, const FusionGroup& group, const Kernel& kernel) {
  if (!checks_indices(kernel)) return false;
  auto checks =
      std::count_if(kernel.body.begin(), kernel.body.end(), [](const Inst& inst) { return inst.prim == Prim::gather; });
  if (kernel.kind == KernelKind::scatter) ++checks;
  for (const FusionMember& member : group.members) {  // a kernel may have indices of other nodes, too: those count
    const Node* const node = nodes.graph_node(member.node);
    if (node == nullptr) continue;
    const bool is_take = node->op == &op_info<ops::Take>, is_scatter = node->op == &op_info<ops::Scatter>;
    const bool is_in_range =
        (is_take && node->attrs[ops::Take::in_range]) || (is_scatter && node->attrs[ops::Scatter::in_range]);
    if (is_in_range) --checks;
    else if (is_take || is_scatter || node->op == &op_info<ops::ScatterAdd>) return true;
  }
  return checks > 0;
}

namespace kernel_detail {

class MemoryPlanner {
 public:
  MemoryPlanner(const FusionGraph& nodes, const Fusion& fusion, std::span<const LoweredKernel> kernels,
                std::span<const std::uint8_t> may_donate)
      : nodes_(nodes), fusion_(fusion), kernels_(kernels), may_donate_(may_donate) {}

  MemoryPlan run(StepGrouping grouping, std::span<const std::int64_t> hints);

 private:
  void collect_uses();
  void add_dependencies();
  void choose_donors();
  void choose_donor(std::size_t output, std::uint8_t preference);
  bool take_over(std::size_t output, int input_node, int writer);
  int updated_inputs(std::size_t output) const;
  int donor_of(const OperandRef& operand) const;
  bool reaches(int from, int to) const;
  /// Lists of few steps that join one that runs next, for what the sort needs.
  struct SortState;
  /// Bytes of the arena that grouping may cost: what steps write that join one which runs next, and what those keep
  /// alive that wait for others of their kind.
  struct Bounds {
    std::int64_t joining = 0, waiting = 0;
  };
  /// No bounds: no groups.
  MemoryPlan planned(std::optional<Bounds> most);
  std::int64_t donated_bytes(std::span<const std::int32_t> donors, std::span<const std::int64_t> hints) const;
  std::int64_t arena_bytes(const MemoryPlan& plan, std::span<const std::int64_t> hints) const;
  void sort_steps(std::optional<Bounds> most);
  void run_next(SortState& state, std::int32_t g);
  void run_side_by_side(SortState& state, SmallVector<std::int32_t, 16>& members);
  void run_deferred(SortState& state);
  bool is_read_beside(int root, int step) const;
  StepRange range_of(int step) const {
    return step_range_.empty() ? StepRange{step, step + 1} : step_range_[as_index(step)];
  }
  void check_donors();
  int first_change(std::size_t output) const;
  void assign_fixed();
  void assign_slots();
  int reusable_slot(int root, int step);

  int root_of(int node) const {
    while (nodes_[node].base >= 0) node = nodes_[node].base;
    return node;
  }
  int group_of(int node) const { return fusion_.group_of[as_index(node)]; }
  Dim bytes_of(int node) const { return nodes_[node].shape.numel() * Dim(size_of(nodes_[node].dtype)); }
  StepUse& use(int group) { return uses_[as_index(group)]; }

  const FusionGraph& nodes_;
  const Fusion& fusion_;
  std::span<const LoweredKernel> kernels_;
  std::span<const std::uint8_t> may_donate_;
  std::vector<StepUse> uses_;                         // per group
  std::vector<SmallVector<std::int32_t, 8>> before_;  // per group: groups that must run earlier
  std::vector<std::int32_t> donation_step_;           // per output
  std::vector<std::int32_t> first_, last_;            // per node that is a root: steps
  std::vector<StepRange> step_range_;                 // per step: those that run at its time; empty: itself
  std::optional<LaunchGrouping> grouping_;
  MemoryPlan plan_;
};

/// Memory of the caller that outputs may take over: weights and moments that a step updates.
SINTER_DECL std::int64_t MemoryPlanner::donated_bytes(std::span<const std::int32_t> donors,
                                                      std::span<const std::int64_t> hints) const {
  std::int64_t bytes = 0;
  for (std::size_t j = 0; j < donors.size(); ++j)
    if (donors[j] >= 0) bytes += bytes_of(nodes_.outputs()[j].node).estimate(hints, Graph::unknown_extent);
  return bytes;
}

/// Groups are worth no more memory than growth_share and free_growth allow, and no donation. A plan for symbols runs at
/// sizes that nobody knows yet: there bytes mean nothing, and the share must hold for the hints and far above them.
SINTER_DECL MemoryPlan MemoryPlanner::run(StepGrouping grouping, std::span<const std::int64_t> hints) {
  collect_uses();
  add_dependencies();
  mark_communication(nodes_, fusion_, kernels_, before_, uses_);
  choose_donors();
  const std::vector<std::int32_t> donors = plan_.donor;
  MemoryPlan alone = planned({});
  if (grouping == StepGrouping::none) return alone;
  grouping_.emplace(nodes_, fusion_, kernels_, grouping);
  if (!grouping_->is_possible()) return alone;
  std::vector<std::int64_t> large(hints.begin(), hints.end());
  for (std::int64_t& hint : large) hint *= 64;
  const bool is_symbolic = std::any_of(alone.slots.begin(), alone.slots.end(),
                                       [](const ArenaSlot& slot) { return !slot.bytes.is_static(); });
  const auto most_for = [&](std::span<const std::int64_t> sizes, bool has_free) {
    const std::int64_t needed = arena_bytes(alone, sizes), held = needed + donated_bytes(donors, sizes);
    return needed + std::max(held / growth_share, has_free ? free_growth : 0);
  };
  const auto fits = [&](const MemoryPlan& plan) {
    const bool grows = is_symbolic || std::any_of(plan.slots.begin(), plan.slots.end(),
                                                  [](const ArenaSlot& slot) { return !slot.bytes.is_static(); });
    if (arena_bytes(plan, hints) > most_for(hints, !grows)) return false;
    return !grows || arena_bytes(plan, large) <= most_for(large, false);
  };
  constexpr std::int64_t any = std::numeric_limits<std::int64_t>::max();
  const std::int64_t more = most_for(hints, !is_symbolic) - arena_bytes(alone, hints);
  for (const Bounds& bounds : {Bounds{any, any}, Bounds{more, more}, Bounds{0, more}, Bounds{0, more / 2},
                               Bounds{0, more / 4}, Bounds{0, 0}}) {
    plan_ = {};
    plan_.donor = donors;
    MemoryPlan together = planned(bounds);
    if (together.groups.empty()) continue;
    const auto donations = [](const MemoryPlan& plan) { return std::count(plan.donor.begin(), plan.donor.end(), -1); };
    if (donations(together) <= donations(alone) && fits(together)) return together;
  }
  return alone;
}

SINTER_DECL MemoryPlan MemoryPlanner::planned(std::optional<Bounds> most) {
  sort_steps(most);
  step_range_.clear();
  if (!plan_.groups.empty()) {
    for (int step = 0; as_index(step) < plan_.order.size(); ++step) step_range_.push_back({step, step + 1});
    for (const StepRange& group : plan_.groups)
      for (std::int32_t step = group.first; step < group.end; ++step) step_range_[as_index(step)] = group;
  }
  check_donors();
  assign_fixed();
  assign_slots();
  return std::move(plan_);
}

SINTER_DECL std::int64_t MemoryPlanner::arena_bytes(const MemoryPlan& plan, std::span<const std::int64_t> hints) const {
  std::vector<std::int64_t> bytes, offsets;
  for (const ArenaSlot& slot : plan.slots) bytes.push_back(slot.bytes.estimate(hints, Graph::unknown_extent));
  return place_slots(plan.slots, bytes, offsets);
}

SINTER_DECL void MemoryPlanner::collect_uses() {
  uses_.resize(fusion_.groups.size());
  for (std::size_t g = 0; g < uses_.size(); ++g) {
    StepUse& use = uses_[g];
    if (fusion_.groups[g].is_host) {
      const int node = fusion_.groups[g].members[0].node;
      for (std::int32_t input : nodes_[node].inputs) use.reads.push_back(nodes_.base_of(input));
      for (const FusionMember& member : fusion_.groups[g].members) use.writes.push_back(member.node);
      use.may_fail = true;
      continue;
    }
    const LoweredKernel& lowered = kernels_[g];
    for (std::size_t o = 0; o < lowered.operands.size(); ++o) {
      if (lowered.operands[o].node < 0) continue;
      (lowered.kernel.operands[o].written ? use.writes : use.reads).push_back(lowered.operands[o].node);
    }
    use.may_fail = may_fail(nodes_, fusion_.groups[g], lowered.kernel);
    use.is_scatter = lowered.kernel.kind == KernelKind::scatter;
  }
}

SINTER_DECL void MemoryPlanner::add_dependencies() {
  before_.resize(uses_.size());
  for (std::size_t g = 0; g < uses_.size(); ++g) {
    const auto depend = [&](int node) {
      const int maker = group_of(node);
      if (maker >= 0 && maker != static_cast<int>(g)) before_[g].push_back(maker);
    };
    for (std::int32_t node : uses_[g].reads) depend(node);
    for (std::int32_t node : uses_[g].writes)
      if (nodes_[node].base >= 0) depend(nodes_[node].base);
  }
}

SINTER_DECL bool MemoryPlanner::reaches(int from, int to) const {
  std::vector<bool> seen(uses_.size());
  SmallVector<std::int32_t, 32> pending{to};
  while (!pending.empty()) {
    const int at = pending.back();
    pending.pop_back();
    if (at == from) return true;
    if (seen[as_index(at)]) continue;
    seen[as_index(at)] = true;
    for (std::int32_t earlier : before_[as_index(at)]) pending.push_back(earlier);
  }
  return false;
}

/// An output may take over an input's buffer if the step that first writes it reads the input at the same points, and
/// everybody else can read the input before.
SINTER_DECL bool MemoryPlanner::take_over(std::size_t j, int input_node, int writer) {
  const auto input = static_cast<std::int32_t>(nodes_.graph_node(input_node)->attrs[input_position]);
  if (std::find(plan_.donor.begin(), plan_.donor.end(), input) != plan_.donor.end()) return false;
  if (!identical(bytes_of(input_node), bytes_of(root_of(nodes_.outputs()[j].node)))) return false;
  for (const OutputSource& other : nodes_.outputs())  // one that is a view of the input keeps it
    if (other.is_alias && nodes_.base_of(other.node) == input_node) return false;
  SmallVector<std::int32_t, 16> readers;
  for (std::size_t g = 0; g < uses_.size(); ++g) {
    if (static_cast<int>(g) == writer ||
        std::find(uses_[g].reads.begin(), uses_[g].reads.end(), input_node) == uses_[g].reads.end())
      continue;
    if (reaches(writer, static_cast<int>(g))) return false;
    readers.push_back(static_cast<std::int32_t>(g));
  }
  for (std::int32_t reader : readers) before_[as_index(writer)].push_back(reader);
  plan_.donor[j] = input;
  donation_step_[j] = writer;
  return true;
}

/// First among the inputs that the output is computed from.
SINTER_DECL void MemoryPlanner::choose_donor(std::size_t j, std::uint8_t preference) {
  const OutputSource& output = nodes_.outputs()[j];
  if (output.is_alias || output.same_as >= 0) return;
  const int root = root_of(output.node), writer = group_of(root);
  if (writer < 0 || fusion_.groups[as_index(writer)].is_host) return;
  const LoweredKernel& lowered = kernels_[as_index(writer)];
  for (const bool is_updated : {true, false})
    for (const Store& store : lowered.kernel.stores) {
      if (lowered.operands[lowered.kernel.accesses[store.access].operand].node != root) continue;
      for (std::size_t o = 0; o < lowered.operands.size(); ++o) {
        const int input = donor_of(lowered.operands[o]);
        if (input < 0 || may_donate_[as_index(input)] != preference || updates(lowered, store, o) != is_updated ||
            !may_overwrite(lowered, store, o))
          continue;
        if (take_over(j, lowered.operands[o].node, writer)) return;
      }
    }
}

/// The input that an operand is, where outputs may take that over, or -1.
SINTER_DECL int MemoryPlanner::donor_of(const OperandRef& operand) const {
  if (operand.node < 0 || nodes_[operand.node].kind != NodeKind::input) return -1;
  const auto input = static_cast<int>(nodes_.graph_node(operand.node)->attrs[input_position]);
  return as_index(input) < may_donate_.size() && may_donate_[as_index(input)] != 0 ? input : -1;
}

/// How many inputs the output is computed from and could be written over.
SINTER_DECL int MemoryPlanner::updated_inputs(std::size_t j) const {
  const int root = root_of(nodes_.outputs()[j].node), writer = group_of(root);
  if (writer < 0 || fusion_.groups[as_index(writer)].is_host) return 0;
  const LoweredKernel& lowered = kernels_[as_index(writer)];
  int count = 0;
  for (const Store& store : lowered.kernel.stores) {
    if (lowered.operands[lowered.kernel.accesses[store.access].operand].node != root) continue;
    for (std::size_t o = 0; o < lowered.operands.size(); ++o)
      count += donor_of(lowered.operands[o]) >= 0 && updates(lowered, store, o) && may_overwrite(lowered, store, o);
  }
  return count;
}

/// What updates one array comes first, and what updates none last: an optimiser's moments, then its weights, stay where
/// they are, and it is the gradient, kept beside them, that gets new memory. An array that is written where another
/// one was read would be fetched in order to be written.
SINTER_DECL void MemoryPlanner::choose_donors() {
  plan_.donor.assign(nodes_.outputs().size(), -1);
  donation_step_.assign(nodes_.outputs().size(), -1);
  if (may_donate_.empty()) return;
  std::vector<std::pair<int, std::size_t>> order;
  for (std::size_t j = 0; j < plan_.donor.size(); ++j) {
    const int inputs = updated_inputs(j);
    order.emplace_back(inputs == 0 ? std::numeric_limits<int>::max() : inputs, j);
  }
  std::sort(order.begin(), order.end());
  for (const std::uint8_t preference : {std::uint8_t{2}, std::uint8_t{1}})
    for (const auto& [inputs, j] : order)
      if (plan_.donor[j] < 0) choose_donor(j, preference);
}

struct MemoryPlanner::SortState {
  StepQueue queue;
  std::vector<std::int32_t> missing;             // per group: of those that must run earlier
  std::vector<std::vector<std::int32_t>> after;  // per group: those that wait for it
  std::optional<Bounds> most;
  std::vector<std::uint8_t> has_run;
  std::int64_t deferred_bytes = 0;
  SmallVector<std::int32_t, 16>
      deferred{};  // nobody waits for them: they run side by side, at the end or when no more may wait
};

/// Runs `g`, with those that are ready and fit. None is moved before a step that may fail: what that leaves untouched
/// on an error stays as it is.
SINTER_DECL void MemoryPlanner::run_next(SortState& state, std::int32_t g) {
  SmallVector<std::int32_t, 16> members{g};
  if (!state.most || !grouping_->may_group(as_index(g))) return run_side_by_side(state, members);
  const std::int64_t freed = std::max<std::int64_t>(0, -state.queue.growth(as_index(g)));
  if (state.after[as_index(g)].empty() && grouping_->has_mate(as_index(g)) && freed <= state.most->waiting) {
    if (state.deferred_bytes > state.most->waiting - freed) run_deferred(state);
    state.deferred_bytes += freed;
    state.deferred.push_back(g);
    return;
  }
  const auto place_of = [&](std::size_t id) { return fusion_.groups[id].members.back().node; };
  int first_failure = std::numeric_limits<int>::max();
  for (std::size_t other = 0; other < uses_.size(); ++other)
    if (!state.has_run[other] && uses_[other].may_fail) first_failure = std::min(first_failure, place_of(other));
  std::int64_t written = 0;
  for (std::size_t other = 0; other < uses_.size(); ++other) {
    if (!state.queue.is_ready(other) || place_of(other) > first_failure || !grouping_->fit(as_index(g), other))
      continue;
    const std::int64_t more = state.queue.written_by(other);
    if (written > state.most->joining - more) continue;
    written += more;
    state.queue.take(static_cast<std::int32_t>(other));
    members.push_back(static_cast<std::int32_t>(other));
  }
  run_side_by_side(state, members);
}

/// What nobody waits for, the largest first: those that fit it run at its side.
SINTER_DECL void MemoryPlanner::run_deferred(SortState& state) {
  SmallVector<std::int32_t, 16> left = std::move(state.deferred);
  state.deferred.clear();
  state.deferred_bytes = 0;
  std::sort(left.begin(), left.end(), [&](std::int32_t a, std::int32_t b) {
    const std::int64_t bytes_a = grouping_->bytes(as_index(a)), bytes_b = grouping_->bytes(as_index(b));
    return bytes_a != bytes_b ? bytes_a > bytes_b : a < b;
  });
  while (!left.empty()) {
    SmallVector<std::int32_t, 16> members, others;
    for (const std::int32_t g : left)
      (g == left.front() || grouping_->fit(as_index(left.front()), as_index(g)) ? members : others).push_back(g);
    run_side_by_side(state, members);
    left = std::move(others);
  }
}

SINTER_DECL void MemoryPlanner::run_side_by_side(SortState& state, SmallVector<std::int32_t, 16>& members) {
  std::sort(members.begin(), members.end(), [&](std::int32_t a, std::int32_t b) {
    return fusion_.groups[as_index(a)].members.back().node < fusion_.groups[as_index(b)].members.back().node;
  });
  const auto first = static_cast<std::int32_t>(plan_.order.size());
  for (const std::int32_t g : members) plan_.order.push_back(g);
  const auto end = static_cast<std::int32_t>(plan_.order.size());
  if (end - first >= 2) plan_.groups.push_back({first, end});
  for (const std::int32_t g : members) {
    state.has_run[as_index(g)] = 1;
    for (const std::int32_t later : state.after[as_index(g)])
      if (--state.missing[as_index(later)] == 0) state.queue.push(as_index(later));
  }
}

/// Groups run as soon as what they need is there, in the order of their last members; but those that free more than
/// they take (gradients of weights, the last readers of what was kept for them) go first.
SINTER_DECL void MemoryPlanner::sort_steps(std::optional<Bounds> most) {
  const std::size_t count = uses_.size();
  std::vector<std::int32_t> missing(count);
  std::vector<std::vector<std::int32_t>> after(count);
  for (std::size_t g = 0; g < count; ++g) {
    auto& before = before_[g];
    std::sort(before.begin(), before.end());
    before.resize(as_index(std::unique(before.begin(), before.end()) - before.begin()));
    missing[g] = static_cast<std::int32_t>(before.size());
    for (std::int32_t earlier : before) after[as_index(earlier)].push_back(static_cast<std::int32_t>(g));
  }
  std::vector<std::uint8_t> is_outside(as_index(nodes_.size()));  // memory that the arena does not have
  for (int node = 0; node < nodes_.size(); ++node)
    is_outside[as_index(node)] = nodes_[node].kind == NodeKind::input || nodes_[node].kind == NodeKind::constant;
  for (const OutputSource& output : nodes_.outputs()) is_outside[as_index(root_of(output.node))] = 1;
  const std::function<int(int)> root = [&](int node) { return root_of(node); };
  const std::function<std::int64_t(int)> bytes = [&](int node) {
    return is_outside[as_index(node)] ? 0 : nodes_.estimate_bytes(node);
  };
  SortState state{StepQueue(uses_, fusion_, root, bytes), std::move(missing), std::move(after), most,
                  std::vector<std::uint8_t>(count)};
  if (most) grouping_->forget_last();
  for (std::size_t g = 0; g < count; ++g) {
    if (state.missing[g] == 0) state.queue.push(g);
    if (most && state.after[g].empty()) grouping_->note_last(g);
  }
  for (std::int32_t g; (g = state.queue.pop()) >= 0;) run_next(state, g);
  run_deferred(state);
  ensure(plan_.order.size() == count, "memory plan: groups depend on each other in a circle");
}

/// Whatever can fail must run before memory of the caller is overwritten.
SINTER_DECL void MemoryPlanner::check_donors() {
  int last_failing = -1;
  for (std::size_t step = 0; step < plan_.order.size(); ++step)
    if (use(plan_.order[step]).may_fail) last_failing = static_cast<int>(step);
  for (std::size_t j = 0; j < plan_.donor.size(); ++j) {
    if (plan_.donor[j] < 0) continue;
    const int step = first_change(j);
    const bool may_fail_itself = step == last_failing && !use(plan_.order[as_index(step)]).is_scatter;
    if (step < last_failing || may_fail_itself) plan_.donor[j] = -1;
  }
}

/// The step that is the first to change the memory which output `j` takes over. A plain copy of the input is not run
/// there.
SINTER_DECL int MemoryPlanner::first_change(std::size_t j) const {
  const auto at = std::find(plan_.order.begin(), plan_.order.end(), donation_step_[j]) - plan_.order.begin();
  const int step = static_cast<int>(at);
  if (!is_plain_copy(kernels_[as_index(donation_step_[j])])) return step;
  const int root = root_of(nodes_.outputs()[j].node);
  for (std::size_t later = as_index(step) + 1; later < plan_.order.size(); ++later)
    for (const std::int32_t node : uses_[as_index(plan_.order[later])].writes)
      if (root_of(node) == root) return static_cast<int>(later);
  return step;
}

SINTER_DECL void MemoryPlanner::assign_fixed() {
  plan_.buffer_of.resize(as_index(nodes_.size()));
  for (int node = 0; node < nodes_.size(); ++node) {
    BufferRef& buffer = plan_.buffer_of[as_index(node)];
    if (nodes_[node].kind == NodeKind::input)
      buffer = {BufferKind::input, static_cast<std::int32_t>(nodes_.graph_node(node)->attrs[input_position])};
    if (nodes_[node].kind == NodeKind::constant) {
      buffer = {BufferKind::constant, static_cast<std::int32_t>(plan_.constants.size())};
      plan_.constants.push_back(node);
    }
  }
  for (std::size_t j = 0; j < nodes_.outputs().size(); ++j) {
    const OutputSource& output = nodes_.outputs()[j];
    if (!output.is_alias && output.same_as < 0)
      plan_.buffer_of[as_index(root_of(output.node))] = {BufferKind::output, static_cast<std::int32_t>(j)};
  }
}

/// Does a step that runs at the time of `step` touch that value?
SINTER_DECL bool MemoryPlanner::is_read_beside(int root, int step) const {
  const StepRange range = range_of(step);
  for (std::int32_t other = range.first; other < range.end; ++other) {
    if (other == step) continue;
    const StepUse& beside = uses_[as_index(plan_.order[as_index(other)])];
    for (const auto* nodes : {&beside.reads, &beside.writes})
      for (const std::int32_t node : *nodes)
        if (root_of(node) == root) return true;
  }
  return false;
}

/// The slot of an operand that `step` reads last and whose memory the value `root`, which it writes, may take over.
SINTER_DECL int MemoryPlanner::reusable_slot(int root, int step) {
  const int g = plan_.order[as_index(step)];
  if (fusion_.groups[as_index(g)].is_host) return -1;
  const LoweredKernel& lowered = kernels_[as_index(g)];
  for (const Store& store : lowered.kernel.stores) {
    if (lowered.operands[lowered.kernel.accesses[store.access].operand].node != root) continue;
    for (std::size_t o = 0; o < lowered.operands.size(); ++o) {
      const int node = lowered.operands[o].node;
      if (node < 0 || lowered.kernel.operands[o].written) continue;
      const int other = root_of(node);
      const BufferRef buffer = plan_.buffer_of[as_index(other)];
      if (buffer.kind != BufferKind::arena || last_[as_index(other)] != step || is_read_beside(other, step)) continue;
      ArenaSlot& slot = plan_.slots[as_index(buffer.index)];
      if (slot.last > range_of(step).end - 1 || !identical(slot.bytes, bytes_of(root)) ||
          !may_overwrite(lowered, store, o))
        continue;
      int same_memory = 0;  // operands of this kernel in that slot
      for (const OperandRef& ref : lowered.operands)
        same_memory += ref.node >= 0 && plan_.buffer_of[as_index(root_of(ref.node))] == buffer;
      if (same_memory == 1) return buffer.index;
    }
  }
  return -1;
}

SINTER_DECL void MemoryPlanner::assign_slots() {
  first_.assign(as_index(nodes_.size()), -1);
  last_ = first_;
  for (std::size_t step = 0; step < plan_.order.size(); ++step) {
    const auto touch = [&](int node) {
      const auto root = as_index(root_of(node));
      if (first_[root] < 0) first_[root] = static_cast<std::int32_t>(step);
      last_[root] = static_cast<std::int32_t>(step);
    };
    for (std::int32_t node : use(plan_.order[step]).reads) touch(node);
    for (std::int32_t node : use(plan_.order[step]).writes) touch(node);
  }
  hold_what_is_communicated(nodes_, fusion_, uses_, plan_.order, [this](int node) { return root_of(node); }, last_);
  for (std::size_t step = 0; step < plan_.order.size(); ++step) {
    const auto assign = [&](int node) {
      const int root = root_of(node);
      BufferRef& buffer = plan_.buffer_of[as_index(root)];
      if (buffer.kind != BufferKind::none || first_[as_index(root)] != static_cast<std::int32_t>(step)) return;
      int slot = reusable_slot(root, static_cast<int>(step));
      if (slot < 0) {
        slot = static_cast<int>(plan_.slots.size());
        plan_.slots.push_back({bytes_of(root), range_of(static_cast<int>(step)).first, 0});
      }
      plan_.slots[as_index(slot)].last =
          std::max(plan_.slots[as_index(slot)].last, range_of(last_[as_index(root)]).end - 1);
      buffer = {BufferKind::arena, slot};
    };
    for (std::int32_t node : use(plan_.order[step]).reads) assign(node);  // memory that nobody wrote
    for (std::int32_t node : use(plan_.order[step]).writes) assign(node);
  }
  for (int node = 0; node < nodes_.size(); ++node)
    if (nodes_[node].base >= 0) plan_.buffer_of[as_index(node)] = plan_.buffer_of[as_index(root_of(node))];
}

}  // namespace kernel_detail

SINTER_DECL MemoryPlan plan_memory(const FusionGraph& nodes, const Fusion& fusion,
                                   std::span<const LoweredKernel> kernels, std::span<const std::uint8_t> may_donate,
                                   StepGrouping grouping, std::span<const std::int64_t> hints) {
  return kernel_detail::MemoryPlanner(nodes, fusion, kernels, may_donate).run(grouping, hints);
}

SINTER_DECL std::int64_t place_slots(std::span<const ArenaSlot> slots, std::span<const std::int64_t> bytes,
                                     std::vector<std::int64_t>& offsets) {
  offsets.assign(slots.size(), 0);
  std::int64_t total = 0;
  std::vector<std::pair<std::int64_t, std::int64_t>> taken;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const std::int64_t size = (bytes[i] + arena_alignment - 1) / arena_alignment * arena_alignment;
    taken.clear();
    for (std::size_t j = 0; j < i; ++j)
      if (slots[j].last >= slots[i].first && slots[i].last >= slots[j].first && bytes[j] > 0)
        taken.emplace_back(offsets[j],
                           offsets[j] + (bytes[j] + arena_alignment - 1) / arena_alignment * arena_alignment);
    std::sort(taken.begin(), taken.end());
    std::int64_t at = 0;
    for (const auto& [begin, end] : taken) {
      if (begin - at >= size) break;
      at = std::max(at, end);
    }
    offsets[i] = at;
    total = std::max(total, at + size);
  }
  return total;
}

SINTER_NAMESPACE_END
