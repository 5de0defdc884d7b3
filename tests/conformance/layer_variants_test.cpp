// Pooling, convolutions and norms in the variants that PyTorch has of them: places of adaptive maxima, divisors of
// means, one example without a batch, unequal padding, running statistics of examples; against loops written out here.
#include "../checks.hpp"
#include "loop_cases.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

using namespace sinter_test;

namespace {

Doubles numbers(std::size_t count, double from, double to, std::uint64_t seed) {
  Doubles out;
  for (std::size_t i = 0; i < count; ++i) out.push_back(from + (to - from) * unit_value(seed, i));
  return out;
}

/// The maximum of each window of an image (1, c, h, w) at another size, then where it is in its plane.
Doubles adaptive_maxima(const Doubles& x, const Extents& shape, const Extents& size, bool with_places) {
  const std::int64_t h = shape[2], w = shape[3];
  Doubles values, places;
  for (std::int64_t plane = 0; plane < shape[0] * shape[1]; ++plane)
    for (std::int64_t i = 0; i < size[0]; ++i)
      for (std::int64_t j = 0; j < size[1]; ++j) {
        double most = -std::numeric_limits<double>::infinity();
        std::int64_t place = -1;
        for (std::int64_t y = i * h / size[0]; y < ((i + 1) * h + size[0] - 1) / size[0]; ++y)
          for (std::int64_t z = j * w / size[1]; z < ((j + 1) * w + size[1] - 1) / size[1]; ++z) {
            const double v = x[static_cast<std::size_t>((plane * h + y) * w + z)];
            if (place >= 0 && v <= most) continue;
            most = v;
            place = y * w + z;
          }
        values.push_back(most);
        places.push_back(static_cast<double>(place));
      }
  if (with_places) values.insert(values.end(), places.begin(), places.end());
  return values;
}
Tensor both(const Ordered& pooled) {
  return concat({flatten(pooled.values), flatten(cast(pooled.indices, pooled.values.dtype()))}, 0);
}

}  // namespace

TEST_CASE("adaptive_max_pool_with_indices: values, places and derivatives") {
  const Extents shape{2, 1, 5, 6};
  Doubles x = numbers(60, -2, 2, 4), equal = x;
  for (double& v : equal) v = std::round(v);
  for (const Extents& size : {Extents{2, 3}, Extents{3, 4}, Extents{1, 1}, Extents{5, 6}, Extents{7, 4}}) {
    check_case({"values", [=](const Tensor& t) { return adaptive_max_pool_with_indices(t, Shape(size)).values; },
                [=](const Doubles& v) { return adaptive_maxima(v, shape, size, false); }, shape, x});
    for (const Mode& mode : modes()) {
      INFO(mode.name);
      const auto call = [=](const Inputs& in) { return both(adaptive_max_pool_with_indices(in[0], Shape(size))); };
      CHECK(doubles(run_in(mode, call, {array(x, shape)})) == adaptive_maxima(x, shape, size, true));
      CHECK(doubles(run_in(mode, call, {array(equal, shape)})) == adaptive_maxima(equal, shape, size, true));
    }
  }
  const Tensor line = tensor({{1.0, 5.0, 5.0, 2.0, 7.0}});
  const Ordered pooled = adaptive_max_pool_with_indices(line, {2});
  CHECK(doubles(pooled.values) == Doubles{5, 7});
  CHECK(to_vector<std::int64_t>(pooled.indices) == std::vector<std::int64_t>{1, 4});
  CHECK(doubles(jit::grad([](Tensor t) { return sum(adaptive_max_pool_with_indices(t, {1}).values); })(
            tensor({{3.0, 3.0, 1.0}}))) == Doubles{1, 0, 0});
  const Tensor lowest = full({1, 3}, -INFINITY);
  CHECK(to_vector<std::int64_t>(adaptive_max_pool_with_indices(lowest, {2}).indices) ==
        std::vector<std::int64_t>{0, 1});
  const Tensor volume = array(numbers(60, -2, 2, 6), {1, 1, 3, 4, 5});
  const Ordered deep = adaptive_max_pool_with_indices(volume, {2, 3, -1});
  CHECK(array_equal(deep.values, adaptive_max_pool(volume, {2, 3, -1})));
  CHECK(array_equal(take(ravel(volume), ravel(deep.indices)), ravel(deep.values)));
  const auto dynamic = jit::compile([](Tensor t) { return both(adaptive_max_pool_with_indices(t, {2, 3})); },
                                    {.dynamic = jit::Dynamic::always});
  CHECK(doubles(dynamic(array(x, shape))) == adaptive_maxima(x, shape, {2, 3}, true));
  const auto mapped = jit::vmap([](Tensor t) { return both(adaptive_max_pool_with_indices(t, {2, 3})); });
  CHECK(doubles(mapped(array(x, {2, 1, 1, 5, 6}))(0)) ==
        adaptive_maxima(Doubles(x.begin(), x.begin() + 30), {1, 1, 5, 6}, {2, 3}, true));
  CHECK(has(message_of<ShapeError>([] { adaptive_max_pool_with_indices(ones({4}), {2}); }),
            "adaptive_max_pool_with_indices: x is (4,), the size is (2,)"));
}

