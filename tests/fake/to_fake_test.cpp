// Copies between the host and devices inside compiled functions and lazy statements; functions on several devices. On
// the fake device.
#include "catch.hpp"
#include "fake_device.hpp"

#include <sinter/export_cpp.hpp>
#include <sinter/graph/hash.hpp>
#include <sinter/graph/parse.hpp>
#include <sinter/graph/verify.hpp>
#include <sinter/ops/registry.hpp>
#include <sinter/sinter.hpp>

#include <cmath>
#include <complex>
#include <string>
#include <tuple>
#include <vector>

using namespace sinter;
using sinter_test::fake_device;
using Floats = std::vector<float>;

namespace {
const Device here = Device::cpu(), there = Device::cuda(0), other = Device::cuda(1);
Tensor host(const Shape& shape, float first = 1) {
  std::vector<float> values(static_cast<std::size_t>(shape.numel().value()));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = first + static_cast<float>(i);
  return copy_of(values, shape).to(here);
}
int waits() { return fake_device().waits; }
bool is_close(const Tensor& a, const Tensor& b) {
  const Floats x = to_vector<float>(a), y = to_vector<float>(b);
  bool is_equal = x.size() == y.size();
  for (std::size_t i = 0; is_equal && i < x.size(); ++i)
    is_equal = std::abs(x[i] - y[i]) <= 1e-5f * (1 + std::abs(y[i]));
  return is_equal;
}
bool has(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }
}  // namespace

TEST_CASE("to: the host's tensor goes to the device, and the result comes back") {
  const Tensor w = host({3, 2}).to(there);
  auto f = jit::compile([=](Tensor image) { return tanh(matmul(image.to(there), w)).to(here); });
  const Tensor image = host({4, 3}, 0);
  const Tensor want = tanh(matmul(image, w.to(here)));
  for (int i = 0; i < 3; ++i) {
    const Tensor y = f(image);
    CHECK(y.device() == here);
    CHECK(is_close(y, want));
  }
  CHECK(f.stats().compiles == 1);
  const std::string text = f.explain(image).text();
  INFO(text);
  CHECK(has(text, "= to(%"));
  CHECK(has(text, "copy to cuda:0: input 0 -> "));
  CHECK(has(text, "copy to cpu: "));
  CHECK(has(text, "to_fake_test.cpp:"));
}

TEST_CASE("to: one wait for one copy to the host, none for what stays") {
  auto back = jit::compile([](Tensor x) { return (x.to(there) * 2).to(here); });
  auto stays = jit::compile([](Tensor x) { return x.to(there) * 2; });
  const Tensor x = host({5});
  back(x);
  stays(x);
  int before = waits();
  const Tensor y = stays(x);
  CHECK(waits() == before);
  CHECK(y.device() == there);
  before = waits();
  const Tensor z = back(x);
  CHECK(waits() == before + 1);
  CHECK(to_vector<float>(z) == to_vector<float>(y));
}

TEST_CASE("to: host, device, host, device, host in one function") {
  auto f = jit::compile([](Tensor x, Tensor v) {
    const Tensor prepared = exp(x * 0.1f) + 1;              // host
    const Tensor first = prepared.to(there) * v;            // device
    const Tensor middle = first.to(here) - x;               // host
    const Tensor second = sqrt(abs(middle.to(there))) + v;  // device
    return std::tuple{sum(second.to(here) * x), second, middle, first, prepared * 2};
  });
  const Tensor x = host({6}), v = host({6}, 3).to(there);
  const Tensor hv = v.to(here);
  const Tensor prepared = exp(x * 0.1f) + 1, first = prepared * hv, middle = first - x, second = sqrt(abs(middle)) + hv;
  for (int i = 0; i < 2; ++i) {
    const auto [a, b, c, d, e] = f(x, v);
    CHECK(a.device() == here);
    CHECK(b.device() == there);
    CHECK(c.device() == here);
    CHECK(d.device() == there);
    CHECK(e.device() == here);
    CHECK(std::abs(item<float>(a) - item<float>(sum(second * x))) < 1e-3f);
    CHECK(is_close(b.to(here), second));
    CHECK(is_close(c, middle));
    CHECK(is_close(d.to(here), first));
    CHECK(is_close(e, prepared * 2));
  }
}

