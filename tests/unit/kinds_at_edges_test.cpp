// Scans, windows, scatters and counts where random cases against PyTorch and NumPy found them wrong: what stands before
// the first element, places that count from nowhere, numbers of one element, views of no elements.
#include "../catch.hpp"
#include "../checks.hpp"

#include <sinter/sinter.hpp>

#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

using namespace sinter;

namespace {

constexpr const char* back_ends[] = {"", "reference", "aot_eager", "eager"};

template <class T>
void check_exclusive_extrema() {
  using Limits = std::numeric_limits<T>;
  const std::vector<T> values{3, 1, 2, Limits::max(), Limits::lowest(), 5};
  const std::vector<T> least{Limits::max(), 3, 1, 1, 1, Limits::lowest()};
  const std::vector<T> greatest{Limits::lowest(), 3, 3, 3, Limits::max(), Limits::max()};
  const Tensor x = copy_of(values);
  INFO(name(x.dtype()));
  const auto both = [](Tensor v) {
    return std::pair(cummin(v, 0, {.exclusive = true}), cummax(flip(v), 0, {.exclusive = true, .reverse = true}));
  };
  for (const char* back_end : back_ends) {
    const auto [low, high] = jit::compile(both, {.backend = back_end})(x);
    CHECK(to_vector<T>(low) == least);
    CHECK(to_vector<T>(flip(high)) == greatest);
  }
  const auto [lows, highs] = jit::vmap(both)(stack({x, x}, 0));
  CHECK(to_vector<T>(lows(1)) == least);
  CHECK(to_vector<T>(flip(highs(1))) == greatest);
  CHECK(to_vector<T>(cummin(x, 0, {.exclusive = true})) == least);
}

/// f of x in f16 and bf16 against f of the same numbers in f64, in units of the dtype's last place of the largest one.
void check_in_halves(const char* what, const Tensor& x, double units, const std::function<Tensor(Tensor)>& f) {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    const Tensor given = x.to(dtype);
    const auto want = doubles(f(given.to(DType::f64)));
    const double unit = dtype == DType::f16 ? 0x1p-10 : 0x1p-7;
    INFO(what << " of " << name(dtype));
    CHECK(near_relative(doubles(f(given)), want, units * unit));
    for (const char* back_end : back_ends) {
      INFO("back end '" << back_end << "'");
      CHECK(near_relative(doubles(jit::compile(f, {.backend = back_end})(given)), want, units * unit));
    }
  }
}
/// Numbers from 100 to 200, none beside another of its kind.
Tensor hundreds(const Shape& shape) {
  const Tensor count = arange(shape.numel(), {.dtype = DType::f64});
  return reshape(150 + 50 * sin(count * 1.7), shape);
}
/// The derivative of the sum of f, in f64.
std::function<Tensor(Tensor)> slope_of(std::function<Tensor(Tensor)> f) {
  return [f](Tensor x) { return jit::grad([&](Tensor v) { return sum(f(v).to(DType::f64)); })(x); };
}

}  // namespace

TEST_CASE("kinds at edges: before the first element stands the extreme of the dtype, of bytes too") {
  check_exclusive_extrema<std::uint8_t>();
  check_exclusive_extrema<std::int8_t>();
  check_exclusive_extrema<std::uint16_t>();
  check_exclusive_extrema<std::int16_t>();
  check_exclusive_extrema<std::uint32_t>();
  check_exclusive_extrema<std::int32_t>();
  check_exclusive_extrema<std::int64_t>();
  check_exclusive_extrema<std::uint64_t>();
}

TEST_CASE("kinds at edges: one u64 is counted") {
  for (const std::uint64_t value : {std::uint64_t{0}, std::uint64_t{7}, ~std::uint64_t{0}}) {
    const Tensor x = copy_of(std::vector<std::uint64_t>{value}, {});
    CHECK(item<int>(count_nonzero(x)) == (value != 0));
    CHECK(nonzero(x).shape() == Shape({value != 0 ? 1 : 0, 0}));
    CHECK(item<int>(jit::compile([](Tensor v) { return count_nonzero(v); })(x)) == (value != 0));
  }
}

