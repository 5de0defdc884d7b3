// The vector math functions over plain numbers: ulp bounds over the whole domain, exact edges, C99's table for pow, and
// the number of operations, which is their speed.
#include "../catch.hpp"

#ifndef SINTER_NO_X86

#include "../sample.hpp"
#include "plain_math_builder.hpp"

#include <sinter/backend/x86/math/math.hpp>

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numbers>
#include <random>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

namespace {

using namespace sinter::x86;
using sinter_test::PlainMathBuilder;

/// The type of the references: wider than T.
template <typename T>
using Wide = std::conditional_t<sizeof(T) == 4, double, long double>;
template <typename T>
using BitsOf = typename PlainMathBuilder<T>::Bits;
template <typename T>
constexpr T inf = std::numeric_limits<T>::infinity();
template <typename T>
constexpr T nan = std::numeric_limits<T>::quiet_NaN();
template <typename T>
constexpr T tiny = std::numeric_limits<T>::denorm_min();
template <typename T>
constexpr T huge = std::numeric_limits<T>::max();

constexpr double wrong = 1e30;

/// Distance in units of the reference's last place; `wrong` where one is NaN, infinite or of another sign of zero.
template <typename T>
double ulps(T got, Wide<T> expected) {
  using Limits = std::numeric_limits<T>;
  if (std::isnan(got) || std::isnan(expected)) return std::isnan(got) && std::isnan(expected) ? 0 : wrong;
  if (std::abs(expected) >= std::ldexp(Wide<T>(1), Limits::max_exponent))
    return got == static_cast<T>(expected) ? 0 : wrong;
  if (expected == 0) return got == 0 && std::signbit(got) == std::signbit(expected) ? 0 : wrong;
  int exponent = 0;
  std::frexp(expected, &exponent);
  const Wide<T> ulp = std::ldexp(Wide<T>(1), std::max(exponent, Limits::min_exponent) - Limits::digits);
  // An overflow stands for the power of two after the largest number.
  const Wide<T> value =
      std::isinf(got) ? std::copysign(std::ldexp(Wide<T>(1), Limits::max_exponent), Wide<T>(got)) : got;
  return static_cast<double>(std::abs(value - expected) / ulp);
}

template <typename T>
struct Worst {
  double error = 0;
  T x = 0, y = 0, got = 0;
  void see(double e, T a, T b, T result) {
    if (e > error) *this = {e, a, b, result};
  }
};

template <typename T>
struct Function {
  const char* name;
  Vec (*expand)(MathBuilder&, Vec);
  Wide<T> (*reference)(Wide<T>);
  double max_ulps;
  double limit;        // sampled for |x| up to here
  double dense_limit;  // and more densely up to here
};

template <typename T>
const std::vector<Function<T>>& functions() {
  using W = Wide<T>;
  static const std::vector<Function<T>> rows = {
      {"exp", expand_exp, [](W x) { return std::exp(x); }, 1, inf<double>, 40},
      {"log", expand_log, [](W x) { return std::log(x); }, 1, inf<double>, 3},
      {"sin", expand_sin, [](W x) { return std::sin(x); }, 2, inf<double>, 100},
      {"cos", expand_cos, [](W x) { return std::cos(x); }, 2, inf<double>, 100},
      {"tanh", expand_tanh, [](W x) { return std::tanh(x); }, 2, inf<double>, 3},
      {"erf", expand_erf, [](W x) { return std::erf(x); }, 2, inf<double>, 3},
      {"gelu", expand_gelu, [](W x) { return x * std::erfc(-x / std::numbers::sqrt2_v<W>) / 2; }, 4, inf<double>, 40},
      {"gauss", expand_gauss, [](W x) { return std::exp(-x * x / 2); }, 3, inf<double>, 40},
      {"rsqrt", expand_rsqrt, [](W x) { return 1 / std::sqrt(x); }, 2, inf<double>, 4},
  };
  return rows;
}

template <typename T>
std::vector<T> evaluate(const Function<T>& function, const std::vector<T>& in) {
  PlainMathBuilder<T> builder;
  std::vector<T> out;
  for (std::size_t at = 0; at < in.size(); at += builder.lanes) {
    const std::size_t count = std::min(builder.lanes, in.size() - at);
    builder.reset();
    const auto& values = builder.value(function.expand(builder, builder.input(std::span(in).subspan(at, count))));
    out.insert(out.end(), values.begin(), values.begin() + static_cast<std::ptrdiff_t>(count));
  }
  return out;
}

/// `count` numbers from every exponent between lo and hi (of one sign), evenly spaced in their bits.
template <typename T>
std::vector<T> spread(T lo, T hi, std::uint64_t count) {
  const std::uint64_t first = std::bit_cast<BitsOf<T>>(lo), last = std::bit_cast<BitsOf<T>>(hi);
  std::vector<T> values;
  for (std::uint64_t i = 0; i <= count; ++i)
    values.push_back(std::bit_cast<T>(static_cast<BitsOf<T>>(first + (last - first) / count * i + i % 7)));
  return values;
}

template <typename T>
Worst<T> measure(const Function<T>& function, const std::vector<T>& in) {
  Worst<T> worst;
  const std::vector<T> out = evaluate(function, in);
  for (std::size_t i = 0; i < in.size(); ++i) worst.see(ulps<T>(out[i], function.reference(in[i])), in[i], 0, out[i]);
  return worst;
}

template <typename T>
void check_function(const Function<T>& function, std::uint64_t points) {
  const T limit = std::min(static_cast<T>(function.limit), huge<T>), dense = static_cast<T>(function.dense_limit);
  for (T sign : {T(1), T(-1)}) {
    for (const std::vector<T>& in :
         {spread<T>(sign * T(0), sign * limit, points), spread<T>(sign / 1024, sign * dense, points)}) {
      const Worst<T> worst = measure(function, in);
      INFO(function.name << (sizeof(T) == 4 ? " f32" : " f64") << ": " << worst.error << " ulp at " << std::hexfloat
                         << worst.x << ", got " << worst.got);
      CHECK(worst.error <= function.max_ulps);
    }
  }
}

/// Bitwise equal, but for the payloads of NaN.
template <typename T>
bool same(T a, T b) {
  return (std::isnan(a) && std::isnan(b)) || std::bit_cast<BitsOf<T>>(a) == std::bit_cast<BitsOf<T>>(b);
}

template <typename T>
void check_edges(const char* name, const std::vector<std::pair<T, T>>& rows) {
  for (const Function<T>& function : functions<T>()) {
    if (std::string(function.name) != name) continue;
    std::vector<T> in;
    for (const auto& row : rows) in.push_back(row.first);
    const std::vector<T> out = evaluate(function, in);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      INFO(name << (sizeof(T) == 4 ? "f(" : "(") << rows[i].first << ") = " << out[i] << ", not " << rows[i].second);
      CHECK(same(out[i], rows[i].second));
    }
  }
}

