// Gradients of orthogonal decompositions, in terms of what the decomposition gave.
#pragma once

#include <sinter/ops/linalg.hpp>

SINTER_NAMESPACE_BEGIN
namespace ops_detail {

/// Of a = Q R with as many columns as Q, given the gradients of both.
Val tall_qr_gradient(Val q, Val r, Val dq, Val dr);
/// Of a = U diag(S) Vh with thin vectors; gradients that nobody gives are empty. Where two singular values are equal,
/// those of vectors have no value.
Val svd_gradient(Val u, Val s, Val vh, Val du, Val ds, Val dvh);

/// For modes that have none.
[[noreturn]] void refuse_qr_derivative(QrMode mode, Location where);

}  // namespace ops_detail
SINTER_NAMESPACE_END
