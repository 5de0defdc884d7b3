// Memory, streams, plans and errors on a GPU.
#include "catch.hpp"

#include <sinter/sinter.hpp>

#include <dlfcn.h>
#include <cmath>
#include <complex>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <thread>

using namespace sinter;
using Catch::Contains;

namespace {
const Device gpu = Device::cuda(0);
bool is_missing() { return !cuda::is_available(); }
std::vector<float> counted(std::size_t n) {
  std::vector<float> values(n);
  std::iota(values.begin(), values.end(), 0.f);
  return values;
}
float largest_difference(const Tensor& a, const Tensor& b) {
  const std::vector<float> x = to_vector<float>(a), y = to_vector<float>(b);
  REQUIRE(x.size() == y.size());
  float largest = 0;
  for (std::size_t i = 0; i < x.size(); ++i)
    largest = std::max(largest, x[i] == y[i] ? 0 : std::isnan(x[i] - y[i]) ? INFINITY : std::abs(x[i] - y[i]));
  return largest;
}
}  // namespace

TEST_CASE("tensors go to the GPU and come back") {
  if (is_missing()) SINTER_SKIP("no GPU");
  for (std::size_t n :
       {std::size_t{0}, std::size_t{1}, std::size_t{1000}, std::size_t{9} << 20}) {  // below and above a staging piece
    const std::vector<float> values = counted(n);
    const Tensor x = from_blob(nullptr, values.data(), {Dim(n)}, DType::f32).to(gpu);
    CHECK(x.device() == gpu);
    CHECK(to_vector<float>(x) == values);
  }
  const Tensor strided = transpose(copy_of(counted(6), {2, 3}).to(Device::cpu()), 0, 1);
  CHECK(to_vector<float>(strided.to(gpu)) == std::vector<float>{0, 3, 1, 4, 2, 5});
  const Tensor there = transpose(copy_of(counted(6), {2, 3}), 0, 1);
  CHECK(there.device() == gpu);
  CHECK(to_vector<float>(there.to(Device::cpu())) == std::vector<float>{0, 3, 1, 4, 2, 5});
  CHECK(to_string(tensor({1.f, 2.5f})) == "[1. , 2.5]");
  CHECK(item<float>(tensor({7.f})) == 7.f);
  CHECK_THROWS_AS(there.data<float>(), DeviceError);
}

TEST_CASE("factories and lazy statements run on the GPU") {
  if (is_missing()) SINTER_SKIP("no GPU");
  const Tensor x = ones({4}) * 2.f + arange(4);
  CHECK(x.device() == gpu);
  CHECK(to_vector<float>(x) == std::vector<float>{2, 3, 4, 5});
  CHECK(to_vector<float>(full({2}, 3)) == std::vector<float>{3, 3});
  CHECK(to_vector<float>(zeros_like(x)) == std::vector<float>(4, 0.f));
  CHECK(to_vector<float>(eye(2)) == std::vector<float>{1, 0, 0, 1});
  CHECK(to_vector<float>(linspace(0, 1, 3)) == std::vector<float>{0, 0.5f, 1});
  CHECK(to_vector<float>(arange(1, 7, 2)) == std::vector<float>{1, 3, 5});
  const Tensor host_number = tensor({3.f}).to(Device::cpu())(0);
  CHECK(to_vector<float>(x * host_number) == std::vector<float>{6, 9, 12, 15});
  CHECK_THROWS_AS(Tensor(x + ones({4}, {.device = Device::cpu()})), DeviceError);
}

TEST_CASE("random numbers are the same on the GPU and the CPU") {
  if (is_missing()) SINTER_SKIP("no GPU");
  manual_seed(5);
  const Tensor there = rand({1000}), normal_there = randn({1000});
  eval(there);
  eval(normal_there);
  manual_seed(5);
  const Tensor here = rand({1000}, {.device = Device::cpu()}), normal_here = randn({1000}, {.device = Device::cpu()});
  CHECK(there.device() == gpu);
  CHECK(to_vector<float>(there) == to_vector<float>(here));
  CHECK(largest_difference(normal_there, normal_here) < 1e-5f);
}

