// Elementwise functions beyond those that functions.hpp has: elementary and special functions, bits, activations.
// Names, argument order and defaults follow PyTorch; integers become f32 where the result is not integral. They give
// Exprs, and those with several results or attributes Tensors. Knows the names of ops, and never what one is.
#pragma once

#include <sinter/base/config.hpp>
#include <sinter/base/optional.hpp>
#include <sinter/expr/expr.hpp>
#include <sinter/tensor/tensor.hpp>

#include <cstdint>
#include <numbers>
#include <source_location>
#include <utility>

SINTER_NAMESPACE_BEGIN
namespace expr_detail {
void require_width(double width, Location where);             // of softshrink: not negative
void require_order(double low, double high, Location where);  // of hardtanh
}  // namespace expr_detail

#define SINTER_UNARY_FUNCTION(function, Op)                                \
  template <TensorLike A>                                                  \
  auto function(A&& x, Location where = std::source_location::current()) { \
    return tensor_detail::make_expr<ops::Op>(where, std::forward<A>(x));   \
  }
#define SINTER_BINARY_FUNCTION(function, Op)                                                 \
  template <TensorOperand A, TensorOperand B>                                                \
    requires(TensorLike<A> || TensorLike<B>)                                                 \
  auto function(A&& a, B&& b, Location where = std::source_location::current()) {            \
    return tensor_detail::make_expr<ops::Op>(where, std::forward<A>(a), std::forward<B>(b)); \
  }
#define SINTER_FUNCTION_OF_NUMBER(function, Op, parameter, standard)                                    \
  template <TensorLike A>                                                                               \
  auto function(A&& x, double parameter = standard, Location where = std::source_location::current()) { \
    return tensor_detail::make_expr<ops::Op>(where, std::forward<A>(x), parameter);                     \
  }

// Exponentials, logarithms, roots.
SINTER_UNARY_FUNCTION(expm1, Expm1)
SINTER_UNARY_FUNCTION(exp2, Exp2)
SINTER_UNARY_FUNCTION(log1p, Log1p)
SINTER_UNARY_FUNCTION(log2, Log2)
SINTER_UNARY_FUNCTION(log10, Log10)
SINTER_UNARY_FUNCTION(cbrt, Cbrt)
SINTER_BINARY_FUNCTION(hypot, Hypot)
SINTER_BINARY_FUNCTION(logaddexp, Logaddexp)
SINTER_BINARY_FUNCTION(logaddexp2, Logaddexp2)
SINTER_UNARY_FUNCTION(logit, Logit)
SINTER_BINARY_FUNCTION(xlogy, Xlogy)
SINTER_BINARY_FUNCTION(xlog1py, Xlog1py)

// Special functions: of the normal distribution, gamma and its logarithm's derivatives, Bessel functions.
SINTER_UNARY_FUNCTION(erfc, Erfc)
SINTER_UNARY_FUNCTION(erfinv, Erfinv)
SINTER_UNARY_FUNCTION(lgamma, Lgamma)
SINTER_UNARY_FUNCTION(digamma, Digamma)
SINTER_UNARY_FUNCTION(sinc, Sinc)  // sin(pi x) / (pi x)
SINTER_UNARY_FUNCTION(i0, I0)
SINTER_UNARY_FUNCTION(i0e, I0e)  // e^-|x| i0(x)
SINTER_UNARY_FUNCTION(i1, I1)
SINTER_UNARY_FUNCTION(i1e, I1e)

// Angles, in radians, and hyperbolic functions.
SINTER_UNARY_FUNCTION(tan, Tan)
SINTER_UNARY_FUNCTION(asin, Asin)
SINTER_UNARY_FUNCTION(acos, Acos)
SINTER_UNARY_FUNCTION(atan, Atan)
SINTER_BINARY_FUNCTION(atan2, Atan2)  // of y and x
SINTER_UNARY_FUNCTION(sinh, Sinh)
SINTER_UNARY_FUNCTION(cosh, Cosh)
SINTER_UNARY_FUNCTION(asinh, Asinh)
SINTER_UNARY_FUNCTION(acosh, Acosh)
SINTER_UNARY_FUNCTION(atanh, Atanh)
template <TensorLike A>
auto rad2deg(A&& x, Location where = std::source_location::current()) {
  return tensor_detail::make_expr<ops::Mul>(where, std::forward<A>(x), 180 / std::numbers::pi);
}
template <TensorLike A>
auto deg2rad(A&& x, Location where = std::source_location::current()) {
  return tensor_detail::make_expr<ops::Mul>(where, std::forward<A>(x), std::numbers::pi / 180);
}

