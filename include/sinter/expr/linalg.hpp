// Linear algebra under the names of torch.linalg: matrices are the last two axes, all others are batches, in any
// layout, of f32, f64, c64 and c128; of complex matrices a transpose below is the conjugate one. Factorisations run on
// the host, side by side on threads; everything else is made of them, so that gradients, vmap and fusion follow. A
// matrix that has no result is a LinalgError when the value is computed; functions that end in _ex give `info` (i32, of
// each matrix: 0, or what failed) instead.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/optional.hpp>
#include <sinter/expr/matrices.hpp>
#include <sinter/expr/products.hpp>
#include <sinter/tensor/tensor.hpp>

#include <cstdint>
#include <limits>
#include <optional>

SINTER_NAMESPACE_BEGIN
namespace linalg {

using sinter::cross;
using sinter::matrix_power;
using sinter::multi_dot;

// ---- Cholesky

struct CholeskyOptions {
  bool upper = false;  // the factor is upper triangular, and the upper triangle is read
};
/// L with a = L L^T of symmetric positive definite matrices; or U with a = U^T U.
Tensor cholesky(const In& a, CholeskyOptions options = {});
struct CholeskyEx {
  Tensor factor, info;
};
CholeskyEx cholesky_ex(const In& a, CholeskyOptions options = {});
/// x with a x = b, by the factor of a.
Tensor cholesky_solve(const In& b, const In& factor, CholeskyOptions options = {});
/// The inverse of a, by the factor of a.
Tensor cholesky_inverse(const In& factor, CholeskyOptions options = {});

// ---- LU, solving, inverses, determinants

/// A = P L U.
struct Lu {
  Tensor p, l, u;
};
Lu lu(const In& a);
/// L without its ones, and U, in one matrix; row i was exchanged with row pivots[i] (i32, from 1).
struct LuFactors {
  Tensor lu, pivots;
};
LuFactors lu_factor(const In& a);
struct LuFactorEx {
  Tensor lu, pivots, info;
};
LuFactorEx lu_factor_ex(const In& a);

struct SolveOptions {
  bool left = true;  // false: x a = b
};
struct LuSolveOptions {
  bool left = true;
  bool adjoint = false;  // a^T x = b, a^H x = b of complex ones
};
Tensor lu_solve(const In& lu, const In& pivots, const In& b, LuSolveOptions options = {});

/// x with a x = b. b is matrices, or vectors where it has one axis, or one axis less than a and a's other extents.
/// Batches broadcast.
Tensor solve(const In& a, const In& b, SolveOptions options = {});
struct SolveEx {
  Tensor result, info;
};
SolveEx solve_ex(const In& a, const In& b, SolveOptions options = {});
struct SolveTriangularOptions {
  bool upper = false;
  bool left = true;
  bool unitriangular = false;  // the diagonal is taken to be ones
};
/// x with a x = b for triangular a; the other triangle is not read.
Tensor solve_triangular(const In& a, const In& b, SolveTriangularOptions options = {});

Tensor inv(const In& a);
struct InvEx {
  Tensor inverse, info;
};
InvEx inv_ex(const In& a);
Tensor det(const In& a);
struct Slogdet {
  Tensor sign, logabsdet;
};
Slogdet slogdet(const In& a);

// ---- orthogonal decompositions

/// q and r with a = q r: thin, complete, or r alone (then q is empty).
enum class QrMode : std::uint8_t { reduced, complete, r };
struct Qr {
  Tensor q, r;
};
Qr qr(const In& a, QrMode mode = QrMode::reduced);
/// The first columns of the product of reflections I - tau[i] v v^H, where v is column i of a below its diagonal,
/// which stands for a one.
Tensor householder_product(const In& a, const In& tau);

struct SvdOptions {
  bool full_matrices = true;
};
/// a = u diag(s) vh, with s in descending order.
struct Svd {
  Tensor u, s, vh;
};
Svd svd(const In& a, SvdOptions options = {});
Tensor svdvals(const In& a);

struct EighOptions {
  bool upper = false;  // the upper triangle is read
};
/// Of symmetric matrices: a = vectors diag(values) vectors^T, values in ascending order.
struct Eigh {
  Tensor eigenvalues, eigenvectors;
};
Eigh eigh(const In& a, EighOptions options = {});
Tensor eigvalsh(const In& a, EighOptions options = {});

/// a = vectors diag(values) vectors^-1 of any square matrices: complex also for real ones (c64 of f32, c128 of f64).
/// Vectors are columns of norm 1, of any phase; the order is that of the decomposition. Derivatives hold where values
/// are distinct; that of what depends on the phase of vectors means nothing.
struct Eig {
  Tensor eigenvalues, eigenvectors;
};
Eig eig(const In& a);
Tensor eigvals(const In& a);

// ---- by singular values

/// Singular values count where they are larger than atol and than rtol times the largest. Without either, rtol is the
/// larger extent times the dtype's epsilon; with atol alone it is 0.
struct RankOptions {
  Optional<double> atol{}, rtol{};
};
/// i64.
Tensor matrix_rank(const In& a, RankOptions options = {});
/// The inverse of Moore and Penrose.
Tensor pinv(const In& a, RankOptions options = {});

/// gelsd: by singular values, for matrices of any rank. gels: by QR, several times as fast, for matrices of full rank.
enum class LstsqDriver : std::uint8_t { gelsd, gels };
struct LstsqOptions {
  Optional<double> rcond{};  // as rtol above
  LstsqDriver driver = LstsqDriver::gelsd;
};
/// The x of least |a x - b|, and of these the least one. Residuals are the sums of squares of a x - b by column.
struct Lstsq {
  Tensor solution, residuals, rank, singular_values;  // the last one is empty with gels
};
Lstsq lstsq(const In& a, const In& b, LstsqOptions options = {});

// ---- norms

/// A number (infinities too), or one of these.
enum class MatrixNorm : std::uint8_t { fro, nuc };
class NormOrder {
 public:
  NormOrder() = default;  // none
  template <Arithmetic S>
  NormOrder(S number) : kind_(Kind::number), number_(static_cast<double>(number)) {}
  NormOrder(MatrixNorm named) : kind_(Kind::named), named_(named) {}
  bool is_given() const { return kind_ != Kind::none; }
  bool is_named() const { return kind_ == Kind::named; }
  bool is(MatrixNorm named) const { return is_named() && named_ == named; }
  double number() const { return number_; }

