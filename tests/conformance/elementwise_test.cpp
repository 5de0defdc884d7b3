// Elementwise functions at the numbers where formulas fail: zeros of both signs, infinities, NaN, subnormals, the ends
// of domains and of polynomials, huge and tiny arguments. On every back end, compiled, lazy and folded.
#include "op_table.hpp"

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

using namespace sinter_test;

namespace {

using oracle::infinite;
using oracle::not_a_number;

template <class T>
std::vector<T> special_numbers() {
  using Limits = std::numeric_limits<T>;
  std::vector<T> x{Limits::quiet_NaN()};
  for (T v : {T(0),
              Limits::denorm_min(),
              T(5) * Limits::denorm_min(),
              Limits::min(),
              T(1e-30),
              T(1e-10),
              T(1e-5),
              T(0.01),
              T(0.1),
              T(0.25),
              T(0.3),
              T(0.41421356),
              T(0.5),
              T(0.55),
              T(0.75),
              T(0.9),
              T(1) - Limits::epsilon() / 2,
              T(1),
              T(1) + Limits::epsilon(),
              T(1.5),
              T(2),
              T(2.4142135),
              T(3),
              T(8),
              T(10),
              T(20),
              T(60),
              T(89),
              T(100),
              T(709),
              T(710.2),
              T(1000),
              T(1e5),
              T(16777217),
              T(1e10),
              T(1e30),
              Limits::max(),
              Limits::infinity()}) {
    x.push_back(v);
    x.push_back(-v);
  }
  return x;
}

struct UnaryCase {
  const char* name;
  Tensor (*call)(const Tensor&);
  long double (*oracle)(long double);
  double ulps;
};
/// x as in the functions' cases: f32 is judged in long double, and so is f64.
const std::vector<UnaryCase>& unary_cases() {
  static const std::vector<UnaryCase> cases{
      {"expm1", [](const Tensor& x) { return Tensor(expm1(x)); }, [](long double x) { return std::expm1(x); }, 2},
      {"exp2", [](const Tensor& x) { return Tensor(exp2(x)); }, [](long double x) { return std::exp2(x); }, 1.5},
      {"log1p", [](const Tensor& x) { return Tensor(log1p(x)); }, [](long double x) { return std::log1p(x); }, 2},
      {"log2", [](const Tensor& x) { return Tensor(log2(x)); }, [](long double x) { return std::log2(x); }, 2},
      {"log10", [](const Tensor& x) { return Tensor(log10(x)); }, [](long double x) { return std::log10(x); }, 2},
      {"tan", [](const Tensor& x) { return Tensor(tan(x)); }, [](long double x) { return std::tan(x); }, 4.5},
      {"asin", [](const Tensor& x) { return Tensor(asin(x)); }, [](long double x) { return std::asin(x); }, 1},
      {"acos", [](const Tensor& x) { return Tensor(acos(x)); }, [](long double x) { return std::acos(x); }, 1},
      {"atan", [](const Tensor& x) { return Tensor(atan(x)); }, [](long double x) { return std::atan(x); }, 2},
      {"sinh", [](const Tensor& x) { return Tensor(sinh(x)); }, [](long double x) { return std::sinh(x); }, 3},
      {"cosh", [](const Tensor& x) { return Tensor(cosh(x)); }, [](long double x) { return std::cosh(x); }, 3},
      {"asinh", [](const Tensor& x) { return Tensor(asinh(x)); }, [](long double x) { return std::asinh(x); }, 3},
      {"acosh", [](const Tensor& x) { return Tensor(acosh(x)); }, [](long double x) { return std::acosh(x); }, 3},
      {"atanh", [](const Tensor& x) { return Tensor(atanh(x)); }, [](long double x) { return std::atanh(x); }, 3},
      {"cbrt", [](const Tensor& x) { return Tensor(cbrt(x)); }, [](long double x) { return std::cbrt(x); }, 1},
      {"erfc", [](const Tensor& x) { return Tensor(erfc(x)); }, [](long double x) { return std::erfc(x); }, 5},
      {"lgamma", [](const Tensor& x) { return Tensor(lgamma(where(x < 0, 5, x))); },
       [](long double x) { return std::lgamma(x < 0 ? 5 : x); }, 6},
      {"softplus", [](const Tensor& x) { return Tensor(softplus(x)); },
       [](long double x) { return x > 11000 ? x : std::log1p(std::exp(x)); }, 3},
      {"logsigmoid", [](const Tensor& x) { return Tensor(logsigmoid(x)); },
       [](long double x) { return x < -11000 ? x : -std::log1p(std::exp(-x)); }, 3},
      {"mish", [](const Tensor& x) { return Tensor(mish(x)); },
       [](long double x) {
         if (x < -11000) return x == x ? -0.0L : x;
         const long double e = std::exp(-std::fabs(x));
         const long double p = x < 0 ? e * (e + 2) : 1 + 2 * e;
         return x * (p / (p + (x < 0 ? 2 : 2 * e * e)));
       },
       5},
  };
  return cases;
}

template <class T>
double ulps_off(T got, long double want) {
  if (std::isnan(got) || std::isnan(want)) return std::isnan(got) && std::isnan(want) ? 0 : infinite;
  const T nearest = static_cast<T>(want);
  if (nearest == 0 || std::isinf(nearest) || std::isinf(got) || got == 0) {
    if (got == nearest) return std::signbit(got) == std::signbit(nearest) ? 0 : infinite;
    if (std::isinf(got) || std::isinf(nearest)) return infinite;
  }
  int exponent = 0;
  std::frexp(want, &exponent);
  using Limits = std::numeric_limits<T>;
  const int unit = std::max(exponent, Limits::min_exponent) - Limits::digits;
  return static_cast<double>(std::ldexp(std::fabs(static_cast<long double>(got) - want), -unit));
}

template <class T>
void check_specials(const UnaryCase& row) {
  const std::vector<T> x = special_numbers<T>();
  for (const Mode& mode : modes()) {
    const std::vector<T> y =
        to_vector<T>(run_in(mode, [&](const Inputs& in) { return row.call(in[0]); }, {copy_of(x)}));
    for (std::size_t i = 0; i < x.size(); ++i) {
      INFO(row.name << "(" << x[i] << ") is " << y[i] << ", " << mode.name);
      const double off = ulps_off(y[i], row.oracle(static_cast<long double>(x[i])));
      if (!(off <= row.ulps)) CHECK(off <= row.ulps);
    }
  }
  for (std::size_t i = 0; i < x.size(); i += 5) {
    const Tensor y = jit::compile(
        [&row, v = x[i]](Tensor) { return row.call(full({2}, v, {.dtype = dtype_of<T>()})); })(Tensor(zeros({1})));
    INFO(row.name << "(" << x[i] << ") is " << y.data<T>()[0] << ", folded");
    const double off = ulps_off(y.data<T>()[0], row.oracle(static_cast<long double>(x[i])));
    if (!(off <= row.ulps)) CHECK(off <= row.ulps);
  }
}

struct BinaryCase {
  const char* name;
  Tensor (*call)(const Tensor&, const Tensor&);
  long double (*oracle)(long double, long double);
  double ulps;
};
const std::vector<BinaryCase>& binary_cases() {
  static const std::vector<BinaryCase> cases{
      {"hypot", [](const Tensor& a, const Tensor& b) { return Tensor(hypot(a, b)); },
       [](long double a, long double b) { return std::hypot(a, b); }, 1.5},
      {"atan2", [](const Tensor& a, const Tensor& b) { return Tensor(atan2(a, b)); },
       [](long double a, long double b) { return std::atan2(a, b); }, 2.5},
      {"copysign", [](const Tensor& a, const Tensor& b) { return Tensor(copysign(a, b)); },
       [](long double a, long double b) { return std::copysign(a, b); }, 0},
      {"fmod", [](const Tensor& a, const Tensor& b) { return Tensor(fmod(a, b)); },
       [](long double a, long double b) { return std::fmod(a, b); }, 0},
      {"xlogy", [](const Tensor& a, const Tensor& b) { return Tensor(xlogy(a, b)); },
       [](long double a, long double b) { return a == 0 && b == b ? 0 : a * std::log(b); }, 2.5},
      {"heaviside", [](const Tensor& a, const Tensor& b) { return Tensor(heaviside(a, b)); },
       [](long double a, long double b) { return a == 0  ? b
                                                 : a > 0 ? 1
                                                         : 0; }, 0},
  };
  return cases;
}

template <class T>
void check_special_pairs(const BinaryCase& row) {
  const std::vector<T> x = special_numbers<T>();
  std::vector<T> a, b;
  for (T p : x)
    for (T q : x) {
      a.push_back(p);
      b.push_back(q);
    }
  for (const Mode& mode : modes()) {
    const std::vector<T> y =
        to_vector<T>(run_in(mode, [&](const Inputs& in) { return row.call(in[0], in[1]); }, {copy_of(a), copy_of(b)}));
    for (std::size_t i = 0; i < a.size(); ++i) {
      const double off = ulps_off(y[i], row.oracle(static_cast<long double>(a[i]), static_cast<long double>(b[i])));
      INFO(row.name << "(" << a[i] << ", " << b[i] << ") is " << y[i] << ", " << mode.name);
      if (!(off <= row.ulps)) CHECK(off <= row.ulps);
    }
  }
}

/// The results of `run` in every mode, each of which `check` sees.
template <class T, class Run, class Check>
void in_all_modes(const Inputs& inputs, Run&& run, Check&& check) {
  for (const Mode& mode : modes()) {
    INFO(mode.name);
    check(to_vector<T>(run_in(mode, run, inputs)));
  }
}

}  // namespace

