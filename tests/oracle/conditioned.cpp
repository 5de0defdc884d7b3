// Functions of singular and ill-conditioned matrices, by name: what is compared is what rounding leaves.
#include "functions.hpp"

namespace sinter_test {
namespace {

Tensor symmetric(const Tensor& a) { return (a + a.t()) / 2; }
Tensor gram(const Tensor& u) { return matmul(u.t(), u); }
Tensors sums(const Tensor& w) { return {sum(square(w), -1), sum(w * w * w, -1)}; }

NamedFunctions of_square_matrices() {
  return {
      {"ill-conditioned linalg.solve", [](const Args& a) -> Tensor { return linalg::solve(a[0], a[1]); }},
      {"ill-conditioned linalg.inv", [](const Args& a) -> Tensor { return linalg::inv(a[0]); }},
      {"ill-conditioned linalg.det", [](const Args& a) -> Tensor { return linalg::det(a[0]); }},
      {"ill-conditioned linalg.slogdet",
       [](const Args& a) -> Tensors {
         const linalg::Slogdet found = linalg::slogdet(a[0]);
         return {found.sign, found.logabsdet};
       }},
      {"ill-conditioned linalg.cholesky", [](const Args& a) -> Tensor { return linalg::cholesky(a[0]); }},
      {"ill-conditioned linalg.cholesky_solve",
       [](const Args& a) -> Tensor { return linalg::cholesky_solve(a[1], linalg::cholesky(a[0])); }},
      {"ill-conditioned linalg.lu",
       [](const Args& a) -> Tensors {
         const linalg::Lu found = linalg::lu(a[0]);
         return {found.p, found.l, found.u};
       }},
      {"ill-conditioned linalg.eigh",
       [](const Args& a) -> Tensors {
         const linalg::Eigh found = linalg::eigh(symmetric(a[0]));
         const Tensor& v = found.eigenvectors;
         return {matmul(v * unsqueeze(found.eigenvalues, -2), v.t()), found.eigenvalues, gram(v)};
       }},
      {"ill-conditioned linalg.eigh slopes",
       [](const Args& a) -> Tensors {
         const linalg::Eigh found = linalg::eigh(symmetric(a[0]));
         return {found.eigenvalues, square(found.eigenvectors)};
       }},
      {"ill-conditioned linalg.eigvalsh", [](const Args& a) -> Tensor { return linalg::eigvalsh(symmetric(a[0])); }},
      {"ill-conditioned linalg.eigvalsh slopes",
       [](const Args& a) -> Tensors { return sums(linalg::eigvalsh(symmetric(a[0]))); }},
      {"ill-conditioned linalg.matrix_exp", [](const Args& a) -> Tensor { return linalg::matrix_exp(a[0]); }},
  };
}

linalg::NormOrder order(const Args& a) {
  return a.at.word("p") == "fro" ? linalg::NormOrder(linalg::fro) : linalg::NormOrder(a.at.number("p"));
}

NamedFunctions of_any_matrices() {
  return {
      {"ill-conditioned linalg.qr",
       [](const Args& a) -> Tensors {
         const linalg::Qr found = linalg::qr(a[0]);
         return {matmul(found.q, found.r), gram(found.q), abs(found.r)};
       }},
      {"ill-conditioned linalg.qr of any rank",
       [](const Args& a) -> Tensors {
         const linalg::Qr found = linalg::qr(a[0]);
         return {matmul(found.q, found.r), gram(found.q)};
       }},
      {"ill-conditioned linalg.qr slopes",
       [](const Args& a) -> Tensors {
         const linalg::Qr found = linalg::qr(a[0]);
         return {square(found.q), square(found.r)};
       }},
      {"ill-conditioned linalg.svd",
       [](const Args& a) -> Tensors {
         const linalg::Svd found = linalg::svd(a[0], {.full_matrices = false});
         return {matmul(found.u * unsqueeze(found.s, -2), found.vh), found.s, gram(found.u),
                 matmul(found.vh, found.vh.t())};
       }},
      {"ill-conditioned linalg.svd slopes",
       [](const Args& a) -> Tensors {
         const linalg::Svd found = linalg::svd(a[0], {.full_matrices = false});
         return {square(found.u), found.s, square(found.vh)};
       }},
      {"ill-conditioned linalg.svdvals", [](const Args& a) -> Tensor { return linalg::svdvals(a[0]); }},
      {"ill-conditioned linalg.svdvals slopes", [](const Args& a) -> Tensors { return sums(linalg::svdvals(a[0])); }},
      {"ill-conditioned linalg.matrix_rank", [](const Args& a) -> Tensor { return linalg::matrix_rank(a[0]); }},
      {"ill-conditioned linalg.pinv", [](const Args& a) -> Tensor { return linalg::pinv(a[0]); }},
      {"ill-conditioned linalg.lstsq", [](const Args& a) -> Tensor { return linalg::lstsq(a[0], a[1]).solution; }},
      {"ill-conditioned linalg.cond", [](const Args& a) -> Tensor { return linalg::cond(a[0], order(a)); }},
      {"ill-conditioned linalg.cond of singular", [](const Args& a) -> Tensor { return linalg::cond(a[0], order(a)); }},
  };
}

}  // namespace

NamedFunctions conditioned_functions() { return joined({of_square_matrices(), of_any_matrices()}); }

}  // namespace sinter_test