// What kind of number one is: bool.
SINTER_UNARY_FUNCTION(isnan, IsNan)
SINTER_UNARY_FUNCTION(isinf, IsInf)
SINTER_UNARY_FUNCTION(isfinite, IsFinite)
SINTER_UNARY_FUNCTION(isposinf, IsPosInf)
SINTER_UNARY_FUNCTION(isneginf, IsNegInf)
SINTER_UNARY_FUNCTION(signbit, Signbit)

// Signs, neighbours, exponents.
SINTER_BINARY_FUNCTION(copysign, Copysign)
SINTER_BINARY_FUNCTION(nextafter, Nextafter)
SINTER_BINARY_FUNCTION(ldexp, Ldexp)  // x * 2^n
SINTER_BINARY_FUNCTION(heaviside, Heaviside)

// Remainders: `remainder` has the sign of b (operator% is the same), `fmod` that of a.
SINTER_BINARY_FUNCTION(remainder, Rem)
SINTER_BINARY_FUNCTION(fmod, Fmod)

// Bits of integers; the first four of bool too.
SINTER_BINARY_FUNCTION(bitwise_and, And)
SINTER_BINARY_FUNCTION(bitwise_or, Or)
SINTER_BINARY_FUNCTION(bitwise_xor, Xor)
SINTER_UNARY_FUNCTION(bitwise_not, Not)
SINTER_BINARY_FUNCTION(left_shift, LeftShift)
SINTER_BINARY_FUNCTION(right_shift, RightShift)
SINTER_UNARY_FUNCTION(popcount, Popcount)
SINTER_BINARY_FUNCTION(bitwise_left_shift, LeftShift)
SINTER_BINARY_FUNCTION(bitwise_right_shift, RightShift)

/// a + w (b - a).
template <TensorOperand A, TensorOperand B, TensorOperand W>
  requires(TensorLike<A> || TensorLike<B>)
auto lerp(A&& a, B&& b, W&& weight, Location where = std::source_location::current()) {
  return tensor_detail::make_expr<ops::Lerp>(where, std::forward<A>(a), std::forward<B>(b), std::forward<W>(weight));
}

// Activations.
SINTER_UNARY_FUNCTION(logsigmoid, Logsigmoid)
SINTER_UNARY_FUNCTION(mish, Mish)
SINTER_UNARY_FUNCTION(softsign, Softsign)
SINTER_UNARY_FUNCTION(hardsigmoid, Hardsigmoid)
SINTER_UNARY_FUNCTION(hardswish, Hardswish)
SINTER_UNARY_FUNCTION(tanhshrink, Tanhshrink)
SINTER_UNARY_FUNCTION(gelu_tanh, GeluTanh)  // PyTorch's gelu(x, approximate='tanh')
SINTER_FUNCTION_OF_NUMBER(leaky_relu, LeakyRelu, slope, 0.01)
SINTER_FUNCTION_OF_NUMBER(hardshrink, Hardshrink, width, 0.5)
template <TensorLike A>
auto softshrink(A&& x, double width = 0.5, Location where = std::source_location::current()) {
  expr_detail::require_width(width, where);
  return tensor_detail::make_expr<ops::Softshrink>(where, std::forward<A>(x), width);
}
template <TensorLike A>
auto relu6(A&& x, Location where = std::source_location::current()) {
  return tensor_detail::make_expr<ops::ClampToNumbers>(where, std::forward<A>(x), 0, 6);
}
template <TensorLike A>
auto hardtanh(A&& x, double low = -1, double high = 1, Location where = std::source_location::current()) {
  expr_detail::require_order(low, high, where);
  return tensor_detail::make_expr<ops::ClampToNumbers>(where, std::forward<A>(x), low, high);
}
/// x where x > 0, else alpha (e^x - 1).
template <TensorLike A>
auto elu(A&& x, double alpha = 1, Location where = std::source_location::current()) {
  return tensor_detail::make_expr<ops::Elu>(where, std::forward<A>(x), alpha, 1.0);
}
/// x where x > 0, else alpha (e^(x / alpha) - 1).
template <TensorLike A>
auto celu(A&& x, double alpha = 1, Location where = std::source_location::current()) {
  return tensor_detail::make_expr<ops::Elu>(where, std::forward<A>(x), alpha, 1 / alpha);
}
/// elu with the alpha and the scale of Klambauer et al. 2017, which keep mean 0 and variance 1.
template <TensorLike A>
auto selu(A&& x, Location where = std::source_location::current()) {
  return tensor_detail::make_expr<ops::Mul>(
      where, tensor_detail::make_expr<ops::Elu>(where, std::forward<A>(x), 1.6732632423543772848, 1.0),
      1.0507009873554804934);
}
/// log(1 + e^(beta x)) / beta.
SINTER_UNARY_FUNCTION(softplus, Softplus)