TEST_CASE("elementwise functions of one operand at special numbers") {
  for (const UnaryCase& row : unary_cases()) {
    check_specials<float>(row);
    check_specials<double>(row);
  }
}
TEST_CASE("elementwise functions of two operands at special numbers") {
  for (const BinaryCase& row : binary_cases()) {
    check_special_pairs<float>(row);
    check_special_pairs<double>(row);
  }
}

TEST_CASE("powers of two and of ten are exact") {
  std::vector<double> exponents, powers;
  for (int n = -1074; n < 1024; n += 7) {
    exponents.push_back(n);
    powers.push_back(std::ldexp(1.0, n));
  }
  const Tensor n = copy_of(exponents), p = copy_of(powers);
  in_all_modes<double>({n}, [](const Inputs& in) { return Tensor(exp2(in[0])); }, [&](auto y) { CHECK(y == powers); });
  in_all_modes<double>(
      {p}, [](const Inputs& in) { return Tensor(log2(in[0])); }, [&](auto y) { CHECK(y == exponents); });
  std::vector<double> tens, logs;
  for (int k = 0; k <= 22; ++k) {
    tens.push_back(std::pow(10.0, k));
    logs.push_back(k);
  }
  in_all_modes<double>(
      {copy_of(tens)}, [](const Inputs& in) { return Tensor(log10(in[0])); }, [&](auto y) { CHECK(y == logs); });
}

