// Kernels that the back end of a device declines: an error, or, where it is allowed, run by the host. On the fake
// device.
#include "catch.hpp"
#include "fake_device.hpp"

#include <sinter/ops/fft.hpp>
#include <sinter/ops/linalg.hpp>
#include <sinter/ops/order.hpp>
#include <sinter/sinter.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

using namespace sinter;
using sinter_test::fake_devices;
using Floats = std::vector<float>;

namespace {
/// While it lives the first fake device declines such kernels, and log lines are kept.
struct Declining {
  std::vector<std::string> log;
  std::function<void(std::string_view, std::string_view)> sink = Context::get().sink;
  explicit Declining(std::function<bool(const Kernel&)> which) {
    jit::reset();
    fake_devices().first.declines = [which = std::move(which)](const Kernel& kernel) {
      return which(kernel) ? std::string("declined by the fake device") : std::string();
    };
    Context::get().sink = [this](std::string_view topic, std::string_view line) {
      log.push_back(std::string(topic) + ": " + std::string(line));
    };
  }
  ~Declining() {
    fake_devices().first.declines = nullptr;
    Context::get().sink = sink;
    jit::reset();
  }
};
bool reduces(const Kernel& kernel) { return kernel.kind == KernelKind::row || kernel.kind == KernelKind::column; }
bool anything(const Kernel&) { return true; }
bool has(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }
const jit::Options allowed{.allow_fallback = true};
}  // namespace

TEST_CASE("fallback: a back end knows operations between kernels by their names, and may run the host's function") {
  jit::reset();
  std::vector<std::string> seen;
  bool is_right = true;
  fake_devices().first.sees_op = [&](const BoundOp& op) {
    seen.emplace_back(op.name);
    is_right &= op.is<ops::Cholesky>() == (op.run_on_host == &ops::Cholesky::run_on_host);
    is_right &= op.is<ops::Sort>() == (op.run_on_host == &ops::Sort::run_on_host);
    is_right &= op.is<ops::Fourier>() == (op.run_on_host == &ops::Fourier::run_on_host);
    is_right &= op.is<ops::Svd>() == (op.run_on_host == &ops::Svd::run_on_host);
  };
  auto f = jit::compile([](Tensor x) {
    return sort(sum(linalg::cholesky(matmul(x, transpose(x, 0, 1))), 0)).values + linalg::svdvals(x);
  });
  const Tensor x = tensor({{2.f, 0.f}, {0.f, 3.f}});
  CHECK(to_vector<float>(f(x)) == Floats{5, 5});
  auto g = jit::compile([](Tensor z) { return real(fft::fft(z)); });
  CHECK(to_vector<float>(g(complex(ones({4}), zeros({4})))) == Floats{4, 0, 0, 0});
  fake_devices().first.sees_op = nullptr;
  jit::reset();
  CHECK(is_right);
  for (const char* name : {"cholesky", "sort", "svd", "fourier"}) {
    INFO(name);
    CHECK(std::find(seen.begin(), seen.end(), name) != seen.end());
  }
}

TEST_CASE("fallback: a declined kernel is an error with its line and the way out") {
  Declining declining(reduces);
  auto f = jit::compile([](Tensor x) { return sum(x * 2, 1); });
  try {
    f(ones({3, 4}));
    FAIL("not refused");
  } catch (const DeviceError& error) {
    const std::string text = error.what();
    INFO(text);
    CHECK(has(text, "declined by the fake device"));
    CHECK(has(text, "Options::allow_fallback"));
    CHECK(has(text, "fallback_fake_test.cpp"));
  }
  CHECK(declining.log.empty());
}

TEST_CASE("fallback: kernels are cut around what the device lacks") {
  struct Lacking {
    Limits before = fake_devices().first.own_limits;
    ~Lacking() {
      fake_devices().first.own_limits = before;
      jit::reset();
    }
  } lacking;
  const Declining none([](const Kernel&) { return false; });
  Limits& limits = fake_devices().first.own_limits;
  auto body = [](Tensor x) { return tanh(exp(exp(1 - x * 2))) * 3 + 1; };
  limits.primitives.remove(Prim::exp);
  try {
    jit::compile(body)(ones({3, 4}));
    FAIL("not refused");
  } catch (const DeviceError& error) { CHECK(has(error.what(), "fake: it has no exp")); }
  auto f = jit::compile(body, allowed);
  const float expected = std::tanh(std::exp(std::exp(-1.f))) * 3 + 1;
  for (float y : to_vector<float>(f(ones({3, 4})))) CHECK(y == Approx(expected));
  CHECK(f.stats().kernels == 3);  // both exponentials are one kernel of the host
  CHECK(none.log.size() == 1);
}