TEST_CASE("kinds at edges: places of max_unpool do not count from the end") {
  const Tensor x = ones({1, 1, 2, 2});
  const Tensor places = reshape(tensor({0, 2, -1, 10}), {1, 1, 2, 2});
  CHECK_THROWS_AS(eval(max_unpool2d(x, places, {.size = 2})), IndexError);
  CHECK_THROWS_AS(jit::compile([](Tensor v, Tensor at) { return max_unpool2d(v, at, {.size = 2}); })(x, places),
                  IndexError);
  CHECK(item<float>(sum(max_unpool2d(x, abs(places), {.size = 2}))) == 4);
}

TEST_CASE("kinds at edges: reshapes of no elements, one operation at a time") {
  for (const Shape& shape : {Shape{2, 0}, Shape{2, 3, 4, 0}, Shape{0, 3}, Shape{3, 0, 2}})
    for (const char* back_end : back_ends) {
      const int last = shape.rank() - 1;
      const Tensor x = zeros(shape);
      const Tensor repeated =
          jit::compile([&](Tensor v) { return repeat_interleave(v, 2, last); }, {.backend = back_end})(x);
      CHECK(repeated.shape()[last] == 2 * shape[last]);
    }
  for (const char* back_end : back_ends) {
    const Tensor none = jit::compile([](Tensor a, Tensor b) { return outer(a, b); }, {.backend = back_end})(
        ones({5}, {.dtype = DType::c64}), zeros({0}, {.dtype = DType::c64}));
    CHECK(none.shape() == Shape({5, 0}));
  }
}

TEST_CASE("kinds at edges: f16 and bf16 do not hold rotary positions, which are f32") {
  const Tensor x = reshape(cos(arange(2 * 3000 * 4, {.dtype = DType::f64})), {2, 3000, 4});
  check_in_halves("rotary_embedding", x, 4, [](Tensor v) { return rotary_embedding(v); });
  check_in_halves("with an offset", x, 4,
                  [](Tensor v) { return rotary_embedding(v, {.layout = RotaryLayout::interleaved, .offset = 4001}); });
  check_in_halves("at positions", x, 4,
                  [](Tensor v) { return rotary_embedding(v, {.features = 2, .positions = arange(3000) * 3 + 1}); });
  check_in_halves("its derivative", x, 4, slope_of([](Tensor v) { return rotary_embedding(v); }));
}

TEST_CASE("kinds at edges: sums beyond the range of f16 whose means are within it") {
  const Tensor image = hundreds({1, 2, 32, 33}), rows = hundreds({2000, 2});
  const auto mean_of_windows = [](Tensor v) {
    return avg_pool2d(v, {.size = 30, .stride = 3, .padding = 5, .ceil_mode = true, .count_include_pad = false});
  };
  check_in_halves("avg_pool2d", image, 4, mean_of_windows);
  check_in_halves("its derivative", image, 4, slope_of(mean_of_windows));
  check_in_halves("lp_pool1d", hundreds({1, 2, 700}), 4, [](Tensor v) { return lp_pool1d(v, 2.0, {.size = 100}); });
  check_in_halves("adaptive_avg_pool", hundreds({1, 2, 1999}), 4, [](Tensor v) { return adaptive_avg_pool(v, {3}); });
  check_in_halves("nanmean", rows, 4, [](Tensor v) { return nanmean(v, 0); });
  check_in_halves("nanvar", hundreds({70000, 1}) / 100, 64, [](Tensor v) { return nanvar(v, 0); });
  check_in_halves("nanstddev", rows, 4, [](Tensor v) { return nanstddev(v, 0); });
  check_in_halves("average", rows, 4, [](Tensor v) { return average(v, ones_like(v), 0); });
  const Tensor ids = arange(2000) % 2;
  check_in_halves("segment_mean", rows, 4, [&](Tensor v) { return segment_mean(v, ids, 2); });
  check_in_halves("embedding_bag", rows, 4,
                  [](Tensor v) { return embedding_bag(reshape(arange(2000), {1, 2000}), v); });
  check_in_halves("scatter_reduce", rows, 4, [&](Tensor v) {
    const Tensor at = expand(unsqueeze(ids, 1), {2000, 2});
    return scatter_reduce(v(slice(0, 2)), 0, at, v, ScatterReduction::mean);
  });
  check_in_halves("lp_pool2d", hundreds({1, 1, 60, 60}), 4, [](Tensor v) { return lp_pool2d(v, 2.0, 30, 30); });
  check_in_halves("cov", transpose(rows, 0, 1), 16, [](Tensor v) { return Tensor(cov(v) / 8); });
  check_in_halves("corrcoef", transpose(rows, 0, 1), 16, [](Tensor v) { return corrcoef(v); });
  const Tensor classes = arange(70000) % 3;
  const Tensor logits = reshape(sin(arange(210000, {.dtype = DType::f64})), {70000, 3});
  check_in_halves("nll_loss", logits, 4, [&](Tensor v) { return nll_loss(v, classes); });
  check_in_halves("the derivative of cross_entropy", logits, 4, slope_of([&](Tensor v) {
                    return Tensor(cross_entropy(v, classes, {.label_smoothing = 0.1}) * 1024);
                  }));
  check_in_halves("the derivative of var", hundreds({70000, 1}) / 100, 64,
                  slope_of([](Tensor v) { return Tensor(var(v, 0) * 1e4); }));
}

