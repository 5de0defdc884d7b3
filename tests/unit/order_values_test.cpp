// Rows in order where nobody reads positions: bit for bit what comes where positions are read too.
#include "../catch.hpp"
#include "../checks.hpp"

#include <sinter/sinter.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

using namespace sinter;

namespace {

enum class Content { numbers, few_numbers, zeros_and_nans };

template <class T>
T drawn(std::mt19937& random, Content content) {
  const auto number = static_cast<T>(std::uniform_real_distribution<double>(-1000, 1000)(random));
  if (content == Content::numbers) return number;
  const auto kind = static_cast<int>(random() % 12);
  if constexpr (std::is_floating_point_v<T>)
    if (content == Content::zeros_and_nans) {
      using Limits = std::numeric_limits<T>;
      const T special[] = {
          0, -T{0}, Limits::quiet_NaN(), -Limits::quiet_NaN(), Limits::infinity(), -Limits::infinity()};
      if (kind < 6) return special[kind];
    }
  return static_cast<T>(kind - 4);
}
template <class T>
std::vector<T> drawn_values(std::size_t count, Content content, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<T> out(count);
  for (T& x : out) x = drawn<T>(random, content);
  return out;
}

/// NaN last, or first where the order descends; equal ones as they come.
template <class T>
bool comes_before(T a, T b, bool descending) {
  const bool a_is_nan = a != a, b_is_nan = b != b;
  if (a_is_nan || b_is_nan) return descending ? a_is_nan && !b_is_nan : b_is_nan && !a_is_nan;
  return descending ? b < a : a < b;
}
template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

/// Of shape (outer, length, stride), along the middle axis.
template <class T>
std::vector<T> sorted_by_std(std::vector<T> x, std::int64_t length, std::int64_t stride, bool descending) {
  const auto block = static_cast<std::size_t>(length * stride), step = static_cast<std::size_t>(stride);
  std::vector<T> row(static_cast<std::size_t>(length));
  for (std::size_t begin = 0; begin < x.size(); begin += block)
    for (std::size_t at = begin; at < begin + step; ++at) {
      for (std::size_t i = 0; i < row.size(); ++i) row[i] = x[at + i * step];
      std::stable_sort(row.begin(), row.end(), [&](T a, T b) { return comes_before(a, b, descending); });
      for (std::size_t i = 0; i < row.size(); ++i) x[at + i * step] = row[i];
    }
  return x;
}

struct Rows {
  std::int64_t outer, length, stride;
};
constexpr Rows row_shapes[] = {{1, 1, 1},  {3, 1, 1},   {8, 2, 1},    {5, 7, 1},    {17, 8, 1},   {9, 9, 1},
                               {4, 63, 1}, {11, 64, 1}, {3, 100, 1},  {16, 200, 1}, {9, 1000, 1}, {3, 1025, 1},
                               {1, 33, 8}, {2, 50, 19}, {3, 20, 5},   {1, 40, 3},   {2, 300, 16}, {2, 9000, 1},
                               {1, 81, 1}, {1, 500, 1}, {1, 9001, 2}, {1, 1, 40},   {2, 130, 1},  {1, 40000, 1}};

template <class T>
void check_sort(Content content) {
  for (const Rows& rows : row_shapes)
    for (const bool descending : {false, true}) {
      const auto count = static_cast<std::size_t>(rows.outer * rows.length * rows.stride);
      const std::vector<T> x = drawn_values<T>(count, content, static_cast<unsigned>(rows.length) + descending);
      const Tensor t = copy_of(x, {rows.outer, rows.length, rows.stride});
      const Tensor values = sort(t, 1, {.descending = descending}).values;
      INFO(rows.outer << " " << rows.length << " " << rows.stride << " descending " << descending);
      CHECK(same_bits(to_vector<T>(values), sorted_by_std(x, rows.length, rows.stride, descending)));
    }
}

/// What the sorted row has where the definitions say.
template <class T>
std::vector<T> medians_by_std(const std::vector<T>& x, std::int64_t length, bool ignores_nan) {
  const std::vector<T> sorted = sorted_by_std(x, length, 1, false);
  std::vector<T> out;
  for (std::size_t begin = 0; begin < x.size(); begin += static_cast<std::size_t>(length)) {
    std::int64_t numbers = 0;
    for (std::int64_t i = 0; i < length; ++i)
      numbers += sorted[begin + static_cast<std::size_t>(i)] == sorted[begin + static_cast<std::size_t>(i)];
    const std::int64_t at = numbers == 0 || (!ignores_nan && numbers < length) ? numbers : (numbers - 1) / 2;
    out.push_back(sorted[begin + static_cast<std::size_t>(at)]);
  }
  return out;
}

template <class T>
void check_medians(Content content) {
  for (const Rows& rows : row_shapes) {
    if (rows.stride != 1) continue;
    const std::vector<T> x = drawn_values<T>(static_cast<std::size_t>(rows.outer * rows.length), content, 7);
    const Tensor t = copy_of(x, {rows.outer, rows.length});
    INFO(rows.outer << " " << rows.length);
    CHECK(same_bits(to_vector<T>(median(t, 1).values), medians_by_std(x, rows.length, false)));
    CHECK(same_bits(to_vector<T>(nanmedian(t, 1).values), medians_by_std(x, rows.length, true)));
    const std::vector<T> sorted = sorted_by_std(x, rows.length, 1, false),
                         first = to_vector<T>(kthvalue(t, 1, 1).values);
    std::vector<T> least;
    for (std::int64_t r = 0; r < rows.outer; ++r) least.push_back(sorted[static_cast<std::size_t>(r * rows.length)]);
    CHECK(same_bits(first, least));
  }
}

}  // namespace

