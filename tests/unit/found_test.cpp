// Functions whose results have as many elements as are found, with and without a stated size: against loops, in traces,
// their gradients, under vmap, as indices, and what errors say.
#include "../catch.hpp"
#include "../checks.hpp"

#include <sinter/base/threads.hpp>
#include <sinter/sinter.hpp>

#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <vector>

using namespace sinter;

namespace {

constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();
using Whole = std::vector<std::int64_t>;
Whole whole(const In& x) { return to_vector<std::int64_t>(cast(x, DType::i64)); }

}  // namespace

TEST_CASE("nonzero and flatnonzero find what is not 0, of every dtype") {
  for (const DType dtype : {DType::bool_, DType::i32, DType::i64, DType::f32, DType::f64}) {
    INFO(name(dtype));
    const Tensor x = cast(tensor({{0, 3, 0}, {1, 0, 2}}), dtype);
    CHECK(whole(nonzero(x)) == Whole{0, 1, 1, 0, 1, 2});
    CHECK(nonzero(x).shape() == Shape{3, 2});
    CHECK(nonzero(x).dtype() == DType::i64);
    CHECK(whole(flatnonzero(x)) == Whole{1, 3, 5});
    CHECK(whole(nonzero(x.t())) == Whole{0, 1, 1, 0, 2, 1});
    CHECK(whole(flatnonzero(x, {.size = 2})) == Whole{1, 3});
    CHECK(whole(flatnonzero(x, {.size = 5, .fill = -7})) == Whole{1, 3, 5, -7, -7});
    CHECK(whole(nonzero(x, {.size = 4})) == Whole{0, 1, 1, 0, 1, 2, 0, 0});
  }
  CHECK(whole(flatnonzero(tensor({not_a_number, -0.0, 0.0}))) == Whole{0});
  CHECK(nonzero(full({}, 2)).shape() == Shape{1, 0});
  CHECK(nonzero(full({}, 0)).shape() == Shape{0, 0});
  CHECK(nonzero(zeros({0, 3})).shape() == Shape{0, 2});
  CHECK(whole(flatnonzero(zeros({0}), {.size = 2, .fill = 9})) == Whole{9, 9});
  CHECK(flatnonzero(ones({4}), {.size = 0}).shape() == Shape{0});
}

