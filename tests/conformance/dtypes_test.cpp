// Dtypes that are computed in wider ones: every pair of conversions, every f16 and bf16 there is, loads and stores of
// all kinds, promotion, and what users do with them on the host. Oracles are written here, on numbers of C++.
#include "../checks.hpp"
#include "op_table.hpp"

#include <Eigen/Core>

#include <algorithm>
#include <functional>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

using namespace sinter_test;

namespace {

constexpr DType all_dtypes[] = {DType::bool_, DType::u8,  DType::i8,  DType::u16,    DType::i16,
                                DType::u32,   DType::i32, DType::i64, DType::u64,    DType::f16,
                                DType::bf16,  DType::f32, DType::f64, DType::f8e4m3, DType::f8e5m2};

/// The nearest number with `digits` digits and exponents from `least` on; beyond `largest` infinite. Ties to even.
double nearest(double x, int digits, int least, double largest) {
  if (!std::isfinite(x) || x == 0) return x;
  int exponent = 0;
  std::frexp(x, &exponent);
  const double unit = std::ldexp(1.0, std::max(exponent - digits, least));
  const double rounded = std::nearbyint(x / unit) * unit;
  return std::abs(rounded) > largest ? std::copysign(oracle::infinite, x) : rounded;
}
double as_f16(double x) { return nearest(x, 11, -24, 65504); }
double as_bf16(double x) { return nearest(x, 8, -133, 0x1.fep127); }
double as_f8e5m2(double x) { return nearest(x, 3, -16, 57344); }
/// Without infinities: what is too large becomes the largest number.
double as_f8e4m3(double x) {
  const double rounded = nearest(x, 4, -9, 448);
  return std::isinf(rounded) ? std::copysign(448, x) : rounded;
}

/// What a conversion gives: floats saturate as integers (NaN is 0), integers wrap.
double converted(DType from, DType to, double x) {
  if (to == DType::bool_) return x != 0 ? 1 : 0;
  if (to == DType::f64) return x;
  if (is_floating(to)) {
    const double single = static_cast<double>(static_cast<float>(x));
    return to == DType::f32      ? single
           : to == DType::f16    ? as_f16(single)
           : to == DType::bf16   ? as_bf16(single)
           : to == DType::f8e4m3 ? as_f8e4m3(single)
                                 : as_f8e5m2(single);
  }
  const double modulus = std::ldexp(1.0, 8 * static_cast<int>(size_of(to)));
  const double least = row(to).is_signed ? -modulus / 2 : 0, past = least + modulus;
  if (is_floating(from)) {
    if (std::isnan(x)) return 0;
    return std::trunc(x) < least ? least : std::trunc(x) >= past ? past - 1 : std::trunc(x);
  }
  if (to == DType::u64) return x;  // as_element wraps; the sum with 2^64 may be no double
  return x - modulus * std::floor((x - least) / modulus);
}

std::vector<double> samples(DType dtype) {
  std::vector<double> list;
  if (dtype == DType::bool_) return {0, 1, 1, 0};
  for (double x : {0.0,     1.0,     2.0,     3.0,          7.0,          100.0,        127.0,        128.0,
                   129.0,   200.0,   255.0,   256.0,        257.0,        1000.0,       32767.0,      32768.0,
                   65535.0, 65536.0, 70000.0, 2147483647.0, 2147483648.0, 4294967295.0, 4294967296.0, 1e12,
                   12.0,    20.0,    448.0,   464.0,        465.0,        57344.0,      61439.0,      0x1.8p63})
    for (double sign : {1.0, -1.0}) list.push_back(sign * x);
  if (is_floating(dtype)) {
    for (double x :
         {0.5, 0.75, 1.5, 2.5, 1e-3, 6e-5, 3e-8, 2.9e-8, 5.96e-8, 65519.9, 65520.0, 1e30, 1e-40, oracle::infinite})
      for (double sign : {1.0, -1.0}) list.push_back(sign * x);
    list.push_back(-0.0);
    list.push_back(oracle::not_a_number);
    for (double& x : list) x = converted(DType::f64, dtype, x);
    return list;
  }
  const double past = dtype == DType::u64 ? 0x1p64 : static_cast<double>(tensor_detail::greatest(dtype)) + 1;
  std::erase_if(list, [&](double x) { return x < static_cast<double>(tensor_detail::lowest(dtype)) || x >= past; });
  return list;
}

Array array_of(DType dtype, std::vector<double> values) {
  const auto count = static_cast<std::int64_t>(values.size());
  return {dtype, {count}, std::move(values)};
}

/// The same on every back end, of every layout.
void check_everywhere(const char* what, const Function& run, const Arrays& in, const Array& want) {
  for (auto placement : {Placement::dense, Placement::stepped})
    for (const Mode& mode : modes()) {
      INFO(what << ", " << mode.name);
      CHECK(difference_of([&] { return run_in(mode, run, tensors(in, placement)); }, want, {}) == "");
    }
}

}  // namespace

