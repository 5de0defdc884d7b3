// Convolutions of images on a GPU by cuDNN, where it is there, and by generated kernels: against the CPU in f64.
#include "catch.hpp"
#include "checks.hpp"
#include "device_checks.hpp"

#include <sinter/sinter.hpp>
#ifdef SINTER_CUDA
#include <sinter/backend/cuda/library/library_api.hpp>
#endif

#include <algorithm>
#include <cmath>
#include <string>
#include <thread>
#include <vector>

using namespace sinter;
using sinter_test::largest_difference;

namespace {
const Device gpu = Device::cuda(0);

bool is_missing() { return !cuda::is_available(); }
bool has_library() {
#ifdef SINTER_CUDA
  return !is_missing() && cuda::dnn_api() != nullptr;
#else
  return false;
#endif
}

struct Policy {
  explicit Policy(cuda::ProductPolicy policy) : before(cuda::product_policy()) { cuda::set_product_policy(policy); }
  ~Policy() { cuda::set_product_policy(before); }
  cuda::ProductPolicy before;
};

Tensor noise(const std::vector<std::int64_t>& shape, int seed) {
  manual_seed(static_cast<std::uint64_t>(seed));
  Shape extents;
  for (std::int64_t extent : shape) extents.push_back(extent);
  const Tensor x = randn(extents, {.device = Device::cpu()});
  eval(x);
  return x;
}
Tensor convolve(const Tensor& x, const Tensor& w, const ConvOptions& options) {
  return x.rank() == 3 ? conv1d(x, w, options) : x.rank() == 4 ? conv2d(x, w, options) : conv3d(x, w, options);
}
/// By a plan of its own: those of lazy values are kept, whatever the policy is then.
Tensor convolve_anew(const Tensor& x, const Tensor& w, const ConvOptions& options) {
  return jit::compile([=](Tensor a, Tensor b) { return convolve(a, b, options); }, {.dynamic = jit::Dynamic::never})(x,
                                                                                                                     w);
}
/// The largest difference, over the largest of what is expected.
double off(const Tensor& result, const Tensor& expected) {
  const Tensor wide = Tensor(expected.to(DType::f64));
  const double largest = item<double>(Tensor(amax(abs(wide)))), close = std::max(largest, 1e-30);
  return largest_difference(Tensor(result.to(Device::cpu()).to(DType::f64)), wide) / close;
}
double tolerance(DType dtype) {
  return dtype == DType::f64 ? 1e-12 : dtype == DType::f32 ? 2e-5 : dtype == DType::f16 ? 2e-3 : 1.5e-2;
}

struct Row {
  std::vector<std::int64_t> x, w;
  ConvOptions options = {};
};
std::vector<Row> rows() {
  return {{{2, 3, 9, 8}, {5, 3, 3, 3}},
          {{1, 1, 1, 1}, {1, 1, 1, 1}, {.padding = 1}},
          {{3, 4, 17, 13}, {6, 4, 5, 2}, {.stride = {2, 3}, .padding = {2, 1}}},
          {{2, 8, 20, 21}, {12, 2, 3, 3}, {.padding = {2, 4}, .dilation = {2, 4}, .groups = 4}},
          {{2, 6, 12, 12}, {12, 1, 3, 3}, {.padding = 1, .groups = 6}},
          {{4, 16, 7, 7}, {16, 16, 3, 3}, {.padding = 1}},
          {{2, 3, 32, 32}, {8, 3, 7, 7}, {.stride = 2, .padding = 3}},
          {{2, 8, 16, 16}, {8, 8, 1, 1}, {.stride = 2}},
          {{2, 5, 11, 10}, {4, 5, 2, 3}, {.padding = {{1, 2}, {0, 1}}}},
          {{3, 6, 50}, {4, 6, 5}, {.stride = 3, .padding = 2}},
          {{2, 6, 40}, {6, 3, 3}, {.dilation = 4, .groups = 2}},
          {{2, 4, 6, 7, 8}, {6, 4, 3, 3, 3}, {.padding = 1}},
          {{2, 4, 9, 7, 8}, {6, 2, 2, 3, 1}, {.stride = {2, 1, 2}, .padding = {1, 0, 0}, .groups = 2}}};
}
std::string text_of(const Row& row) {
  std::string text;
  for (std::int64_t extent : row.x) text += std::to_string(extent) + " ";
  text += "by ";
  for (std::int64_t extent : row.w) text += std::to_string(extent) + " ";
  return text;
}
}  // namespace

