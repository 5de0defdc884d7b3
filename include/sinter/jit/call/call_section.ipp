// The marks of all threads, and what waits for them.
#pragma once

#include <sinter/jit/call/call_section.hpp>

#include <sinter/base/fork.hpp>

#include <algorithm>
#include <mutex>
#include <utility>
#include <vector>

#if defined(__linux__) && __has_include(<linux/membarrier.h>)
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

SINTER_NAMESPACE_BEGIN
namespace jit {

namespace jit_detail {

struct CallMarks {
  struct Waiting {
    std::shared_ptr<const void> what;
    std::vector<std::pair<CallMark*, std::uint64_t>> calls;  // open when it came: the epoch they were in
  };
  ForkSafeMutex mutex;
  std::vector<std::unique_ptr<CallMark>> marks;
  std::vector<CallMark*> idle;  // of threads that have ended
  std::vector<Waiting> waiting;
};

/// Lives until its thread ends. Calls from later destructors of the thread take a mark that stays taken.
struct CallMarkLease {
  CallMark* mark = nullptr;
  ~CallMarkLease() {
    if (mark == nullptr || mark->depth != 0) return;
    own_call_mark() = nullptr;
    auto& all = process_object<CallMarks>();
    std::scoped_lock lock(all.mutex);
    all.idle.push_back(mark);
  }
};

/// The child has none of the other threads: their calls have ended.
inline void forget_calls_of_others() {
  const CallMark* own = own_call_mark();
  for (const auto& mark : process_object<CallMarks>().marks)
    if (mark.get() != own && mark->epoch.load() % 2 != 0) mark->depth = 0, mark->epoch.fetch_add(1);
}

SINTER_DECL CallMark* take_call_mark() {
  in_forked_child(forget_calls_of_others);
  auto& all = process_object<CallMarks>();
  CallMark* mark = nullptr;
  {
    std::scoped_lock lock(all.mutex);
    if (all.idle.empty()) {
      mark = all.marks.emplace_back(std::make_unique<CallMark>()).get();
      all.idle.reserve(all.marks.size());  // giving it back must not fail
    } else {
      mark = all.idle.back();
      all.idle.pop_back();
    }
  }
  static thread_local CallMarkLease lease;
  lease.mark = mark;
  return own_call_mark() = mark;
}

/// Every thread of the process has passed a full barrier when it returns true.
inline bool pass_barrier_everywhere() noexcept {
#if defined(__linux__) && __has_include(<linux/membarrier.h>)
  static const bool is_registered = syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
  return is_registered && syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0;
#else
  return false;
#endif
}

}  // namespace jit_detail

SINTER_DECL void destroy_after_calls(std::shared_ptr<const void> what) {
  using namespace jit_detail;
  const bool is_ordered =
      pass_barrier_everywhere();  // a section that this does not see begins later, and finds nothing
  auto& all = process_object<CallMarks>();
  std::vector<std::shared_ptr<const void>> done;  // destroyed behind the lock: it may hold objects of the user
  std::scoped_lock lock(all.mutex);
  CallMarks::Waiting& added = all.waiting.emplace_back();
  added.what = std::move(what);
  if (!is_ordered) added.calls.emplace_back(nullptr, 0);
  for (const auto& mark : all.marks)
    if (const std::uint64_t epoch = mark->epoch.load(std::memory_order_acquire); epoch % 2 != 0)
      added.calls.emplace_back(mark.get(), epoch);
  std::erase_if(all.waiting, [&](CallMarks::Waiting& waiting) {
    std::erase_if(waiting.calls, [](const auto& call) {
      return call.first != nullptr && call.first->epoch.load(std::memory_order_acquire) != call.second;
    });
    if (waiting.calls.empty()) done.push_back(std::move(waiting.what));
    return waiting.calls.empty();
  });
}

}  // namespace jit
SINTER_NAMESPACE_END
