// Uses the dtype that docs/howto/add_a_dtype.md adds: every number of it against its definition, made, printed, cast,
// added, summed, multiplied, sorted, differentiated and saved, on the reference back end and as machine code.
#include <sinter/dlpack.hpp>
#include <sinter/sinter.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

using namespace sinter;

namespace {

int failures = 0;
void check(bool holds, const std::string& what) {
  if (holds) return;
  ++failures;
  std::printf("FAILED: %s\n", what.c_str());
}
template <class F>
std::string message_of(F f) {
  try {
    f();
  } catch (const std::exception& error) { return error.what(); }
  return "no error";
}

/// By the definition: 6 bits of exponent with a bias of 31, 9 of fraction.
double value_of(std::uint16_t bits) {
  const int exponent = bits >> 9 & 63, fraction = bits & 511;
  const double sign = bits >> 15 != 0 ? -1 : 1;
  if (exponent == 63)
    return fraction == 0 ? sign * std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  return sign * (exponent == 0 ? std::ldexp(fraction, -39) : std::ldexp(512 + fraction, exponent - 40));
}
/// The nearest number, ties to even, of those that there are.
std::uint16_t bits_of(float x) {
  if (std::isnan(x)) return 0x7fff;
  const auto sign = static_cast<std::uint16_t>(std::signbit(x) ? 0x8000 : 0);
  const double size = std::abs(static_cast<double>(x));
  if (size >= std::ldexp(2 * 512 - 0.5, 31 - 9)) return static_cast<std::uint16_t>(sign | 0x7e00);
  std::uint16_t low = 0, high = 0x7dff;
  while (high - low > 1) {
    const auto middle = static_cast<std::uint16_t>((low + high) / 2);
    (value_of(middle) <= size ? low : high) = middle;
  }
  const double below = size - value_of(low), above = value_of(high) - size;
  const bool is_high = above < below || (above == below && low % 2 != 0);
  return static_cast<std::uint16_t>(sign | (is_high ? high : low));
}
bool same(double a, double b) {
  return (std::isnan(a) && std::isnan(b)) || (a == b && std::signbit(a) == std::signbit(b));
}

constexpr DType toy = DType::f16e6m9;

/// `f` by itself and compiled, on both back ends.
template <class F, class... Args>
std::vector<Tensor> results(F f, const Args&... args) {
  std::vector<Tensor> all{Tensor(f(args...))};
  for (const char* backend : {"reference", "x86"}) {
    const std::vector<std::string> known = jit::list_backends();
    if (std::find(known.begin(), known.end(), backend) == known.end()) continue;
    all.push_back(jit::compile(f, {.backend = backend})(args...));
  }
  return all;
}

void check_conversions() {
  std::vector<std::uint16_t> bits(65536);
  for (std::size_t i = 0; i < bits.size(); ++i) bits[i] = static_cast<std::uint16_t>(i);
  const Tensor every = from_blob(nullptr, bits.data(), {65536}, toy);
  for (const Tensor& wide : results([](Tensor x) { return cast(x, DType::f32); }, every)) {
    const std::vector<float> found = to_vector<float>(wide);
    int wrong = 0;
    for (std::size_t i = 0; i < found.size(); ++i) wrong += !same(static_cast<double>(found[i]), value_of(bits[i]));
    check(wrong == 0, std::to_string(wrong) + " of all numbers are read wrongly");
  }
  std::vector<float> floats{0.F,    -0.F,  1e30F, -1e30F, std::nanf(""), std::numeric_limits<float>::infinity(),
                            1e-45F, 3e-12F};
  std::uint32_t state = 1;
  for (int i = 0; i < 20001; ++i) {
    state = state * 1664525u + 1013904223u;
    const int exponent = static_cast<int>(state >> 8 & 127) - 84;
    floats.push_back(std::ldexp(static_cast<float>(state >> 15), exponent - 16) * (state % 2 != 0 ? -1.F : 1.F));
    if (i % 3 == 0) {  // ties
      const auto number = static_cast<std::uint16_t>(state >> 16 & 0x7cff);
      floats.push_back(static_cast<float>((value_of(number) + value_of(static_cast<std::uint16_t>(number + 1))) / 2));
    }
  }
  const auto there_and_back = [](Tensor x) { return cast(cast(x, toy), DType::f32); };
  const auto there = [](Tensor x) { return cast(x, toy); };
  for (const auto& list : {results(there_and_back, copy_of(floats)), results(there, copy_of(floats))})
    for (const Tensor& narrow : list) {
      const std::vector<float> found = to_vector<float>(narrow);
      int wrong = 0;
      for (std::size_t i = 0; i < found.size(); ++i)
        wrong += !same(static_cast<double>(found[i]), value_of(bits_of(floats[i])));
      check(wrong == 0, std::to_string(wrong) + " of " + std::to_string(found.size()) + " floats round wrongly");
    }
}

void check_arithmetic() {
  check(name(toy) == "f16e6m9" && size_of(toy) == 2 && computed_in(toy) == DType::f32 && is_half(toy), "the row");
  check(dtype_named("f16e6m9") == toy && torch_name(toy).empty(), "names");
  check(promote(toy, DType::f16) == DType::f32 && promote(toy, DType::i64) == toy &&
            promote(toy, DType::f32) == DType::f32,
        "promotion");
  check(promote_weak(toy, DTypeClass::floating) == toy, "a number beside it");
  check(std::numeric_limits<float16_e6m9>::max_exponent == 32 && std::numeric_limits<float16_e6m9>::digits == 10 &&
            static_cast<double>(static_cast<float>(std::numeric_limits<float16_e6m9>::max())) == row(toy).largest(),
        "limits");
  std::vector<float16_e6m9> values;
  for (int i = 0; i < 1003; ++i) values.emplace_back(static_cast<float>(i % 37) * 0.37F - 5.F);
  const Tensor x = copy_of(values), y = arange(1003, {.dtype = toy}) / 7;
  check(x.dtype() == toy && y.dtype() == toy, "dtypes of what is made");
  const std::vector<float> a = to_vector<float>(x), b = to_vector<float>(y);
  for (const Tensor& sums : results([](Tensor p, Tensor q) { return p + q * 2; }, x, y)) {
    check(sums.dtype() == toy, "a sum's dtype");
    const std::vector<float> found = to_vector<float>(sums);
    bool holds = true;
    for (std::size_t i = 0; i < a.size(); ++i)
      holds = holds && same(static_cast<double>(found[i]), value_of(bits_of(a[i] + 2 * b[i])));
    check(holds, "p + q * 2 is computed in f32 and rounded once");
  }
  double total = 0;
  for (const float each : a) total += static_cast<double>(each);
  for (const Tensor& summed : results([](Tensor p) { return sum(p); }, x))
    check(std::abs(static_cast<double>(item<float>(summed)) - total) <= std::abs(total) / 512, "sum");
  const Tensor m = reshape(x(slice(0, 999)), {27, 37});
  for (const Tensor& product : results([](Tensor p) { return matmul(p, transpose(p, 0, 1)); }, m)) {
    const Tensor wide = matmul(cast(m, DType::f32), transpose(cast(m, DType::f32), 0, 1));
    check(product.dtype() == toy && allclose(cast(product, DType::f32), wide, {.rtol = 0.002, .atol = 0.002}),
          "matmul");
  }
  const auto [sorted, order] = sort(x);
  std::vector<float> expected = a;
  std::sort(expected.begin(), expected.end());
  check(to_vector<float>(sorted) == expected, "sort");
  const auto gradient = jit::grad([](Tensor p) { return sum(p * p); })(x);
  check(gradient.dtype() == toy && to_vector<float>(gradient)[3] == 2 * a[3], "gradient");
}

void check_outside(const std::string& path) {
  const Tensor x = tensor({0.5F, -3.25F, 1000.F}).to(toy);
  std::ostringstream text;
  text << x;
  check(text.str() == "[ 5.00e-01, -3.25e+00,  1.00e+03]\n", "printed: " + text.str());
  io::save_safetensors(path, {{"x", x}});
  const Tensor loaded = io::load_safetensors(path).at("x");
  check(loaded.dtype() == toy && to_vector<float>(loaded) == to_vector<float>(x), "saved and loaded");
  check(message_of([&] { io::save_npy(path + ".npy", x); }).find("NumPy has no f16e6m9") != std::string::npos, ".npy");
  check(message_of([&] { to_dlpack(x); }).find("DLPack has no f16e6m9") != std::string::npos, "DLPack");
}

}  // namespace

int main(int, char** arguments) {
  check_conversions();
  check_arithmetic();
  check_outside(arguments[1]);
  std::printf("%d failures\n", failures);
  return failures != 0;
}