TEST_CASE("convolutions and their gradients agree with the CPU, by every policy") {
  if (is_missing()) SINTER_SKIP("no GPU");
  if (!has_library()) WARN("no cuDNN: generated kernels alone");
  for (const auto policy : {cuda::ProductPolicy::library, cuda::ProductPolicy::measured, cuda::ProductPolicy::fma}) {
    const Policy set(policy);
    for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16})
      for (const Row& row : rows()) {
        INFO(name(dtype) << " " << text_of(row) << "policy " << static_cast<int>(policy));
        const Tensor x = Tensor(noise(row.x, 1).to(dtype)), w = Tensor(noise(row.w, 2).to(dtype)),
                     wide_x = Tensor(x.to(DType::f64)), wide_w = Tensor(w.to(DType::f64));
        const Tensor y = convolve(wide_x, wide_w, row.options);
        const Tensor there = convolve_anew(x.to(gpu), w.to(gpu), row.options);
        CHECK(there.device() == gpu);
        CHECK(off(there, y) < tolerance(dtype));
        // Sums of squares of narrow floats are rounded themselves.
        if (dtype == DType::f16 || dtype == DType::bf16 || policy == cuda::ProductPolicy::measured) continue;
        // By plans of their own, too.
        const auto loss = [&](const Tensor& a, const Tensor& b) {
          const Tensor made = convolve(a, b, row.options);
          return Tensor(sum(made * made));
        };
        const auto slope_x = [&](const Tensor& first, const Tensor& second) {
          return jit::compile([&](Tensor a, Tensor b) { return jit::grad([&](Tensor t) { return loss(t, b); })(a); },
                              {.dynamic = jit::Dynamic::never})(first, second);
        };
        const auto slope_w = [&](const Tensor& first, const Tensor& second) {
          return jit::compile([&](Tensor b, Tensor a) { return jit::grad([&](Tensor t) { return loss(a, t); })(b); },
                              {.dynamic = jit::Dynamic::never})(first, second);
        };
        CHECK(off(slope_x(x.to(gpu), w.to(gpu)), slope_x(wide_x, wide_w)) < tolerance(dtype) * 5);
        CHECK(off(slope_w(w.to(gpu), x.to(gpu)), slope_w(wide_w, wide_x)) < tolerance(dtype) * 5);
      }
  }
}

TEST_CASE("what cuDNN computes is one step; what it does not is made of others") {
  if (!has_library()) SINTER_SKIP("no GPU with cuDNN");
  const Policy set(cuda::ProductPolicy::by_rule);
  const auto explained = [](const Shape& x, const Shape& w, const ConvOptions& options) {
    auto f = jit::compile([=](Tensor a, Tensor b) { return relu(conv2d(a, b, options)); });
    return f.explain(zeros(x, {.device = gpu}), zeros(w, {.device = gpu})).text();
  };
  CHECK(has(explained({16, 64, 32, 32}, {64, 64, 3, 3}, {.padding = 1}), "conv2d [cuda]"));
  CHECK(has(explained({16, 64, 32, 32}, {64, 16, 3, 3}, {.padding = 1, .groups = 4}), "convolution [cuda]"));
  CHECK_FALSE(has(explained({1, 4, 8, 8}, {4, 4, 3, 3}, {}), "conv2d [cuda]"));                 // small
  CHECK_FALSE(has(explained({64, 64, 64, 64}, {64, 64, 1, 1}, {}), "conv2d [cuda]"));           // a product
  CHECK_FALSE(has(explained({64, 64, 64, 64}, {64, 1, 5, 5}, {.groups = 64}), "[cuda] conv"));  // sums of lines
}

