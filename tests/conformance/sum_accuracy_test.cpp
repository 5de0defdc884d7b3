// Long sums lose next to nothing: the largest error over positive numbers, in eps of the sum, on the best back end of
// this build; and what is not finite stays what it is where sums are compensated.
#include "op_table.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

using namespace sinter_test;

namespace {

struct Matrix {
  std::int64_t rows, columns;
  std::vector<float> values;
  Matrix(std::int64_t r, std::int64_t c) : rows(r), columns(c), values(static_cast<std::size_t>(r * c)) {
    std::mt19937 random(static_cast<unsigned>(r * 31 + c));
    for (float& v : values) v = static_cast<float>(random() >> 8) * 0x1p-24f;
  }
  double at(std::int64_t i, std::int64_t j) const { return values[static_cast<std::size_t>(i * columns + j)]; }
  Tensor tensor() const { return copy_of(values, {rows, columns}); }
};

template <class F>
Tensor on_best_backend(F f, const Inputs& in) {
  return jit::compile([&](const Inputs& x) { return f(x); }, {.backend = modes()[0].backend})(in);
}

template <class Expected>
double worst(const Tensor& found, Expected expected) {
  const auto values = found.data<float>();
  double most = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double exact = expected(static_cast<std::int64_t>(i));
    most = std::max(most, std::abs(values[i] - exact) / (exact * std::numeric_limits<float>::epsilon()));
  }
  return most;
}

/// Of a^T b, over the rows of both.
double worst_of_product(const Matrix& a, const Matrix& b, const Tensor& found) {
  return worst(found, [&](std::int64_t element) {
    double sum = 0;
    for (std::int64_t k = 0; k < a.rows; ++k) sum += a.at(k, element / b.columns) * b.at(k, element % b.columns);
    return sum;
  });
}

double mean_of_column(const Matrix& x, std::int64_t j) {
  double sum = 0;
  for (std::int64_t i = 0; i < x.rows; ++i) sum += x.at(i, j);
  return sum / static_cast<double>(x.rows);
}

}  // namespace

TEST_CASE("accuracy of sums: products of many terms") {
  for (std::int64_t k : {4096, 50176}) {
    const Matrix a(k, 24), b(k, 20);
    CHECK(worst_of_product(a, b,
                           on_best_backend([](const Inputs& in) { return matmul(in[0].t(), in[1]); },
                                           {a.tensor(), b.tensor()})) < 3.5);
    const Matrix u(k, 1);
    CHECK(worst_of_product(u, b,
                           on_best_backend([](const Inputs& in) { return matmul(in[0].t(), in[1]); },
                                           {u.tensor(), b.tensor()})) < 3.5);
    CHECK(worst_of_product(a, u,
                           on_best_backend([](const Inputs& in) { return matmul(in[0].t(), in[1]); },
                                           {a.tensor(), u.tensor()})) < 3.5);
  }
  const Matrix x(1000000, 1), y(1000000, 1);
  CHECK(worst_of_product(x, y,
                         on_best_backend([](const Inputs& in) { return matmul(in[0].t(), in[1]); },
                                         {x.tensor(), y.tensor()})) < 1.5);
}

TEST_CASE("accuracy of sums: columns, and their variance") {
  const Matrix x(4096, 64);
  CHECK(worst(on_best_backend([](const Inputs& in) { return sum(in[0], 0); }, {x.tensor()}),
              [&](std::int64_t j) { return 4096 * mean_of_column(x, j); }) < 1);
  CHECK(worst(on_best_backend([](const Inputs& in) { return var(in[0], 0); }, {x.tensor()}), [&](std::int64_t j) {
          const double mean = mean_of_column(x, j);
          double sum = 0;
          for (std::int64_t i = 0; i < x.rows; ++i) sum += (x.at(i, j) - mean) * (x.at(i, j) - mean);
          return sum / 4096;
        }) < 0.6);
}

TEST_CASE("accuracy of sums: what is not finite passes through") {
  constexpr float inf = std::numeric_limits<float>::infinity();
  Matrix x(300, 5), y(20000, 5);
  for (Matrix* n : {&x, &y}) {
    n->values[5 * 3] = inf;         // column 0
    n->values[5 * 100 + 1] = -inf;  // column 1
    n->values[5 * 290 + 2] = std::numeric_limits<float>::quiet_NaN();
    n->values[5 * 5 + 3] = inf;
    n->values[5 * 299 + 3] = -inf;
    n->values[5 * 5 + 4] = n->values[5 * 299 + 4] = 3e38f;  // too large in sum
  }
  Matrix ones(20000, 1);
  std::fill(ones.values.begin(), ones.values.end(), 1.0f);
  const Tensor sums = on_best_backend([](const Inputs& in) { return sum(in[0], 0); }, {x.tensor()});
  const Tensor products =
      on_best_backend([](const Inputs& in) { return matmul(in[0].t(), in[1]); }, {ones.tensor(), y.tensor()});
  for (const Tensor& result : {sums, products}) {
    const auto v = result.data<float>();
    CHECK(v[0] == inf);
    CHECK(v[1] == -inf);
    CHECK(std::isnan(v[2]));
    CHECK(std::isnan(v[3]));
    CHECK(v[4] == inf);
  }
}
