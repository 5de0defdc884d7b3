// The pool that runs parallel_for. A job sits in one of a few slots; helpers (tasks enqueued into a TBB arena of our
// own) look for open slots, claim chunks, and spin for a short while before they return their thread to TBB. TBB
// does not survive fork(): the child starts a new pool, whose helpers are threads of our own.
#pragma once

#include <sinter/base/threads.hpp>

#include <sinter/base/context.hpp>
#include <sinter/base/fork.hpp>
#include <sinter/base/index.hpp>
#include <sinter/base/json_text.hpp>
#include <sinter/base/serial_section.hpp>
#include <sinter/base/thread_limit.hpp>
#include <sinter/base/timeline.hpp>

#include <oneapi/tbb/info.h>
#include <oneapi/tbb/task_arena.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <limits>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

SINTER_NAMESPACE_BEGIN

namespace base_detail {

inline void spin_pause() {
#if defined(__x86_64__)
  _mm_pause();
#else
  std::this_thread::yield();
#endif
}

/// Rounding and subnormal mode of the caller: workers compute under the same one.
struct FloatMode {
#if defined(__x86_64__)
  unsigned bits = _mm_getcsr();
  void apply() const {
    if (_mm_getcsr() != bits) _mm_setcsr(bits);
  }
#else
  void apply() const {}
#endif
};

inline void help_from_pool();

/// A job being run. Slots are never freed, so a helper that comes late finds it closed instead of gone.
/// A helper adds itself to `users` and only then looks at `is_open`; the caller closes and only then looks at `users`.
/// Both orders are sequentially consistent: either the helper sees the slot closed, or the caller waits for it.
/// Tasks lie in as many shares as there are threads. A thread begins with a share of its own, where it goes from a task
/// to the one behind it, whose operands it may ask for, and where it was in the loop before; then it helps with others.
struct alignas(64) JobSlot {
  static constexpr int most_shares = 16;
  struct alignas(64) Share {
    std::atomic<std::int64_t> next{0};
    std::int64_t end = 0;
  };
  std::atomic<bool> is_taken{false};
  std::atomic<bool> is_open{false};
  std::atomic<int> users{0};
  std::int64_t chunk = 0;
  int share_count = 1;
  ChunkFunction function = nullptr;
  void* context = nullptr;
  FloatMode mode;
  std::exception_ptr error;
  std::atomic<bool> has_error{false};
  alignas(64) std::atomic<int> joined{0};  // helpers that have begun
  std::array<Share, most_shares> shares;

  void divide(std::int64_t tasks, int threads) {
    const std::int64_t chunks = (tasks + chunk - 1) / chunk;
    share_count = static_cast<int>(std::min<std::int64_t>({chunks, threads, most_shares}));
    for (int i = 0; i < share_count; ++i) {
      Share& share = shares[as_index(i)];
      share.next.store(chunks * i / share_count * chunk, std::memory_order_relaxed);
      share.end = std::min(chunks * (i + 1) / share_count * chunk, tasks);
    }
    joined.store(0, std::memory_order_relaxed);
  }
  bool has_tasks() const {
    return std::any_of(shares.begin(), shares.begin() + share_count,
                       [](const Share& share) { return share.next.load(std::memory_order_relaxed) < share.end; });
  }
  /// Share 0 is the caller's.
  void claim_chunks(int own) noexcept {
    for (int i = 0; i < share_count; ++i) claim_from(shares[as_index((own + i) % share_count)]);
  }

 private:
  void claim_from(Share& share) noexcept {
    for (;;) {
      const std::int64_t begin = share.next.fetch_add(chunk, std::memory_order_relaxed);
      if (begin >= share.end) return;
      try {
        function(context, begin, std::min(begin + chunk, share.end));
      } catch (...) {
        if (!has_error.exchange(true)) error = std::current_exception();
        for (int i = 0; i < share_count; ++i) {
          Share& each = shares[as_index(i)];
          each.next.store(each.end, std::memory_order_relaxed);
        }
      }
    }
  }
};

struct ThreadPool;

/// Threads that wait for calls of help(), in a process where TBB cannot be used.
class OwnHelpers {
 public:
  /// Has `pool.help()` called once more. Throws where the system has no thread left.
  void call(ThreadPool& pool);