namespace {
/// PyTorch's rule for running sums too.
bool sum_of_integers_is_wide(std::string_view what) { return what == "cumulative"; }
}  // namespace

TEST_CASE("dtypes: every conversion") {
  std::size_t number = 0;
  for (DType from : all_dtypes)
    for (DType to : all_dtypes) {
      if (!is_in_sample(number++)) continue;
      const std::vector<double> values = samples(from);
      Array want = array_of(to, {});
      for (double x : values) want.data.push_back(converted(from, to, x));
      want.extents = {static_cast<std::int64_t>(values.size())};
      INFO(name(from) << " to " << name(to));
      check_everywhere(
          "cast", [to](const Inputs& in) { return Tensor(cast(in[0], to)); }, {array_of(from, values)}, want);
      // Of a number that is known when the function is compiled, and of one in C++.
      for (double x : values) {
        if (from != DType::f64 || std::isnan(x)) continue;
        const Tensor folded =
            jit::compile([=](Tensor) { return Tensor(cast(full({2}, x, {.dtype = DType::f64}), to)); })(zeros({1}));
        CHECK(doubles(folded)[0] == converted(from, to, x));
      }
    }
}

TEST_CASE("dtypes: integers by way of floats saturate, as integers they wrap") {
  const Array x{DType::i32, {6}, {-300, -1, 0, 255, 256, 70000}};
  const auto saturated = [](DType by, DType to) {
    return [by, to](const Inputs& in) { return Tensor(cast(cast(in[0], by), to)); };
  };
  check_everywhere("by f64 to u8", saturated(DType::f64, DType::u8), {x}, {DType::u8, {6}, {0, 0, 0, 255, 255, 255}});
  check_everywhere("by f64 to i8", saturated(DType::f64, DType::i8), {x},
                   {DType::i8, {6}, {-128, -1, 0, 127, 127, 127}});
  check_everywhere("by f64 to u64", saturated(DType::f64, DType::u64), {x},
                   {DType::u64, {6}, {0, 0, 0, 255, 256, 70000}});
  check_everywhere("by i64 to u8", saturated(DType::i64, DType::u8), {x}, {DType::u8, {6}, {212, 255, 0, 255, 0, 112}});
}

TEST_CASE("dtypes: every f16 and bf16, and what lies between two of them") {
  for (DType dtype : halves) {
    const auto value_of = [&](std::uint32_t bits) {
      const auto word = static_cast<std::uint16_t>(bits);
      return dtype == DType::f16 ? static_cast<float>(float16::from_bits(word))
                                 : static_cast<float>(bfloat16::from_bits(word));
    };
    std::vector<float> numbers;
    std::vector<double> want;
    for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
      const float x = value_of(bits), next = value_of((bits + 1) & 0xFFFF);
      numbers.push_back(x);
      want.push_back(static_cast<double>(x));
      if (!std::isfinite(x) || !std::isfinite(next) || (bits & 0x7FFF) == 0x7FFF) continue;
      const float middle = (x + next) / 2;  // exact; beside it lie floats that round to one side
      for (float between : {middle, std::nextafter(middle, x), std::nextafter(middle, next)}) {
        numbers.push_back(between);
        want.push_back(dtype == DType::f16 ? as_f16(static_cast<double>(between))
                                           : as_bf16(static_cast<double>(between)));
      }
    }
    const Tensor every = copy_of(numbers, {static_cast<std::int64_t>(numbers.size())});
    for (const Mode& mode : modes()) {
      INFO(name(dtype) << ", " << mode.name);
      const Function there = [dtype](const Inputs& in) { return Tensor(cast(in[0], dtype)); },
                     back = [](const Inputs& in) { return Tensor(cast(in[0], DType::f32)); },
                     both = [dtype](const Inputs& in) { return Tensor(cast(cast(in[0], dtype), DType::f32)); };
      const Tensor stored = run_in(mode, there, {every});
      for (const Tensor& result : {run_in(mode, back, {stored}), run_in(mode, both, {every})}) {
        const std::vector<float> got = to_vector<float>(result);
        std::size_t wrong = 0;
        for (std::size_t i = 0; i < got.size(); ++i) {
          const auto is = static_cast<double>(got[i]);
          wrong +=
              !(is == want[i] || (std::isnan(is) && std::isnan(want[i]))) || std::signbit(is) != std::signbit(want[i]);
        }
        CHECK(wrong == 0);
      }
    }
  }
}

