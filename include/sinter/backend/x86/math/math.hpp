// The elementary functions over vectors, written once against MathBuilder without branches (but for the remainder of
// huge arguments of sin and cos) or tables. Accuracy: exp and log within 1 ulp, gelu within 4.5, gauss within 3, the
// rest within 2 ulp, over the whole domain, with C99's results for zeros, infinities, NaN and subnormals. gelu_slope:
// within 5 ulp but near its zero at -0.75, where the error is absolute. Knows nothing of machines, registers or
// kernels.
#pragma once

#include <sinter/backend/x86/math/math_builder.hpp>

#include <cstdint>

SINTER_NAMESPACE_BEGIN
namespace x86 {

/// What is known of an argument.
enum class Domain : std::uint8_t { all, not_positive };  // NaN is in both

Vec expand_exp(MathBuilder& b, Vec x, Domain domain);
inline Vec expand_exp(MathBuilder& b, Vec x) { return expand_exp(b, x, Domain::all); }
Vec expand_log(MathBuilder& b, Vec x);
Vec expand_sin(MathBuilder& b, Vec x);
Vec expand_cos(MathBuilder& b, Vec x);
Vec expand_tanh(MathBuilder& b, Vec x);
Vec expand_erf(MathBuilder& b, Vec x);
Vec expand_gelu(MathBuilder& b, Vec x);
Vec expand_gelu_slope(MathBuilder& b, Vec x);
Vec expand_gauss(MathBuilder& b, Vec x);
Vec expand_pow(MathBuilder& b, Vec x, Vec y);
Vec expand_rsqrt(MathBuilder& b, Vec x);

}  // namespace x86
SINTER_NAMESPACE_END
