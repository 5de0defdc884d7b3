// One walk over the steps, with a list of what was used of each space so far.
#pragma once

#include <sinter/runtime/dependences.hpp>

#include <algorithm>
#include <unordered_map>

SINTER_NAMESPACE_BEGIN

namespace runtime_detail {

/// What steps did with one space: uses that no later write covers, the latest last.
class SpaceHistory {
 public:
  void add_conflicts(const MemoryUse& use, std::vector<std::uint32_t>& steps) const {
    for (const Past& past : past_)
      if (past.use.begin < use.end && use.begin < past.use.end && (past.use.is_written || use.is_written))
        steps.push_back(past.step);
  }
  void add(const MemoryUse& use, std::uint32_t step) {
    // Whoever meets what is covered meets this write as well, which waits for it.
    if (use.is_written)
      std::erase_if(past_, [&](const Past& past) {
        return use.begin <= past.use.begin && past.use.end <= use.end && past.step != step;
      });
    past_.push_back({use, step});
  }

 private:
  struct Past {
    MemoryUse use;
    std::uint32_t step;
  };
  std::vector<Past> past_;
};

/// Leaves out what is reached through others: a set of bits for each step says what it waits for, at once or through
/// others.
class Reach {
 public:
  explicit Reach(std::size_t steps) : words_((steps + 63) / 64), bits_(steps * words_) {}
  void reduce(std::uint32_t step, std::vector<std::uint32_t>& before) {
    std::uint64_t* own = row(step);
    std::vector<std::uint32_t> kept;
    for (auto earlier = before.rbegin(); earlier != before.rend();
         ++earlier) {  // the latest first: it may wait for the others
      if ((own[*earlier / 64] >> *earlier % 64 & 1) != 0) continue;
      kept.push_back(*earlier);
      const std::uint64_t* theirs = row(*earlier);
      for (std::size_t w = 0; w < words_; ++w) own[w] |= theirs[w];
      own[*earlier / 64] |= std::uint64_t{1} << *earlier % 64;
    }
    before.assign(kept.rbegin(), kept.rend());
  }

 private:
  std::uint64_t* row(std::uint32_t step) { return bits_.data() + step * words_; }
  std::size_t words_;
  std::vector<std::uint64_t> bits_;
};

}  // namespace runtime_detail

SINTER_DECL std::vector<std::vector<std::uint32_t>> dependences_of(std::span<const std::vector<MemoryUse>> steps) {
  std::vector<std::vector<std::uint32_t>> result(steps.size());
  std::unordered_map<std::uint32_t, runtime_detail::SpaceHistory> spaces;
  runtime_detail::Reach reach(steps.size());
  for (std::uint32_t i = 0; i < steps.size(); ++i) {
    std::vector<std::uint32_t>& before = result[i];
    for (const MemoryUse& use : steps[i])
      if (use.begin < use.end) spaces[use.space].add_conflicts(use, before);
    for (const MemoryUse& use : steps[i])
      if (use.begin < use.end) spaces[use.space].add(use, i);
    std::sort(before.begin(), before.end());
    before.erase(std::unique(before.begin(), before.end()), before.end());
    reach.reduce(i, before);
  }
  return result;
}

SINTER_NAMESPACE_END