TEST_CASE("special functions at numbers that tables have") {
  struct Known {
    const char* name;
    Tensor (*call)(const Tensor&);
    double x, value;
  };
  const Known table[] = {
      {"erfinv", [](const Tensor& x) { return Tensor(erfinv(x)); }, 0.5, 0.47693627620446987},
      {"erfinv", [](const Tensor& x) { return Tensor(erfinv(x)); }, -0.9375, -1.3171503349861307},
      {"erfinv", [](const Tensor& x) { return Tensor(erfinv(x)); }, 1, infinite},
      {"erfinv", [](const Tensor& x) { return Tensor(erfinv(x)); }, 1.5, not_a_number},
      {"digamma", [](const Tensor& x) { return Tensor(digamma(x)); }, 1, -0.57721566490153286},
      {"digamma", [](const Tensor& x) { return Tensor(digamma(x)); }, 10, 2.2517525890667211},
      {"digamma", [](const Tensor& x) { return Tensor(digamma(x)); }, -0.5, 0.036489973978576520},
      {"digamma", [](const Tensor& x) { return Tensor(digamma(x)); }, -2, not_a_number},
      {"digamma", [](const Tensor& x) { return Tensor(digamma(x)); }, 0, -infinite},
      {"polygamma", [](const Tensor& x) { return polygamma(1, x); }, 1, 1.6449340668482264},
      {"polygamma", [](const Tensor& x) { return polygamma(1, x); }, -0.5, 8.9348022005446793},
      {"polygamma", [](const Tensor& x) { return polygamma(2, x); }, 1, -2.4041138063191886},
      {"polygamma", [](const Tensor& x) { return polygamma(3, x); }, 0.5, 97.409091034002437},
      {"lgamma", [](const Tensor& x) { return Tensor(lgamma(x)); }, -0.5, 1.2655121234846454},
      {"lgamma", [](const Tensor& x) { return Tensor(lgamma(x)); }, 0.5, 0.57236494292470009},
      {"lgamma", [](const Tensor& x) { return Tensor(lgamma(x)); }, -3, infinite},
      {"sinc", [](const Tensor& x) { return Tensor(sinc(x)); }, 0, 1},
      {"sinc", [](const Tensor& x) { return Tensor(sinc(x)); }, 3, 0},
      {"sinc", [](const Tensor& x) { return Tensor(sinc(x)); }, 0.5, 0.63661977236758134},
      {"i0", [](const Tensor& x) { return Tensor(i0(x)); }, 1, 1.2660658777520084},
      {"i0", [](const Tensor& x) { return Tensor(i0(x)); }, 10, 2815.7166284662544},
      {"i0e", [](const Tensor& x) { return Tensor(i0e(x)); }, -1000, 0.012617240455891257},
      {"i1", [](const Tensor& x) { return Tensor(i1(x)); }, -1, -0.56515910399248503},
      {"i1e", [](const Tensor& x) { return Tensor(i1e(x)); }, 100, 0.039744153025130253},
  };
  for (const Known& row : table)
    for (const Mode& mode : modes()) {
      INFO(row.name << "(" << row.x << "), " << mode.name);
      const auto values = to_vector<double>(
          run_in(mode, [&](const Inputs& in) { return row.call(in[0]); }, {full({5}, row.x, {.dtype = DType::f64})}));
      for (double v : values) {
        if (std::isfinite(row.value)) CHECK(v == Approx(row.value).epsilon(2e-15).margin(1e-15));
        else CHECK((std::isnan(row.value) ? std::isnan(v) : v == row.value));
      }
    }
}

