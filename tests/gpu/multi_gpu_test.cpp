// Copies inside compiled functions, several threads on one GPU, and several GPUs. What needs two GPUs says so where
// there is one.
#include "catch.hpp"

#include <sinter/sinter.hpp>

#include <atomic>
#include <cmath>
#include <exception>
#include <functional>
#include <numeric>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

using namespace sinter;
using Floats = std::vector<float>;

namespace {
const Device cpu = Device::cpu(), first = Device::cuda(0), second = Device::cuda(1);
bool has_gpu() { return cuda::is_available(); }
bool has_two() { return cuda::device_count() >= 2; }
Tensor host(const Shape& shape, float start = 0.5f) {
  Floats values(static_cast<std::size_t>(shape.numel().value()));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = start + static_cast<float>(i % 1001) * 0.001f;
  return copy_of(values, shape).to(cpu);
}
/// The largest difference, beside the size of what is wanted.
double difference(const Tensor& got, const Tensor& want) {
  const Floats x = to_vector<float>(got), y = to_vector<float>(want);
  if (x.size() != y.size()) return INFINITY;
  double largest = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double error = std::abs(static_cast<double>(x[i]) - y[i]) / (1 + std::abs(static_cast<double>(y[i])));
    largest = std::isnan(error) ? INFINITY : std::max(largest, error);
  }
  return largest;
}
/// Runs them side by side; what a thread throws or finds wrong becomes a failure here (Catch counts in one thread
/// only).
void together(std::vector<std::function<std::string()>> work) {
  std::vector<std::string> wrong(work.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < work.size(); ++i)
    threads.emplace_back([&, i] {
      try {
        wrong[i] = work[i]();
      } catch (const std::exception& error) { wrong[i] = std::string("threw: ") + error.what(); }
    });
  for (std::thread& thread : threads) thread.join();
  for (std::size_t i = 0; i < wrong.size(); ++i) {
    INFO("thread " << i);
    CHECK(wrong[i] == "");
  }
}

/// A little training on one device, by compiled functions in both modes, with memory that comes and goes; empty, or
/// what is wrong.
std::string work_on(Device device, int iterations, const Tensor& want_sum, const Tensor& want_step) {
  auto chain = jit::compile([](Tensor x, Tensor w, Scalar s) { return sum(gelu(matmul(x, w)) * s, 0); });
  auto step = jit::compile(
      [](Tensor x, Tensor w) { return w - 0.01f * jit::grad([&](Tensor v) { return mean(square(matmul(x, v))); })(w); },
      {.mode = jit::Mode::reduce_overhead});
  const Tensor x = host({64, 48}).to(device), w = host({48, 32}, -0.3f).to(device);
  for (int iteration = 0; iteration < iterations; ++iteration) {
    const Tensor y = chain(x, w, 0.5f);
    if (y.device() != device) return "a result on " + y.device().text();
    const double error = difference(y, want_sum);
    if (!(error < 1e-4))
      return "iteration " + std::to_string(iteration) + " on " + device.text() + ": the sum differs by " +
             std::to_string(error);
    Tensor v = w;
    for (int i = 0; i < 5; ++i) v = step(x, v);
    const double off = difference(v, want_step);
    if (!(off < 1e-4))
      return "iteration " + std::to_string(iteration) + " on " + device.text() + ": the weights differ by " +
             std::to_string(off);
    const Tensor scratch = zeros({1000 + 137 * iteration}, {.device = device}) + 1;
    if (item<float>(sum(scratch)) != static_cast<float>(1000 + 137 * iteration))
      return "iteration " + std::to_string(iteration) + ": a sum of ones is wrong";
  }
  return "";
}
std::tuple<Tensor, Tensor> wanted() {
  const Tensor x = host({64, 48}), w = host({48, 32}, -0.3f);
  Tensor v = w;
  for (int i = 0; i < 5; ++i) v = v - 0.01f * jit::grad([&](Tensor u) { return mean(square(matmul(x, u))); })(v);
  return {sum(gelu(matmul(x, w)) * 0.5f, 0), v};
}
}  // namespace