TEST_CASE("kinds at edges: one element of a large window has the gradient, in f16 and bf16 too") {
  for (const int extent : {300, 1000, 5000}) {
    const Tensor x = where(arange(extent) == extent - 2, 1.0, 0.0);
    const Tensor row = reshape(x, {1, 1, extent});
    const auto largest = slope_of([](Tensor v) { return adaptive_max_pool(v, {1}); });
    check_in_halves("adaptive_max_pool", row, 0, largest);
    if (extent > 1000) continue;
    check_in_halves("max_pool1d", row, 0,
                    slope_of([extent](Tensor v) { return max_pool1d(v, {.size = extent - 3, .stride = 1}); }));
  }
}

TEST_CASE("kinds at edges: extremes of computed f16 and bf16 have gradients") {
  // Each column has one element that is larger than all others by far, before and after rounding.
  const Tensor place = reshape(arange(15 * 17, {.dtype = DType::f64}), {15, 17});
  const Tensor x = where(unsqueeze(arange(15), 1) == arange(17) % 15, 2.0, 0.5 * sin(place * 1.7));
  const auto centred = [](Tensor v) { return Tensor((v - mean(v, -1, keepdim)) * rsqrt(var(v, -1, keepdim) + 0.5)); };
  check_in_halves("amax beside what it is of", x, 16, slope_of([&](Tensor v) {
                    const Tensor y = centred(v);
                    return Tensor(y * y + amax(y, 0, keepdim));
                  }));
  check_in_halves("amin", -x, 16, slope_of([&](Tensor v) {
                    const Tensor y = centred(v);
                    return Tensor(y * y + amin(y, 0, keepdim));
                  }));
  check_in_halves("max_pool1d", x, 16, slope_of([&](Tensor v) {
                    const Tensor y = centred(v);
                    return Tensor(max_pool1d(unsqueeze(y.t(), 0), {.size = 15}) * 3 + sum(y * y));
                  }));
  check_in_halves("adaptive_max_pool", x, 16, slope_of([&](Tensor v) {
                    const Tensor y = centred(v);
                    return Tensor(adaptive_max_pool(unsqueeze(y.t(), 0), {1}) * 3 + sum(y * y));
                  }));
  check_in_halves("cummax", x, 16, slope_of([&](Tensor v) {
                    const Tensor y = centred(v);
                    return Tensor(cummax(y, 0)(-1) + sum(y * y));
                  }));
  check_in_halves("segment_max", x, 16, slope_of([&](Tensor v) {
                    const Tensor y = centred(v);
                    return Tensor(segment_max(y, zeros({15}, {.dtype = DType::i64}), 1) + sum(y * y));
                  }));
  const auto is_largest = [&](Tensor v) {
    const Tensor y = centred(v), top = amax(y, 0, keepdim);
    return std::tuple(y, top, y == top, y != top);
  };
  for (const DType dtype : {DType::f16, DType::bf16}) {
    const auto [y, top, is_top, is_other] = jit::compile(is_largest)(x.to(dtype));
    CHECK(item<int>(sum(is_top)) == 17);
    CHECK(item<int>(sum(is_other)) == 14 * 17);
  }
}