namespace {
constexpr std::string_view promoted_names[] = {"bool", "u8",   "i8",  "u16", "i16", "u32",  "i32",    "i64",   "u64",
                                               "f16",  "bf16", "f32", "f64", "c64", "c128", "f8e4m3", "f8e5m2"};
/// torch.promote_types (PyTorch 2), and numpy.promote_types for u16, u32 and u64 beside other integers. `-`: a
/// DTypeError; NumPy gives float64 for u64 beside signed integers, and PyTorch has no rule for f8. Complex numbers
/// beside u16, u32 and u64, which PyTorch refuses, are as beside its other integers.
constexpr const char* promoted[] = {
    "bool u8   i8   u16  i16  u32  i32  i64  u64  f16  bf16 f32  f64  c64  c128 f8e4m3 f8e5m2",
    "u8   u8   i16  u16  i16  u32  i32  i64  u64  f16  bf16 f32  f64  c64  c128 - -",
    "i8   i16  i8   i32  i16  i64  i32  i64  -    f16  bf16 f32  f64  c64  c128 - -",
    "u16  u16  i32  u16  i32  u32  i32  i64  u64  f16  bf16 f32  f64  c64  c128 - -",
    "i16  i16  i16  i32  i16  i64  i32  i64  -    f16  bf16 f32  f64  c64  c128 - -",
    "u32  u32  i64  u32  i64  u32  i64  i64  u64  f16  bf16 f32  f64  c64  c128 - -",
    "i32  i32  i32  i32  i32  i64  i32  i64  -    f16  bf16 f32  f64  c64  c128 - -",
    "i64  i64  i64  i64  i64  i64  i64  i64  -    f16  bf16 f32  f64  c64  c128 - -",
    "u64  u64  -    u64  -    u64  -    -    u64  f16  bf16 f32  f64  c64  c128 - -",
    "f16  f16  f16  f16  f16  f16  f16  f16  f16  f16  f32  f32  f64  c64  c128 - -",
    "bf16 bf16 bf16 bf16 bf16 bf16 bf16 bf16 bf16 f32  bf16 f32  f64  c64  c128 - -",
    "f32  f32  f32  f32  f32  f32  f32  f32  f32  f32  f32  f32  f64  c64  c128 - -",
    "f64  f64  f64  f64  f64  f64  f64  f64  f64  f64  f64  f64  f64  c128 c128 - -",
    "c64  c64  c64  c64  c64  c64  c64  c64  c64  c64  c64  c64  c128 c64  c128 - -",
    "c128 c128 c128 c128 c128 c128 c128 c128 c128 c128 c128 c128 c128 c128 c128 - -",
    "f8e4m3 - - - - - - - - - - - - - - f8e4m3 -",
    "f8e5m2 - - - - - - - - - - - - - - - f8e5m2",
};
}  // namespace

