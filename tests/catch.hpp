// The test framework as this project uses it: Catch2 2.x (Debian 12) and 3.x (Ubuntu 24.04) behind one name, and a way
// to skip that both count.
#pragma once

#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
using Catch::Approx;
namespace Catch {  // names of 2.x
using TestEventListenerBase = EventListenerBase;
inline auto Contains(const std::string& part) { return Matchers::ContainsSubstring(part); }
}  // namespace Catch
#else
#include <catch2/catch.hpp>
#endif

#include <cstdio>
#include <string>

/// Leaves the test case and has ctest count it as skipped, with the reason. A skip is for what this machine lacks (an
/// ISA, a GPU), never for what does not work.
#define SINTER_SKIP(reason)                      \
  do {                                           \
    std::printf("SINTER_SKIPPED: %s\n", reason); \
    std::fflush(stdout);                         \
    SUCCEED("skipped: " << (reason));            \
    return;                                      \
  } while (false)
