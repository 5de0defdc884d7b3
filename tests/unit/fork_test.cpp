// fork() while other threads are inside the library: the child evaluates, compiles, allocates and ends.
#include "../catch.hpp"

#include <sinter/base/fork.hpp>
#include <sinter/jit/lazy/lazy.hpp>
#include <sinter/runtime/kernel_cache.hpp>
#include <sinter/sinter.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <thread>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

using namespace sinter;

namespace {
/// Ends the thread, which calls `work` again and again, when it goes.
class Busy {
 public:
  template <class F>
  explicit Busy(F work)
      : thread_([this, work]() mutable {
          while (!is_over_) {
            work();
            ++rounds_;
          }
        }) {
    while (rounds_ == 0) std::this_thread::yield();
  }
  ~Busy() {
    is_over_ = true;
    thread_.join();
  }

 private:
  std::atomic<bool> is_over_{false};
  std::atomic<int> rounds_{0};
  std::thread thread_;
};

/// Runs `work` in a child. 0: it returned true in time.
template <class F>
int status_of_child(F&& work) {
  const pid_t child = fork();
  if (child == 0) {
    bool is_right = false;
    try {
      is_right = work();
    } catch (...) {}
    _exit(is_right ? 0 : 1);
  }
  int status = 0;
  for (int i = 0; i < 10'000; ++i) {
    if (waitpid(child, &status, WNOHANG) == child) return status;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  kill(child, SIGKILL);
  waitpid(child, &status, 0);
  return status;
}

template <class F>
int failures_of_children(int children, F&& work) {
  int failures = 0;
  for (int i = 0; i < children; ++i) {
    failures += status_of_child(work) != 0;
    std::this_thread::sleep_for(std::chrono::microseconds(137 * (i % 7)));  // another moment of the busy thread
  }
  return failures;
}

/// Lazily, with graphs and sizes that change, so that plans and kernels are made all the time.
void evaluate_lazily(int seed) {
  Tensor x = full({1 + seed % 11, 40}, 0.5);
  for (int i = 0; i < seed % 7; ++i) x = x * 2 + i;
  static_cast<void>(item<float>(sum(relu(x))));
}
void compile_and_call(int seed) {
  auto f = jit::compile([seed](Tensor x) {
    for (int i = 0; i < 1 + seed % 5; ++i) x = tanh(x) * (seed % 3 + 1);
    return softmax(x, 0);
  });
  static_cast<void>(item<float>(sum(f(ones({3 + seed % 4})))));
}

bool child_works() {
  for (int i = 0; i < 4; ++i) {
    evaluate_lazily(i);
    compile_and_call(i);
  }
  auto f = jit::compile([](Tensor x, Tensor y) { return matmul(x, y) + 1; });
  if (item<float>(sum(f(ones({8, 16}), ones({16, 4})))) != 8 * 4 * 17) return false;
  std::vector<Tensor> kept;
  for (int i = 0; i < 20; ++i) kept.push_back(eval(full({100 << i % 8}, i) + 1));
  bool is_right = false;
  std::thread([&] { is_right = item<float>(sum(ones({300, 300}))) == 90000; }).join();
  static_cast<void>(memory_stats());
  release_cached_memory();
  return is_right && item<float>(kept[19](0)) == 20;
}
/// GCC's address sanitizer does not prepare its allocator for fork(): a child whose parent allocated in another thread
/// hangs in it.
#ifdef __SANITIZE_ADDRESS__
constexpr bool sanitizer_locks_stay = true;
#else
constexpr bool sanitizer_locks_stay = false;
#endif
}  // namespace

TEST_CASE("fork: a child finds the locks of other threads open", "[fork]") {
  ForkSafeMutex mutex;
  ForkSafeSharedMutex shared;
  std::atomic<int> half{0};  // odd while it is changed
  Busy busy([&] {
    std::scoped_lock lock(mutex, shared);
    ++half;
    std::this_thread::sleep_for(std::chrono::microseconds(200));
    ++half;
  });
  CHECK(failures_of_children(40, [&] {
          if (!mutex.try_lock()) return false;
          mutex.unlock();
          shared.lock_shared();
          shared.unlock_shared();
          return half % 2 == 0;
        }) == 0);
}

TEST_CASE("fork: a thread that holds a lock itself forks at once", "[fork]") {
  ForkSafeMutex mutex;
  mutex.lock();
  std::thread waits([&] { std::scoped_lock lock(mutex); });
  CHECK(status_of_child([&] { return !mutex.try_lock(); }) == 0);
  mutex.unlock();
  waits.join();
}

TEST_CASE("fork: functions for the child run there once", "[fork]") {
  static std::atomic<int> runs{0};
  for (int i = 0; i < 3; ++i) in_forked_child([] { ++runs; });
  auto twice = [] { runs += 10; };
  in_forked_child(twice);
  in_forked_child(twice);
  CHECK(status_of_child([] { return runs % 10 > 0 && runs / 10 == 1; }) == 0);
  CHECK(runs == 0);
}

TEST_CASE("fork: the child of a process that evaluates lazily", "[fork]") {
  if (sanitizer_locks_stay) SINTER_SKIP("the address sanitizer's own allocator keeps its locks across fork()");
  Busy busy([seed = 0]() mutable { evaluate_lazily(seed++); });
  CHECK(failures_of_children(40, child_works) == 0);
}

TEST_CASE("fork: the child of a process that compiles", "[fork]") {
  if (sanitizer_locks_stay) SINTER_SKIP("the address sanitizer's own allocator keeps its locks across fork()");
  Busy busy([seed = 0]() mutable {
    compile_and_call(seed++);
    if (seed % 16 == 0) {
      clear_kernel_cache();
      jit::clear_lazy_cache();
    }
  });
  CHECK(failures_of_children(40, child_works) == 0);
}

TEST_CASE("fork: a Variable that another thread updates in place", "[fork]") {
  Variable v(zeros({4096}));
  auto step = jit::compile([](const Variable& a) { a += 1; });
  for (int i = 0; i < 3; ++i) step(v);
  Busy busy([&] { step(v); });
  CHECK(failures_of_children(20, [&] {
          const std::vector<float> values = to_vector<float>(v.value());
          return std::all_of(values.begin(), values.end(), [&](float x) { return x == values[0]; });
        }) == 0);
}
