// Calls that are enqueued as one (reduce_overhead), on the fake device, which runs a group in any order that it
// allows.
#include "catch.hpp"
#include "device_checks.hpp"
#include "fake_device.hpp"

#include <sinter/sinter.hpp>

#include <string>
#include <utility>
#include <vector>

using namespace sinter;
using sinter_test::fake_device;
using sinter_test::Network;
using sinter_test::training_step;
using Floats = std::vector<float>;

namespace {
jit::Options as_one() { return {.mode = jit::Mode::reduce_overhead}; }

/// How many groups a call enqueued.
template <class F>
int groups_of(F&& f) {
  const int before = fake_device().groups;
  f();
  return fake_device().groups - before;
}
}  // namespace

TEST_CASE("a training step as one group learns what it learns kernel by kernel, in place") {
  manual_seed(1);
  const Network one = sinter_test::network(7, 12, 3, 0.3f);
  manual_seed(1);
  const Network each = sinter_test::network(7, 12, 3, 0.3f);
  auto grouped = jit::compile(training_step(), as_one());
  auto plain = jit::compile(training_step());
  const Tensor x = randn({5, 7}), y = randn({5, 3});
  eval(x);
  eval(y);
  std::vector<Tensor> held;
  for (int i = 0; i < 30; ++i) {
    Tensor loss, want;
    CHECK(groups_of([&] { loss = grouped(one, x, y, 0.1); }) == 1);
    CHECK(groups_of([&] { want = plain(each, x, y, 0.1); }) == 0);
    if (i % 3 == 0) held.push_back(loss);
    CHECK(to_vector<float>(loss) == to_vector<float>(want));
  }
  CHECK(to_vector<float>(one.w1.value()) == to_vector<float>(each.w1.value()));
  CHECK(to_vector<float>(one.b2.value()) == to_vector<float>(each.b2.value()));
}

TEST_CASE("sizes alternate, and results are held") {
  auto body = [](Tensor x, Tensor w) {
    const Tensor h = exp(matmul(x, w));
    return std::tuple(sum(h, 0), sum(h, 1) * 2, softmax(h, 1));
  };
  auto grouped = jit::compile(body, as_one());
  auto plain = jit::compile(body);
  std::vector<std::tuple<Tensor, Tensor, Tensor>> held, wanted;
  for (int i = 0; i < 12; ++i) {
    const Tensor x = randn({i % 2 == 0 ? 3 : 4 + i, 5}) * 0.2f, w = randn({5, 6}) * 0.2f;
    held.push_back(grouped(x, w));
    wanted.push_back(plain(x, w));
  }
  for (std::size_t i = 0; i < held.size(); ++i) {
    CHECK(to_vector<float>(std::get<0>(held[i])) == to_vector<float>(std::get<0>(wanted[i])));
    CHECK(to_vector<float>(std::get<1>(held[i])) == to_vector<float>(std::get<1>(wanted[i])));
    CHECK(to_vector<float>(std::get<2>(held[i])) == to_vector<float>(std::get<2>(wanted[i])));
  }
}

TEST_CASE("a step that the host runs stands between two groups") {
  auto tripled = jit::custom_op({.name = "tripled_between",
                                 .shape = [](auto in) { return in[0]; },
                                 .cpu =
                                     [](auto in, auto out) {
                                       for (std::int64_t i = 0; i < out.numel; ++i) out.data[i] = 3 * in[0].data[i];
                                     }});
  auto body = [=](Tensor x) {
    const Tensor a = matmul(x, x), b = tripled(exp(matmul(a, x)));
    return matmul(matmul(b, a), x);
  };
  auto f = jit::compile(body, as_one());
  auto plain = jit::compile(body);
  const Tensor x = randn({4, 4}) * 0.3f;
  f(x);
  INFO(f.explain(x).text());
  Tensor y;
  CHECK(groups_of([&] { y = f(x); }) == 2);
  CHECK(to_vector<float>(y) == to_vector<float>(plain(x)));
}

TEST_CASE("the body of a loop is a group; one kernel is none") {
  auto loop = [](Tensor x, Tensor w) {
    return jit::fori_loop(
        0, 20,
        [&](Scalar, Tensor y) {
          const Tensor h = matmul(y, w);
          return h / (1 + sum(abs(h)));
        },
        x);
  };
  auto f = jit::compile(loop, as_one());
  const Tensor x = ones({3, 4}), w = randn({4, 4});
  const Floats want = to_vector<float>(jit::compile(loop)(x, w));
  Tensor y = f(x, w);
  CHECK(groups_of([&] { y = f(x, w); }) == 20);
  CHECK(to_vector<float>(y) == want);
  auto single = jit::compile([](Tensor v) { return v * 2 + 1; }, as_one());
  single(x);
  CHECK(groups_of([&] { y = single(x); }) == 0);
  CHECK(to_vector<float>(y) == Floats(12, 3));
}

TEST_CASE("a function that reads values is a group on each side of the reading") {
  auto body = [](Tensor x) {
    const Tensor a = matmul(matmul(x, x), x);
    if (item<float>(sum(a)) > 1000) return a;
    return matmul(matmul(a, x), a);
  };
  auto f = jit::compile(body, as_one());
  const Tensor x = randn({4, 4}) * 0.3f;
  const Floats want = to_vector<float>(jit::compile(body)(x));
  f(x);
  Tensor y;
  CHECK(groups_of([&] { y = f(x); }) == 2);
  CHECK(to_vector<float>(y) == want);
}

TEST_CASE("what waits for nothing as kernels waits for nothing as groups, and an error reaches the caller") {
  auto failing = jit::custom_op({.name = "failing_between",
                                 .shape = [](auto in) { return in[0]; },
                                 .cpu = [](auto, auto) { throw UserError("failing_between", "as asked"); }});
  auto f = jit::compile(
      [=](Tensor x, Tensor y) {
        const Tensor a = exp(x) / sum(x);
        return sum(failing(a) * y);
      },
      as_one());
  const Tensor x = ones({4});
  CHECK_THROWS_AS(to_vector<float>(f(x, x)), Error);
  auto g = jit::compile(
      [](Tensor v) {
        const Tensor a = exp(v) / sum(v);
        return sum(a * a, 0);
      },
      as_one());
  eval(x);
  g(x);
  const int waits = fake_device().waits;
  const Tensor y = g(x);
  CHECK(fake_device().waits == waits);
  CHECK(to_vector<float>(y).size() == 1);
}

TEST_CASE("groups: a profile has each kernel by itself, and the page its plan") {
  const auto f = jit::compile([](Tensor x) { return softmax(matmul(x, x), 1); }, {.mode = jit::Mode::reduce_overhead});
  const Tensor x = ones({8, 8});
  const std::vector<float> expected = to_vector<float>(f(x));
  const jit::Profile profile = jit::profile({.seconds = 0.01, .limits = false, .counters = false}, f, x);
  INFO(profile.text());
  REQUIRE(profile.rows.size() >= 2);
  for (const jit::ProfileRow& row : profile.rows) {
    CHECK(row.device == default_device());
    CHECK(row.runs == 1);
    CHECK(row.bytes > 0);
  }
  CHECK(to_vector<float>(f(x)) == expected);
  CHECK(f.explain(x).html(profile).find("\"device\":\"" + default_device().text() + "\"") != std::string::npos);
}
