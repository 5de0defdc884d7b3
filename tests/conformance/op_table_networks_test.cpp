// Op tables: normalisations, convolutions of any kind, resampling, rotary positions, adaptive pooling, bags of rows;
// dropout by its statistics.
#include "../checks.hpp"
#include "op_table.hpp"

#include <map>
#include <numeric>

using namespace sinter_test;

namespace {

constexpr DType floats_of[] = {DType::f32, DType::f64};

void check_floats(const char* name_of_row, Function run, Oracle want, std::vector<Extents> inputs, Tolerance tolerance,
                  Derivative derivative = Derivative::second, Empty empty = Empty::untested) {
  for (DType dtype : floats_of) {
    Row row{std::string(name_of_row) + " " + std::string(name(dtype)), run, want, {}, tolerance};
    for (const Extents& extents : inputs) row.inputs.push_back({extents, dtype, {-2, 2}});
    if (dtype == DType::f64) row.derivative = derivative;
    row.empty = empty;
    row.strided = Strided::distinct;
    check_row(row);
  }
}

std::int64_t size(const Array& x, std::size_t axis) { return x.extents[axis]; }
double& element(Array& x, const Extents& at) {
  std::int64_t index = 0;
  for (std::size_t axis = 0; axis < at.size(); ++axis) index = index * x.extents[axis] + at[axis];
  return x.data[static_cast<std::size_t>(index)];
}
double element(const Array& x, const Extents& at) { return element(const_cast<Array&>(x), at); }
Array zeros_of(DType dtype, Extents extents) {
  Array out{dtype, std::move(extents), {}, {}};
  out.data.assign(static_cast<std::size_t>(oracle::count(out.extents)), 0);
  return out;
}
Array computed(DType dtype, Extents extents, const std::function<double(const Extents&)>& value) {
  Array out{dtype, std::move(extents), {}, {}};
  for (std::int64_t i = 0; i < oracle::count(out.extents); ++i)
    out.data.push_back(value(oracle::coordinates(i, out.extents)));
  return out;
}

/// Each element normalised among those for which `group` gives the same; then scaled and shifted by channel.
Array normalised(const Arrays& in, const std::function<std::int64_t(const Extents&)>& group, bool has_weights) {
  const Array& x = in[0];
  std::map<std::int64_t, std::vector<double>> members;
  for (std::int64_t i = 0; i < oracle::count(x.extents); ++i)
    members[group(oracle::coordinates(i, x.extents))].push_back(x.data[static_cast<std::size_t>(i)]);
  return computed(x.dtype, x.extents, [&](const Extents& at) {
    const std::vector<double>& all_of = members[group(at)];
    const double count = static_cast<double>(all_of.size());
    const double mean = std::accumulate(all_of.begin(), all_of.end(), 0.0) / count;
    double spread = 0;
    for (double member : all_of) spread += (member - mean) * (member - mean);
    const double value = (element(x, at) - mean) / std::sqrt(spread / count + 1e-5);
    const auto channel = static_cast<std::size_t>(at[1]);
    return has_weights ? value * in[1].data[channel] + in[2].data[channel] : value;
  });
}

constexpr Tolerance of_sums{64, 64, 2};

bool all_close(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && item<double>(amax(abs(a - b))) < 1e-9;
}

}  // namespace

