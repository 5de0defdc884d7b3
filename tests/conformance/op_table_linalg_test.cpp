// Op tables: functions of linear algebra against naive ones: elimination with pivots, Jacobi's rotations.
#include "op_table.hpp"

using namespace sinter_test;

namespace {

/// A matrix of a batch, as oracles compute with it.
struct Matrix {
  std::int64_t rows, columns;
  Numbers data;
  double& operator()(std::int64_t i, std::int64_t j) { return data[static_cast<std::size_t>(i * columns + j)]; }
  double operator()(std::int64_t i, std::int64_t j) const { return data[static_cast<std::size_t>(i * columns + j)]; }
};
Matrix zeros_of(std::int64_t rows, std::int64_t columns) {
  return {rows, columns, Numbers(static_cast<std::size_t>(rows * columns), 0)};
}
Matrix times(const Matrix& a, const Matrix& b) {
  Matrix out = zeros_of(a.rows, b.columns);
  for (std::int64_t i = 0; i < a.rows; ++i)
    for (std::int64_t j = 0; j < b.columns; ++j)
      for (std::int64_t k = 0; k < a.columns; ++k) out(i, j) += a(i, k) * b(k, j);
  return out;
}
Matrix turned(const Matrix& a) {
  Matrix out = zeros_of(a.columns, a.rows);
  for (std::int64_t i = 0; i < a.rows; ++i)
    for (std::int64_t j = 0; j < a.columns; ++j) out(j, i) = a(i, j);
  return out;
}
Matrix one(std::int64_t size) {
  Matrix out = zeros_of(size, size);
  for (std::int64_t i = 0; i < size; ++i) out(i, i) = 1;
  return out;
}
/// a^-1 b by Gauss and Jordan; `determinant` gets that of a.
Matrix eliminated(Matrix a, Matrix b, double* determinant = nullptr) {
  double det = 1;
  for (std::int64_t j = 0; j < a.rows; ++j) {
    std::int64_t pivot = j;
    for (std::int64_t i = j; i < a.rows; ++i)
      if (std::abs(a(i, j)) > std::abs(a(pivot, j))) pivot = i;
    det *= (pivot == j ? 1 : -1) * a(pivot, j);
    for (std::int64_t k = 0; k < a.columns; ++k) std::swap(a(j, k), a(pivot, k));
    for (std::int64_t k = 0; k < b.columns; ++k) std::swap(b(j, k), b(pivot, k));
    for (std::int64_t i = 0; i < a.rows; ++i) {
      const double factor = i == j ? 1 - 1 / a(j, j) : a(i, j) / a(j, j);
      for (std::int64_t k = 0; k < b.columns; ++k) b(i, k) -= factor * b(j, k);
      for (std::int64_t k = a.columns - 1; k >= 0; --k) a(i, k) -= factor * a(j, k);
    }
  }
  if (determinant != nullptr) *determinant = det;
  return b;
}
Matrix lower_factor(const Matrix& a) {
  Matrix out = zeros_of(a.rows, a.rows);
  for (std::int64_t i = 0; i < a.rows; ++i)
    for (std::int64_t j = 0; j <= i; ++j) {
      double sum = a(i, j);
      for (std::int64_t k = 0; k < j; ++k) sum -= out(i, k) * out(j, k);
      out(i, j) = i == j ? std::sqrt(sum) : sum / out(j, j);
    }
  return out;
}
/// Eigenvalues of a symmetric matrix, ascending, by Jacobi's rotations.
Numbers eigenvalues(Matrix a) {
  for (int sweep = 0; sweep < 40; ++sweep)
    for (std::int64_t p = 0; p < a.rows; ++p)
      for (std::int64_t q = p + 1; q < a.rows; ++q) {
        if (a(p, q) == 0) continue;
        const double angle = 0.5 * std::atan2(2 * a(p, q), a(q, q) - a(p, p)), c = std::cos(angle), s = std::sin(angle);
        for (std::int64_t k = 0; k < a.rows; ++k) {
          const double x = a(k, p), y = a(k, q);
          a(k, p) = c * x - s * y;
          a(k, q) = s * x + c * y;
        }
        for (std::int64_t k = 0; k < a.rows; ++k) {
          const double x = a(p, k), y = a(q, k);
          a(p, k) = c * x - s * y;
          a(q, k) = s * x + c * y;
        }
      }
  Numbers out;
  for (std::int64_t i = 0; i < a.rows; ++i) out.push_back(a(i, i));
  std::sort(out.begin(), out.end());
  return out;
}
Matrix exponential(const Matrix& a) {
  Matrix term = one(a.rows), out = term;
  for (int k = 1; k < 60; ++k) {
    term = times(term, a);
    for (double& x : term.data) x /= k;
    for (std::size_t i = 0; i < out.data.size(); ++i) out.data[i] += term.data[i];
  }
  return out;
}

using MatrixFunction = Matrix (*)(const std::vector<Matrix>&);

/// The function for each matrix of the first operand; further ones have the same batch, or none. `result_axes`: 2 for
/// matrices, 1 where the only column is a vector, 0 where the only element is a number.
Oracle each_matrix(MatrixFunction function, int result_axes) {
  return [=](const Arrays& in) {
    const Extents batch(in[0].extents.begin(), in[0].extents.end() - 2);
    Array out{in[0].dtype, batch, {}, {}};
    const std::int64_t count = oracle::count(batch);
    Extents shape;
    for (std::int64_t i = 0; i < std::max<std::int64_t>(count, 1); ++i) {
      std::vector<Matrix> operands;
      for (const Array& array : in) {
        const std::int64_t rows = array.extents[array.extents.size() - 2], columns = array.extents.back();
        const std::int64_t at = array.extents.size() == 2 || count == 0 ? 0 : i * rows * columns;
        Matrix matrix = zeros_of(rows, columns);
        for (std::size_t k = 0; k < matrix.data.size() && count > 0; ++k)
          matrix.data[k] = array.data[static_cast<std::size_t>(at) + k];
        operands.push_back(std::move(matrix));
      }
      const Matrix result = function(operands);
      if (i == 0 && result_axes > 0) shape.push_back(result.rows);
      if (i == 0 && result_axes > 1) shape.push_back(result.columns);
      double largest = 1;
      for (double x : result.data) largest = std::max(largest, std::abs(x));
      if (count > 0) out.data.insert(out.data.end(), result.data.begin(), result.data.end());
      if (count > 0) out.scale.insert(out.scale.end(), result.data.size(), largest);
    }
    out.extents.insert(out.extents.end(), shape.begin(), shape.end());
    return out;
  };
}

// Operands are made well-conditioned, alike here and in the oracles.
Tensor identity_for(const Tensor& x) { return eye(x.shape()[-1], {.dtype = x.dtype(), .device = x.device()}); }
Tensor dominant(const Tensor& x) { return x / (1 + cast(x.shape()[-1], x.dtype())) + 2 * identity_for(x); }
Tensor definite(const Tensor& x) { return matmul(dominant(x), transpose(dominant(x), -2, -1)); }
Tensor symmetric(const Tensor& x) { return x + transpose(x, -2, -1); }
Matrix dominant(const Matrix& x) {
  Matrix out = x;
  for (std::int64_t i = 0; i < x.rows; ++i)
    for (std::int64_t j = 0; j < x.columns; ++j)
      out(i, j) = x(i, j) / (1 + static_cast<double>(x.columns)) + (i == j ? 2 : 0);
  return out;
}
Matrix definite(const Matrix& x) { return times(dominant(x), turned(dominant(x))); }
Matrix symmetric(const Matrix& x) {
  Matrix out = x;
  for (std::int64_t i = 0; i < x.rows; ++i)
    for (std::int64_t j = 0; j < x.columns; ++j) out(i, j) = x(i, j) + x(j, i);
  return out;
}
Matrix column_of(Numbers values) {
  const auto size = static_cast<std::int64_t>(values.size());
  return {size, 1, std::move(values)};
}
Matrix singular_values(const Matrix& x) {
  Numbers values = eigenvalues(x.rows < x.columns ? times(x, turned(x)) : times(turned(x), x));
  std::reverse(values.begin(), values.end());
  for (double& value : values) value = std::sqrt(std::max(value, 0.0));
  return column_of(std::move(values));
}

struct Case {
  const char* name;
  Function run;
  MatrixFunction want;
  int result_axes;
  std::vector<Extents> inputs;
  Derivative derivative = Derivative::second;
  Strided strided = Strided::all;
};
using Operands = const std::vector<Matrix>&;

const std::vector<Case> cases{
    {"cholesky",
     [](const Inputs& in) { return linalg::cholesky(definite(in[0])); },
     [](Operands in) { return lower_factor(definite(in[0])); },
     2,
     {{2, n, n}}},
    {"cholesky, upper",
     [](const Inputs& in) { return linalg::cholesky(definite(in[0]), {.upper = true}); },
     [](Operands in) { return turned(lower_factor(definite(in[0]))); },
     2,
     {{n, n}}},
    {"cholesky_solve",
     [](const Inputs& in) { return linalg::cholesky_solve(in[1], linalg::cholesky(definite(in[0]))); },
     [](Operands in) { return eliminated(definite(in[0]), in[1]); },
     2,
     {{2, n, n}, {2, n, 3}}},
    {"solve",
     [](const Inputs& in) { return linalg::solve(dominant(in[0]), in[1]); },
     [](Operands in) { return eliminated(dominant(in[0]), in[1]); },
     2,
     {{2, n, n}, {2, n, 3}}},
    {"solve, one right side for all",
     [](const Inputs& in) { return linalg::solve(dominant(in[0]), in[1]); },
     [](Operands in) { return eliminated(dominant(in[0]), in[1]); },
     2,
     {{2, n, n}, {n, 2}}},
    {"solve, from the right",
     [](const Inputs& in) { return linalg::solve(dominant(in[0]), in[1], {.left = false}); },
     [](Operands in) { return turned(eliminated(turned(dominant(in[0])), turned(in[1]))); },
     2,
     {{n, n}, {3, n}}},
    {"solve_triangular",
     [](const Inputs& in) { return linalg::solve_triangular(dominant(in[0]), in[1]); },
     [](Operands in) {
       Matrix a = dominant(in[0]);
       for (std::int64_t i = 0; i < a.rows; ++i)
         for (std::int64_t j = i + 1; j < a.rows; ++j) a(i, j) = 0;
       return eliminated(a, in[1]);
     },
     2,
     {{2, n, n}, {2, n, 2}}},
    {"inv",
     [](const Inputs& in) { return linalg::inv(dominant(in[0])); },
     [](Operands in) { return eliminated(dominant(in[0]), one(in[0].rows)); },
     2,
     {{2, n, n}}},
    {"det",
     [](const Inputs& in) { return linalg::det(symmetric(in[0])); },
     [](Operands in) {
       double determinant = 1;
       eliminated(symmetric(in[0]), zeros_of(in[0].rows, 0), &determinant);
       return Matrix{1, 1, {determinant}};
     },
     0,
     {{2, 3, 3}},
     Derivative::second,
     Strided::distinct},
    {"slogdet",
     [](const Inputs& in) { return linalg::slogdet(dominant(in[0])).logabsdet; },
     [](Operands in) {
       double determinant = 1;
       eliminated(dominant(in[0]), zeros_of(in[0].rows, 0), &determinant);
       return Matrix{1, 1, {std::log(std::abs(determinant))}};
     },
     0,
     {{2, n, n}}},
    {"qr, the square of R",
     [](const Inputs& in) {
       const Tensor r = linalg::qr(dominant(in[0])).r;
       return matmul(transpose(r, -2, -1), r);
     },
     [](Operands in) { return times(turned(dominant(in[0])), dominant(in[0])); },
     2,
     {{2, n, n}}},
    {"qr, projection of a tall matrix",
     [](const Inputs& in) {
       const Tensor q = linalg::qr(in[0]).q;
       return matmul(q, matmul(transpose(q, -2, -1), in[1]));
     },
     [](Operands in) {
       const Matrix a = in[0];
       return times(a, eliminated(times(turned(a), a), times(turned(a), in[1])));
     },
     2,
     {{2, 7, 3}, {2, 7, 2}},
     Derivative::second,
     Strided::distinct},
    {"svdvals",
     [](const Inputs& in) { return linalg::svdvals(in[0]); },
     [](Operands in) { return singular_values(in[0]); },
     1,
     {{2, 3, 5}},
     Derivative::second,
     Strided::distinct},
    {"eigvalsh",
     [](const Inputs& in) { return linalg::eigvalsh(symmetric(in[0])); },
     [](Operands in) { return column_of(eigenvalues(symmetric(in[0]))); },
     1,
     {{2, 4, 4}},
     Derivative::second,
     Strided::distinct},
    {"eigh, put together again",
     [](const Inputs& in) {
       const auto [values, vectors] = linalg::eigh(symmetric(in[0]));
       return matmul(vectors * unsqueeze(values, -2), transpose(vectors, -2, -1));
     },
     [](Operands in) { return symmetric(in[0]); },
     2,
     {{2, n, n}},
     Derivative::first,
     Strided::distinct},
    {"svd, put together again",
     [](const Inputs& in) {
       const auto [u, s, vh] = linalg::svd(in[0], {.full_matrices = false});
       return matmul(u * unsqueeze(s, -2), vh);
     },
     [](Operands in) { return in[0]; },
     2,
     {{2, n, m}},
     Derivative::first,
     Strided::distinct},
    {"pinv",
     [](const Inputs& in) { return linalg::pinv(in[0]); },
     [](Operands in) { return eliminated(times(turned(in[0]), in[0]), turned(in[0])); },
     2,
     {{2, 5, 3}},
     Derivative::second,
     Strided::distinct},
    {"matrix_exp",
     [](const Inputs& in) { return linalg::matrix_exp(in[0]); },
     [](Operands in) { return exponential(in[0]); },
     2,
     {{2, 3, 3}}},
};

}  // namespace

TEST_CASE("op table: linear algebra") {
  for (const Case& it : cases)
    for (DType dtype : {DType::f32, DType::f64}) {
      Row row{it.name + (" " + std::string(name(dtype))),
              it.run,
              each_matrix(it.want, it.result_axes),
              {},
              Tolerance{600, 2000, 0}};
      for (const Extents& extents : it.inputs) row.inputs.push_back({extents, dtype, {-1, 1}});
      row.strided = it.strided;
      if (dtype == DType::f64) row.derivative = it.derivative;
      check_row(row);
    }
}
