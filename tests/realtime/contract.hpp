// Helpers of the tests of the real-time contract: what the calls of a function ask of the system, counted on a thread
// of its own. SINTER_TEST_COUNTS says that counting works here. Like hooks.hpp, for one file of a program, and after
// all other headers.
#pragma once

#include "../catch.hpp"
#include "../sanitized.hpp"

#include <sinter/sinter.hpp>

#include <cstdint>
#include <exception>
#include <string>
#include <thread>

#if defined(__GLIBC__) && defined(__linux__) && !defined(SINTER_TEST_SANITIZED)
#define SINTER_TEST_COUNTS

#include "hooks.hpp"

namespace sinter_test {
using namespace sinter;

inline Tensor ready(Tensor x) {
  eval(x);
  return x;
}

/// What some calls asked for: the first few of them, many more, and a few in a traced child.
struct Asked {
  hooks::Counts first, rest;
  std::int64_t system_calls = 0;
  std::string numbers;
};
/// On a new thread: prepare() gives the call.
template <class Prepare>
Asked asked_by(const Prepare& prepare) {
  Asked asked;
  const auto ask = [&] {
    auto run = prepare();
    const auto times = [&run](int count) {
      return [&run, count] {
        for (int i = 0; i < count; ++i) run();
      };
    };
    asked.first = hooks::counts_in(times(3));
    asked.rest = hooks::counts_in(times(1500));
    asked.system_calls = hooks::system_calls_in(times(100), &asked.numbers);
  };
  std::exception_ptr error;
  std::thread([&] {
    try {
      ask();
    } catch (...) { error = std::current_exception(); }
  }).join();
  if (error) std::rethrow_exception(error);
  return asked;
}
inline void check_nothing(const hooks::Counts& counts) {
  CHECK(counts.allocations == 0);
  CHECK(counts.frees == 0);
  CHECK(counts.locks == 0);
  CHECK(counts.waits == 0);
}
template <class Prepare>
void check_contract(const std::string& kind, const Prepare& prepare) {
  const Asked asked = asked_by(prepare);
  INFO(kind << "; system calls: " << asked.numbers);
  check_nothing(asked.first);
  check_nothing(asked.rest);
  if (asked.system_calls != hooks::refused) CHECK(asked.system_calls == 0);
}
inline bool may_trace() {
  return hooks::system_calls_in([] {}) != hooks::refused;
}

}  // namespace sinter_test

#endif
