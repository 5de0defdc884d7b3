// Kernels on a GPU that wait for memory: rows that clusters of blocks share, scatters that sort, scans along columns,
// windows of padded images.
#include "catch.hpp"

#include <sinter/sinter.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

using namespace sinter;

namespace {
const Device gpu = Device::cuda(0);
bool is_missing() { return !cuda::is_available(); }
/// The norm of what differs, over that of what is right.
double error(const Tensor& found, const Tensor& wanted) {
  const std::vector<float> x = to_vector<float>(found.to(DType::f32)), y = to_vector<float>(wanted.to(DType::f32));
  REQUIRE(x.size() == y.size());
  double differs = 0, all = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    differs += std::pow(double{x[i]} - double{y[i]}, 2);
    all += std::pow(double{y[i]}, 2);
  }
  return std::sqrt(differs / all);
}
/// NaN in the same places, too.
bool all_equal(const Tensor& a, const Tensor& b) {
  const std::vector<double> x = to_vector<double>(a), y = to_vector<double>(b);
  return x.size() == y.size() && std::equal(x.begin(), x.end(), y.begin(), [](double u, double v) {
           return u == v || (std::isnan(u) && std::isnan(v));
         });
}
}  // namespace

TEST_CASE("rows that a cluster of blocks shares are right, and the same bits in a CUDA graph") {
  if (is_missing()) SINTER_SKIP("no GPU");
  const auto rows = [](Tensor x, Tensor y, Tensor w) {
    const Tensor h(layer_norm(x + y, {x.shape()[1]}, w, w));
    return std::pair(Tensor(softmax(x, 1) + y * (x - sum(x * y, {1}, keepdim))), h);
  };
  for (const std::int64_t length : {33001, 65536, 131072, 300004})
    for (const std::int64_t count : {3, 40}) {
      const Tensor x = randn({count, length}, {.device = gpu}), y = randn({count, length}, {.device = gpu}),
                   w = randn({length}, {.device = gpu});
      auto plain = jit::compile(rows), graph = jit::compile(rows, {.mode = jit::Mode::reduce_overhead});
      const auto [a, b] = plain(x, y, w);
      const auto wide = [](const Tensor& t) { return Tensor(t.to(Device::cpu()).to(DType::f64)); };
      const auto [c, d] = rows(wide(x), wide(y), wide(w));
      INFO(count << " x " << length);
      CHECK(error(a, c) < 1e-5);
      CHECK(error(b, d) < 1e-5);
      for (int i = 0; i < 3; ++i) {
        const auto [e, f] = graph(x, y, w);
        CHECK(to_vector<float>(e) == to_vector<float>(a));
        CHECK(to_vector<float>(f) == to_vector<float>(b));
      }
    }
}

TEST_CASE("rows that teams of blocks take one after the other are right, and the same bits in a CUDA graph") {
  if (is_missing()) SINTER_SKIP("no GPU");
  // Each by itself: a kernel of more reductions than teams exchange is one of clusters.
  const auto norm = [](Tensor x, Tensor y, Tensor w) { return Tensor(layer_norm(x + y, {x.shape()[1]}, w, w)); };
  const auto gradient = [](Tensor x, Tensor y, Tensor w) { return Tensor(y * (x - sum(x * y, {1}, keepdim)) * w); };
  // On the device: these are many numbers.
  const auto distance = [](const Tensor& found, const Tensor& wanted) {
    const Tensor differs = found.to(DType::f64) - wanted;
    return std::sqrt(to_vector<double>(sum(differs * differs))[0] / to_vector<double>(sum(wanted * wanted))[0]);
  };
  for (const auto& [count, length] :
       std::vector<std::pair<std::int64_t, std::int64_t>>{{35, 500004}, {18, 1048576}, {17, 1043333}, {67, 262144}}) {
    const Tensor x = randn({count, length}, {.device = gpu}), y = randn({count, length}, {.device = gpu}),
                 w = randn({length}, {.device = gpu});
    INFO(count << " x " << length);
    const auto check = [&](const auto& function) {
      const auto wide = [](const Tensor& t) { return Tensor(t.to(DType::f64)); };
      auto plain = jit::compile(function), graph = jit::compile(function, {.mode = jit::Mode::reduce_overhead});
      const Tensor found = plain(x, y, w), wanted = function(wide(x), wide(y), wide(w));
      CHECK(distance(found, wanted) < 1e-5);
      for (int i = 0; i < 3; ++i) CHECK(array_equal(graph(x, y, w), found));
      // Launches of which each wants the whole device, on two streams.
      cuda::Stream streams[2];
      std::vector<Tensor> results;
      for (int i = 0; i < 10; ++i) {
        const cuda::StreamGuard guard(streams[i % 2]);
        results.push_back(plain(x, y, w));
      }
      cuda::synchronize();
      for (const Tensor& result : results) CHECK(array_equal(result, found));
    };
    check(norm);
    check(gradient);
  }
}