TEST_CASE("compiled functions run on the GPU, with run-time numbers by value") {
  if (is_missing()) SINTER_SKIP("no GPU");
  auto f = jit::compile([](Tensor x, Tensor w, Scalar s) { return gelu(matmul(x, w)) * s + s * 2; });
  const Tensor x = randn({33, 17}), w = randn({17, 65});
  const Tensor hx = x.to(Device::cpu()), hw = w.to(Device::cpu());
  for (float s : {0.5f, 2.f, -1.f}) {
    const Tensor y = f(x, w, s);
    CHECK(y.device() == gpu);
    CHECK(largest_difference(y, f(hx, hw, s)) < 1e-4f);
  }
  CHECK_THAT(f.explain(x, w, 1.f).text(), Contains("__global__"));
  CHECK_THROWS_AS(f(x, hw, 1.f), DeviceError);
}

TEST_CASE("complex numbers of the host are run-time numbers on the GPU, both parts of them") {
  if (is_missing()) SINTER_SKIP("no GPU");
  using Number = std::complex<double>;
  using Numbers = std::vector<Number>;
  const Numbers given{{1, 2}, {3, -4}};
  const auto times = [&](Number by) {
    Numbers products = given;
    for (Number& each : products) each *= by;
    return products;
  };
  const Tensor z = copy_of(given).to(gpu), narrow = z.to(DType::c64);
  for (const jit::Mode mode : {jit::Mode::default_, jit::Mode::reduce_overhead}) {
    auto f = jit::compile([](Tensor x, Tensor by) { return x * by; }, {.mode = mode});
    for (const Number by : {Number(0, 1), Number(0, 1), Number(0, 1), Number(0, 2), Number(3, 2)}) {
      CHECK(to_vector<Number>(f(z, by)) == times(by));
      CHECK(to_vector<Number>(f(narrow, std::complex<float>(by))) == times(by));
      const Tensor number = copy_of(Numbers{by})(0).to(Device::cpu());
      CHECK(to_vector<Number>(f(z, number)) == times(by));
    }
  }
  CHECK(to_vector<Number>(full({1}, Number(1, 2), {.device = gpu})) == Numbers{{1, 2}});
}

TEST_CASE("sizes change on the GPU") {
  if (is_missing()) SINTER_SKIP("no GPU");
  auto f = jit::compile([](Tensor x) { return softmax(x, 1) + sum(x, 0); });
  for (int n : {3, 5, 8, 130, 1000, 4097}) {
    const Tensor x = randn({n, n + 1});
    CHECK(largest_difference(f(x), f(x.to(Device::cpu()))) < 2e-3f);
  }
}

TEST_CASE("Scalars, host tensors and the GPU in one compiled function") {
  if (is_missing()) SINTER_SKIP("no GPU");
  auto f =
      jit::compile([](Tensor x, Tensor table, Scalar s) { return std::pair(x * (s + 1) * sum(table), table * 2); });
  const Tensor table = ones({4}, {.device = Device::cpu()});
  auto [y, doubled] = f(full({3}, 2), table, 4.f);
  CHECK(y.device() == gpu);
  CHECK(doubled.device() == Device::cpu());
  CHECK(to_vector<float>(y) == std::vector<float>(3, 40.f));
  CHECK(to_vector<float>(doubled) == std::vector<float>(4, 2.f));
  auto mixed = jit::compile([](Tensor a, Tensor b) { return a + b; });
  CHECK_THROWS_AS(mixed(ones({4}), table), DeviceError);
}

