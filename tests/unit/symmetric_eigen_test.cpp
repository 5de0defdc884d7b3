// eigh of real matrices: sizes around whole vectors, spectra that are hard, scales, and that each width of vectors
// computes the same.
#include "../checks.hpp"
#include "catch.hpp"

#include <sinter/sinter.hpp>

#include <sinter/ops/symmetric_lanes.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numbers>
#include <string>
#include <utility>
#include <vector>

using namespace sinter;

namespace {
const TensorOptions f64{.dtype = DType::f64};

Tensor turned(const Tensor& x) { return transpose(x, -2, -1); }
Tensor noise(const Shape& shape, double seed) {
  return reshape(sin(square(arange(shape.numel(), f64) + seed) * 0.7), shape);
}
double largest(const Tensor& x) { return item<double>(amax(abs(x.to(DType::f64)))); }

/// Whether values ascend, vectors are orthonormal, and both give the matrix back, by the size of the largest value.
void check_decomposition(const Tensor& a, double tolerance) {
  const auto [values, vectors] = linalg::eigh(a);
  const Tensor w = values.to(DType::f64), v = vectors.to(DType::f64), wide = a.to(DType::f64);
  const std::int64_t n = a.size(-1).value();
  const double size = std::max(largest(w), 1e-300);
  CHECK(item<bool>(sinter::all(diff(w) >= 0)));
  // In units of the tolerance, which messages show.
  CHECK(largest(matmul(turned(v), v) - eye(n, f64)) / tolerance < 1);
  CHECK(largest(matmul(wide / size, v) - v * unsqueeze(w / size, -2)) / tolerance < 1);
  CHECK(largest(linalg::eigvalsh(a).to(DType::f64) / size - w / size) / tolerance < 1);
}
/// Of given eigenvalues, in a basis without zeros.
Tensor with_values(const Tensor& values) {
  const std::int64_t n = values.size(0).value();
  const Tensor q = linalg::qr(noise({n, n}, 3)).q;
  const Tensor a = matmul(q * unsqueeze(values, 0), turned(q));
  return (a + turned(a)) / 2;
}
}  // namespace

TEST_CASE("eigh: sizes around whole vectors and panels, f32 and f64") {
  for (const std::int64_t n : {1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 66, 100, 129}) {
    INFO(n << " rows");
    const Tensor some = noise({n, n}, 1), a = some + turned(some);
    check_decomposition(a, 1e-13 * std::sqrt(n) * 10);
    check_decomposition(a.to(DType::f32), 4e-6 * std::sqrt(n));
  }
}

TEST_CASE("eigh: the values of a chain of springs, which are known") {
  for (const std::int64_t n : {40, 150}) {
    Tensor a = 2 * eye(n, f64);
    a -= diag(ones({n - 1}, f64), 1) + diag(ones({n - 1}, f64), -1);
    std::vector<double> want;
    for (std::int64_t k = 1; k <= n; ++k)
      want.push_back(2 - 2 * std::cos(std::numbers::pi * static_cast<double>(k) / static_cast<double>(n + 1)));
    CHECK(near(doubles(linalg::eigh(a).eigenvalues), want, 1e-13));
    CHECK(near(doubles(linalg::eigvalsh(a.to(DType::f32)).to(DType::f64)), want, 5e-6));
  }
}

TEST_CASE("eigh: equal, clustered, graded and vanishing eigenvalues") {
  const std::int64_t n = 90;
  const Tensor k = arange(n, f64);
  const std::vector<std::pair<std::string, Tensor>> spectra{
      {"all equal", ones({n}, f64)},
      {"two values", where(k < 30, -1.0, 2.0)},
      {"clusters", floor(k / 10) + 1e-9 * k},
      {"graded", exp(-0.4 * k)},
      {"graded upwards", exp(0.4 * (k - n))},
      {"of low rank", where(k < 3, k + 1, 0.0)},
      {"of both signs", k - 45},
  };
  for (const auto& [name, values] : spectra) {
    INFO(name);
    const Tensor a = with_values(values);
    check_decomposition(a, 1e-12);
    check_decomposition(a.to(DType::f32), 4e-5);
  }
  // A diagonal of falling sizes: the small ones keep their digits.
  const Tensor falling = diag(pow(10.0, -0.1 * k)) + 1e-12 * ones({n, n}, f64);
  const std::vector<std::pair<std::string, Tensor>> matrices{{"zeros", zeros({n, n}, f64)},
                                                             {"diagonal", diag(noise({n}, 2))},
                                                             {"ones", ones({n, n}, f64)},
                                                             {"falling", falling}};
  for (const auto& [name, a] : matrices) {
    INFO(name);
    check_decomposition(a, 1e-13);
  }
}

TEST_CASE("eigh: of low rank, where what rounding leaves gets smaller with each step") {
  for (const std::int64_t n : {11, 15, 40, 85, 130}) {
    INFO(n << " rows");
    check_decomposition(ones({n, n}, f64), 1e-12);
    check_decomposition(ones({n, n}), 4e-5);
    const Tensor k = arange(n, f64), falling = exp(-0.3 * (unsqueeze(k, 0) + unsqueeze(k, 1)));
    check_decomposition(falling, 1e-12);
    check_decomposition(falling.to(DType::f32), 4e-5);
  }
}