template <typename T>
void check_all_edges() {
  const T i = inf<T>, n = nan<T>, o = T(0), m = -T(0), h = huge<T>, t = tiny<T>;
  check_edges<T>("exp", {{o, 1}, {m, 1}, {i, i}, {-i, o}, {n, n}, {h, i}, {-h, o}, {t, 1}, {-t, 1}});
  check_edges<T>("log", {{o, -i}, {m, -i}, {1, o}, {i, i}, {-i, n}, {n, n}, {-1, n}, {-t, n}, {-h, n}});
  check_edges<T>("sin", {{o, o}, {m, m}, {i, n}, {-i, n}, {n, n}, {t, t}, {-t, -t}});
  check_edges<T>("cos", {{o, 1}, {m, 1}, {i, n}, {-i, n}, {n, n}, {t, 1}, {-t, 1}});
  check_edges<T>("tanh",
                 {{o, o}, {m, m}, {i, 1}, {-i, -1}, {n, n}, {h, 1}, {-h, -1}, {t, t}, {-t, -t}, {40, 1}, {-40, -1}});
  check_edges<T>("erf",
                 {{o, o}, {m, m}, {i, 1}, {-i, -1}, {n, n}, {h, 1}, {-h, -1}, {t, t}, {-t, -t}, {7, 1}, {-7, -1}});
  check_edges<T>("gelu", {{o, o}, {m, m}, {i, i}, {-i, m}, {n, n}, {h, h}, {-h, m}, {-100, m}, {100, 100}});
  check_edges<T>("gauss", {{o, 1}, {m, 1}, {i, o}, {-i, o}, {n, n}, {h, o}, {-h, o}, {t, 1}});
  check_edges<T>("rsqrt", {{o, i}, {m, -i}, {1, 1}, {4, T(0.5)}, {i, o}, {-i, n}, {-1, n}, {n, n}});
}

template <typename T>
std::vector<T> evaluate_pow(const std::vector<T>& x, const std::vector<T>& y) {
  PlainMathBuilder<T> builder;
  std::vector<T> out;
  for (std::size_t at = 0; at < x.size(); at += builder.lanes) {
    const std::size_t count = std::min(builder.lanes, x.size() - at);
    builder.reset();
    const Vec base = builder.input(std::span(x).subspan(at, count)),
              exponent = builder.input(std::span(y).subspan(at, count));
    const auto& values = builder.value(expand_pow(builder, base, exponent));
    out.insert(out.end(), values.begin(), values.begin() + static_cast<std::ptrdiff_t>(count));
  }
  return out;
}

