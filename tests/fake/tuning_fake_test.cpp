// Mode::max_autotune on the fake device: the cuts of its graphs, and of bodies of loops, are tried and followed.
#include "catch.hpp"
#include "checks.hpp"
#include "device_cuts.hpp"
#include "fake_device.hpp"

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
const jit::Options tuned{.mode = jit::Mode::max_autotune, .tune_seconds = 30};  // it takes less

/// How many plans of a graph were tried, by the line that says it.
int plans_in(const std::string& log) {
  const std::size_t line = log.find("the cut into kernels: "), of = log.find(", of ", line);
  return line == std::string::npos || of == std::string::npos ? 0 : std::stoi(log.substr(of + 5));
}

/// Cuts of one kernel that another process has stored, one after the other: which of them are followed and give two.
/// All have the same values.
template <class F, class... A>
std::string followed(const Floats& expected, const std::string& step, F f, const A&... args) {
  const std::string tunings = runtime_detail::tuning_text();
  std::string which;
  for (int node = 0; node < 14; ++node) {
    const std::string cut = step + "(" + std::to_string(node) + ")";
    INFO(cut);
    const FollowedCut found = follow_cut(tunings, cut, f, args...);
    CHECK(found.values == expected);
    if (found.is_followed && !has(found.explained, "plan: 1 kernels")) which += cut + " ";
  }
  return which;
}
}  // namespace

TEST_CASE("max_autotune: the graph of a device is cut in other ways, by the numbers of its own nodes") {
  const TuningFolder store;
  const Tensor x = randn({100, 90});
  const Floats expected = to_vector<float>(jit::compile(sinter_test::two_sums)(x));
  LogCapture log("autotune");
  CHECK(to_vector<float>(jit::compile(sinter_test::two_sums, tuned)(x)) == expected);
  const std::string lines = log.take();
  INFO(lines);
  CHECK(plans_in(lines) >= 3);  // the default, recompute(0), store(n)
  CHECK(tuning_stats().plans_measured == 1);
  CHECK(tuning_stats().rejected == 0);

  const auto rows = [](Tensor a) { return softmax(a * 2, 1); };
  const Floats wanted = to_vector<float>(jit::compile(rows)(x));
  const TuningFolder other;
  CHECK(to_vector<float>(jit::compile(rows, tuned)(x)) == wanted);
  CHECK(tuning_stats().plans_measured == 1);
  CHECK_FALSE(followed(wanted, "cut", rows, x).empty());
}

TEST_CASE("max_autotune: the body of a loop on a device is cut in other ways, too") {
  const TuningFolder store;
  const Tensor x = randn({40, 40}), w = randn({40, 40}) * 0.1f;
  const Floats expected = to_vector<float>(jit::compile(sinter_test::loop_of_rows)(x, w));
  LogCapture log("autotune");
  CHECK(to_vector<float>(jit::compile(sinter_test::loop_of_rows, tuned)(x, w)) == expected);
  const std::string lines = log.take();
  INFO(lines);
  CHECK(plans_in(lines) >= 2);
  CHECK(tuning_stats().plans_measured == 1);
  const std::string tunings = runtime_detail::tuning_text();
  int count = 0;
  for (int node = 0; node < 14; ++node) {
    const FollowedCut found =
        follow_cut(tunings, "cut[b0](" + std::to_string(node) + ")", sinter_test::loop_of_rows, x, w);
    CHECK(found.values == expected);
    count += found.is_followed ? 1 : 0;
  }
  CHECK(count > 0);
  // There is no second body, and none of the graph's own nodes can be cut.
  CHECK(follow_cut(tunings, "cut[b1](3)", sinter_test::loop_of_rows, x, w).values == expected);
}

TEST_CASE("max_autotune: a graph in parts, on two devices, names no nodes") {
  const TuningFolder store;
  const auto f = [](Tensor x) {
    const Tensor there = softmax(x * 2, 1).to(Device::cuda(1));
    return sum(tanh(there + 1), 0);
  };
  const Tensor x = randn({60, 50});
  const Floats expected = to_vector<float>(jit::compile(f)(x));
  CHECK(to_vector<float>(jit::compile(f, tuned)(x)) == expected);
  const std::string tunings = runtime_detail::tuning_text();
  if (!has(tunings, "; plan of ")) return;  // one way only
  CHECK_FALSE(follow_cut(tunings, "cut(3)", f, x).is_followed);
  CHECK(follow_cut(tunings, "cut(3)", f, x).values == expected);
}
