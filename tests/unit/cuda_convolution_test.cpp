// Convolutions on CUDA, without a GPU: which calls of cuDNN they become, over a driver and a library that compute
// nothing and print what they are asked; and the kernels around these calls, run by the host's compiler.
#include "../catch.hpp"
#include "../checks.hpp"
#include "../run_again.hpp"
#include "../stub_driver.hpp"

#include <sinter/sinter.hpp>
#include <sinter/tensor/device_memory.hpp>
#ifdef SINTER_CUDA
#include <sinter/backend/cuda/device/driver.hpp>
#include <sinter/backend/cuda/library/convolution.hpp>
#endif

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

using namespace sinter;

namespace {
const Device gpu = Device::cuda(0);

// Algorithms that it offers: one that is not deterministic, a Fourier transform, one that rounds to f16, one that wants
// too much memory, one in TF32, and a good one. A stride of 5 it refuses.
constexpr const char* stub_cudnn = R"(
#include <cstdio>
#include <cstddef>
#include <string>
struct Found { int algorithm, status; float time; size_t bytes; int deterministic, math, reserved[3]; };
struct Described { std::string text; };
static std::string list(int n, const int* numbers) {
  std::string text;
  for (int i = 0; i < n; ++i) text += (i ? " " : "") + std::to_string(numbers[i]);
  return text;
}
static int fill(const char* how, const void* convolution, int, int* count, Found* found) {
  std::printf("%s\n", how);
  if (static_cast<const Described*>(convolution)->text.find("stride 5") != std::string::npos) return *count = 0, 9;
  const Found offered[] = {{0, 0, 1, 0, 0, 0, {}},  {how[0] == 'f' && how[1] == 'o' ? 4 : 2, 0, 1, 0, 1, 0, {}},
                           {7, 0, 1, 0, 1, 2, {}},  {7, 0, 1, size_t(1) << 30, 1, 0, {}},
                           {6, 3, 1, 0, 1, 0, {}},  {1, 0, 1, 64, 1, 1, {}},
                           {how[0] == 'd' ? 5 : 3, 0, 2, 128, 1, 0, {}}};
  for (*count = 0; *count < 7; ++*count) found[*count] = offered[*count];
  return 0;
}
extern "C" {
size_t cudnnGetVersion() { return 90100; }
const char* cudnnGetErrorString(int) { return "an error of the stub"; }
int cudnnCreate(void** handle) { return *handle = handle, 0; }
int cudnnSetStream(void*, void*) { return 0; }
#define DESCRIBED(name) \
  int cudnnCreate##name##Descriptor(void** d) { return *d = new Described, 0; } \
  int cudnnDestroy##name##Descriptor(void* d) { return delete static_cast<Described*>(d), 0; }
DESCRIBED(Tensor)
DESCRIBED(Filter)
DESCRIBED(Convolution)
int cudnnSetTensorNdDescriptor(void*, int type, int rank, const int* extents, const int* strides) {
  return std::printf("tensor of %d: %s by %s\n", type, list(rank, extents).c_str(), list(rank, strides).c_str()), 0;
}
int cudnnSetFilterNdDescriptor(void*, int type, int layout, int rank, const int* extents) {
  return std::printf("filter of %d in %d: %s\n", type, layout, list(rank, extents).c_str()), 0;
}
int cudnnSetConvolutionNdDescriptor(void* d, int n, const int* padding, const int* stride, const int* dilation, int mode,
                                    int type) {
  static_cast<Described*>(d)->text = "stride " + list(n, stride);
  return std::printf("padding %s, stride %s, dilation %s, mode %d, sums of %d\n", list(n, padding).c_str(),
                     list(n, stride).c_str(), list(n, dilation).c_str(), mode, type), 0;
}
int cudnnSetConvolutionGroupCount(void*, int groups) { return std::printf("groups %d\n", groups), 0; }
int cudnnSetConvolutionMathType(void*, int math) { return std::printf("math %d\n", math), 0; }
int cudnnGetConvolutionForwardAlgorithm_v7(void*, void*, void*, const void* c, void*, int most, int* count, Found* f) {
  return fill("forward by rule", c, most, count, f);
}
int cudnnFindConvolutionForwardAlgorithmEx(void*, void*, void*, void*, void*, const void* c, void*, void*, int most,
                                           int* count, Found* f, void*, size_t) {
  return fill("forward measured", c, most, count, f);
}
int cudnnGetConvolutionForwardWorkspaceSize(void*, void*, void*, void*, void*, int, size_t* bytes) { return *bytes = 99, 0; }
int cudnnConvolutionForward(void*, const void* alpha, void*, void*, void*, void*, void*, int algorithm, void*,
                            size_t bytes, const void* beta, void*, void*) {
  return std::printf("forward by %d, %zu bytes, f64 %g %g, f32 %g %g\n", algorithm, bytes, *(double*)alpha,
                     *(double*)beta, *(float*)alpha, *(float*)beta), 0;
}
int cudnnGetConvolutionBackwardFilterAlgorithm_v7(void*, void*, void*, const void* c, void*, int most, int* count, Found* f) {
  return fill("filter by rule", c, most, count, f);
}
int cudnnFindConvolutionBackwardFilterAlgorithmEx(void*, void*, void*, void*, void*, const void* c, void*, void*,
                                                  int most, int* count, Found* f, void*, size_t) {
  return fill("filter measured", c, most, count, f);
}
int cudnnGetConvolutionBackwardFilterWorkspaceSize(void*, void*, void*, void*, void*, int, size_t* bytes) { return *bytes = 77, 0; }
int cudnnConvolutionBackwardFilter(void*, const void*, void*, void*, void*, void*, void*, int algorithm, void*,
                                   size_t bytes, const void* beta, void*, void*) {
  return std::printf("filter by %d, %zu bytes, beta %g\n", algorithm, bytes, *(float*)beta), 0;
}
int cudnnGetConvolutionBackwardDataAlgorithm_v7(void*, void*, void*, const void* c, void*, int most, int* count, Found* f) {
  return fill("data by rule", c, most, count, f);
}
int cudnnFindConvolutionBackwardDataAlgorithmEx(void*, void*, void*, void*, void*, const void* c, void*, void*,
                                                int most, int* count, Found* f, void*, size_t) {
  return fill("data measured", c, most, count, f);
}
int cudnnGetConvolutionBackwardDataWorkspaceSize(void*, void*, void*, void*, void*, int, size_t* bytes) { return *bytes = 55, 0; }
int cudnnConvolutionBackwardData(void*, const void*, void*, void*, void*, void*, void*, int algorithm, void*,
                                 size_t bytes, const void* beta, void*, void*) {
  return std::printf("data by %d, %zu bytes, beta %g\n", algorithm, bytes, *(float*)beta), 0;
}
}
)";