TEST_CASE("kinds of numbers") {
  const std::vector<float> x{0.0f, -0.0f, 1, -2, INFINITY, -INFINITY, NAN};
  const Inputs in{copy_of(x)};
  const auto check = [&](Tensor (*f)(const Tensor&), const std::vector<bool>& want) {
    for (const Mode& mode : modes()) {
      INFO(mode.name);
      const Tensor y = run_in(mode, [f](const Inputs& i) { return cast(f(i[0]), DType::i32); }, in);
      const std::vector<int> values = to_vector<int>(y);
      CHECK(std::vector<bool>(values.begin(), values.end()) == want);
    }
  };
  check([](const Tensor& t) { return Tensor(isnan(t)); }, {false, false, false, false, false, false, true});
  check([](const Tensor& t) { return Tensor(isinf(t)); }, {false, false, false, false, true, true, false});
  check([](const Tensor& t) { return Tensor(isfinite(t)); }, {true, true, true, true, false, false, false});
  check([](const Tensor& t) { return Tensor(isposinf(t)); }, {false, false, false, false, true, false, false});
  check([](const Tensor& t) { return Tensor(isneginf(t)); }, {false, false, false, false, false, true, false});
  check([](const Tensor& t) { return Tensor(signbit(t)); }, {false, true, false, true, false, true, false});
  check([](const Tensor& t) { return Tensor(signbit(cast(where(t < 0, -1, t > 0), DType::i64))); },
        {false, false, false, true, false, true, false});
  CHECK(to_vector<bool>(isnan(tensor({1, 2}))) == std::vector<bool>{false, false});
  CHECK(to_vector<bool>(isfinite(tensor({true, false}))) == std::vector<bool>{true, true});
}

