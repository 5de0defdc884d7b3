// The CUDA back end over a driver that only counts (stub_driver.hpp): which device launches are made on where there are
// two, and the tracks of streams in the timeline.
#include "../stub_driver.hpp"
#include "../catch.hpp"
#include "../checks.hpp"
#include "../run_again.hpp"

#include <sinter/base/background.hpp>
#include <sinter/sinter.hpp>
#include <sinter/tensor/device_memory.hpp>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>

using namespace sinter;

TEST_CASE("a process with two GPUs", "[.two_gpus]") {
  const Device second = Device::cuda(1);
  auto op = jit::custom_op(
      {.name = "on_the_second",
       .shape = [](auto in) { return in[0]; },
       .cuda_source = "extern \"C\" __global__ void on_the_second(const float* x, float* y, long long n) {}"});
  const Tensor x = copy_of(std::vector<float>{1, 2, 3}).to(second);  // the first device is not in use yet
  eval(x);
  std::printf("now\n");
  eval(op(x));
  const Tensor y = copy_of(std::vector<float>{1, 2}).to(Device::cuda(0));
  eval(y);
  eval(op(y));
  eval(op(x));
  auto leaves = jit::custom_op({.name = "leaves_the_first",
                                .shape = [](auto in) { return in[0]; },
                                .cuda_source = "extern \"C\" __global__ void leaves_the_first(const float*, float*) {}",
                                .cuda_launch =
                                    [](auto, auto) {
                                      eval(ones({2}, {.device = Device::cuda(0)}) * 3);  // its context is current then
                                      return jit::CudaLaunch{};
                                    }});
  eval(leaves(x));
  auto f = jit::compile([](Tensor a) { return exp(a) + 1; });
  f(x);
  f(y);
  std::fflush(stdout);
}

TEST_CASE("CUDA over a stub of the driver: kernels run on the device of their operands; streams have tracks") {
  if (find_device_memory(DeviceKind::cuda) == nullptr) SINTER_SKIP("built without CUDA");
  const std::string folder = sinter_test::make_stub_driver();
  if (folder.empty()) SINTER_SKIP("no compiler `c++` makes the stub of the driver");
  const std::string trace = folder + "/trace.json";
  const std::string text =
      under("LD_LIBRARY_PATH='" + folder + "' SINTER_CACHE_DIR=off SINTER_TRACE=" + trace, "[.two_gpus]");
  std::ostringstream file;
  file << std::ifstream(trace).rdbuf();
  std::filesystem::remove_all(folder);
  INFO(text);
  CHECK(has(text, "now\nlaunch on_the_second: stream of 1, module of 1, context of 1\n"));
  CHECK(has(text, "launch leaves_the_first: stream of 1, module of 1, context of 1\n"));
  CHECK(has(text, "launch on_the_second: stream of 0, module of 0, context of 0\n"));
  CHECK_FALSE(has(text, "stream of 1, module of 0"));
  CHECK_FALSE(has(text, "stream of 1, module of 1, context of 0"));
  CHECK_FALSE(has(text, "stream of 0, module of 1"));
  CHECK(has(file.str(), "\"cuda:0 stream 1\""));
  CHECK(has(file.str(), "\"cuda:1 stream 1\""));
}

TEST_CASE("a process with a product of cuBLASLt", "[.library_product]") {
  const Tensor x = ones({1024, 1024}, {.device = Device::cuda(0)});
  eval(x);
  base_detail::wait_for_background();
  std::printf("now\n");
  auto f = jit::compile([](Tensor a) { return matmul(a, a); });
  f(x);
  std::fflush(stdout);
}

TEST_CASE("CUDA over a stub: a program that has run products of cuBLASLt starts it ahead, beside its own thread") {
  if (find_device_memory(DeviceKind::cuda) == nullptr) SINTER_SKIP("built without CUDA");
  const std::string folder = sinter_test::make_stub_driver();
  if (folder.empty()) SINTER_SKIP("no compiler `c++` makes the stub of the driver");
  const auto run = [&](const std::string& cache, const std::string& product) {
    std::string text = under("LD_LIBRARY_PATH='" + folder + "' SINTER_CACHE_DIR=" + cache +
                                 " SINTER_CUDA_PRODUCT=" + product + " SINTER_TRACE=" + folder + "/trace.json",
                             "[.library_product]");
    std::ostringstream trace;
    trace << std::ifstream(folder + "/trace.json").rdbuf();
    return std::pair(std::move(text), trace.str());
  };
  const std::string cache = folder + "/cache";
  const auto [generated, generated_trace] = run(cache, "fma");
  const auto [first, first_trace] = run(cache, "library");
  const auto [second, second_trace] = run(cache, "library");
  const auto [without, without_trace] = run("off", "library");
  std::filesystem::remove_all(folder);
  INFO(generated << "\n" << first << "\n" << second << "\n" << without);
  CHECK(!has(generated, "starts cuBLASLt"));
  CHECK(has(first_trace, "open libcublasLt.so"));
  CHECK(!has(generated_trace, "open libcublasLt.so"));  // not even to see that it is not wanted
  CHECK(has(first, "now\nthe first thread starts cuBLASLt"));
  CHECK(second.find("another thread starts cuBLASLt") < second.find("now\n"));
  CHECK(!has(second, "the first thread starts"));
  CHECK(has(second, "product of cuBLASLt"));
  CHECK(has(without, "now\nthe first thread starts cuBLASLt"));
}