TEST_CASE("to: from the host to the GPU and back inside a compiled function") {
  if (!has_gpu()) SINTER_SKIP("no GPU");
  const Tensor w = host({300, 200}).to(first), here = w.to(cpu);
  auto f = jit::compile([=](Tensor image) { return softmax(matmul(image.to(first), w), 1).to(cpu); });
  for (int rows : {64, 64, 33, 7, 1}) {
    const Tensor image = host({rows, 300}, -0.2f);
    const Tensor y = f(image);
    CHECK(y.device() == cpu);
    INFO("rows " << rows);
    CHECK(difference(y, softmax(matmul(image, here), 1)) < 1e-4);
  }
  auto large = jit::compile([](Tensor x) { return (x.to(first) * 2 + 1).to(cpu); });  // several staging pieces
  const Tensor x = host({5 << 20});
  CHECK(difference(large(x), x * 2 + 1) == 0);
}

TEST_CASE("to: host, GPU, host, GPU, host in one compiled function, in both modes") {
  if (!has_gpu()) SINTER_SKIP("no GPU");
  for (const jit::Mode mode : {jit::Mode::default_, jit::Mode::reduce_overhead}) {
    auto f = jit::compile(
        [](Tensor x, Tensor v) {
          const Tensor a = exp(x * 0.1f).to(first) * v;
          const Tensor b = a.to(cpu) - x;
          const Tensor c = sqrt(abs(b.to(first))) + v;
          return std::tuple{sum(c.to(cpu) * x), c, b};
        },
        {.mode = mode});
    const Tensor x = host({1000}), v = host({1000}, 3).to(first), hv = v.to(cpu);
    const Tensor b = exp(x * 0.1f) * hv - x, c = sqrt(abs(b)) + hv;
    for (int i = 0; i < 5; ++i) {
      const auto [s, gc, gb] = f(x, v);
      CHECK(difference(s, sum(c * x)) < 1e-4);
      CHECK(difference(gc, c) < 1e-4);
      CHECK(difference(gb, b) < 1e-4);
      CHECK(gc.device() == first);
      CHECK(gb.device() == cpu);
    }
  }
}

TEST_CASE("to: gradients, loops and reads across the host and the GPU") {
  if (!has_gpu()) SINTER_SKIP("no GPU");
  const Tensor x = host({50, 20}), w = host({20, 8}).to(first), hw = w.to(cpu);
  const auto loss = [=](Tensor v) { return sum(square(tanh(matmul(v.to(first), w))).to(cpu)); };
  auto f = jit::compile([=](Tensor v) { return jit::value_and_grad(loss)(v); });
  const auto [value, gradient] = f(x);
  const Tensor want = jit::grad([=](Tensor v) { return sum(square(tanh(matmul(v, hw)))); })(x);
  CHECK(gradient.device() == cpu);
  CHECK(difference(gradient, want) < 1e-4);
  auto loop = jit::compile(
      [](Tensor v) { return jit::fori_loop(0, 3, [](Scalar, Tensor y) { return (y.to(cpu) * 2).to(first) + 1; }, v); });
  CHECK(to_vector<float>(loop(tensor({1.f, 2.f}).to(first))) == Floats{15, 23});
  auto reads = jit::compile([](Tensor v) {
    const Tensor y = v.to(first) * 2;
    if (item(sum(y).to(cpu)) > 10) return (y + 1).to(cpu);
    return (y - 1).to(cpu);
  });
  CHECK(to_vector<float>(reads(tensor({1.f, 2.f, 3.f}).to(cpu))) == Floats{3, 5, 7});
  CHECK(to_vector<float>(reads(tensor({0.f, 1.f, 2.f}).to(cpu))) == Floats{-1, 1, 3});
}

TEST_CASE("two threads on one GPU, a stream each") {
  if (!has_gpu()) SINTER_SKIP("no GPU");
  const auto [want_sum, want_step] = wanted();
  const auto work = [&, s = want_sum, v = want_step] {
    cuda::Stream stream;
    cuda::StreamGuard guard(stream);
    return work_on(first, 20, s, v);
  };
  together({work, work});
}