template <typename T>
Worst<T> measure_pow(const std::vector<T>& x, const std::vector<T>& y) {
  Worst<T> worst;
  const std::vector<T> out = evaluate_pow(x, y);
  for (std::size_t i = 0; i < x.size(); ++i)
    worst.see(ulps<T>(out[i], std::pow(Wide<T>(x[i]), Wide<T>(y[i]))), x[i], y[i], out[i]);
  return worst;
}

/// Results over the whole range of exponents, bases near 1 with large exponents (where the logarithm's last bits
/// count), negative bases with integral exponents, and subnormal bases.
template <typename T>
void check_pow(std::size_t count) {
  std::mt19937_64 random(20);
  auto uniform = [&](double lo, double hi) { return lo + (hi - lo) * static_cast<double>(random() >> 11) * 0x1p-53; };
  const double range = std::numeric_limits<T>::max_exponent;
  std::vector<T> x(count), y(count);
  for (int kind = 0; kind < 4; ++kind) {
    for (std::size_t i = 0; i < count; ++i) {
      if (kind == 0) x[i] = static_cast<T>(std::exp2(uniform(-range, range)));
      if (kind == 1) x[i] = static_cast<T>(std::exp2(uniform(-0.6, 0.6)));
      if (kind == 2) x[i] = static_cast<T>(uniform(-30, 30));
      if (kind == 3) x[i] = std::ldexp(static_cast<T>(uniform(0, 1)), std::numeric_limits<T>::min_exponent);
      const double log2 = std::abs(std::log2(std::abs(static_cast<double>(x[i])))) + 1e-6;
      y[i] = static_cast<T>(kind == 2 ? std::floor(uniform(-20, 20)) : uniform(-1.1, 1.1) * range / log2);
    }
    const Worst<T> worst = measure_pow(x, y);
    INFO("kind " << kind << (sizeof(T) == 4 ? " f32: " : " f64: ") << worst.error << " ulp at pow(" << std::hexfloat
                 << worst.x << ", " << worst.y << "), got " << worst.got);
    CHECK(worst.error <= 2);
  }
}

/// All pairs of special numbers against the C library, which has C99's table.
template <typename T>
void check_pow_edges() {
  const T odd = std::ldexp(T(1), std::numeric_limits<T>::digits) - 1,
          half = std::ldexp(T(1), std::numeric_limits<T>::digits - 1) - T(0.5);
  const T one = 1;
  std::vector<T> specials;
  for (T v : {T(0), one, T(2), T(3), T(0.5), T(1.5), T(1e9), T(1e-3), inf<T>, tiny<T>, huge<T>,
              std::numeric_limits<T>::min(), odd, half, std::nextafter(one, T(0)), std::nextafter(one, T(2))}) {
    specials.push_back(v);
    specials.push_back(-v);
  }
  specials.push_back(nan<T>);
  for (T x : specials) {
    const std::vector<T> out = evaluate_pow(std::vector<T>(specials.size(), x), specials);
    for (std::size_t i = 0; i < specials.size(); ++i) {
      INFO("pow(" << std::hexfloat << x << ", " << specials[i] << ") = " << out[i]);
      CHECK(ulps<T>(out[i], std::pow(Wide<T>(x), Wide<T>(specials[i]))) <= 2);
    }
  }
}

/// The derivative of gelu: right relatively but near its zero at -0.7518, where the error is one of numbers of its size
/// before they cancel.
template <typename T>
void check_gelu_slope() {
  using W = Wide<T>;
  const Function<T> function{"gelu_slope", expand_gelu_slope, nullptr, 0, 0, 0};
  const W density = std::numbers::inv_sqrtpi_v<W> / std::numbers::sqrt2_v<W>;
  Worst<T> worst;
  for (T sign : {T(1), T(-1)}) {
    const std::vector<T> in = spread<T>(sign * T(1e-6), sign * T(60), 50000), out = evaluate(function, in);
    for (std::size_t i = 0; i < in.size(); ++i) {
      const W x = in[i], expected = std::erfc(-x / std::numbers::sqrt2_v<W>) / 2 + x * density * std::exp(-x * x / 2);
      if (expected == 0) continue;
      if (std::abs(x + W(0.7518)) > W(0.4)) worst.see(ulps<T>(out[i], expected), in[i], 0, out[i]);
      else
        worst.see(static_cast<double>(std::abs(out[i] - expected)) / std::numeric_limits<T>::epsilon() * 4, in[i], 0,
                  out[i]);
    }
  }
  INFO(worst.error << " ulp at " << std::hexfloat << worst.x << ", got " << worst.got);
  CHECK(worst.error <= 5);
}

