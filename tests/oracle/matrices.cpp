// Eigenvalues of any matrices, and linear algebra over complex matrices beside complex.cpp, by name. What is compared
// does not depend on the order of eigenvalues or on phases.
#include "functions.hpp"

namespace sinter_test {
namespace {

Tensor z(const Args& a, std::size_t i = 0) { return view_as_complex(a[i]); }
Tensor pairs(const Tensor& x) { return is_complex(x.dtype()) ? view_as_real(x) : x; }
Tensor adjoint(const Tensor& a) { return transpose(conj(a), -2, -1); }
Tensor one(const Tensor& a) { return eye(a.size(-1), {.dtype = a.dtype()}); }
Tensor shifted(const Args& a) { return z(a) + 3 * one(z(a)); }
Tensor positive(const Args& a) { return matmul(z(a), adjoint(z(a))) + one(z(a)); }
Tensor size_of(const Tensor& x) { return square(abs(x)); }
bool is_upper(const Args& a) { return a.at.is("upper"); }

Tensors of_eigenvalues(const Tensor& w) { return {sort(real(w)).values, sort(abs(w)).values}; }
Tensors sums_of_eigenvalues(const Tensor& w) {
  return {sum(size_of(w), -1), real(sum(w * w * w, -1)), real(sum(exp(w * 0.25), -1))};
}
Tensor matrix_of(const linalg::Eig& e) {
  return matmul(e.eigenvectors * unsqueeze(e.eigenvalues, -2), linalg::inv(e.eigenvectors));
}
Tensor sums_of_parts(const linalg::Eig& e) {
  return sum(size_of(e.eigenvectors) * unsqueeze(size_of(e.eigenvalues), -2), -1);
}

linalg::NormOrder order(const Args& a) {
  const std::string p = a.at.word("p");
  if (p == "fro") return linalg::fro;
  return p == "nuc" ? linalg::NormOrder(linalg::nuc) : linalg::NormOrder(a.at.number("p"));
}
Tensor regular(const Args& a) { return z(a) + 3 * reshape(eye(4, {.dtype = z(a).dtype()}), z(a).shape()); }

NamedFunctions real_ones() {
  return {
      {"linalg.eigvals", [](const Args& a) -> Tensors { return of_eigenvalues(linalg::eigvals(a[0])); }},
      {"linalg.eigvals slopes", [](const Args& a) -> Tensors { return sums_of_eigenvalues(linalg::eigvals(a[0])); }},
      {"linalg.eig",
       [](const Args& a) -> Tensors {
         const linalg::Eig found = linalg::eig(a[0]);
         return {real(matrix_of(found)), sum(size_of(found.eigenvectors), -2)};
       }},
      {"linalg.eig slopes", [](const Args& a) -> Tensor { return sums_of_parts(linalg::eig(a[0])); }},
  };
}

NamedFunctions decompositions() {
  return {
      {"complex linalg.eigvals", [](const Args& a) -> Tensors { return of_eigenvalues(linalg::eigvals(z(a))); }},
      {"complex linalg.eigvals slopes",
       [](const Args& a) -> Tensors { return sums_of_eigenvalues(linalg::eigvals(z(a))); }},
      {"complex linalg.eig",
       [](const Args& a) -> Tensors {
         const linalg::Eig found = linalg::eig(shifted(a));
         return {pairs(matrix_of(found)), sum(size_of(found.eigenvectors), -2)};
       }},
      {"complex linalg.eig slopes", [](const Args& a) -> Tensor { return sums_of_parts(linalg::eig(shifted(a))); }},
      {"complex linalg.eigvalsh",
       [](const Args& a) -> Tensor { return linalg::eigvalsh(positive(a), {.upper = is_upper(a)}); }},
      {"complex linalg.svd",
       [](const Args& a) -> Tensors {
         const linalg::Svd found = linalg::svd(z(a), {.full_matrices = false});
         return {pairs(matmul(found.u * unsqueeze(found.s, -2), found.vh)), found.s, sum(size_of(found.u), -2)};
       }},
      {"complex linalg.svd slopes",
       [](const Args& a) -> Tensors {
         const linalg::Svd found = linalg::svd(z(a), {.full_matrices = false});
         return {size_of(found.u), found.s, size_of(found.vh)};
       }},
      {"complex linalg.cholesky_inverse",
       [](const Args& a) -> Tensor {
         const linalg::CholeskyOptions options{.upper = is_upper(a)};
         return pairs(linalg::cholesky_inverse(linalg::cholesky(positive(a), options), options));
       }},
      {"complex linalg.cholesky_ex",
       [](const Args& a) -> Tensors {
         const linalg::CholeskyEx found = linalg::cholesky_ex(positive(a));
         return {pairs(found.factor), found.info};
       }},
      {"complex linalg.cholesky_ex of indefinite",
       [](const Args& a) -> Tensor { return linalg::cholesky_ex(z(a) + adjoint(z(a))).info; }},
      {"complex linalg.lu_factor_ex",
       [](const Args& a) -> Tensors {
         const linalg::LuFactorEx found = linalg::lu_factor_ex(shifted(a));
         return {pairs(found.lu), found.pivots, found.info};
       }},
  };
}

NamedFunctions systems() {
  return {
      {"complex linalg.solve_ex",
       [](const Args& a) -> Tensors {
         const linalg::SolveEx found = linalg::solve_ex(shifted(a), z(a, 1));
         return {pairs(found.result), found.info};
       }},
      {"complex linalg.solve_ex of singular",
       [](const Args& a) -> Tensor { return linalg::solve_ex(z(a), ones_like(z(a))).info; }},
      {"complex linalg.inv_ex",
       [](const Args& a) -> Tensors {
         const linalg::InvEx found = linalg::inv_ex(shifted(a));
         return {pairs(found.inverse), found.info};
       }},
      {"complex linalg.lstsq", [](const Args& a) -> Tensor { return pairs(linalg::lstsq(z(a), z(a, 1)).solution); }},
      {"complex linalg.matrix_power",
       [](const Args& a) -> Tensor { return pairs(matrix_power(shifted(a), a.at.axis("power"))); }},
      {"complex linalg.matrix_rank", [](const Args& a) -> Tensor { return linalg::matrix_rank(z(a)); }},
      {"complex linalg.matrix_norm", [](const Args& a) -> Tensor { return linalg::matrix_norm(z(a), order(a)); }},
      {"complex linalg.cond", [](const Args& a) -> Tensor { return linalg::cond(shifted(a), order(a)); }},
      {"complex linalg.vector_norm",
       [](const Args& a) -> Tensor { return linalg::vector_norm(z(a), a.at.number("p"), -1); }},
      {"complex linalg.vecdot",
       [](const Args& a) -> Tensor { return pairs(linalg::vecdot(z(a), z(a, 1), a.at.axis("axis"))); }},
      {"complex linalg.diagonal",
       [](const Args& a) -> Tensor { return pairs(linalg::diagonal(z(a), a.at.axis("k"))); }},
      {"complex linalg.tensorinv",
       [](const Args& a) -> Tensor { return pairs(linalg::tensorinv(regular(a), a.at.axis("ind"))); }},
      {"complex linalg.tensorsolve",
       [](const Args& a) -> Tensor { return pairs(linalg::tensorsolve(regular(a), z(a, 1))); }},
  };
}

}  // namespace

NamedFunctions matrices_functions() { return joined({real_ones(), decompositions(), systems()}); }

}  // namespace sinter_test
