// Reductions against Eigen: sums of a cube over every subset of its axes, and sums of matrices that fit the cache.
#include "compiled.hpp"
#include "eigen_peers.hpp"

#include <unsupported/Eigen/CXX11/Tensor>

#include <array>
#include <bit>
#include <utility>

using namespace sinter;
using benchmark::State;

namespace {

Axes axes_of(int subset) {
  switch (subset) {
    case 1: return {0};
    case 2: return {1};
    case 3: return {0, 1};
    case 4: return {2};
    case 5: return {0, 2};
    case 6: return {1, 2};
    default: return {0, 1, 2};
  }
}

template <int subset>
void sum_row(State& state) {
  constexpr auto count = std::popcount(static_cast<unsigned>(subset));
  // Positive, so that no sum cancels and a relative tolerance says something.
  const Tensor x = abs(bench::noise({bench::cube, bench::cube, bench::cube}));
  eval(x);
  Eigen::TensorMap<const Eigen::Tensor<float, 3, Eigen::RowMajor>> in(x.data<float>().data(), bench::cube, bench::cube,
                                                                      bench::cube);
  std::array<Eigen::Index, static_cast<std::size_t>(count)> axes{};
  for (int axis = 0, i = 0; axis < 3; ++axis)
    if ((subset & (1 << axis)) != 0) axes[static_cast<std::size_t>(i++)] = axis;
  Eigen::Tensor<float, 3 - count, Eigen::RowMajor> out = in.sum(axes);
  const std::span<const float> result(out.data(), static_cast<std::size_t>(out.size()));
  bench::compare(
      state, {"Eigen", 1e-4, result}, [](Tensor t) { return sum(t, axes_of(subset)); }, [&] { out = in.sum(axes); }, x);
  bench::count_bytes(state, 4 * bench::cube * bench::cube * bench::cube);
}

template <int... subsets>
void add_sums(std::integer_sequence<int, subsets...>) {
  (bench::add(bench::sum_name(subsets + 1), sum_row<subsets + 1>), ...);
}

constexpr bench::Rows small{64, 1024};

void column_sum_row(State& state) {
  const Tensor& x = bench::noise({small.count, small.length});
  bench::ConstMatrixView in(x.data<float>().data(), small.count, small.length);
  bench::Matrix out(1, small.length);
  bench::compare(
      state, {"Eigen", 1e-4, bench::elements(out)}, [](Tensor t) { return sum(t, 0); },
      [&] { out = in.colwise().sum(); }, x);
  bench::count_items(state, small.elements());
}

void sum_of_squares_row(State& state) {
  const Tensor& x = bench::noise({small.count, small.length});
  bench::ConstMatrixView in(x.data<float>().data(), small.count, small.length);
  bench::Matrix out(1, 1);
  bench::compare(
      state, {"Eigen", 1e-4, bench::elements(out)}, [](Tensor t) { return sum(t * t); },
      [&] { out(0, 0) = in.squaredNorm(); }, x);
  bench::count_items(state, small.elements());
}

}  // namespace

int main(int argc, char** argv) {
  set_thread_count(1);
  benchmark::AddCustomContext("Eigen", bench::eigen_version());
  add_sums(std::make_integer_sequence<int, 7>());
  bench::add("column sum/" + small.text() + "/f32", column_sum_row);
  bench::add("full sum of squares/" + small.text() + "/f32", sum_of_squares_row);
  return bench::run(argc, argv);
}