TEST_CASE("dtypes: every pair promotes as in PyTorch, and in NumPy for u16, u32 and u64") {
  REQUIRE(std::size(promoted_names) == dtype_count);
  for (std::size_t i = 0; i < std::size(promoted); ++i) {
    std::istringstream row(promoted[i]);
    for (std::size_t j = 0; j < std::size(promoted); ++j) {
      const DType a = dtype_named(promoted_names[i]), b = dtype_named(promoted_names[j]);
      std::string want;
      REQUIRE(row >> want);
      INFO(name(a) << " and " << name(b) << " give " << want);
      const Tensor x = zeros({2}, {.dtype = a}), y = zeros({2}, {.dtype = b});
      CHECK(can_promote(a, b) == (want != "-"));
      if (want == "-") {
        CHECK(has(message_of<DTypeError>([&] { concat({x, y}, 0); }), "no common dtype"));
        CHECK_THROWS_AS(eval(x + y), DTypeError);
        continue;
      }
      CHECK(name(promote(a, b)) == want);
      CHECK(name(concat({x, y}, 0).dtype()) == want);
      if (is_f8(a) || is_f8(b)) continue;  // nothing is computed with them
      CHECK(name(Tensor(x + y).dtype()) == want);
      CHECK(name(Tensor(where(zeros({2}, {.dtype = DType::bool_}), x, y)).dtype()) == want);
    }
  }
  // Numbers never widen.
  using enum DType;
  CHECK(Tensor(ones({2}, {.dtype = u8}) + 1).dtype() == u8);
  CHECK(Tensor(ones({2}, {.dtype = u8}) * 0.5).dtype() == f32);
  CHECK(Tensor(ones({2}, {.dtype = bf16}) * 0.5).dtype() == bf16);
  CHECK(Tensor(ones({2}, {.dtype = u64}) + 1).dtype() == u64);
}

TEST_CASE("dtypes: an image of bytes goes through one kernel, without copies") {
  constexpr std::int64_t height = 37, width = 53;
  std::vector<std::uint8_t> pixels(as_index(height * width * 3)), result(pixels.size(), 7);
  for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<std::uint8_t>(i * 37 + i / 11);
  const std::vector<float> gains{1.4f, 0.9f, 1.1f};
  // A mirror, white balance and contrast of an image in rows of pixels (height, width, channels).
  const auto program = [&](Tensor image) {
    const Tensor light = flip(image, 1).to(DType::f32) * (1 / 255.f) * copy_of(gains);
    const Tensor contrast = (light - 0.5f) * 1.25f + 0.5f;
    return round(contrast * 255.f).to(DType::u8);
  };
  for (const Mode& mode : modes()) {
    if (mode.backend == nullptr || !mode.fuse) continue;
    INFO(mode.name);
    std::fill(result.begin(), result.end(), std::uint8_t{7});
    const auto compiled = jit::compile(program, mode.options());
    compiled.into(borrow_mut(result, {height, width, 3}))(borrow(pixels, {height, width, 3}));
    CHECK(compiled.stats().kernels == 1);
    int worst = 0;
    for (std::int64_t y = 0; y < height; ++y)
      for (std::int64_t x = 0; x < width; ++x)
        for (std::int64_t c = 0; c < 3; ++c) {
          const double light =
              pixels[as_index((y * width + width - 1 - x) * 3 + c)] / 255.0 * static_cast<double>(gains[as_index(c)]);
          const double value = std::nearbyint(((light - 0.5) * 1.25 + 0.5) * 255);
          const int want = static_cast<int>(std::clamp(value, 0.0, 255.0));  // stores saturate
          worst = std::max(worst, std::abs(want - result[as_index((y * width + x) * 3 + c)]));
        }
    CHECK(worst <= 1);  // halves of f32
  }
}

