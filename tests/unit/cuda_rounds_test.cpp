// How many times candidates for a product are timed.
#include "../catch.hpp"

#include <sinter/sinter.hpp>

#ifdef SINTER_CUDA
#include <sinter/backend/cuda/product/rounds.hpp>

#include <stdexcept>
#include <vector>

using namespace sinter;

namespace {

/// Candidates that take so many microseconds, and how many runs of each there were.
struct Candidates {
  std::vector<double> microseconds;
  std::vector<int> runs = std::vector<int>(microseconds.size());
  std::vector<double> medians() {
    return cuda::cuda_detail::medians_of_rounds(microseconds.size(), [this](std::size_t i, int times) {
      if (microseconds[i] < 0) throw std::runtime_error("it fails");
      runs[i] += times;
      return microseconds[i];
    });
  }
};

}  // namespace

TEST_CASE("products are measured in rounds: a clear winner needs two runs, near ones seven rounds, long ones four") {
  Candidates clear{{30, 50, 90}};
  CHECK(clear.medians() == std::vector<double>{30, 50, 90});
  CHECK(clear.runs == std::vector<int>{2, 2, 2});

  Candidates near{{30, 31, 38, 50}};
  CHECK(near.medians() == std::vector<double>{30, 31, 38, 50});
  CHECK(near.runs == std::vector<int>{2 + 6 * 6, 2 + 6 * 6, 2 + 5, 2});  // of 200 us a round

  Candidates fails{{-1, 30, 31}};
  CHECK(fails.medians() == std::vector<double>{-1, 30, 31});
  CHECK(fails.runs[0] == 0);
  CHECK(fails.runs[1] > 2);

  Candidates alone{{-1, 30}};
  CHECK(alone.medians() == std::vector<double>{-1, 30});
  CHECK(alone.runs[1] == 2);

  Candidates lengthy{{2000, 2010, 2100, 3000}};
  CHECK(lengthy.medians() == std::vector<double>{2000, 2010, 2100, 3000});
  CHECK(lengthy.runs == std::vector<int>{2 + 3 * 3, 2 + 3 * 3, 2 + 3 * 2, 2});
}
#endif
