// Transforms, factorisations and orderings on CUDA, without a GPU: which calls of cuFFT, cuSOLVER and cuBLAS and which
// kernels they become, over a driver and libraries that compute nothing and print what they are asked; and that the
// kernels around them compile.
#include "../catch.hpp"
#include "../checks.hpp"
#include "../run_again.hpp"
#include "../stub_driver.hpp"

#include <sinter/sinter.hpp>
#include <sinter/tensor/device_memory.hpp>
#ifdef SINTER_CUDA
#include <sinter/backend/cuda/device/driver.hpp>
#include <sinter/backend/cuda/library/library_kernels.hpp>
#include <sinter/backend/cuda/library/quantized_kernels.hpp>
#endif

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

using namespace sinter;

namespace {
const Device gpu = Device::cuda(0);

constexpr const char* stub_libraries = R"(
#include <cstdio>
#include <cstddef>
#include <cstdlib>
static const bool refuses = std::getenv("SINTER_STUB_REFUSES") != nullptr;   // plans and handles
static const bool gives_up = std::getenv("SINTER_STUB_GIVES_UP") != nullptr;  // on singular values
extern "C" {
int cufftCreate(int* plan) { return *plan = 1, 0; }
int cufftDestroy(int) { return std::printf("destroy plan\n"), 0; }
int cufftSetStream(int, void*) { return 0; }
int cufftSetAutoAllocation(int, int) { return 0; }
int cufftSetWorkArea(int, void*) { return 0; }
int cufftMakePlanMany64(int, int rank, long long* n, long long* in, long long in_stride, long long in_distance,
                        long long*, long long, long long out_distance, int type, long long batch, size_t* bytes) {
  if (refuses) return std::printf("no plan\n"), 2;
  std::printf("plan of type %x: n", type);
  for (int i = 0; i < rank; ++i) std::printf(" %lld", n[i]);
  std::printf(", stride %lld, distances %lld %lld, batch %lld\n", in_stride, in_distance, out_distance, batch);
  return *bytes = 64, 0;
}
int cufftExecC2C(int, void*, void*, int direction) { return std::printf("complex f32 %d\n", direction), 0; }
int cufftExecZ2Z(int, void*, void*, int direction) { return std::printf("complex f64 %d\n", direction), 0; }
int cufftExecR2C(int, void*, void*) { return std::printf("from real f32\n"), 0; }
int cufftExecD2Z(int, void*, void*) { return std::printf("from real f64\n"), 0; }
int cufftExecC2R(int, void*, void*) { return std::printf("to real f32\n"), 0; }
int cufftExecZ2D(int, void*, void*) { return std::printf("to real f64\n"), 0; }
int cusolverDnCreate(void** handle) {
  if (refuses) return std::printf("no handle\n"), 2;
  return *handle = handle, 0;
}
int cusolverDnSetStream(void*, void*) { return 0; }
int cusolverDnCreateGesvdjInfo(void** info) { return *info = info, 0; }
int cublasCreate_v2(void** handle) { return *handle = handle, 0; }
int cublasSetStream_v2(void*, void*) { return 0; }
#define SIZE(name, ...) int name(__VA_ARGS__, int* size, ...) { return *size = 16, 0; }
#define BOTH(name, parameters, text, ...) \
  int cusolverDnS##name parameters { return std::printf(#name " f32 " text "\n", __VA_ARGS__), 0; } \
  int cusolverDnD##name parameters { return std::printf(#name " f64 " text "\n", __VA_ARGS__), 0; }
#define SIZES(name, ...) SIZE(cusolverDnS##name##_bufferSize, __VA_ARGS__) SIZE(cusolverDnD##name##_bufferSize, __VA_ARGS__)
int cusolverDnCreateParams(void** parameters) { return *parameters = parameters, 0; }
int cusolverDnXpotrf_bufferSize(void*, void*, int, long long, int, const void*, long long, int, size_t* device,
                                size_t* host) {
  return *device = 64, *host = 8, 0;
}
int cusolverDnXpotrf(void*, void*, int uplo, long long n, int type, ...) {
  return std::printf("potrf f%d %d %lld\n", type == 0 ? 32 : 64, uplo, n), 0;
}
int cusolverDnXsyevBatched_bufferSize(void*, void*, int, int, long long, int, const void*, long long, int, const void*,
                                      int, size_t* device, size_t* host, long long) {
  return *device = 64, *host = 8, 0;
}
int cusolverDnXsyevBatched(void*, void*, int jobz, int uplo, long long n, int, void*, long long, int, void*, int, void*,
                           size_t, void*, size_t, int*, long long batch) {
  return std::printf("syevBatched %d %d %lld batch %lld\n", jobz, uplo, n, batch), 0;
}
SIZES(getrf, void*, int, int, void*, int)
SIZES(geqrf, void*, int, int, void*, int)
SIZES(orgqr, void*, int, int, int, const void*, int, const void*)
SIZES(syevd, void*, int, int, int, const void*, int, const void*)
SIZES(gesvdj, void*, int, int, int, int, const void*, int, const void*, const void*, int, const void*, int)
SIZES(gesvdjBatched, void*, int, int, int, const void*, int, const void*, const void*, int, const void*, int)
BOTH(potrfBatched, (void*, int uplo, int n, void*, int, void*, int batch), "%d %d batch %d", uplo, n, batch)
BOTH(getrf, (void*, int m, int n, ...), "%d %d", m, n)
BOTH(geqrf, (void*, int m, int n, ...), "%d %d", m, n)
BOTH(orgqr, (void*, int m, int n, int k, ...), "%d %d %d", m, n, k)
BOTH(syevd, (void*, int jobz, int uplo, int n, ...), "%d %d %d", jobz, uplo, n)
#define GESVDJ(T, name) \
  int cusolverDn##T##gesvdjBatched(void*, int jobz, int m, int n, void*, int, void*, void*, int, void*, int, void*, \
                                   int, int* info, void*, int batch) { \
    for (int i = 0; i < batch; ++i) info[i] = gives_up ? n + 1 : 0; \
    return std::printf("gesvdjBatched " name " %d %d %d\n", jobz, m, n), 0; \
  } \
  int cusolverDn##T##gesvdj(void*, int jobz, int econ, int m, int n, void*, int, void*, void*, int, void*, int, void*, \
                            int, int* info, void*) { \
    *info = gives_up ? n + 1 : 0; \
    return std::printf("gesvdj " name " %d %d %d %d\n", jobz, econ, m, n), 0; \
  }