TEST_CASE("Variables, gradients and random numbers inside a compiled step") {
  if (is_missing()) SINTER_SKIP("no GPU");
  Variable w(zeros({3}));
  auto step = jit::compile([&](Tensor x, Tensor target, Scalar rate) {
    auto loss_of = [&](Tensor v) { return mse_loss(x * v, target); };
    auto [loss, gradient] = jit::value_and_grad(loss_of)(w.value());
    w.set(w - rate * gradient);
    return loss;
  });
  const Tensor x = ones({3}), target = tensor({1.f, 2.f, 3.f});
  float first = item<float>(step(x, target, 0.5f)), last = 0;
  for (int i = 0; i < 40; ++i) last = item<float>(step(x, target, 0.5f));
  CHECK(last < first * 1e-3f);
  CHECK(w.device() == gpu);
  auto noisy = jit::compile([](Tensor x) { return x + rand({5}, {.device = Device::cuda(0)}); });
  const auto a = to_vector<float>(noisy(zeros({5}))), b = to_vector<float>(noisy(zeros({5})));
  CHECK(a != b);
}

TEST_CASE("memory is counted, limited and given back") {
  if (is_missing()) SINTER_SKIP("no GPU");
  cuda::synchronize();
  release_cached_memory(gpu);
  const MemoryStats before = memory_stats(gpu);
  {
    const Tensor x = ones({1 << 20});
    eval(x);
    CHECK(memory_stats(gpu).in_use >= before.in_use + (4 << 20));
  }
  CHECK(memory_stats(gpu).in_use <= before.in_use + (1 << 20));
  set_memory_limit(memory_stats(gpu).in_use + memory_stats(gpu).cached + (8 << 20), gpu);
  CHECK_THROWS_AS(eval(ones({16 << 20})), OutOfMemory);
  CHECK_THROWS_WITH(eval(ones({16 << 20})), Contains("limit"));
  CHECK(to_vector<float>(ones({4}) + 1) == std::vector<float>(4, 2.f));  // everything is usable
  set_memory_limit(0, gpu);
  CHECK_THROWS_AS(eval(zeros({std::int64_t{1} << 40})), OutOfMemory);  // 4 TB: the driver refuses
  CHECK(to_vector<float>(ones({4}) + 1) == std::vector<float>(4, 2.f));
}

TEST_CASE("an index out of range on the GPU is reported with the line at the next synchronisation") {
  if (is_missing()) SINTER_SKIP("no GPU");
  const Tensor table = arange(10), good = copy_of(std::vector<std::int64_t>{1, 9});
  CHECK(to_vector<float>(take(table, good, 0)) == std::vector<float>{1, 9});
  const Tensor bad = copy_of(std::vector<std::int64_t>{1, 10});
  CHECK_THROWS_AS(to_vector<float>(take(table, bad, 0)), IndexError);
  const Tensor again = take(table, bad, 0);
  CHECK_THROWS_WITH(to_vector<float>(again), Contains("10") && Contains("device_gpu_test.cpp"));
  CHECK(to_vector<float>(take(table, good, 0)) == std::vector<float>{1, 9});
}

TEST_CASE("streams and events") {
  if (is_missing()) SINTER_SKIP("no GPU");
  const cuda::Stream main = cuda::Stream::current();
  cuda::Stream side;
  CHECK_FALSE(side == main);
  const Tensor x = ones({1 << 20});
  eval(x);
  cuda::Event ready, done;
  ready.record();
  side.wait(ready);
  Tensor y;
  auto f = jit::compile([](Tensor a) { return sum(exp(a) * 2); });
  {
    cuda::StreamGuard guard(side);
    CHECK(cuda::Stream::current() == side);
    y = f(x);
    done.record();
  }
  CHECK(cuda::Stream::current() == main);
  main.wait(done);
  CHECK(item<float>(y) == Approx(std::exp(1.0) * 2 * (1 << 20)).epsilon(1e-4));
  CHECK(item<float>(f(x)) == Approx(std::exp(1.0) * 2 * (1 << 20)).epsilon(1e-4));  // the same frame on another stream
  CHECK(ready.elapsed_ms(done) >= 0);
  side.synchronize();
  CHECK(side.is_done());
  CHECK(side.native() != nullptr);
}