#undef SINTER_UNARY_FUNCTION
#undef SINTER_BINARY_FUNCTION
#undef SINTER_FUNCTION_OF_NUMBER

Tensor softplus(const In& x, double beta, double threshold = 20);

/// The derivative of digamma of that order, which is 1 or more.
Tensor polygamma(int order, const In& x);
/// x as it is.
Tensor positive(const In& x);
/// x less its whole part.
Tensor frac(const In& x);
/// Is the imaginary part 0? true of real tensors.
Tensor isreal(const In& x);
/// x = fraction * 2^exponent with 1/2 <= |fraction| < 1; the exponent is i32.
struct Frexp {
  Tensor fraction, exponent;
};
Frexp frexp(const In& x);
/// The same bits as another dtype of the same size: f32 and i32, f64 and i64.
Tensor bitcast(const In& x, DType dtype);
/// The quotient rounded down, and the remainder.
struct DivMod {
  Tensor quotient, remainder;
};
DivMod divmod(const In& a, const In& b);

/// What takes the place of NaN and of infinities; of these, where nothing is said, the largest finite numbers.
struct NanToNumOptions {
  double nan = 0;
  Optional<double> posinf = {};
  Optional<double> neginf = {};
};
Tensor nan_to_num(const In& x, NanToNumOptions options = {});
/// x + value * a * b, x + value * a / b.
Tensor addcmul(const In& x, const In& a, const In& b, double value = 1);
Tensor addcdiv(const In& x, const In& a, const In& b, double value = 1);
/// The larger (smaller) of two numbers, and of a number and NaN the number. Equal ones share the gradient.
Tensor fmax(const In& a, const In& b);
Tensor fmin(const In& a, const In& b);
/// x, but no less (more) than the bound. At the bound the derivative by x is 0.
Tensor clamp_min(const In& x, const In& low);
Tensor clamp_max(const In& x, const In& high);
/// a to the power of b, in f64.
Tensor float_power(const In& a, const In& b);
/// a / b; what the operator is.
Tensor true_divide(const In& a, const In& b);
/// b - alpha * a.
Tensor rsub(const In& a, const In& b, double alpha = 1);
/// -x; sign(x), of complex numbers x / abs(x), 0 at 0.
Tensor negative(const In& x);
Tensor sgn(const In& x);
// What is not 0 counts as true: bool of any dtype. NaN is true.
Tensor logical_and(const In& a, const In& b);
Tensor logical_or(const In& a, const In& b);
Tensor logical_xor(const In& a, const In& b);
Tensor logical_not(const In& x);
/// What `!x` is: of bool the negation, of integers the complement.
Tensor operator~(const In& x);
/// -x log(x), 0 at 0, negative infinity below.
Tensor entr(const In& x);
/// The probability that a standard normal number is below x.
Tensor ndtr(const In& x);

/// |a - b| <= atol + rtol * |b|, elementwise; equal infinities are close.
struct CloseOptions {
  double rtol = 1e-5;
  double atol = 1e-8;
  bool equal_nan = false;
};
Tensor isclose(const In& a, const In& b, CloseOptions options = {});

/// a * sigmoid(b) with the halves a and b of x along `axis`.
Tensor glu(const In& x, int axis = -1);
/// leaky_relu with a slope, or one for each channel (axis 1), that is learnt.
Tensor prelu(const In& x, const In& weight);
/// leaky_relu with the mean of the slopes: what a randomised one is outside training.
Tensor rrelu(const In& x, double lower = 1.0 / 8, double upper = 1.0 / 3);
/// x where x > 0, else x times a slope that is drawn for each element, uniform in [lower, upper), from this thread's
/// generator (manual_seed): for training. Xu et al. 2015.
Tensor rrelu_training(const In& x, double lower = 1.0 / 8, double upper = 1.0 / 3);
/// x where x > threshold, else value.
Tensor threshold(const In& x, double threshold, double value);
/// softmax(-x).
Tensor softmin(const In& x, int axis);

struct GumbelSoftmaxOptions {
  double tau = 1;     // the temperature: positive
  bool hard = false;  // 1 for the largest and 0 for the others, with the derivative of what is not
  int axis = -1;
};
/// softmax((logits + g) / tau) with g drawn from Gumbel's distribution by this thread's generator (manual_seed): a draw
/// from the classes whose probabilities are softmax(logits), with a derivative. Jang, Gu and Poole 2017.
Tensor gumbel_softmax(const In& logits, GumbelSoftmaxOptions options = {});

SINTER_NAMESPACE_END