 private:
  void serve(ThreadPool& pool) noexcept;
  ForkSafeMutex mutex_;
  std::condition_variable_any has_calls_;
  int calls_ = 0, idle_ = 0;
};

struct ThreadPool {
  static constexpr std::size_t slot_count = 8;
  static constexpr std::chrono::microseconds helper_spin{40};
  static constexpr int no_more_helpers = 1 << 20;

  std::atomic<int> count{1};
  std::array<JobSlot, slot_count> slots;
  alignas(64) std::atomic<std::uint32_t> submissions{0};  // what idle helpers watch
  alignas(64) std::atomic<int> helpers{0};                // enqueued or running
  std::unique_ptr<tbb::task_arena> arena;                 // null in a forked child
  std::unique_ptr<OwnHelpers> own_helpers;                // only there

  ThreadPool() : arena(std::make_unique<tbb::task_arena>(std::max(2, tbb::info::default_concurrency()))) {
    const auto wanted =
        static_cast<int>(std::min<std::int64_t>(Context::get().threads, std::numeric_limits<int>::max()));
    count = wanted > 0 ? wanted : tbb::info::default_concurrency();
  }
  /// The pool of a forked child.
  explicit ThreadPool(int threads) : count(threads), own_helpers(std::make_unique<OwnHelpers>()) {}

  JobSlot* take_slot() {
    for (JobSlot& slot : slots)
      if (!slot.is_taken.load(std::memory_order_relaxed) && !slot.is_taken.exchange(true, std::memory_order_acquire))
        return &slot;
    return nullptr;
  }

  /// Enqueues helpers until `wanted` of them live. Those that still wake up or spin count.
  void call_helpers(int wanted) {
    int living = helpers.load(std::memory_order_relaxed);
    while (living < wanted) {
      if (!helpers.compare_exchange_weak(living, living + 1)) continue;
      try {
        if (SINTER_LIKELY(arena != nullptr)) arena->enqueue([] { base_detail::help_from_pool(); });
        else own_helpers->call(*this);
      } catch (...) {
        helpers.fetch_sub(1);  // no memory for a task, or no thread: the caller finishes alone
        return;
      }
      ++living;
    }
  }

  void help() noexcept;
};

/// The pool of this process. Never destroyed: helpers may outlive static destruction.
struct PoolPlace {
  std::atomic<ThreadPool*> pool;
  PoolPlace() : pool(new ThreadPool) {
    in_forked_child([] { instance().start_anew(); });
  }
  static PoolPlace& instance() { return process_object<PoolPlace>(); }
  /// A forked child has none of the threads. The parent's pool stays for a job that this thread is in.
  void start_anew() noexcept {
    ThreadPool* inherited = pool.load();
    for (JobSlot& slot : inherited->slots) slot.users = 0;
    inherited->helpers = ThreadPool::no_more_helpers;
    pool = new ThreadPool(inherited->count.load());
  }
};
inline ThreadPool& thread_pool() { return *PoolPlace::instance().pool.load(std::memory_order_acquire); }

inline void help_from_pool() { thread_pool().help(); }

inline void ThreadPool::help() noexcept {
  const FloatMode own_mode;
  inside_chunk() = true;
  auto idle_since = std::chrono::steady_clock::now();
  for (;;) {
    std::uint32_t seen = submissions.load(std::memory_order_acquire);
    bool has_worked = false;
    for (JobSlot& slot : slots) {
      if (!slot.is_open.load(std::memory_order_relaxed)) continue;
      slot.users.fetch_add(1);
      if (slot.is_open.load()) {
        if (slot.has_tasks()) {
          slot.mode.apply();
          slot.claim_chunks(1 + slot.joined.fetch_add(1, std::memory_order_relaxed));
          has_worked = true;
        }
      }
      slot.users.fetch_sub(1);
    }
    if (has_worked) idle_since = std::chrono::steady_clock::now();
    // A job that stays open with nothing left to claim must not be polled through its counters: watch for a new one.
    while (submissions.load(std::memory_order_acquire) == seen) {
      for (int i = 0; i < 8; ++i) spin_pause();
      if (std::chrono::steady_clock::now() - idle_since > helper_spin) {
        inside_chunk() = false;
        own_mode.apply();
        helpers.fetch_sub(1);
        return;
      }
    }
  }
}

inline void OwnHelpers::call(ThreadPool& pool) {
  std::unique_lock lock(mutex_);
  if (idle_ <= calls_) std::thread([this, &pool] { serve(pool); }).detach();
  ++calls_;
  lock.unlock();
  has_calls_.notify_one();
}
inline void OwnHelpers::serve(ThreadPool& pool) noexcept {
  std::unique_lock lock(mutex_);
  for (;;) {
    ++idle_;
    has_calls_.wait(lock, [this] { return calls_ > 0; });
    --idle_;
    --calls_;
    lock.unlock();
    pool.help();
    lock.lock();
  }
}

/// Chunks long enough that claiming costs nothing, and enough of them that a late helper still finds work, and that the
/// last one is not waited for long.
inline std::int64_t chunk_size(std::int64_t tasks, double nanoseconds_per_task, int threads) {
  constexpr double chunk_nanoseconds = 8'000, longest_nanoseconds = 100'000;
  const double all = static_cast<double>(tasks) * nanoseconds_per_task;
  const double chunks = std::clamp(all / chunk_nanoseconds, static_cast<double>(threads),
                                   std::max(threads * 16.0, all / longest_nanoseconds));
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(static_cast<double>(tasks) / chunks));
}

