// parallel_for: every index once, errors, nesting, several callers, rounding mode, fork.
#include "../catch.hpp"

#include <sinter/base/threads.hpp>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif
#include <sys/wait.h>
#include <unistd.h>

using namespace sinter;

namespace {
struct ThreadCount {
  int before = thread_count();
  explicit ThreadCount(int count) { set_thread_count(count); }
  ~ThreadCount() { set_thread_count(before); }
};

bool covers_each_once(std::int64_t tasks, double cost) {
  std::vector<std::atomic<int>> hits(static_cast<std::size_t>(tasks));
  parallel_for(tasks, cost, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) ++hits[static_cast<std::size_t>(i)];
  });
  for (auto& h : hits)
    if (h != 1) return false;
  return true;
}
}  // namespace

TEST_CASE("parallel_for covers every index once", "[threads]") {
  for (int threads : {1, 2, 4}) {
    ThreadCount count(threads);
    for (std::int64_t tasks : {0, 1, 2, 3, 7, 64, 1000, 100003})
      for (double cost : {0.0, 1.0, 100.0, 1e6}) CHECK(covers_each_once(tasks, cost));
  }
}

TEST_CASE("small work stays on the caller", "[threads]") {
  ThreadCount count(2);
  int calls = 0;
  auto self = std::this_thread::get_id();
  parallel_for(10, 10, [&](std::int64_t begin, std::int64_t end) {
    ++calls;
    CHECK(std::this_thread::get_id() == self);
    CHECK(begin == 0);
    CHECK(end == 10);
  });
  CHECK(calls == 1);
}

TEST_CASE("each thread goes through a share of its own", "[threads]") {
  ThreadCount count(2);
  bool is_shared = false;
  for (int round = 0; round < 50 && !is_shared; ++round) {  // until a helper comes in time
    const auto self = std::this_thread::get_id();
    std::atomic<int> inside{0};
    std::atomic<std::int64_t> own{-1}, other{-1};
    parallel_for(8, 1e9, [&](std::int64_t begin, std::int64_t) {
      std::int64_t none = -1;
      if (!(std::this_thread::get_id() == self ? own : other).compare_exchange_strong(none, begin)) return;
      ++inside;
      for (int i = 0; i < 1000 && inside < 2; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    });
    is_shared = inside == 2;
    if (!is_shared) continue;
    CHECK(own == 0);
    CHECK(other == 4);
  }
  CHECK(is_shared);
}

TEST_CASE("the last chunk of long work is short", "[threads]") {
  ThreadCount count(2);
  constexpr std::int64_t tasks = 4000;
  constexpr double each_nanoseconds = 10'000;
  std::atomic<std::int64_t> longest{0};
  parallel_for(tasks, each_nanoseconds, [&](std::int64_t begin, std::int64_t end) {
    std::int64_t before = longest;
    while (before < end - begin && !longest.compare_exchange_weak(before, end - begin)) {}
  });
  CHECK(static_cast<double>(longest) * each_nanoseconds <= 100'000);
}

TEST_CASE("exceptions come out of parallel_for, and it works afterwards", "[threads]") {
  for (int threads : {1, 2}) {
    ThreadCount count(threads);
    for (int round = 0; round < 50; ++round) {
      CHECK_THROWS_AS(parallel_for(1000, 1000,
                                   [&](std::int64_t begin, std::int64_t) {
                                     if (begin >= 0) throw std::runtime_error("chunk");
                                   }),
                      std::runtime_error);
      CHECK(covers_each_once(1000, 1000));
    }
  }
}

TEST_CASE("nested parallel_for runs on its own thread", "[threads]") {
  ThreadCount count(2);
  std::atomic<int> sum{0};
  parallel_for(16, 1e5, [&](std::int64_t begin, std::int64_t end) {
    auto self = std::this_thread::get_id();
    for (std::int64_t i = begin; i < end; ++i)
      parallel_for(10, 1e5, [&](std::int64_t b, std::int64_t e) {
        if (std::this_thread::get_id() == self) sum += static_cast<int>(e - b);
      });
  });
  CHECK(sum == 160);
}

TEST_CASE("many threads call parallel_for at once", "[threads]") {
  ThreadCount count(2);
  std::atomic<int> failures{0};
  std::vector<std::thread> callers;
  for (int t = 0; t < 12; ++t)
    callers.emplace_back([&] {
      for (int round = 0; round < 200; ++round) failures += !covers_each_once(100 + round, 1000);
    });
  for (auto& caller : callers) caller.join();
  CHECK(failures == 0);
}

TEST_CASE("a forked child computes, and so does its parent", "[threads]") {
  ThreadCount count(2);
  REQUIRE(covers_each_once(5000, 1000));
  pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    bool right = covers_each_once(5000, 1000) && covers_each_once(77, 1e6);
    std::atomic<int> inside{0};
    std::atomic<bool> is_shared{false};  // two threads met in it
    parallel_for(2, 1e9, [&](std::int64_t, std::int64_t) {
      ++inside;
      for (int i = 0; i < 2000 && !is_shared; ++i) {
        if (inside == 2) is_shared = true;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    });
    right = right && is_shared;
    _exit(right ? 0 : 1);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  CHECK(covers_each_once(5000, 1000));
}

#if defined(__x86_64__)
TEST_CASE("workers compute under the caller's rounding mode", "[threads]") {
  ThreadCount count(2);
  const unsigned before = _mm_getcsr();
  _mm_setcsr((before & ~0x6000u) | 0x4000u);  // up
  std::atomic<int> wrong{0};
  parallel_for(64, 1e5, [&](std::int64_t, std::int64_t) { wrong += (_mm_getcsr() & 0x6000u) != 0x4000u; });
  _mm_setcsr(before);
  CHECK(wrong == 0);
}
#endif