TEST_CASE("to: where a value is already, there is no copy; nor for there and back") {
  auto same = jit::compile([](Tensor x) { return x.to(there).to(there) + 1; });
  auto round = jit::compile([](Tensor x) { return x.to(here).to(there) + 1; });
  const Tensor x = host({3}).to(there);
  CHECK_FALSE(has(same.explain(x).text(), "= to("));
  round(x);
  const int before = waits();
  const Tensor y = round(x);
  CHECK(waits() == before);
  CHECK(to_vector<float>(y) == Floats{2, 3, 4});
  auto unchanged = jit::compile([](Tensor v) { return v.to(here).to(there); });
  CHECK(to_vector<float>(unchanged(x)) == Floats{1, 2, 3});
}

TEST_CASE("to: sizes change, views and empty tensors are copied") {
  auto f = jit::compile([](Tensor x) { return (transpose(x, 0, 1).to(there) * 2).to(here); });
  for (int n : {2, 5, 7, 1, 0, 9}) {
    const Tensor x = host({n, 3});
    const Tensor y = f(x);
    CHECK(y.shape() == Shape({3, Dim(n)}));
    CHECK(to_vector<float>(y) == to_vector<float>(transpose(x, 0, 1) * 2));
  }
  CHECK(f.stats().compiles <= 4);
  auto g = jit::compile([](Tensor x) { return x.to(there); });
  const Tensor strided = transpose(host({4, 3}), 0, 1);
  CHECK(to_vector<float>(g(strided)) == to_vector<float>(strided));
  const Tensor strided_there = transpose(host({4, 3}).to(there), 0, 1);
  auto back = jit::compile([](Tensor x) { return std::tuple{x.to(here), x}; });
  const auto [copied, itself] = back(strided_there);
  CHECK(to_vector<float>(copied) == to_vector<float>(strided));
  CHECK(to_vector<float>(itself) == to_vector<float>(strided));
}

TEST_CASE("to: gradients go back the way the values came") {
  const Tensor w = host({3, 2}).to(there);
  const auto loss = [=](Tensor x) { return sum(square(matmul(x.to(there), w)).to(here)); };
  const auto loss_here = [w = w.to(here)](Tensor x) { return sum(square(matmul(x, w))); };
  const Tensor x = host({4, 3}, 0);
  const Floats want = to_vector<float>(jit::grad(loss_here)(x));
  const Tensor g = jit::grad(loss)(x);
  CHECK(g.device() == here);
  CHECK(to_vector<float>(g) == want);
  auto compiled = jit::compile([=](Tensor v) { return jit::value_and_grad(loss)(v); });
  const auto [value, gradient] = compiled(x);
  CHECK(value.device() == here);
  CHECK(gradient.device() == here);
  CHECK(to_vector<float>(gradient) == want);
  CHECK(item<float>(value) == item<float>(loss_here(x)));
  const auto [y, tangent] = jit::jvp(loss, std::tuple{x}, std::tuple{ones({4, 3}, {.device = here})});
  CHECK(std::abs(item<float>(tangent) - item<float>(sum(jit::grad(loss_here)(x)))) < 1e-2f);
}

TEST_CASE("to: per example, under vmap") {
  auto each = jit::vmap([](Tensor row) { return (row.to(there) * 3).to(here); });
  const Tensor x = host({4, 3});
  CHECK(to_vector<float>(each(x)) == to_vector<float>(x * 3));
  auto compiled = jit::compile([=](Tensor v) { return each(v); });
  CHECK(to_vector<float>(compiled(x)) == to_vector<float>(x * 3));
}

TEST_CASE("to: outside compiled functions, data are copied at once and statements stay lazy") {
  std::vector<float> lent{1, 2, 3};
  const Tensor x = from_blob(nullptr, lent.data(), {3}, DType::f32).to(there);
  lent = {7, 7, 7};
  CHECK(to_vector<float>(x) == Floats{1, 2, 3});
  const Tensor doubled = x * 2;
  int before = waits();
  const Tensor y = doubled.to(here) + 1;  // nothing has run
  CHECK(waits() == before);
  CHECK(y.device() == here);
  CHECK(to_vector<float>(y) == Floats{3, 5, 7});
  CHECK(to_vector<float>(doubled) == Floats{2, 4, 6});
  const Tensor across = (y.to(there) * 2).to(other) - 1;
  CHECK(across.device() == other);
  CHECK(to_vector<float>(across) == Floats{5, 9, 13});
}