TEST_CASE("avg_pool with a divisor") {
  const Doubles x = numbers(30, -2, 2, 5);
  check_case({"2-D",
              [](const Tensor& t) {
                return avg_pool2d(t, {.size = 2, .stride = 2, .padding = 1, .ceil_mode = true, .divisor = 3});
              },
              [](const Doubles& v) {
                Doubles out;
                for (std::size_t i = 0; i < 3; ++i)
                  for (std::size_t j = 0; j < 4; ++j) {
                    double sum = 0;
                    for (std::size_t y = 2 * i; y < 2 * i + 2; ++y)  // the first row and column are padding
                      for (std::size_t z = 2 * j; z < 2 * j + 2; ++z)
                        if (y >= 1 && y <= 5 && z >= 1 && z <= 6) sum += v[(y - 1) * 6 + z - 1];
                    out.push_back(sum / 3);
                  }
                return out;
              },
              {1, 1, 5, 6},
              x});
  check_case({"1-D",
              [](const Tensor& t) { return avg_pool1d(t, {.size = 3, .stride = 3, .divisor = -2}); },
              [](const Doubles& v) {
                Doubles out;
                for (std::size_t i = 0; i < 30; i += 3) out.push_back((v[i] + v[i + 1] + v[i + 2]) / -2);
                return out;
              },
              {1, 1, 30},
              x});
  CHECK(has(message_of<UserError>([] { avg_pool2d(ones({1, 1, 2, 2}), {.size = 2, .divisor = 0}); }),
            "avg_pool2d: divisor is 0"));
}

TEST_CASE("one example without a batch is a batch of one") {
  const Tensor line = array(numbers(12, -2, 2, 1), {2, 6}), image = array(numbers(60, -2, 2, 2), {2, 5, 6}),
               volume = array(numbers(120, -2, 2, 3), {2, 3, 4, 5});
  const auto check = [](const Tensor& x, const std::function<Tensor(const Tensor&)>& f) {
    const Tensor alone = f(x), batched = f(unsqueeze(x, 0));
    CHECK(alone.rank() == x.rank());
    CHECK(array_equal(unsqueeze(alone, 0), batched));
    const auto slopes = jit::grad([&](Tensor t) { return sum(square(f(t))); });
    CHECK(array_equal(unsqueeze(slopes(x), 0), slopes(unsqueeze(x, 0))));
  };
  const Tensor w1 = array(numbers(18, -1, 1, 7), {3, 2, 3}), w2 = array(numbers(54, -1, 1, 8), {3, 2, 3, 3}),
               w3 = array(numbers(48, -1, 1, 9), {3, 2, 2, 2, 2}), bias = tensor({0.5, -1.0, 2.0});
  check(line, [&](const Tensor& x) { return conv1d(x, w1, {.padding = 1, .bias = bias}); });
  check(image, [&](const Tensor& x) { return conv2d(x, w2, {.stride = 2, .bias = bias}); });
  check(image, [&](const Tensor& x) { return conv2d(x, w2, {.padding = ConvPadding::same}); });
  check(volume, [&](const Tensor& x) { return conv3d(x, w3); });
  const Tensor t1 = transpose(w1, 0, 1), t2 = transpose(w2, 0, 1), t3 = transpose(w3, 0, 1);
  check(line, [&](const Tensor& x) { return conv_transpose1d(x, t1, {.stride = 2, .bias = bias}); });
  check(image, [&](const Tensor& x) { return conv_transpose2d(x, t2, {.padding = 1}); });
  check(volume, [&](const Tensor& x) { return conv_transpose3d(x, t3); });
  check(line, [](const Tensor& x) { return max_pool1d(x, {.size = 2}); });
  check(image, [](const Tensor& x) { return max_pool2d(x, {.size = 2, .padding = 1}); });
  check(image, [](const Tensor& x) { return max_pool2d(x, 2); });
  check(volume, [](const Tensor& x) { return max_pool3d(x, {.size = 2}); });
  check(line, [](const Tensor& x) { return avg_pool1d(x, {.size = 3}); });
  check(image, [](const Tensor& x) { return avg_pool2d(x, {.size = 2, .padding = 1, .count_include_pad = false}); });
  check(image, [](const Tensor& x) { return avg_pool2d(x, 2); });
  check(volume, [](const Tensor& x) { return avg_pool3d(x, {.size = 2}); });
  check(line, [](const Tensor& x) { return lp_pool1d(x, 2, {.size = 2}); });
  check(image, [](const Tensor& x) { return lp_pool2d(x, 2, {.size = 2}); });
  check(image, [](const Tensor& x) { return lp_pool2d(x, 2, 2); });
  check(image, [](const Tensor& x) { return cast(max_pool2d_with_indices(x, {.size = 2}).values, DType::f64); });
  check(image, [](const Tensor& x) {
    const Ordered pooled = max_pool2d_with_indices(x, {.size = 2});
    return max_unpool2d(pooled.values, pooled.indices, {.size = 2, .extents = {5, 6}});
  });
  const Tensor samples = array({0.3, 0.6, 0.1, 0.8}, {1, 2, 2});
  check(image, [&](const Tensor& x) { return fractional_max_pool2d(x, {.size = 2, .extent = 3}, samples); });
  const auto mapped = jit::vmap([&](Tensor x) { return conv2d(x, w2, {.bias = bias}); });
  CHECK(near(doubles(mapped(stack({image, image * 2.0}, 0))),
             doubles(conv2d(stack({image, image * 2.0}, 0), w2, {.bias = bias}))));
  CHECK(has(message_of<ShapeError>([&] { conv2d(ones({5, 6}), w2); }), "conv2d: x is (5, 6)"));
  CHECK(has(message_of<ShapeError>([&] { max_pool2d(ones({5, 6}), {.size = 2}); }), "max_pool2d: x is (5, 6)"));
}

