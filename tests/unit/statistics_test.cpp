// Medians over several axes, statistics without NaN and of weighted observations, counts that need no number of bins,
// histograms, and what differences and searches take beside: against loops and NumPy's values.
#include "../catch.hpp"
#include "../checks.hpp"

#include <sinter/sinter.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

using namespace sinter;

namespace {

constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();
constexpr double infinity = std::numeric_limits<double>::infinity();
using Whole = std::vector<std::int64_t>;
using Doubles = std::vector<double>;
Whole whole(const In& x) { return to_vector<std::int64_t>(cast(x, DType::i64)); }

Tensor numbers(const Shape& shape) { return sin(reshape(arange(shape.numel()).to(DType::f64), shape) * 1.7 + 0.3); }
double lower_median(Doubles list) {
  std::sort(list.begin(), list.end());
  return list[(list.size() - 1) / 2];
}
/// The gradient of sum(f(x)^2) agrees with differences.
void check_gradient(const std::function<Tensor(Tensor)>& f, const Tensor& x) {
  const auto loss = [f](Tensor at) { return Tensor(sum(square(f(at)))); };
  Doubles at = doubles(x), slopes;
  constexpr double step = 1e-6;
  for (double& coordinate : at) {
    const double before = coordinate;
    coordinate = before + step;
    const double above = item<double>(loss(copy_of(at, x.shape())));
    coordinate = before - step;
    slopes.push_back((above - item<double>(loss(copy_of(at, x.shape())))) / (2 * step));
    coordinate = before;
  }
  CHECK(near(doubles(jit::grad(loss)(x)), slopes, 1e-6));
  CHECK(near(doubles(jit::compile(jit::grad(loss))(x)), slopes, 1e-6));
}

}  // namespace

TEST_CASE("median and nanmedian over several axes") {
  const Tensor x = numbers({2, 3, 4});
  const Doubles v = doubles(x);
  Doubles want;
  for (std::size_t j = 0; j < 3; ++j) {
    Doubles list;
    for (std::size_t i = 0; i < 2; ++i)
      for (std::size_t k = 0; k < 4; ++k) list.push_back(v[(i * 3 + j) * 4 + k]);
    want.push_back(lower_median(list));
  }
  const Tensor kept = median(x, {0, 2}, keepdim);
  CHECK(doubles(median(x, {2, 0})) == want);
  CHECK(doubles(kept) == want);
  CHECK(kept.shape() == Shape{1, 3, 1});
  CHECK(doubles(median(x, Axes{1})) == doubles(median(x, 1).values));
  CHECK(doubles(median(x, Axes{})) == doubles(median(x)));
  CHECK(median(x, Axes{}, keepdim).shape() == Shape{1, 1, 1});
  CHECK(item<double>(median(full({}, 3., {.dtype = DType::f64}), Axes{})) == 3);
  CHECK(whole(median(tensor({{4, 1}, {3, 2}}), {0, 1})) == Whole{2});

  const Tensor some = where(x > 0.9, not_a_number, x);
  CHECK(std::isnan(doubles(median(some, {0, 2}))[0]));
  want.clear();
  for (std::size_t j = 0; j < 3; ++j) {
    Doubles list;
    for (std::size_t i = 0; i < 2; ++i)
      for (std::size_t k = 0; k < 4; ++k)
        if (const double number = v[(i * 3 + j) * 4 + k]; !(number > 0.9)) list.push_back(number);
    want.push_back(lower_median(list));
  }
  CHECK(doubles(nanmedian(some, {0, 2})) == want);
  CHECK(nanmedian(some, {0, 2}, keepdim).shape() == Shape{1, 3, 1});

  check_gradient([](Tensor t) { return median(t, {0, 2}); }, x);
  check_gradient([](Tensor t) { return nanmedian(t, {0, 1}, keepdim); }, x);
  const Tensor each = jit::vmap([](Tensor t) { return median(t, {0, 1}); })(x);
  CHECK(doubles(each) == Doubles{item<double>(median(x(0))), item<double>(median(x(1)))});
  CHECK(blame_of<ShapeError>([] { median(zeros({2, 0, 3}), {1, 2}); }) == blame("median"));
  CHECK(blame_of<IndexError>([&] { nanmedian(x, {0, 0}); }) == blame("nanmedian"));
}