 private:
  enum class Kind : std::uint8_t { none, number, named };
  Kind kind_ = Kind::none;
  MatrixNorm named_ = MatrixNorm::fro;
  double number_ = 2;
};
inline constexpr MatrixNorm fro = MatrixNorm::fro, nuc = MatrixNorm::nuc;
inline constexpr double inf = std::numeric_limits<double>::infinity();

/// (sum |x|^p)^(1/p) over axes (none given: all); 0 counts, infinities take the largest and the smallest.
Tensor vector_norm(const In& x, double order = 2, Axes axes = {}, Keep keep = Keep::no);
/// fro; nuc: the sum of singular values; 2, -2: the largest, the smallest of them; 1, -1 (inf, -inf): the largest, the
/// smallest sum of a column (row).
Tensor matrix_norm(const In& x, NormOrder order = fro, Axes axes = {-2, -1}, Keep keep = Keep::no);
/// Without an order the 2-norm of all elements along `axes`; with one, a norm of vectors along one axis (or of a tensor
/// of one axis), of matrices along two.
Tensor norm(const In& x, NormOrder order = {}, Axes axes = {}, Keep keep = Keep::no);
/// The norm of a times that of its inverse; 2 and -2 by singular values, for any shape. Of a singular matrix infinite.
Tensor cond(const In& a, NormOrder order = 2);

// ---- other functions

Tensor matrix_exp(const In& a);
/// Summed over one axis; the others broadcast.
Tensor vecdot(const In& x, const In& y, int axis = -1);
Tensor diagonal(const In& a, int offset = 0, int first = -2, int second = -1);
/// Powers 0, 1, ... of the elements as a new last axis, `columns` of them; by default as many as the last axis is long.
Tensor vander(const In& x, std::optional<Dim> columns = {});
/// The inverse of the map from the last axes to the first `ind` ones.
Tensor tensorinv(const In& a, int ind = 2);
/// x with tensordot(a, x, x.rank()) = b; `axes` of a are moved to its end first.
Tensor tensorsolve(const In& a, const In& b, Axes axes = {});

}  // namespace linalg
SINTER_NAMESPACE_END