GESVDJ(S, "f32")
GESVDJ(D, "f64")
#define BLAS(T) \
  int cublas##T##trsm_v2(void*, int side, int uplo, int op, int diagonal, int m, int n, ...) { \
    return std::printf("trsm " #T " %d %d %d %d, %d %d\n", side, uplo, op, diagonal, m, n), 0; \
  } \
  int cublas##T##trsmBatched(void*, int side, int uplo, int op, int diagonal, int m, int n, ...) { \
    return std::printf("trsmBatched " #T " %d %d %d %d, %d %d\n", side, uplo, op, diagonal, m, n), 0; \
  } \
  int cublas##T##getrfBatched(void*, int n, void*, int, void*, void*, int batch) { \
    return std::printf("getrfBatched " #T " %d batch %d\n", n, batch), 0; \
  }
BLAS(S)
BLAS(D)
}
)";

/// False: no compiler makes it.
bool add_libraries(const std::string& folder) {
  std::ofstream(folder + "/libraries.cpp") << stub_libraries;
  const char* const compiler = std::getenv("CXX");
  const std::string command = std::string(compiler != nullptr ? compiler : "c++") +
                              " -std=c++20 -w -shared -fPIC -o '" + folder + "/libcufft.so.12' '" + folder +
                              "/libraries.cpp' 2>>'" + folder + "/log'";
  if (std::system(command.c_str()) != 0) return false;
  std::filesystem::create_symlink("libcufft.so.12", folder + "/libcusolver.so.12");
  std::filesystem::create_symlink("libcufft.so.12", folder + "/libcublas.so.13");
  return true;
}
}  // namespace

