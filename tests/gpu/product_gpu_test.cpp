// Products of matrices on a GPU: the library's epilogues, and the choice among algorithms by force and by measurement.
#include "catch.hpp"
#include "device_checks.hpp"

#include <sinter/backend/cuda/backend.hpp>
#include <sinter/sinter.hpp>

#include <unistd.h>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <mutex>
#include <thread>

using namespace sinter;
using Catch::Contains;
using sinter_test::largest_difference;
using Policy = cuda::ProductPolicy;

namespace {
bool is_missing() { return !cuda::is_available(); }

struct PolicyGuard {
  Policy outer = cuda::product_policy();
  explicit PolicyGuard(Policy policy) { cuda::set_product_policy(policy); }
  ~PolicyGuard() { cuda::set_product_policy(outer); }
};

Tensor noise(const std::vector<std::int64_t>& shape, DType dtype, int seed) {
  const Tensor made = sinter_test::noise(shape, seed).to(Device::cuda(0));
  return dtype == DType::f32 ? made : Tensor(cast(made, dtype));
}

constexpr std::int64_t m = 1024, k = 1024, n = 768;    // above 1e9 operations, so that all algorithms are open
constexpr double close_f32 = 2e-3, close_f64 = 1e-10;  // sums of 1024 products of numbers below 1
}  // namespace

TEST_CASE("what follows a product is done by the library where it can, and agrees with the CPU") {
  if (is_missing()) SINTER_SKIP("no GPU");
  struct Row {
    const char* name;
    Tensor (*function)(const Tensor& x, const Tensor& w, const Tensor& b, const Tensor& r);
  };
  const Row rows[] = {
      {"(product)", [](const Tensor& x, const Tensor& w, const Tensor&, const Tensor&) { return matmul(x, w); }},
      {"(product + bias)",
       [](const Tensor& x, const Tensor& w, const Tensor& b, const Tensor&) { return Tensor(matmul(x, w) + b); }},
      {"(product + residual)",
       [](const Tensor& x, const Tensor& w, const Tensor&, const Tensor& r) { return Tensor(r + matmul(x, w)); }},
      {"(product + residual + bias)",
       [](const Tensor& x, const Tensor& w, const Tensor& b, const Tensor& r) { return Tensor(matmul(x, w) + r + b); }},
      {"(product - residual)",
       [](const Tensor& x, const Tensor& w, const Tensor&, const Tensor& r) { return Tensor(matmul(x, w) - r); }},
      {"(-product + residual)",
       [](const Tensor& x, const Tensor& w, const Tensor&, const Tensor& r) { return Tensor(r - matmul(x, w)); }},
      {"(scale * product)",
       [](const Tensor& x, const Tensor& w, const Tensor&, const Tensor&) { return Tensor(matmul(x, w) * 0.125f); }},
      {"(product)", [](const Tensor& x, const Tensor& w, const Tensor& b,
                       const Tensor&) { return Tensor(gelu(matmul(x, w) + b)); }},  // in a kernel
      {"(product)",
       [](const Tensor& x, const Tensor& w, const Tensor& b, const Tensor& r) {
         return Tensor(matmul(x, w) + b + r);
       }},  // in a kernel: this order rounds otherwise
  };
  for (DType dtype : {DType::f32, DType::f64}) {
    const Tensor x = noise({m, k}, dtype, 1), w = noise({k, n}, dtype, 2), b = noise({n}, dtype, 3),
                 r = noise({m, n}, dtype, 4);
    const Tensor cpu[] = {x.to(Device::cpu()), w.to(Device::cpu()), b.to(Device::cpu()), r.to(Device::cpu())};
    for (const Row& row : rows) {
      INFO(row.name << " " << (dtype == DType::f32 ? "f32" : "f64"));
      const PolicyGuard guard(Policy::library);
      auto f = jit::compile(
          [function = row.function](Tensor a, Tensor c, Tensor d, Tensor e) { return function(a, c, d, e); });
      const Tensor ours = f(x, w, b, r), expected = row.function(cpu[0], cpu[1], cpu[2], cpu[3]);
      CHECK(largest_difference(ours, expected) < (dtype == DType::f32 ? close_f32 : close_f64));
      const std::string text = f.explain(x, w, b, r).text();
      INFO(text);
      // Where the library lacks an epilogue for a dtype, a kernel does it.
      const bool is_here = text.find(std::string("product by library ") + row.name) != std::string::npos;
      CHECK((is_here || dtype == DType::f64));
      if (!is_here) WARN("not by the library's epilogue: " << row.name << " f64");
    }
  }
}

