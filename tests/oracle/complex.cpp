// Functions of complex numbers, by name: they come as pairs of real ones, and complex results go as pairs.
#include "functions.hpp"

#include <complex>

namespace sinter_test {
namespace {

Tensor z(const Args& a, std::size_t i = 0) { return view_as_complex(a[i]); }
Tensor pairs(const Tensor& value) { return is_complex(value) ? view_as_real(value) : value; }
int dim(const Args& a) { return a.at.axis("dim"); }
Tensor places(const Args& a) { return copy_of(a.at.list("positions")); }

NamedFunctions unary_functions() {
  return {
      {"complex exp", [](const Args& a) -> Tensor { return pairs(exp(z(a))); }},
      {"complex exp2", [](const Args& a) -> Tensor { return pairs(exp2(z(a))); }},
      {"complex expm1", [](const Args& a) -> Tensor { return pairs(expm1(z(a))); }},
      {"complex log", [](const Args& a) -> Tensor { return pairs(log(z(a))); }},
      {"complex log2", [](const Args& a) -> Tensor { return pairs(log2(z(a))); }},
      {"complex log10", [](const Args& a) -> Tensor { return pairs(log10(z(a))); }},
      {"complex log1p", [](const Args& a) -> Tensor { return pairs(log1p(z(a))); }},
      {"complex sqrt", [](const Args& a) -> Tensor { return pairs(sqrt(z(a))); }},
      {"complex rsqrt", [](const Args& a) -> Tensor { return pairs(rsqrt(z(a))); }},
      {"complex square", [](const Args& a) -> Tensor { return pairs(square(z(a))); }},
      {"complex reciprocal", [](const Args& a) -> Tensor { return pairs(reciprocal(z(a))); }},
      {"complex sin", [](const Args& a) -> Tensor { return pairs(sin(z(a))); }},
      {"complex cos", [](const Args& a) -> Tensor { return pairs(cos(z(a))); }},
      {"complex tan", [](const Args& a) -> Tensor { return pairs(tan(z(a))); }},
      {"complex sinh", [](const Args& a) -> Tensor { return pairs(sinh(z(a))); }},
      {"complex cosh", [](const Args& a) -> Tensor { return pairs(cosh(z(a))); }},
      {"complex tanh", [](const Args& a) -> Tensor { return pairs(tanh(z(a))); }},
      {"complex asin", [](const Args& a) -> Tensor { return pairs(asin(z(a))); }},
      {"complex acos", [](const Args& a) -> Tensor { return pairs(acos(z(a))); }},
      {"complex atan", [](const Args& a) -> Tensor { return pairs(atan(z(a))); }},
      {"complex asinh", [](const Args& a) -> Tensor { return pairs(asinh(z(a))); }},
      {"complex acosh", [](const Args& a) -> Tensor { return pairs(acosh(z(a))); }},
      {"complex atanh", [](const Args& a) -> Tensor { return pairs(atanh(z(a))); }},
      {"complex sigmoid", [](const Args& a) -> Tensor { return pairs(sigmoid(z(a))); }},
      {"complex sinc", [](const Args& a) -> Tensor { return pairs(sinc(z(a))); }},
      {"complex negative", [](const Args& a) -> Tensor { return pairs(negative(z(a))); }},
      {"complex abs", [](const Args& a) -> Tensor { return abs(z(a)); }},
      {"complex angle", [](const Args& a) -> Tensor { return angle(z(a)); }},
      {"complex sgn", [](const Args& a) -> Tensor { return pairs(sgn(z(a))); }},
      {"complex conj", [](const Args& a) -> Tensor { return pairs(conj(z(a))); }},
      {"complex real", [](const Args& a) -> Tensor { return real(z(a)); }},
      {"complex imag", [](const Args& a) -> Tensor { return imag(z(a)); }},
      {"complex isreal", [](const Args& a) -> Tensor { return isreal(z(a)); }},
      {"complex isnan", [](const Args& a) -> Tensor { return isnan(z(a)); }},
      {"complex isinf", [](const Args& a) -> Tensor { return isinf(z(a)); }},
      {"complex isfinite", [](const Args& a) -> Tensor { return isfinite(z(a)); }},
  };
}

NamedFunctions binary_functions() {
  return {
      {"complex add", [](const Args& a) -> Tensor { return pairs(z(a) + z(a, 1)); }},
      {"complex sub", [](const Args& a) -> Tensor { return pairs(z(a) - z(a, 1)); }},
      {"complex mul", [](const Args& a) -> Tensor { return pairs(z(a) * z(a, 1)); }},
      {"complex div", [](const Args& a) -> Tensor { return pairs(z(a) / z(a, 1)); }},
      {"complex pow", [](const Args& a) -> Tensor { return pairs(pow(z(a), z(a, 1))); }},
      {"complex equal", [](const Args& a) -> Tensor { return z(a) == z(a, 1); }},
      {"complex not equal", [](const Args& a) -> Tensor { return z(a) != z(a, 1); }},
      {"complex lerp", [](const Args& a) -> Tensor { return pairs(lerp(z(a), z(a, 1), 0.25)); }},
      {"complex where", [](const Args& a) -> Tensor { return pairs(where(real(z(a)) > 0, z(a), z(a, 1))); }},
      {"complex add real", [](const Args& a) -> Tensor { return pairs(z(a) + a[1]); }},
      {"complex mul real", [](const Args& a) -> Tensor { return pairs(z(a) * a[1]); }},
      {"complex div real", [](const Args& a) -> Tensor { return pairs(z(a) / a[1]); }},
      {"complex real div", [](const Args& a) -> Tensor { return pairs(a[1] / z(a)); }},
      {"complex real pow", [](const Args& a) -> Tensor { return pairs(pow(a[1], z(a))); }},
      {"complex pow of whole numbers",
       [](const Args& a) -> Tensor { return pairs(pow(z(a), a.at.whole("exponent"))); }},
      {"complex of parts", [](const Args& a) -> Tensor { return pairs(complex(a[0], a[1])); }},
      {"polar", [](const Args& a) -> Tensor { return pairs(polar(a[0], a[1])); }},
      {"complex views", [](const Args& a) -> Tensor { return view_as_real(view_as_complex(a[0]) * 1); }},
  };
}

NamedFunctions reductions_and_products() {
  return {
      {"complex sum", [](const Args& a) -> Tensor { return pairs(sum(z(a), dim(a), a.at.keep())); }},
      {"complex mean", [](const Args& a) -> Tensor { return pairs(mean(z(a), dim(a), a.at.keep())); }},
      {"complex prod", [](const Args& a) -> Tensor { return pairs(prod(z(a), dim(a), a.at.keep())); }},
      {"complex var", [](const Args& a) -> Tensor { return var(z(a), dim(a), a.at.keep()); }},
      {"complex vector_norm",
       [](const Args& a) -> Tensor { return linalg::vector_norm(z(a), 2, dim(a), a.at.keep()); }},
      {"complex any", [](const Args& a) -> Tensor { return any(z(a), dim(a), a.at.keep()); }},
      {"complex all", [](const Args& a) -> Tensor { return all(z(a), dim(a), a.at.keep()); }},
      {"complex cumsum", [](const Args& a) -> Tensor { return pairs(cumsum(z(a), dim(a))); }},
      {"complex cumprod", [](const Args& a) -> Tensor { return pairs(cumprod(z(a), dim(a))); }},
      {"complex trapezoid", [](const Args& a) -> Tensor { return pairs(trapezoid(z(a), 1, dim(a))); }},
      {"complex cumulative_trapezoid",
       [](const Args& a) -> Tensor { return pairs(cumulative_trapezoid(z(a), 1, dim(a))); }},
      {"complex matmul", [](const Args& a) -> Tensor { return pairs(matmul(z(a), z(a, 1))); }},
      {"complex einsum", [](const Args& a) -> Tensor { return pairs(einsum("ij,kj->ik", {z(a), z(a, 1)})); }},
      {"complex vdot", [](const Args& a) -> Tensor { return pairs(vdot(z(a), z(a, 1))); }},
      {"complex outer", [](const Args& a) -> Tensor { return pairs(outer(z(a), z(a, 1))); }},
      {"complex kron", [](const Args& a) -> Tensor { return pairs(kron(z(a), z(a, 1))); }},
  };
}

NamedFunctions arrangements() {
  return {
      {"complex permute",
       [](const Args& a) -> Tensor {
         const Tensor x = z(a);
         return pairs(x.rank() > 1 ? Tensor(transpose(x, -2, -1)) : x);
       }},
      {"complex reshape", [](const Args& a) -> Tensor { return pairs(flatten(z(a))); }},
      {"complex flip", [](const Args& a) -> Tensor { return pairs(flip(z(a), dim(a))); }},
      {"complex roll", [](const Args& a) -> Tensor { return pairs(roll(z(a), a.at.whole("shift"), dim(a))); }},
      {"complex concat", [](const Args& a) -> Tensor { return pairs(concat({z(a), z(a, 1)}, dim(a))); }},
      {"complex stack", [](const Args& a) -> Tensor { return pairs(stack({z(a), z(a, 1)}, dim(a))); }},
      {"complex tril",
       [](const Args& a) -> Tensor { return pairs(tril(z(a), static_cast<int>(a.at.whole("diagonal")))); }},
      {"complex pad",
       [](const Args& a) -> Tensor {
         const Tensor x = z(a);
         std::vector<std::pair<int, int>> widths(static_cast<std::size_t>(x.rank()));
         const auto given = a.at.list("widths");
         widths.back() = {static_cast<int>(given[0]), static_cast<int>(given[1])};
         return pairs(pad(x, widths));
       }},
      {"complex select", [](const Args& a) -> Tensor { return pairs(select(z(a), dim(a), a.at.whole("index"))); }},
      {"complex take along", [](const Args& a) -> Tensor { return pairs(take(z(a), places(a), dim(a))); }},
      {"complex index_add", [](const Args& a) -> Tensor { return pairs(index_add(z(a), 0, places(a), z(a, 1))); }},
  };
}

Tensor one(const Tensor& a) { return eye(a.size(-1), {.dtype = a.dtype()}); }
Tensor adjoint(const Tensor& a) { return transpose(conj(a), -2, -1); }
Tensor shifted(const Args& a) { return z(a) + 3 * one(z(a)); }
Tensor positive(const Args& a) { return matmul(z(a), adjoint(z(a))) + one(z(a)); }
bool is_upper(const Args& a) { return a.at.is("upper"); }

NamedFunctions systems() {
  return {
      {"complex linalg.solve", [](const Args& a) -> Tensor { return pairs(linalg::solve(shifted(a), z(a, 1))); }},
      {"complex linalg.inv", [](const Args& a) -> Tensor { return pairs(linalg::inv(shifted(a))); }},
      {"complex linalg.inv_ex of singular", [](const Args& a) -> Tensor { return linalg::inv_ex(z(a)).info; }},
      {"complex linalg.det", [](const Args& a) -> Tensor { return pairs(linalg::det(z(a))); }},
      {"complex linalg.slogdet",
       [](const Args& a) -> Tensors {
         const auto [sign, logabsdet] = linalg::slogdet(shifted(a));
         return {pairs(sign), logabsdet};
       }},
      {"complex linalg.cholesky",
       [](const Args& a) -> Tensor { return pairs(linalg::cholesky(positive(a), {.upper = is_upper(a)})); }},
      {"complex linalg.cholesky_solve",
       [](const Args& a) -> Tensor {
         const linalg::CholeskyOptions options{.upper = is_upper(a)};
         return pairs(linalg::cholesky_solve(z(a, 1), linalg::cholesky(positive(a), options), options));
       }},
      {"complex linalg.solve_triangular",
       [](const Args& a) -> Tensor {
         return pairs(linalg::solve_triangular(shifted(a), z(a, 1), {.upper = is_upper(a)}));
       }},
      {"complex linalg.lu",
       [](const Args& a) -> Tensors {
         const linalg::Lu found = linalg::lu(z(a));
         return {pairs(found.p), pairs(found.l), pairs(found.u)};
       }},
      {"complex linalg.lu_factor",
       [](const Args& a) -> Tensors {
         const auto [lu, pivots] = linalg::lu_factor(shifted(a));
         return {pairs(lu), pivots};
       }},
      {"complex linalg.lu_solve",
       [](const Args& a) -> Tensor {
         const auto [lu, pivots] = linalg::lu_factor(shifted(a));
         return pairs(linalg::lu_solve(lu, pivots, z(a, 1), {.adjoint = a.at.is("adjoint")}));
       }},
      {"complex linalg.lu_solve from the right",
       [](const Args& a) -> Tensor {
         const auto [lu, pivots] = linalg::lu_factor(shifted(a));
         const Tensor right = transpose(z(a, 1), -2, -1);
         return pairs(linalg::lu_solve(lu, pivots, right, {.left = false, .adjoint = a.at.is("adjoint")}));
       }},
  };
}

NamedFunctions decompositions() {
  return {
      {"complex linalg.qr",
       [](const Args& a) -> Tensors {
         const auto [q, r] = linalg::qr(z(a));
         return {pairs(matmul(q, r)), pairs(matmul(q, adjoint(q))), abs(r)};
       }},
      {"complex linalg.qr slopes",
       [](const Args& a) -> Tensors {
         const auto [q, r] = linalg::qr(z(a));
         return {pairs(q * q), pairs(r * r)};
       }},
      {"complex linalg.householder_product",
       [](const Args& a) -> Tensor { return pairs(linalg::householder_product(z(a), z(a, 1))); }},
      {"complex linalg.eigh",
       [](const Args& a) -> Tensors {
         const auto [values, vectors] = linalg::eigh(positive(a));
         return {values, square(abs(vectors))};
       }},
      {"complex linalg.svdvals", [](const Args& a) -> Tensor { return linalg::svdvals(z(a)); }},
      {"complex linalg.pinv", [](const Args& a) -> Tensor { return pairs(linalg::pinv(z(a))); }},
      {"complex linalg.matrix_exp", [](const Args& a) -> Tensor { return pairs(linalg::matrix_exp(z(a))); }},
      {"complex linalg.multi_dot",
       [](const Args& a) -> Tensor { return pairs(linalg::multi_dot({z(a), z(a, 1), z(a, 2)})); }},
  };
}

}  // namespace

NamedFunctions complex_functions() {
  return joined(
      {unary_functions(), binary_functions(), reductions_and_products(), arrangements(), systems(), decompositions()});
}

}  // namespace sinter_test
