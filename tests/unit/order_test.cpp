// Functions that order: rows of every length class and dtype against std::stable_sort, special values, gradients, and what
// errors say.
#include "../catch.hpp"
#include "../checks.hpp"

#include <sinter/base/threads.hpp>
#include <sinter/sinter.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

using namespace sinter;

namespace {

constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN(),
                 infinity = std::numeric_limits<double>::infinity();

std::vector<std::int64_t> whole(const In& x) { return to_vector<std::int64_t>(cast(x, DType::i64)); }

/// How the elements of a row are spread.
enum class Spread : std::uint8_t { few, narrow, whole_range, unit, special };
constexpr Spread spreads[] = {Spread::few, Spread::narrow, Spread::whole_range, Spread::unit, Spread::special};

std::vector<double> row_of(std::int64_t length, Spread spread, std::uint32_t seed) {
  std::mt19937_64 random(seed);
  std::vector<double> row;
  for (std::int64_t i = 0; i < length; ++i) {
    const auto bits = static_cast<std::int64_t>(random());
    const double unit = static_cast<double>(bits >> 11) * 0x1p-53;
    switch (spread) {
      case Spread::few: row.push_back(static_cast<double>(bits % 5)); break;
      case Spread::narrow: row.push_back(static_cast<double>(bits % 70000)); break;
      case Spread::whole_range: row.push_back(std::ldexp(unit, static_cast<int>(bits % 90))); break;
      case Spread::unit: row.push_back(unit); break;
      case Spread::special: {
        constexpr double values[] = {not_a_number, -not_a_number, infinity, -infinity, 0.0, -0.0, 1,
                                     -1,           0x1p-149,      -0x1p-149};
        row.push_back(values[static_cast<std::size_t>(bits & 0xFFFF) % std::size(values)]);
        break;
      }
    }
  }
  return row;
}

template <class T>
T converted(double x) {
  if constexpr (FloatingElement<T>) return static_cast<T>(x);
  else if constexpr (std::is_same_v<T, bool>) return x > 0;
  else if (std::isnan(x)) return 0;
  else if (x >= static_cast<double>(std::numeric_limits<T>::max())) return std::numeric_limits<T>::max();
  else if (x <= static_cast<double>(std::numeric_limits<T>::min())) return std::numeric_limits<T>::min();
  else return static_cast<T>(x);
}

template <class T>
bool precedes(T a, T b) {
  return a < b || (b != b && a == a);
}
template <class T>
std::vector<std::int64_t> order_of(std::span<const T> row, bool descending) {
  std::vector<std::int64_t> at(row.size());
  std::iota(at.begin(), at.end(), 0);
  std::stable_sort(at.begin(), at.end(), [&](std::int64_t i, std::int64_t j) {
    const T a = row[static_cast<std::size_t>(i)], b = row[static_cast<std::size_t>(j)];
    return descending ? precedes(b, a) : precedes(a, b);
  });
  return at;
}

void check_row(DType dtype, std::int64_t length, Spread spread) {
  const std::vector<double> numbers = row_of(length, spread, static_cast<std::uint32_t>(length));
  visit_dtype(dtype, [&](auto tag) {
    using T = decltype(tag);
    const auto elements = std::make_unique<T[]>(numbers.size() + 1);
    std::transform(numbers.begin(), numbers.end(), elements.get(), converted<T>);
    const std::span<const T> row(elements.get(), numbers.size());
    const Tensor x = copy_of(row, {length});
    INFO(name(dtype) << " " << length << ", spread " << static_cast<int>(spread));
    for (const bool descending : {false, true}) {
      const auto want = order_of(row, descending);
      const auto [values, indices] = sort(x, 0, {.descending = descending});
      CHECK(whole(indices) == want);
      const auto got = values.template data<T>();
      bool is_same = true;  // bit by bit: signs of zeros, too
      for (std::size_t i = 0; i < want.size(); ++i) {
        const T expected = row[static_cast<std::size_t>(want[i])];
        is_same = is_same && std::memcmp(&got[i], &expected, sizeof(T)) == 0;
      }
      CHECK(is_same);
      for (const std::int64_t count : {std::int64_t{1}, length / 40, length / 2, length}) {
        if (count > length) continue;
        const auto best = whole(topk(x, count, 0, {.largest = descending}).indices);
        CHECK(best == std::vector<std::int64_t>(want.begin(), want.begin() + count));
      }
    }
    if (length > 0)
      CHECK(item<std::int64_t>(kthvalue(x, length / 2 + 1).indices) ==
            order_of(row, false)[static_cast<std::size_t>(length / 2)]);
  });
}

}  // namespace

TEST_CASE("sort and topk: rows of every length and dtype") {
  for (const DTypeRow& each : dtype_rows)
    for (const std::int64_t length : {0, 1, 2, 3, 27, 28, 29, 79, 80, 81, 300, 1000, 5000})
      for (const Spread spread : spreads)
        if (const auto dtype = static_cast<DType>(&each - dtype_rows.data()); !is_complex(dtype) && !is_f8(dtype))
          check_row(dtype, length, spread);  // the others have no order
}

