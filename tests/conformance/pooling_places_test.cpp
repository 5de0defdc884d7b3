// Pooling that says where, and what undoes it; LP and fractional pooling; interpolation without aliasing: PyTorch's
// numbers on every back end, gradients and errors.
#include "../checks.hpp"
#include "number_cases.hpp"

#include <cmath>
#include <limits>
#include <vector>

using namespace sinter_test;

namespace {

using In1 = const Inputs&;
constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

/// (2, 1, 5, 6).
Tensor image() {
  const std::vector<double> pixels = {0, 4, 2,  -3, -4, 1, 4, 1,  -3, -3, 2, 4,  0,  -4, -2, 2, 4,  0,  -4, -2,
                                      3, 3, -1, -4, -1, 4, 3, -2, -4, 0,  4, 2,  -3, -4, 1,  4, 1,  -3, -3, 2,
                                      4, 0, -4, -2, 2,  4, 0, -4, -2, 3,  3, -1, -4, -1, 4,  3, -2, -4, 0,  4};
  return copy_of(pixels, {2, 1, 5, 6});
}
/// Whole numbers of a cosine.
Tensor volume(const Shape& shape, double size) {
  const Dim count = shape.numel();
  return reshape(round(cos(arange(count, {.dtype = DType::f64}) * 2.1) * size), shape);
}
Tensor both(const Ordered& pooled) {
  return concat({flatten(pooled.values), flatten(cast(pooled.indices, DType::f64))}, 0);
}
std::vector<double> slope_of(Tensor (*f)(const Tensor&), const Tensor& x) {
  return to_vector<double>(jit::grad([f](Tensor t) { return sum(f(t)); })(x));
}

}  // namespace

TEST_CASE("pooling says where the largest elements are, as PyTorch does") {
  check_cases({
      {"2-D: stride, padding, dilation, ceil_mode",
       [](In1 in) {
         return both(max_pool2d_with_indices(
             in[0], {.size = {3, 2}, .stride = {2, 2}, .padding = {1, 1}, .dilation = {1, 2}, .ceil_mode = true}));
       },
       {image()},
       {4, 4, 4,  4,  1, 3,  4,  4,  4,  4,  3,  0,  2, 2, 4, 4, 3,  4,  4,  0,  3,  3,  4,  4,
        1, 1, 11, 11, 7, 21, 11, 11, 25, 25, 21, 29, 1, 1, 5, 5, 19, 15, 15, 11, 19, 19, 29, 29}},
      {"1-D",
       [](In1 in) { return both(max_pool1d_with_indices(in[0](all, all, 0), {.size = 3, .stride = 2, .padding = 1})); },
       {image()},
       {4, 4, 1, 4, 2, 4, 1, 1, 5, 0, 1, 5}},
      {"3-D",
       [](In1 in) { return both(max_pool3d_with_indices(in[0], {.size = 2, .stride = 2, .padding = 1})); },
       {volume({1, 2, 4, 4, 4}, 5)},
       {5,  -2, 5,  -2, 5, -2, 5,  -2, 5,  -2, 5,  -2, 5,  5,  5,  -1, 5,  -1, 5,  -1, 5,  -1, 5,  -1, 5,  -1, 5,
        -4, 5,  -4, 5,  5, 5,  -4, 5,  -4, 4,  4,  4,  4,  4,  4,  4,  4,  4,  -5, 4,  -5, 4,  4,  4,  -5, 4,  -5,
        0,  2,  3,  8,  6, 11, 12, 14, 15, 32, 18, 35, 24, 21, 27, 44, 30, 47, 48, 50, 51, 56, 54, 59, 60, 62, 63,
        0,  2,  3,  8,  5, 11, 12, 14, 15, 32, 17, 35, 20, 26, 23, 44, 29, 47, 48, 50, 51, 56, 53, 59, 60, 62, 63}},
      {"the last NaN of a window, the first of equal elements",
       [](In1 in) { return both(max_pool2d_with_indices(in[0], {.size = {2, 4}, .stride = {2, 4}})); },
       {reshape(
           tensor({1.0, not_a_number, 3.0, not_a_number, 2.0, 2.0, 0.0, 1.0, 5.0, 1.0, 1.0, 1.0, 1.0, 2.0, 2.0, 0.0}),
           {1, 1, 2, 8})},
       {not_a_number, 2, 3, 4}},
      {"as many places as are reduced at once",
       [](In1 in) { return both(max_pool1d_with_indices(in[0], {.size = 17, .stride = 17})); },
       {reshape(where(arange(34) == 5, not_a_number,
                      where(arange(34) == 7, not_a_number, cast(arange(34) % 16, DType::f64))),
                {1, 1, 34})},
       {not_a_number, 15, 7, 31}},
      {"a window of -infinity alone has its first place inside",
       [](In1 in) {
         return both(max_pool2d_with_indices(in[0] * 0 - INFINITY, {.size = 3, .stride = 3, .padding = 1}));
       },
       {ones({1, 1, 3, 3}, {.dtype = DType::f64})},
       {-INFINITY, 0}},
  });
}

