// Order of steps, donation, buffers and liveness.
#pragma once

#include <sinter/kernel/memory_plan.hpp>

#include <sinter/base/index.hpp>
#include <sinter/ops/take.hpp>

#include <algorithm>
#include <functional>
#include <queue>
#include <unordered_map>

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

/// What a group reads and writes, as fusion nodes that own memory.
struct StepUse {
  SmallVector<std::int32_t, 16> reads, writes;
  bool may_fail = false;    // an index may be out of range
  bool is_scatter = false;  // if it fails, then before it writes
};

inline bool reads(const Kernel& kernel, InstId value, std::size_t access) {
  const std::vector<bool> under = instructions_under(kernel.body, value);
  for (std::size_t i = 0; i < under.size(); ++i)
    if (under[i] && kernel.body[i].prim == Prim::load && kernel.body[i].access == access) return true;
  return false;
}

/// Is every reduction of the kernel in what store `s` stores, the only one? Then all of them are done when it begins, and
/// who reads a row again afterwards reads the element that is stored next (a nest's verifier holds it to that).
inline bool is_last_pass(const Kernel& kernel, const Store& s) {
  if (kernel.stores.size() != 1 || kernel.kind == KernelKind::contraction) return false;
  const std::vector<bool> under = instructions_under(kernel.body, s.value);
  for (std::size_t i = 0; i < under.size(); ++i)
    if (is_reduction(kernel.body[i].prim) && !under[i]) return false;
  return true;
}

/// Do store `s` and some load of operand `operand` touch the same element at each point, and does nothing else of the
/// kernel read that operand? Then the store may go to the operand's own memory.
inline bool may_overwrite(const LoweredKernel& lowered, const Store& s, std::size_t operand) {
  const Kernel& kernel = lowered.kernel;
  if (size_of(kernel.operands[operand].dtype) != size_of(kernel.operands[kernel.accesses[s.access].operand].dtype))
    return false;
  std::size_t found = kernel.accesses.size();
  for (std::size_t i = 0; i < kernel.accesses.size(); ++i) {
    if (kernel.accesses[i].operand != operand) continue;
    if (found != kernel.accesses.size()) return false;
    found = i;
  }
  if (found == kernel.accesses.size()) return false;
  const auto &read = lowered.geometry.accesses[found], &write = lowered.geometry.accesses[s.access];
  for (std::size_t a = 0; a < kernel.axes.size(); ++a)
    if (!identical(read.stride[a], write.stride[a])) return false;
  if (!identical(read.offset, write.offset)) return false;
  if (s.index != no_inst) return false;
  if (kernel.kind != KernelKind::pointwise && !kernel.has_scan() && !is_last_pass(kernel, s)) {
    // Rows are read several times; only what is used once per row may be overwritten there.
    std::uint32_t reduced = 0, walked = 0;
    for (int a = 0; a < kernel.rank(); ++a) {
      if (kernel.is_reduced(a)) reduced |= 1u << a;
      if (!is_number(read.stride[as_index(a)], 0)) walked |= 1u << a;
    }
    if ((walked & reduced) != 0 || (varying_axes(kernel)[s.value] & reduced) != 0) return false;
  }
  for (const Inst& inst : kernel.body) {
    if (inst.prim == Prim::gather && inst.access == found) return false;
    // A device's threads beyond the last row repeat it while others store it: nothing they read may address memory.
    const bool addresses = inst.prim == Prim::gather || inst.prim == Prim::guarded_load;
    if (addresses && kernel.kind != KernelKind::pointwise && reads(kernel, inst.args[0], found)) return false;
    if (inst.prim == Prim::contract && (reads(kernel, inst.args[0], found) || reads(kernel, inst.args[1], found)))
      return false;
  }
  return true;
}

class MemoryPlanner {
 public:
  MemoryPlanner(const FusionGraph& nodes, const Fusion& fusion, std::span<const LoweredKernel> kernels,
                std::span<const std::uint8_t> may_donate)
      : nodes_(nodes), fusion_(fusion), kernels_(kernels), may_donate_(may_donate) {}

