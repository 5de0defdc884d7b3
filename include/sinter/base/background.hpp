// One thread that makes things beside the program's own threads: jobs run one after the other, in the order in which
// they came. It starts with the first job and is joined at exit; a forked child starts its own and does what its
// parent's had not finished. Knows nothing of what the jobs make.
#pragma once

#include <sinter/base/config.hpp>

#include <atomic>
#include <cstdint>
#include <memory>

SINTER_NAMESPACE_BEGIN
namespace base_detail {

/// run() may be begun again from the start by a forked child, so what it changes it changes at its end.
class BackgroundJob {
 public:
  virtual ~BackgroundJob() = default;
  virtual void run() noexcept = 0;
};

/// Adds a job, and gives its number, from 1 on. At exit jobs are dropped. Where the system has no thread left, the job
/// runs here.
std::int64_t run_in_background(std::shared_ptr<BackgroundJob> job);
/// Returns when the job of that number, and all before it, are done or dropped; at once in a job. False where it is no
/// use to wait for more: in a job, and at exit.
bool wait_for_background(std::int64_t job);
/// For all that came so far.
void wait_for_background();

/// The process ends, and waits for the job that runs: long ones look at it.
inline constinit std::atomic<bool> is_background_stopping{false};

/// In a forked child: jobs of its parent wait for a thread. Who runs without what they make calls
/// start_inherited_jobs().
inline constinit std::atomic<bool> has_inherited_jobs{false};
void start_inherited_jobs();

}  // namespace base_detail
SINTER_NAMESPACE_END