TEST_CASE("max_unpool puts elements back") {
  check_cases({
      {"2-D, an odd extent",
       [](In1 in) {
         const Ordered pooled = max_pool2d_with_indices(in[0], {.size = 2});
         return max_unpool2d(pooled.values, pooled.indices, {.size = 2, .extents = {5, 6}});
       },
       {image()},
       {0, 4, 2, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 4, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        4, 0, 0, 0, 0, 4, 0, 0, 0, 2, 0, 0, 0, 0, 0, 4, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}},
      {"1-D",
       [](In1 in) { return max_unpool1d(in[0], reshape(tensor({1, 2}), {1, 1, 2}), {.size = 2}); },
       {reshape(tensor({5.0, 7.0}), {1, 1, 2})},
       {0, 5, 7, 0}},
      {"3-D and back",
       [](In1 in) {
         const Ordered pooled = max_pool3d_with_indices(in[0], {.size = 2});
         const Tensor back = max_unpool3d(pooled.values, pooled.indices, {.size = 2});
         return stack({sum(abs(max_pool3d(back + 100, {.size = 2}) - 100 - maximum(pooled.values, 0.0))),
                       cast(count_nonzero(back), DType::f64)},
                      0);
       },
       {Tensor(abs(volume({1, 2, 4, 4, 4}, 5)) + 1)},
       {0, 16}},
  });
  // What goes there comes back.
  const Tensor places = reshape(tensor({5, 0}), {1, 1, 1, 2});
  const auto f = [&](Tensor t) {
    return sum(max_unpool2d(t, places, {.size = {2, 2}}) * reshape(arange(8, {.dtype = DType::f64}), {1, 1, 2, 4}));
  };
  CHECK(to_vector<double>(jit::grad(f)(reshape(tensor({1.0, 2.0}), {1, 1, 1, 2}))) == std::vector<double>{5, 0});
  const Tensor x = image();
  CHECK_THROWS_AS(max_unpool2d(x, tensor({1, 2}), {.size = 2}), ShapeError);
  CHECK_THROWS_AS(max_unpool2d(x, cast(x, DType::i64), {}), ShapeError);
  CHECK_THROWS_AS(eval(max_unpool2d(x, cast(x * 0 + 1000, DType::i64), {.size = 2})), IndexError);
}

TEST_CASE("pooling with places: gradients go to the places") {
  const Tensor x = image();
  const auto pooled = [](const Tensor& t) {
    return max_pool2d_with_indices(t, {.size = 3, .stride = 2, .padding = 1}).values;
  };
  const auto plain = [](const Tensor& t) { return max_pool2d(t, {.size = 3, .stride = 2, .padding = 1}); };
  CHECK(slope_of(pooled, x) == slope_of(plain, x));
  const Tensor some = stack({x, x * 2 + 1}, 0);
  const Tensor mapped = jit::vmap([](Tensor t) { return max_pool2d_with_indices(t, {.size = 2}).indices; })(some);
  CHECK(to_vector<std::int64_t>(mapped(1)) ==
        to_vector<std::int64_t>(max_pool2d_with_indices(some(1), {.size = 2}).indices));
}