TEST_CASE("nextafter refuses f16 and bf16, which kernels compute in f32") {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    const Tensor x = cast(tensor({1.f, 2.f}), dtype), up = full({2}, 5, {.dtype = dtype});
    CHECK_THROWS_AS(Tensor(nextafter(x, up)), DTypeError);
    CHECK_THROWS_AS(Tensor(nextafter(x * 2, up)), DTypeError);
    CHECK_THROWS_AS(Tensor(nextafter(x, 5)), DTypeError);
    const auto compiled = jit::compile([](Tensor a, Tensor b) { return Tensor(nextafter(a, b)); });
    CHECK_THROWS_AS(compiled(x, up), DTypeError);
    const Tensor wide = nextafter(x, full({2}, 5.f));  // computed in f32, and f32
    CHECK(to_vector<float>(wide) == std::vector<float>{std::nextafter(1.f, 5.f), std::nextafter(2.f, 5.f)});
  }
}

TEST_CASE("exponents, neighbours and bits of floating numbers") {
  const std::vector<double> x{0.0, -0.0, 1, -1.5, 1e300, 5e-324, 2.2250738585072014e-308, -1e-310, INFINITY, NAN};
  for (const Mode& mode : modes()) {
    INFO(mode.name);
    const auto in_mode = [&](auto&& run, const Inputs& in) { return run_in(mode, run, in); };
    const auto fractions =
        to_vector<double>(in_mode([](const Inputs& in) { return frexp(in[0]).fraction; }, {copy_of(x)}));
    const auto exponents =
        to_vector<int>(in_mode([](const Inputs& in) { return frexp(in[0]).exponent; }, {copy_of(x)}));
    const auto back = to_vector<double>(in_mode(
        [](const Inputs& in) { return Tensor(ldexp(frexp(in[0]).fraction, frexp(in[0]).exponent)); }, {copy_of(x)}));
    const auto above = to_vector<double>(
        in_mode([](const Inputs& in) { return Tensor(nextafter(in[0], full({}, INFINITY, {.dtype = DType::f64}))); },
                {copy_of(x)}));
    const auto small =
        to_vector<double>(in_mode([](const Inputs& in) { return Tensor(ldexp(in[0], -1060)); }, {copy_of(x)}));
    for (std::size_t i = 0; i < x.size(); ++i) {
      INFO(x[i]);
      int exponent = 0;
      const double fraction = std::frexp(x[i], &exponent);
      CHECK(std::bit_cast<std::uint64_t>(fractions[i]) == std::bit_cast<std::uint64_t>(fraction));
      if (std::isfinite(x[i])) CHECK(exponents[i] == exponent);
      CHECK(std::bit_cast<std::uint64_t>(back[i]) == std::bit_cast<std::uint64_t>(x[i]));
      CHECK(ulps_off(above[i], std::nextafter(x[i], infinite)) == 0);
      CHECK(ulps_off(small[i], std::ldexp(x[i], -1060)) == 0);
    }
    const auto bits =
        to_vector<std::int64_t>(in_mode([](const Inputs& in) { return bitcast(in[0], DType::i64); }, {copy_of(x)}));
    for (std::size_t i = 0; i < x.size(); ++i) CHECK(bits[i] == std::bit_cast<std::int64_t>(x[i]));
    const auto round_trip = to_vector<float>(in_mode(
        [](const Inputs& in) { return bitcast(bitcast(in[0], DType::i32) ^ 1, DType::f32); }, {tensor({1.0f, -2.0f})}));
    CHECK(round_trip == std::vector<float>{std::nextafter(1.0f, 2.0f), -std::nextafter(2.0f, 3.0f)});
  }
  CHECK_THROWS_WITH(bitcast(ones({2}), DType::i64), Catch::Contains("whose elements are not those of i64"));
}

