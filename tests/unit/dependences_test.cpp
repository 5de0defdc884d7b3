// Which steps must wait for which.
#include "catch.hpp"

#include <sinter/runtime/dependences.hpp>

#include <random>
#include <vector>

using namespace sinter;
using Steps = std::vector<std::vector<MemoryUse>>;
using Waits = std::vector<std::vector<std::uint32_t>>;

namespace {
MemoryUse reads(std::uint32_t space, std::int64_t begin = 0, std::int64_t end = 100) {
  return {space, begin, end, false};
}
MemoryUse writes(std::uint32_t space, std::int64_t begin = 0, std::int64_t end = 100) {
  return {space, begin, end, true};
}

bool conflict(const std::vector<MemoryUse>& a, const std::vector<MemoryUse>& b) {
  for (const MemoryUse& x : a)
    for (const MemoryUse& y : b)
      if (x.space == y.space && x.begin < y.end && y.begin < x.end && (x.is_written || y.is_written)) return true;
  return false;
}
}  // namespace

TEST_CASE("a reader waits for the writer, and who overwrites for the readers") {
  CHECK(dependences_of(Steps{{writes(0)}, {reads(0), writes(1)}, {reads(0), writes(2)}, {writes(0)}}) ==
        Waits{{}, {0}, {0}, {1, 2}});
  CHECK(dependences_of(Steps{{writes(0)}, {writes(0)}, {reads(0)}}) == Waits{{}, {0}, {1}});
  CHECK(dependences_of(Steps{}) == Waits{});
}

TEST_CASE("steps that only read the same memory, or touch other memory, wait for nothing") {
  CHECK(dependences_of(Steps{{reads(0), writes(1)}, {reads(0), writes(2)}}) == Waits{{}, {}});
  CHECK(dependences_of(Steps{
            {writes(0, 0, 64)}, {writes(0, 64, 128)}, {reads(0, 63, 64)}, {reads(0, 60, 70)}, {writes(0, 10, 10)}}) ==
        Waits{{}, {}, {0}, {0, 1}, {}});
}

TEST_CASE("what others of them wait for is left out") {
  CHECK(dependences_of(Steps{{writes(0)}, {reads(0), writes(1)}, {reads(0), reads(1), writes(2)}}) ==
        Waits{{}, {0}, {1}});
}

TEST_CASE("of random steps, every two that conflict are ordered, and no others") {
  std::mt19937 random(5);
  for (int round = 0; round < 200; ++round) {
    Steps steps(1 + random() % 40);
    for (auto& uses : steps)
      for (auto n = random() % 4; n > 0; --n) {
        const auto begin = static_cast<std::int64_t>(random() % 20);
        uses.push_back({static_cast<std::uint32_t>(random() % 3), begin,
                        begin + 1 + static_cast<std::int64_t>(random() % 8), random() % 2 == 0});
      }
    const Waits waits = dependences_of(steps);
    std::vector<std::vector<bool>> found(steps.size(), std::vector<bool>(steps.size())), wanted = found;
    for (std::size_t i = 0; i < steps.size(); ++i) {
      for (std::uint32_t before : waits[i]) {
        CHECK(conflict(steps[before], steps[i]));
        found[i][before] = true;
        for (std::size_t k = 0; k < before; ++k) found[i][k] = found[i][k] || found[before][k];
      }
      for (std::size_t before = 0; before < i; ++before)
        if (conflict(steps[before], steps[i])) {
          wanted[i][before] = true;
          for (std::size_t k = 0; k < before; ++k) wanted[i][k] = wanted[i][k] || wanted[before][k];
        }
    }
    CHECK(found == wanted);
  }
}
