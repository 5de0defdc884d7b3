// Measures the elementwise functions: the largest error of each in units of the last place, for tools/accuracy.
//
//   accuracy measure WHERE STRIDE POINTS   prints "name dtype error argument" for the back end WHERE (x86, reference,
//                                          cuda)
//   accuracy inputs FILE DTYPE STRIDE POINTS  writes the arguments, for a program that has the functions but no oracle
//   accuracy compare NAME DTYPE FILE RESULTS  prints the error of results that such a program wrote
//
// f32: every STRIDE-th bit pattern, against the C library in double. f64: POINTS numbers over all exponents and as many
// of moderate size, against libquadmath.
#include <sinter/sinter.hpp>

#include <quadmath.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <limits>
#include <numbers>
#include <random>
#include <string>
#include <string_view>
#include <vector>

using namespace sinter;

namespace {

using Quad = __float128;

struct Function {
  const char* name;
  Tensor (*run)(const Tensor&);
  double (*of_double)(double);
  Quad (*of_quad)(Quad);
};

template <class F>
Tensor slope(F f, const Tensor& x) {
  return jit::grad([f](Tensor t) { return sum(f(t)); })(x);
}

Quad quad_sigmoid(Quad x) { return x < 0 ? expq(x) / (1 + expq(x)) : 1 / (1 + expq(-x)); }
double sigmoid_of(double x) { return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x)); }

/// Names with an apostrophe are derivatives.
const std::vector<Function>& functions() {
  static const std::vector<Function> rows = {
      {"sqrt", [](const Tensor& x) { return Tensor(sqrt(x)); }, [](double x) { return std::sqrt(x); }, sqrtq},
      {"rsqrt", [](const Tensor& x) { return Tensor(rsqrt(x)); }, [](double x) { return 1 / std::sqrt(x); },
       [](Quad x) -> Quad { return 1 / sqrtq(x); }},
      {"exp", [](const Tensor& x) { return Tensor(exp(x)); }, [](double x) { return std::exp(x); }, expq},
      {"log", [](const Tensor& x) { return Tensor(log(x)); }, [](double x) { return std::log(x); }, logq},
      {"sin", [](const Tensor& x) { return Tensor(sin(x)); }, [](double x) { return std::sin(x); }, sinq},
      {"cos", [](const Tensor& x) { return Tensor(cos(x)); }, [](double x) { return std::cos(x); }, cosq},
      {"tanh", [](const Tensor& x) { return Tensor(tanh(x)); }, [](double x) { return std::tanh(x); }, tanhq},
      {"erf", [](const Tensor& x) { return Tensor(erf(x)); }, [](double x) { return std::erf(x); }, erfq},
      {"sigmoid", [](const Tensor& x) { return Tensor(sigmoid(x)); }, sigmoid_of, quad_sigmoid},
      {"silu", [](const Tensor& x) { return Tensor(silu(x)); }, [](double x) { return x * sigmoid_of(x); },
       [](Quad x) -> Quad { return x * quad_sigmoid(x); }},
      {"gelu", [](const Tensor& x) { return Tensor(gelu(x)); },
       [](double x) { return x * std::erfc(-x / std::numbers::sqrt2) / 2; },
       [](Quad x) -> Quad { return x * erfcq(-x / M_SQRT2q) / 2; }},
      {"expm1", [](const Tensor& x) { return Tensor(expm1(x)); }, [](double x) { return std::expm1(x); }, expm1q},
      {"exp2", [](const Tensor& x) { return Tensor(exp2(x)); }, [](double x) { return std::exp2(x); }, exp2q},
      {"log1p", [](const Tensor& x) { return Tensor(log1p(x)); }, [](double x) { return std::log1p(x); }, log1pq},
      {"log2", [](const Tensor& x) { return Tensor(log2(x)); }, [](double x) { return std::log2(x); }, log2q},
      {"log10", [](const Tensor& x) { return Tensor(log10(x)); }, [](double x) { return std::log10(x); }, log10q},
      {"tan", [](const Tensor& x) { return Tensor(tan(x)); }, [](double x) { return std::tan(x); }, tanq},
      {"asin", [](const Tensor& x) { return Tensor(asin(x)); }, [](double x) { return std::asin(x); }, asinq},
      {"acos", [](const Tensor& x) { return Tensor(acos(x)); }, [](double x) { return std::acos(x); }, acosq},
      {"atan", [](const Tensor& x) { return Tensor(atan(x)); }, [](double x) { return std::atan(x); }, atanq},
      {"sinh", [](const Tensor& x) { return Tensor(sinh(x)); }, [](double x) { return std::sinh(x); }, sinhq},
      {"cosh", [](const Tensor& x) { return Tensor(cosh(x)); }, [](double x) { return std::cosh(x); }, coshq},
      {"asinh", [](const Tensor& x) { return Tensor(asinh(x)); }, [](double x) { return std::asinh(x); }, asinhq},
      {"acosh", [](const Tensor& x) { return Tensor(acosh(x)); }, [](double x) { return std::acosh(x); }, acoshq},
      {"atanh", [](const Tensor& x) { return Tensor(atanh(x)); }, [](double x) { return std::atanh(x); }, atanhq},
      {"cbrt", [](const Tensor& x) { return Tensor(cbrt(x)); }, [](double x) { return std::cbrt(x); }, cbrtq},
      {"erfc", [](const Tensor& x) { return Tensor(erfc(x)); }, [](double x) { return std::erfc(x); }, erfcq},
  };
  return rows;
}