TEST_CASE("dtypes: lengths, layouts and kinds of loads and stores") {
  struct Case {
    const char* what;
    Tensor (*run)(const Inputs&);
  };
  static constexpr Case cases[] = {
      {"scaled", [](const Inputs& in) { return Tensor(in[0] * 3 + in[1]); }},
      {"of a column", [](const Inputs& in) { return Tensor(in[0] + in[1](all, slice(0, 1))); }},
      {"of one number", [](const Inputs& in) { return Tensor(in[0] + in[1](0, 0)); }},
      {"transposed", [](const Inputs& in) { return Tensor(transpose(in[0], 0, 1) + 1); }},
      {"flipped", [](const Inputs& in) { return Tensor(flip(in[0], {1}) + in[1]); }},
      {"rolled", [](const Inputs& in) { return Tensor(roll(in[0], 2, 1) + in[1]); }},
      {"padded", [](const Inputs& in) { return Tensor(pad(in[0], {{1, 0}, {2, 1}}) + 1); }},
      {"joined", [](const Inputs& in) { return Tensor(concat({in[0], in[1], in[0]}, 1) * 2); }},
      {"taken", [](const Inputs& in) { return Tensor(take(in[0], tensor<std::int64_t>({2, 0, 1, 2}), 0) + 1); }},
      {"gathered",
       [](const Inputs& in) {
         return Tensor(take_along_axis(in[0], cast(abs(cast(in[1], DType::i64)) % 3, DType::i64), 0) + 1);
       }},
      {"updated",
       [](const Inputs& in) {
         Tensor x = in[0] + 0;
         x.at(1, all) = in[1](2, all);
         return Tensor(x + 1);
       }},
      {"added in places", [](const Inputs& in) { return index_add(in[0], 0, tensor<std::int64_t>({2, 0, 2}), in[1]); }},
      {"cumulative", [](const Inputs& in) { return Tensor(cumsum(in[0], 1) + 0); }},
      {"largest", [](const Inputs& in) { return Tensor(amax(in[0], 1) + amin(in[1], 1)); }},
      {"of columns", [](const Inputs& in) { return Tensor(cast(sum(in[0], 0), in[0].dtype())); }},
      {"a product", [](const Inputs& in) { return matmul(in[0], transpose(in[1], 0, 1)); }},
      {"compared", [](const Inputs& in) { return Tensor(where(in[0] < in[1], in[0], in[1] + 1)); }},
  };
  std::size_t number = 0;
  for (const Case& c : cases)
    for (DType dtype : {DType::u8, DType::i8, DType::u16, DType::i16, DType::u32, DType::f16, DType::bf16})
      for (std::int64_t length : {1, 3, 8, 17, 40, 131}) {
        if (!is_in_sample(number++)) continue;
        const DType wide = is_floating(dtype) ? DType::f64 : DType::i64;
        // Halves and small numbers, of which sums are exact.
        const Domain domain = is_floating(dtype) ? Domain{-8, 8} : Domain{-3000, 3000};
        Arrays in = make_inputs({{{3, length}, dtype, domain}, {{3, length}, dtype, domain}}, 0);
        for (Array& array : in)
          for (double& x : array.data) x = is_floating(dtype) ? std::round(x) : converted(DType::i64, dtype, x);
        Arrays widened = in;
        for (Array& array : widened) array.dtype = wide;
        // The same in 64 bits, which other tests are about, and brought back.
        const Tensor exact = c.run(tensors(widened));
        Array want{sum_of_integers_is_wide(c.what) && !is_floating(dtype) ? DType::i64 : dtype, {}, {}};
        for (const Dim extent : exact.shape()) want.extents.push_back(extent.value());
        for (double x : doubles(exact)) want.data.push_back(converted(wide, want.dtype, x));
        INFO(c.what << ", " << name(dtype) << ", rows of " << length);
        for (const Mode& mode : modes())
          for (const Placement placement : {Placement::dense, Placement::transposed, Placement::stepped}) {
            INFO(mode.name);
            Tolerance none{};
            CHECK(difference_of([&] { return run_in(mode, c.run, tensors(in, placement)); }, want, none) == "");
          }
      }
}

TEST_CASE("dtypes: intermediate values of f16 neither overflow nor lose digits") {
  const std::int64_t length = 100'000;
  const Tensor ones_of_f16 = ones({2, length}, {.dtype = DType::f16}), large = full({64}, 60000, {.dtype = DType::f16});
  for (const char* backend : {"", "reference"}) {
    const jit::Options options{.backend = backend};
    CHECK(doubles(jit::compile([](Tensor x) { return mean(x, 1); }, options)(ones_of_f16)) ==
          std::vector<double>{1, 1});
    CHECK(doubles(jit::compile([](Tensor x) { return mean(x); }, options)(large))[0] == 60000 - 0.0);
    const Tensor soft = jit::compile([](Tensor x) { return softmax(x, 1); }, options)(ones_of_f16);
    CHECK(doubles(soft)[7] == as_f16(1.0 / static_cast<double>(length)));
    const Tensor normal = jit::compile([](Tensor x) { return logsumexp(x, 1); }, options)(ones_of_f16);
    CHECK(doubles(normal)[0] == as_f16(1 + std::log(static_cast<double>(length))));
  }
}

