// The thread of background jobs, and its end.
#pragma once

#include <sinter/base/background.hpp>

#include <sinter/base/fork.hpp>

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <deque>
#include <exception>
#include <iterator>
#include <limits>
#include <mutex>
#include <thread>
#include <utility>

SINTER_NAMESPACE_BEGIN
namespace base_detail {

class BackgroundThread {
 public:
  static BackgroundThread& instance();

  std::int64_t add(std::shared_ptr<BackgroundJob> job) {
    std::unique_lock lock(mutex_);
    if (is_stopping_) return done_;
    const std::int64_t number = done_ + static_cast<std::int64_t>(jobs_.size()) + 1;
    jobs_.push_back(std::move(job));
    start();
    if (!thread_.joinable() && !is_running_) run_front(lock);
    lock.unlock();
    has_changed_.notify_all();
    return number;
  }

  bool wait(std::int64_t number) {
    std::unique_lock lock(mutex_);
    if (is_in_job()) return false;
    number = std::min(number, done_ + static_cast<std::int64_t>(jobs_.size()));
    start();  // a forked child may have jobs and no thread yet
    while (done_ < number && !is_stopping_) {
      if (!thread_.joinable() && !is_running_) run_front(lock);
      else has_changed_.wait(lock);
    }
    return !is_stopping_;
  }
  void start_inherited() {
    const std::scoped_lock lock(mutex_);
    has_inherited_jobs.store(false, std::memory_order_relaxed);
    start();  // where there is no thread left, who waits or adds a job runs them
  }

 private:
  struct Place;

  /// Under the lock.
  void start() {
    if (thread_.joinable() || is_stopping_ || jobs_.empty()) return;
    sigset_t all, before;
    sigfillset(&all);  // the user's signals are not for this thread
    ::pthread_sigmask(SIG_SETMASK, &all, &before);
    try {
      thread_ = std::thread([this] { serve(); });
    } catch (const std::exception&) {  // no thread or no memory is left: whoever holds the lock runs the jobs
    }
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }
  bool is_own_thread() const { return std::this_thread::get_id() == thread_.get_id(); }
  /// Under the lock. Where there is no thread, jobs run in those of the user.
  bool is_in_job() const { return is_own_thread() || (is_running_ && std::this_thread::get_id() == runner_); }

  /// The job stays in front while it runs, so that a forked child finds it.
  void run_front(std::unique_lock<ForkSafeMutex>& lock) {
    std::shared_ptr<BackgroundJob> job = jobs_.front();
    is_running_ = true;
    runner_ = std::this_thread::get_id();
    lock.unlock();
    job->run();
    lock.lock();
    is_running_ = false;
    std::shared_ptr<BackgroundJob> done = std::move(jobs_.front());
    jobs_.pop_front();
    ++done_;
    lock.unlock();
    job.reset();  // what it holds may be of the user
    done.reset();
    has_changed_.notify_all();
    lock.lock();
  }
  void serve() noexcept {
    std::unique_lock lock(mutex_);
    for (;;) {
      has_changed_.wait(lock, [this] { return !jobs_.empty() || is_stopping_; });
      if (is_stopping_) return;
      run_front(lock);
    }
  }

  /// At exit: the job that runs is finished, for it uses objects of the process; the others are dropped.
  void stop() noexcept {
    std::deque<std::shared_ptr<BackgroundJob>> dropped;
    {
      std::scoped_lock lock(mutex_);
      is_stopping_ = true;
      is_background_stopping.store(true, std::memory_order_relaxed);
      const auto first = jobs_.begin() + (is_running_ ? 1 : 0);
      dropped.assign(std::make_move_iterator(first), std::make_move_iterator(jobs_.end()));
      jobs_.erase(first, jobs_.end());
    }
    has_changed_.notify_all();
    if (!thread_.joinable()) return;
    if (is_own_thread()) thread_.detach();  // a job called exit()
    else thread_.join();
  }

  /// The child has no thread, and the jobs that its parent had; fork() waited until nobody held the lock.
  BackgroundThread* of_child() const {
    auto* own = new BackgroundThread;
    own->jobs_ = jobs_;
    own->done_ = done_;
    has_inherited_jobs.store(!jobs_.empty(), std::memory_order_relaxed);
    return own;
  }

  ForkSafeMutex mutex_;  // of what follows
  std::condition_variable_any has_changed_;
  std::deque<std::shared_ptr<BackgroundJob>> jobs_;  // the first one may be running
  std::int64_t done_ = 0;
  bool is_running_ = false, is_stopping_ = false;
  std::thread::id runner_;  // of the first job, while that runs
  std::thread thread_;
};

/// The one of this process; never destroyed.
struct BackgroundThread::Place {
  std::atomic<BackgroundThread*> thread{new BackgroundThread};
  Place() {
    in_forked_child([] {
      auto& now = process_object<Place>().thread;
      now.store(now.load()->of_child());
    });
    std::atexit([] { instance().stop(); });
  }
};
inline BackgroundThread& BackgroundThread::instance() {
  return *process_object<Place>().thread.load(std::memory_order_acquire);
}

SINTER_DECL std::int64_t run_in_background(std::shared_ptr<BackgroundJob> job) {
  return BackgroundThread::instance().add(std::move(job));
}
SINTER_DECL bool wait_for_background(std::int64_t job) { return BackgroundThread::instance().wait(job); }
SINTER_DECL void wait_for_background() { wait_for_background(std::numeric_limits<std::int64_t>::max()); }
SINTER_DECL void start_inherited_jobs() { BackgroundThread::instance().start_inherited(); }

}  // namespace base_detail
SINTER_NAMESPACE_END
