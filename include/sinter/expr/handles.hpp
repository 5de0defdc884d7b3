// Handles: tensor.hpp declares them and cannot record, so handles.ipp defines what of Tensor, In, Variable, Scalar and
// Predicate records an operation or asks for a value: conversions, compound assignment, Variable::set, arithmetic and
// comparison of run-time numbers. Besides these, the functions of run-time numbers. Of numbers that are known they give
// numbers, computed in f64 or i64; in a trace they are the ops that the functions of tensors are.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/tensor/tensor.hpp>

SINTER_NAMESPACE_BEGIN

// Whole numbers become floating ones.
Scalar exp(const Scalar& x);
Scalar exp2(const Scalar& x);
Scalar expm1(const Scalar& x);
Scalar log(const Scalar& x);
Scalar log2(const Scalar& x);
Scalar log10(const Scalar& x);
Scalar log1p(const Scalar& x);
Scalar sqrt(const Scalar& x);
Scalar rsqrt(const Scalar& x);
Scalar cbrt(const Scalar& x);
Scalar sin(const Scalar& x);
Scalar cos(const Scalar& x);
Scalar tan(const Scalar& x);
Scalar asin(const Scalar& x);
Scalar acos(const Scalar& x);
Scalar atan(const Scalar& x);
Scalar sinh(const Scalar& x);
Scalar cosh(const Scalar& x);
Scalar tanh(const Scalar& x);
Scalar erf(const Scalar& x);
Scalar sigmoid(const Scalar& x);
Scalar reciprocal(const Scalar& x);
Scalar atan2(const Scalar& y, const Scalar& x);
Scalar hypot(const Scalar& a, const Scalar& b);

// Whole numbers stay whole. `round` takes halves to the even neighbour; a % b has the sign of b.
Scalar abs(const Scalar& x);
Scalar sign(const Scalar& x);
Scalar square(const Scalar& x);
Scalar relu(const Scalar& x);
Scalar floor(const Scalar& x);
Scalar ceil(const Scalar& x);
Scalar round(const Scalar& x);
Scalar trunc(const Scalar& x);
Scalar pow(const Scalar& a, const Scalar& b);
Scalar floor_divide(const Scalar& a, const Scalar& b);
Scalar operator%(const Scalar& a, const Scalar& b);
Scalar maximum(const Scalar& a, const Scalar& b);
Scalar minimum(const Scalar& a, const Scalar& b);
Scalar clamp(const Scalar& x, const Scalar& low, const Scalar& high);

/// `condition ? a : b`, without reading the condition.
Scalar where(const Predicate& condition, const Scalar& a, const Scalar& b);

SINTER_NAMESPACE_END
