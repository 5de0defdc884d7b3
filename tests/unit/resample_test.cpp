// Interpolation with a filter: axes that become a whole number of times as long are computed by phases, which must agree
// with the windows that extents known only at run time get.
#include "catch.hpp"
#include "checks.hpp"

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
