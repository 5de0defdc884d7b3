// A sample of what tools/accuracy measures: each elementwise function keeps the bounds that docs/numerics.md states, on
// every back end, over f32 of all bit patterns and f64 of all sizes.
#include "../catch.hpp"
#include "accuracy_rows.hpp"
#include "op_table.hpp"

#include <random>

using namespace sinter_test;

namespace {

template <class T>
using WideOf = std::conditional_t<sizeof(T) == 4, double, long double>;

/// Every so many floats, a prime apart, and what is special.
std::vector<float> sample_of_f32() {
  std::vector<float> x = {0.0f, -0.0f, 1.0f, -1.0f, 0.5f, 0.25f, INFINITY, -INFINITY, 3.4028235e38f, 1e-45f, -1e-45f};
  for (std::uint64_t bits = 0; bits < std::uint64_t{1} << 32; bits += 131101) {
    const float value = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
    if (!std::isnan(value)) x.push_back(value);
  }
  return x;
}
std::vector<double> sample_of_f64() {
  std::vector<double> x = {0.0, -0.0, 1.0, -1.0, 0.5, 0.25, INFINITY, -INFINITY, 1.7976931348623157e308, 5e-324};
  std::mt19937_64 random(21);
  for (int i = 0; i < 3000; ++i) {
    if (const double value = std::bit_cast<double>(random()); std::isfinite(value)) x.push_back(value);
    constexpr double sizes[] = {1, 8, 40, 800};
    x.push_back((static_cast<double>(random() >> 11) * 0x1p-52 - 1) * sizes[i % 4]);
  }
  return x;
}
template <class T>
std::vector<T> companions(const std::vector<T>& x) {
  std::vector<T> y;
  for (std::size_t i = 0; i < x.size(); ++i) y.push_back(accuracy::companion(x[i], i));
  return y;
}

struct Worst {
  double error = 0, x = 0, y = 0, got = 0;
};
template <class T>
Worst worst_of(const accuracy::Row& f, const Mode& mode, const std::vector<T>& x, const std::vector<T>& y) {
  using Wide = WideOf<T>;
  const accuracy::Row* row = &f;
  const Tensor result =
      jit::compile([row](Tensor a, Tensor b) { return row->run(a, b); }, mode.options())(copy_of(x), copy_of(y));
  const std::vector<T> got = to_vector<T>(result);
  Worst worst;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (!f.covers(x[i])) continue;
    const double a = static_cast<double>(x[i]), b = static_cast<double>(y[i]);
    const Wide expected = f.expected(static_cast<Wide>(x[i]), static_cast<Wide>(y[i]), static_cast<Wide>(got[i]));
    const double error = accuracy::error_in_ulps(got[i], expected, f.floor_at(a, f.is_binary ? b : 0));
    if (error > worst.error) worst = {error, a, b, static_cast<double>(got[i])};
  }
  return worst;
}

}  // namespace

TEST_CASE("elementwise functions keep their bounds: a sample of all numbers") {
  const std::vector<float> x = sample_of_f32(), y = companions(x);
  const std::vector<double> wide_x = sample_of_f64(), wide_y = companions(wide_x);
  for (const accuracy::Row& f : accuracy::rows())
    for (const Mode& mode : modes()) {
      const Worst narrow = worst_of(f, mode, x, y), wide = worst_of(f, mode, wide_x, wide_y);
      INFO(f.name << " " << mode.name);
      INFO("f32 " << narrow.x << " " << narrow.y << " gives " << narrow.got);
      CHECK(narrow.error <= f.f32);
      INFO("f64 " << wide.x << " " << wide.y << " gives " << wide.got);
      CHECK(wide.error <= f.f64 + 0.1);  // the oracle's own error, in long double
    }
}