TEST_CASE("two threads on one GPU share compiled functions, and hand each other tensors") {
  if (!has_gpu()) SINTER_SKIP("no GPU");
  auto f = jit::compile([](Tensor x, Tensor w) { return tanh(matmul(x, w)) + 1; });
  const Tensor hx = host({40, 40}), hw = host({40, 40}, -0.4f), want = tanh(matmul(hx, hw)) + 1;
  const Tensor x = hx.to(first), w = hw.to(first);
  cuda::synchronize();
  std::vector<Tensor> handed(2);
  const auto work = [&](std::size_t own) {
    return [&, own]() -> std::string {
      cuda::Stream stream;
      cuda::StreamGuard guard(stream);
      for (int i = 0; i < 50; ++i)
        if (const double error = difference(f(x, w), want); !(error < 1e-4))
          return "iteration " + std::to_string(i) + " differs by " + std::to_string(error);
      handed[own] = f(x, w);
      stream.synchronize();
      return "";
    };
  };
  together({work(0), work(1)});
  for (const Tensor& y : handed) CHECK(difference(y, want) < 1e-4);
  std::thread([&] { handed.clear(); }).join();  // freed by a thread that never used a GPU
  CHECK(to_vector<float>(ones({1600}, {.device = first}) * 2) == Floats(1600, 2));
}

TEST_CASE("an index out of range on one stream is no error of another thread's") {
  if (!has_gpu()) SINTER_SKIP("no GPU");
  auto f = jit::compile([](Tensor x, Tensor at) { return take(x, at) * 2; });
  const Tensor x = ones({4}, {.device = first}), good = copy_of(std::vector<std::int64_t>{0, 3}).to(first),
               bad = copy_of(std::vector<std::int64_t>{0, 9}).to(first);
  f(x, good);
  eval(x);
  cuda::synchronize();
  std::atomic<int> iterations{0};
  together({[&]() -> std::string {
              cuda::Stream stream;
              cuda::StreamGuard guard(stream);
              for (int i = 0; i < 20; ++i) {
                const Tensor y = f(x, bad);
                try {
                  to_vector<float>(y);
                  return "no error in turn " + std::to_string(i);
                } catch (const IndexError&) { ++iterations; }
              }
              return "";
            },
            [&]() -> std::string {
              cuda::Stream stream;
              cuda::StreamGuard guard(stream);
              for (int i = 0; i < 60; ++i)
                if (to_vector<float>(f(x, good)) != Floats{2, 2}) return "wrong in turn " + std::to_string(i);
              return "";
            }});
  CHECK(iterations == 20);
  // Who waits for the stream learns of it.
  cuda::Stream stream;
  Tensor y;
  cuda::Event done;
  {
    cuda::StreamGuard guard(stream);
    y = f(x, bad);
    done.record(stream);
  }
  cuda::Stream::current().wait(done);
  CHECK_THROWS_AS(to_vector<float>(y), IndexError);
  CHECK(to_vector<float>(f(x, good)) == Floats{2, 2});
}

TEST_CASE("more views of one operand than a kernel's parameter holds: fusion cuts it") {
  if (!has_gpu()) SINTER_SKIP("no GPU");
  const auto shifted = [](Tensor x) {
    Tensor total = x(slice(0, 1000));
    for (int i = 1; i < 80; ++i) total = total + x(slice(i, 1000 + i));
    return total;
  };
  const Tensor x = host({1100}), want = shifted(x);
  auto f = jit::compile(shifted);
  CHECK(difference(f(x.to(first)), want) < 1e-4);
  CHECK(f.stats().kernels == 2);
}

TEST_CASE("two threads, a GPU each: compiled functions, graphs, allocations") {
  if (!has_two()) SINTER_SKIP("needs two GPUs");
  const auto [want_sum, want_step] = wanted();
  std::vector<std::function<std::string()>> work;
  for (int gpu = 0; gpu < 2; ++gpu)
    work.push_back([gpu, s = want_sum, v = want_step] { return work_on(Device::cuda(gpu), 20, s, v); });
  together(std::move(work));
  CHECK(memory_stats(second).peak > 0);
}

