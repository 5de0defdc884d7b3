// Interpolation with a filter: axes that become a whole number of times as long are computed by phases, which must agree
// with the windows that extents known only at run time get.
#include "catch.hpp"
#include "checks.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

using namespace sinter;

namespace {

InterpolateOptions smooth(std::vector<double> scale, Interpolation mode) {
  return {.scale = std::move(scale), .mode = mode, .antialias = true};
}
/// The same by extents, which in a function with symbols for them means the windows of filtered_along.
Tensor by_size(const Tensor& x, const InterpolateOptions& options) {
  Shape size;
  for (int i = 0; i < 2; ++i) {
    const double times = options.scale[options.scale.size() == 1 ? 0 : static_cast<std::size_t>(i)];
    size.push_back(x.size(2 + i) * Dim(static_cast<std::int64_t>(times)));
  }
  return interpolate(x, {.size = size, .mode = options.mode, .antialias = true});
}
Tensor by_windows(const Tensor& x, const InterpolateOptions& options) {
  return jit::compile([&](Tensor a) { return by_size(a, options); }, {.dynamic = jit::Dynamic::always})(x);
}
Tensor slope_by_windows(const Tensor& x, const Tensor& weights, const InterpolateOptions& options) {
  const auto loss = [&](Tensor a, Tensor w) { return sum(by_size(a, options) * w); };
  return jit::compile(jit::grad(loss), {.dynamic = jit::Dynamic::always})(x, weights);
}
bool same_where_not_finite(const std::vector<double>& a, const std::vector<double>& b) {
  for (std::size_t i = 0; i < a.size(); ++i)
    if (std::isnan(a[i]) != std::isnan(b[i]) || std::isinf(a[i]) != std::isinf(b[i])) return false;
  return a.size() == b.size();
}

}  // namespace

TEST_CASE("resample: phases of a longer axis agree with windows", "[resample]") {
  for (Interpolation mode : {Interpolation::linear, Interpolation::bicubic})
    for (double times : {1.0, 2.0, 3.0, 4.0, 5.0})
      for (Shape shape : {Shape{1, 2, 5, 4}, Shape{2, 1, 2, 9}, Shape{1, 1, 3, 2}}) {
        const Tensor x = cast(rand(shape), DType::f64);
        const InterpolateOptions options = smooth({times}, mode);
        CAPTURE(times, static_cast<int>(mode), shape.text());
        CHECK(near(doubles(interpolate(x, options)), doubles(by_windows(x, options)), 1e-12));
      }
}

namespace {
/// What PyTorch's definition gives for a list: weights of all old elements for each new one, in double.
std::vector<double> by_definition(const std::vector<double>& x, std::int64_t to, Interpolation mode, bool antialias) {
  const auto from = static_cast<std::int64_t>(x.size());
  const double per = static_cast<double>(from) / static_cast<double>(to), width = antialias ? std::max(per, 1.0) : 1,
               a = antialias ? -0.5 : -0.75;
  const auto filter = [&](double t) {
    if (mode == Interpolation::linear) return std::max(0.0, 1 - t);
    return t < 1 ? ((a + 2) * t - (a + 3)) * t * t + 1 : t < 2 ? a * (((t - 5) * t + 8) * t - 4) : 0.0;
  };
  std::vector<double> out;
  for (std::int64_t i = 0; i < to; ++i) {
    const double centre = (static_cast<double>(i) + 0.5) * per;
    double sum = 0, weights = 0;
    for (std::int64_t k = -3; k < from + 3; ++k) {
      if (antialias && (k < 0 || k >= from)) continue;
      const double weight = filter(std::abs(static_cast<double>(k) + 0.5 - centre) / width);
      sum += weight * x[static_cast<std::size_t>(std::min(std::max<std::int64_t>(k, 0), from - 1))];
      weights += weight;
    }
    out.push_back(sum / weights);
  }
  return out;
}
}  // namespace

