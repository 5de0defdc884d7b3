// Functions of numbers, made of primitives: what elementwise ops lower to where a formula of one line would lose
// digits. Written once, so that every back end has them. Errors are in units of the last place; special values are
// those of C99. Knows nothing of ops and tensors.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/ops/scalar.hpp>

SINTER_NAMESPACE_BEGIN
namespace ops_detail {

/// An unevaluated sum.
struct ScalarPair {
  ScalarValue high, low;
};

// Bits of floating values, as integers of the same size.
DType bits_of(DType dtype);
ScalarValue has_sign(ScalarBuilder& s, ScalarValue x);                     // of -0 and NaN too
ScalarValue copy_sign(ScalarBuilder& s, ScalarValue x, ScalarValue sign);  // |x| with the sign of `sign`
ScalarValue next_after(ScalarBuilder& s, ScalarValue x, ScalarValue to);
/// x = fraction * 2^exponent with 1/2 <= |fraction| < 1; zeros, infinities and NaN are their own fraction, with 0.
struct ScalarParts {
  ScalarValue fraction, exponent;  // the exponent as a floating value
};
ScalarParts parts_of(ScalarBuilder& s, ScalarValue x);
/// x * 2^n for integral n (a floating value), rounded once.
ScalarValue scaled(ScalarBuilder& s, ScalarValue x, ScalarValue n);

// Exponentials and logarithms.
ScalarValue expm1(ScalarBuilder& s, ScalarValue x);  // 2
ScalarValue exp2(ScalarBuilder& s, ScalarValue x);   // 1.5; exact powers
ScalarValue log1p(ScalarBuilder& s, ScalarValue x);  // 2
ScalarValue log2(ScalarBuilder& s, ScalarValue x);   // 2; exact of powers of two
ScalarValue log10(ScalarBuilder& s, ScalarValue x);  // 2
/// log(1 + e^x), which neither overflows nor loses small results. 3
ScalarValue softplus(ScalarBuilder& s, ScalarValue x);

// Of angles, and hyperbolic ones.
ScalarValue tan(ScalarBuilder& s, ScalarValue x);                   // 4.5
ScalarValue asin(ScalarBuilder& s, ScalarValue x);                  // 2
ScalarValue acos(ScalarBuilder& s, ScalarValue x);                  // 2
ScalarValue atan(ScalarBuilder& s, ScalarValue x);                  // 2
ScalarValue atan2(ScalarBuilder& s, ScalarValue y, ScalarValue x);  // 2.5
ScalarValue sinh(ScalarBuilder& s, ScalarValue x);                  // 3
ScalarValue cosh(ScalarBuilder& s, ScalarValue x);                  // 3
ScalarValue asinh(ScalarBuilder& s, ScalarValue x);                 // 3
ScalarValue acosh(ScalarBuilder& s, ScalarValue x);                 // 3
ScalarValue atanh(ScalarBuilder& s, ScalarValue x);                 // 3
ScalarValue sin_pi(ScalarBuilder& s, ScalarValue x);                // sin(pi x): 3; 0 at integers

// Roots.
ScalarValue cbrt(ScalarBuilder& s, ScalarValue x);                  // 1
ScalarValue hypot(ScalarBuilder& s, ScalarValue x, ScalarValue y);  // 1.5

}  // namespace ops_detail
SINTER_NAMESPACE_END