TEST_CASE("nanvar and nanstddev leave out NaN") {
  const Tensor x = tensor({{1., not_a_number, 4., 7.},
                           {not_a_number, 2., not_a_number, not_a_number},
                           {not_a_number, not_a_number, not_a_number, not_a_number}});
  const Doubles rows = doubles(nanvar(x, 1));
  CHECK(rows[0] == 6);
  CHECK(rows[1] == 0);
  CHECK(std::isnan(rows[2]));
  CHECK(std::isnan(doubles(nanvar(x, 1, {.correction = 1}))[1]));  // numpy.nanvar(ddof=1)
  CHECK(std::isnan(doubles(nanvar(x, 1, {.correction = 2}))[1]));
  CHECK(near(doubles(nanvar(x, 1, {.correction = 1})), {9, not_a_number, not_a_number}) == false);
  CHECK(doubles(nanvar(x(0), {}, {.correction = 1})) == Doubles{9});
  CHECK(doubles(nanstddev(x(0), {}, {.correction = 1})) == Doubles{3});
  CHECK(near(doubles(nanvar(x)), {21. / 4}));
  CHECK(nanvar(x, 1, {.keep = keepdim}).shape() == Shape{3, 1});
  const Tensor full_of_numbers = numbers({3, 4});
  CHECK(near(doubles(nanvar(full_of_numbers, 0)), doubles(var(full_of_numbers, 0))));
  CHECK(doubles(nanvar(tensor({1, 3}))) == Doubles{1});
  CHECK(nanvar(tensor({1, 3})).dtype() == DType::f32);
  CHECK(std::isnan(doubles(nanvar(zeros({0})))[0]));
  const Tensor mask = tensor({true, false, true, true});
  check_gradient([&](Tensor t) { return nanvar(where(mask, t, not_a_number), 1, {.correction = 1}); }, full_of_numbers);
  check_gradient([&](Tensor t) { return nanstddev(where(mask, t, not_a_number), {0, 1}); }, full_of_numbers);
}

TEST_CASE("cov of weighted observations") {
  const Tensor x = tensor({{1., 2., 4., 7.}, {3., -1., 0., 2.}});
  const Tensor f = tensor({1, 3, 0, 2});
  // As if the observations were there so often.
  const Tensor repeated = repeat_interleave(x, f, 1);
  CHECK(near(doubles(cov(x, {.fweights = f})), doubles(cov(repeated))));
  CHECK(near(doubles(cov(x, {.correction = 0, .fweights = f})), doubles(cov(repeated, 0))));
  const Tensor a = tensor({0.5, 1., 0.25, 2.});
  const auto weighted = [&](const Doubles& w, double freedom) {
    const Doubles v = doubles(x);
    double total = 0, mean[2] = {0, 0};
    for (std::size_t k = 0; k < 4; ++k) total += w[k];
    for (std::size_t i = 0; i < 2; ++i)
      for (std::size_t k = 0; k < 4; ++k) mean[i] += w[k] * v[i * 4 + k] / total;
    Doubles out(4);
    for (std::size_t i = 0; i < 2; ++i)
      for (std::size_t j = 0; j < 2; ++j)
        for (std::size_t k = 0; k < 4; ++k)
          out[i * 2 + j] += w[k] * (v[i * 4 + k] - mean[i]) * (v[j * 4 + k] - mean[j]) / freedom;
    return out;
  };
  // sum(w) - sum(w a) / sum(w), as numpy.cov says it.
  CHECK(near(doubles(cov(x, {.aweights = a})), weighted({0.5, 1, 0.25, 2}, 3.75 - (0.25 + 1 + 0.0625 + 4) / 3.75)));
  CHECK(near(doubles(cov(x, {.correction = 0, .aweights = a})), weighted({0.5, 1, 0.25, 2}, 3.75)));
  CHECK(
      near(doubles(cov(x, {.fweights = f, .aweights = a})), weighted({0.5, 3, 0, 4}, 7.5 - (0.25 + 3 + 0 + 8) / 7.5)));
  CHECK(near(doubles(cov(x, {.aweights = ones({4})})), doubles(cov(x))));
  CHECK(cov(x(0), {.aweights = a}).shape() == Shape{});
  check_gradient([&](Tensor t) { return cov(t, {.fweights = f, .aweights = a}); }, x);
  check_gradient([&](Tensor t) { return cov(x, {.aweights = t}); }, a);
  CHECK(blame_of<DTypeError>([&] { cov(x, {.fweights = a}); }) == blame("cov"));
  CHECK(blame_of<ShapeError>([&] { cov(x, {.aweights = ones({3})}); }) == blame("cov"));
}