TEST_CASE("resample: axes of every ratio agree with the definition", "[resample]") {
  std::vector<double> numbers;
  for (int i = 0; i < 24; ++i) numbers.push_back(i * 29 % 83 / 41.0 - 1);
  for (const std::int64_t from : {1, 2, 3, 4, 6, 8, 12, 24})
    for (const std::int64_t to : {1, 2, 3, 4, 5, 8, 9, 12, 16, 18})
      for (const bool antialias : {false, true}) {
        const std::vector<double> row(numbers.begin(), numbers.begin() + from);
        const Tensor x = copy_of(row);
        INFO(from << " to " << to << (antialias ? " antialiased" : ""));
        const auto wide = interpolate(reshape(x, {1, 1, 1, from}),
                                      {.size = {1, to}, .mode = Interpolation::bicubic, .antialias = antialias});
        CHECK(near(doubles(wide), by_definition(row, to, Interpolation::bicubic, antialias), 1e-12));
        const auto tall = interpolate(reshape(x, {1, 1, from, 1}),
                                      {.size = {to, 1}, .mode = Interpolation::linear, .antialias = antialias});
        CHECK(near(doubles(tall), by_definition(row, to, Interpolation::linear, antialias), 1e-12));
      }
}

TEST_CASE("resample: a shorter axis by phases, compiled, narrow, with gradients and under vmap", "[resample]") {
  const Tensor x = reshape(arange(2 * 3 * 8 * 12) * 29 % 83, {2, 3, 8, 12}).to(DType::f32) / 41;
  for (const bool antialias : {false, true})
    for (const Interpolation mode : {Interpolation::linear, Interpolation::bicubic}) {
      const InterpolateOptions half{.scale = {0.5, 0.75}, .mode = mode, .antialias = antialias},
          any{.size = {5, 7}, .mode = mode, .antialias = antialias};
      for (const InterpolateOptions& options : {half, any}) {
        const auto f = [&](Tensor a) { return interpolate(a, options); };
        const std::vector<double> wanted = doubles(f(x));
        CHECK(near(doubles(jit::compile(f)(x)), wanted, 1e-6));
        CHECK(near(doubles(jit::compile(f, {.backend = "reference"})(x)), wanted, 1e-6));
        const Tensor rounded = x.to(DType::bf16);
        CHECK(near(doubles(f(rounded)), doubles(f(rounded.to(DType::f32))), 0.02));
        const auto each = jit::vmap([&](Tensor a) { return interpolate(unsqueeze(a, 0), options); });
        CHECK(near(doubles(each(x)), wanted, 1e-6));
        // The map is linear: <w, f(x)> is <gradient, x>.
        const Tensor w = cos(f(x) * 3);
        const Tensor slope = jit::grad([&](Tensor a) { return sum(f(a) * w); })(x);
        CHECK(std::abs(item<float>(sum(slope * x)) - item<float>(sum(w * f(x)))) < 1e-3);
      }
      // A row that is not finite reaches what its windows cover: the same in all columns of the result.
      Tensor odd = x + 0;
      for (int column = 0; column < 12; ++column) odd.at(1, 2, 4, column) = std::numeric_limits<float>::quiet_NaN();
      const std::vector<double> reached = doubles(isnan(interpolate(odd, any)));
      const Tensor rows = interpolate(reshape(odd(1, 2, all, slice(0, 1)), {1, 1, 8, 1}),
                                      {.size = {5, 1}, .mode = mode, .antialias = antialias});
      const std::vector<double> wanted = doubles(isnan(rows));
      CHECK(std::count(wanted.begin(), wanted.end(), 1.0) > 0);
      CHECK(std::count(wanted.begin(), wanted.end(), 0.0) > 0);
      for (std::size_t k = 0; k < reached.size(); ++k) CHECK(reached[k] == (k < 5 * 35 ? 0 : wanted[(k - 5 * 35) / 7]));
    }
}

TEST_CASE("resample: places of long axes of bf16 and f16 are exact", "[resample]") {
  for (const DType dtype : {DType::bf16, DType::f16})
    for (const Interpolation mode : {Interpolation::linear, Interpolation::bicubic}) {
      const Tensor x = (arange(3000) % 2).to(dtype);  // each step counts
      const auto f = [&](const Tensor& a) {
        return interpolate(reshape(a, {1, 1, 1, 3000}), {.size = {1, 1999}, .mode = mode});
      };
      CHECK(near(doubles(f(x)), doubles(f(x.to(DType::f32))), 0.004));
    }
}

TEST_CASE("resample: one element becomes several", "[resample]") {
  for (Interpolation mode : {Interpolation::linear, Interpolation::bicubic})
    CHECK(near(doubles(interpolate(full({1, 1, 1, 1}, 3.0), smooth({4, 2}, mode))), std::vector<double>(8, 3.0), 1e-6));
}