TEST_CASE("transforms and factorisations on a GPU of the stub", "[.libraries]") {
  const auto step = [](const char* name, const auto& make) {
    std::printf("%s:\n", name);
    eval(make());
  };
  const auto on_gpu = [](Shape shape, DType dtype = DType::f32) {
    const Tensor x = zeros(shape, {.dtype = dtype, .device = Device::cpu()}).to(gpu);
    eval(x);
    return x;
  };
  const Tensor pairs = on_gpu({3, 20, 4, 2}), real_numbers = on_gpu({5, 15}, DType::f64);
  const Tensor numbers = view_as_complex(pairs);
  step("fft", [&] { return fft::fft(numbers); });
  step("fft again", [&] { return fft::fft(numbers); });
  step("fft2", [&] { return fft::ifft2(numbers, {.norm = fft::Norm::forward}); });
  step("fft of the middle", [&] { return fft::fft(numbers, {.dim = 1}); });
  step("fft of the middle of many", [&] { return fft::fft(view_as_complex(on_gpu({9, 6, 4, 2})), {.dim = 1}); });
  step("rfft", [&] { return fft::rfft(real_numbers); });
  step("irfft", [&] { return fft::irfft(view_as_complex(on_gpu({5, 8, 2})), {.n = 15}); });
  const Tensor one = on_gpu({20, 20}), many = on_gpu({2, 3, 20, 20}, DType::f64), tall = on_gpu({20, 9});
  step("cholesky", [&] { return linalg::cholesky_ex(one).factor; });
  step("cholesky of many", [&] { return linalg::cholesky(many); });
  step("lu", [&] { return linalg::lu_factor(tall).lu; });
  step("lu of many", [&] { return linalg::lu_factor(many).lu; });
  step("triangular", [&] { return linalg::solve_triangular(one, tall, {.upper = true}); });
  step("triangular of many", [&] { return linalg::solve_triangular(many, many, {.upper = false, .left = false}); });
  step("qr", [&] { return linalg::qr(tall, linalg::QrMode::complete).q; });
  step("eigh", [&] { return linalg::eigvalsh(one); });
  step("svd", [&] { return linalg::svd(tall, {.full_matrices = false}).u; });
  step("svd of many", [&] { return linalg::svdvals(many); });
  step("svd of many large", [&] { return linalg::svdvals(on_gpu({40, 33, 4})); });
  step("qr of many", [&] { return linalg::qr(on_gpu({40, 4, 4})).r; });
  step("lu of many tall", [&] { return linalg::lu_factor_ex(on_gpu({40, 5, 4})).lu; });
  step("eigh of many", [&] { return linalg::eigh(on_gpu({40000, 3, 3})).eigenvectors; });
  step("small", [&] { return linalg::solve(on_gpu({100, 3, 3}), on_gpu({100, 3, 2})); });
  step("sort", [&] { return sort(one, 1).values; });
  step("argsort of a long row", [&] { return argsort(on_gpu({5000})); });
  step("topk of a long row", [&] { return topk(on_gpu({5000}), 5).values; });
  step("searchsorted", [&] { return searchsorted(real_numbers, real_numbers); });
  step("nothing", [&] { return linalg::cholesky(on_gpu({0, 4, 4})); });
  std::fflush(stdout);
}

TEST_CASE("a library of the stub that cannot work, and one that gives up", "[.refusing]") {
  const auto there = [](const Tensor& x) { return Tensor(x).to(gpu); };
  const Tensor one = there(eye(20, {.device = Device::cpu()}) * 4), two = there(eye(30, {.device = Device::cpu()}) * 9);
  const auto first = [](const Tensor& x) { return static_cast<double>(to_vector<float>(x)[0]); };
  eval(fft::fft(view_as_complex(there(ones({4, 2})))));
  std::printf("first of factors: %g %g\n", first(linalg::cholesky(one)), first(linalg::cholesky(two)));
  std::printf("first pivots: %d %d\n", to_vector<std::int32_t>(linalg::lu_factor(one).pivots)[0],
              to_vector<std::int32_t>(linalg::lu_factor(two).pivots)[0]);
  const Tensor tall = reshape(tensor<float>({3, 0, 0, 4, 0, 0, 0, 5, 0, 0, 2, 0}), {2, 3, 2});
  const linalg::Svd f = linalg::svd(there(tall), {.full_matrices = false});
  const Tensor made = matmul(f.u.to(Device::cpu()) * unsqueeze(f.s.to(Device::cpu()), -2), f.vh.to(Device::cpu()));
  for (const float value : to_vector<float>(linalg::svdvals(there(Tensor(tall(0))))))
    std::printf("singular value %.4g\n", static_cast<double>(value));
  std::printf("decomposed: %d\n", static_cast<int>(item<float>(sum(abs(made - tall))) < 1e-5F));
  std::fflush(stdout);
}

