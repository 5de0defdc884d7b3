// The queue of steps that are ready to run, by what running them does to the memory held. A part of the memory planner.
#pragma once

#include <sinter/base/index.hpp>
#include <sinter/kernel/memory_plan.hpp>

#include <algorithm>
#include <functional>
#include <limits>
#include <queue>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace kernel_detail {

/// What a group reads and writes, as fusion nodes that own memory.
struct StepUse {
  SmallVector<std::int32_t, 16> reads, writes;
  bool may_fail = false;    // an index may be out of range
  bool is_scatter = false;  // if it fails, then before it writes
  bool is_urgent = false;   // communicates, or only makes what is communicated: runs as soon as it can
  bool is_patient = false;  // reads what is communicated, which takes its time: never runs early to free memory
};

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
    const StepUse& use = uses_[g];
    const bool goes_first = use.is_urgent || (growth_[g] < 0 && !use.is_patient);
    const std::int32_t place = fusion_.groups[g].members.back().node;
    (goes_first ? freeing_ : ready_)
        .emplace(use.is_urgent ? place - std::numeric_limits<std::int32_t>::max() : place,
                 static_cast<std::int32_t>(g));
  }
  /// The next group; nothing if none is ready.
  std::int32_t pop() {
    auto& queue = freeing_.empty() ? ready_ : freeing_;
    if (queue.empty()) return -1;
    const std::int32_t g = queue.top().second;
    queue.pop();
    if (!is_ready_[as_index(g)]) return pop();  // was in both
    take(g);
    return g;
  }
  bool is_ready(std::size_t g) const { return is_ready_[g] != 0; }
  /// What running it adds to the memory held, at most.
  std::int64_t written_by(std::size_t g) const {
    std::int64_t written = 0;
    for_each_root(uses_[g].writes, [&](int root) { written += bytes_(root); });
    return written;
  }
  std::int64_t growth(std::size_t g) const { return growth_[g]; }
  /// One that is ready runs now.
  void take(std::int32_t g) {
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

}  // namespace kernel_detail
SINTER_NAMESPACE_END