TEST_CASE("one compiled function on two GPUs, called from two threads") {
  if (!has_two()) SINTER_SKIP("needs two GPUs");
  auto f = jit::compile([](Tensor x, Scalar s) { return softmax(x, 1) * s + sum(x, 0); });
  const Tensor x = host({128, 256}), want = softmax(x, 1) * 2 + sum(x, 0);
  const auto work = [&](Device device) {
    return [&f, &x, &want, device]() -> std::string {
      for (int i = 0; i < 30; ++i) {
        const Tensor y = f(x.to(device), 2.f);
        if (y.device() != device) return "a result on " + y.device().text();
        if (const double error = difference(y, want); !(error < 1e-4))
          return device.text() + " differs by " + std::to_string(error);
      }
      return "";
    };
  };
  together({work(first), work(second)});
  CHECK(f.stats().compiles == 2);
  auto mixed = jit::compile([](Tensor a, Tensor b) { return a + b; });
  CHECK_THROWS_AS(mixed(x.to(first), x.to(second)), DeviceError);
}

TEST_CASE("data move between two GPUs: at once, in lazy statements, inside functions") {
  if (!has_two()) SINTER_SKIP("needs two GPUs");
  for (std::int64_t n : {1, 1000, 16 << 20}) {
    const Tensor x = host({n}), there = x.to(first), across = there.to(second);
    CHECK(across.device() == second);
    INFO("n " << n);
    CHECK(difference(across, x) == 0);
    CHECK(difference((there * 2).to(second) + across, x * 3) < 1e-6);
  }
  auto f = jit::compile([](Tensor a, Tensor b) {
    const Tensor moved = exp(a).to(second) + b;
    return std::tuple{moved, (moved * 2).to(first) + a, sum(moved).to(cpu)};
  });
  const Tensor a = host({5000}), b = host({5000}, 2);
  const Tensor moved = exp(a) + b;
  for (int i = 0; i < 20; ++i) {
    const auto [p, q, r] = f(a.to(first), b.to(second));
    CHECK(p.device() == second);
    CHECK(q.device() == first);
    CHECK(difference(p, moved) < 1e-5);
    CHECK(difference(q, moved * 2 + a) < 1e-5);
    CHECK(difference(r, sum(moved)) < 1e-4);
  }
  const Tensor w = host({20, 8}), hx = host({50, 20});  // a model in two halves, and its gradient
  const auto loss = [](Tensor v, Tensor x) { return sum(square(tanh(matmul(x, v.to(first))).to(second))); };
  auto g = jit::compile([=](Tensor v, Tensor x) { return jit::grad(loss)(v, x); });
  const Tensor want = jit::grad([=](Tensor v) { return sum(square(tanh(matmul(hx, v)))); })(w);
  const Tensor gradient = g(w.to(second), hx.to(first));
  CHECK(gradient.device() == second);
  CHECK(difference(gradient, want) < 1e-4);
}

TEST_CASE("threads on two GPUs pass tensors to and fro") {
  if (!has_two()) SINTER_SKIP("needs two GPUs");
  const Tensor start = host({300000});
  const Tensor want = start * 16 + 15;  // x -> 2x + 1, four times
  const auto work = [&](Device one, Device two) {
    return [&start, &want, one, two]() -> std::string {
      auto f = jit::compile([](Tensor x) { return x * 2 + 1; });
      for (int iteration = 0; iteration < 20; ++iteration) {
        Tensor x = start.to(one);
        for (int i = 0; i < 4; ++i) x = f(x).to(i % 2 == 0 ? two : one);
        if (const double error = difference(x, want); !(error < 1e-5))
          return "iteration " + std::to_string(iteration) + " differs by " + std::to_string(error);
      }
      return "";
    };
  };
  together({work(first, second), work(second, first)});
}
