// Elementwise functions, by name.
#include "functions.hpp"

namespace sinter_test {
namespace {

NamedFunctions unary_functions() {
  return {
      {"exp", [](const Args& a) -> Tensor { return exp(a[0]); }},
      {"exp2", [](const Args& a) -> Tensor { return exp2(a[0]); }},
      {"expm1", [](const Args& a) -> Tensor { return expm1(a[0]); }},
      {"log", [](const Args& a) -> Tensor { return log(a[0]); }},
      {"log2", [](const Args& a) -> Tensor { return log2(a[0]); }},
      {"log10", [](const Args& a) -> Tensor { return log10(a[0]); }},
      {"log1p", [](const Args& a) -> Tensor { return log1p(a[0]); }},
      {"sqrt", [](const Args& a) -> Tensor { return sqrt(a[0]); }},
      {"rsqrt", [](const Args& a) -> Tensor { return rsqrt(a[0]); }},
      {"square", [](const Args& a) -> Tensor { return square(a[0]); }},
      {"reciprocal", [](const Args& a) -> Tensor { return reciprocal(a[0]); }},
      {"cbrt", [](const Args& a) -> Tensor { return cbrt(a[0]); }},
      {"sin", [](const Args& a) -> Tensor { return sin(a[0]); }},
      {"cos", [](const Args& a) -> Tensor { return cos(a[0]); }},
      {"tan", [](const Args& a) -> Tensor { return tan(a[0]); }},
      {"asin", [](const Args& a) -> Tensor { return asin(a[0]); }},
      {"acos", [](const Args& a) -> Tensor { return acos(a[0]); }},
      {"atan", [](const Args& a) -> Tensor { return atan(a[0]); }},
      {"sinh", [](const Args& a) -> Tensor { return sinh(a[0]); }},
      {"cosh", [](const Args& a) -> Tensor { return cosh(a[0]); }},
      {"tanh", [](const Args& a) -> Tensor { return tanh(a[0]); }},
      {"asinh", [](const Args& a) -> Tensor { return asinh(a[0]); }},
      {"acosh", [](const Args& a) -> Tensor { return acosh(a[0]); }},
      {"atanh", [](const Args& a) -> Tensor { return atanh(a[0]); }},
      {"rad2deg", [](const Args& a) -> Tensor { return rad2deg(a[0]); }},
      {"deg2rad", [](const Args& a) -> Tensor { return deg2rad(a[0]); }},
      {"erf", [](const Args& a) -> Tensor { return erf(a[0]); }},
      {"erfc", [](const Args& a) -> Tensor { return erfc(a[0]); }},
      {"erfinv", [](const Args& a) -> Tensor { return erfinv(a[0]); }},
      {"lgamma", [](const Args& a) -> Tensor { return lgamma(a[0]); }},
      {"digamma", [](const Args& a) -> Tensor { return digamma(a[0]); }},
      {"sinc", [](const Args& a) -> Tensor { return sinc(a[0]); }},
      {"i0", [](const Args& a) -> Tensor { return i0(a[0]); }},
      {"i0e", [](const Args& a) -> Tensor { return i0e(a[0]); }},
      {"i1", [](const Args& a) -> Tensor { return i1(a[0]); }},
      {"i1e", [](const Args& a) -> Tensor { return i1e(a[0]); }},
      {"entr", [](const Args& a) -> Tensor { return entr(a[0]); }},
      {"ndtr", [](const Args& a) -> Tensor { return ndtr(a[0]); }},
      {"logit", [](const Args& a) -> Tensor { return logit(a[0]); }},
      {"sigmoid", [](const Args& a) -> Tensor { return sigmoid(a[0]); }},
      {"logsigmoid", [](const Args& a) -> Tensor { return logsigmoid(a[0]); }},
      {"abs", [](const Args& a) -> Tensor { return abs(a[0]); }},
      {"sign", [](const Args& a) -> Tensor { return sign(a[0]); }},
      {"sgn", [](const Args& a) -> Tensor { return sgn(a[0]); }},
      {"floor", [](const Args& a) -> Tensor { return floor(a[0]); }},
      {"ceil", [](const Args& a) -> Tensor { return ceil(a[0]); }},
      {"trunc", [](const Args& a) -> Tensor { return trunc(a[0]); }},
      {"round", [](const Args& a) -> Tensor { return round(a[0]); }},
      {"frac", [](const Args& a) -> Tensor { return frac(a[0]); }},
      {"negative", [](const Args& a) -> Tensor { return negative(a[0]); }},
      {"positive", [](const Args& a) -> Tensor { return positive(a[0]); }},
      {"isnan", [](const Args& a) -> Tensor { return isnan(a[0]); }},
      {"isinf", [](const Args& a) -> Tensor { return isinf(a[0]); }},
      {"isfinite", [](const Args& a) -> Tensor { return isfinite(a[0]); }},
      {"isposinf", [](const Args& a) -> Tensor { return isposinf(a[0]); }},
      {"isneginf", [](const Args& a) -> Tensor { return isneginf(a[0]); }},
      {"signbit", [](const Args& a) -> Tensor { return signbit(a[0]); }},
      {"isreal", [](const Args& a) -> Tensor { return isreal(a[0]); }},
      {"logical_not", [](const Args& a) -> Tensor { return logical_not(a[0]); }},
      {"bitwise_not", [](const Args& a) -> Tensor { return bitwise_not(a[0]); }},
      {"popcount", [](const Args& a) -> Tensor { return popcount(a[0]); }},
      {"nan_to_num", [](const Args& a) -> Tensor { return nan_to_num(a[0]); }},
      {"relu", [](const Args& a) -> Tensor { return relu(a[0]); }},
      {"frexp",
       [](const Args& a) -> Tensors {
         const Frexp parts = frexp(a[0]);
         return {parts.fraction, parts.exponent};
       }},
  };
}

NamedFunctions binary_functions() {
  return {
      {"add", [](const Args& a) -> Tensor { return a[0] + a[1]; }},
      {"sub", [](const Args& a) -> Tensor { return a[0] - a[1]; }},
      {"mul", [](const Args& a) -> Tensor { return a[0] * a[1]; }},
      {"div", [](const Args& a) -> Tensor { return a[0] / a[1]; }},
      {"true_divide", [](const Args& a) -> Tensor { return true_divide(a[0], a[1]); }},
      {"pow", [](const Args& a) -> Tensor { return pow(a[0], a[1]); }},
      {"pow of whole numbers", [](const Args& a) -> Tensor { return pow(a[0], a[1]); }},
      {"float_power", [](const Args& a) -> Tensor { return float_power(a[0], a[1]); }},
      {"maximum", [](const Args& a) -> Tensor { return maximum(a[0], a[1]); }},
      {"minimum", [](const Args& a) -> Tensor { return minimum(a[0], a[1]); }},
      {"fmax", [](const Args& a) -> Tensor { return fmax(a[0], a[1]); }},
      {"fmin", [](const Args& a) -> Tensor { return fmin(a[0], a[1]); }},
      {"floor_divide", [](const Args& a) -> Tensor { return floor_divide(a[0], a[1]); }},
      {"floor_divide of integers", [](const Args& a) -> Tensor { return floor_divide(a[0], a[1]); }},
      {"remainder", [](const Args& a) -> Tensor { return remainder(a[0], a[1]); }},
      {"remainder of integers", [](const Args& a) -> Tensor { return a[0] % a[1]; }},
      {"fmod", [](const Args& a) -> Tensor { return fmod(a[0], a[1]); }},
      {"fmod of integers", [](const Args& a) -> Tensor { return fmod(a[0], a[1]); }},
      {"divmod",
       [](const Args& a) -> Tensors {
         const DivMod both = divmod(a[0], a[1]);
         return {both.quotient, both.remainder};
       }},
      {"atan2", [](const Args& a) -> Tensor { return atan2(a[0], a[1]); }},
      {"hypot", [](const Args& a) -> Tensor { return hypot(a[0], a[1]); }},
      {"logaddexp", [](const Args& a) -> Tensor { return logaddexp(a[0], a[1]); }},
      {"logaddexp2", [](const Args& a) -> Tensor { return logaddexp2(a[0], a[1]); }},
      {"xlogy", [](const Args& a) -> Tensor { return xlogy(a[0], a[1]); }},
      {"xlog1py", [](const Args& a) -> Tensor { return xlog1py(a[0], a[1]); }},
      {"copysign", [](const Args& a) -> Tensor { return copysign(a[0], a[1]); }},
      {"nextafter", [](const Args& a) -> Tensor { return nextafter(a[0], a[1]); }},
      {"ldexp", [](const Args& a) -> Tensor { return ldexp(a[0], a[1]); }},
      {"heaviside", [](const Args& a) -> Tensor { return heaviside(a[0], a[1]); }},
      {"bitwise_and", [](const Args& a) -> Tensor { return bitwise_and(a[0], a[1]); }},
      {"bitwise_or", [](const Args& a) -> Tensor { return bitwise_or(a[0], a[1]); }},
      {"bitwise_xor", [](const Args& a) -> Tensor { return bitwise_xor(a[0], a[1]); }},
      {"bitwise_left_shift", [](const Args& a) -> Tensor { return bitwise_left_shift(a[0], a[1]); }},
      {"bitwise_right_shift", [](const Args& a) -> Tensor { return bitwise_right_shift(a[0], a[1]); }},
      {"logical_and", [](const Args& a) -> Tensor { return logical_and(a[0], a[1]); }},
      {"logical_or", [](const Args& a) -> Tensor { return logical_or(a[0], a[1]); }},
      {"logical_xor", [](const Args& a) -> Tensor { return logical_xor(a[0], a[1]); }},
      {"eq", [](const Args& a) -> Tensor { return a[0] == a[1]; }},
      {"ne", [](const Args& a) -> Tensor { return a[0] != a[1]; }},
      {"lt", [](const Args& a) -> Tensor { return a[0] < a[1]; }},
      {"le", [](const Args& a) -> Tensor { return a[0] <= a[1]; }},
      {"gt", [](const Args& a) -> Tensor { return a[0] > a[1]; }},
      {"ge", [](const Args& a) -> Tensor { return a[0] >= a[1]; }},
      {"gcd", [](const Args& a) -> Tensor { return gcd(a[0], a[1]); }},
      {"lcm", [](const Args& a) -> Tensor { return lcm(a[0], a[1]); }},
      {"isclose", [](const Args& a) -> Tensor { return isclose(a[0], a[1]); }},
      {"clamp_min", [](const Args& a) -> Tensor { return clamp_min(a[0], a[1]); }},
      {"clamp_max", [](const Args& a) -> Tensor { return clamp_max(a[0], a[1]); }},
  };
}

NamedFunctions activation_functions() {
  return {
      {"gelu", [](const Args& a) -> Tensor { return gelu(a[0]); }},
      {"gelu_tanh", [](const Args& a) -> Tensor { return gelu_tanh(a[0]); }},
      {"silu", [](const Args& a) -> Tensor { return silu(a[0]); }},
      {"mish", [](const Args& a) -> Tensor { return mish(a[0]); }},
      {"softsign", [](const Args& a) -> Tensor { return softsign(a[0]); }},
      {"hardsigmoid", [](const Args& a) -> Tensor { return hardsigmoid(a[0]); }},
      {"hardswish", [](const Args& a) -> Tensor { return hardswish(a[0]); }},
      {"tanhshrink", [](const Args& a) -> Tensor { return tanhshrink(a[0]); }},
      {"relu6", [](const Args& a) -> Tensor { return relu6(a[0]); }},
      {"selu", [](const Args& a) -> Tensor { return selu(a[0]); }},
      {"leaky_relu", [](const Args& a) -> Tensor { return leaky_relu(a[0], a.at.number("negative")); }},
      {"hardshrink", [](const Args& a) -> Tensor { return hardshrink(a[0], a.at.number("width")); }},
      {"softshrink", [](const Args& a) -> Tensor { return softshrink(a[0], a.at.number("width")); }},
      {"hardtanh", [](const Args& a) -> Tensor { return hardtanh(a[0], a.at.number("low"), a.at.number("high")); }},
      {"elu", [](const Args& a) -> Tensor { return elu(a[0], a.at.number("alpha")); }},
      {"celu", [](const Args& a) -> Tensor { return celu(a[0], a.at.number("alpha")); }},
      {"softplus",
       [](const Args& a) -> Tensor {
         if (a.at.number("beta") == 1 && a.at.number("threshold") == 20) return softplus(a[0]);
         return softplus(a[0], a.at.number("beta"), a.at.number("threshold"));
       }},
      {"threshold",
       [](const Args& a) -> Tensor { return threshold(a[0], a.at.number("threshold"), a.at.number("value")); }},
      {"rrelu", [](const Args& a) -> Tensor { return rrelu(a[0], a.at.number("lower"), a.at.number("upper")); }},
      {"glu", [](const Args& a) -> Tensor { return glu(a[0], a.at.axis("axis")); }},
      {"prelu", [](const Args& a) -> Tensor { return prelu(a[0], a[1]); }},
  };
}

NamedFunctions other_functions() {
  return {
      {"lerp", [](const Args& a) -> Tensor { return lerp(a[0], a[1], a[2]); }},
      {"lerp by a number", [](const Args& a) -> Tensor { return lerp(a[0], a[1], a.at.number("weight")); }},
      {"addcmul", [](const Args& a) -> Tensor { return addcmul(a[0], a[1], a[2], a.at.number("value")); }},
      {"addcdiv", [](const Args& a) -> Tensor { return addcdiv(a[0], a[1], a[2], a.at.number("value")); }},
      {"clamp", [](const Args& a) -> Tensor { return clamp(a[0], a[1], a[2]); }},
      {"clamp to numbers",
       [](const Args& a) -> Tensor { return clamp(a[0], a.at.number("low"), a.at.number("high")); }},
      {"rsub", [](const Args& a) -> Tensor { return rsub(a[0], a[1], a.at.number("alpha")); }},
      {"where", [](const Args& a) -> Tensor { return where(a[0], a[1], a[2]); }},
      {"nan_to_num with numbers",
       [](const Args& a) -> Tensor {
         return nan_to_num(
             a[0], {.nan = a.at.number("nan"), .posinf = a.at.number("posinf"), .neginf = a.at.number("neginf")});
       }},
      {"isclose with tolerances",
       [](const Args& a) -> Tensor {
         return isclose(a[0], a[1],
                        {.rtol = a.at.number("rtol"), .atol = a.at.number("atol"), .equal_nan = a.at.is("equal_nan")});
       }},
      {"cast", [](const Args& a) -> Tensor { return cast(a[0], a.at.dtype("dtype")); }},
      {"bitcast", [](const Args& a) -> Tensor { return bitcast(a[0], a.at.dtype("dtype")); }},
  };
}

}  // namespace

NamedFunctions elementwise_functions() {
  return joined({unary_functions(), binary_functions(), activation_functions(), other_functions()});
}

}  // namespace sinter_test
