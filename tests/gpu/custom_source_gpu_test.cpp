// Ops whose GPU part is CUDA C: operands, launches with shared memory, sizes that change, and errors at the user's line.
#include "../catch.hpp"
#include "../checks.hpp"

#include <sinter/sinter.hpp>

using namespace sinter;

namespace {
bool has_gpu() { return cuda::is_available(); }
Tensor on_gpu(const Tensor& x) { return x.to(Device::cuda(0)); }
std::vector<float> numbers_of(const Tensor& x) { return to_vector<float>(x.to(Device::cpu())); }
}  // namespace

TEST_CASE("CUDA source: a thread for each element, compiled with kernels around it") {
  if (!has_gpu()) SINTER_SKIP("no GPU");
  auto op = jit::custom_op({.name = "scaled_by_source",
                            .shape = [](auto in) { return in[0]; },
                            .vjp = [](auto in, const Tensor&,
                                      const Tensor& dout) { return std::vector<Tensor>{dout * in[1], dout * in[0]}; },
                            .cuda_source = R"(
extern "C" __global__ void scaled_by_source(const float* x, const float* y, float* out, long long n) {
  const long long i = blockIdx.x * 256ll + threadIdx.x;
  if (i < n) out[i] = x[i] * y[i];
})"});
  auto f = jit::compile([op](Tensor x, Tensor y) { return op(x + 1, y) * 2; });
  for (std::int64_t n : {0, 1, 255, 1000}) {
    const Tensor x = on_gpu(arange(n).to(DType::f32)), y = on_gpu(full({n}, 3.f));
    std::vector<float> wanted;
    for (std::int64_t i = 0; i < n; ++i) wanted.push_back(static_cast<float>(6 * (i + 1)));
    CHECK(numbers_of(f(x, y)) == wanted);
  }
  const Tensor slope =
      jit::grad([op](Tensor x, Tensor y) { return sum(op(x, y)); })(on_gpu(ones({3})), on_gpu(full({3}, 5.f)));
  CHECK(numbers_of(slope) == std::vector<float>(3, 5));
}

TEST_CASE("CUDA source: a launch of one's own, with shared memory and numbers") {
  if (!has_gpu()) SINTER_SKIP("no GPU");
  auto sums = jit::custom_op({.name = "row_sums_by_source",
                              .shape = [](auto in) { return Shape{in[0][0]}; },
                              .cuda_source = R"(
extern "C" __global__ void row_sums_by_source(const float* x, float* out, long long columns) {
  extern __shared__ float part[];
  float sum = 0;
  for (long long j = threadIdx.x; j < columns; j += blockDim.x) sum += x[blockIdx.x * columns + j];
  part[threadIdx.x] = sum;
  __syncthreads();
  for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0) out[blockIdx.x] = part[0];
})",
                              .cuda_launch =
                                  [](auto in, auto) {
                                    return jit::CudaLaunch{.grid = {static_cast<unsigned>(in[0].size(0)), 1, 1},
                                                           .block = {64, 1, 1},
                                                           .shared_bytes = 64 * sizeof(float),
                                                           .numbers = {in[0].size(1)}};
                                  }});
  CHECK(numbers_of(sums(on_gpu(ones({3, 1000})))) == std::vector<float>(3, 1000));
  CHECK(numbers_of(sums(on_gpu(ones({2, 5})))) == std::vector<float>(2, 5));
}

TEST_CASE("CUDA source: mistakes are errors at the user's line") {
  if (!has_gpu()) SINTER_SKIP("no GPU");
  const auto shape = [](auto in) { return in[0]; };
  const Tensor x = on_gpu(ones({4}));
  auto wrong = jit::custom_op({.name = "wrong_source",
                               .shape = shape,
                               .cuda_source = "extern \"C\" __global__ void wrong_source(float* x) {\n  y = 1;\n}"});
  const std::string text = message_of<UserError>([&] { numbers_of(wrong(x)); });
  INFO(text);
  CHECK(has(text, "wrong_source: its CUDA source does not compile"));
  CHECK(has(text, "wrong_source.cu(2)"));
  CHECK(has(text, "[custom_source_gpu_test.cpp:"));
  auto other = jit::custom_op(
      {.name = "other_name", .shape = shape, .cuda_source = "extern \"C\" __global__ void some_name() {}"});
  CHECK(has(message_of<UserError>([&] { numbers_of(other(x)); }), "its CUDA source has no kernel of that name"));
  auto large = jit::custom_op({.name = "large_launch",
                               .shape = shape,
                               .cuda_source = "extern \"C\" __global__ void large_launch(const float*, float*) {}",
                               .cuda_launch = [](auto, auto) { return jit::CudaLaunch{.block = {4096, 1, 1}}; }});
  CHECK(has(message_of<UserError>([&] { numbers_of(large(x)); }),
            "the device refuses a launch of (1, 1, 1) blocks of (4096, 1, 1) threads"));
}