/// False: no compiler makes it.
bool make_library(const std::string& text, const std::string& folder, const std::string& name) {
  std::ofstream(folder + "/" + name + ".cpp") << text;
  const char* const compiler = std::getenv("CXX");
  const std::string command = std::string(compiler != nullptr ? compiler : "c++") +
                              " -std=c++20 -O1 -w -shared -fPIC -o '" + folder + "/" + name + "' '" + folder + "/" +
                              name + ".cpp' 2>>'" + folder + "/log'";
  return std::system(command.c_str()) == 0;
}

Tensor on_gpu(Shape shape, DType dtype = DType::f32) {
  const Tensor x = zeros(shape, {.dtype = dtype, .device = Device::cpu()}).to(gpu);
  eval(x);
  return x;
}
template <class F>
void step(const char* name, const F& make) {
  std::printf("%s:\n", name);
  eval(make());
}
/// What was printed below `name`.
std::string part(const std::string& text, const std::string& name) {
  const std::size_t begin = text.find("\n" + name + ":\n");
  if (begin == std::string::npos) return "no step " + name;
  return text.substr(begin, text.find("\nend:", begin) + 1 - begin);
}
}  // namespace

TEST_CASE("convolutions on a GPU of the stub", "[.convolutions]") {
  const Tensor x = on_gpu({8, 32, 32, 32}), w = on_gpu({64, 32, 3, 3});
  const auto take = [](const char* name, const auto& make) {
    step(name, make);
    std::printf("end:\n");
  };
  std::printf("begin\n");
  take("plain", [&] { return conv2d(x, w, {.padding = 1}); });
  take("again", [&] { return conv2d(x, w, {.padding = 1}); });
  take("rounded", [&] {
    return jit::compile([](Tensor a, Tensor b) { return conv2d(a, b, {.padding = 1}); },
                        {.matmul_precision = MatmulPrecision::tf32})(x, w);
  });
  take("grouped", [&] {
    return conv2d(on_gpu({64, 32, 32, 32}, DType::f16), on_gpu({64, 8, 3, 3}, DType::f16),
                  {.stride = {1, 2}, .padding = {3, 2}, .dilation = {3, 2}, .groups = 4});
  });
  take("line", [&] {
    return conv1d(on_gpu({16, 64, 512}, DType::f64), on_gpu({64, 64, 5}, DType::f64), {.stride = 2, .padding = 2});
  });
  take("space", [&] {
    return conv3d(on_gpu({4, 16, 16, 16, 16}, DType::bf16), on_gpu({32, 16, 3, 3, 3}, DType::bf16), {.padding = 1});
  });
  take("lopsided", [&] { return conv2d(x, w, {.padding = {{1, 2}, {1, 1}}}); });
  take("single elements", [&] { return conv2d(on_gpu({64, 64, 32, 32}), on_gpu({64, 64, 1, 1})); });
  take("channel by channel",
       [&] { return conv2d(on_gpu({64, 64, 64, 64}), on_gpu({64, 1, 5, 5}), {.padding = 2, .groups = 64}); });
  take("small", [&] { return conv2d(on_gpu({1, 32, 32, 32}), w); });
  take("refused", [&] { return conv2d(on_gpu({8, 32, 160, 160}), w, {.stride = 5}); });
  take("nothing", [&] { return conv2d(on_gpu({0, 32, 32, 32}), w); });
  take("gradient", [&] {
    const auto loss = [](Tensor b, Tensor a) { return Tensor(sum(conv2d(a, b, {.stride = 2, .padding = 1}))); };
    return jit::grad(loss)(w, on_gpu({32, 32, 32, 32}));
  });
  take("gradient by the image", [&] {
    const auto loss = [](Tensor a, Tensor b) { return Tensor(sum(conv2d(a, b, {.stride = 2, .padding = 1}))); };
    return jit::grad(loss)(on_gpu({32, 32, 32, 32}), w);
  });
  take("grouped gradient by the image", [&] {
    const auto loss = [](Tensor a, Tensor b) {
      return Tensor(sum(conv2d(a, b, {.stride = {1, 2}, .padding = {3, 2}, .dilation = {3, 2}, .groups = 4})));
    };
    return jit::grad(loss)(on_gpu({64, 32, 32, 32}), on_gpu({64, 8, 3, 3}));
  });
  // Plans of lazy values are kept: these are compiled anew.
  const auto compiled = [] {
    return jit::compile([](Tensor a, Tensor b) { return conv2d(a, b, {.padding = 1}) + 1; });
  };
  take("generated", [&] {
    cuda::set_product_policy(cuda::ProductPolicy::fma);
    return compiled()(x, w);
  });
  take("library", [&] {
    cuda::set_product_policy(cuda::ProductPolicy::library);
    return compiled()(on_gpu({1, 2, 9, 8}), on_gpu({9, 2, 3, 3}));
  });
  std::fflush(stdout);
}