TEST_CASE("errors are counted in units of the last place") {
  CHECK(accuracy::error_in_ulps(std::nextafter(1.0f, 2.0f), 1.0, 0.0) == 1);
  CHECK(accuracy::error_in_ulps(std::nextafter(1.0f, 0.0f), 1.0, 0.0) == 0.5);
  CHECK(accuracy::error_in_ulps(1.0f, 1.0, 4.0) == 0);
  CHECK(accuracy::error_in_ulps(std::nextafter(1.0f, 2.0f), 1.0, 4.0) == 0.25);
  CHECK(accuracy::error_in_ulps(3e-45f, 0.0, 0.0) == 2);
  CHECK(accuracy::error_in_ulps(3.4028235e38f, 3.4028234663852886e38, 1e190) == 0);
  // Infinity counts as the number after the largest one, 2^128.
  CHECK(accuracy::error_in_ulps(INFINITY, std::ldexp(1.0, 128) - std::ldexp(3.0, 104), 0.0) == 3);
  CHECK(accuracy::error_in_ulps(std::nextafter(2.0, 3.0), 2.0L, 0.0) == 1);
  CHECK(accuracy::error_in_ulps(1e-323, 0.0L, 0.0) == 2);
}

TEST_CASE("the oracles are right: numbers of mpmath, of 20 digits") {
  using R = long double;
  const auto near = [](R have, R want) { return std::abs(have - want) <= 2e-18L * std::abs(want); };
  CHECK(near(accuracy::digamma<R>(0.25L), -4.2274535333762654080895L));
  CHECK(near(accuracy::zeta<R>(3, 1), 1.2020569031595942853997L));
  CHECK(near(accuracy::trigamma<R>(-0.75L), 18.9751069322848885170490968971L));
  CHECK(near(accuracy::scaled_bessel_k<R>(0, 0.5L), 1.52410938577390953002291509332L));
  CHECK(near(accuracy::scaled_bessel_k<R>(1, 10), 0.410766570595788751130046941318L));
  CHECK(near(accuracy::scaled_bessel_i<R>(0, 3), 0.24300035416182539847261284708L));
  CHECK(near(accuracy::scaled_bessel_i<R>(1, 50), 0.0559931238928953996438787075574L));
  CHECK(near(accuracy::erfcx<R>(12), 0.0468542210148937626195884133994L));
  CHECK(near(accuracy::erfinv<R>(0.75L, 0.81341984L), 0.813419847597618541690289359893L));
  CHECK(near(accuracy::log_ndtr<R>(-10), -53.2312851505124705783470273541L));
  CHECK(near(accuracy::zeta<R>(10, 0.5L), 1024.01745035575790130L));
  CHECK(near(accuracy::zeta<R>(40, 3), 8.22534606903382727761949e-20L));
  CHECK(near(accuracy::zeta<R>(1.5L, 1000), 0.0632613685445149272905866L));
  CHECK(near(accuracy::polygamma<R>(5, 0.75L), 678.753342874579713608368L));
  CHECK(near(accuracy::polygamma<R>(2, 300), -1.11482098763145887313418e-5L));
  CHECK(near(accuracy::multigammaln<R>(3.25L, 3), 3.25298314169015934408915L));
  CHECK(near(accuracy::incomplete_gamma<R>(false, 2.5L, 1), 0.150854963915390363774107L));
  CHECK(near(accuracy::incomplete_gamma<R>(true, 0x1p-9L, 0.5L), 0.00109442458766170174178677L));
  const auto close = [](R have, R want) { return std::abs(have - want) <= 1e-16L * std::abs(want); };
  CHECK(close(accuracy::incomplete_gamma<R>(true, 20, 50), 4.7913573003381011448736e-7L));
  CHECK(close(accuracy::incomplete_gamma<R>(false, 800, 750), 0.0363945091152560459168439L));
  CHECK(close(accuracy::incomplete_gamma<R>(true, 800, 900), 3.25081307917822545062114e-4L));
  CHECK(near(accuracy::logaddexp2<R>(3, 2.5L), 3.77155330316361197264361L));
  CHECK(near(accuracy::gelu_tanh<R>(-3), -0.00363739208177301883781647L));
}