TEST_CASE("kinds at edges: the largest of whole numbers in windows") {
  for (const DType dtype :
       {DType::u8, DType::i8, DType::u16, DType::i16, DType::i32, DType::u32, DType::i64, DType::u64}) {
    INFO(name(dtype));
    const bool is_signed = dtype == DType::i8 || dtype == DType::i16 || dtype == DType::i32 || dtype == DType::i64;
    const Tensor numbers = (arange(2 * 5 * 6) * 7 % 23 - (is_signed ? 30 : 0)).reshape({1, 2, 5, 6});
    const auto pooled = [](Tensor v) {
      const auto [values, indices] =
          max_pool2d_with_indices(v, {.size = 3, .stride = 2, .padding = 1, .ceil_mode = true});
      const Tensor again = max_pool2d(v, {.size = 3, .stride = 2, .padding = 1, .ceil_mode = true});
      return std::tuple(values, indices, again, max_pool2d(v, 2));
    };
    const auto [values, indices, again, plain] = pooled(numbers.to(DType::f64));
    for (const char* back_end : back_ends) {
      const auto [v, i, a, p] = jit::compile(pooled, {.backend = back_end})(numbers.to(dtype));
      CHECK((v.dtype() == dtype && a.dtype() == dtype && p.dtype() == dtype));
      CHECK(doubles(v) == doubles(values));
      CHECK(doubles(i) == doubles(indices));
      CHECK(doubles(a) == doubles(again));
      CHECK(doubles(p) == doubles(plain));
    }
  }
  CHECK_THROWS_AS(max_pool1d(ones({1, 1, 4}, {.dtype = DType::bool_}), {.size = 2}), DTypeError);
  CHECK_THROWS_AS(avg_pool1d(ones({1, 1, 4}, {.dtype = DType::i32}), {.size = 2}), DTypeError);
}

TEST_CASE("kinds at edges: places in windows of f16 and bf16 are those of rounded numbers") {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    INFO(name(dtype));
    // The first three sums are one number of f16, and of bf16.
    const Tensor v = full({1, 1, 4}, 1, {.dtype = dtype}),
                 d = reshape(tensor({1e-4f, 2e-4f, 3e-4f, 0.f}), {1, 1, 4}).to(dtype);
    const auto places = [](Tensor x, Tensor y) { return max_pool1d_with_indices(x + y, {.size = 4}).indices; };
    const auto slope = [&](Tensor x) { return sum(max_pool1d(x + d, {.size = 4})); };
    for (const char* back_end : back_ends) {
      INFO("back end '" << back_end << "'");
      CHECK(item<std::int64_t>(jit::compile(places, {.backend = back_end})(v, d)) == 0);
      CHECK(doubles(jit::compile(jit::grad(slope), {.backend = back_end})(v)) == std::vector<double>{1, 0, 0, 0});
    }
  }
}

TEST_CASE("kinds at edges: axes by name in any order, counted from the end, and none") {
  const Tensor x = reshape(tensor({1.f, 9.f, 3.f, 4.f, 5.f, 6.f}), {1, 2, 3});
  for (const char* axes : {"axes=[1, 2]", "axes=[2, 1]", "axes=[-1, -2]"})
    for (const char* op : {"window_max", "amax"}) {
      INFO(op << " with " << axes);
      const auto f = [&](Tensor v) { return sum(call(op, {v}, axes)[0]); };
      CHECK(item<float>(f(x)) == 9);
      CHECK(doubles(jit::grad(f)(x)) == std::vector<double>{0, 1, 0, 0, 0, 0});
    }
  const auto last = [](Tensor v) { return sum(call("amin", {v}, "axes=[-1]")[0]); };
  CHECK(doubles(jit::grad(last)(x)) == std::vector<double>{1, 0, 0, 1, 0, 0});
  const auto none = [](Tensor v) { return sum(call("window_max", {v}, "axes=[]")[0]); };
  CHECK(doubles(jit::grad(none)(x)) == std::vector<double>(6, 1));
}
