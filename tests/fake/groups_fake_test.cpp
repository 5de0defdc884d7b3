// Calls that are enqueued as one (reduce_overhead), on the fake device, which runs a group in any order that it
// allows.
#include "catch.hpp"
#include "device_checks.hpp"
#include "fake_device.hpp"
#include "tuning_folder.hpp"

#include <sinter/sinter.hpp>
#include <sinter/tuning.hpp>

#include <cmath>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

using namespace sinter;
using sinter_test::fake_device;
using sinter_test::Network;
using sinter_test::training_step;
using sinter_test::TuningFolder;
using Floats = std::vector<float>;

namespace {
jit::Options as_one() { return {.mode = jit::Mode::reduce_overhead}; }

/// The fake devices have three schedules for each kernel.
struct OwnSchedules {
  OwnSchedules() {
    for (sinter_test::FakeBackend* backend : {&devices.first, &devices.second})
      backend->own_schedules = {
          {}, {{.action = ScheduleAction::unroll, .number = 2}}, {{.action = ScheduleAction::unroll, .number = 4}}};
  }
  ~OwnSchedules() {
    for (sinter_test::FakeBackend* backend : {&devices.first, &devices.second}) backend->own_schedules = {{}};
  }
  OwnSchedules(const OwnSchedules&) = delete;
  OwnSchedules& operator=(const OwnSchedules&) = delete;
  sinter_test::FakeDevices& devices = sinter_test::fake_devices();
};

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

TEST_CASE("several iterations of a loop are one group; one kernel is none") {
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
  CHECK(groups_of([&] { y = f(x, w); }) == 5);  // the fake queue holds four
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

TEST_CASE(
    "groups: a scan of any length, with slices, stacks and numbers of the call, computes the bits of one by one") {
  const auto body = [](Tensor h, Tensor xs, Tensor w, Scalar rate) {
    auto [last, ys] = jit::scan(
        [&](Tensor c, Tensor x) {
          const Tensor next = tanh(matmul(c, w) + x) * rate;
          return std::pair(next, sum(next, 1));
        },
        h, xs);
    return std::pair(last, ys);
  };
  auto grouped = jit::compile(body, as_one());
  auto plain = jit::compile(body);
  const Tensor w = randn({5, 5}) * 0.3f, h = randn({2, 5});
  for (const std::int64_t length : {1, 2, 3, 4, 9, 4, 0, 7}) {
    const Tensor xs = randn({length, 2, 5});
    const float rate = 0.5f + 0.1f * static_cast<float>(length);
    const int before = fake_device().queued_groups;
    auto [last, ys] = grouped(h, xs, w, rate);
    CHECK(fake_device().queued_groups - before == static_cast<int>((length + 3) / 4));
    auto [want_last, want_ys] = plain(h, xs, w, rate);
    CHECK(to_vector<float>(last) == to_vector<float>(want_last));
    CHECK(to_vector<float>(ys) == to_vector<float>(want_ys));
  }
}

TEST_CASE("groups: loops in loops, branches and steps of the host inside a loop keep their order") {
  auto tripled = jit::custom_op({.name = "tripled_in_a_loop",
                                 .shape = [](auto in) { return in[0]; },
                                 .cpu =
                                     [](auto in, auto out) {
                                       for (std::int64_t i = 0; i < out.numel; ++i) out.data[i] = 3 * in[0].data[i];
                                     }});
  const auto nested = [](Tensor x, Tensor w) {
    return jit::fori_loop(
        0, 3,
        [&](Scalar, Tensor y) {
          const Tensor inner = jit::fori_loop(0, 5, [&](Scalar k, Tensor z) { return matmul(z, w) / (2 + k); }, y);
          return inner + sum(y);
        },
        x);
  };
  const auto branches = [=](Tensor x, Tensor w) {
    return jit::fori_loop(
        0, 6,
        [&](Scalar, Tensor y) {
          const Tensor z = matmul(y, w);
          const Tensor chosen =
              jit::cond(sum(z) > 0, [](Tensor a) { return a * 0.5f; }, [](Tensor a) { return -a; }, z);
          return tripled(chosen) * 0.3f + matmul(z, w);
        },
        x);
  };
  const Tensor x = randn({3, 3}), w = randn({3, 3}) * 0.4f;
  auto a = jit::compile(nested, as_one()), b = jit::compile(nested);
  auto c = jit::compile(branches, as_one()), d = jit::compile(branches);
  for (int i = 0; i < 3; ++i) {
    CHECK(to_vector<float>(a(x, w)) == to_vector<float>(b(x, w)));
    CHECK(to_vector<float>(c(x, w)) == to_vector<float>(d(x, w)));
  }
}

TEST_CASE("groups: what a callback in a loop calls does not wait for the loop") {
  auto inner = jit::compile(
      [](Tensor v) {
        const Tensor a = matmul(v, v);
        return sum(matmul(a, v) + a);
      },
      as_one());
  std::vector<float> seen;
  const auto body = [&](Tensor x, Tensor w) {
    return jit::fori_loop(
        0, 3,
        [&](Scalar, Tensor y) {
          const Tensor z = matmul(matmul(y, w), w);
          jit::callback([&](Tensor v) { seen.push_back(item<float>(inner(v.to(Device::cuda(0))))); }, z);
          return z * 0.5f + w;
        },
        x);
  };
  const Tensor x = randn({3, 3}), w = randn({3, 3}) * 0.4f;
  eval(x);
  eval(w);
  auto plain = jit::compile(body);
  const Floats want = to_vector<float>(plain(x, w));
  const std::vector<float> wanted = std::exchange(seen, {});
  CHECK(wanted.size() == 3);
  auto f = jit::compile(body, as_one());
  for (int i = 0; i < 2; ++i) {
    CHECK(to_vector<float>(f(x, w)) == want);
    CHECK(std::exchange(seen, {}) == wanted);
  }
}

TEST_CASE("groups: only the first 64 operands of control flow can be numbers of the host") {
  std::vector<Tensor> many;
  for (int i = 0; i < 80; ++i) many.push_back(full({3}, 0.01f * static_cast<float>(i)));
  eval(many);
  const auto body = [](Scalar count, Tensor x, const std::vector<Tensor>& all) {
    return jit::fori_loop(
        0, count,
        [&](Scalar, Tensor y) {
          for (const Tensor& each : all) y = y + each;
          return y;
        },
        x);
  };
  const Floats found = to_vector<float>(jit::compile(body)(2, ones({3}), many));
  for (const float value : found) CHECK(std::abs(value - (1 + 2 * 31.6f)) < 1e-3f);
}

TEST_CASE("groups: a loop that throws leaves nothing behind") {
  static bool throws = false;
  auto failing = jit::custom_op({.name = "failing_in_a_loop",
                                 .shape = [](auto in) { return in[0]; },
                                 .cpu =
                                     [](auto in, auto out) {
                                       if (throws) throw UserError("failing_in_a_loop", "as asked");
                                       for (std::int64_t i = 0; i < out.numel; ++i) out.data[i] = in[0].data[i];
                                     }});
  const auto body = [=](Tensor x, Tensor w) {
    return jit::fori_loop(
        0, 5,
        [&](Scalar, Tensor y) {
          const Tensor z = failing(matmul(y, w));
          return z / (1 + sum(abs(z)));
        },
        x);
  };
  auto f = jit::compile(body, as_one());
  const Tensor x = ones({3, 3}), w = randn({3, 3});
  const Floats want = to_vector<float>(f(x, w));
  throws = true;
  CHECK_THROWS_AS(to_vector<float>(f(x, w)), Error);
  throws = false;
  CHECK(to_vector<float>(f(x, w)) == want);
  CHECK(to_vector<float>(jit::compile(body)(x, w)) == want);
}

TEST_CASE("groups: the updates of 148 parameters are one launch, with the bits of 148") {
  std::vector<Variable> weights, means, others, other_means;
  std::vector<Tensor> gradients;
  for (std::int64_t i = 0; i < 148; ++i) {
    const Shape shape = i % 3 == 0 ? Shape{3 + i % 7, 5} : Shape{1 + i};
    const Tensor w = randn(shape);
    weights.emplace_back(w);
    others.emplace_back(w * 1);
    means.emplace_back(zeros(shape));
    other_means.emplace_back(zeros(shape));
    gradients.push_back(randn(shape));
  }
  eval(gradients);
  const auto step = [](const std::vector<Variable>& w, const std::vector<Variable>& m, const std::vector<Tensor>& g,
                       Scalar rate) {
    for (std::size_t i = 0; i < g.size(); ++i) {
      const Tensor mean = m[i] * 0.9f + g[i] * 0.1f;
      w[i] = w[i] - rate * mean / (sqrt(g[i] * g[i]) + 1e-8f);
      m[i] = mean;
    }
  };
  for (const jit::Options& options : {jit::Options{}, as_one()}) {
    auto together = jit::compile(step, options);
    auto apart = jit::compile(step, {.horizontal_fusion = false});
    together(weights, means, gradients, 0.1);
    apart(others, other_means, gradients, 0.1);
    int before = fake_device().launches;
    together(weights, means, gradients, 0.1);
    CHECK(fake_device().launches - before <= 3);
    before = fake_device().launches;
    apart(others, other_means, gradients, 0.1);
    CHECK(fake_device().launches - before == 148);
  }
  for (std::size_t i = 0; i < weights.size(); ++i)
    CHECK(to_vector<float>(weights[i].value()) == to_vector<float>(others[i].value()));
}

TEST_CASE("groups: products of slices leave a scan, with the same bits, slices of both directions and gradients") {
  const auto layer = [](Tensor h, Tensor xs, Tensor wx, Tensor wh, bool is_reversed) {
    auto [last, ys] = jit::scan(
        [&](Tensor c, Tensor x) {
          const Tensor next = tanh(matmul(x, wx) + matmul(c, wh) + matmul(x, wh));
          return std::pair(next, next * x);
        },
        h, xs, {.reverse = is_reversed});
    return std::pair(last, ys);
  };
  const Tensor h = randn({2, 5}), xs = randn({6, 2, 5}), wx = randn({5, 5}) * 0.4f, wh = randn({5, 5}) * 0.4f;
  for (const bool is_reversed : {false, true}) {
    const auto body = [&](Tensor a, Tensor b, Tensor c, Tensor d) { return layer(a, b, c, d, is_reversed); };
    auto hoisted = jit::compile(body);
    auto inside = jit::compile(body, {.fuse = false});
    auto [last, ys] = hoisted(h, xs, wx, wh);
    auto [want_last, want_ys] = inside(h, xs, wx, wh);
    CHECK(to_vector<float>(last) == to_vector<float>(want_last));
    CHECK(to_vector<float>(ys) == to_vector<float>(want_ys));
    const std::string plan = hoisted.explain(h, xs, wx, wh).text();
    INFO(plan);
    const std::size_t product = plan.find("step 0: matmul ["), loop = plan.find("host_scan [host]");
    CHECK(loop != std::string::npos);
    CHECK(product < loop);  // in front of it
    const auto loss = [&](Tensor a, Tensor b, Tensor c, Tensor d) {
      auto [x, y] = layer(a, b, c, d, is_reversed);
      return sum(x * x) + sum(y);
    };
    auto gradients = jit::compile([&](Tensor a, Tensor b, Tensor c, Tensor d) { return jit::grad(loss)(a, b, c, d); });
    auto plain = jit::compile([&](Tensor a, Tensor b, Tensor c, Tensor d) { return jit::grad(loss)(a, b, c, d); },
                              {.fuse = false});
    const std::vector<float> found = to_vector<float>(gradients(h, xs, wx, wh)),
                             wanted = to_vector<float>(plain(h, xs, wx, wh));
    REQUIRE(found.size() == wanted.size());
    for (std::size_t i = 0; i < found.size(); ++i)
      CHECK(std::abs(found[i] - wanted[i]) <= 1e-4f * (1 + std::abs(wanted[i])));
  }
}

TEST_CASE("max_autotune measures the schedules of a device's kernels on its memory") {
  const TuningFolder store;
  const OwnSchedules schedules;
  auto tuned = jit::compile([](Tensor x, Tensor y) { return tanh(x) * 3 + y; },
                            {.mode = jit::Mode::max_autotune, .tune_seconds = 5});
  const Tensor x = randn({300}), y = randn({300});
  const Floats found = to_vector<float>(tuned(x, y));
  CHECK(tuning_stats().measured == 1);
  CHECK(tuning_stats().rejected == 0);
  CHECK(found == to_vector<float>(jit::compile([](Tensor a, Tensor b) { return tanh(a) * 3 + b; })(x, y)));
}

TEST_CASE("max_autotune: a winner is found on another device of the same kind, and groups are not measured") {
  const TuningFolder store;
  const OwnSchedules schedules;
  const auto tuned = [] {
    return jit::compile([](Tensor x) { return tanh(x) * 5 + 1; }, {.mode = jit::Mode::max_autotune, .tune_seconds = 5});
  };
  const Tensor x = randn({300});
  const Floats found = to_vector<float>(tuned()(x));
  CHECK(tuning_stats().measured == 1);
  CHECK(to_vector<float>(tuned()(x.to(Device::cuda(1)))) == found);
  CHECK(tuning_stats().measured == 1);
  CHECK(tuning_stats().found == 1);

  auto updates = jit::compile(
      [](const std::vector<Tensor>& all) {
        std::vector<Tensor> updated;
        for (const Tensor& each : all) updated.push_back(tanh(each) * 7);
        return updated;
      },
      {.mode = jit::Mode::max_autotune, .tune_seconds = 5});
  const std::vector<Tensor> all{randn({30}), randn({41}), randn({7})};
  eval(all);
  updates(all);
  CHECK(tuning_stats().measured == 1);
}
