// Measures the elementwise functions: the largest error of each in units of the last place, for tools/accuracy.
//
//   accuracy measure WHERE STRIDE POINTS [NAME [FIRST [END]]]
//                                                prints "name dtype error argument bound" for the back end WHERE (x86,
//                                                reference, cuda), of all functions or of one. Processes with FIRST
//                                                from 0 to STRIDE - 1 take every float between them. END: up to the
//                                                float before that of these bits
//   accuracy inputs FILE DTYPE STRIDE POINTS     writes the arguments (second ones to FILE.y), for a program that has
//                                                the functions but no oracle
//   accuracy compare NAME DTYPE FILE RESULTS     prints the error of results that such a program wrote
//
// f32: every STRIDE-th bit pattern from FIRST (0) to END, against oracles in double. f64: POINTS numbers over all
// exponents and as many of moderate size, against oracles in __float128. Functions and oracles are those of
// tests/conformance/accuracy_rows.hpp.
#define ACCURACY_QUAD
#include "../../tests/conformance/accuracy_rows.hpp"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <random>
#include <string>
#include <string_view>
#include <vector>

using namespace sinter;

namespace {

using accuracy::Quad;
using accuracy::Row;

template <class T>
using WideOf = std::conditional_t<sizeof(T) == 4, double, Quad>;

template <class T>
std::vector<T> companions(const std::vector<T>& x) {
  std::vector<T> y;
  for (const T each : x)
    y.push_back(accuracy::companion(
        each, std::bit_cast<std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>>(each)));
  return y;
}

struct Worst {
  double error = 0, argument = 0;
  template <class T>
  void see(const Row& f, const std::vector<T>& x, const std::vector<T>& y, const T* results, std::size_t count) {
    using Wide = WideOf<T>;
    for (std::size_t i = 0; i < count; ++i) {
      if (!f.covers(x[i])) continue;
      const Wide expected = f.expected(Wide(x[i]), Wide(y[i]), Wide(results[i]));
      const double e = accuracy::error_in_ulps(results[i], expected, f.floor_at(x[i], f.is_binary ? y[i] : T{0}));
      if (e > error) error = e, argument = static_cast<double>(x[i]);
    }
  }
  void print(const char* name, const char* dtype, double bound) const {
    std::printf("%s %s %.3f %.17g %g\n", name, dtype, error, argument, bound);
  }
};

constexpr std::uint64_t all_floats = std::uint64_t{1} << 32;
constexpr std::size_t chunk = std::size_t{1} << 19;

/// Calls `use` with one chunk of arguments after the other.
template <class Use>
void for_f32(std::uint64_t stride, std::uint64_t first, std::uint64_t end, Use&& use) {
  std::vector<float> x;
  for (std::uint64_t bits = first; bits < end; bits += stride) {
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

void measure(const std::string& where, std::uint64_t stride, std::size_t points, std::string_view only,
             std::uint64_t first, std::uint64_t end) {
  const Device device = where == "cuda" ? Device::cuda(0) : Device::cpu();
  for (const Row& f : accuracy::rows()) {
    if (!only.empty() && only != f.name) continue;
    const auto compiled = jit::compile([run = f.run](Tensor x, Tensor y) { return run(x, y); },
                                       {.backend = where == "cuda" ? "" : where});
    const auto see = [&](Worst& worst, const auto& x) {
      using T = typename std::decay_t<decltype(x)>::value_type;
      const std::vector<T> y = f.is_binary ? companions(x) : x;
      const Tensor result = compiled(copy_of(x).to(device), copy_of(y).to(device)).to(Device::cpu());
      worst.see(f, x, y, result.data<T>().data(), x.size());
    };
    Worst narrow, wide;
    for_f32(stride, first, end, [&](const std::vector<float>& x) { see(narrow, x); });
    for_f64(points, [&](const std::vector<double>& x) { see(wide, x); });
    narrow.print(f.name, "f32", f.f32);
    wide.print(f.name, "f64", f.f64);
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
void compare(const Row& f, const char* dtype, const char* inputs, const char* results) {
  const std::vector<T> x = read<T>(inputs), y = read<T>((std::string(inputs) + ".y").c_str()), got = read<T>(results);
  Worst worst;
  worst.see(f, x, y, got.data(), std::min(x.size(), got.size()));
  worst.print(f.name, dtype, 0);
}
template <class T>
void write_inputs(const char* name, const std::vector<T>& x, bool is_first) {
  const std::ios::openmode mode = std::ios::binary | (is_first ? std::ios::trunc : std::ios::app);
  std::ofstream first(name, mode), second(std::string(name) + ".y", mode);
  write(first, x);
  write(second, companions(x));
}

}  // namespace

int main(int count, char** arguments) {
  const std::string_view mode = count > 1 ? arguments[1] : "";
  const auto number = [&](int at) { return std::strtoull(arguments[at], nullptr, 10); };
  if (mode == "measure" && count >= 5 && count <= 8) {
    if (number(3) == 0 || (count == 7 && number(6) >= number(3))) {
      std::fprintf(stderr, "accuracy: FIRST is from 0 to STRIDE - 1, here %s of %s\n", count == 7 ? arguments[6] : "0",
                   arguments[3]);
      return 2;
    }
    measure(arguments[2], number(3), number(4), count >= 6 ? arguments[5] : "", count >= 7 ? number(6) : 0,
            count == 8 ? number(7) : all_floats);
  } else if (mode == "inputs" && count == 6) {
    bool is_first = true;
    const auto write_all = [&](const auto& x) {
      write_inputs(arguments[2], x, is_first);
      is_first = false;
    };
    if (std::string_view(arguments[3]) == "f32") for_f32(number(4), 0, all_floats, write_all);
    else for_f64(number(5), write_all);
  } else if (mode == "compare" && count == 6) {
    for (const Row& f : accuracy::rows()) {
      if (std::string_view(arguments[2]) != f.name) continue;
      if (std::string_view(arguments[3]) == "f32") compare<float>(f, "f32", arguments[4], arguments[5]);
      else compare<double>(f, "f64", arguments[4], arguments[5]);
    }
  } else {
    std::fprintf(stderr,
                 "usage: accuracy measure WHERE STRIDE POINTS [NAME [FIRST [END]]] | inputs FILE DTYPE STRIDE POINTS | "
                 "compare NAME "
                 "DTYPE FILE RESULTS\n");
    return 2;
  }
}