TEST_CASE("convolutions with unequal padding are those of padded images") {
  const Doubles w = numbers(2 * 2 * 3 * 2, -1, 1, 8), x = numbers(2 * 5 * 4, -2, 2, 2);
  // (1, 2, 5, 4), 3 rows and 2 columns of the kernel; 1 row before, 2 after; 0 columns before, 3 after.
  const auto loop = [=](const Doubles& v) {
    Doubles out;
    for (int o = 0; o < 2; ++o)
      for (int i = 0; i < 6; ++i)
        for (int j = 0; j < 6; ++j) {
          double sum = 0;
          for (int c = 0; c < 2; ++c)
            for (int y = 0; y < 3; ++y)
              for (int z = 0; z < 2; ++z) {
                const int row = i + y - 1, column = j + z;
                if (row < 0 || row >= 5 || column >= 4) continue;
                sum += v[static_cast<std::size_t>((c * 5 + row) * 4 + column)] *
                       w[static_cast<std::size_t>(((o * 2 + c) * 3 + y) * 2 + z)];
              }
          out.push_back(sum);
        }
    return out;
  };
  check_case({"2-D",
              [=](const Tensor& t) { return conv2d(t, array(w, {2, 2, 3, 2}), {.padding = {{1, 2}, {0, 3}}}); },
              loop,
              {1, 2, 5, 4},
              x});
  const Tensor line = array(x, {2, 2, 10}), taps = array(w, {4, 2, 3});
  CHECK(near(doubles(conv1d(line, taps, {.stride = 2, .padding = {{2, 0}}, .dilation = 2})),
             doubles(conv1d(pad(line, {{0, 0}, {0, 0}, {2, 0}}), taps, {.stride = 2, .dilation = 2}))));
  CHECK(near(doubles(conv1d(line, array(w, {4, 1, 6}), {.padding = {{1, 3}}, .groups = 2})),
             doubles(conv1d(pad(line, {{0, 0}, {0, 0}, {1, 3}}), array(w, {4, 1, 6}), {.groups = 2}))));
  const Tensor volume = array(x, {1, 2, 5, 2, 2}), cube = array(w, {1, 2, 3, 2, 2});
  CHECK(near(doubles(conv3d(volume, cube, {.padding = {{0, 1}, {1, 0}, {2, 1}}})),
             doubles(conv3d(pad(volume, {{0, 0}, {0, 0}, {0, 1}, {1, 0}, {2, 1}}), cube))));
  CHECK(array_equal(conv1d(line, taps, {.padding = {{1, 1}}}), conv1d(line, taps, {.padding = 1})));
  const Tensor image = array(x, {1, 2, 5, 4}), kernel = array(w, {2, 2, 3, 2});
  CHECK(
      array_equal(conv2d(image, kernel, {.padding = {{1, 2}}}), conv2d(image, kernel, {.padding = {{1, 2}, {1, 2}}})));
  CHECK(array_equal(conv2d(image, kernel, {.padding = {1, 2}}), conv2d(image, kernel, {.padding = {{1, 1}, {2, 2}}})));
  CHECK(has(message_of<ShapeError>(
                [&] { conv2d(array(x, {1, 2, 5, 4}), array(w, {2, 2, 3, 2}), {.padding = {{1, 2}, {1, 1}, {0, 0}}}); }),
            "3 numbers for padding"));
  CHECK(has(message_of<ShapeError>([&] { conv1d(line, taps, {.padding = {{1, -1}}}); }), "padding is -1"));
}