TEST_CASE("gradients of strided convolutions are one step, measured too, in every precision and with the same bits") {
  if (!has_library()) SINTER_SKIP("no GPU with cuDNN");
  const Policy set(cuda::ProductPolicy::measured);
  struct Case {
    DType dtype;
    MatmulPrecision precision;
    double tolerance;
  };
  for (const auto& [dtype, precision, bound] : {Case{DType::f32, MatmulPrecision::f32, 2e-5},
                                                Case{DType::f32, MatmulPrecision::tf32, 3e-3},
                                                Case{DType::f16, MatmulPrecision::f32, 3e-3},
                                                Case{DType::bf16, MatmulPrecision::f32, 2e-2}})
    for (const int stride : {1, 2}) {
      INFO(name(dtype) << " stride " << stride);
      const int size = 28 / stride;
      const Tensor x = Tensor(noise({16, 64, 28, 28}, 1).to(dtype)), w = Tensor(noise({64, 64, 3, 3}, 2).to(dtype)),
                   seed = Tensor(noise({16, 64, size, size}, 3).to(dtype));
      const jit::Options options{.dynamic = jit::Dynamic::never, .matmul_precision = precision};
      const auto gradients = [=](Tensor a, Tensor b, Tensor s) {
        return jit::grad([&](std::vector<Tensor> t) {
          return Tensor(sum(conv2d(t[0], t[1], {.stride = stride, .padding = 1}) * s));
        })(std::vector<Tensor>{a, b});
      };
      auto f = jit::compile(gradients, options);
      const auto wide = [](const Tensor& t) { return Tensor(t.to(DType::f64)); };
      const auto found = f(x.to(gpu), w.to(gpu), seed.to(gpu)), again = f(x.to(gpu), w.to(gpu), seed.to(gpu)),
                 wanted = gradients(wide(x), wide(w), wide(seed));
      for (std::size_t i = 0; i < 2; ++i) {
        CHECK(off(found[i], wanted[i]) < bound);
        CHECK(largest_difference(found[i], again[i]) == 0);
      }
      const std::string text = f.explain(x.to(gpu), w.to(gpu), seed.to(gpu)).text();
      CHECK(has(text, "convolution_gradient [cuda]"));
      CHECK_FALSE(has(text, "update_slice"));
    }
}

TEST_CASE("the precision of a convolution is that of its plan") {
  if (is_missing()) SINTER_SKIP("no GPU");
  const Tensor x = noise({16, 64, 28, 28}, 3), w = noise({64, 64, 3, 3}, 4);
  const Tensor exact = conv2d(Tensor(x.to(DType::f64)), Tensor(w.to(DType::f64)), {.padding = 1});
  const auto in = [&](MatmulPrecision precision) {
    auto f =
        jit::compile([](Tensor a, Tensor b) { return conv2d(a, b, {.padding = 1}); }, {.matmul_precision = precision});
    return off(f(x.to(gpu), w.to(gpu)), exact);
  };
  for (const auto policy : {cuda::ProductPolicy::by_rule, cuda::ProductPolicy::measured}) {
    const Policy set(policy);
    CHECK(in(MatmulPrecision::f32) < 2e-5);
    CHECK(in(MatmulPrecision::tf32x3) < 2e-5);
    CHECK(in(MatmulPrecision::tf32) < 2e-3);
  }
  // Lazy values take the process's.
  const Policy set(cuda::ProductPolicy::by_rule);
  set_matmul_precision(MatmulPrecision::tf32);
  const Tensor rounded = conv2d(x.to(gpu), w.to(gpu), {.padding = 1});
  eval(rounded);
  set_matmul_precision(MatmulPrecision::f32);
  const Tensor full = conv2d(x.to(gpu), w.to(gpu), {.padding = 1});
  CHECK(off(full, exact) < 2e-5);
  if (has_library()) CHECK(off(rounded, exact) > off(full, exact) * 2);
}