TEST_CASE("LP and fractional pooling have PyTorch's values") {
  check_cases({
      {"lp_pool2d",
       [](In1 in) { return lp_pool2d(abs(in[0]) / 4, 3, {.size = {2, 3}, .stride = {1, 2}}); },
       {image()},
       {1.368425918699607, 1.3600304563536993, 1.368425918699607, 1.3042758615690417, 1.3876247757278868,
        1.2824819600075228, 1.4397413051231003, 1.3400271027413408, 1.3400271027413408, 1.4397413051231003,
        1.2824819600075228, 1.3876247757278868, 1.3042758615690417, 1.368425918699607, 1.3600304563536993,
        1.368425918699607}},
      {"lp_pool1d",
       [](In1 in) { return lp_pool1d(in[0](all, all, 0), 2, {.size = 3, .stride = 2}); },
       {image()},
       {4.47213595499958, 5.385164807134504, 5.385164807134504, 5.0990195135927845}},
      {"lp_pool3d",
       [](In1 in) {
         return lp_pool3d(in[0](all, slice(0, 1), slice(0, 3), slice(0, 3), slice(0, 4)) / 10, 2, {.size = 2});
       },
       {volume({1, 2, 5, 6, 7}, 50)},
       {9.7205966895042, 11.1597491011223}},
      {"a window that reaches beyond the end has the sum of what is there",
       [](In1 in) { return lp_pool1d(in[0], 1, {.size = 2, .ceil_mode = true}); },
       {reshape(tensor({1.0, 2.0, 4.0}), {1, 1, 3})},
       {3, 4}},
      {"fractional_max_pool2d",
       [](In1 in) {
         return fractional_max_pool2d(in[0], {.size = {2, 3}, .extent = {3, 2}},
                                      reshape(tensor({0.2, 0.7, 0.9, 0.1}), {2, 1, 2}));
       },
       {image()},
       {4, 4, 4, 4, 4, 3, 4, 4, 2, 4, 4, 4}},
      {"fractional_max_pool3d",
       [](In1 in) {
         return fractional_max_pool3d(in[0], {.size = {2, 2, 3}, .extent = {3, 4, 2}},
                                      reshape(tensor({0.2, 0.7, 0.45, 0.9, 0.1, 0.3}), {1, 2, 3}));
       },
       {volume({1, 2, 5, 6, 7}, 50)},
       {50, 50, 50, 50, 50, 49, 49, 49, 49, 48, 47, 47, 47, 46, 46, 46, 38, 37, 35, 35, 34, 33, 32, 31,
        40, 41, 41, 42, 43, 43, 44, 45, 46, 46, 47, 47, 47, 48, 48, 49, 50, 50, 50, 50, 50, 50, 50, 50}},
  });
  const auto lp = [](const Tensor& t) { return lp_pool2d(t, 3, {.size = {2, 3}, .stride = {1, 2}}); };
  CHECK(is_near(slope_of(lp, abs(image()) / 4),
                {0,
                 0.5340198707120417,
                 0.26866327389949607,
                 0.3041061889983427,
                 0.5406332248859426,
                 0,
                 1.0680397414240834,
                 0.06675248383900521,
                 1.2355400295809775,
                 0.6347676750299306,
                 0.28211896667996916,
                 0,
                 0,
                 1.0533648160137068,
                 0.5622997263887278,
                 0.298958522385301,
                 1.195834089541204,
                 0,
                 1.0017713512067878,
                 0.25044283780169696,
                 1.2187446633416787,
                 0.6552482782878605,
                 0.07280536425420672,
                 0,
                 0.03015165036907016,
                 0.48242640590512254,
                 0.5846179422741526,
                 0.13922359509000942,
                 0.5568943803600377,
                 0,
                 0.5568943803600377,
                 0.13922359509000942,
                 0.5846179422741526,
                 0.48242640590512254,
                 0.03015165036907016,
                 0,
                 0.07280536425420672,
                 0.6552482782878605,
                 1.2187446633416787,
                 0.25044283780169696,
                 1.0017713512067878,
                 0,
                 1.195834089541204,
                 0.298958522385301,
                 0.5622997263887277,
                 1.0533648160137068,
                 0,
                 0,
                 0.28211896667996916,
                 0.6347676750299306,
                 1.2355400295809775,
                 0.06675248383900521,
                 1.0680397414240834,
                 0,
                 0.5406332248859426,
                 0.3041061889983427,
                 0.26866327389949607,
                 0.5340198707120417,
                 0,
                 0},
                1e-13));
  const Tensor drawn = fractional_max_pool2d(image(), {.size = 2, .extent = {3, 4}});
  CHECK(drawn.shape() == Shape{2, 1, 3, 4});
  CHECK(item<double>(amax(drawn)) <= 4);
  CHECK_THROWS_AS(fractional_max_pool2d(image(), {.size = 3, .extent = {4, 2}}), ShapeError);
  CHECK_THROWS_AS(lp_pool2d(image(), 0, {.size = 2}), UserError);
}