TEST_CASE("CUDA over a stub: a choice of another version of cuBLASLt is measured again, one that does not fit is not") {
  if (find_device_memory(DeviceKind::cuda) == nullptr) SINTER_SKIP("built without CUDA");
  const std::string folder = sinter_test::make_stub_driver();
  if (folder.empty()) SINTER_SKIP("no compiler `c++` makes the stub of the driver");
  const auto run = [&](const std::string& settings) {
    return under("LD_LIBRARY_PATH='" + folder + "' SINTER_CACHE_DIR='" + folder +
                     "/cache' SINTER_LOGS=autotune SINTER_STUB_SLOW=1 " + settings,
                 "[.library_product]");
  };
  const auto is_measured = [](const std::string& text) { return has(text, "measured: library"); };
  const std::string first = run(""), second = run(""), refused = run("SINTER_STUB_REFUSES=1"), third = run(""),
                    newer = run("SINTER_STUB_NEWER=1"), again = run("SINTER_STUB_NEWER=1"), older = run("");
  std::filesystem::remove_all(folder);
  INFO(first);
  CHECK(is_measured(first));
  for (const std::string* known : {&second, &refused, &third, &again}) {
    CHECK(!is_measured(*known));
    CHECK(has(*known, "product of cuBLASLt"));
  }
  CHECK(is_measured(newer));
  CHECK(is_measured(older));
}

TEST_CASE("a process with products of f8", "[.f8_products]") {
  const Device gpu = Device::cuda(0);
  const Tensor a = Tensor(cast(ones({48, 128}, {.device = gpu}), DType::f8e4m3)),
               w = Tensor(cast(ones({64, 128}, {.device = gpu}), DType::f8e4m3)), rows = ones({48, 1}, {.device = gpu}),
               columns = ones({64}, {.device = gpu});
  auto both = jit::compile([](Tensor x, Tensor y, Tensor r, Tensor c) {
    return scaled_matmul(x, transpose(y, 0, 1), r, c, {.dtype = DType::bf16});
  });
  auto one = jit::compile([](Tensor x, Tensor y, Tensor c) {
    return scaled_matmul(x, transpose(y, 0, 1), 0.5F, c, {.dtype = DType::bf16});
  });
  CHECK(both(a, w, rows, columns).shape() == Shape{48, 64});
  CHECK(one(a, w, columns).shape() == Shape{48, 64});
  const auto kernels = [](const std::string& text) { return text.substr(text.find("plan: "), 15); };
  std::printf("both: %s\n", kernels(both.explain(a, w, rows, columns).text()).c_str());
  std::printf("one: %s\n", kernels(one.explain(a, w, columns).text()).c_str());
  std::fflush(stdout);
}

TEST_CASE("CUDA over a stub: f8 with scales of rows and columns is one product, or one and a kernel, as cuBLASLt can") {
  if (find_device_memory(DeviceKind::cuda) == nullptr) SINTER_SKIP("built without CUDA");
  const std::string folder = sinter_test::make_stub_driver();
  if (folder.empty()) SINTER_SKIP("no compiler `c++` makes the stub of the driver");
  const std::string settings = "LD_LIBRARY_PATH='" + folder + "' SINTER_CACHE_DIR=off ",
                    whole = under(settings, "[.f8_products]"),
                    plain = under(settings + "SINTER_STUB_ONE_SCALE=1", "[.f8_products]");
  std::filesystem::remove_all(folder);
  INFO(whole << plain);
  CHECK(has(whole, "both: plan: 1 kernels"));
  CHECK(has(whole, "one: plan: 2 kernels"));  // the column of equal scales
  CHECK(has(whole, "All tests passed"));
  CHECK(has(plain, "All tests passed"));
}

TEST_CASE("a process with a repeated block", "[.repeated_block]") {
  const Tensor x = ones({4, 64}, {.device = Device::cuda(0)});
  eval(x);
  base_detail::wait_for_background();
  std::printf("now\n");
  auto block = jit::region([](Tensor a) { return softmax(a, 1); });
  auto f = jit::compile([=](Tensor a) { return block(block(cumsum(a, 1))); });
  f(x);
  std::fflush(stdout);
}

TEST_CASE("CUDA over a stub: what a repeated block needs is compiled with the rest, before anything runs") {
  if (find_device_memory(DeviceKind::cuda) == nullptr) SINTER_SKIP("built without CUDA");
  const std::string folder = sinter_test::make_stub_driver();
  if (folder.empty()) SINTER_SKIP("no compiler `c++` makes the stub of the driver");
  const std::string text = under("LD_LIBRARY_PATH='" + folder + "' SINTER_CACHE_DIR=off SINTER_STUB_COMPILES=1",
                                 "[.repeated_block]"),
                    call = text.substr(std::min(text.find("now\n"), text.size()));
  std::filesystem::remove_all(folder);
  INFO(text);
  const std::size_t first = call.find("compile\n"), last = call.rfind("compile\n"), launch = call.find("launch ");
  CHECK(first < last);
  CHECK(last < launch);
  CHECK(launch != std::string::npos);
}