  MemoryPlan run() {
    collect_uses();
    add_dependencies();
    choose_donors();
    sort_steps();
    check_donors();
    assign_fixed();
    assign_slots();
    return std::move(plan_);
  }

 private:
  void collect_uses();
  void add_dependencies();
  void choose_donors();
  void choose_donor(std::size_t output, std::uint8_t preference);
  bool reaches(int from, int to) const;
  void sort_steps();
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
  MemoryPlan plan_;
};

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
SINTER_DECL void MemoryPlanner::choose_donor(std::size_t j, std::uint8_t preference) {
  const OutputSource& output = nodes_.outputs()[j];
  if (output.is_alias || output.same_as >= 0) return;
  const int root = root_of(output.node), writer = group_of(root);
  if (writer < 0 || fusion_.groups[as_index(writer)].is_host) return;
  const LoweredKernel& lowered = kernels_[as_index(writer)];
  for (const Store& store : lowered.kernel.stores) {
    if (lowered.operands[lowered.kernel.accesses[store.access].operand].node != root) continue;
    for (std::size_t o = 0; o < lowered.operands.size(); ++o) {
      const int node = lowered.operands[o].node;
      if (node < 0 || nodes_[node].kind != NodeKind::input) continue;
      const auto input = static_cast<std::int32_t>(nodes_.graph_node(node)->attrs[input_position]);
      if (as_index(input) >= may_donate_.size() || may_donate_[as_index(input)] != preference) continue;
      if (std::find(plan_.donor.begin(), plan_.donor.end(), input) != plan_.donor.end()) continue;
      bool is_aliased = false;  // an output that is a view of the input keeps it
      for (const OutputSource& other : nodes_.outputs())
        is_aliased |= other.is_alias && nodes_.base_of(other.node) == node;
      if (is_aliased || !identical(bytes_of(node), bytes_of(root)) || !may_overwrite(lowered, store, o)) continue;
      SmallVector<std::int32_t, 16> readers;
      bool is_possible = true;
      for (std::size_t g = 0; g < uses_.size(); ++g) {
        if (static_cast<int>(g) == writer ||
            std::find(uses_[g].reads.begin(), uses_[g].reads.end(), node) == uses_[g].reads.end())
          continue;
        readers.push_back(static_cast<std::int32_t>(g));
        is_possible = is_possible && !reaches(writer, static_cast<int>(g));
      }
      if (!is_possible) continue;
      for (std::int32_t reader : readers) before_[as_index(writer)].push_back(reader);
      plan_.donor[j] = input;
      donation_step_[j] = writer;
      return;
    }
  }
}

SINTER_DECL void MemoryPlanner::choose_donors() {
  plan_.donor.assign(nodes_.outputs().size(), -1);
  donation_step_.assign(nodes_.outputs().size(), -1);
  if (may_donate_.empty()) return;
  for (const std::uint8_t preference : {std::uint8_t{2}, std::uint8_t{1}})
    for (std::size_t j = 0; j < plan_.donor.size(); ++j)
      if (plan_.donor[j] < 0) choose_donor(j, preference);
}