TEST_CASE("resample: what is not finite stays in its windows, forward and backward", "[resample]") {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  for (Interpolation mode : {Interpolation::linear, Interpolation::bicubic})
    for (double times : {2.0, 4.0})
      for (float odd : {nan, inf})
        for (int place : {0, 3, 8}) {
          Tensor x = rand({1, 1, 1, 9});
          x.at(0, 0, 0, place) = odd;
          const InterpolateOptions options = smooth({1, times}, mode);
          CAPTURE(times, static_cast<int>(mode), odd, place);
          CHECK(same_where_not_finite(doubles(interpolate(x, options)), doubles(by_windows(x, options))));
          Tensor weights = rand({1, 1, 1, static_cast<int>(9 * times)});
          weights.at(0, 0, 0, place) = odd;
          const auto slope = jit::grad([&](Tensor a) { return sum(interpolate(a, options) * weights); });
          const Tensor finite = rand({1, 1, 1, 9});
          CHECK(same_where_not_finite(doubles(slope(finite)), doubles(slope_by_windows(finite, weights, options))));
        }
}

namespace {

/// PyTorch's definition of both nearest modes, in f32 or f64, of one axis.
template <class Real = float>
std::vector<std::int64_t> nearest_places(std::int64_t from, std::int64_t to, bool is_exact, double scale) {
  const Real per = scale > 0 ? static_cast<Real>(1 / scale) : static_cast<Real>(from) / static_cast<Real>(to);
  std::vector<std::int64_t> places;
  for (std::int64_t i = 0; i < to; ++i) {
    const Real place = std::floor((static_cast<Real>(i) + static_cast<Real>(is_exact ? 0.5 : 0)) * per);
    places.push_back(std::min(from - 1, static_cast<std::int64_t>(place)));
  }
  return places;
}
/// A picture [1, c, h, w] at new rows and columns.
std::vector<double> taken(const Tensor& x, const std::vector<std::int64_t>& rows,
                          const std::vector<std::int64_t>& columns) {
  const std::vector<double> all_of = doubles(x);
  const auto width = x.shape()[3].value(), height = x.shape()[2].value();
  std::vector<double> out;
  for (std::int64_t c = 0; c < x.shape()[1].value(); ++c)
    for (std::int64_t row : rows)
      for (std::int64_t column : columns)
        out.push_back(all_of[static_cast<std::size_t>((c * height + row) * width + column)]);
  return out;
}

}  // namespace

TEST_CASE("resample: nearest pixels, as views, constants and formulas", "[resample]") {
  struct Size {
    std::int64_t from[2], to[2];
  };
  for (const Size& size :
       {Size{{8, 12}, {4, 4}}, Size{{4, 6}, {8, 18}}, Size{{7, 9}, {5, 4}}, Size{{5, 3}, {7, 11}}, Size{{6, 5}, {6, 3}},
        Size{{6, 5}, {2, 7}}, Size{{1, 4}, {3, 1}}, Size{{41, 49}, {41 * 41, 49 * 3}}, Size{{9, 7}, {1, 1}}})
    for (const bool is_exact : {false, true}) {
      CAPTURE(size.from[0], size.from[1], size.to[0], size.to[1], is_exact);
      const Tensor x =
          reshape(arange(2 * size.from[0] * size.from[1], {.dtype = DType::i32}), {1, 2, size.from[0], size.from[1]});
      const InterpolateOptions options{.size = {size.to[0], size.to[1]},
                                       .mode = is_exact ? Interpolation::nearest_exact : Interpolation::nearest};
      const auto f = [options](Tensor a) { return interpolate(a, options); };
      const std::vector<double> want = taken(x, nearest_places(size.from[0], size.to[0], is_exact, 0),
                                             nearest_places(size.from[1], size.to[1], is_exact, 0));
      CHECK(doubles(f(x)) == want);
      CHECK(doubles(jit::compile(f)(x)) == want);
      CHECK(doubles(jit::compile(f, {.backend = "reference"})(x)) == want);
      CHECK(doubles(jit::compile(f, {.dynamic = jit::Dynamic::always})(x)) == want);
      CHECK(doubles(f(cast(x, DType::f64))) == taken(x, nearest_places<double>(size.from[0], size.to[0], is_exact, 0),
                                                     nearest_places<double>(size.from[1], size.to[1], is_exact, 0)));
      const Tensor sliced =
          pad(x, {{0, 0}, {0, 0}, {1, 1}, {2, 1}})(all, all, slice(1, size.from[0] + 1), slice(2, size.from[1] + 2));
      CHECK(doubles(jit::compile(f)(sliced)) == want);
    }
  const Tensor x = cast(reshape(arange(30), {1, 1, 5, 6}), DType::f32);
  for (double scale : {0.7, 1.3, 2.5})
    CHECK(doubles(interpolate(x, {.scale = {scale}})) ==
          taken(x, nearest_places(5, static_cast<std::int64_t>(5 * scale), false, scale),
                nearest_places(6, static_cast<std::int64_t>(6 * scale), false, scale)));
}