/// Opens the slot, works, closes it, and waits for the helpers that did start. Returns the first error.
inline std::exception_ptr run_in_slot(ThreadPool& pool, JobSlot& slot, std::int64_t tasks, int threads) {
  slot.divide(tasks, threads);
  slot.is_open.store(true);
  pool.submissions.fetch_add(1, std::memory_order_release);
  const std::int64_t chunks = (tasks + slot.chunk - 1) / slot.chunk;
  pool.call_helpers(static_cast<int>(std::min<std::int64_t>(threads, chunks)) - 1);
  inside_chunk() = true;
  slot.claim_chunks(0);
  inside_chunk() = false;
  slot.is_open.store(false);
  for (int spins = 0; slot.users.load() != 0; ++spins) {
    if (spins < 1000) spin_pause();  // then the helper may be waiting for this processor
    else std::this_thread::yield();
  }
  std::exception_ptr error = std::exchange(slot.error, nullptr);
  slot.has_error = false;
  slot.context = nullptr;
  slot.is_taken.store(false, std::memory_order_release);
  return error;
}

/// A parallel loop whose chunks are spans of the timeline, under the name of the kernel that they are of.
struct WatchedChunks {
  ChunkFunction function;
  void* context;
  timeline::Task task;

  static void run(void* object, std::int64_t begin, std::int64_t end) {
    auto& chunks = *static_cast<WatchedChunks*>(object);
    const std::int64_t start = timeline_now();
    chunks.function(chunks.context, begin, end);
    timeline::complete(
        "chunk", chunks.task.name.empty() ? "parallel loop" : chunks.task.name, start, timeline_now(),
        JsonFields().add("begin", static_cast<long long>(begin)).add("end", static_cast<long long>(end)));
    if (chunks.task.thread >= 0 && chunks.task.thread != timeline::thread_number()) timeline::arrow(chunks.task, start);
  }
};

SINTER_DECL void parallel_run(std::int64_t tasks, double nanoseconds_per_task, ChunkFunction function, void* context) {
  ThreadPool& pool = thread_pool();
  int threads = pool.count.load(std::memory_order_relaxed);
  if (const int limit = thread_limit(); limit > 0) threads = std::min(threads, limit);
  JobSlot* slot = nullptr;
  if (threads > 1 && !inside_chunk()) slot = pool.take_slot();
  if (slot == nullptr) {
    function(context, 0, tasks);
    return;
  }
  WatchedChunks watched{function, context, timeline::current_task()};
  if (SINTER_UNLIKELY(has_timeline())) {
    function = &WatchedChunks::run;
    context = &watched;
  }
  slot->chunk = chunk_size(tasks, nanoseconds_per_task, threads);
  slot->function = function;
  slot->context = context;
  slot->mode = FloatMode{};
  if (std::exception_ptr error = run_in_slot(pool, *slot, tasks, threads)) std::rethrow_exception(error);
}

}  // namespace base_detail

SINTER_DECL int thread_count() { return base_detail::thread_pool().count.load(std::memory_order_relaxed); }
SINTER_DECL void set_thread_count(int count) { base_detail::thread_pool().count = std::max(1, count); }

SINTER_NAMESPACE_END