TEST_CASE("bincount without a number of bins counts up to the largest number") {
  const Tensor x = tensor({3, 0, 3, 1});
  CHECK(whole(bincount(x)) == Whole{1, 1, 0, 2});
  CHECK(bincount(x).dtype() == DType::i64);
  for (const DType dtype :
       {DType::u8, DType::i8, DType::i16, DType::u16, DType::u32, DType::u64}) {  // as in PyTorch and NumPy
    CHECK(whole(bincount(x.to(dtype))) == Whole{1, 1, 0, 2});
    CHECK(whole(jit::compile([](Tensor v) { return bincount(v, 4); })(x.to(dtype))) == Whole{1, 1, 0, 2});
  }
  CHECK(whole(bincount(x, {.minlength = 6})) == Whole{1, 1, 0, 2, 0, 0});
  CHECK(whole(bincount(x, {.minlength = 2})) == Whole{1, 1, 0, 2});
  CHECK(doubles(bincount(x, {.weights = tensor({0.5, 2., 1., 4.})})) == Doubles{2, 4, 0, 1.5});
  CHECK(whole(bincount(cast(x, DType::i32))) == Whole{1, 1, 0, 2});
  CHECK(whole(bincount(reshape(x, {2, 2}))) == Whole{1, 1, 0, 2});
  CHECK(bincount(zeros({0}, {.dtype = DType::i64})).shape() == Shape{0});
  CHECK(whole(bincount(zeros({0}, {.dtype = DType::i64}), {.minlength = 2})) == Whole{0, 0});
  CHECK_THROWS_AS(whole(bincount(tensor({2, -1}))), IndexError);
  CHECK_THROWS_AS(whole(bincount(tensor({-2, -1}))), IndexError);
  CHECK(blame_of<DTypeError>([] { bincount(ones({2})); }) == blame("bincount"));
  CHECK(blame_of<TraceError>([&] { jit::compile([](Tensor y) { return bincount(y); })(x); }) == blame("bincount"));
  CHECK(has(message_of<TraceError>([&] { jit::compile([](Tensor y) { return bincount(y); })(x); }),
            "state how many numbers are counted: bincount(x, bins)"));
}