TEST_CASE("sort: threads share long rows, and the result is the same") {
  const int before = thread_count();
  for (const int threads : {1, 2, 3}) {
    set_thread_count(threads);
    for (const DType dtype : {DType::f32, DType::i64, DType::f64})
      for (const Spread spread : spreads) check_row(dtype, 40'003, spread);
  }
  set_thread_count(before);
}

TEST_CASE("sort: rows that stand across memory, and many of them") {
  for (const auto& [shape, axis] : {std::pair{Shape{300, 7}, 0}, {Shape{5, 90, 3}, 1}, {Shape{200, 150}, 1}}) {
    const Tensor x = randn(shape);
    const auto [values, indices] = sort(x, axis);
    const auto [moved, places] = sort(Tensor(movedim(x, axis, -1) + 0), -1);
    CHECK(array_equal(movedim(values, axis, -1), moved));
    CHECK(array_equal(movedim(indices, axis, -1), places));
    CHECK(array_equal(take_along_axis(x, indices, axis), values));
    CHECK(array_equal(sort(values, axis).values, values));
  }
}

TEST_CASE("order: a number is one element along axis 0 or -1") {
  const Tensor x = full({}, 3.f);
  CHECK(sort(x).values.shape() == Shape{});
  CHECK(item<std::int64_t>(argsort(x, 0)) == 0);
  CHECK(topk(x, 1).indices.rank() == 0);
  CHECK(item<float>(median(x)) == 3);
  CHECK(item<float>(mode(x).values.reshape({})) == 3);
  CHECK(blame_of<IndexError>([&] { sort(x, 1); }) == blame("sort"));
}

TEST_CASE("median, nanmedian, mode and quantile: NaN, and nothing but NaN") {
  const Tensor x =
      tensor({{1., not_a_number, 2., 3.}, {not_a_number, not_a_number, not_a_number, not_a_number}, {4., 2., 2., 1.}});
  const auto [values, indices] = median(x, 1);
  CHECK(std::isnan(doubles(values)[0]));
  CHECK(whole(indices) == std::vector<std::int64_t>{1, 0, 1});
  CHECK(whole(nanmedian(x, 1).indices) == std::vector<std::int64_t>{2, 0, 1});
  CHECK(nanmedian(x, 1, Keep::yes).values.shape() == Shape{3, 1});
  CHECK(item<double>(nanmedian(x)) == 2);
  CHECK(std::isnan(item<double>(median(x))));
  CHECK(whole(mode(x, 1).indices) == std::vector<std::int64_t>{0, 3, 2});
  const auto halves = doubles(quantile(x, 0.5, 1)), numbers = doubles(nanquantile(x, 0.5, 1));
  CHECK(std::isnan(halves[0]));
  CHECK(std::isnan(halves[1]));
  CHECK(halves[2] == 2);
  CHECK(numbers[0] == 2);
  CHECK(std::isnan(numbers[1]));
  const Tensor many = nanquantile(x, tensor({0.0, 0.5, 1.0}), {0, 1}, {.keep = Keep::yes});
  CHECK(many.shape() == Shape{3, 1, 1});
  CHECK(doubles(many) == std::vector<double>{1, 2, 4});
  CHECK(std::isnan(item<double>(quantile(tensor({1., 2.}), 1.5))));
  CHECK(doubles(quantile(tensor({-infinity, 1., infinity}), tensor({0.0, 0.25, 0.75}))) ==
        std::vector<double>{-infinity, -infinity, infinity});
}

TEST_CASE("searchsorted: rows of their own, NaN is greatest, dtypes are promoted") {
  const Tensor rows = tensor({{1., 3., 5.}, {2., 4., not_a_number}});
  CHECK(whole(searchsorted(rows, tensor({{3., 0.}, {not_a_number, 4.}}))) == std::vector<std::int64_t>{1, 0, 2, 1});
  CHECK(whole(searchsorted(rows, tensor({{3., 0.}, {not_a_number, 4.}}), {.right = true})) ==
        std::vector<std::int64_t>{2, 0, 3, 2});
  CHECK(whole(bucketize(tensor({1, 2, 9}), tensor({1.5f, 2.f}))) == std::vector<std::int64_t>{0, 1, 2});
  CHECK(item<std::int64_t>(searchsorted(tensor({1, 2, 3}), 2.5)) == 2);
  CHECK(whole(isin(tensor({1., not_a_number, 3.}), tensor({not_a_number, 3.}))) == std::vector<std::int64_t>{0, 0, 1});
  CHECK(whole(isin(arange(3), zeros({0}))) == std::vector<std::int64_t>{0, 0, 0});
}

TEST_CASE("searchsorted: as counting does, of rows and numbers of all small counts") {
  for (std::int64_t length = 0; length < 12; ++length)
    for (const std::int64_t count : {1, 7, 8, 9, 19}) {
      const Tensor row = floor_divide(arange(length) * 3, 2), rows = stack({row, row * 2}, 0);  // with repetitions
      const Tensor x = arange(count) % 17 - 1, both = stack({x, x}, 0);
      const auto before = [](const Tensor& sorted, const Tensor& numbers) {
        return sum(cast(unsqueeze(sorted, -2) < unsqueeze(numbers, -1), DType::i64), -1);
      };
      const auto up_to = [](const Tensor& sorted, const Tensor& numbers) {
        return sum(cast(unsqueeze(sorted, -2) <= unsqueeze(numbers, -1), DType::i64), -1);
      };
      INFO(length << " elements, " << count << " numbers");
      CHECK(whole(searchsorted(row, x)) == whole(before(row, x)));
      CHECK(whole(searchsorted(row, x, {.right = true})) == whole(up_to(row, x)));
      CHECK(whole(searchsorted(rows, both)) == whole(before(rows, both)));
      CHECK(whole(searchsorted(rows, both, {.right = true})) == whole(up_to(rows, both)));
    }
}

TEST_CASE("searchsorted: f32 with NaN and zeros of both signs, and u64 beyond i64, eight numbers at once") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Tensor row = tensor({-1.f, -0.f, 0.f, 0.f, 2.f, nan, nan});
  const Tensor x = tensor({nan, -0.f, 0.f, -1.f, -2.f, 2.f, 3.f, 1.f, nan, -0.f});
  CHECK(whole(searchsorted(row, x)) == std::vector<std::int64_t>{5, 1, 1, 0, 0, 4, 5, 4, 5, 1});
  CHECK(whole(searchsorted(row, x, {.right = true})) == std::vector<std::int64_t>{7, 4, 4, 1, 0, 5, 5, 4, 7, 4});
  const Tensor greatest = bitwise_not(zeros({1}, {.dtype = DType::u64})), one = ones({1}, {.dtype = DType::u64});
  const Tensor wide = concat({zeros({1}, {.dtype = DType::u64}), one, greatest - one, greatest}, 0);
  const Tensor numbers = concat({greatest, one, zeros({1}, {.dtype = DType::u64}), greatest - one, greatest - one - one,
                                 one + one, greatest, one, greatest},
                                0);
  CHECK(whole(searchsorted(wide, numbers)) == std::vector<std::int64_t>{3, 1, 0, 2, 2, 2, 3, 1, 3});
  CHECK(whole(searchsorted(wide, numbers, {.right = true})) == std::vector<std::int64_t>{4, 2, 1, 3, 2, 2, 4, 2, 4});
}

