// Rows of products by OpenBLAS, on one thread.
#include "peer.hpp"

#include <cblas.h>

#include <sstream>
#include <string>

using benchmark::State;

namespace {

/// Debian's OpenBLAS does not know every processor and then takes it for an old one, which costs half the speed.
std::string core_type() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq"))
    return "SkylakeX";
  if (__builtin_cpu_supports("avx2")) return "Haswell";
#endif
  return "";
}

/// "0.3.21" of "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH ...".
std::string openblas_version() {
  std::istringstream words(openblas_get_config());
  std::string name, version;
  words >> name >> version;
  return version;
}

void multiply_by_openblas(const bench::Product& p, const float* a, const float* b, float* c) {
  const auto size = [](std::int64_t extent) { return static_cast<blasint>(extent); };
  for (std::int64_t i = 0; i < p.batch; ++i)
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, size(p.m), size(p.n), size(p.k), 1.f, a + i * p.m * p.k,
                size(p.k), b + i * p.k * p.n, size(p.n), 0.f, c + i * p.m * p.n, size(p.n));
}

void product_row(State& state, const bench::Product& p) {
  const auto a = bench::normal_numbers(p.batch * p.m * p.k, 1), b = bench::normal_numbers(p.batch * p.k * p.n, 2);
  bench::Matrix result(p.batch * p.m, p.n), expected(p.batch * p.m, p.n);
  bench::multiply(p, a.data(), b.data(), expected.data());
  const auto call = [&] { multiply_by_openblas(p, a.data(), b.data(), result.data()); };
  bench::time_checked(state, "OpenBLAS", bench::elements(result), bench::elements(expected), 1e-3, call);
  bench::count_flops(state, p.flops());
}

}  // namespace

int main(int argc, char** argv) {
  if (const std::string core = core_type(); !core.empty()) bench::set_environment(argv, {{"OPENBLAS_CORETYPE", core}});
  openblas_set_num_threads(1);
  benchmark::AddCustomContext("OpenBLAS", openblas_version() + ", core " + openblas_get_corename());
  for (const bench::Product& p : bench::products)
    bench::add("matmul/" + p.text() + "/f32", [p](State& state) { product_row(state, p); });
  for (const bench::Product& p : bench::batched_products)
    bench::add("batched matmul/" + p.text() + "/f32", [p](State& state) { product_row(state, p); });
  return bench::run_peer(argc, argv);
}