TEST_CASE("scatters of many positions to each place have the bits of the CPU") {
  if (is_missing()) SINTER_SKIP("no GPU");
  for (const std::int64_t places : {7, 1000, 1025, 30000}) {
    const Tensor index = randint(0, places, {200001}).to(Device::cpu()), values = randn({200001}).to(Device::cpu()),
                 base = randn({places}).to(Device::cpu());
    const Tensor there = scatter_add(base.to(gpu), 0, index.to(gpu), values.to(gpu));
    CHECK(to_vector<float>(there) == to_vector<float>(scatter_add(base, 0, index, values)));
  }
  // More values than a bin finds runs for at once; one place that has nearly all of them.
  for (const DType dtype : {DType::f32, DType::f64}) {
    const std::int64_t count = 1300001, places = 100003;
    const Tensor index = randint(0, places, {count}).to(Device::cpu()), values = randn({count}).to(dtype),
                 here = values.to(Device::cpu()), base = randn({places}).to(dtype).to(Device::cpu());
    for (const Tensor& at : {index, Tensor(index * cast(index % 50 == 0, DType::i64)), sort(index, 0).values}) {
      const Tensor there = scatter_add(base.to(gpu), 0, at.to(gpu), here.to(gpu));
      CHECK(array_equal(there.to(Device::cpu()), scatter_add(base, 0, at, here)));
      const Tensor last = scatter(base.to(gpu), 0, at.to(gpu), here.to(gpu));
      CHECK(array_equal(last.to(Device::cpu()), scatter(base, 0, at, here)));
    }
  }
  const Tensor index = randint(0, 50, {20000}).to(Device::cpu()), values = randn({20000, 130}).to(Device::cpu()),
               base = randn({50, 130}).to(Device::cpu());
  const Tensor there = index_add(base.to(gpu), 0, index.to(gpu), values.to(gpu));
  CHECK(to_vector<float>(there) == to_vector<float>(index_add(base, 0, index, values)));
  const Tensor outside = full({20000}, 50).to(DType::i64).to(gpu);
  CHECK_THROWS_AS(to_vector<float>(index_add(base.to(gpu), 0, outside, values.to(gpu))), IndexError);
}

TEST_CASE("windows of padded images have the bits of the CPU") {
  if (is_missing()) SINTER_SKIP("no GPU");
  const MaxPoolOptions<2> largest{.size = {3, 2}, .stride = {2, 1}, .padding = {1, 1}, .ceil_mode = true};
  const AvgPoolOptions<2> mean{.size = 3, .stride = 2, .padding = 1, .ceil_mode = true},
      of_inside{.size = 3, .stride = 2, .padding = 1, .count_include_pad = false},
      by_five{.size = 4, .stride = 3, .padding = 2, .divisor = 5};
  const std::vector<std::pair<const char*, std::function<Tensor(const Tensor&)>>> rows = {
      {"max", [=](const Tensor& x) { return max_pool2d(x, largest); }},
      {"max of relu", [=](const Tensor& x) { return max_pool2d(relu(x * 2 - 1), largest); }},
      {"places", [=](const Tensor& x) { return max_pool2d_with_indices(x, largest).indices; }},
      {"mean", [=](const Tensor& x) { return avg_pool2d(x, mean); }},
      {"mean of what is inside", [=](const Tensor& x) { return avg_pool2d(x, of_inside); }},
      {"mean by five", [=](const Tensor& x) { return avg_pool2d(x, by_five); }},
      {"gradient of max",
       [=](const Tensor& x) { return jit::grad([=](Tensor t) { return sum(max_pool2d(t, largest)); })(x); }}};
  for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16})
    for (const auto& [name, function] : rows) {
      Tensor x = randn({3, 5, 37, 70}).to(Device::cpu()).to(dtype);
      x = where(arange(70, {.device = Device::cpu()}) == 13, NAN, x);
      INFO(name << " of " << sinter::name(dtype));
      const auto there = jit::compile(function)(x.to(gpu)).to(Device::cpu()), here = jit::compile(function)(x);
      CHECK(all_equal(there.to(DType::f64), here.to(DType::f64)));
    }
}

TEST_CASE("scans along few long columns agree with the CPU's") {
  if (is_missing()) SINTER_SKIP("no GPU");
  for (const auto& [length, columns] : {std::pair(300, 33), std::pair(5000, 100), std::pair(1000, 1000)}) {
    const Tensor x = randn({length, columns}, {.device = gpu}), here = x.to(Device::cpu());
    CHECK(error(cumsum(x, 0), cumsum(here.to(DType::f64), 0)) < 1e-6);
    CHECK(error(cumsum(x, 0, {.reverse = true}), cumsum(here.to(DType::f64), 0, {.reverse = true})) < 1e-6);
    CHECK(to_vector<float>(cummax(x, 0)) == to_vector<float>(cummax(here, 0)));
  }
}