TEST_CASE("flatnonzero and unique: threads share long rows") {
  const int before = thread_count();
  const Tensor x = cast(rand({100'001}) * 300 - 150, DType::i64);
  const Whole list = whole(x);
  Whole want;
  std::map<std::int64_t, std::int64_t> counts;
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (list[i] != 0) want.push_back(static_cast<std::int64_t>(i));
    ++counts[list[i]];
  }
  for (const int threads : {1, 2, 3}) {
    set_thread_count(threads);
    CHECK(whole(flatnonzero(x)) == want);
    const Whole part(want.begin(), want.begin() + 60'000);
    CHECK(whole(flatnonzero(x, {.size = 60'000})) == part);
    const auto [values, inverse, number] = unique(x);
    Whole keys, times;
    for (const auto& [key, count] : counts) {
      keys.push_back(key);
      times.push_back(count);
    }
    CHECK(whole(values) == keys);
    CHECK(whole(number) == times);
    CHECK(array_equal(take(values, inverse), x));
  }
  set_thread_count(before);
}

TEST_CASE("masked_select and masks as indices") {
  const Tensor x = reshape(arange(12), {2, 3, 2}), row = tensor({true, false, true});
  CHECK(whole(masked_select(x, x > 8)) == Whole{9, 10, 11});
  CHECK(whole(masked_select(x, tensor({true, false}))) == Whole{0, 2, 4, 6, 8, 10});
  CHECK(whole(masked_select(tensor({1, 2}), reshape(row, {3, 1}))) == Whole{1, 2, 1, 2});
  CHECK(whole(masked_select(x, x > 8, {.size = 5, .fill = -1})) == Whole{9, 10, 11, -1, -1});
  CHECK(masked_select(x, x > 99).shape() == Shape{0});
  CHECK(whole(masked_select(zeros({0}), ones({0}) > 0, {.size = 2, .fill = 3})) == Whole{3, 3});
  CHECK(item<double>(masked_select(tensor({1.}), tensor({false}), {.size = 1, .fill = 0.1})) == 0.1);
  CHECK(
      item<std::int64_t>(masked_select(arange(1), tensor({false}), {.size = 1, .fill = (std::int64_t{1} << 60) + 1})) ==
      (std::int64_t{1} << 60) + 1);

  CHECK(whole(x(x > 8)) == Whole{9, 10, 11});
  CHECK(whole(x(all, row)) == Whole{0, 1, 4, 5, 6, 7, 10, 11});
  CHECK(x(all, row).shape() == Shape{2, 2, 2});
  CHECK(whole(x(1, row, 0)) == Whole{6, 10});
  CHECK(whole(x(x(all, all, 0) > 5)) == Whole{6, 7, 8, 9, 10, 11});
  CHECK(whole(x(tensor({false, true}), slice(1, 3), 1)) == Whole{9, 11});
  CHECK(whole(x(1, row, tensor({1, 0}))) == Whole{7, 10});  // pairs up with an index tensor
}

TEST_CASE("assigning at masks") {
  const Tensor x = reshape(arange(6), {2, 3});
  Tensor y = x;
  y.at(y > 3) = 0;
  CHECK(whole(y) == Whole{0, 1, 2, 3, 0, 0});
  y = x;
  y.at(all, tensor({true, false, true})) += 10;
  CHECK(whole(y) == Whole{10, 1, 12, 13, 4, 15});
  y = x;
  y.at(y > 3) = tensor({7, 8});
  CHECK(whole(y) == Whole{0, 1, 2, 3, 7, 8});
  y = x;
  y.at(tensor({false, true})) = tensor({{5, 6, 7}});
  CHECK(whole(y) == Whole{0, 1, 2, 5, 6, 7});
  y = x;
  y.at(y < 2) -= 1;
  CHECK(whole(y) == Whole{-1, 0, 2, 3, 4, 5});
  const auto relu_of = jit::compile([](Tensor z) {
    z.at(z < 0) = 0;
    return z;
  });
  CHECK(whole(relu_of(tensor({-1.f, 2.f}))) == Whole{0, 2});
}

TEST_CASE("unique and unique_consecutive") {
  const Tensor x = tensor({{3, 1, 3}, {3, 2, 1}});
  const auto [values, inverse, counts] = unique(x);
  CHECK(whole(values) == Whole{1, 2, 3});
  CHECK(whole(inverse) == Whole{2, 0, 2, 2, 1, 0});
  CHECK(inverse.shape() == x.shape());
  CHECK(whole(counts) == Whole{2, 1, 3});
  const auto found = unique(x, {.sorted = false});
  CHECK(whole(found.values) == Whole{3, 1, 2});
  CHECK(whole(found.inverse) == Whole{0, 1, 0, 0, 2, 1});
  CHECK(whole(found.counts) == Whole{3, 2, 1});
  const auto runs = unique_consecutive(x);
  CHECK(whole(runs.values) == Whole{3, 1, 3, 2, 1});
  CHECK(whole(runs.inverse) == Whole{0, 1, 2, 2, 3, 4});
  CHECK(whole(runs.counts) == Whole{1, 1, 2, 1, 1});
  CHECK(whole(unique(tensor({not_a_number, 1.0, not_a_number, 0.0, -0.0})).counts) == Whole{2, 1, 1, 1});
  CHECK(whole(unique(tensor({true, false, true})).values) == Whole{0, 1});
  CHECK(unique(zeros({0, 2})).values.shape() == Shape{0});
  const auto sized = unique(x, {.size = 5, .fill = -1});
  CHECK(whole(sized.values) == Whole{1, 2, 3, -1, -1});
  CHECK(whole(sized.counts) == Whole{2, 1, 3, 0, 0});
  CHECK(whole(unique(x, {.size = 2}).values) == Whole{1, 2});
  CHECK(whole(unique(zeros({0}), {.size = 2}).counts) == Whole{0, 0});
}

TEST_CASE("found: in traces with a size, on all back ends and with sizes that change") {
  for (const char* backend : {"", "reference"}) {
    const auto f = jit::compile(
        [](Tensor x) {
          const auto [values, inverse, counts] = unique(x, {.size = 4, .fill = 99});
          return std::vector<Tensor>{nonzero(x, {.size = x.numel(), .fill = -1}), masked_select(x, x > 1, {.size = 3}),
                                     values, inverse, counts};
        },
        {.backend = backend, .dynamic = jit::Dynamic::always});
    for (const Tensor& x : {tensor({0, 2, 5, 2}), tensor({1, 0, 0, 7, 7, 1, 3})}) {
      const std::vector<Tensor> got = f(x);
      const auto exact = unique(x);
      CHECK(got[0].shape() == Shape{x.numel(), 1});
      const Whole places = whole(flatnonzero(x)), sized = whole(got[0]);
      CHECK(Whole(sized.begin(), sized.begin() + static_cast<std::ptrdiff_t>(places.size())) == places);
      CHECK(sized.back() == -1);
      CHECK(whole(got[1]) == (x.numel() == 4 ? Whole{2, 5, 2} : Whole{7, 7, 3}));
      CHECK(whole(got[3]) == whole(exact.inverse));
      CHECK(whole(got[2])[0] == 0);
      CHECK(whole(sum(got[4]))[0] == x.numel().value());
    }
  }
}

TEST_CASE("found: gradients and vmap") {
  const Tensor x = tensor({{1., -2., 3.}, {-4., 5., 6.}});
  const auto squares = [](Tensor y) { return Tensor(sum(square(masked_select(y, y > 0, {.size = 5, .fill = 2})))); };
  CHECK(doubles(jit::grad(squares)(x)) == std::vector<double>{2, 0, 6, 0, 10, 12});
  CHECK(doubles(jit::grad([](Tensor y) {
          return sum(unique(y, {.size = 6}).values * tensor({1., 2., 3., 4., 5., 6.}));
        })(x)) == std::vector<double>{3, 2, 4, 1, 5, 6});
  const Tensor rows = jit::vmap([](Tensor y) { return masked_select(y, y > 0, {.size = 3, .fill = -1}); })(x);
  CHECK(doubles(rows) == std::vector<double>{1, 3, -1, 5, 6, -1});
  const Tensor counts = jit::vmap([](Tensor y) { return unique(y > 0, {.size = 2}).counts; })(x);
  CHECK(whole(counts) == Whole{1, 2, 1, 2});
  const Tensor places = jit::vmap([](Tensor y) { return nonzero(y > 0, {.size = 2}); })(x);
  CHECK(whole(places) == Whole{0, 2, 1, 2});
}

TEST_CASE("found: a trace without a size is an error that says so, on the user's line") {
  const Tensor x = ones({3});
  CHECK(blame_of<TraceError>([&] { jit::compile([](Tensor y) { return nonzero(y); })(x); }) == blame("nonzero"));
  const std::string text = message_of<TraceError>([&] { jit::compile([](Tensor y) { return unique(y).values; })(x); });
  CHECK(has(text, "unique: how many elements are found is data, and the function is traced [found_test.cpp:"));
  CHECK(has(text, "state how many there may be: unique(x, {.size = n})"));
  CHECK(blame_of<TraceError>([&] { jit::grad([](Tensor y) { return sum(masked_select(y, y > 0)); })(x); }) ==
        blame("masked_select"));
  CHECK(blame_of<TraceError>([&] { jit::vmap([](Tensor y) { return y(y > 0); })(ones({2, 2})); }) == blame("index"));
  CHECK(blame_of<TraceError>([&] { jit::compile([](Tensor y) { return flatnonzero(y); })(x); }) ==
        blame("flatnonzero"));
  CHECK(blame_of<ShapeError>([&] { x(ones({2}) > 0); }) == blame("index"));
  CHECK(blame_of<ShapeError>([&] { x(Tensor(sum(x) > 0)); }) == blame("index"));
  CHECK(blame_of<DTypeError>([&] { masked_select(x, x); }) == blame("masked_select"));
  CHECK(blame_of<ShapeError>([&] { masked_select(x, ones({2}) > 0); }) == blame("masked_select"));
  CHECK(blame_of<ShapeError>([&] { nonzero(x, {.size = -1}); }) == blame("nonzero"));
  const Tensor outside = x > 0;  // what is no value of the trace may be looked at
  CHECK(jit::compile([&](Tensor y) { return y + sum(flatnonzero(outside)); })(x).shape() == Shape{3});
}

TEST_CASE("unique slices along an axis") {
  const Tensor x = tensor({{3, 1, 2}, {0, 5, 5}, {3, 1, 2}, {3, 0, 9}, {0, 5, 5}});
  const auto [values, inverse, counts] = unique(x, {.axis = 0});
  CHECK(whole(values) == Whole{0, 5, 5, 3, 0, 9, 3, 1, 2});
  CHECK(values.shape() == Shape{3, 3});
  CHECK(whole(inverse) == Whole{2, 0, 2, 1, 0});
  CHECK(whole(counts) == Whole{2, 1, 2});
  CHECK(array_equal(unique(x.t(), {.axis = -1}).values, values.t()));
  CHECK(whole(unique(x, {.sorted = false, .axis = 0}).values) == Whole{3, 1, 2, 0, 5, 5, 3, 0, 9});
  CHECK(whole(unique(tensor({{1, 1, 0, 1}, {2, 2, 2, 2}}), {.axis = 1}).values) == Whole{0, 1, 2, 2});
  const auto runs = unique_consecutive(tensor({{1, 2}, {1, 2}, {0, 0}, {1, 2}}), {.axis = 0});
  CHECK(whole(runs.values) == Whole{1, 2, 0, 0, 1, 2});
  CHECK(whole(runs.inverse) == Whole{0, 0, 1, 2});
  CHECK(whole(runs.counts) == Whole{2, 1, 1});
  CHECK(whole(unique(tensor({2, 1, 2}), {.axis = 0}).values) == Whole{1, 2});
  CHECK(unique(zeros({0, 3}), {.axis = 0}).values.shape() == Shape{0, 3});
  CHECK(unique(zeros({4, 0}), {.axis = 0}).values.shape() == Shape{1, 0});
  CHECK(whole(unique(zeros({4, 0}), {.axis = 0}).counts) == Whole{4});
  CHECK(unique(zeros({4, 0}), {.axis = 1}).values.shape() == Shape{4, 0});
  CHECK(whole(unique(tensor({{not_a_number, 1.}, {not_a_number, 1.}}), {.axis = 0}).counts) == Whole{1, 1});
  const auto sized = unique(x, {.axis = 0, .size = 4, .fill = -1});
  CHECK(whole(sized.values) == Whole{0, 5, 5, 3, 0, 9, 3, 1, 2, -1, -1, -1});
  CHECK(whole(sized.counts) == Whole{2, 1, 2, 0});

  const Tensor many = cast(rand({300, 5}) * 2, DType::i64);  // of 32 rows
  std::map<Whole, std::int64_t> rows;
  const Whole all_of = whole(many);
  for (std::size_t i = 0; i < 300; ++i)
    ++rows[Whole(all_of.begin() + static_cast<std::ptrdiff_t>(5 * i),
                 all_of.begin() + static_cast<std::ptrdiff_t>(5 * i + 5))];
  Whole keys, times;
  for (const auto& [row, count] : rows) {
    keys.insert(keys.end(), row.begin(), row.end());
    times.push_back(count);
  }
  const auto found = unique(many, {.axis = 0});
  CHECK(whole(found.values) == keys);
  CHECK(whole(found.counts) == times);
  CHECK(array_equal(take(found.values, found.inverse), many));

  const auto f = jit::compile([](Tensor y) { return unique(y, {.axis = 0, .size = 2}).values; });
  CHECK(whole(f(x)) == Whole{0, 5, 5, 3, 0, 9});
  const auto weighted = [](Tensor y) {
    return sum(unique(y, {.axis = 0, .size = 2}).values * tensor({{1., 2.}, {3., 4.}}));
  };
  CHECK(doubles(jit::grad(weighted)(tensor({{5., 1.}, {0., 2.}}))) == std::vector<double>{3, 4, 1, 2});
  const Tensor batch = jit::vmap([](Tensor y) { return unique(y, {.axis = 0, .size = 2}).counts; })(
      tensor({1, 2, 1, 2, 3, 4, 5, 6}).reshape({2, 2, 2}));
  CHECK(whole(batch) == Whole{2, 0, 1, 1});
  CHECK(blame_of<TraceError>([&] { jit::compile([](Tensor y) { return unique(y, {.axis = 0}).values; })(x); }) ==
        blame("unique"));
  CHECK(blame_of<IndexError>([&] { unique(x, {.axis = 2}); }) == blame("unique"));
}

TEST_CASE("repeat_interleave with a count for each slice") {
  const Tensor x = tensor({{1, 2}, {3, 4}, {5, 6}}), counts = tensor({2, 0, 1});
  CHECK(whole(repeat_interleave(x, counts, 0)) == Whole{1, 2, 1, 2, 5, 6});
  CHECK(whole(repeat_interleave(x, cast(counts, DType::i32), 0)) == Whole{1, 2, 1, 2, 5, 6});
  CHECK(whole(repeat_interleave(x, tensor({1, 3}), -1)) == Whole{1, 2, 2, 2, 3, 4, 4, 4, 5, 6, 6, 6});
  CHECK(whole(repeat_interleave(tensor({7, 8}), tensor({2, 1}))) == Whole{7, 7, 8});
  CHECK(whole(repeat_interleave(x, tensor({0, 1, 0, 2, 0, 0}))) == Whole{2, 4, 4});
  CHECK(array_equal(repeat_interleave(x, tensor({2}), 0), repeat_interleave(x, 2, 0)));
  CHECK(array_equal(repeat_interleave(x, full({}, 2, {.dtype = DType::i64}), 1), repeat_interleave(x, 2, 1)));
  CHECK(repeat_interleave(x, counts * 0, 0).shape() == Shape{0, 2});
  CHECK(repeat_interleave(zeros({0, 2}), zeros({0}, {.dtype = DType::i64}), 0).shape() == Shape{0, 2});
  CHECK(whole(repeat_interleave(x, counts, 0, {.size = 4, .fill = -1})) == Whole{1, 2, 1, 2, 5, 6, -1, -1});
  CHECK(whole(repeat_interleave(x, counts, 0, {.size = 1})) == Whole{1, 2});
  CHECK(whole(repeat_interleave(zeros({0}), zeros({0}, {.dtype = DType::i64}), {.size = 2, .fill = 5})) == Whole{5, 5});
  CHECK(whole(repeat_interleave(x, tensor({1, -2, 1}), 0, {.size = 2})) == Whole{1, 2, 5, 6});

  const auto f = jit::compile([](Tensor y, Tensor n) { return repeat_interleave(y, n, 0, {.size = 3}); },
                              {.dynamic = jit::Dynamic::always});
  CHECK(whole(f(x, counts)) == Whole{1, 2, 1, 2, 5, 6});
  CHECK(whole(f(tensor({{1}, {2}}), tensor({1, 5}))) == Whole{1, 2, 2});
  CHECK(doubles(jit::grad([&](Tensor y) { return sum(square(repeat_interleave(y, counts, 0))); })(
            tensor({1., 2., 3.}))) == std::vector<double>{4, 0, 6});
  const Tensor rows = jit::vmap([](Tensor y, Tensor n) { return repeat_interleave(y, n, {.size = 3}); })(
      x, tensor({{2, 1}, {0, 3}, {1, 1}}));
  CHECK(whole(rows) == Whole{1, 1, 2, 4, 4, 4, 5, 6, 0});

  CHECK(blame_of<ShapeError>([&] { repeat_interleave(x, tensor({1, 2}), 0); }) == blame("repeat_interleave"));
  CHECK(blame_of<ShapeError>([&] { repeat_interleave(x, tensor({1, 2, -1}), 0); }) == blame("repeat_interleave"));
  CHECK(blame_of<DTypeError>([&] { repeat_interleave(x, ones({3}), 0); }) == blame("repeat_interleave"));
  CHECK(blame_of<TraceError>([&] {
          jit::compile([](Tensor y, Tensor n) { return repeat_interleave(y, n, 0); })(x, counts);
        }) == blame("repeat_interleave"));
}
