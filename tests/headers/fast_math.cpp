// Compiled with -ffast-math by fast_math_test.py: what stands between the macros of config.hpp sees NaN, infinities and
// the order of additions as it is written. Prints what went wrong; returns how much.
#include <sinter/base/number_kind.hpp>
#include <sinter/ops/incomplete_gamma.hpp>
#include <sinter/ops/scalar_meaning.hpp>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <vector>

SINTER_NAMESPACE_BEGIN
namespace fast_math {
/// Numbers that no compiler knows: from bits that are read when the program runs.
struct Numbers {
  double nan, infinity, zero, minus_zero, one;
};
inline Numbers numbers() {
  volatile std::uint64_t bits[] = {0x7FF8000000000000U, 0x7FF0000000000000U, 0, 0x8000000000000000U,
                                   0x3FF0000000000000U};
  const auto read = [&](int i) { return std::bit_cast<double>(static_cast<std::uint64_t>(bits[i])); };
  return {read(0), read(1), read(2), read(3), read(4)};
}
/// Kahan's sum, which is the plain one where additions may be reordered.
inline double exact_sum(const std::vector<double>& terms) {
  double sum = 0, lost = 0;
  for (const double term : terms) {
    const double corrected = term - lost, next = sum + corrected;
    lost = (next - sum) - corrected;
    sum = next;
  }
  return sum;
}
inline int failures = 0;
inline void check(bool holds, const char* what) {
  if (holds) return;
  std::printf("wrong: %s\n", what);
  ++failures;
}

inline void test_kinds(const Numbers& n) {
  check(is_nan_number(n.nan) && !is_nan_number(n.infinity) && !is_nan_number(n.one), "is_nan_number");
  check(is_infinite_number(n.infinity) && is_infinite_number(-n.infinity) && !is_infinite_number(n.nan),
        "is_infinite_number");
  check(
      is_finite_number(n.one) && is_finite_number(n.zero) && !is_finite_number(n.nan) && !is_finite_number(n.infinity),
      "is_finite_number");
  check(has_sign_bit(n.minus_zero) && !has_sign_bit(n.zero) && has_sign_bit(-n.one), "has_sign_bit");
  const float narrow = std::bit_cast<float>(static_cast<std::uint32_t>(0xFFC00000U));
  const long double wide = n.nan, beyond = n.infinity;
  check(!is_finite_number(wide) && !is_finite_number(beyond) && !has_sign_bit(beyond), "kinds of wide numbers");
  check(is_nan_number(narrow) && !is_finite_number(narrow) && has_sign_bit(narrow), "kinds of floats");
}
inline void test_meaning(const Numbers& n) {
  using namespace scalar_meaning;
  check(is_nan_number(minimum(n.nan, n.one)) && is_nan_number(minimum(n.one, n.nan)), "NaN wins in minimum");
  check(is_nan_number(maximum(n.nan, n.one)) && is_nan_number(maximum(n.one, n.nan)), "NaN wins in maximum");
  check(has_sign_bit(minimum(n.zero, n.minus_zero)) && !has_sign_bit(maximum(n.minus_zero, n.zero)), "signs of zeros");
  check(saturated<std::int32_t>(n.nan) == 0, "NaN as an integer");
  check(saturated<std::int8_t>(n.infinity) == 127 && saturated<std::int8_t>(-n.infinity) == -128, "infinity as one");
  check(gelu_slope(n.infinity) == 1 && is_nan_number(gelu_slope(n.nan)), "gelu_slope");
  check(is_nan_number(ops_detail::incomplete_gamma(n.nan, n.one, true)), "incomplete_gamma of NaN");
  check(ops_detail::incomplete_gamma(n.one, n.infinity, true) == 0, "incomplete_gamma of infinity");
}
inline void test_order(const Numbers& n) {
  std::vector<double> terms(1000, n.one);
  terms[0] = 0x1p60;
  check(exact_sum(terms) - 0x1p60 == 1024, "the order of additions");  // 999 to the multiples of 256 that there are
  check(n.nan != n.nan && n.infinity == std::numeric_limits<double>::infinity(), "comparisons");
  check(!has_sign_bit(n.minus_zero + 0.0), "a sum of zeros");
  const std::vector<double> some{n.one, n.nan};
  check(std::any_of(some.begin(), some.end(), [](double x) { return x != x; }), "a lambda");
}
inline int run() {
  const Numbers n = numbers();
  test_kinds(n);
  test_meaning(n);
  test_order(n);
  return failures;
}
}  // namespace fast_math
SINTER_NAMESPACE_END

int main() { return sinter::fast_math::run(); }
