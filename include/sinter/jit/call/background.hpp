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

/// How it is with the code of a version, or of a derivative, that is made in the background.
class BackgroundState {
 public:
  explicit BackgroundState(CodeInput given = {}) : input_(std::move(given)) {}
  /// What an entry is made of, to be taken once.
  CodeInput take_input() { return std::move(input_); }

  /// Throws what making the code threw, if that is not suppressed. For calls that run uncompiled.
  void check() const {
    if (SINTER_UNLIKELY(has_failed_.load(std::memory_order_acquire))) throw_failure();
  }
  /// Waits for all that was submitted, and checks.
  void wait() const;
  void submit(std::shared_ptr<base_detail::BackgroundJob> job);
  void fail(std::exception_ptr error) noexcept;
  /// Making code failed, and the version runs uncompiled for ever.
  void leave_uncompiled(std::string reason);
  /// `calls` ran uncompiled before.
  void note_swap(std::int64_t calls, double ms);

  bool is_done() const { return pending_.load(std::memory_order_acquire) == 0; }
  void finish_one() noexcept { pending_.fetch_sub(1, std::memory_order_acq_rel); }
  std::string text(std::int64_t calls) const;

 private:
  [[noreturn]] void throw_failure() const;
  CodeInput input_;
  std::atomic<bool> has_failed_{false};
  std::atomic<int> pending_{0};
  std::atomic<std::int64_t> last_job_{0};
  mutable ForkSafeMutex mutex_;  // of what follows
  std::exception_ptr error_;
  std::string reason_;
  std::int64_t calls_before_ = -1;  // -1: not swapped
  double ms_ = 0;
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
/// Has the code of a tree's segments made, if there are any. Not to be called under the function's lock.
void submit_segments(std::weak_ptr<FunctionState> function, const Entry& entry, BackgroundWork work,
                     std::vector<std::shared_ptr<const SegmentCode>> segments);

}  // namespace jit_detail
}  // namespace jit
SINTER_NAMESPACE_END
