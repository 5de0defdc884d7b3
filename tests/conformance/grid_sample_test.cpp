// grid_sample of images and volumes in every mode, padding and alignment against loops written out here, with
// derivatives by the image and by the grid.
#include "../checks.hpp"
#include "loop_cases.hpp"

#include <array>
#include <cmath>
#include <string>
#include <vector>

using namespace sinter_test;

namespace {

/// One axis: where a coordinate lies, and where the padding moves a place.
struct Axis {
  double size;
  GridSampleOptions options;

  double place(double given) const {
    return options.align == Align::pixel_centres ? (given + 1) / 2 * (size - 1) : ((given + 1) * size - 1) / 2;
  }
  double padded(double at) const {
    const bool is_centred = options.align == Align::pixel_centres;
    if (options.padding == GridPadding::reflection) {
      const double low = is_centred ? 0 : -0.5, high = is_centred ? size - 1 : size - 0.5;
      if (low == high) return 0;
      while (at < low || at > high) at = at < low ? 2 * low - at : 2 * high - at;
    }
    if (options.padding != GridPadding::zeros) at = std::min(std::max(at, 0.0), size - 1);
    return at;
  }
};
double cubic(double t) {
  t = std::abs(t);
  if (t < 1) return 1.25 * t * t * t - 2.25 * t * t + 1;
  return t < 2 ? -0.75 * (t * t * t - 5 * t * t + 8 * t - 4) : 0;
}

/// The pixels along one axis that count for a coordinate, with their weights.
std::vector<std::pair<double, double>> taps(const Axis& axis, double given) {
  double at = axis.place(given);
  std::vector<std::pair<double, double>> out;
  if (axis.options.mode == Interpolation::bicubic) {
    for (double k = std::floor(at) - 1; k <= std::floor(at) + 2; ++k) out.emplace_back(axis.padded(k), cubic(at - k));
    return out;
  }
  at = axis.padded(at);
  if (axis.options.mode == Interpolation::nearest) return {{std::nearbyint(at), 1}};
  return {{std::floor(at), 1 - at + std::floor(at)}, {std::floor(at) + 1, at - std::floor(at)}};
}

/// (n, c, s...) at grid (n, places, axes), as (n, c, places).
Doubles sampled(const Doubles& x, const Doubles& grid, const Extents& shape, std::size_t places,
                const GridSampleOptions& options) {
  const std::size_t axes = shape.size() - 2;
  const auto images = static_cast<std::size_t>(shape[0]), channels = static_cast<std::size_t>(shape[1]);
  const std::size_t pixels = x.size() / (images * channels);
  Doubles out;
  for (std::size_t image = 0; image < images * channels; ++image)
    for (std::size_t p = 0; p < places; ++p) {
      const double* given = &grid[(image / channels * places + p) * axes];
      std::vector<std::pair<double, double>> chosen{{0, 1}};  // pixels, counted through the axes; -1: outside
      for (std::size_t a = 0; a < axes; ++a) {
        const auto size = static_cast<double>(shape[2 + a]);
        std::vector<std::pair<double, double>> next;
        for (const auto& [before, weight] : chosen)
          for (const auto& [k, factor] : taps({size, options}, given[axes - 1 - a]))
            next.emplace_back(before < 0 || k < 0 || k > size - 1 ? -1 : before * size + k, weight * factor);
        chosen = next;
      }
      double sum = 0;
      for (const auto& [k, weight] : chosen)
        if (k >= 0) sum += weight * x[image * pixels + static_cast<std::size_t>(k)];
      out.push_back(sum);
    }
  return out;
}

Doubles numbers(std::size_t count, double from, double to, std::uint64_t seed) {
  Doubles out;
  for (std::size_t i = 0; i < count; ++i) out.push_back(from + (to - from) * unit_value(seed, i));
  return out;
}

struct SampleCase {
  Extents image, grid;
  std::vector<Interpolation> modes;
};
const SampleCase sample_cases[] = {
    {{2, 2, 3, 4}, {2, 2, 3, 2}, {Interpolation::linear, Interpolation::nearest, Interpolation::bicubic}},
    {{1, 1, 1, 3}, {1, 1, 4, 2}, {Interpolation::linear, Interpolation::bicubic}},
    {{2, 1, 2, 3, 4}, {2, 1, 2, 2, 3}, {Interpolation::linear, Interpolation::nearest}},
};

}  // namespace