TEST_CASE("interpolation without aliasing has PyTorch's values") {
  check_cases({
      {"linear, smaller",
       [](In1 in) { return interpolate(in[0], {.size = {2, 3}, .mode = Interpolation::linear, .antialias = true}); },
       {image()},
       {0.7857142857142856, -0.8011363636363635, 0.7077922077922079, -0.707792207792208, 0.8011363636363635,
        -0.7857142857142855, -0.32467532467532473, -0.3352272727272727, 0.9545454545454543, 0.6363636363636362,
        0.10227272727272738, -0.7402597402597402}},
      {"linear, larger and smaller",
       [](In1 in) {
         return interpolate(in[0](slice(0, 1)), {.size = {7, 4}, .mode = Interpolation::linear, .antialias = true});
       },
       {image()},
       {1.4999999999999998,
        2.1111111111111103,
        -2.7777777777777777,
        -0.8749999999999998,
        2.2857142857142856,
        -0.047619047619047936,
        -1.9523809523809523,
        1.4821428571428572,
        1.6249999999999998,
        -1.8253968253968254,
        -0.31746031746031717,
        2.75,
        -1.4999999999999998,
        -2.2222222222222214,
        2.2222222222222223,
        1.4999999999999998,
        -2.75,
        0.3174603174603182,
        1.8253968253968254,
        -1.6250000000000007,
        -1.482142857142856,
        1.9523809523809526,
        0.04761904761904687,
        -2.285714285714285,
        0.8749999999999998,
        2.7777777777777772,
        -2.1111111111111107,
        -1.4999999999999998}},
      {"cubic, smaller",
       [](In1 in) { return interpolate(in[0], {.size = {2, 3}, .mode = Interpolation::bicubic, .antialias = true}); },
       {image()},
       {0.9706747897042101, -1.1335658553305963, 0.9391680416290829, -0.9391680416290832, 1.1335658553305958,
        -0.97067478970421, -0.41794435030688404, -0.4302588336969535, 1.1432994289713558, 0.7107405563900804,
        0.18878955892840554, -0.9239275515755596}},
      {"cubic, larger and smaller",
       [](In1 in) {
         return interpolate(in[0](slice(0, 1)), {.size = {7, 4}, .mode = Interpolation::bicubic, .antialias = true});
       },
       {image()},
       {1.4204134854054726,   2.9015150388795536, -3.4834297268767,     -1.0666101109121175, 2.7464567140897707,
        0.09681716178897351,  -2.653340855968405, 1.7665330930801706,   2.210006887637163,   -2.6255050696717106,
        -0.38104911621178855, 3.512770434109844,  -1.5080906148867306,  -2.719754977029096,  2.719754977029096,
        1.5080906148867308,   -3.512770434109843, 0.38104911621178833,  2.6255050696717106,  -2.2100068876371637,
        -1.7665330930801688,  2.653340855968405,  -0.09681716178897459, -2.7464567140897707, 1.0666101109121189,
        3.4834297268767,      -2.901515038879555, -1.4204134854054722}},
      {"linear, centres",
       [](In1 in) {
         return interpolate(
             in[0], {.size = {2, 3}, .mode = Interpolation::linear, .align = Align::pixel_centres, .antialias = true});
       },
       {image()},
       {0.043771043771043655, -0.06962962962962961, 0.3925925925925927, 0.41414141414141425, -0.17777777777777776,
        -1.5666666666666664, -0.10437710437710451, 0.09925925925925919, 0.11851851851851841, 1.2828282828282827, -0.84,
        0.6111111111111114}},
      {"linear, by a factor",
       [](In1 in) { return interpolate(in[0], {.scale = {0.45}, .mode = Interpolation::linear, .antialias = true}); },
       {image()},
       {0.9613762860516104, -0.9591419816138912, -0.8233471074380163, 0.6972676200204285, -0.35452858829482214,
        -0.13308040274332378, 0.30873671782762724, 0.11810520939734405}},
  });
  CHECK_THROWS_AS(interpolate(image(), {.size = {2, 3}, .antialias = true}), UserError);
}

