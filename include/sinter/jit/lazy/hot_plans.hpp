// What the evaluator keeps of a plan for hot_paths(): its times, and whether somebody chose for it. Knows no cache.
#pragma once

#include <sinter/graph/graph.hpp>
#include <sinter/jit/debug/hot_paths.hpp>

#include <chrono>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <string_view>

SINTER_NAMESPACE_BEGIN
namespace jit::jit_detail {

/// When a lazy graph is fused.
enum class HotChoice : std::uint8_t { by_count, forced, forbidden };

/// Choices by hash or name of a path.
class HotChoices {
 public:
  void set(std::string_view name, HotChoice choice);
  HotChoice of(const Graph& graph) const;

 private:
  std::map<std::string, HotChoice, std::less<>> choices_{};
};

/// Shortest runs of a plan, in milliseconds. Only the first few fused runs are timed.
struct PlanTimes {
  static constexpr int fused_runs = 8;
  double compile_ms = 0;
  double before_ms = std::numeric_limits<double>::infinity(), after_ms = std::numeric_limits<double>::infinity();
  int timed_after = 0;
  bool wants(bool is_fused) const { return !is_fused || timed_after < fused_runs; }
  /// True when the time after fusing is known well enough to be told.
  bool add(bool is_fused, double ms) {
    double& shortest = is_fused ? after_ms : before_ms;
    if (ms < shortest) shortest = ms;
    return is_fused && ++timed_after == fused_runs;
  }
};
inline double milliseconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

std::string hash_text(const Graph& graph);
HotPath path_of(const Graph& graph, const PlanTimes& times, std::int64_t runs, bool is_fused, bool is_dynamic);
std::string hot_path_line(const HotPath& path);

}  // namespace jit::jit_detail
SINTER_NAMESPACE_END