TEST_CASE("dtypes: derivatives of f16 and bf16") {
  for (DType dtype : halves) {
    const Tensor x = cast(tensor({0.5f, -1.0f, 2.0f}), dtype);
    const Tensor slope = jit::grad([](Tensor v) { return sum(v * v * v); })(x);
    CHECK(slope.dtype() == dtype);
    CHECK(doubles(slope) == std::vector<double>{0.75, 3, 12});
    const auto compiled =
        jit::compile(jit::grad([](Tensor v) { return sum(matmul(v.reshape({1, 3}), v.reshape({3, 1}))); }));
    CHECK(doubles(compiled(x)) == std::vector<double>{1, -2, 4});
    const Variable w(x);
    w.requires_grad();
    sum(square(w.value())).backward();
    CHECK(doubles(w.grad()) == std::vector<double>{1, -2, 4});
  }
}

TEST_CASE("dtypes: on the host") {
  const Tensor bytes = tensor<std::uint8_t>({{0, 1}, {254, 255}});
  CHECK(bytes.dtype() == DType::u8);
  CHECK(to_vector<std::uint8_t>(bytes) == std::vector<std::uint8_t>{0, 1, 254, 255});
  CHECK(item<int>(bytes(1, 1)) == 255);
  CHECK(item<std::uint8_t>(full({}, 200, {.dtype = DType::u8})) == 200);
  CHECK(doubles(Tensor(bytes + 1))[3] == 0);
  std::ostringstream text;
  text << bytes << "\n" << cast(tensor({1.5f, 0.1f}), DType::bf16) << "\n" << cast(tensor({0.1f}), DType::f16);
  CHECK(text.str() == "[[  0,   1],\n [254, 255]]\n\n[1.5, 0.1]\n\n[0.1]\n");

  std::vector<std::uint16_t> words{1, 2, 65535};
  const Tensor borrowed = copy_of(borrow(words, {3}));
  CHECK(borrowed.dtype() == DType::u16);
  CHECK(doubles(Tensor(cast(borrowed, DType::i32) * 2)) == std::vector<double>{2, 4, 131070});
  const std::vector<float16> narrow{float16(1.0f), float16(0.1f)};
  CHECK(copy_of(narrow, {2}).dtype() == DType::f16);
  CHECK(static_cast<float>(to_vector<float16>(copy_of(narrow, {2}))[1]) == static_cast<float>(float16(0.1f)));

  Eigen::Matrix<Eigen::half, 2, 2, Eigen::RowMajor> matrix;
  matrix << Eigen::half(1), Eigen::half(2), Eigen::half(3), Eigen::half(4);
  CHECK(dtype_of<Eigen::half>() == DType::f16);
  CHECK(dtype_of<Eigen::bfloat16>() == DType::bf16);
  CHECK(doubles(copy_of(matrix)) == std::vector<double>{1, 2, 3, 4});

  CHECK_THROWS_WITH(full({2}, 256, {.dtype = DType::u8}), Catch::Contains("does not fit u8"));
  CHECK_THROWS_WITH(full({2}, -1, {.dtype = DType::u32}), Catch::Contains("does not fit u32"));
}

TEST_CASE("dtypes: an image of bytes is one kernel from end to end") {
  auto brighten =
      jit::compile([](Tensor image) { return Tensor(cast(cast(image, DType::f32) * 1.5f + 20, DType::u8)); });
  const Tensor image = cast(arange(2 * 43 * 3).reshape({2, 43, 3}), DType::u8);
  const Tensor result = brighten(image);
  CHECK(result.dtype() == DType::u8);
  for (std::int64_t i : {0, 100, 150, 200, 255})
    CHECK(doubles(result)[static_cast<std::size_t>(i)] ==
          std::min(255.0, std::trunc(1.5 * static_cast<double>(i) + 20)));
  CHECK(has(brighten.explain(image).text(), "plan: 1 kernels"));
}