TEST_CASE("products of batches, transposed and cut-out operands by the library") {
  if (is_missing()) SINTER_SKIP("no GPU");
  const PolicyGuard guard(Policy::library);
  const Tensor x = noise({6, 512, 768}, DType::f32, 1), w = noise({6, 400, 768}, DType::f32, 2),
               b = noise({400}, DType::f32, 3), r = noise({6, 512, 404}, DType::f32, 4);
  const auto function = [](const Tensor& a, const Tensor& c, const Tensor& d, const Tensor& e) {
    return Tensor(matmul(a, transpose(c, 1, 2)) + e(all, all, slice(3, 403)) + d);
  };
  auto f = jit::compile(function);
  const Device cpu = Device::cpu();
  CHECK(largest_difference(f(x, w, b, r), function(x.to(cpu), w.to(cpu), b.to(cpu), r.to(cpu))) < close_f32);
}

TEST_CASE("every algorithm of a product gives the same numbers, and explain says which it was") {
  if (is_missing()) SINTER_SKIP("no GPU");
  const Tensor x = noise({m, k}, DType::f32, 1), w = noise({k, n}, DType::f32, 2), b = noise({n}, DType::f32, 3);
  const Tensor expected = Tensor(matmul(x.to(Device::cpu()), w.to(Device::cpu())) + b.to(Device::cpu()));
  eval(expected);
  const std::map<Policy, std::string> names = {
      {Policy::fma, "product by fma"},
      {Policy::tensor_cores, "product by "},
      {Policy::library, "product by library (product + bias)"},
      {Policy::library_then_kernel, "product by library_then_kernel (product)"},
      {Policy::by_rule, "by rule"}};
  for (const auto& [policy, name] : names) {
    const PolicyGuard guard(policy);
    auto f = jit::compile([](Tensor a, Tensor c, Tensor d) { return Tensor(matmul(a, c) + d); });
    INFO(name);
    CHECK(largest_difference(f(x, w, b), expected) < close_f32);
    CHECK_THAT(f.explain(x, w, b).text(), Contains(name));
  }
}

TEST_CASE("NaN and infinities pass through a product, its bias and relu") {
  if (is_missing()) SINTER_SKIP("no GPU");
  constexpr float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  std::vector<float> left(m * k, 0.f), bias(n, 0.f);
  for (std::int64_t i = 0; i < k; ++i)
    left[static_cast<std::size_t>(i)] = 1;  // row 0: ones; row 1: NaN; row 2: infinity; row 3: -1; others: 0
  left[k] = nan;
  left[2 * k] = inf;
  for (std::int64_t i = 0; i < k; ++i) left[static_cast<std::size_t>(3 * k + i)] = -1;
  bias[1] = nan;
  bias[2] = inf;
  bias[3] = -inf;
  bias[4] = -0.f;
  bias[5] = -2;
  const Tensor x = copy_of(left, {m, k}), w = ones({k, n}), b = copy_of(bias, {n});
  for (Policy policy : {Policy::library, Policy::library_then_kernel, Policy::fma, Policy::measured}) {
    const PolicyGuard guard(policy);
    auto sum = jit::compile([](Tensor a, Tensor c, Tensor d) { return Tensor(matmul(a, c) + d); });
    auto rectified = jit::compile([](Tensor a, Tensor c, Tensor d) { return Tensor(relu(matmul(a, c) + d)); });
    const std::vector<float> s = to_vector<float>(sum(x, w, b)), r = to_vector<float>(rectified(x, w, b));
    const auto at = [](const std::vector<float>& values, int row, int column) {
      return values[static_cast<std::size_t>(row) * n + static_cast<std::size_t>(column)];
    };
    INFO("policy " << static_cast<int>(policy));
    CHECK(at(s, 0, 0) == k);
    CHECK((std::isnan(at(s, 1, 0)) && std::isnan(at(r, 1, 0)) && std::isnan(at(r, 1, 5))));  // of the product
    CHECK((std::isnan(at(s, 0, 1)) && std::isnan(at(r, 0, 1)) && std::isnan(at(r, 2, 1))));  // of the bias
    CHECK((at(s, 2, 0) == inf && at(r, 2, 0) == inf && std::isnan(at(s, 2, 3)) && std::isnan(at(r, 2, 3))));
    CHECK((at(s, 0, 3) == -inf && at(r, 0, 3) == 0));
    CHECK((at(s, 3, 0) == -k && at(r, 3, 0) == 0));
    CHECK((at(s, 4, 5) == -2 && at(r, 4, 5) == 0 && at(r, 4, 4) == 0));
  }
}