TEST_CASE("CUDA over stubs of the libraries: one call for what is one, in the library's terms") {
  if (find_device_memory(DeviceKind::cuda) == nullptr) SINTER_SKIP("built without CUDA");
  const std::string folder = sinter_test::make_stub_driver();
  if (folder.empty() || !add_libraries(folder)) SINTER_SKIP("no compiler `c++` makes the stubs of the libraries");
  const std::string text = under("LD_LIBRARY_PATH='" + folder + "' SINTER_CACHE_DIR=off", "[.libraries]");
  std::filesystem::remove_all(folder);
  INFO(text);
  const auto part = [&](const std::string& name) {
    const std::size_t begin = text.find(name + ":\n");
    if (begin == std::string::npos) return std::string("no step " + name);
    const std::size_t end = text.find(":\n", begin + name.size() + 2);
    return text.substr(begin, end == std::string::npos ? end : end - begin);
  };
  // Lengths, where lines lie, and that a plan is made once.
  CHECK(has(part("fft"), "plan of type 29: n 4, stride 1, distances 4 4, batch 60\ncomplex f32 -1\n"));
  CHECK(has(part("fft again"), "complex f32 -1"));
  CHECK_FALSE(has(part("fft again"), "plan"));
  CHECK_FALSE(has(part("fft"), "launch scale_f32"));
  CHECK(has(part("fft2"), "plan of type 29: n 20 4, stride 1, distances 80 80, batch 3\ncomplex f32 1\n"));
  CHECK(has(part("fft of the middle"),
            "n 20, stride 4, distances 1 1, batch 4\ncomplex f32 -1\ncomplex f32 -1\n"
            "complex f32 -1\n"));
  CHECK(has(part("fft of the middle of many"), "n 6, stride 1, distances 6 6, batch 36\n"));
  CHECK(has(part("fft of the middle of many"), "launch turn_f32"));
  CHECK(has(part("rfft"), "plan of type 6a: n 15, stride 1, distances 15 8, batch 5\nfrom real f64\n"));
  CHECK(has(part("irfft"), "plan of type 2c: n 15, stride 1, distances 8 15, batch 5\nlaunch half_to_in_f32"));
  // A row-major lower triangle is the library's upper one; what is not symmetric is turned.
  CHECK(has(part("cholesky"), "potrf f32 0 20\n"));
  CHECK(has(part("cholesky of many"), "potrfBatched f64 1 20 batch 6\n"));
  CHECK(has(part("lu"), "launch transpose_f32"));
  CHECK(has(part("lu"), "getrf f32 20 9\n"));
  CHECK(has(part("lu of many"), "getrfBatched D 20 batch 6\n"));
  CHECK(has(part("triangular"), "trsm S 1 0 0 0, 9 20\n"));
  CHECK(has(part("triangular of many"), "trsmBatched D 1 "));
  CHECK(has(part("qr"), "geqrf f32 20 9\n"));
  CHECK(has(part("qr"), "orgqr f32 20 20 9\n"));
  CHECK(has(part("eigh"), "syevd f32 0 1 20\n"));
  CHECK(has(part("svd"), "gesvdj f32 1 1 9 20\n"));
  CHECK(has(part("svd of many"), "gesvdjBatched f64 0 20 20\n"));
  CHECK(has(part("small"), "launch small_solve"));
  CHECK_FALSE(has(part("small"), "trsm"));
  CHECK(has(part("sort"), "launch order_rows"));
  CHECK(has(part("argsort of a long row"), "launch move_by_digit"));
  CHECK(has(part("topk of a long row"), "launch order_rows"));
  CHECK(has(part("searchsorted"), "launch searchsorted"));
  CHECK_FALSE(has(part("nothing"), "potrf"));
  // The host is faster than a call for each of many small matrices; a call takes so many.
  CHECK_FALSE(has(part("svd of many large"), "gesvdj"));
  CHECK_FALSE(has(part("qr of many"), "geqrf"));
  CHECK_FALSE(has(part("lu of many tall"), "getrf"));
  CHECK(occurrences(part("eigh of many"), "syevBatched 1 1 3 batch 16384\n") == 2);
  CHECK(has(part("eigh of many"), "syevBatched 1 1 3 batch 7232\n"));
}