TEST_CASE("to: one function on several devices, one version for each") {
  auto f = jit::compile([](Tensor x, Scalar s) { return softmax(x, 1) * s; });
  const Tensor x = host({3, 4});
  const Tensor want = f(x, 2.f);
  for (int i = 0; i < 2; ++i)
    for (Device device : {there, other}) {
      const Tensor y = f(x.to(device), 2.f);
      CHECK(y.device() == device);
      CHECK(is_close(y, want));
    }
  CHECK(f.stats().compiles == 3);
}

TEST_CASE("to: from device to device, inside a function") {
  auto f = jit::compile([](Tensor a, Tensor b) { return std::tuple{exp(a).to(other) + b, a * 2}; });
  const Tensor a = host({4}, 0), b = host({4}, 5);
  f(a.to(there), b.to(other));
  const Tensor a0 = a.to(there), b1 = b.to(other);
  const int before = waits(), across = fake_device().copies_across;
  const auto [y, z] = f(a0, b1);
  CHECK(waits() == before);  // the host waits for nothing
  CHECK(fake_device().copies_across == across + 1);
  CHECK(y.device() == other);
  CHECK(z.device() == there);
  CHECK(is_close(y, exp(a) + b));
  CHECK(to_vector<float>(z) == to_vector<float>(a * 2));
}

TEST_CASE("to: operands of one operation on two devices are refused with the line and the way out") {
  auto f = jit::compile([](Tensor a, Tensor b) { return a + b; });
  try {
    f(host({3}).to(there), host({3}).to(other));
    FAIL("not refused");
  } catch (const DeviceError& error) {
    const std::string text = error.what();
    INFO(text);
    CHECK(has(text, "cuda:0"));
    CHECK(has(text, "cuda:1"));
    CHECK(has(text, ".to(device)"));
    CHECK(has(text, "to_fake_test.cpp"));
  }
  auto g = jit::compile([](Tensor x) { return x.to(Device::cuda(7)); });
  CHECK_THROWS_AS(g(host({3})), DeviceError);
}

TEST_CASE("to: a captured tensor of the host is copied once, not at each call") {
  const Tensor table = host({5}, 2);
  auto f = jit::compile([=](Tensor x) { return x * table.to(there); });
  const Tensor x = host({5}).to(there);
  f(x);
  f(x);
  const int before = fake_device().copies_from_host;
  const Tensor y = f(x);
  CHECK(fake_device().copies_from_host == before);
  CHECK(to_vector<float>(y) == Floats{2, 6, 12, 20, 30});
}

TEST_CASE("to: numbers of the host, in and out of devices") {
  auto f = jit::compile([](Tensor x, Tensor schedule, Scalar s) {
    const Tensor rate = sum(schedule) * s;  // of the host, a number for the device
    const Tensor y = x.to(there) * rate;
    return std::tuple{y, sum(y).to(here) + rate};
  });
  const auto [y, z] = f(host({3}), host({2}), 2);
  CHECK(to_vector<float>(y) == Floats{6, 12, 18});
  CHECK(z.device() == here);
  CHECK(item<float>(z) == 42);
}

TEST_CASE("to: reads and branches of values that came back") {
  auto f = jit::compile([](Tensor x) {
    const Tensor y = x.to(there) * 2;
    if (item(sum(y).to(here)) > 10) return (y + 1).to(here);
    return (y - 1).to(here);
  });
  for (int i = 0; i < 2; ++i) {
    CHECK(to_vector<float>(f(host({3}))) == Floats{3, 5, 7});
    CHECK(to_vector<float>(f(host({3}, 0))) == Floats{-1, 1, 3});
  }
}

