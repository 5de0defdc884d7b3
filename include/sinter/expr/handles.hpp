// Handles: tensor.hpp declares them and cannot record, so handles.ipp defines what of Tensor, In, Variable, Scalar and
// Predicate records an operation or asks for a value: conversions, compound assignment, Variable::set, arithmetic and
// comparison of run-time numbers. Besides these, the functions of run-time numbers.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/tensor/tensor.hpp>

SINTER_NAMESPACE_BEGIN

Scalar exp(const Scalar& x);
Scalar log(const Scalar& x);
Scalar sqrt(const Scalar& x);

SINTER_NAMESPACE_END
