// Mode::max_autotune: schedules of kernels, chosen by measuring them. What a back end offers is run on operands of the
// kernel's own layout; what gives other bits than the default is out, and what is not 3 % faster loses to it. Knows
// kernels and back ends; no graphs and no calls.
#pragma once

#include <sinter/base/error.hpp>
#include <sinter/graph/graph.hpp>
#include <sinter/kernel/kernel.hpp>
#include <sinter/kernel/schedule.hpp>
#include <sinter/runtime/backend.hpp>
#include <sinter/runtime/plan.hpp>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace jit {
struct Options;
namespace jit_detail {

/// One for each version that is compiled.
class Tuner {
 public:
  /// `sizes`: values of the symbols to measure with; `seconds`: for all kernels together.
  Tuner(double seconds, std::vector<std::int64_t> sizes, Location where);
  /// Writes what was measured.
  ~Tuner();
  Tuner(const Tuner&) = delete;
  Tuner& operator=(const Tuner&) = delete;

  /// The winner for this kernel, from the store or by measuring; the default where there is no other, and where the
  /// time has run out.
  Schedule choose(Backend& backend, const Kernel& kernel, const SymbolicGeometry& geometry);

 private:
  using Clock = std::chrono::steady_clock;
  Schedule measure(Backend& backend, const Kernel& kernel, const BoundGeometry& geometry, const std::string& key,
                   const std::vector<Schedule>& schedules);
  /// Counts and logs it.
  Schedule leave_default(const Kernel& kernel, std::int64_t rejections, const std::string& why) const;
  void report(const Kernel& kernel, const std::string& text) const;

  std::vector<std::int64_t> sizes_;
  Location where_;
  double seconds_;
  double spent_ = 0;
  bool has_measured_ = false;
};

/// Has the schedules of a plan for this graph measured.
void tune(PlanOptions& options, const Graph& graph, double seconds, Location where);

/// What the environment says instead (SINTER_TUNE): the mode of functions that have none.
void tune_by_environment(Options& options);

}  // namespace jit_detail
}  // namespace jit
SINTER_NAMESPACE_END