TEST_CASE("threads share a GPU") {
  if (is_missing()) SINTER_SKIP("no GPU");
  auto f = jit::compile([](Tensor a, Scalar s) { return sum(a * s); });
  std::vector<std::thread> threads;
  std::vector<float> results(8);
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i)
        results[static_cast<std::size_t>(t)] = item<float>(f(ones({1000 + t}), static_cast<float>(t)));
    });
  for (auto& thread : threads) thread.join();
  for (int t = 0; t < 8; ++t) CHECK(results[static_cast<std::size_t>(t)] == static_cast<float>((1000 + t) * t));
}

TEST_CASE("device memory of others is used where it lies") {
  if (is_missing()) SINTER_SKIP("no GPU");
  const Tensor owner = arange(Dim(6), {.dtype = DType::f32});
  eval(owner);
  bool is_released = false;
  {
    const Tensor view =
        from_blob(std::shared_ptr<const void>(
                      &is_released, [](const void* p) { *const_cast<bool*>(static_cast<const bool*>(p)) = true; }),
                  owner.impl()->data(), {2, 3}, DType::f32, gpu);
    CHECK(to_vector<float>(view * 2) == std::vector<float>{0, 2, 4, 6, 8, 10});
  }
  CHECK(is_released);
  const Tensor tail = owner(slice(1, 6));  // addresses that are not aligned
  eval(tail);
  CHECK(to_vector<float>(tail * 2 + 1) == std::vector<float>{3, 5, 7, 9, 11});
}

TEST_CASE("reduce_overhead on the GPU gives the same as plain calls, whatever changes") {
  if (is_missing()) SINTER_SKIP("no GPU");
  auto body = [](Tensor x, Tensor w, Scalar s) {
    const Tensor h = softmax(matmul(x, w), 1);
    return std::pair(sum(h * s, 0), argmax(h, 1));
  };
  auto plain = jit::compile(body);
  auto graph = jit::compile(body, {.mode = jit::Mode::reduce_overhead});
  std::vector<Tensor> kept;
  for (int i = 0; i < 12; ++i) {
    const Tensor x = randn({i < 8 ? 33 : 20 + i, 17}),
                 w = randn({17, 40});  // other addresses at each call, then other sizes
    auto [a, b] = plain(x, w, 0.5f * static_cast<float>(i));
    auto [c, d] = graph(x, w, 0.5f * static_cast<float>(i));
    if (i % 3 == 0) kept.push_back(c);  // results that are held are not written again
    CHECK(largest_difference(a, c) == 0);
    CHECK(to_vector<float>(b) == to_vector<float>(d));
  }
  const float first = to_vector<float>(kept[1])[0];
  graph(randn({33, 17}), randn({17, 40}), 9.f);
  CHECK(to_vector<float>(kept[1])[0] == first);
  Variable w(zeros({64, 64}));
  auto step = jit::compile(
      [&](Tensor x, Scalar rate) {
        w.set(w + rate * matmul(x, x));
        return sum(w.value());
      },
      {.mode = jit::Mode::reduce_overhead});
  const Tensor x = ones({64, 64});
  float last = 0;
  for (int i = 0; i < 20; ++i) last = item<float>(step(x, 1.f));
  CHECK(last == Approx(20.0 * 64 * 64 * 64));
}

TEST_CASE("scatter_add (the gradient of a gather) runs on the GPU") {
  if (is_missing()) SINTER_SKIP("no GPU");
  auto f = jit::compile(
      [](Tensor table, Tensor at) { return jit::grad([&](Tensor t) { return sum(take(t, at, 0) * 2); })(table); });
  const Tensor at = copy_of(std::vector<std::int64_t>{0, 2, 2, 1, 2});
  CHECK(to_vector<float>(f(zeros({4}), at)) == std::vector<float>{2, 2, 6, 0});
  CHECK_THROWS_AS(to_vector<float>(f(zeros({2}), at)), IndexError);
}

