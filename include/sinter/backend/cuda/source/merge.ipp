// The text and the parameter.
#pragma once

#include <sinter/backend/cuda/source/merge.hpp>

#include <sinter/base/error.hpp>

#include <algorithm>
#include <limits>
#include <string>
#include <string_view>

SINTER_NAMESPACE_BEGIN
namespace cuda {

namespace merge_detail {
inline constexpr std::string_view structure = "struct Arguments {", parameter = "Arguments a) {\n",
                                  kernel = "extern \"C\" __global__", block = "blockIdx.x";

inline void replace_all(std::string& text, std::string_view from, std::string_view to, std::size_t begin) {
  for (std::size_t at = text.find(from, begin); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

/// The number of the last member whose first block is not after this one, by halving.
inline std::string lookup(std::size_t members) {
  std::string text = "  unsigned member = 0;\n";
  std::size_t step = 1;
  while (step * 2 < members) step *= 2;
  for (; step > 0; step /= 2) {
    const std::string next = "member + " + std::to_string(step);
    text += "  if (" + next + " < " + std::to_string(members) + " && all.first[" + next +
            "] <= blockIdx.x) member += " + std::to_string(step) + ";\n";
  }
  return text +
         "  const Member& a = all.member[member];\n  const unsigned own_block = blockIdx.x - all.first[member];\n";
}

inline std::string text_of(std::string source, std::size_t members) {
  const std::size_t begin = source.find(kernel), at_parameter = source.find(parameter, begin);
  ensure(begin != std::string::npos && at_parameter != std::string::npos, "cuda: a kernel without its parameter");
  const std::size_t body = at_parameter + parameter.size();
  replace_all(source, block, "own_block", body);
  source.insert(body, lookup(members));
  source.replace(at_parameter, parameter.size(), "Arguments all) {\n");
  const std::string count = std::to_string(members);
  source.insert(begin, "struct Arguments {\n  Member member[" + count + "];\n  unsigned first[" + count + "];\n};\n");
  const std::size_t at_structure = source.find(structure);
  ensure(at_structure < begin, "cuda: a kernel without the type of its parameter");
  return source.replace(at_structure, structure.size(), "struct Member {");
}
}  // namespace merge_detail

SINTER_DECL bool is_mergeable(const LaunchList& list) {
  if (list.launches.size() != 1 || list.call || list.workspace_bytes > 0) return false;
  const GpuLaunch& launch = list.launches.front();
  return launch.tensor_maps.empty() && launch.grid[1] == 1 && launch.grid[2] == 1 && !launch.is_cooperative &&
         list.entries.size() == 1;
}

SINTER_DECL bool have_equal_code(const LaunchList& a, const LaunchList& b) {
  const GpuLaunch &left = a.launches.front(), &right = b.launches.front();
  return a.needs_alignment == b.needs_alignment && left.block == right.block &&
         left.shared_bytes == right.shared_bytes && left.parameters.size() == right.parameters.size() &&
         a.source == b.source;
}

SINTER_DECL std::size_t members_for(const LaunchList& list, std::size_t most_bytes) {
  return most_bytes / (list.launches.front().parameters.size() * 8 + sizeof(unsigned));
}

SINTER_DECL LaunchList merge_lists(std::span<const LaunchList* const> lists,
                                   std::span<const std::size_t> operand_counts) {
  LaunchList merged;
  merged.source = merge_detail::text_of(lists.front()->source, lists.size());
  merged.entries = lists.front()->entries;
  merged.needs_alignment = lists.front()->needs_alignment;
  GpuLaunch& launch = merged.launches.emplace_back();
  launch.block = lists.front()->launches.front().block;
  launch.shared_bytes = lists.front()->launches.front().shared_bytes;
  std::size_t operand = 0;
  std::uint64_t blocks = 0;
  std::vector<std::uint64_t> first(lists.size() / 2 + lists.size() % 2);
  for (std::size_t i = 0; i < lists.size(); ++i) {
    const GpuLaunch& member = lists[i]->launches.front();
    const auto begin = static_cast<std::uint32_t>(launch.parameters.size() * 8);
    launch.parameters.insert(launch.parameters.end(), member.parameters.begin(), member.parameters.end());
    for (ParameterPatch patch : member.patches) {
      patch.at += begin;
      if (patch.kind == ParameterPatch::Kind::operand || patch.kind == ParameterPatch::Kind::value)
        patch.index = static_cast<std::uint16_t>(patch.index + operand);
      launch.patches.push_back(patch);
    }
    first[i / 2] |= blocks << (i % 2 == 0 ? 0 : 32);  // little endian: the low half comes first
    operand += operand_counts[i];
    blocks += member.grid[0];
  }
  ensure(blocks <= std::numeric_limits<std::int32_t>::max() && operand <= std::numeric_limits<std::uint16_t>::max(),
         "cuda: too much for one launch");
  launch.parameters.insert(launch.parameters.end(), first.begin(), first.end());
  launch.grid = {static_cast<std::uint32_t>(blocks), 1, 1};
  return merged;
}

}  // namespace cuda
SINTER_NAMESPACE_END
