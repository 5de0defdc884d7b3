// The table of choices, and entries as text.
#pragma once

#include <sinter/backend/cuda/product/choice.hpp>

#include <sinter/base/context.hpp>

#include <algorithm>
#include <cstdio>
#include <exception>

SINTER_NAMESPACE_BEGIN
namespace cuda {

namespace choice_detail {
inline std::string hex(std::string_view bytes) {
  constexpr char digits[] = "0123456789abcdef";
  std::string text;
  for (char c : bytes)
    text += digits[static_cast<unsigned char>(c) >> 4], text += digits[static_cast<unsigned char>(c) & 15];
  return text;
}
inline std::optional<std::string> bytes_of(std::string_view hex) {
  const auto digit = [](char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1; };
  std::string bytes;
  if (hex.size() % 2 != 0) return {};
  for (std::size_t i = 0; i < hex.size(); i += 2) {
    const int high = digit(hex[i]), low = digit(hex[i + 1]);
    if (high < 0 || low < 0) return {};
    bytes += static_cast<char>(high * 16 + low);
  }
  return bytes;
}
/// The line that starts with `name` and a blank, without these; cut from the front of `text`.
inline std::optional<std::string_view> take_line(std::string_view& text, std::string_view name) {
  const std::size_t end = text.find('\n');
  if (end == std::string_view::npos || text.substr(0, name.size()) != name || text.size() <= name.size() ||
      text[name.size()] != ' ')
    return {};
  const std::string_view line = text.substr(name.size() + 1, end - name.size() - 1);
  text.remove_prefix(end + 1);
  return line;
}
inline std::string microseconds(double time) {
  char text[40];
  std::snprintf(text, sizeof text, "%.1f us", time);
  return time > 0 ? text : "failed";
}
}  // namespace choice_detail

SINTER_DECL std::string ProductChoices::text_of(const ProductChoice& choice) {
  return "algorithm " + std::string(name_of(choice.algorithm)) + "\nlibrary_algorithm " +
         choice_detail::hex(choice.library_algorithm) + "\nmeasured " + choice.why + "\n";
}

SINTER_DECL std::optional<ProductChoice> ProductChoices::choice_of(std::string_view text) {
  const auto algorithm = choice_detail::take_line(text, "algorithm"),
             library_algorithm = choice_detail::take_line(text, "library_algorithm"),
             why = choice_detail::take_line(text, "measured");
  if (!algorithm || !library_algorithm || !why || !text.empty()) return {};
  const auto bytes = choice_detail::bytes_of(*library_algorithm);
  for (GemmAlgorithm known : {GemmAlgorithm::fma, GemmAlgorithm::tensor_cores, GemmAlgorithm::wgmma,
                              GemmAlgorithm::library, GemmAlgorithm::library_then_kernel})
    if (*algorithm == name_of(known) && bytes) return ProductChoice{known, *bytes, std::string(*why)};
  return {};
}

SINTER_DECL std::optional<ProductChoice> ProductChoices::find(const std::string& key) {
  DiskCache disk("");
  {
    std::scoped_lock lock(mutex_);
    if (const auto found = known_.find(key); found != known_.end()) return found->second;
    disk = disk_;
  }
  const std::optional<std::string> stored = disk.find(key);
  std::optional<ProductChoice> choice = stored ? choice_of(*stored) : std::nullopt;
  if (!choice) return {};
  choice->why = "remembered: " + choice->why;
  std::scoped_lock lock(mutex_);
  return known_.emplace(key, *choice).first->second;
}

SINTER_DECL ProductChoice ProductChoices::choose(const std::string& key, std::string_view name,
                                                 std::span<const ProductCandidate> candidates,
                                                 const ProductMeasurer& measure) {
  std::scoped_lock one(measuring_);
  if (auto known = find(key)) return *known;
  std::vector<double> times;
  std::string reason = "nothing to measure";
  try {
    if (!candidates.empty()) times = measure(candidates);
  } catch (const std::exception& error) { reason = error.what(); }
  times.resize(candidates.size());
  std::size_t best = candidates.size();
  std::string list;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    list += (i == 0 ? "" : ", ") + candidates[i].name + " " + choice_detail::microseconds(times[i]);
    // Within what measurements differ by, the one that is preferred anyway.
    if (times[i] > 0 && (best == candidates.size() || times[i] < times[best] * (best == 0 ? 0.98 : 1))) best = i;
  }
  ProductChoice choice;
  if (best < candidates.size()) {
    choice = {candidates[best].algorithm, candidates[best].library_algorithm,
              candidates[best].name + " (" + list + ")"};
    disk_.store(key, text_of(choice));
    choice.why = "measured: " + choice.why;
  } else {
    if (!candidates.empty()) choice.algorithm = candidates[0].algorithm;
    choice.why = "by rule, for it could not be measured: " + reason;
  }
  if (is_logged("autotune")) note("autotune", std::string(name) + ": " + choice.why);
  std::scoped_lock lock(mutex_);
  return known_.insert_or_assign(key, choice).first->second;
}

SINTER_DECL void ProductChoices::remember(const std::string& key, const ProductChoice& choice) {
  std::scoped_lock one(measuring_);
  disk_.store(key, text_of(choice));
  std::scoped_lock lock(mutex_);
  known_.insert_or_assign(key, choice);
}

SINTER_DECL void ProductChoices::drop(const std::string& key) {
  std::scoped_lock one(measuring_);
  disk_.store(key, "");  // which is no choice
  std::scoped_lock lock(mutex_);
  known_.erase(key);
}

SINTER_DECL void ProductChoices::forget(DiskCache disk) {
  std::scoped_lock lock(measuring_, mutex_);
  known_.clear();
  disk_ = std::move(disk);
}

}  // namespace cuda
SINTER_NAMESPACE_END