TEST_CASE("to: inside loops and branches") {
  auto f = jit::compile([](Tensor x) {
    return jit::fori_loop(0, 3, [](Scalar, Tensor y) { return (y.to(here) * 2).to(there) + 1; }, x);
  });
  CHECK(to_vector<float>(f(host({2}).to(there))) == Floats{15, 23});
  auto g = jit::compile([](Tensor x) {
    return jit::fori_loop(0, 3, [](Scalar, Tensor y) { return (y.to(there) * 2).to(here) + 1; }, x);
  });
  CHECK(to_vector<float>(g(host({2}))) == Floats{15, 23});
  auto h = jit::compile([](Tensor x, Scalar s) {
    return jit::cond(s > 0, [](Tensor y) { return (y.to(here) + 1).to(there); }, [](Tensor y) { return y - 1; }, x);
  });
  CHECK(to_vector<float>(h(host({2}).to(there), 1)) == Floats{2, 3});
  CHECK(to_vector<float>(h(host({2}).to(there), -1)) == Floats{0, 1});
}

TEST_CASE("to: effects keep their order across devices") {
  std::vector<std::string> seen;
  auto f = jit::compile([&](Tensor x) {
    const Tensor y = x.to(there) * 2;
    jit::callback([&](Tensor v) { seen.push_back("device " + to_string(v)); }, y);
    jit::callback([&](Tensor v) { seen.push_back("host " + to_string(v)); }, x);
    jit::callback([&](Tensor v) { seen.push_back("back " + to_string(v)); }, y.to(here) + 1);
    return y;
  });
  const std::vector<std::string> want{"device [2., 4.]", "host [1., 2.]", "back [3., 5.]"};
  f(host({2}));
  CHECK(seen == want);
  seen.clear();
  f(host({2}));
  CHECK(seen == want);
}

TEST_CASE("to: Variables on the device, batches of the host") {
  Variable w(zeros({3}, {.device = there}));
  auto step = jit::compile([&](Tensor x, Tensor target) {
    const auto loss_of = [&](Tensor v) { return mse_loss(x.to(there) * v, target.to(there)); };
    const auto [loss, gradient] = jit::value_and_grad(loss_of)(w.value());
    w.set(w - 0.5f * gradient);
    return loss.to(here);
  });
  const Tensor x = ones({3}, {.device = here}), target = host({3});
  const float first = item<float>(step(x, target));
  float last = first;
  for (int i = 0; i < 40; ++i) last = item<float>(step(x, target));
  CHECK(last < first * 1e-3f);
  CHECK(w.device() == there);
}

TEST_CASE("to: results into the caller's memory, and memory kept between calls") {
  auto f = jit::compile([](Tensor x) { return (x.to(there) * 2).to(here); }, {.mode = jit::Mode::reduce_overhead});
  const Tensor x = host({3});
  std::vector<float> place(3);
  f.into(borrow_mut(place.data(), {3}))(x);
  CHECK(place == Floats{2, 4, 6});
  const Tensor held = f(x);
  CHECK(to_vector<float>(f(host({3}, 5))) == Floats{10, 12, 14});
  CHECK(to_vector<float>(held) == Floats{2, 4, 6});
  CHECK(to_vector<float>(f(borrow(place, {3}))) == Floats{4, 8, 12});
}

TEST_CASE("to: random numbers of the device are the same when they are copied") {
  auto f = jit::compile([](Tensor x) {
    const Tensor noise = randn({100}, {.device = there});
    return std::tuple{noise, noise.to(here), x.to(there) + noise};
  });
  const auto [a, b, c] = f(zeros({100}, {.device = here}));
  CHECK(to_vector<float>(a) == to_vector<float>(b));
  CHECK(to_vector<float>(a) == to_vector<float>(c));
}

TEST_CASE("to: text of graphs reads back, and the verifier knows the device") {
  const Graph graph = parse_graph(
      "graph(%0: f32[4]) {\n  %1: f32[4]@cuda:1 = to(%0) {device=cuda:1}\n  %2: f32[4]@cuda:1 = exp(%1)\n  %3: f32[4] "
      "= to(%2)\n  return %3, %2\n}\n");
  verify(graph);
  CHECK(structurally_equal(graph, parse_graph(graph.text())));
  CHECK(graph.type(graph.outputs()[1]).device == other);
  GraphBuilder builder;
  const Value x = builder.input({DType::f32, here, {Dim(4)}});
  const Value y = builder.add_typed(op_info<ops::To>, {&x, 1}, Attrs{.device = there},
                                    TypeList(1, Type{DType::f32, here, {Dim(4)}}), {});
  CHECK_THROWS_AS(verify(builder.finish({&y, 1})), InternalError);
}

