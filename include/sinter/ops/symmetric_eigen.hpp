// Eigenvalues and vectors of one real symmetric matrix: Householder's reduction to three diagonals with both halves of
// each step in one pass over the matrix (Golub and Van Loan, section 8.3), then implicit QL steps (EISPACK's tql2)
// whose rotations are collected, so that vectors are turned by many of them at once. Knows addresses and extents only.
#pragma once

#include <sinter/base/config.hpp>

#include <cstdint>

SINTER_NAMESPACE_BEGIN
namespace ops_detail {

/// Of the lower triangle of `a` [n, n], whose elements are finite: `values` ascending, and, unless null, `vectors`
/// [n, n], the columns. False: the iteration did not end. The same bits on any number of threads.
template <class T>
bool symmetric_eigen(const T* a, std::int64_t n, T* values, T* vectors);

}  // namespace ops_detail
SINTER_NAMESPACE_END
