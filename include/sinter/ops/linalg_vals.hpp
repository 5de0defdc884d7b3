// Matrices as algebra on Vals: triangles, triangular systems and permutations, for derivatives and compositions.
#pragma once

#include <sinter/ops/linalg.hpp>

SINTER_NAMESPACE_BEGIN
namespace ops_detail {

/// All results of an op of one operand.
ValList apply_results(const OpInfo& op, Val x, Attrs attrs = {});

enum class TrianglePart : std::uint8_t { lower, strictly_lower, upper, lower_half_diagonal, diagonal, unit_lower };
/// x with zeros elsewhere.
Val triangle(Val x, TrianglePart part);
/// bool, of the shape of the matrix alone.
Val is_on_diagonal(Val x);
Val diagonal_of(Val x);
Val identity_like(Val x);

struct Triangular {
  bool upper = false, transposed = false, unit = false;
};
Val triangular_solve(Val a, Val b, Triangular options);
/// x with x a = b.
Val triangular_solve_right(Val a, Val b, Triangular options);

/// P a = L U of square matrices.
struct Factors {
  Val packed, pivots, permutation;
};
Factors lu_of(Val a, FactorUse use);
Val permutation_of(Val pivots, Dim rows);
/// 1 or -1.
Val permutation_sign(Val pivots, DType dtype);
/// P x, and P^T x.
Val permuted_rows(Val x, Val permutation);
Val rows_put_back(Val x, Val permutation);
Val solve_by(const Factors& lu, Val b, bool transposed);

}  // namespace ops_detail
SINTER_NAMESPACE_END