TEST_CASE("shifts and counts of bits") {
  const auto check = [](auto zero) {
    using T = decltype(zero);
    const T bits = sizeof(T) * 8, low = std::numeric_limits<T>::min(), high = std::numeric_limits<T>::max();
    std::vector<T> a, b;
    for (T x : {T(0), T(1), T(-1), T(5), T(-7), low, high, T(0x5A5A5A5A)})
      for (T n : {T(0), T(1), T(3), T(31), T(bits - 1), bits, T(bits + 5), T(-1), low}) {
        a.push_back(x);
        b.push_back(n);
      }
    const Inputs in{copy_of(a), copy_of(b)};
    const bool wide = sizeof(T) == 8;
    for (const Mode& mode : modes()) {
      INFO(mode.name << (wide ? ", i64" : ", i32"));
      const auto left = to_vector<T>(run_in(mode, [](const Inputs& i) { return Tensor(left_shift(i[0], i[1])); }, in));
      const auto right =
          to_vector<T>(run_in(mode, [](const Inputs& i) { return Tensor(right_shift(i[0], i[1])); }, in));
      const auto count = to_vector<T>(run_in(mode, [](const Inputs& i) { return Tensor(popcount(i[0])); }, in));
      for (std::size_t i = 0; i < a.size(); ++i) {
        INFO(a[i] << " by " << b[i]);
        const bool fits = b[i] >= 0 && b[i] < bits;
        CHECK(left[i] == (fits ? static_cast<T>(static_cast<std::uint64_t>(a[i]) << b[i]) : T(0)));
        CHECK(right[i] == (fits ? static_cast<T>(a[i] >> b[i]) : a[i] < 0 ? T(-1) : T(0)));
        CHECK(count[i] == std::popcount(static_cast<std::make_unsigned_t<T>>(a[i])));
      }
    }
  };
  check(std::int32_t{});
  check(std::int64_t{});
  CHECK_THROWS_AS(Tensor(left_shift(ones({2}), 1)), DTypeError);
}

TEST_CASE("formulas of elementwise functions") {
  const Tensor x = tensor({-2.f, 0.f, 3.f, INFINITY, -INFINITY, NAN});
  const float most = std::numeric_limits<float>::max();
  for (const Mode& mode : modes()) {
    INFO(mode.name);
    const auto floats_of = [&](auto&& run, const Inputs& in) { return to_vector<float>(run_in(mode, run, in)); };
    CHECK(floats_of([](const Inputs& in) { return nan_to_num(in[0]); }, {x}) ==
          std::vector<float>{-2, 0, 3, most, -most, 0});
    CHECK(floats_of([](const Inputs& in) { return nan_to_num(in[0], {.nan = 7, .posinf = 8, .neginf = 9}); }, {x}) ==
          std::vector<float>{-2, 0, 3, 8, 9, 7});
    CHECK(floats_of([](const Inputs& in) { return cast(isclose(in[0], in[0] + 1e-6), DType::f32); }, {x}) ==
          std::vector<float>{1, 0, 1, 1, 1, 0});
    CHECK(floats_of([](const Inputs& in) { return cast(isclose(in[0], in[0], {.equal_nan = true}), DType::f32); },
                    {x}) == std::vector<float>{1, 1, 1, 1, 1, 1});
    CHECK(floats_of([](const Inputs& in) { return addcmul(in[0], in[1], in[1], 2); },
                    {tensor({1.f, 2.f}), tensor({3.f, 4.f})}) == std::vector<float>{19, 34});
    CHECK(floats_of([](const Inputs& in) { return addcdiv(in[0], in[0], in[1], 2); },
                    {tensor({1.f, 2.f}), tensor({4.f, 4.f})}) == std::vector<float>{1.5, 3});
    CHECK(floats_of([](const Inputs& in) { return glu(in[0]); }, {tensor({{1.f, 2.f, 0.f, 0.f}})}) ==
          std::vector<float>{0.5, 1});
    CHECK(floats_of([](const Inputs& in) { return prelu(in[0], in[1]); },
                    {tensor({{-1.f, -1.f}, {2.f, 2.f}}), tensor({0.5f, 0.25f})}) ==
          std::vector<float>{-0.5, -0.25, 2, 2});
    CHECK(floats_of([](const Inputs& in) { return threshold(in[0], 0, 20); }, {tensor({-1.f, 0.f, 1.f})}) ==
          std::vector<float>{20, 20, 1});
    CHECK(floats_of([](const Inputs& in) { return Tensor(rrelu(in[0], 0.25, 0.75)); }, {tensor({-1.f, 1.f})}) ==
          std::vector<float>{-0.5, 1});
    CHECK(floats_of([](const Inputs& in) { return softplus(in[0], 2, 1); }, {tensor({0.f, 3.f})})[1] == 3);
    CHECK(floats_of([](const Inputs& in) { return Tensor(where(in[0] > 0, 1.5, -1.5)); }, {tensor({-1.f, 1.f})}) ==
          std::vector<float>{-1.5, 1.5});
  }
  const DivMod parts = divmod(tensor({-7, 7}), 2);
  CHECK(to_vector<int>(cast(parts.quotient, DType::i32)) == std::vector<int>{-4, 3});
  CHECK(to_vector<int>(cast(parts.remainder, DType::i32)) == std::vector<int>{1, 1});
  CHECK_THROWS_WITH(glu(ones({2, 3})), Catch::Contains("its extent must be even"));
  CHECK_THROWS_WITH(prelu(ones({2, 3}), ones({2})), Catch::Contains("one for each channel"));
}