TEST_CASE("op table: normalisations") {
  check_floats(
      "rms_norm", [](const Inputs& in) { return rms_norm(in[0], {4}, {.weight = in[1], .eps = 1e-5}); },
      [](const Arrays& in) {
        return computed(in[0].dtype, in[0].extents, [&](const Extents& at) {
          double total = 0;
          for (std::int64_t k = 0; k < 4; ++k) total += element(in[0], {at[0], k}) * element(in[0], {at[0], k});
          return element(in[0], at) / std::sqrt(total / 4 + 1e-5) * in[1].data[static_cast<std::size_t>(at[1])];
        });
      },
      {{n, 4}, {4}}, of_sums);
  check_floats(
      "group_norm", [](const Inputs& in) { return group_norm(in[0], 2, {.weight = in[1], .bias = in[2]}); },
      [](const Arrays& in) { return normalised(in, [](const Extents& at) { return at[0] * 2 + at[1] / 2; }, true); },
      {{2, 4, n}, {4}, {4}}, of_sums, Derivative::first);
  check_floats(
      "instance_norm", [](const Inputs& in) { return instance_norm(in[0]); },
      [](const Arrays& in) { return normalised(in, [](const Extents& at) { return at[0] * 100 + at[1]; }, false); },
      {{2, 3, n, 2}}, of_sums, Derivative::first);
  check_floats(
      "batch_norm_training",
      [](const Inputs& in) {
        const Tensor zero = zeros_like(in[1]), one = ones_like(in[1]);
        return batch_norm_training(in[0], zero, one, 0.1, {.weight = in[1], .bias = in[2]}).value;
      },
      [](const Arrays& in) { return normalised(in, [](const Extents& at) { return at[1]; }, true); },
      {{n, 3, 2}, {3}, {3}}, of_sums, Derivative::first);
  check_floats(
      "batch_norm", [](const Inputs& in) { return batch_norm(in[0], in[1], Tensor(square(in[2])), {.eps = 0.5}); },
      [](const Arrays& in) {
        return computed(in[0].dtype, in[0].extents, [&](const Extents& at) {
          const double spread = in[2].data[static_cast<std::size_t>(at[1])];
          return (element(in[0], at) - in[1].data[static_cast<std::size_t>(at[1])]) / std::sqrt(spread * spread + 0.5);
        });
      },
      {{n, 3, 2}, {3}, {3}}, of_sums, Derivative::first);
  check_floats(
      "local_response_norm", [](const Inputs& in) { return local_response_norm(in[0], 4, {.alpha = 0.5, .k = 2}); },
      [](const Arrays& in) {
        return computed(in[0].dtype, in[0].extents, [&](const Extents& at) {
          double total = 0;
          for (std::int64_t c = at[1] - 2; c <= at[1] + 1; ++c)
            if (c >= 0 && c < size(in[0], 1)) total += std::pow(element(in[0], {at[0], c, at[2]}), 2);
          return element(in[0], at) / std::pow(2 + 0.5 * total / 4, 0.75);
        });
      },
      {{2, 5, n}}, of_sums, Derivative::first);
}

TEST_CASE("normalisations: running statistics and errors") {
  const Tensor x = tensor({{1.0, 2.0}, {3.0, 6.0}});
  const auto result = batch_norm_training(x, zeros({2}, {.dtype = DType::f64}), ones({2}, {.dtype = DType::f64}), 0.5);
  CHECK(doubles(result.running_mean) == std::vector<double>{1, 2});
  CHECK(doubles(result.running_var) == std::vector<double>{1.5, 4.5});
  CHECK_THROWS_AS(group_norm(zeros({1, 3, 2}), 2), ShapeError);
  CHECK_THROWS_AS(rms_norm(x, {3}), ShapeError);
  CHECK_THROWS_AS(instance_norm(x), ShapeError);
  CHECK_THROWS_AS(batch_norm(x, zeros({3}), ones({2})), ShapeError);
  CHECK_THROWS_AS(local_response_norm(x, 0), ShapeError);
  CHECK_THROWS_AS(rms_norm(tensor({1, 2}), {2}), DTypeError);
}