TEST_CASE("sorted values alone: every length, stride, direction and dtype") {
  check_sort<float>(Content::numbers);
  check_sort<double>(Content::numbers);
  check_sort<std::int32_t>(Content::few_numbers);
  check_sort<std::int64_t>(Content::numbers);
  check_sort<float>(Content::few_numbers);
}

TEST_CASE("sorted values alone: zeros of both signs and NaN keep the order of their positions") {
  check_sort<float>(Content::zeros_and_nans);
  check_sort<double>(Content::zeros_and_nans);
}

TEST_CASE("sorted values alone: medians and ranks") {
  check_medians<float>(Content::numbers);
  check_medians<float>(Content::zeros_and_nans);
  check_medians<double>(Content::zeros_and_nans);
  check_medians<std::int32_t>(Content::few_numbers);
  check_medians<std::int64_t>(Content::numbers);
}

TEST_CASE("sorted values alone: the whole range of integers, and the largest and least floats") {
  using Limits = std::numeric_limits<std::int32_t>;
  std::vector<std::int32_t> x;
  std::mt19937 random(3);
  for (int i = 0; i < 4096; ++i) x.push_back(std::bit_cast<std::int32_t>(static_cast<std::uint32_t>(random())));
  x[5] = Limits::min();
  x[9] = Limits::max();
  for (const std::int64_t rows : {1, 32}) {
    const std::int64_t length = 4096 / rows;
    CHECK(to_vector<std::int32_t>(sort(copy_of(x, {rows, length})).values) == sorted_by_std(x, length, 1, false));
    std::vector<float> floats;
    for (const std::int32_t bits : x) floats.push_back(std::bit_cast<float>(bits));
    CHECK(same_bits(to_vector<float>(sort(copy_of(floats, {rows, length})).values),
                    sorted_by_std(floats, length, 1, false)));
  }
}

TEST_CASE("sorted values alone: quantiles, msort, gradients") {
  const std::vector<float> x = drawn_values<float>(40 * 9, Content::numbers, 11);
  const Tensor t = copy_of(x, {40, 9});
  CHECK(same_bits(to_vector<float>(msort(t)), sorted_by_std(x, 40, 9, false)));
  const std::vector<float> sorted = sorted_by_std(x, 9, 1, false);
  const std::vector<float> middle = to_vector<float>(quantile(t, 0.5, 1));
  for (std::size_t r = 0; r < 40; ++r) CHECK(middle[r] == sorted[r * 9 + 4]);
  const Tensor slope = jit::grad([](Tensor v) { return sum(sort(v, 1).values * arange(9, {.dtype = DType::f32})); })(t);
  const std::vector<float> places = to_vector<float>(slope);
  for (std::size_t i = 0; i < x.size(); ++i) CHECK(sorted[i / 9 * 9 + static_cast<std::size_t>(places[i])] == x[i]);
}
