// See the header.
#pragma once

#include <sinter/tensor/memory_map.hpp>

#include <sinter/base/fork.hpp>
#include <sinter/base/index.hpp>
#include <sinter/tensor/storage.hpp>

#include <algorithm>
#include <deque>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

SINTER_NAMESPACE_BEGIN

namespace tensor_detail {
struct Makers {
  ForkSafeMutex mutex;
  std::deque<std::string> texts{""};
  std::map<std::string, Maker, std::less<>> numbers;
};
struct MemoryMap {
  ForkSafeMutex mutex;
  std::vector<Storage*> blocks;
};

SINTER_DECL Maker maker_of(std::string_view op, Location where) {
  const std::string place = where.text();
  std::string text(op);
  if (!place.empty()) text += " at " + place;
  auto& makers = process_object<Makers>();
  std::scoped_lock lock(makers.mutex);
  const auto [found, is_new] = makers.numbers.emplace(text, static_cast<Maker>(makers.texts.size()));
  if (is_new) makers.texts.push_back(std::move(text));
  return found->second;
}

SINTER_DECL std::string text_of(Maker maker) {
  auto& makers = process_object<Makers>();
  std::scoped_lock lock(makers.mutex);
  return makers.texts[as_index(maker)];
}

SINTER_DECL void list_block(Storage& block) {
  auto& map = process_object<MemoryMap>();
  std::scoped_lock lock(map.mutex);
  block.listed_at_ = static_cast<std::uint32_t>(map.blocks.size());
  map.blocks.push_back(&block);
}

SINTER_DECL void forget_block(Storage& block) noexcept {
  auto& map = process_object<MemoryMap>();
  std::scoped_lock lock(map.mutex);
  map.blocks.back()->listed_at_ = block.listed_at_;
  map.blocks[block.listed_at_] = map.blocks.back();
  map.blocks.pop_back();
}

SINTER_DECL std::string largest_blocks(Device device) {
  constexpr std::size_t most = 5;
  std::vector<std::pair<std::size_t, Maker>> used;
  {
    auto& map = process_object<MemoryMap>();
    std::scoped_lock lock(map.mutex);
    for (const Storage* block : map.blocks)  // a cached block has no handle
      if (block->device() == device && block->use_count() > 0)
        used.emplace_back(block->listed_bytes_, block->maker_.load(std::memory_order_relaxed));
  }
  const std::size_t shown = std::min(most, used.size());
  std::partial_sort(used.begin(), used.begin() + static_cast<std::ptrdiff_t>(shown), used.end(),
                    [](const auto& a, const auto& b) { return a.first > b.first; });
  std::string text;
  for (std::size_t i = 0; i < shown; ++i) {
    const std::string maker = text_of(used[i].second);
    text += (i == 0 ? "the largest buffers: " : "; ") + std::to_string(used[i].first) + " bytes of " +
            (maker.empty() ? "unknown origin" : maker);
  }
  return text;
}

SINTER_DECL Maker& wanted_for() noexcept {
  static thread_local constinit Maker maker = Maker::unknown;
  return maker;
}

}  // namespace tensor_detail
SINTER_NAMESPACE_END