namespace {

struct Conv {
  const char* name;
  Extents x, weight;
  std::vector<std::int64_t> stride, low, high, dilation;
  std::int64_t groups;
};

Array conv_oracle(const Array& x, const Array& w, const Conv& how) {
  const std::size_t axes = how.stride.size();
  Extents extents{size(x, 0), size(w, 0)};
  for (std::size_t i = 0; i < axes; ++i)
    extents.push_back(
        (size(x, 2 + i) + how.low[i] + how.high[i] - how.dilation[i] * (size(w, 2 + i) - 1) - 1) / how.stride[i] + 1);
  Array out = zeros_of(x.dtype, extents);
  out.scale = out.data;
  for (std::int64_t i = 0; i < oracle::count(extents); ++i) {
    const Extents to = oracle::coordinates(i, extents);
    const std::int64_t group = to[1] / (size(w, 0) / how.groups);
    const Extents taps(w.extents.begin() + 1, w.extents.end());
    for (std::int64_t t = 0; t < oracle::count(taps); ++t) {
      const Extents tap = oracle::coordinates(t, taps);
      Extents from{to[0], group * size(w, 1) + tap[0]}, weight{to[1]};
      weight.insert(weight.end(), tap.begin(), tap.end());
      bool is_inside = true;
      for (std::size_t a = 0; a < axes; ++a) {
        from.push_back(to[2 + a] * how.stride[a] + tap[1 + a] * how.dilation[a] - how.low[a]);
        is_inside &= from.back() >= 0 && from.back() < size(x, 2 + a);
      }
      if (!is_inside) continue;
      const double product = element(x, from) * element(w, weight);
      out.data[static_cast<std::size_t>(i)] += product;
      out.scale[static_cast<std::size_t>(i)] += std::abs(product);
    }
  }
  return out;
}

/// The adjoint: every product goes where the convolution would have read.
Array conv_transpose_oracle(const Array& x, const Array& w, const Conv& how, std::int64_t output_padding) {
  const std::size_t axes = how.stride.size();
  Extents extents{size(x, 0), size(w, 1) * how.groups};
  for (std::size_t i = 0; i < axes; ++i)
    extents.push_back((size(x, 2 + i) - 1) * how.stride[i] - 2 * how.low[i] + how.dilation[i] * (size(w, 2 + i) - 1) +
                      output_padding + 1);
  Array out = zeros_of(x.dtype, extents);
  out.scale = out.data;
  for (std::int64_t i = 0; i < oracle::count(x.extents); ++i)
    for (std::int64_t t = 0; t < oracle::count(w.extents); ++t) {
      const Extents from = oracle::coordinates(i, x.extents), tap = oracle::coordinates(t, w.extents);
      const std::int64_t group = from[1] / (size(x, 1) / how.groups);
      if (tap[0] != from[1]) continue;
      Extents to{from[0], group * size(w, 1) + tap[1]};
      bool is_inside = true;
      for (std::size_t a = 0; a < axes; ++a) {
        to.push_back(from[2 + a] * how.stride[a] + tap[2 + a] * how.dilation[a] - how.low[a]);
        is_inside &= to.back() >= 0 && to.back() < extents[2 + a];
      }
      if (!is_inside) continue;
      const double product = x.data[static_cast<std::size_t>(i)] * w.data[static_cast<std::size_t>(t)];
      element(out, to) += product;
      std::int64_t index = 0;
      for (std::size_t axis = 0; axis < to.size(); ++axis) index = index * extents[axis] + to[axis];
      out.scale[static_cast<std::size_t>(index)] += std::abs(product);
    }
  return out;
}

Tensor conv_of(const Tensor& x, const Tensor& w, const ConvOptions& options) {
  return x.rank() == 3 ? conv1d(x, w, options) : x.rank() == 4 ? conv2d(x, w, options) : conv3d(x, w, options);
}
Tensor conv_transpose_of(const Tensor& x, const Tensor& w, const ConvTransposeOptions& options) {
  return x.rank() == 3   ? conv_transpose1d(x, w, options)
         : x.rank() == 4 ? conv_transpose2d(x, w, options)
                         : conv_transpose3d(x, w, options);
}

}  // namespace