TEST_CASE("the fastest algorithm is measured once, and remembered by later kernels and processes") {
  if (is_missing()) SINTER_SKIP("no GPU");
  const std::string folder =
      (std::filesystem::temp_directory_path() / ("sinter_products_" + std::to_string(::getpid()))).string();
  const char* before = std::getenv("SINTER_CACHE_DIR");
  const std::string outer = before != nullptr ? before : "";
  std::filesystem::remove_all(folder);
  ::setenv("SINTER_CACHE_DIR", folder.c_str(), 1);
  cuda::forget_product_choices(Device::cuda(0));
  Context& context = Context::get();
  const auto sink = context.sink;
  const std::string logs = context.logs;
  std::mutex mutex;
  std::string seen;
  context.logs = "autotune";
  context.sink = [&](std::string_view, std::string_view line) {
    const std::scoped_lock lock(mutex);
    seen += std::string(line) + "\n";
  };
  const PolicyGuard guard(Policy::measured);
  const Tensor x = noise({m, k}, DType::f32, 1), w = noise({k, n}, DType::f32, 2), b = noise({n}, DType::f32, 3);
  const std::int64_t in_use = memory_stats(Device::cuda(0)).in_use;
  std::vector<std::vector<float>> results;
  std::vector<std::string> explained;
  const auto run = [&] {
    auto f = jit::compile([](Tensor a, Tensor c, Tensor d) { return Tensor(tanh(matmul(a, c) + d)); });
    results.push_back(to_vector<float>(f(x, w, b)));
    explained.push_back(f.explain(x, w, b).text());
  };
  run();
  INFO(seen);
  WARN(seen);  // with its times, for whoever reads
  CHECK_THAT(seen, Contains("measured: "));
  CHECK_THAT(seen, Contains("fma "));
  CHECK_THAT(seen, Contains("library 1 "));
  CHECK_THAT(explained[0], Contains("measured: "));
  const std::string first = seen;
  run();  // the process knows
  cuda::forget_product_choices(Device::cuda(0));
  run();  // the disk knows
  CHECK_THAT(explained[2], Contains("remembered: "));
  CHECK(seen == first);
  CHECK(results[0] == results[1]);
  CHECK(results[0] == results[2]);
  CHECK(memory_stats(Device::cuda(0)).in_use - in_use < (64 << 20));  // scratch memory is not of the pool
  context.sink = sink;
  context.logs = logs;
  if (before != nullptr) ::setenv("SINTER_CACHE_DIR", outer.c_str(), 1);
  else ::unsetenv("SINTER_CACHE_DIR");
  cuda::forget_product_choices(Device::cuda(0));
  std::filesystem::remove_all(folder);
}

TEST_CASE("threads may bind products while other streams are busy") {
  if (is_missing()) SINTER_SKIP("no GPU");
  const PolicyGuard guard(Policy::measured);
  const Tensor x = noise({m, k}, DType::f32, 1), w = noise({k, n}, DType::f32, 2);
  for (const Tensor* t : {&x, &w}) eval(*t);
  cuda::synchronize();
  const Tensor expected = matmul(x.to(Device::cpu()), w.to(Device::cpu()));
  eval(expected);
  std::vector<std::thread> threads;
  std::vector<double> differences(4, -1);
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      cuda::Stream stream;
      cuda::StreamGuard on(stream);
      auto f = jit::compile([t](Tensor a, Tensor c) { return Tensor(matmul(a, c) + static_cast<float>(t)); });
      Tensor y;
      for (int i = 0; i < 10; ++i) y = f(x, w);
      const std::vector<float> ours = to_vector<float>(y), right = to_vector<float>(expected);
      double largest = 0;
      for (std::size_t i = 0; i < ours.size(); ++i)
        largest = std::max(largest, static_cast<double>(std::abs(ours[i] - right[i] - static_cast<float>(t))));
      differences[static_cast<std::size_t>(t)] = largest;
    });
  for (std::thread& thread : threads) thread.join();
  for (double difference : differences) CHECK((difference >= 0 && difference < close_f32));
}