TEST_CASE("instance_norm with statistics that run or are given") {
  const Extents shape{2, 3, 4};
  const Doubles x = numbers(24, -2, 2, 12), weight{1.5, -0.5, 2}, bias{0.1, 0.2, -0.3}, old_mean{0.5, -1, 0.25},
                old_var{1, 2, 0.5};
  const ChannelNormOptions options{.weight = copy_of(weight), .bias = copy_of(bias), .eps = 0.01};
  const auto row_of = [](const Doubles& v, std::size_t row) {
    return Doubles(v.begin() + static_cast<std::ptrdiff_t>(4 * row),
                   v.begin() + static_cast<std::ptrdiff_t>(4 * row + 4));
  };
  const auto variance = [](const Doubles& v, double correction) {
    double sum = 0;
    for (double e : v) sum += (e - mean_of(v)) * (e - mean_of(v));
    return sum / (static_cast<double>(v.size()) - correction);
  };
  check_case({"training",
              [=](const Tensor& t) {
                return instance_norm_training(t, copy_of(old_mean), copy_of(old_var), 0.3, options).value *
                       array(numbers(24, -1, 1, 13), shape);
              },
              [=](const Doubles& v) {
                const Doubles factors = numbers(24, -1, 1, 13);
                return each(v, [&](double e, std::size_t i) {
                  const Doubles row = row_of(v, i / 4);
                  const std::size_t channel = i / 4 % 3;
                  return factors[i] *
                         ((e - mean_of(row)) / std::sqrt(variance(row, 0) + 0.01) * weight[channel] + bias[channel]);
                });
              },
              shape, x});
  check_case({"given", [=](const Tensor& t) { return instance_norm(t, copy_of(old_mean), copy_of(old_var), options); },
              [=](const Doubles& v) {
                return each(v, [&](double e, std::size_t i) {
                  const std::size_t channel = i / 4 % 3;
                  return (e - old_mean[channel]) / std::sqrt(old_var[channel] + 0.01) * weight[channel] + bias[channel];
                });
              },
              shape, x});
  Doubles means, variances;
  for (std::size_t c = 0; c < 3; ++c) {
    const Doubles one = row_of(x, c), two = row_of(x, 3 + c);
    means.push_back(0.7 * old_mean[c] + 0.3 * (mean_of(one) + mean_of(two)) / 2);
    variances.push_back(0.7 * old_var[c] + 0.3 * (variance(one, 1) + variance(two, 1)) / 2);
  }
  for (const Mode& mode : modes()) {
    INFO(mode.name);
    const auto run = [&](bool is_mean) {
      return doubles(run_in(mode,
                            [=](const Inputs& in) {
                              const auto result = instance_norm_training(in[0], in[1], in[2], 0.3, options);
                              return is_mean ? result.running_mean : result.running_var;
                            },
                            {array(x, shape), copy_of(old_mean), copy_of(old_var)}));
    };
    CHECK(near(run(true), means));
    CHECK(near(run(false), variances));
  }
  const auto alone = jit::vmap([=](Tensor t) {
    return instance_norm_training(t, copy_of(old_mean), copy_of(old_var), 0.3, options).running_mean;
  });
  const Tensor images = array(x, shape);
  CHECK(near(doubles(alone(stack({images, images}, 0))(1)), means));
  CHECK(has(message_of<ShapeError>([] { instance_norm_training(ones({2, 3}), ones({3}), ones({3})); }),
            "instance_norm_training: x is (2, 3)"));
  CHECK(has(message_of<ShapeError>([] { instance_norm(ones({2, 3, 4}), ones({3}), ones({2})); }), "var is (2,)"));
}
