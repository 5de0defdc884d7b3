// Batches of small systems, factors of one matrix, Fourier transforms of short rows: against Eigen, and FFTW where it
// is installed, both called as a program by hand would. One thread each, in the same run.
#include "compiled.hpp"

#include <Eigen/Dense>

#include <algorithm>
#include <complex>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#ifdef BENCH_FFTW
#include <fftw3.h>
#endif

using namespace sinter;
using benchmark::State;

namespace {

template <class T>
using Rows = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

template <class T>
Tensor of_type(const Tensor& x) {
  Tensor converted = cast(x, dtype_of<T>());
  eval(converted);
  return converted;
}
template <class T>
std::vector<float> as_floats(const T* from, std::int64_t count) {
  return std::vector<float>(from, from + count);
}
template <class T>
bool agree(State& state, const Tensor& ours, const std::vector<T>& theirs, double tolerance) {
  const std::int64_t count = ours.numel().value();
  return bench::agree(state, as_floats(ours.data<T>().data(), count),
                      as_floats(theirs.data(), static_cast<std::int64_t>(theirs.size())), tolerance);
}

/// Diagonals are made large, so that solutions are close in f32.
template <class T, int rows>
void solve_row(State& state, std::int64_t count) {
  const Tensor a = of_type<T>(bench::noise({count, rows, rows}) + 4 * eye(rows)),
               b = of_type<T>(bench::noise({count, rows, 1}, 1));
  const auto solve = jit::compile([](Tensor x, Tensor y) { return linalg::solve(x, y); });
  std::vector<T> out(static_cast<std::size_t>(count * rows));
  const auto peer = [&] {
    using Matrix = Eigen::Matrix<T, rows, rows, Eigen::RowMajor>;
    using Vector = Eigen::Matrix<T, rows, 1>;
    const T *from = a.data<T>().data(), *right = b.data<T>().data();
    T* to = out.data();
    for (std::int64_t i = 0; i < count; ++i, from += rows * rows, right += rows, to += rows)
      Eigen::Map<Vector>(to).noalias() =
          Eigen::Map<const Matrix>(from).partialPivLu().solve(Eigen::Map<const Vector>(right));
  };
  peer();
  if (!agree(state, solve(a, b), out, 1e-3)) return;
  bench::alternate(state, "Eigen", [&] { benchmark::DoNotOptimize(solve(a, b)); }, peer);
  bench::count_items(state, count);
}

template <class T>
void cholesky_row(State& state, std::int64_t n) {
  const Tensor noise = bench::noise({n, n});
  const Tensor a = of_type<T>(matmul(noise, transpose(noise, 0, 1)) / static_cast<double>(n) + eye(n));
  const Rows<T> given = Eigen::Map<const Rows<T>>(a.data<T>().data(), n, n);
  std::vector<T> out(static_cast<std::size_t>(n * n));
  const auto factor = jit::compile([](Tensor x) { return linalg::cholesky(x); });
  const auto peer = [&] { Eigen::Map<Rows<T>>(out.data(), n, n) = Rows<T>(given.llt().matrixL()); };
  peer();
  if (!agree(state, factor(a), out, 1e-3)) return;
  bench::alternate(state, "Eigen", [&] { benchmark::DoNotOptimize(factor(a)); }, peer);
}

/// Eigenvalues are compared; vectors have a sign of their own.
template <class T>
void eigh_row(State& state, std::int64_t n) {
  const Tensor noise = bench::noise({n, n});
  const Tensor a = of_type<T>((noise + transpose(noise, 0, 1)) / 2);
  const Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic> given = Eigen::Map<const Rows<T>>(a.data<T>().data(), n, n);
  std::vector<T> out(static_cast<std::size_t>(n));
  const auto peer = [&] {
    const Eigen::SelfAdjointEigenSolver<Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic>> solver(given);
    std::copy_n(solver.eigenvalues().data(), out.size(), out.begin());
    benchmark::DoNotOptimize(solver.eigenvectors().data());
  };
  const auto ours = [&] {
    const auto found = linalg::eigh(a);
    eval({found.eigenvalues, found.eigenvectors});
    return found.eigenvalues;
  };
  peer();
  if (!agree(state, ours(), out, 1e-3)) return;
  bench::alternate(state, "Eigen", [&] { benchmark::DoNotOptimize(ours()); }, peer);
}

#ifdef BENCH_FFTW
/// FFTW writes to memory that is there, by a plan that it has measured.
void fft_row(State& state, std::int64_t rows, std::int64_t length) {
  using Number = std::complex<float>;
  const Tensor x = complex(bench::noise({rows, length}), bench::noise({rows, length}, 1));
  eval(x);
  const auto count = static_cast<std::size_t>(rows * length);
  auto* const in = fftwf_alloc_complex(count);
  auto* const out = fftwf_alloc_complex(count);
  const int n = static_cast<int>(length);
  const fftwf_plan plan = fftwf_plan_many_dft(1, &n, static_cast<int>(rows), in, nullptr, 1, n, out, nullptr, 1, n,
                                              FFTW_FORWARD, FFTW_MEASURE);
  std::copy_n(x.data<Number>().data(), count, reinterpret_cast<Number*>(in));
  const auto transform = jit::compile([](Tensor t) { return fft::fft(t); });
  fftwf_execute(plan);
  const Tensor ours = transform(x);
  const auto floats = [&](const void* numbers) { return std::span(static_cast<const float*>(numbers), 2 * count); };
  if (bench::agree(state, floats(ours.data<Number>().data()), floats(out), 1e-3)) {
    bench::alternate(state, "FFTW", [&] { benchmark::DoNotOptimize(transform(x)); }, [&] { fftwf_execute(plan); });
    bench::count_items(state, rows * length);
  }
  fftwf_destroy_plan(plan);
  fftwf_free(in);
  fftwf_free(out);
}
#endif

template <class T, int rows>
void add_solve() {
  constexpr std::int64_t count = 800000 / (rows * rows);
  bench::add("solve/" + bench::shape_text({count, rows}) + (sizeof(T) == 4 ? "/f32" : "/f64"),
             [](State& state) { solve_row<T, rows>(state, count); });
}
template <class T>
void add_rows() {
  add_solve<T, 3>();
  add_solve<T, 5>();
  add_solve<T, 8>();
  const std::string size = std::string("/512x512") + (sizeof(T) == 4 ? "/f32" : "/f64");
  bench::add("cholesky" + size, [](State& state) { cholesky_row<T>(state, 512); });
  bench::add("eigh" + size, [](State& state) { eigh_row<T>(state, 512); });
}

}  // namespace

int main(int argc, char** argv) {
  set_thread_count(1);
  add_rows<float>();
  add_rows<double>();
#ifdef BENCH_FFTW
  constexpr std::pair<std::int64_t, std::int64_t> sizes[] = {{16384, 8},  {16384, 16}, {8192, 32},   {4096, 64},
                                                             {4096, 128}, {2048, 256}, {1024, 1024}, {256, 4096},
                                                             {3000, 48},  {3000, 100}};
  for (const auto& [rows, length] : sizes)
    bench::add("fft/" + bench::shape_text({rows, length}) + "/c64",
               [rows = rows, length = length](State& state) { fft_row(state, rows, length); });
#endif
  return bench::run(argc, argv);
}
