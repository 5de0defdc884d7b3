// Eigenvalues of any square matrices.
#pragma once

#include <sinter/expr/functions.hpp>
#include <sinter/tensor/tensor.hpp>

SINTER_NAMESPACE_BEGIN
namespace linalg {

/// a = vectors diag(values) vectors^-1, complex also for real matrices (c64 of f32, c128 of f64). Vectors are columns of
/// norm 1, of any phase; the order is that of the decomposition. Derivatives of values hold where they are distinct;
/// those of what depends on the phase of vectors mean nothing.
struct Eig {
  Tensor eigenvalues, eigenvectors;
};
Eig eig(const In& a);
Tensor eigvals(const In& a);

}  // namespace linalg
SINTER_NAMESPACE_END