TEST_CASE("op table: convolutions") {
  const std::vector<Conv> rows{
      {"conv1d", {2, 3, m}, {4, 3, 3}, {1}, {0}, {0}, {1}, 1},
      {"conv1d, all options", {1, 4, m}, {6, 2, 3}, {2}, {1}, {1}, {2}, 2},
      {"conv1d, same", {1, 2, m}, {3, 2, 4}, {1}, {1}, {2}, {1}, 1},
      {"conv2d, uneven stride", {1, 2, n, 4}, {3, 2, 2, 3}, {2, 1}, {1, 0}, {1, 0}, {1, 1}, 1},
      {"conv2d, dilated", {1, 2, m, 4}, {2, 2, 3, 2}, {1, 2}, {2, 1}, {2, 1}, {2, 3}, 1},
      {"conv2d, groups", {1, 4, n, 3}, {4, 2, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 2},
      {"conv2d, each channel", {1, 3, n, 4}, {3, 1, 3, 2}, {1, 2}, {1, 1}, {1, 1}, {1, 1}, 3},
      {"conv3d", {1, 1, n, 2, 3}, {2, 1, 2, 2, 3}, {1, 1, 2}, {0, 1, 1}, {0, 1, 1}, {1, 1, 1}, 1},
  };
  for (const Conv& how : rows) {
    check_floats(
        how.name,
        [how](const Inputs& in) {
          ConvOptions options{.stride = how.stride, .padding = how.low, .dilation = how.dilation, .groups = how.groups};
          if (how.low != how.high) options.padding = ConvPadding::same;
          return conv_of(in[0], in[1], options);
        },
        [how](const Arrays& in) { return conv_oracle(in[0], in[1], how); }, {how.x, how.weight}, Tolerance{16, 16, 0},
        Derivative::first);
  }
}

TEST_CASE("op table: transposed convolutions") {
  const std::vector<Conv> rows{
      {"conv_transpose1d", {2, 3, n}, {3, 2, 3}, {1}, {0}, {0}, {1}, 1},
      {"conv_transpose1d, all options", {1, 4, n}, {4, 3, 3}, {3}, {1}, {1}, {2}, 2},
      {"conv_transpose2d", {1, 2, n, 3}, {2, 3, 2, 3}, {2, 1}, {1, 0}, {0, 0}, {1, 2}, 1},
      {"conv_transpose2d, padded beyond the kernel", {1, 2, n, 5}, {2, 1, 1, 2}, {2, 2}, {1, 2}, {0, 0}, {1, 1}, 1},
      {"conv_transpose3d", {1, 2, n, 2, 2}, {2, 1, 2, 3, 1}, {2, 1, 1}, {0, 1, 0}, {0, 0, 0}, {1, 1, 1}, 1},
  };
  for (const Conv& how : rows) {
    const std::int64_t output_padding = how.high[0];
    check_floats(
        how.name,
        [how, output_padding](const Inputs& in) {
          return conv_transpose_of(in[0], in[1],
                                   {.stride = how.stride,
                                    .padding = how.low,
                                    .output_padding = output_padding,
                                    .dilation = how.dilation,
                                    .groups = how.groups});
        },
        [how, output_padding](const Arrays& in) { return conv_transpose_oracle(in[0], in[1], how, output_padding); },
        {how.x, how.weight}, Tolerance{16, 16, 0}, Derivative::first);
  }
}

TEST_CASE("convolutions: bias, unfold and fold, errors") {
  const Tensor x = reshape(arange(0.0, 16.0, 1, {.dtype = DType::f64}), {1, 1, 4, 4}),
               w = ones({2, 1, 2, 2}, {.dtype = DType::f64});
  const Tensor bias = tensor({1.0, 2.0});
  CHECK(doubles(conv2d(x, w, {.stride = 2, .bias = bias})) == std::vector<double>{11, 19, 43, 51, 12, 20, 44, 52});
  CHECK(conv2d(x, w, {.padding = ConvPadding::same}).shape() == Shape{1, 2, 4, 4});
  CHECK(conv2d(x, w, {.padding = ConvPadding::valid}).shape() == Shape{1, 2, 3, 3});
  const Tensor columns = unfold(x, 2, {.stride = 2});
  CHECK(doubles(columns) == std::vector<double>{0, 2, 8, 10, 1, 3, 9, 11, 4, 6, 12, 14, 5, 7, 13, 15});
  CHECK(doubles(fold(columns, {4, 4}, 2, {.stride = 2})) == doubles(x));
  // fold is the adjoint of unfold.
  const UnfoldOptions options{.dilation = {2, 1}, .padding = {1, 0}, .stride = {1, 2}};
  const Tensor seen = unfold(x, {2, 3}, options), other = rand(seen.shape(), {.dtype = DType::f64});
  CHECK(item<double>(sum(seen * other)) == Approx(item<double>(sum(x * fold(other, {4, 4}, {2, 3}, options)))));
  const Tensor by_grad = jit::grad([&](Tensor y) { return sum(unfold(y, {2, 3}, options) * other); })(x);
  CHECK(all_close(by_grad, fold(other, {4, 4}, {2, 3}, options)));
  CHECK_THROWS_AS(conv1d(x, w), ShapeError);
  CHECK_THROWS_AS(conv2d(x, w, {.groups = 2}), ShapeError);
  CHECK_THROWS_AS(conv2d(x, w, {.stride = {1, 1, 1}}), ShapeError);
  CHECK_THROWS_AS(conv2d(x, w, {.stride = 2, .padding = ConvPadding::same}), ShapeError);
  CHECK_THROWS_AS(conv2d(x, w, {.dilation = 5}), ShapeError);
  CHECK_THROWS_AS(conv2d(x, w, {.bias = ones({3})}), ShapeError);
  CHECK_THROWS_AS(conv_transpose2d(x, w), ShapeError);
  CHECK_THROWS_AS(conv_transpose2d(x, transpose(w, 0, 1), {.output_padding = 1}), ShapeError);
  CHECK_THROWS_AS(fold(columns, {5, 4}, 2), ShapeError);
  CHECK_THROWS_AS(unfold(x, 5), ShapeError);
}

namespace {

double cubic_weight(double t) {
  t = std::abs(t);
  constexpr double a = -0.75;
  if (t <= 1) return ((a + 2) * t - (a + 3)) * t * t + 1;
  return t < 2 ? ((a * t - 5 * a) * t + 8 * a) * t - 4 * a : 0;
}
/// One axis: the place of element i among `from` elements when there are `to`.
double place_of(std::int64_t i, std::int64_t from, std::int64_t to, bool is_centred) {
  if (is_centred) return to == 1 ? 0 : static_cast<double>(i * (from - 1)) / static_cast<double>(to - 1);
  return (static_cast<double>(i) + 0.5) * static_cast<double>(from) / static_cast<double>(to) - 0.5;
}
double kernel_weight(Interpolation mode, double distance) {
  return mode == Interpolation::linear ? std::max(0.0, 1 - std::abs(distance)) : cubic_weight(distance);
}
Array interpolated(const Array& x, std::int64_t height, std::int64_t width, Interpolation mode, bool is_centred) {
  const std::int64_t h = size(x, 2), w = size(x, 3);
  return computed(x.dtype, {size(x, 0), size(x, 1), height, width}, [&](const Extents& at) {
    const double py = place_of(at[2], h, height, is_centred), px = place_of(at[3], w, width, is_centred);
    const bool is_linear = mode == Interpolation::linear;
    const double y = is_linear ? std::clamp(py, 0.0, static_cast<double>(h - 1)) : py;
    const double z = is_linear ? std::clamp(px, 0.0, static_cast<double>(w - 1)) : px;
    double total = 0;
    for (std::int64_t i = static_cast<std::int64_t>(std::floor(y)) - 2; i <= y + 3; ++i)
      for (std::int64_t j = static_cast<std::int64_t>(std::floor(z)) - 2; j <= z + 3; ++j)
        total +=
            element(x, {at[0], at[1], std::clamp<std::int64_t>(i, 0, h - 1), std::clamp<std::int64_t>(j, 0, w - 1)}) *
            kernel_weight(mode, y - static_cast<double>(i)) * kernel_weight(mode, z - static_cast<double>(j));
    return total;
  });
}

}  // namespace

TEST_CASE("op table: interpolation") {
  for (bool is_centred : {false, true})
    for (Interpolation mode : {Interpolation::linear, Interpolation::bicubic})
      check_floats(
          mode == Interpolation::linear ? "bilinear" : "bicubic",
          [=](const Inputs& in) {
            return interpolate(
                in[0],
                {.size = {7, 3}, .mode = mode, .align = is_centred ? Align::pixel_centres : Align::pixel_corners});
          },
          [=](const Arrays& in) { return interpolated(in[0], 7, 3, mode, is_centred); }, {{1, 1, n, 5}},
          Tolerance{1024, 256, 2}, Derivative::first);
  check_floats(
      "nearest", [](const Inputs& in) { return interpolate(in[0], {.size = {2 * in[0].size(2), 3}}); },
      [](const Arrays& in) {
        return gathered(in[0], {1, 2, 2 * size(in[0], 2), 3},
                        [](Extents at) { return Extents{at[0], at[1], at[2] / 2, at[3] * 5 / 3}; });
      },
      {{1, 2, n, 5}}, oracle::exact, Derivative::first);
  check_floats(
      "area", [](const Inputs& in) { return interpolate(in[0], {.size = {3}, .mode = Interpolation::area}); },
      [](const Arrays& in) {
        return computed(in[0].dtype, {1, 2, 3}, [&](const Extents& at) {
          const std::int64_t k = size(in[0], 2), first = at[2] * k / 3, end = ((at[2] + 1) * k + 2) / 3;
          double total = 0;
          for (std::int64_t i = first; i < end; ++i) total += element(in[0], {0, at[1], i});
          return total / static_cast<double>(end - first);
        });
      },
      {{1, 2, m}}, Tolerance{8, 8, 2}, Derivative::first);
  check_floats(
      "adaptive_max_pool", [](const Inputs& in) { return adaptive_max_pool(in[0], {2, 3}); },
      [](const Arrays& in) {
        return computed(in[0].dtype, {2, 2, 3}, [&](const Extents& at) {
          const std::int64_t h = size(in[0], 1);
          double most = -1e9;
          for (std::int64_t i = at[1] * h / 2; i < ((at[1] + 1) * h + 1) / 2; ++i)
            for (std::int64_t j = at[2] * 7 / 3; j < ((at[2] + 1) * 7 + 2) / 3; ++j)
              most = std::max(most, element(in[0], {at[0], i, j}));
          return most;
        });
      },
      {{2, m, 7}}, oracle::exact, Derivative::none);
  for (std::int64_t h : {3, 2, 5})  // lazily, at sizes of which one is that of the result
    CHECK(doubles(adaptive_avg_pool(ones({1, 1, h, 4}), {3, 4})) == std::vector<double>(12, 1));
  check_floats(
      "pixel_shuffle and channel_shuffle",
      [](const Inputs& in) { return pixel_unshuffle(channel_shuffle(pixel_shuffle(in[0], 2), 2), 2); },
      [](const Arrays& in) {
        return gathered(in[0], in[0].extents, [](Extents at) {
          return Extents{at[0], (at[1] / 4 % 2 * 2 + at[1] / 8) * 4 + at[1] % 4, at[2], at[3]};
        });
      },
      {{1, 16, n, 2}}, oracle::exact, Derivative::first);
}

namespace {

/// Sampling by its definition, for one coordinate convention at a time.
double reflect_into(double x, double low, double high) {
  if (high <= low) return 0;
  while (x < low || x > high) x = x < low ? 2 * low - x : 2 * high - x;
  return x;
}
Array sampled(const Array& x, const Array& grid, const GridSampleOptions& options) {
  const std::int64_t h = size(x, 2), w = size(x, 3);
  const bool is_centred = options.align == Align::pixel_centres;
  auto place = [&](double given, std::int64_t extent) {
    const auto count = static_cast<double>(extent);
    double at = is_centred ? (given + 1) / 2 * (count - 1) : ((given + 1) * count - 1) / 2;
    if (options.padding == GridPadding::reflection)
      at = is_centred ? reflect_into(at, 0, count - 1) : reflect_into(at, -0.5, count - 0.5);
    return options.padding == GridPadding::zeros ? at : std::clamp(at, 0.0, count - 1);
  };
  return computed(x.dtype, {size(x, 0), size(x, 1), size(grid, 1), size(grid, 2)}, [&](const Extents& at) {
    const double px = place(element(grid, {at[0], at[2], at[3], 0}), w);
    const double py = place(element(grid, {at[0], at[2], at[3], 1}), h);
    auto pixel = [&](double y, double z) {
      const auto i = static_cast<std::int64_t>(y), j = static_cast<std::int64_t>(z);
      return y < 0 || z < 0 || i >= h || j >= w ? 0 : element(x, {at[0], at[1], i, j});
    };
    if (options.mode == Interpolation::nearest) return pixel(std::nearbyint(py), std::nearbyint(px));
    double total = 0;
    for (double i : {std::floor(py), std::floor(py) + 1})
      for (double j : {std::floor(px), std::floor(px) + 1})
        total += pixel(i, j) * (1 - std::abs(py - i)) * (1 - std::abs(px - j));
    return total;
  });
}

}  // namespace

TEST_CASE("op table: sampling by a grid") {
  for (Interpolation mode : {Interpolation::linear, Interpolation::nearest})
    for (GridPadding padding : {GridPadding::zeros, GridPadding::border, GridPadding::reflection})
      for (Align align : {Align::pixel_corners, Align::pixel_centres}) {
        const GridSampleOptions options{mode, padding, align};
        check_floats(
            "grid_sample", [options](const Inputs& in) { return grid_sample(in[0], in[1], options); },
            [options](const Arrays& in) { return sampled(in[0], in[1], options); }, {{2, 2, 4, 5}, {2, n, 3, 2}},
            Tolerance{512, 512, 2}, Derivative::none);
      }
  const GridSampleOptions border{.padding = GridPadding::border};
  CHECK_THROWS_AS(grid_sample(zeros({1, 2, 3, 4}), zeros({2, 3, 3, 2}), border), ShapeError);
  CHECK_THROWS_AS(interpolate(zeros({1, 2, 3}), {}), ShapeError);
  CHECK_THROWS_AS(interpolate(zeros({1, 2, 3}), {.size = {2, 3}}), ShapeError);
  CHECK_THROWS_AS(interpolate(cast(zeros({1, 2, 3}), DType::i32), {.size = {2}, .mode = Interpolation::linear}),
                  DTypeError);
  CHECK_THROWS_AS(pixel_shuffle(zeros({3, 2, 2}), 2), ShapeError);
  CHECK(interpolate(zeros({1, 1, 5}), {.scale = {1.5}}).shape() == Shape{1, 1, 7});
  CHECK(doubles(lp_pool2d(reshape(tensor({3.0, 0.0, 0.0, 4.0}), {1, 1, 2, 2}), 2, 2)) == std::vector<double>{5});
}

TEST_CASE("op table: rotary positions and grouped heads") {
  for (RotaryLayout layout : {RotaryLayout::halves, RotaryLayout::interleaved})
    check_floats(
        "rotary_embedding",
        [layout](const Inputs& in) {
          return rotary_embedding(in[0], {.layout = layout, .features = 4, .base = 100, .offset = 3});
        },
        [layout](const Arrays& in) {
          return computed(in[0].dtype, in[0].extents, [&](const Extents& at) {
            if (at[2] >= 4) return element(in[0], at);
            const bool is_halved = layout == RotaryLayout::halves;
            const std::int64_t pair = is_halved ? at[2] % 2 : at[2] / 2;
            const bool is_second = is_halved ? at[2] >= 2 : at[2] % 2 == 1;
            const double angle = static_cast<double>(at[1] + 3) * std::pow(100.0, -static_cast<double>(2 * pair) / 4);
            Extents a = at, b = at;
            a[2] = is_halved ? pair : 2 * pair;
            b[2] = is_halved ? pair + 2 : 2 * pair + 1;
            return is_second ? element(in[0], b) * std::cos(angle) + element(in[0], a) * std::sin(angle)
                             : element(in[0], a) * std::cos(angle) - element(in[0], b) * std::sin(angle);
          });
        },
        {{2, n, 6}}, Tolerance{1024, 64, 2}, Derivative::first);
  const auto q = rand({2, 6, 5, 4}, {.dtype = DType::f64}), k = rand({2, 2, 7, 4}, {.dtype = DType::f64});
  const auto wide = repeat_interleave(k, 3, 1), mask = rand({2, 6, 5, 7}, {.dtype = DType::f64});
  const auto scores = matmul(q, transpose(wide, -2, -1)) * 0.3 + mask;
  const Tensor want = matmul(softmax(scores, -1), wide);
  CHECK(all_close(scaled_dot_product_attention(q, k, k, {.mask = mask, .scale = 0.3, .heads = Heads::grouped}), want));
  CHECK(all_close(scaled_dot_product_attention(q, wide, wide, {.mask = mask, .scale = 0.3, .dropout = 1e-12}), want));
  const Tensor causal = scaled_dot_product_attention(q, wide, wide, {.causal = Causal::to_end});
  CHECK(all_close(scaled_dot_product_attention(q, k, k, {.causal = Causal::to_end, .heads = Heads::grouped}), causal));
  CHECK(all_close(scaled_dot_product_attention(q, wide, wide, {.causal = Causal::to_end, .dropout = 1e-12}), causal));
  CHECK_THROWS_AS(scaled_dot_product_attention(q, rand({2, 4, 7, 4}), k, {.heads = Heads::grouped}), ShapeError);
  CHECK_THROWS_AS(scaled_dot_product_attention(q, k, k, {.dropout = 2}), UserError);
  CHECK_THROWS_AS(rotary_embedding(rand({2, 3})), ShapeError);
}

TEST_CASE("embeddings, linear and dropout") {
  const Tensor table = reshape(arange(0.0, 8.0, 1, {.dtype = DType::f64}), {4, 2});
  const Tensor places = tensor({{0, 3, 3}, {1, 1, 1}});
  CHECK(doubles(embedding_bag(places, table, {.mode = BagMode::sum})) == std::vector<double>{12, 15, 6, 9});
  CHECK(doubles(embedding_bag(places, table, {.padding_idx = 1})) == std::vector<double>{4, 5, 0, 0});
  CHECK(doubles(embedding_bag(places, table, {.mode = BagMode::max, .padding_idx = -3})) ==
        std::vector<double>{6, 7, 0, 0});
  CHECK(doubles(embedding_bag(places, table,
                              {.mode = BagMode::sum, .weights = tensor({{1.0, 0.5, 0.5}, {0.0, 1.0, 1.0}})})) ==
        std::vector<double>{6, 8, 4, 6});
  const Tensor slope = jit::grad([&](Tensor t) { return sum(embedding(places, t, {.padding_idx = 3})); })(table);
  CHECK(doubles(slope) == std::vector<double>{1, 1, 3, 3, 0, 0, 0, 0});
  CHECK_THROWS_AS(embedding(places, table, {.padding_idx = 4}), IndexError);
  CHECK_THROWS_AS(embedding_bag(places, table, {.weights = ones({2, 3})}), UserError);

  CHECK(doubles(linear(tensor({{1.0, 2.0}}), tensor({{3.0, 4.0}, {5.0, 6.0}, {0.0, 1.0}}), tensor({1.0, 1.0, 1.0}))) ==
        std::vector<double>{12, 18, 3});
  CHECK_THROWS_AS(linear(ones({2}), ones({2, 3})), ShapeError);

  manual_seed(7);
  const Tensor kept = dropout(ones({100, 100}), 0.25);
  CHECK(item<double>(mean(kept)) == Approx(1).margin(0.03));
  CHECK(item<bool>(all((kept == 0) | (abs(kept - 4.f / 3) < 1e-6))));
  const Tensor features = feature_dropout(ones({20, 10, 4, 4}));
  CHECK(item<bool>(all(amax(features, {2, 3}) == amin(features, {2, 3}))));
  const Tensor alpha = alpha_dropout(randn({100, 100}), 0.4);
  CHECK(item<double>(mean(alpha)) == Approx(0).margin(0.05));
  CHECK(item<double>(var(alpha)) == Approx(1).margin(0.1));
  CHECK(item<double>(sum(dropout(ones({9}), 1))) == 0);
  CHECK(item<double>(sum(dropout(ones({9}), 0))) == 9);
  CHECK_THROWS_AS(dropout(ones({2}), 1.5), UserError);
  CHECK_THROWS_AS(dropout(arange(3)), DTypeError);
  // Each example of a batch draws its own; a traced probability is no constant.
  const Tensor each = jit::vmap([](Tensor x) { return dropout(x, 0.5); })(ones({2, 64}));
  CHECK(item<bool>(any(each(0) != each(1))));
  auto traced = jit::compile([](Tensor x, Scalar p) { return dropout(x, p); });
  CHECK(item<double>(sum(traced(ones({9}), 1.f))) == 0);
  CHECK(item<double>(sum(traced(ones({9}), 0.f))) == 9);
  CHECK(traced.stats().compiles == 1);
}