TEST_CASE("to: an index that is known at run time reads and writes on the device") {
  const Tensor x = host({3, 4}), device_index = tensor({-1})(0).to(there), host_index = tensor({2})(0).to(here);
  auto f = jit::compile([](Tensor v, Scalar i) {
    Tensor u = v;
    u.at(i) = 5;
    u.at(all, i) += 1;
    return std::tuple{v(i), u};
  });
  const auto [row, changed] = f(x.to(there), -1);
  CHECK(changed.device() == there);
  const auto [want_row, want_changed] = f(x, 2);
  CHECK(is_close(row, want_row));
  CHECK(Floats(to_vector<float>(changed))[11] == 6);
  for (const Tensor& index : {device_index, host_index}) {
    Tensor u = x.to(there);
    CHECK(is_close(u(index), want_row));
    u.at(index, 0) = 7;
    CHECK(to_vector<float>(u)[8] == 7);
  }
}

TEST_CASE("to: what computes on a device is no C++ header") {
  const auto said = [](const auto& f, const Tensor& x) -> std::string {
    try {
      jit::export_cpp(f, {.path = "never_written.hpp", .isa = "avx2"}, x);
    } catch (const UserError& error) { return error.what(); }
    return "no UserError";
  };
  const auto twice = [](const Tensor& x) { return x * 2; };
  CHECK(has(said(twice, host({4}).to(there)), "the function computes on cuda:0"));
  const Variable w(host({4}).to(there));
  CHECK(has(said([&](const Tensor& x) { return w + x.to(there); }, host({4})), "the function computes on cuda:0"));
  const Tensor captured = host({4}).to(other);
  CHECK(
      has(said([=](const Tensor& x) { return x + captured.to(here); }, host({4})), "the function computes on cuda:1"));
}

TEST_CASE("full of a complex number is made on the device that the options name") {
  using Numbers = std::vector<std::complex<double>>;
  const std::complex<double> number(1.5, -0.0);
  const Tensor z = full({2}, number, {.device = there});
  CHECK(z.device() == there);
  CHECK(z.dtype() == DType::c128);
  CHECK(to_vector<std::complex<double>>(z) == Numbers{number, number});
  CHECK(std::signbit(to_vector<std::complex<double>>(z)[1].imag()));
  const Tensor widened = full({}, number, {.dtype = DType::f32, .device = there});
  CHECK(widened.device() == there);
  CHECK(widened.dtype() == DType::c64);
  CHECK(full({2}, number, {.device = here}).device() == here);
  CHECK(full({2}, std::complex<float>(0, 1)).device() == default_device());
  CHECK(default_device() == there);  // see on_fake_test.cpp
  CHECK_THROWS_AS(full({2}, number, {.device = Device::cuda(7)}), DeviceError);
}

TEST_CASE("a complex number of the host joins tensors of a device, whole and by its parts") {
  using Numbers = std::vector<std::complex<double>>;
  const Tensor z = copy_of(Numbers{{1, 2}, {3, -4}}).to(there), w = copy_of(Numbers{{2, -3}})(0).to(here);
  eval(w);
  auto f = jit::compile([](Tensor x, Tensor by) { return x * by; });
  CHECK(to_vector<std::complex<double>>(f(z, w)) == Numbers{{8, 1}, {-6, -17}});
  CHECK(to_vector<std::complex<double>>(f(z, std::complex<double>(0, 1))) == Numbers{{-2, 1}, {4, 3}});
  CHECK(to_vector<std::complex<double>>(z * w) == Numbers{{8, 1}, {-6, -17}});
  // Computed on the host first; read by control flow on the device.
  auto whole = jit::compile([](Tensor x, Tensor by) { return where(real(x) < 2.0, x, by * by + 1.0); });
  CHECK(to_vector<std::complex<double>>(whole(z, w)) == Numbers{{1, 2}, {-4, -12}});
  auto loop = jit::compile(
      [](Tensor x, Tensor by) { return jit::fori_loop(0, 3, [&](Scalar, Tensor y) { return y * by + imag(by); }, x); });
  Numbers want{{1, 2}, {3, -4}};
  for (int i = 0; i < 3; ++i)
    for (std::complex<double>& each : want) each = each * std::complex<double>(2, -3) - 3.0;
  CHECK(to_vector<std::complex<double>>(loop(z, w)) == want);
}
