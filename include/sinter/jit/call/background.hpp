// Mode::background: versions that run uncompiled, operation by operation, until another thread has made their code.
// What is made there is put in the place of what runs by one atomic store. Knows no calls.
#pragma once

#include <sinter/base/background.hpp>
#include <sinter/base/fork.hpp>
#include <sinter/jit/call/entry_code.hpp>

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace jit {

class FunctionState;
struct Entry;
struct SegmentCode;

namespace jit_detail {

/// How it is with the code of a version, or of a derivative, that is made in the background. Who makes one, submits a
/// job for it, or calls finish_one(): until then the code counts as pending, so that nobody who waits overtakes.
class BackgroundState {
 public:
  explicit BackgroundState(CodeInput given = {}) : input_(std::move(given)) {}
  /// What an entry is made of, to be taken once.
  CodeInput take_input() { return std::move(input_); }

  /// Throws what making the code threw, if that is not suppressed. For calls that run uncompiled.
  void check() const {
    if (SINTER_UNLIKELY(base_detail::has_inherited_jobs.load(std::memory_order_relaxed)))
      base_detail::start_inherited_jobs();
    if (SINTER_UNLIKELY(has_failed_.load(std::memory_order_acquire))) throw_failure();
  }
  /// Waits for all that was announced, and checks.
  void wait() const;
  /// More code is going to be submitted, as of a new path.
  void announce() noexcept { pending_.fetch_add(1, std::memory_order_acq_rel); }
  /// For what was announced. Throws what keeps the job from being queued.
  void submit(std::shared_ptr<base_detail::BackgroundJob> job);
  void fail(std::exception_ptr error) noexcept;
  /// Making code failed, and the version runs uncompiled for ever.
  void leave_uncompiled(std::string reason);
  /// A call of a function that reads values: counted while some of its code is not there.
  void count_call() const {
    if (!is_done() || is_left_.load(std::memory_order_relaxed))
      uncompiled_calls_.fetch_add(1, std::memory_order_relaxed);
  }
  std::int64_t uncompiled_calls() const { return uncompiled_calls_.load(std::memory_order_relaxed); }
  /// `calls` ran uncompiled before.
  void note_swap(std::int64_t calls, double ms);
  void note_tuned(double ms);

  /// A child that was forked at the end of a job does that job once more.
  bool is_done() const { return pending_.load(std::memory_order_acquire) <= 0; }
  void finish_one() noexcept { pending_.fetch_sub(1, std::memory_order_acq_rel); }
  std::string text(std::int64_t calls) const;

 private:
  [[noreturn]] void throw_failure() const;
  CodeInput input_;
  std::atomic<bool> has_failed_{false}, is_left_{false};
  std::atomic<int> pending_{1};
  mutable std::atomic<std::int64_t> uncompiled_calls_{0};
  std::atomic<std::int64_t> last_job_{0};
  mutable ForkSafeMutex mutex_;  // of what follows
  std::exception_ptr error_;
  std::string reason_;
  std::int64_t calls_before_ = -1;  // -1: not swapped
  double ms_ = 0, tuned_ms_ = -1;   // -1: not tuned
};

struct BackgroundWork {
  std::shared_ptr<BackgroundState> state;
  CodeChoices choices;
  bool suppresses_errors;
};
/// Runs `make`, which compiles `graph` and puts the code in its place; what it throws goes to the state.
void make_in_background(const BackgroundWork& work, const Graph& graph, const std::function<void()>& make) noexcept;

/// Has the code of a new entry made.
void submit_entry(std::weak_ptr<FunctionState> function, const Entry& entry, BackgroundWork work);
/// Has the code of a tree's segments made, if there are any, as announced. Not to be called under the function's lock.
void submit_segments(std::weak_ptr<FunctionState> function, const Entry& entry, BackgroundWork work,
                     std::vector<std::shared_ptr<const SegmentCode>> segments);

}  // namespace jit_detail
}  // namespace jit
SINTER_NAMESPACE_END