TEST_CASE("dtypes: programs of images are one kernel each") {
  const auto known = jit::list_backends();
  if (std::find(known.begin(), known.end(), "x86") == known.end()) return;
  using Images = std::vector<Tensor>;
  const auto bytes = [](Tensor x) { return Tensor(cast(clamp(round(x), 0, 255), DType::u8)); };
  const auto wide = [](const Tensor& x) { return Tensor(cast(x, DType::f32)); };
  const auto image = [](Shape shape, int by) {
    return Tensor(cast(remainder(arange(shape.numel()) * by, 253).reshape(shape), DType::u8));
  };
  const Tensor rgb = image({20, 30, 3}, 7), other = image({20, 30, 3}, 11), rgba = image({20, 30, 4}, 5),
               table = flip(cast(arange(256), DType::u8), 0), mean = tensor({0.485f, 0.456f, 0.406f}),
               deviation = tensor({0.229f, 0.224f, 0.225f}), weights = tensor({0.299f, 0.587f, 0.114f});
  const Tensor planes = permute(wide(rgb) / 255, {2, 0, 1}).reshape({3, 20, 30});
  struct Program {
    const char* what;
    std::function<Tensor(const Images&)> run;
    Images inputs;
  };
  const Program programs[] = {
      {"gamma", [&](const Images& in) { return bytes(pow(wide(in[0]) / 255, 1 / 2.2f) * 255); }, {rgb}},
      {"blend", [&](const Images& in) { return bytes(wide(in[0]) * 0.3f + wide(in[1]) * 0.7f); }, {rgb, other}},
      {"a picture with alpha over another one",
       [&](const Images& in) {
         const Tensor alpha = wide(in[1](all, all, slice(3, 4))) / 255;
         return bytes(wide(in[0]) * (1 - alpha) + wide(in[1](all, all, slice(0, 3))) * alpha);
       },
       {rgb, rgba}},
      {"normalised planes of f32 (channels, height, width)",
       [&](const Images& in) { return permute((wide(in[0]) / 255 - mean) / deviation, {2, 0, 1}); },
       {rgb}},
      {"and back to bytes",
       [&](const Images& in) {
         return bytes(permute(in[0] * reshape(deviation, {3, 1, 1}) + reshape(mean, {3, 1, 1}), {1, 2, 0}) * 255);
       },
       {planes}},
      {"grey in three channels",
       [&](const Images& in) { return bytes(expand(sum(wide(in[0]) * weights, 2, Keep::yes), in[0].shape())); },
       {rgb}},
      {"saturation",
       [&](const Images& in) {
         const Tensor light = wide(in[0]), grey = sum(light * weights, 2, Keep::yes);
         return bytes(grey + (light - grey) * 1.4f);
       },
       {rgb}},
      {"cropped and mirrored, its negative",
       [&](const Images& in) { return 255 - flip(in[0](slice(2, 18), slice(3, 27), all), 1); },
       {rgb}},
      {"a table of bytes", [&](const Images& in) { return take(in[1], in[0], 0); }, {rgb, table}},
      {"sums that saturate",
       [&](const Images& in) {
         return Tensor(cast(minimum(cast(in[0], DType::i32) + cast(in[1], DType::i32), 255), DType::u8));
       },
       {rgb, other}},
  };
  for (const Program& program : programs) {
    INFO(program.what);
    const auto compiled = jit::compile(program.run, {.backend = "x86"});
    const Tensor result = compiled(program.inputs);
    CHECK(compiled.stats().kernels == 1);
    const std::vector<double> want = doubles(jit::compile(program.run, {.backend = "reference"})(program.inputs));
    CHECK(near(doubles(result), want, result.dtype() == DType::u8 ? 1 : 1e-5));  // u8: halves of f32
  }
}

TEST_CASE("dtypes: bits of another dtype") {
  const Tensor x = tensor({1.0f, -2.0f});
  CHECK(doubles(bitcast(x, DType::u32)) == std::vector<double>{0x3F800000, 0xC0000000});
  CHECK(doubles(bitcast(bitcast(x, DType::u32), DType::f32)) == std::vector<double>{1, -2});
  CHECK(doubles(bitcast(tensor<std::int8_t>({-1, 5}), DType::u8)) == std::vector<double>{255, 5});
  CHECK(doubles(bitcast(tensor<std::uint16_t>({65535, 5}), DType::i16)) == std::vector<double>{-1, 5});
  CHECK(doubles(popcount(tensor<std::int8_t>({-1, 5}))) == std::vector<double>{8, 2});
  CHECK_THROWS_AS(bitcast(cast(x, DType::f16), DType::i16), DTypeError);
}