TEST_CASE("fallback: where it is allowed the host runs the kernel, the log and explain() say so") {
  Declining declining(reduces);
  auto f = jit::compile([](Tensor x) { return sum(x * 2, 1) + 1; }, allowed);
  for (int n : {4, 7, 9}) {
    const Tensor y = f(ones({3, n}));
    CHECK(y.device() == Device::cuda(0));
    CHECK(to_vector<float>(y) == Floats(3, static_cast<float>(2 * n + 1)));
  }
  REQUIRE(!declining.log.empty());
  CHECK(has(declining.log[0], "fallback: "));
  CHECK(has(declining.log[0], "runs on the CPU"));
  CHECK(has(declining.log[0], "declined by the fake device"));
  CHECK(has(declining.log[0], "fallback_fake_test.cpp"));
  CHECK(has(f.explain(ones({3, 4})).text(), "on the cpu, with copies of its operands"));
}

TEST_CASE("fallback: views, gathers, numbers of the host, several results, results in place") {
  Declining declining(anything);
  Floats counted(24);
  std::iota(counted.begin(), counted.end(), 0.f);
  const Tensor x = copy_of(counted, {4, 6}), index = tensor({std::int64_t{3}, std::int64_t{0}, std::int64_t{2}});
  auto f = jit::compile(
      [](Tensor v, Tensor at, Scalar s) {
        Tensor u = v * s;
        u.at(all, slice(1, 3)) = 0;
        return std::tuple{transpose(v, 0, 1)(slice(2, 5)) * s, take(v, at) + s,      u, softmax(v, 1),
                          matmul(v, transpose(v, 0, 1)),       concat({v, v * 2}, 0)};
      },
      allowed);
  const auto there = f(x, index, 2);
  fake_devices().first.declines = nullptr;
  const auto here = f(x.to(Device::cpu()), index.to(Device::cpu()), 2);
  const auto check = [](const Tensor& a, const Tensor& b) {
    CHECK(a.device() == Device::cuda(0));
    const Floats p = to_vector<float>(a), q = to_vector<float>(b);
    REQUIRE(p.size() == q.size());
    for (std::size_t i = 0; i < p.size(); ++i) CHECK(p[i] == Approx(q[i]));
  };
  check(std::get<0>(there), std::get<0>(here));
  check(std::get<1>(there), std::get<1>(here));
  check(std::get<2>(there), std::get<2>(here));
  check(std::get<3>(there), std::get<3>(here));
  check(std::get<4>(there), std::get<4>(here));
  check(std::get<5>(there), std::get<5>(here));
}

TEST_CASE("fallback: errors of the host's kernel have the user's line, and nothing stays") {
  Declining declining(anything);
  auto f = jit::compile([](Tensor v, Tensor at) { return take(v, at) * 2; }, allowed);
  const Tensor x = tensor({1.f, 1.f, 1.f});
  CHECK_THROWS_AS(f(x, tensor({std::int64_t{5}})), IndexError);
  CHECK(to_vector<float>(f(x, tensor({std::int64_t{1}}))) == Floats{2});
}

TEST_CASE("fallback: in loops, after reads of values, in lazy statements by the switch of the process") {
  Declining declining(reduces);
  auto f = jit::compile(
      [](Tensor x) { return jit::fori_loop(0, 3, [](Scalar, Tensor y) { return y + sum(y, 1, keepdim); }, x); },
      allowed);
  CHECK(to_vector<float>(f(ones({1, 2}))) == Floats{27, 27});
  auto g = jit::compile([](Tensor x) { return item(x(0, 0) * 2) > 1 ? sum(x, 1) : sum(x, 0); }, allowed);
  CHECK(to_vector<float>(g(ones({2, 2}))) == Floats{2, 2});
  CHECK_THROWS_AS(eval(sum(ones({2, 2}) * 3)), DeviceError);
  Context::get().allows_fallback = true;
  CHECK(item<float>(sum(ones({2, 2}) * 3)) == 12);
  Context::get().allows_fallback = false;
}

TEST_CASE("fallback: with copies inside the function, and only on the device that declines") {
  Declining declining(reduces);
  auto f = jit::compile([](Tensor x) { return sum(x.to(Device::cuda(0)) * 2, 1).to(Device::cpu()); }, allowed);
  const Tensor host = ones({2, 3}, {.device = Device::cpu()});
  CHECK(to_vector<float>(f(host)) == Floats{6, 6});
  CHECK(declining.log.size() == 1);
  auto g = jit::compile([](Tensor x) { return sum(x * 2, 1); });
  CHECK(to_vector<float>(g(host.to(Device::cuda(1)))) == Floats{6, 6});
}