TEST_CASE("resample: nearest of one and three axes, of many pictures, with gradients and nothing", "[resample]") {
  const Tensor line = cast(reshape(arange(14), {2, 1, 7}), DType::f32);
  CHECK(doubles(interpolate(line, {.size = {3}})) == std::vector<double>{0, 2, 4, 7, 9, 11});
  const Tensor volume = cast(reshape(arange(3 * 4 * 5), {1, 1, 3, 4, 5}), DType::f32);
  const auto three = [](Tensor v) { return interpolate(v, {.size = {2, 3, 4}}); };
  std::vector<double> want;
  for (int a : {0, 1})
    for (int b : {0, 1, 2})
      for (int c : {0, 1, 2, 3}) want.push_back((a * 4 + b) * 5 + c);
  CHECK(doubles(three(volume)) == want);
  CHECK(doubles(jit::compile(three)(volume)) == want);
  const auto middle_is_a_view = [](Tensor v) { return interpolate(v, {.size = {2, 2, 4}}); };
  CHECK(doubles(middle_is_a_view(volume)) ==
        std::vector<double>{0, 1, 2, 3, 10, 11, 12, 13, 20, 21, 22, 23, 30, 31, 32, 33});
  // Each old element's derivative is how often it is read.
  const auto loss = [](Tensor v) { return sum(interpolate(v, {.size = {4, 9}})); };
  const Tensor picture = cast(reshape(arange(30), {1, 1, 5, 6}), DType::f64);
  const std::vector<double> slope = doubles(jit::grad(loss)(picture));
  const auto count = [](const std::vector<std::int64_t>& places, std::int64_t at) {
    return static_cast<double>(std::count(places.begin(), places.end(), at));
  };
  const auto rows = nearest_places(5, 4, false, 0), columns = nearest_places(6, 9, false, 0);
  for (int i = 0; i < 5; ++i)
    for (int j = 0; j < 6; ++j) CHECK(slope[static_cast<std::size_t>(6 * i + j)] == count(rows, i) * count(columns, j));
  const Tensor pictures = cast(reshape(arange(60), {2, 1, 1, 5, 6}), DType::f32);
  const auto one = [](Tensor v) { return interpolate(v, {.size = {3, 4}}); };
  CHECK(doubles(jit::vmap(one)(pictures)) == doubles(one(reshape(pictures, {2, 1, 5, 6}))));
  CHECK(interpolate(zeros({0, 2, 5, 6}), {.size = {3, 4}}).shape() == Shape{0, 2, 3, 4});
  CHECK_THROWS_WITH(interpolate(zeros({1, 2, 0, 6}), {.size = {3, 4}}), Catch::Contains("both must be at least 1"));
}

TEST_CASE("resample: a picture of bytes (height, width, channels) resized to nearest pixels is one kernel",
          "[resample]") {
  if (const auto known = jit::list_backends(); std::find(known.begin(), known.end(), "x86") == known.end()) return;
  const Tensor picture = cast(remainder(arange(48 * 64 * 3) * 7, 251).reshape({48, 64, 3}), DType::u8);
  const auto resized = [](Tensor x, Shape size) {
    return permute(squeeze(interpolate(unsqueeze(permute(x, {2, 0, 1}), 0), {.size = size}), 0), {1, 2, 0});
  };
  for (const Shape& size : {Shape{24, 32}, Shape{96, 128}, Shape{31, 45}, Shape{48, 45}, Shape{16, 45}}) {
    INFO(size.text());
    const auto bytes = jit::compile([&](Tensor x) { return resized(x, size); }, {.backend = "x86"});
    const auto darker =
        jit::compile([&](Tensor x) { return cast(round(cast(resized(x, size), DType::f32) * 0.5f), DType::u8); },
                     {.backend = "x86"});
    const Tensor result = bytes(picture);
    CHECK(result.dtype() == DType::u8);
    CHECK(doubles(result) == doubles(resized(picture, size)));
    CHECK(doubles(darker(picture)) == doubles(cast(round(cast(result, DType::f32) * 0.5f), DType::u8)));
    CHECK(bytes.stats().kernels <= 1);  // views of the argument need none
    CHECK(darker.stats().kernels == 1);
  }
}
