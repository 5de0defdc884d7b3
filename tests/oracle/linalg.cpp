// Products and linear algebra, by name.
#include "functions.hpp"

namespace sinter_test {
namespace {

AddProductOptions scales(const Args& a) { return {.beta = a.at.number("beta"), .alpha = a.at.number("alpha")}; }
linalg::CholeskyOptions triangle(const Args& a) { return {.upper = a.at.is("upper")}; }
Tensor einsum_of(const Args& a) { return einsum(a.at.word("equation"), a.inputs); }

linalg::NormOrder order(const Args& a) {
  const std::string p = a.at.word("p");
  if (p == "fro") return linalg::fro;
  return p == "nuc" ? linalg::NormOrder(linalg::nuc) : linalg::NormOrder(a.at.number("p"));
}

NamedFunctions product_functions() {
  return {
      {"matmul", [](const Args& a) -> Tensor { return matmul(a[0], a[1]); }},
      {"mm", [](const Args& a) -> Tensor { return mm(a[0], a[1]); }},
      {"mv", [](const Args& a) -> Tensor { return mv(a[0], a[1]); }},
      {"bmm", [](const Args& a) -> Tensor { return bmm(a[0], a[1]); }},
      {"dot", [](const Args& a) -> Tensor { return dot(a[0], a[1]); }},
      {"vdot", [](const Args& a) -> Tensor { return vdot(a[0], a[1]); }},
      {"inner", [](const Args& a) -> Tensor { return inner(a[0], a[1]); }},
      {"outer", [](const Args& a) -> Tensor { return outer(a[0], a[1]); }},
      {"kron", [](const Args& a) -> Tensor { return kron(a[0], a[1]); }},
      {"cross", [](const Args& a) -> Tensor { return cross(a[0], a[1], a.at.axis("axis")); }},
      {"tensordot", [](const Args& a) -> Tensor { return tensordot(a[0], a[1], a.at.axis("axes")); }},
      {"tensordot over axes",
       [](const Args& a) -> Tensor { return tensordot(a[0], a[1], a.at.axes("a"), a.at.axes("b")); }},
      {"einsum", einsum_of},
      {"einsum of one", einsum_of},
      {"einsum of three", einsum_of},
      {"addmm", [](const Args& a) -> Tensor { return addmm(a[0], a[1], a[2], scales(a)); }},
      {"addmv", [](const Args& a) -> Tensor { return addmv(a[0], a[1], a[2], scales(a)); }},
      {"addr", [](const Args& a) -> Tensor { return addr(a[0], a[1], a[2], scales(a)); }},
      {"baddbmm", [](const Args& a) -> Tensor { return baddbmm(a[0], a[1], a[2], scales(a)); }},
      {"addbmm", [](const Args& a) -> Tensor { return addbmm(a[0], a[1], a[2], scales(a)); }},
      {"multi_dot", [](const Args& a) -> Tensor { return multi_dot(a.inputs); }},
      {"matrix_power", [](const Args& a) -> Tensor { return matrix_power(a[0], a.at.axis("power")); }},
      {"linear", [](const Args& a) -> Tensor { return a.has(2) ? linear(a[0], a[1], a[2]) : linear(a[0], a[1]); }},
  };
}

NamedFunctions solver_functions() {
  return {
      {"linalg.cholesky", [](const Args& a) -> Tensor { return linalg::cholesky(a[0], triangle(a)); }},
      {"linalg.cholesky_ex",
       [](const Args& a) -> Tensors {
         const linalg::CholeskyEx found = linalg::cholesky_ex(a[0]);
         return {found.factor, found.info};
       }},
      {"linalg.cholesky_solve",
       [](const Args& a) -> Tensor { return linalg::cholesky_solve(a[1], a[0], triangle(a)); }},
      {"linalg.cholesky_inverse", [](const Args& a) -> Tensor { return linalg::cholesky_inverse(a[0], triangle(a)); }},
      {"linalg.solve", [](const Args& a) -> Tensor { return linalg::solve(a[0], a[1]); }},
      {"linalg.solve of vectors", [](const Args& a) -> Tensor { return linalg::solve(a[0], a[1]); }},
      {"linalg.solve from the right",
       [](const Args& a) -> Tensor { return linalg::solve(a[0], a[1], {.left = false}); }},
      {"linalg.solve_ex",
       [](const Args& a) -> Tensors {
         const linalg::SolveEx found = linalg::solve_ex(a[0], a[1]);
         return {found.result, found.info};
       }},
      {"linalg.solve_triangular",
       [](const Args& a) -> Tensor {
         return linalg::solve_triangular(a[0], a[1], {.upper = a.at.is("upper"), .unitriangular = a.at.is("ones")});
       }},
      {"linalg.solve_ex of singular", [](const Args& a) -> Tensor { return linalg::solve_ex(a[0], a[1]).info; }},
      {"linalg.inv_ex of singular", [](const Args& a) -> Tensor { return linalg::inv_ex(a[0]).info; }},
      {"linalg.cholesky_ex of indefinite", [](const Args& a) -> Tensor { return linalg::cholesky_ex(a[0]).info; }},
      {"linalg.inv", [](const Args& a) -> Tensor { return linalg::inv(a[0]); }},
      {"linalg.inv_ex",
       [](const Args& a) -> Tensors {
         const linalg::InvEx found = linalg::inv_ex(a[0]);
         return {found.inverse, found.info};
       }},
      {"linalg.det", [](const Args& a) -> Tensor { return linalg::det(a[0]); }},
      {"linalg.slogdet",
       [](const Args& a) -> Tensors {
         const linalg::Slogdet found = linalg::slogdet(a[0]);
         return {found.sign, found.logabsdet};
       }},
      {"linalg.logdet by slogdet", [](const Args& a) -> Tensor { return linalg::slogdet(a[0]).logabsdet; }},
      {"linalg.lu",
       [](const Args& a) -> Tensors {
         const linalg::Lu found = linalg::lu(a[0]);
         return {found.p, found.l, found.u};
       }},
      {"linalg.lu_factor",
       [](const Args& a) -> Tensors {
         const linalg::LuFactors found = linalg::lu_factor(a[0]);
         return {found.lu, found.pivots};
       }},
      {"linalg.lu_factor_ex",
       [](const Args& a) -> Tensors {
         const linalg::LuFactorEx found = linalg::lu_factor_ex(a[0]);
         return {found.lu, found.pivots, found.info};
       }},
      {"linalg.lu_solve",
       [](const Args& a) -> Tensor {
         const linalg::LuFactors found = linalg::lu_factor(a[0]);
         return linalg::lu_solve(found.lu, found.pivots, a[1], {.adjoint = a.at.is("adjoint")});
       }},
      {"linalg.lstsq", [](const Args& a) -> Tensor { return linalg::lstsq(a[0], a[1]).solution; }},
      {"linalg.tensorinv", [](const Args& a) -> Tensor { return linalg::tensorinv(a[0], a.at.axis("ind")); }},
      {"linalg.tensorsolve", [](const Args& a) -> Tensor { return linalg::tensorsolve(a[0], a[1]); }},
  };
}

NamedFunctions decomposition_functions() {
  return {
      {"linalg.qr",
       [](const Args& a) -> Tensors {
         const linalg::Qr found = linalg::qr(a[0]);
         return {matmul(found.q, found.r), matmul(found.q, found.q.t()), abs(found.r)};
       }},
      {"linalg.qr slopes",
       [](const Args& a) -> Tensors {
         const linalg::Qr found = linalg::qr(a[0]);
         return {square(found.q), square(found.r)};
       }},
      {"linalg.householder_product", [](const Args& a) -> Tensor { return linalg::householder_product(a[0], a[1]); }},
      {"linalg.svd",
       [](const Args& a) -> Tensors {
         const linalg::Svd found = linalg::svd(a[0], {.full_matrices = false});
         return {matmul(found.u * unsqueeze(found.s, -2), found.vh), found.s, matmul(found.u, found.u.t())};
       }},
      {"linalg.svd slopes",
       [](const Args& a) -> Tensors {
         const linalg::Svd found = linalg::svd(a[0], {.full_matrices = false});
         return {square(found.u), found.s, square(found.vh)};
       }},
      {"linalg.svdvals", [](const Args& a) -> Tensor { return linalg::svdvals(a[0]); }},
      {"linalg.eigh",
       [](const Args& a) -> Tensors {
         const linalg::Eigh found = linalg::eigh((a[0] + a[0].t()) / 2, {.upper = a.at.is("upper")});
         return {found.eigenvalues, square(found.eigenvectors)};
       }},
      {"linalg.eigvalsh", [](const Args& a) -> Tensor { return linalg::eigvalsh(a[0], {.upper = a.at.is("upper")}); }},
      {"linalg.matrix_rank", [](const Args& a) -> Tensor { return linalg::matrix_rank(a[0]); }},
      {"linalg.pinv", [](const Args& a) -> Tensor { return linalg::pinv(a[0]); }},
      {"linalg.polar by svd",
       [](const Args& a) -> Tensor {
         const linalg::Svd found = linalg::svd(a[0], {.full_matrices = false});
         return matmul(found.u, found.vh);
       }},
      {"linalg.matrix_sqrth by eigh",
       [](const Args& a) -> Tensor {
         const linalg::Eigh found = linalg::eigh(a[0]);
         return matmul(found.eigenvectors * unsqueeze(sqrt(found.eigenvalues), -2), found.eigenvectors.t());
       }},
  };
}

NamedFunctions norm_functions() {
  return {
      {"linalg.vector_norm",
       [](const Args& a) -> Tensor { return linalg::vector_norm(a[0], a.at.number("p"), a.at.axis("axis")); }},
      {"linalg.matrix_norm", [](const Args& a) -> Tensor { return linalg::matrix_norm(a[0], order(a)); }},
      {"linalg.norm",
       [](const Args& a) -> Tensor {
         return a.at.has("p") ? linalg::norm(a[0], order(a), a.at.axes("axes")) : linalg::norm(a[0]);
       }},
      {"linalg.cond",
       [](const Args& a) -> Tensor { return a.at.has("p") ? linalg::cond(a[0], order(a)) : linalg::cond(a[0]); }},
      {"linalg.matrix_exp", [](const Args& a) -> Tensor { return linalg::matrix_exp(a[0]); }},
      {"linalg.vecdot", [](const Args& a) -> Tensor { return linalg::vecdot(a[0], a[1], a.at.axis("axis")); }},
      {"linalg.diagonal", [](const Args& a) -> Tensor { return linalg::diagonal(a[0], a.at.axis("k")); }},
      {"linalg.vander", [](const Args& a) -> Tensor { return linalg::vander(a[0], Dim(a.at.whole("n"))); }},
  };
}

}  // namespace

NamedFunctions linalg_functions() {
  return joined({product_functions(), solver_functions(), decomposition_functions(), norm_functions()});
}

}  // namespace sinter_test