/// The distance in units of the last place of T at `expected`; 0 where both are NaN or the same infinity.
template <class T, class Wide>
double error_in_ulps(T got, Wide expected, int exponent) {
  using Limits = std::numeric_limits<T>;
  if (std::isnan(got) || expected != expected)
    return std::isnan(got) && expected != expected ? 0 : std::numeric_limits<double>::infinity();
  const T nearest = static_cast<T>(expected);
  if (std::isinf(got) || std::isinf(nearest)) return got == nearest ? 0 : std::numeric_limits<double>::infinity();
  const Wide difference = static_cast<Wide>(got) - expected;
  const int unit = std::max(exponent, Limits::min_exponent) - Limits::digits;
  return std::fabs(std::ldexp(static_cast<double>(difference * (unit < -600 ? Wide(0x1p900) : Wide(1))),
                              unit < -600 ? -unit - 900 : -unit));
}
double error_of(float got, double expected) {
  int exponent = 0;
  std::frexp(expected, &exponent);
  return error_in_ulps(got, expected, exponent);
}
double error_of(double got, Quad expected) {
  int exponent = 0;
  if (finiteq(expected)) frexpq(expected, &exponent);
  return error_in_ulps(got, expected, exponent);
}
double expected_of(const Function& f, float x) { return f.of_double(x); }
Quad expected_of(const Function& f, double x) { return f.of_quad(x); }

struct Worst {
  double error = 0, argument = 0;
  template <class T>
  void see(const Function& f, const T* x, const T* y, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i)
      if (const double e = error_of(y[i], expected_of(f, x[i])); e > error)
        error = e, argument = static_cast<double>(x[i]);
  }
  void print(const char* name, const char* dtype) const {
    std::printf("%s %s %.3f %.17g\n", name, dtype, error, argument);
  }
};

constexpr std::size_t chunk = std::size_t{1} << 19;

/// Calls `use` with one chunk of arguments after the other.
template <class Use>
void for_f32(std::uint64_t stride, Use&& use) {
  std::vector<float> x;
  for (std::uint64_t bits = 0; bits < std::uint64_t{1} << 32; bits += stride) {
    const float value = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
    if (!std::isnan(value)) x.push_back(value);
    if (x.size() == chunk) {
      use(x);
      x.clear();
    }
  }
  if (!x.empty()) use(x);
}
template <class Use>
void for_f64(std::size_t points, Use&& use) {
  std::mt19937_64 random(8);
  std::vector<double> x;
  while (x.size() < points)
    if (const double value = std::bit_cast<double>(random()); std::isfinite(value)) x.push_back(value);
  for (std::size_t i = 0; i < points; ++i) {
    const double sizes[] = {1, 8, 40, 800};
    x.push_back((static_cast<double>(random() >> 11) * 0x1p-52 - 1) * sizes[i % 4]);
  }
  use(x);
}

void measure(const std::string& where, std::uint64_t stride, std::size_t points) {
  const Device device = where == "cuda" ? Device::cuda(0) : Device::cpu();
  for (const Function& f : functions()) {
    const auto compiled =
        jit::compile([run = f.run](Tensor x) { return run(x); }, {.backend = where == "cuda" ? "" : where});
    const auto see = [&](Worst& worst, const auto& x) {
      using T = typename std::decay_t<decltype(x)>::value_type;
      const Tensor result = compiled(copy_of(x).to(device)).to(Device::cpu());
      worst.see(f, x.data(), result.data<T>().data(), x.size());
    };
    Worst narrow, wide;
    for_f32(stride, [&](const std::vector<float>& x) { see(narrow, x); });
    for_f64(points, [&](const std::vector<double>& x) { see(wide, x); });
    narrow.print(f.name, "f32");
    wide.print(f.name, "f64");
    std::fflush(stdout);
  }
}

template <class T>
void write(std::ofstream& file, const std::vector<T>& x) {
  file.write(reinterpret_cast<const char*>(x.data()), static_cast<std::streamsize>(x.size() * sizeof(T)));
}
template <class T>
std::vector<T> read(const char* name) {
  std::ifstream file(name, std::ios::binary | std::ios::ate);
  std::vector<T> x(static_cast<std::size_t>(file.tellg()) / sizeof(T));
  file.seekg(0);
  file.read(reinterpret_cast<char*>(x.data()), static_cast<std::streamsize>(x.size() * sizeof(T)));
  return x;
}
template <class T>
void compare(const Function& f, const char* dtype, const char* inputs, const char* results) {
  const std::vector<T> x = read<T>(inputs), y = read<T>(results);
  Worst worst;
  worst.see(f, x.data(), y.data(), std::min(x.size(), y.size()));
  worst.print(f.name, dtype);
}

}  // namespace

int main(int count, char** arguments) {
  const std::string_view mode = count > 1 ? arguments[1] : "";
  if (mode == "measure" && count == 5) {
    measure(arguments[2], std::strtoull(arguments[3], nullptr, 10), std::strtoull(arguments[4], nullptr, 10));
  } else if (mode == "inputs" && count == 6) {
    std::ofstream file(arguments[2], std::ios::binary);
    if (std::string_view(arguments[3]) == "f32")
      for_f32(std::strtoull(arguments[4], nullptr, 10), [&](const auto& x) { write(file, x); });
    else for_f64(std::strtoull(arguments[5], nullptr, 10), [&](const auto& x) { write(file, x); });
  } else if (mode == "compare" && count == 6) {
    for (const Function& f : functions()) {
      if (std::string_view(arguments[2]) != f.name) continue;
      if (std::string_view(arguments[3]) == "f32") compare<float>(f, "f32", arguments[4], arguments[5]);
      else compare<double>(f, "f64", arguments[4], arguments[5]);
    }
  } else {
    std::fprintf(stderr,
                 "usage: accuracy measure WHERE STRIDE POINTS | inputs FILE DTYPE STRIDE POINTS | compare NAME DTYPE "
                 "FILE RESULTS\n");
    return 2;
  }
}
