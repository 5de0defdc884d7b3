// Mode::max_autotune: schedules of kernels, and the cut of a graph into kernels, chosen by measuring them. What a back
// end offers is run on operands of the kernel's own layout; what gives other bits than the default is out, and what is
// not 3 % faster loses to it. Knows kernels, plans and back ends; no calls.
#pragma once

#include <sinter/base/error.hpp>
#include <sinter/graph/graph.hpp>
#include <sinter/kernel/kernel.hpp>
#include <sinter/kernel/schedule.hpp>
#include <sinter/runtime/backend.hpp>
#include <sinter/runtime/plan.hpp>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace jit {
struct Options;
namespace jit_detail {
namespace tuner_detail {
struct Subject;
struct Claim;
}  // namespace tuner_detail

/// What a version is tuned with.
struct TuneRequest {
  double seconds = 0;  // for all of it; 0: 2 seconds
  Location where{};
  std::vector<Ref<TensorImpl>> values{};  // inputs of the graph, which are read and never written; none: made up
  std::int64_t memory_budget = 0;         // no cut holds more, unless the default does; 0: any
};

/// One for each version that is compiled.
class Tuner {
 public:
  /// `sizes`: values of the symbols to measure with.
  Tuner(TuneRequest request, std::vector<std::int64_t> sizes);
  /// Writes what was measured.
  ~Tuner();
  Tuner(const Tuner&) = delete;
  Tuner& operator=(const Tuner&) = delete;

  /// The winner for this kernel, from the store or by measuring; the default where there is no other, and where the
  /// time has run out.
  Schedule choose(Backend& backend, const Kernel& kernel, const SymbolicGeometry& geometry,
                  std::span<const BufferRef> operands);
  /// Times what has won since the last call once more, later and in other memory. What does not win again is forgotten,
  /// for the default: false, and code that was made by choose() is not the one that it gives now.
  bool confirm();
  /// The winner among the plans of a graph, as choose() for kernels. `candidates`: plan_schedules(). `key`: of the
  /// store.
  Schedule choose_plan(const Graph& graph, const PlanOptions& options, const std::vector<Schedule>& candidates,
                       const std::string& key);
  /// A winner that was stored, if it gives the default's bits here, too; else the default.
  Schedule follow_known(const Graph& graph, const PlanOptions& options, const Schedule& winner);
  /// Kernels that are known are not counted and reported again.
  void begin_again() { is_again_ = true; }
  void end_again() { is_again_ = false; }
  /// What is left for kernels is so much of the whole.
  void leave_for_plans(double part) { seconds_for_plans_ = seconds_ * part; }

 private:
  Schedule measure(const tuner_detail::Subject& subject, const std::string& key,
                   const std::vector<Schedule>& schedules);
  /// Finds what plans run on; `why_not` says why there is nothing.
  bool prepare_plans(const Graph& graph, const PlanOptions& options, std::string& why_not);
  Schedule measure_plans(const Graph& graph, const PlanOptions& options, const std::vector<Schedule>& candidates,
                         const std::string& key);
  bool confirms(const tuner_detail::Claim& claim);
  std::vector<void*> given_to(const Backend& backend, const Kernel& kernel, std::span<const BufferRef> operands) const;
  /// Counts and logs it.
  Schedule leave_default(const Kernel& kernel, std::int64_t rejections, const std::string& why) const;
  void report(const Kernel& kernel, const std::string& text) const;
  void report_plan(const std::string& text) const;
  std::string progress() const;

  TuneRequest request_;
  std::vector<std::int64_t> sizes_;
  double seconds_, seconds_for_plans_ = 0;
  double spent_ = 0;
  bool has_measured_ = false;
  std::vector<Ref<TensorImpl>> plan_inputs_{};
  std::int64_t packed_bytes_ = 0;  // of constants that its winners keep packed
  bool measures_ = true;           // else kernels take winners that are known
  bool is_again_ = false;
  std::vector<std::unique_ptr<tuner_detail::Claim>> claims_{};
};

/// What the environment says instead (SINTER_TUNE): the mode of functions that have none.
void tune_by_environment(Options& options);

}  // namespace jit_detail
}  // namespace jit
SINTER_NAMESPACE_END
