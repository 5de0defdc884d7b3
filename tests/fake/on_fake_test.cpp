// What makes this program run on the fake device: tensors that name no device are made there. And what the fake device
// itself promises.
// Listeners need more of Catch2 than tests do: this file is built without the precompiled header.
#define CATCH_CONFIG_EXTERNAL_INTERFACES
#include "catch.hpp"
#include "fake_device.hpp"

#include <sinter/sinter.hpp>

#include <cmath>

#include <string>
#include <vector>

using namespace sinter;
using sinter_test::fake_device;
using Floats = std::vector<float>;

namespace {
struct OnFake : Catch::TestEventListenerBase {
  using Catch::TestEventListenerBase::TestEventListenerBase;
  void testRunStarting(const Catch::TestRunInfo&) override {
    fake_device();
    set_default_device(Device::cuda(0));
  }
};
CATCH_REGISTER_LISTENER(OnFake)

/// How often the host waited for the device.
template <class F>
int waits_of(F&& f) {
  const int before = fake_device().waits;
  f();
  return fake_device().waits - before;
}
}  // namespace

TEST_CASE("on the fake device, work waits until it is waited for, and addresses are not those of the host") {
  const Tensor x = ones({4}) * 2;
  CHECK(waits_of([&] { eval(x); }) == 0);
  CHECK(x.device() == Device::cuda(0));
  CHECK(to_vector<float>(x) == Floats(4, 2));
  CHECK_THROWS_AS(x.data<float>(), DeviceError);
  int host = 0;
  CHECK_THROWS_AS(sinter_test::FakeMemory::here(&host), InternalError);
}

TEST_CASE("on a device, loops with known trip counts wait for nothing; a condition is waited for once per iteration") {
  auto counted =
      jit::compile([](Tensor x) { return jit::fori_loop(0, 50, [](Scalar k, Tensor y) { return y + k; }, x); });
  auto stacked = jit::compile([](Tensor xs) {
    return jit::scan([](Tensor t, Tensor x) { return std::tuple{t + x, t * 10}; }, zeros({2}), xs);
  });
  auto until = jit::compile([](Tensor x) {
    return jit::while_loop([](Tensor y) { return sum(y) < 100; }, [](Tensor y) { return y * 2; }, x);
  });
  const Tensor x = ones({4}), xs = ones({3, 2});
  eval(x);
  eval(xs);
  // compiled
  counted(x);
  stacked(xs);
  until(x);
  Tensor y;
  CHECK(waits_of([&] { y = counted(x); }) == 0);
  CHECK(to_vector<float>(y) == Floats(4, 1226));
  std::tuple<Tensor, Tensor> s;
  CHECK(waits_of([&] { s = stacked(xs); }) == 0);
  CHECK(to_vector<float>(std::get<0>(s)) == Floats{3, 3});
  CHECK(waits_of([&] { y = until(x); }) == 6);  // 4, 8, 16, 32, 64, 128
  CHECK(to_vector<float>(y) == Floats(4, 32));
}

TEST_CASE("on a device, a loop takes numbers of the host as any operand, whatever the number of those before") {
  for (const int count : {3, 62, 63, 64, 65, 66, 70, 130}) {
    auto f = jit::compile([](std::vector<Tensor> parts, Scalar s) {
      const auto body = [&](Scalar, Tensor y) {
        for (const Tensor& part : parts) y = y * 0.5f + part;
        return y * s;
      };
      return jit::fori_loop(0, 3, body, parts[0]);
    });
    std::vector<Tensor> parts;
    for (int i = 0; i < count; ++i) parts.push_back(full({2}, static_cast<float>(i % 7)));
    const auto wanted = [&](float s) {
      float y = 0;
      for (int k = 0; k < 3; ++k) {
        for (int i = 0; i < count; ++i) y = y * 0.5f + static_cast<float>(i % 7);
        y *= s;
      }
      return Floats(2, y);
    };
    INFO(count);
    CHECK(to_vector<float>(f(parts, 0.5f)) == wanted(0.5f));
    CHECK(to_vector<float>(f(parts, 2.f)) == wanted(2));
  }
}

TEST_CASE("on a device, a branch by a number of the call waits for nothing") {
  auto f = jit::compile([](Tensor x, Scalar s) {
    return jit::cond(s > 0, [](Tensor y, Scalar k) { return y * k; }, [](Tensor y, Scalar k) { return y - k; }, x, s);
  });
  const Tensor x = ones({3});
  eval(x);
  f(x, 1.f);
  f(x, -1.f);
  Tensor y, z;
  INFO(f.explain(x, 3.f).text());
  CHECK(waits_of([&] { y = f(x, 3.f), z = f(x, -3.f); }) == 0);
  CHECK(to_vector<float>(y) == Floats(3, 3));
  CHECK(to_vector<float>(z) == Floats(3, 4));
}