TEST_CASE("histogram: ranges of the data, edges, weights and densities") {
  const Tensor x = tensor({1., 2., 1., 4., 5., 2.5});
  SECTION("the range of the data") {
    const auto [counts, edges] = histogram(x, 4);
    CHECK(whole(counts) == Whole{2, 2, 0, 2});
    CHECK(counts.dtype() == DType::i64);
    CHECK(doubles(edges) == Doubles{1, 2, 3, 4, 5});
    CHECK(doubles(histogram(full({3}, 2.), 2).edges) == Doubles{1.5, 2, 2.5});
    CHECK(whole(histogram(full({3}, 2.), 2).counts) == Whole{0, 3});
    CHECK(doubles(histogram(zeros({0}), 2).edges) == Doubles{0, 0.5, 1});
    CHECK(whole(histogram(zeros({0}), 2).counts) == Whole{0, 0});
    CHECK(whole(histogram(tensor({1., infinity, not_a_number}), 2).counts) == Whole{0, 0});
    CHECK(whole(histogram(tensor({1., infinity, -infinity}), 2).counts) == Whole{0, 0});
    const auto f = jit::compile([](Tensor y) { return histogram(y, 4).counts; });
    CHECK(whole(f(x)) == Whole{2, 2, 0, 2});
    CHECK(whole(jit::vmap([](Tensor y) { return histogram(y, 2).counts; })(reshape(x, {2, 3}))) == Whole{2, 1, 1, 2});
  }
  SECTION("a stated range") {
    const auto [counts, edges] = histogram(x, 2, {.range = {{1., 3.}}});
    CHECK(whole(counts) == Whole{2, 2});
    CHECK(doubles(edges) == Doubles{1, 2, 3});
    CHECK(array_equal(counts, histogram(x, 2, 1, 3)));
  }
  SECTION("edges") {
    const auto [counts, edges] = histogram(x, tensor({1., 1.5, 4., 5.}));
    CHECK(whole(counts) == Whole{2, 2, 2});
    CHECK(doubles(edges) == Doubles{1, 1.5, 4, 5});
    CHECK(whole(histogram(tensor({0, 3, 1, 2, 9}), tensor({1, 2, 3})).counts) == Whole{1, 2});
    CHECK(whole(histogram(tensor({1., not_a_number, 0.}), tensor({0., 1., 1.})).counts) == Whole{1, 1});
    CHECK(whole(histogram(tensor({{1, 2}, {0, 7}}), tensor({0.5f, 1.5f, 2.5f})).counts) == Whole{1, 1});
  }
  SECTION("weights and densities") {
    const Tensor w = tensor({1., 2., 3., 4., 5., 0.5});
    const Histogram weighted = histogram(x, 4, {.weights = w});
    CHECK(doubles(weighted.counts) == Doubles{4, 2.5, 0, 9});
    CHECK(weighted.counts.dtype() == DType::f64);
    CHECK(near(doubles(histogram(x, tensor({1., 1.5, 4., 5.}), {.density = true}).counts),
               {2 / 6. / 0.5, 2 / 6. / 2.5, 2 / 6.}));
    const Histogram dense = histogram(x, 4, {.range = {{0., 8.}}, .weights = w, .density = true});
    CHECK(near({item<double>(sum(dense.counts * diff(dense.edges)))}, {1}));
    CHECK(near(doubles(dense.counts), {4 / 31., 2.5 / 31, 9 / 31., 0}));
    CHECK(histogram(tensor({1, 2}), 2, {.density = true}).counts.dtype() == DType::f32);
    check_gradient([&](Tensor t) { return histogram(x, 4, {.weights = t}).counts; }, w);
  }
  SECTION("errors") {
    CHECK(blame_of<ShapeError>([&] { histogram(x, tensor({1.})); }) == blame("histogram"));
    CHECK(blame_of<ShapeError>([&] { histogram(x, 3, {.weights = ones({2})}); }) == blame("histogram"));
    CHECK(blame_of<UserError>([&] { histogram(x, 3, {.range = {{1., 1.}}}); }) == blame("histogram"));
    CHECK(blame_of<UserError>([&] { histogram(x, x, {.range = {{0., 1.}}}); }) == blame("histogram"));
  }
}

