// What each op means, written once more and naively, in double: tables of oracles with their domains and tolerances for
// the op tests. Independent of the library (standard C++ only), so that an error in a lowering cannot hide here too.
//
// Errors are counted in units of the last place (of f32 or f64) of the larger of |expected| and the row's `floor`; an
// operand must be rounded to the dtype under test before the oracle sees it. For f64 a tolerance leaves one ulp for the
// oracle itself.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numbers>
#include <span>
#include <string_view>
#include <vector>

namespace sinter_test::oracle {

inline constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();
inline constexpr double infinite = std::numeric_limits<double>::infinity();

/// Dtypes that an op takes. Booleans are the numbers 0 and 1 here.
enum class Takes : std::uint8_t { floats, numbers, numbers_and_bool, bools };
/// dtype of the result: the operands', or bool, or an index (i64).
enum class Gives : std::uint8_t { same, boolean, index };
/// Where finite differences are right: everywhere in the domain, off kinks and jumps (at integers, halves and equal
/// operands), or nowhere.
enum class Smooth : std::uint8_t { everywhere, piecewise, no };

struct Domain {
  double lo = 0, hi = 0;
};
struct Tolerance {
  double f32 = 0, f64 = 0;  // ulps
  double floor = 0;
};
inline constexpr Tolerance exact{0, 0, 0}, rounded{0.501, 0.501, 0};  // the oracle is rounded itself

// ---- elementwise ----------------------------------------------------------------------------------------------------

struct UnaryRow {
  std::string_view name;
  double (*oracle)(double);
  Domain domain;
  Tolerance tolerance;
  Takes takes = Takes::floats;
  Gives gives = Gives::same;
  Smooth smooth = Smooth::everywhere;
};

/// x * Phi(x) through erfc, which keeps its digits where 1 + erf cancels, but enlarges the rounding of its argument.
inline double gelu(double x) {
  if (x == -infinite) return -0.0;  // the limit
  const long double wide = x;
  return static_cast<double>(wide * std::erfc(-wide / std::numbers::sqrt2_v<long double>) / 2);
}

/// To the nearest integer, halves to even, whatever the rounding mode.
inline double round_half_even(double x) {
  if (!(std::abs(x) < 0x1p52)) return x;
  double below = std::floor(x), rest = x - below;
  bool up = rest > 0.5 || (rest == 0.5 && std::fmod(below, 2) != 0);
  return std::copysign(up ? below + 1 : below, x);
}

inline constexpr UnaryRow unary_rows[] = {
    {"neg", [](double x) { return -x; }, {-9, 9}, exact, Takes::numbers},
    {"abs", [](double x) { return std::abs(x); }, {-9, 9}, exact, Takes::numbers, Gives::same, Smooth::piecewise},
    {"exp", [](double x) { return std::exp(x); }, {-87, 88}, {1, 2}},
    {"log", [](double x) { return std::log(x); }, {1e-3, 1e3}, {1, 2}},
    {"sqrt", [](double x) { return std::sqrt(x); }, {1e-3, 1e3}, rounded},
    {"rsqrt", [](double x) { return 1 / std::sqrt(x); }, {1e-3, 1e3}, {2, 3}},
    {"sin", [](double x) { return std::sin(x); }, {-30, 30}, {2, 3}},
    {"cos", [](double x) { return std::cos(x); }, {-30, 30}, {2, 3}},
    {"tanh", [](double x) { return std::tanh(x); }, {-12, 12}, {2, 3}},
    {"erf", [](double x) { return std::erf(x); }, {-6, 6}, {2, 3}},
    {"sigmoid", [](double x) { return 1 / (1 + std::exp(-x)); }, {-30, 30}, {3, 4}},
    {"relu",
     [](double x) { return std::isnan(x) || x > 0 ? x : 0; },
     {-9, 9},
     exact,
     Takes::numbers,
     Gives::same,
     Smooth::piecewise},
    {"gelu", gelu, {-13, 6}, {4, 5}},
    {"floor", [](double x) { return std::floor(x); }, {-9, 9}, exact, Takes::floats, Gives::same, Smooth::piecewise},
    {"ceil", [](double x) { return std::ceil(x); }, {-9, 9}, exact, Takes::floats, Gives::same, Smooth::piecewise},
    {"round", round_half_even, {-9, 9}, exact, Takes::floats, Gives::same, Smooth::piecewise},
    {"trunc", [](double x) { return std::trunc(x); }, {-9, 9}, exact, Takes::floats, Gives::same, Smooth::piecewise},
    {"not", [](double x) { return x == 0 ? 1.0 : 0.0; }, {0, 1}, exact, Takes::bools, Gives::same, Smooth::no},
};

struct BinaryRow {
  std::string_view name;
  double (*oracle)(double, double);
  Domain a, b;
  Tolerance tolerance;
  Takes takes = Takes::numbers;
  Gives gives = Gives::same;
  Smooth smooth = Smooth::everywhere;
};

/// torch.remainder: the exact remainder, moved to the divisor's sign. A zero has the dividend's sign.
inline double rem(double a, double b) {
  const double r = std::fmod(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
/// NaN wins; -0 is less than +0.
inline double maximum(double a, double b) { return std::isnan(a) || a > b || (a == b && std::signbit(b)) ? a : b; }
inline double minimum(double a, double b) { return std::isnan(a) || a < b || (a == b && std::signbit(a)) ? a : b; }

inline constexpr BinaryRow binary_rows[] = {
    {"add", [](double a, double b) { return a + b; }, {-9, 9}, {-9, 9}, rounded},
    {"sub", [](double a, double b) { return a - b; }, {-9, 9}, {-9, 9}, rounded},
    {"mul", [](double a, double b) { return a * b; }, {-9, 9}, {-9, 9}, rounded},
    {"div", [](double a, double b) { return a / b; }, {-9, 9}, {0.5, 9}, rounded, Takes::floats},
    {"rem", rem, {-9, 9}, {1, 4}, rounded, Takes::numbers, Gives::same, Smooth::piecewise},
    {"pow", [](double a, double b) { return std::pow(a, b); }, {0.1, 9}, {-4, 4}, {2, 3}, Takes::floats},
    {"maximum", maximum, {-9, 9}, {-9, 9}, exact, Takes::numbers, Gives::same, Smooth::piecewise},
    {"minimum", minimum, {-9, 9}, {-9, 9}, exact, Takes::numbers, Gives::same, Smooth::piecewise},
    {"eq",
     [](double a, double b) { return a == b ? 1.0 : 0.0; },
     {-9, 9},
     {-9, 9},
     exact,
     Takes::numbers_and_bool,
     Gives::boolean,
     Smooth::no},
    {"ne",
     [](double a, double b) { return a != b ? 1.0 : 0.0; },
     {-9, 9},
     {-9, 9},
     exact,
     Takes::numbers_and_bool,
     Gives::boolean,
     Smooth::no},
    {"lt",
     [](double a, double b) { return a < b ? 1.0 : 0.0; },
     {-9, 9},
     {-9, 9},
     exact,
     Takes::numbers,
     Gives::boolean,
     Smooth::no},
    {"le",
     [](double a, double b) { return a <= b ? 1.0 : 0.0; },
     {-9, 9},
     {-9, 9},
     exact,
     Takes::numbers,
     Gives::boolean,
     Smooth::no},
    {"gt",
     [](double a, double b) { return a > b ? 1.0 : 0.0; },
     {-9, 9},
     {-9, 9},
     exact,
     Takes::numbers,
     Gives::boolean,
     Smooth::no},
    {"ge",
     [](double a, double b) { return a >= b ? 1.0 : 0.0; },
     {-9, 9},
     {-9, 9},
     exact,
     Takes::numbers,
     Gives::boolean,
     Smooth::no},
    {"and",
     [](double a, double b) { return a != 0 && b != 0 ? 1.0 : 0.0; },
     {0, 1},
     {0, 1},
     exact,
     Takes::bools,
     Gives::same,
     Smooth::no},
    {"or",
     [](double a, double b) { return a != 0 || b != 0 ? 1.0 : 0.0; },
     {0, 1},
     {0, 1},
     exact,
     Takes::bools,
     Gives::same,
     Smooth::no},
};

/// The first operand of `where` is bool; a and b have the tested dtype.
struct TernaryRow {
  std::string_view name;
  double (*oracle)(double, double, double);
  Domain a, b, c;
  Tolerance tolerance;
  Takes takes = Takes::numbers_and_bool;
};

inline constexpr TernaryRow ternary_rows[] = {
    {"where",
     [](double condition, double a, double b) { return condition != 0 ? a : b; },
     {0, 1},
     {-9, 9},
     {-9, 9},
     exact},
};

// ---- reductions -----------------------------------------------------------------------------------------------------

using Values = std::span<const double>;

/// An oracle over the reduced elements, in order. The error allowed is `tolerance` plus `per_element` for each of them,
/// in ulps of the larger of |expected| and `magnitude` (what rounding errors are proportional to).
struct ReductionRow {
  std::string_view name;
  double (*oracle)(Values);
  double (*magnitude)(Values);
  Domain domain;
  Tolerance tolerance;
  double per_element = 0;
  double empty = not_a_number;  // result over no elements; NaN where that is an error (or, for mean, the value)
  Takes takes = Takes::numbers;
  Gives gives = Gives::same;
  Smooth smooth = Smooth::everywhere;
};

inline double sum(Values x) {
  long double total = 0;
  for (double v : x) total += v;
  return static_cast<double>(total);
}
inline double mean(Values x) { return sum(x) / static_cast<double>(x.size()); }
inline double prod(Values x) {
  long double total = 1;
  for (double v : x) total *= v;
  return static_cast<double>(total);
}
inline double amax(Values x) {
  double best = -infinite;
  for (double v : x) best = maximum(best, v);
  return best;
}
inline double amin(Values x) {
  double best = infinite;
  for (double v : x) best = minimum(best, v);
  return best;
}
/// The first largest; the first NaN where there is one.
inline double argmax(Values x) {
  std::size_t best = 0;
  for (std::size_t i = 1; i < x.size(); ++i)
    if (!std::isnan(x[best]) && (x[i] > x[best] || std::isnan(x[i]))) best = i;
  return static_cast<double>(best);
}
inline double any(Values x) {
  return std::any_of(x.begin(), x.end(), [](double v) { return v != 0; }) ? 1 : 0;
}
inline double all(Values x) {
  return std::all_of(x.begin(), x.end(), [](double v) { return v != 0; }) ? 1 : 0;
}

inline double sum_of_sizes(Values x) {
  double total = 0;
  for (double v : x) total += std::abs(v);
  return total;
}
inline double mean_of_sizes(Values x) { return sum_of_sizes(x) / static_cast<double>(x.size()); }
inline double no_magnitude(Values) { return 0; }

/// Pairwise sums over blocks of 4096 in 64 lanes: each element passes at most about 64 + 6 + log2(n / 4096) additions,
/// of which rounding errors mostly cancel; a plain sum of few elements is covered too.
inline constexpr ReductionRow reduction_rows[] = {
    {"sum", sum, sum_of_sizes, {-2, 2}, {8, 8}, 0, 0, Takes::numbers},
    {"mean", mean, mean_of_sizes, {-2, 2}, {9, 9}, 0, not_a_number, Takes::floats},
    {"prod", prod, no_magnitude, {0.8, 1.25}, {1, 1}, 1, 1, Takes::numbers},
    {"amax", amax, no_magnitude, {-9, 9}, exact, 0, not_a_number, Takes::numbers, Gives::same, Smooth::piecewise},
    {"amin", amin, no_magnitude, {-9, 9}, exact, 0, not_a_number, Takes::numbers, Gives::same, Smooth::piecewise},
    {"argmax", argmax, no_magnitude, {-9, 9}, exact, 0, not_a_number, Takes::numbers, Gives::index, Smooth::no},
    {"any", any, no_magnitude, {0, 1}, exact, 0, 0, Takes::numbers_and_bool, Gives::boolean, Smooth::no},
    {"all", all, no_magnitude, {0, 1}, exact, 0, 1, Takes::numbers_and_bool, Gives::boolean, Smooth::no},
};

// ---- along rows, and losses -----------------------------------------------------------------------------------------

using Numbers = std::vector<double>;

/// From a row to a row of the same length.
struct RowRow {
  std::string_view name;
  Numbers (*oracle)(Values);
  Domain domain;
  Tolerance tolerance;
};

inline double log_sum_exp(Values row) {
  const double largest = amax(row);
  long double total = 0;
  for (double v : row) total += std::exp(static_cast<long double>(v) - largest);
  return static_cast<double>(largest + std::log(total));
}
inline Numbers softmax(Values row) {
  const double shift = amax(row);
  long double total = 0;
  for (double v : row) total += std::exp(static_cast<long double>(v) - shift);
  Numbers result;
  for (double v : row) result.push_back(static_cast<double>(std::exp(static_cast<long double>(v) - shift) / total));
  return result;
}
inline Numbers log_softmax(Values row) {
  const double shift = log_sum_exp(row);
  Numbers result;
  for (double v : row) result.push_back(v - shift);
  return result;
}

/// The exponent is rounded before exp sees it: an error of ulp(|x - max|) / 2 there is a relative one after it. Hence
/// the small domain. log_softmax adds and takes away numbers of the size of x, whatever is left.
inline constexpr RowRow row_rows[] = {
    {"softmax", softmax, {-4, 4}, {12, 13}},
    {"log_softmax", log_softmax, {-4, 4}, {4, 5, 8}},
};

/// (x - mean) / sqrt(var + eps) * weight + bias over rows of weight.size() elements; var divides by the row's length.
/// Rows of numbers of one size s and a deviation not below s / 10 come out within `layer_norm_tolerance`.
inline Numbers layer_norm(Values x, Values weight, Values bias, double eps) {
  const std::size_t columns = weight.size();
  Numbers result;
  for (std::size_t row = 0; row < x.size() / columns; ++row) {
    const Values values = x.subspan(row * columns, columns);
    const double centre = mean(values);
    long double squares = 0;
    for (double v : values) squares += (static_cast<long double>(v) - centre) * (static_cast<long double>(v) - centre);
    const double deviation = std::sqrt(static_cast<double>(squares / static_cast<long double>(columns)) + eps);
    for (std::size_t i = 0; i < columns; ++i) result.push_back((values[i] - centre) / deviation * weight[i] + bias[i]);
  }
  return result;
}
inline constexpr Tolerance layer_norm_tolerance{16, 17, 2};

/// Mean over the n rows of logits [n, classes] of log(sum(e^row)) - row[target].
inline double cross_entropy(Values logits, const std::vector<std::int64_t>& target) {
  const std::size_t classes = logits.size() / target.size();
  Numbers losses;
  for (std::size_t row = 0; row < target.size(); ++row) {
    const Values values = logits.subspan(row * classes, classes);
    losses.push_back(log_sum_exp(values) - values[static_cast<std::size_t>(target[row])]);
  }
  return mean(losses);
}
inline constexpr Tolerance cross_entropy_tolerance{12, 13, 4};  // logits within [-4, 4]

/// Mean of (a - b)^2.
inline double mse_loss(Values a, Values b) {
  Numbers squares;
  for (std::size_t i = 0; i < a.size(); ++i) squares.push_back((a[i] - b[i]) * (a[i] - b[i]));
  return mean(squares);
}
inline constexpr Tolerance mse_loss_tolerance{12, 12, 0};

// ---- tensors: dense, row-major --------------------------------------------------------------------------------------

using Extents = std::vector<std::int64_t>;

inline std::int64_t count(const Extents& extents) {
  std::int64_t total = 1;
  for (std::int64_t e : extents) total *= e;
  return total;
}

/// Coordinates of element `linear`.
inline Extents coordinates(std::int64_t linear, const Extents& extents) {
  Extents at(extents.size());
  for (std::size_t axis = extents.size(); axis-- > 0;) {
    at[axis] = linear % extents[axis];
    linear /= extents[axis];
  }
  return at;
}

/// NumPy's rule; the shapes must fit.
inline Extents broadcast_shape(const Extents& a, const Extents& b) {
  Extents result(std::max(a.size(), b.size()), 1);
  for (const Extents* shape : {&a, &b})
    for (std::size_t i = 0; i < shape->size(); ++i) {
      std::int64_t& extent = result[result.size() - shape->size() + i];
      if (extent == 1) extent = (*shape)[i];
    }
  return result;
}

/// The value that `x` of shape `from` has in all places of `to`.
inline Numbers broadcast(const Numbers& x, const Extents& from, const Extents& to) {
  Numbers result;
  for (std::int64_t i = 0; i < count(to); ++i) {
    const Extents at = coordinates(i, to);
    std::int64_t index = 0;
    for (std::size_t axis = 0; axis < from.size(); ++axis)
      index = index * from[axis] + (from[axis] == 1 ? 0 : at[to.size() - from.size() + axis]);
    result.push_back(x[static_cast<std::size_t>(index)]);
  }
  return result;
}

/// For each element of the result (in order, reduced axes dropped) what is reduced into it, in row-major order.
inline std::vector<Numbers> reduced_elements(const Numbers& x, const Extents& shape, const std::vector<int>& axes) {
  auto is_reduced = [&](std::size_t axis) {
    return std::find(axes.begin(), axes.end(), static_cast<int>(axis)) != axes.end();
  };
  std::int64_t results = 1;
  for (std::size_t axis = 0; axis < shape.size(); ++axis)
    if (!is_reduced(axis)) results *= shape[axis];
  std::vector<Numbers> groups(static_cast<std::size_t>(results));
  for (std::int64_t i = 0; i < count(shape); ++i) {
    const Extents at = coordinates(i, shape);
    std::int64_t group = 0;
    for (std::size_t axis = 0; axis < shape.size(); ++axis)
      if (!is_reduced(axis)) group = group * shape[axis] + at[axis];
    groups[static_cast<std::size_t>(group)].push_back(x[static_cast<std::size_t>(i)]);
  }
  return groups;
}

/// A row oracle along the last axis of a tensor with rows of `columns`.
inline Numbers along_rows(Numbers (*oracle)(Values), const Numbers& x, std::size_t columns) {
  Numbers result;
  for (std::size_t at = 0; at < x.size(); at += columns) {
    const Numbers row = oracle(Values(x).subspan(at, columns));
    result.insert(result.end(), row.begin(), row.end());
  }
  return result;
}

// ---- comparing ------------------------------------------------------------------------------------------------------

/// Distance between a result in T and the oracle's number, in ulps of T at max(|expected|, floor); 0 where both are NaN
/// or the same infinity (in T), infinite where only one is.
template <class T>
double error_in_ulps(T got, double expected, double floor = 0) {
  using Limits = std::numeric_limits<T>;
  static_assert(!Limits::is_integer, "integers are compared exactly");
  const auto is = static_cast<double>(got),
             wanted = sizeof(T) == 8 ? expected : static_cast<double>(T(static_cast<float>(expected)));
  if (std::isnan(is) || std::isnan(expected)) return std::isnan(is) && std::isnan(expected) ? 0 : infinite;
  if (std::isinf(is) || std::isinf(expected)) return is == wanted ? 0 : infinite;
  int exponent = 0;
  std::frexp(std::max(std::abs(expected), floor), &exponent);
  return std::abs(is - expected) / std::ldexp(1.0, std::max(exponent, Limits::min_exponent) - Limits::digits);
}

}  // namespace sinter_test::oracle
