// Special functions of numbers, made of primitives as those of scalar_math.hpp are: of the normal distribution, of
// gamma and Bessel functions. Errors are in units of the last place.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/ops/scalar.hpp>

SINTER_NAMESPACE_BEGIN
namespace ops_detail {

ScalarValue erfc(ScalarBuilder& s, ScalarValue x);   // 5
ScalarValue erfcx(ScalarBuilder& s, ScalarValue x);  // 5
/// Phi, the distribution function of the standard normal distribution. 5
ScalarValue normal_distribution(ScalarBuilder& s, ScalarValue x);
ScalarValue log_normal_distribution(ScalarBuilder& s, ScalarValue x);  // 4
ScalarValue erf_inverse(ScalarBuilder& s, ScalarValue x);              // 4
/// The number below which a standard normal one lies with probability p. 4
ScalarValue normal_quantile(ScalarBuilder& s, ScalarValue p);
/// The sum of (q + k)^-order over k >= 0, for order > 1 and q > 0. 5
ScalarValue zeta(ScalarBuilder& s, ScalarValue order, ScalarValue q);
ScalarValue lgamma(ScalarBuilder& s, ScalarValue x);    // 7 of the larger of the result and 1
ScalarValue digamma(ScalarBuilder& s, ScalarValue x);   // 11 of the larger of the result and 1, but near poles
ScalarValue trigamma(ScalarBuilder& s, ScalarValue x);  // 4 of the larger of the result and 1
/// Derivative `order` >= 1 of digamma. 10
ScalarValue polygamma(ScalarBuilder& s, ScalarValue x, int order);
ScalarValue sinc(ScalarBuilder& s, ScalarValue x);  // 4
ScalarValue i0(ScalarBuilder& s, ScalarValue x);    // 5
ScalarValue i0e(ScalarBuilder& s, ScalarValue x);   // 4
ScalarValue i1(ScalarBuilder& s, ScalarValue x);    // 5
ScalarValue i1e(ScalarBuilder& s, ScalarValue x);   // 4

}  // namespace ops_detail
SINTER_NAMESPACE_END