TEST_CASE("CUDA over a stub of cuDNN: one call for a convolution, in the library's terms") {
  if (find_device_memory(DeviceKind::cuda) == nullptr) SINTER_SKIP("built without CUDA");
  const std::string folder = sinter_test::make_stub_driver();
  if (folder.empty()) SINTER_SKIP("no compiler `c++` makes a driver");
  const auto run = [&] {
    return under("LD_LIBRARY_PATH='" + folder + "' SINTER_CACHE_DIR=off SINTER_CUDA_PRODUCT=measure",
                 "[.convolutions]");
  };
  // One without the functions stands in the way of a real one that this machine may have.
  if (!make_library("int nothing;", folder, "libcudnn.so.9")) SINTER_SKIP("no compiler `c++` makes a library");
  const std::string without = run();
  const bool is_made = make_library(stub_cudnn, folder, "libcudnn.so.9");
  const std::string text = is_made ? run() : "";
  std::filesystem::remove_all(folder);
  // Without the library, what the convolution is made of is computed.
  INFO(without);
  CHECK(has(part(without, "plain"), "launch "));
  CHECK_FALSE(has(without, "no step"));
  if (!is_made) SINTER_SKIP("no compiler `c++` makes the stub of cuDNN");
  INFO(text);
  const auto of = [&](const std::string& name) { return part(text, name); };
  CHECK(has(of("plain"),
            "tensor of 0: 8 32 32 32 by 32768 1024 32 1\ntensor of 0: 8 64 32 32 by 65536 1024 32 1\n"
            "filter of 0 in 0: 64 32 3 3\n"
            "padding 1 1, stride 1 1, dilation 1 1, mode 1, sums of 0\ngroups 1\nmath 3\n"));
  CHECK(has(of("plain"), "forward measured\n"));
  CHECK(has(of("plain"), "forward by 3, 99 bytes"));  // neither TF32 nor what is unfit
  CHECK(has(of("plain"), "f32 1 0\n"));
  CHECK_FALSE(has(of("again"), "tensor of"));
  CHECK(has(of("again"), "forward by 3"));
  CHECK(has(of("rounded"), "math 1\nforward measured\nforward measured\nforward measured\n"));
  // Tensor cores: measured with the channels last, too.
  CHECK(has(of("rounded"),
            "tensor of 0: 8 32 32 32 by 32768 1 1024 32\ntensor of 0: 8 64 32 32 by 65536 1 2048 64\n"
            "filter of 0 in 1: 64 32 3 3\n"));
  CHECK_FALSE(has(of("plain"), " in 1:"));
  CHECK(has(of("rounded"), "forward by 1"));
  CHECK(has(of("grouped"),
            "tensor of 2: 64 64 32 16 by 32768 512 16 1\nfilter of 2 in 0: 64 8 3 3\n"
            "padding 3 2, stride 1 2, dilation 3 2, mode 1, sums of 0\ngroups 4\nmath 1\n"));
  CHECK(has(of("line"),
            "tensor of 1: 16 64 1 512 by 32768 512 512 1\ntensor of 1: 16 64 1 256 by 16384 256 256 1\n"
            "filter of 1 in 0: 64 64 1 5\n"
            "padding 0 2, stride 1 2, dilation 1 1, mode 1, sums of 1\ngroups 1\nmath 0\n"));
  CHECK(has(of("line"), "f64 1 0,"));
  CHECK(has(of("space"), "tensor of 9: 4 16 16 16 16 by 65536 4096 256 16 1\n"));
  CHECK(has(of("space"), "padding 1 1 1, stride 1 1 1, dilation 1 1 1, mode 1, sums of 0\n"));
  for (const char* name :
       {"lopsided", "single elements", "channel by channel", "small", "refused", "nothing", "generated"}) {
    INFO(name);
    CHECK_FALSE(has(of(name), "forward by 3"));
    CHECK_FALSE(has(of(name), "forward by 1"));
    CHECK_FALSE(has(of(name), "no step"));
  }
  CHECK(has(of("refused"), "forward by rule"));
  CHECK(has(of("refused"), "launch "));
  CHECK_FALSE(has(of("gradient"), "launch swap_leading"));
  // Not a convolution of a gradient that is spread by the stride.
  CHECK(has(of("gradient by the image"), "data measured\n"));
  CHECK(has(of("gradient by the image"), "data by 5, 55 bytes, beta 0\n"));
  CHECK_FALSE(has(of("gradient by the image"), "forward by"));
  CHECK(has(of("grouped gradient by the image"), "data by 5, 55 bytes, beta 0\n"));
  CHECK(has(of("gradient"), "filter by 3, 77 bytes, beta 0\n"));
  CHECK(has(of("library"), "forward by rule\n"));
  CHECK(has(of("library"), "forward by 3"));
}