TEST_CASE("histogramdd: ranges of the data, edges, weights and densities") {
  const Tensor x = tensor({{0., 1.}, {4., 1.}, {1., 5.}, {3., 2.}, {0., 3.}});
  const auto [counts, edges] = histogramdd(x, {2, 4});
  CHECK(whole(counts) == Whole{1, 0, 1, 1, 1, 1, 0, 0});
  CHECK(doubles(edges[0]) == Doubles{0, 2, 4});
  CHECK(doubles(edges[1]) == Doubles{1, 2, 3, 4, 5});
  CHECK(array_equal(counts, histogramdd(x, {2, 4}, {{0, 4}, {1, 5}})));
  const Tensor w = tensor({1., 2., 3., 4., 5.});
  CHECK(doubles(histogramdd(x, {2, 4}, {.weights = w}).counts) == Doubles{1, 0, 5, 3, 2, 4, 0, 0});
  const Histogramdd between =
      histogramdd(x, {tensor({0., 1., 4.}), tensor({0., 2.5, 9.})}, {.weights = w, .density = true});
  CHECK(near(doubles(between.counts), {1 / 15. / 2.5, 5 / 15. / 6.5, 6 / 15. / 7.5, 3 / 15. / 19.5}));
  CHECK(between.edges.size() == 2);
  CHECK(near(doubles(histogramdd(x, {2, 1}, {.ranges = {{0, 4}, {0, 10}}, .density = true}).counts),
             {3 / 5. / 20, 2 / 5. / 20}));
  CHECK(blame_of<ShapeError>([&] { histogramdd(x, {2}); }) == blame("histogramdd"));
  CHECK(blame_of<ShapeError>([&] { histogramdd(x, {w}); }) == blame("histogramdd"));
  CHECK(blame_of<ShapeError>([&] { histogramdd(x, {2, 2}, {.weights = ones({3})}); }) == blame("histogramdd"));
  CHECK(blame_of<UserError>([&] { histogramdd(x, {w, w}, {.ranges = {{0, 4}, {0, 10}}}); }) == blame("histogramdd"));
}

TEST_CASE("diff joins elements at the ends first") {
  const Tensor x = tensor({{1, 4, 9}, {2, 3, 5}});
  CHECK(whole(diff(x, {.prepend = 0})) == Whole{1, 3, 5, 2, 1, 2});
  CHECK(whole(diff(x, {.append = 10})) == Whole{3, 5, 1, 1, 2, 5});
  CHECK(whole(diff(x, {.axis = 0, .prepend = 0, .append = x(slice(0, 1)) * 0})) ==
        Whole{1, 4, 9, 1, -1, -4, -2, -3, -5});
  CHECK(whole(diff(x, {.times = 2, .prepend = tensor({{0, 0}, {1, 1}})})) == Whole{1, 2, 2, 1, 0, 1});
  CHECK(diff(x, {.prepend = 0.5}).dtype() == DType::f32);
  CHECK(doubles(diff(x, {.prepend = 0.5}))[0] == 0.5);
  CHECK(array_equal(diff(x, DiffOptions{}), diff(x)));
  check_gradient([](Tensor t) { return diff(t, {.axis = 0, .times = 2, .prepend = 1, .append = t * t}); },
                 numbers({2, 3}));
  CHECK_THROWS_AS(diff(x, {.prepend = ones({3, 1})}), ShapeError);
}

