// The end of a process: static destructors and threads that still run may evaluate, compile and allocate.
#include "../catch.hpp"

#include <sinter/sinter.hpp>

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <thread>
#include <utility>

#include <sys/wait.h>
#include <unistd.h>

using namespace sinter;

namespace {
/// Dies after every static object that was made while main ran.
struct AtExit {
  std::function<bool()>* work = nullptr;
  ~AtExit() {
    if (work != nullptr && !(*work)()) _exit(3);
  }
};
AtExit at_exit;

bool evaluates() {
  Tensor x = full({40, 60}, 0.5);
  for (int i = 0; i < 30; ++i) x = x * 1 + 0;  // a chain of pending nodes
  if (item<float>(sum(tanh(x) * 0 + x)) != 1200) return false;
  return item<float>(sum(rand({10}))) >= 0;
}
/// Kernels of all kinds that keep something per thread.
bool compiles(int seed) {
  auto f = jit::compile([=](Tensor x, Tensor w) { return softmax(relu(matmul(x, w) + seed) * (x.size(1) + 1), 1); });
  auto g = jit::compile(jit::grad([](Tensor x) { return sum(exp(x) * x); }));
  return std::abs(item<float>(sum(f(ones({37, 19}), ones({19, 23})))) - 37) < 1e-3f && item<float>(g(zeros({}))) == 1;
}

/// The exit status of a child that runs `start` and then ends by exit(), with `last` in a static destructor.
int status_of_exit(const std::function<void()>& start, std::function<bool()> last) {
  std::cout.flush();
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    at_exit.work = new std::function<bool()>(std::move(last));
    start();
    std::exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}
}  // namespace

TEST_CASE("exit: a static destructor evaluates and compiles", "[exit]") {
  auto warm = [] { static_cast<void>(evaluates() && compiles(1)); };
  auto last = [] { return evaluates() && compiles(1) && compiles(2); };
  for (int i = 0; i < 5; ++i) CHECK(status_of_exit(warm, last) == 0);
  CHECK(status_of_exit([] {}, last) == 0);
}

TEST_CASE("exit: objects of static storage are used and die late", "[exit]") {
  auto last = [] {
    static Tensor kept = ones({3}) + 1;
    static Variable v(ones({3}));
    static auto f = jit::compile([](Tensor x, const Variable& y) { y += x; });
    f(kept, v);
    f(kept, v);
    return item<float>(sum(v)) == 15;
  };
  for (int i = 0; i < 3; ++i) CHECK(status_of_exit([] { static_cast<void>(evaluates()); }, last) == 0);
}

TEST_CASE("exit: a detached thread evaluates and compiles all the while", "[exit]") {
  static std::atomic<int> rounds{0};
  auto start = [] {
    std::thread([] {
      for (int seed = 0;; ++seed) {
        if (!evaluates() || !compiles(seed % 5)) _exit(4);
        ++rounds;
      }
    }).detach();
    while (rounds == 0) std::this_thread::yield();
  };
  auto last = [] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    return true;
  };
  for (int i = 0; i < 10; ++i) CHECK(status_of_exit(start, last) == 0);
}
