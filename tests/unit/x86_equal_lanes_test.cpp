// Numbers of a row in generated code: quotients and roots whose lanes are all equal are taken of one vector of 16
// bytes, and have the bits of C++'s.
#include "catch.hpp"

#include <sinter/sinter.hpp>

#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

using namespace sinter;

namespace {

template <class T>
std::vector<T> expected_rows(const std::vector<T>& x, std::size_t rows, std::size_t columns) {
  std::vector<T> out(x.size());
  for (std::size_t i = 0; i < rows; ++i) {
    T largest = x[i * columns];
    for (std::size_t j = 1; j < columns; ++j) largest = std::max(largest, x[i * columns + j]);
    const T quotient = T{3} / (largest * std::sqrt(largest));
    for (std::size_t j = 0; j < columns; ++j) out[i * columns + j] = quotient * x[i * columns + j];
  }
  return out;
}

Tensor scaled_by_largest(Tensor x) {
  Tensor largest = amax(x, 1, keepdim);
  return 3 / (largest * sqrt(largest)) * x;
}

template <class T>
void check_rows(int rows, int columns) {
  INFO(rows << " rows of " << columns);
  Tensor x = eval(0.1 + rand({rows, columns}, {.dtype = dtype_of<T>()}));
  const auto f = jit::compile(scaled_by_largest, {.dynamic = jit::Dynamic::never});
  CHECK(to_vector<T>(f(x)) ==
        expected_rows(to_vector<T>(x), static_cast<std::size_t>(rows), static_cast<std::size_t>(columns)));
}

}  // namespace

TEST_CASE("x86: quotients and roots of a row's number have the bits of C++'s") {
  manual_seed(20261128);
  for (const int columns : {1, 2, 3, 4, 7, 8, 9, 16, 17, 33, 100, 5000})
    for (const int rows : {1, 2, 3, 5, 9}) {
      check_rows<float>(rows, columns);
      check_rows<double>(rows, columns);
    }
}

TEST_CASE("x86: what all lanes share is divided and rooted in one vector of 16 bytes") {
  for (const DType dtype : {DType::f32, DType::f64}) {
    const auto f = jit::compile(scaled_by_largest);
    const std::string text = f.explain(ones({64, 3}, {.dtype = dtype})).text();
    if (text.find("[x86]") == std::string::npos) SINTER_SKIP("there is no x86 back end in this build");
    const std::string suffix = dtype == DType::f32 ? "ps " : "pd ";
    for (const std::string name : {"vsqrt", "vdiv"}) {
      INFO(name + suffix);
      CHECK(text.find(name + suffix + "xmm") != std::string::npos);
      CHECK(text.find(name + suffix + "ymm") == std::string::npos);
      CHECK(text.find(name + suffix + "zmm") == std::string::npos);
    }
  }
}