/// Arguments that lie nearest to multiples of pi / 2 among all f32 and f64 (Muller et al., Handbook of Floating-Point
/// Arithmetic, 2nd edition, section 10.2), and the largest numbers.
template <typename T>
void check_hard_remainders() {
  std::vector<T> in{huge<T>, -huge<T>, std::ldexp(T(1), std::numeric_limits<T>::max_exponent - 1)};
  if (sizeof(T) == 8) in.push_back(static_cast<T>(std::ldexp(6381956970095103.0, 797)));
  else in.push_back(std::ldexp(T(16367173), 72));
  for (const Function<T>& function : functions<T>()) {
    if (std::string(function.name) != "sin" && std::string(function.name) != "cos") continue;
    const Worst<T> worst = measure(function, in);
    INFO(function.name << ": " << worst.error << " ulp at " << std::hexfloat << worst.x << ", got " << worst.got);
    CHECK(worst.error <= 2);
  }
}

Vec exp_of_not_positive(MathBuilder& b, Vec x) { return expand_exp(b, x, Domain::not_positive); }

template <typename T>
void check_exp_of_not_positive() {
  const Function<T> all{"exp", expand_exp, nullptr, 0, 0, 0}, below{"exp", exp_of_not_positive, nullptr, 0, 0, 0};
  std::vector<T> in = spread<T>(-T(0), -huge<T>, 100000);
  for (T x : {T(0), -inf<T>, nan<T>, T(-87.5), T(-104), T(-745.2)}) in.push_back(x);
  const std::vector<T> one = evaluate(all, in), other = evaluate(below, in);
  for (std::size_t i = 0; i < in.size(); ++i) REQUIRE(same(one[i], other[i]));
}

/// f32 has no clamp there: every float whose sine, or that of what a quotient off by 0.02 leaves, might round beyond 1.
void check_sines_are_within_one() {
  const std::vector<Function<float>>& rows = functions<float>();
  const float half_pi = std::numbers::pi_v<float> / 2;
  std::vector<float> in;
  for (float x = half_pi - 0.001f; x < half_pi + 0.001f; x = std::nextafter(x, 2.f)) in.push_back(x);
  for (float x : spread(half_pi, 5e5f, 300000)) in.push_back(x);
  for (int n = 1; n < 300000; n += 7)  // next to odd multiples of pi / 2
    in.push_back(static_cast<float>((n | 1) * (std::numbers::pi / 2)));
  for (float x : spread(1e-6f, 0.001f, 100000)) in.push_back(x);  // of cosines
  for (const Function<float>& function : rows) {
    if (std::string(function.name) != "sin" && std::string(function.name) != "cos") continue;
    for (const float result : evaluate(function, in)) REQUIRE(std::abs(result) <= 1);
  }
}

template <typename T>
int operations(Vec (*expand)(MathBuilder&, Vec)) {
  PlainMathBuilder<T> builder;
  builder.reset();
  expand(builder, builder.input({}));
  return builder.operations() - 1;  // the input is none
}

/// Those of the sample (sample.hpp); by itself all.
template <class T>
void check_functions(std::uint64_t points) {
  std::size_t row = 0;
  for (const auto& function : functions<T>())
    if (sinter_test::is_in_sample(row++)) check_function(function, points);
}
}  // namespace

TEST_CASE("vector math: f32 within its ulp bounds", "[x86][math]") { check_functions<float>(1000000); }
TEST_CASE("vector math: f64 within its ulp bounds", "[x86][math]") { check_functions<double>(50000); }
TEST_CASE("vector math: zeros, infinities, NaN and subnormals", "[x86][math]") {
  check_all_edges<float>();
  check_all_edges<double>();
}
TEST_CASE("vector math: pow within its ulp bound", "[x86][math]") {
  check_pow<float>(300000);
  check_pow<double>(150000);
}
TEST_CASE("vector math: pow's special cases are C99's", "[x86][math]") {
  check_pow_edges<float>();
  check_pow_edges<double>();
}
TEST_CASE("vector math: sin and cos next to multiples of pi / 2", "[x86][math]") {
  check_hard_remainders<float>();
  check_hard_remainders<double>();
}
TEST_CASE("vector math: sines of f32 are within 1", "[x86][math]") { check_sines_are_within_one(); }
TEST_CASE("vector math: exp of what is not positive has the same bits", "[x86][math]") {
  check_exp_of_not_positive<float>();
  check_exp_of_not_positive<double>();
}
TEST_CASE("vector math: the derivative of gelu", "[x86][math]") {
  check_gelu_slope<float>();
  check_gelu_slope<double>();
}
TEST_CASE("vector math: few operations", "[x86][math]") {
  CHECK(operations<float>(expand_exp) <= 13);
  CHECK(operations<float>(exp_of_not_positive) <= 12);
  CHECK(operations<float>(expand_sin) <= 15);
  CHECK(operations<float>(expand_tanh) <= 20);
  CHECK(operations<float>(expand_erf) <= 20);
  CHECK(operations<float>(expand_gelu) <= 35);
  CHECK(operations<float>(expand_log) <= 31);
}

#endif
