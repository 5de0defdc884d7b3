// The elementary functions over vectors, written once against MathBuilder without branches or tables. Accuracy: exp and
// log within 1 ulp, the rest within 2 ulp, over the whole domain, with C99's results for zeros, infinities, NaN and
// subnormals. sin and cos: for |x| <= 5e5 (f32) or 1e14 (f64); beyond, the result is a number in [-1, 1] of falling
// accuracy, then arbitrary. Knows nothing of machines, registers or kernels.
#pragma once

#include <sinter/backend/x86/math_builder.hpp>

SINTER_NAMESPACE_BEGIN
namespace x86 {

Vec expand_exp(MathBuilder& b, Vec x);
Vec expand_log(MathBuilder& b, Vec x);
Vec expand_sin(MathBuilder& b, Vec x);
Vec expand_cos(MathBuilder& b, Vec x);
Vec expand_tanh(MathBuilder& b, Vec x);
Vec expand_erf(MathBuilder& b, Vec x);
Vec expand_pow(MathBuilder& b, Vec x, Vec y);
Vec expand_rsqrt(MathBuilder& b, Vec x);

}  // namespace x86
SINTER_NAMESPACE_END
