// Factorisations of matrices, which the host computes, and what is made of them in one step: cholesky, lu_factor,
// triangular_solve, qr, svd, eigh, matrix_exp; solve and det. Matrices are the last two axes, all others are batches.
// f32 and f64. All other functions of linear algebra are compositions of these (expr/linalg.hpp). Must not know how
// they are computed: that is in linalg_host.ipp.
#pragma once

#include <sinter/ops/infer.hpp>
#include <sinter/ops/val_ops.hpp>

SINTER_NAMESPACE_BEGIN

/// Who asks for a factorisation: for the name in errors, and whether a singular matrix is one. The last three: of real
/// matrices of which two rows and columns, side by side, are one of a complex matrix.
enum class FactorUse : std::uint8_t { unchecked, factor, solve, inv, complex_factor, complex_solve, complex_inv };
inline constexpr std::string_view factor_uses = "unchecked factor solve inv complex_factor complex_solve complex_inv";
enum class QrMode : std::uint8_t { reduced, complete, r };
/// Which vectors of an SVD are computed.
enum class SvdVectors : std::uint8_t { thin, full, none };

namespace ops {

/// The lower factor of symmetric positive definite matrices, of which the lower triangle is read, and `info` (i32): 0,
/// or the order of the first leading minor that is not positive. The gradient is symmetric.
struct Cholesky {
  static constexpr OpInfo info{.name = "cholesky", .arity = 1, .kind = OpKind::structured};
  static constexpr OpAttr<FactorUse> use{"use", 0, factor_uses};
  static constexpr auto attributes = attribute_list(use);
  static void infer(const InferArgs& args, TypeList& out);
  static void run_on_host(HostCall& call);
  static ValList vjp(const VjpArgs& a);
  static void batch(const BatchArgs& args, BatchedList& results);
};

/// P a = L U with partial pivoting, of m rows and n columns: L (of ones on the diagonal) and U in one matrix, `pivots`
/// (i32, from 1: row i was exchanged with row pivots[i]), `info` (i32: 0, or the first pivot, from 1, that is 0).
struct LuFactor {
  static constexpr OpInfo info{.name = "lu_factor", .arity = 1, .kind = OpKind::structured};
  static constexpr OpAttr<FactorUse> use{"use", 0, factor_uses};
  static constexpr OpAttr<Dim> steps{"steps", 0};  // min(m, n)
  static constexpr auto attributes = attribute_list(use, steps);
  static void infer(const InferArgs& args, TypeList& out);
  static void run_on_host(HostCall& call);
  static ValList vjp(const VjpArgs& a);
  static void batch(const BatchArgs& args, BatchedList& results);
};

/// The rows, in order (i64), that pivots of lu_factor leave: row i of P a is row permutation[i] of a.
struct LuPermutation {
  static constexpr OpInfo info{.name = "lu_permutation", .arity = 1, .kind = OpKind::structured};
  static constexpr OpAttr<Dim> rows{"rows", 0};
  static constexpr auto attributes = attribute_list(rows);
  static Type infer(const InferArgs& args);
  static void run_on_host(HostCall& call);
  static Batched batch(const BatchArgs& args);
};

/// x with a x = b, where one triangle of a is read; or that of the transposed triangle. A zero on the diagonal gives
/// infinities.
struct TriangularSolve {
  static constexpr OpInfo info{.name = "triangular_solve", .arity = 2, .kind = OpKind::structured};
  static constexpr OpAttr<bool> upper{"upper", 0}, transposed{"transposed", 1}, unit{"unit", 2};
  static constexpr auto attributes = attribute_list(upper, transposed, unit);
  static Type infer(const InferArgs& args);
  static void run_on_host(HostCall& call);
  static ValList vjp(const VjpArgs& a);
  static Batched batch(const BatchArgs& args);
};

/// Orthonormal Q and upper triangular R with a = Q R; r: R alone, which has no derivative.
struct Qr {
  static constexpr OpInfo info{.name = "qr", .arity = 1, .kind = OpKind::structured};
  static constexpr OpAttr<QrMode> mode{"mode", 0, "reduced complete r"};
  static constexpr OpAttr<Dim> steps{"steps", 0};  // min(m, n)
  static constexpr auto attributes = attribute_list(mode, steps);
  static void infer(const InferArgs& args, TypeList& out);
  static void run_on_host(HostCall& call);
  static ValList vjp(const VjpArgs& a);
  static void batch(const BatchArgs& args, BatchedList& results);
};

/// U, S, Vh with a = U diag(S) Vh, singular values in descending order; or S alone.
struct Svd {
  static constexpr OpInfo info{.name = "svd", .arity = 1, .kind = OpKind::structured};
  static constexpr OpAttr<SvdVectors> vectors{"vectors", 0, "thin full none"};
  static constexpr OpAttr<Dim> steps{"steps", 0};  // min(m, n)
  static constexpr auto attributes = attribute_list(vectors, steps);
  static void infer(const InferArgs& args, TypeList& out);
  static void run_on_host(HostCall& call);
  static ValList vjp(const VjpArgs& a);
  static void batch(const BatchArgs& args, BatchedList& results);
};

/// Eigenvalues of symmetric matrices in ascending order, of which the lower triangle is read, and the eigenvectors as
/// columns; or the values alone.
struct Eigh {
  static constexpr OpInfo info{.name = "eigh", .arity = 1, .kind = OpKind::structured};
  static constexpr OpAttr<bool> values_only{"values_only", 0};
  static constexpr auto attributes = attribute_list(values_only);
  static void infer(const InferArgs& args, TypeList& out);
  static void run_on_host(HostCall& call);
  static ValList vjp(const VjpArgs& a);
  static void batch(const BatchArgs& args, BatchedList& results);
};

/// e^a, by the Pade approximant of order 13 with scaling and squaring (Higham 2005).
struct MatrixExp {
  static constexpr OpInfo info{.name = "matrix_exp", .arity = 1, .kind = OpKind::structured};
  static Type infer(const InferArgs& args);
  static void run_on_host(HostCall& call);
  static ValList vjp(const VjpArgs& a);
  static Batched batch(const BatchArgs& args);
};

/// What is made of small square matrices by elimination with partial pivoting, many side by side (linalg_small.hpp):
/// x with a x = b (a^T x = b), the inverse of a, or its determinant. Solve and Det decompose into it.
enum class SmallResult : std::uint8_t { solution, inverse, determinant };
struct SmallSolve {
  static constexpr OpInfo info{.name = "small_solve", .arity = -1, .kind = OpKind::structured};
  static constexpr OpAttr<SmallResult> made{"made", 0, "solution inverse determinant"};
  static constexpr OpAttr<bool> transposed{"transposed", 1};
  static constexpr OpAttr<FactorUse> use{"use", 2, factor_uses};
  static constexpr auto attributes = attribute_list(made, transposed, use);
  static Type infer(const InferArgs& args);
  static void run_on_host(HostCall& call);
  static ValList vjp(const VjpArgs& a);
  static Batched batch(const BatchArgs& args);
};

/// x with a x = b (a^T x = b), by lu_factor: gradients use the same factorisation. With FactorUse::inv b is the
/// identity.
struct Solve {
  static constexpr OpInfo info{.name = "solve", .arity = 2, .kind = OpKind::composite, .has_row_counts = true};
  static constexpr OpAttr<bool> transposed{"transposed", 0};
  static constexpr OpAttr<FactorUse> use{"use", 1, factor_uses};
  static constexpr auto attributes = attribute_list(transposed, use);
  static Type infer(const InferArgs& args);
  static Val decompose(const DecomposeArgs& args);
  static ValList vjp(const VjpArgs& a);
  static Batched batch(const BatchArgs& args);
};

/// pinv(a, atol, rtol): the inverse of Moore and Penrose, of singular values above atol and rtol times the largest
/// (numbers of rank 0). The derivative is that for matrices of the same rank.
struct Pinv {
  static constexpr OpInfo info{.name = "pinv", .arity = 3, .kind = OpKind::composite};
  static constexpr OpAttr<Dim> steps{"steps", 0};  // min(m, n)
  static constexpr auto attributes = attribute_list(steps);
  static Type infer(const InferArgs& args);
  static Val decompose(const DecomposeArgs& args);
  static ValList vjp(const VjpArgs& a);
};

/// The determinant. Its gradient is that of cofactors, also where the matrix is singular; not so its own derivative.
struct Det {
  static constexpr OpInfo info{.name = "det", .arity = 1, .kind = OpKind::composite, .has_row_counts = true};
  static Type infer(const InferArgs& args);
  static Val decompose(const DecomposeArgs& args);
  static ValList vjp(const VjpArgs& a);
};

}  // namespace ops
SINTER_NAMESPACE_END