TEST_CASE("eigh: matrices near the ends of the range of numbers") {
  const Tensor some = noise({70, 70}, 1), a = some + turned(some);
  for (const double scale : {1e-36, 1e-30, 1e30, 1e36}) {
    INFO(scale);
    check_decomposition((a * scale).to(DType::f32), 4e-5);
  }
  for (const double scale : {1e-300, 1e-200, 1e200, 1e300}) {
    INFO(scale);
    check_decomposition(a * scale, 1e-12);
  }
}

TEST_CASE("eigh: the other triangle is not read; the same bits on any number of threads and in a batch") {
  const Tensor some = noise({2, 140, 140}, 1), a = (some + turned(some)).to(DType::f32);
  const Tensor lower =
      tril(a) + triu(full({140, 140}, std::numeric_limits<double>::quiet_NaN(), {.dtype = DType::f32}), 1);
  const int before = thread_count();
  set_thread_count(1);
  const auto one = linalg::eigh(a);
  const std::vector<float> values = to_vector<float>(one.eigenvalues), vectors = to_vector<float>(one.eigenvectors);
  set_thread_count(4);
  const auto four = linalg::eigh(a), half = linalg::eigh(lower), alone = linalg::eigh(a(1));
  CHECK(to_vector<float>(four.eigenvalues) == values);
  CHECK(to_vector<float>(four.eigenvectors) == vectors);
  CHECK(to_vector<float>(half.eigenvectors) == vectors);
  CHECK(to_vector<float>(alone.eigenvectors) == to_vector<float>(one.eigenvectors(1)));
  set_thread_count(before);
}

#ifndef SINTER_NO_X86
namespace {
template <class T>
std::vector<T> numbers(std::int64_t count, double seed) {
  std::vector<T> out;
  for (std::int64_t i = 0; i < count; ++i)
    out.push_back(static_cast<T>(std::sin(0.7 * static_cast<double>(i * i) + seed)));
  return out;
}
/// All that a machine computes, of the same numbers.
template <class T>
std::vector<double> computed_by(const ops_detail::SymmetricMachine<T>& machine) {
  using namespace ops_detail;
  constexpr std::int64_t block = symmetric_block<T>, blocks = 3, n = block * blocks, stride = n + block;
  constexpr std::int64_t wide = panel_columns<T>, rows = 11;
  struct alignas(64) Room {
    T a[as_index(n * stride)], v[as_index(n)], w[as_index(n)], next[as_index(n)], product[as_index(n)];
    T x[as_index(4 * stride)], panel[as_index(rows * wide)];
  };
  const auto room = std::make_unique<Room>();
  const auto fill = [](T* to, std::int64_t count, double seed) {
    const std::vector<T> from = numbers<T>(count, seed);
    std::copy(from.begin(), from.end(), to);
  };
  fill(room->a, n * stride, 1);
  fill(room->v, n, 2);
  fill(room->w, n, 3);
  fill(room->next, n, 4);
  fill(room->x, 4 * stride, 5);
  fill(room->panel, rows * wide, 6);
  machine.update({room->a, stride, 1, blocks, room->v, room->w, room->next, room->product});
  machine.reflect(room->x, stride, room->v, T(0.25), block, n);
  std::vector<RotationGroup<T>> groups;
  std::size_t at = 0;
  for (int sweeps = 1; sweeps <= RotationGroup<T>::most_sweeps; ++sweeps)
    for (const int step : {1, -1}) {
      groups.push_back({step == 1 ? 1 : rows - 2, 7, step, sweeps, at});
      at += as_index(2 * 7 * sweeps);
    }
  std::vector<T> rotations;
  for (std::size_t i = 0; i < at / 2; ++i) {
    rotations.push_back(static_cast<T>(std::cos(0.3 * static_cast<double>(i))));
    rotations.push_back(static_cast<T>(std::sin(0.3 * static_cast<double>(i))));
  }
  machine.rotate_panel(room->panel, groups.data(), groups.size(), rotations.data());
  std::vector<double> out(room->a, room->a + n * stride);
  out.insert(out.end(), room->product + block, room->product + n);
  out.insert(out.end(), room->x, room->x + 4 * stride);
  out.insert(out.end(), room->panel, room->panel + rows * wide);
  return out;
}
template <class T>
void check_machines(double tolerance) {
  using namespace ops_detail;
  const std::vector<double> want = computed_by(symmetric_machine<T, PlainSymmetric>());
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    CHECK(near(computed_by(symmetric_machine<T, Avx2Symmetric>()), want, tolerance));
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
    CHECK(near(computed_by(symmetric_machine<T, Avx512Symmetric>()), want, tolerance));
}
}  // namespace

TEST_CASE("eigh: vectors of 16, 32 and 64 bytes compute the same") {
  check_machines<float>(2e-5);
  check_machines<double>(1e-13);
}
#endif