TEST_CASE("on a device, an operand of control flow in host memory is refused with the line") {
  auto f = jit::compile(
      [](Tensor x, Tensor table) { return jit::fori_loop(0, 3, [&](Scalar, Tensor y) { return y + table; }, x); });
  const Tensor table = ones({4}, {.device = Device::cpu()});
  try {
    f(ones({4}), table);
    FAIL("not refused");
  } catch (const DeviceError& error) { CHECK(std::string(error.what()).find("on_fake_test.cpp") != std::string::npos); }
}

TEST_CASE("on a device, repeated blocks run as regions") {
  struct Layer {
    Tensor w, b;
  };
  auto f = jit::compile([](Tensor x, std::vector<Layer> layers) {
    for (const Layer& layer : layers)
      x = layer_norm(x + tanh(matmul(x, layer.w) + layer.b), {8}, ones({8}), zeros({8}));
    return x;
  });
  manual_seed(3);
  std::vector<Layer> there, here;
  for (int i = 0; i < 12; ++i) {
    Tensor w = randn({8, 8}), b = randn({8});
    there.push_back({w, b}), here.push_back({w.to(Device::cpu()), b.to(Device::cpu())});
  }
  const Tensor x = randn({4, 8});
  set_default_device(Device::cpu());
  const Floats want = to_vector<float>(f(x.to(Device::cpu()), here));
  set_default_device(Device::cuda(0));
  const Floats got = to_vector<float>(f(x, there));
  REQUIRE(got.size() == want.size());
  for (std::size_t i = 0; i < got.size(); ++i) CHECK(std::abs(got[i] - want[i]) < 1e-3f);
}

TEST_CASE("on a device, a custom op with a function for it enqueues; one without is run by the host") {
  const auto double_there = [](auto in, auto out, void* stream) {
    REQUIRE(stream == &fake_device());
    fake_device().enqueue([from = in[0].data, to = out.data, n = out.numel] {
      const float* x = static_cast<const float*>(sinter_test::FakeMemory::here(from));
      for (std::int64_t i = 0; i < n; ++i) static_cast<float*>(sinter_test::FakeMemory::here(to))[i] = 2 * x[i];
    });
  };
  auto doubled =
      jit::custom_op({.name = "doubled_there",
                      .shape = [](auto in) { return in[0]; },
                      .cuda = double_there,
                      .vjp = [](auto, const Tensor&, const Tensor& dout) { return std::vector<Tensor>{dout * 2}; }});
  auto tripled = jit::custom_op({.name = "tripled_here",
                                 .shape = [](auto in) { return in[0]; },
                                 .cpu =
                                     [](auto in, auto out) {
                                       for (std::int64_t i = 0; i < out.numel; ++i) out.data[i] = 3 * in[0].data[i];
                                     }});
  auto counted = jit::custom_op(
      {.name = "counted_there", .shape = [](auto in) { return in[0]; }, .cuda = double_there, .pure = false});
  const Tensor x = ones({3});
  eval(x);
  auto f = jit::compile([=](Tensor v) { return doubled(v + 1) * 3; });
  f(x);
  Tensor y;
  CHECK(waits_of([&] { y = f(x); }) == 0);
  CHECK(to_vector<float>(y) == Floats(3, 12));
  CHECK(to_vector<float>(doubled(x)) == Floats(3, 2));
  CHECK(to_vector<float>(jit::grad([=](Tensor v) { return sum(doubled(v)); })(x)) == Floats(3, 2));
  CHECK(to_vector<float>(jit::compile([=](Tensor v) { return tripled(v * 2) + 1; })(x)) == Floats(3, 7));
  CHECK(to_vector<float>(counted(x)) == Floats(3, 2));
  CHECK(to_vector<float>(jit::compile([=](Tensor v) {
          return jit::fori_loop(0, 3, [=](Scalar, Tensor t) { return counted(t); }, v);
        })(x)) == Floats(3, 8));
  CHECK(to_vector<float>(jit::compile([=](Tensor v, Scalar s) { return doubled(Tensor(s).to(DType::f32)) + v; })(
            x, 4)) == Floats(3, 9));
  try {
    to_vector<float>(doubled(ones({3}, {.device = Device::cpu()})));
    FAIL("not refused");
  } catch (const UserError& error) {
    CHECK(std::string(error.what()).find("no function for the CPU") != std::string::npos);
  }
}

TEST_CASE("on a device, effects outside of compiled functions get their operands") {
  std::string seen;
  const Tensor x = full({2}, 4);
  jit::callback([&](Tensor in) { seen = to_string(in); }, x);
  CHECK(seen == "[4., 4.]");
  jit::check(sum(x) > 0, "positive");
  CHECK_THROWS_AS(jit::check(sum(x) < 0, "negative"), CheckError);
}