TEST_CASE("gradient at places and over several axes") {
  const Tensor at = tensor({0., 1., 1.5, 3.5, 4., 6.});
  // numpy.gradient([1, 2, 4, 7, 11, 16], [0, 1, 1.5, 3.5, 4, 6])
  CHECK(near(doubles(gradient(tensor({1., 2., 4., 7., 11., 16.}), at)), {1, 3, 3.5, 6.7, 6.9, 2.5}));
  const Tensor parabola = square(at) * 3 - at;  // of second order: exact inside
  const Doubles slopes = doubles(gradient(parabola, at));
  for (std::size_t i = 1; i < 5; ++i) CHECK(std::abs(slopes[i] - (6 * doubles(at)[i] - 1)) < 1e-12);
  const Tensor x = numbers({3, 4});
  CHECK(near(doubles(gradient(x, arange(3) * 2, 0)), doubles(gradient(x, 2, 0))));
  CHECK(near(doubles(gradient(x, full({}, 2., {.dtype = DType::f64}), 0)), doubles(gradient(x, 2, 0))));
  CHECK(gradient(tensor({1.f, 2.f}), tensor({0.f, 2.f})).dtype() == DType::f32);
  CHECK(doubles(gradient(tensor({1., 2.}), tensor({0., 2.}))) == Doubles{0.5, 0.5});

  const std::vector<Tensor> both = gradients(x, {1, 0}, {2, 3});
  CHECK(doubles(both[0]) == doubles(gradient(x, 2, 1)));
  CHECK(doubles(both[1]) == doubles(gradient(x, 3, 0)));
  CHECK(doubles(gradients(x, {1}, {2})[0]) == doubles(gradient(x, 2, 1)));
  const std::vector<Tensor> every = gradients(x, {}, {0.5});
  CHECK(every.size() == 2);
  CHECK(doubles(every[0]) == doubles(gradient(x, 0.5, 0)));
  CHECK(doubles(gradients(x, {-1})[0]) == doubles(gradient(x)));

  check_gradient([&](Tensor t) { return gradient(t, tensor({0., 1., 1.5, 3.}), 1); }, x);
  check_gradient([&](Tensor t) { return gradient(x(0), t); }, tensor({0., 1., 1.5, 3.}));
  CHECK(blame_of<ShapeError>([&] { gradient(x, ones({3})); }) == blame("gradient"));
  CHECK(blame_of<ShapeError>([&] { gradient(x, ones({3, 4})); }) == blame("gradient"));
  CHECK(blame_of<ShapeError>([&] { gradient(ones({1}), ones({1})); }) == blame("gradient"));
  CHECK(blame_of<UserError>([&] { gradients(x, {0, 1}, {1, 2, 3}); }) == blame("gradients"));
}

TEST_CASE("searchsorted with a sorter") {
  const Tensor list = tensor({5., 1., 3.}), x = tensor({0., 3., 4., 9.});
  CHECK(whole(searchsorted(list, x, {.sorter = argsort(list)})) == Whole{0, 1, 2, 3});
  CHECK(whole(searchsorted(list, x, {.right = true, .sorter = argsort(list)})) == Whole{0, 2, 2, 3});
  const Tensor rows = tensor({{5., 1., 3.}, {0., 9., 4.}}), queries = tensor({{2., 3.}, {4., 10.}});
  CHECK(whole(searchsorted(rows, queries, {.sorter = argsort(rows)})) == Whole{1, 1, 1, 3});
  CHECK(blame_of<ShapeError>([&] { searchsorted(list, x, {.sorter = argsort(x)}); }) == blame("searchsorted"));
}

TEST_CASE("options in empty braces are the defaults, not the number 0") {
  const Tensor x = tensor({{1., 2., 4.}, {2., 0., 5.}}), y = x * 0.5 + 1;
  CHECK(doubles(cov(x, {})) == doubles(cov(x)));
  CHECK(doubles(huber_loss(x, y, {})) == doubles(huber_loss(x, y, 1)));
  CHECK(doubles(smooth_l1_loss(x, y, {})) == doubles(smooth_l1_loss(x, y, 1)));
  CHECK(doubles(mse_loss(x, y, {})) == doubles(mse_loss(x, y)));
  CHECK(doubles(l1_loss(x, y, {})) == doubles(l1_loss(x, y)));
  const Tensor places = tensor({{0.1, 0.9}, {0.6, 0.2}});
  CHECK(doubles(histogramdd(places, {2, 2}, {.ranges = {{0, 1}, {0, 1}}}).counts) ==
        doubles(histogramdd(places, {2, 2}, {{0, 1}, {0, 1}})));
  CHECK(doubles(cov(tensor({{1., 2.}}), 2))[0] == std::numeric_limits<double>::infinity());  // as numpy.cov
  CHECK(blame_of<UserError>([] { bincount(tensor({std::numeric_limits<std::int64_t>::max()})); }) == blame("bincount"));
}