#ifdef SINTER_CUDA
namespace {
constexpr const char* host_prelude = R"(
#define __global__
#define __device__
#define __forceinline__ inline
#define __shared__ static
#define TURNING_THREADS 1
static void __syncthreads() {}
static struct { long long x = 0; } blockIdx, threadIdx;
static struct { long long x = 1; } blockDim, gridDim;
)";

/// As the kernels have it.
struct Numbers {
  std::int64_t images, groups, inputs, outputs, extent[3], kernel[3], positions[3], stride[3], dilation[3], padding[3];
};

template <class T>
void check_plain_sums(const std::string& library, DType dtype) {
  void* const opened = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  REQUIRE(opened != nullptr);
  using Kernel = void (*)(const T*, const T*, T*, Numbers);
  const auto convolve = reinterpret_cast<Kernel>(dlsym(opened, "convolve")),
             gradient = reinterpret_cast<Kernel>(dlsym(opened, "weight_gradient"));
  const auto from_y = reinterpret_cast<Kernel>(dlsym(opened, "image_gradient"));
  const auto turn =
      reinterpret_cast<void (*)(const T*, T*, long long, long long, long long)>(dlsym(opened, "turn_channels"));
  const auto swap =
      reinterpret_cast<void (*)(const T*, T*, long long, long long, long long)>(dlsym(opened, "swap_leading"));
  manual_seed(3);
  const Tensor x = Tensor(randn({3, 4, 3, 9, 8}).to(dtype)), w = Tensor(randn({6, 2, 2, 3, 2}).to(dtype));
  const ConvOptions options{.stride = {1, 2, 1}, .padding = {0, 1, 2}, .dilation = {1, 2, 3}, .groups = 2};
  const Tensor y = conv3d(x, w, options);
  const Numbers numbers{3, 2, 2, 3, {3, 9, 8}, {2, 3, 2}, {2, 4, 9}, {1, 2, 1}, {1, 2, 3}, {0, 1, 2}};
  REQUIRE(y.shape() == Shape{3, 6, 2, 4, 9});
  const std::vector<T> xs = to_vector<T>(x), ws = to_vector<T>(w), wanted = to_vector<T>(y);
  std::vector<T> ys(wanted.size());
  convolve(xs.data(), ws.data(), ys.data(), numbers);
  const auto wide = [](const std::vector<T>& v) { return std::vector<double>(v.begin(), v.end()); };
  CHECK(near_relative(wide(ys), wide(wanted), 1e-5));
  const Tensor seed = Tensor(randn({3, 6, 2, 4, 9}).to(dtype));
  const std::vector<T> dy = to_vector<T>(seed);
  std::vector<T> turned(dy.size()), back(dy.size()), dw(ws.size());
  const std::vector<T> in_front = to_vector<T>(permute(seed, {1, 0, 2, 3, 4}));
  swap(dy.data(), turned.data(), 3, 6, 72);
  CHECK(turned == in_front);
  swap(turned.data(), back.data(), 6, 3, 72);
  CHECK(back == dy);
  gradient(xs.data(), dy.data(), dw.data(), numbers);
  const Tensor slope = jit::grad([=](Tensor b) { return Tensor(sum(conv3d(x, b, options) * seed)); })(w);
  CHECK(near_relative(wide(dw), wide(to_vector<T>(slope)), 1e-5));
  std::vector<T> dx(xs.size());
  from_y(ws.data(), dy.data(), dx.data(), numbers);
  const Tensor slope_x = jit::grad([=](Tensor a) { return Tensor(sum(conv3d(a, w, options) * seed)); })(x);
  CHECK(near_relative(wide(dx), wide(to_vector<T>(slope_x)), 1e-5));
  // 3 matrices of 70 by 131 (whole tiles and parts of them), there and back.
  const Tensor matrices = Tensor(randn({3, 70, 131}).to(dtype));
  const std::vector<T> flat = to_vector<T>(matrices), wanted_turned = to_vector<T>(permute(matrices, {0, 2, 1}));
  std::vector<T> there(flat.size()), again(flat.size());
  turn(flat.data(), there.data(), 70, 131, 3);
  CHECK(there == wanted_turned);
  turn(there.data(), again.data(), 131, 70, 3);
  CHECK(again == flat);
}
}  // namespace

TEST_CASE("plain sums of a convolution, and of its gradient by the weight") {
  std::string folder = (std::filesystem::temp_directory_path() / "sinter_sums_XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) SINTER_SKIP("no folder");
  for (const DType dtype : {DType::f32, DType::f64}) {
    const std::string name = "sums_" + std::string(sinter::name(dtype)) + ".so";
    if (!make_library(host_prelude + cuda::convolution_kernels(dtype).text, folder, name))
      SINTER_SKIP("no compiler `c++`");
    if (dtype == DType::f32) check_plain_sums<float>(folder + "/" + name, dtype);
    else check_plain_sums<double>(folder + "/" + name, dtype);
  }
  std::filesystem::remove_all(folder);
}

TEST_CASE("the kernels around a convolution compile") {
  std::string why;
  if (!cuda::has_nvrtc(&why)) SINTER_SKIP("no NVRTC");
  for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
    const cuda::LibrarySource source = cuda::convolution_kernels(dtype);
    const std::string cubin = cuda::compile_to_cubin(source.text, source.entries.front(), "sm_80");
    for (const std::string& entry : source.entries) CHECK(has(cubin, entry));
  }
}
#endif
