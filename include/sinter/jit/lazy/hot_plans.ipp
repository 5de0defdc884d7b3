// Names and texts of hot paths.
#pragma once

#include <sinter/jit/lazy/hot_plans.hpp>

#include <sinter/base/context.hpp>
#include <sinter/base/number_kind.hpp>

#include <array>
#include <cmath>
#include <cstdio>
#include <utility>

SINTER_NAMESPACE_BEGIN
namespace jit {
namespace jit_detail {

/// Its operations in order, at most twelve.
inline std::string path_name(const Graph& graph) {
  std::string name;
  int count = 0;
  for (const Node& node : graph.nodes()) {
    if (node.op->kind == OpKind::leaf || node.inputs.empty()) continue;
    if (++count > 12) return name + "_and_more";
    name.append(name.empty() ? "" : "_").append(node.op->name);
  }
  return name;
}

SINTER_DECL std::string hash_text(const Graph& graph) {
  std::array<char, 24> text{};
  std::snprintf(text.data(), text.size(), "%016llx", static_cast<unsigned long long>(graph.hash().low));
  return text.data();
}

SINTER_DECL void HotChoices::set(std::string_view name, HotChoice choice) {
  if (choice == HotChoice::by_count) {
    if (const auto found = choices_.find(name); found != choices_.end()) choices_.erase(found);
    return;
  }
  choices_.insert_or_assign(std::string(name), choice);
}

SINTER_DECL HotChoice HotChoices::of(const Graph& graph) const {
  if (choices_.empty()) return HotChoice::by_count;
  auto found = choices_.find(hash_text(graph));
  if (found == choices_.end()) found = choices_.find(path_name(graph));
  return found == choices_.end() ? HotChoice::by_count : found->second;
}

SINTER_DECL HotPath path_of(const Graph& graph, const PlanTimes& times, std::int64_t runs, bool is_fused,
                            bool is_dynamic) {
  HotPath path;
  path.hash = hash_text(graph);
  path.name = path_name(graph);
  path.executions = runs;
  path.threshold = Context::get().hot;
  path.is_fused = is_fused;
  path.is_dynamic = is_dynamic;
  path.compile_ms = times.compile_ms;
  path.before_ms = is_finite_number(times.before_ms) ? times.before_ms : 0;
  path.after_ms = is_finite_number(times.after_ms) ? times.after_ms : 0;
  return path;
}

inline std::string time_text(double ms) {
  std::array<char, 32> text{};
  if (ms <= 0) return "-";
  if (ms < 1) std::snprintf(text.data(), text.size(), "%.2f us", ms * 1000);
  else std::snprintf(text.data(), text.size(), "%.3f ms", ms);
  return text.data();
}
inline std::string gain_text(const HotPath& path) {
  std::array<char, 32> text{};
  if (path.speed_up() <= 0) return "-";
  std::snprintf(text.data(), text.size(), "%.2f", path.speed_up());
  return text.data();
}

SINTER_DECL std::string hot_path_line(const HotPath& path) {
  return path.name + " (" + path.hash + "): fused after " + std::to_string(path.threshold) + " executions in " +
         time_text(path.compile_ms) + "; op by op " + time_text(path.before_ms) + ", fused " +
         time_text(path.after_ms) + ", speed-up " + gain_text(path);
}
}  // namespace jit_detail

SINTER_DECL std::string hot_paths_text() {
  std::string text = "hash              runs  fused  compiled   op by op   fused      speed-up  operations\n";
  for (const HotPath& path : hot_paths()) {
    std::array<char, 160> line{};
    std::snprintf(line.data(), line.size(), "%s  %4lld  %-5s  %-9s  %-9s  %-9s  %-8s  ", path.hash.c_str(),
                  static_cast<long long>(path.executions), path.is_fused ? "yes" : "no",
                  jit_detail::time_text(path.compile_ms).c_str(), jit_detail::time_text(path.before_ms).c_str(),
                  jit_detail::time_text(path.after_ms).c_str(), jit_detail::gain_text(path).c_str());
    text += line.data() + path.name + "\n";
  }
  return text;
}

}  // namespace jit
SINTER_NAMESPACE_END
