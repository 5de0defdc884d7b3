// What a stretch of code asks of the system: calls of the allocator and of pthread's locks and waits on this thread,
// counted by functions that take the place of the C library's, and system calls, counted by a process that traces a
// forked child. Defines those functions, so one file of a program includes it. Knows nothing of compiled functions.
#pragma once

#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>

#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace hooks {
struct Counts {
  std::int64_t allocations = 0;  // malloc and its kin, which operator new calls
  std::int64_t frees = 0;        // of something
  std::int64_t locks = 0;        // mutexes, reader-writer locks, spin locks, pthread_once
  std::int64_t waits = 0;        // condition variables and semaphores, waking included; futexes through syscall()
};
inline thread_local constinit Counts counts;

/// What `run` counted on this thread.
template <class F>
Counts counts_in(F&& run) {
  const Counts before = counts;
  run();
  return {counts.allocations - before.allocations, counts.frees - before.frees, counts.locks - before.locks,
          counts.waits - before.waits};
}

template <class F>
F* next_function(const char* name) {
  return reinterpret_cast<F*>(dlsym(RTLD_NEXT, name));
}

/// Brackets what is counted: no program makes this call by itself.
inline constexpr long marker = SYS_getppid;
inline constexpr std::int64_t refused = -1, failed = -2;

/// Runs in the child: asks to be traced, and waits for the tracer.
template <class F>
[[noreturn]] void be_traced(F& run) {
  if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) _exit(1);
  raise(SIGSTOP);
  try {
    ::syscall(marker);
    run();
    ::syscall(marker);
  } catch (...) { _exit(2); }
  _exit(0);
}

/// Lets the child go on to its next system call, on entry or return; false: it has ended.
inline bool goes_on(pid_t child, int& status) {
  if (ptrace(PTRACE_SYSCALL, child, nullptr, nullptr) != 0) return false;
  return waitpid(child, &status, 0) == child && WIFSTOPPED(status);
}
/// The system calls that `run` makes in a forked child, which has this thread alone; -1: the system lets nobody trace;
/// -2: `run` failed there. `numbers` says which they were.
template <class F>
std::int64_t system_calls_in(F&& run, std::string* numbers = nullptr) {
  const pid_t child = fork();
  if (child < 0) return refused;
  if (child == 0) be_traced(run);
  int status = 0, markers = 0;
  std::int64_t found = 0;
  if (waitpid(child, &status, 0) != child || !WIFSTOPPED(status)) return refused;
  ptrace(PTRACE_SETOPTIONS, child, nullptr, static_cast<long>(PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL));
  while (goes_on(child, status)) {
    if (WSTOPSIG(status) != (SIGTRAP | 0x80)) continue;
    __ptrace_syscall_info info{};
    if (ptrace(PTRACE_GET_SYSCALL_INFO, child, reinterpret_cast<void*>(sizeof info), &info) <= 0) {
      kill(child, SIGKILL);
      waitpid(child, &status, 0);
      return refused;
    }
    if (info.op != PTRACE_SYSCALL_INFO_ENTRY) continue;
    if (static_cast<long>(info.entry.nr) == marker) ++markers;
    else if (markers == 1) {
      ++found;
      if (numbers != nullptr && found <= 8) *numbers += std::to_string(info.entry.nr) + " ";
    }
  }
  if (!WIFEXITED(status)) return failed;
  if (WEXITSTATUS(status) == 1) return refused;
  return markers == 2 && WEXITSTATUS(status) == 0 ? found : failed;
}
}  // namespace hooks

// ---- the allocator --------------------------------------------------------------------------------------------------

extern "C" {
void* __libc_malloc(std::size_t bytes);
void* __libc_calloc(std::size_t count, std::size_t bytes);
void* __libc_realloc(void* block, std::size_t bytes);
void* __libc_memalign(std::size_t alignment, std::size_t bytes);
void __libc_free(void* block);

void* malloc(std::size_t bytes) { return ++hooks::counts.allocations, __libc_malloc(bytes); }
void* calloc(std::size_t count, std::size_t bytes) { return ++hooks::counts.allocations, __libc_calloc(count, bytes); }
void* realloc(void* block, std::size_t bytes) { return ++hooks::counts.allocations, __libc_realloc(block, bytes); }
void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  return ++hooks::counts.allocations, __libc_memalign(alignment, bytes);
}
void* memalign(std::size_t alignment, std::size_t bytes) {
  return ++hooks::counts.allocations, __libc_memalign(alignment, bytes);
}
int posix_memalign(void** block, std::size_t alignment, std::size_t bytes) {
  ++hooks::counts.allocations;
  *block = __libc_memalign(alignment, bytes);
  return *block != nullptr ? 0 : ENOMEM;
}
void free(void* block) {
  hooks::counts.frees += block != nullptr;
  __libc_free(block);
}
}

// ---- locks and waits ------------------------------------------------------------------------------------------------

// A function of that name which counts and calls the C library's.
#define SINTER_TEST_COUNTED(counter, name, parameters, arguments)          \
  extern "C" int name parameters {                                         \
    static auto* const real = hooks::next_function<int parameters>(#name); \
    return ++hooks::counts.counter, real arguments;                        \
  }
SINTER_TEST_COUNTED(locks, pthread_mutex_lock, (pthread_mutex_t * mutex), (mutex))
SINTER_TEST_COUNTED(locks, pthread_mutex_trylock, (pthread_mutex_t * mutex), (mutex))
SINTER_TEST_COUNTED(locks, pthread_mutex_timedlock, (pthread_mutex_t * mutex, const timespec* until), (mutex, until))
SINTER_TEST_COUNTED(locks, pthread_rwlock_rdlock, (pthread_rwlock_t * lock), (lock))
SINTER_TEST_COUNTED(locks, pthread_rwlock_tryrdlock, (pthread_rwlock_t * lock), (lock))
SINTER_TEST_COUNTED(locks, pthread_rwlock_wrlock, (pthread_rwlock_t * lock), (lock))
SINTER_TEST_COUNTED(locks, pthread_rwlock_trywrlock, (pthread_rwlock_t * lock), (lock))
SINTER_TEST_COUNTED(locks, pthread_spin_lock, (pthread_spinlock_t * lock), (lock))
SINTER_TEST_COUNTED(locks, pthread_once, (pthread_once_t * once, void (*run)()), (once, run))
SINTER_TEST_COUNTED(waits, pthread_cond_wait, (pthread_cond_t * condition, pthread_mutex_t* mutex), (condition, mutex))
SINTER_TEST_COUNTED(waits, pthread_cond_timedwait,
                    (pthread_cond_t * condition, pthread_mutex_t* mutex, const timespec* until),
                    (condition, mutex, until))
SINTER_TEST_COUNTED(waits, pthread_cond_signal, (pthread_cond_t * condition), (condition))
SINTER_TEST_COUNTED(waits, pthread_cond_broadcast, (pthread_cond_t * condition), (condition))
SINTER_TEST_COUNTED(waits, sem_wait, (sem_t * semaphore), (semaphore))
SINTER_TEST_COUNTED(waits, sem_post, (sem_t * semaphore), (semaphore))
#undef SINTER_TEST_COUNTED

/// What libraries make of futexes: the C library has no function for them.
extern "C" long syscall(long number, ...) noexcept {
  static auto* const real = hooks::next_function<long(long, ...)>("syscall");
  hooks::counts.waits += number == SYS_futex;
  va_list list;
  va_start(list, number);
  long words[6];
  for (long& word : words) word = va_arg(list, long);
  va_end(list);
  return real(number, words[0], words[1], words[2], words[3], words[4], words[5]);
}