TEST_CASE("convolutions of slices, transposed images and fewer images each time") {
  if (is_missing()) SINTER_SKIP("no GPU");
  const Policy set(cuda::ProductPolicy::library);
  const Tensor flat = noise({1 + 4 * 6 * 10 * 10}, 5), w = noise({9, 6, 3, 3}, 6);
  const auto from_second = [](const Tensor& t) { return Tensor(reshape(t(slice(1, 2401)), {4, 6, 10, 10})); };
  CHECK(off(convolve_anew(from_second(flat.to(gpu)), w.to(gpu), {}), conv2d(from_second(flat), w)) < 2e-5);
  const Tensor x = noise({4, 10, 6, 10}, 7), there = x.to(gpu);
  CHECK(off(conv2d(transpose(there, 1, 2), w.to(gpu)), conv2d(transpose(x, 1, 2), w)) < 2e-5);
  auto f = jit::compile([](Tensor a, Tensor b) { return relu(conv2d(a, b, {.padding = 1})); },
                        {.dynamic = jit::Dynamic::always});
  auto slope = jit::compile(
      [](Tensor b, Tensor a) {
        return jit::grad([&](Tensor weight) { return Tensor(sum(conv2d(a, weight) * 2)); })(b);
      },
      {.dynamic = jit::Dynamic::always});
  for (const std::int64_t images : {5, 3, 9, 1, 0}) {
    INFO("images " << images);
    const Tensor some = noise({images, 6, 12, 9}, 8);
    const Tensor made = f(some.to(gpu), w.to(gpu));
    CHECK(made.shape() == Shape{images, 9, 12, 9});
    if (images > 0) CHECK(off(made, relu(conv2d(some, w, {.padding = 1}))) < 2e-5);
    const Tensor dw = slope(w.to(gpu), some.to(gpu));
    if (images > 0) CHECK(off(dw, slope(w, some)) < 1e-4);
    else CHECK(largest_difference(dw, zeros_like(w)) == 0);
  }
}

TEST_CASE("a convolution gives the same bits in every run, and on streams of two threads") {
  if (is_missing()) SINTER_SKIP("no GPU");
  const Tensor x = noise({32, 64, 14, 14}, 9).to(gpu), w = noise({64, 64, 3, 3}, 10).to(gpu);
  const auto slope = [&] {
    return jit::grad([](Tensor b, Tensor a) { return Tensor(sum(conv2d(a, b, {.padding = 1}) * 3)); })(w, x);
  };
  const Tensor y = conv2d(x, w, {.padding = 1}), dw = slope();
  const std::vector<float> bits = to_vector<float>(y), slopes = to_vector<float>(dw);
  std::vector<int> wrong(2, 0);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < 2; ++t)
    threads.emplace_back([&, t] {
      cuda::Stream stream;
      const cuda::StreamGuard guard(stream);
      for (int i = 0; i < 10; ++i) {
        wrong[t] += to_vector<float>(conv2d(x, w, {.padding = 1})) != bits;
        wrong[t] += to_vector<float>(slope()) != slopes;
      }
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == std::vector<int>{0, 0});
}

TEST_CASE("more than 2^31 elements are convolved in parts") {
  if (is_missing()) SINTER_SKIP("no GPU");
  if (cuda::device_info(gpu).memory_bytes < std::size_t{40} << 30) SINTER_SKIP("the GPU's memory is too small");
  const Policy set(cuda::ProductPolicy::by_rule);
  constexpr std::int64_t images = 70000;
  const Tensor last = noise({2, 32, 32, 32}, 11), w = noise({16, 32, 3, 3}, 12);
  Tensor x = zeros({images, 32, 32, 32}, {.dtype = DType::f16, .device = gpu});
  x.at(slice(images - 2, images)) = Tensor(last.to(DType::f16).to(gpu));
  const Tensor narrow_w = Tensor(w.to(DType::f16));
  const Tensor y = conv2d(x, narrow_w.to(gpu), {.padding = 1});
  const Tensor wanted =
      conv2d(Tensor(last.to(DType::f16).to(DType::f64)), Tensor(narrow_w.to(DType::f64)), {.padding = 1});
  CHECK(off(y(slice(images - 2, images)), wanted) < 2e-3);
  CHECK(item<float>(Tensor(amax(abs(y(slice(0, 3))).to(DType::f32)))) == 0);
}