TEST_CASE("grid_sample of images and volumes: modes, padding, alignment") {
  for (const SampleCase& row : sample_cases)
    for (Interpolation mode : row.modes)
      for (GridPadding padding : {GridPadding::zeros, GridPadding::border, GridPadding::reflection})
        for (Align align : {Align::pixel_corners, Align::pixel_centres}) {
          const GridSampleOptions options{mode, padding, align};
          const auto count = static_cast<std::size_t>(oracle::count(row.grid)), axes = row.image.size() - 2,
                     places = count / axes / static_cast<std::size_t>(row.image[0]);
          const Doubles x = numbers(static_cast<std::size_t>(oracle::count(row.image)), -2, 2, 3),
                        grid = numbers(count, -1.9, 1.9, 8);
          INFO("mode " << static_cast<int>(mode) << ", padding " << static_cast<int>(padding) << ", align "
                       << static_cast<int>(align));
          check_case({"by the image", [=](const Tensor& t) { return grid_sample(t, array(grid, row.grid), options); },
                      [=](const Doubles& v) { return sampled(v, grid, row.image, places, options); }, row.image, x});
          check_case({"by the grid", [=](const Tensor& t) { return grid_sample(array(x, row.image), t, options); },
                      [=](const Doubles& v) { return sampled(x, v, row.image, places, options); }, row.grid, grid});
        }
}

TEST_CASE("grid_sample of volumes: shapes, dtypes, mapped, of any size") {
  const Tensor x = array(numbers(48, -2, 2, 1), {2, 1, 2, 3, 4}), grid = array(numbers(72, -1, 1, 2), {2, 3, 2, 2, 3});
  const Tensor want = grid_sample(x, grid);
  CHECK(want.shape() == Shape{2, 1, 3, 2, 2});
  CHECK(grid_sample(cast(x, DType::f16), cast(grid, DType::f16)).dtype() == DType::f16);
  const auto dynamic =
      jit::compile([](Tensor a, Tensor g) { return grid_sample(a, g); }, {.dynamic = jit::Dynamic::always});
  CHECK(near(doubles(dynamic(x, grid)), doubles(want)));
  const auto mapped = jit::compile([](Tensor a, Tensor g) {
    return jit::vmap([](Tensor one, Tensor at) {
      return grid_sample(one, at, {.mode = Interpolation::bicubic, .padding = GridPadding::border});
    })(a, g);
  });
  const Tensor images = x(all, all, 0), twice = stack({images, images * 2.0}, 0);
  const Tensor places = array(numbers(16, -1, 1, 5), {2, 2, 2, 2}), both = stack({places, places}, 0);
  const Tensor single = grid_sample(images, places, {.mode = Interpolation::bicubic, .padding = GridPadding::border});
  CHECK(near(doubles(mapped(twice, both)(0)), doubles(single)));
  CHECK(near(doubles(mapped(twice, both)(1)), doubles(single * 2.0)));
  CHECK(grid_sample(x, zeros({2, 0, 2, 2, 3}, {.dtype = DType::f64})).shape() == Shape{2, 1, 0, 2, 2});
}

TEST_CASE("grid_sample: what does not fit") {
  const Tensor volume = ones({1, 1, 2, 2, 2});
  CHECK(has(message_of<ShapeError>([&] { grid_sample(volume, ones({1, 2, 2, 2, 2})); }), "grid (n, d', h', w', 3)"));
  CHECK(has(message_of<ShapeError>([&] { grid_sample(ones({1, 1, 2}), ones({1, 2, 2})); }), "grid (n, h', w', 2)"));
  CHECK(
      has(message_of<UserError>([&] { grid_sample(volume, ones({1, 2, 2, 2, 3}), {.mode = Interpolation::bicubic}); }),
          "the mode is bicubic, and x is (1, 1, 2, 2, 2)"));
  CHECK(has(
      message_of<UserError>([] { grid_sample(ones({1, 1, 2, 2}), ones({1, 2, 2, 2}), {.mode = Interpolation::area}); }),
      "the mode is neither"));
  CHECK(has(message_of<DTypeError>([&] { grid_sample(volume, ones({1, 2, 2, 2, 3}, {.dtype = DType::f64})); }),
            "one floating dtype"));
}
