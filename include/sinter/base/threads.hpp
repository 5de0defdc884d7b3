// Worker threads: parallel_for over numbered tasks, with a cost estimate that decides whether threads are worth it.
// The caller claims chunks like everybody else and never waits for a worker that has not started, so a sleeping pool
// costs it nothing. Must not know tensors, kernels or back ends; the pool's implementation (TBB) stays in the .ipp.
#pragma once

#include <sinter/base/config.hpp>

#include <cstdint>
#include <memory>
#include <type_traits>

SINTER_NAMESPACE_BEGIN

/// Threads that parallel_for may use, the caller included. At first SINTER_THREADS, or else the processors we may run
/// on.
int thread_count();
/// Sets it for the process; values below 1 mean 1. Results never depend on it.
void set_thread_count(int count);

/// Work below this many nanoseconds is not worth a second thread.
inline constexpr double serial_nanoseconds = 30'000;

namespace base_detail {
using ChunkFunction = void (*)(void* context, std::int64_t begin, std::int64_t end);
void parallel_run(std::int64_t tasks, double nanoseconds_per_task, ChunkFunction function, void* context);
}  // namespace base_detail

/// Calls fn(begin, end) on disjoint ranges that together cover [0, tasks), and returns when all are done. Ranges may
/// run on several threads at once. Nested calls run on the caller alone. The first
/// exception from fn is rethrown here, once no thread is inside fn any more; ranges not begun by then never run.
template <class F>
void parallel_for(std::int64_t tasks, double nanoseconds_per_task, F&& fn) {
  if (tasks <= 0) return;
  if (tasks == 1 || static_cast<double>(tasks) * nanoseconds_per_task < serial_nanoseconds) {
    fn(std::int64_t{0}, tasks);
    return;
  }
  using Function = std::remove_reference_t<F>;
  base_detail::parallel_run(
      tasks, nanoseconds_per_task,
      [](void* context, std::int64_t begin, std::int64_t end) { (*static_cast<Function*>(context))(begin, end); },
      const_cast<void*>(static_cast<const void*>(std::addressof(fn))));
}

SINTER_NAMESPACE_END
