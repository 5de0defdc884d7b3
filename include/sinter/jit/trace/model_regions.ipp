// Texts about the regions of a model.
#pragma once

#include <sinter/jit/trace/model_regions.hpp>

SINTER_NAMESPACE_BEGIN
namespace jit::jit_detail {

SINTER_DECL std::string field_name(std::string_view names, std::size_t i) {
  for (std::size_t k = 0; k < i && !names.empty(); ++k) {
    const std::size_t comma = names.find(',');
    names = comma == std::string_view::npos ? std::string_view() : names.substr(comma + 1);
  }
  names = names.substr(0, names.find(','));
  while (!names.empty() && names.front() == ' ') names.remove_prefix(1);
  while (!names.empty() && names.back() == ' ') names.remove_suffix(1);
  return names.empty() ? std::to_string(i) : std::string(names);
}

SINTER_DECL std::string regions_text(const std::vector<FoundRegion>& found) {
  if (found.empty()) return "no lists of blocks were found: a block is a struct with a const operator()\n";
  std::string text;
  for (const FoundRegion& region : found)
    text += region.path + ": " + std::to_string(region.count) + " of " + region.type +
            (region.is_compiled ? ", compiled once\n" : ", left as they are\n");
  return text;
}

}  // namespace jit::jit_detail
SINTER_NAMESPACE_END