TEST_CASE("a custom op with a function for CUDA enqueues on the call's stream") {
  if (is_missing()) SINTER_SKIP("no GPU");
  auto copied = jit::custom_op(
      {.name = "copied_by_hand",
       .shape = [](auto in) { return in[0]; },
       .cuda =
           [](auto in, auto out, void* stream) {
             using Copy = int (*)(void* to, const void* from, std::size_t bytes, void* stream);
             static const auto copy =
                 reinterpret_cast<Copy>(dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuMemcpyDtoDAsync_v2"));
             if (copy(out.data, in[0].data, static_cast<std::size_t>(out.numel) * sizeof(float), stream) != 0)
               throw std::runtime_error("copy");
           }});
  auto f = jit::compile([copied](Tensor x) { return copied(x * 2) + 1; });
  for (int i = 0; i < 3; ++i)
    CHECK(to_vector<float>(f(full({1000}, i))) == std::vector<float>(1000, static_cast<float>(2 * i + 1)));
  CHECK(to_vector<float>(copied(full({5}, 7))) == std::vector<float>(5, 7.f));
}

TEST_CASE("softmax of rows too long for registers: infinities and NaN as in short ones") {
  if (is_missing()) SINTER_SKIP("no GPU");
  const float infinity = std::numeric_limits<float>::infinity();
  std::vector<float> values(4 * 65536);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(i % 977) * 0.01f - (i % 5 == 0 ? infinity : 0);
  std::fill_n(values.begin() + 65536, 65536, -infinity);
  values[2 * 65536 + 5] = infinity;
  values[3 * 65536 + 70] = NAN;
  auto f = jit::compile([](Tensor x) { return std::pair(softmax(x, 1), logsumexp(x, 1)); });
  const Tensor x = copy_of(values, {4, 65536});
  auto [y, total] = f(x);
  auto [want, want_total] = f(x.to(Device::cpu()));
  const auto same = [](const Tensor& a, const Tensor& b) {
    const std::vector<float> p = to_vector<float>(a), q = to_vector<float>(b);
    for (std::size_t i = 0; i < p.size(); ++i)
      if (!(p[i] == q[i] || (std::isnan(p[i]) && std::isnan(q[i])) ||
            std::abs(p[i] - q[i]) < 1e-5f * std::max(1.f, std::abs(q[i]))))
        return false;
    return true;
  };
  CHECK(same(y, want));
  CHECK(same(total, want_total));
}

TEST_CASE("scatters of u64 count as unsigned numbers on a GPU") {
  if (!cuda::is_available()) SINTER_SKIP("no GPU");
  const std::uint64_t half = std::uint64_t{1} << 63;
  const Tensor base = copy_of(std::vector<std::uint64_t>{5, half, half + 7, 1}).to(Device::cpu());
  const Tensor index = copy_of(std::vector<std::int64_t>{0, 1, 1, 2, 0, 3}).to(Device::cpu());
  const Tensor added =
      copy_of(std::vector<std::uint64_t>{half + 1, 3, half + 9, 4, 2, half + half / 2}).to(Device::cpu());
  const Device gpu = Device::cuda(0);
  for (const ScatterReduction reduction :
       {ScatterReduction::sum, ScatterReduction::prod, ScatterReduction::amin, ScatterReduction::amax}) {
    const Tensor there = scatter_reduce(base.to(gpu), 0, index.to(gpu), added.to(gpu), reduction);
    CHECK(to_vector<std::uint64_t>(there) ==
          to_vector<std::uint64_t>(scatter_reduce(base, 0, index, added, reduction)));
  }
}