/// What running a group next adds to the memory held, and the queue of those that are ready.
class StepQueue {
 public:
  StepQueue(std::span<const StepUse> uses, const Fusion& fusion, const std::function<int(int node)>& root_of,
            const std::function<std::int64_t(int root)>& bytes)
      : uses_(uses), fusion_(fusion), root_of_(root_of), bytes_(bytes), growth_(uses.size()), is_ready_(uses.size()) {
    for (std::size_t g = 0; g < uses.size(); ++g) {
      for_each_root(uses[g].reads, [&](int root) { readers_[root].push_back(static_cast<std::int32_t>(g)); });
      for_each_root(uses[g].writes, [&](int root) { growth_[g] += bytes_(root); });
    }
    for (auto& [root, groups] : readers_)
      if (groups.size() == 1) growth_[as_index(groups[0])] -= bytes_(root);
  }
  void push(std::size_t g) {
    is_ready_[g] = 1;
    (growth_[g] < 0 ? freeing_ : ready_).emplace(fusion_.groups[g].members.back().node, static_cast<std::int32_t>(g));
  }
  /// The next group; nothing if none is ready.
  std::int32_t pop() {
    auto& queue = freeing_.empty() ? ready_ : freeing_;
    if (queue.empty()) return -1;
    const std::int32_t g = queue.top().second;
    queue.pop();
    if (!is_ready_[as_index(g)]) return pop();  // was in both
    is_ready_[as_index(g)] = 0;
    for_each_root(uses_[as_index(g)].reads, [&](int root) {
      auto& groups = readers_[root];
      std::erase(groups, g);
      if (groups.size() != 1) return;
      const auto last = as_index(groups[0]);  // frees the value now
      const bool was_freeing = growth_[last] < 0;
      growth_[last] -= bytes_(root);
      if (is_ready_[last] && !was_freeing && growth_[last] < 0) push(last);
    });
    return g;
  }

 private:
  template <class F>
  void for_each_root(const SmallVector<std::int32_t, 16>& nodes, const F& f) const {
    SmallVector<std::int32_t, 16> roots;
    for (std::int32_t node : nodes) {
      const int root = root_of_(node);
      if (bytes_(root) == 0 || std::find(roots.begin(), roots.end(), root) != roots.end()) continue;
      roots.push_back(root);
      f(root);
    }
  }
  using Entry = std::pair<std::int32_t, std::int32_t>;
  using Queue = std::priority_queue<Entry, std::vector<Entry>, std::greater<>>;

  std::span<const StepUse> uses_;
  const Fusion& fusion_;
  const std::function<int(int)>& root_of_;
  const std::function<std::int64_t(int)>& bytes_;
  std::vector<std::int64_t> growth_;  // per group
  std::vector<std::uint8_t> is_ready_;
  std::unordered_map<int, std::vector<std::int32_t>> readers_;  // of a root in the arena, still to run
  Queue ready_, freeing_;
};

/// Groups run as soon as what they need is there, in the order of their last members; but those that free more than
/// they take (gradients of weights, the last readers of what was kept for them) go first.
SINTER_DECL void MemoryPlanner::sort_steps() {
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
  StepQueue queue(uses_, fusion_, root, bytes);
  for (std::size_t g = 0; g < count; ++g)
    if (missing[g] == 0) queue.push(g);
  for (std::int32_t g; (g = queue.pop()) >= 0;) {
    plan_.order.push_back(g);
    for (std::int32_t later : after[as_index(g)])
      if (--missing[as_index(later)] == 0) queue.push(as_index(later));
  }
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
      if (buffer.kind != BufferKind::arena || last_[as_index(other)] != step) continue;
      ArenaSlot& slot = plan_.slots[as_index(buffer.index)];
      if (slot.last > step || !identical(slot.bytes, bytes_of(root)) || !may_overwrite(lowered, store, o)) continue;
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
  for (std::size_t step = 0; step < plan_.order.size(); ++step) {
    const auto assign = [&](int node) {
      const int root = root_of(node);
      BufferRef& buffer = plan_.buffer_of[as_index(root)];
      if (buffer.kind != BufferKind::none || first_[as_index(root)] != static_cast<std::int32_t>(step)) return;
      int slot = reusable_slot(root, static_cast<int>(step));
      if (slot < 0) {
        slot = static_cast<int>(plan_.slots.size());
        plan_.slots.push_back({bytes_of(root), static_cast<std::int32_t>(step), last_[as_index(root)]});
      }
      plan_.slots[as_index(slot)].last = std::max(plan_.slots[as_index(slot)].last, last_[as_index(root)]);
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
                                   std::span<const LoweredKernel> kernels, std::span<const std::uint8_t> may_donate) {
  return kernel_detail::MemoryPlanner(nodes, fusion, kernels, may_donate).run();
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