TEST_CASE("order: gradients go to where values came from, and results that nobody reads are not computed") {
  const Tensor x = tensor({{3., 1., 2.}, {5., 5., 4.}}), weights = tensor({{1., 10., 100.}});
  const auto loss = [=](Tensor y) { return Tensor(sum(sort(y).values * weights)); };
  const std::vector<double> want{100, 1, 10, 10, 100, 1};
  CHECK(doubles(jit::grad(loss)(x)) == want);
  const auto compiled = jit::compile([loss](Tensor y) { return jit::grad(loss)(y); });
  CHECK(doubles(compiled(x)) == want);
  CHECK(doubles(jit::grad([](Tensor y) { return sum(median(y, 1).values); })(x)) ==
        std::vector<double>{0, 0, 1, 1, 0, 0});
  CHECK(doubles(jit::grad([](Tensor y) { return sum(square(topk(y, 1, 0).values)); })(x)) ==
        std::vector<double>{0, 0, 0, 10, 10, 8});
  const auto values = jit::compile([](Tensor y) { return sort(y).values; });
  CHECK(has(values.explain(x).text(), "part=values"));
  const auto places = jit::compile([](Tensor y) { return argsort(y); });
  CHECK(has(places.explain(x).text(), "part=indices"));
}

TEST_CASE("order: errors name the user's line") {
  const Tensor x = ones({2, 3});
  CHECK(blame_of<ShapeError>([&] { topk(x, 4); }) == blame("topk"));
  CHECK(blame_of<ShapeError>([&] { topk(x, -1); }) == blame("topk"));
  CHECK(blame_of<ShapeError>([&] { kthvalue(x, 0); }) == blame("kthvalue"));
  CHECK(blame_of<ShapeError>([&] { median(zeros({2, 0}), 1); }) == blame("median"));
  CHECK(blame_of<IndexError>([&] { sort(x, 2); }) == blame("sort"));
  CHECK(blame_of<ShapeError>([&] { quantile(x, x); }) == blame("quantile"));
  CHECK(blame_of<ShapeError>([&] { quantile(zeros({0}), 0.5); }) == blame("quantile"));
  CHECK(blame_of<ShapeError>([&] { searchsorted(x, ones({3, 3})); }) == blame("searchsorted"));
  CHECK(blame_of<ShapeError>([&] { bucketize(x, x); }) == blame("bucketize"));
  CHECK(message_of([&] { topk(x, 4); }).find("k is 4, the axis has 3 elements") != std::string::npos);
  const auto f = jit::compile([](Tensor y) { return topk(y, y.size(0)).values; }, {.dynamic = jit::Dynamic::always});
  CHECK(f(x).shape() == Shape{2, 2});
  CHECK_THROWS_AS(f(ones({5, 3})), ShapeError);
}