TEST_CASE("derivatives of elementwise functions at their special points") {
  const auto slopes = [](auto f, const std::vector<double>& x) {
    return to_vector<double>(jit::grad([f](Tensor t) { return sum(f(t)); })(copy_of(x)));
  };
  const std::vector<double> zeros_of_two{0, 0};
  CHECK(slopes([](Tensor t) { return Tensor(hypot(t, t * 0)); }, {0}) == std::vector<double>{0});
  CHECK(slopes([](Tensor t) { return Tensor(atan2(t, t)); }, {0}) == std::vector<double>{0});
  CHECK(slopes([](Tensor t) { return Tensor(xlogy(t, t)); }, {1}) == std::vector<double>{1});
  CHECK(slopes([](Tensor t) { return Tensor(xlogy(t, stop_gradient(t))); }, {0}) == std::vector<double>{0});
  CHECK(slopes([](Tensor t) { return Tensor(logaddexp(t, t)); }, {-INFINITY, 3}) == std::vector<double>{1, 1});
  CHECK(slopes([](Tensor t) { return Tensor(elu(t)); }, {0, -INFINITY, INFINITY}) == std::vector<double>{1, 0, 1});
  CHECK(slopes([](Tensor t) { return Tensor(mish(t)); }, {INFINITY, -INFINITY}) == std::vector<double>{1, 0});
  CHECK(slopes([](Tensor t) { return Tensor(hardsigmoid(t)); }, {-3, 3, 0}) == std::vector<double>{0, 0, 1.0 / 6});
  CHECK(slopes([](Tensor t) { return Tensor(asinh(t)); }, {1e200}) == std::vector<double>{1e-200});
  CHECK(slopes([](Tensor t) { return Tensor(copysign(t, -1)); }, {0, 2, -2}) == std::vector<double>{0, -1, 1});
}

TEST_CASE("elementwise functions under vmap") {
  const Tensor x = copy_of(std::vector<float>{0.1f, 0.2f, 0.3f, 0.4f, 0.5f, 0.6f}, {2, 3});
  const auto f = [](Tensor t) {
    return Tensor(atan2(t, 0.3) + hypot(t, 1) + leaky_relu(t - 0.3) + log1p(t) +
                  cast(popcount(bitcast(t, DType::i32)), DType::f32));
  };
  CHECK(to_vector<float>(jit::vmap(f)(x)) == to_vector<float>(f(x)));
}