TEST_CASE("interpolation without aliasing: what is in no window has no part in it") {
  std::vector<double> row(16);
  for (std::size_t i = 0; i < row.size(); ++i) row[i] = static_cast<double>(i);
  const auto smaller = [](const Tensor& x, Dim size, Interpolation mode) {
    return interpolate(x, {.size = {1, size}, .mode = mode, .antialias = true});
  };
  for (const double odd : {NAN, INFINITY}) {
    row[15] = odd;
    const Tensor x = copy_of(row, {1, 1, 1, 16});
    for (const Mode& mode : modes()) {
      INFO(mode.name);
      const auto linear =
          to_vector<double>(run_in(mode, [=](In1 in) { return smaller(in[0], 4, Interpolation::linear); }, {x}));
      CHECK(is_near(linear, {1.8928571428571428, 5.5, 9.5, odd}, 1e-14));
      const auto cubic =
          to_vector<double>(run_in(mode, [=](In1 in) { return smaller(in[0], 4, Interpolation::bicubic); }, {x}));
      for (std::size_t i = 0; i < 4; ++i) CHECK(std::isfinite(cubic[i]) == (i < 2));
    }
  }
  // The gradient of each result goes to its window.
  const auto slope = jit::vjp([&](Tensor x) { return smaller(x, 4, Interpolation::linear); },
                              reshape(arange(16, {.dtype = DType::f64}), {1, 1, 1, 16}));
  const auto gradient = to_vector<double>(slope.second(reshape(tensor({1.0, 1.0, 1.0, double{NAN}}), {1, 1, 1, 4})));
  for (std::size_t i = 0; i < 16; ++i) CHECK(std::isnan(gradient[i]) == (i >= 10));
}

TEST_CASE("interpolation without aliasing: any sizes, one version") {
  for (const Align align : {Align::pixel_corners, Align::pixel_centres})
    for (const Interpolation mode : {Interpolation::linear, Interpolation::bicubic}) {
      const auto resized = [=](Tensor x, Tensor like) {
        return interpolate(x, {.size = {3, like.size(0)}, .mode = mode, .align = align, .antialias = true});
      };
      auto f = jit::compile(resized, {.dynamic = jit::Dynamic::always});
      for (const auto& [from, to] : {std::pair{9, 4}, {31, 2}, {5, 17}, {64, 63}, {8, 8}}) {
        const Tensor x = sin(reshape(arange(2 * from, {.dtype = DType::f64}), {1, 1, 2, from}));
        CHECK(is_near(to_vector<double>(f(x, ones({to}))), to_vector<double>(resized(x, ones({to}))), 1e-12));
      }
      CHECK(f.stats().compiles == 1);
    }
}