TEST_CASE("CUDA over stubs of the libraries: what they cannot do is computed by the host") {
  if (find_device_memory(DeviceKind::cuda) == nullptr) SINTER_SKIP("built without CUDA");
  const std::string folder = sinter_test::make_stub_driver();
  if (folder.empty() || !add_libraries(folder)) SINTER_SKIP("no compiler `c++` makes the stubs of the libraries");
  const std::string settings = "LD_LIBRARY_PATH='" + folder + "' SINTER_CACHE_DIR=off SINTER_LOGS=cuda ";
  const std::string gave_up = under(settings + "SINTER_STUB_GIVES_UP=1", "[.refusing]");
  std::filesystem::remove(folder + "/libcublas.so.13");  // one without its functions
  std::filesystem::create_symlink("libcuda.so.1", folder + "/libcublas.so.13");
  const std::string refused = under(settings + "SINTER_STUB_REFUSES=1", "[.refusing]");
  std::filesystem::remove_all(folder);
  {
    INFO(gave_up);
    CHECK(has(gave_up, "gesvdjBatched f32 1 2 3\n"));
    CHECK(has(gave_up, "gesvdj f32 0 1 2 3\nsingular value 4\nsingular value 3\n"));
    CHECK(has(gave_up, "decomposed: 1\n"));
  }
  INFO(refused);
  CHECK(has(refused, "first of factors: 2 3\n"));
  CHECK(has(refused, "first pivots: 1 1\n"));
  CHECK(has(refused, "decomposed: 1\n"));
  CHECK_FALSE(has(refused, "complex f32"));
  CHECK_FALSE(has(refused, "potrf"));
  // Once more with what the pool kept; no plan is left.
  CHECK(occurrences(refused, "no plan\ndestroy plan\n") == 2);
  CHECK(has(refused, "no handle\nno handle\n"));
  CHECK(has(refused, "cuFFT is not used: "));
  CHECK(has(refused, "cuSOLVER is not used on cuda:0: making a handle failed with status 2"));
  CHECK(occurrences(refused, "cuBLAS is not used: the library has no function cublasCreate_v2") == 1);
}

#ifdef SINTER_CUDA
TEST_CASE("the kernels around library calls compile") {
  std::string why;
  if (!cuda::has_nvrtc(&why)) SINTER_SKIP("no NVRTC");
  const auto check = [](const cuda::LibrarySource& source) {
    const std::string cubin = cuda::compile_to_cubin(source.text, source.entries.front(), "sm_80");
    for (const std::string& entry : source.entries) {
      INFO(entry);
      CHECK(has(cubin, entry));
    }
  };
  check(cuda::matrix_kernels());
  check(cuda::fourier_kernels());
  using Made = cuda::SmallSystem::Made;
  check(cuda::small_solve_kernel({Made::solution, false, false, 3, 2}));
  check(cuda::small_solve_kernel({Made::inverse, true, true, 4, 1}));
  check(cuda::small_solve_kernel({Made::determinant, true, false, 2, 1}));
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    check(cuda::dynamic_product_kernels(dtype, dtype));
    for (const int bits : {4, 8})
      for (const bool has_zero_points : {false, true})
        for (const int tall : {0, 1, 2})
          check(cuda::few_rows_kernel({.activations = dtype,
                                       .scales = dtype,
                                       .bits = bits,
                                       .rows = tall == 0 ? 3 : 2,
                                       .has_zero_points = has_zero_points,
                                       .on_tensor_cores = tall > 0,
                                       .tall = tall == 0 ? 1 : tall}));
  }
}
#endif
