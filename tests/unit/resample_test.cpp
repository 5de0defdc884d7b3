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
