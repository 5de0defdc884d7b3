// Mode::max_autotune on a GPU: the same file gives the same plan and the same bits, which are the default's.
#include "catch.hpp"
#include "checks.hpp"
#include "device_cuts.hpp"

#include <sinter/sinter.hpp>
#include <sinter/tuning.hpp>

#include <string>
#include <vector>

using namespace sinter;
using sinter_test::follow_cut;
using sinter_test::FollowedCut;
using sinter_test::TuningFolder;
using Floats = std::vector<float>;

namespace {
template <class F, class... A>
void check_tuned(F f, const A&... args) {
  const TuningFolder store;
  jit::reset();
  const Floats expected = to_vector<float>(jit::compile(f)(args...));
  auto tuned = jit::compile(f, {.mode = jit::Mode::max_autotune, .tune_seconds = 3});
  CHECK(to_vector<float>(tuned(args...)) == expected);
  CHECK(tuning_stats().plans_measured == 1);
  const std::string tunings = runtime_detail::tuning_text(), path = store.folder.path + "/winners.tuning";
  jit::export_tuning(path);
  std::string explained[2];
  for (std::string& text : explained) {
    const TuningFolder elsewhere;
    jit::import_tuning(path);
    jit::reset();
    auto again = jit::compile(f, {.mode = jit::Mode::max_autotune, .tune_seconds = 3});
    CHECK(to_vector<float>(again(args...)) == expected);
    CHECK(tuning_stats().plans_measured == 0);
    CHECK(tuning_stats().measured == 0);
    text = again.lower(args...).schedules();
  }
  CHECK(explained[0] == explained[1]);
  // Whatever is stored: what is followed has the default's bits.
  for (const char* cut : {"recompute(0)", "store(3)", "store(4)", "cut(4)", "cut(7)", "cut[b0](5)", "cut[b0](8)"}) {
    INFO(cut);
    CHECK(follow_cut(tunings, cut, f, args...).values == expected);
  }
}
}  // namespace

TEST_CASE("max_autotune on a GPU: cuts of a graph, and of a loop's body, have the default's bits") {
  if (!cuda::is_available()) SINTER_SKIP("no GPU");
  check_tuned(sinter_test::two_sums, randn({500, 700}));
  check_tuned([](Tensor a) { return softmax(a * 2, 1); }, randn({300, 1000}));
  check_tuned(sinter_test::loop_of_rows, randn({128, 128}), Tensor(randn({128, 128}) * 0.1f));
}
